// The term v of every pair of records of every dot, into scratch: one lane a term.
#include "prelude.cl"
#include "params.h"

// A reference to a record: the words it lies in and the byte it starts at.
typedef struct record {
    global const u32 *words;
    u32 at;
} record;

#define KQ_Q4_K record
#define KQ_Q8_K record
#define KQ_Q4_K_WORD(record, k) load((record).words, (record).at + 4u * (k))
#define KQ_Q8_K_WORD(record, k) load((record).words, (record).at + 4u * (k))
#include "exact.h"
#include "records.h"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantized_dot_terms(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    u32 item = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    if (item < G * dots) {
        u32 g = item / dots;
        u32 dot = item - g * dots;
        u32 j = dot / inner;
        u32 i = dot - j * inner;
        record lhs = { KQ_RANGE(lhs_range), lhs_offset + g * lhs_stride + i * lhs_inner_step +
                                                j * lhs_outer_step };
        record rhs = { KQ_RANGE(rhs_range), rhs_offset + g * rhs_stride + i * rhs_inner_step +
                                                j * rhs_outer_step };
        KQ_RANGE(scratch_range)[to_at + item] = kq_term(lhs, rhs);
    }
}
