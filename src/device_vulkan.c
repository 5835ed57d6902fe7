// Level 3 on Vulkan: a client of <kquant/vulkan.h> that owns device, queue and memory.
#include "device_vulkan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of which a segment of a buffer is a multiple; a driver may round an allocation up that far.
enum { VULKAN_SEGMENT_UNIT = 65536 };

// Enough for one submission from host memory: 2 MiB of values, 4.5 MiB of Q4_K records.
enum { HOST_WORK = 1 << 15 };

// Of a call that was to make *handle. Vulkan leaves that undefined where the call fails; here it is
// then null, so that what is half made can be destroyed.
kq_result kq_vulkan_check_made(const kq_vulkan_device *d, const char *call, VkResult result,
                               void *handle, size_t bytes)
{
    if (result != VK_SUCCESS) {
        memset(handle, 0, bytes);
    }
    return kq_vulkan_check(d->errors, call, result);
}

// --- Opening

static void vulkan_properties(const kq_device *device, kq_property_fn *fn, void *user)
{
    const kq_vulkan_device *d = device->self;
    kq_vulkan_properties(&d->instance, d->physical_device, fn, user);
}

static void vulkan_close(kq_device *device)
{
    kq_vulkan_device *d = device->self;
    if (d->handle != VK_NULL_HANDLE) {
        kq_vulkan_destroy(&d->pack);
        d->vkDestroyDevice(d->handle, NULL);
    }
    kq_vulkan_instance_destroy(&d->instance);
    free(d);
    device->self = NULL;
}

static kq_result vulkan_list(const kq_lookup *lookup, const kq_errors *errors,
                             kq_device_info *infos, uint32_t capacity, uint32_t *count)
{
    kq_vulkan_instance instance;
    kq_vulkan_candidate *candidates = NULL;
    *count = 0;
    kq_result result = kq_vulkan_instance_create(lookup, errors, &instance);
    if (result == KQ_OK) {
        result = kq_vulkan_instance_devices(&instance, errors, &candidates, count);
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

static kq_result create_handle(kq_vulkan_device *d, const kq_vulkan_candidate *candidate)
{
    const char *portability = "VK_KHR_portability_subset";
    const char *extensions[2];
    uint32_t extension_count = 0;
    bool has_portability = false;
    kq_result result = kq_vulkan_has_extension(&d->instance, candidate->handle, d->errors,
                                               portability, &has_portability);
    if (result != KQ_OK) {
        return result;
    }
    // A device that has this extension must have it enabled.
    if (has_portability) {
        extensions[extension_count++] = portability;
    }
    if ((d->caps & KQ_CAP_PACKED_DOT) != 0) {
        extensions[extension_count++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    }
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = candidate->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = (d->caps & KQ_CAP_PACKED_DOT) != 0 ? &dot : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = extension_count,
        .ppEnabledExtensionNames = extensions,
    };
    VkDevice handle = VK_NULL_HANDLE;
    result = kq_vulkan_check(d->errors, "vkCreateDevice",
                             d->instance.vkCreateDevice(candidate->handle, &info, NULL, &handle));
    if (result != KQ_OK) {
        return result;
    }
    const char *missing = NULL;
#define LOAD_FUNCTION(name)                                                                        \
 d->name = (PFN_##name)d->instance.vkGetDeviceProcAddr(handle, #name);                             \
 missing = d->name == NULL ? #name : missing;
    KQ_VULKAN_DEVICE_FUNCTIONS(LOAD_FUNCTION)
#undef LOAD_FUNCTION
    if (missing != NULL) {
        if (d->vkDestroyDevice != NULL) {
            d->vkDestroyDevice(handle, NULL);
        }
        return kq_fail(d->errors, KQ_ERROR_DRIVER, "the driver has no %s", missing);
    }
    d->handle = handle;
    d->queue_family = candidate->queue_family;
    d->timestamp_bits = candidate->timestamp_bits;
    d->vkGetDeviceQueue(handle, d->queue_family, 0, &d->queue);
    return KQ_OK;
}

static kq_result create_pack(kq_device *device)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_params params = {
        .get_instance_proc_addr = d->instance.vkGetInstanceProcAddr,
        .instance = d->instance.handle,
        .physical_device = d->physical_device,
        .device = d->handle,
        .api_version = d->instance.api_version,
        .caps = d->caps,
        .ops = device->ops,
        .errors = device->errors,
    };
    return kq_vulkan_create_lazy(&params, device->without, &d->pack);
}

static kq_result vulkan_open(kq_device *device, uint32_t index, const kq_device_params *params)
{
    kq_vulkan_device *d = calloc(1, sizeof *d);
    kq_vulkan_candidate *candidates = NULL;
    uint32_t count = 0;
    if (d == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for a device");
    }
    device->self = d;
    d->errors = &device->errors;
    d->doubts = &device->doubts;
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
    memcpy(&d->timestamp_period, &properties.limits.timestampPeriod, sizeof d->timestamp_period);
    d->atom_bytes = properties.limits.nonCoherentAtomSize;
    uint64_t segment = kq_vulkan_max_buffer_bytes(&d->instance, physical_device);
    segment -= segment % VULKAN_SEGMENT_UNIT;
    device->is_limited = true;
    device->host_work = device->capacity.work < HOST_WORK ? device->capacity.work : HOST_WORK;
    device->capacity.limits = kq_vulkan_limits(&properties.limits);
    // Heap sizes are no limit: llvmpipe shows 2 GiB and gives more.
    device->capacity.memory_bytes = UINT64_MAX;
    device->capacity.segment_bytes = segment > 0 ? segment : VULKAN_SEGMENT_UNIT;
    device->capacity.scratch_bytes = device->capacity.segment_bytes;
    bool has_packed_dot = false;
    result = kq_vulkan_has_packed_dot(&d->instance, physical_device, d->errors, &has_packed_dot);
    d->caps = has_packed_dot ? KQ_CAP_PACKED_DOT : 0;
    result = result != KQ_OK ? result : create_handle(d, &candidates[index]);
    if (result != KQ_OK) {
        goto done;
    }
    result = create_pack(device);
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
    kq_vulkan_device *d = device->self;
    kq_vulkan_memory *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL) {
        return kq_fail(d->errors, KQ_ERROR_MEMORY, "out of host memory for a buffer");
    }
    kq_result result = kq_vulkan_memory_create(d, bytes, KQ_VULKAN_ON_DEVICE, m);
    if (result != KQ_OK) {
        free(m);
        return result;
    }
    *out = m;
    return KQ_OK;
}

static void vulkan_memory_destroy(kq_device *device, void *m)
{
    kq_vulkan_memory_destroy(device->self, m);
    free(m);
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
    .upload = kq_vulkan_upload,
    .download = kq_vulkan_download,
    .perform = kq_vulkan_perform,
    .submit = kq_vulkan_submit,
    .finish = kq_vulkan_finish,
    .work_create = kq_vulkan_work_create,
    .work_destroy = kq_vulkan_work_destroy,
    .record = kq_vulkan_work_record,
    .run = kq_vulkan_work_run,
    .primitives = kq_vulkan_primitives,
    .self_test = kq_vulkan_self_test,
};
