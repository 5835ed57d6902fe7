#include "own_trial.h"

#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARED_DOTS = 70,     // of one rhs: more than a workgroup of the kernel for that takes
    MOST_SHARED_G = 300,  // with more records that takes software devices too long
    LONG_DOT = 70000,     // records: more than two dispatches of either fold take
};

typedef struct trial {
    trial_run run;
    void *user;
    unsigned blocks, dots, shared, long_dots, wrong;
} trial;

static void judge(trial *t, bool ok, const char *name, const char *what)
{
    if (!ok) {
        printf("%s: %s: other bits than the vector's\n", name, what);
        t->wrong++;
    }
}

static void *allocate(size_t bytes)
{
    void *data = malloc(bytes + 1);
    if (data == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return data;
}

// --- Quantize

static void try_quantize(trial *t, const vector *v, unsigned char *records)
{
    const size_t bytes = (size_t)v->G * VECTORS_Q8_K_BYTES;
    uint32_t status[4];
    const trial_range ranges[TRIAL_RANGES] = {
        {"values", v->values, NULL, (size_t)v->G * VECTORS_VALUES_BYTES},
        {"records", NULL, records, bytes},
        {"status", NULL, status, sizeof(status)},
    };
    manifest_values params = {0};
    manifest_set(&params, "G", v->G);
    manifest_set(&params, "values_stride", VECTORS_VALUES_BYTES);
    manifest_set(&params, "value_stride", 4);
    manifest_set(&params, "records_stride", VECTORS_Q8_K_BYTES);
    t->run(t->user, "quantize", &params, ranges);
    judge(t,
          v->records != NULL ? memcmp(records, v->records, bytes) == 0
                             : vectors_digest(records, bytes) == v->digest,
          v->name, "records");
    judge(t, status[0] == v->lowest_bad && status[2] == v->G, v->name, "status");
    t->blocks += v->G;
}

// --- Dots

static const char *const orders[] = {"quantized_dot.sequential", "quantized_dot.pairwise"};

typedef struct dots {
    uint32_t G, count;
    const unsigned char *lhs, *rhs;
    size_t lhs_bytes, rhs_bytes;
    uint32_t lhs_stride, rhs_stride;  // from one record of a dot to the next
    uint32_t lhs_step;                // from one dot to the next; all dots have the same rhs
} dots;

static void take_dots(const trial *t, const char *operation, const dots *d, uint32_t *results)
{
    const trial_range ranges[TRIAL_RANGES] = {
        {"lhs", d->lhs, NULL, d->lhs_bytes},
        {"rhs", d->rhs, NULL, d->rhs_bytes},
        {"result", NULL, results, 4 * (size_t)d->count},
    };
    manifest_values params = {0};
    manifest_set(&params, "G", d->G);
    manifest_set(&params, "dots", d->count);
    manifest_set(&params, "inner", d->count);
    manifest_set(&params, "lhs_stride", d->lhs_stride);
    manifest_set(&params, "lhs_inner_step", d->lhs_step);
    manifest_set(&params, "rhs_stride", d->rhs_stride);
    manifest_set(&params, "result_inner_step", 4);
    t->run(t->user, operation, &params, ranges);
}

// The dot alone, and many at once that share rhs, each with a copy of lhs that starts at some byte.
static void try_dots(trial *t, const vector *v, const unsigned char *rhs)
{
    const size_t bytes = (size_t)v->G * VECTORS_Q4_K_BYTES;
    const size_t step = bytes + 1;
    const dots alone = {
        .G = v->G,
        .count = 1,
        .lhs = v->lhs,
        .rhs = rhs,
        .lhs_bytes = bytes,
        .rhs_bytes = (size_t)v->G * VECTORS_Q8_K_BYTES,
        .lhs_stride = VECTORS_Q4_K_BYTES,
        .rhs_stride = VECTORS_Q8_K_BYTES,
        .lhs_step = (uint32_t)step,
    };
    unsigned char *copies = allocate(SHARED_DOTS * step);
    memset(copies, 0xAA, SHARED_DOTS * step);
    for (size_t i = 0; i < SHARED_DOTS; i++) {
        memcpy(copies + i * step, v->lhs, bytes);
    }
    dots shared = alone;
    shared.count = SHARED_DOTS;
    shared.lhs = copies;
    shared.lhs_bytes = SHARED_DOTS * step;
    for (int order = 0; order < 2; order++) {
        const uint32_t expected = order == 0 ? v->sequential : v->pairwise;
        uint32_t results[SHARED_DOTS];
        take_dots(t, orders[order], &alone, results);
        judge(t, results[0] == expected, v->name, orders[order]);
        t->dots++;
        if (v->G <= MOST_SHARED_G) {
            take_dots(t, orders[order], &shared, results);
            for (int i = 0; i < SHARED_DOTS; i++) {
                judge(t, results[i] == expected, v->name, "dots that share rhs");
            }
            t->shared += SHARED_DOTS;
        }
    }
    free(copies);
}

// count times the same term, added in pairwise order. The host's floats are IEEE's.
static float add_pairwise(float term, uint32_t count)
{
    uint32_t half = 1;
    while (2 * half < count) {
        half *= 2;
    }
    return count == 1 ? term : add_pairwise(term, half) + add_pairwise(term, count - half);
}

static float add_in_sequence(float term, uint32_t count)
{
    float sum = term;
    for (uint32_t i = 1; i < count; i++) {
        sum += term;
    }
    return sum;
}

// One pair of records over and over, whose term is the dot of one, so that folds take several
// dispatches.
static void try_long_dot(trial *t, const vector *v, const unsigned char *rhs)
{
    const dots d = {
        .G = LONG_DOT,
        .count = 1,
        .lhs = v->lhs,
        .rhs = rhs,
        .lhs_bytes = VECTORS_Q4_K_BYTES,
        .rhs_bytes = VECTORS_Q8_K_BYTES,
    };
    float term;
    memcpy(&term, &v->sequential, 4);
    const float expected[] = {add_in_sequence(term, LONG_DOT), add_pairwise(term, LONG_DOT)};
    for (int order = 0; order < 2; order++) {
        uint32_t result;
        take_dots(t, orders[order], &d, &result);
        judge(t, memcmp(&result, &expected[order], 4) == 0, v->name, "a long dot");
        t->long_dots++;
    }
}

// --- Folders

static void try_folder(trial *t, const char *folder)
{
    size_t count;
    vector *vectors = vectors_read(folder, &count);
    for (size_t i = 0; i < count; i++) {
        const vector *v = &vectors[i];
        unsigned char *made = allocate((size_t)v->G * VECTORS_Q8_K_BYTES);
        const unsigned char *rhs = v->records != NULL ? v->records : made;
        if (v->values != NULL) {
            try_quantize(t, v, made);
        }
        if (v->lhs != NULL) {
            try_dots(t, v, rhs);
        }
        if (v->lhs != NULL && v->values != NULL && v->G == 1) {
            try_long_dot(t, v, rhs);
        }
        free(made);
    }
    vectors_free(vectors, count);
}

bool trial_vectors(trial_run run, void *user, char *const folders[], int count)
{
    trial t = {.run = run, .user = user};
    for (int i = 0; i < count; i++) {
        try_folder(&t, folders[i]);
    }
    printf("%u blocks quantized, %u dots alone, %u that share rhs, %u of %d records; %u wrong\n",
           t.blocks, t.dots, t.shared, t.long_dots, LONG_DOT, t.wrong);
    return t.wrong == 0 && t.blocks > 0 && t.shared > 0 && t.long_dots > 0;
}
