// Level 3 on Vulkan: a client of <kquant/vulkan.h> that owns device, queue and memory.
#include "vulkan_call.h"

#include <kquant/vulkan.h>

#include "device.h"
#include "plan.h"
#include "vulkan_instance.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define VULKAN_DEVICE_FUNCTIONS(f)                                                                 \
    f(vkDestroyDevice)                                                                             \
    f(vkGetDeviceQueue)                                                                            \
    f(vkQueueSubmit)                                                                               \
    f(vkCreateFence)                                                                               \
    f(vkDestroyFence)                                                                              \
    f(vkResetFences)                                                                               \
    f(vkWaitForFences)                                                                             \
    f(vkDeviceWaitIdle)                                                                            \
    f(vkCreateBuffer)                                                                              \
    f(vkDestroyBuffer)                                                                             \
    f(vkGetBufferMemoryRequirements)                                                               \
    f(vkAllocateMemory)                                                                            \
    f(vkFreeMemory)                                                                                \
    f(vkBindBufferMemory)                                                                          \
    f(vkMapMemory)                                                                                 \
    f(vkFlushMappedMemoryRanges)                                                                   \
    f(vkInvalidateMappedMemoryRanges)                                                              \
    f(vkCreateCommandPool)                                                                         \
    f(vkDestroyCommandPool)                                                                        \
    f(vkResetCommandPool)                                                                          \
    f(vkAllocateCommandBuffers)                                                                    \
    f(vkBeginCommandBuffer)                                                                        \
    f(vkEndCommandBuffer)                                                                          \
    f(vkCmdPipelineBarrier)                                                                        \
    f(vkCmdCopyBuffer)                                                                             \
    f(vkCmdUpdateBuffer)                                                                           \
    f(vkCreateDescriptorPool)                                                                      \
    f(vkDestroyDescriptorPool)                                                                     \
    f(vkAllocateDescriptorSets)
// clang-format on

// A buffer with memory of its own.
typedef struct memory {
    VkBuffer buffer;
    VkDeviceMemory handle;
    uint64_t bytes;            // of the buffer, a multiple of 4
    uint64_t allocated_bytes;  // of the memory
    unsigned char *mapped;     // NULL where the host can't reach it
    bool is_coherent;
} memory;

typedef struct vulkan_device {
#define FUNCTION_FIELD(name) PFN_##name name;
    VULKAN_DEVICE_FUNCTIONS(FUNCTION_FIELD)
#undef FUNCTION_FIELD
    kq_vulkan_instance instance;
    VkPhysicalDevice physical_device;
    VkDevice handle;
    VkQueue queue;
    kq_vulkan *pack;
    VkPhysicalDeviceMemoryProperties memory_properties;
    uint64_t atom_bytes;  // nonCoherentAtomSize
    VkCommandPool command_pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkDescriptorPool descriptor_pool;
    VkDescriptorSet set;  // rewritten for each operation, for each is waited for
    memory status;
    memory staging;  // both ways, for memory that the host can't reach; made when first needed
    memory scratch;  // grows with the largest dot
    memory stage;    // made when first needed
    const kq_errors *errors;
} vulkan_device;

enum { STAGING_BYTES = 16 << 20 };

// Of which a segment of a buffer is a multiple; a driver may round an allocation up that far.
enum { VULKAN_SEGMENT_UNIT = 65536 };

// Of a call that was to make *handle. Vulkan leaves that undefined where the call fails; here it is
// then null, so that what is half made can be destroyed.
static kq_result check_made(const vulkan_device *d, const char *call, VkResult result, void *handle,
                            size_t bytes)
{
    if (result != VK_SUCCESS) {
        memset(handle, 0, bytes);
    }
    return kq_vulkan_check(d->errors, call, result);
}

// --- Memory

// Where the host should reach memory of the device's: integrated GPUs and software. There it costs
// nothing. Elsewhere data is staged, for reading across a bus uncached is 40 times slower.
static const VkMemoryPropertyFlags device_preferences[] = {
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
        VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    0,
};

// Vulkan promises a type that is HOST_VISIBLE, cached or not.
static const VkMemoryPropertyFlags staging_preferences[] = {
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
};

enum { PREFERENCE_COUNT = 3 };

// The first type that has one of the preferences, the earlier the better; and no property that
// makes it unfit for plain use. UINT32_MAX: none.
static uint32_t choose_memory_type(const vulkan_device *d, uint32_t allowed,
                                   const VkMemoryPropertyFlags preferences[PREFERENCE_COUNT])
{
    const VkMemoryPropertyFlags unfit =
        VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
        VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
    for (int p = 0; p < PREFERENCE_COUNT; p++) {
        for (uint32_t i = 0; i < d->memory_properties.memoryTypeCount; i++) {
            VkMemoryPropertyFlags flags = d->memory_properties.memoryTypes[i].propertyFlags;
            if ((allowed & 1u << i) != 0 && (flags & unfit) == 0 &&
                (flags & preferences[p]) == preferences[p]) {
                return i;
            }
        }
    }
    return UINT32_MAX;
}

static void destroy_memory(vulkan_device *d, memory *m)
{
    if (d->handle != VK_NULL_HANDLE) {
        d->vkDestroyBuffer(d->handle, m->buffer, NULL);
        d->vkFreeMemory(d->handle, m->handle, NULL);
    }
    memset(m, 0, sizeof *m);
}

static kq_result vulkan_create_memory(vulkan_device *d, uint64_t bytes,
                                      const VkMemoryPropertyFlags preferences[PREFERENCE_COUNT],
                                      memory *m)
{
    memset(m, 0, sizeof *m);
    m->bytes = bytes;
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    kq_result result =
        check_made(d, "vkCreateBuffer", d->vkCreateBuffer(d->handle, &info, NULL, &m->buffer),
                   &m->buffer, sizeof m->buffer);
    if (result != KQ_OK) {
        return result;
    }
    VkMemoryRequirements requirements;
    d->vkGetBufferMemoryRequirements(d->handle, m->buffer, &requirements);
    uint32_t type = choose_memory_type(d, requirements.memoryTypeBits, preferences);
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
    result = check_made(d, "vkAllocateMemory",
                        d->vkAllocateMemory(d->handle, &allocate, NULL, &m->handle), &m->handle,
                        sizeof m->handle);
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkBindBufferMemory",
                                 d->vkBindBufferMemory(d->handle, m->buffer, m->handle, 0));
    }
    // Mapped for its lifetime; but a window into a discrete GPU's memory, which is not cached, is
    // left alone.
    bool wanted =
        preferences == staging_preferences || (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
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
    m->allocated_bytes = requirements.size;
    m->is_coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    return KQ_OK;
fail:
    destroy_memory(d, m);
    return result;
}

// The range in whole atoms; its end may also be that of the memory.
static VkMappedMemoryRange mapped_range(const vulkan_device *d, const memory *m, uint64_t offset,
                                        uint64_t bytes)
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
static kq_result invalidate(const vulkan_device *d, const memory *m, uint64_t offset,
                            uint64_t bytes)
{
    VkMappedMemoryRange range = mapped_range(d, m, offset, bytes);
    return m->is_coherent
               ? KQ_OK
               : kq_vulkan_check(d->errors, "vkInvalidateMappedMemoryRanges",
                                 d->vkInvalidateMappedMemoryRanges(d->handle, 1, &range));
}

static kq_result write_mapped(const vulkan_device *d, const memory *m, uint64_t offset,
                              const void *data, uint64_t bytes)
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

static kq_result read_mapped(const vulkan_device *d, const memory *m, uint64_t offset, void *data,
                             uint64_t bytes)
{
    kq_result result = invalidate(d, m, offset, bytes);
    if (result == KQ_OK) {
        memcpy(data, m->mapped + offset, (size_t)bytes);
    }
    return result;
}

// --- Work: one command buffer at a time, each waited for

// Everything that was written before is there for everything that follows.
static void barrier(const vulkan_device *d)
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
    d->vkCmdPipelineBarrier(d->commands, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

static kq_result begin(vulkan_device *d)
{
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    kq_result result = kq_vulkan_check(d->errors, "vkResetCommandPool",
                                       d->vkResetCommandPool(d->handle, d->command_pool, 0));
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkBeginCommandBuffer",
                                 d->vkBeginCommandBuffer(d->commands, &info));
    }
    if (result == KQ_OK) {
        barrier(d);
    }
    return result;
}

// Submits what was recorded since begin and sleeps until it is done.
static kq_result vulkan_finish(vulkan_device *d)
{
    barrier(d);
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &d->commands,
    };
    kq_result result =
        kq_vulkan_check(d->errors, "vkEndCommandBuffer", d->vkEndCommandBuffer(d->commands));
    if (result == KQ_OK) {
        result =
            kq_vulkan_check(d->errors, "vkResetFences", d->vkResetFences(d->handle, 1, &d->fence));
    }
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkQueueSubmit",
                                 d->vkQueueSubmit(d->queue, 1, &submit, d->fence));
    }
    if (result == KQ_OK) {
        result = kq_vulkan_check(d->errors, "vkWaitForFences",
                                 d->vkWaitForFences(d->handle, 1, &d->fence, VK_TRUE, UINT64_MAX));
        if (result != KQ_OK) {
            // Nothing may be pending when the caller goes on to destroy things.
            d->vkDeviceWaitIdle(d->handle);
        }
    }
    return result;
}

static kq_result copy(vulkan_device *d, VkBuffer from, uint64_t from_offset, VkBuffer to,
                      uint64_t to_offset, uint64_t bytes)
{
    kq_result result = begin(d);
    if (result != KQ_OK) {
        return result;
    }
    VkBufferCopy region = {.srcOffset = from_offset, .dstOffset = to_offset, .size = bytes};
    d->vkCmdCopyBuffer(d->commands, from, to, 1, &region);
    return vulkan_finish(d);
}

static kq_result need_staging(const kq_device *device)
{
    vulkan_device *d = device->self;
    uint64_t most = device->capacity.segment_bytes;
    return d->staging.mapped != NULL
               ? KQ_OK
               : vulkan_create_memory(d, most < STAGING_BYTES ? most : STAGING_BYTES,
                                      staging_preferences, &d->staging);
}

// --- Opening

static void vulkan_properties(const kq_device *device, kq_property_fn *fn, void *user)
{
    const vulkan_device *d = device->self;
    kq_vulkan_properties(&d->instance, d->physical_device, fn, user);
}

static void vulkan_close(kq_device *device)
{
    vulkan_device *d = device->self;
    if (d->handle != VK_NULL_HANDLE) {
        kq_vulkan_destroy(&d->pack);
        destroy_memory(d, &d->status);
        destroy_memory(d, &d->staging);
        destroy_memory(d, &d->scratch);
        destroy_memory(d, &d->stage);
        d->vkDestroyDescriptorPool(d->handle, d->descriptor_pool, NULL);
        d->vkDestroyCommandPool(d->handle, d->command_pool, NULL);
        d->vkDestroyFence(d->handle, d->fence, NULL);
        d->vkDestroyDevice(d->handle, NULL);
    }
    kq_vulkan_instance_destroy(&d->instance);
    free(d);
    device->self = NULL;
}

static kq_result vulkan_list(const kq_lookup *lookup, kq_device_info *infos, uint32_t capacity,
                             uint32_t *count)
{
    const kq_errors silent = {NULL, NULL};
    kq_vulkan_instance instance;
    kq_vulkan_candidate *candidates = NULL;
    *count = 0;
    kq_result result = kq_vulkan_instance_create(lookup, &silent, &instance);
    if (result == KQ_OK) {
        result = kq_vulkan_instance_devices(&instance, &silent, &candidates, count);
    }
    for (uint32_t i = 0; i < *count && i < capacity; i++) {
        memset(&infos[i], 0, sizeof infos[i]);
        snprintf(infos[i].id, sizeof infos[i].id, "vulkan:%" PRIu32, i);
        kq_vulkan_device_info(&instance, candidates[i].handle, &infos[i]);
    }
    free(candidates);
    kq_vulkan_instance_destroy(&instance);
    return result == KQ_ERROR_NO_DEVICE ? KQ_OK : result;
}

static kq_result create_handle(vulkan_device *d, const kq_vulkan_candidate *candidate)
{
    const char *portability = "VK_KHR_portability_subset";
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = candidate->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        // A device that has this extension must have it enabled.
        .enabledExtensionCount =
            kq_vulkan_has_extension(&d->instance, candidate->handle, portability) ? 1 : 0,
        .ppEnabledExtensionNames = &portability,
    };
    VkDevice handle = VK_NULL_HANDLE;
    kq_result result =
        kq_vulkan_check(d->errors, "vkCreateDevice",
                        d->instance.vkCreateDevice(candidate->handle, &info, NULL, &handle));
    if (result != KQ_OK) {
        return result;
    }
    const char *missing = NULL;
#define LOAD_FUNCTION(name)                                                                        \
 d->name = (PFN_##name)d->instance.vkGetDeviceProcAddr(handle, #name);                             \
 missing = d->name == NULL ? #name : missing;
    VULKAN_DEVICE_FUNCTIONS(LOAD_FUNCTION)
#undef LOAD_FUNCTION
    if (missing != NULL) {
        if (d->vkDestroyDevice != NULL) {
            d->vkDestroyDevice(handle, NULL);
        }
        return kq_fail(d->errors, KQ_ERROR_DRIVER, "the driver has no %s", missing);
    }
    d->handle = handle;
    d->vkGetDeviceQueue(handle, candidate->queue_family, 0, &d->queue);
    return KQ_OK;
}

static kq_result create_pools(vulkan_device *d, uint32_t queue_family)
{
    VkCommandPoolCreateInfo command_pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = queue_family,
    };
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4};
    VkDescriptorPoolCreateInfo descriptor_pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    kq_result result =
        check_made(d, "vkCreateCommandPool",
                   d->vkCreateCommandPool(d->handle, &command_pool, NULL, &d->command_pool),
                   &d->command_pool, sizeof d->command_pool);
    if (result == KQ_OK) {
        VkCommandBufferAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = d->command_pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        result = kq_vulkan_check(d->errors, "vkAllocateCommandBuffers",
                                 d->vkAllocateCommandBuffers(d->handle, &info, &d->commands));
    }
    if (result == KQ_OK) {
        result =
            check_made(d, "vkCreateFence", d->vkCreateFence(d->handle, &fence, NULL, &d->fence),
                       &d->fence, sizeof d->fence);
    }
    if (result == KQ_OK) {
        result = check_made(
            d, "vkCreateDescriptorPool",
            d->vkCreateDescriptorPool(d->handle, &descriptor_pool, NULL, &d->descriptor_pool),
            &d->descriptor_pool, sizeof d->descriptor_pool);
    }
    if (result == KQ_OK) {
        VkDescriptorSetLayout layout = kq_vulkan_set_layout(d->pack);
        VkDescriptorSetAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
            .descriptorPool = d->descriptor_pool,
            .descriptorSetCount = 1,
            .pSetLayouts = &layout,
        };
        result = kq_vulkan_check(d->errors, "vkAllocateDescriptorSets",
                                 d->vkAllocateDescriptorSets(d->handle, &info, &d->set));
    }
    return result;
}

static kq_result vulkan_open(kq_device *device, uint32_t index, const kq_device_params *params)
{
    vulkan_device *d = calloc(1, sizeof *d);
    kq_vulkan_candidate *candidates = NULL;
    uint32_t count = 0;
    if (d == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for a device");
    }
    device->self = d;
    d->errors = &device->errors;
    kq_result result = kq_vulkan_instance_create(&params->lookup, d->errors, &d->instance);
    if (result == KQ_OK) {
        result = kq_vulkan_instance_devices(&d->instance, d->errors, &candidates, &count);
    }
    if (result == KQ_ERROR_NO_DEVICE || (result == KQ_OK && index >= count)) {
        result = kq_fail(d->errors, KQ_ERROR_NO_DEVICE, "%s is there no longer", device->info.id);
    }
    if (result != KQ_OK) {
        goto done;
    }
    VkPhysicalDeviceProperties properties;
    VkPhysicalDevice physical_device = candidates[index].handle;
    d->physical_device = physical_device;
    d->instance.vkGetPhysicalDeviceProperties(physical_device, &properties);
    d->instance.vkGetPhysicalDeviceMemoryProperties(physical_device, &d->memory_properties);
    d->atom_bytes = properties.limits.nonCoherentAtomSize;
    uint64_t segment = kq_vulkan_max_buffer_bytes(&d->instance, physical_device);
    segment -= segment % VULKAN_SEGMENT_UNIT;
    device->is_limited = true;
    device->capacity.limits = kq_vulkan_limits(&properties.limits);
    // Heap sizes are no limit: llvmpipe shows 2 GiB and gives more.
    device->capacity.memory_bytes = UINT64_MAX;
    device->capacity.segment_bytes = segment > 0 ? segment : VULKAN_SEGMENT_UNIT;
    device->capacity.scratch_bytes = device->capacity.segment_bytes;
    result = create_handle(d, &candidates[index]);
    if (result != KQ_OK) {
        goto done;
    }
    kq_vulkan_params pack_params = {
        .get_instance_proc_addr = d->instance.vkGetInstanceProcAddr,
        .instance = d->instance.handle,
        .physical_device = physical_device,
        .device = d->handle,
        .api_version = d->instance.api_version,
        .ops = params->ops,
        .errors = device->errors,
    };
    result = kq_vulkan_create_without(&pack_params, device->without, &d->pack);
    if (result == KQ_OK) {
        result = create_pools(d, candidates[index].queue_family);
    }
    if (result == KQ_OK) {
        result = vulkan_create_memory(d, sizeof(kq_status), device_preferences, &d->status);
    }
done:
    free(candidates);
    if (result != KQ_OK) {
        vulkan_close(device);
    }
    return result;
}

// --- Buffers

static kq_result vulkan_memory_create(kq_device *device, uint64_t bytes, void **out)
{
    vulkan_device *d = device->self;
    memory *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL) {
        return kq_fail(d->errors, KQ_ERROR_MEMORY, "out of host memory for a buffer");
    }
    kq_result result = vulkan_create_memory(d, bytes, device_preferences, m);
    if (result != KQ_OK) {
        free(m);
        return result;
    }
    *out = m;
    return KQ_OK;
}

static void vulkan_memory_destroy(kq_device *device, void *m)
{
    destroy_memory(device->self, m);
    free(m);
}

static kq_result vulkan_upload(kq_device *device, void *to, uint64_t offset, const void *data,
                               uint64_t bytes)
{
    vulkan_device *d = device->self;
    const memory *m = to;
    if (m->mapped != NULL) {
        return write_mapped(d, m, offset, data, bytes);
    }
    kq_result result = need_staging(device);
    for (uint64_t done = 0; done < bytes && result == KQ_OK; done += d->staging.bytes) {
        uint64_t part = bytes - done < d->staging.bytes ? bytes - done : d->staging.bytes;
        result = write_mapped(d, &d->staging, 0, (const unsigned char *)data + done, part);
        if (result == KQ_OK) {
            result = copy(d, d->staging.buffer, 0, m->buffer, offset + done, part);
        }
    }
    return result;
}

static kq_result vulkan_download(kq_device *device, void *from, uint64_t offset, void *data,
                                 uint64_t bytes)
{
    vulkan_device *d = device->self;
    const memory *m = from;
    if (m->mapped != NULL) {
        return read_mapped(d, m, offset, data, bytes);
    }
    kq_result result = need_staging(device);
    for (uint64_t done = 0; done < bytes && result == KQ_OK; done += d->staging.bytes) {
        uint64_t part = bytes - done < d->staging.bytes ? bytes - done : d->staging.bytes;
        result = copy(d, m->buffer, offset + done, d->staging.buffer, 0, part);
        if (result == KQ_OK) {
            result = read_mapped(d, &d->staging, 0, (unsigned char *)data + done, part);
        }
    }
    return result;
}

// --- Operations

static kq_result vulkan_need_stage(const kq_device *device, const kq_piece *piece)
{
    vulkan_device *d = device->self;
    bool is_needed = piece->is_staged[0] || piece->is_staged[1] || piece->is_staged[2];
    return is_needed && d->stage.buffer == VK_NULL_HANDLE
               ? vulkan_create_memory(d, KQ_BINDING_COUNT * device->capacity.stage_bytes,
                                      device_preferences, &d->stage)
               : KQ_OK;
}

// Records the copies of a staged operand's runs.
static void vulkan_copy_runs(const vulkan_device *d, const kq_buffer *buffer, const kq_piece *piece,
                             int role, bool is_input)
{
    for (uint32_t i = 0; i < kq_piece_run_count(piece, role); i++) {
        kq_run run = kq_piece_run(piece, role, i);
        for (uint64_t done = 0; done < run.bytes;) {
            kq_segment_run part = kq_buffer_run(buffer, run.at + done, run.bytes - done);
            const memory *m = part.memory;
            VkBufferCopy in = {part.offset, run.stage + done, part.bytes};
            VkBufferCopy out = {run.stage + done, part.offset, part.bytes};
            d->vkCmdCopyBuffer(d->commands, is_input ? m->buffer : d->stage.buffer,
                               is_input ? d->stage.buffer : m->buffer, 1, is_input ? &in : &out);
            done += part.bytes;
        }
    }
}

static kq_vulkan_view view_of(const kq_device *device, const kq_buffer *buffer,
                              const kq_piece *piece, int role)
{
    vulkan_device *d = device->self;
    const memory *m = kq_piece_memory(piece, role, buffer, &d->stage);
    return (kq_vulkan_view){
        .buffer = m != NULL ? m->buffer : VK_NULL_HANDLE,
        .buffer_bytes = m != NULL ? m->bytes : 0,
        .view = kq_piece_view(piece, role),
    };
}

static kq_result vulkan_quantize(kq_device *device, const kq_quantize_args *args,
                                 const kq_piece *piece, kq_status *status)
{
    vulkan_device *d = device->self;
    kq_result result = vulkan_need_stage(device, piece);
    kq_vulkan_quantize op = {
        .format = args->format,
        .values = view_of(device, args->values.buffer, piece, KQ_VALUES),
        .records = view_of(device, args->records.buffer, piece, KQ_RECORDS),
        .status = {d->status.buffer, d->status.bytes, 0},
    };
    if (result == KQ_OK && d->status.mapped == NULL) {
        result = need_staging(device);
    }
    result = result != KQ_OK ? result : kq_vulkan_quantize_write_set(d->pack, &op, d->set);
    result = result != KQ_OK ? result : begin(d);
    if (result != KQ_OK) {
        return result;
    }
    vulkan_copy_runs(d, args->values.buffer, piece, KQ_VALUES, true);
    d->vkCmdUpdateBuffer(d->commands, d->status.buffer, 0, sizeof *status,
                         (const uint32_t *)(const void *)status);
    barrier(d);
    result = kq_vulkan_quantize_record(d->pack, &op, d->set, d->commands);
    if (result != KQ_OK) {
        return result;
    }
    barrier(d);
    vulkan_copy_runs(d, args->records.buffer, piece, KQ_RECORDS, false);
    if (d->status.mapped == NULL) {
        VkBufferCopy region = {.size = sizeof *status};
        d->vkCmdCopyBuffer(d->commands, d->status.buffer, d->staging.buffer, 1, &region);
    }
    result = vulkan_finish(d);
    const memory *readable = d->status.mapped != NULL ? &d->status : &d->staging;
    return result != KQ_OK ? result : read_mapped(d, readable, 0, status, sizeof *status);
}

static kq_result vulkan_grow_scratch(vulkan_device *d, uint64_t bytes)
{
    if (bytes <= d->scratch.bytes) {
        return KQ_OK;
    }
    destroy_memory(d, &d->scratch);
    return vulkan_create_memory(d, bytes, device_preferences, &d->scratch);
}

static kq_result vulkan_quantized_dot(kq_device *device, const kq_quantized_dot_args *args,
                                      const kq_piece *piece)
{
    vulkan_device *d = device->self;
    const kq_repeat repeat = kq_piece_repeat(piece);
    kq_result result = vulkan_need_stage(device, piece);
    result = result != KQ_OK ? result : vulkan_grow_scratch(d, piece->needs.scratch_bytes);
    const memory *result_memory = kq_piece_memory(piece, KQ_RESULT, args->result, &d->stage);
    kq_vulkan_quantized_dot op = {
        .lhs_format = args->lhs_format,
        .rhs_format = args->rhs_format,
        .acc = args->acc,
        .order = args->order,
        .lhs = view_of(device, args->lhs.buffer, piece, KQ_LHS),
        .rhs = view_of(device, args->rhs.buffer, piece, KQ_RHS),
        .result = {result_memory->buffer, result_memory->bytes,
                   piece->shape.extents[KQ_RESULT].offset},
        .scratch = {d->scratch.buffer, d->scratch.bytes, 0},
        .repeat = &repeat,
        .part = &piece->shape.part,
    };
    result = result != KQ_OK ? result : kq_vulkan_quantized_dot_write_set(d->pack, &op, d->set);
    result = result != KQ_OK ? result : begin(d);
    if (result != KQ_OK) {
        return result;
    }
    vulkan_copy_runs(d, args->lhs.buffer, piece, KQ_LHS, true);
    vulkan_copy_runs(d, args->rhs.buffer, piece, KQ_RHS, true);
    if (piece->is_staged[KQ_LHS] || piece->is_staged[KQ_RHS]) {
        barrier(d);
    }
    result = kq_vulkan_quantized_dot_record(d->pack, &op, d->set, d->commands);
    if (result == KQ_OK && piece->is_staged[KQ_RESULT]) {
        barrier(d);
        vulkan_copy_runs(d, args->result, piece, KQ_RESULT, false);
    }
    return result != KQ_OK ? result : vulkan_finish(d);
}

static kq_result vulkan_primitives(kq_device *device, void *where, uint32_t count)
{
    vulkan_device *d = device->self;
    const memory *m = where;
    kq_result result = begin(d);
    result = result != KQ_OK
                 ? result
                 : kq_vulkan_primitives_record(d->pack, m->buffer, count, d->set, d->commands);
    return result != KQ_OK ? result : vulkan_finish(d);
}

static kq_result vulkan_self_test(kq_device *device, void *where)
{
    vulkan_device *d = device->self;
    const memory *m = where;
    const kq_vulkan_range range = {m->buffer, m->bytes, 0};
    kq_result result = kq_vulkan_self_test_write_set(d->pack, &range, d->set);
    result = result != KQ_OK ? result : begin(d);
    result =
        result != KQ_OK ? result : kq_vulkan_self_test_record(d->pack, &range, d->set, d->commands);
    return result != KQ_OK ? result : vulkan_finish(d);
}

const kq_backend kq_vulkan_backend = {
    .api = KQ_API_VULKAN,
    .name = "vulkan",
    .list = vulkan_list,
    .open = vulkan_open,
    .close = vulkan_close,
    .properties = vulkan_properties,
    .memory_create = vulkan_memory_create,
    .memory_destroy = vulkan_memory_destroy,
    .upload = vulkan_upload,
    .download = vulkan_download,
    .quantize = vulkan_quantize,
    .quantized_dot = vulkan_quantized_dot,
    .primitives = vulkan_primitives,
    .self_test = vulkan_self_test,
};
