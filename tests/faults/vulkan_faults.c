#include "vulkan_faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define HOST   VK_ERROR_OUT_OF_HOST_MEMORY
#define DEVICE VK_ERROR_OUT_OF_DEVICE_MEMORY
#define LOST   VK_ERROR_DEVICE_LOST
#define BEGUN  VK_ERROR_INITIALIZATION_FAILED
// clang-format on

enum { CODE_CAPACITY = 8 };

// VK_SUCCESS ends each list.
static const struct {
    const char *call;
    VkResult codes[CODE_CAPACITY];
} calls[] = {
    {"vkCreateInstance",
     {HOST, DEVICE, BEGUN, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_EXTENSION_NOT_PRESENT,
      VK_ERROR_INCOMPATIBLE_DRIVER, VK_ERROR_UNKNOWN}},
    {"vkEnumerateInstanceVersion", {HOST, VK_ERROR_UNKNOWN}},
    {"vkEnumerateInstanceExtensionProperties",
     {HOST, DEVICE, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_UNKNOWN}},
    {"vkEnumeratePhysicalDevices", {HOST, DEVICE, BEGUN, VK_ERROR_UNKNOWN}},
    {"vkEnumerateDeviceExtensionProperties",
     {HOST, DEVICE, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_UNKNOWN}},
    {"vkCreateDevice",
     {HOST, DEVICE, BEGUN, VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT,
      VK_ERROR_TOO_MANY_OBJECTS, LOST, VK_ERROR_UNKNOWN}},
    {"vkQueueSubmit", {HOST, DEVICE, LOST, VK_ERROR_UNKNOWN}},
    {"vkWaitForFences", {HOST, DEVICE, LOST, VK_TIMEOUT, VK_ERROR_UNKNOWN}},
    {"vkDeviceWaitIdle", {HOST, DEVICE, LOST, VK_ERROR_UNKNOWN}},
    {"vkGetQueryPoolResults", {HOST, DEVICE, LOST, VK_NOT_READY, VK_ERROR_UNKNOWN}},
    {"vkResetFences", {DEVICE, VK_ERROR_UNKNOWN}},
    {"vkResetCommandPool", {DEVICE, VK_ERROR_UNKNOWN}},
    {"vkAllocateMemory", {HOST, DEVICE, VK_ERROR_TOO_MANY_OBJECTS, VK_ERROR_UNKNOWN}},
    {"vkMapMemory", {HOST, DEVICE, VK_ERROR_MEMORY_MAP_FAILED, VK_ERROR_UNKNOWN}},
    {"vkCreateDescriptorPool", {HOST, DEVICE, VK_ERROR_FRAGMENTATION, VK_ERROR_UNKNOWN}},
    {"vkAllocateDescriptorSets",
     {HOST, DEVICE, VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY, VK_ERROR_UNKNOWN}},
    {"vkCreateShaderModule", {HOST, DEVICE, VK_ERROR_INVALID_SHADER_NV, VK_ERROR_UNKNOWN}},
    {"vkCreateComputePipelines", {HOST, DEVICE, VK_ERROR_INVALID_SHADER_NV, VK_ERROR_UNKNOWN}},
};

// Of all others: fences, buffers, binding, flushes, command and query pools, command buffers,
// layouts, pipeline caches.
static const VkResult codes_of_others[CODE_CAPACITY] = {HOST, DEVICE, VK_ERROR_UNKNOWN};

const VkResult *faults_codes(const char *call, size_t *count)
{
    const VkResult *codes = codes_of_others;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        codes = strcmp(call, calls[i].call) == 0 ? calls[i].codes : codes;
    }
    *count = 0;
    while (*count < CODE_CAPACITY && codes[*count] != VK_SUCCESS) {
        ++*count;
    }
    return codes;
}

kq_result faults_result_of(VkResult code)
{
    return code == HOST || code == DEVICE ? KQ_ERROR_MEMORY : KQ_ERROR_DRIVER;
}

static bool tells_of_loss(const char *call)
{
    static const char *const telling[] = {"vkQueueSubmit", "vkWaitForFences", "vkDeviceWaitIdle",
                                          "vkGetQueryPoolResults"};
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++) {
        if (strcmp(telling[i], call) == 0) {
            return true;
        }
    }
    return false;
}

VkResult faults_fail(void *user, const char *call, unsigned number)
{
    faults_hook *hook = user;
    (void)number;
    hook->seen++;
    if (hook->number == 0) {
        if (hook->seen > FAULTS_CALL_CAPACITY) {
            abort();
        }
        hook->names[hook->seen - 1] = call;
        return VK_SUCCESS;
    }
    bool stays_lost = hook->code == LOST && hook->failed != NULL && tells_of_loss(call);
    if (hook->seen != hook->number && !stays_lost) {
        return VK_SUCCESS;
    }
    hook->failed = hook->failed != NULL ? hook->failed : call;
    return hook->code;
}

bool faults_lose(void *user, const char *call)
{
    faults_loss *loss = user;
    bool is_one = strcmp(call, loss->call) == 0;
    loss->seen += is_one;
    return is_one && loss->seen == loss->number;
}

void faults_print(const char *what, faults_tally tally)
{
    printf("faults: %s: %u of %u survived\n", what, tally.survived, tally.made);
    fflush(stdout);
}
