// Quantizes blocks to Q8_K records: 16 lanes a block, 16 values a lane. A lane writes the codes that it
// makes, and needs but the last of the lane before.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "exact.h"
#include "records.h"
#include "params.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_QUANTIZE_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, set = 0, binding = 1) buffer Records { uint records[]; };
layout(std430, set = 0, binding = 2) buffer Status { uint status[]; };

KQ_DEFINE_LOAD(load_value, values)
KQ_DEFINE_STORE(store_record, records)

#define BLOCKS (KQ_LANES / KQ_LANES_PER_BLOCK)

shared uint keys[KQ_LANES];
shared uint sums[KQ_LANES];
shared uint lasts[KQ_LANES];

// What a word of the buffer holds of two words of a record that starts `bits` bits inside a word.
uint straddle(const uint before, const uint word, const uint bits)
{
    return (word << bits) | ((before >> 1) >> (31u - bits));
}

// The sums of two lanes as a word of the record.
uint pair(const uint low, const uint high)
{
    return (low & 0xFFFFu) | (high << 16);
}

void main()
{
    uint lane = KQ_LANE % KQ_LANES_PER_BLOCK;
    uint slot = KQ_LANE / KQ_LANES_PER_BLOCK;
    uint g = KQ_GROUP_INDEX * BLOCKS + slot;
    uint in_range = g < p.G ? 1u : 0u;

    uint value[16];
    uint key = 0u;
    for (uint i = 0u; i < 16u; i++) {
        value[i] = 0u;
        if (in_range != 0u) {
            value[i] = load_value(p.values_offset + g * p.values_stride +
                                  (lane * 16u + i) * p.value_stride);
        }
        key = max(key, kq_extreme_key(value[i]));
    }
    keys[KQ_LANE] = key;
    barrier();
    for (uint i = 0u; i < KQ_LANES_PER_BLOCK; i++) {
        key = max(key, keys[slot * KQ_LANES_PER_BLOCK + i]);
    }

    uint inverse = kq_inverse(key);
    uint legal = kq_is_legal(key, inverse);
    inverse = legal != 0u ? inverse : 0u;
    uint codes[4];
    uint sum = 0u;
    for (uint k = 0u; k < 4u; k++) {
        codes[k] = kq_code(value[4u * k], inverse) | (kq_code(value[4u * k + 1u], inverse) << 8) |
                   (kq_code(value[4u * k + 2u], inverse) << 16) |
                   (kq_code(value[4u * k + 3u], inverse) << 24);
        sum += kq_sum_i8x4(codes[k]);
    }
    sums[KQ_LANE] = sum;
    lasts[KQ_LANE] = codes[3];
    barrier();

    if (in_range != 0u) {
        // 73 words lie in 74 of the buffer's where the record starts inside a word: what of each
        // doesn't fit goes before the next.
        uint at = p.records_offset + g * p.records_stride;
        uint bits = (at & 3u) << 3;
        uint before;
        if (lane == 0u) {
            before = legal != 0u ? kq_ds(inverse) : KQ_F32_NAN;
            store_record(at >> 2, before << bits, 0xFFFFFFFFu << bits);
        } else {
            before = lasts[KQ_LANE - 1u];
        }
        for (uint k = 0u; k < 4u; k++) {
            records[(at >> 2) + 1u + 4u * lane + k] = straddle(before, codes[k], bits);
            before = codes[k];
        }
        if (lane <= 8u) {
            uint first = slot * KQ_LANES_PER_BLOCK + 2u * lane;
            before = lane == 0u ? lasts[first + 15u] : pair(sums[first - 2u], sums[first - 1u]);
            uint word = lane < 8u ? pair(sums[first], sums[first + 1u]) : 0u;
            store_record((at >> 2) + 65u + lane, straddle(before, word, bits),
                         lane < 8u ? 0xFFFFFFFFu : ~(0xFFFFFFFFu << bits));
        }
        if (lane == 0u) {
            if (legal == 0u) {
                atomicMin(status[p.status_offset / 4u], g);
                atomicAdd(status[p.status_offset / 4u + 1u], 1u);
            }
            atomicAdd(status[p.status_offset / 4u + 2u], 1u);
        }
    }
}
