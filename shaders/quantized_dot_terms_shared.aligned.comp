// The terms of dots that share rhs, where every record of lhs starts at a multiple of 16 bytes: as in
// quantized_dot_terms_shared.comp, but lhs is read by four words at a time, each once, in code without
// a branch or a loop.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Lhs { uvec4 lhs_quads[]; };
layout(std430, set = 0, binding = 1) readonly buffer Rhs { uint rhs_words[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Scratch { uint scratch[]; };

shared uint shared_rhs[73];

// There is one record of either in a lane, so a reference to it says nothing.
uvec4 quads[9];

#define KQ_Q4_K uint
#define KQ_Q8_K uint
#define KQ_Q4_K_WORD(record, k) quads[(k) >> 2][(k) & 3u]
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
    uint at = (p.lhs_offset + g * p.lhs_stride + inner * p.lhs_inner_step +
               outer * p.lhs_outer_step) >> 4;
    quads[0] = lhs_quads[at];
    quads[1] = lhs_quads[at + 1u];
    quads[2] = lhs_quads[at + 2u];
    quads[3] = lhs_quads[at + 3u];
    quads[4] = lhs_quads[at + 4u];
    quads[5] = lhs_quads[at + 5u];
    quads[6] = lhs_quads[at + 6u];
    quads[7] = lhs_quads[at + 7u];
    quads[8] = lhs_quads[at + 8u];
    uint v = kq_term(0u, 0u);
    if (index < p.dots) {
        scratch[p.to_at + g * p.dots + dot] = v;
    }
}
