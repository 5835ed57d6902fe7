// What a device must not notice: that an operation is cut into many submissions, or that a repeat
// has more dots than a dispatch has workgroups.
#include "cases.h"

#include "bytes.h"

#include <inttypes.h>
#include <stdlib.h>

// So much work a submission that nothing is cut.
static const uint64_t AT_ONCE = (uint64_t)1 << 40;

// Overlapping records of arbitrary bytes, a word apart, so that every dot is another one and yet
// millions fit.
static bool build_many(const case_list *list, const test_case *test, target *reference,
                       trial *trial, const char **reason)
{
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, test->G, &test->layout, case_poison(list, test));
    uint8_t record[KQ_Q8_K_BYTES];
    for (size_t i = 0; i < sizeof record; i++) {
        record[i] = (uint8_t)(i * i);
    }
    store_u32(record, 0x3F800000);
    trial_put(trial, OPERAND_RHS, 0, 0, record);
    return case_expect_reference(trial, reference, reason);
}

static test_case *add_many(case_list *list, const char *kind, uint32_t inner, uint32_t outer)
{
    test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, build_many, "%s%" PRIu32 "x%" PRIu32,
                               kind, inner, outer);
    test->G = 1;
    test->layout = (layout){
        .has_repeat = true,
        .repeat = {.count = {inner, outer},
                   .lhs_step = {4, 4 * (uint64_t)inner},
                   .result_step = {4, 4 * (uint64_t)inner}},
    };
    return test;
}

// Rounds of the outer loop side by side, with a gap between those of the inner: places that tell i
// and j from any others with the same i + inner * j.
static void set_apart(test_case *test)
{
    kq_repeat *repeat = &test->layout.repeat;
    repeat->lhs_step[0] = 4 * (uint64_t)repeat->count[1] + 4;
    repeat->lhs_step[1] = 4;
    repeat->result_step[0] = repeat->lhs_step[0];
    repeat->result_step[1] = 4;
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
        cut->G = whole.G;
        cut->layout = whole.layout;
        cut->layout.work = whole.cut_work != 0 ? whole.cut_work : CASE_CUT_WORK;
        for (size_t v = 0; v < whole.vector_count; v++) {
            case_take(cut, whole.vectors[v]);
        }
    }
    add_many(list, "many-", 65535, 1);
    add_many(list, "many-", 65536, 1);
    add_many(list, "many-", 1, 70000);
    add_many(list, "many-", 1000, 70);
    add_many(list, "many-", 5000000, 1);
    // In one dispatch. A limit of 65,535 workgroups in x is the least that Vulkan allows; a
    // workgroup takes up to 64 dots.
    add_many(list, "many-at-once-", 5000000, 1)->layout.work = AT_ONCE;
    test_case *both = add_many(list, "many-at-once-", 2000, 2500);
    both->layout.work = AT_ONCE;
    set_apart(both);
    // Of no records, which cost next to nothing: numbers of dots that an f32 can't hold.
    test_case *empty = add_many(list, "no-records-many-at-once-", 3, 6000000);
    empty->layout.work = AT_ONCE;
    empty->G = 0;
    set_apart(empty);
    cases_add_larger(list);
}
