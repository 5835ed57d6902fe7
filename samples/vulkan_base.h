// What the Vulkan samples stand on, as an engine would: a volk of their own, an instance, a device
// with one queue, buffers and compute pipelines. Nothing here knows kquant. What fails ends the
// program with a message, where there is no device with 77; an engine would do something better.
#ifndef VULKAN_BASE_H
#define VULKAN_BASE_H

#include <volk.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct base {
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    uint32_t message_count;  // of the validation layer
    VkPhysicalDevice physical_device;
    VkPhysicalDeviceProperties properties;
    VkDevice device;
    uint32_t family;  // has compute, and graphics too if the device has such a one
    bool has_graphics;
    VkQueue queue;
    VkCommandPool commands;
} base;

typedef struct base_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceSize bytes;
    void *host;  // mapped and coherent; NULL of a buffer that only the device uses
} base_buffer;

typedef struct base_pipeline {
    VkShaderModule module;
    VkPipelineLayout layout;
    VkPipeline pipeline;
} base_pipeline;

// Ends the program if result is an error.
void base_check(VkResult result, const char *call);
#define BASE_CHECK(call) base_check(call, #call)

// name: a part of the device's name, or NULL for the first device. validate: with Debian's
// VK_LAYER_KHRONOS_validation, synchronization included.
void base_open(base *b, const char *name, bool validate);
void base_close(base *b);

base_buffer base_make_buffer(const base *b, VkDeviceSize bytes, VkBufferUsageFlags usage,
                             bool is_for_host);
void base_destroy_buffer(const base *b, base_buffer *buffer);

// Memory for `requirements`, of a type that has `wanted`.
VkDeviceMemory base_allocate(const base *b, VkMemoryRequirements requirements,
                             VkMemoryPropertyFlags wanted);

base_pipeline base_make_pipeline(const base *b, const uint32_t *spirv, size_t bytes,
                                 const char *entry_point, VkDescriptorSetLayout set,
                                 uint32_t push_bytes);
void base_destroy_pipeline(const base *b, base_pipeline *pipeline);

VkDescriptorSet base_make_set(const base *b, VkDescriptorPool pool, VkDescriptorSetLayout layout);

// A barrier for all memory.
void base_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                  VkPipelineStageFlags to, VkAccessFlags used);

#endif
