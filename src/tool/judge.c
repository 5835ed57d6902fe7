#include "judge.h"
#include "bytes.h"
#include "decode.h"
#include "diagnose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 48 };

static const char indent[] = "       ";

const char *case_status_name(case_status status)
{
    static const char *const names[CASE_STATUSES] = {"missing", "pass", "fail", "unsupported",
                                                     "error"};
    return names[status];
}

bool report_counts(report *report)
{
    bool is_shown = report->lines < REPORT_LINES && report->case_lines < CASE_LINES;
    report->mismatch_count++;
    report->lines += is_shown;
    report->case_lines += is_shown;
    return is_shown;
}

// --- Records

static void print_inputs(const uint8_t *block, unsigned number)
{
    char text[TEXT_BYTES];
    if (number == 0) {
        // The extreme: the largest magnitude, the negative one of two equal ones.
        uint32_t extreme = 0;
        for (size_t i = 0; i < KQ_BLOCK; i++) {
            uint32_t bits = load_u32(block + 4 * i);
            if ((bits << 1 | bits >> 31) > (extreme << 1 | extreme >> 31)) {
                extreme = bits;
            }
        }
        print_f32(text, extreme);
        printf("input extreme %s", text);
    } else if (number <= KQ_BLOCK) {
        print_f32(text, load_u32(block + 4 * (number - 1)));
        printf("input %s", text);
    } else {
        printf("input");
        for (size_t i = 0; i < 16; i++) {
            printf(" %08" PRIx32, load_u32(block + 4 * (16 * (number - 1 - KQ_BLOCK) + i)));
        }
    }
}

// Packed operand bytes of dot (i, j), the caller's to free.
static uint8_t *inputs_of(const trial *trial, unsigned operand, uint32_t i, uint32_t j)
{
    uint32_t G = trial->layout.views[operand].G;
    uint8_t *packed = allocate(G, operand_bytes(trial->op, operand));
    if (!trial->layout.null_inputs) {
        trial_get(trial, operand, i, j, packed);
    }
    return packed;
}

static bool judge_records(report *report, const char *name, const trial *trial, const uint8_t *got)
{
    uint8_t *values = NULL;
    bool is_good = true, is_diagnosed = false;
    for (uint32_t g = 0; g < trial->layout.views[OPERAND_OUT].G; g++) {
        const uint8_t *is = got + trial_record_at(trial, g);
        const uint8_t *must = trial->after + trial_record_at(trial, g);
        if (memcmp(is, must, KQ_Q8_K_BYTES) == 0) {
            continue;
        }
        is_good = false;
        if (memcmp(is, trial->before[trial->buffer_of[OPERAND_OUT]] + trial_record_at(trial, g),
                   KQ_Q8_K_BYTES) == 0) {
            if (report_counts(report)) {
                printf("FAIL   %s: record %" PRIu32 " was not written\n", name, g);
            }
            continue;
        }
        if (values == NULL) {
            values = inputs_of(trial, OPERAND_VALUES, 0, 0);
        }
        for (unsigned number = 0; number < Q8_K_FIELDS; number++) {
            field field = q8_k_field(number);
            if (memcmp(is + field.offset, must + field.offset, field.bytes) == 0) {
                continue;
            }
            if (!report_counts(report)) {
                continue;
            }
            char expected[TEXT_BYTES], actual[TEXT_BYTES];
            print_field(expected, must, number);
            print_field(actual, is, number);
            printf("FAIL   %s: record %" PRIu32 ", %s: ", name, g, field.name);
            print_inputs(values + (size_t)g * KQ_BLOCK_BYTES, number);
            printf(", expected %s, got %s\n", expected, actual);
            if (!is_diagnosed) {
                diagnose_block(report->device, indent, values + (size_t)g * KQ_BLOCK_BYTES);
            }
            is_diagnosed = true;
        }
    }
    free(values);
    return is_good;
}

static bool judge_digest(report *report, const char *name, const trial *trial, const uint8_t *got)
{
    uint32_t G = trial->layout.views[OPERAND_OUT].G;
    uint8_t *records = allocate(G, KQ_Q8_K_BYTES);
    for (uint32_t g = 0; g < G; g++) {
        memcpy(records + (size_t)g * KQ_Q8_K_BYTES, got + trial_record_at(trial, g), KQ_Q8_K_BYTES);
    }
    uint64_t digest = fnv1a64(records, (size_t)G * KQ_Q8_K_BYTES);
    free(records);
    if (digest == trial->digest) {
        return true;
    }
    if (report_counts(report)) {
        printf("FAIL   %s: all %" PRIu32 " records, FNV-1a 64: expected %016" PRIx64
               ", got %016" PRIx64 "\n",
               name, G, trial->digest, digest);
    }
    return false;
}

// --- Results

// The terms of G pairs of records, as G dots of one record each. False: the device can't say.
static bool find_terms(target *target, uint32_t G, const uint8_t *lhs, const uint8_t *rhs,
                       uint32_t *terms)
{
    layout layout = {
        .has_repeat = true,
        .repeat = {.count = {G, 1},
                   .lhs_step = {KQ_Q4_K_BYTES, 0},
                   .rhs_step = {KQ_Q8_K_BYTES, 0},
                   .result_step = {4, 4 * (uint64_t)G}},
    };
    trial trial;
    trial_lay_out(&trial, KQ_OP_QUANTIZED_DOT, 1, &layout, 0);
    for (uint32_t g = 0; g < G; g++) {
        trial_put(&trial, OPERAND_LHS, g, 0, lhs + (size_t)g * KQ_Q4_K_BYTES);
        trial_put(&trial, OPERAND_RHS, g, 0, rhs + (size_t)g * KQ_Q8_K_BYTES);
    }
    outcome outcome;
    trial_run(&trial, target, &outcome);
    bool is_good = outcome.result == KQ_OK;
    for (uint32_t g = 0; is_good && g < G; g++) {
        terms[g] = load_u32(outcome.got[trial.buffer_of[OPERAND_OUT]] +
                            trial_result_at(&trial, KQ_ORDER_SEQUENTIAL, g, 0));
    }
    outcome_free(&outcome);
    trial_free(&trial);
    return is_good;
}

// Says which record of a wrong dot is to blame, and shows it.
static void explain_dot(report *report, const trial *trial, uint32_t i, uint32_t j, kq_order order)
{
    uint32_t G = trial->layout.views[OPERAND_LHS].G;
    if (G == 0) {
        return;
    }
    uint8_t *lhs = inputs_of(trial, OPERAND_LHS, i, j);
    uint8_t *rhs = inputs_of(trial, OPERAND_RHS, i, j);
    uint32_t *is = allocate(G, sizeof *is);
    uint32_t *must = allocate(G, sizeof *must);
    uint32_t bad = 0;
    bool is_known = report->reference != NULL && find_terms(report->reference, G, lhs, rhs, must) &&
                    find_terms(report->device, G, lhs, rhs, is);
    while (is_known && bad < G && is[bad] == must[bad]) {
        bad++;
    }
    bool is_sum = bad == G;
    bad = is_sum ? 0 : bad;
    if (!is_known) {
        printf("%srecord 0 of %" PRIu32 ", with nothing to compare its term with:\n", indent, G);
    } else if (is_sum) {
        printf("%seach of the %" PRIu32 " records alone is right on this device: what is wrong is "
               "their sum, or around it; record 0:\n",
               indent, G);
    } else {
        char expected[TEXT_BYTES], actual[TEXT_BYTES];
        print_f32(expected, must[bad]);
        print_f32(actual, is[bad]);
        printf("%srecord %" PRIu32 " of %" PRIu32
               ", the first wrong one, alone: expected %s, got %s:\n",
               indent, bad, G, expected, actual);
    }
    const uint8_t *bad_lhs = lhs + (size_t)bad * KQ_Q4_K_BYTES;
    const uint8_t *bad_rhs = rhs + (size_t)bad * KQ_Q8_K_BYTES;
    print_pair(indent, bad_lhs, bad_rhs);
    if (is_known && is_sum) {
        diagnose_sum(report->device, indent, order, must, G);
    } else {
        diagnose_term(report->device, indent, bad_lhs, bad_rhs);
    }
    free(lhs);
    free(rhs);
    free(is);
    free(must);
}

static bool judge_dot(report *report, const char *name, const trial *trial, const uint8_t *got,
                      uint32_t i, uint32_t j)
{
    static const char *const orders[] = {"sequential", "pairwise"};
    bool is_good = true, is_explained = false;
    for (unsigned order = 0; order < 2; order++) {
        uint64_t at = trial_result_at(trial, (kq_order)order, i, j);
        uint32_t is = load_u32(got + at), must = load_u32(trial->after + at);
        if (is == must) {
            continue;
        }
        is_good = false;
        if (!report_counts(report)) {
            continue;
        }
        char expected[TEXT_BYTES], actual[TEXT_BYTES];
        print_f32(expected, must);
        print_f32(actual, is);
        printf("FAIL   %s: ", name);
        if (trial->layout.has_repeat) {
            printf("dot (%" PRIu32 ", %" PRIu32 "), ", i, j);
        }
        uint32_t G = trial->layout.views[OPERAND_LHS].G;
        if (is == load_u32(trial->before[trial->buffer_of[OPERAND_OUT]] + at)) {
            printf("%s result was not written: expected %s\n", orders[order], expected);
            continue;
        }
        printf("%s result: input %" PRIu32 " record%s, expected %s, got %s\n", orders[order], G,
               G == 1 ? "" : "s", expected, actual);
        if (!is_explained) {
            explain_dot(report, trial, i, j, (kq_order)order);
        }
        is_explained = true;
    }
    return is_good;
}

static bool judge_results(report *report, const char *name, const trial *trial, const uint8_t *got)
{
    const kq_repeat *repeat = &trial->layout.repeat;
    if (!trial->layout.has_repeat) {
        return judge_dot(report, name, trial, got, 0, 0);
    }
    bool is_good = true;
    for (uint32_t j = 0; j < repeat->count[1]; j++) {
        for (uint32_t i = 0; i < repeat->count[0]; i++) {
            is_good = judge_dot(report, name, trial, got, i, j) && is_good;
        }
    }
    return is_good;
}

// --- Everything else

// Gives `got` the outputs that `after` has, so that only what is outside of them can differ.
static void copy_outputs(const trial *trial, uint8_t *got)
{
    if (trial->op == KQ_OP_QUANTIZE) {
        for (uint32_t g = 0; g < trial->layout.views[OPERAND_OUT].G; g++) {
            uint64_t at = trial_record_at(trial, g);
            memcpy(got + at, trial->after + at, KQ_Q8_K_BYTES);
        }
        return;
    }
    bool has_repeat = trial->layout.has_repeat;
    const uint32_t *count = trial->layout.repeat.count;
    for (uint32_t j = 0; j < (has_repeat ? count[1] : 1); j++) {
        for (uint32_t i = 0; i < (has_repeat ? count[0] : 1); i++) {
            for (unsigned order = 0; order < 2; order++) {
                uint64_t at = trial_result_at(trial, (kq_order)order, i, j);
                memcpy(got + at, trial->after + at, 4);
            }
        }
    }
}

// The last operand that begins at or before a byte of a buffer, and how far it is from there.
static const char *nearest(const trial *trial, unsigned buffer, uint64_t at, int64_t *distance)
{
    static const char *const names[3][OPERANDS] = {
        [KQ_OP_QUANTIZE] = {"values", NULL, "records"},
        [KQ_OP_QUANTIZED_DOT] = {"lhs", "rhs", "result"},
    };
    const char *name = NULL;
    for (unsigned operand = 0; operand < OPERANDS; operand++) {
        uint64_t offset = trial->layout.views[operand].offset;
        if (names[trial->op][operand] == NULL || trial->buffer_of[operand] != buffer ||
            (trial->layout.null_inputs && operand != OPERAND_OUT)) {
            continue;
        }
        if (name == NULL || offset <= at) {
            name = names[trial->op][operand];
            *distance = (int64_t)at - (int64_t)offset;
        }
    }
    return name;
}

// No byte but the outputs may have changed.
static bool judge_stray(report *report, const char *name, const trial *trial, unsigned buffer,
                        const uint8_t *is, const uint8_t *must)
{
    if (memcmp(is, must, trial->sizes[buffer]) == 0) {
        return true;
    }
    for (size_t at = 0; at < trial->sizes[buffer]; at++) {
        if (is[at] == must[at] || !report_counts(report)) {
            continue;
        }
        int64_t distance = 0;
        const char *operand = nearest(trial, buffer, at, &distance);
        printf("FAIL   %s: byte %zu of the buffer of %s, %" PRId64
               " from its start, is no output: expected %02x, got %02x\n",
               name, at, operand, distance, must[at], is[at]);
    }
    return false;
}

static void print_domain(const kq_domain *domain)
{
    printf("record %" PRIu32 ", %" PRIu32 " bad, ", domain->record, domain->bad_count);
    if (domain->reason == KQ_REASON_NONFINITE_INPUT) {
        printf("nonfinite-input@%" PRIu32, domain->element);
    } else if (domain->reason == KQ_REASON_INVERSE_OVERFLOW) {
        printf("inverse-overflow");
    } else {
        printf("reason %d", (int)domain->reason);
    }
}

static bool judge_code(report *report, const char *name, const trial *trial, const outcome *outcome)
{
    const kq_domain *is = &outcome->domain, *must = &trial->domain;
    bool is_good = outcome->result == trial->result;
    if (is_good && trial->result == KQ_ERROR_DOMAIN) {
        is_good = is->record == must->record && is->bad_count == must->bad_count &&
                  is->reason == must->reason &&
                  (must->reason != KQ_REASON_NONFINITE_INPUT || is->element == must->element);
    }
    if (!is_good && report_counts(report)) {
        printf("FAIL   %s: result code: expected %s", name, kq_result_name(trial->result));
        if (trial->result == KQ_ERROR_DOMAIN) {
            printf(" of ");
            print_domain(must);
        }
        printf(", got ");
        if (outcome->result == KQ_ERROR_DOMAIN) {
            printf("%s of ", kq_result_name(outcome->result));
            print_domain(is);
        } else {
            printf("%s", outcome->result == KQ_OK ? "KQ_OK" : report->device->reason);
        }
        printf("\n");
    }
    return is_good;
}

case_status judge_error(report *report, const char *name, kq_result result)
{
    bool is_unsupported = result == KQ_ERROR_UNSUPPORTED;
    if (report_counts(report)) {
        printf("%s %s: %s\n", is_unsupported ? "UNSUPPORTED" : "ERROR ", name,
               report->device->reason[0] != '\0' ? report->device->reason : kq_result_name(result));
    }
    return is_unsupported ? CASE_UNSUPPORTED : CASE_ERROR;
}

case_status judge(report *report, const char *name, const trial *trial, const outcome *outcome)
{
    if (outcome->result != trial->result && outcome->result != KQ_OK &&
        outcome->result != KQ_ERROR_DOMAIN && outcome->result != KQ_ERROR_ARGUMENT) {
        return judge_error(report, name, outcome->result);
    }
    bool is_good = judge_code(report, name, trial, outcome);
    if (outcome->got[0] == NULL) {
        return CASE_FAIL;
    }

    unsigned out = trial->buffer_of[OPERAND_OUT];
    const uint8_t *got = outcome->got[out];
    if (trial->op == KQ_OP_QUANTIZE) {
        if (!trial->is_digest_all) {
            is_good = judge_records(report, name, trial, got) && is_good;
        }
        if (trial->has_digest) {
            is_good = judge_digest(report, name, trial, got) && is_good;
        }
    } else {
        is_good = judge_results(report, name, trial, got) && is_good;
    }
    for (unsigned buffer = 0; buffer < trial->buffer_count; buffer++) {
        if (buffer != out) {
            is_good = judge_stray(report, name, trial, buffer, outcome->got[buffer],
                                  trial->before[buffer]) &&
                      is_good;
            continue;
        }
        uint8_t *copy = allocate(trial->sizes[out], 1);
        memcpy(copy, got, trial->sizes[out]);
        copy_outputs(trial, copy);
        is_good = judge_stray(report, name, trial, out, copy, trial->after) && is_good;
        free(copy);
    }
    return is_good ? CASE_PASS : CASE_FAIL;
}
