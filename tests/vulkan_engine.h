// A small engine with a Vulkan device of its own, as a user of level 2 has one: no feature, no
// extension, its own memory, descriptor pools with no descriptor to spare, its own command buffers
// and barriers. It runs on the wrapped driver. Failures are cmocka's.
#ifndef KQ_VULKAN_ENGINE_H
#define KQ_VULKAN_ENGINE_H

#include "support.h"
#include "wrapped_vulkan.h"

#include <kquant/vulkan.h>

#include "shape.h"

// clang-format off
#define ENGINE_FUNCTIONS(f)                                                                        \
    f(vkGetDeviceQueue)                                                                            \
    f(vkDestroyDevice)                                                                             \
    f(vkQueueSubmit)                                                                               \
    f(vkCreateFence)                                                                               \
    f(vkDestroyFence)                                                                              \
    f(vkResetFences)                                                                               \
    f(vkWaitForFences)                                                                             \
    f(vkCreateBuffer)                                                                              \
    f(vkDestroyBuffer)                                                                             \
    f(vkGetBufferMemoryRequirements)                                                               \
    f(vkAllocateMemory)                                                                            \
    f(vkFreeMemory)                                                                                \
    f(vkBindBufferMemory)                                                                          \
    f(vkMapMemory)                                                                                 \
    f(vkCreateCommandPool)                                                                         \
    f(vkDestroyCommandPool)                                                                        \
    f(vkResetCommandPool)                                                                          \
    f(vkAllocateCommandBuffers)                                                                    \
    f(vkBeginCommandBuffer)                                                                        \
    f(vkEndCommandBuffer)                                                                          \
    f(vkCmdPipelineBarrier)                                                                        \
    f(vkCmdUpdateBuffer)                                                                           \
    f(vkCmdExecuteCommands)                                                                        \
    f(vkCreatePipelineCache)                                                                       \
    f(vkGetPipelineCacheData)                                                                      \
    f(vkDestroyPipelineCache)                                                                      \
    f(vkCreateDescriptorPool)                                                                      \
    f(vkDestroyDescriptorPool)                                                                     \
    f(vkAllocateDescriptorSets)                                                                    \
    f(vkUpdateDescriptorSets)
// clang-format on

typedef struct engine_functions {
#define ENGINE_FIELD(name) PFN_##name name;
    ENGINE_FUNCTIONS(ENGINE_FIELD)
#undef ENGINE_FIELD
} engine_functions;

// What a test may do with the device on one thread: its own command buffers, and one set.
typedef struct engine_lane {
    const engine_functions *vk;
    VkDevice device;
    VkCommandPool command_pool;
    VkCommandBuffer primary, secondary;
    VkDescriptorPool descriptor_pool;
    VkDescriptorSet set;
} engine_lane;

enum { ENGINE_BUFFER_CAPACITY = 32, ENGINE_MEMORY_BYTES = 64 << 20 };

typedef struct engine {
    wrapped_vulkan wrapped;
    PFN_vkGetInstanceProcAddr get;
    engine_functions vk;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkPhysicalDeviceLimits limits;
    char device_name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    VkDevice device;
    uint32_t queue_family;
    VkQueue queue;
    VkFence fence;
    VkDeviceMemory memory;  // of all buffers; coherent, and mapped
    unsigned char *host;
    uint64_t used_bytes;
    VkBuffer buffers[ENGINE_BUFFER_CAPACITY];
    uint32_t buffer_count;
    report report;
    const char *name;  // of the vector in work, if there is one
    kq_vulkan *pack;
    engine_lane lane;
} engine;

// Whether there is a device, whose name is printed, and the validation layer if that is asked for.
bool engine_is_possible(wrapped_validation validation);

// Opens a device that shows what shown says, and makes a pack of all kernels on it.
void engine_open(engine *e, wrapped_vulkan shown);

// Nothing may be left, no rule broken, no message of the validation layer.
void engine_close(engine *e);

void engine_load(engine_functions *vk, PFN_vkGetInstanceProcAddr get, VkInstance instance,
                 VkDevice device);

kq_vulkan_params engine_pack_params(engine *e);

void lane_open(engine_lane *lane, const engine *e, const engine_functions *vk,
               const kq_vulkan *pack);
void lane_close(engine_lane *lane);

// Commands go into the primary buffer, or into the secondary, which the primary then executes.
VkCommandBuffer lane_begin(engine_lane *lane, bool is_secondary);
void lane_barrier(const engine_lane *lane, VkCommandBuffer commands);
void lane_end(engine_lane *lane, bool is_secondary);

// Submits the primary buffer, or several at once, and waits; what was written is then there for the
// host.
void engine_run(engine *e, const engine_functions *vk, VkCommandBuffer primary);
void engine_run_all(engine *e, const engine_functions *vk, uint32_t count,
                    const VkCommandBuffer *primaries);

// A buffer, as the host sees it, and as it should be after the work.
typedef struct operand {
    VkBuffer buffer;
    uint64_t bytes;
    unsigned char *host;
    unsigned char *expected;
} operand;

// Poisoned. All buffers of the engine are destroyed together.
operand engine_make_operand(engine *e, uint64_t bytes);

// Poisons the operand, and puts data there. What is expected is that it stays so.
void operand_fill(operand *o, uint64_t offset, const void *data, uint64_t bytes);
void operand_check(const engine *e, const operand *o);

// The end of the last word that holds a byte of a range.
uint64_t operand_end(uint64_t offset, uint64_t bytes);

// The operands of an operation, by binding.
typedef struct operands {
    operand at[KQ_BINDING_COUNT];
} operands;

operands make_operands(engine *e, uint64_t first, uint64_t second, uint64_t third,
                       uint64_t scratch);
void destroy_operands(engine *e, operands *o);

kq_vulkan_quantized_dot dot_of(const operands *o, kq_order order, kq_view lhs, kq_view rhs,
                               uint64_t result_offset);
kq_vulkan_quantize quantize_of(const operands *o, kq_view values, kq_view records,
                               uint64_t status_offset);

// Puts what the reference makes of the operands into what is expected of result, or of records and
// status.
void expect_dot(operands *o, const kq_vulkan_quantized_dot *op);
void expect_quantize(operands *o, const kq_vulkan_quantize *op);

// Presets status, and says what is expected of it.
void fill_status(operand *status, uint64_t offset);
void expect_status(operand *status, uint64_t offset, uint32_t lowest_bad, uint32_t bad_count,
                   uint32_t done_count);

// Carries an operation out as query says it will go, a dot with no byte of scratch to spare. Then
// every byte of every buffer is as expected.
void check_dot(engine *e, operands *o, kq_vulkan_quantized_dot *op, bool is_secondary);
void check_quantize(engine *e, operands *o, const kq_vulkan_quantize *op, bool is_secondary);

#endif
