// One recording of an operation over and over, on one device and on two at once.
#include "bytes.h"
#include "cases.h"
#include "draws.h"

#include <inttypes.h>

enum { SEED = 1, BLOCKS = 16, DOTS = 64, RECORDS = 16 };
enum { ORDINARY = 3 };  // of draw_rhs

static bool build_quantize(const case_list *list, const test_case *test, target *reference,
                           trial *trial, const char **reason)
{
    uint8_t values[BLOCKS * KQ_BLOCK_BYTES];
    draw_values(SEED, BLOCKS, values);
    trial_lay_out(trial, KQ_OP_QUANTIZE, BLOCKS, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_VALUES, 0, 0, values);
    return case_expect_reference(trial, reference, reason);
}

static bool build_dots(const case_list *list, const test_case *test, target *reference,
                       trial *trial, const char **reason)
{
    uint8_t lhs[RECORDS * KQ_Q4_K_BYTES], rhs[RECORDS * KQ_Q8_K_BYTES];
    uint64_t state = SEED;
    for (unsigned g = 0; g < RECORDS; g++) {
        draw_rhs(&state, ORDINARY, rhs + g * KQ_Q8_K_BYTES);
    }
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, RECORDS, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_RHS, 0, 0, rhs);
    for (uint32_t i = 0; i < DOTS; i++) {
        draw_q4_k(SEED + i, RECORDS, lhs);
        trial_put(trial, OPERAND_LHS, i, 0, lhs);
    }
    return case_expect_reference(trial, reference, reason);
}

static void add(case_list *list, kq_op op, uint32_t runs, bool has_twin)
{
    bool is_dot = op == KQ_OP_QUANTIZED_DOT;
    test_case *test = case_add(list, op, is_dot ? build_dots : build_quantize,
                               "replay-%" PRIu32 "%s", runs, has_twin ? "-in-2-threads" : "");
    test->runs = runs;
    test->has_twin = has_twin;
    if (is_dot) {
        test->layout.has_repeat = true;
        test->layout.repeat = (kq_repeat){
            .count = {DOTS, 1},
            .lhs_step = {RECORDS * KQ_Q4_K_BYTES},
            .result_step = {4, 4 * DOTS},
        };
    }
}

void cases_add_replays(case_list *list, uint32_t runs, uint32_t runs_of_twins)
{
    for (kq_op op = KQ_OP_QUANTIZE; op <= KQ_OP_QUANTIZED_DOT; op++) {
        add(list, op, runs, false);
        add(list, op, runs_of_twins, true);
    }
}
