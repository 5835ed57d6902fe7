// The term v of every pair of records of every dot, into scratch: one lane a term. Neighbours take
// records of one dot, which mostly lie side by side.
#include "prelude.cl"
#include "params.h"

#define KQ_Q4_K record_place
#define KQ_Q8_K record_place
#define KQ_Q4_K_RAW(record, k) ((record).word[k])
#define KQ_Q8_K_RAW(record, k) ((record).word[k])
#define KQ_Q4_K_LAST(record) (35u + (record).more)
#define KQ_Q8_K_LAST(record) (72u + (record).more)
#define KQ_Q4_K_JOIN(record, low, high) join(record, low, high)
#define KQ_Q8_K_JOIN(record, low, high) join(record, low, high)
#include "exact.h"
#include "records.h"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantized_dot_terms(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    // Lanes past the end do the last term again, and keep it to themselves.
    u32 index = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    u32 last = G * dots - 1u;
    u32 item = min(index, last);
    u32 dot = item / G;
    u32 g = item - dot * G;
    u32 j = dot / inner;
    u32 i = dot - j * inner;
    record_place lhs = place_of(KQ_RANGE(lhs_range), lhs_offset + g * lhs_stride +
                                                        i * lhs_inner_step + j * lhs_outer_step);
    record_place rhs = place_of(KQ_RANGE(rhs_range), rhs_offset + g * rhs_stride +
                                                        i * rhs_inner_step + j * rhs_outer_step);
    u32 v = kq_term(lhs, rhs);
    if (index <= last) {
        KQ_RANGE(scratch_range)[to_at + g * dots + dot] = v;
    }
}
