// A small headless engine that uses kquant on its own Vulkan device (level 2): two frames in
// flight, each of which quantizes its activations once, multiplies a layer of Q4_K weights with
// them and colours an image from the results with the engine's own shader. The last frame is saved.
//
// What to look at for your own engine: make_operations (what kquant is told, once) and record_frame
// (the commands of a frame, with the barriers between). picture.h says what is drawn.

#include "vulkan_base.h"  // includes volk.h, which has to come before kquant/vulkan.h

#include <kquant/vulkan.h>

#include "engine_vulkan.comp.h"
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IN_FLIGHT = 2 };

// What the host writes or reads, and what belongs to it, is there once for each frame in flight.
typedef struct frame {
    base_buffer values, status, pixels;
    kq_vulkan_quantize quantize;
    VkDescriptorSet quantize_set;
    VkCommandBuffer commands;
    VkFence fence;
    bool is_pending;
} frame;

// What only the device uses is there once: a frame's first barrier waits until the one before has
// done with it.
typedef struct engine {
    base base;
    kq_vulkan *pack;
    base_buffer weights, records, results, scratch;
    VkImage image;
    VkDeviceMemory image_memory;
    VkImageView image_view;
    kq_vulkan_quantized_dot dot;
    VkDescriptorPool pool;
    VkDescriptorSet dot_set;
    VkDescriptorSetLayout color_layout;
    VkDescriptorSet color_set;
    base_pipeline color;
    frame frames[IN_FLIGHT];
} engine;

// A point of column x and row y has its dot at results[x][y]: rows are the inner loop.
static const kq_repeat each_point = {
    .count = {PICTURE_ROWS, PICTURE_COLUMNS},
    .lhs_step = {PICTURE_G * KQ_Q4_K_BYTES, 0},
    .rhs_step = {0, KQ_Q8_K_BYTES},
    .result_step = {sizeof(float), PICTURE_ROWS * sizeof(float)},
};

// --- Errors

static void report(void *user, kq_result result, const char *reason)
{
    (void)user;
    fprintf(stderr, "engine_vulkan: %s: %s\n", kq_result_name(result), reason);
}

static void must(bool ok)
{
    if (!ok) {  // report() has told why
        exit(EXIT_FAILURE);
    }
}

// --- Set-up

static void make_image(engine *e)
{
    const base *b = &e->base;
    const VkImageCreateInfo image = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
        .imageType = VK_IMAGE_TYPE_2D,
        .format = VK_FORMAT_R8G8B8A8_UINT,
        .extent = {PICTURE_WIDTH, PICTURE_HEIGHT, 1},
        .mipLevels = 1,
        .arrayLayers = 1,
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .usage = VK_IMAGE_USAGE_STORAGE_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT,
    };
    VkMemoryRequirements requirements;
    BASE_CHECK(vkCreateImage(b->device, &image, NULL, &e->image));
    vkGetImageMemoryRequirements(b->device, e->image, &requirements);
    e->image_memory = base_allocate(b, requirements, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    BASE_CHECK(vkBindImageMemory(b->device, e->image, e->image_memory, 0));
    const VkImageViewCreateInfo view = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
        .image = e->image,
        .viewType = VK_IMAGE_VIEW_TYPE_2D,
        .format = image.format,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    BASE_CHECK(vkCreateImageView(b->device, &view, NULL, &e->image_view));
}

static void make_buffers(engine *e)
{
    const base *b = &e->base;
    const VkBufferUsageFlags storage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    // A larger model would be copied to memory of the device; these weights stay where they are
    // written.
    e->weights = base_make_buffer(b, PICTURE_ROWS * PICTURE_G * KQ_Q4_K_BYTES, storage, true);
    e->records = base_make_buffer(b, PICTURE_COLUMNS * KQ_Q8_K_BYTES, storage, false);
    e->results =
        base_make_buffer(b, PICTURE_COLUMNS * PICTURE_ROWS * sizeof(float), storage, false);
    picture_weights(e->weights.host);
    for (int i = 0; i < IN_FLIGHT; i++) {
        frame *f = &e->frames[i];
        f->values = base_make_buffer(b, PICTURE_COLUMNS * KQ_BLOCK_BYTES, storage, true);
        f->status = base_make_buffer(b, sizeof(kq_status), storage, true);
        f->pixels = base_make_buffer(b, PICTURE_BYTES, VK_BUFFER_USAGE_TRANSFER_DST_BIT, true);
    }
}

// Kquant's pipelines, and its operations on the buffers above.
static void make_operations(engine *e)
{
    const kq_vulkan_params params = {
        .get_instance_proc_addr = vkGetInstanceProcAddr,
        .instance = e->base.instance,
        .physical_device = e->base.physical_device,
        .device = e->base.device,
        .errors = {report, NULL},
    };
    must(kq_vulkan_create(&params, &e->pack) == KQ_OK);

    for (int i = 0; i < IN_FLIGHT; i++) {
        frame *f = &e->frames[i];
        f->quantize = (kq_vulkan_quantize){
            .format = KQ_FORMAT_Q8_K,
            .values = {f->values.buffer, f->values.bytes, {.G = PICTURE_COLUMNS}},
            .records = {e->records.buffer, e->records.bytes, {.G = PICTURE_COLUMNS}},
            .status = {f->status.buffer, f->status.bytes, 0},
        };
    }
    e->dot = (kq_vulkan_quantized_dot){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .lhs = {e->weights.buffer, e->weights.bytes, {.G = PICTURE_G}},
        // Both records of a row are for the same activations.
        .rhs = {e->records.buffer, e->records.bytes, {.stride = KQ_BROADCAST, .G = PICTURE_G}},
        .result = {e->results.buffer, e->results.bytes, 0},
        .repeat = &each_point,
    };
    kq_needs needs;
    must(kq_vulkan_quantized_dot_query(e->pack, &e->dot, &needs) == KQ_OK);
    if (needs.limit != NULL) {
        fprintf(stderr, "engine_vulkan: the device's %s is too small\n", needs.limit);
        exit(EXIT_FAILURE);
    }
    e->scratch =
        base_make_buffer(&e->base, needs.scratch_bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, false);
    e->dot.scratch = (kq_vulkan_range){e->scratch.buffer, e->scratch.bytes, 0};
}

static void make_sets(engine *e)
{
    const base *b = &e->base;
    const VkDescriptorSetLayoutBinding bindings[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {1, VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
    };
    const VkDescriptorSetLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 2,
        .pBindings = bindings,
    };
    BASE_CHECK(vkCreateDescriptorSetLayout(b->device, &layout, NULL, &e->color_layout));
    // A set of kquant's takes four storage buffers.
    const VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4 * (IN_FLIGHT + 1) + 1},
        {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 1},
    };
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = IN_FLIGHT + 2,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    BASE_CHECK(vkCreateDescriptorPool(b->device, &pool, NULL, &e->pool));

    for (int i = 0; i < IN_FLIGHT; i++) {
        frame *f = &e->frames[i];
        f->quantize_set = base_make_set(b, e->pool, kq_vulkan_set_layout(e->pack));
        must(kq_vulkan_quantize_write_set(e->pack, &f->quantize, f->quantize_set) == KQ_OK);
    }
    e->dot_set = base_make_set(b, e->pool, kq_vulkan_set_layout(e->pack));
    must(kq_vulkan_quantized_dot_write_set(e->pack, &e->dot, e->dot_set) == KQ_OK);

    e->color_set = base_make_set(b, e->pool, e->color_layout);
    const VkDescriptorBufferInfo results = {e->results.buffer, 0, VK_WHOLE_SIZE};
    const VkDescriptorImageInfo image = {VK_NULL_HANDLE, e->image_view, VK_IMAGE_LAYOUT_GENERAL};
    const VkWriteDescriptorSet writes[] = {
        {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
         .dstSet = e->color_set,
         .dstBinding = 0,
         .descriptorCount = 1,
         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
         .pBufferInfo = &results},
        {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
         .dstSet = e->color_set,
         .dstBinding = 1,
         .descriptorCount = 1,
         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
         .pImageInfo = &image},
    };
    vkUpdateDescriptorSets(b->device, 2, writes, 0, NULL);
    e->color = base_make_pipeline(b, engine_vulkan_comp, sizeof(engine_vulkan_comp), "main",
                                  e->color_layout, sizeof(uint32_t));
}

static void open_engine(engine *e, const char *device, bool validate)
{
    base_open(&e->base, device, validate);
    make_image(e);
    make_buffers(e);
    make_operations(e);
    make_sets(e);
    for (int i = 0; i < IN_FLIGHT; i++) {
        const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        const VkCommandBufferAllocateInfo commands = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = e->base.commands,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        BASE_CHECK(vkCreateFence(e->base.device, &fence, NULL, &e->frames[i].fence));
        BASE_CHECK(vkAllocateCommandBuffers(e->base.device, &commands, &e->frames[i].commands));
    }
}

static void close_engine(engine *e)
{
    const base *b = &e->base;
    for (int i = 0; i < IN_FLIGHT; i++) {
        vkDestroyFence(b->device, e->frames[i].fence, NULL);
        base_destroy_buffer(b, &e->frames[i].values);
        base_destroy_buffer(b, &e->frames[i].status);
        base_destroy_buffer(b, &e->frames[i].pixels);
    }
    base_destroy_pipeline(b, &e->color);
    vkDestroyDescriptorSetLayout(b->device, e->color_layout, NULL);
    vkDestroyDescriptorPool(b->device, e->pool, NULL);
    kq_vulkan_destroy(&e->pack);
    base_destroy_buffer(b, &e->scratch);
    base_destroy_buffer(b, &e->results);
    base_destroy_buffer(b, &e->records);
    base_destroy_buffer(b, &e->weights);
    vkDestroyImageView(b->device, e->image_view, NULL);
    vkDestroyImage(b->device, e->image, NULL);
    vkFreeMemory(b->device, e->image_memory, NULL);
    base_close(&e->base);
}

// --- Frames

static void change_layout(const engine *e, VkCommandBuffer commands, VkPipelineStageFlags from,
                          VkAccessFlags written, VkImageLayout old, VkPipelineStageFlags to,
                          VkAccessFlags used, VkImageLayout new)
{
    const VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = used,
        .oldLayout = old,
        .newLayout = new,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = e->image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    vkCmdPipelineBarrier(commands, from, to, 0, 0, NULL, 0, NULL, 1, &barrier);
}

static void record_frame(const engine *e, const frame *f)
{
    const VkCommandBuffer c = f->commands;
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkPipelineStageFlags transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags shader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    BASE_CHECK(vkBeginCommandBuffer(c, &begin));

    // The frame before may still use records, results and scratch, or copy the image. What the host
    // has written needs no barrier: submitting makes it visible.
    base_barrier(c, compute, VK_ACCESS_SHADER_WRITE_BIT, compute, shader);
    must(kq_vulkan_quantize_record(e->pack, &f->quantize, f->quantize_set, c) == KQ_OK);
    base_barrier(c, compute, VK_ACCESS_SHADER_WRITE_BIT, compute, shader);
    must(kq_vulkan_quantized_dot_record(e->pack, &e->dot, e->dot_set, c) == KQ_OK);
    base_barrier(c, compute, VK_ACCESS_SHADER_WRITE_BIT, compute, shader);

    // kquant leaves its own pipeline, set and push constants bound, so the engine binds all three.
    const uint32_t rows = PICTURE_ROWS;
    change_layout(e, c, transfer, 0, VK_IMAGE_LAYOUT_UNDEFINED, compute, VK_ACCESS_SHADER_WRITE_BIT,
                  VK_IMAGE_LAYOUT_GENERAL);
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, e->color.pipeline);
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, e->color.layout, 0, 1, &e->color_set,
                            0, NULL);
    vkCmdPushConstants(c, e->color.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(rows), &rows);
    vkCmdDispatch(c, (PICTURE_WIDTH + 7) / 8, (PICTURE_HEIGHT + 7) / 8, 1);

    // An engine with a window would show the image now. This one copies it to where the host reads.
    change_layout(e, c, compute, VK_ACCESS_SHADER_WRITE_BIT, VK_IMAGE_LAYOUT_GENERAL, transfer,
                  VK_ACCESS_TRANSFER_READ_BIT, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    const VkBufferImageCopy whole = {
        .imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
        .imageExtent = {PICTURE_WIDTH, PICTURE_HEIGHT, 1},
    };
    vkCmdCopyImageToBuffer(c, e->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, f->pixels.buffer, 1,
                           &whole);
    base_barrier(c, compute | transfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                 VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    BASE_CHECK(vkEndCommandBuffer(c));
}

// Waits for the frame if it is in flight, and sees that all its blocks were quantized.
static void finish_frame(const engine *e, frame *f)
{
    if (!f->is_pending) {
        return;
    }
    BASE_CHECK(vkWaitForFences(e->base.device, 1, &f->fence, VK_TRUE, UINT64_MAX));
    BASE_CHECK(vkResetFences(e->base.device, 1, &f->fence));
    f->is_pending = false;
    const kq_status *status = f->status.host;
    if (status->bad_count != 0 || status->done_count != PICTURE_COLUMNS) {
        fprintf(stderr, "engine_vulkan: %u of %d blocks were quantized, %u of them bad\n",
                (unsigned)status->done_count, PICTURE_COLUMNS, (unsigned)status->bad_count);
        exit(EXIT_FAILURE);
    }
}

static void draw_frame(engine *e, frame *f, int number)
{
    const kq_status preset = KQ_STATUS_PRESET;
    finish_frame(e, f);
    picture_activations(number, f->values.host);
    memcpy(f->status.host, &preset, sizeof(preset));
    record_frame(e, f);
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &f->commands,
    };
    BASE_CHECK(vkQueueSubmit(e->base.queue, 1, &submit, f->fence));
    f->is_pending = true;
}

// --- Options

static const char usage[] =
    "usage: engine_vulkan [--device=NAME] [--frames=N] [--validate] [-o FILE]\n\n"
    "Draws N frames, 60 if nothing is said, and checks the last one, which is the same\n"
    "for any N and on any device. NAME is a part of a device's name.\n\n"
    "  --validate  under VK_LAYER_KHRONOS_validation, which must have nothing to say\n"
    "  -o FILE     writes the last frame there, as PNG\n\n"
    "  engine_vulkan --frames=60 -o soap.png\n";

static double milliseconds(void)
{
#if defined(_WIN32)  // where this is the time that passes, and not every C library has the other
    return 1e3 * (double)clock() / CLOCKS_PER_SEC;
#else
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
#endif
}

int main(int argc, char **argv)
{
    static engine e;
    const char *device = NULL, *path = NULL;
    int frame_count = PICTURE_FRAMES;
    bool validate = false;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--device=", 9) == 0) {
            device = argv[i] + 9;
        } else if (strncmp(argv[i], "--frames=", 9) == 0) {
            frame_count = atoi(argv[i] + 9);
        } else if (strcmp(argv[i], "--validate") == 0) {
            validate = true;
        } else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
            path = argv[++i];
        } else {
            const bool is_help = strcmp(argv[i], "--help") == 0;
            fputs(usage, is_help ? stdout : stderr);
            return is_help ? EXIT_SUCCESS : 2;
        }
    }
    if (frame_count < 1 || frame_count > 1000000) {
        fprintf(stderr, "engine_vulkan: --frames takes a number from 1 to 1000000\n");
        return 2;
    }

    open_engine(&e, device, validate);
    printf("%s, a queue %s graphics\n", e.base.properties.deviceName,
           e.base.has_graphics ? "with" : "without");
    const double begin = milliseconds();
    for (int i = 0; i < frame_count; i++) {
        draw_frame(&e, &e.frames[i % IN_FLIGHT], PICTURE_FRAMES - frame_count + i);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        finish_frame(&e, &e.frames[(frame_count + i) % IN_FLIGHT]);
    }
    printf("%d frames, each of %d blocks quantized and %d dots: %.1f ms a frame\n", frame_count,
           PICTURE_COLUMNS, PICTURE_COLUMNS * PICTURE_ROWS, (milliseconds() - begin) / frame_count);

    const unsigned char *pixels = e.frames[(frame_count - 1) % IN_FLIGHT].pixels.host;
    bool ok = picture_is_right(pixels);
    if (path != NULL && !picture_write(path, pixels)) {
        fprintf(stderr, "engine_vulkan: %s can't be written\n", path);
        ok = false;
    }
    close_engine(&e);
    if (e.base.message_count != 0) {
        fprintf(stderr, "engine_vulkan: the validation layer had something to say\n");
        ok = false;
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
