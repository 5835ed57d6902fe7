// Adds the terms of each dot in increasing record order: one lane a dot. A long dot takes several
// dispatches, which hand the running sum on in scratch; the first starts from v0, never from +0.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"
#include "exact.h"
#include "fold.glsl"

layout(local_size_x = KQ_LANES) in;

void main()
{
    uint dot = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    if (dot < p.dots) {
        uint g = 0u;
        uint sum = 0u;
        if (p.resumes != 0u) {
            sum = from[p.to_at + dot];
        } else if (p.count != 0u) {
            sum = from[p.from_at + dot];
            g = 1u;
        }
        for (; g < p.count; g++) {
            sum = kq_f32_add(sum, from[p.from_at + g * p.dots + dot]);
        }
        if (p.ends != 0u) {
            store_dot(dot, sum);
        } else {
            to[p.to_at + dot] = sum;
        }
    }
}
