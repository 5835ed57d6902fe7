// The self-test's work over its one buffer, for every API.
#ifndef KQ_SELF_TEST_H
#define KQ_SELF_TEST_H

#include "plan.h"

// One plan for the primitives and one for each of the operations that follow. They read what those
// before them wrote.
enum { KQ_SELF_TEST_PLANS = 15 };

// What a plan but the first writes, beside a status: the bytes that its answer is known of, from
// the first to the last and those between, and their FNV-1a.
typedef struct kq_self_test_output {
    const char *step;
    uint32_t at, bytes;
    uint64_t known;
} kq_self_test_output;

const kq_self_test_output *kq_self_test_output_of(unsigned index);

// Whether a pack that was created with these ops has all that the self-test takes, and the range is
// a buffer's KQ_SELF_TEST_BYTES from range->view.offset on, a multiple of `alignment`.
kq_result kq_self_test_check(uint32_t ops, const kq_operand *range, uint32_t alignment,
                             const kq_errors *errors);

// Plan `index` of the self-test on a range that was checked.
kq_result kq_self_test_plan(unsigned index, const kq_operand *range, const kq_limits *limits,
                            const kq_errors *errors, kq_plan *plan);

// Items of four words, and all of the self-test, in portable C.
void kq_reference_primitives(unsigned char *items, uint32_t count);
void kq_self_test_reference(unsigned char *bytes);

#endif
