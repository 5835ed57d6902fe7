// Adds the terms of each dot in increasing record order: one lane a dot. A long dot takes several
// dispatches, which hand the running sum on in scratch; the first starts from v0, never from +0.
#include "prelude.cl"
#include "params.h"
#include "exact.h"
#include "fold.cl"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void quantized_dot_sequential(KQ_BUFFER(, result_range),
                                     KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    global u32 *scratch = KQ_RANGE(scratch_range);
    u32 dot = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    if (dot < dots) {
        u32 g = 0u;
        u32 sum = 0u;
        if (resumes != 0u) {
            sum = scratch[to_at + dot];
        } else if (count != 0u) {
            sum = scratch[from_at + dot];
            g = 1u;
        }
        for (; g < count; g++) {
            sum = kq_f32_add(sum, scratch[from_at + g * dots + dot]);
        }
        if (ends != 0u) {
            store_dot(KQ_RANGE(result_range), KQ_RESULT_AT(dot), sum);
        } else {
            scratch[to_at + dot] = sum;
        }
    }
}
