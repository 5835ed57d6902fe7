// kquant on your own Vulkan device: any of API version 1.0 with a compute queue, no feature and no
// extension. The library makes only layouts and pipelines on it: no queue, pool, memory, submit,
// wait or thread. It links no loader. Include this after volk.h if you use volk.
#ifndef KQ_VULKAN_H
#define KQ_VULKAN_H

#include <vulkan/vulkan_core.h>
#include <kquant/kquant.h>

#ifdef __cplusplus
extern "C" {
#endif

// Immutable once created: every call but destroy is safe on any number of threads at once.
typedef struct kq_vulkan kq_vulkan;

typedef struct kq_vulkan_params {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;  // required
    VkInstance instance;                               // required
    VkPhysicalDevice physical_device;                  // required
    VkDevice device;                                   // required; any features, any queues
    uint32_t api_version;  // the instance's (VkApplicationInfo); 0: 1.0. Nothing newer is called.
    uint32_t caps;         // features you enabled, as bits; none has a bit yet, so 0
    uint32_t ops;          // 1u << KQ_OP_*: the kernels to compile; 0: all
    VkPipelineCache pipeline_cache;  // optional
    const kq_vulkan *share_layouts;  // optional: a pack of the same device that outlives this one,
                                     // whose layouts it takes; SwiftShader's cache looks at them
    const VkAllocationCallbacks *allocator;  // optional; for create and destroy, outlives the pack
    PFN_vkVoidFunction set_debug_name;  // optional: vkSetDebugUtilsObjectNameEXT, called in create;
                                        // pipelines get the names of their kernels
    kq_errors errors;                   // called on whatever thread a call fails on
} kq_vulkan_params;

// Compiles the kernels; on several threads at once by Vulkan's rules for cache and allocator. All
// of them take lavapipe 0.2 s and 9 MB, SwiftShader 2.5 s and 2 MB.
KQ_API kq_result kq_vulkan_create(const kq_vulkan_params *params, kq_vulkan **pack);

// No work recorded with *pack may be pending. *pack may be NULL; it is set to NULL.
KQ_API void kq_vulkan_destroy(kq_vulkan **pack);

// The layout of set 0 of every operation: four VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bindings 0 to 3.
// The pack owns it. Allocate one set an operation from your own pool.
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

// Whether and how the operation fits; KQ_OK also where needs->limit or missing_bytes says it
// doesn't.
KQ_API kq_result kq_vulkan_quantize_query(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                          kq_needs *needs);
KQ_API kq_result kq_vulkan_quantized_dot_query(const kq_vulkan *pack,
                                               const kq_vulkan_quantized_dot *op, kq_needs *needs);

// vkUpdateDescriptorSets on your set, with its rules: no pending work uses set. It then serves this
// struct; record rejects nothing that write_set took.
KQ_API kq_result kq_vulkan_quantize_write_set(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                              VkDescriptorSet set);
KQ_API kq_result kq_vulkan_quantized_dot_write_set(const kq_vulkan *pack,
                                                   const kq_vulkan_quantized_dot *op,
                                                   VkDescriptorSet set);

// Records into command_buffer: recording, outside a render pass, of a family with compute. Leaves
// pipeline, set 0 and push constants of the compute bind point changed. Barriers between its own
// dispatches are inside; those around it are yours, all in COMPUTE_SHADER:
//   before  inputs and status visible to SHADER_READ, status also to SHADER_WRITE;
//           all earlier use of records, result and scratch complete
//   after   outputs are SHADER_WRITE
// With G = 0 a dot writes +0 with one dispatch; quantize records nothing, as does a count of 0.
KQ_API kq_result kq_vulkan_quantize_record(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                           VkDescriptorSet set, VkCommandBuffer command_buffer);
KQ_API kq_result kq_vulkan_quantized_dot_record(const kq_vulkan *pack,
                                                const kq_vulkan_quantized_dot *op,
                                                VkDescriptorSet set,
                                                VkCommandBuffer command_buffer);

// The self-test on KQ_SELF_TEST_BYTES of a buffer that hold its input; offset is a multiple of
// minStorageBufferOffsetAlignment and of 4. The pack has all ops. Sets and barriers as with an
// operation: the input is visible to SHADER_READ and SHADER_WRITE, and all of it is written.
KQ_API kq_result kq_vulkan_self_test_write_set(const kq_vulkan *pack, const kq_vulkan_range *range,
                                               VkDescriptorSet set);
KQ_API kq_result kq_vulkan_self_test_record(const kq_vulkan *pack, const kq_vulkan_range *range,
                                            VkDescriptorSet set, VkCommandBuffer command_buffer);

#ifdef __cplusplus
}
#endif

#endif
