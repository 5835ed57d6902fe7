// kquant on your own Vulkan device. The library makes only immutable objects on it (layouts and
// pipelines): no queue, pool, memory, submit, wait or thread. Link libkquant, no loader.
//
// Any VkDevice of API version 1.0 with a compute queue will do, with no feature and no extension.
// Include this after volk.h if you use volk.
#ifndef KQ_VULKAN_H
#define KQ_VULKAN_H

#include <vulkan/vulkan_core.h>
#include <kquant/kquant.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kq_vulkan_params {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;  // required
    VkInstance instance;                               // required
    VkPhysicalDevice physical_device;                  // required
    VkDevice device;                                   // required; any features, any queues
    uint32_t api_version;  // the instance's (VkApplicationInfo); 0: 1.0. Nothing newer is called.
    uint32_t caps;         // features you enabled, as bits; none has a bit yet, so 0
    uint32_t ops;          // 1u << KQ_OP_*: the kernels to compile; 0: all
    VkPipelineCache pipeline_cache;          // optional
    const VkAllocationCallbacks *allocator;  // optional; used at create and destroy, must outlive
                                             // the pack
    kq_errors errors;                        // called on whatever thread a call fails on
} kq_vulkan_params;

// Immutable once created: every call but destroy is safe on any number of threads at once.
typedef struct kq_vulkan kq_vulkan;

// Compiles the kernels. May run on several threads at once, by Vulkan's rules for the cache and
// the allocator. KQ_ERROR_ARGUMENT, _UNSUPPORTED, _MEMORY, _DRIVER.
KQ_API kq_result kq_vulkan_create(const kq_vulkan_params *params, kq_vulkan **pack);

// No work recorded with *pack may be pending. *pack may be NULL; it is set to NULL.
KQ_API void kq_vulkan_destroy(kq_vulkan **pack);

// The layout of set 0 of every operation: four VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bindings 0 to 3.
// Owned by pack. Allocate one set an operation from your own pool.
KQ_API VkDescriptorSetLayout kq_vulkan_set_layout(const kq_vulkan *pack);

// Buffers have usage STORAGE_BUFFER and belong to the queue family that will run the work.
// buffer_bytes is the size given to vkCreateBuffer.
typedef struct kq_vulkan_view {
    VkBuffer buffer;
    uint64_t buffer_bytes;
    kq_view view;
} kq_vulkan_view;

typedef struct kq_vulkan_range {
    VkBuffer buffer;
    uint64_t buffer_bytes;
    uint64_t offset;  // bytes
} kq_vulkan_range;

// One struct goes to query, write_set and record. Bindings: 0 values, 1 records, 2 status.
typedef struct kq_vulkan_quantize {
    kq_format format;        // KQ_FORMAT_Q8_K
    kq_vulkan_view values;   // f32 [G,256]
    kq_vulkan_view records;  // u8 [G,292]
    kq_vulkan_range status;  // kq_status, preset by you
} kq_vulkan_quantize;

// Bindings: 0 lhs, 1 rhs, 2 result, 3 scratch.
typedef struct kq_vulkan_quantized_dot {
    kq_format lhs_format;  // KQ_FORMAT_Q4_K
    kq_format rhs_format;  // KQ_FORMAT_Q8_K
    kq_accumulator acc;    // KQ_ACCUMULATOR_F32
    kq_order order;
    kq_vulkan_view lhs;       // u8 [G,144]
    kq_vulkan_view rhs;       // u8 [G,292]
    kq_vulkan_range result;   // one f32 a dot, at any offset
    kq_vulkan_range scratch;  // kq_needs.scratch_bytes, contents undefined before and after
    const kq_repeat *repeat;  // NULL: one dot
    const kq_part *part;      // NULL: all records of the dots
} kq_vulkan_quantized_dot;

// Whether and how the operation fits this device. KQ_OK also where it does not fit: needs->limit
// and needs->missing_bytes say why.
KQ_API kq_result kq_vulkan_quantize_query(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                          kq_needs *needs);
KQ_API kq_result kq_vulkan_quantized_dot_query(const kq_vulkan *pack,
                                               const kq_vulkan_quantized_dot *op, kq_needs *needs);

// vkUpdateDescriptorSets on your set, with its rules: no pending work uses set. The set then serves
// this struct; record rejects nothing that write_set took. KQ_ERROR_ARGUMENT, _UNSUPPORTED.
KQ_API kq_result kq_vulkan_quantize_write_set(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                              VkDescriptorSet set);
KQ_API kq_result kq_vulkan_quantized_dot_write_set(const kq_vulkan *pack,
                                                   const kq_vulkan_quantized_dot *op,
                                                   VkDescriptorSet set);

// Records into command_buffer: recording, outside a render pass, of a family with compute. Leaves
// pipeline, set 0 and push constants of the compute bind point changed. Barriers between its own
// dispatches are inside. Around it they are yours:
//   before  inputs, and status, visible to SHADER_READ (status also SHADER_WRITE) in
//   COMPUTE_SHADER;
//           all earlier use of records, result and scratch complete
//   after   outputs are SHADER_WRITE in COMPUTE_SHADER
// Nothing is recorded unless the result is KQ_OK. G = 0: a dot writes +0 with one dispatch;
// quantize records nothing, as does a count of 0.
KQ_API kq_result kq_vulkan_quantize_record(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                           VkDescriptorSet set, VkCommandBuffer command_buffer);
KQ_API kq_result kq_vulkan_quantized_dot_record(const kq_vulkan *pack,
                                                const kq_vulkan_quantized_dot *op,
                                                VkDescriptorSet set,
                                                VkCommandBuffer command_buffer);

#ifdef __cplusplus
}
#endif

#endif
