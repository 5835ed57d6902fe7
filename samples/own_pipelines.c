// An engine that makes its own pipelines: from kquant's .spv files and their manifest alone,
// without the library and without its headers. Quantizes and multiplies the test vectors and
// compares every byte. own_kernels.c is the same for OpenCL.
//
// What to look at for your own program: make_kernel() and run(); manifest.c says what to dispatch.

#include "manifest.h"
#include "own_trial.h"
#include "vulkan_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 16, MOST_BINDINGS = TRIAL_RANGES + 1 };

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
} engine;

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
    e->manifest = manifest_read(folder);
    const cJSON *described;
    cJSON_ArrayForEach(described, manifest_member(e->manifest, "kernels"))
    {
        if (manifest_has_file(described, "vulkan") && e->kernel_count < MOST_KERNELS) {
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

// --- An operation

typedef struct role {
    const char *name;
    base_buffer buffer;
} role;

static role make_role(const engine *e, const char *name, const void *data, size_t bytes)
{
    // Kernels take whole words, and Vulkan has no buffer of 0 bytes.
    const size_t padded = (bytes > 0 ? bytes + 3 : 4) & ~(size_t)3;
    role made = {name,
                 base_make_buffer(&e->base, padded, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, true)};
    memset(made.buffer.host, 0xAA, padded);  // so that what isn't written shows
    if (data != NULL) {
        memcpy(made.buffer.host, data, bytes);
    }
    return made;
}

static base_buffer *find_buffer(role *roles, const char *name)
{
    for (uint32_t i = 0; i < MOST_BINDINGS; i++) {
        if (strcmp(roles[i].name, name) == 0) {
            return &roles[i].buffer;
        }
    }
    fprintf(stderr, "a kernel wants %s\n", name);
    exit(EXIT_FAILURE);
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

static const kernel *find_kernel(const engine *e, const cJSON *described)
{
    const kernel *k = e->kernels;
    while (k->described != described) {
        k++;
    }
    return k;
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

static void record(const engine *e, const manifest_dispatch *d)
{
    const kernel *k = find_kernel(e, d->kernel);
    const uint64_t most = e->base.properties.limits.maxComputeWorkGroupCount[0];
    const uint64_t x = d->workgroups < most ? d->workgroups : most;
    vkCmdBindPipeline(e->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline.pipeline);
    vkCmdBindDescriptorSets(e->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline.layout, 0, 1,
                            &k->set, 0, NULL);
    vkCmdPushConstants(e->commands, k->pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       d->params_bytes, d->params);
    vkCmdDispatch(e->commands, (uint32_t)x, (uint32_t)((d->workgroups + x - 1) / x), 1);
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

static void run(void *user, const char *operation, const manifest_values *values,
                const trial_range ranges[TRIAL_RANGES])
{
    const engine *e = user;
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    role roles[MOST_BINDINGS];
    for (int i = 0; i < TRIAL_RANGES; i++) {
        roles[i] = make_role(e, ranges[i].role, ranges[i].in, ranges[i].bytes);
    }
    const uint64_t scratch_bytes = manifest_scratch_bytes(e->manifest, operation, values);
    roles[TRIAL_RANGES] = make_role(e, "scratch", NULL, scratch_bytes);
    write_presets(e, operation, roles);

    manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES];
    const size_t count = manifest_dispatches(e->manifest, "vulkan", operation, values, dispatches);
    for (size_t i = 0; i < count; i++) {
        write_set(e, find_kernel(e, dispatches[i].kernel), roles);
    }
    BASE_CHECK(vkBeginCommandBuffer(e->commands, &begin));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            base_barrier(e->commands, compute, VK_ACCESS_SHADER_WRITE_BIT, compute,
                         VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        }
        record(e, &dispatches[i]);
    }
    base_barrier(e->commands, compute, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                 VK_ACCESS_HOST_READ_BIT);
    BASE_CHECK(vkEndCommandBuffer(e->commands));
    submit(e);

    for (int i = 0; i < TRIAL_RANGES; i++) {
        if (ranges[i].out != NULL) {
            memcpy(ranges[i].out, roles[i].buffer.host, ranges[i].bytes);
        }
    }
    for (int i = 0; i < MOST_BINDINGS; i++) {
        base_destroy_buffer(&e->base, &roles[i].buffer);
    }
}

// --- The program

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
    printf("%s, %u kernels\n", e.base.properties.deviceName, e.kernel_count);
    const bool ok = trial_vectors(run, &e, argv + first + 1, argc - first - 1);
    destroy_engine(&e);
    if (e.base.message_count != 0) {
        fprintf(stderr, "own_pipelines: the validation layer had something to say\n");
        return EXIT_FAILURE;
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
