#include "cases.h"
#include "bytes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const op_names[] = {
    [KQ_OP_QUANTIZE] = "quantize",
    [KQ_OP_QUANTIZED_DOT] = "quantized_dot",
    [KQ_OP_SELF_TEST] = "primitive",
};

test_case *case_add(case_list *list, kq_op op, case_build *build, const char *format, ...)
{
    if ((list->count & (list->count - 1)) == 0) {
        list->cases =
            reallocate(list->cases, list->count == 0 ? 1 : 2 * list->count, sizeof(test_case));
    }
    char class[200], name[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(class, sizeof class, format, arguments);
    va_end(arguments);
    snprintf(name, sizeof name, "%s.base.%s", op_names[op], class);

    test_case *test = &list->cases[list->count++];
    *test = (test_case){.name = copy_text(name), .op = op, .build = build};
    return test;
}

void case_take(test_case *test, size_t vector)
{
    size_t count = test->vector_count;
    if ((count & (count - 1)) == 0) {
        test->vectors = reallocate(test->vectors, count == 0 ? 1 : 2 * count, sizeof(size_t));
    }
    test->vectors[test->vector_count++] = vector;
}

uint64_t case_poison(const case_list *list, const test_case *test)
{
    return list->seed ^ fnv1a64((const uint8_t *)test->name, strlen(test->name));
}

bool case_expect_reference(trial *trial, target *reference, const char **reason)
{
    trial_expect_nothing(trial);
    outcome outcome;
    trial_run(trial, reference, &outcome);
    unsigned out = trial->buffer_of[OPERAND_OUT];
    bool is_good = outcome.got[out] != NULL;
    if (is_good) {
        memcpy(trial->after, outcome.got[out], trial->sizes[out]);
        trial->result = outcome.result;
        if (outcome.result == KQ_ERROR_DOMAIN) {
            trial->domain = outcome.domain;
        }
        trial_poison_outputs(trial);
    } else {
        *reason = reference->reason;
        trial_free(trial);
    }
    outcome_free(&outcome);
    return is_good;
}

// --- Cases made of vectors

bool case_build_quantize(const case_list *list, const test_case *test, target *reference,
                         trial *trial, const char **reason)
{
    (void)reference;
    (void)reason;
    uint32_t G = 0;
    kq_domain domain = {0};
    for (size_t k = 0; k < test->vector_count; k++) {
        const quantize_vector *vector = &list->vectors.quantize[test->vectors[k]];
        uint32_t bad_count = domain.bad_count + vector->domain.bad_count;
        if (domain.reason == KQ_REASON_NONE && vector->domain.reason != KQ_REASON_NONE) {
            domain = vector->domain;
            domain.record += G;
        }
        domain.bad_count = bad_count;
        G += vector->G;
    }
    uint8_t *values = allocate(G, KQ_BLOCK_BYTES);
    uint8_t *records = allocate(G, KQ_Q8_K_BYTES);
    size_t g = 0;
    for (size_t k = 0; k < test->vector_count; k++) {
        const quantize_vector *vector = &list->vectors.quantize[test->vectors[k]];
        memcpy(values + g * KQ_BLOCK_BYTES, vector->values, (size_t)vector->G * KQ_BLOCK_BYTES);
        memcpy(records + g * KQ_Q8_K_BYTES, vector->records, (size_t)vector->G * KQ_Q8_K_BYTES);
        g += vector->G;
    }
    trial_lay_out(trial, KQ_OP_QUANTIZE, G, &test->layout, case_poison(list, test));
    if (!test->layout.null_inputs) {
        trial_put(trial, OPERAND_VALUES, 0, 0, values);
    }
    trial_expect_nothing(trial);
    trial_expect_records(trial, records);
    trial->result = domain.reason == KQ_REASON_NONE ? KQ_OK : KQ_ERROR_DOMAIN;
    trial->domain = domain;
    trial_poison_outputs(trial);
    free(values);
    free(records);
    return true;
}

bool case_build_dots(const case_list *list, const test_case *test, target *reference, trial *trial,
                     const char **reason)
{
    (void)reference;
    (void)reason;
    const layout *layout = &test->layout;
    uint32_t inner = layout->has_repeat ? layout->repeat.count[0] : 1;
    uint32_t outer = layout->has_repeat ? layout->repeat.count[1] : 1;
    const dot_vector *vectors = list->vectors.dot;
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, vectors[test->vectors[0]].G, layout,
                  case_poison(list, test));
    for (uint32_t j = 0; j < outer && !layout->null_inputs; j++) {
        for (uint32_t i = 0; i < inner; i++) {
            const dot_vector *vector = &vectors[test->vectors[i + (size_t)inner * j]];
            trial_put(trial, OPERAND_LHS, i, j, vector->lhs);
            trial_put(trial, OPERAND_RHS, i, j, vector->rhs);
        }
    }
    trial_expect_nothing(trial);
    for (uint32_t j = 0; j < outer; j++) {
        for (uint32_t i = 0; i < inner; i++) {
            const dot_vector *vector = &vectors[test->vectors[i + (size_t)inner * j]];
            trial_expect_result(trial, KQ_ORDER_SEQUENTIAL, i, j, vector->results[0]);
            trial_expect_result(trial, KQ_ORDER_PAIRWISE, i, j, vector->results[1]);
        }
    }
    trial_poison_outputs(trial);
    return true;
}

// --- Bulk: inputs by formula; the vector has a digest of the records only, so that the bytes to
// compare with come from the reference, which must have that digest itself.

// The reference's records of a bulk vector, the caller's to free; NULL: it can't make them.
static uint8_t *bulk_records(const bulk_vector *vector, const uint8_t *values, target *reference)
{
    layout plain = {0};
    trial trial;
    trial_lay_out(&trial, KQ_OP_QUANTIZE, vector->G, &plain, 0);
    trial_put(&trial, OPERAND_VALUES, 0, 0, values);
    outcome outcome;
    trial_run(&trial, reference, &outcome);
    uint8_t *records = NULL;
    if (outcome.result == KQ_OK) {
        size_t bytes = (size_t)vector->G * KQ_Q8_K_BYTES;
        records = allocate(bytes, 1);
        memcpy(records, outcome.got[trial.buffer_of[OPERAND_OUT]] + trial_record_at(&trial, 0),
               bytes);
    }
    outcome_free(&outcome);
    trial_free(&trial);
    return records;
}

static bool has_digest(const bulk_vector *vector, const uint8_t *records)
{
    return records != NULL && fnv1a64(records, (size_t)vector->G * KQ_Q8_K_BYTES) == vector->digest;
}

static bool build_bulk_quantize(const case_list *list, const test_case *test, target *reference,
                                trial *trial, const char **reason)
{
    (void)reason;
    const bulk_vector *vector = &list->vectors.bulk[test->vectors[0]];
    uint8_t *values = allocate(vector->G, KQ_BLOCK_BYTES);
    draw_values(vector->seed, vector->G, values);
    uint8_t *records = bulk_records(vector, values, reference);
    trial_lay_out(trial, KQ_OP_QUANTIZE, vector->G, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_VALUES, 0, 0, values);
    trial_expect_nothing(trial);
    trial->has_digest = true;
    trial->digest = vector->digest;
    trial->is_digest_all = !has_digest(vector, records);
    if (!trial->is_digest_all) {
        trial_expect_records(trial, records);
    }
    trial_poison_outputs(trial);
    free(records);
    free(values);
    return true;
}

static bool build_bulk_dot(const case_list *list, const test_case *test, target *reference,
                           trial *trial, const char **reason)
{
    const bulk_vector *vector = &list->vectors.bulk[test->vectors[0]];
    uint8_t *values = allocate(vector->G, KQ_BLOCK_BYTES);
    draw_values(vector->seed, vector->G, values);
    uint8_t *records = bulk_records(vector, values, reference);
    free(values);
    if (!has_digest(vector, records)) {
        *reason = "the records it takes can't be made: those of the reference have another digest";
        free(records);
        return false;
    }
    uint8_t *lhs = allocate(vector->G, KQ_Q4_K_BYTES);
    draw_q4_k(vector->seed + 1, vector->G, lhs);
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, vector->G, &test->layout, case_poison(list, test));
    trial_put(trial, OPERAND_LHS, 0, 0, lhs);
    trial_put(trial, OPERAND_RHS, 0, 0, records);
    trial_expect_nothing(trial);
    trial_expect_result(trial, KQ_ORDER_SEQUENTIAL, 0, 0, vector->results[0]);
    trial_expect_result(trial, KQ_ORDER_PAIRWISE, 0, 0, vector->results[1]);
    trial_poison_outputs(trial);
    free(lhs);
    free(records);
    return true;
}

// --- The list

void cases_add_vectors(case_list *list)
{
    const vectors *vectors = &list->vectors;
    for (size_t k = 0; k < vectors->quantize_count; k++) {
        case_take(
            case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "%s", vectors->quantize[k].name),
            k);
    }
    for (size_t k = 0; k < vectors->dot_count; k++) {
        case_take(case_add(list, KQ_OP_QUANTIZED_DOT, case_build_dots, "%s", vectors->dot[k].name),
                  k);
    }
    for (size_t k = 0; k < vectors->bulk_count; k++) {
        const bulk_vector *vector = &vectors->bulk[k];
        for (kq_op op = KQ_OP_QUANTIZE; op <= KQ_OP_QUANTIZED_DOT; op++) {
            case_build *build = op == KQ_OP_QUANTIZE ? build_bulk_quantize : build_bulk_dot;
            test_case *test =
                case_add(list, op, build, "bulk-%016" PRIx64 "-%" PRIu32, vector->seed, vector->G);
            test->cut_work = CASE_CUT_WORK + vector->G / 2;
            case_take(test, k);
        }
    }
}

// Equal names side by side, and in the order of the list.
static int compare_cases(const void *a, const void *b)
{
    const test_case *left = *(test_case *const *)a, *right = *(test_case *const *)b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : left < right ? -1 : left > right;
}

void cases_finish(case_list *list)
{
    test_case **sorted = allocate(list->count, sizeof *sorted);
    for (size_t k = 0; k < list->count; k++) {
        sorted[k] = &list->cases[k];
    }
    if (list->count > 0) {
        qsort(sorted, list->count, sizeof *sorted, compare_cases);
    }
    for (size_t first = 0, next; first < list->count; first = next) {
        for (next = first + 1; next < list->count; next++) {
            if (strcmp(sorted[first]->name, sorted[next]->name) != 0) {
                break;
            }
            size_t bytes = strlen(sorted[first]->name) + 24;
            char *name = allocate(bytes, 1);
            snprintf(name, bytes, "%s+%zu", sorted[first]->name, next - first + 1);
            free(sorted[next]->name);
            sorted[next]->name = name;
        }
    }
    free(sorted);
}

void cases_free(case_list *list)
{
    for (size_t k = 0; k < list->count; k++) {
        free(list->cases[k].name);
        free(list->cases[k].vectors);
    }
    free(list->cases);
    vectors_free(&list->vectors);
    memset(list, 0, sizeof *list);
}
