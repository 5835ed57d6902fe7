// Quantizes blocks to Q8_K records: 16 lanes a block, 16 values a lane. A lane writes the codes
// that it makes, and needs but the last of the lane before.
#include "prelude.cl"
#include "exact.h"
#include "records.h"
#include "params.h"

#define BLOCKS (KQ_LANES / KQ_LANES_PER_BLOCK)

// What a word of the buffer holds of two words of a record that starts `bits` bits inside a word.
static inline u32 straddle(u32 before, u32 word, u32 bits)
{
    return (word << bits) | ((before >> 1) >> (31u - bits));
}

// The sums of two lanes as a word of the record.
static inline u32 pair(u32 low, u32 high)
{
    return (low & 0xFFFFu) | (high << 16);
}

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantize(KQ_BUFFER(const, values_range), KQ_BUFFER(, records_range),
                     KQ_BUFFER(, status_range) KQ_QUANTIZE_PARAMS(KQ_PARAM))
{
    local u32 keys[KQ_LANES];
    local u32 sums[KQ_LANES];
    local u32 lasts[KQ_LANES];
    global const u32 *values = KQ_RANGE(values_range);
    global u32 *records = KQ_RANGE(records_range);
    global u32 *status = KQ_RANGE(status_range) + status_offset / 4u;

    u32 lane = KQ_LANE % KQ_LANES_PER_BLOCK;
    u32 slot = KQ_LANE / KQ_LANES_PER_BLOCK;
    u32 g = KQ_GROUP_INDEX * BLOCKS + slot;
    u32 in_range = g < G ? 1u : 0u;

    u32 value[16];
    u32 key = 0u;
    for (u32 i = 0u; i < 16u; i++) {
        value[i] = 0u;
        if (in_range != 0u) {
            value[i] = load(values, values_offset + g * values_stride +
                                        (lane * 16u + i) * value_stride);
        }
        key = max(key, kq_extreme_key(value[i]));
    }
    keys[KQ_LANE] = key;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (u32 i = 0u; i < KQ_LANES_PER_BLOCK; i++) {
        key = max(key, keys[slot * KQ_LANES_PER_BLOCK + i]);
    }

    u32 inverse = kq_inverse(key);
    u32 legal = kq_is_legal(key, inverse);
    inverse = legal != 0u ? inverse : 0u;
    u32 codes[4];
    u32 sum = 0u;
    for (u32 k = 0u; k < 4u; k++) {
        codes[k] = kq_code(value[4u * k], inverse) | (kq_code(value[4u * k + 1u], inverse) << 8) |
                   (kq_code(value[4u * k + 2u], inverse) << 16) |
                   (kq_code(value[4u * k + 3u], inverse) << 24);
        sum += kq_sum_i8x4(codes[k]);
    }
    sums[KQ_LANE] = sum;
    lasts[KQ_LANE] = codes[3];
    barrier(CLK_LOCAL_MEM_FENCE);

    if (in_range != 0u) {
        // 73 words lie in 74 of the buffer's where the record starts inside a word: what of each
        // doesn't fit goes before the next.
        u32 at = records_offset + g * records_stride;
        u32 bits = (at & 3u) << 3;
        u32 before;
        if (lane == 0u) {
            before = legal != 0u ? kq_ds(inverse) : KQ_F32_NAN;
            store(records, at >> 2, before << bits, 0xFFFFFFFFu << bits);
        } else {
            before = lasts[KQ_LANE - 1u];
        }
        for (u32 k = 0u; k < 4u; k++) {
            records[(at >> 2) + 1u + 4u * lane + k] = straddle(before, codes[k], bits);
            before = codes[k];
        }
        if (lane <= 8u) {
            u32 first = slot * KQ_LANES_PER_BLOCK + 2u * lane;
            before = lane == 0u ? lasts[first + 15u] : pair(sums[first - 2u], sums[first - 1u]);
            u32 word = lane < 8u ? pair(sums[first], sums[first + 1u]) : 0u;
            store(records, (at >> 2) + 65u + lane, straddle(before, word, bits),
                  lane < 8u ? 0xFFFFFFFFu : ~(0xFFFFFFFFu << bits));
        }
        if (lane == 0u) {
            if (legal == 0u) {
                atomic_min((volatile global u32 *)status, g);
                atomic_inc((volatile global u32 *)(status + 1));
            }
            atomic_inc((volatile global u32 *)(status + 2));
        }
    }
}
