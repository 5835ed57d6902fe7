// The self-test's data and verdict: right work is trusted, and each wrong byte is told from all
// others, by the step it belongs to.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "known_answers.h"
#include "self_test.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// In the order of the verdict. The first thirteen are primitives, by number - 1.
static const char *const steps[] = {
    "f16 to f32",        "i32 to f32",         "f32 multiply",
    "f32 add",           "f32 subtract",       "f32 divide",
    "f32 to i8",         "low fields of Q4_K", "high fields of Q4_K",
    "dot of four codes", "sum of two i16",     "key of an extreme",
    "u32 divide",        "quantize",           "sequential dot",
    "pairwise dot",      "repeat of dots",     "dots of shared records",
    "columns of dots",
};

enum {
    STEPS = sizeof steps / sizeof *steps,
    PRIMITIVES = 13,
    QUANTIZE = 13,
    SEQUENTIAL = 14,
    NO_STEP = -1,
    // Items of a primitive, a and b, whose result comes last; and behind lhs what three
    // quantize leave.
    ITEMS_END = 16 * KQ_KNOWN_ANSWER_COUNT,
    STATUS_AT = ITEMS_END + 864,
    STATUS_END = STATUS_AT + 3 * sizeof(kq_status),
};

static unsigned char input[KQ_SELF_TEST_BYTES];
static unsigned char done[KQ_SELF_TEST_BYTES];  // right work

static int open_buffers(void **state)
{
    (void)state;
    kq_self_test_input(input);
    memcpy(done, input, sizeof done);
    kq_self_test_reference(done);
    return 0;
}

static int step_by_name(const char *name)
{
    for (int step = 0; step < STEPS; step++) {
        if (strcmp(steps[step], name) == 0) {
            return step;
        }
    }
    fail_msg("no step has the name %s", name);
    return NO_STEP;
}

// The step whose output a byte is.
static int step_of(size_t at)
{
    if (at < ITEMS_END) {
        return at % 16 >= 12 ? (int)kq_known_answers[at / 16][0] - 1 : NO_STEP;
    }
    if (at >= STATUS_AT && at < STATUS_END) {
        return QUANTIZE;
    }
    for (unsigned i = 1; i < KQ_SELF_TEST_PLANS; i++) {
        const kq_self_test_output *output = kq_self_test_output_of(i);
        if (at >= output->at && at - output->at < output->bytes) {
            return step_by_name(output->step);
        }
    }
    return NO_STEP;
}

// What the verdict says of bytes, in all its ways.
static void check_verdict(const unsigned char *bytes, int expected, report *said)
{
    const kq_errors errors = report_errors(said);
    const kq_result result = expected == NO_STEP ? KQ_OK : KQ_ERROR_DRIVER;
    const char *step = "none";
    memset(said, 0, sizeof *said);
    assert_int_equal(kq_self_test_verdict(bytes, &step, &errors), result);
    assert_int_equal(said->count, expected != NO_STEP);
    if (expected == NO_STEP) {
        assert_null(step);
        return;
    }
    assert_non_null(step);
    assert_string_equal(step, steps[expected]);
    assert_int_equal(said->result, KQ_ERROR_DRIVER);
    assert_ptr_equal(strstr(said->reason, step), said->reason);  // the report begins with it
    // Neither is needed.
    assert_int_equal(kq_self_test_verdict(bytes, NULL, NULL), result);
    assert_int_equal(kq_self_test_verdict(bytes, NULL, &(kq_errors){0}), result);
    step = "none";
    assert_int_equal(kq_self_test_verdict(bytes, &step, NULL), result);
    assert_string_equal(step, steps[expected]);
}

static void test_right_work(void **state)
{
    (void)state;
    report said;
    check_verdict(done, NO_STEP, &said);
    assert_int_equal(kq_self_test_verdict(done, NULL, NULL), KQ_OK);
    // Once more gives the same, but for the statuses, which count on.
    unsigned char again[KQ_SELF_TEST_BYTES];
    memcpy(again, done, sizeof again);
    memcpy(again + STATUS_AT, input + STATUS_AT, STATUS_END - STATUS_AT);
    kq_self_test_reference(again);
    assert_memory_equal(again, done, sizeof done);
}

// The input has its size, is the same each time and holds no answer.
static void test_input(void **state)
{
    (void)state;
    unsigned char bytes[1 + KQ_SELF_TEST_BYTES + 1];
    memset(bytes, 0x5A, sizeof bytes);
    kq_self_test_input(bytes + 1);
    assert_int_equal(bytes[0], 0x5A);
    assert_int_equal(bytes[sizeof bytes - 1], 0x5A);
    assert_memory_equal(bytes + 1, input, sizeof input);
    for (size_t i = 0; i < KQ_KNOWN_ANSWER_COUNT; i++) {
        assert_int_not_equal(load_u32(input + 16 * i + 12), kq_known_answers[i][3]);
    }
    for (unsigned i = 1; i < KQ_SELF_TEST_PLANS; i++) {
        const kq_self_test_output *output = kq_self_test_output_of(i);
        for (uint32_t k = 0; k < output->bytes; k++) {
            assert_int_equal(input[output->at + k], 0xA5);
        }
        assert_true(fnv1a64(input + output->at, output->bytes) != output->known);
        assert_true(fnv1a64(done + output->at, output->bytes) == output->known);
    }
}

// A driver that does nothing, in memory as it was or cleared, or only the first of the commands.
static void test_no_work(void **state)
{
    (void)state;
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    report said;
    check_verdict(input, 0, &said);
    check_verdict(bytes, 0, &said);
    memset(bytes, 0xFF, sizeof bytes);
    check_verdict(bytes, 0, &said);
    memcpy(bytes, input, sizeof bytes);
    memcpy(bytes, done, ITEMS_END);
    check_verdict(bytes, QUANTIZE, &said);
    memcpy(bytes, done, STATUS_END);
    for (unsigned i = 1; i < KQ_SELF_TEST_PLANS; i++) {
        const kq_self_test_output *output = kq_self_test_output_of(i);
        check_verdict(bytes, step_by_name(output->step), &said);
        memcpy(bytes + output->at, done + output->at, output->bytes);
    }
    check_verdict(bytes, NO_STEP, &said);
}

// Each byte alone, in one bit; of what the steps wrote in every bit.
static void test_each_byte(void **state)
{
    (void)state;
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    unsigned counted[STEPS] = {0};
    report said;
    memcpy(bytes, done, sizeof bytes);
    for (size_t at = 0; at < sizeof bytes; at++) {
        int step = step_of(at);
        for (unsigned bit = step == NO_STEP ? at % 8 : 0; bit < 8; bit += step == NO_STEP ? 8 : 1) {
            bytes[at] ^= (unsigned char)(1u << bit);
            check_verdict(bytes, step, &said);
            bytes[at] = done[at];
        }
        if (step != NO_STEP) {
            counted[step]++;
        }
    }
    for (int step = 0; step < PRIMITIVES; step++) {
        assert_true(counted[step] >= 4 * 4);
    }
    // With the bytes before and behind what begins or ends inside a word.
    assert_int_equal(counted[QUANTIZE], 3 * sizeof(kq_status) + 2932 + (6 + 4) * 292);
    assert_int_equal(counted[SEQUENTIAL], 8);
    assert_int_equal(counted[SEQUENTIAL + 1], 16);
    assert_int_equal(counted[SEQUENTIAL + 2], 64 + 96 + 64);
    assert_int_equal(counted[SEQUENTIAL + 3], 292 + 284 + 128 + 128 + 280);
    assert_int_equal(counted[SEQUENTIAL + 4], 1320);
}

// Of two wrong steps the first is named, whatever lies further on.
static void test_order(void **state)
{
    (void)state;
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    size_t first_byte[STEPS];
    report said;
    for (size_t at = sizeof bytes; at-- > 0;) {
        int step = step_of(at);
        if (step != NO_STEP) {
            first_byte[step] = at;
        }
    }
    memcpy(bytes, done, sizeof bytes);
    for (int i = 0; i < STEPS; i++) {
        for (int k = i; k < STEPS; k++) {
            bytes[first_byte[i]] ^= 0x40;
            bytes[first_byte[k]] ^= 0x20;
            check_verdict(bytes, i, &said);
            bytes[first_byte[i]] = done[first_byte[i]];
            bytes[first_byte[k]] = done[first_byte[k]];
        }
    }
}

// --- What is told

// Every other answer of one primitive is wrong in bit 31, and all of those behind it, which is not
// told; the first wrong one is the example.
static void test_report_of_primitives(void **state)
{
    (void)state;
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    report said;
    for (uint32_t number = 1; number <= PRIMITIVES; number++) {
        const uint32_t *example = NULL;
        unsigned asked = 0;
        unsigned wrong = 0;
        char expected[256];
        memcpy(bytes, done, sizeof bytes);
        for (size_t i = 0; i < KQ_KNOWN_ANSWER_COUNT; i++) {
            if (kq_known_answers[i][0] != number) {
                bytes[16 * i + 15] ^= kq_known_answers[i][0] > number ? 0x80 : 0;
            } else if (asked++ % 2 == 1) {
                example = example == NULL ? kq_known_answers[i] : example;
                bytes[16 * i + 15] ^= 0x80;
                wrong++;
            }
        }
        assert_true(wrong > 1);
        check_verdict(bytes, (int)number - 1, &said);
        snprintf(expected, sizeof expected,
                 "%s of 0x%08X, 0x%08X is 0x%08X on this driver, not 0x%08X; %u of its %u known "
                 "answers are wrong",
                 steps[number - 1], (unsigned)example[1], (unsigned)example[2],
                 (unsigned)(example[3] ^ 0x80000000u), (unsigned)example[3], wrong, asked);
        assert_string_equal(said.reason, expected);
    }
}

static void check_told(size_t at, uint32_t word, const char *text)
{
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    report said;
    memcpy(bytes, done, sizeof bytes);
    store_u32(bytes + at, word);
    check_verdict(bytes, step_of(at), &said);
    assert_string_equal(said.reason, text);
}

static void test_report_of_statuses(void **state)
{
    (void)state;
    const struct {
        uint32_t word, value;
        const char *text;
    } cases[] = {
        {0, 3, "of 10 blocks leaves status {0x00000003, 1, 10, 0}, not {0x00000009, 1, 10, 0}"},
        {1, 2, "of 10 blocks leaves status {0x00000009, 2, 10, 0}, not {0x00000009, 1, 10, 0}"},
        {2, 7, "of 10 blocks leaves status {0x00000009, 1, 7, 0}, not {0x00000009, 1, 10, 0}"},
        {3, 1, "of 10 blocks leaves status {0x00000009, 1, 10, 1}, not {0x00000009, 1, 10, 0}"},
        {4, 2, "of 6 blocks leaves status {0x00000002, 3, 6, 0}, not {0x00000003, 3, 6, 0}"},
        {10, 3, "of 4 blocks leaves status {0x00000003, 1, 3, 0}, not {0x00000003, 1, 4, 0}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "quantize %s", cases[i].text);
        check_told(STATUS_AT + 4 * cases[i].word, cases[i].value, text);
    }
}

static void test_report_of_outputs(void **state)
{
    (void)state;
    static const char *const asked[KQ_SELF_TEST_PLANS] = {
        [1] = "quantize of 10 blocks",
        [2] = "quantize of 6 blocks",
        [3] = "quantize of 4 blocks",
        [4] = "sequential dot, 1 x 1 of G = 6",
        [5] = "pairwise dot, 2 x 1 of G = 601 in pairwise order",
        [6] = "repeat of dots, 4 x 3 of G = 3",
        [7] = "repeat of dots, 6 x 2 of G = 3 in pairwise order",
        [8] = "repeat of dots, 8 x 2 of G = 2",
        [9] = "dots of shared records, 10 x 7 of G = 5",
        [10] = "dots of shared records, 10 x 7 of G = 5 in pairwise order",
        [11] = "dots of shared records, 16 x 2 of G = 2 in pairwise order",
        [12] = "dots of shared records, 16 x 2 of G = 2 in pairwise order",
        [13] = "dots of shared records, 10 x 7 of G = 5",
        [14] = "columns of dots, 66 x 5 of G = 2",
    };
    for (unsigned i = 1; i < KQ_SELF_TEST_PLANS; i++) {
        const kq_self_test_output *output = kq_self_test_output_of(i);
        static unsigned char wrong[KQ_SELF_TEST_BYTES];
        char text[256];
        memcpy(wrong, done + output->at, output->bytes);
        store_u32(wrong + output->bytes - 4, 0x7FC00001);
        snprintf(text, sizeof text, "%s: FNV-1a of what it wrote is 0x%016llX, not 0x%016llX",
                 asked[i], (unsigned long long)fnv1a64(wrong, output->bytes),
                 (unsigned long long)output->known);
        check_told(output->at + output->bytes - 4, 0x7FC00001, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_work),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_no_work),
        cmocka_unit_test(test_each_byte),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_report_of_primitives),
        cmocka_unit_test(test_report_of_statuses),
        cmocka_unit_test(test_report_of_outputs),
    };
    return cmocka_run_group_tests_name("answers", tests, open_buffers, NULL) == 0 ? EXIT_SUCCESS
                                                                                  : EXIT_FAILURE;
}
