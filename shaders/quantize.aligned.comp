// Quantizes blocks to Q8_K records, where the values of a block lie side by side from a multiple of 16
// bytes on, and its record at one of 4: as in quantize.comp, but in 8 lanes a block, 32 values a lane,
// which are read four at a time. So a lane has a word of the sums to itself. Compilers leave loops over
// so much code, hence there are none.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "exact.h"
#include "records.h"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_QUANTIZE_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Values { uvec4 values[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Records { uint records[]; };
layout(std430, set = 0, binding = 2) buffer Status { uint status[]; };

#define BLOCKS (KQ_LANES / KQ_LANES_PER_ALIGNED_BLOCK)

shared uvec4 keys[KQ_LANES / 4u];

uint largest(const uvec4 x)
{
    return max(max(x.x, x.y), max(x.z, x.w));
}

uint key_of(const uvec4 x)
{
    return largest(uvec4(kq_extreme_key(x.x), kq_extreme_key(x.y), kq_extreme_key(x.z),
                         kq_extreme_key(x.w)));
}

uint codes_of(const uvec4 x, const uint inverse)
{
    return kq_code(x.x, inverse) | (kq_code(x.y, inverse) << 8) | (kq_code(x.z, inverse) << 16) |
           (kq_code(x.w, inverse) << 24);
}

void main()
{
    uint lane = KQ_LANE % KQ_LANES_PER_ALIGNED_BLOCK;
    uint slot = KQ_LANE / KQ_LANES_PER_ALIGNED_BLOCK;
    // Lanes past the end take the last block again, and keep its record to themselves.
    uint index = KQ_GROUP_INDEX * BLOCKS + slot;
    uint g = min(index, p.G - 1u);

    uint at = ((p.values_offset + g * p.values_stride) >> 4) + 8u * lane;
    uvec4 value[8];
    value[0] = values[at];
    value[1] = values[at + 1u];
    value[2] = values[at + 2u];
    value[3] = values[at + 3u];
    value[4] = values[at + 4u];
    value[5] = values[at + 5u];
    value[6] = values[at + 6u];
    value[7] = values[at + 7u];
    uint key = max(max(max(key_of(value[0]), key_of(value[1])),
                       max(key_of(value[2]), key_of(value[3]))),
                   max(max(key_of(value[4]), key_of(value[5])),
                       max(key_of(value[6]), key_of(value[7]))));
    keys[KQ_LANE / 4u][KQ_LANE % 4u] = key;
    barrier();
    key = max(largest(keys[2u * slot]), largest(keys[2u * slot + 1u]));

    uint inverse = kq_inverse(key);
    uint legal = kq_is_legal(key, inverse);
    inverse = legal != 0u ? inverse : 0u;
    uint codes[8];
    codes[0] = codes_of(value[0], inverse);
    codes[1] = codes_of(value[1], inverse);
    codes[2] = codes_of(value[2], inverse);
    codes[3] = codes_of(value[3], inverse);
    codes[4] = codes_of(value[4], inverse);
    codes[5] = codes_of(value[5], inverse);
    codes[6] = codes_of(value[6], inverse);
    codes[7] = codes_of(value[7], inverse);
    uint low = kq_sum_i8x4(codes[0]) + kq_sum_i8x4(codes[1]) + kq_sum_i8x4(codes[2]) +
               kq_sum_i8x4(codes[3]);
    uint high = kq_sum_i8x4(codes[4]) + kq_sum_i8x4(codes[5]) + kq_sum_i8x4(codes[6]) +
                kq_sum_i8x4(codes[7]);

    if (index < p.G) {
        uint record = (p.records_offset + g * p.records_stride) >> 2;
        uint first = record + 1u + 8u * lane;
        records[first] = codes[0];
        records[first + 1u] = codes[1];
        records[first + 2u] = codes[2];
        records[first + 3u] = codes[3];
        records[first + 4u] = codes[4];
        records[first + 5u] = codes[5];
        records[first + 6u] = codes[6];
        records[first + 7u] = codes[7];
        records[record + 65u + lane] = (low & 0xFFFFu) | (high << 16);
        if (lane == 0u) {
            records[record] = legal != 0u ? kq_ds(inverse) : KQ_F32_NAN;
            if (legal == 0u) {
                atomicMin(status[p.status_offset / 4u], g);
                atomicAdd(status[p.status_offset / 4u + 1u], 1u);
            }
            atomicAdd(status[p.status_offset / 4u + 2u], 1u);
        }
    }
}
