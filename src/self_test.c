#include "self_test.h"

#include "prelude.h"
#include "exact.h"
#include "records.h"
#include "primitive.h"

#include "known_answers.h"
#include "reference.h"
#include "words.h"

#include <inttypes.h>
#include <string.h>

// --- The buffer

enum {
    TEST_RECORDS = 8,
    ITEM_BYTES = 16,  // of a known answer; the result comes last
    SHARED_DOTS = 32,

    STATUS_AT = KQ_KNOWN_ANSWER_COUNT * ITEM_BYTES,
    RESULTS_AT = STATUS_AT + (int)sizeof(kq_status),
    SCRATCH_AT = RESULTS_AT + 4 * (2 + SHARED_DOTS),
    VALUES_AT = SCRATCH_AT + 4 * SHARED_DOTS,
    // Views begin inside words, as those of model files do.
    LHS_AT = VALUES_AT + TEST_RECORDS * (int)KQ_BLOCK_BYTES + 1,
    RECORDS_AT = LHS_AT + TEST_RECORDS * (int)KQ_Q4_K_BYTES + 1,
    END = RECORDS_AT + TEST_RECORDS * (int)KQ_Q8_K_BYTES,
};

_Static_assert(END <= KQ_SELF_TEST_BYTES && STATUS_AT % 4 == 0, "the self-test outgrows its bytes");

// Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

// Exponents of values are 120 to 127, those of scales 8 to 15.
static void fill_operands(unsigned char *bytes)
{
    uint64_t state = 1;
    for (unsigned i = 0; i < TEST_RECORDS * KQ_BLOCK; i++) {
        uint32_t x = (uint32_t)splitmix64(&state);
        kq_store_word(bytes + VALUES_AT + 4 * i, (x & 0x807FFFFFu) | (120u + (x >> 23 & 7u)) << 23);
    }
    state = 2;
    for (unsigned i = 0; i < TEST_RECORDS * KQ_Q4_K_BYTES / 8; i++) {
        uint64_t x = splitmix64(&state);
        uint32_t low = (uint32_t)x;
        if (i % (KQ_Q4_K_BYTES / 8) == 0) {
            low = (low & 0x9FFF9FFFu) | 0x20002000u;
        }
        kq_store_word(bytes + LHS_AT + 8 * i, low);
        kq_store_word(bytes + LHS_AT + 8 * i + 4, (uint32_t)(x >> 32));
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
    kq_store_word(bytes + STATUS_AT, preset.lowest_bad);
    memset(bytes + STATUS_AT + 4, 0, sizeof preset - 4);
    fill_operands(bytes);
}

// --- The work

static const kq_repeat shared_dots = {
    .count = {TEST_RECORDS, SHARED_DOTS / TEST_RECORDS},
    .lhs_step = {KQ_Q4_K_BYTES, 0},
    .result_step = {4, 4 * TEST_RECORDS},
};

static kq_operand operand(const kq_operand *range, unsigned at, uint32_t G)
{
    return (kq_operand){
        .buffer = range->buffer,
        .buffer_bytes = range->buffer_bytes,
        .view = {.offset = range->view.offset + at, .G = G},
    };
}

// The operations of plans 1 to 4: quantize; the dot of all records in either order; dots that share
// one of them.
static kq_operation test_operation(unsigned index, const kq_operand *range)
{
    if (index == 1) {
        return (kq_operation){
            .op = KQ_OP_QUANTIZE,
            .format = KQ_FORMAT_Q8_K,
            .operands[KQ_VALUES] = operand(range, VALUES_AT, TEST_RECORDS),
            .operands[KQ_RECORDS] = operand(range, RECORDS_AT, TEST_RECORDS),
            .operands[KQ_STATUS] = operand(range, STATUS_AT, 0),
        };
    }
    uint32_t G = index == 4 ? 1 : TEST_RECORDS;
    return (kq_operation){
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = index == 3 ? KQ_ORDER_PAIRWISE : KQ_ORDER_SEQUENTIAL,
        .repeat = index == 4 ? &shared_dots : NULL,
        .operands[KQ_LHS] = operand(range, LHS_AT, G),
        .operands[KQ_RHS] = operand(range, RECORDS_AT, G),
        .operands[KQ_RESULT] = operand(range, RESULTS_AT + 4 * (index - 2), 0),
        .operands[KQ_SCRATCH] = operand(range, SCRATCH_AT, 0),
    };
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
        kq_shape_make(&operation, NULL, &shape);
        if (operation.op == KQ_OP_QUANTIZE) {
            kq_reference_quantize(&shape, bytes, bytes, &status);
            kq_store_word(bytes + STATUS_AT + 8, status.done_count);
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
};

// Of the values and of the dots: tests/oracle.py judges these too.
static const uint64_t known_records = UINT64_C(0x75D415776DF0AB8F);  // FNV-1a of their bytes
static const uint32_t known_sequential = 0x44AED1CEu;
static const uint32_t known_pairwise = 0x44AED1CCu;
static const uint32_t known_shared[TEST_RECORDS] = {
    0xC28E5963u, 0x44352A05u, 0x4591CD49u, 0x446BDDBBu,
    0xC2CB024Eu, 0x44156DCBu, 0xC346985Bu, 0x410513EDu,
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

static kq_result judge_quantize(const unsigned char *bytes, const char **step,
                                const kq_errors *errors)
{
    uint64_t records = fnv1a(bytes + RECORDS_AT, TEST_RECORDS * KQ_Q8_K_BYTES);
    const unsigned char *status = bytes + STATUS_AT;
    const uint32_t lowest = kq_load_word(status);
    const uint32_t bad = kq_load_word(status + 4);
    const uint32_t done = kq_load_word(status + 8);
    const uint32_t zero = kq_load_word(status + 12);
    *step = "quantize";
    if (lowest != 0xFFFFFFFFu || bad != 0 || done != TEST_RECORDS || zero != 0) {
        return kq_fail(errors, KQ_ERROR_DRIVER,
                       "quantize of %d legal blocks leaves status {0x%08" PRIX32 ", %" PRIu32
                       ", %" PRIu32 ", %" PRIu32 "}, not {0xFFFFFFFF, 0, %d, 0}",
                       TEST_RECORDS, lowest, bad, done, zero, TEST_RECORDS);
    }
    return records == known_records
               ? KQ_OK
               : kq_fail(errors, KQ_ERROR_DRIVER,
                         "quantize: FNV-1a of the records is 0x%016" PRIX64 ", not 0x%016" PRIX64,
                         records, known_records);
}

static kq_result judge_dot(const unsigned char *bytes, unsigned dot, const char *name,
                           uint32_t known, const char **step, const kq_errors *errors)
{
    uint32_t got = kq_load_word(bytes + RESULTS_AT + 4 * dot);
    *step = name;
    return got == known ? KQ_OK
                        : kq_fail(errors, KQ_ERROR_DRIVER,
                                  "%s: dot %u is 0x%08" PRIX32 " on this driver, not 0x%08" PRIX32,
                                  name, dot, got, known);
}

kq_result kq_self_test_verdict(const void *bytes, const char **step, const kq_errors *errors)
{
    const char *first_wrong = NULL;
    kq_result result = judge_primitives(bytes, &first_wrong, errors);
    result = result != KQ_OK ? result : judge_quantize(bytes, &first_wrong, errors);
    result = result != KQ_OK
                 ? result
                 : judge_dot(bytes, 0, "sequential dot", known_sequential, &first_wrong, errors);
    result = result != KQ_OK
                 ? result
                 : judge_dot(bytes, 1, "pairwise dot", known_pairwise, &first_wrong, errors);
    for (unsigned i = 0; i < SHARED_DOTS && result == KQ_OK; i++) {
        result = judge_dot(bytes, 2 + i, "dots of shared records", known_shared[i % TEST_RECORDS],
                           &first_wrong, errors);
    }
    if (step != NULL) {
        *step = result != KQ_OK ? first_wrong : NULL;
    }
    return result;
}
