// Every bit of a pair of records, flipped alone, and every place of a block, alone bad or extreme:
// what a kernel reads from another place, or not at all, changes no result or the wrong one.
#include "bytes.h"
#include "cases.h"

#include <stdlib.h>

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

// What makes a block bad; the second goes through it backwards, and so on by turns.
static const struct {
    const char *name;
    uint32_t bits;
} bad_values[] = {
    {"nan", 0x7FC00000},
    {"nan-payload", 0xFF800001},
    {"infinity", 0x7F800000},
    {"negative-infinity", 0xFF800000},
};

enum { BAD_VALUES = sizeof bad_values / sizeof bad_values[0] };

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

// --- Blocks

// Block k has that value where every other block has one near 1.
static void make_blocks(uint8_t blocks[KQ_BLOCK * KQ_BLOCK_BYTES], uint32_t value, bool is_backward)
{
    for (uint32_t k = 0; k < KQ_BLOCK; k++) {
        uint8_t *block = blocks + (size_t)k * KQ_BLOCK_BYTES;
        uint64_t state = k;
        for (unsigned i = 0; i < KQ_BLOCK; i++) {
            store_u32(block + (size_t)4 * i, 0x3F000000 | ((uint32_t)draw(&state) & 0x80FFFFFF));
        }
        store_u32(block + (size_t)4 * (is_backward ? KQ_BLOCK - 1 - k : k), value);
    }
}

// The reference must have none of these records, so it isn't asked.
static bool build_bad(const case_list *list, const test_case *test, target *reference, trial *trial,
                      const char **reason)
{
    (void)reference;
    (void)reason;
    uint32_t value = bad_values[test->part].bits;
    bool is_backward = test->part % 2 == 1;
    uint8_t *blocks = allocate(KQ_BLOCK, KQ_BLOCK_BYTES);
    uint8_t *records = allocate(KQ_BLOCK, KQ_Q8_K_BYTES);
    make_blocks(blocks, value, is_backward);
    memset(records, 0, KQ_BLOCK * KQ_Q8_K_BYTES);
    for (size_t k = 0; k < KQ_BLOCK; k++) {
        store_u32(records + k * KQ_Q8_K_BYTES, 0x7FC00000);
    }
    trial_lay_out(trial, KQ_OP_QUANTIZE, KQ_BLOCK, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_VALUES, 0, 0, blocks);
    trial_expect_nothing(trial);
    trial_expect_records(trial, records);
    trial->result = KQ_ERROR_DOMAIN;
    trial->domain = (kq_domain){
        .reason = KQ_REASON_NONFINITE_INPUT,
        .element = is_backward ? KQ_BLOCK - 1 : 0,
        .bad_count = KQ_BLOCK,
    };
    trial_poison_outputs(trial);
    free(blocks);
    free(records);
    return true;
}

static bool build_extreme(const case_list *list, const test_case *test, target *reference,
                          trial *trial, const char **reason)
{
    uint8_t *blocks = allocate(KQ_BLOCK, KQ_BLOCK_BYTES);
    make_blocks(blocks, 0xC0490FDB, false);
    trial_lay_out(trial, KQ_OP_QUANTIZE, KQ_BLOCK, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_VALUES, 0, 0, blocks);
    free(blocks);
    return case_expect_reference(trial, reference, reason);
}

void cases_add_walks(case_list *list)
{
    for (unsigned k = 0; k < BAD_VALUES; k++) {
        case_add(list, KQ_OP_QUANTIZE, build_bad, "walk-%s", bad_values[k].name)->part = k;
    }
    case_add(list, KQ_OP_QUANTIZE, build_extreme, "walk-extreme");
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
