#include "wrapped_vulkan_inside.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// A library that goes by the loader's name needs another one's.
#ifndef WRAPPED_LOADER
# define WRAPPED_LOADER "libvulkan.so.1"
#endif

wrapped_state wrapped;

const char *const wrapped_layout_names[WRAPPED_LAYOUT_COUNT] = {
    "of_driver",           "unified",  "unified_no_cached",
    "unified_noncoherent", "discrete", "discrete_noncoherent",
    "no_cached",           "rebar",
};

const char *const wrapped_kind_names[WRAPPED_VULKAN_KIND_COUNT] = {
    "instance",   "device",          "buffer",         "memory",          "fence",
    "query pool", "command pool",    "command buffer", "descriptor pool", "descriptor set",
    "set layout", "pipeline layout", "pipeline cache", "shader module",   "pipeline",
};

// --- Counting and checking

void wrapped_count(const char *call)
{
    wrapped_vulkan_counts *counts = &wrapped.now->counts;
    for (int i = 0; i < WRAPPED_CALL_CAPACITY; i++) {
        if (counts->calls[i].name == NULL) {
            counts->calls[i].name = call;
        }
        if (strcmp(counts->calls[i].name, call) == 0) {
            counts->calls[i].count++;
            return;
        }
    }
    abort();
}

VkResult wrapped_enter(const char *call)
{
    wrapped_vulkan *w = wrapped.now;
    wrapped_count(call);
    return w->fail != NULL ? w->fail(w->fail_user, call, wrapped_vulkan_calls(w, call))
                           : VK_SUCCESS;
}

bool wrapped_loses(const char *call)
{
    const wrapped_vulkan *w = wrapped.now;
    return w->loses != NULL && w->loses(w->loses_user, call);
}

void wrapped_violate(const char *format, ...)
{
    char text[sizeof wrapped.now->violation];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "wrapped driver: %s\n", text);
    if (wrapped.now->violations++ == 0) {
        memcpy(wrapped.now->violation, text, sizeof text);
    }
    if (wrapped.now->aborts) {
        abort();
    }
}

wrapped_vulkan_object *wrapped_add(wrapped_vulkan_kind kind, uint64_t handle,
                                   const VkAllocationCallbacks *allocator)
{
    wrapped_vulkan_object *object = calloc(1, sizeof *object);
    if (object == NULL) {
        abort();
    }
    object->kind = kind;
    object->handle = handle;
    object->has_allocator = allocator != NULL;
    wrapped.now->counts.with_allocator += allocator != NULL;
    object->next = wrapped.now->objects;
    wrapped.now->objects = object;
    wrapped.now->live[kind]++;
    return object;
}

wrapped_vulkan_object *wrapped_find(wrapped_vulkan_kind kind, uint64_t handle)
{
    for (wrapped_vulkan_object *o = wrapped.now->objects; o != NULL; o = o->next) {
        if (o->kind == kind && o->handle == handle) {
            return o;
        }
    }
    if (handle != 0) {
        wrapped_violate("0x%llX is no %s", (unsigned long long)handle, wrapped_kind_names[kind]);
    }
    return NULL;
}

static bool is_from_pool(const wrapped_vulkan_object *o, wrapped_vulkan_kind pool_kind,
                         uint64_t pool)
{
    wrapped_vulkan_kind kind = pool_kind == WRAPPED_VULKAN_COMMAND_POOL
                                   ? WRAPPED_VULKAN_COMMAND_BUFFER
                                   : WRAPPED_VULKAN_DESCRIPTOR_SET;
    bool is_pool =
        pool_kind == WRAPPED_VULKAN_COMMAND_POOL || pool_kind == WRAPPED_VULKAN_DESCRIPTOR_POOL;
    return is_pool && o->kind == kind && o->pool == pool;
}

// Takes an object off the list, and out of those that refer to it.
static void remove_object(wrapped_vulkan_object *dropped)
{
    wrapped_vulkan_object **at = &wrapped.now->objects;
    while (*at != NULL) {
        wrapped_vulkan_object *o = *at;
        if (o == dropped) {
            *at = o->next;
            continue;
        }
        wrapped_vulkan_object **references[] = {&o->memory,     &o->pipeline,   &o->set,
                                                &o->buffers[0], &o->buffers[1], &o->buffers[2],
                                                &o->buffers[3]};
        for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
            *references[i] = *references[i] == dropped ? NULL : *references[i];
        }
        at = &o->next;
    }
    wrapped.now->live[dropped->kind]--;
    free(dropped->shadow);
    free(dropped->events);
    free(dropped);
}

void wrapped_drop(wrapped_vulkan_kind kind, uint64_t handle, const VkAllocationCallbacks *allocator)
{
    wrapped_vulkan_object *dropped = wrapped_find(kind, handle);
    if (dropped == NULL) {
        return;
    }
    if (dropped->has_allocator != (allocator != NULL)) {
        wrapped_violate("a %s was created with one allocator and destroyed with another",
                        wrapped_kind_names[kind]);
    }
    for (wrapped_vulkan_object *o = wrapped.now->objects, *next; o != NULL; o = next) {
        next = o->next;
        if (is_from_pool(o, kind, handle)) {
            wrapped_check_idle(o->kind, o->handle, "a call that destroys its pool");
            remove_object(o);
        }
    }
    remove_object(dropped);
}

void wrapped_vulkan_reset(wrapped_vulkan *w)
{
    memset(&w->counts, 0, sizeof w->counts);
    for (wrapped_vulkan_object *o = w->objects; o != NULL; o = o->next) {
        o->dispatches = 0;
    }
}

unsigned wrapped_vulkan_calls(const wrapped_vulkan *w, const char *name)
{
    for (int i = 0; i < WRAPPED_CALL_CAPACITY && w->counts.calls[i].name != NULL; i++) {
        if (strcmp(w->counts.calls[i].name, name) == 0) {
            return w->counts.calls[i].count;
        }
    }
    return 0;
}

int wrapped_vulkan_live(const wrapped_vulkan *w)
{
    int sum = 0;
    for (int kind = 0; kind < WRAPPED_VULKAN_KIND_COUNT; kind++) {
        sum += w->live[kind];
    }
    return sum;
}

// --- What is kept for the next opening

enum { KEPT_PIPELINE_CAPACITY = 32 };

static struct {
    VkInstance instance;
    VkDevice device;
    struct {
        uint64_t code;
        VkPipeline handle;
    } pipelines[KEPT_PIPELINE_CAPACITY];
    size_t pipeline_count;
} kept;

static bool is_kept_pipeline(VkPipeline pipeline)
{
    for (size_t i = 0; i < kept.pipeline_count; i++) {
        if (kept.pipelines[i].handle == pipeline) {
            return true;
        }
    }
    return false;
}

static VkResult make_kept_pipeline(VkDevice device, uint64_t code,
                                   const VkComputePipelineCreateInfo *info, VkPipeline *pipeline)
{
    for (size_t i = 0; i < kept.pipeline_count; i++) {
        if (kept.pipelines[i].code == code) {
            *pipeline = kept.pipelines[i].handle;
            return VK_SUCCESS;
        }
    }
    VkResult result =
        wrapped.vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, info, NULL, pipeline);
    if (kept.pipeline_count == KEPT_PIPELINE_CAPACITY) {
        abort();
    }
    if (result == VK_SUCCESS) {
        kept.pipelines[kept.pipeline_count].code = code;
        kept.pipelines[kept.pipeline_count++].handle = *pipeline;
    }
    return result;
}

// --- Instances

static PFN_vkVoidFunction next_of(VkInstance instance, const char *name)
{
    PFN_vkGetInstanceProcAddr direct = wrapped_vulkan_direct();
    return direct != NULL ? direct(instance, name) : NULL;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL take_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT type,
                                                   const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                   void *user)
{
    (void)type;
    wrapped_vulkan *w = user;
    // What it says of its own instrumentation, with each device, is no fault of ours.
    bool is_about_itself = w->validation == WRAPPED_VALIDATION_GPU && w->is_creating_device &&
                           severity == VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
    w->messages += !is_about_itself;
    fprintf(stderr, "validation: %s\n", data->pMessage);
    if (w->aborts && !is_about_itself) {
        abort();
    }
    return VK_FALSE;
}

static const char *const validation_layer = "VK_LAYER_KHRONOS_validation";

bool wrapped_vulkan_has_validation(void)
{
    PFN_vkEnumerateInstanceLayerProperties enumerate =
        (PFN_vkEnumerateInstanceLayerProperties)next_of(NULL, "vkEnumerateInstanceLayerProperties");
    VkLayerProperties layers[64];
    uint32_t count = sizeof layers / sizeof *layers;
    if (enumerate == NULL || enumerate(&count, layers) < VK_SUCCESS) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(layers[i].layerName, validation_layer) == 0) {
            return true;
        }
    }
    return false;
}

wrapped_validation wrapped_vulkan_validation(const char *argument)
{
    return strcmp(argument, "--validate") == 0       ? WRAPPED_VALIDATION_SYNCHRONIZATION
           : strcmp(argument, "--validate=gpu") == 0 ? WRAPPED_VALIDATION_GPU
                                                     : WRAPPED_VALIDATION_NONE;
}

static VkResult create_instance(const VkInstanceCreateInfo *info, uint32_t version,
                                const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next_of(NULL, "vkCreateInstance");
    if (wrapped.now->keeps) {
        VkResult result = kept.instance == NULL ? create(info, NULL, &kept.instance) : VK_SUCCESS;
        *instance = kept.instance;
        return result;
    }
    if (wrapped.now->validation == WRAPPED_VALIDATION_NONE) {
        return create(info, allocator, instance);
    }
    const VkValidationFeatureEnableEXT gpu[] = {
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT,
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT,
    };
    const VkValidationFeatureEnableEXT synchronization[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,
    };
    bool is_gpu = wrapped.now->validation == WRAPPED_VALIDATION_GPU;
    VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = info->pNext,
        .enabledValidationFeatureCount = is_gpu ? 2 : 1,
        .pEnabledValidationFeatures = is_gpu ? gpu : synchronization,
    };
    const char *extensions[8];
    uint32_t count = info->enabledExtensionCount;
    if (count > 7) {
        abort();
    }
    for (uint32_t i = 0; i < count; i++) {
        extensions[i] = info->ppEnabledExtensionNames[i];
    }
    extensions[count] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkInstanceCreateInfo changed = *info;
    VkApplicationInfo newer = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_1,
    };
    if (is_gpu && version < newer.apiVersion) {
        changed.pApplicationInfo = &newer;  // or the layer would not instrument anything
    }
    changed.pNext = &features;
    changed.enabledLayerCount = 1;
    changed.ppEnabledLayerNames = &validation_layer;
    changed.enabledExtensionCount = count + 1;
    changed.ppEnabledExtensionNames = extensions;
    return create(&changed, allocator, instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkCreateInstance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    wrapped_vulkan *w = wrapped.now;
    VkResult result = wrapped_enter("vkCreateInstance");
    uint32_t version = info->pApplicationInfo != NULL ? info->pApplicationInfo->apiVersion : 0;
    version = version == 0 ? VK_API_VERSION_1_0 : version;
    if (result == VK_SUCCESS && w->api_version != 0 && version > w->api_version) {
        result = VK_ERROR_INCOMPATIBLE_DRIVER;
    }
    if (result == VK_SUCCESS && w->hides_extensions && info->enabledExtensionCount > 0) {
        result = VK_ERROR_EXTENSION_NOT_PRESENT;
    }
    if (result != VK_SUCCESS) {
        memset(instance, WRAPPED_POISON, sizeof *instance);
        return result;
    }
    result = create_instance(info, version, allocator, instance);
    if (result != VK_SUCCESS) {
        return result;
    }
    wrapped_vulkan_object *object =
        wrapped_add(WRAPPED_VULKAN_INSTANCE, (uint64_t)(uintptr_t)*instance, allocator);
    object->version = version;
#define LOAD(name) wrapped.name = (PFN_##name)next_of(*instance, #name);
    WRAPPED_NEXT_FUNCTIONS(LOAD)
#undef LOAD
    PFN_vkCreateDebugUtilsMessengerEXT create_messenger =
        (PFN_vkCreateDebugUtilsMessengerEXT)next_of(*instance, "vkCreateDebugUtilsMessengerEXT");
    if (w->validation != WRAPPED_VALIDATION_NONE) {
        VkDebugUtilsMessengerCreateInfoEXT messenger_info = {
            .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
            .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                               VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
            .pfnUserCallback = take_message,
            .pUserData = w,
        };
        VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
        if (create_messenger == NULL ||
            create_messenger(*instance, &messenger_info, NULL, &messenger) != VK_SUCCESS) {
            abort();
        }
        object->messenger = (uint64_t)messenger;
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkDestroyInstance(VkInstance instance,
                                                            const VkAllocationCallbacks *allocator)
{
    wrapped_count("vkDestroyInstance");
    const wrapped_vulkan_object *object =
        wrapped_find(WRAPPED_VULKAN_INSTANCE, (uint64_t)(uintptr_t)instance);
    if (object != NULL && object->messenger != 0) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy = (PFN_vkDestroyDebugUtilsMessengerEXT)next_of(
            instance, "vkDestroyDebugUtilsMessengerEXT");
        destroy(instance, (VkDebugUtilsMessengerEXT)object->messenger, NULL);
    }
    if (instance != kept.instance) {
        wrapped.vkDestroyInstance(instance, allocator);
    }
    wrapped_drop(WRAPPED_VULKAN_INSTANCE, (uint64_t)(uintptr_t)instance, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkEnumerateInstanceVersion(uint32_t *version)
{
    VkResult result = wrapped_enter("vkEnumerateInstanceVersion");
    PFN_vkEnumerateInstanceVersion enumerate =
        (PFN_vkEnumerateInstanceVersion)next_of(NULL, "vkEnumerateInstanceVersion");
    if (result == VK_SUCCESS) {
        result = enumerate(version);
    }
    if (result == VK_SUCCESS && wrapped.now->api_version != 0) {
        *version = wrapped.now->api_version;
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkEnumerateInstanceExtensionProperties(
    const char *layer, uint32_t *count, VkExtensionProperties *properties)
{
    VkResult result = wrapped_enter("vkEnumerateInstanceExtensionProperties");
    PFN_vkEnumerateInstanceExtensionProperties enumerate =
        (PFN_vkEnumerateInstanceExtensionProperties)next_of(
            NULL, "vkEnumerateInstanceExtensionProperties");
    if (result == VK_SUCCESS && wrapped.now->hides_extensions) {
        *count = 0;
        return VK_SUCCESS;
    }
    return result != VK_SUCCESS ? result : enumerate(layer, count, properties);
}

// --- What a device shows

enum {
    D = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    V = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    C = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    H = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
};

static const VkMemoryPropertyFlags layouts[WRAPPED_LAYOUT_COUNT][WRAPPED_TYPE_CAPACITY] = {
    [WRAPPED_LAYOUT_UNIFIED] = {D | V | C | H},
    [WRAPPED_LAYOUT_UNIFIED_NO_CACHED] = {D | V | C},
    [WRAPPED_LAYOUT_UNIFIED_NONCOHERENT] = {D | V | H},
    [WRAPPED_LAYOUT_DISCRETE] = {D, V | C, V | C | H},
    [WRAPPED_LAYOUT_DISCRETE_NONCOHERENT] = {D, V, V | H},
    [WRAPPED_LAYOUT_NO_CACHED] = {D, V | C},
    [WRAPPED_LAYOUT_REBAR] = {D | V | C, V | C | H},
};

VkMemoryPropertyFlags wrapped_type_flags(uint32_t type)
{
    const wrapped_vulkan *w = wrapped.now;
    return w->layout == WRAPPED_LAYOUT_OF_DRIVER ? w->real_memory.memoryTypes[type].propertyFlags
                                                 : layouts[w->layout][type];
}

// Behind memory that the host reaches is coherent memory, which Vulkan promises, cached if
// possible.
static uint32_t find_real_type(VkMemoryPropertyFlags shown)
{
    const VkPhysicalDeviceMemoryProperties *real = &wrapped.now->real_memory;
    VkMemoryPropertyFlags wanted[] = {shown & V ? V | C | H : D, shown & V ? V | C : 0};
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < real->memoryTypeCount; i++) {
            if ((real->memoryTypes[i].propertyFlags & wanted[k]) == wanted[k]) {
                return i;
            }
        }
    }
    return 0;
}

static void learn_memory(VkPhysicalDevice device)
{
    wrapped_vulkan *w = wrapped.now;
    wrapped.vkGetPhysicalDeviceMemoryProperties(device, &w->real_memory);
    for (uint32_t i = 0; i < WRAPPED_TYPE_CAPACITY; i++) {
        w->real_type[i] = find_real_type(layouts[w->layout][i]);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkGetPhysicalDeviceMemoryProperties(
    VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *properties)
{
    wrapped_count("vkGetPhysicalDeviceMemoryProperties");
    learn_memory(device);
    wrapped_layout layout = wrapped.now->layout;
    *properties = wrapped.now->real_memory;
    if (layout == WRAPPED_LAYOUT_OF_DRIVER) {
        return;
    }
    VkMemoryHeap heap = properties->memoryHeaps[0];
    memset(properties, 0, sizeof *properties);
    properties->memoryHeapCount = 2;
    properties->memoryHeaps[0] = (VkMemoryHeap){heap.size, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    properties->memoryHeaps[1] = (VkMemoryHeap){heap.size, 0};
    for (uint32_t i = 0; i < WRAPPED_TYPE_CAPACITY && layouts[layout][i] != 0; i++) {
        properties->memoryTypes[i].propertyFlags = layouts[layout][i];
        properties->memoryTypes[i].heapIndex = layouts[layout][i] & D ? 0 : 1;
        properties->memoryTypeCount++;
    }
}

static void lower(VkPhysicalDeviceProperties *properties)
{
    const wrapped_vulkan *w = wrapped.now;
    VkPhysicalDeviceLimits *limits = &properties->limits;
    if (w->api_version != 0 && !w->finds_newer && properties->apiVersion > w->api_version) {
        properties->apiVersion = w->api_version;
    }
    if (w->is_least) {
        wrapped_lower_to_least(limits);
    }
    if (w->max_storage_buffer_range != 0) {
        limits->maxStorageBufferRange = w->max_storage_buffer_range;
    }
    for (int i = 0; i < 3 && w->max_groups != 0; i++) {
        limits->maxComputeWorkGroupCount[i] = w->max_groups;
    }
    if (w->offset_alignment > limits->minStorageBufferOffsetAlignment) {
        limits->minStorageBufferOffsetAlignment = w->offset_alignment;
    }
    if (w->layout != WRAPPED_LAYOUT_OF_DRIVER) {
        limits->nonCoherentAtomSize = WRAPPED_ATOM_BYTES;
    }
}

const VkPhysicalDeviceLimits *wrapped_limits(void)
{
    return &wrapped.now->limits;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkGetPhysicalDeviceProperties(
    VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
    wrapped_count("vkGetPhysicalDeviceProperties");
    wrapped.vkGetPhysicalDeviceProperties(device, properties);
    lower(properties);
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkGetPhysicalDeviceProperties2(
    VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties)
{
    wrapped_count("vkGetPhysicalDeviceProperties2");
    for (const wrapped_vulkan_object *o = wrapped.now->objects; o != NULL; o = o->next) {
        if (o->kind == WRAPPED_VULKAN_INSTANCE && o->version < VK_API_VERSION_1_1) {
            wrapped_violate("vkGetPhysicalDeviceProperties2 with an instance of version 1.0");
        }
    }
    wrapped.vkGetPhysicalDeviceProperties2(device, properties);
    lower(&properties->properties);
    VkBaseOutStructure *next = properties->pNext;
    for (; next != NULL; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES &&
            wrapped.now->max_allocation != 0) {
            ((VkPhysicalDeviceMaintenance3Properties *)next)->maxMemoryAllocationSize =
                wrapped.now->max_allocation;
        }
        if (next->sType ==
                VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES &&
            wrapped.now->accelerates_dots) {
            ((VkPhysicalDeviceShaderIntegerDotProductProperties *)next)
                ->integerDotProduct4x8BitPackedSignedAccelerated = VK_TRUE;
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkEnumeratePhysicalDevices(VkInstance instance,
                                                                         uint32_t *count,
                                                                         VkPhysicalDevice *devices)
{
    VkResult result = wrapped_enter("vkEnumeratePhysicalDevices");
    return result != VK_SUCCESS ? result
                                : wrapped.vkEnumeratePhysicalDevices(instance, count, devices);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkEnumerateDeviceExtensionProperties(
    VkPhysicalDevice device, const char *layer, uint32_t *count, VkExtensionProperties *properties)
{
    VkResult result = wrapped_enter("vkEnumerateDeviceExtensionProperties");
    if (result == VK_SUCCESS && wrapped.now->hides_extensions) {
        *count = 0;
        return VK_SUCCESS;
    }
    return result != VK_SUCCESS
               ? result
               : wrapped.vkEnumerateDeviceExtensionProperties(device, layer, count, properties);
}

// --- Devices

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkCreateDevice(VkPhysicalDevice physical_device,
                                                             const VkDeviceCreateInfo *info,
                                                             const VkAllocationCallbacks *allocator,
                                                             VkDevice *device)
{
    VkResult result = wrapped_enter("vkCreateDevice");
    if (result == VK_SUCCESS && wrapped.now->hides_extensions && info->enabledExtensionCount > 0) {
        result = VK_ERROR_EXTENSION_NOT_PRESENT;
    }
    if (result != VK_SUCCESS) {
        memset(device, WRAPPED_POISON, sizeof *device);
        return result;
    }
    wrapped_check_device(info);
    wrapped.now->is_creating_device = true;
    if (!wrapped.now->keeps) {
        result = wrapped.vkCreateDevice(physical_device, info, allocator, device);
    } else {
        result = kept.device == NULL
                     ? wrapped.vkCreateDevice(physical_device, info, NULL, &kept.device)
                     : VK_SUCCESS;
        *device = kept.device;
    }
    wrapped.now->is_creating_device = false;
    if (result == VK_SUCCESS) {
        VkPhysicalDeviceProperties properties;
        wrapped_add(WRAPPED_VULKAN_DEVICE, (uint64_t)(uintptr_t)*device, allocator);
        learn_memory(physical_device);
        wrapped.vkGetPhysicalDeviceProperties(physical_device, &properties);
        lower(&properties);
        wrapped.now->limits = properties.limits;
        memset(wrapped.now->is_hidden, 0, sizeof wrapped.now->is_hidden);
        wrapped.now->pending_count = 0;
        wrapped.now->written_count = 0;
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_vkDestroyDevice(VkDevice device,
                                                          const VkAllocationCallbacks *allocator)
{
    wrapped_count("vkDestroyDevice");
    for (int kind = 0; kind < WRAPPED_VULKAN_KIND_COUNT; kind++) {
        if (kind != WRAPPED_VULKAN_INSTANCE && kind != WRAPPED_VULKAN_DEVICE &&
            wrapped.now->live[kind] != 0 && wrapped.now->live[WRAPPED_VULKAN_DEVICE] == 1) {
            wrapped_violate("a device is destroyed before %d objects of it, each a %s",
                            wrapped.now->live[kind], wrapped_kind_names[kind]);
        }
    }
    if (device != kept.device) {
        wrapped.vkDestroyDevice(device, allocator);
    }
    wrapped_drop(WRAPPED_VULKAN_DEVICE, (uint64_t)(uintptr_t)device, allocator);
}

// --- Pipelines

WRAPPED_CREATE(PipelineCache, PIPELINE_CACHE)
WRAPPED_DESTROY(PipelineCache, PIPELINE_CACHE)
WRAPPED_DESTROY(ShaderModule, SHADER_MODULE)

static VKAPI_ATTR void VKAPI_CALL wrapped_vkDestroyPipeline(VkDevice device, VkPipeline pipeline,
                                                            const VkAllocationCallbacks *allocator)
{
    wrapped_count("vkDestroyPipeline");
    if (!is_kept_pipeline(pipeline)) {
        wrapped.vkDestroyPipeline(device, pipeline, allocator);
    }
    wrapped_drop(WRAPPED_VULKAN_PIPELINE, (uint64_t)pipeline, allocator);
}

static uint64_t digest(const uint32_t *words, size_t bytes)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < bytes / 4; i++) {
        hash = (hash ^ words[i]) * 0x100000001B3u;
    }
    return hash;
}

const char *wrapped_kernel_name(uint64_t code)
{
    size_t count = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    for (size_t k = 0; k < count; k++) {
        if (kernels[k].api == KQ_API_VULKAN &&
            digest(kernels[k].spirv, kernels[k].spirv_bytes) == code) {
            return kernels[k].name;
        }
    }
    return "";
}

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info,
                             const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    VkResult result = wrapped_enter("vkCreateShaderModule");
    if (result != VK_SUCCESS) {
        memset(module, WRAPPED_POISON, sizeof *module);
        return result;
    }
    wrapped_check_module(info->pCode, info->codeSize / 4);
    const wrapped_vulkan *w = wrapped.now;
    uint64_t code = digest(info->pCode, info->codeSize);
    VkShaderModuleCreateInfo changed = *info;
    uint32_t *words = NULL;
    if (w->spoil != NULL) {
        words = malloc(info->codeSize);
        if (words == NULL) {
            abort();
        }
        memcpy(words, info->pCode, info->codeSize);
        w->spoil(w->spoil_user, wrapped_kernel_name(code), words, info->codeSize / 4);
        changed.pCode = words;
    }
    result = wrapped.vkCreateShaderModule(device, &changed, allocator, module);
    free(words);
    if (result == VK_SUCCESS) {
        wrapped_add(WRAPPED_VULKAN_SHADER_MODULE, (uint64_t)*module, allocator)->code = code;
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL
wrapped_vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                 const VkComputePipelineCreateInfo *infos,
                                 const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    VkResult result = wrapped_enter("vkCreateComputePipelines");
    if (result != VK_SUCCESS) {
        // Of pipelines alone Vulkan says that those not made are null.
        memset(pipelines, 0, count * sizeof *pipelines);
        return result;
    }
    for (uint32_t i = 0; i < count && wrapped.now->keeps && result == VK_SUCCESS; i++) {
        const wrapped_vulkan_object *module =
            wrapped_find(WRAPPED_VULKAN_SHADER_MODULE, (uint64_t)infos[i].stage.module);
        result =
            make_kept_pipeline(device, module != NULL ? module->code : 0, &infos[i], &pipelines[i]);
    }
    if (!wrapped.now->keeps) {
        result =
            wrapped.vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    }
    wrapped.now->counts.with_cache +=
        wrapped_find(WRAPPED_VULKAN_PIPELINE_CACHE, (uint64_t)cache) != NULL ? count : 0;
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        const wrapped_vulkan_object *module =
            wrapped_find(WRAPPED_VULKAN_SHADER_MODULE, (uint64_t)infos[i].stage.module);
        wrapped_add(WRAPPED_VULKAN_PIPELINE, (uint64_t)pipelines[i], allocator)->code =
            module != NULL ? module->code : 0;
    }
    return result;
}

unsigned wrapped_vulkan_dispatches(const wrapped_vulkan *w, const char *prefix)
{
    unsigned sum = 0;
    for (const wrapped_vulkan_object *o = w->objects; o != NULL; o = o->next) {
        if (o->kind == WRAPPED_VULKAN_PIPELINE && o->dispatches > 0 &&
            strncmp(wrapped_kernel_name(o->code), prefix, strlen(prefix)) == 0) {
            sum += o->dispatches;
        }
    }
    return sum;
}

bool wrapped_vulkan_is_kernel(const wrapped_vulkan *w, uint64_t pipeline, const char *name)
{
    for (const wrapped_vulkan_object *o = w->objects; o != NULL; o = o->next) {
        if (o->kind == WRAPPED_VULKAN_PIPELINE && o->handle == pipeline) {
            return strcmp(wrapped_kernel_name(o->code), name) == 0;
        }
    }
    return false;
}

unsigned wrapped_vulkan_kernels(uint32_t ops)
{
    size_t count = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    unsigned sum = 0;
    for (size_t k = 0; k < count; k++) {
        sum += kernels[k].api == KQ_API_VULKAN && kernels[k].caps == 0 &&
               strcmp(kernels[k].name, "bandwidth.base") != 0 &&
               (ops == 0 || (ops & 1u << kernels[k].op) != 0);
    }
    return sum;
}

// --- Finding functions

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL wrapped_vkGetInstanceProcAddr(VkInstance instance,
                                                                              const char *name);

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL wrapped_vkGetDeviceProcAddr(VkDevice device,
                                                                            const char *name);

static const wrapped_entry entries[] = {
    WRAPPED_ENTRY(vkCreateInstance),
    WRAPPED_ENTRY(vkDestroyInstance),
    WRAPPED_ENTRY(vkEnumerateInstanceVersion),
    WRAPPED_ENTRY(vkEnumerateInstanceExtensionProperties),
    WRAPPED_ENTRY(vkEnumeratePhysicalDevices),
    WRAPPED_ENTRY(vkEnumerateDeviceExtensionProperties),
    WRAPPED_ENTRY(vkGetPhysicalDeviceProperties),
    WRAPPED_ENTRY(vkGetPhysicalDeviceProperties2),
    WRAPPED_ENTRY(vkGetPhysicalDeviceMemoryProperties),
    WRAPPED_ENTRY(vkGetInstanceProcAddr),
    WRAPPED_ENTRY(vkGetDeviceProcAddr),
    WRAPPED_ENTRY(vkCreateDevice),
    WRAPPED_ENTRY(vkDestroyDevice),
    WRAPPED_ENTRY(vkCreatePipelineCache),
    WRAPPED_ENTRY(vkDestroyPipelineCache),
    WRAPPED_ENTRY(vkCreateShaderModule),
    WRAPPED_ENTRY(vkDestroyShaderModule),
    WRAPPED_ENTRY(vkCreateComputePipelines),
    WRAPPED_ENTRY(vkDestroyPipeline),
    {NULL, NULL},
};

// Functions with nothing to see: they answer for themselves.
static const char *const passed[] = {
    "vkEnumerateInstanceLayerProperties",
    "vkGetPhysicalDeviceQueueFamilyProperties",
    "vkGetDeviceQueue",
    "vkGetPipelineCacheData",
};

static PFN_vkVoidFunction find_entry(const char *name)
{
    const wrapped_entry *const lists[] = {entries, wrapped_work_entries, wrapped_queue_entries,
                                          wrapped_least_entries};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const wrapped_entry *entry = lists[i]; entry->name != NULL; entry++) {
            if (strcmp(entry->name, name) == 0) {
                return entry->function;
            }
        }
    }
    return NULL;
}

static PFN_vkVoidFunction find(VkInstance instance, const char *name)
{
    const wrapped_vulkan *w = wrapped.now;
    bool is_newer = strcmp(name, "vkEnumerateInstanceVersion") == 0 ||
                    strcmp(name, "vkGetPhysicalDeviceProperties2") == 0;
    if (is_newer && w->api_version == VK_API_VERSION_1_0 && !w->finds_newer) {
        return NULL;
    }
    if (w->lacks != NULL && w->lacks(w->lacks_user, name)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (strcmp(passed[i], name) == 0) {
            return next_of(instance, name);
        }
    }
    PFN_vkVoidFunction function = find_entry(name);
    return function != NULL && next_of(instance, name) != NULL ? function : NULL;
}

static PFN_vkVoidFunction VKAPI_CALL wrapped_vkGetInstanceProcAddr(VkInstance instance,
                                                                   const char *name)
{
    return find(instance, name);
}

static PFN_vkVoidFunction VKAPI_CALL wrapped_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
    PFN_vkVoidFunction next = wrapped.vkGetDeviceProcAddr(device, name);
    if (wrapped.now->lacks != NULL && wrapped.now->lacks(wrapped.now->lacks_user, name)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (strcmp(passed[i], name) == 0) {
            return next;
        }
    }
    PFN_vkVoidFunction function = find_entry(name);
    return next != NULL ? function : NULL;
}

PFN_vkGetInstanceProcAddr wrapped_vulkan_direct(void)
{
    // A loader opened twice is the same one, and drivers don't survive being unloaded.
    void *library = dlopen(WRAPPED_LOADER, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    PFN_vkGetInstanceProcAddr get = NULL;
    memcpy(&get, &symbol, sizeof get);
    return get;
}

PFN_vkGetInstanceProcAddr wrapped_vulkan_get(wrapped_vulkan *w)
{
    wrapped.now = w;
    return wrapped_vulkan_direct() != NULL ? wrapped_vkGetInstanceProcAddr : NULL;
}

static kq_proc look_up(void *user, const char *name)
{
    return strcmp(name, "vkGetInstanceProcAddr") == 0 ? (kq_proc)wrapped_vulkan_get(user) : NULL;
}

kq_lookup wrapped_vulkan_lookup(wrapped_vulkan *w)
{
    return (kq_lookup){look_up, w};
}
