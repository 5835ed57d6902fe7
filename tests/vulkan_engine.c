#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "vulkan_engine.h"

#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Devices

static PFN_vkVoidFunction find(const engine *e, const char *name)
{
    PFN_vkVoidFunction function = e->get(e->instance, name);
    assert_non_null(function);
    return function;
}

static VkResult create_instance(engine *e)
{
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)e->get(NULL, "vkCreateInstance");
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_0,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    return create(&info, NULL, &e->instance);
}

static void destroy_instance(engine *e)
{
    ((PFN_vkDestroyInstance)find(e, "vkDestroyInstance"))(e->instance, NULL);
    e->instance = NULL;
}

static uint32_t choose_physical_device(engine *e)
{
    uint32_t count = 1;
    VkResult result = ((PFN_vkEnumeratePhysicalDevices)find(e, "vkEnumeratePhysicalDevices"))(
        e->instance, &count, &e->physical_device);
    return result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0;
}

static VkPhysicalDeviceProperties properties_of(const engine *e)
{
    VkPhysicalDeviceProperties properties;
    ((PFN_vkGetPhysicalDeviceProperties)find(e, "vkGetPhysicalDeviceProperties"))(
        e->physical_device, &properties);
    return properties;
}

bool engine_is_possible(wrapped_validation validation)
{
    static engine e;
    e.get = wrapped_vulkan_get(&e.wrapped);
    if (e.get == NULL || create_instance(&e) != VK_SUCCESS) {
        fprintf(stderr, "no Vulkan loader, or no driver\n");
        return false;
    }
    bool has_device = choose_physical_device(&e) > 0;
    if (has_device) {
        VkPhysicalDeviceProperties properties = properties_of(&e);
        printf("%s\n", properties.deviceName);
    }
    destroy_instance(&e);
    bool has_layer = validation == WRAPPED_VALIDATION_NONE || wrapped_vulkan_has_validation();
    if (!has_device || !has_layer) {
        fprintf(stderr, "no %s\n", has_device ? "validation layer" : "Vulkan device");
    }
    return has_device && has_layer;
}

static void choose_queue_family(engine *e)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    ((PFN_vkGetPhysicalDeviceQueueFamilyProperties)find(
        e, "vkGetPhysicalDeviceQueueFamilyProperties"))(e->physical_device, &count, families);
    // One of compute alone, where there is one.
    const VkQueueFlags both = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    e->queue_family = count;
    for (uint32_t i = 0; i < count; i++) {
        VkQueueFlags flags = families[i].queueFlags & both;
        if (flags == VK_QUEUE_COMPUTE_BIT || (flags == both && e->queue_family == count)) {
            e->queue_family = i;
        }
    }
    assert_true(e->queue_family < count);
}

void engine_load(engine_functions *vk, PFN_vkGetInstanceProcAddr get, VkInstance instance,
                 VkDevice device)
{
    PFN_vkGetDeviceProcAddr get_device =
        (PFN_vkGetDeviceProcAddr)get(instance, "vkGetDeviceProcAddr");
    assert_non_null(get_device);
#define ENGINE_LOAD(name)                                                                          \
 vk->name = (PFN_##name)get_device(device, #name);                                                 \
 assert_non_null(vk->name);
    ENGINE_FUNCTIONS(ENGINE_LOAD)
#undef ENGINE_LOAD
}

static void create_device(engine *e)
{
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = e->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const char *extension = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = e->wrapped.accelerates_dots ? &dot : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = e->wrapped.accelerates_dots ? 1 : 0,
        .ppEnabledExtensionNames = &extension,
    };
    assert_int_equal(((PFN_vkCreateDevice)find(e, "vkCreateDevice"))(e->physical_device, &info,
                                                                     NULL, &e->device),
                     VK_SUCCESS);
    engine_load(&e->vk, e->get, e->instance, e->device);
    e->vk.vkGetDeviceQueue(e->device, e->queue_family, 0, &e->queue);
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    assert_int_equal(e->vk.vkCreateFence(e->device, &fence, NULL, &e->fence), VK_SUCCESS);
}

static void allocate_memory(engine *e)
{
    VkPhysicalDeviceMemoryProperties properties;
    VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = ENGINE_MEMORY_BYTES,
    };
    void *host = NULL;
    ((PFN_vkGetPhysicalDeviceMemoryProperties)find(e, "vkGetPhysicalDeviceMemoryProperties"))(
        e->physical_device, &properties);
    while ((properties.memoryTypes[info.memoryTypeIndex].propertyFlags & wanted) != wanted) {
        info.memoryTypeIndex++;
        assert_true(info.memoryTypeIndex < properties.memoryTypeCount);
    }
    assert_int_equal(e->vk.vkAllocateMemory(e->device, &info, NULL, &e->memory), VK_SUCCESS);
    assert_int_equal(e->vk.vkMapMemory(e->device, e->memory, 0, VK_WHOLE_SIZE, 0, &host),
                     VK_SUCCESS);
    e->host = host;
}

kq_vulkan_params engine_pack_params(engine *e)
{
    return (kq_vulkan_params){
        .get_instance_proc_addr = e->get,
        .instance = e->instance,
        .physical_device = e->physical_device,
        .device = e->device,
        .caps = e->wrapped.accelerates_dots ? KQ_CAP_PACKED_DOT : 0,
        .errors = report_errors(&e->report),
    };
}

void engine_open(engine *e, wrapped_vulkan shown)
{
    memset(e, 0, sizeof *e);
    e->wrapped = shown;
    e->get = wrapped_vulkan_get(&e->wrapped);
    assert_int_equal(create_instance(e), VK_SUCCESS);
    assert_true(choose_physical_device(e) > 0);
    VkPhysicalDeviceProperties properties = properties_of(e);
    e->limits = properties.limits;
    memcpy(e->device_name, properties.deviceName, sizeof e->device_name);
    choose_queue_family(e);
    create_device(e);
    allocate_memory(e);
    kq_vulkan_params params = engine_pack_params(e);
    assert_int_equal(kq_vulkan_create(&params, &e->pack), KQ_OK);
    lane_open(&e->lane, e, &e->vk, e->pack);
}

void engine_close(engine *e)
{
    lane_close(&e->lane);
    kq_vulkan_destroy(&e->pack);
    assert_null(e->pack);
    e->vk.vkFreeMemory(e->device, e->memory, NULL);
    e->vk.vkDestroyFence(e->device, e->fence, NULL);
    e->vk.vkDestroyDevice(e->device, NULL);
    destroy_instance(e);
    assert_int_equal(wrapped_vulkan_live(&e->wrapped), 0);
    assert_string_equal(e->wrapped.violation, "");
    assert_int_equal(e->wrapped.messages, 0);
}

// --- Commands

void lane_open(engine_lane *lane, const engine *e, const engine_functions *vk,
               const kq_vulkan *pack)
{
    VkCommandPoolCreateInfo command_pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = e->queue_family,
    };
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4};
    VkDescriptorPoolCreateInfo descriptor_pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    memset(lane, 0, sizeof *lane);
    lane->vk = vk;
    lane->device = e->device;
    assert_int_equal(
        vk->vkCreateCommandPool(lane->device, &command_pool, NULL, &lane->command_pool),
        VK_SUCCESS);
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = lane->command_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    assert_int_equal(vk->vkAllocateCommandBuffers(lane->device, &commands, &lane->primary),
                     VK_SUCCESS);
    commands.level = VK_COMMAND_BUFFER_LEVEL_SECONDARY;
    assert_int_equal(vk->vkAllocateCommandBuffers(lane->device, &commands, &lane->secondary),
                     VK_SUCCESS);
    assert_int_equal(
        vk->vkCreateDescriptorPool(lane->device, &descriptor_pool, NULL, &lane->descriptor_pool),
        VK_SUCCESS);
    VkDescriptorSetLayout layout = kq_vulkan_set_layout(pack);
    VkDescriptorSetAllocateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = lane->descriptor_pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    assert_int_equal(vk->vkAllocateDescriptorSets(lane->device, &set, &lane->set), VK_SUCCESS);
}

void lane_close(engine_lane *lane)
{
    lane->vk->vkDestroyDescriptorPool(lane->device, lane->descriptor_pool, NULL);
    lane->vk->vkDestroyCommandPool(lane->device, lane->command_pool, NULL);
}

VkCommandBuffer lane_begin(engine_lane *lane, bool is_secondary)
{
    VkCommandBufferInheritanceInfo inheritance = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO,
    };
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
    };
    lane->vk->vkResetCommandPool(lane->device, lane->command_pool, 0);
    lane->vk->vkBeginCommandBuffer(lane->primary, &info);
    if (!is_secondary) {
        return lane->primary;
    }
    info.pInheritanceInfo = &inheritance;
    lane->vk->vkBeginCommandBuffer(lane->secondary, &info);
    return lane->secondary;
}

void lane_barrier(const engine_lane *lane, VkCommandBuffer commands)
{
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask =
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT,
    };
    lane->vk->vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                       VK_PIPELINE_STAGE_HOST_BIT,
                                   0, 1, &barrier, 0, NULL, 0, NULL);
}

void lane_end(engine_lane *lane, bool is_secondary)
{
    if (is_secondary) {
        lane->vk->vkEndCommandBuffer(lane->secondary);
        lane->vk->vkCmdExecuteCommands(lane->primary, 1, &lane->secondary);
    }
    lane_barrier(lane, lane->primary);
    lane->vk->vkEndCommandBuffer(lane->primary);
}

void engine_run(engine *e, const engine_functions *vk, VkCommandBuffer primary)
{
    engine_run_all(e, vk, 1, &primary);
}

void engine_run_all(engine *e, const engine_functions *vk, uint32_t count,
                    const VkCommandBuffer *primaries)
{
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = count,
        .pCommandBuffers = primaries,
    };
    assert_int_equal(vk->vkResetFences(e->device, 1, &e->fence), VK_SUCCESS);
    assert_int_equal(vk->vkQueueSubmit(e->queue, 1, &submit, e->fence), VK_SUCCESS);
    assert_int_equal(vk->vkWaitForFences(e->device, 1, &e->fence, VK_TRUE, UINT64_MAX), VK_SUCCESS);
}

// --- Operands

operand engine_make_operand(engine *e, uint64_t bytes)
{
    operand o = {.bytes = bytes, .expected = malloc((size_t)bytes)};
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    VkMemoryRequirements requirements;
    assert_non_null(o.expected);
    assert_true(e->buffer_count < ENGINE_BUFFER_CAPACITY);
    assert_int_equal(e->vk.vkCreateBuffer(e->device, &info, NULL, &o.buffer), VK_SUCCESS);
    e->vk.vkGetBufferMemoryRequirements(e->device, o.buffer, &requirements);
    uint64_t past = e->used_bytes % requirements.alignment;
    e->used_bytes += past == 0 ? 0 : requirements.alignment - past;
    assert_true(e->used_bytes + requirements.size <= ENGINE_MEMORY_BYTES);
    assert_int_equal(e->vk.vkBindBufferMemory(e->device, o.buffer, e->memory, e->used_bytes),
                     VK_SUCCESS);
    o.host = e->host + e->used_bytes;
    e->used_bytes += requirements.size;
    e->buffers[e->buffer_count++] = o.buffer;
    operand_fill(&o, 0, NULL, 0);
    return o;
}

void operand_fill(operand *o, uint64_t offset, const void *data, uint64_t bytes)
{
    assert_true(offset + bytes <= o->bytes);
    memset(o->host, POISON, (size_t)o->bytes);
    if (bytes > 0) {
        memcpy(o->host + offset, data, (size_t)bytes);
    }
    memcpy(o->expected, o->host, (size_t)o->bytes);
}

void operand_check(const engine *e, const operand *o)
{
    if (e->name != NULL && memcmp(o->host, o->expected, (size_t)o->bytes) != 0) {
        print_error("vector %s\n", e->name);
    }
    assert_memory_equal(o->host, o->expected, (size_t)o->bytes);
}

uint64_t operand_end(uint64_t offset, uint64_t bytes)
{
    return (offset + bytes + 3) / 4 * 4;
}

// --- Operations

operands make_operands(engine *e, uint64_t first, uint64_t second, uint64_t third, uint64_t scratch)
{
    return (operands){{
        engine_make_operand(e, first),
        engine_make_operand(e, second),
        engine_make_operand(e, third),
        engine_make_operand(e, scratch),
    }};
}

void destroy_operands(engine *e, operands *o)
{
    for (uint32_t i = 0; i < e->buffer_count; i++) {
        e->vk.vkDestroyBuffer(e->device, e->buffers[i], NULL);
    }
    for (int i = 0; i < KQ_BINDING_COUNT; i++) {
        free(o->at[i].expected);
    }
    e->buffer_count = 0;
    e->used_bytes = 0;
}

kq_vulkan_quantized_dot dot_of(const operands *o, kq_order order, kq_view lhs, kq_view rhs,
                               uint64_t result_offset)
{
    return (kq_vulkan_quantized_dot){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {o->at[KQ_LHS].buffer, o->at[KQ_LHS].bytes, lhs},
        .rhs = {o->at[KQ_RHS].buffer, o->at[KQ_RHS].bytes, rhs},
        .result = {o->at[KQ_RESULT].buffer, o->at[KQ_RESULT].bytes, result_offset},
        .scratch = {o->at[KQ_SCRATCH].buffer, o->at[KQ_SCRATCH].bytes, 0},
    };
}

kq_vulkan_quantize quantize_of(const operands *o, kq_view values, kq_view records,
                               uint64_t status_offset)
{
    return (kq_vulkan_quantize){
        .format = KQ_FORMAT_Q8_K,
        .values = {o->at[KQ_VALUES].buffer, o->at[KQ_VALUES].bytes, values},
        .records = {o->at[KQ_RECORDS].buffer, o->at[KQ_RECORDS].bytes, records},
        .status = {o->at[KQ_STATUS].buffer, o->at[KQ_STATUS].bytes, status_offset},
    };
}

// Scratch may hold anything where it was lent.
static void check_operands(const engine *e, operands *o, uint64_t scratch_offset,
                           uint64_t scratch_bytes)
{
    operand *scratch = &o->at[KQ_SCRATCH];
    memcpy(scratch->expected + scratch_offset, scratch->host + scratch_offset,
           (size_t)scratch_bytes);
    for (int i = 0; i < KQ_BINDING_COUNT; i++) {
        operand_check(e, &o->at[i]);
    }
}

void check_dot(engine *e, operands *o, kq_vulkan_quantized_dot *op, bool is_secondary)
{
    kq_needs needs;
    assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, op, &needs), KQ_OK);
    assert_null(needs.limit);
    assert_int_equal(needs.missing_bytes, 0);
    assert_true(op->scratch.offset + needs.scratch_bytes <= o->at[KQ_SCRATCH].bytes);
    op->scratch.buffer_bytes = op->scratch.offset + needs.scratch_bytes;
    assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, op, e->lane.set), KQ_OK);
    wrapped_vulkan_reset(&e->wrapped);
    VkCommandBuffer commands = lane_begin(&e->lane, is_secondary);
    assert_int_equal(kq_vulkan_quantized_dot_record(e->pack, op, e->lane.set, commands), KQ_OK);
    lane_end(&e->lane, is_secondary);
    assert_int_equal(e->wrapped.counts.dispatches, needs.dispatch_count);
    assert_int_equal(e->wrapped.counts.barriers, needs.dispatch_count);  // with the engine's own
    engine_run(e, &e->vk, e->lane.primary);
    check_operands(e, o, op->scratch.offset, needs.scratch_bytes);
}

void check_quantize(engine *e, operands *o, const kq_vulkan_quantize *op, bool is_secondary)
{
    kq_needs needs;
    assert_int_equal(kq_vulkan_quantize_query(e->pack, op, &needs), KQ_OK);
    assert_null(needs.limit);
    assert_int_equal(needs.missing_bytes, 0);
    assert_int_equal(needs.scratch_bytes, 0);
    assert_int_equal(needs.dispatch_count, op->values.view.G > 0);
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, op, e->lane.set), KQ_OK);
    wrapped_vulkan_reset(&e->wrapped);
    VkCommandBuffer commands = lane_begin(&e->lane, is_secondary);
    assert_int_equal(kq_vulkan_quantize_record(e->pack, op, e->lane.set, commands), KQ_OK);
    lane_end(&e->lane, is_secondary);
    assert_int_equal(e->wrapped.counts.dispatches, needs.dispatch_count);
    engine_run(e, &e->vk, e->lane.primary);
    check_operands(e, o, 0, 0);
}

void fill_status(operand *status, uint64_t offset)
{
    static const unsigned char preset[16] = {0xFF, 0xFF, 0xFF, 0xFF};
    operand_fill(status, offset, preset, sizeof preset);
}

void expect_status(operand *status, uint64_t offset, uint32_t lowest_bad, uint32_t bad_count,
                   uint32_t done_count)
{
    store_u32(status->expected + offset, lowest_bad);
    store_u32(status->expected + offset + 4, bad_count);
    store_u32(status->expected + offset + 8, done_count);
    store_u32(status->expected + offset + 12, 0);
}

void expect_dot(operands *o, const kq_vulkan_quantized_dot *op)
{
    report report = {0};
    const kq_errors errors = report_errors(&report);
    kq_shape shape;
    kq_operation operation = {
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = op->lhs_format,
        .rhs_format = op->rhs_format,
        .acc = op->acc,
        .order = op->order,
        .repeat = op->repeat,
        .operands[KQ_LHS] = {1, o->at[KQ_LHS].bytes, op->lhs.view},
        .operands[KQ_RHS] = {2, o->at[KQ_RHS].bytes, op->rhs.view},
        .operands[KQ_RESULT] = {3, o->at[KQ_RESULT].bytes, {.offset = op->result.offset}},
    };
    assert_int_equal(kq_shape_make(&operation, &errors, &shape), KQ_OK);
    kq_reference_dot(&shape, op->order, o->at[KQ_LHS].host, o->at[KQ_RHS].host,
                     o->at[KQ_RESULT].expected);
}

void expect_quantize(operands *o, const kq_vulkan_quantize *op)
{
    report report = {0};
    const kq_errors errors = report_errors(&report);
    kq_shape shape;
    kq_status status = KQ_STATUS_PRESET;
    kq_operation operation = {
        .op = KQ_OP_QUANTIZE,
        .format = op->format,
        .operands[KQ_VALUES] = {1, o->at[KQ_VALUES].bytes, op->values.view},
        .operands[KQ_RECORDS] = {2, o->at[KQ_RECORDS].bytes, op->records.view},
        .operands[KQ_STATUS] = {3, o->at[KQ_STATUS].bytes, {.offset = op->status.offset}},
    };
    assert_int_equal(kq_shape_make(&operation, &errors, &shape), KQ_OK);
    kq_reference_quantize(&shape, o->at[KQ_VALUES].host, o->at[KQ_RECORDS].expected, &status);
    expect_status(&o->at[KQ_STATUS], op->status.offset, status.lowest_bad, status.bad_count,
                  status.done_count);
}
