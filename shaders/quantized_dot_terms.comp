// The term v of every pair of records of every dot, into scratch: one lane a term.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Lhs { uint lhs[]; };
layout(std430, set = 0, binding = 1) readonly buffer Rhs { uint rhs[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Scratch { uint scratch[]; };

KQ_DEFINE_LOAD(load_lhs, lhs)
KQ_DEFINE_LOAD(load_rhs, rhs)

// A reference to a record is the byte it starts at.
#define KQ_Q4_K uint
#define KQ_Q8_K uint
#define KQ_Q4_K_WORD(record, k) load_lhs((record) + 4u * (k))
#define KQ_Q8_K_WORD(record, k) load_rhs((record) + 4u * (k))
#include "exact.h"
#include "records.h"

void main()
{
    uint item = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    if (item < p.G * p.dots) {
        uint g = item / p.dots;
        uint dot = item - g * p.dots;
        uint outer = dot / p.inner;
        uint inner = dot - outer * p.inner;
        scratch[p.to_at + item] = kq_term(p.lhs_offset + g * p.lhs_stride + inner * p.lhs_inner_step +
                                    outer * p.lhs_outer_step,
                                p.rhs_offset + g * p.rhs_stride + inner * p.rhs_inner_step +
                                    outer * p.rhs_outer_step);
    }
}
