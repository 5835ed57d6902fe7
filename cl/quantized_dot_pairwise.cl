// Adds neighbouring values of each dot, level by level, until each chunk of 512 is one value; an odd
// last value passes up unchanged. A chunk is a power of two, so the tree is the same however long the
// dot is. A lane adds up eight values by itself. Short dots share a workgroup: a dot takes as many lanes
// as it has eights, up to all.
#include "prelude.cl"
#include "params.h"
#include "exact.h"
#include "fold.cl"

// The sum of at most two, four or eight of `values` values, at least one; the first is at `from`.
static inline u32 sum_2(global const u32 *from, u32 dots, u32 values)
{
    u32 sum = from[0];
    if (values > 1u) {
        sum = kq_f32_add(sum, from[dots]);
    }
    return sum;
}

static inline u32 sum_4(global const u32 *from, u32 dots, u32 values)
{
    u32 sum = sum_2(from, dots, values);
    if (values > 2u) {
        sum = kq_f32_add(sum, sum_2(from + 2u * dots, dots, values - 2u));
    }
    return sum;
}

static inline u32 sum_8(global const u32 *from, u32 dots, u32 values)
{
    u32 sum = sum_4(from, dots, values);
    if (values > 4u) {
        sum = kq_f32_add(sum, sum_4(from + 4u * dots, dots, values - 4u));
    }
    return sum;
}

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantized_dot_pairwise(KQ_BUFFER(, result_range),
                                   KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    local u32 partial[KQ_LANES];
    global u32 *scratch = KQ_RANGE(scratch_range);
    u32 levels = 0u;
    while ((KQ_PAIRWISE_VALUES << levels) < count && levels < 6u) {
        levels++;
    }
    u32 side_by_side = KQ_LANES >> levels;
    u32 tiles = (dots + side_by_side - 1u) / side_by_side;
    u32 chunk = KQ_GROUP_INDEX / tiles;
    u32 dot = (KQ_GROUP_INDEX - chunk * tiles) * side_by_side + KQ_LANE % side_by_side;
    u32 i = KQ_LANE / side_by_side;

    u32 begin = chunk * KQ_PAIRWISE_CHUNK;
    u32 values = begin < count && dot < dots ? min(count - begin, KQ_PAIRWISE_CHUNK) : 0u;
    u32 sum = 0u;
    if (KQ_PAIRWISE_VALUES * i < values) {
        sum = sum_8(scratch + from_at + (begin + KQ_PAIRWISE_VALUES * i) * dots + dot, dots,
                    values - KQ_PAIRWISE_VALUES * i);
    }
    values = (values + KQ_PAIRWISE_VALUES - 1u) / KQ_PAIRWISE_VALUES;
    for (u32 level = 0u; level < levels; level++) {
        partial[KQ_LANE] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (2u * i < values) {
            sum = partial[2u * i * side_by_side + KQ_LANE % side_by_side];
            if (2u * i + 1u < values) {
                sum = kq_f32_add(sum,
                                 partial[(2u * i + 1u) * side_by_side + KQ_LANE % side_by_side]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        values = (values + 1u) >> 1;
    }
    if (i == 0u && values != 0u) {
        if (ends != 0u) {
            store_dot(KQ_RANGE(result_range), KQ_RESULT_AT(dot), sum);
        } else {
            scratch[to_at + chunk * dots + dot] = sum;
        }
    }
}
