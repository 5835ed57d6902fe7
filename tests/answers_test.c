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

// In the order of the verdict. The first twelve are primitives, by number - 1.
static const char *const steps[] = {
    "f16 to f32",
    "i32 to f32",
    "f32 multiply",
    "f32 add",
    "f32 subtract",
    "f32 divide",
    "f32 to i8",
    "low fields of Q4_K",
    "high fields of Q4_K",
    "dot of four codes",
    "sum of two i16",
    "key of an extreme",
    "quantize",
    "sequential dot",
    "pairwise dot",
    "dots of shared records",
};

enum {
    STEPS = sizeof steps / sizeof *steps,
    PRIMITIVES = 12,
    QUANTIZE = 12,
    SEQUENTIAL = 13,
    NO_STEP = -1,
    // Items of a primitive, a and b, whose result comes last; status; results of the dots.
    ITEMS_END = 16 * KQ_KNOWN_ANSWER_COUNT,
    STATUS_END = ITEMS_END + sizeof(kq_status),
    RESULTS_END = STATUS_END + 4 * (2 + 32),
    RECORDS_BYTES = 8 * KQ_Q8_K_BYTES,
};

static unsigned char input[KQ_SELF_TEST_BYTES];
static unsigned char done[KQ_SELF_TEST_BYTES];  // right work
static size_t records_at;                       // of the records, behind the values

static int open_buffers(void **state)
{
    (void)state;
    kq_self_test_input(input);
    memcpy(done, input, sizeof done);
    kq_self_test_reference(done);
    records_at = RESULTS_END;
    while (records_at < sizeof done && done[records_at] == input[records_at]) {
        records_at++;
    }
    return records_at + RECORDS_BYTES <= sizeof done ? 0 : -1;
}

// The step whose output a byte is.
static int step_of(size_t at)
{
    if (at < ITEMS_END) {
        return at % 16 >= 12 ? (int)kq_known_answers[at / 16][0] - 1 : NO_STEP;
    }
    if (at < STATUS_END || (at >= records_at && at < records_at + RECORDS_BYTES)) {
        return QUANTIZE;
    }
    size_t dot = (at - STATUS_END) / 4;
    return at < RESULTS_END ? SEQUENTIAL + (int)(dot < 2 ? dot : 2) : NO_STEP;
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
    // The work reads nothing that it wrote before: once more gives the same, but for the status,
    // which counts on.
    unsigned char again[KQ_SELF_TEST_BYTES];
    memcpy(again, done, sizeof again);
    memcpy(again + ITEMS_END, input + ITEMS_END, sizeof(kq_status));
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
    for (size_t i = 0; i < 34; i++) {
        assert_int_not_equal(load_u32(input + STATUS_END + 4 * i),
                             load_u32(done + STATUS_END + 4 * i));
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
    check_verdict(bytes, QUANTIZE, &said);
    memcpy(bytes + records_at, done + records_at, RECORDS_BYTES);
    check_verdict(bytes, SEQUENTIAL, &said);
    for (int dot = 0; dot < 3; dot++) {
        memcpy(bytes + STATUS_END + 4 * dot, done + STATUS_END + 4 * dot, 4);
        check_verdict(bytes, SEQUENTIAL + (dot < 1 ? 1 : 2), &said);
    }
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
    assert_int_equal(counted[QUANTIZE], sizeof(kq_status) + RECORDS_BYTES);
    assert_int_equal(counted[SEQUENTIAL], 4);
    assert_int_equal(counted[SEQUENTIAL + 1], 4);
    assert_int_equal(counted[SEQUENTIAL + 2], 4 * 32);
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

static void test_report_of_operations(void **state)
{
    (void)state;
    const char *const quantize = "quantize of 8 legal blocks leaves status";
    const struct {
        uint32_t word, value;
        const char *words;
    } cases[] = {
        {0, 3, "{0x00000003, 0, 8, 0}"},
        {1, 2, "{0xFFFFFFFF, 2, 8, 0}"},
        {2, 7, "{0xFFFFFFFF, 0, 7, 0}"},
        {3, 1, "{0xFFFFFFFF, 0, 8, 1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s %s, not {0xFFFFFFFF, 0, 8, 0}", quantize, cases[i].words);
        check_told(ITEMS_END + 4 * cases[i].word, cases[i].value, text);
    }
    check_told(STATUS_END, 0, "sequential dot: dot 0 is 0x00000000 on this driver, not 0x44AED1CE");
    check_told(STATUS_END + 4, 0x44AED1CE,
               "pairwise dot: dot 1 is 0x44AED1CE on this driver, not 0x44AED1CC");
    check_told(STATUS_END + 8, 1,
               "dots of shared records: dot 2 is 0x00000001 on this driver, not 0xC28E5963");
    check_told(RESULTS_END - 4, 0x7FC00000,
               "dots of shared records: dot 33 is 0x7FC00000 on this driver, not 0x410513ED");
    uint64_t right = fnv1a64(done + records_at, RECORDS_BYTES);
    unsigned char wrong[RECORDS_BYTES];
    char text[256];
    memcpy(wrong, done + records_at, sizeof wrong);
    store_u32(wrong, 0x7FC00000);
    snprintf(text, sizeof text, "quantize: FNV-1a of the records is 0x%016llX, not 0x%016llX",
             (unsigned long long)fnv1a64(wrong, sizeof wrong), (unsigned long long)right);
    check_told(records_at, 0x7FC00000, text);
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
        cmocka_unit_test(test_report_of_operations),
    };
    return cmocka_run_group_tests_name("answers", tests, open_buffers, NULL) == 0 ? EXIT_SUCCESS
                                                                                  : EXIT_FAILURE;
}
