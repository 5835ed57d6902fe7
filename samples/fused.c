// Runs the shader of fused.comp, which quantizes a block and takes 64 dots in one go, and compares
// its record and its results with those of kquant's own kernels, a quantize and a repeat of dots.

#include "vulkan_base.h"  // includes volk.h, which has to come before kquant/vulkan.h

#include <kquant/vulkan.h>

#include "fused.comp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOTS = 64, BINDINGS = 4 };

typedef struct fused {
    base base;
    kq_vulkan *pack;
    base_buffer values, weights, results, record;              // of the shader
    base_buffer own_results, own_record, own_status, scratch;  // of kquant, beside the same inputs
    VkDescriptorSetLayout layout;
    VkDescriptorPool pool;
    VkDescriptorSet set, quantize_set, dot_set;
    base_pipeline pipeline;
    VkCommandBuffer commands;
    VkFence fence;
    kq_vulkan_quantize quantize;
    kq_vulkan_quantized_dot dot;
} fused;

static const kq_repeat each_row = {
    .count = {DOTS, 1}, .lhs_step = {KQ_Q4_K_BYTES}, .result_step = {sizeof(float)}};

static void report(void *user, kq_result result, const char *reason)
{
    (void)user;
    fprintf(stderr, "fused: %s: %s\n", kq_result_name(result), reason);
}

static void must(bool ok)
{
    if (!ok) {  // report() has told why
        exit(EXIT_FAILURE);
    }
}

// --- Set-up

static base_buffer make_buffer(const fused *f, VkDeviceSize bytes)
{
    return base_make_buffer(&f->base, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, true);
}

static void make_buffers(fused *f)
{
    f->values = make_buffer(f, KQ_BLOCK_BYTES);
    f->weights = make_buffer(f, DOTS * KQ_Q4_K_BYTES);
    f->results = make_buffer(f, DOTS * sizeof(float));
    f->record = make_buffer(f, KQ_Q8_K_BYTES);
    f->own_results = make_buffer(f, DOTS * sizeof(float));
    f->own_record = make_buffer(f, KQ_Q8_K_BYTES);
    f->own_status = make_buffer(f, sizeof(kq_status));
}

static void make_operations(fused *f)
{
    const kq_vulkan_params params = {
        .get_instance_proc_addr = vkGetInstanceProcAddr,
        .instance = f->base.instance,
        .physical_device = f->base.physical_device,
        .device = f->base.device,
        .errors = {report, NULL},
    };
    must(kq_vulkan_create(&params, &f->pack) == KQ_OK);
    f->quantize = (kq_vulkan_quantize){
        .format = KQ_FORMAT_Q8_K,
        .values = {f->values.buffer, f->values.bytes, {.G = 1}},
        .records = {f->own_record.buffer, f->own_record.bytes, {.G = 1}},
        .status = {f->own_status.buffer, f->own_status.bytes, 0},
    };
    f->dot = (kq_vulkan_quantized_dot){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .lhs = {f->weights.buffer, f->weights.bytes, {.G = 1}},
        .rhs = {f->own_record.buffer, f->own_record.bytes, {.G = 1}},
        .result = {f->own_results.buffer, f->own_results.bytes, 0},
        .repeat = &each_row,
    };
    kq_needs needs;  // 64 dots are below every limit that Vulkan allows
    must(kq_vulkan_quantized_dot_query(f->pack, &f->dot, &needs) == KQ_OK);
    f->scratch = make_buffer(f, needs.scratch_bytes);
    f->dot.scratch = (kq_vulkan_range){f->scratch.buffer, f->scratch.bytes, 0};
}

static void make_sets(fused *f)
{
    const base *b = &f->base;
    VkDescriptorSetLayoutBinding bindings[BINDINGS];
    for (uint32_t i = 0; i < BINDINGS; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                     VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    }
    const VkDescriptorSetLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = BINDINGS,
        .pBindings = bindings,
    };
    BASE_CHECK(vkCreateDescriptorSetLayout(b->device, &layout, NULL, &f->layout));
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 3 * BINDINGS};
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 3,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    BASE_CHECK(vkCreateDescriptorPool(b->device, &pool, NULL, &f->pool));

    f->quantize_set = base_make_set(b, f->pool, kq_vulkan_set_layout(f->pack));
    f->dot_set = base_make_set(b, f->pool, kq_vulkan_set_layout(f->pack));
    must(kq_vulkan_quantize_write_set(f->pack, &f->quantize, f->quantize_set) == KQ_OK);
    must(kq_vulkan_quantized_dot_write_set(f->pack, &f->dot, f->dot_set) == KQ_OK);

    f->set = base_make_set(b, f->pool, f->layout);
    const VkDescriptorBufferInfo buffers[BINDINGS] = {
        {f->values.buffer, 0, VK_WHOLE_SIZE},
        {f->weights.buffer, 0, VK_WHOLE_SIZE},
        {f->results.buffer, 0, VK_WHOLE_SIZE},
        {f->record.buffer, 0, VK_WHOLE_SIZE},
    };
    const VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = f->set,
        .descriptorCount = BINDINGS,  // from binding 0 on
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        .pBufferInfo = buffers,
    };
    vkUpdateDescriptorSets(b->device, 1, &write, 0, NULL);
    f->pipeline = base_make_pipeline(b, fused_comp, sizeof(fused_comp), "main", f->layout, 0);
}

// The same commands for every block: both ways, side by side.
static void record_commands(fused *f)
{
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = f->base.commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
    };
    BASE_CHECK(vkCreateFence(f->base.device, &fence, NULL, &f->fence));
    BASE_CHECK(vkAllocateCommandBuffers(f->base.device, &allocate, &f->commands));
    BASE_CHECK(vkBeginCommandBuffer(f->commands, &begin));

    vkCmdBindPipeline(f->commands, VK_PIPELINE_BIND_POINT_COMPUTE, f->pipeline.pipeline);
    vkCmdBindDescriptorSets(f->commands, VK_PIPELINE_BIND_POINT_COMPUTE, f->pipeline.layout, 0, 1,
                            &f->set, 0, NULL);
    vkCmdDispatch(f->commands, 1, 1, 1);

    must(kq_vulkan_quantize_record(f->pack, &f->quantize, f->quantize_set, f->commands) == KQ_OK);
    base_barrier(f->commands, compute, VK_ACCESS_SHADER_WRITE_BIT, compute,
                 VK_ACCESS_SHADER_READ_BIT);
    must(kq_vulkan_quantized_dot_record(f->pack, &f->dot, f->dot_set, f->commands) == KQ_OK);

    base_barrier(f->commands, compute, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                 VK_ACCESS_HOST_READ_BIT);
    BASE_CHECK(vkEndCommandBuffer(f->commands));
}

static void destroy_all(fused *f)
{
    const base *b = &f->base;
    base_buffer *const buffers[] = {&f->values,      &f->weights,    &f->results,    &f->record,
                                    &f->own_results, &f->own_record, &f->own_status, &f->scratch};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++) {
        base_destroy_buffer(b, buffers[i]);
    }
    vkDestroyFence(b->device, f->fence, NULL);
    base_destroy_pipeline(b, &f->pipeline);
    vkDestroyDescriptorSetLayout(b->device, f->layout, NULL);
    vkDestroyDescriptorPool(b->device, f->pool, NULL);
    kq_vulkan_destroy(&f->pack);
    base_close(&f->base);
}

// --- Blocks

static uint32_t draw(void)
{
    static uint32_t state = 1;  // a linear congruential generator, of which the upper bits are good
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static void draw_weights(unsigned char *weights)
{
    for (uint32_t i = 0; i < DOTS * KQ_Q4_K_BYTES; i++) {
        const bool is_exponent = i % KQ_Q4_K_BYTES == 1 || i % KQ_Q4_K_BYTES == 3;
        weights[i] = is_exponent ? 0x10 : (unsigned char)(draw() >> 16);  // of d and dmin: 2^-11
    }
}

// Whether both ways give the same bits for values from -size to size. is_bad: they have no
// record, and both say so with the same bytes.
static bool is_same(fused *f, const char *name, float size, bool is_bad)
{
    const kq_status preset = KQ_STATUS_PRESET;
    float *values = f->values.host;
    for (uint32_t i = 0; i < KQ_BLOCK; i++) {
        values[i] = ((float)draw() / 8388608.0f - 1.0f) * size;
    }
    memcpy(f->own_status.host, &preset, sizeof(preset));
    memset(f->results.host, 0xAA, DOTS * sizeof(float));  // so that nothing is left from before
    memset(f->record.host, 0xAA, KQ_Q8_K_BYTES);
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &f->commands,
    };
    BASE_CHECK(vkQueueSubmit(f->base.queue, 1, &submit, f->fence));
    BASE_CHECK(vkWaitForFences(f->base.device, 1, &f->fence, VK_TRUE, UINT64_MAX));
    BASE_CHECK(vkResetFences(f->base.device, 1, &f->fence));

    const kq_status *status = f->own_status.host;
    const bool ok = status->done_count == 1 && status->bad_count == (is_bad ? 1 : 0) &&
                    memcmp(f->record.host, f->own_record.host, KQ_Q8_K_BYTES) == 0 &&
                    memcmp(f->results.host, f->own_results.host, DOTS * sizeof(float)) == 0;
    printf("%-24s first dot %-14a %s\n", name, (double)*(const float *)f->results.host,
           ok ? "record and 64 dots are kquant's, bit for bit" : "NOT what kquant gives");
    return ok;
}

int main(int argc, char **argv)
{
    static fused f;
    const char *device = NULL;
    bool validate = false;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--device=", 9) == 0) {
            device = argv[i] + 9;
        } else if (strcmp(argv[i], "--validate") == 0) {
            validate = true;
        } else {
            const bool is_help = strcmp(argv[i], "--help") == 0;
            fprintf(
                is_help ? stdout : stderr,
                "usage: fused [--device=NAME] [--validate]\n\n"
                "Quantizes a block and takes 64 dots of it in one shader, and compares the bits\n"
                "with kquant's. NAME is a part of a device's name; --validate: under\n"
                "VK_LAYER_KHRONOS_validation, which must have nothing to say.\n\n"
                "  fused --device=llvmpipe\n");
            return is_help ? EXIT_SUCCESS : 2;
        }
    }
    base_open(&f.base, device, validate);
    printf("%s\n", f.base.properties.deviceName);
    make_buffers(&f);
    make_operations(&f);
    make_sets(&f);
    record_commands(&f);
    draw_weights(f.weights.host);
    bool ok = is_same(&f, "ordinary values", 4.0f, false);
    ok = is_same(&f, "zeros, of both signs", 0.0f, false) && ok;
    ok = is_same(&f, "a subnormal ds", 1e-36f, false) && ok;
    ok = is_same(&f, "too small for a record", 1e-38f, true) && ok;
    ok = is_same(&f, "infinities, no record", INFINITY, true) && ok;
    destroy_all(&f);
    if (f.base.message_count != 0) {
        fprintf(stderr, "fused: the validation layer had something to say\n");
        ok = false;
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
