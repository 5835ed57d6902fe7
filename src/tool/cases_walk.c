// Every bit of a pair of records, flipped alone: what a kernel reads from another place, or not at
// all, changes no result or the wrong one.
#include "bytes.h"
#include "cases.h"

// A part of a record, whose bits a case walks.
static const struct field {
    const char *name;
    unsigned operand;
    uint32_t first, end;  // bytes
} fields[] = {
    {"d-and-dmin", OPERAND_LHS, 0, 4}, {"scales", OPERAND_LHS, 4, 16},
    {"codes", OPERAND_LHS, 16, 144},   {"ds", OPERAND_RHS, 0, 4},
    {"values", OPERAND_RHS, 4, 260},   {"bsums", OPERAND_RHS, 260, 292},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

// A pair no bit of which is without weight: no code, value, scale, minimum or sum is 0.
static void make_pair(uint8_t lhs[KQ_Q4_K_BYTES], uint8_t rhs[KQ_Q8_K_BYTES])
{
    uint64_t state = 1;
    store_u16(lhs, 0x3C00);      // d = 1
    store_u16(lhs + 2, 0x3A00);  // dmin = 0.75
    for (unsigned i = 4; i < 16; i++) {
        lhs[i] = (uint8_t)(0x55 | draw(&state));
    }
    for (unsigned i = 16; i < KQ_Q4_K_BYTES; i++) {
        lhs[i] = (uint8_t)(0x11 | draw(&state));
    }
    store_u32(rhs, 0x3F800000);  // ds = 1
    for (unsigned i = 4; i < KQ_Q8_K_BYTES; i++) {
        rhs[i] = (uint8_t)(1 | draw(&state));
    }
}

static bool build_walk(const case_list *list, const test_case *test, target *reference,
                       trial *trial, const char **reason)
{
    uint8_t lhs[KQ_Q4_K_BYTES], rhs[KQ_Q8_K_BYTES];
    make_pair(lhs, rhs);
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, 1, &test->layout, case_poison(list, test));
    const struct field *field = &fields[test->part];
    uint8_t *walked = field->operand == OPERAND_LHS ? lhs : rhs;
    trial_put(trial, OPERAND_LHS, 0, 0, lhs);
    trial_put(trial, OPERAND_RHS, 0, 0, rhs);
    for (uint32_t bit = 0; bit < 8 * (field->end - field->first); bit++) {
        uint8_t *byte = &walked[field->first + bit / 8];
        *byte ^= (uint8_t)(1 << bit % 8);
        trial_put(trial, field->operand, bit + 1, 0, walked);
        *byte ^= (uint8_t)(1 << bit % 8);
    }
    return case_expect_reference(trial, reference, reason);
}

void cases_add_walks(case_list *list)
{
    for (unsigned k = 0; k < FIELDS; k++) {
        test_case *test =
            case_add(list, KQ_OP_QUANTIZED_DOT, build_walk, "walk-%s", fields[k].name);
        // Dot 0 has no bit flipped.
        uint32_t dots = 1 + 8 * (fields[k].end - fields[k].first);
        test->part = k;
        test->layout = (layout){
            .has_repeat = true,
            .repeat = {.count = {dots, 1}, .result_step = {4, 4 * (uint64_t)dots}},
        };
        if (fields[k].operand == OPERAND_LHS) {
            test->layout.repeat.lhs_step[0] = KQ_Q4_K_BYTES;
        } else {
            test->layout.repeat.rhs_step[0] = KQ_Q8_K_BYTES;
        }
        test->cut_work = CASE_CUT_WORK + dots / 10;
    }
}
