#define VOLK_IMPLEMENTATION
#include "vulkan_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void base_check(VkResult result, const char *call)
{
    if (result < VK_SUCCESS) {
        fprintf(stderr, "VkResult %d of %s\n", (int)result, call);
        exit(EXIT_FAILURE);
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(EXIT_FAILURE);
}

static void fail_without_device(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(77);  // a test that could not test
}

// --- Instance and device

static VKAPI_ATTR VkBool32 VKAPI_CALL take_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT type,
                                                   const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                   void *user)
{
    (void)severity;
    (void)type;
    ++*(uint32_t *)user;
    fprintf(stderr, "validation: %s\n", data->pMessage);
    return VK_FALSE;
}

static void open_instance(base *b, bool validate)
{
    const char *layer = "VK_LAYER_KHRONOS_validation";
    const char *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    const VkValidationFeatureEnableEXT enable =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    const VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        // Not GENERAL: with that the loader tells what it finds.
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = take_message,
        .pUserData = &b->message_count,
    };
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &messenger,  // for what happens while there is no messenger
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = &enable,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_0,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validate ? &features : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = validate ? 1 : 0,
        .ppEnabledLayerNames = &layer,
        .enabledExtensionCount = validate ? 2 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    if (volkInitialize() != VK_SUCCESS) {
        fail_without_device("no Vulkan loader is installed");
    }
    const VkResult result = vkCreateInstance(&info, NULL, &b->instance);
    if (result == VK_ERROR_LAYER_NOT_PRESENT) {
        fail("VK_LAYER_KHRONOS_validation is not installed");
    }
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        fail_without_device("no Vulkan driver is installed");
    }
    base_check(result, "vkCreateInstance");
    volkLoadInstance(b->instance);
    if (validate) {
        BASE_CHECK(vkCreateDebugUtilsMessengerEXT(b->instance, &messenger, NULL, &b->messenger));
    }
}

static void choose_device(base *b, const char *name)
{
    VkPhysicalDevice devices[16];
    uint32_t count = 16;
    BASE_CHECK(vkEnumeratePhysicalDevices(b->instance, &count, devices));
    for (uint32_t i = 0; i < count && b->physical_device == NULL; i++) {
        vkGetPhysicalDeviceProperties(devices[i], &b->properties);
        if (name == NULL || strstr(b->properties.deviceName, name) != NULL) {
            b->physical_device = devices[i];
        }
    }
    if (count == 0) {
        fail_without_device("there is no Vulkan device");
    }
    if (b->physical_device == NULL) {
        fail("no Vulkan device has that name");
    }
}

static void choose_family(base *b)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(b->physical_device, &count, families);
    b->family = count;
    for (uint32_t i = count; i-- > 0;) {
        const bool has_compute = (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
        const bool has_graphics = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
        if (has_compute && (has_graphics || !b->has_graphics)) {
            b->family = i;
            b->has_graphics = has_graphics;
        }
    }
    if (b->family == count) {
        fail("the device has no queue with compute");
    }
}

void base_open(base *b, const char *name, bool validate)
{
    memset(b, 0, sizeof(*b));
    open_instance(b, validate);
    choose_device(b, name);
    choose_family(b);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = b->family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
    };
    BASE_CHECK(vkCreateDevice(b->physical_device, &device, NULL, &b->device));
    volkLoadDevice(b->device);
    vkGetDeviceQueue(b->device, b->family, 0, &b->queue);
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = b->family,
    };
    BASE_CHECK(vkCreateCommandPool(b->device, &pool, NULL, &b->commands));
}

void base_close(base *b)
{
    vkDestroyCommandPool(b->device, b->commands, NULL);
    vkDestroyDevice(b->device, NULL);
    if (b->messenger != VK_NULL_HANDLE) {
        vkDestroyDebugUtilsMessengerEXT(b->instance, b->messenger, NULL);
    }
    vkDestroyInstance(b->instance, NULL);
}

// --- Memory

VkDeviceMemory base_allocate(const base *b, VkMemoryRequirements requirements,
                             VkMemoryPropertyFlags wanted)
{
    VkPhysicalDeviceMemoryProperties properties;
    VkDeviceMemory memory;
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = requirements.size,
    };
    vkGetPhysicalDeviceMemoryProperties(b->physical_device, &properties);
    while ((requirements.memoryTypeBits >> info.memoryTypeIndex & 1) == 0 ||
           (properties.memoryTypes[info.memoryTypeIndex].propertyFlags & wanted) != wanted) {
        if (++info.memoryTypeIndex == properties.memoryTypeCount) {
            fail("the device has no memory of the type that is needed");
        }
    }
    BASE_CHECK(vkAllocateMemory(b->device, &info, NULL, &memory));
    return memory;
}

base_buffer base_make_buffer(const base *b, VkDeviceSize bytes, VkBufferUsageFlags usage,
                             bool is_for_host)
{
    base_buffer made = {.bytes = bytes};
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = usage,
    };
    VkMemoryRequirements requirements;
    BASE_CHECK(vkCreateBuffer(b->device, &info, NULL, &made.buffer));
    vkGetBufferMemoryRequirements(b->device, made.buffer, &requirements);
    // Vulkan promises that both kinds are there for any buffer.
    made.memory = base_allocate(b, requirements,
                                is_for_host ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                                  VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                                            : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    BASE_CHECK(vkBindBufferMemory(b->device, made.buffer, made.memory, 0));
    if (is_for_host) {
        BASE_CHECK(vkMapMemory(b->device, made.memory, 0, VK_WHOLE_SIZE, 0, &made.host));
    }
    return made;
}

void base_destroy_buffer(const base *b, base_buffer *buffer)
{
    vkDestroyBuffer(b->device, buffer->buffer, NULL);
    vkFreeMemory(b->device, buffer->memory, NULL);
}

// --- Pipelines and commands

base_pipeline base_make_pipeline(const base *b, const uint32_t *spirv, size_t bytes,
                                 const char *entry_point, VkDescriptorSetLayout set,
                                 uint32_t push_bytes)
{
    base_pipeline made;
    const VkShaderModuleCreateInfo module = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = bytes,
        .pCode = spirv,
    };
    BASE_CHECK(vkCreateShaderModule(b->device, &module, NULL, &made.module));
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &set,
        .pushConstantRangeCount = push_bytes > 0 ? 1 : 0,
        .pPushConstantRanges = &push,
    };
    BASE_CHECK(vkCreatePipelineLayout(b->device, &layout, NULL, &made.layout));
    const VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = made.module,
                  .pName = entry_point},
        .layout = made.layout,
    };
    BASE_CHECK(
        vkCreateComputePipelines(b->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &made.pipeline));
    return made;
}

void base_destroy_pipeline(const base *b, base_pipeline *pipeline)
{
    vkDestroyPipeline(b->device, pipeline->pipeline, NULL);
    vkDestroyPipelineLayout(b->device, pipeline->layout, NULL);
    vkDestroyShaderModule(b->device, pipeline->module, NULL);
}

VkDescriptorSet base_make_set(const base *b, VkDescriptorPool pool, VkDescriptorSetLayout layout)
{
    VkDescriptorSet set;
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    BASE_CHECK(vkAllocateDescriptorSets(b->device, &info, &set));
    return set;
}

void base_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                  VkPipelineStageFlags to, VkAccessFlags used)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = used,
    };
    vkCmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}
