// Work of level 3 on Vulkan: pieces in command buffers of their own, which are submitted one at a
// time, and waited for.
#include "device_vulkan.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    VkCommandBuffer commands;
    VkDescriptorSet set;
    bool is_quantize;
} item;

typedef struct vulkan_work {
    VkCommandPool command_pool;
    VkDescriptorPool descriptor_pool;
    VkFence fence;
    VkQueryPool times;         // two an item; null: no time is told
    kq_vulkan_memory status;   // each item presets it
    kq_vulkan_memory scratch;  // grows, unless the work is kept
    kq_vulkan_memory stage;    // made when first needed
    bool is_kept;
    uint32_t count;
    item items[];
} vulkan_work;

// --- What it owns

static kq_result create_pools(kq_vulkan_device *d, vulkan_work *w)
{
    uint32_t sets = w->count > 0 ? w->count : 1;  // Vulkan has no empty pools
    VkCommandPoolCreateInfo command_pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = w->is_kept ? 0 : VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = d->queue_family,
    };
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4 * sets};
    VkDescriptorPoolCreateInfo descriptor_pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = sets,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkQueryPoolCreateInfo times = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 2 * sets,
    };
    kq_result result = kq_vulkan_check_made(
        d, "vkCreateCommandPool",
        d->vkCreateCommandPool(d->handle, &command_pool, NULL, &w->command_pool), &w->command_pool,
        sizeof w->command_pool);
    if (result == KQ_OK) {
        result = kq_vulkan_check_made(d, "vkCreateFence",
                                      d->vkCreateFence(d->handle, &fence, NULL, &w->fence),
                                      &w->fence, sizeof w->fence);
    }
    if (result == KQ_OK) {
        result = kq_vulkan_check_made(
            d, "vkCreateDescriptorPool",
            d->vkCreateDescriptorPool(d->handle, &descriptor_pool, NULL, &w->descriptor_pool),
            &w->descriptor_pool, sizeof w->descriptor_pool);
    }
    if (result == KQ_OK && w->is_kept && d->timestamp_bits > 0) {
        result = kq_vulkan_check_made(d, "vkCreateQueryPool",
                                      d->vkCreateQueryPool(d->handle, &times, NULL, &w->times),
                                      &w->times, sizeof w->times);
    }
    return result;
}

static kq_result allocate_item(kq_vulkan_device *d, const vulkan_work *w, item *item)
{
    VkDescriptorSetLayout layout = kq_vulkan_set_layout(d->pack);
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = w->command_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkDescriptorSetAllocateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = w->descriptor_pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    kq_result result =
        kq_vulkan_check(d->errors, "vkAllocateCommandBuffers",
                        d->vkAllocateCommandBuffers(d->handle, &commands, &item->commands));
    return result != KQ_OK
               ? result
               : kq_vulkan_check(d->errors, "vkAllocateDescriptorSets",
                                 d->vkAllocateDescriptorSets(d->handle, &set, &item->set));
}

kq_result kq_vulkan_work_create(kq_device *device, bool is_kept, uint32_t count,
                                uint64_t scratch_bytes, void **work)
{
    kq_vulkan_device *d = device->self;
    vulkan_work *w = calloc(1, sizeof *w + (size_t)count * sizeof w->items[0]);
    *work = NULL;
    if (w == NULL) {
        return kq_fail(d->errors, KQ_ERROR_MEMORY, "out of host memory for work");
    }
    w->is_kept = is_kept;
    w->count = count;
    kq_result result = create_pools(d, w);
    for (uint32_t i = 0; i < count && result == KQ_OK; i++) {
        result = allocate_item(d, w, &w->items[i]);
    }
    if (result == KQ_OK) {
        result = kq_vulkan_memory_create(d, sizeof(kq_status), KQ_VULKAN_ON_DEVICE, &w->status);
    }
    if (result == KQ_OK && scratch_bytes > 0) {
        result = kq_vulkan_memory_create(d, scratch_bytes, KQ_VULKAN_ON_DEVICE, &w->scratch);
    }
    if (result != KQ_OK) {
        kq_vulkan_work_destroy(device, w);
        return result;
    }
    *work = w;
    return KQ_OK;
}

void kq_vulkan_work_destroy(kq_device *device, void *work)
{
    kq_vulkan_device *d = device->self;
    vulkan_work *w = work;
    if (w == NULL) {
        return;
    }
    kq_vulkan_memory_destroy(d, &w->status);
    kq_vulkan_memory_destroy(d, &w->scratch);
    kq_vulkan_memory_destroy(d, &w->stage);
    d->vkDestroyQueryPool(d->handle, w->times, NULL);
    d->vkDestroyDescriptorPool(d->handle, w->descriptor_pool, NULL);
    d->vkDestroyCommandPool(d->handle, w->command_pool, NULL);
    d->vkDestroyFence(d->handle, w->fence, NULL);
    free(w);
}

static kq_result need_stage(const kq_device *device, const kq_piece *piece, vulkan_work *w)
{
    bool is_needed = piece->is_staged[0] || piece->is_staged[1] || piece->is_staged[2];
    return is_needed && w->stage.buffer == VK_NULL_HANDLE
               ? kq_vulkan_memory_create(device->self,
                                         KQ_BINDING_COUNT * device->capacity.stage_bytes,
                                         KQ_VULKAN_ON_DEVICE, &w->stage)
               : KQ_OK;
}

static kq_result need_scratch(kq_vulkan_device *d, uint64_t bytes, vulkan_work *w)
{
    if (bytes <= w->scratch.bytes) {
        return KQ_OK;
    }
    kq_vulkan_memory_destroy(d, &w->scratch);
    return kq_vulkan_memory_create(d, bytes, KQ_VULKAN_ON_DEVICE, &w->scratch);
}

// --- Recording

// Everything that was written before is there for everything that follows.
static void barrier(const kq_vulkan_device *d, VkCommandBuffer commands)
{
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask =
            VK_ACCESS_HOST_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                         VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT,
    };
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT |
                                  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    d->vkCmdPipelineBarrier(commands, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

// In work that isn't kept it takes the place of what was recorded before.
static kq_result begin(kq_vulkan_device *d, vulkan_work *w, uint32_t index)
{
    VkCommandBuffer commands = w->items[index].commands;
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = w->is_kept ? 0 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    kq_result result = KQ_OK;
    if (!w->is_kept) {
        result = kq_vulkan_check(d->errors, "vkResetCommandPool",
                                 d->vkResetCommandPool(d->handle, w->command_pool, 0));
    }
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkBeginCommandBuffer",
                                 d->vkBeginCommandBuffer(commands, &info));
    }
    if (result != KQ_OK) {
        return result;
    }
    barrier(d, commands);
    if (w->times != VK_NULL_HANDLE) {
        d->vkCmdResetQueryPool(commands, w->times, 2 * index, 2);
        d->vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, w->times, 2 * index);
    }
    return KQ_OK;
}

static kq_result end(kq_vulkan_device *d, vulkan_work *w, uint32_t index)
{
    VkCommandBuffer commands = w->items[index].commands;
    if (w->times != VK_NULL_HANDLE) {
        d->vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, w->times,
                               2 * index + 1);
    }
    barrier(d, commands);
    return kq_vulkan_check(d->errors, "vkEndCommandBuffer", d->vkEndCommandBuffer(commands));
}

// Records the copies of a staged operand's runs.
static void copy_runs(const kq_vulkan_device *d, const kq_operation *operation,
                      const kq_piece *piece, int role, bool is_input, VkBuffer stage,
                      VkCommandBuffer commands)
{
    const kq_buffer *buffer = kq_operand_buffer(operation, role);
    for (uint32_t i = 0; i < kq_piece_run_count(piece, role); i++) {
        kq_run run = kq_piece_run(piece, role, i);
        for (uint64_t done = 0; done < run.bytes;) {
            kq_segment_run part = kq_buffer_run(buffer, run.at + done, run.bytes - done);
            const kq_vulkan_memory *m = part.memory;
            VkBufferCopy in = {part.offset, run.stage + done, part.bytes};
            VkBufferCopy out = {run.stage + done, part.offset, part.bytes};
            d->vkCmdCopyBuffer(commands, is_input ? m->buffer : stage, is_input ? stage : m->buffer,
                               1, is_input ? &in : &out);
            done += part.bytes;
        }
    }
}

static kq_vulkan_view view_of(const kq_operation *operation, const kq_piece *piece, int role,
                              vulkan_work *w)
{
    const kq_vulkan_memory *m = kq_piece_memory(operation, piece, role, &w->stage);
    return (kq_vulkan_view){
        .buffer = m != NULL ? m->buffer : VK_NULL_HANDLE,
        .buffer_bytes = m != NULL ? m->bytes : 0,
        .view = kq_piece_view(piece, role),
    };
}

static kq_result record_quantize(kq_device *device, const kq_operation *operation,
                                 const kq_piece *piece, uint32_t index, vulkan_work *w)
{
    static const kq_status preset = KQ_STATUS_PRESET;
    kq_vulkan_device *d = device->self;
    const item *item = &w->items[index];
    kq_vulkan_quantize op = {
        .format = operation->format,
        .values = view_of(operation, piece, KQ_VALUES, w),
        .records = view_of(operation, piece, KQ_RECORDS, w),
        .status = {w->status.buffer, w->status.bytes, 0},
    };
    kq_result result = w->status.mapped == NULL ? kq_vulkan_need_staging(device) : KQ_OK;
    result = result != KQ_OK ? result : kq_vulkan_quantize_write_set(d->pack, &op, item->set);
    result = result != KQ_OK ? result : begin(d, w, index);
    if (result != KQ_OK) {
        return result;
    }
    copy_runs(d, operation, piece, KQ_VALUES, true, w->stage.buffer, item->commands);
    d->vkCmdUpdateBuffer(item->commands, w->status.buffer, 0, sizeof preset,
                         (const uint32_t *)(const void *)&preset);
    barrier(d, item->commands);
    result = kq_vulkan_quantize_record(d->pack, &op, item->set, item->commands);
    if (result != KQ_OK) {
        return result;
    }
    barrier(d, item->commands);
    copy_runs(d, operation, piece, KQ_RECORDS, false, w->stage.buffer, item->commands);
    if (w->status.mapped == NULL) {
        VkBufferCopy region = {.size = sizeof(kq_status)};
        d->vkCmdCopyBuffer(item->commands, w->status.buffer, d->staging.buffer, 1, &region);
    }
    return end(d, w, index);
}

static kq_result record_dot(kq_device *device, const kq_operation *operation, const kq_piece *piece,
                            uint32_t index, vulkan_work *w)
{
    kq_vulkan_device *d = device->self;
    const item *item = &w->items[index];
    const kq_repeat repeat = kq_piece_repeat(piece);
    const kq_vulkan_memory *to = kq_piece_memory(operation, piece, KQ_RESULT, &w->stage);
    kq_vulkan_quantized_dot op = {
        .lhs_format = operation->lhs_format,
        .rhs_format = operation->rhs_format,
        .acc = operation->acc,
        .order = operation->order,
        .lhs = view_of(operation, piece, KQ_LHS, w),
        .rhs = view_of(operation, piece, KQ_RHS, w),
        .result = {to->buffer, to->bytes, piece->shape.extents[KQ_RESULT].offset},
        .scratch = {w->scratch.buffer, w->scratch.bytes, 0},
        .repeat = &repeat,
        .part = &piece->shape.part,
    };
    kq_result result = kq_vulkan_quantized_dot_write_set(d->pack, &op, item->set);
    result = result != KQ_OK ? result : begin(d, w, index);
    if (result != KQ_OK) {
        return result;
    }
    copy_runs(d, operation, piece, KQ_LHS, true, w->stage.buffer, item->commands);
    copy_runs(d, operation, piece, KQ_RHS, true, w->stage.buffer, item->commands);
    if (piece->is_staged[KQ_LHS] || piece->is_staged[KQ_RHS]) {
        barrier(d, item->commands);
    }
    result = kq_vulkan_quantized_dot_record(d->pack, &op, item->set, item->commands);
    if (result != KQ_OK) {
        return result;
    }
    if (piece->is_staged[KQ_RESULT]) {
        barrier(d, item->commands);
        copy_runs(d, operation, piece, KQ_RESULT, false, w->stage.buffer, item->commands);
    }
    return end(d, w, index);
}

static kq_result record_bandwidth(kq_device *device, const kq_operation *operation,
                                  const kq_piece *piece, uint32_t index, vulkan_work *w)
{
    kq_vulkan_device *d = device->self;
    const item *item = &w->items[index];
    const kq_transfer transfer = kq_piece_transfer(operation, piece);
    const kq_vulkan_memory *from = kq_piece_memory(operation, piece, KQ_FROM, NULL);
    const kq_vulkan_memory *to = kq_piece_memory(operation, piece, KQ_TO, NULL);
    kq_result result = begin(d, w, index);
    if (result == KQ_OK) {
        result = kq_vulkan_bandwidth_record(d->pack, from->buffer, to->buffer, &transfer, item->set,
                                            item->commands);
    }
    return result != KQ_OK ? result : end(d, w, index);
}

kq_result kq_vulkan_work_record(kq_device *device, void *work, uint32_t index,
                                const kq_operation *operation, const kq_piece *piece)
{
    vulkan_work *w = work;
    w->items[index].is_quantize = operation->op == KQ_OP_QUANTIZE;
    kq_result result = need_stage(device, piece, w);
    result = result != KQ_OK ? result : need_scratch(device->self, piece->needs.scratch_bytes, w);
    if (result != KQ_OK) {
        return result;
    }
    return operation->op == KQ_OP_QUANTIZE    ? record_quantize(device, operation, piece, index, w)
           : operation->op == KQ_OP_SELF_TEST ? record_bandwidth(device, operation, piece, index, w)
                                              : record_dot(device, operation, piece, index, w);
}

// --- Running

// Sleeps until it is done.
static kq_result submit(kq_vulkan_device *d, vulkan_work *w, uint32_t index)
{
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &w->items[index].commands,
    };
    kq_result result =
        kq_vulkan_check(d->errors, "vkResetFences", d->vkResetFences(d->handle, 1, &w->fence));
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkQueueSubmit",
                                 d->vkQueueSubmit(d->queue, 1, &info, w->fence));
    }
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkWaitForFences",
                                 d->vkWaitForFences(d->handle, 1, &w->fence, VK_TRUE, UINT64_MAX));
        if (result != KQ_OK) {
            // Nothing may be pending when the caller goes on to destroy things.
            d->vkDeviceWaitIdle(d->handle);
        }
    }
    return result;
}

static kq_result read_time(const kq_vulkan_device *d, const vulkan_work *w, uint32_t index,
                           uint64_t *nanoseconds)
{
    uint64_t ticks[2] = {0, 0};
    uint64_t mask = d->timestamp_bits < 64 ? (UINT64_C(1) << d->timestamp_bits) - 1 : UINT64_MAX;
    kq_result result =
        kq_vulkan_check(d->errors, "vkGetQueryPoolResults",
                        d->vkGetQueryPoolResults(d->handle, w->times, 2 * index, 2, sizeof ticks,
                                                 ticks, sizeof ticks[0], VK_QUERY_RESULT_64_BIT));
    *nanoseconds = (uint64_t)((double)((ticks[1] - ticks[0]) & mask) * (double)d->timestamp_period);
    return result;
}

kq_result kq_vulkan_work_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                             uint64_t *nanoseconds)
{
    kq_vulkan_device *d = device->self;
    vulkan_work *w = work;
    const kq_vulkan_memory *readable = w->status.mapped != NULL ? &w->status : &d->staging;
    *nanoseconds = 0;
    kq_result result = submit(d, w, index);
    if (result == KQ_OK && w->times != VK_NULL_HANDLE) {
        result = read_time(d, w, index, nanoseconds);
    }
    return result != KQ_OK || !w->items[index].is_quantize
               ? result
               : kq_vulkan_read_mapped(d, readable, 0, status, sizeof *status);
}

// --- Other submissions

static kq_result end_and_submit(kq_vulkan_device *d, vulkan_work *w)
{
    kq_result result = end(d, w, 0);
    return result != KQ_OK ? result : submit(d, w, 0);
}

kq_result kq_vulkan_work_copy(kq_device *device, VkBuffer from, uint64_t from_offset, VkBuffer to,
                              uint64_t to_offset, uint64_t bytes)
{
    kq_vulkan_device *d = device->self;
    vulkan_work *w = device->work;
    kq_result result = begin(d, w, 0);
    if (result != KQ_OK) {
        return result;
    }
    VkBufferCopy region = {.srcOffset = from_offset, .dstOffset = to_offset, .size = bytes};
    d->vkCmdCopyBuffer(w->items[0].commands, from, to, 1, &region);
    return end_and_submit(d, w);
}

kq_result kq_vulkan_work_primitives(kq_device *device, void *memory, uint32_t count)
{
    kq_vulkan_device *d = device->self;
    vulkan_work *w = device->work;
    const kq_vulkan_memory *m = memory;
    kq_result result = begin(d, w, 0);
    if (result == KQ_OK) {
        result = kq_vulkan_primitives_record(d->pack, m->buffer, count, w->items[0].set,
                                             w->items[0].commands);
    }
    return result != KQ_OK ? result : end_and_submit(d, w);
}

kq_result kq_vulkan_work_self_test(kq_device *device, void *memory)
{
    kq_vulkan_device *d = device->self;
    vulkan_work *w = device->work;
    const item *item = &w->items[0];
    const kq_vulkan_memory *m = memory;
    const kq_vulkan_range range = {m->buffer, m->bytes, 0};
    kq_result result = kq_vulkan_self_test_write_set(d->pack, &range, item->set);
    result = result != KQ_OK ? result : begin(d, w, 0);
    if (result == KQ_OK) {
        result = kq_vulkan_self_test_record(d->pack, &range, item->set, item->commands);
    }
    return result != KQ_OK ? result : end_and_submit(d, w);
}
