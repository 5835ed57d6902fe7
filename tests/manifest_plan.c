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
    const char *api;         // whose kernels are meant
    uint32_t variants;       // that it has, as in kq_limits
    uint32_t is_dispatched;  // kernels, as bits
} tally;

// A plan of the library's, and what the manifest is asked for it.
typedef struct work {
    const char *operation;  // as the manifest has it
    uint32_t G, count[2];
    kq_plan plan;
    manifest_values values;
} work;

static void fail(tally *t, const work *w, const char *what, uint64_t got, uint64_t wanted)
{
    printf("%s, G = %" PRIu32 ", dots = %" PRIu32 " x %" PRIu32 ": %s %" PRIu64
           " where the library has %" PRIu64 "\n",
           w->operation, w->G, w->count[0], w->count[1], what, got, wanted);
    t->wrong++;
}

static void compare_dispatch(const manifest_dispatch *d, kq_step step, const work *w, tally *t)
{
    const char *name = manifest_text(d->kernel, "name");
    uint32_t params[sizeof step.params / sizeof *step.params] = {0};
    if (strcmp(name, kq_kernel_names[step.kernel]) != 0) {
        printf("%s where the library has %s\n", name, kq_kernel_names[step.kernel]);
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
    if (w->plan.op == KQ_OP_QUANTIZED_DOT) {
        // What ends a dot leaves nothing in scratch, so it doesn't matter where.
        kq_dot_params ours;
        memcpy(&ours, step.params, sizeof ours);
        if (ours.ends && !ours.resumes) {
            params[offsetof(kq_dot_params, to_at) / 4] = ours.to_at;
        }
    }
    for (uint32_t i = 0; i < step.params_bytes / 4; i++) {
        if (params[i] != step.params[i]) {
            printf("param %" PRIu32 " of %s: ", i, name);
            fail(t, w, "it is", params[i], step.params[i]);
        }
    }
}

static void compare(const cJSON *manifest, const work *w, tally *t)
{
    const kq_plan *plan = &w->plan;
    manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES];
    const uint64_t scratch_bytes = manifest_scratch_bytes(manifest, w->operation, &w->values);
    const size_t count =
        manifest_dispatches(manifest, t->api, w->operation, &w->values, dispatches);
    t->plans++;
    if (scratch_bytes != plan->needs.scratch_bytes) {
        fail(t, w, "scratch bytes", scratch_bytes, plan->needs.scratch_bytes);
    }
    if (count != plan->needs.dispatch_count) {
        fail(t, w, "dispatches", count, plan->needs.dispatch_count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const kq_step step = kq_plan_step(plan, i);
        compare_dispatch(&dispatches[i], step, w, t);
        t->is_dispatched |= 1u << step.kernel;
        t->dispatches++;
    }
}

static kq_limits limits_of(const tally *t)
{
    return (kq_limits){UINT32_MAX, "range", 64, {UINT32_MAX, 1}, "groups", t->variants};
}

static void compare_operation(const cJSON *manifest, work *w, const kq_operation *operation,
                              tally *t)
{
    const kq_errors errors = {0};
    const kq_limits limits = limits_of(t);
    if (kq_plan_make(operation, true, &limits, &errors, &w->plan) != KQ_OK ||
        w->plan.needs.limit != NULL || w->plan.needs.missing_bytes != 0) {
        fail(t, w, "no plan", 0, 0);
        return;
    }
#define SET_QUANTIZE(field) manifest_set(&w->values, #field, w->plan.quantize.field);
#define SET_DOT(field)      manifest_set(&w->values, #field, w->plan.dot.field);
    if (operation->op == KQ_OP_QUANTIZE) {
        KQ_QUANTIZE_PARAMS(SET_QUANTIZE)
    } else {
        KQ_DOT_PARAMS(SET_DOT)
    }
    compare(manifest, w, t);
}

static void compare_primitives(const cJSON *manifest, uint32_t count, tally *t)
{
    work w = {.operation = "primitive", .G = count};
    const kq_limits limits = limits_of(t);
    kq_plan_primitives(count, 12, &limits, &w.plan);
#define SET_PRIMITIVE(field) manifest_set(&w.values, #field, w.plan.primitive.field);
    KQ_PRIMITIVE_PARAMS(SET_PRIMITIVE)
    compare(manifest, &w, t);
}

static void compare_bandwidth(const cJSON *manifest, uint32_t count, tally *t)
{
    work w = {.operation = "bandwidth", .G = count};
    const kq_limits limits = limits_of(t);
    const kq_transfer transfer = {.bytes = (uint64_t)count * KQ_BANDWIDTH_BYTES,
                                  .is_copy = count % 2};
    kq_plan_bandwidth(&transfer, &limits, &w.plan);
#define SET_BANDWIDTH(field) manifest_set(&w.values, #field, w.plan.bandwidth.field);
    KQ_BANDWIDTH_PARAMS(SET_BANDWIDTH)
    compare(manifest, &w, t);
}

static const uint32_t Gs[] = {0,   1,   2,   3,   4,     5,     8,     9,     63,    64,
                              100, 127, 128, 129, 16384, 16385, 32768, 32769, 65537, 100000};
static const uint32_t counts[][2] = {{0, 1},  {1, 1},  {2, 1},  {31, 1}, {32, 1},  {1, 33},
                                     {32, 3}, {64, 1}, {65, 2}, {2, 70}, {100, 10}};

static kq_operand operand(uint64_t buffer, uint32_t G)
{
    return (kq_operand){buffer, UINT32_MAX - 3, {.stride = KQ_BROADCAST, .G = G}};
}

static void compare_quantize(const cJSON *manifest, uint32_t G, tally *t)
{
    work w = {.operation = "quantize", .G = G, .count = {1, 1}};
    kq_operation operation = {.op = KQ_OP_QUANTIZE, .format = KQ_FORMAT_Q8_K};
    // Of values and records: for the first three there is a variant, and for no other.
    static const kq_view views[][2] = {
        {{.stride = KQ_BROADCAST}, {0}},
        {{.offset = 16, .stride = 1040}, {.offset = 4, .stride = 300}},
        {{.offset = 48}, {.offset = 60}},
        {{.offset = 8}, {0}},
        {{.stride = 1032}, {0}},
        {{.value_stride = 8, .stride = 2048}, {0}},
        {{.value_stride = KQ_BROADCAST, .stride = 16}, {0}},
        {{0}, {.offset = 2}},
        {{0}, {.stride = 294}},
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        for (int role = 0; role < 3; role++) {
            operation.operands[role] = operand((uint64_t)role + 1, G);
        }
        operation.operands[KQ_VALUES].view = views[i][0];
        operation.operands[KQ_RECORDS].view = views[i][1];
        operation.operands[KQ_VALUES].view.G = G;
        operation.operands[KQ_RECORDS].view.G = G;
        compare_operation(manifest, &w, &operation, t);
    }
}

static void compare_dot(const cJSON *manifest, kq_order order, uint32_t G, const kq_view *lhs,
                        const kq_repeat *repeat, tally *t)
{
    work w = {.G = G, .count = {repeat->count[0], repeat->count[1]}};
    w.operation =
        order == KQ_ORDER_PAIRWISE ? "quantized_dot.pairwise" : "quantized_dot.sequential";
    kq_operation operation = {.op = KQ_OP_QUANTIZED_DOT,
                              .lhs_format = KQ_FORMAT_Q4_K,
                              .rhs_format = KQ_FORMAT_Q8_K,
                              .acc = KQ_ACCUMULATOR_F32,
                              .order = order,
                              .repeat = repeat};
    for (int role = 0; role < KQ_BINDING_COUNT; role++) {
        operation.operands[role] = operand((uint64_t)role + 1, G);
    }
    operation.operands[KQ_LHS].view = *lhs;
    operation.operands[KQ_LHS].view.G = G;
    compare_operation(manifest, &w, &operation, t);
}

// Where lhs lies: at multiples of 16, and not in one thing alone.
static const struct {
    kq_view view;
    uint64_t step[2];
} lhs_places[] = {
    {{.stride = KQ_BROADCAST}, {144, 144}},
    {{.offset = 80, .stride = 160}, {16, 0}},
    {{.offset = 72}, {144, 144}},
    {{.offset = 72}, {144, 0}},
    {{.stride = 152}, {144, 144}},
    {{.stride = 152}, {144, 0}},
    {{.offset = 16}, {24, 144}},
    {{.offset = 16}, {24, 0}},
    {{.offset = 64}, {0, 152}},
};

static void compare_dots(const cJSON *manifest, uint32_t G, tally *t)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        // Where it lies chooses kernels, and that is all; more than two records change nothing
        // there.
        const uint64_t places = G < 3 ? sizeof lhs_places / sizeof *lhs_places : 2;
        for (uint64_t k = 0; k < 4 * places; k++) {
            const uint64_t *step = lhs_places[k / 4].step;
            const kq_repeat repeat = {
                .count = {counts[i][0], counts[i][1]},
                .lhs_step = {step[0], step[1]},
                .rhs_step = {k % 2 * 292, k / 2 % 2 * 292},
                .result_step = {4, UINT64_C(4) * counts[i][0]},
            };
            const kq_view *lhs = &lhs_places[k / 4].view;
            compare_dot(manifest, KQ_ORDER_SEQUENTIAL, G, lhs, &repeat, t);
            compare_dot(manifest, KQ_ORDER_PAIRWISE, G, lhs, &repeat, t);
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

static unsigned kernel_of(const char *name)
{
    unsigned kernel = 0;
    while (kernel < KQ_KERNEL_COUNT && strcmp(name, kq_kernel_names[kernel]) != 0) {
        kernel++;
    }
    return kernel;
}

// With all kernels that the manifest has for an API. Each of them is dispatched, but of those for
// CPUs, which leave some to do nothing, only the variants.
static void compare_api(const cJSON *manifest, const char *api, tally *t)
{
    uint32_t all = 0;
    const cJSON *kernel;
    t->api = api;
    t->variants = 0;
    t->is_dispatched = 0;
    cJSON_ArrayForEach(kernel, manifest_member(manifest, "kernels"))
    {
        const char *name = manifest_text(kernel, "name");
        const unsigned number = kernel_of(name);
        if (number == KQ_KERNEL_COUNT) {
            printf("%s, which the library doesn't know\n", name);
            t->wrong++;
        } else if (manifest_has_file(kernel, api)) {
            all |= 1u << number;
            t->variants |= kq_kernel_is_variant(number) ? 1u << number : 0;
        }
    }
    if (all == 0) {
        return;  // the library is built without
    }
    for (size_t i = 0; i < sizeof Gs / sizeof *Gs; i++) {
        compare_quantize(manifest, Gs[i], t);
        compare_dots(manifest, Gs[i], t);
        compare_primitives(manifest, Gs[i] + 1, t);  // the library asks for some always
        compare_bandwidth(manifest, Gs[i] + 1, t);
    }
    all = strcmp(api, "opencl_cpu") == 0 ? t->variants : all;
    if ((t->is_dispatched & all) != all) {
        printf("kernels 0x%" PRIX32 " of 0x%" PRIX32 " are dispatched\n", t->is_dispatched, all);
        t->wrong++;
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
    compare_api(manifest, "vulkan", &t);
    compare_api(manifest, "opencl_64", &t);
    compare_api(manifest, "opencl_cpu", &t);
    compare_preset(manifest, &t);
    cJSON_Delete(manifest);
    printf("manifest_plan: %u plans, %u dispatches, %u wrong\n", t.plans, t.dispatches, t.wrong);
    return t.wrong == 0 && t.plans > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
