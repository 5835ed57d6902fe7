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
    // Parameters are read before any branch, for llvmpipe reads them lane by lane in one.
    uint dot = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    uint dots = p.dots;
    uint count = p.count;
    uint from_at = p.from_at + dot;
    uint to_at = p.to_at + dot;
    uint at = result_at(dot);
    bool resumes = p.resumes != 0u;
    bool ends = p.ends != 0u;
    if (dot < dots) {
        uint g = resumes ? 0u : 1u;
        uint sum = 0u;
        if (resumes || count != 0u) {
            sum = from[resumes ? to_at : from_at];
        }
        for (; g < count; g++) {
            sum = kq_f32_add(sum, from[from_at + g * dots]);
        }
        if (ends) {
            store_result(at, sum);
        } else {
            to[to_at] = sum;
        }
    }
}
