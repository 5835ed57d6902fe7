// The terms of a repeat of two counts, whose outer one goes over rhs alone and whose inner one over lhs:
// a workgroup takes one record of four dots' rhs, the columns, which it makes ready in shared memory,
// and 64 rows, one a lane, for which it reads and takes apart lhs once. Every record of lhs starts at a
// multiple of 16 bytes.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Lhs { uvec4 lhs_quads[]; };
layout(std430, set = 0, binding = 1) readonly buffer Rhs { uint rhs_words[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Scratch { uint scratch[]; };

shared uint shared_rhs[KQ_COLUMNS * 73u];

// A lane has one record of lhs, so a reference to it says nothing; one to rhs is the column.
uvec4 quads[9];

#define KQ_Q4_K uint
#define KQ_Q8_K uint
#define KQ_Q4_K_WORD(record, k) quads[(k) >> 2][(k) & 3u]
#define KQ_Q8_K_DS(record) shared_rhs[73u * (record)]
#define KQ_Q8_K_LANES(record, k) shared_rhs[73u * (record) + 1u + (k)]
#define KQ_Q8_K_PAIR(record, k) shared_rhs[73u * (record) + 65u + (k)]
#include "exact.h"
#include "records.h"

void main()
{
    uint tile = KQ_GROUP_INDEX / p.G;
    uint g = KQ_GROUP_INDEX - tile * p.G;
    uint row_tiles = (p.inner + KQ_LANES - 1u) / KQ_LANES;
    uint first = tile / row_tiles * KQ_COLUMNS;
    uint row = (tile - tile / row_tiles * row_tiles) * KQ_LANES + KQ_LANE;
    uint columns = p.dots / p.inner;

    // Columns and rows past the end are the last ones again, whose terms are kept.
    for (uint i = KQ_LANE; i < KQ_COLUMNS * 73u; i += KQ_LANES) {
        uint column = i / 73u;
        uint k = i - 73u * column;
        record_place rhs = place_of(p.rhs_offset + g * p.rhs_stride +
                                    min(first + column, columns - 1u) * p.rhs_outer_step);
        shared_rhs[i] = kq_q8_k_ready(k, KQ_WORD(rhs_words, rhs, k, 72u));
    }
    barrier();

    uint at = (p.lhs_offset + g * p.lhs_stride + min(row, p.inner - 1u) * p.lhs_inner_step) >> 4;
    quads[0] = lhs_quads[at];
    quads[1] = lhs_quads[at + 1u];
    quads[2] = lhs_quads[at + 2u];
    quads[3] = lhs_quads[at + 3u];
    quads[4] = lhs_quads[at + 4u];
    quads[5] = lhs_quads[at + 5u];
    quads[6] = lhs_quads[at + 6u];
    quads[7] = lhs_quads[at + 7u];
    quads[8] = lhs_quads[at + 8u];
    // Column after column of some sub-blocks, so that their codes are taken apart once and need not
    // wait for long.
    uint low = kq_q4_k_fields_low(quads[0].y);
    uint high = kq_q4_k_fields_high(quads[0].y, quads[0].w);
    uint s0 = kq_sub_blocks(0u, 0u, 0u, low);
    uint s1 = kq_sub_blocks(0u, 1u, 0u, low);
    uint s2 = kq_sub_blocks(0u, 2u, 0u, low);
    uint s3 = kq_sub_blocks(0u, 3u, 0u, low);
    s0 += kq_sub_blocks(0u, 0u, 8u, low >> 16);
    s1 += kq_sub_blocks(0u, 1u, 8u, low >> 16);
    s2 += kq_sub_blocks(0u, 2u, 8u, low >> 16);
    s3 += kq_sub_blocks(0u, 3u, 8u, low >> 16);
    s0 += kq_sub_blocks(0u, 0u, 16u, high);
    s1 += kq_sub_blocks(0u, 1u, 16u, high);
    s2 += kq_sub_blocks(0u, 2u, 16u, high);
    s3 += kq_sub_blocks(0u, 3u, 16u, high);
    s0 += kq_sub_blocks(0u, 0u, 24u, high >> 16);
    s1 += kq_sub_blocks(0u, 1u, 24u, high >> 16);
    s2 += kq_sub_blocks(0u, 2u, 24u, high >> 16);
    s3 += kq_sub_blocks(0u, 3u, 24u, high >> 16);
    uint v0 = kq_v(quads[0].x, s0, kq_t(0u, 0u), KQ_Q8_K_DS(0u));
    uint v1 = kq_v(quads[0].x, s1, kq_t(0u, 1u), KQ_Q8_K_DS(1u));
    uint v2 = kq_v(quads[0].x, s2, kq_t(0u, 2u), KQ_Q8_K_DS(2u));
    uint v3 = kq_v(quads[0].x, s3, kq_t(0u, 3u), KQ_Q8_K_DS(3u));
    // Of workgroups past the last tile, which make a rectangle of the others, nothing is kept.
    if (row < p.inner && first < columns) {
        uint to = p.to_at + g * p.dots + first * p.inner + row;
        uint left = columns - first;
        scratch[to] = v0;
        if (left > 1u) {
            scratch[to + p.inner] = v1;
        }
        if (left > 2u) {
            scratch[to + 2u * p.inner] = v2;
        }
        if (left > 3u) {
            scratch[to + 3u * p.inner] = v3;
        }
    }
}
