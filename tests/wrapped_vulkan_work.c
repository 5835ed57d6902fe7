// The wrapped driver's memory, descriptor sets and commands.
#include "wrapped_vulkan_inside.h"

#include <stdlib.h>

#define HANDLE(handle) ((uint64_t)(uintptr_t)(handle))

// --- Memory

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
                         const VkAllocationCallbacks *allocator, VkDeviceMemory *memory)
{
    wrapped_vulkan *w = wrapped.now;
    VkResult result = wrapped_enter("vkAllocateMemory");
    if (result != VK_SUCCESS) {
        memset(memory, WRAPPED_POISON, sizeof *memory);
        return result;
    }
    if (w->max_allocation != 0 && info->allocationSize > w->max_allocation) {
        wrapped_violate("vkAllocateMemory of %llu bytes, past %llu",
                        (unsigned long long)info->allocationSize,
                        (unsigned long long)w->max_allocation);
    }
    if ((uint32_t)w->live[WRAPPED_VULKAN_MEMORY] >= wrapped_limits()->maxMemoryAllocationCount) {
        wrapped_violate("vkAllocateMemory %d times", w->live[WRAPPED_VULKAN_MEMORY] + 1);
    }
    VkMemoryAllocateInfo real = *info;
    uint32_t type = info->memoryTypeIndex;
    if (w->layout != WRAPPED_LAYOUT_OF_DRIVER) {
        if (type >= WRAPPED_TYPE_CAPACITY || wrapped_type_flags(type) == 0) {
            wrapped_violate("vkAllocateMemory of type %u, which is not there", (unsigned)type);
            type = 0;
        }
        real.memoryTypeIndex = w->real_type[type];
    }
    result = wrapped.vkAllocateMemory(device, &real, allocator, memory);
    if (result == VK_SUCCESS) {
        wrapped_vulkan_object *object =
            wrapped_add(WRAPPED_VULKAN_MEMORY, (uint64_t)*memory, allocator);
        object->bytes = info->allocationSize;
        object->type = type;
        w->memory_bytes += object->bytes;
        if (w->memory_bytes > w->counts.most_memory_bytes) {
            w->counts.most_memory_bytes = w->memory_bytes;
        }
        w->counts.allocations[type % WRAPPED_TYPE_CAPACITY]++;
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkFreeMemory(VkDevice device, VkDeviceMemory memory,
                                                       const VkAllocationCallbacks *allocator)
{
    wrapped_count("vkFreeMemory");
    for (const wrapped_vulkan_object *o = wrapped.now->objects; o != NULL; o = o->next) {
        if (memory != VK_NULL_HANDLE && o->kind == WRAPPED_VULKAN_BUFFER && o->memory != NULL &&
            o->memory->handle == (uint64_t)memory) {
            wrapped_check_idle(WRAPPED_VULKAN_BUFFER, o->handle, "vkFreeMemory");
        }
    }
    const wrapped_vulkan_object *freed = wrapped_find(WRAPPED_VULKAN_MEMORY, (uint64_t)memory);
    wrapped.now->memory_bytes -= freed != NULL ? freed->bytes : 0;
    wrapped.vkFreeMemory(device, memory, allocator);
    wrapped_drop(WRAPPED_VULKAN_MEMORY, (uint64_t)memory, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkMapMemory(VkDevice device, VkDeviceMemory memory,
                                                          VkDeviceSize offset, VkDeviceSize bytes,
                                                          VkMemoryMapFlags flags, void **data)
{
    wrapped_vulkan *w = wrapped.now;
    VkResult result = wrapped_enter("vkMapMemory");
    wrapped_vulkan_object *object = wrapped_find(WRAPPED_VULKAN_MEMORY, (uint64_t)memory);
    memset(data, WRAPPED_POISON, sizeof *data);
    if (result != VK_SUCCESS || object == NULL) {
        return result != VK_SUCCESS ? result : VK_ERROR_MEMORY_MAP_FAILED;
    }
    VkMemoryPropertyFlags shown = wrapped_type_flags(object->type);
    bytes = bytes == VK_WHOLE_SIZE && offset < object->bytes ? object->bytes - offset : bytes;
    if ((shown & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0) {
        wrapped_violate("vkMapMemory of memory that is not HOST_VISIBLE");
        return VK_ERROR_MEMORY_MAP_FAILED;
    }
    if (object->real != NULL || bytes == 0 || offset >= object->bytes ||
        bytes > object->bytes - offset) {
        wrapped_violate("vkMapMemory of %s",
                        object->real != NULL ? "mapped memory" : "bytes past the memory's end");
        return VK_ERROR_MEMORY_MAP_FAILED;
    }
    void *real = NULL;
    result = wrapped.vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, flags, &real);
    if (result != VK_SUCCESS) {
        return result;
    }
    w->counts.maps[object->type % WRAPPED_TYPE_CAPACITY]++;
    object->real = real;
    object->mapped_offset = offset;
    object->mapped_bytes = bytes;
    bool is_coherent = (shown & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    if (w->layout != WRAPPED_LAYOUT_OF_DRIVER && !is_coherent) {
        object->shadow = malloc((size_t)object->bytes);
        if (object->shadow == NULL) {
            abort();
        }
        memset(object->shadow, WRAPPED_POISON, (size_t)object->bytes);
    }
    *data = (object->shadow != NULL ? object->shadow : object->real) + offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkUnmapMemory(VkDevice device, VkDeviceMemory memory)
{
    wrapped_count("vkUnmapMemory");
    wrapped_vulkan_object *object = wrapped_find(WRAPPED_VULKAN_MEMORY, (uint64_t)memory);
    if (object == NULL || object->real == NULL) {
        wrapped_violate("vkUnmapMemory of memory that is not mapped");
        return;
    }
    wrapped.vkUnmapMemory(device, memory);
    free(object->shadow);
    object->shadow = NULL;
    object->real = NULL;
}

// The bytes of a range to flush or invalidate; 0 if it breaks a rule of VkMappedMemoryRange.
static uint64_t range_bytes(const char *call, const VkMappedMemoryRange *range,
                            const wrapped_vulkan_object *memory)
{
    uint64_t atom = wrapped_limits()->nonCoherentAtomSize;
    uint64_t mapped_end = memory->mapped_offset + memory->mapped_bytes;
    if (memory->real == NULL) {
        wrapped_violate("%s of memory that is not mapped", call);
        return 0;
    }
    if (range->offset % atom != 0 || range->offset < memory->mapped_offset ||
        range->offset >= mapped_end) {
        wrapped_violate("%s: offset %llu, with bytes [%llu, %llu) mapped in atoms of %llu", call,
                        (unsigned long long)range->offset,
                        (unsigned long long)memory->mapped_offset, (unsigned long long)mapped_end,
                        (unsigned long long)atom);
        return 0;
    }
    uint64_t bytes = range->size == VK_WHOLE_SIZE ? mapped_end - range->offset : range->size;
    bool reaches_end = bytes == memory->bytes - range->offset;
    if (bytes == 0 || bytes > mapped_end - range->offset || (bytes % atom != 0 && !reaches_end)) {
        wrapped_violate("%s: %llu bytes at offset %llu, with bytes [%llu, %llu) of %llu mapped in "
                        "atoms of %llu",
                        call, (unsigned long long)range->size, (unsigned long long)range->offset,
                        (unsigned long long)memory->mapped_offset, (unsigned long long)mapped_end,
                        (unsigned long long)memory->bytes, (unsigned long long)atom);
        return 0;
    }
    return bytes;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkFlushMappedMemoryRanges(
    VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    wrapped_vulkan_counts *counts = &wrapped.now->counts;
    VkResult result = wrapped_enter("vkFlushMappedMemoryRanges");
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        wrapped_vulkan_object *memory =
            wrapped_find(WRAPPED_VULKAN_MEMORY, (uint64_t)ranges[i].memory);
        uint64_t bytes =
            memory != NULL ? range_bytes("vkFlushMappedMemoryRanges", &ranges[i], memory) : 0;
        counts->flushed_ranges++;
        counts->flushed_bytes += bytes;
        if (bytes > 0 && memory->shadow != NULL) {
            memcpy(memory->real + ranges[i].offset, memory->shadow + ranges[i].offset,
                   (size_t)bytes);
        }
    }
    // Behind a layout of the wrapper's there is only coherent memory.
    return result == VK_SUCCESS && wrapped.now->layout == WRAPPED_LAYOUT_OF_DRIVER
               ? wrapped.vkFlushMappedMemoryRanges(device, count, ranges)
               : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkInvalidateMappedMemoryRanges(
    VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    wrapped_vulkan_counts *counts = &wrapped.now->counts;
    VkResult result = wrapped_enter("vkInvalidateMappedMemoryRanges");
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        wrapped_vulkan_object *memory =
            wrapped_find(WRAPPED_VULKAN_MEMORY, (uint64_t)ranges[i].memory);
        uint64_t bytes =
            memory != NULL ? range_bytes("vkInvalidateMappedMemoryRanges", &ranges[i], memory) : 0;
        counts->invalidated_ranges++;
        counts->invalidated_bytes += bytes;
        if (bytes > 0 && memory->shadow != NULL) {
            memcpy(memory->shadow + ranges[i].offset, memory->real + ranges[i].offset,
                   (size_t)bytes);
        }
    }
    return result == VK_SUCCESS && wrapped.now->layout == WRAPPED_LAYOUT_OF_DRIVER
               ? wrapped.vkInvalidateMappedMemoryRanges(device, count, ranges)
               : result;
}

// --- Buffers

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkCreateBuffer(VkDevice device,
                                                             const VkBufferCreateInfo *info,
                                                             const VkAllocationCallbacks *allocator,
                                                             VkBuffer *buffer)
{
    VkResult result = wrapped_enter("vkCreateBuffer");
    if (result != VK_SUCCESS) {
        memset(buffer, WRAPPED_POISON, sizeof *buffer);
        return result;
    }
    result = wrapped.vkCreateBuffer(device, info, allocator, buffer);
    if (result == VK_SUCCESS) {
        wrapped_vulkan_object *object =
            wrapped_add(WRAPPED_VULKAN_BUFFER, (uint64_t)*buffer, allocator);
        object->bytes = info->size;
        object->usage = info->usage;
    }
    return result;
}

WRAPPED_DESTROY(Buffer, BUFFER)

static VKAPI_ATTR void VKAPI_CALL wrapped_vkGetBufferMemoryRequirements(
    VkDevice device, VkBuffer buffer, VkMemoryRequirements *requirements)
{
    const wrapped_vulkan *w = wrapped.now;
    wrapped_count("vkGetBufferMemoryRequirements");
    wrapped.vkGetBufferMemoryRequirements(device, buffer, requirements);
    if (w->layout != WRAPPED_LAYOUT_OF_DRIVER) {
        uint32_t real_bits = requirements->memoryTypeBits;
        requirements->memoryTypeBits = 0;
        for (uint32_t i = 0; i < WRAPPED_TYPE_CAPACITY && wrapped_type_flags(i) != 0; i++) {
            requirements->memoryTypeBits |= (real_bits >> w->real_type[i] & 1u) << i;
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkBindBufferMemory(VkDevice device, VkBuffer buffer,
                                                                 VkDeviceMemory memory,
                                                                 VkDeviceSize offset)
{
    VkResult result = wrapped_enter("vkBindBufferMemory");
    wrapped_vulkan_object *b = wrapped_find(WRAPPED_VULKAN_BUFFER, (uint64_t)buffer);
    wrapped_vulkan_object *m = wrapped_find(WRAPPED_VULKAN_MEMORY, (uint64_t)memory);
    if (result != VK_SUCCESS || b == NULL || m == NULL) {
        return result;
    }
    VkMemoryRequirements r;
    wrapped.vkGetBufferMemoryRequirements(device, buffer, &r);
    if (b->memory != NULL || offset % r.alignment != 0 || offset > m->bytes ||
        r.size > m->bytes - offset) {
        wrapped_violate("vkBindBufferMemory breaks a rule of its buffer or memory");
    }
    b->memory = m;
    return wrapped.vkBindBufferMemory(device, buffer, memory, offset);
}

static bool is_device_local(const wrapped_vulkan_object *buffer)
{
    return buffer->memory != NULL &&
           (wrapped_type_flags(buffer->memory->type) & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
}

static bool is_mapped(const wrapped_vulkan_object *buffer)
{
    return buffer != NULL && buffer->memory != NULL && buffer->memory->real != NULL;
}

// The buffer, if it has that usage, memory, and these bytes.
static wrapped_vulkan_object *use_buffer(const char *call, VkBuffer handle, uint64_t offset,
                                         uint64_t bytes, VkBufferUsageFlags usage)
{
    wrapped_vulkan_object *buffer = wrapped_find(WRAPPED_VULKAN_BUFFER, (uint64_t)handle);
    if (buffer == NULL || buffer->memory == NULL || (buffer->usage & usage) != usage ||
        bytes == 0 || offset > buffer->bytes || bytes > buffer->bytes - offset) {
        wrapped_violate("%s: %llu bytes at offset %llu of a buffer that is not made for that", call,
                        (unsigned long long)bytes, (unsigned long long)offset);
        return NULL;
    }
    return buffer;
}

// --- Descriptor sets

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkCreateDescriptorPool(VkDevice device, const VkDescriptorPoolCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkDescriptorPool *pool)
{
    VkResult result = wrapped_enter("vkCreateDescriptorPool");
    if (result != VK_SUCCESS) {
        memset(pool, WRAPPED_POISON, sizeof *pool);
        return result;
    }
    result = wrapped.vkCreateDescriptorPool(device, info, allocator, pool);
    if (result == VK_SUCCESS) {
        wrapped_add(WRAPPED_VULKAN_DESCRIPTOR_POOL, (uint64_t)*pool, allocator)->bytes =
            info->maxSets;
    }
    return result;
}

WRAPPED_DESTROY(DescriptorPool, DESCRIPTOR_POOL)

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkAllocateDescriptorSets(
    VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *sets)
{
    VkResult result = wrapped_enter("vkAllocateDescriptorSets");
    wrapped_vulkan_object *pool =
        wrapped_find(WRAPPED_VULKAN_DESCRIPTOR_POOL, (uint64_t)info->descriptorPool);
    if (result == VK_SUCCESS && pool != NULL && info->descriptorSetCount > pool->bytes) {
        wrapped_violate("vkAllocateDescriptorSets: the pool has no sets left");
    }
    if (result != VK_SUCCESS || pool == NULL) {
        memset(sets, 0, info->descriptorSetCount * sizeof *sets);
        return result != VK_SUCCESS ? result : VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    result = wrapped.vkAllocateDescriptorSets(device, info, sets);
    for (uint32_t i = 0; i < info->descriptorSetCount && result == VK_SUCCESS; i++) {
        wrapped_add(WRAPPED_VULKAN_DESCRIPTOR_SET, (uint64_t)sets[i], NULL)->pool = pool->handle;
        pool->bytes--;
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkUpdateDescriptorSets(VkDevice device,
                                                                 uint32_t write_count,
                                                                 const VkWriteDescriptorSet *writes,
                                                                 uint32_t copy_count,
                                                                 const VkCopyDescriptorSet *copies)
{
    const VkPhysicalDeviceLimits *limits = wrapped_limits();
    wrapped_count("vkUpdateDescriptorSets");
    for (uint32_t i = 0; i < write_count; i++) {
        const VkDescriptorBufferInfo *info = writes[i].pBufferInfo;
        wrapped_vulkan_object *set =
            wrapped_find(WRAPPED_VULKAN_DESCRIPTOR_SET, (uint64_t)writes[i].dstSet);
        wrapped_check_idle(WRAPPED_VULKAN_DESCRIPTOR_SET, (uint64_t)writes[i].dstSet,
                           "vkUpdateDescriptorSets");
        if (set == NULL || writes[i].dstBinding >= 4 || writes[i].descriptorCount != 1) {
            wrapped_violate("vkUpdateDescriptorSets of what the wrapper doesn't know");
            continue;
        }
        if (info->offset % limits->minStorageBufferOffsetAlignment != 0 ||
            info->range > limits->maxStorageBufferRange) {
            wrapped_violate("binding %u: %llu bytes at offset %llu", (unsigned)writes[i].dstBinding,
                            (unsigned long long)info->range, (unsigned long long)info->offset);
        }
        set->buffers[writes[i].dstBinding] =
            use_buffer("vkUpdateDescriptorSets", info->buffer, info->offset, info->range,
                       VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    }
    wrapped.vkUpdateDescriptorSets(device, write_count, writes, copy_count, copies);
}

// --- Command buffers

static wrapped_vulkan_object *commands_of(VkCommandBuffer commands)
{
    return wrapped_find(WRAPPED_VULKAN_COMMAND_BUFFER, HANDLE(commands));
}

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info,
                            const VkAllocationCallbacks *allocator, VkCommandPool *pool)
{
    VkResult result = wrapped_enter("vkCreateCommandPool");
    if (result != VK_SUCCESS) {
        memset(pool, WRAPPED_POISON, sizeof *pool);
        return result;
    }
    result = wrapped.vkCreateCommandPool(device, info, allocator, pool);
    if (result == VK_SUCCESS) {
        wrapped_add(WRAPPED_VULKAN_COMMAND_POOL, (uint64_t)*pool, allocator)->flags = info->flags;
    }
    return result;
}

WRAPPED_DESTROY(CommandPool, COMMAND_POOL)

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkResetCommandPool(VkDevice device,
                                                                 VkCommandPool pool,
                                                                 VkCommandPoolResetFlags flags)
{
    VkResult result = wrapped_enter("vkResetCommandPool");
    if (result != VK_SUCCESS) {
        return result;
    }
    for (wrapped_vulkan_object *o = wrapped.now->objects; o != NULL; o = o->next) {
        if (o->kind == WRAPPED_VULKAN_COMMAND_BUFFER && o->pool == (uint64_t)pool) {
            wrapped_check_idle(o->kind, o->handle, "vkResetCommandPool");
            o->is_recording = false;
            o->event_count = 0;
        }
    }
    return wrapped.vkResetCommandPool(device, pool, flags);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkAllocateCommandBuffers(
    VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *commands)
{
    VkResult result = wrapped_enter("vkAllocateCommandBuffers");
    if (result != VK_SUCCESS) {
        memset(commands, 0, info->commandBufferCount * sizeof *commands);
        return result;
    }
    result = wrapped.vkAllocateCommandBuffers(device, info, commands);
    for (uint32_t i = 0; i < info->commandBufferCount && result == VK_SUCCESS; i++) {
        wrapped_add(WRAPPED_VULKAN_COMMAND_BUFFER, HANDLE(commands[i]), NULL)->pool =
            (uint64_t)info->commandPool;
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkFreeCommandBuffers(VkDevice device, VkCommandPool pool,
                                                               uint32_t count,
                                                               const VkCommandBuffer *commands)
{
    wrapped_count("vkFreeCommandBuffers");
    for (uint32_t i = 0; i < count; i++) {
        wrapped_drop(WRAPPED_VULKAN_COMMAND_BUFFER, HANDLE(commands[i]), NULL);
    }
    wrapped.vkFreeCommandBuffers(device, pool, count, commands);
}

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkBeginCommandBuffer(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
    VkResult result = wrapped_enter("vkBeginCommandBuffer");
    wrapped_vulkan_object *c = commands_of(commands);
    if (result != VK_SUCCESS || c == NULL) {
        return result;
    }
    wrapped_check_idle(WRAPPED_VULKAN_COMMAND_BUFFER, c->handle, "vkBeginCommandBuffer");
    const wrapped_vulkan_object *pool = wrapped_find(WRAPPED_VULKAN_COMMAND_POOL, c->pool);
    if (c->event_count > 0 && pool != NULL &&
        (pool->flags & VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT) == 0) {
        wrapped_violate("vkBeginCommandBuffer again, in a pool that is not made for that");
    }
    if (c->is_recording) {
        wrapped_violate("vkBeginCommandBuffer of what is being recorded");
    }
    c->flags = info->flags;
    c->is_recording = true;
    c->event_count = 0;
    c->pipeline = NULL;
    c->set = NULL;
    return wrapped.vkBeginCommandBuffer(commands, info);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkEndCommandBuffer(VkCommandBuffer commands)
{
    // A failure ends it all the same.
    VkResult told = wrapped_enter("vkEndCommandBuffer");
    wrapped_vulkan_object *c = commands_of(commands);
    if (c != NULL) {
        c->is_recording = false;
    }
    VkResult result = wrapped.vkEndCommandBuffer(commands);
    return told != VK_SUCCESS ? told : result;
}

static void add_event(VkCommandBuffer commands, wrapped_event event)
{
    wrapped_vulkan_object *c = commands_of(commands);
    if (c == NULL) {
        return;
    }
    if (c->event_count == c->event_capacity) {
        c->event_capacity = 2 * c->event_capacity + 8;
        c->events = realloc(c->events, c->event_capacity * sizeof *c->events);
        if (c->events == NULL) {
            abort();
        }
    }
    c->events[c->event_count++] = event;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdBindPipeline(VkCommandBuffer commands,
                                                            VkPipelineBindPoint point,
                                                            VkPipeline pipeline)
{
    wrapped_count("vkCmdBindPipeline");
    wrapped_vulkan_object *c = commands_of(commands);
    if (c != NULL) {
        c->pipeline = wrapped_find(WRAPPED_VULKAN_PIPELINE, (uint64_t)pipeline);
    }
    wrapped.vkCmdBindPipeline(commands, point, pipeline);
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdBindDescriptorSets(
    VkCommandBuffer commands, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t first,
    uint32_t count, const VkDescriptorSet *sets, uint32_t offset_count, const uint32_t *offsets)
{
    wrapped_count("vkCmdBindDescriptorSets");
    wrapped_vulkan_object *c = commands_of(commands);
    if (c != NULL && first == 0 && count == 1) {
        c->set = wrapped_find(WRAPPED_VULKAN_DESCRIPTOR_SET, (uint64_t)sets[0]);
    }
    wrapped.vkCmdBindDescriptorSets(commands, point, layout, first, count, sets, offset_count,
                                    offsets);
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdPushConstants(VkCommandBuffer commands,
                                                             VkPipelineLayout layout,
                                                             VkShaderStageFlags stages,
                                                             uint32_t offset, uint32_t bytes,
                                                             const void *values)
{
    wrapped_count("vkCmdPushConstants");
    if (offset + bytes > 128) {
        wrapped_violate("vkCmdPushConstants of %u bytes", (unsigned)(offset + bytes));
    }
    wrapped.vkCmdPushConstants(commands, layout, stages, offset, bytes, values);
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdDispatch(VkCommandBuffer commands, uint32_t x,
                                                        uint32_t y, uint32_t z)
{
    const uint32_t *most = wrapped_limits()->maxComputeWorkGroupCount;
    wrapped_count("vkCmdDispatch");
    wrapped_vulkan_object *c = commands_of(commands);
    wrapped_event event = {.kind = WRAPPED_EVENT_DISPATCH};
    if (x == 0 || y == 0 || z == 0 || x > most[0] || y > most[1] || z > most[2]) {
        wrapped_violate("vkCmdDispatch of %u, %u, %u workgroups", (unsigned)x, (unsigned)y,
                        (unsigned)z);
    }
    if (c == NULL || c->pipeline == NULL || c->set == NULL) {
        wrapped_violate("vkCmdDispatch without pipeline or set");
    } else {
        c->pipeline->dispatches++;
        event.set = c->set->handle;
        for (int i = 0; i < 4; i++) {
            event.is_mapped |= is_mapped(c->set->buffers[i]);
            event.buffers[i] = c->set->buffers[i] != NULL ? c->set->buffers[i]->handle : 0;
        }
    }
    wrapped.now->counts.dispatches++;
    add_event(commands, event);
    const char *lost = wrapped.now->lost_kernels;
    bool is_lost = lost != NULL && c != NULL && c->pipeline != NULL &&
                   strncmp(wrapped_kernel_name(c->pipeline->code), lost, strlen(lost)) == 0;
    if (!is_lost && !wrapped_loses("vkCmdDispatch")) {
        wrapped.vkCmdDispatch(commands, x, y, z);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdPipelineBarrier(
    VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
    VkDependencyFlags flags, uint32_t memory_count, const VkMemoryBarrier *memory,
    uint32_t buffer_count, const VkBufferMemoryBarrier *buffers, uint32_t image_count,
    const VkImageMemoryBarrier *images)
{
    wrapped_count("vkCmdPipelineBarrier");
    wrapped.now->counts.barriers++;
    // Barriers of single buffers hide nothing here: no other buffer is followed.
    for (uint32_t i = 0; i < memory_count; i++) {
        add_event(commands, (wrapped_event){
                                .kind = WRAPPED_EVENT_BARRIER,
                                .from_stages = from,
                                .to_stages = to,
                                .from_access = memory[i].srcAccessMask,
                                .to_access = memory[i].dstAccessMask,
                            });
    }
    wrapped.vkCmdPipelineBarrier(commands, from, to, flags, memory_count, memory, buffer_count,
                                 buffers, image_count, images);
}

static wrapped_range range_of(VkBuffer buffer, uint64_t offset, uint64_t bytes)
{
    return (wrapped_range){(uint64_t)buffer, offset, offset + bytes};
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdCopyBuffer(VkCommandBuffer commands, VkBuffer from,
                                                          VkBuffer to, uint32_t count,
                                                          const VkBufferCopy *regions)
{
    wrapped_vulkan_counts *counts = &wrapped.now->counts;
    wrapped_count("vkCmdCopyBuffer");
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = regions[i].size;
        const wrapped_vulkan_object *a = use_buffer("vkCmdCopyBuffer", from, regions[i].srcOffset,
                                                    bytes, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
        const wrapped_vulkan_object *b = use_buffer("vkCmdCopyBuffer", to, regions[i].dstOffset,
                                                    bytes, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
        if (a == NULL || b == NULL) {
            return;
        }
        add_event(commands, (wrapped_event){
                                .kind = WRAPPED_EVENT_TRANSFER,
                                .is_mapped = is_mapped(b),
                                .from = range_of(from, regions[i].srcOffset, bytes),
                                .to = range_of(to, regions[i].dstOffset, bytes),
                            });
        if (is_device_local(a) && is_device_local(b) && a->bytes != WRAPPED_SLOTS_BYTES &&
            b->bytes != WRAPPED_SLOTS_BYTES) {
            counts->staged_bytes += bytes;
        }
        if (bytes <= WRAPPED_SAMPLE_BYTES) {
            continue;
        }
        counts->copies++;
        if (is_device_local(a) == is_device_local(b)) {
            counts->copied_bytes += bytes;
        } else if (is_device_local(b)) {
            counts->uploaded_bytes += bytes;
        } else {
            counts->read_back_bytes += bytes;
        }
    }
    if (!wrapped_loses("vkCmdCopyBuffer")) {
        wrapped.vkCmdCopyBuffer(commands, from, to, count, regions);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdUpdateBuffer(VkCommandBuffer commands, VkBuffer to,
                                                            VkDeviceSize offset, VkDeviceSize bytes,
                                                            const void *data)
{
    wrapped_count("vkCmdUpdateBuffer");
    const wrapped_vulkan_object *b =
        use_buffer("vkCmdUpdateBuffer", to, offset, bytes, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    if (b == NULL || offset % 4 != 0 || bytes % 4 != 0 || bytes > 65536) {
        wrapped_violate("vkCmdUpdateBuffer of %llu bytes at offset %llu", (unsigned long long)bytes,
                        (unsigned long long)offset);
        return;
    }
    wrapped.now->counts.updated_bytes += bytes > WRAPPED_SAMPLE_BYTES ? bytes : 0;
    add_event(commands, (wrapped_event){
                            .kind = WRAPPED_EVENT_TRANSFER,
                            .is_mapped = is_mapped(b),
                            .to = range_of(to, offset, bytes),
                        });
    if (!wrapped_loses("vkCmdUpdateBuffer")) {
        wrapped.vkCmdUpdateBuffer(commands, to, offset, bytes, data);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdFillBuffer(VkCommandBuffer commands, VkBuffer to,
                                                          VkDeviceSize offset, VkDeviceSize bytes,
                                                          uint32_t word)
{
    wrapped_count("vkCmdFillBuffer");
    const wrapped_vulkan_object *b =
        use_buffer("vkCmdFillBuffer", to, offset, bytes, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    if (b == NULL || offset % 4 != 0 || bytes % 4 != 0) {
        wrapped_violate("vkCmdFillBuffer of %llu bytes at offset %llu", (unsigned long long)bytes,
                        (unsigned long long)offset);
        return;
    }
    add_event(commands, (wrapped_event){
                            .kind = WRAPPED_EVENT_TRANSFER,
                            .is_mapped = is_mapped(b),
                            .to = range_of(to, offset, bytes),
                        });
    if (!wrapped_loses("vkCmdFillBuffer")) {
        wrapped.vkCmdFillBuffer(commands, to, offset, bytes, word);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdExecuteCommands(VkCommandBuffer commands,
                                                               uint32_t count,
                                                               const VkCommandBuffer *secondary)
{
    wrapped_count("vkCmdExecuteCommands");
    for (uint32_t i = 0; i < count; i++) {
        add_event(commands, (wrapped_event){.kind = WRAPPED_EVENT_EXECUTE,
                                            .commands = commands_of(secondary[i])});
    }
    wrapped.vkCmdExecuteCommands(commands, count, secondary);
}

// --- Times

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkCreateQueryPool(VkDevice device, const VkQueryPoolCreateInfo *info,
                          const VkAllocationCallbacks *allocator, VkQueryPool *pool)
{
    VkResult result = wrapped_enter("vkCreateQueryPool");
    if (result != VK_SUCCESS) {
        memset(pool, WRAPPED_POISON, sizeof *pool);
        return result;
    }
    result = wrapped.vkCreateQueryPool(device, info, allocator, pool);
    if (result == VK_SUCCESS) {
        wrapped_add(WRAPPED_VULKAN_QUERY_POOL, (uint64_t)*pool, allocator)->bytes =
            info->queryCount;
    }
    return result;
}

WRAPPED_DESTROY(QueryPool, QUERY_POOL)

static void use_queries(const char *call, VkQueryPool pool, uint32_t first, uint32_t count)
{
    const wrapped_vulkan_object *object = wrapped_find(WRAPPED_VULKAN_QUERY_POOL, (uint64_t)pool);
    if (object == NULL || first >= object->bytes || count > object->bytes - first) {
        wrapped_violate("%s of queries past the pool's end", call);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdResetQueryPool(VkCommandBuffer commands,
                                                              VkQueryPool pool, uint32_t first,
                                                              uint32_t count)
{
    wrapped_count("vkCmdResetQueryPool");
    use_queries("vkCmdResetQueryPool", pool, first, count);
    wrapped.vkCmdResetQueryPool(commands, pool, first, count);
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkCmdWriteTimestamp(VkCommandBuffer commands,
                                                              VkPipelineStageFlagBits stage,
                                                              VkQueryPool pool, uint32_t query)
{
    wrapped_count("vkCmdWriteTimestamp");
    use_queries("vkCmdWriteTimestamp", pool, query, 1);
    wrapped.vkCmdWriteTimestamp(commands, stage, pool, query);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkGetQueryPoolResults(
    VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count, size_t bytes, void *data,
    VkDeviceSize stride, VkQueryResultFlags flags)
{
    VkResult result = wrapped_enter("vkGetQueryPoolResults");
    use_queries("vkGetQueryPoolResults", pool, first, count);
    return result != VK_SUCCESS ? result
                                : wrapped.vkGetQueryPoolResults(device, pool, first, count, bytes,
                                                                data, stride, flags);
}

const wrapped_entry wrapped_work_entries[] = {
    WRAPPED_ENTRY(vkAllocateMemory),
    WRAPPED_ENTRY(vkFreeMemory),
    WRAPPED_ENTRY(vkMapMemory),
    WRAPPED_ENTRY(vkUnmapMemory),
    WRAPPED_ENTRY(vkFlushMappedMemoryRanges),
    WRAPPED_ENTRY(vkInvalidateMappedMemoryRanges),
    WRAPPED_ENTRY(vkCreateBuffer),
    WRAPPED_ENTRY(vkDestroyBuffer),
    WRAPPED_ENTRY(vkGetBufferMemoryRequirements),
    WRAPPED_ENTRY(vkBindBufferMemory),
    WRAPPED_ENTRY(vkCreateDescriptorPool),
    WRAPPED_ENTRY(vkDestroyDescriptorPool),
    WRAPPED_ENTRY(vkAllocateDescriptorSets),
    WRAPPED_ENTRY(vkUpdateDescriptorSets),
    WRAPPED_ENTRY(vkCreateCommandPool),
    WRAPPED_ENTRY(vkDestroyCommandPool),
    WRAPPED_ENTRY(vkResetCommandPool),
    WRAPPED_ENTRY(vkAllocateCommandBuffers),
    WRAPPED_ENTRY(vkFreeCommandBuffers),
    WRAPPED_ENTRY(vkBeginCommandBuffer),
    WRAPPED_ENTRY(vkEndCommandBuffer),
    WRAPPED_ENTRY(vkCmdBindPipeline),
    WRAPPED_ENTRY(vkCmdBindDescriptorSets),
    WRAPPED_ENTRY(vkCmdPushConstants),
    WRAPPED_ENTRY(vkCmdDispatch),
    WRAPPED_ENTRY(vkCmdPipelineBarrier),
    WRAPPED_ENTRY(vkCmdCopyBuffer),
    WRAPPED_ENTRY(vkCmdUpdateBuffer),
    WRAPPED_ENTRY(vkCmdFillBuffer),
    WRAPPED_ENTRY(vkCmdExecuteCommands),
    WRAPPED_ENTRY(vkCreateQueryPool),
    WRAPPED_ENTRY(vkDestroyQueryPool),
    WRAPPED_ENTRY(vkCmdResetQueryPool),
    WRAPPED_ENTRY(vkCmdWriteTimestamp),
    WRAPPED_ENTRY(vkGetQueryPoolResults),
    {NULL, NULL},
};
