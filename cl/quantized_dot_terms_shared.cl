// The terms of dots that share rhs: a workgroup takes one record of rhs, which it makes ready in
// local memory, and 64 dots, one a lane. Records come first, for neighbours in lhs are then read
// together.
#include "prelude.cl"
#include "params.h"

// A record of rhs that the workgroup shares.
typedef struct ready {
    local const u32 *ds;
    local const u32 *lanes;
    local const u32 *pairs;
} ready;

#define KQ_Q4_K record_place
#define KQ_Q8_K ready
#define KQ_Q4_K_WORD(record, k) word_of(record, k, 35u)
#define KQ_Q8_K_DS(record) ((record).ds[0])
#define KQ_Q8_K_LANES(record, k) ((record).lanes[k])
#define KQ_Q8_K_PAIR(record, k) ((record).pairs[k])
#include "exact.h"
#include "records.h"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantized_dot_terms_shared(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                       KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    local u32 shared_ds[1];
    local u32 shared_lanes[64];
    local u32 shared_pairs[8];
    u32 tile = KQ_GROUP_INDEX / G;
    u32 g = KQ_GROUP_INDEX - tile * G;

    record_place rhs = place_of(KQ_RANGE(rhs_range), rhs_offset + g * rhs_stride);
    shared_lanes[KQ_LANE] = kq_lanes(word_of(rhs, 1u + KQ_LANE, 72u));
    if (KQ_LANE < 8u) {
        shared_pairs[KQ_LANE] = kq_sum_i16x2(word_of(rhs, 65u + KQ_LANE, 72u));
    }
    if (KQ_LANE == 0u) {
        shared_ds[0] = word_of(rhs, 0u, 72u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // Lanes past the end take the last dot again, and keep the term to themselves.
    u32 index = tile * KQ_LANES + KQ_LANE;
    u32 dot = min(index, dots - 1u);
    u32 j = dot / inner;
    u32 i = dot - j * inner;
    record_place lhs = place_of(KQ_RANGE(lhs_range), lhs_offset + g * lhs_stride +
                                                        i * lhs_inner_step + j * lhs_outer_step);
    ready shared_rhs = { shared_ds, shared_lanes, shared_pairs };
    u32 v = kq_term(lhs, shared_rhs);
    if (index < dots) {
        KQ_RANGE(scratch_range)[to_at + g * dots + dot] = v;
    }
}
