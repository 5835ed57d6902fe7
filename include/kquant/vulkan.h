// kquant on your own Vulkan device, any of 1.0 with a compute queue, no feature, no extension. It makes layouts and
// pipelines there, no queue, pool, memory, submit, wait or thread, and links no loader. Include volk.h, if any, before.
#ifndef KQ_VULKAN_H
#define KQ_VULKAN_H
#include <vulkan/vulkan_core.h>
#include <kquant/kquant.h>

typedef struct kq_vulkan kq_vulkan;  // immutable: any number of threads may use it at once, and one then destroy it

typedef struct kq_vulkan_params {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;                 // any features, any queues
    uint32_t api_version;            // the instance's (VkApplicationInfo); 0: 1.0. Nothing newer is called
    uint32_t caps;                   // kq_cap bits that you enabled; dots: where ...4x8BitPackedSignedAccelerated
    uint32_t ops;                    // the kernels to compile, see kq_op
    VkPipelineCache pipeline_cache;  // optional
    const kq_vulkan *share_layouts;  // optional: a pack of the same device that outlives this one; its layouts serve
                                     // both, and caches that know pipelines by layout object (SwiftShader's) find them
    const VkAllocationCallbacks *allocator;  // optional; for create and destroy, outlives the pack
    PFN_vkVoidFunction set_debug_name;  // optional: vkSetDebugUtilsObjectNameEXT; create names pipelines as kernels
    kq_errors errors;
} kq_vulkan_params;

// Create compiles the kernels, on several threads at once by Vulkan's rules for cache and allocator; all take lavapipe
// 0.3 s and 19 MB. Errors: ARGUMENT, MEMORY, DRIVER. No work of a pack is pending when it is destroyed. Each operation,
// and the self-test, has a set of its own, of the pack's layout and your pool: 4 STORAGE_BUFFER, bindings 0 to 3.
KQ_API kq_result kq_vulkan_create(const kq_vulkan_params *params, kq_vulkan **pack);
KQ_API void kq_vulkan_destroy(kq_vulkan **pack);
KQ_API VkDescriptorSetLayout kq_vulkan_set_layout(const kq_vulkan *pack);

// Buffers have usage STORAGE_BUFFER and the queue family that will run the work; buffer_bytes is vkCreateBuffer's size.
typedef struct kq_vulkan_view {
    VkBuffer buffer;
    uint64_t buffer_bytes;
    kq_view view;
} kq_vulkan_view;
typedef struct kq_vulkan_range {
    VkBuffer buffer;
    uint64_t buffer_bytes, offset;  // the self-test's offset is a multiple of minStorageBufferOffsetAlignment and of 4
} kq_vulkan_range;

typedef struct kq_vulkan_quantize {
    kq_format format;                // KQ_FORMAT_Q8_K
    kq_vulkan_view values, records;  // f32 [G,256], u8 [G,292]; bindings 0 and 1
    kq_vulkan_range status;          // kq_status, preset by you; binding 2
} kq_vulkan_quantize;

typedef struct kq_vulkan_quantized_dot {
    kq_format lhs_format, rhs_format;  // KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K
    kq_accumulator acc;                // KQ_ACCUMULATOR_F32
    kq_order order;
    kq_vulkan_view lhs, rhs;          // u8 [G,144], u8 [G,292]; bindings 0 and 1
    kq_vulkan_range result, scratch;  // one f32 a dot, at any byte; kq_needs.scratch_bytes, undefined; bindings 2 and 3
    const kq_repeat *repeat;          // NULL: one dot
    const kq_part *part;              // NULL: all records of the dots
} kq_vulkan_quantized_dot;

// Whether and how it fits; scratch is not looked at, so {0} will do. Errors: ARGUMENT.
KQ_API kq_result kq_vulkan_quantize_query(const kq_vulkan *pack, const kq_vulkan_quantize *op, kq_needs *needs);
KQ_API kq_result kq_vulkan_quantized_dot_query(
    const kq_vulkan *pack, const kq_vulkan_quantized_dot *op, kq_needs *needs);

// vkUpdateDescriptorSets on your set, with its rules: no pending work uses set. It then serves this struct or range;
// record rejects nothing that write_set took. Errors: ARGUMENT, UNSUPPORTED.
KQ_API kq_result kq_vulkan_quantize_write_set(const kq_vulkan *pack, const kq_vulkan_quantize *op, VkDescriptorSet set);
KQ_API kq_result kq_vulkan_quantized_dot_write_set(
    const kq_vulkan *pack, const kq_vulkan_quantized_dot *op, VkDescriptorSet set);
KQ_API kq_result kq_vulkan_self_test_write_set(
    const kq_vulkan *pack, const kq_vulkan_range *range, VkDescriptorSet set);

// Records into command_buffer: recording, outside a render pass, of a family with compute. Leaves pipeline, set 0 and
// push constants of the compute bind point changed. Barriers between its own dispatches are inside; those around it are
// yours, all in COMPUTE_SHADER:
//   before  inputs visible to SHADER_READ, status and range to SHADER_WRITE too, as are records, result and scratch if
//           anything wrote them: between two dots with one scratch SHADER_WRITE to SHADER_READ | SHADER_WRITE
//   after   outputs, the range too, are SHADER_WRITE: read them after a barrier to HOST or TRANSFER
// With G = 0 a dot writes +0, quantize records nothing, as does a count of 0. Errors: ARGUMENT, UNSUPPORTED.
KQ_API kq_result kq_vulkan_quantize_record(
    const kq_vulkan *pack, const kq_vulkan_quantize *op, VkDescriptorSet set, VkCommandBuffer command_buffer);
KQ_API kq_result kq_vulkan_quantized_dot_record(
    const kq_vulkan *pack, const kq_vulkan_quantized_dot *op, VkDescriptorSet set, VkCommandBuffer command_buffer);
KQ_API kq_result kq_vulkan_self_test_record(
    const kq_vulkan *pack, const kq_vulkan_range *range, VkDescriptorSet set, VkCommandBuffer command_buffer);
#endif
