// Level 3 up to an open device: what the listing holds, which device a name chooses, and the few
// calls that need none. Choosing is tried on drivers made up here, behind kq_lookup, and on those
// present.
//
// Usage: device_test. Built with -DKQ_HAS_VULKAN and -DKQ_HAS_OPENCL as the library is; the made-up
// drivers need both.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(KQ_HAS_VULKAN) && defined(KQ_HAS_OPENCL)
# define VK_NO_PROTOTYPES
# include <vulkan/vulkan_core.h>
# define CL_TARGET_OPENCL_VERSION 120
# include <CL/cl.h>
# include <CL/cl_ext.h>
#endif

#define MARK UINT32_C(0xABABABAB)

static report said;

// Opening a device gives `expected`; a failure is reported once, in one line that holds both words.
static void check_open(int line, const kq_lookup *lookup, const char *name, uint32_t ops,
                       kq_result expected, const char *word, const char *other_word,
                       kq_device **device)
{
    kq_device *made = (kq_device *)&said;
    const kq_device_params params = {
        .device = name,
        .lookup = lookup != NULL ? *lookup : (kq_lookup){NULL, NULL},
        .ops = ops,
        .errors = report_errors(&said),
    };
    memset(&said, 0, sizeof said);
    kq_result result = kq_device_create(&params, &made);
    if (result != expected || said.count != (result != KQ_OK) || said.result != result ||
        strpbrk(said.reason, "\r\n") != NULL || strstr(said.reason, word) == NULL ||
        strstr(said.reason, other_word) == NULL) {
        fail_msg("line %d: \"%s\" gave %s, not %s; %u reports, \"%s\"", line,
                 name != NULL ? name : "NULL", kq_result_name(result), kq_result_name(expected),
                 said.count, said.reason);
    }
    assert_int_equal(made != NULL, result == KQ_OK);
    if (device != NULL) {
        *device = made;
    } else {
        kq_device_destroy(&made);
        assert_null(made);
    }
}

// --- Without a device

static void test_result_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "KQ_OK",
        "KQ_ERROR_ARGUMENT",
        "KQ_ERROR_DOMAIN",
        "KQ_ERROR_UNSUPPORTED",
        "KQ_ERROR_NO_DEVICE",
        "KQ_ERROR_MEMORY",
        "KQ_ERROR_DRIVER",
    };
    for (int i = 0; i < 7; i++) {
        assert_string_equal(kq_result_name((kq_result)i), names[i]);
    }
    assert_string_equal(kq_result_name((kq_result)7), "KQ_?");
    assert_string_equal(kq_result_name((kq_result)-1), "KQ_?");
}

static void test_kernels(void **state)
{
    (void)state;
    size_t count = 0;
    const kq_kernel *kernels = kq_kernels(&count);
#if defined(KQ_HAS_VULKAN) || defined(KQ_HAS_OPENCL)
    assert_true(count > 0);
#else
    assert_true(count == 0);
#endif
    for (size_t i = 0; i < count; i++) {
        const kq_kernel *k = &kernels[i];
        bool is_opencl = k->api == KQ_API_OPENCL;
        assert_true(is_opencl || k->api == KQ_API_VULKAN);
        assert_in_range(k->op, KQ_OP_QUANTIZE, KQ_OP_SELF_TEST);
        assert_true(strstr(k->name, ".base") == NULL || k->caps == 0);
        if (is_opencl && strstr(k->name, ".cpu") != NULL) {
            assert_true(k->spirv == NULL && k->spirv_bytes == 0);
        } else {
            assert_true(k->spirv_bytes > 20 && k->spirv_bytes % 4 == 0);
            assert_int_equal(k->spirv[0], 0x07230203);
        }
        assert_true(is_opencl ? k->address_bits == 32 || k->address_bits == 64
                              : k->address_bits == 0);
        assert_int_equal(k->source != NULL, is_opencl);
        assert_true(!is_opencl || strlen(k->source) == k->source_bytes);
    }
}

static void test_block_reason(void **state)
{
    (void)state;
    unsigned char bytes[2 * KQ_BLOCK_BYTES + 1];
    uint32_t element = MARK;
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(kq_block_reason(bytes, 0, &element), KQ_REASON_NONE);
    // At an odd address, eight bytes apart, which is not what packed blocks show.
    unsigned char *values = bytes + 1;
    store_u32(values + 8 * 200, 0x02FE0000u);
    assert_int_equal(kq_block_reason(values, 8, &element), KQ_REASON_INVERSE_OVERFLOW);
    store_u32(values + 8 * 201, 0x82FE0001u);
    assert_int_equal(kq_block_reason(values, 8, &element), KQ_REASON_NONE);
    assert_int_equal(kq_block_reason(values, 0, &element), KQ_REASON_NONE);
    assert_int_equal(element, MARK);
    store_u32(values + 8 * 255, 0xFF800000u);
    store_u32(values + 8 * 254, 0x7F800001u);
    assert_int_equal(kq_block_reason(values, 8, &element), KQ_REASON_NONFINITE_INPUT);
    assert_int_equal(element, 254);
    assert_int_equal(kq_block_reason(values, 8, NULL), KQ_REASON_NONFINITE_INPUT);
    assert_int_equal(kq_block_reason(values, 0, NULL), KQ_REASON_NONE);
    store_u32(values + 4, 1u);
    assert_int_equal(kq_block_reason(values + 4, KQ_BROADCAST, NULL), KQ_REASON_INVERSE_OVERFLOW);
    assert_int_equal(kq_block_reason(values + 8 * 255, KQ_BROADCAST, &element),
                     KQ_REASON_NONFINITE_INPUT);
    assert_int_equal(element, 0);
}

static void test_refusals(void **state)
{
    (void)state;
    const kq_result none = KQ_ERROR_NO_DEVICE;
    check_open(__LINE__, NULL, "no such device", 0, none, "\"no such device\"", "", NULL);
    check_open(__LINE__, NULL, "reference:1", 0, none, "\"reference:1\"", "", NULL);
    check_open(__LINE__, NULL, "Reference", 0, none, "\"Reference\"", "", NULL);
    check_open(__LINE__, NULL, "", 0, none, "\"\"", "", NULL);
    check_open(__LINE__, NULL, "vulkan:4294967296", 0, none, "vulkan:4294967296", "", NULL);
    check_open(__LINE__, NULL, "opencl:-1", 0, none, "opencl:-1", "", NULL);
    check_open(__LINE__, NULL, "two\nlines\r", 0, none, "two lines", "", NULL);
    check_open(__LINE__, NULL, "reference", 0x1E, KQ_ERROR_ARGUMENT, "ops is 0x1E", "0xE", NULL);
    check_open(__LINE__, NULL, "reference", 1, KQ_ERROR_ARGUMENT, "ops is 0x1", "0xE", NULL);
    check_open(__LINE__, NULL, "reference", 1u << 31, KQ_ERROR_ARGUMENT, "ops", "0xE", NULL);
    check_open(__LINE__, NULL, "reference", 2, KQ_OK, "", "", NULL);
    check_open(__LINE__, NULL, "reference", 6, KQ_OK, "", "", NULL);
    kq_device *nothing = NULL;
    kq_buffer *no_buffer = NULL;
    kq_device_destroy(&nothing);
    kq_buffer_destroy(&no_buffer);
}

// All that a call must do where no one listens is return its code.
static void test_no_callback(void **state)
{
    (void)state;
    kq_device_params params = {.device = "no such device"};
    kq_device *silent;
    kq_buffer *buffer;
    unsigned char byte = 0;
    kq_quantize_args args = {.format = KQ_FORMAT_Q4_K};
    kq_quantized_dot_args dot = {.lhs_format = KQ_FORMAT_Q4_K};
    assert_int_equal(kq_device_create(&params, &silent), KQ_ERROR_NO_DEVICE);
    params.device = "reference";
    assert_int_equal(kq_device_create(&params, &silent), KQ_OK);
    assert_int_equal(kq_buffer_create(silent, 0, &buffer), KQ_ERROR_ARGUMENT);
    assert_int_equal(kq_buffer_create(silent, 1, &buffer), KQ_OK);
    assert_int_equal(kq_buffer_upload(buffer, 1, &byte, 1), KQ_ERROR_ARGUMENT);
    assert_int_equal(kq_quantize(silent, &args), KQ_ERROR_ARGUMENT);
    assert_int_equal(kq_quantized_dot(silent, &dot), KQ_ERROR_ARGUMENT);
    float values[KQ_BLOCK];
    memset(values, 0xFF, sizeof values);
    unsigned char record[KQ_Q8_K_BYTES];
    assert_int_equal(kq_quantize_host(silent, KQ_FORMAT_Q8_K, values, KQ_BLOCK, record, NULL),
                     KQ_ERROR_DOMAIN);
    kq_buffer_destroy(&buffer);
    kq_device_destroy(&silent);
}

// --- Drivers made up for the test: they list devices, and fail when one is to be opened

#if defined(KQ_HAS_VULKAN) && defined(KQ_HAS_OPENCL)
typedef enum kind { DISCRETE, INTEGRATED, VIRTUAL, SOFTWARE } kind;

typedef struct fake {
    kq_api api;
    kind kind;
    const char *name;
    unsigned char uuid;  // each of its bytes, where the API has one
} fake;

static const fake *world;
static uint32_t world_count;
static const fake *opened;  // what the library chose

// The index-th device of an API, or NULL.
static const fake *find_fake(kq_api api, uint32_t index)
{
    for (uint32_t i = 0; i < world_count; i++) {
        if (world[i].api == api && index-- == 0) {
            return &world[i];
        }
    }
    return NULL;
}

static uint32_t count_fakes(kq_api api)
{
    uint32_t count = 0;
    while (find_fake(api, count) != NULL) {
        count++;
    }
    return count;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                           const VkAllocationCallbacks *allocator,
                                           VkInstance *instance)
{
    (void)allocator;
    // No vkEnumerateInstanceVersion was found: this loader knows 1.0 only.
    assert_int_equal(info->pApplicationInfo->apiVersion, VK_API_VERSION_1_0);
    *instance = (VkInstance)(void *)&world;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    (void)allocator;
    assert_ptr_equal(instance, &world);
}

static VkResult VKAPI_CALL enumerate_devices(VkInstance instance, uint32_t *count,
                                             VkPhysicalDevice *devices)
{
    uint32_t present = count_fakes(KQ_API_VULKAN);
    assert_ptr_equal(instance, &world);
    *count = devices == NULL || present < *count ? present : *count;
    for (uint32_t i = 0; devices != NULL && i < *count; i++) {
        devices[i] = (VkPhysicalDevice)(uintptr_t)find_fake(KQ_API_VULKAN, i);
    }
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice device, const char *layer,
                                                uint32_t *count, VkExtensionProperties *extensions)
{
    (void)device;
    (void)layer;
    (void)extensions;
    *count = 0;
    return VK_SUCCESS;
}

static void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *p)
{
    static const VkPhysicalDeviceType types[] = {
        VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
        VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
        VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU,
        VK_PHYSICAL_DEVICE_TYPE_CPU,
    };
    const fake *f = (const fake *)(void *)device;
    memset(p, 0, sizeof *p);
    p->apiVersion = VK_API_VERSION_1_0;
    p->deviceType = types[f->kind];
    snprintf(p->deviceName, sizeof p->deviceName, "%s", f->name);
}

static void VKAPI_CALL get_queues(VkPhysicalDevice device, uint32_t *count,
                                  VkQueueFamilyProperties *families)
{
    (void)device;
    *count = 1;
    families[0] = (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 1};
}

static void VKAPI_CALL get_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *p)
{
    (void)device;
    memset(p, 0, sizeof *p);
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice device, const VkDeviceCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkDevice *made)
{
    (void)info;
    (void)allocator;
    (void)made;
    opened = (const fake *)(void *)device;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name)
{
    (void)device;
    (void)name;
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkDestroyInstance", (PFN_vkVoidFunction)destroy_instance},
        {"vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate_devices},
        {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)enumerate_extensions},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
        {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)get_queues},
        {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)get_memory},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_proc},
    };
    (void)instance;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return functions[i].function;
        }
    }
    return NULL;
}

static cl_int CL_API_CALL get_platforms(cl_uint most, cl_platform_id *platforms, cl_uint *count)
{
    if (count != NULL) {
        *count = 1;
    }
    if (most > 0) {
        platforms[0] = (cl_platform_id)(void *)&world;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_devices(cl_platform_id platform, cl_device_type type, cl_uint most,
                                      cl_device_id *devices, cl_uint *count)
{
    cl_uint present = count_fakes(KQ_API_OPENCL);
    assert_ptr_equal(platform, &world);
    (void)type;
    if (count != NULL) {
        *count = present;
    }
    for (cl_uint i = 0; i < most && i < present; i++) {
        devices[i] = (cl_device_id)(uintptr_t)find_fake(KQ_API_OPENCL, i);
    }
    return present > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

static cl_int answer(const void *from, size_t bytes, size_t room, void *value, size_t *used)
{
    if (used != NULL) {
        *used = bytes;
    }
    if (value != NULL && room < bytes) {
        return CL_INVALID_VALUE;
    }
    if (value != NULL) {
        memcpy(value, from, bytes);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info info,
                                            size_t room, void *value, size_t *used)
{
    (void)platform;
    (void)info;
    return answer("made up", sizeof "made up", room, value, used);
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info info, size_t room,
                                          void *value, size_t *used)
{
    const fake *f = (const fake *)(void *)device;
    const cl_device_type type = f->kind == SOFTWARE  ? CL_DEVICE_TYPE_CPU
                                : f->kind == VIRTUAL ? CL_DEVICE_TYPE_ACCELERATOR
                                                     : CL_DEVICE_TYPE_GPU;
    const cl_bool shares_memory = f->kind == INTEGRATED;
    const cl_ulong bytes = 1u << 30;
    unsigned char uuid[CL_UUID_SIZE_KHR];
    memset(uuid, f->uuid, sizeof uuid);
    switch (info) {
    case CL_DEVICE_NAME: return answer(f->name, strlen(f->name) + 1, room, value, used);
    case CL_DEVICE_TYPE: return answer(&type, sizeof type, room, value, used);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return answer(&shares_memory, sizeof shares_memory, room, value, used);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return answer(&bytes, sizeof bytes, room, value, used);
    case CL_DEVICE_EXTENSIONS:
        return answer("cl_khr_device_uuid", sizeof "cl_khr_device_uuid", room, value, used);
    case CL_DEVICE_UUID_KHR: return answer(uuid, sizeof uuid, room, value, used);
    default: return answer("", 1, room, value, used);
    }
}

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code)
{
    (void)properties;
    (void)notify;
    (void)user;
    assert_int_equal(count, 1);
    opened = (const fake *)(void *)devices[0];
    *code = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

static void not_called(void)
{
    fail_msg("nothing but listing and opening was to be called");
}

static kq_proc find_function(void *user, const char *name)
{
    assert_ptr_equal(user, &world);
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) {
        return (kq_proc)get_instance_proc;
    }
    if (strncmp(name, "cl", 2) == 0) {
        return strcmp(name, "clGetPlatformIDs") == 0    ? (kq_proc)get_platforms
               : strcmp(name, "clGetPlatformInfo") == 0 ? (kq_proc)get_platform_info
               : strcmp(name, "clGetDeviceIDs") == 0    ? (kq_proc)get_devices
               : strcmp(name, "clGetDeviceInfo") == 0   ? (kq_proc)get_device_info
               : strcmp(name, "clCreateContext") == 0   ? (kq_proc)create_context
                                                        : (kq_proc)not_called;
    }
    return NULL;
}

static const kq_lookup made_up = {find_function, &world};

// A name chooses the device of that index in the world.
static void check_choice(int line, const char *name, uint32_t index)
{
    opened = NULL;
    check_open(line, &made_up, name, 0, KQ_ERROR_MEMORY,
               world[index].api == KQ_API_VULKAN ? "vkCreateDevice" : "clCreateContext", "(", NULL);
    if (opened != &world[index]) {
        fail_msg("line %d: \"%s\" chose %s", line, name != NULL ? name : "NULL",
                 opened != NULL ? opened->name : "none");
    }
}

static void enter(const fake *fakes, size_t count)
{
    world = fakes;
    world_count = (uint32_t)count;
}

static void test_names(void **state)
{
    (void)state;
    static const fake fakes[] = {
        {KQ_API_VULKAN, SOFTWARE, "Soft CPU", 0},
        {KQ_API_VULKAN, INTEGRATED, "opencl-like Small GPU", 0},
        {KQ_API_OPENCL, SOFTWARE, "Soft CPU", 0xAB},
        {KQ_API_OPENCL, DISCRETE, "Big GPU", 0x01},
        {KQ_API_OPENCL, INTEGRATED, "Big GPU 2", 0x02},
    };
    const kq_result none = KQ_ERROR_NO_DEVICE;
    const kq_result ambiguous = KQ_ERROR_ARGUMENT;
    enter(fakes, 5);
    check_choice(__LINE__, "vulkan:0", 0);
    check_choice(__LINE__, "vulkan:1", 1);
    check_choice(__LINE__, "opencl:0", 2);
    check_choice(__LINE__, "opencl:2", 4);
    check_choice(__LINE__, "abababababababababababababababab", 2);
    check_choice(__LINE__, "02020202020202020202020202020202", 4);
    check_choice(__LINE__, "opencl-like", 1);
    check_choice(__LINE__, "mall", 1);
    check_choice(__LINE__, "GPU 2", 4);
    check_choice(__LINE__, NULL, 3);
    check_open(__LINE__, &made_up, "reference", 0, KQ_OK, "", "", NULL);
    check_open(__LINE__, &made_up, "Soft CPU", 0, ambiguous, "2 devices", "vulkan:0", NULL);
    check_open(__LINE__, &made_up, "Big GPU", 0, ambiguous, "2 devices", "opencl:1", NULL);
    check_open(__LINE__, &made_up, "GPU", 0, ambiguous, "3 devices", "vulkan:1", NULL);
    check_open(__LINE__, &made_up, "small", 0, none, "\"small\"", "", NULL);
    check_open(__LINE__, &made_up, "vulkan:2", 0, none, "\"vulkan:2\"", "", NULL);
    check_open(__LINE__, &made_up, "vulkan:", 0, none, "\"vulkan:\"", "", NULL);
    check_open(__LINE__, &made_up, "abab", 0, none, "\"abab\"", "", NULL);
    check_open(__LINE__, &made_up, "ABABABABABABABABABABABABABABABAB", 0, none, "", "", NULL);

    kq_device_info infos[7];
    uint32_t count = 7;
    memset(infos, 0x5A, sizeof infos);
    assert_int_equal(kq_list_devices(&made_up, infos, &count), KQ_OK);
    assert_int_equal(count, 6);
    for (uint32_t i = 0; i < 5; i++) {
        const kq_device_info *info = &infos[i + 1];
        assert_int_equal(info->api, fakes[i].api);
        assert_int_equal(info->is_software, fakes[i].kind == SOFTWARE);
        assert_int_equal(info->is_discrete, fakes[i].kind == DISCRETE);
        assert_string_equal(info->name, fakes[i].name);
    }
    assert_string_equal(infos[5].id, "opencl:2");
    assert_string_equal(infos[5].uuid, "02020202020202020202020202020202");
    assert_string_equal(infos[1].uuid, "");
    assert_int_equal((unsigned char)infos[6].id[0], 0x5A);
}

static void test_default(void **state)
{
    (void)state;
    // For each row, the default is the first of these that is there.
    static const fake order[] = {
        {KQ_API_VULKAN, DISCRETE, "a", 0},   {KQ_API_OPENCL, DISCRETE, "b", 1},
        {KQ_API_VULKAN, INTEGRATED, "c", 0}, {KQ_API_OPENCL, INTEGRATED, "d", 2},
        {KQ_API_VULKAN, SOFTWARE, "e", 0},   {KQ_API_OPENCL, SOFTWARE, "f", 3},
    };
    for (unsigned present = 1; present < 1u << 6; present++) {
        // Listed from the worst to the best, so that the place in the list decides nothing.
        fake fakes[6];
        uint32_t count = 0;
        for (int i = 5; i >= 0; i--) {
            if ((present >> i & 1u) != 0) {
                fakes[count++] = order[i];
            }
        }
        enter(fakes, count);
        check_choice(__LINE__, NULL, count - 1);
    }
    // Of equals the first; what is neither discrete nor software comes with the integrated.
    static const fake equals[] = {
        {KQ_API_OPENCL, SOFTWARE, "a", 1},
        {KQ_API_OPENCL, VIRTUAL, "b", 2},
        {KQ_API_OPENCL, INTEGRATED, "c", 3},
        {KQ_API_VULKAN, SOFTWARE, "d", 0},
    };
    enter(equals, 4);
    check_choice(__LINE__, NULL, 1);
    enter(NULL, 0);
    check_open(__LINE__, &made_up, NULL, 0, KQ_ERROR_NO_DEVICE, "reference", "", NULL);
    uint32_t count = 0;
    assert_int_equal(kq_list_devices(&made_up, NULL, &count), KQ_OK);
    assert_int_equal(count, 1);
}

static void test_many(void **state)
{
    (void)state;
    enum { MANY = 70 };
    static fake fakes[MANY];
    static char names[MANY][24];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "number %d.", i);
        fakes[i] = (fake){i % 2 == 0 ? KQ_API_OPENCL : KQ_API_VULKAN, SOFTWARE, names[i],
                          (unsigned char)i};
    }
    fakes[MANY - 2].kind = DISCRETE;
    enter(fakes, MANY);
    check_choice(__LINE__, NULL, MANY - 2);
    for (uint32_t i = 0; i < MANY; i++) {
        check_choice(__LINE__, names[i], i);
    }
    check_open(__LINE__, &made_up, "number", 0, KQ_ERROR_ARGUMENT, "70 devices", "vulkan:0", NULL);
}
#endif

// --- The devices of this system

static kq_device_info *infos;
static uint32_t info_count;

static int setup(void **state)
{
    (void)state;
    uint32_t count = 0;
    if (kq_list_devices(NULL, NULL, &count) != KQ_OK ||
        (infos = calloc(count, sizeof *infos)) == NULL) {
        return -1;
    }
    info_count = count;
    return kq_list_devices(NULL, infos, &info_count) == KQ_OK && info_count == count ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(infos);
    return 0;
}

// Opening by `name` gives the listed device.
static void check_listed(int line, const char *name, uint32_t index)
{
    kq_device *device;
    check_open(line, NULL, name, 0, KQ_OK, "", "", &device);
    if (strcmp(kq_device_get_info(device)->id, infos[index].id) != 0) {
        fail_msg("line %d: %s opened %s", line, name, kq_device_get_info(device)->id);
    }
    assert_memory_equal(kq_device_get_info(device), &infos[index], sizeof infos[index]);
    kq_device_destroy(&device);
    assert_null(device);
}

static void test_list(void **state)
{
    (void)state;
    static const char *const apis[] = {"reference", "vulkan", "opencl"};
    uint32_t next[3] = {0, 0, 0};
    kq_device_info *room = malloc((info_count + 1) * sizeof *room);
    assert_non_null(room);
    for (uint32_t capacity = 0; capacity <= info_count; capacity++) {
        uint32_t count = capacity;
        memset(room, 0x5A, (info_count + 1) * sizeof *room);
        assert_int_equal(kq_list_devices(NULL, room, &count), KQ_OK);
        assert_int_equal(count, info_count);
        assert_memory_equal(room, infos, capacity * sizeof *room);
        assert_int_equal((unsigned char)room[capacity].id[0], 0x5A);
    }
    free(room);
    for (uint32_t i = 0; i < info_count; i++) {
        const kq_device_info *info = &infos[i];
        char id[32];
        printf("%s: %s, %s, uuid \"%s\"%s%s\n", info->id, info->name, info->driver, info->uuid,
               info->is_software ? ", software" : "", info->is_discrete ? ", discrete" : "");
        assert_int_equal(i == 0, info->api == KQ_API_REFERENCE);
        assert_true(info->api <= KQ_API_OPENCL && (i == 0 || infos[i - 1].api <= info->api));
        snprintf(id, sizeof id, i == 0 ? "%s" : "%s:%u", apis[info->api],
                 (unsigned)next[info->api]++);
        assert_string_equal(info->id, id);
        assert_true(info->name[0] != '\0' && memchr(info->name, 0, sizeof info->name) != NULL);
        assert_true(info->driver[0] != '\0' &&
                    memchr(info->driver, 0, sizeof info->driver) != NULL);
        size_t digits = strspn(info->uuid, "0123456789abcdef");
        assert_true(info->uuid[digits] == '\0' && (digits == 0 || digits == 32));
    }
}

static void test_open(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < info_count; i++) {
        uint32_t same_uuid = i;
        uint32_t same_name = 0;
        uint32_t first = info_count;
        for (uint32_t k = info_count; k-- > 0;) {
            same_uuid = strcmp(infos[k].uuid, infos[i].uuid) == 0 ? k : same_uuid;
            bool is_part = strstr(infos[k].name, infos[i].name) != NULL;
            first = is_part ? k : first;
            same_name += is_part;
        }
        check_listed(__LINE__, infos[i].id, i);
        if (infos[i].uuid[0] != '\0') {
            check_listed(__LINE__, infos[i].uuid, same_uuid);
        }
        if (same_name == 1) {
            check_listed(__LINE__, infos[i].name, i);
        } else {
            check_open(__LINE__, NULL, infos[i].name, 0, KQ_ERROR_ARGUMENT, infos[first].id,
                       infos[i].name, NULL);
        }
    }
    // Reference, and all others as the header ranks them.
    uint32_t best = 0;
    for (int rank = 2; rank >= 0; rank--) {
        for (uint32_t i = info_count; i-- > 1;) {
            int r = infos[i].is_software ? 2 : infos[i].is_discrete ? 0 : 1;
            best = r == rank ? i : best;
        }
    }
    if (best > 0) {
        check_listed(__LINE__, NULL, best);
    } else {
        check_open(__LINE__, NULL, NULL, 0, KQ_ERROR_NO_DEVICE, "reference", "", NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result_names),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_block_reason),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_callback),
#if defined(KQ_HAS_VULKAN) && defined(KQ_HAS_OPENCL)
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_many),
#endif
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, setup, teardown) != 0;
}
