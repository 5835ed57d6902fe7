#include "vulkan_call.h"

#include <kquant/vulkan.h>

#include "kernels.h"
#include "plan.h"
#include "self_test.h"

#include <inttypes.h>
#include <stdlib.h>

// --- Functions

// clang-format off
#define VULKAN_PACK_FUNCTIONS(f)                                                                   \
    f(vkCreateShaderModule)                                                                        \
    f(vkDestroyShaderModule)                                                                       \
    f(vkCreateDescriptorSetLayout)                                                                 \
    f(vkDestroyDescriptorSetLayout)                                                                \
    f(vkCreatePipelineLayout)                                                                      \
    f(vkDestroyPipelineLayout)                                                                     \
    f(vkCreateComputePipelines)                                                                    \
    f(vkDestroyPipeline)                                                                           \
    f(vkUpdateDescriptorSets)                                                                      \
    f(vkCmdBindPipeline)                                                                           \
    f(vkCmdBindDescriptorSets)                                                                     \
    f(vkCmdPushConstants)                                                                          \
    f(vkCmdDispatch)                                                                               \
    f(vkCmdPipelineBarrier)
// clang-format on

#define FUNCTION_FIELD(name) PFN_##name name;
typedef struct vulkan_functions {
    VULKAN_PACK_FUNCTIONS(FUNCTION_FIELD)
} vulkan_functions;
#undef FUNCTION_FIELD

// if_missing: whose fault it is, the caller's or the driver's.
static kq_result load_functions(const kq_vulkan_params *params, kq_result if_missing,
                                vulkan_functions *vk, VkPhysicalDeviceLimits *limits)
{
    PFN_vkGetInstanceProcAddr get = params->get_instance_proc_addr;
    const char *missing = NULL;
    kq_result result = kq_check_host(&params->errors);
    if (result != KQ_OK) {
        return result;
    }
    PFN_vkGetDeviceProcAddr get_device =
        (PFN_vkGetDeviceProcAddr)get(params->instance, "vkGetDeviceProcAddr");
    PFN_vkGetPhysicalDeviceProperties get_properties =
        (PFN_vkGetPhysicalDeviceProperties)get(params->instance, "vkGetPhysicalDeviceProperties");
    if (get_device == NULL || get_properties == NULL) {
        missing = get_device == NULL ? "vkGetDeviceProcAddr" : "vkGetPhysicalDeviceProperties";
    } else {
#define LOAD_FUNCTION(name)                                                                        \
 vk->name = (PFN_##name)get_device(params->device, #name);                                         \
 missing = vk->name == NULL ? #name : missing;
        VULKAN_PACK_FUNCTIONS(LOAD_FUNCTION)
#undef LOAD_FUNCTION
    }
    if (missing != NULL) {
        return kq_fail(&params->errors, if_missing, "get_instance_proc_addr does not lead to %s",
                       missing);
    }
    VkPhysicalDeviceProperties properties;
    get_properties(params->physical_device, &properties);
    *limits = properties.limits;
    return KQ_OK;
}

kq_result kq_vulkan_check(const kq_errors *errors, const char *call, VkResult result)
{
    const char *name = "VkResult";
    switch (result) {
    case VK_SUCCESS: return KQ_OK;
    case VK_NOT_READY: name = "VK_NOT_READY"; break;
    case VK_TIMEOUT: name = "VK_TIMEOUT"; break;
    case VK_ERROR_OUT_OF_HOST_MEMORY: name = "VK_ERROR_OUT_OF_HOST_MEMORY"; break;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: name = "VK_ERROR_OUT_OF_DEVICE_MEMORY"; break;
    case VK_ERROR_INITIALIZATION_FAILED: name = "VK_ERROR_INITIALIZATION_FAILED"; break;
    case VK_ERROR_DEVICE_LOST: name = "VK_ERROR_DEVICE_LOST"; break;
    case VK_ERROR_MEMORY_MAP_FAILED: name = "VK_ERROR_MEMORY_MAP_FAILED"; break;
    case VK_ERROR_LAYER_NOT_PRESENT: name = "VK_ERROR_LAYER_NOT_PRESENT"; break;
    case VK_ERROR_EXTENSION_NOT_PRESENT: name = "VK_ERROR_EXTENSION_NOT_PRESENT"; break;
    case VK_ERROR_FEATURE_NOT_PRESENT: name = "VK_ERROR_FEATURE_NOT_PRESENT"; break;
    case VK_ERROR_TOO_MANY_OBJECTS: name = "VK_ERROR_TOO_MANY_OBJECTS"; break;
    case VK_ERROR_FRAGMENTED_POOL: name = "VK_ERROR_FRAGMENTED_POOL"; break;
    case VK_ERROR_UNKNOWN: name = "VK_ERROR_UNKNOWN"; break;
    case VK_ERROR_OUT_OF_POOL_MEMORY: name = "VK_ERROR_OUT_OF_POOL_MEMORY"; break;
    case VK_ERROR_FRAGMENTATION: name = "VK_ERROR_FRAGMENTATION"; break;
    default: break;
    }
    kq_result code =
        result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY
            ? KQ_ERROR_MEMORY
            : KQ_ERROR_DRIVER;
    return kq_fail(errors, code, "%s: %s (%d)", call, name, (int)result);
}

kq_limits kq_vulkan_limits(const VkPhysicalDeviceLimits *limits)
{
    VkDeviceSize alignment = limits->minStorageBufferOffsetAlignment;
    return (kq_limits){
        .range_bytes = limits->maxStorageBufferRange,
        .range_name = "maxStorageBufferRange",
        .offset_alignment = alignment < 4 ? 4 : (uint32_t)alignment,
        .groups = {limits->maxComputeWorkGroupCount[0], limits->maxComputeWorkGroupCount[1]},
        .groups_name = "maxComputeWorkGroupCount[0] * [1]",
    };
}

// --- Create and destroy

struct kq_vulkan {
    vulkan_functions vk;
    VkDevice device;
    VkAllocationCallbacks allocator;
    bool has_allocator;
    kq_errors errors;
    uint32_t ops;
    kq_limits limits;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    bool has_own_layouts;
    VkPipelineCache pipeline_cache;
    PFN_vkVoidFunction set_debug_name;
    VkPipeline *pipelines;  // by kernel; null where the pack has none, or none yet
};

static const VkAllocationCallbacks *allocator(const kq_vulkan *pack)
{
    return pack->has_allocator ? &pack->allocator : NULL;
}

static kq_result check_vulkan_params(const kq_vulkan_params *params)
{
    const kq_errors *errors = &params->errors;
    const char *missing = params->get_instance_proc_addr == NULL      ? "get_instance_proc_addr"
                          : params->instance == VK_NULL_HANDLE        ? "instance"
                          : params->physical_device == VK_NULL_HANDLE ? "physical_device"
                          : params->device == VK_NULL_HANDLE          ? "device"
                                                                      : NULL;
    if (missing != NULL) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT, "%s is null; it is required", missing);
    }
    if ((params->caps & ~(uint32_t)KQ_CAP_PACKED_DOT) != 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT, "caps is 0x%" PRIX32 "; it may hold 0x%X",
                       params->caps, (unsigned)KQ_CAP_PACKED_DOT);
    }
    if ((params->ops & ~KQ_KNOWN_OPS) != 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT, "ops is 0x%" PRIX32 "; it may hold 0x%" PRIX32,
                       params->ops, KQ_KNOWN_OPS);
    }
    if (params->share_layouts != NULL && params->share_layouts->device != params->device) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT, "share_layouts is a pack of another device");
    }
    return KQ_OK;
}

static kq_result create_layouts(kq_vulkan *pack)
{
    VkDescriptorSetLayoutBinding bindings[KQ_BINDING_COUNT];
    for (uint32_t i = 0; i < KQ_BINDING_COUNT; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = KQ_BINDING_COUNT,
        .pBindings = bindings,
    };
    kq_result result =
        kq_vulkan_check(&pack->errors, "vkCreateDescriptorSetLayout",
                        pack->vk.vkCreateDescriptorSetLayout(pack->device, &set_info,
                                                             allocator(pack), &pack->set_layout));
    if (result != KQ_OK) {
        pack->set_layout = VK_NULL_HANDLE;  // Vulkan leaves it undefined
        return result;
    }
    VkPushConstantRange range = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        .size = sizeof(kq_dot_params),
    };
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &pack->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    result = kq_vulkan_check(&pack->errors, "vkCreatePipelineLayout",
                             pack->vk.vkCreatePipelineLayout(pack->device, &info, allocator(pack),
                                                             &pack->pipeline_layout));
    if (result != KQ_OK) {
        pack->pipeline_layout = VK_NULL_HANDLE;
    }
    return result;
}

static kq_result name_pipeline(const kq_vulkan *pack, VkPipeline pipeline, const char *name)
{
    if (pack->set_debug_name == NULL) {
        return KQ_OK;
    }
    VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = VK_OBJECT_TYPE_PIPELINE,
        .objectHandle = (uint64_t)pipeline,
        .pObjectName = name,
    };
    return kq_vulkan_check(
        &pack->errors, "vkSetDebugUtilsObjectNameEXT",
        ((PFN_vkSetDebugUtilsObjectNameEXT)pack->set_debug_name)(pack->device, &info));
}

static kq_result create_pipeline(const kq_vulkan *pack, unsigned kernel)
{
    const kq_kernel *data = kq_find_kernel(KQ_API_VULKAN, kq_kernel_names[kernel], 0);
    VkShaderModule module = VK_NULL_HANDLE;
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = data->spirv_bytes,
        .pCode = data->spirv,
    };
    kq_result result = kq_vulkan_check(
        &pack->errors, "vkCreateShaderModule",
        pack->vk.vkCreateShaderModule(pack->device, &module_info, allocator(pack), &module));
    if (result != KQ_OK) {
        return result;
    }
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
            },
        .layout = pack->pipeline_layout,
    };
    result = kq_vulkan_check(&pack->errors, "vkCreateComputePipelines",
                             pack->vk.vkCreateComputePipelines(pack->device, pack->pipeline_cache,
                                                               1, &info, allocator(pack),
                                                               &pack->pipelines[kernel]));
    pack->vk.vkDestroyShaderModule(pack->device, module, allocator(pack));
    return result != KQ_OK ? result : name_pipeline(pack, pack->pipelines[kernel], data->name);
}

// The kernels of the ops that were asked for, but variants that the library doesn't have or whose
// features aren't enabled, and what the caller goes without.
static uint32_t choose_kernels(const kq_vulkan_params *params, uint32_t without)
{
    uint32_t kernels = 0;
    for (unsigned kernel = 0; kernel < KQ_KERNEL_COUNT; kernel++) {
        const kq_kernel *data = kq_find_kernel(KQ_API_VULKAN, kq_kernel_names[kernel], 0);
        bool is_asked_for = params->ops == 0 || (params->ops & 1u << kq_kernel_op(kernel)) != 0;
        bool is_possible =
            !kq_kernel_is_variant(kernel) || (data != NULL && (data->caps & ~params->caps) == 0);
        kernels |= is_asked_for && is_possible ? 1u << kernel : 0;
    }
    return kernels & ~without;
}

// A pack that has functions, layouts and the choice of its kernels, and no kernel yet.
static kq_result create_empty(const kq_vulkan_params *params, uint32_t kernels,
                              kq_result if_missing, kq_vulkan **out)
{
    kq_vulkan *pack = calloc(1, sizeof *pack);
    VkPipeline *pipelines = calloc(KQ_KERNEL_COUNT, sizeof *pipelines);
    if (pack == NULL || pipelines == NULL) {
        free(pack);
        free(pipelines);
        return kq_fail(&params->errors, KQ_ERROR_MEMORY, "out of host memory for a pack");
    }
    VkPhysicalDeviceLimits limits = {0};
    kq_result result = load_functions(params, if_missing, &pack->vk, &limits);
    if (result != KQ_OK) {
        free(pack);
        free(pipelines);
        return result;
    }
    pack->device = params->device;
    pack->errors = params->errors;
    pack->ops = params->ops;
    pack->has_allocator = params->allocator != NULL;
    if (pack->has_allocator) {
        pack->allocator = *params->allocator;
    }
    pack->limits = kq_vulkan_limits(&limits);
    for (unsigned kernel = 0; kernel < KQ_KERNEL_COUNT; kernel++) {
        pack->limits.variants |= kq_kernel_is_variant(kernel) ? kernels & 1u << kernel : 0;
    }
    pack->pipeline_cache = params->pipeline_cache;
    pack->set_debug_name = params->set_debug_name;
    pack->pipelines = pipelines;
    pack->has_own_layouts = params->share_layouts == NULL;
    if (pack->has_own_layouts) {
        result = create_layouts(pack);
    } else {
        pack->set_layout = params->share_layouts->set_layout;
        pack->pipeline_layout = params->share_layouts->pipeline_layout;
    }
    if (result != KQ_OK) {
        kq_vulkan_destroy(&pack);
    }
    *out = pack;
    return result;
}

kq_result kq_vulkan_create(const kq_vulkan_params *params, kq_vulkan **out)
{
    *out = NULL;
    kq_result result = check_vulkan_params(params);
    if (result != KQ_OK) {
        return result;
    }
    uint32_t kernels = choose_kernels(params, KQ_LEVEL_3_KERNELS);
    result = create_empty(params, kernels, KQ_ERROR_ARGUMENT, out);
    for (unsigned kernel = 0; kernel < KQ_KERNEL_COUNT && result == KQ_OK; kernel++) {
        if ((kernels >> kernel & 1) != 0) {
            result = create_pipeline(*out, kernel);
        }
    }
    if (result != KQ_OK) {
        kq_vulkan_destroy(out);
    }
    return result;
}

kq_result kq_vulkan_create_lazy(const kq_vulkan_params *params, uint32_t without, kq_vulkan **out)
{
    return create_empty(params, choose_kernels(params, without), KQ_ERROR_DRIVER, out);
}

void kq_vulkan_destroy(kq_vulkan **out)
{
    kq_vulkan *pack = *out;
    if (pack == NULL) {
        return;
    }
    for (unsigned kernel = 0; kernel < KQ_KERNEL_COUNT; kernel++) {
        pack->vk.vkDestroyPipeline(pack->device, pack->pipelines[kernel], allocator(pack));
    }
    free(pack->pipelines);
    if (pack->has_own_layouts) {
        pack->vk.vkDestroyPipelineLayout(pack->device, pack->pipeline_layout, allocator(pack));
        pack->vk.vkDestroyDescriptorSetLayout(pack->device, pack->set_layout, allocator(pack));
    }
    free(pack);
    *out = NULL;
}

VkDescriptorSetLayout kq_vulkan_set_layout(const kq_vulkan *pack)
{
    return pack->set_layout;
}

// --- Operations: the caller's structs brought to the form that every API shares

static kq_operand view_operand(const kq_vulkan_view *view)
{
    return (kq_operand){(uint64_t)view->buffer, view->buffer_bytes, view->view};
}

static kq_operand range_operand(const kq_vulkan_range *range)
{
    return (kq_operand){(uint64_t)range->buffer, range->buffer_bytes, {.offset = range->offset}};
}

static kq_operation quantize_operation(const kq_vulkan_quantize *op)
{
    return (kq_operation){
        .op = KQ_OP_QUANTIZE,
        .format = op->format,
        .operands[KQ_VALUES] = view_operand(&op->values),
        .operands[KQ_RECORDS] = view_operand(&op->records),
        .operands[KQ_STATUS] = range_operand(&op->status),
    };
}

static kq_operation dot_operation(const kq_vulkan_quantized_dot *op)
{
    return (kq_operation){
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = op->lhs_format,
        .rhs_format = op->rhs_format,
        .acc = op->acc,
        .order = op->order,
        .repeat = op->repeat,
        .part = op->part,
        .operands[KQ_LHS] = view_operand(&op->lhs),
        .operands[KQ_RHS] = view_operand(&op->rhs),
        .operands[KQ_RESULT] = range_operand(&op->result),
        .operands[KQ_SCRATCH] = range_operand(&op->scratch),
    };
}

static kq_result check_pointers(const kq_vulkan *pack, const void *op, const void *needs)
{
    if (pack == NULL) {
        return KQ_ERROR_ARGUMENT;  // and nobody to tell
    }
    if (op != NULL && needs != NULL) {
        return KQ_OK;
    }
    return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "%s is null", op == NULL ? "op" : "needs");
}

// A plan that fits, of kernels that the pack has.
static kq_result make_plan(const kq_vulkan *pack, const kq_operation *operation, kq_plan *plan)
{
    kq_result result = kq_check_op(operation->op, pack->ops, &pack->errors);
    result = result != KQ_OK ? result
                             : kq_plan_make(operation, true, &pack->limits, &pack->errors, plan);
    return result != KQ_OK ? result : kq_plan_fit(plan, &pack->errors);
}

static kq_result check_handles(const kq_vulkan *pack, VkDescriptorSet set, VkCommandBuffer commands)
{
    return set != VK_NULL_HANDLE && commands != VK_NULL_HANDLE
               ? KQ_OK
               : kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "%s is null",
                         set == VK_NULL_HANDLE ? "set" : "command_buffer");
}

static kq_result update_set(const kq_vulkan *pack, VkDescriptorSet set,
                            const VkDescriptorBufferInfo infos[KQ_BINDING_COUNT])
{
    VkWriteDescriptorSet writes[KQ_BINDING_COUNT];
    if (set == VK_NULL_HANDLE) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "set is null");
    }
    for (uint32_t i = 0; i < KQ_BINDING_COUNT; i++) {
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &infos[i],
        };
    }
    pack->vk.vkUpdateDescriptorSets(pack->device, KQ_BINDING_COUNT, writes, 0, NULL);
    return KQ_OK;
}

static kq_result write_set(const kq_vulkan *pack, const kq_operation *operation,
                           VkDescriptorSet set)
{
    kq_plan plan;
    kq_result result = make_plan(pack, operation, &plan);
    if (result != KQ_OK || plan.needs.dispatch_count == 0) {
        return result;
    }
    VkDescriptorBufferInfo infos[KQ_BINDING_COUNT];
    for (uint32_t i = 0; i < KQ_BINDING_COUNT; i++) {
        // Result or status is always there. It stands in for what isn't and is not read: lavapipe
        // looks at bindings that no shader uses, and what the set held before may be gone.
        uint32_t role = plan.ranges[i].bytes > 0 ? i : KQ_RESULT;
        infos[i] = (VkDescriptorBufferInfo){
            .buffer = (VkBuffer)operation->operands[role].buffer,
            .offset = plan.ranges[role].offset,
            .range = plan.ranges[role].bytes,
        };
    }
    return update_set(pack, set, infos);
}

// What dispatches before it wrote is there for those behind it.
static void compute_barrier(const kq_vulkan *pack, VkCommandBuffer commands)
{
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    pack->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                  NULL);
}

static void bind_set(const kq_vulkan *pack, VkDescriptorSet set, VkCommandBuffer commands)
{
    pack->vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                     pack->pipeline_layout, 0, 1, &set, 0, NULL);
}

// A kernel that is not there yet is compiled: of a lazy pack alone.
static kq_result record_plan(const kq_vulkan *pack, const kq_plan *plan, VkCommandBuffer commands)
{
    for (uint32_t i = 0; i < plan->needs.dispatch_count; i++) {
        kq_step step = kq_plan_step(plan, i);
        kq_result result = pack->pipelines[step.kernel] == VK_NULL_HANDLE
                               ? create_pipeline(pack, step.kernel)
                               : KQ_OK;
        if (result != KQ_OK) {
            return result;
        }
        if (i > 0) {
            compute_barrier(pack, commands);
        }
        pack->vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                   pack->pipelines[step.kernel]);
        pack->vk.vkCmdPushConstants(commands, pack->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                    step.params_bytes, step.params);
        pack->vk.vkCmdDispatch(commands, step.groups[0], step.groups[1], 1);
    }
    return KQ_OK;
}

static kq_result record_operation(const kq_vulkan *pack, const kq_operation *operation,
                                  VkDescriptorSet set, VkCommandBuffer commands)
{
    kq_plan plan;
    kq_result result = make_plan(pack, operation, &plan);
    if (result != KQ_OK || plan.needs.dispatch_count == 0) {
        return result;
    }
    result = check_handles(pack, set, commands);
    if (result == KQ_OK) {
        bind_set(pack, set, commands);
        result = record_plan(pack, &plan, commands);
    }
    return result;
}

kq_result kq_vulkan_quantize_query(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                   kq_needs *needs)
{
    if (check_pointers(pack, op, needs) != KQ_OK) {
        return KQ_ERROR_ARGUMENT;
    }
    kq_operation operation = quantize_operation(op);
    return kq_plan_query(&operation, &pack->limits, &pack->errors, needs);
}

kq_result kq_vulkan_quantized_dot_query(const kq_vulkan *pack, const kq_vulkan_quantized_dot *op,
                                        kq_needs *needs)
{
    if (check_pointers(pack, op, needs) != KQ_OK) {
        return KQ_ERROR_ARGUMENT;
    }
    kq_operation operation = dot_operation(op);
    return kq_plan_query(&operation, &pack->limits, &pack->errors, needs);
}

kq_result kq_vulkan_quantize_write_set(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                       VkDescriptorSet set)
{
    if (check_pointers(pack, op, op) != KQ_OK) {
        return KQ_ERROR_ARGUMENT;
    }
    kq_operation operation = quantize_operation(op);
    return write_set(pack, &operation, set);
}

kq_result kq_vulkan_quantized_dot_write_set(const kq_vulkan *pack,
                                            const kq_vulkan_quantized_dot *op, VkDescriptorSet set)
{
    if (check_pointers(pack, op, op) != KQ_OK) {
        return KQ_ERROR_ARGUMENT;
    }
    kq_operation operation = dot_operation(op);
    return write_set(pack, &operation, set);
}

kq_result kq_vulkan_quantize_record(const kq_vulkan *pack, const kq_vulkan_quantize *op,
                                    VkDescriptorSet set, VkCommandBuffer command_buffer)
{
    if (check_pointers(pack, op, op) != KQ_OK) {
        return KQ_ERROR_ARGUMENT;
    }
    kq_operation operation = quantize_operation(op);
    return record_operation(pack, &operation, set, command_buffer);
}

kq_result kq_vulkan_quantized_dot_record(const kq_vulkan *pack, const kq_vulkan_quantized_dot *op,
                                         VkDescriptorSet set, VkCommandBuffer command_buffer)
{
    if (check_pointers(pack, op, op) != KQ_OK) {
        return KQ_ERROR_ARGUMENT;
    }
    kq_operation operation = dot_operation(op);
    return record_operation(pack, &operation, set, command_buffer);
}

kq_result kq_vulkan_dot_plan(const kq_vulkan *pack, const kq_vulkan_quantized_dot *op,
                             kq_plan *plan)
{
    const kq_operation operation = dot_operation(op);
    return make_plan(pack, &operation, plan);
}

// --- The self-test: in its one set all bindings are the range, so offsets count from there

static kq_result check_test_range(const kq_vulkan *pack, const kq_vulkan_range *range)
{
    if (pack == NULL) {
        return KQ_ERROR_ARGUMENT;  // and nobody to tell
    }
    if (range == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "range is null");
    }
    kq_operand operand = range_operand(range);
    return kq_self_test_check(pack->ops, &operand, pack->limits.offset_alignment, &pack->errors);
}

static kq_result write_whole(const kq_vulkan *pack, const kq_vulkan_range *range, uint64_t bytes,
                             VkDescriptorSet set)
{
    VkDescriptorBufferInfo infos[KQ_BINDING_COUNT];
    for (uint32_t i = 0; i < KQ_BINDING_COUNT; i++) {
        infos[i] = (VkDescriptorBufferInfo){range->buffer, range->offset, bytes};
    }
    return update_set(pack, set, infos);
}

kq_result kq_vulkan_self_test_write_set(const kq_vulkan *pack, const kq_vulkan_range *range,
                                        VkDescriptorSet set)
{
    kq_result result = check_test_range(pack, range);
    return result != KQ_OK ? result : write_whole(pack, range, KQ_SELF_TEST_BYTES, set);
}

kq_result kq_vulkan_self_test_record(const kq_vulkan *pack, const kq_vulkan_range *range,
                                     VkDescriptorSet set, VkCommandBuffer command_buffer)
{
    kq_plan plans[KQ_SELF_TEST_PLANS];
    kq_result result = check_test_range(pack, range);
    result = result != KQ_OK ? result : check_handles(pack, set, command_buffer);
    if (result != KQ_OK) {
        return result;
    }
    kq_limits limits = pack->limits;
    limits.offset_alignment = 0x80000000u;  // every operand is bound from the start
    const kq_operand whole = {(uint64_t)range->buffer, KQ_SELF_TEST_BYTES, {.offset = 0}};
    for (unsigned i = 0; i < KQ_SELF_TEST_PLANS && result == KQ_OK; i++) {
        result = kq_self_test_plan(i, &whole, &limits, &pack->errors, &plans[i]);
    }
    if (result != KQ_OK) {
        return result;
    }
    bind_set(pack, set, command_buffer);
    for (unsigned i = 0; i < KQ_SELF_TEST_PLANS && result == KQ_OK; i++) {
        if (i > 0) {
            compute_barrier(pack, command_buffer);
        }
        result = record_plan(pack, &plans[i], command_buffer);
    }
    return result;
}

kq_result kq_vulkan_primitives_record(const kq_vulkan *pack, VkBuffer buffer, uint32_t count,
                                      VkDescriptorSet set, VkCommandBuffer command_buffer)
{
    kq_plan plan;
    const kq_vulkan_range range = {.buffer = buffer};
    kq_plan_primitives(count, 0, &pack->limits, &plan);
    kq_result result = write_whole(pack, &range, plan.ranges[KQ_ITEMS].bytes, set);
    if (result == KQ_OK) {
        bind_set(pack, set, command_buffer);
        result = record_plan(pack, &plan, command_buffer);
    }
    return result;
}

kq_result kq_vulkan_bandwidth_record(const kq_vulkan *pack, VkBuffer from, VkBuffer to,
                                     const kq_transfer *transfer, VkDescriptorSet set,
                                     VkCommandBuffer command_buffer)
{
    kq_plan plan;
    VkDescriptorBufferInfo infos[KQ_BINDING_COUNT];
    kq_plan_bandwidth(transfer, &pack->limits, &plan);
    for (int role = 0; role < KQ_BINDING_COUNT; role++) {
        const kq_range *range = &plan.ranges[role == KQ_FROM ? KQ_FROM : KQ_TO];
        infos[role] =
            (VkDescriptorBufferInfo){role == KQ_FROM ? from : to, range->offset, range->bytes};
    }
    kq_result result = update_set(pack, set, infos);
    if (result == KQ_OK) {
        bind_set(pack, set, command_buffer);
        result = record_plan(pack, &plan, command_buffer);
    }
    return result;
}
