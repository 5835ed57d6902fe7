// What a dot or a block gives must not depend on how many others share its call, on its place among
// them, or on how many calls share the work.
#include "cases.h"

#include <inttypes.h>

// One after the other, all different, over and over; a prime, so that no place in a workgroup has a
// vector of its own. The last of a batch is the first again.
enum { NEIGHBOURS = 61 };

static bool is_neighbour(const case_list *list, kq_op op, size_t k)
{
    if (op == KQ_OP_QUANTIZE) {
        const quantize_vector *vector = &list->vectors.quantize[k];
        return vector->G == 1 && vector->domain.reason == KQ_REASON_NONE;
    }
    const dot_vector *vector = &list->vectors.dot[k];
    uint32_t exponent = vector->results[0] >> 23 & 255;
    return vector->G == 1 && exponent > 0 && exponent < 255;
}

// False: there are too few.
static bool find_neighbours(const case_list *list, kq_op op, size_t neighbours[NEIGHBOURS])
{
    size_t count = op == KQ_OP_QUANTIZE ? list->vectors.quantize_count : list->vectors.dot_count;
    size_t found = 0;
    for (size_t k = 0; k < count && found < NEIGHBOURS; k++) {
        if (is_neighbour(list, op, k)) {
            neighbours[found++] = k;
        }
    }
    return found == NEIGHBOURS;
}

static void add_batch(case_list *list, kq_op op, uint32_t count, uint32_t calls)
{
    size_t neighbours[NEIGHBOURS];
    if (!find_neighbours(list, op, neighbours)) {
        return;
    }
    bool is_dot = op == KQ_OP_QUANTIZED_DOT;
    test_case *test = case_add(list, op, is_dot ? case_build_dots : case_build_quantize,
                               "batch-%" PRIu32 "-in-%" PRIu32, count, calls);
    test->layout.calls = calls;
    if (is_dot) {
        test->layout.has_repeat = true;
        test->layout.repeat = (kq_repeat){
            .count = {count, 1},
            .lhs_step = {KQ_Q4_K_BYTES},
            .rhs_step = {KQ_Q8_K_BYTES},
            .result_step = {4, 4 * (uint64_t)count},
        };
    }
    for (uint32_t k = 0; k < count; k++) {
        case_take(test, neighbours[k == count - 1 ? 0 : k % NEIGHBOURS]);
    }
    // Seven submissions.
    test->cut_work = CASE_CUT_WORK + count / 7 * (is_dot ? 1 : 16);
}

void cases_add_batches(case_list *list, uint32_t blocks, uint32_t dots)
{
    static const uint32_t calls[] = {1, 3, 7};
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++) {
        add_batch(list, KQ_OP_QUANTIZE, blocks, calls[k]);
        add_batch(list, KQ_OP_QUANTIZED_DOT, dots, calls[k]);
    }
}

void cases_add_alone(case_list *list)
{
    add_batch(list, KQ_OP_QUANTIZE, 1, 1);
    add_batch(list, KQ_OP_QUANTIZED_DOT, 1, 1);
}
