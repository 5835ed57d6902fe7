#include "vulkan_instance.h"

#include "device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What an enumeration gives: one that came short, for there are more by now, is as good.
static kq_result check_listed(const kq_errors *errors, const char *call, VkResult result)
{
    return result == VK_INCOMPLETE ? KQ_OK : kq_vulkan_check(errors, call, result);
}

static bool has_name(const VkExtensionProperties *properties, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(properties[i].extensionName, name) == 0) {
            return true;
        }
    }
    return false;
}

static kq_result allocate_properties(const kq_errors *errors, uint32_t count,
                                     VkExtensionProperties **properties)
{
    *properties = calloc(count, sizeof **properties);
    return *properties != NULL
               ? KQ_OK
               : kq_fail(errors, KQ_ERROR_MEMORY, "out of host memory for a list of extensions");
}

// Devices that only emulate Vulkan in part (MoltenVK) are shown on request.
static kq_result has_portability(PFN_vkGetInstanceProcAddr get, const kq_errors *errors, bool *has)
{
    const char *call = "vkEnumerateInstanceExtensionProperties";
    PFN_vkEnumerateInstanceExtensionProperties enumerate =
        (PFN_vkEnumerateInstanceExtensionProperties)get(NULL, call);
    VkExtensionProperties *properties = NULL;
    uint32_t count = 0;
    *has = false;
    kq_result result =
        enumerate != NULL ? check_listed(errors, call, enumerate(NULL, &count, NULL)) : KQ_OK;
    if (result != KQ_OK || count == 0) {
        return result;
    }
    result = allocate_properties(errors, count, &properties);
    if (result == KQ_OK) {
        result = check_listed(errors, call, enumerate(NULL, &count, properties));
    }
    *has = result == KQ_OK &&
           has_name(properties, count, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    free(properties);
    return result;
}

kq_result kq_vulkan_instance_create(const kq_lookup *lookup, const kq_errors *errors,
                                    kq_vulkan_instance *instance)
{
    memset(instance, 0, sizeof *instance);
    PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)kq_find_vulkan(lookup);
    PFN_vkCreateInstance create =
        get != NULL ? (PFN_vkCreateInstance)get(NULL, "vkCreateInstance") : NULL;
    if (create == NULL) {
        return KQ_ERROR_NO_DEVICE;
    }
    instance->vkGetInstanceProcAddr = get;

    // 1.2 knows drivers' names; a 1.0 loader refuses anything above itself.
    PFN_vkEnumerateInstanceVersion enumerate =
        (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    instance->api_version = VK_API_VERSION_1_0;
    kq_result result = KQ_OK;
    if (enumerate != NULL) {
        result = kq_vulkan_check(errors, "vkEnumerateInstanceVersion",
                                 enumerate(&instance->api_version));
        instance->api_version =
            instance->api_version < VK_API_VERSION_1_2 ? instance->api_version : VK_API_VERSION_1_2;
    }
    bool portability = false;
    result = result != KQ_OK ? result : has_portability(get, errors, &portability);
    if (result != KQ_OK) {
        return result;
    }
    const char *extension = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "kquant",
        .apiVersion = instance->api_version,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
        .pApplicationInfo = &application,
        .enabledExtensionCount = portability ? 1 : 0,
        .ppEnabledExtensionNames = &extension,
    };
    VkResult created = create(&info, NULL, &instance->handle);
    if (created == VK_ERROR_INCOMPATIBLE_DRIVER) {
        return KQ_ERROR_NO_DEVICE;
    }
    result = kq_vulkan_check(errors, "vkCreateInstance", created);
    if (result != KQ_OK) {
        return result;
    }
    const char *missing = NULL;
#define LOAD_FUNCTION(name)                                                                        \
 instance->name = (PFN_##name)get(instance->handle, #name);                                        \
 missing = instance->name == NULL ? #name : missing;
    KQ_INSTANCE_FUNCTIONS(LOAD_FUNCTION)
#undef LOAD_FUNCTION
    if (instance->api_version >= VK_API_VERSION_1_1) {
        instance->vkGetPhysicalDeviceProperties2 = (PFN_vkGetPhysicalDeviceProperties2)get(
            instance->handle, "vkGetPhysicalDeviceProperties2");
    }
    if (missing != NULL) {
        kq_vulkan_instance_destroy(instance);
        return kq_fail(errors, KQ_ERROR_DRIVER, "the Vulkan loader has no %s", missing);
    }
    return KQ_OK;
}

void kq_vulkan_instance_destroy(kq_vulkan_instance *instance)
{
    if (instance->handle != VK_NULL_HANDLE && instance->vkDestroyInstance != NULL) {
        instance->vkDestroyInstance(instance->handle, NULL);
    }
    instance->handle = VK_NULL_HANDLE;
}

// A family with compute, best one without graphics, which is often busy with other things.
static bool find_queue_family(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                              kq_vulkan_candidate *candidate)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = sizeof families / sizeof *families;
    bool found = false;
    instance->vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        bool compute = (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
        bool graphics = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
        if (compute && (!found || !graphics)) {
            candidate->queue_family = i;
            candidate->timestamp_bits = families[i].timestampValidBits;
            found = true;
            if (!graphics) {
                break;
            }
        }
    }
    return found;
}

kq_result kq_vulkan_instance_devices(const kq_vulkan_instance *instance, const kq_errors *errors,
                                     kq_vulkan_candidate **candidates, uint32_t *count)
{
    uint32_t total = 0;
    VkPhysicalDevice *handles = NULL;
    *candidates = NULL;
    *count = 0;
    VkResult enumerated = instance->vkEnumeratePhysicalDevices(instance->handle, &total, NULL);
    kq_result result = kq_vulkan_check(errors, "vkEnumeratePhysicalDevices", enumerated);
    if (result != KQ_OK || total == 0) {
        return result;
    }
    handles = calloc(total, sizeof *handles);
    *candidates = calloc(total, sizeof **candidates);
    if (handles == NULL || *candidates == NULL) {
        result = kq_fail(errors, KQ_ERROR_MEMORY, "out of host memory for a list of devices");
        goto done;
    }
    enumerated = instance->vkEnumeratePhysicalDevices(instance->handle, &total, handles);
    result = check_listed(errors, "vkEnumeratePhysicalDevices", enumerated);
    for (uint32_t i = 0; i < total && result == KQ_OK; i++) {
        kq_vulkan_candidate candidate = {.handle = handles[i]};
        if (find_queue_family(instance, handles[i], &candidate)) {
            (*candidates)[(*count)++] = candidate;
        }
    }
done:
    free(handles);
    if (result != KQ_OK) {
        free(*candidates);
        *candidates = NULL;
    }
    return result;
}

void kq_vulkan_device_info(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                           kq_device_info *info)
{
    VkPhysicalDeviceProperties properties;
    instance->vkGetPhysicalDeviceProperties(device, &properties);
    info->api = KQ_API_VULKAN;
    info->is_software = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    info->is_discrete = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    snprintf(info->name, sizeof info->name, "%s", properties.deviceName);
    snprintf(info->driver, sizeof info->driver, "0x%08X", (unsigned)properties.driverVersion);
    if (instance->vkGetPhysicalDeviceProperties2 == NULL ||
        properties.apiVersion < VK_API_VERSION_1_1) {
        return;
    }
    bool has_driver =
        instance->api_version >= VK_API_VERSION_1_2 && properties.apiVersion >= VK_API_VERSION_1_2;
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
    };
    VkPhysicalDeviceIDProperties id = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
        .pNext = has_driver ? &driver : NULL,
    };
    VkPhysicalDeviceProperties2 properties2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &id,
    };
    instance->vkGetPhysicalDeviceProperties2(device, &properties2);
    for (unsigned i = 0; i < VK_UUID_SIZE; i++) {
        snprintf(info->uuid + 2 * i, 3, "%02x", id.deviceUUID[i]);
    }
    if (has_driver) {
        snprintf(info->driver, sizeof info->driver, "%s%s%s", driver.driverName,
                 driver.driverInfo[0] != '\0' ? ", " : "", driver.driverInfo);
    }
}

typedef struct property_writer {
    kq_property_fn *fn;
    void *user;
} property_writer;

static void write_number(const property_writer *to, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    to->fn(to->user, name, text);
}

static void write_hex(const property_writer *to, const char *name, uint32_t value)
{
    char text[24];
    snprintf(text, sizeof text, "0x%08" PRIX32, value);
    to->fn(to->user, name, text);
}

static void write_version(const property_writer *to, const char *name, uint32_t value)
{
    char text[48];
    snprintf(text, sizeof text, "%" PRIu32 ".%" PRIu32 ".%" PRIu32, VK_API_VERSION_MAJOR(value),
             VK_API_VERSION_MINOR(value), VK_API_VERSION_PATCH(value));
    to->fn(to->user, name, text);
}

static void write_uuid(const property_writer *to, const char *name, const uint8_t *uuid)
{
    char text[2 * VK_UUID_SIZE + 1];
    for (unsigned i = 0; i < VK_UUID_SIZE; i++) {
        snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    }
    to->fn(to->user, name, text);
}

// What 1.1 and 1.2 know.
static void write_newer(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                        bool has_driver, const property_writer *to)
{
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
    };
    VkPhysicalDeviceIDProperties id = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
        .pNext = has_driver ? &driver : NULL,
    };
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &id,
    };
    instance->vkGetPhysicalDeviceProperties2(device, &properties);
    write_uuid(to, "deviceUUID", id.deviceUUID);
    write_uuid(to, "driverUUID", id.driverUUID);
    if (has_driver) {
        char version[32];
        const VkConformanceVersion *c = &driver.conformanceVersion;
        snprintf(version, sizeof version, "%u.%u.%u.%u", c->major, c->minor, c->subminor, c->patch);
        write_number(to, "driverID", (uint64_t)driver.driverID);
        to->fn(to->user, "driverName", driver.driverName);
        to->fn(to->user, "driverInfo", driver.driverInfo);
        to->fn(to->user, "conformanceVersion", version);
    }
}

void kq_vulkan_properties(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                          kq_property_fn *fn, void *user)
{
    const property_writer to = {fn, user};
    VkPhysicalDeviceProperties properties;
    instance->vkGetPhysicalDeviceProperties(device, &properties);
    const VkPhysicalDeviceLimits *limits = &properties.limits;
    fn(user, "deviceName", properties.deviceName);
    write_hex(&to, "vendorID", properties.vendorID);
    write_hex(&to, "deviceID", properties.deviceID);
    write_hex(&to, "driverVersion", properties.driverVersion);
    write_version(&to, "apiVersion", properties.apiVersion);
    write_version(&to, "apiVersion of the instance", instance->api_version);
    write_number(&to, "deviceType", (uint64_t)properties.deviceType);
    write_uuid(&to, "pipelineCacheUUID", properties.pipelineCacheUUID);
    if (instance->vkGetPhysicalDeviceProperties2 != NULL &&
        properties.apiVersion >= VK_API_VERSION_1_1) {
        write_newer(instance, device,
                    instance->api_version >= VK_API_VERSION_1_2 &&
                        properties.apiVersion >= VK_API_VERSION_1_2,
                    &to);
    }
    write_number(&to, "maxStorageBufferRange", limits->maxStorageBufferRange);
    write_number(&to, "minStorageBufferOffsetAlignment", limits->minStorageBufferOffsetAlignment);
    write_number(&to, "maxComputeWorkGroupCount[0]", limits->maxComputeWorkGroupCount[0]);
    write_number(&to, "maxComputeWorkGroupCount[1]", limits->maxComputeWorkGroupCount[1]);
    write_number(&to, "nonCoherentAtomSize", limits->nonCoherentAtomSize);
    write_number(&to, "largest buffer", kq_vulkan_max_buffer_bytes(instance, device));
}

// Of instance and device the lower version; of 1.0 nothing is to be asked in the newer way.
static uint32_t version_of(const kq_vulkan_instance *instance, VkPhysicalDevice device)
{
    VkPhysicalDeviceProperties properties;
    instance->vkGetPhysicalDeviceProperties(device, &properties);
    if (instance->vkGetPhysicalDeviceProperties2 == NULL) {
        return VK_API_VERSION_1_0;
    }
    return properties.apiVersion < instance->api_version ? properties.apiVersion
                                                         : instance->api_version;
}

kq_result kq_vulkan_has_packed_dot(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                                   const kq_errors *errors, bool *has)
{
    *has = false;
    if (version_of(instance, device) < VK_API_VERSION_1_1) {
        return KQ_OK;
    }
    kq_result result = kq_vulkan_has_extension(
        instance, device, errors, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, has);
    if (result != KQ_OK || !*has) {
        return result;
    }
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
    };
    VkPhysicalDeviceProperties2 properties2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &dot,
    };
    instance->vkGetPhysicalDeviceProperties2(device, &properties2);
    *has = dot.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
    return KQ_OK;
}

uint64_t kq_vulkan_max_buffer_bytes(const kq_vulkan_instance *instance, VkPhysicalDevice device)
{
    uint32_t version = version_of(instance, device);
    if (version < VK_API_VERSION_1_1) {
        return UINT64_MAX;
    }
    VkPhysicalDeviceMaintenance4Properties buffer = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
        .maxBufferSize = UINT64_MAX,
    };
    VkPhysicalDeviceMaintenance3Properties allocation = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
        .pNext = version >= VK_API_VERSION_1_3 ? &buffer : NULL,
        .maxMemoryAllocationSize = UINT64_MAX,
    };
    VkPhysicalDeviceProperties2 properties2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &allocation,
    };
    instance->vkGetPhysicalDeviceProperties2(device, &properties2);
    return allocation.maxMemoryAllocationSize < buffer.maxBufferSize
               ? allocation.maxMemoryAllocationSize
               : buffer.maxBufferSize;
}

kq_result kq_vulkan_has_extension(const kq_vulkan_instance *instance, VkPhysicalDevice device,
                                  const kq_errors *errors, const char *name, bool *has)
{
    const char *call = "vkEnumerateDeviceExtensionProperties";
    VkExtensionProperties *properties = NULL;
    uint32_t count = 0;
    *has = false;
    VkResult listed = instance->vkEnumerateDeviceExtensionProperties(device, NULL, &count, NULL);
    kq_result result = check_listed(errors, call, listed);
    if (result != KQ_OK || count == 0) {
        return result;
    }
    result = allocate_properties(errors, count, &properties);
    if (result == KQ_OK) {
        listed = instance->vkEnumerateDeviceExtensionProperties(device, NULL, &count, properties);
        result = check_listed(errors, call, listed);
    }
    *has = result == KQ_OK && has_name(properties, count, name);
    free(properties);
    return result;
}
