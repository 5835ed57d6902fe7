// What a device must not notice: that an operation is cut into many submissions, or that a repeat
// has more dots than a dispatch has workgroups.
#include "cases.h"

#include "bytes.h"

#include <inttypes.h>
#include <stdlib.h>

// Overlapping records of arbitrary bytes, a word apart, so that every dot is another one and yet
// millions fit.
static bool build_many(const case_list *list, const test_case *test, target *reference,
                       trial *trial, const char **reason)
{
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, 1, &test->layout, case_poison(list, test));
    uint8_t record[KQ_Q8_K_BYTES];
    for (size_t i = 0; i < sizeof record; i++) {
        record[i] = (uint8_t)(i * i);
    }
    store_u32(record, 0x3F800000);
    trial_put(trial, OPERAND_RHS, 0, 0, record);
    return case_expect_reference(trial, reference, reason);
}

static void add_many(case_list *list, uint32_t inner, uint32_t outer)
{
    test_case *test =
        case_add(list, KQ_OP_QUANTIZED_DOT, build_many, "many-%" PRIu32 "x%" PRIu32, inner, outer);
    test->layout = (layout){
        .has_repeat = true,
        .repeat = {.count = {inner, outer},
                   .lhs_step = {4, 4 * (uint64_t)inner},
                   .result_step = {4, 4 * (uint64_t)inner}},
    };
}

void cases_add_limits(case_list *list)
{
    size_t count = list->count;
    for (size_t k = 0; k < count; k++) {
        // The list may move when a case is added.
        const test_case whole = list->cases[k];
        if (whole.build == NULL) {
            continue;
        }
        const char *class = strchr(strchr(whole.name, '.') + 1, '.') + 1;
        test_case *cut = case_add(list, whole.op, whole.build, "cut-%s", class);
        cut->part = whole.part;
        cut->layout = whole.layout;
        cut->layout.work = whole.cut_work != 0 ? whole.cut_work : CASE_CUT_WORK;
        for (size_t v = 0; v < whole.vector_count; v++) {
            case_take(cut, whole.vectors[v]);
        }
    }
    // A limit of 65,535 workgroups is the least that Vulkan allows; a workgroup takes up to 64
    // dots.
    add_many(list, 65535, 1);
    add_many(list, 65536, 1);
    add_many(list, 1, 70000);
    add_many(list, 1000, 70);
    add_many(list, 5000000, 1);
}
