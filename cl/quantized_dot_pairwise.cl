// Adds neighbouring values of each dot, level by level, until each chunk of 128 is one value; an
// odd last value passes up unchanged. A chunk is a power of two, so the tree is the same however
// long the dot is. Short dots share a workgroup: a dot takes as many lanes as it has pairs, up to
// all.
#include "prelude.cl"
#include "params.h"
#include "exact.h"
#include "fold.cl"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantized_dot_pairwise(KQ_BUFFER(, result_range),
                                   KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    local u32 partial[KQ_LANES];
    global u32 *scratch = KQ_RANGE(scratch_range);
    u32 levels = 0u;
    while ((2u << levels) < count && levels < 6u) {
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
    if (2u * i < values) {
        u32 at = from_at + (begin + 2u * i) * dots + dot;
        sum = scratch[at];
        if (2u * i + 1u < values) {
            sum = kq_f32_add(sum, scratch[at + dots]);
        }
    }
    for (u32 level = 0u; level < levels; level++) {
        values = (values + 1u) >> 1;
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
    }
    if (i == 0u && values != 0u) {
        if (ends != 0u) {
            store_dot(KQ_RANGE(result_range), KQ_RESULT_AT(dot), sum);
        } else {
            scratch[to_at + chunk * dots + dot] = sum;
        }
    }
}
