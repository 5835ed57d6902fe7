// An engine that makes its own pipelines: from kquant's .spv files and their manifest alone,
// without the library and without its headers. Quantizes and multiplies the test vectors and
// compares every byte.
//
// What to look at for your own program: make_kernel() and run(); manifest.c says what to dispatch.

#include "manifest.h"
#include "vectors.h"
#include "vulkan_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_KERNELS = 16,
    MOST_BINDINGS = 4,
    SHARED_DOTS = 40,  // of one rhs: enough that the manifest takes the kernel for that
    LONG_DOT = 70000,  // more records than a dispatch of the sequential fold takes
};

typedef struct kernel {
    const cJSON *described;
    VkDescriptorSetLayout set_layout;
    base_pipeline pipeline;
    VkDescriptorSet set;
} kernel;

typedef struct engine {
    base base;
    cJSON *manifest;
    kernel kernels[MOST_KERNELS];
    uint32_t kernel_count;
    VkDescriptorPool pool;
    VkCommandBuffer commands;
    uint32_t most_groups_x;
} engine;

typedef struct role {
    const char *name;
    base_buffer buffer;
} role;

// --- Pipelines from the manifest

static void make_set_layout(const engine *e, kernel *k)
{
    VkDescriptorSetLayoutBinding bindings[MOST_BINDINGS];
    uint32_t count = 0;
    const cJSON *binding;
    cJSON_ArrayForEach(binding, manifest_member(k->described, "bindings"))
    {
        if (count == MOST_BINDINGS) {
            fprintf(stderr, "a kernel of more than %d bindings\n", MOST_BINDINGS);
            exit(EXIT_FAILURE);
        }
        bindings[count++] = (VkDescriptorSetLayoutBinding){
            .binding = manifest_number(binding, "binding"),
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    const VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = count,
        .pBindings = bindings,
    };
    BASE_CHECK(vkCreateDescriptorSetLayout(e->base.device, &info, NULL, &k->set_layout));
}

static void make_kernel(const engine *e, const char *folder, const cJSON *described, kernel *k)
{
    k->described = described;
    make_set_layout(e, k);
    const cJSON *file = manifest_member(manifest_member(described, "files"), "vulkan");
    const cJSON *params = manifest_member(described, "params");
    const cJSON *last = cJSON_GetArrayItem(params, cJSON_GetArraySize(params) - 1);
    size_t bytes;
    void *spirv = manifest_read_file(folder, described, "vulkan", &bytes);
    k->pipeline = base_make_pipeline(&e->base, spirv, bytes, manifest_text(file, "entry_point"),
                                     k->set_layout, manifest_number(last, "offset") + 4);
    free(spirv);
    k->set = base_make_set(&e->base, e->pool, k->set_layout);
}

static void make_engine(engine *e, const char *folder)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       MOST_KERNELS * MOST_BINDINGS};
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = MOST_KERNELS,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    const VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = e->base.commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    BASE_CHECK(vkCreateDescriptorPool(e->base.device, &pool, NULL, &e->pool));
    BASE_CHECK(vkAllocateCommandBuffers(e->base.device, &commands, &e->commands));
    e->most_groups_x = e->base.properties.limits.maxComputeWorkGroupCount[0];
    e->manifest = manifest_read(folder);
    const cJSON *described;
    cJSON_ArrayForEach(described, manifest_member(e->manifest, "kernels"))
    {
        if (e->kernel_count < MOST_KERNELS) {
            make_kernel(e, folder, described, &e->kernels[e->kernel_count++]);
        }
    }
}

static void destroy_engine(engine *e)
{
    for (uint32_t i = 0; i < e->kernel_count; i++) {
        base_destroy_pipeline(&e->base, &e->kernels[i].pipeline);
        vkDestroyDescriptorSetLayout(e->base.device, e->kernels[i].set_layout, NULL);
    }
    vkDestroyDescriptorPool(e->base.device, e->pool, NULL);
    cJSON_Delete(e->manifest);
    base_close(&e->base);
}

// --- An operation on buffers

static base_buffer make_buffer(const engine *e, const void *data, size_t bytes)
{
    // Kernels take whole words, and Vulkan has no buffer of 0 bytes.
    const size_t padded = (bytes > 0 ? bytes + 3 : 4) & ~(size_t)3;
    base_buffer buffer =
        base_make_buffer(&e->base, padded, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, true);
    if (data != NULL) {
        memcpy(buffer.host, data, bytes);
    } else {
        memset(buffer.host, 0xAA, padded);  // so that what isn't written shows
    }
    return buffer;
}

static base_buffer *find_buffer(role *roles, const char *name)
{
    for (uint32_t i = 0; i < MOST_BINDINGS; i++) {
        if (roles[i].name != NULL && strcmp(roles[i].name, name) == 0) {
            return &roles[i].buffer;
        }
    }
    fprintf(stderr, "a kernel wants %s\n", name);
    exit(EXIT_FAILURE);
}

static void write_set(const engine *e, const kernel *k, role *roles)
{
    const cJSON *binding;
    cJSON_ArrayForEach(binding, manifest_member(k->described, "bindings"))
    {
        const VkDescriptorBufferInfo buffer = {find_buffer(roles, binding->string)->buffer, 0,
                                               VK_WHOLE_SIZE};
        const VkWriteDescriptorSet write = {
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = k->set,
            .dstBinding = manifest_number(binding, "binding"),
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &buffer,
        };
        vkUpdateDescriptorSets(e->base.device, 1, &write, 0, NULL);
    }
}

static const kernel *find_kernel(const engine *e, const cJSON *described)
{
    const kernel *k = e->kernels;
    while (k->described != described) {
        k++;
    }
    return k;
}

static void write_presets(const engine *e, const char *operation, role *roles)
{
    const cJSON *operations = manifest_member(e->manifest, "operations");
    const cJSON *preset, *word;
    cJSON_ArrayForEach(preset, manifest_member(manifest_member(operations, operation), "preset"))
    {
        uint32_t *words = find_buffer(roles, preset->string)->host;
        cJSON_ArrayForEach(word, preset)
        {
            *words++ = (uint32_t)word->valuedouble;
        }
    }
}

static void submit(const engine *e)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &e->commands,
    };
    BASE_CHECK(vkQueueSubmit(e->base.queue, 1, &info, VK_NULL_HANDLE));
    BASE_CHECK(vkQueueWaitIdle(e->base.queue));
}

// Carries out an operation, and waits. roles: its buffers; scratch joins them here.
static void run(const engine *e, const char *operation, const manifest_values *values,
                role roles[MOST_BINDINGS])
{
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES];
    const size_t count = manifest_dispatches(e->manifest, operation, values, dispatches);
    const size_t scratch_bytes = manifest_scratch_bytes(e->manifest, operation, values);
    role *scratch = &roles[MOST_BINDINGS - 1];
    *scratch = (role){"scratch", make_buffer(e, NULL, scratch_bytes)};
    write_presets(e, operation, roles);
    for (size_t i = 0; i < count; i++) {
        write_set(e, find_kernel(e, dispatches[i].kernel), roles);
    }

    BASE_CHECK(vkBeginCommandBuffer(e->commands, &begin));
    for (size_t i = 0; i < count; i++) {
        const manifest_dispatch *d = &dispatches[i];
        const kernel *k = find_kernel(e, d->kernel);
        const uint64_t x = d->workgroups < e->most_groups_x ? d->workgroups : e->most_groups_x;
        if (i > 0) {
            base_barrier(e->commands, compute, VK_ACCESS_SHADER_WRITE_BIT, compute,
                         VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        }
        vkCmdBindPipeline(e->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline.pipeline);
        vkCmdBindDescriptorSets(e->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline.layout, 0,
                                1, &k->set, 0, NULL);
        vkCmdPushConstants(e->commands, k->pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           d->params_bytes, d->params);
        vkCmdDispatch(e->commands, (uint32_t)x, (uint32_t)((d->workgroups + x - 1) / x), 1);
    }
    base_barrier(e->commands, compute, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                 VK_ACCESS_HOST_READ_BIT);
    BASE_CHECK(vkEndCommandBuffer(e->commands));
    submit(e);
    base_destroy_buffer(&e->base, &scratch->buffer);
}

// --- The two operations

// Fills records, G * 292 bytes, and status.
static void quantize(const engine *e, const unsigned char *values, uint32_t G,
                     unsigned char *records, uint32_t status[4])
{
    const size_t bytes = (size_t)G * VECTORS_Q8_K_BYTES;
    role roles[MOST_BINDINGS] = {
        {"values", make_buffer(e, values, (size_t)G * VECTORS_VALUES_BYTES)},
        {"records", make_buffer(e, NULL, bytes)},
        {"status", make_buffer(e, NULL, 16)},
    };
    manifest_values params = {0};
    manifest_set(&params, "G", G);
    manifest_set(&params, "values_stride", VECTORS_VALUES_BYTES);
    manifest_set(&params, "value_stride", 4);
    manifest_set(&params, "records_stride", VECTORS_Q8_K_BYTES);
    run(e, "quantize", &params, roles);
    memcpy(records, roles[1].buffer.host, bytes);
    memcpy(status, roles[2].buffer.host, 16);
    for (int i = 0; i < 3; i++) {
        base_destroy_buffer(&e->base, &roles[i].buffer);
    }
}

typedef struct dot {
    uint32_t G, dots;
    const unsigned char *lhs, *rhs;
    size_t lhs_bytes, rhs_bytes;
    uint32_t lhs_stride, rhs_stride;  // from one record of a dot to the next
    uint32_t lhs_step;                // from one dot to the next; all dots have the same rhs
} dot;

static void take_dots(const engine *e, const char *operation, const dot *d, uint32_t *results)
{
    role roles[MOST_BINDINGS] = {
        {"lhs", make_buffer(e, d->lhs, d->lhs_bytes)},
        {"rhs", make_buffer(e, d->rhs, d->rhs_bytes)},
        {"result", make_buffer(e, NULL, 4 * (size_t)d->dots)},
    };
    manifest_values params = {0};
    manifest_set(&params, "G", d->G);
    manifest_set(&params, "dots", d->dots);
    manifest_set(&params, "inner", d->dots);
    manifest_set(&params, "lhs_stride", d->lhs_stride);
    manifest_set(&params, "lhs_inner_step", d->lhs_step);
    manifest_set(&params, "rhs_stride", d->rhs_stride);
    manifest_set(&params, "result_inner_step", 4);
    run(e, operation, &params, roles);
    memcpy(results, roles[2].buffer.host, 4 * (size_t)d->dots);
    for (int i = 0; i < 3; i++) {
        base_destroy_buffer(&e->base, &roles[i].buffer);
    }
}

// --- Vectors

typedef struct tally {
    unsigned blocks, dots, shared, folds, wrong;
} tally;

static void judge(tally *t, bool ok, const char *name, const char *what)
{
    if (!ok) {
        printf("%s: %s: other bits than the vector's\n", name, what);
        t->wrong++;
    }
}

static const char *const orders[] = {"quantized_dot.sequential", "quantized_dot.pairwise"};

static void try_quantize(const engine *e, const vector *v, unsigned char *records, tally *t)
{
    const size_t bytes = (size_t)v->G * VECTORS_Q8_K_BYTES;
    uint32_t status[4];
    quantize(e, v->values, v->G, records, status);
    judge(t,
          v->records != NULL ? memcmp(records, v->records, bytes) == 0
                             : vectors_digest(records, bytes) == v->digest,
          v->name, "records");
    judge(t, status[0] == v->lowest_bad && status[2] == v->G, v->name, "status");
    t->blocks += v->G;
}

// The dot alone, and as many at once that share rhs, each with a copy of lhs at some odd byte.
static void try_dots(const engine *e, const vector *v, const unsigned char *rhs, tally *t)
{
    const size_t bytes = (size_t)v->G * VECTORS_Q4_K_BYTES;
    const size_t step = bytes + 1;
    unsigned char *copies = calloc(SHARED_DOTS, step);
    if (copies == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < SHARED_DOTS; i++) {
        memcpy(copies + i * step, v->lhs, bytes);
    }
    dot d = {
        .G = v->G,
        .dots = 1,
        .lhs = v->lhs,
        .rhs = rhs,
        .lhs_bytes = bytes,
        .rhs_bytes = (size_t)v->G * VECTORS_Q8_K_BYTES,
        .lhs_stride = VECTORS_Q4_K_BYTES,
        .rhs_stride = VECTORS_Q8_K_BYTES,
        .lhs_step = (uint32_t)step,
    };
    for (int order = 0; order < 2; order++) {
        const uint32_t expected = order == 0 ? v->sequential : v->pairwise;
        uint32_t results[SHARED_DOTS];
        d.dots = 1;
        take_dots(e, orders[order], &d, results);
        judge(t, results[0] == expected, v->name, orders[order]);
        t->dots++;
        if (v->G > 300) {
            continue;  // software devices take their time
        }
        dot shared = d;
        shared.dots = SHARED_DOTS;
        shared.lhs = copies;
        shared.lhs_bytes = SHARED_DOTS * step;
        take_dots(e, orders[order], &shared, results);
        for (int i = 0; i < SHARED_DOTS; i++) {
            judge(t, results[i] == expected, v->name, "dots that share rhs");
        }
        t->shared += SHARED_DOTS;
    }
    free(copies);
}

static float add_pairwise(float term, uint32_t count)
{
    uint32_t half = 1;
    while (2 * half < count) {
        half *= 2;
    }
    if (count == 1) {
        return term;
    }
    volatile float sum = add_pairwise(term, half) + add_pairwise(term, count - half);
    return sum;
}

// One pair of records over and over, whose term is the dot of one, in folds of several dispatches.
static void try_long_fold(const engine *e, const vector *v, const unsigned char *rhs, tally *t)
{
    const dot d = {
        .G = LONG_DOT,
        .dots = 1,
        .lhs = v->lhs,
        .rhs = rhs,
        .lhs_bytes = VECTORS_Q4_K_BYTES,
        .rhs_bytes = VECTORS_Q8_K_BYTES,
    };
    float term;
    memcpy(&term, &v->sequential, 4);
    volatile float sum = term;
    for (uint32_t i = 1; i < LONG_DOT; i++) {
        sum += term;
    }
    const float expected[2] = {sum, add_pairwise(term, LONG_DOT)};
    for (int order = 0; order < 2; order++) {
        uint32_t bits, result;
        memcpy(&bits, &expected[order], 4);
        take_dots(e, orders[order], &d, &result);
        judge(t, result == bits, v->name, "a dot of many records");
        t->folds++;
    }
}

static void try_folder(const engine *e, const char *folder, tally *t)
{
    size_t count;
    vector *vectors = vectors_read(folder, &count);
    for (size_t i = 0; i < count; i++) {
        const vector *v = &vectors[i];
        unsigned char *made = malloc((size_t)v->G * VECTORS_Q8_K_BYTES + 1);
        if (made == NULL) {
            fprintf(stderr, "out of memory\n");
            exit(EXIT_FAILURE);
        }
        const unsigned char *rhs = v->records != NULL ? v->records : made;
        if (v->values != NULL) {
            try_quantize(e, v, made, t);
        }
        if (v->lhs != NULL) {
            try_dots(e, v, rhs, t);
        }
        if (v->lhs != NULL && v->values != NULL && v->G == 1) {
            try_long_fold(e, v, rhs, t);
        }
        free(made);
    }
    vectors_free(vectors, count);
}

static int print_usage(FILE *file)
{
    fprintf(file, "usage: own_pipelines [--device=NAME] [--validate] DATA VECTORS...\n\n"
                  "Makes pipelines from the files and kernels.json of DATA, share/kquant once\n"
                  "installed, and compares what they give with test vectors. NAME is a part of a\n"
                  "device's name; --validate: under VK_LAYER_KHRONOS_validation, which must have\n"
                  "nothing to say.\n\n"
                  "  own_pipelines /usr/local/share/kquant tests/vectors\n");
    return file == stdout ? EXIT_SUCCESS : 2;
}

int main(int argc, char **argv)
{
    static engine e;
    const char *device = NULL;
    bool validate = false;
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strncmp(argv[first], "--device=", 9) == 0) {
            device = argv[first] + 9;
        } else if (strcmp(argv[first], "--validate") == 0) {
            validate = true;
        } else {
            return print_usage(strcmp(argv[first], "--help") == 0 ? stdout : stderr);
        }
    }
    if (argc - first < 2) {
        return print_usage(stderr);
    }
    base_open(&e.base, device, validate);
    make_engine(&e, argv[first]);
    tally t = {0};
    for (int i = first + 1; i < argc; i++) {
        try_folder(&e, argv[i], &t);
    }
    printf("%s: %u kernels; %u blocks quantized, %u dots alone, %u that share rhs, %u of %d "
           "records: %u wrong\n",
           e.base.properties.deviceName, e.kernel_count, t.blocks, t.dots, t.shared, t.folds,
           LONG_DOT, t.wrong);
    destroy_engine(&e);
    if (e.base.message_count != 0) {
        fprintf(stderr, "own_pipelines: the validation layer had something to say\n");
        return EXIT_FAILURE;
    }
    return t.wrong == 0 && t.blocks > 0 && t.dots > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
