// What levels 2 and 3 on Vulkan share: how a call fails, what a command may take.
#ifndef KQ_VULKAN_CALL_H
#define KQ_VULKAN_CALL_H

#ifndef VK_NO_PROTOTYPES
# define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include "plan.h"

// KQ_OK for VK_SUCCESS; else KQ_ERROR_MEMORY or KQ_ERROR_DRIVER, the call and the VkResult
// reported.
kq_result kq_vulkan_check(const kq_errors *errors, const char *call, VkResult result);

// Writes set and records the primitives of `count` items of four words at the start of buffer, with
// barriers as around an operation. For level 3, whose callers ask for single steps.
struct kq_vulkan;
kq_result kq_vulkan_primitives_record(const struct kq_vulkan *pack, VkBuffer buffer, uint32_t count,
                                      VkDescriptorSet set, VkCommandBuffer command_buffer);

// The same of a transfer between two buffers.
kq_result kq_vulkan_bandwidth_record(const struct kq_vulkan *pack, VkBuffer from, VkBuffer to,
                                     const kq_transfer *transfer, VkDescriptorSet set,
                                     VkCommandBuffer command_buffer);

// The plan of a dot that record takes.
struct kq_vulkan_quantized_dot;
kq_result kq_vulkan_dot_plan(const struct kq_vulkan *pack, const struct kq_vulkan_quantized_dot *op,
                             kq_plan *plan);

// A pack for level 3, which compiles a kernel when one of its recordings first takes it, so that
// only one thread at a time may record; all ops, but without some kernels, as bits 1u <<
// KQ_KERNEL_*.
struct kq_vulkan_params;
kq_result kq_vulkan_create_lazy(const struct kq_vulkan_params *params, uint32_t without,
                                struct kq_vulkan **pack);

// A device's limits of bindings and dispatches; no variants.
kq_limits kq_vulkan_limits(const VkPhysicalDeviceLimits *limits);

#endif
