#include "self_test.h"

#include "prelude.h"
#include "exact.h"
#include "records.h"
#include "primitive.h"

#include "known_answers.h"
#include "reference.h"
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- The buffer

enum {
    ITEM_BYTES = 16,  // of a known answer; the result comes last

    // Blocks slide over values that lie apart: each takes every fourth, and begins at the next byte
    // of a word. The last value of the last block is a NaN, which no other block has.
    BLOCKS = 10,
    SPACING = 5,
    VALUE_STRIDE = 4 * SPACING,
    BLOCK_STRIDE = 5 * SPACING,
    VALUES = (BLOCKS - 1) * 5 + ((int)KQ_BLOCK - 1) * 4 + 1,
    RECORD_STRIDE = KQ_Q8_K_BYTES + 1,
    LEVEL_BLOCKS = 6,  // of one value each
    // Blocks slide by 16 bytes over the first of these values side by side, of which the last is
    // that NaN again.
    PACKED_BLOCKS = 4,
    PACKED_STRIDE = 16,
    PACKED_VALUES = (PACKED_BLOCKS - 1) * PACKED_STRIDE / 4 + (int)KQ_BLOCK,
    LHS_BYTES = 6 * (int)KQ_Q4_K_BYTES,

    // Known answers are records of lhs too, with their number, a subnormal, for d, and 0 for dmin.
    TINY_LHS_AT = 30 * ITEM_BYTES,
    LHS_AT = KQ_KNOWN_ANSWER_COUNT * ITEM_BYTES,
    STATUS_AT = LHS_AT + LHS_BYTES,
    LEVEL_STATUS_AT = STATUS_AT + (int)sizeof(kq_status),
    PACKED_STATUS_AT = LEVEL_STATUS_AT + (int)sizeof(kq_status),
    RESULTS_AT = PACKED_STATUS_AT + (int)sizeof(kq_status),
    RESULTS_BYTES = 8 + 16 + 64 + 96 + 64 + 292 + 284 + 128 + 128 + 280 + 1320,
    RECORDS_AT = RESULTS_AT + RESULTS_BYTES,
    FIRST_RECORD_AT = RECORDS_AT + 3,
    RECORDS_BYTES = 3 + (BLOCKS - 1) * RECORD_STRIDE + (int)KQ_Q8_K_BYTES,
    LEVEL_RECORDS_AT = RECORDS_AT + RECORDS_BYTES,
    TINY_RECORD_AT = LEVEL_RECORDS_AT,
    HUGE_RECORD_AT = LEVEL_RECORDS_AT + (int)KQ_Q8_K_BYTES,
    LEVEL_RECORDS_BYTES = LEVEL_BLOCKS * (int)KQ_Q8_K_BYTES,
    LEVELS_AT = LEVEL_RECORDS_AT + LEVEL_RECORDS_BYTES,
    VALUES_AT = LEVELS_AT + 4 * LEVEL_BLOCKS,
    SCRATCH_AT = VALUES_AT,  // the dots need the values no more
    PACKED_AT = (VALUES_AT + SPACING * VALUES + 15) / 16 * 16,
    PACKED_RECORDS_AT = PACKED_AT + 4 * PACKED_VALUES,
    PACKED_RECORDS_BYTES = PACKED_BLOCKS * (int)KQ_Q8_K_BYTES,
    END = PACKED_RECORDS_AT + PACKED_RECORDS_BYTES,
};

_Static_assert(END <= KQ_SELF_TEST_BYTES && STATUS_AT % 4 == 0 && RESULTS_BYTES % 4 == 0 &&
                   RECORDS_BYTES % 4 == 0 && SCRATCH_AT % 4 == 0,
               "the self-test outgrows its bytes");

// The smallest magnitude with a record and the largest; zero; then what has none: two subnormals
// and infinity.
static const uint32_t levels[LEVEL_BLOCKS] = {0x02FE0001u, 0xFF7FFFFFu, 0x80000000u,
                                              0x8000C001u, 0x00000081u, 0x7F800000u};

// Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

// Exponents of values are 120 to 127, and 0 to 7 in every fourth block. With this seed some scaled
// values lie right beside a half, and some quotients are rounded by what remains of them. No two
// bytes of lhs are an f16 that is infinite or NaN, so a record may start at any of them.
static void fill_operands(unsigned char *bytes)
{
    uint64_t state = 30;
    for (unsigned i = 0; i < VALUES; i++) {
        uint32_t x = (uint32_t)splitmix64(&state);
        x = (x & 0x807FFFFFu) | ((i % 4 == 3 ? 0 : 120u) + (x >> 23 & 7u)) << 23;
        kq_store_word(bytes + VALUES_AT + SPACING * i, i < VALUES - 1 ? x : 0x7F800001u);
        if (i < PACKED_VALUES) {
            kq_store_word(bytes + PACKED_AT + 4 * i, i < PACKED_VALUES - 1 ? x : 0x7F800001u);
        }
    }
    for (unsigned i = 0; i < LEVEL_BLOCKS; i++) {
        kq_store_word(bytes + LEVELS_AT + 4 * i, levels[i]);
    }
    state = 2;
    for (unsigned i = 0; i < LHS_BYTES; i += 8) {
        uint64_t x = splitmix64(&state);
        for (unsigned k = 0; k < 8; k++) {
            unsigned char byte = (unsigned char)(x >> 8 * k);
            bytes[LHS_AT + i + k] = (byte & 0x7C) == 0x7C ? byte ^ 0x40 : byte;
        }
    }
}

void kq_self_test_input(void *out)
{
    const kq_status preset = KQ_STATUS_PRESET;
    unsigned char *bytes = out;
    memset(bytes, 0xA5, KQ_SELF_TEST_BYTES);  // no answer is 0xA5A5A5A5
    for (unsigned i = 0; i < KQ_KNOWN_ANSWER_COUNT; i++) {
        for (unsigned k = 0; k < 3; k++) {
            kq_store_word(bytes + ITEM_BYTES * i + 4 * k, kq_known_answers[i][k]);
        }
    }
    for (unsigned at = STATUS_AT; at < RESULTS_AT; at += sizeof preset) {
        kq_store_word(bytes + at, preset.lowest_bad);
        memset(bytes + at + 4, 0, sizeof preset - 4);
    }
    fill_operands(bytes);
}

// --- The work

// tests/oracle.py judges what is known here.
typedef struct quantize_test {
    kq_self_test_output output;
    uint32_t G;
    unsigned values_at, records_at, status_at;
    uint64_t stride, value_stride, record_stride;
    kq_status known_status;
} quantize_test;

static const quantize_test quantize_tests[] = {
    {
        .output = {"quantize", RECORDS_AT, RECORDS_BYTES, UINT64_C(0x57EC3C83AB20CEF7)},
        .G = BLOCKS,
        .values_at = VALUES_AT,
        .records_at = FIRST_RECORD_AT,
        .status_at = STATUS_AT,
        .stride = BLOCK_STRIDE,
        .value_stride = VALUE_STRIDE,
        .record_stride = RECORD_STRIDE,
        .known_status = {9, 1, 10, 0},
    },
    {
        .output = {"quantize", LEVEL_RECORDS_AT, LEVEL_RECORDS_BYTES, UINT64_C(0x827B0AC5672379BF)},
        .G = LEVEL_BLOCKS,
        .values_at = LEVELS_AT,
        .records_at = LEVEL_RECORDS_AT,
        .status_at = LEVEL_STATUS_AT,
        .stride = 4,
        .value_stride = KQ_BROADCAST,
        .record_stride = KQ_Q8_K_BYTES,
        .known_status = {3, 3, 6, 0},
    },
    {
        .output = {"quantize", PACKED_RECORDS_AT, PACKED_RECORDS_BYTES,
                   UINT64_C(0x4D69BDA3E43A4F16)},
        .G = PACKED_BLOCKS,
        .values_at = PACKED_AT,
        .records_at = PACKED_RECORDS_AT,
        .status_at = PACKED_STATUS_AT,
        .stride = PACKED_STRIDE,
        .value_stride = 4,
        .record_stride = KQ_Q8_K_BYTES,
        .known_status = {3, 1, 4, 0},
    },
};

// Results begin `skip` bytes into the output; what lies between them stays as it is. The first two
// repeats meet the record of the block that has none; others have subnormal terms, and infinite
// ones. Chunks of the pairwise fold and workgroups of every kernel are several, and the last ones
// are not full. Some of lhs lie at multiples of 16 bytes, for which there are variants.
typedef struct dot_test {
    kq_self_test_output output;
    unsigned skip;
    kq_order order;
    uint32_t G;
    unsigned lhs_at, rhs_at;
    uint64_t lhs_stride, rhs_stride;
    kq_repeat repeat;
} dot_test;

static const dot_test dot_tests[] = {
    {
        .output = {"sequential dot", RESULTS_AT, 8, UINT64_C(0x884AD67053C2308B)},
        .skip = 1,
        .order = KQ_ORDER_SEQUENTIAL,
        .G = 6,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = KQ_Q4_K_BYTES,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {.count = {1, 1}},
    },
    {
        .output = {"pairwise dot", RESULTS_AT + 8, 16, UINT64_C(0x35C4E1A67293E3BD)},
        .skip = 3,
        .order = KQ_ORDER_PAIRWISE,
        .G = 601,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = 1,
        .rhs_stride = KQ_BROADCAST,
        .repeat = {{2, 1}, {31, 0}, {RECORD_STRIDE, 0}, {5, 0}},
    },
    {
        .output = {"repeat of dots", RESULTS_AT + 24, 64, UINT64_C(0x8F9175D7F90E5B05)},
        .skip = 0,
        .order = KQ_ORDER_SEQUENTIAL,
        .G = 3,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = 147,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {{4, 3}, {7, 31}, {RECORD_STRIDE, 2 * RECORD_STRIDE}, {5, 22}},
    },
    {
        .output = {"repeat of dots", RESULTS_AT + 88, 96, UINT64_C(0x38B95E00FC506A2D)},
        .skip = 2,
        .order = KQ_ORDER_PAIRWISE,
        .G = 3,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = 150,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {{6, 2}, {31, 7}, {RECORD_STRIDE, 2 * RECORD_STRIDE}, {17, 5}},
    },
    {
        .output = {"repeat of dots", RESULTS_AT + 184, 64, UINT64_C(0x54D14D267CB3B1A4)},
        .skip = 0,
        .order = KQ_ORDER_SEQUENTIAL,
        .G = 2,
        .lhs_at = TINY_LHS_AT,
        .rhs_at = TINY_RECORD_AT,
        .lhs_stride = ITEM_BYTES,
        .rhs_stride = KQ_BROADCAST,
        .repeat = {{8, 2}, {5 * ITEM_BYTES, LHS_AT - TINY_LHS_AT}, {0, KQ_Q8_K_BYTES}, {4, 32}},
    },
    {
        .output = {"dots of shared records", RESULTS_AT + 248, 292, UINT64_C(0xC9AECA5CA8DCBFAB)},
        .skip = 1,
        .order = KQ_ORDER_SEQUENTIAL,
        .G = 5,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = KQ_Q4_K_BYTES,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {{10, 7}, {1, 13}, {0, 0}, {4, 41}},
    },
    {
        .output = {"dots of shared records", RESULTS_AT + 540, 284, UINT64_C(0x619AE2FC3AC102BD)},
        .skip = 2,
        .order = KQ_ORDER_PAIRWISE,
        .G = 5,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = KQ_Q4_K_BYTES,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {{10, 7}, {13, 1}, {0, 0}, {28, 4}},
    },
    {
        .output = {"dots of shared records", RESULTS_AT + 824, 128, UINT64_C(0x947D658A96ECA918)},
        .skip = 0,
        .order = KQ_ORDER_PAIRWISE,
        .G = 2,
        .lhs_at = TINY_LHS_AT,
        .rhs_at = TINY_RECORD_AT,
        .lhs_stride = ITEM_BYTES,
        .rhs_stride = KQ_BROADCAST,
        .repeat = {{16, 2}, {3 * ITEM_BYTES, 64 * ITEM_BYTES}, {0, 0}, {4, 64}},
    },
    {
        .output = {"dots of shared records", RESULTS_AT + 952, 128, UINT64_C(0xFD412EF187EAE5E5)},
        .skip = 0,
        .order = KQ_ORDER_PAIRWISE,
        .G = 2,
        .lhs_at = LHS_AT,
        .rhs_at = HUGE_RECORD_AT,
        .lhs_stride = 1,
        .rhs_stride = KQ_BROADCAST,
        .repeat = {{16, 2}, {3, 400}, {0, 0}, {4, 64}},
    },
    {
        .output = {"dots of shared records", RESULTS_AT + 1080, 280, UINT64_C(0x0E298317B9E226EA)},
        .skip = 0,
        .order = KQ_ORDER_SEQUENTIAL,
        .G = 5,
        .lhs_at = LHS_AT,
        .rhs_at = FIRST_RECORD_AT,
        .lhs_stride = ITEM_BYTES,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {{10, 7}, {ITEM_BYTES, 5 * ITEM_BYTES}, {0, 0}, {4, 40}},
    },
    {
        .output = {"columns of dots", RESULTS_AT + 1360, 1320, UINT64_C(0x4A4DAE45372E700D)},
        .skip = 0,
        .order = KQ_ORDER_SEQUENTIAL,
        .G = 2,
        .lhs_at = LHS_AT - 24 * ITEM_BYTES,
        .rhs_at = FIRST_RECORD_AT + 4 * RECORD_STRIDE,
        .lhs_stride = 2 * ITEM_BYTES,
        .rhs_stride = RECORD_STRIDE,
        .repeat = {{66, 5}, {ITEM_BYTES, 0}, {0, RECORD_STRIDE}, {4, 264}},
    },
};

enum {
    QUANTIZE_TESTS = sizeof quantize_tests / sizeof *quantize_tests,
    DOT_TESTS = sizeof dot_tests / sizeof *dot_tests,
};

_Static_assert(KQ_SELF_TEST_PLANS == 1 + QUANTIZE_TESTS + DOT_TESTS, "a plan for each test");

static kq_operand operand(const kq_operand *range, unsigned at, kq_view view)
{
    view.offset = range->view.offset + at;
    return (kq_operand){range->buffer, range->buffer_bytes, view};
}

static kq_operation test_operation(unsigned index, const kq_operand *range)
{
    const kq_view none = {0};
    if (index <= QUANTIZE_TESTS) {
        const quantize_test *t = &quantize_tests[index - 1];
        const kq_view values = {.stride = t->stride, .value_stride = t->value_stride, .G = t->G};
        const kq_view records = {.stride = t->record_stride, .G = t->G};
        return (kq_operation){
            .op = KQ_OP_QUANTIZE,
            .format = KQ_FORMAT_Q8_K,
            .operands[KQ_VALUES] = operand(range, t->values_at, values),
            .operands[KQ_RECORDS] = operand(range, t->records_at, records),
            .operands[KQ_STATUS] = operand(range, t->status_at, none),
        };
    }
    const dot_test *t = &dot_tests[index - 1 - QUANTIZE_TESTS];
    const kq_view lhs = {.stride = t->lhs_stride, .G = t->G};
    const kq_view rhs = {.stride = t->rhs_stride, .G = t->G};
    return (kq_operation){
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = t->order,
        .repeat = &t->repeat,
        .operands[KQ_LHS] = operand(range, t->lhs_at, lhs),
        .operands[KQ_RHS] = operand(range, t->rhs_at, rhs),
        .operands[KQ_RESULT] = operand(range, t->output.at + t->skip, none),
        .operands[KQ_SCRATCH] = operand(range, SCRATCH_AT, none),
    };
}

const kq_self_test_output *kq_self_test_output_of(unsigned index)
{
    return index <= QUANTIZE_TESTS ? &quantize_tests[index - 1].output
                                   : &dot_tests[index - 1 - QUANTIZE_TESTS].output;
}

kq_result kq_self_test_check(uint32_t ops, const kq_operand *range, uint32_t alignment,
                             const kq_errors *errors)
{
    uint64_t offset = range->view.offset;
    kq_result result = kq_check_op(KQ_OP_SELF_TEST, ops, errors);
    result = result != KQ_OK ? result : kq_check_op(KQ_OP_QUANTIZE, ops, errors);
    result = result != KQ_OK ? result : kq_check_op(KQ_OP_QUANTIZED_DOT, ops, errors);
    if (result != KQ_OK) {
        return result;
    }
    if (range->buffer == 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT, "range.buffer is null");
    }
    if (offset % alignment != 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT,
                       "range begins at byte %" PRIu64 "; it must be a multiple of %" PRIu32,
                       offset, alignment);
    }
    if (offset > range->buffer_bytes || range->buffer_bytes - offset < KQ_SELF_TEST_BYTES) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT,
                       "range begins at byte %" PRIu64 " and is KQ_SELF_TEST_BYTES, %u, long; it "
                       "ends past its buffer's end at %" PRIu64,
                       offset, KQ_SELF_TEST_BYTES, range->buffer_bytes);
    }
    return KQ_OK;
}

kq_result kq_self_test_plan(unsigned index, const kq_operand *range, const kq_limits *limits,
                            const kq_errors *errors, kq_plan *plan)
{
    if (index == 0) {
        kq_plan_primitives(KQ_KNOWN_ANSWER_COUNT, range->view.offset, limits, plan);
        return KQ_OK;
    }
    kq_operation operation = test_operation(index, range);
    kq_result result = kq_plan_make(&operation, true, limits, errors, plan);
    return result != KQ_OK ? result : kq_plan_fit(plan, errors);
}

void kq_reference_primitives(unsigned char *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        unsigned char *item = items + (size_t)ITEM_BYTES * i;
        kq_store_word(item + 12, kq_primitive(kq_load_word(item), kq_load_word(item + 4),
                                              kq_load_word(item + 8)));
    }
}

void kq_self_test_reference(unsigned char *bytes)
{
    const kq_operand range = {.buffer = 1, .buffer_bytes = KQ_SELF_TEST_BYTES};
    kq_reference_primitives(bytes, KQ_KNOWN_ANSWER_COUNT);
    for (unsigned i = 1; i < KQ_SELF_TEST_PLANS; i++) {
        const kq_operation operation = test_operation(i, &range);
        kq_status status = KQ_STATUS_PRESET;
        kq_shape shape;
        if (kq_shape_make(&operation, NULL, &shape) != KQ_OK) {
            return;
        }
        if (operation.op == KQ_OP_QUANTIZE) {
            kq_reference_quantize(&shape, bytes, bytes, &status);
            unsigned char *out = bytes + quantize_tests[i - 1].status_at;
            kq_store_word(out, status.lowest_bad);
            kq_store_word(out + 4, status.bad_count);
            kq_store_word(out + 8, status.done_count);
        } else {
            kq_reference_dot(&shape, operation.order, bytes, bytes, bytes);
        }
    }
}

// --- The verdict

static const char *const primitive_names[KQ_PRIMITIVE_COUNT + 1] = {
    [KQ_PRIMITIVE_F16_TO_F32] = "f16 to f32",
    [KQ_PRIMITIVE_I32_TO_F32] = "i32 to f32",
    [KQ_PRIMITIVE_F32_MULTIPLY] = "f32 multiply",
    [KQ_PRIMITIVE_F32_ADD] = "f32 add",
    [KQ_PRIMITIVE_F32_SUBTRACT] = "f32 subtract",
    [KQ_PRIMITIVE_F32_DIVIDE] = "f32 divide",
    [KQ_PRIMITIVE_F32_TO_I8] = "f32 to i8",
    [KQ_PRIMITIVE_FIELDS_LOW] = "low fields of Q4_K",
    [KQ_PRIMITIVE_FIELDS_HIGH] = "high fields of Q4_K",
    [KQ_PRIMITIVE_DOT4] = "dot of four codes",
    [KQ_PRIMITIVE_SUM_I16X2] = "sum of two i16",
    [KQ_PRIMITIVE_EXTREME_KEY] = "key of an extreme",
    [KQ_PRIMITIVE_U32_DIVIDE] = "u32 divide",
};

static uint64_t fnv1a(const unsigned char *bytes, size_t count)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

static kq_result judge_primitives(const unsigned char *bytes, const char **step,
                                  const kq_errors *errors)
{
    for (unsigned i = 0; i < KQ_KNOWN_ANSWER_COUNT; i++) {
        const uint32_t *known = kq_known_answers[i];
        uint32_t got = kq_load_word(bytes + ITEM_BYTES * i + 12);
        if (got == known[3]) {
            continue;
        }
        unsigned asked = 0;
        unsigned wrong = 0;
        for (unsigned k = 0; k < KQ_KNOWN_ANSWER_COUNT; k++) {
            bool is_same = kq_known_answers[k][0] == known[0];
            asked += is_same;
            wrong += is_same && kq_load_word(bytes + ITEM_BYTES * k + 12) != kq_known_answers[k][3];
        }
        *step = primitive_names[known[0]];
        return kq_fail(errors, KQ_ERROR_DRIVER,
                       "%s of 0x%08" PRIX32 ", 0x%08" PRIX32 " is 0x%08" PRIX32
                       " on this driver, not 0x%08" PRIX32 "; %u of its %u known answers are wrong",
                       *step, known[1], known[2], got, known[3], wrong, asked);
    }
    return KQ_OK;
}

// The bytes of an output, which are the records or the results.
static kq_result judge_output(const kq_self_test_output *output, const unsigned char *bytes,
                              const char *asked, const kq_errors *errors)
{
    uint64_t got = fnv1a(bytes + output->at, output->bytes);
    return got == output->known
               ? KQ_OK
               : kq_fail(errors, KQ_ERROR_DRIVER,
                         "%s%s: FNV-1a of what it wrote is 0x%016" PRIX64 ", not 0x%016" PRIX64,
                         output->step, asked, got, output->known);
}

static kq_result judge_quantize(const quantize_test *t, const unsigned char *bytes,
                                const kq_errors *errors)
{
    const kq_status *known = &t->known_status;
    const uint32_t lowest = kq_load_word(bytes + t->status_at);
    const uint32_t bad = kq_load_word(bytes + t->status_at + 4);
    const uint32_t done = kq_load_word(bytes + t->status_at + 8);
    const uint32_t zero = kq_load_word(bytes + t->status_at + 12);
    char asked[64];
    if (lowest != known->lowest_bad || bad != known->bad_count || done != known->done_count ||
        zero != known->zero) {
        return kq_fail(errors, KQ_ERROR_DRIVER,
                       "%s of %" PRIu32 " blocks leaves status {0x%08" PRIX32 ", %" PRIu32
                       ", %" PRIu32 ", %" PRIu32 "}, not {0x%08" PRIX32 ", %" PRIu32 ", %" PRIu32
                       ", %" PRIu32 "}",
                       t->output.step, t->G, lowest, bad, done, zero, known->lowest_bad,
                       known->bad_count, known->done_count, known->zero);
    }
    snprintf(asked, sizeof asked, " of %" PRIu32 " blocks", t->G);
    return judge_output(&t->output, bytes, asked, errors);
}

static kq_result judge_dots(const dot_test *t, const unsigned char *bytes, const kq_errors *errors)
{
    char asked[64];
    snprintf(asked, sizeof asked, ", %" PRIu32 " x %" PRIu32 " of G = %" PRIu32 "%s",
             t->repeat.count[0], t->repeat.count[1], t->G,
             t->order == KQ_ORDER_PAIRWISE ? " in pairwise order" : "");
    return judge_output(&t->output, bytes, asked, errors);
}

kq_result kq_self_test_verdict(const void *bytes, const char **step, const kq_errors *errors)
{
    const char *first_wrong = NULL;
    kq_result result = judge_primitives(bytes, &first_wrong, errors);
    for (unsigned i = 0; i < QUANTIZE_TESTS && result == KQ_OK; i++) {
        first_wrong = quantize_tests[i].output.step;
        result = judge_quantize(&quantize_tests[i], bytes, errors);
    }
    for (unsigned i = 0; i < DOT_TESTS && result == KQ_OK; i++) {
        first_wrong = dot_tests[i].output.step;
        result = judge_dots(&dot_tests[i], bytes, errors);
    }
    if (step != NULL) {
        *step = result != KQ_OK ? first_wrong : NULL;
    }
    return result;
}
