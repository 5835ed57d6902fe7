// What the files of the wrapped driver share.
#ifndef KQ_WRAPPED_VULKAN_INSIDE_H
#define KQ_WRAPPED_VULKAN_INSIDE_H

#include "wrapped_vulkan.h"

#include <stddef.h>
#include <string.h>

// What the host finds where nothing was written, and in the handles of objects that were not made:
// Vulkan leaves them undefined.
#define WRAPPED_POISON 0xAD

// clang-format off
#define WRAPPED_NEXT_FUNCTIONS(f)                                                                  \
    f(vkDestroyInstance)                                                                           \
    f(vkEnumeratePhysicalDevices)                                                                  \
    f(vkEnumerateDeviceExtensionProperties)                                                        \
    f(vkGetPhysicalDeviceFeatures)                                                                 \
    f(vkGetPhysicalDeviceProperties)                                                               \
    f(vkGetPhysicalDeviceProperties2)                                                              \
    f(vkGetPhysicalDeviceMemoryProperties)                                                         \
    f(vkGetDeviceProcAddr)                                                                         \
    f(vkCreateDevice)                                                                              \
    f(vkDestroyDevice)                                                                             \
    f(vkDeviceWaitIdle)                                                                            \
    f(vkQueueWaitIdle)                                                                             \
    f(vkQueueSubmit)                                                                               \
    f(vkCreateFence)                                                                               \
    f(vkDestroyFence)                                                                              \
    f(vkResetFences)                                                                               \
    f(vkGetFenceStatus)                                                                            \
    f(vkWaitForFences)                                                                             \
    f(vkCreateBuffer)                                                                              \
    f(vkDestroyBuffer)                                                                             \
    f(vkGetBufferMemoryRequirements)                                                               \
    f(vkAllocateMemory)                                                                            \
    f(vkFreeMemory)                                                                                \
    f(vkBindBufferMemory)                                                                          \
    f(vkMapMemory)                                                                                 \
    f(vkUnmapMemory)                                                                               \
    f(vkFlushMappedMemoryRanges)                                                                   \
    f(vkInvalidateMappedMemoryRanges)                                                              \
    f(vkCreateCommandPool)                                                                         \
    f(vkDestroyCommandPool)                                                                        \
    f(vkResetCommandPool)                                                                          \
    f(vkAllocateCommandBuffers)                                                                    \
    f(vkFreeCommandBuffers)                                                                        \
    f(vkBeginCommandBuffer)                                                                        \
    f(vkEndCommandBuffer)                                                                          \
    f(vkCmdBindPipeline)                                                                           \
    f(vkCmdBindDescriptorSets)                                                                     \
    f(vkCmdPushConstants)                                                                          \
    f(vkCmdDispatch)                                                                               \
    f(vkCmdPipelineBarrier)                                                                        \
    f(vkCmdCopyBuffer)                                                                             \
    f(vkCmdFillBuffer)                                                                             \
    f(vkCmdUpdateBuffer)                                                                           \
    f(vkCmdExecuteCommands)                                                                        \
    f(vkCmdResetQueryPool)                                                                         \
    f(vkCmdWriteTimestamp)                                                                         \
    f(vkCreateQueryPool)                                                                           \
    f(vkDestroyQueryPool)                                                                          \
    f(vkGetQueryPoolResults)                                                                       \
    f(vkCreateDescriptorPool)                                                                      \
    f(vkDestroyDescriptorPool)                                                                     \
    f(vkAllocateDescriptorSets)                                                                    \
    f(vkUpdateDescriptorSets)                                                                      \
    f(vkCreateDescriptorSetLayout)                                                                 \
    f(vkDestroyDescriptorSetLayout)                                                                \
    f(vkCreatePipelineLayout)                                                                      \
    f(vkDestroyPipelineLayout)                                                                     \
    f(vkCreatePipelineCache)                                                                       \
    f(vkDestroyPipelineCache)                                                                      \
    f(vkCreateShaderModule)                                                                        \
    f(vkDestroyShaderModule)                                                                       \
    f(vkCreateComputePipelines)                                                                    \
    f(vkDestroyPipeline)
// clang-format on

// The one wrapper in use, and the functions behind it. Those of a device are the loader's, which
// serve every device.
typedef struct wrapped_state {
    wrapped_vulkan *now;
#define WRAPPED_NEXT_FIELD(name) PFN_##name name;
    WRAPPED_NEXT_FUNCTIONS(WRAPPED_NEXT_FIELD)
#undef WRAPPED_NEXT_FIELD
} wrapped_state;

extern wrapped_state wrapped;

extern const char *const wrapped_kind_names[WRAPPED_VULKAN_KIND_COUNT];

typedef struct wrapped_entry {
    const char *name;
    PFN_vkVoidFunction function;
} wrapped_entry;

// clang-format off
#define WRAPPED_ENTRY(name) {#name, (PFN_vkVoidFunction)wrapped_##name}
// clang-format on

// Memory, commands and what they use; submission and waiting; layouts, and what else has limits.
// All end with a NULL name.
extern const wrapped_entry wrapped_work_entries[];
extern const wrapped_entry wrapped_queue_entries[];
extern const wrapped_entry wrapped_least_entries[];

typedef enum wrapped_event_kind {
    WRAPPED_EVENT_DISPATCH,
    WRAPPED_EVENT_TRANSFER,
    WRAPPED_EVENT_BARRIER,
    WRAPPED_EVENT_EXECUTE,
} wrapped_event_kind;

// A recorded command, as far as it matters for what is visible to whom.
typedef struct wrapped_event {
    wrapped_event_kind kind;
    bool is_mapped;            // of writes: to memory that the host has mapped
    uint64_t set, buffers[4];  // of a dispatch
    VkPipelineStageFlags from_stages, to_stages;
    VkAccessFlags from_access, to_access;
    wrapped_range from, to;                        // of a transfer; no buffer: none
    const struct wrapped_vulkan_object *commands;  // of execute
} wrapped_event;

typedef struct wrapped_vulkan_object {
    struct wrapped_vulkan_object *next;
    wrapped_vulkan_kind kind;
    uint64_t handle;
    bool has_allocator;
    uint32_t version;    // of an instance: what its maker knows
    uint64_t messenger;  // of an instance
    uint64_t
        bytes;  // of a buffer or memory; sets or queries in a pool; storage buffers in a set layout
    VkBufferUsageFlags usage;
    VkFlags flags;  // of a command pool, or with which a command buffer was begun
    bool is_recording;
    struct wrapped_vulkan_object *memory;  // of a buffer, once it is bound
    uint32_t type;                         // of memory, as shown
    unsigned char *real;                   // mapped memory, from its first byte on
    unsigned char *shadow;                 // what the host sees of it; NULL where coherent
    uint64_t mapped_offset, mapped_bytes;
    uint64_t code;                             // digest of a shader module's, and of its pipelines'
    unsigned dispatches;                       // of a pipeline
    uint64_t pool;                             // of a command buffer or descriptor set
    struct wrapped_vulkan_object *buffers[4];  // of a descriptor set, by binding
    struct wrapped_vulkan_object *pipeline, *set;  // bound, in a command buffer
    wrapped_event *events;                         // of a command buffer
    size_t event_count, event_capacity;
} wrapped_vulkan_object;

// Counts a call. One that returns a VkResult may be told to fail: this is then its answer, and not
// VK_SUCCESS.
void wrapped_count(const char *call);
VkResult wrapped_enter(const char *call);

// Whether a command is to be lost.
bool wrapped_loses(const char *call);

void wrapped_violate(const char *format, ...);

// A violation where commands that are pending, for nobody has waited for them, use the object. They
// are then done, so that the program lives to say so.
void wrapped_check_idle(wrapped_vulkan_kind kind, uint64_t handle, const char *call);

wrapped_vulkan_object *wrapped_add(wrapped_vulkan_kind kind, uint64_t handle,
                                   const VkAllocationCallbacks *allocator);

// NULL for a handle that is null. One that was never made is a violation, and NULL.
wrapped_vulkan_object *wrapped_find(wrapped_vulkan_kind kind, uint64_t handle);

// Forgets a handle, which may be null, and what was allocated from it if it is a pool.
void wrapped_drop(wrapped_vulkan_kind kind, uint64_t handle,
                  const VkAllocationCallbacks *allocator);

VkMemoryPropertyFlags wrapped_type_flags(uint32_t type);

// The name of the Vulkan kernel whose code has this digest; "" if it is none's.
const char *wrapped_kernel_name(uint64_t code);

// What the device shows.
const VkPhysicalDeviceLimits *wrapped_limits(void);

// Lowers limits to those that Vulkan 1.0 asks of every device, where they matter to computing.
void wrapped_lower_to_least(VkPhysicalDeviceLimits *limits);

// A violation where a module goes past the limits, or a device is to have more than is shown.
void wrapped_check_module(const uint32_t *words, size_t count);
void wrapped_check_device(const VkDeviceCreateInfo *info);

// clang-format off
// Defines wrapped_vkCreate* and wrapped_vkDestroy* of an object that needs no more than counting.
#define WRAPPED_CREATE(object, kind)                                                               \
    static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkCreate##object(                                \
        VkDevice device, const Vk##object##CreateInfo *info,                                       \
        const VkAllocationCallbacks *allocator, Vk##object *handle)                                \
    {                                                                                              \
        VkResult result = wrapped_enter("vkCreate" #object);                                       \
        if (result != VK_SUCCESS) {                                                                \
            memset(handle, WRAPPED_POISON, sizeof *handle);                                        \
            return result;                                                                         \
        }                                                                                          \
        result = wrapped.vkCreate##object(device, info, allocator, handle);                        \
        if (result == VK_SUCCESS) {                                                                \
            wrapped_add(WRAPPED_VULKAN_##kind, (uint64_t)*handle, allocator);                      \
        }                                                                                          \
        return result;                                                                             \
    }

#define WRAPPED_DESTROY(object, kind)                                                              \
    static VKAPI_ATTR void VKAPI_CALL wrapped_vkDestroy##object(                                   \
        VkDevice device, Vk##object handle, const VkAllocationCallbacks *allocator)                \
    {                                                                                              \
        wrapped_count("vkDestroy" #object);                                                        \
        wrapped_check_idle(WRAPPED_VULKAN_##kind, (uint64_t)handle, "vkDestroy" #object);          \
        wrapped.vkDestroy##object(device, handle, allocator);                                      \
        wrapped_drop(WRAPPED_VULKAN_##kind, (uint64_t)handle, allocator);                          \
    }
// clang-format on

#endif
