// Adds neighbouring values of each dot, level by level, until each chunk of 512 is one value; an odd
// last value passes up unchanged. A chunk is a power of two, so the tree is the same however long the
// dot is. A lane adds up eight values by itself. Short dots share a workgroup: a dot takes as many lanes
// as it has eights, up to all.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"
#include "exact.h"
#include "fold.glsl"

layout(local_size_x = KQ_LANES) in;

shared uint partial[KQ_LANES];

// The sum of at most two, four or eight of `values` values, at least one; the first is at `at`.
uint sum_2(const uint at, const uint dots, const uint values)
{
    uint sum = from[at];
    if (values > 1u) {
        sum = kq_f32_add(sum, from[at + dots]);
    }
    return sum;
}

uint sum_4(const uint at, const uint dots, const uint values)
{
    uint sum = sum_2(at, dots, values);
    if (values > 2u) {
        sum = kq_f32_add(sum, sum_2(at + 2u * dots, dots, values - 2u));
    }
    return sum;
}

uint sum_8(const uint at, const uint dots, const uint values)
{
    uint sum = sum_4(at, dots, values);
    if (values > 4u) {
        sum = kq_f32_add(sum, sum_4(at + 4u * dots, dots, values - 4u));
    }
    return sum;
}

void main()
{
    // Parameters are read before any branch, as in quantized_dot_sequential.comp.
    uint dots = p.dots;
    uint count = p.count;
    uint levels = 0u;
    while ((KQ_PAIRWISE_VALUES << levels) < count && levels < 6u) {
        levels++;
    }
    uint side_by_side = KQ_LANES >> levels;
    uint tiles = (dots + side_by_side - 1u) / side_by_side;
    uint chunk = KQ_GROUP_INDEX / tiles;
    uint dot = (KQ_GROUP_INDEX - chunk * tiles) * side_by_side + KQ_LANE % side_by_side;
    uint i = KQ_LANE / side_by_side;
    uint from_at = p.from_at + dot;
    uint to_at = p.to_at + chunk * dots + dot;
    uint at = result_at(dot);
    bool ends = p.ends != 0u;

    uint begin = chunk * KQ_PAIRWISE_CHUNK;
    uint values = begin < count && dot < dots ? min(count - begin, KQ_PAIRWISE_CHUNK) : 0u;
    uint sum = 0u;
    if (KQ_PAIRWISE_VALUES * i < values) {
        sum = sum_8(from_at + (begin + KQ_PAIRWISE_VALUES * i) * dots, dots,
                    values - KQ_PAIRWISE_VALUES * i);
    }
    values = (values + KQ_PAIRWISE_VALUES - 1u) / KQ_PAIRWISE_VALUES;
    for (uint level = 0u; level < levels; level++) {
        partial[KQ_LANE] = sum;
        barrier();
        if (2u * i < values) {
            sum = partial[2u * i * side_by_side + KQ_LANE % side_by_side];
            if (2u * i + 1u < values) {
                sum = kq_f32_add(sum,
                                 partial[(2u * i + 1u) * side_by_side + KQ_LANE % side_by_side]);
            }
        }
        barrier();
        values = (values + 1u) >> 1;
    }
    if (i == 0u && values != 0u) {
        if (ends) {
            store_result(at, sum);
        } else {
            to[to_at] = sum;
        }
    }
}
