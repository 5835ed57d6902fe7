// Level 2 on Vulkan, with a driver of a few functions that only looks at what it is given: queries,
// write_set and record take what CONTRACT.md allows and nothing else, bind ranges that hold the
// operands and lie in their buffers and within limits, and dispatch what the query said.
#include "api.h"

#include <kquant/vulkan.h>

#include <string.h>

typedef api_wide wide;

enum { MOST_DISPATCHES = 2000, BINDINGS = 4 };

// The driver, and what it was given since it was last reset.
static VkPhysicalDeviceLimits limits;
static api_model model;
static struct {
    VkDescriptorBufferInfo bound[BINDINGS];
    uint32_t writes, binds;
    uint64_t dispatches;
} given;
static unsigned tells;

static void tell(void *user, kq_result result, const char *reason)
{
    (void)user;
    REQUIRE(result != KQ_OK && reason[0] != '\0' && strchr(reason, '\n') == NULL);
    tells++;
}

// --- The driver

static VkBuffer handle_of(int b)
{
    return b < 0 ? VK_NULL_HANDLE : (VkBuffer)(uintptr_t)(b + 1);
}

#define CREATE(name, info, handle)                                                                 \
 static VKAPI_ATTR VkResult VKAPI_CALL name(VkDevice device, const info *what,                     \
                                            const VkAllocationCallbacks *with, handle *made)       \
 {                                                                                                 \
  (void)device, (void)what, (void)with;                                                            \
  *made = (handle)(uintptr_t)1;                                                                    \
  return VK_SUCCESS;                                                                               \
 }
#define DESTROY(name, handle)                                                                      \
 static VKAPI_ATTR void VKAPI_CALL name(VkDevice device, handle what,                              \
                                        const VkAllocationCallbacks *with)                         \
 {                                                                                                 \
  (void)device, (void)what, (void)with;                                                            \
 }
CREATE(create_module, VkShaderModuleCreateInfo, VkShaderModule)
CREATE(create_set_layout, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout)
CREATE(create_layout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
DESTROY(destroy_module, VkShaderModule)
DESTROY(destroy_set_layout, VkDescriptorSetLayout)
DESTROY(destroy_layout, VkPipelineLayout)
DESTROY(destroy_pipeline, VkPipeline)

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache,
                                                       uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *with,
                                                       VkPipeline *made)
{
    (void)device, (void)cache, (void)infos, (void)with;
    REQUIRE(count == 1);
    *made = (VkPipeline)(uintptr_t)1;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice device, uint32_t count,
                                              const VkWriteDescriptorSet *writes,
                                              uint32_t copy_count,
                                              const VkCopyDescriptorSet *copies)
{
    (void)device, (void)copies;
    REQUIRE(copy_count == 0);
    for (uint32_t i = 0; i < count; i++) {
        const VkDescriptorBufferInfo *info = writes[i].pBufferInfo;
        REQUIRE(writes[i].descriptorCount == 1 && writes[i].dstBinding < BINDINGS);
        const uintptr_t b = (uintptr_t)info->buffer - 1;
        REQUIRE(b < API_BUFFERS);
        REQUIRE(info->offset % limits.minStorageBufferOffsetAlignment == 0);
        REQUIRE(info->range > 0 && info->range <= limits.maxStorageBufferRange);
        REQUIRE((wide)info->offset + info->range <= model.sizes[b]);
        given.bound[writes[i].dstBinding] = *info;
        given.writes++;
    }
}

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                VkPipeline pipeline)
{
    (void)commands;
    REQUIRE(point == VK_PIPELINE_BIND_POINT_COMPUTE && pipeline != VK_NULL_HANDLE);
    given.binds++;
}

static VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer commands, VkPipelineBindPoint point,
                                            VkPipelineLayout layout, uint32_t first, uint32_t count,
                                            const VkDescriptorSet *sets, uint32_t dynamic_count,
                                            const uint32_t *dynamic)
{
    (void)commands, (void)layout, (void)sets, (void)dynamic;
    REQUIRE(point == VK_PIPELINE_BIND_POINT_COMPUTE && first == 0 && count == 1);
    REQUIRE(dynamic_count == 0);
}

static VKAPI_ATTR void VKAPI_CALL push(VkCommandBuffer commands, VkPipelineLayout layout,
                                       VkShaderStageFlags stages, uint32_t offset, uint32_t size,
                                       const void *values)
{
    (void)commands, (void)layout, (void)stages, (void)values;
    REQUIRE(offset % 4 == 0 && size % 4 == 0 && size > 0 && offset + size <= 128);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y,
                                           uint32_t z)
{
    (void)commands;
    REQUIRE(x > 0 && x <= limits.maxComputeWorkGroupCount[0]);
    REQUIRE(y > 0 && y <= limits.maxComputeWorkGroupCount[1] && z == 1);
    REQUIRE(given.binds > 0);
    given.dispatches++;
}

static VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer commands, VkPipelineStageFlags from,
                                          VkPipelineStageFlags to, VkDependencyFlags flags,
                                          uint32_t memory_count, const VkMemoryBarrier *memory,
                                          uint32_t buffer_count,
                                          const VkBufferMemoryBarrier *buffer, uint32_t image_count,
                                          const VkImageMemoryBarrier *image)
{
    (void)commands, (void)flags, (void)memory_count, (void)memory, (void)buffer, (void)image;
    REQUIRE(from == VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT && to == from);
    REQUIRE(buffer_count + image_count == 0 && given.dispatches > 0);
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device,
                                                 VkPhysicalDeviceProperties *properties)
{
    (void)device;
    memset(properties, 0, sizeof *properties);
    properties->limits = limits;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find(VkDevice device, const char *name)
{
    (void)device;
    const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } all[] = {
        {"vkCreateShaderModule", (PFN_vkVoidFunction)create_module},
        {"vkDestroyShaderModule", (PFN_vkVoidFunction)destroy_module},
        {"vkCreateDescriptorSetLayout", (PFN_vkVoidFunction)create_set_layout},
        {"vkDestroyDescriptorSetLayout", (PFN_vkVoidFunction)destroy_set_layout},
        {"vkCreatePipelineLayout", (PFN_vkVoidFunction)create_layout},
        {"vkDestroyPipelineLayout", (PFN_vkVoidFunction)destroy_layout},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
        {"vkDestroyPipeline", (PFN_vkVoidFunction)destroy_pipeline},
        {"vkUpdateDescriptorSets", (PFN_vkVoidFunction)update_sets},
        {"vkCmdBindPipeline", (PFN_vkVoidFunction)bind_pipeline},
        {"vkCmdBindDescriptorSets", (PFN_vkVoidFunction)bind_sets},
        {"vkCmdPushConstants", (PFN_vkVoidFunction)push},
        {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
        {"vkCmdPipelineBarrier", (PFN_vkVoidFunction)barrier},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return all[i].function;
        }
    }
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find_first(VkInstance instance, const char *name)
{
    (void)instance;
    return strcmp(name, "vkGetDeviceProcAddr") == 0             ? (PFN_vkVoidFunction)find
           : strcmp(name, "vkGetPhysicalDeviceProperties") == 0 ? (PFN_vkVoidFunction)get_properties
                                                                : NULL;
}

// --- What must be so

typedef struct range {
    int b;
    uint64_t offset;
} range;

// An operation of level 2: status, or scratch, comes last, and a dot may be cut.
typedef struct operation {
    api_operation api;
    range last;
    kq_part part;
    bool has_part;
} operation;

static bool is_done(const operation *o)
{
    const uint32_t *count = o->api.repeat.count;
    return o->api.is_dot ? !o->api.has_repeat || (count[0] > 0 && count[1] > 0)
                         : o->api.views[0].G > 0;
}

// Whether a range of so many bytes, on a word, lies in its buffer and apart from what is used.
static bool is_range_legal(const operation *o, uint64_t bytes)
{
    if (o->last.offset % 4 != 0 || o->last.b < 0 ||
        (wide)o->last.offset + bytes > model.sizes[o->last.b]) {
        return false;
    }
    const int operands = o->api.is_dot ? 3 : 2;
    for (int role = 0; role < operands; role++) {
        bool is_used = is_done(o) && (role == 2 || o->api.views[0].G > 0);
        if (is_used && o->api.buffers[role] == o->last.b &&
            (wide)o->last.offset < api_end(&o->api, role) &&
            o->api.views[role].offset < (wide)o->last.offset + bytes) {
            return false;
        }
    }
    return true;
}

static bool is_part_legal(const operation *o)
{
    const uint32_t G = o->api.views[0].G, first = o->part.first, total = o->part.total;
    wide power = 1;
    while (power < G) {
        power *= 2;
    }
    if (!o->has_part) {
        return true;
    }
    if ((G == 0 && total > 0) || (wide)first + G > total) {
        return false;
    }
    return o->api.order == KQ_ORDER_SEQUENTIAL || G == 0 ||
           ((power == G || first + G == total) && first % power == 0);
}

static bool is_legal(const operation *o)
{
    if (!api_is_legal(&model, &o->api)) {
        return false;
    }
    return o->api.is_dot ? is_part_legal(o)
                         : o->last.offset % 4 == 0 && (!is_done(o) || is_range_legal(o, 16));
}

// Whether all words in which operands end lie in their buffers.
static bool has_words(const operation *o)
{
    for (int role = 0; role < (o->api.is_dot ? 3 : 2); role++) {
        bool is_used = is_done(o) && (role == 2 || o->api.views[0].G > 0);
        if (is_used && (api_end(&o->api, role) + 3) / 4 * 4 > model.sizes[o->api.buffers[role]]) {
            return false;
        }
    }
    return true;
}

static void check_bound(const operation *o)
{
    for (int role = 0; role < (o->api.is_dot ? 3 : 2); role++) {
        const VkDescriptorBufferInfo *bound = &given.bound[role];
        if (is_done(o) && (role == 2 || o->api.views[0].G > 0)) {
            REQUIRE(bound->buffer == handle_of(o->api.buffers[role]));
            REQUIRE(bound->offset <= o->api.views[role].offset);
            REQUIRE((wide)bound->offset + bound->range >= api_end(&o->api, role));
        }
    }
}

// --- Calls

typedef enum action { QUERY, WRITE_SET, RECORD } action;

static kq_vulkan_view view_of(const operation *o, int role)
{
    const int b = o->api.buffers[role];
    return (kq_vulkan_view){handle_of(b), b < 0 ? 0 : model.sizes[b], o->api.views[role]};
}

static kq_vulkan_range range_of(range r)
{
    return (kq_vulkan_range){handle_of(r.b), r.b < 0 ? 0 : model.sizes[r.b], r.offset};
}

static kq_result call(const kq_vulkan *pack, const operation *o, action action, kq_needs *needs)
{
    const VkDescriptorSet set = (VkDescriptorSet)(uintptr_t)1;
    const VkCommandBuffer commands = (VkCommandBuffer)(uintptr_t)1;
    kq_result result;
    memset(&given, 0, sizeof given);
    tells = 0;
    if (!o->api.is_dot) {
        const kq_vulkan_quantize op = {
            .format = (kq_format)o->api.formats[0],
            .values = view_of(o, 0),
            .records = view_of(o, 1),
            .status = range_of(o->last),
        };
        result = action == QUERY       ? kq_vulkan_quantize_query(pack, &op, needs)
                 : action == WRITE_SET ? kq_vulkan_quantize_write_set(pack, &op, set)
                                       : kq_vulkan_quantize_record(pack, &op, set, commands);
    } else {
        const kq_vulkan_quantized_dot op = {
            .lhs_format = (kq_format)o->api.formats[0],
            .rhs_format = (kq_format)o->api.formats[1],
            .acc = (kq_accumulator)o->api.acc,
            .order = (kq_order)o->api.order,
            .lhs = view_of(o, 0),
            .rhs = view_of(o, 1),
            .result = range_of((range){o->api.buffers[2], o->api.views[2].offset}),
            .scratch = range_of(o->last),
            .repeat = o->api.has_repeat ? &o->api.repeat : NULL,
            .part = o->has_part ? &o->part : NULL,
        };
        result = action == QUERY       ? kq_vulkan_quantized_dot_query(pack, &op, needs)
                 : action == WRITE_SET ? kq_vulkan_quantized_dot_write_set(pack, &op, set)
                                       : kq_vulkan_quantized_dot_record(pack, &op, set, commands);
    }
    REQUIRE(tells == (result == KQ_OK ? 0 : 1));
    REQUIRE(result == KQ_OK || given.writes + given.binds + given.dispatches == 0);
    return result;
}

// The largest counts that fit do fit.
static void check_largest(const kq_vulkan *pack, const operation *o, const kq_needs *needs)
{
    kq_needs again;
    operation smaller = *o;
    if (needs->largest_G < o->api.views[0].G && !o->has_part) {
        smaller.api.views[0].G = needs->largest_G;
        smaller.api.views[1].G = needs->largest_G;
        REQUIRE(call(pack, &smaller, QUERY, &again) == KQ_OK);
        REQUIRE(again.limit == NULL || needs->largest_G == 0);
    }
    smaller = *o;
    if (o->api.has_repeat && needs->largest_count < o->api.repeat.count[0]) {
        smaller.api.repeat.count[0] = needs->largest_count;
        REQUIRE(call(pack, &smaller, QUERY, &again) == KQ_OK);
        REQUIRE(again.limit == NULL || needs->largest_count == 0);
    }
}

static void operate(const kq_vulkan *pack, const operation *o)
{
    kq_needs needs;
    kq_result result = call(pack, o, QUERY, &needs);
    REQUIRE(result == (is_legal(o) ? KQ_OK : KQ_ERROR_ARGUMENT));
    if (result != KQ_OK) {
        REQUIRE(call(pack, o, WRITE_SET, NULL) == KQ_ERROR_ARGUMENT);
        REQUIRE(call(pack, o, RECORD, NULL) == KQ_ERROR_ARGUMENT);
        return;
    }
    const bool fits = needs.limit == NULL;
    const bool has_scratch =
        !o->api.is_dot || needs.scratch_bytes == 0 || is_range_legal(o, needs.scratch_bytes);
    REQUIRE(!fits || (needs.missing_bytes == 0) == has_words(o));
    REQUIRE(needs.missing_bytes <= 3);
    if (!fits) {
        REQUIRE(needs.needed > needs.limit_value);
        check_largest(pack, o, &needs);
    } else if (needs.dispatch_count > MOST_DISPATCHES) {
        return;
    }
    result = call(pack, o, WRITE_SET, NULL);
    if (result == KQ_OK && is_done(o)) {
        check_bound(o);
    }
    REQUIRE((result == KQ_OK) == (fits && has_words(o) && has_scratch));
    REQUIRE(result == KQ_OK || result == KQ_ERROR_ARGUMENT ||
            (result == KQ_ERROR_UNSUPPORTED && !fits));
    REQUIRE(call(pack, o, RECORD, NULL) == result);
    REQUIRE(result != KQ_OK || given.dispatches == needs.dispatch_count);
}

static operation draw(fuzz_input *in)
{
    operation o = {0};
    api_draw(in, &model, &o.api);
    const uint8_t kind = fuzz_byte(in);
    for (int role = 0; role < 3; role++) {
        o.api.buffers[role] = o.api.buffers[role] == API_STRANGER ? API_NULL : o.api.buffers[role];
    }
    o.last.b = kind % 8 == 7 ? API_NULL : kind % API_BUFFERS;
    o.last.offset = kind & 64 ? api_number(in, 16) : 0;
    o.has_part = o.api.is_dot && kind >= 160;
    if (o.has_part) {
        o.part.first = (uint32_t)api_number(in, o.api.views[0].G);
        o.part.total = o.part.first + o.api.views[0].G + (uint32_t)api_number(in, 1);
    }
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char there;
    static const uint32_t ranges[] = {UINT32_MAX, 1u << 27, 1u << 30, 65536};
    static const uint32_t groups[] = {65535, INT32_MAX, UINT32_MAX};
    fuzz_input in = {data, size};
    const uint8_t first = fuzz_byte(&in);
    limits.maxStorageBufferRange = ranges[first % 4];
    limits.minStorageBufferOffsetAlignment = (VkDeviceSize)1 << first / 4 % 9;
    limits.maxComputeWorkGroupCount[0] = groups[first / 64 % 3];
    limits.maxComputeWorkGroupCount[1] = groups[first / 64 % 2];
    limits.maxComputeWorkGroupCount[2] = 65535;
    for (int b = 0; b < API_BUFFERS; b++) {
        const uint64_t bytes = fuzz_number(&in, 2);
        model.bytes[b] = &there;  // which no call looks at
        model.sizes[b] = (bytes + 1) << (b == 0 ? 0 : fuzz_byte(&in) % 48);
    }
    kq_vulkan *pack = NULL;
    const kq_vulkan_params params = {
        .get_instance_proc_addr = find_first,
        .instance = (VkInstance)(uintptr_t)1,
        .physical_device = (VkPhysicalDevice)(uintptr_t)1,
        .device = (VkDevice)(uintptr_t)1,
        .caps = fuzz_byte(&in) & 1,
        .errors = {tell, NULL},
    };
    REQUIRE(kq_vulkan_create(&params, &pack) == KQ_OK);
    for (int k = 0; k < 4 && in.left > 0; k++) {
        const operation o = draw(&in);
        operate(pack, &o);
    }
    kq_vulkan_destroy(&pack);
    return 0;
}
