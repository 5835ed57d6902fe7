// Work of level 3 on Vulkan: pieces in command buffers of their own, which are submitted and waited
// for.
#include "device_vulkan.h"

#include <stdlib.h>
#include <string.h>

// Of a lane's staging. All lanes of a device have half of the 32 MiB that it may take beside
// buffers.
enum { STAGING_BYTES = (16 << 20) / KQ_IN_FLIGHT };

// --- What it owns

static kq_result create_pools(kq_vulkan_device *d, kq_vulkan_work *w)
{
    uint32_t sets = w->count > 0 ? w->count : 1;  // Vulkan has no empty pools
    VkCommandPoolCreateInfo command_pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = w->is_kept ? 0
                            : VK_COMMAND_POOL_CREATE_TRANSIENT_BIT |
                                  VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
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
    for (uint32_t i = 0; i < KQ_IN_FLIGHT && result == KQ_OK; i++) {
        VkFence *made = &w->lanes[i].fence;
        result = kq_vulkan_check_made(d, "vkCreateFence",
                                      d->vkCreateFence(d->handle, &fence, NULL, made), made,
                                      sizeof *made);
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

static kq_result allocate_item(kq_vulkan_device *d, const kq_vulkan_work *w, kq_vulkan_item *item)
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
    kq_vulkan_work *w = calloc(1, sizeof *w + (size_t)count * sizeof w->items[0]);
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
        result = kq_vulkan_memory_create(d, KQ_VULKAN_SLOTS_BYTES, KQ_VULKAN_ON_DEVICE, &w->status);
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
    kq_vulkan_work *w = work;
    if (w == NULL) {
        return;
    }
    kq_vulkan_memory_destroy(d, &w->status);
    kq_vulkan_memory_destroy(d, &w->scratch);
    kq_vulkan_memory_destroy(d, &w->stage);
    d->vkDestroyQueryPool(d->handle, w->times, NULL);
    d->vkDestroyDescriptorPool(d->handle, w->descriptor_pool, NULL);
    d->vkDestroyCommandPool(d->handle, w->command_pool, NULL);
    for (uint32_t i = 0; i < KQ_IN_FLIGHT; i++) {
        kq_vulkan_memory_destroy(d, &w->lanes[i].staging);
        d->vkDestroyFence(d->handle, w->lanes[i].fence, NULL);
    }
    free(w);
}

static kq_result need_stage(const kq_device *device, const kq_piece *piece, kq_vulkan_work *w)
{
    bool is_needed = piece->is_staged[0] || piece->is_staged[1] || piece->is_staged[2];
    return is_needed && w->stage.buffer == VK_NULL_HANDLE
               ? kq_vulkan_memory_create(device->self,
                                         KQ_BINDING_COUNT * device->capacity.stage_bytes,
                                         KQ_VULKAN_ON_DEVICE, &w->stage)
               : KQ_OK;
}

static kq_result need_scratch(kq_vulkan_device *d, uint64_t bytes, kq_vulkan_work *w)
{
    kq_result result = KQ_OK;
    if (bytes <= w->scratch.bytes) {
        return KQ_OK;
    }
    for (uint32_t i = 0; i < KQ_IN_FLIGHT && result == KQ_OK; i++) {
        result = kq_vulkan_wait(d, w, i);
    }
    if (result != KQ_OK) {
        return result;
    }
    kq_vulkan_memory_destroy(d, &w->scratch);
    return kq_vulkan_memory_create(d, bytes, KQ_VULKAN_ON_DEVICE, &w->scratch);
}

// That of kept work is for the slot alone.
kq_result kq_vulkan_need_staging(kq_device *device, kq_vulkan_work *w, uint32_t index)
{
    kq_vulkan_memory *staging = &w->lanes[index % KQ_IN_FLIGHT].staging;
    uint64_t most = device->capacity.segment_bytes;
    uint64_t bytes = w->is_kept ? KQ_VULKAN_SLOT_BYTES : STAGING_BYTES;
    return staging->mapped != NULL
               ? KQ_OK
               : kq_vulkan_memory_create(device->self, most < bytes ? most : bytes,
                                         KQ_VULKAN_FOR_STAGING, staging);
}

// --- Recording

void kq_vulkan_barrier(const kq_vulkan_device *d, VkCommandBuffer commands)
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
kq_result kq_vulkan_begin(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index)
{
    VkCommandBuffer commands = w->items[index].commands;
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = w->is_kept ? 0 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    kq_result result = kq_vulkan_check(d->errors, "vkBeginCommandBuffer",
                                       d->vkBeginCommandBuffer(commands, &info));
    if (result != KQ_OK) {
        return result;
    }
    kq_vulkan_barrier(d, commands);
    if (w->times != VK_NULL_HANDLE) {
        d->vkCmdResetQueryPool(commands, w->times, 2 * index, 2);
        d->vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, w->times, 2 * index);
    }
    return KQ_OK;
}

kq_result kq_vulkan_end(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index)
{
    VkCommandBuffer commands = w->items[index].commands;
    if (w->times != VK_NULL_HANDLE) {
        d->vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, w->times,
                               2 * index + 1);
    }
    kq_vulkan_barrier(d, commands);
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
                              kq_vulkan_work *w)
{
    const kq_vulkan_memory *m = kq_piece_memory(operation, piece, role, &w->stage);
    return (kq_vulkan_view){
        .buffer = m != NULL ? m->buffer : VK_NULL_HANDLE,
        .buffer_bytes = m != NULL ? m->bytes : 0,
        .view = kq_piece_view(piece, role),
    };
}

static kq_result add_quantize(kq_device *device, const kq_operation *operation,
                              const kq_piece *piece, uint32_t index, kq_vulkan_work *w)
{
    static const kq_status preset = KQ_STATUS_PRESET;
    kq_vulkan_device *d = device->self;
    const kq_vulkan_item *item = &w->items[index];
    kq_vulkan_quantize op = {
        .format = operation->format,
        .values = view_of(operation, piece, KQ_VALUES, w),
        .records = view_of(operation, piece, KQ_RECORDS, w),
        .status = {w->status.buffer, w->status.bytes, kq_vulkan_slot_offset(index)},
    };
    kq_result result = kq_vulkan_quantize_write_set(d->pack, &op, item->set);
    if (result != KQ_OK) {
        return result;
    }
    if (piece->is_staged[KQ_VALUES]) {
        // NaNs: a block that doesn't come is bad, and is then found not to be.
        d->vkCmdFillBuffer(item->commands, w->stage.buffer, piece->shape.extents[KQ_VALUES].offset,
                           (uint64_t)piece->shape.G * KQ_BLOCK_BYTES, 0xFFFFFFFFu);
        kq_vulkan_barrier(d, item->commands);
    }
    copy_runs(d, operation, piece, KQ_VALUES, true, w->stage.buffer, item->commands);
    d->vkCmdUpdateBuffer(item->commands, w->status.buffer, op.status.offset, sizeof preset,
                         (const uint32_t *)(const void *)&preset);
    kq_vulkan_barrier(d, item->commands);
    result = kq_vulkan_quantize_record(d->pack, &op, item->set, item->commands);
    if (result != KQ_OK) {
        return result;
    }
    kq_vulkan_barrier(d, item->commands);
    if (piece->is_staged[KQ_RECORDS]) {
        copy_runs(d, operation, piece, KQ_RECORDS, false, w->stage.buffer, item->commands);
        kq_vulkan_barrier(d, item->commands);
        kq_vulkan_collect_twins(d, operation, piece, w, index);
    }
    if (w->status.mapped == NULL) {
        VkBufferCopy region = {.srcOffset = op.status.offset, .size = sizeof(kq_status)};
        d->vkCmdCopyBuffer(item->commands, w->status.buffer,
                           w->lanes[index % KQ_IN_FLIGHT].staging.buffer, 1, &region);
    }
    return KQ_OK;
}

// What the dispatches of a dot write: the results of the first and the last dot, and in scratch a
// word each. A staged result is known by what it is copied to.
static kq_result find_marks(const kq_vulkan_device *d, const kq_vulkan_quantized_dot *op,
                            const kq_piece *piece, kq_vulkan_marks *marks)
{
    kq_plan plan;
    const kq_extent *results = &piece->shape.extents[KQ_RESULT];
    uint64_t last = 0;
    uint32_t last_sum = UINT32_MAX;
    kq_result result = kq_vulkan_dot_plan(d->pack, op, &plan);
    if (result != KQ_OK) {
        return result;
    }
    for (int k = 0; k < 2; k++) {
        last += (piece->shape.count[k] - 1) * results->step[k];
    }
    if (kq_piece_writes(piece)) {
        kq_vulkan_add_mark(marks, op->result.buffer, results->offset);
    }
    if (kq_piece_writes(piece) && last > 0) {
        kq_vulkan_add_mark(marks, op->result.buffer, results->offset + last);
    }
    for (uint32_t i = 0; i < plan.needs.dispatch_count && marks->count < KQ_VULKAN_MARKS; i++) {
        const uint32_t word = kq_plan_last_word(&plan, i);
        const uint32_t sum = kq_plan_last_sum(&plan, i);
        const uint64_t scratch_at = plan.ranges[KQ_SCRATCH].offset;
        if (word != UINT32_MAX) {
            kq_vulkan_add_mark(marks, op->scratch.buffer, scratch_at + (uint64_t)4 * word);
        }
        if (sum != UINT32_MAX && sum != last_sum && marks->sum_count < KQ_VULKAN_SUMS) {
            marks->sums[marks->sum_count++] =
                (kq_vulkan_mark){op->scratch.buffer, scratch_at + (uint64_t)4 * sum};
            last_sum = sum;
        }
    }
    return KQ_OK;
}

static kq_result add_dot(kq_device *device, const kq_operation *operation, const kq_piece *piece,
                         uint32_t index, kq_vulkan_work *w)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_item *item = &w->items[index];
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
    kq_vulkan_marks marks = {0};
    kq_result result = kq_vulkan_quantized_dot_write_set(d->pack, &op, item->set);
    result = result != KQ_OK ? result : find_marks(d, &op, piece, &marks);
    if (result != KQ_OK) {
        return result;
    }
    copy_runs(d, operation, piece, KQ_LHS, true, w->stage.buffer, item->commands);
    copy_runs(d, operation, piece, KQ_RHS, true, w->stage.buffer, item->commands);
    kq_vulkan_poison_marks(d, w, index, &marks);
    result = kq_vulkan_quantized_dot_record(d->pack, &op, item->set, item->commands);
    if (result != KQ_OK) {
        return result;
    }
    kq_vulkan_barrier(d, item->commands);
    kq_vulkan_collect_marks(d, w, index, &marks);
    copy_runs(d, operation, piece, KQ_RESULT, false, w->stage.buffer, item->commands);
    if (piece->is_staged[KQ_RESULT]) {
        kq_vulkan_barrier(d, item->commands);
    }
    kq_vulkan_collect_twins(d, operation, piece, w, index);
    return KQ_OK;
}

static kq_result add_bandwidth(kq_device *device, const kq_operation *operation,
                               const kq_piece *piece, uint32_t index, kq_vulkan_work *w)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_item *item = &w->items[index];
    const kq_transfer transfer = kq_piece_transfer(operation, piece);
    const kq_vulkan_memory *from = kq_piece_memory(operation, piece, KQ_FROM, NULL);
    const kq_vulkan_memory *to = kq_piece_memory(operation, piece, KQ_TO, NULL);
    const uint64_t end = transfer.to_offset + kq_transfer_written(&transfer);
    kq_vulkan_marks marks = {0};
    kq_vulkan_add_mark(&marks, to->buffer, end - 4);
    kq_vulkan_poison_marks(d, w, index, &marks);
    kq_result result = kq_vulkan_bandwidth_record(d->pack, from->buffer, to->buffer, &transfer,
                                                  item->set, item->commands);
    kq_vulkan_barrier(d, item->commands);
    kq_vulkan_collect_marks(d, w, index, &marks);
    return result;
}

kq_result kq_vulkan_add_piece(kq_device *device, kq_vulkan_work *w, uint32_t index,
                              const kq_operation *operation, const kq_piece *piece)
{
    w->items[index].is_quantize = operation->op == KQ_OP_QUANTIZE;
    w->items[index].is_bandwidth = operation->op == KQ_OP_SELF_TEST;
    kq_result result = w->status.mapped == NULL ? kq_vulkan_need_staging(device, w, index) : KQ_OK;
    result = result != KQ_OK ? result : need_stage(device, piece, w);
    result = result != KQ_OK ? result : need_scratch(device->self, piece->needs.scratch_bytes, w);
    if (result != KQ_OK) {
        return result;
    }
    return operation->op == KQ_OP_QUANTIZE    ? add_quantize(device, operation, piece, index, w)
           : operation->op == KQ_OP_SELF_TEST ? add_bandwidth(device, operation, piece, index, w)
                                              : add_dot(device, operation, piece, index, w);
}

kq_result kq_vulkan_work_record(kq_device *device, void *work, uint32_t index,
                                const kq_operation *operation, const kq_piece *piece)
{
    kq_vulkan_work *w = work;
    kq_result result = kq_vulkan_begin(device->self, w, index);
    result = result != KQ_OK ? result : kq_vulkan_add_piece(device, w, index, operation, piece);
    return result != KQ_OK ? result : kq_vulkan_end(device->self, w, index);
}

// --- Running

kq_result kq_vulkan_start(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index)
{
    kq_vulkan_lane *lane = &w->lanes[index % KQ_IN_FLIGHT];
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &w->items[index].commands,
    };
    kq_result result = kq_vulkan_preset_slot(d, w, index);
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkResetFences",
                                 d->vkResetFences(d->handle, 1, &lane->fence));
    }
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkQueueSubmit",
                                 d->vkQueueSubmit(d->queue, 1, &info, lane->fence));
    }
    lane->is_pending = result == KQ_OK;
    lane->index = index;
    return result;
}

static kq_result wait_fence(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index)
{
    kq_vulkan_lane *lane = &w->lanes[index % KQ_IN_FLIGHT];
    kq_result result =
        kq_vulkan_check(d->errors, "vkWaitForFences",
                        d->vkWaitForFences(d->handle, 1, &lane->fence, VK_TRUE, UINT64_MAX));
    lane->is_pending = false;
    if (result != KQ_OK) {
        // Nothing may be pending when the caller goes on to destroy things.
        d->vkDeviceWaitIdle(d->handle);
    }
    return result;
}

// What a read left in staging, unless nothing came, as it seems: then it is done again.
static kq_result confirm_read(kq_vulkan_device *d, kq_vulkan_work *w, const kq_vulkan_lane *lane)
{
    const kq_vulkan_memory *staging = lane->read_from;
    kq_vulkan_item *item = &w->items[lane->index];
    bool came = false;
    kq_result result =
        kq_vulkan_has_come(d, staging, lane->read_offset, lane->read_bytes, false, &came);
    if (result != KQ_OK || came) {
        return result;
    }
    const VkBufferCopy region = {lane->read_source_offset, lane->read_offset, lane->read_bytes};
    result = kq_vulkan_preset_read(d, staging, lane->read_offset, lane->read_bytes, true);
    item->is_quantize = false;
    item->mark_count = 0;
    item->sum_count = 0;
    item->twin_bytes = 0;
    result = result != KQ_OK ? result : kq_vulkan_begin(d, w, lane->index);
    if (result != KQ_OK) {
        return result;
    }
    d->vkCmdCopyBuffer(item->commands, lane->read_source->buffer, staging->buffer, 1, &region);
    result = kq_vulkan_end(d, w, lane->index);
    result = result != KQ_OK ? result : kq_vulkan_start(d, w, lane->index);
    result = result != KQ_OK ? result : wait_fence(d, w, lane->index);
    if (result == KQ_OK) {
        result = kq_vulkan_has_come(d, staging, lane->read_offset, lane->read_bytes, true, &came);
    }
    return result != KQ_OK || came ? result
                                   : kq_fail(d->errors, KQ_ERROR_DRIVER,
                                             "the driver reports bytes as copied that are not");
}

static kq_result check_uploads(const kq_vulkan_device *d, const kq_vulkan_lane *lane)
{
    unsigned char got[2 * KQ_VULKAN_SAMPLE_BYTES];
    for (uint32_t i = 0; i < lane->upload_count; i++) {
        const kq_vulkan_sample *sample = &lane->uploads[i];
        kq_result result = kq_vulkan_read_mapped(d, &lane->staging, sample->at, got,
                                                 KQ_VULKAN_SAMPLE_BYTES + sample->bytes);
        if (result != KQ_OK) {
            return result;
        }
        if (memcmp(got, got + KQ_VULKAN_SAMPLE_BYTES, sample->bytes) != 0) {
            return kq_fail(d->errors, KQ_ERROR_DRIVER,
                           "the driver reports bytes as copied that are not");
        }
    }
    return KQ_OK;
}

kq_result kq_vulkan_wait(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index)
{
    kq_vulkan_lane *lane = &w->lanes[index % KQ_IN_FLIGHT];
    if (!lane->is_pending) {
        return KQ_OK;
    }
    kq_result result = wait_fence(d, w, index);
    result = result != KQ_OK ? result : kq_vulkan_check_slot(d, w, lane->index, lane->status);
    result = result != KQ_OK ? result : check_uploads(d, lane);
    if (result == KQ_OK && lane->read_source != NULL) {
        result = confirm_read(d, w, lane);
    }
    if (result == KQ_OK && lane->read_from != NULL) {
        result = kq_vulkan_read_mapped(d, lane->read_from, lane->read_offset, lane->read_to,
                                       lane->read_bytes);
    }
    return result;
}

uint64_t kq_vulkan_nanoseconds(uint64_t ticks, uint32_t period_bits)
{
    // The period is its significand over 2^shift; the product has 88 bits, its low 32 apart.
    uint64_t significand = (period_bits & 0x007FFFFFu) | 0x00800000u;
    int shift = 150 - (int)(period_bits >> 23);
    uint64_t low = (ticks & UINT32_MAX) * significand;
    uint64_t high = (ticks >> 32) * significand + (low >> 32);
    low &= UINT32_MAX;
    if (shift < 0 || shift > 63) {
        return 0;
    }
    return shift <= 32 ? (high << (32 - shift)) + (low >> shift) : high >> (shift - 32);
}

static kq_result read_time(const kq_vulkan_device *d, const kq_vulkan_work *w, uint32_t index,
                           uint64_t *nanoseconds)
{
    uint64_t ticks[2] = {0, 0};
    uint64_t mask = d->timestamp_bits < 64 ? (UINT64_C(1) << d->timestamp_bits) - 1 : UINT64_MAX;
    kq_result result =
        kq_vulkan_check(d->errors, "vkGetQueryPoolResults",
                        d->vkGetQueryPoolResults(d->handle, w->times, 2 * index, 2, sizeof ticks,
                                                 ticks, sizeof ticks[0], VK_QUERY_RESULT_64_BIT));
    *nanoseconds = kq_vulkan_nanoseconds((ticks[1] - ticks[0]) & mask, d->timestamp_period);
    return result;
}

kq_result kq_vulkan_work_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                             uint64_t *nanoseconds)
{
    kq_vulkan_device *d = device->self;
    kq_vulkan_work *w = work;
    *nanoseconds = 0;
    w->lanes[index % KQ_IN_FLIGHT].status = w->items[index].is_quantize ? status : NULL;
    w->items[index].is_doubted = false;
    kq_result result = KQ_OK;
    do {
        result = kq_vulkan_start(d, w, index);
        result = result != KQ_OK ? result : kq_vulkan_wait(d, w, index);
    } while (result == KQ_OK && w->items[index].is_doubted);
    return result != KQ_OK || w->times == VK_NULL_HANDLE ? result
                                                         : read_time(d, w, index, nanoseconds);
}
