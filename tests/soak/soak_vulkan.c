// Level 2 on Vulkan: one device and one queue, on which each thread has its own pools. Every
// instance made here is under the validation layer.
#include "soak.h"

#include "../support.h"

#include <kquant/vulkan.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define INSTANCE_FUNCTIONS(f)                                                                      \
    f(vkEnumeratePhysicalDevices)                                                                  \
    f(vkGetPhysicalDeviceQueueFamilyProperties)                                                    \
    f(vkGetPhysicalDeviceMemoryProperties)                                                         \
    f(vkCreateDevice)                                                                              \
    f(vkGetDeviceProcAddr)

#define DEVICE_FUNCTIONS(f)                                                                        \
    f(vkDestroyDevice)                                                                             \
    f(vkGetDeviceQueue)                                                                            \
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
    f(vkCreateDescriptorPool)                                                                      \
    f(vkDestroyDescriptorPool)                                                                     \
    f(vkResetDescriptorPool)                                                                       \
    f(vkAllocateDescriptorSets)
// clang-format on

// --- Instances, and what the layer says

enum { INSTANCE_CAPACITY = 64 };

static struct {
    PFN_vkGetInstanceProcAddr get;
    bool is_validated;
    pthread_mutex_t mutex;
    struct {
        VkInstance instance;
        VkDebugUtilsMessengerEXT messenger;
    } instances[INSTANCE_CAPACITY];
    atomic_uint messages;
} loader = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static VKAPI_ATTR VkBool32 VKAPI_CALL take_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT type,
                                                   const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                   void *user)
{
    (void)severity;
    (void)type;
    (void)user;
    atomic_fetch_add(&loader.messages, 1);
    fprintf(stderr, "validation: %s\n", data->pMessage);
    return VK_FALSE;
}

// The place of an instance, or with NULL a free one.
static int place_of(VkInstance instance)
{
    for (int i = 0; i < INSTANCE_CAPACITY; i++) {
        if (loader.instances[i].instance == instance) {
            return i;
        }
    }
    abort();
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator,
                                                      VkInstance *instance)
{
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    const VkValidationFeatureEnableEXT synchronization =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    const char *extensions[8];
    VkDebugUtilsMessengerCreateInfoEXT messenger_info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .pNext = info->pNext,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = take_message,
    };
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &messenger_info,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = &synchronization,
    };
    VkInstanceCreateInfo changed = *info;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)loader.get(NULL, "vkCreateInstance");
    if (!loader.is_validated) {
        return create(info, allocator, instance);
    }
    if (info->enabledExtensionCount >= sizeof extensions / sizeof *extensions) {
        abort();
    }
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
        extensions[i] = info->ppEnabledExtensionNames[i];
    }
    extensions[changed.enabledExtensionCount++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    changed.ppEnabledExtensionNames = extensions;
    changed.enabledLayerCount = 1;
    changed.ppEnabledLayerNames = &layer;
    changed.pNext = &features;
    VkResult result = create(&changed, allocator, instance);
    if (result != VK_SUCCESS) {
        return result;
    }
    // The one that is chained hears of creation and destruction alone, where the loader has much to
    // say of layers in general.
    PFN_vkCreateDebugUtilsMessengerEXT create_messenger =
        (PFN_vkCreateDebugUtilsMessengerEXT)loader.get(*instance, "vkCreateDebugUtilsMessengerEXT");
    VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
    messenger_info.pNext = NULL;
    messenger_info.messageType |= VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
    if (create_messenger == NULL ||
        create_messenger(*instance, &messenger_info, NULL, &messenger) != VK_SUCCESS) {
        abort();
    }
    pthread_mutex_lock(&loader.mutex);
    int place = place_of(NULL);
    loader.instances[place].instance = *instance;
    loader.instances[place].messenger = messenger;
    pthread_mutex_unlock(&loader.mutex);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance,
                                                   const VkAllocationCallbacks *allocator)
{
    if (loader.is_validated) {
        pthread_mutex_lock(&loader.mutex);
        int place = place_of(instance);
        VkDebugUtilsMessengerEXT messenger = loader.instances[place].messenger;
        loader.instances[place].instance = NULL;
        pthread_mutex_unlock(&loader.mutex);
        ((PFN_vkDestroyDebugUtilsMessengerEXT)loader.get(
            instance, "vkDestroyDebugUtilsMessengerEXT"))(instance, messenger, NULL);
    }
    ((PFN_vkDestroyInstance)loader.get(instance, "vkDestroyInstance"))(instance, allocator);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_proc(VkInstance instance, const char *name)
{
    return strcmp(name, "vkCreateInstance") == 0    ? (PFN_vkVoidFunction)create_instance
           : strcmp(name, "vkDestroyInstance") == 0 ? (PFN_vkVoidFunction)destroy_instance
                                                    : loader.get(instance, name);
}

static kq_proc find(void *user, const char *name)
{
    (void)user;
    return strcmp(name, "vkGetInstanceProcAddr") == 0 ? (kq_proc)get_proc : NULL;
}

static kq_lookup vulkan_lookup(bool is_validated)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    // ISO C has no cast from an object pointer to a function pointer; POSIX promises the copy.
    memcpy(&loader.get, &symbol, sizeof loader.get);
    loader.is_validated = is_validated;
    return (kq_lookup){loader.get != NULL ? find : NULL, NULL};
}

static unsigned vulkan_messages(void)
{
    return atomic_load(&loader.messages);
}

// The layer has a message for each object that outlives its device.
static long vulkan_live(void)
{
    return 0;
}

// --- The engine

typedef struct vulkan_engine {
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;
    pthread_mutex_t queue_mutex;
    uint32_t queue_family, memory_type;
    kq_vulkan *pack;
    struct {
#define MEMBER(name) PFN_##name name;
        INSTANCE_FUNCTIONS(MEMBER) DEVICE_FUNCTIONS(MEMBER)
#undef MEMBER
    } vk;
} vulkan_engine;

typedef struct vulkan_lane {
    vulkan_engine *engine;
    VkCommandPool command_pool;
    VkCommandBuffer commands;
    VkDescriptorPool descriptor_pool;
    VkFence fence;
} vulkan_lane;

static bool choose(vulkan_engine *e)
{
    VkQueueFamilyProperties families[16];
    VkPhysicalDeviceMemoryProperties memory;
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t count = 1;
    VkResult result = e->vk.vkEnumeratePhysicalDevices(e->instance, &count, &e->physical_device);
    if (result < VK_SUCCESS || count == 0) {
        return false;
    }
    count = sizeof families / sizeof *families;
    e->vk.vkGetPhysicalDeviceQueueFamilyProperties(e->physical_device, &count, families);
    e->vk.vkGetPhysicalDeviceMemoryProperties(e->physical_device, &memory);
    while (e->queue_family < count &&
           (families[e->queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) {
        e->queue_family++;
    }
    while (e->memory_type < memory.memoryTypeCount &&
           (memory.memoryTypes[e->memory_type].propertyFlags & wanted) != wanted) {
        e->memory_type++;
    }
    return e->queue_family < count && e->memory_type < memory.memoryTypeCount;
}

static kq_vulkan_params pack_params(const vulkan_engine *e)
{
    return (kq_vulkan_params){
        .get_instance_proc_addr = get_proc,
        .instance = e->instance,
        .physical_device = e->physical_device,
        .device = e->device,
        .errors = soak_errors(),
    };
}

static void vulkan_close(void *engine)
{
    vulkan_engine *e = engine;
    kq_vulkan_destroy(&e->pack);
    if (e->device != VK_NULL_HANDLE) {
        e->vk.vkDestroyDevice(e->device, NULL);
    }
    if (e->instance != VK_NULL_HANDLE) {
        destroy_instance(e->instance, NULL);
    }
    pthread_mutex_destroy(&e->queue_mutex);
    free(e);
}

static bool open_instance(vulkan_engine *e)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_0,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    if (loader.get == NULL || create_instance(&info, NULL, &e->instance) != VK_SUCCESS) {
        return false;
    }
#define LOAD(name) e->vk.name = (PFN_##name)loader.get(e->instance, #name);
    INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    return choose(e);
}

static bool open_device(vulkan_engine *e)
{
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = e->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
    };
    if (e->vk.vkCreateDevice(e->physical_device, &info, NULL, &e->device) != VK_SUCCESS) {
        return false;
    }
#define LOAD(name) e->vk.name = (PFN_##name)e->vk.vkGetDeviceProcAddr(e->device, #name);
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    e->vk.vkGetDeviceQueue(e->device, e->queue_family, 0, &e->queue);
    const kq_vulkan_params params = pack_params(e);
    return kq_vulkan_create(&params, &e->pack) == KQ_OK;
}

static void *vulkan_open(void)
{
    vulkan_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    pthread_mutex_init(&e->queue_mutex, NULL);
    if (!open_instance(e) || !open_device(e)) {
        soak_complain("no Vulkan device, no validation layer, or no pack");
        vulkan_close(e);
        return NULL;
    }
    return e;
}

static void vulkan_lane_close(void *at)
{
    vulkan_lane *lane = at;
    vulkan_engine *e = lane->engine;
    e->vk.vkDestroyFence(e->device, lane->fence, NULL);
    e->vk.vkDestroyDescriptorPool(e->device, lane->descriptor_pool, NULL);
    e->vk.vkDestroyCommandPool(e->device, lane->command_pool, NULL);
    free(lane);
}

enum { SET_QUANTIZE, SET_DOT, SET_SELF_TEST, SET_COUNT };

static bool make_pools(vulkan_lane *lane)
{
    vulkan_engine *e = lane->engine;
    const VkCommandPoolCreateInfo command_pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = e->queue_family,
    };
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4 * SET_COUNT};
    const VkDescriptorPoolCreateInfo descriptor_pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = SET_COUNT,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    if (e->vk.vkCreateCommandPool(e->device, &command_pool, NULL, &lane->command_pool) !=
            VK_SUCCESS ||
        e->vk.vkCreateDescriptorPool(e->device, &descriptor_pool, NULL, &lane->descriptor_pool) !=
            VK_SUCCESS) {
        return false;
    }
    const VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = lane->command_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    return e->vk.vkAllocateCommandBuffers(e->device, &commands, &lane->commands) == VK_SUCCESS;
}

static void *vulkan_lane_open(void *engine)
{
    vulkan_lane *lane = calloc(1, sizeof *lane);
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (lane == NULL) {
        return NULL;
    }
    lane->engine = engine;
    if (lane->engine->vk.vkCreateFence(lane->engine->device, &fence, NULL, &lane->fence) !=
            VK_SUCCESS ||
        !make_pools(lane)) {
        vulkan_lane_close(lane);
        return NULL;
    }
    return lane;
}

// --- A job

enum { VALUES, RECORDS, LHS, RESULT, STATUS, SCRATCH, SELF_TEST, BUFFER_COUNT };

typedef struct vulkan_work {
    const kq_vulkan *pack;
    kq_vulkan *own_pack;
    VkDeviceMemory memory;
    VkBuffer buffers[BUFFER_COUNT];
    uint64_t bytes[BUFFER_COUNT];
    unsigned char *host[BUFFER_COUNT];
    kq_repeat repeat;
    kq_vulkan_quantize quantize;
    kq_vulkan_quantized_dot dot;
    kq_vulkan_range self_test;
    VkDescriptorSet sets[SET_COUNT];
} vulkan_work;

#define TRY(condition)                                                                             \
 do {                                                                                              \
  if (!(condition)) {                                                                              \
   return soak_complain("not so: %s", #condition);                                                 \
  }                                                                                                \
 } while (0)

static bool make_buffers(const vulkan_engine *e, vulkan_work *w)
{
    uint64_t offsets[BUFFER_COUNT];
    uint64_t total = 0;
    void *host = NULL;
    for (int i = 0; i < BUFFER_COUNT; i++) {
        const VkBufferCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
            .size = w->bytes[i],
            .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
        };
        VkMemoryRequirements needs;
        TRY(e->vk.vkCreateBuffer(e->device, &info, NULL, &w->buffers[i]) == VK_SUCCESS);
        e->vk.vkGetBufferMemoryRequirements(e->device, w->buffers[i], &needs);
        offsets[i] = (total + needs.alignment - 1) / needs.alignment * needs.alignment;
        total = offsets[i] + needs.size;
    }
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = total,
        .memoryTypeIndex = e->memory_type,
    };
    TRY(e->vk.vkAllocateMemory(e->device, &info, NULL, &w->memory) == VK_SUCCESS);
    TRY(e->vk.vkMapMemory(e->device, w->memory, 0, VK_WHOLE_SIZE, 0, &host) == VK_SUCCESS);
    for (int i = 0; i < BUFFER_COUNT; i++) {
        TRY(e->vk.vkBindBufferMemory(e->device, w->buffers[i], w->memory, offsets[i]) ==
            VK_SUCCESS);
        w->host[i] = (unsigned char *)host + offsets[i];
    }
    return true;
}

static void fill_operations(const soak_job *job, vulkan_work *w)
{
    w->repeat = soak_repeat(job);
    w->quantize = (kq_vulkan_quantize){
        .format = KQ_FORMAT_Q8_K,
        .values = {w->buffers[VALUES], w->bytes[VALUES], soak_values_view(job)},
        .records = {w->buffers[RECORDS], w->bytes[RECORDS], soak_records_view(job)},
        .status = {w->buffers[STATUS], w->bytes[STATUS], 0},
    };
    w->dot = (kq_vulkan_quantized_dot){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = job->order,
        .lhs = {w->buffers[LHS], w->bytes[LHS], soak_lhs_view(job)},
        .rhs = {w->buffers[RECORDS], w->bytes[RECORDS], soak_rhs_view(job)},
        .result = {w->buffers[RESULT], w->bytes[RESULT], job->result_offset},
        .scratch = {w->buffers[SCRATCH], w->bytes[SCRATCH], 0},
        .repeat = &w->repeat,
    };
    w->self_test = (kq_vulkan_range){w->buffers[SELF_TEST], w->bytes[SELF_TEST], 0};
}

static bool make_pack(const vulkan_engine *e, const soak_job *job, vulkan_work *w)
{
    w->pack = e->pack;
    if (job->way == SOAK_OWN_PACK) {
        kq_vulkan_params params = pack_params(e);
        params.ops = 1u << KQ_OP_QUANTIZE | 1u << KQ_OP_QUANTIZED_DOT;
        params.share_layouts = job->seed % 2 == 0 ? e->pack : NULL;
        TRY(kq_vulkan_create(&params, &w->own_pack) == KQ_OK);
        w->pack = w->own_pack;
    }
    return true;
}

static bool make_work(const vulkan_engine *e, const soak_job *job, const soak_data *data,
                      vulkan_work *w)
{
    const kq_status status = KQ_STATUS_PRESET;
    kq_needs needs;
    TRY(make_pack(e, job, w));
    w->bytes[VALUES] = soak_values_bytes(job);
    w->bytes[RECORDS] = soak_records_bytes(job);
    w->bytes[LHS] = soak_lhs_bytes(job);
    w->bytes[RESULT] = soak_result_bytes(job);
    w->bytes[STATUS] = sizeof status;
    w->bytes[SELF_TEST] = KQ_SELF_TEST_BYTES;
    w->bytes[SCRATCH] = 4;
    // What scratch it takes is asked before there are buffers: any that are not one another will
    // do.
    for (int i = 0; i < BUFFER_COUNT; i++) {
        const uintptr_t stand_in = (uintptr_t)i + 1;
        memcpy(&w->buffers[i], &stand_in, sizeof w->buffers[i]);
    }
    fill_operations(job, w);
    TRY(kq_vulkan_quantized_dot_query(w->pack, &w->dot, &needs) == KQ_OK && needs.limit == NULL);
    w->bytes[SCRATCH] = needs.scratch_bytes > 0 ? needs.scratch_bytes : 4;
    memset(w->buffers, 0, sizeof w->buffers);
    TRY(make_buffers(e, w));
    fill_operations(job, w);
    memcpy(w->host[VALUES], data->values, w->bytes[VALUES]);
    memcpy(w->host[RECORDS], data->records, w->bytes[RECORDS]);
    memcpy(w->host[LHS], data->lhs, w->bytes[LHS]);
    memcpy(w->host[RESULT], data->result, w->bytes[RESULT]);
    memcpy(w->host[STATUS], &status, sizeof status);
    memset(w->host[SCRATCH], POISON, w->bytes[SCRATCH]);
    kq_self_test_input(w->host[SELF_TEST]);
    return true;
}

static void put_barrier(const vulkan_lane *lane, VkAccessFlags next, VkPipelineStageFlags stage)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = next,
    };
    lane->engine->vk.vkCmdPipelineBarrier(lane->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                          stage, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static bool record(const vulkan_lane *lane, const soak_job *job, vulkan_work *w)
{
    const vulkan_engine *e = lane->engine;
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkDescriptorSetLayout layouts[SET_COUNT];
    for (int i = 0; i < SET_COUNT; i++) {
        layouts[i] = kq_vulkan_set_layout(w->pack);
    }
    const VkDescriptorSetAllocateInfo sets = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = lane->descriptor_pool,
        .descriptorSetCount = SET_COUNT,
        .pSetLayouts = layouts,
    };
    TRY(e->vk.vkResetDescriptorPool(e->device, lane->descriptor_pool, 0) == VK_SUCCESS);
    TRY(e->vk.vkAllocateDescriptorSets(e->device, &sets, w->sets) == VK_SUCCESS);
    TRY(kq_vulkan_quantize_write_set(w->pack, &w->quantize, w->sets[SET_QUANTIZE]) == KQ_OK);
    TRY(kq_vulkan_quantized_dot_write_set(w->pack, &w->dot, w->sets[SET_DOT]) == KQ_OK);
    TRY(e->vk.vkResetCommandPool(e->device, lane->command_pool, 0) == VK_SUCCESS);
    TRY(e->vk.vkBeginCommandBuffer(lane->commands, &begin) == VK_SUCCESS);
    if (job->way == SOAK_BROUGHT_TESTED) {
        const VkDescriptorSet set = w->sets[SET_SELF_TEST];
        TRY(kq_vulkan_self_test_write_set(w->pack, &w->self_test, set) == KQ_OK);
        TRY(kq_vulkan_self_test_record(w->pack, &w->self_test, set, lane->commands) == KQ_OK);
    }
    TRY(kq_vulkan_quantize_record(w->pack, &w->quantize, w->sets[SET_QUANTIZE], lane->commands) ==
        KQ_OK);
    put_barrier(lane, VK_ACCESS_SHADER_READ_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    TRY(kq_vulkan_quantized_dot_record(w->pack, &w->dot, w->sets[SET_DOT], lane->commands) ==
        KQ_OK);
    put_barrier(lane, VK_ACCESS_HOST_READ_BIT, VK_PIPELINE_STAGE_HOST_BIT);
    TRY(e->vk.vkEndCommandBuffer(lane->commands) == VK_SUCCESS);
    return true;
}

static bool submit(vulkan_lane *lane)
{
    vulkan_engine *e = lane->engine;
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &lane->commands,
    };
    TRY(e->vk.vkResetFences(e->device, 1, &lane->fence) == VK_SUCCESS);
    pthread_mutex_lock(&e->queue_mutex);
    VkResult result = e->vk.vkQueueSubmit(e->queue, 1, &info, lane->fence);
    pthread_mutex_unlock(&e->queue_mutex);
    TRY(result == VK_SUCCESS);
    TRY(e->vk.vkWaitForFences(e->device, 1, &lane->fence, VK_TRUE, UINT64_MAX) == VK_SUCCESS);
    return true;
}

static bool read_back(const soak_job *job, const vulkan_work *w, soak_data *data)
{
    kq_status status;
    memcpy(&status, w->host[STATUS], sizeof status);
    memcpy(data->records, w->host[RECORDS], w->bytes[RECORDS]);
    memcpy(data->result, w->host[RESULT], w->bytes[RESULT]);
    return soak_take_status(job, &status, data) &&
           (job->way != SOAK_BROUGHT_TESTED || judge_self_test(w->host[SELF_TEST]) == NULL);
}

static bool vulkan_run(void *at, const soak_job *job, soak_data *data)
{
    vulkan_lane *lane = at;
    const vulkan_engine *e = lane->engine;
    vulkan_work w = {0};
    soak_poison_outputs(job, data);
    if (job->seed % 8 == 1) {
        e->vk.vkDestroyDescriptorPool(e->device, lane->descriptor_pool, NULL);
        e->vk.vkDestroyCommandPool(e->device, lane->command_pool, NULL);
        TRY(make_pools(lane));
    }
    bool is_good = make_work(e, job, data, &w) && record(lane, job, &w) && submit(lane) &&
                   read_back(job, &w, data);
    // Sets and commands refer to what is destroyed next.
    e->vk.vkResetDescriptorPool(e->device, lane->descriptor_pool, 0);
    e->vk.vkResetCommandPool(e->device, lane->command_pool, 0);
    kq_vulkan_destroy(&w.own_pack);
    for (int i = 0; i < BUFFER_COUNT; i++) {
        e->vk.vkDestroyBuffer(e->device, w.buffers[i], NULL);
    }
    e->vk.vkFreeMemory(e->device, w.memory, NULL);
    return is_good;
}

const soak_api soak_vulkan = {
    .lookup = vulkan_lookup,
    .open = vulkan_open,
    .close = vulkan_close,
    .lane_open = vulkan_lane_open,
    .lane_close = vulkan_lane_close,
    .run = vulkan_run,
    .messages = vulkan_messages,
    .live = vulkan_live,
};
