// The term v of every pair of records of every dot, into scratch: one lane a term. Neighbours take
// records of one dot, which mostly lie side by side.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Lhs { uint lhs_words[]; };
layout(std430, set = 0, binding = 1) readonly buffer Rhs { uint rhs_words[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Scratch { uint scratch[]; };

#define KQ_Q4_K record_place
#define KQ_Q8_K record_place
#define KQ_Q4_K_RAW(record, k) lhs_words[(record).word + (k)]
#define KQ_Q8_K_RAW(record, k) rhs_words[(record).word + (k)]
#define KQ_Q4_K_LAST(record) (35u + (record).more)
#define KQ_Q8_K_LAST(record) (72u + (record).more)
#define KQ_Q4_K_JOIN(record, low, high) join(record, low, high)
#define KQ_Q8_K_JOIN(record, low, high) join(record, low, high)
#include "exact.h"
#include "records.h"

void main()
{
    // Lanes past the end do the last term again, and keep it to themselves.
    uint index = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    uint last = p.G * p.dots - 1u;
    uint item = min(index, last);
    uint dot = item / p.G;
    uint g = item - dot * p.G;
    uint outer = dot / p.inner;
    uint inner = dot - outer * p.inner;
    record_place lhs = place_of(p.lhs_offset + g * p.lhs_stride + inner * p.lhs_inner_step +
                               outer * p.lhs_outer_step);
    record_place rhs = place_of(p.rhs_offset + g * p.rhs_stride + inner * p.rhs_inner_step +
                               outer * p.rhs_outer_step);
    uint v = kq_term(lhs, rhs);
    if (index <= last) {
        scratch[p.to_at + g * p.dots + dot] = v;
    }
}
