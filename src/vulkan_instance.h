// A Vulkan instance of level 3's own, and the devices that it shows.
#ifndef KQ_VULKAN_INSTANCE_H
#define KQ_VULKAN_INSTANCE_H

#include "vulkan_call.h"

#include "device.h"

#include <stdbool.h>

// clang-format off
#define KQ_INSTANCE_FUNCTIONS(f)                                                                   \
    f(vkDestroyInstance)                                                                           \
    f(vkEnumeratePhysicalDevices)                                                                  \
    f(vkEnumerateDeviceExtensionProperties)                                                        \
    f(vkGetPhysicalDeviceProperties)                                                               \
    f(vkGetPhysicalDeviceQueueFamilyProperties)                                                    \
    f(vkGetPhysicalDeviceMemoryProperties)                                                         \
    f(vkCreateDevice)                                                                              \
    f(vkGetDeviceProcAddr)
// clang-format on

typedef struct kq_vulkan_instance {
#define KQ_FUNCTION_FIELD(name) PFN_##name name;
    KQ_INSTANCE_FUNCTIONS(KQ_FUNCTION_FIELD)
#undef KQ_FUNCTION_FIELD
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
    PFN_vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceProperties2;  // NULL below 1.1
    VkInstance handle;
    uint32_t api_version;
} kq_vulkan_instance;

// KQ_ERROR_NO_DEVICE, unreported, where there is no loader or no driver. Other failures are
// reported.
kq_result kq_vulkan_instance_create(const kq_lookup *lookup, const kq_errors *errors,
                                    kq_vulkan_instance *instance);
void kq_vulkan_instance_destroy(kq_vulkan_instance *instance);

// One device with a compute queue, in the order of vkEnumeratePhysicalDevices.
typedef struct kq_vulkan_candidate {
    VkPhysicalDevice handle;
    uint32_t queue_family;
    uint32_t timestamp_bits;  // of the family; 0: it has no clock
} kq_vulkan_candidate;

// *candidates is the caller's to free.
kq_result kq_vulkan_instance_devices(const kq_vulkan_instance *instance, const kq_errors *errors,
                                     kq_vulkan_candidate **candidates, uint32_t *count);

// All but the id.
void kq_vulkan_device_info(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                           kq_device_info *info);

// What it says of itself, by the names of Vulkan's structs, and the limits that count here.
void kq_vulkan_properties(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                          kq_property_fn *fn, void *user);

// The largest buffer with memory of its own; UINT64_MAX where the driver can't say.
uint64_t kq_vulkan_max_buffer_bytes(const kq_vulkan_instance *instance, VkPhysicalDevice device);

// Whether a device has an instruction for the dot product of packed bytes, and the extension to use
// it.
kq_result kq_vulkan_has_packed_dot(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                                   const kq_errors *errors, bool *has);

// Whether a device has an extension.
kq_result kq_vulkan_has_extension(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                                  const kq_errors *errors, const char *name, bool *has);

#endif
