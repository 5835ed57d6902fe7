// An engine with volk of its own, beside levels 1 and 2: prints how many kernels there are.
#define VOLK_IMPLEMENTATION
#include <volk.h>

#include <kquant/vulkan.h>

#include <stdio.h>

int main(void)
{
    // Without a loader there is no function, and the pack says so.
    kq_vulkan_params params = {.get_instance_proc_addr = NULL};
    if (volkInitialize() == VK_SUCCESS) {
        params.get_instance_proc_addr = vkGetInstanceProcAddr;
    }
    kq_vulkan *pack = NULL;
    if (kq_vulkan_create(&params, &pack) != KQ_ERROR_ARGUMENT || pack != NULL) {
        fprintf(stderr, "engine: a pack without an instance\n");
        return 1;
    }
    size_t count;
    kq_kernels(&count);
    printf("%lu\n", (unsigned long)count);
    return count == 0;
}
