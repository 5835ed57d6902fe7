// Buffers of level 3 on Vulkan, each with memory of its own.
#include "device_vulkan.h"

#include <string.h>

enum { PREFERENCE_COUNT = 3 };

static const VkMemoryPropertyFlags preferences[][PREFERENCE_COUNT] = {
    // The host reaches memory of integrated GPUs and software, where it costs nothing. Elsewhere
    // data is staged, for reading across a bus uncached is 40 times slower.
    [KQ_VULKAN_ON_DEVICE] =
        {
            VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
            VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
            0,
        },
    // Vulkan promises a type that is HOST_VISIBLE, cached or not.
    [KQ_VULKAN_FOR_STAGING] =
        {
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
        },
};

// The first type that has one of the preferences, the earlier the better; and no property that
// makes it unfit for plain use. UINT32_MAX: none.
static uint32_t choose_memory_type(const kq_vulkan_device *d, uint32_t allowed, kq_vulkan_use use)
{
    const VkMemoryPropertyFlags unfit =
        VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
        VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
    for (int p = 0; p < PREFERENCE_COUNT; p++) {
        for (uint32_t i = 0; i < d->memory_properties.memoryTypeCount; i++) {
            VkMemoryPropertyFlags flags = d->memory_properties.memoryTypes[i].propertyFlags;
            if ((allowed & 1u << i) != 0 && (flags & unfit) == 0 &&
                (flags & preferences[use][p]) == preferences[use][p]) {
                return i;
            }
        }
    }
    return UINT32_MAX;
}

void kq_vulkan_memory_destroy(kq_vulkan_device *d, kq_vulkan_memory *m)
{
    if (d->handle != VK_NULL_HANDLE) {
        d->vkDestroyBuffer(d->handle, m->buffer, NULL);
        d->vkFreeMemory(d->handle, m->handle, NULL);
    }
    memset(m, 0, sizeof *m);
}

kq_result kq_vulkan_memory_create(kq_vulkan_device *d, uint64_t bytes, kq_vulkan_use use,
                                  kq_vulkan_memory *m)
{
    memset(m, 0, sizeof *m);
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    kq_result result = kq_vulkan_check_made(d, "vkCreateBuffer",
                                            d->vkCreateBuffer(d->handle, &info, NULL, &m->buffer),
                                            &m->buffer, sizeof m->buffer);
    if (result != KQ_OK) {
        return result;
    }
    VkMemoryRequirements requirements;
    d->vkGetBufferMemoryRequirements(d->handle, m->buffer, &requirements);
    uint32_t type = choose_memory_type(d, requirements.memoryTypeBits, use);
    if (type == UINT32_MAX) {
        result = kq_fail(d->errors, KQ_ERROR_DRIVER, "no memory type suits a storage buffer");
        goto fail;
    }
    VkMemoryPropertyFlags flags = d->memory_properties.memoryTypes[type].propertyFlags;
    VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = requirements.size,
        .memoryTypeIndex = type,
    };
    result = kq_vulkan_check_made(d, "vkAllocateMemory",
                                  d->vkAllocateMemory(d->handle, &allocate, NULL, &m->handle),
                                  &m->handle, sizeof m->handle);
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkBindBufferMemory",
                                 d->vkBindBufferMemory(d->handle, m->buffer, m->handle, 0));
    }
    // Mapped for its lifetime; but a window into a discrete GPU's memory, which is not cached, is
    // left alone where staging can do better.
    bool wanted = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0 ||
                  type == choose_memory_type(d, requirements.memoryTypeBits, KQ_VULKAN_FOR_STAGING);
    if (result == KQ_OK && wanted && (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0) {
        void *mapped = NULL;
        result =
            kq_vulkan_check(d->errors, "vkMapMemory",
                            d->vkMapMemory(d->handle, m->handle, 0, VK_WHOLE_SIZE, 0, &mapped));
        m->mapped = mapped;
    }
    if (result != KQ_OK) {
        goto fail;
    }
    m->bytes = bytes;
    m->allocated_bytes = requirements.size;
    m->is_coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    return KQ_OK;
fail:
    kq_vulkan_memory_destroy(d, m);
    return result;
}

// The range in whole atoms; its end may also be that of the memory.
static VkMappedMemoryRange mapped_range(const kq_vulkan_device *d, const kq_vulkan_memory *m,
                                        uint64_t offset, uint64_t bytes)
{
    uint64_t begin = offset - offset % d->atom_bytes;
    uint64_t end = (offset + bytes + d->atom_bytes - 1) / d->atom_bytes * d->atom_bytes;
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = m->handle,
        .offset = begin,
        .size = end < m->allocated_bytes ? end - begin : VK_WHOLE_SIZE,
    };
}

// What the device wrote there is what the host sees.
static kq_result invalidate(const kq_vulkan_device *d, const kq_vulkan_memory *m, uint64_t offset,
                            uint64_t bytes)
{
    VkMappedMemoryRange range = mapped_range(d, m, offset, bytes);
    return m->is_coherent
               ? KQ_OK
               : kq_vulkan_check(d->errors, "vkInvalidateMappedMemoryRanges",
                                 d->vkInvalidateMappedMemoryRanges(d->handle, 1, &range));
}

kq_result kq_vulkan_write_mapped(const kq_vulkan_device *d, const kq_vulkan_memory *m,
                                 uint64_t offset, const void *data, uint64_t bytes)
{
    // A flush writes whole atoms, so what else is in the first and the last must be the device's.
    kq_result result = invalidate(d, m, offset, 1);
    result = result != KQ_OK ? result : invalidate(d, m, offset + bytes - 1, 1);
    if (result != KQ_OK) {
        return result;
    }
    memcpy(m->mapped + offset, data, (size_t)bytes);
    VkMappedMemoryRange range = mapped_range(d, m, offset, bytes);
    return m->is_coherent ? KQ_OK
                          : kq_vulkan_check(d->errors, "vkFlushMappedMemoryRanges",
                                            d->vkFlushMappedMemoryRanges(d->handle, 1, &range));
}

kq_result kq_vulkan_read_mapped(const kq_vulkan_device *d, const kq_vulkan_memory *m,
                                uint64_t offset, void *data, uint64_t bytes)
{
    kq_result result = invalidate(d, m, offset, bytes);
    if (result == KQ_OK) {
        memcpy(data, m->mapped + offset, (size_t)bytes);
    }
    return result;
}
