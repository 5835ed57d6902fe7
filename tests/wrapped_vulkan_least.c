// The wrapped driver's limits on what is created, and those that every device has.
#include "wrapped_vulkan_inside.h"

#include <stdlib.h>

// --- Limits and features

static void lower(uint32_t *limit, uint32_t least)
{
    *limit = *limit < least ? *limit : least;
}

void wrapped_lower_to_least(VkPhysicalDeviceLimits *limits)
{
    static const uint32_t size[3] = {128, 128, 64};
    lower(&limits->maxStorageBufferRange, 1u << 27);
    lower(&limits->maxPushConstantsSize, 128);
    lower(&limits->maxMemoryAllocationCount, 4096);
    lower(&limits->maxBoundDescriptorSets, 4);
    lower(&limits->maxPerStageDescriptorStorageBuffers, 4);
    lower(&limits->maxPerStageResources, 128);
    lower(&limits->maxDescriptorSetStorageBuffers, 24);
    lower(&limits->maxComputeSharedMemorySize, 16384);
    lower(&limits->maxComputeWorkGroupInvocations, 128);
    for (int i = 0; i < 3; i++) {
        lower(&limits->maxComputeWorkGroupCount[i], 65535);
        lower(&limits->maxComputeWorkGroupSize[i], size[i]);
    }
    limits->minStorageBufferOffsetAlignment = 256;
    limits->nonCoherentAtomSize = 256;
}

static VKAPI_ATTR void VKAPI_CALL
wrapped_vkGetPhysicalDeviceFeatures(VkPhysicalDevice device, VkPhysicalDeviceFeatures *features)
{
    wrapped_count("vkGetPhysicalDeviceFeatures");
    wrapped.vkGetPhysicalDeviceFeatures(device, features);
    if (wrapped.now->is_least) {
        memset(features, 0, sizeof *features);
    }
}

void wrapped_check_device(const VkDeviceCreateInfo *info)
{
    static const VkPhysicalDeviceFeatures none;
    bool has_features = info->pNext != NULL || (info->pEnabledFeatures != NULL &&
                                                memcmp(info->pEnabledFeatures, &none, sizeof none));
    if (wrapped.now->is_least && (has_features || info->enabledExtensionCount > 0)) {
        wrapped_violate("vkCreateDevice with features or extensions");
    }
}

// --- Modules

enum {
    OP_EXECUTION_MODE = 16,
    OP_TYPE_INT = 21,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_VARIABLE = 59,
    OP_DECORATE = 71,
    MODE_LOCAL_SIZE = 17,
    STORAGE_WORKGROUP = 4,
    DECORATION_BUILTIN = 11,
    BUILTIN_WORKGROUP_SIZE = 25,
};

static void check_local_size(uint64_t x, uint64_t y, uint64_t z)
{
    const uint64_t size[3] = {x, y, z};
    const VkPhysicalDeviceLimits *limits = wrapped_limits();
    bool is_over = x * y * z > limits->maxComputeWorkGroupInvocations;
    for (int i = 0; i < 3; i++) {
        is_over |= size[i] > limits->maxComputeWorkGroupSize[i];
    }
    if (is_over) {
        wrapped_violate("a module of local size %u, %u, %u", (unsigned)x, (unsigned)y, (unsigned)z);
    }
}

void wrapped_check_module(const uint32_t *words, size_t count)
{
    // By id: the bytes of a type, or of what a pointer type points to; the value of a constant.
    uint64_t shared = 0, *of = calloc(words[3], sizeof *of);
    uint32_t size_id = 0;  // a constant that goes before the mode
    if (of == NULL) {
        abort();
    }
    for (size_t at = 5; at < count && words[at] >> 16 != 0; at += words[at] >> 16) {
        const uint32_t *w = &words[at];
        switch (w[0] & 0xFFFF) {
        case OP_EXECUTION_MODE:
            if (w[2] == MODE_LOCAL_SIZE) {
                check_local_size(w[3], w[4], w[5]);
            }
            break;
        case OP_TYPE_INT: of[w[1]] = w[2] / 8; break;
        case OP_TYPE_VECTOR: of[w[1]] = of[w[2]] * w[3]; break;
        case OP_TYPE_ARRAY: of[w[1]] = of[w[2]] * of[w[3]]; break;
        case OP_TYPE_STRUCT:
            for (uint32_t member = 2; member < w[0] >> 16; member++) {
                of[w[1]] += of[w[member]];
            }
            break;
        case OP_TYPE_POINTER: of[w[1]] = of[w[3]]; break;
        case OP_CONSTANT: of[w[2]] = w[3]; break;
        case OP_CONSTANT_COMPOSITE:
            if (w[2] == size_id) {
                check_local_size(of[w[3]], of[w[4]], of[w[5]]);
            }
            break;
        case OP_DECORATE:
            if (w[2] == DECORATION_BUILTIN && w[3] == BUILTIN_WORKGROUP_SIZE) {
                size_id = w[1];
            }
            break;
        case OP_VARIABLE: shared += w[3] == STORAGE_WORKGROUP ? of[w[1]] : 0; break;
        default: break;
        }
    }
    free(of);
    if (shared > wrapped_limits()->maxComputeSharedMemorySize) {
        wrapped_violate("a module with %llu bytes of shared memory", (unsigned long long)shared);
    }
}

// --- Layouts

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkCreateDescriptorSetLayout(
    VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkDescriptorSetLayout *layout)
{
    VkResult result = wrapped_enter("vkCreateDescriptorSetLayout");
    if (result != VK_SUCCESS) {
        memset(layout, WRAPPED_POISON, sizeof *layout);
        return result;
    }
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < info->bindingCount; i++) {
        if (info->pBindings[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) {
            buffers += info->pBindings[i].descriptorCount;
        }
    }
    result = wrapped.vkCreateDescriptorSetLayout(device, info, allocator, layout);
    if (result == VK_SUCCESS) {
        wrapped_add(WRAPPED_VULKAN_DESCRIPTOR_SET_LAYOUT, (uint64_t)*layout, allocator)->bytes =
            buffers;
    }
    return result;
}

WRAPPED_DESTROY(DescriptorSetLayout, DESCRIPTOR_SET_LAYOUT)

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkCreatePipelineLayout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkPipelineLayout *layout)
{
    const VkPhysicalDeviceLimits *limits = wrapped_limits();
    VkResult result = wrapped_enter("vkCreatePipelineLayout");
    if (result != VK_SUCCESS) {
        memset(layout, WRAPPED_POISON, sizeof *layout);
        return result;
    }
    uint64_t buffers = 0;
    for (uint32_t i = 0; i < info->setLayoutCount; i++) {
        const wrapped_vulkan_object *set =
            wrapped_find(WRAPPED_VULKAN_DESCRIPTOR_SET_LAYOUT, (uint64_t)info->pSetLayouts[i]);
        buffers += set != NULL ? set->bytes : 0;
    }
    if (buffers > limits->maxPerStageDescriptorStorageBuffers ||
        info->setLayoutCount > limits->maxBoundDescriptorSets) {
        wrapped_violate("a pipeline layout of %u storage buffers in %u sets", (unsigned)buffers,
                        (unsigned)info->setLayoutCount);
    }
    for (uint32_t i = 0; i < info->pushConstantRangeCount; i++) {
        const VkPushConstantRange *range = &info->pPushConstantRanges[i];
        if (range->offset + range->size > limits->maxPushConstantsSize) {
            wrapped_violate("a pipeline layout of %u bytes of push constants",
                            (unsigned)(range->offset + range->size));
        }
    }
    result = wrapped.vkCreatePipelineLayout(device, info, allocator, layout);
    if (result == VK_SUCCESS) {
        wrapped_add(WRAPPED_VULKAN_PIPELINE_LAYOUT, (uint64_t)*layout, allocator);
    }
    return result;
}

WRAPPED_DESTROY(PipelineLayout, PIPELINE_LAYOUT)

const wrapped_entry wrapped_least_entries[] = {
    WRAPPED_ENTRY(vkGetPhysicalDeviceFeatures),  WRAPPED_ENTRY(vkCreateDescriptorSetLayout),
    WRAPPED_ENTRY(vkDestroyDescriptorSetLayout), WRAPPED_ENTRY(vkCreatePipelineLayout),
    WRAPPED_ENTRY(vkDestroyPipelineLayout),      {NULL, NULL},
};
