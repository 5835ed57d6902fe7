// What the driver makes of every kernel: compiles a pack on the first Vulkan device and prints, for
// each pipeline, its name, the driver's statistics and the last form of its code that the driver
// tells, as VK_KHR_pipeline_executable_properties gives them. isa.py reads that.
//
// The pack makes its pipelines as for any engine; on the way to the driver they are asked to keep
// their code, and the names that the pack gives to them say which is which. Exit 77 where the
// device or the extension is missing.
#define VOLK_IMPLEMENTATION
#include <volk.h>
#include <kquant/vulkan.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STATISTICS = 64, MOST_FORMS = 16 };

static size_t printed_kernels;

static void fail(const char *call, VkResult result)
{
    fprintf(stderr, "isa_dump: VkResult %d of %s\n", (int)result, call);
    exit(EXIT_FAILURE);
}

static void skip(const char *reason)
{
    fprintf(stderr, "isa_dump: %s\n", reason);
    exit(77);
}

static void check(VkResult result, const char *call)
{
    if (result != VK_SUCCESS) {
        fail(call, result);
    }
}
#define CHECK(call) check(call, #call)

// --- On the way to the driver

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache,
                                                       uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *allocator,
                                                       VkPipeline *pipelines)
{
    for (uint32_t i = 0; i < count; i++) {
        VkComputePipelineCreateInfo info = infos[i];
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                      VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
        CHECK(vkCreateComputePipelines(device, cache, 1, &info, allocator, &pipelines[i]));
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name)
{
    if (strcmp(name, "vkCreateComputePipelines") == 0) {
        return (PFN_vkVoidFunction)create_pipelines;
    }
    return vkGetDeviceProcAddr(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance,
                                                                  const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
        return (PFN_vkVoidFunction)device_function;
    }
    return vkGetInstanceProcAddr(instance, name);
}

// --- What the driver tells

static void print_statistics(VkDevice device, const VkPipelineExecutableInfoKHR *executable)
{
    VkPipelineExecutableStatisticKHR statistics[MOST_STATISTICS] = {{0}};
    uint32_t count = MOST_STATISTICS;
    for (uint32_t i = 0; i < count; i++) {
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    }
    CHECK(vkGetPipelineExecutableStatisticsKHR(device, executable, &count, statistics));
    for (uint32_t i = 0; i < count; i++) {
        if (statistics[i].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR) {
            printf("statistic %s: %llu\n", statistics[i].name,
                   (unsigned long long)statistics[i].value.u64);
        }
    }
}

static void print_code(VkDevice device, const VkPipelineExecutableInfoKHR *executable)
{
    VkPipelineExecutableInternalRepresentationKHR forms[MOST_FORMS] = {{0}};
    uint32_t count = MOST_FORMS;
    for (uint32_t i = 0; i < count; i++) {
        forms[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    }
    CHECK(vkGetPipelineExecutableInternalRepresentationsKHR(device, executable, &count, forms));
    if (count == 0) {
        skip("the driver tells no code");
    }
    // A second call fills what the first one gave the sizes of.
    for (uint32_t i = 0; i < count; i++) {
        forms[i].pData = malloc(forms[i].dataSize);
        if (forms[i].pData == NULL) {
            fail("malloc", VK_ERROR_OUT_OF_HOST_MEMORY);
        }
    }
    CHECK(vkGetPipelineExecutableInternalRepresentationsKHR(device, executable, &count, forms));
    printf("code %s\n%s\nend\n", forms[count - 1].name, (const char *)forms[count - 1].pData);
    for (uint32_t i = 0; i < count; i++) {
        free(forms[i].pData);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL print_pipeline(VkDevice device,
                                                     const VkDebugUtilsObjectNameInfoEXT *name)
{
    const VkPipelineInfoKHR pipeline = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR,
        .pipeline = (VkPipeline)name->objectHandle,
    };
    VkPipelineExecutablePropertiesKHR properties = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR,
    };
    uint32_t count = 1;
    CHECK(vkGetPipelineExecutablePropertiesKHR(device, &pipeline, &count, &properties));
    const VkPipelineExecutableInfoKHR executable = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline.pipeline,
    };
    printf("kernel %s\nstatistic Lanes: %u\n", name->pObjectName, properties.subgroupSize);
    print_statistics(device, &executable);
    print_code(device, &executable);
    printed_kernels++;
    return VK_SUCCESS;
}

// --- The device

static VkPhysicalDevice open_instance(VkInstance *instance)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_2,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    if (volkInitialize() != VK_SUCCESS) {
        skip("no Vulkan loader is installed");
    }
    if (vkCreateInstance(&info, NULL, instance) != VK_SUCCESS) {
        skip("no Vulkan driver is installed");
    }
    volkLoadInstance(*instance);
    VkPhysicalDevice physical_device;
    uint32_t count = 1;
    if (vkEnumeratePhysicalDevices(*instance, &count, &physical_device) < 0 || count == 0) {
        skip("there is no Vulkan device");
    }
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
    };
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &driver,
    };
    vkGetPhysicalDeviceProperties2(physical_device, &properties);
    printf("device %s\ndriver %s %s\n", properties.properties.deviceName, driver.driverName,
           driver.driverInfo);
    return physical_device;
}

static VkDevice open_device(VkPhysicalDevice physical_device)
{
    static const char *const extensions[] = {
        VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
        VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
    };
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = &dot,
        .pipelineExecutableInfo = VK_TRUE,
    };
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = 2,
        .ppEnabledExtensionNames = extensions,
    };
    VkDevice device;
    const VkResult result = vkCreateDevice(physical_device, &info, NULL, &device);
    if (result == VK_ERROR_EXTENSION_NOT_PRESENT) {
        skip("the device lacks one of two extensions");
    }
    check(result, "vkCreateDevice");
    volkLoadDevice(device);
    return device;
}

static void print_report(void *user, kq_result result, const char *message)
{
    (void)user;
    fprintf(stderr, "isa_dump: kq_result %d: %s\n", (int)result, message);
}

int main(void)
{
    VkInstance instance;
    const VkPhysicalDevice physical_device = open_instance(&instance);
    const VkDevice device = open_device(physical_device);
    const kq_vulkan_params params = {
        .get_instance_proc_addr = instance_function,
        .instance = instance,
        .physical_device = physical_device,
        .device = device,
        .api_version = VK_API_VERSION_1_2,
        .caps = KQ_CAP_PACKED_DOT,
        .set_debug_name = (PFN_vkVoidFunction)print_pipeline,
        .errors = {print_report, NULL},
    };
    kq_vulkan *pack = NULL;
    if (kq_vulkan_create(&params, &pack) != KQ_OK) {
        return EXIT_FAILURE;
    }
    kq_vulkan_destroy(&pack);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);

    size_t count;
    size_t wanted = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    for (size_t i = 0; i < count; i++) {
        // bandwidth is level 3's alone, for benches.
        wanted += kernels[i].api == KQ_API_VULKAN && strcmp(kernels[i].name, "bandwidth.base") != 0;
    }
    if (printed_kernels != wanted) {
        fprintf(stderr, "isa_dump: the pack made %zu of %zu kernels\n", printed_kernels, wanted);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
