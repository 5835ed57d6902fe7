// Whether the dispatches that kernels.json leads to are those of the library's own plans: kernels,
// workgroups, parameters, scratch. Exit 1: not so.
// usage: manifest_plan FOLDER

#include "plan.h"

#include "../samples/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tally {
    unsigned plans, dispatches, wrong;
} tally;

typedef struct work {
    const char *name;  // as the manifest has it
    kq_operation operation;
} work;

static void fail(tally *t, const work *w, const char *what, uint64_t got, uint64_t wanted)
{
    const kq_repeat *repeat = w->operation.repeat;
    printf("%s, G = %" PRIu32 ", dots = %" PRIu32 " x %" PRIu32 ": %s %" PRIu64
           " where the library has %" PRIu64 "\n",
           w->name, w->operation.operands[0].view.G, repeat != NULL ? repeat->count[0] : 1,
           repeat != NULL ? repeat->count[1] : 1, what, got, wanted);
    t->wrong++;
}

static const char *kernel_stem(const manifest_dispatch *d, char stem[64])
{
    snprintf(stem, 64, "%s", manifest_text(d->kernel, "name"));
    char *dot = strchr(stem, '.');
    if (dot != NULL) {
        *dot = '\0';
    }
    return stem;
}

static void compare_dispatch(const manifest_dispatch *d, kq_step step, const work *w, tally *t)
{
    char stem[64];
    uint32_t params[sizeof step.params / sizeof *step.params] = {0};
    if (strcmp(kernel_stem(d, stem), kq_kernel_stems[step.kernel]) != 0) {
        printf("%s where the library has %s\n", stem, kq_kernel_stems[step.kernel]);
        fail(t, w, "another kernel; workgroups", d->workgroups, step.groups[0]);
        return;
    }
    if (d->workgroups != step.groups[0]) {
        fail(t, w, "workgroups", d->workgroups, step.groups[0]);
    }
    if (d->params_bytes != step.params_bytes) {
        fail(t, w, "bytes of params", d->params_bytes, step.params_bytes);
        return;
    }
    memcpy(params, d->params, step.params_bytes);
    if (w->operation.op == KQ_OP_QUANTIZED_DOT) {
        // What ends a dot leaves nothing in scratch, so it doesn't matter where.
        kq_dot_params ours;
        memcpy(&ours, step.params, sizeof ours);
        if (ours.ends && !ours.resumes) {
            params[offsetof(kq_dot_params, to_at) / 4] = ours.to_at;
        }
    }
    for (uint32_t i = 0; i < step.params_bytes / 4; i++) {
        if (params[i] != step.params[i]) {
            printf("param %" PRIu32 " of %s: ", i, stem);
            fail(t, w, "it is", params[i], step.params[i]);
        }
    }
}

static void compare(const cJSON *manifest, const work *w, tally *t)
{
    const kq_limits limits = {UINT32_MAX, "range", 4, {UINT32_MAX, 1}, "groups"};
    const kq_errors errors = {0};
    kq_plan plan;
    if (kq_plan_make(&w->operation, true, &limits, &errors, &plan) != KQ_OK ||
        plan.needs.limit != NULL || plan.needs.missing_bytes != 0) {
        fail(t, w, "no plan", 0, 0);
        return;
    }
    manifest_values values = {0};
#define SET_QUANTIZE(field) manifest_set(&values, #field, plan.quantize.field);
#define SET_DOT(field)      manifest_set(&values, #field, plan.dot.field);
    if (w->operation.op == KQ_OP_QUANTIZE) {
        KQ_QUANTIZE_PARAMS(SET_QUANTIZE)
    } else {
        KQ_DOT_PARAMS(SET_DOT)
    }
    manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES];
    const uint64_t scratch_bytes = manifest_scratch_bytes(manifest, w->name, &values);
    const size_t count = manifest_dispatches(manifest, w->name, &values, dispatches);
    t->plans++;
    if (scratch_bytes != plan.needs.scratch_bytes) {
        fail(t, w, "scratch bytes", scratch_bytes, plan.needs.scratch_bytes);
    }
    if (count != plan.needs.dispatch_count) {
        fail(t, w, "dispatches", count, plan.needs.dispatch_count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        compare_dispatch(&dispatches[i], kq_plan_step(&plan, i), w, t);
        t->dispatches++;
    }
}

static const uint32_t Gs[] = {0,   1,   2,   3,   4,     5,     8,     9,     63,    64,
                              100, 127, 128, 129, 16384, 16385, 32768, 32769, 65537, 100000};
static const uint32_t counts[][2] = {{0, 1},  {1, 1},  {2, 1},  {31, 1},  {32, 1},
                                     {1, 33}, {64, 1}, {65, 2}, {100, 10}};

static kq_operand operand(uint64_t buffer, uint32_t G)
{
    return (kq_operand){buffer, UINT32_MAX - 3, {.stride = KQ_BROADCAST, .G = G}};
}

static void compare_quantize(const cJSON *manifest, tally *t)
{
    for (size_t i = 0; i < sizeof Gs / sizeof *Gs; i++) {
        work w = {"quantize", {.op = KQ_OP_QUANTIZE, .format = KQ_FORMAT_Q8_K}};
        for (int role = 0; role < 3; role++) {
            w.operation.operands[role] = operand((uint64_t)role + 1, Gs[i]);
        }
        w.operation.operands[KQ_RECORDS].view.stride = 0;
        compare(manifest, &w, t);
    }
}

static void compare_dots(const cJSON *manifest, const char *name, kq_order order, tally *t)
{
    for (size_t i = 0; i < sizeof Gs / sizeof *Gs; i++) {
        for (size_t c = 0; c < 4 * (sizeof counts / sizeof *counts); c++) {
            const uint32_t *count = counts[c / 4];
            const kq_repeat repeat = {
                .count = {count[0], count[1]},
                .lhs_step = {144, 144},
                .rhs_step = {c % 2 * 292, c / 2 % 2 * 292},
                .result_step = {4, (uint64_t)4 * count[0]},
            };
            work w = {name, {.op = KQ_OP_QUANTIZED_DOT, .order = order, .repeat = &repeat}};
            w.operation.lhs_format = KQ_FORMAT_Q4_K;
            w.operation.rhs_format = KQ_FORMAT_Q8_K;
            w.operation.acc = KQ_ACCUMULATOR_F32;
            for (int role = 0; role < KQ_BINDING_COUNT; role++) {
                w.operation.operands[role] = operand((uint64_t)role + 1, Gs[i]);
            }
            compare(manifest, &w, t);
        }
    }
}

static void compare_preset(const cJSON *manifest, tally *t)
{
    const kq_status preset = KQ_STATUS_PRESET;
    uint32_t words[4];
    memcpy(words, &preset, sizeof words);
    const cJSON *operations = manifest_member(manifest, "operations");
    const cJSON *presets = manifest_member(manifest_member(operations, "quantize"), "preset");
    const cJSON *status = manifest_member(presets, "status");
    for (int i = 0; i < 4; i++) {
        const double word = cJSON_GetNumberValue(cJSON_GetArrayItem(status, i));
        if (cJSON_GetArraySize(status) != 4 || word != words[i]) {
            printf("word %d of the status's preset is %.0f\n", i, word);
            t->wrong++;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: manifest_plan FOLDER\n");
        return 2;
    }
    cJSON *manifest = manifest_read(argv[1]);
    tally t = {0};
    compare_quantize(manifest, &t);
    compare_dots(manifest, "quantized_dot.sequential", KQ_ORDER_SEQUENTIAL, &t);
    compare_dots(manifest, "quantized_dot.pairwise", KQ_ORDER_PAIRWISE, &t);
    compare_preset(manifest, &t);
    cJSON_Delete(manifest);
    printf("manifest_plan: %u plans, %u dispatches, %u wrong\n", t.plans, t.dispatches, t.wrong);
    return t.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
