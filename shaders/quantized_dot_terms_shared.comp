// The terms of dots that share rhs: a workgroup takes one record of rhs, which it makes ready in shared
// memory, and 64 dots, one a lane. Records come first, for neighbours in lhs are then read together.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Lhs { uint lhs_words[]; };
layout(std430, set = 0, binding = 1) readonly buffer Rhs { uint rhs_words[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Scratch { uint scratch[]; };

shared uint shared_rhs[73];

// There is one record of rhs, so a reference to it says nothing.
#define KQ_Q4_K record_place
#define KQ_Q8_K uint
#define KQ_Q4_K_WORD(record, k) KQ_WORD(lhs_words, record, k, 35u)
#define KQ_Q8_K_DS(record) shared_rhs[0]
#define KQ_Q8_K_LANES(record, k) shared_rhs[1u + (k)]
#define KQ_Q8_K_PAIR(record, k) shared_rhs[65u + (k)]
#include "exact.h"
#include "records.h"

void main()
{
    uint tile = KQ_GROUP_INDEX / p.G;
    uint g = KQ_GROUP_INDEX - tile * p.G;

    record_place rhs = place_of(p.rhs_offset + g * p.rhs_stride);
    for (uint k = KQ_LANE; k < 73u; k += KQ_LANES) {
        shared_rhs[k] = kq_q8_k_ready(k, KQ_WORD(rhs_words, rhs, k, 72u));
    }
    barrier();

    // Lanes past the end take the last dot again, and keep the term to themselves.
    uint index = tile * KQ_LANES + KQ_LANE;
    uint dot = min(index, p.dots - 1u);
    uint outer = dot / p.inner;
    uint inner = dot - outer * p.inner;
    record_place lhs = place_of(p.lhs_offset + g * p.lhs_stride + inner * p.lhs_inner_step +
                               outer * p.lhs_outer_step);
    uint v = kq_term(lhs, 0u);
    if (index < p.dots) {
        scratch[p.to_at + g * p.dots + dot] = v;
    }
}
