// How fast memory is, for benches: a workgroup copies 16-byte vectors; or it reads as many and writes
// a word a lane, the xor of all words that this read, so that no read can be left out. Four reads are
// under way at once.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_BANDWIDTH_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer From { uvec4 from[]; };
layout(std430, set = 0, binding = 1) writeonly buffer To { uvec4 to[]; };

void main()
{
    if (KQ_GROUP_INDEX >= p.count) {
        return;
    }
    uvec4 sum = uvec4(0u);
    uint at = KQ_GROUP_INDEX * (KQ_LANES * KQ_BANDWIDTH_VECTORS) + KQ_LANE;
    for (uint k = 0u; k < KQ_BANDWIDTH_VECTORS; k += 4u) {
        uvec4 a = from[at];
        uvec4 b = from[at + KQ_LANES];
        uvec4 c = from[at + 2u * KQ_LANES];
        uvec4 d = from[at + 3u * KQ_LANES];
        if (p.copies != 0u) {
            to[at] = a;
            to[at + KQ_LANES] = b;
            to[at + 2u * KQ_LANES] = c;
            to[at + 3u * KQ_LANES] = d;
        }
        sum ^= a ^ b ^ c ^ d;
        at += 4u * KQ_LANES;
    }
    if (p.copies == 0u) {
        uint word = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
        to[word / 4u][word % 4u] = sum.x ^ sum.y ^ sum.z ^ sum.w;
    }
}
