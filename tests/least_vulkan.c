// What is found in place of the Vulkan loader: the least device that Vulkan 1.0 allows. A call past
// its limits, or a message of the validation layer, ends the program.
#include "wrapped_vulkan.h"

#include <stdio.h>

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                               const char *name);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                               const char *name)
{
    static wrapped_vulkan least = {
        .layout = WRAPPED_LAYOUT_NO_CACHED,
        .api_version = VK_API_VERSION_1_0,
        .hides_extensions = true,
        .is_least = true,
        .validation = WRAPPED_VALIDATION_SYNCHRONIZATION,
        .aborts = true,
    };
    static PFN_vkGetInstanceProcAddr get;
    if (get == NULL) {
        get = wrapped_vulkan_get(&least);
        if (get != NULL && !wrapped_vulkan_has_validation()) {
            fprintf(stderr, "least device: no validation layer\n");
        }
    }
    return get != NULL ? get(instance, name) : NULL;
}
