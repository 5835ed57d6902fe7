// Large numbers, loops that share, strides and steps past 16 and 24 bits, dots of many records,
// many blocks and dots. All operands are drawn, and what must come out is what the reference makes
// of them.
#include "bytes.h"
#include "cases.h"
#include "draws.h"

#include "../params.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SEED = 1 };
enum { ORDINARY = 3 };  // of draw_lhs and draw_rhs

// So much work a submission that nothing is cut.
static const uint64_t AT_ONCE = (uint64_t)1 << 40;

// --- Dots of drawn records

// The first record of an operand of dot (i, j): each dot begins one further on, where it has an
// operand of its own.
static size_t first_record(const uint64_t step[2], uint32_t inner, uint32_t i, uint32_t j)
{
    return (step[0] != 0 ? i : 0) + (size_t)(step[1] != 0 ? inner : 0) * j;
}

// Term g + half is term g with the other sign. Of twice so many nothing is left but what rounding
// did on the way, so another order is another result.
static void draw_records(size_t count, size_t half, uint8_t *lhs, uint8_t *rhs)
{
    uint64_t state = SEED;
    for (size_t g = 0; g < count; g++) {
        uint8_t *left = lhs + g * KQ_Q4_K_BYTES, *right = rhs + g * KQ_Q8_K_BYTES;
        if (g < half) {
            draw_lhs(&state, ORDINARY, left);
            draw_rhs(&state, ORDINARY, right);
        } else {
            memcpy(left, left - half * KQ_Q4_K_BYTES, KQ_Q4_K_BYTES);
            memcpy(right, right - half * KQ_Q8_K_BYTES, KQ_Q8_K_BYTES);
            right[3] ^= 0x80;
        }
    }
}

static bool build_drawn(const case_list *list, const test_case *test, target *reference,
                        trial *trial, const char **reason)
{
    const kq_repeat *repeat = &test->layout.repeat;
    const uint32_t inner = repeat->count[0];
    const size_t records = test->G + (size_t)layout_dots(&test->layout) - 1;
    uint8_t *lhs = allocate(records, KQ_Q4_K_BYTES);
    uint8_t *rhs = allocate(records, KQ_Q8_K_BYTES);
    draw_records(records, test->G >= KQ_PAIRWISE_CHUNK ? test->G / 2 : records, lhs, rhs);
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, test->G, &test->layout, case_poison(list, test));
    for (uint32_t j = 0; j < repeat->count[1]; j++) {
        for (uint32_t i = 0; i < inner; i++) {
            trial_put(trial, OPERAND_LHS, i, j,
                      lhs + first_record(repeat->lhs_step, inner, i, j) * KQ_Q4_K_BYTES);
            trial_put(trial, OPERAND_RHS, i, j,
                      rhs + first_record(repeat->rhs_step, inner, i, j) * KQ_Q8_K_BYTES);
        }
    }
    free(lhs);
    free(rhs);
    return case_expect_reference(trial, reference, reason);
}

// Packed dots, each of which has the records of the one before but its first, and a new last one;
// where is_shared, all have the same rhs.
static layout sliding(uint32_t inner, uint32_t outer, bool is_shared)
{
    layout layout = {
        .has_repeat = true,
        .repeat = {.count = {inner, outer},
                   .lhs_step = {KQ_Q4_K_BYTES, KQ_Q4_K_BYTES * (uint64_t)inner},
                   .result_step = {4, 4 * (uint64_t)inner}},
    };
    if (!is_shared) {
        layout.repeat.rhs_step[0] = KQ_Q8_K_BYTES;
        layout.repeat.rhs_step[1] = KQ_Q8_K_BYTES * (uint64_t)inner;
    }
    return layout;
}

static test_case *add_long(case_list *list, uint32_t inner, uint32_t outer, uint32_t G,
                           bool is_shared)
{
    test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, build_drawn,
                               "long-%s%" PRIu32 "x%" PRIu32 "-of-%" PRIu32,
                               is_shared ? "shared-rhs-" : "", inner, outer, G);
    test->layout = sliding(inner, outer, is_shared);
    test->G = G;
    test->cut_work = CASE_CUT_WORK + (uint64_t)inner * outer * G / 10;
    return test;
}

// --- Loops that share

// Kernels of dots that share work go by what each loop goes over: rows that meet one rhs, in
// columns that have the rows in common or each its own.
static void add_sharing(case_list *list, const char *what, uint32_t inner, uint32_t outer,
                        bool shares_rows, uint64_t lhs_offset, uint32_t G)
{
    test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, build_drawn,
                               "%s-%" PRIu32 "x%" PRIu32 "-at-%" PRIu64 "-of-%" PRIu32, what, inner,
                               outer, lhs_offset, G);
    test->layout = sliding(inner, outer, false);
    test->layout.repeat.rhs_step[0] = 0;
    if (shares_rows) {
        test->layout.repeat.lhs_step[1] = 0;
    }
    test->layout.views[OPERAND_LHS].offset = lhs_offset;
    test->G = G;
}

static void add_loops_that_share(case_list *list)
{
    static const uint64_t offsets[] = {0, 16, 3};
    for (size_t k = 0; k < sizeof offsets / sizeof offsets[0]; k++) {
        add_sharing(list, "rows", 65, 1, false, offsets[k], 18);
        add_sharing(list, "columns", 33, 5, true, offsets[k], 18);
        add_sharing(list, "columns", 15, 2, true, offsets[k], 1);
        add_sharing(list, "batches", 33, 3, false, offsets[k], 18);
        add_sharing(list, "batches", 15, 2, false, offsets[k], 1);
    }
}

// --- Far apart

enum { FAR_G = 3, MOST_BYTES = 100000000 };

// Kernels read operands in ways of their own where dots enough share rhs, or go over lhs and rhs in
// two loops, and where lhs is aligned.
static const struct {
    const char *name;
    uint32_t many;  // of the loop whose step is not far
    bool is_shared, is_aligned, has_columns;
} kinds[] = {
    {"", 2, false, false, false},
    {"shared-rhs-", 11, true, false, false},
    {"aligned-shared-rhs-", 11, true, true, false},
    {"aligned-columns-", 35, false, true, true},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

// A few dots; the loop whose step is far, or the outer one, is short.
static layout far_dots(unsigned kind, bool is_outer)
{
    const uint32_t many = kinds[kind].many;
    layout layout = is_outer || kinds[kind].has_columns ? sliding(many, 3, kinds[kind].is_shared)
                                                        : sliding(3, many, kinds[kind].is_shared);
    layout.views[OPERAND_LHS].offset = kinds[kind].is_aligned ? 0 : 1;
    if (kinds[kind].has_columns) {
        layout.repeat.lhs_step[1] = 0;
        layout.repeat.rhs_step[0] = 0;
    }
    return layout;
}

static void add_far_dot(case_list *list, const char *what, unsigned kind, uint64_t far,
                        const layout *layout)
{
    test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, build_drawn, "%s%s-%" PRIu64,
                               kinds[kind].name, what, far);
    test->layout = *layout;
    test->G = FAR_G;
}

static void add_far_steps(case_list *list, unsigned kind, uint64_t far)
{
    static const char *const steps[2][OPERANDS] = {
        {"lhs-inner-step", "rhs-inner-step", "result-inner-step"},
        {"lhs-outer-step", "rhs-outer-step", "result-outer-step"},
    };
    for (unsigned outer = 0; outer < 2; outer++) {
        // Where results lie is the same to all kinds.
        unsigned end = kind == 0 ? OPERANDS : OPERAND_OUT;
        for (unsigned operand = OPERAND_LHS; operand < end; operand++) {
            layout layout = far_dots(kind, outer);
            kq_repeat *repeat = &layout.repeat;
            uint64_t *step = operand == OPERAND_LHS   ? repeat->lhs_step
                             : operand == OPERAND_RHS ? repeat->rhs_step
                                                      : repeat->result_step;
            // None that is shared, and no more than a binding holds.
            if (step[outer] == 0 || far * (repeat->count[outer] - 1) > MOST_BYTES) {
                continue;
            }
            uint64_t bytes = operand_bytes(KQ_OP_QUANTIZED_DOT, operand);
            if (step[1 - outer] != 0) {
                step[1 - outer] = operand == OPERAND_OUT ? bytes : FAR_G * bytes;
            }
            step[outer] = far;
            add_far_dot(list, steps[outer][operand], kind, far, &layout);
        }
    }
}

static void add_far_dots(case_list *list, uint64_t far)
{
    static const char *const strides[] = {"lhs-stride", "rhs-stride"};
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint64_t rounded = kinds[kind].is_aligned ? far / 16 * 16 : far;
        for (unsigned operand = OPERAND_LHS; operand <= OPERAND_RHS; operand++) {
            layout layout = far_dots(kind, false);
            layout.views[operand].stride = rounded;
            add_far_dot(list, strides[operand], kind, rounded, &layout);
        }
        add_far_steps(list, kind, rounded);
    }
}

// --- Blocks

static bool build_blocks(const case_list *list, const test_case *test, target *reference,
                         trial *trial, const char **reason)
{
    uint8_t *values = allocate(test->G, KQ_BLOCK_BYTES);
    draw_values(SEED, test->G, values);
    trial_lay_out(trial, KQ_OP_QUANTIZE, test->G, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_VALUES, 0, 0, values);
    free(values);
    return case_expect_reference(trial, reference, reason);
}

static void add_far_blocks(case_list *list, uint64_t far, uint64_t far_value)
{
    enum { BLOCKS = 3 };
    const struct {
        const char *what;
        uint64_t far;
        kq_view values, records;
    } cases[] = {
        {"values-stride", far, {.stride = far}, {0}},
        {"records-stride", far, {0}, {.stride = far}},
        {"value-stride", far_value, {.stride = 4, .value_stride = far_value}, {0}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        test_case *test = case_add(list, KQ_OP_QUANTIZE, build_blocks, "%s-%" PRIu64, cases[k].what,
                                   cases[k].far);
        test->layout.views[OPERAND_VALUES] = cases[k].values;
        test->layout.views[OPERAND_OUT] = cases[k].records;
        test->G = BLOCKS;
    }
}

// Each block has the values of the one before but its first, and a new last one.
static bool build_sliding_blocks(const case_list *list, const test_case *test, target *reference,
                                 trial *trial, const char **reason)
{
    const uint32_t drawn = test->G / KQ_BLOCK + 2;
    uint8_t *values = allocate(drawn, KQ_BLOCK_BYTES);
    draw_values(SEED, drawn, values);
    trial_lay_out(trial, KQ_OP_QUANTIZE, test->G, &test->layout, case_poison(list, test));
    memcpy(trial->before[trial->buffer_of[OPERAND_VALUES]] +
               trial->layout.views[OPERAND_VALUES].offset,
           values, 4 * ((size_t)test->G + KQ_BLOCK - 1));
    free(values);
    return case_expect_reference(trial, reference, reason);
}

static test_case *add_many_blocks(case_list *list, uint32_t G, const char *suffix)
{
    test_case *test =
        case_add(list, KQ_OP_QUANTIZE, build_sliding_blocks, "many-%" PRIu32 "%s", G, suffix);
    test->layout.views[OPERAND_VALUES].stride = 4;
    test->G = G;
    test->cut_work = CASE_CUT_WORK + (uint64_t)16 * G / 7;
    return test;
}

// --- The list

void cases_add_large(case_list *list)
{
    add_loops_that_share(list);
    add_far_dots(list, 300007);
    add_far_blocks(list, 300007, 70004);
    add_many_blocks(list, 9000, "");
    add_long(list, 2, 1, KQ_PAIRWISE_CHUNK + 1, false);
    add_long(list, 2, 1, 702, false);
    add_long(list, 33, 1, 702, true);
    // An odd number of chunks, so that backwards they make other pairs.
    add_long(list, 2, 1, 10 * KQ_PAIRWISE_CHUNK + 78, false);
    // More records than one dispatch of the sequential fold takes.
    add_long(list, 2, 1, KQ_SEQUENTIAL_STEPS + 32, false);
}

void cases_add_larger(case_list *list)
{
    add_far_dots(list, ((uint64_t)1 << 24) + 300007);
    // Further apart 256 values don't fit a binding.
    add_far_blocks(list, ((uint64_t)1 << 24) + 300007, 400004);
    // A workgroup takes 4 blocks; 65,535 workgroups are the least that Vulkan allows in x.
    add_many_blocks(list, 300000, "-at-once")->layout.work = AT_ONCE;
    add_long(list, 1, 3, KQ_SEQUENTIAL_STEPS + 2, false);
    // Three passes of the pairwise fold.
    add_long(list, 1, 1, KQ_PAIRWISE_CHUNK * KQ_PAIRWISE_CHUNK + 702, false);
    add_long(list, 2, 1, 40000, false);
    add_long(list, 3, 1, 40000, false);
    add_long(list, 2, 1, 70000, false);
    add_long(list, 1, 3, 70000, false);
    add_long(list, 33, 1, 33000, true)->layout.work = AT_ONCE;
}
