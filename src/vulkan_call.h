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

// A device's limits of bindings and dispatches.
kq_limits kq_vulkan_limits(const VkPhysicalDeviceLimits *limits);

#endif
