// What depends on the host. Its byte order: modules are words in it, in files little-endian; on a
// big-endian host no device but the reference is served. Its addresses: what is longer than they
// reach is refused, and never taken for what is left of it in a size_t.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <kquant/kquant.h>
#ifdef KQ_HAS_VULKAN
# include <kquant/vulkan.h>
#endif
#ifdef KQ_HAS_OPENCL
# include <kquant/opencl.h>
#endif
#include "support.h"

#include <stdio.h>
#include <string.h>

static const char *build_root;

static bool is_big_endian(void)
{
    const uint32_t one = 1;
    return *(const unsigned char *)&one == 0;
}

static void test_modules(void **state)
{
    (void)state;
    size_t count = 0;
    size_t compared = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    for (size_t i = 0; i < count; i++) {
        const kq_kernel *k = &kernels[i];
        if (k->spirv == NULL) {
            continue;
        }
        char path[4096];
        assert_int_equal(k->spirv[0], 0x07230203);
        int length = k->api == KQ_API_VULKAN
                         ? snprintf(path, sizeof path, "%s/shaders/%s.spv", build_root, k->name)
                         : snprintf(path, sizeof path, "%s/cl/%s.%u.spv", build_root, k->name,
                                    (unsigned)k->address_bits);
        assert_in_range(length, 1, sizeof path - 1);
        FILE *file = fopen(path, "rb");
        if (file == NULL) {
            fail_msg("%s is not there", path);
        }
        for (size_t w = 0; w < k->spirv_bytes / 4; w++) {
            unsigned char b[4];
            assert_int_equal(fread(b, 1, 4, file), 4);
            assert_int_equal(k->spirv[w], (uint32_t)b[0] | (uint32_t)b[1] << 8 |
                                              (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
        }
        assert_int_equal(fgetc(file), EOF);
        fclose(file);
        compared++;
    }
    printf("%zu modules, %s\n", compared, is_big_endian() ? "big-endian" : "little-endian");
#if defined(KQ_HAS_VULKAN) || defined(KQ_HAS_OPENCL)
    assert_true(compared > 0);
#endif
}

#if defined(KQ_HAS_VULKAN) || defined(KQ_HAS_OPENCL)
static int asked;

// A big-endian host is refused before its driver is asked for anything; on another it is the driver
// that has nothing.
static void check_refusal(kq_result result, const report *said)
{
    assert_int_equal(said->count, 1);
    if (is_big_endian()) {
        assert_int_equal(result, KQ_ERROR_UNSUPPORTED);
        assert_non_null(strstr(said->reason, "big-endian"));
        assert_int_equal(asked, 0);
    } else {
        assert_int_equal(result, KQ_ERROR_ARGUMENT);
        assert_null(strstr(said->reason, "big-endian"));
        assert_true(asked > 0);
    }
}
#endif

#ifdef KQ_HAS_VULKAN
static PFN_vkVoidFunction VKAPI_PTR find_nothing(VkInstance instance, const char *name)
{
    (void)instance;
    (void)name;
    asked++;
    return NULL;
}

static void test_vulkan(void **state)
{
    (void)state;
    uintptr_t any = 0;
    report said = {0};
    kq_vulkan *pack = NULL;
    const kq_vulkan_params params = {
        .get_instance_proc_addr = find_nothing,
        .instance = (VkInstance)&any,
        .physical_device = (VkPhysicalDevice)&any,
        .device = (VkDevice)&any,
        .errors = report_errors(&said),
    };
    asked = 0;
    kq_result result = kq_vulkan_create(&params, &pack);
    assert_null(pack);
    check_refusal(result, &said);
}
#endif

#ifdef KQ_HAS_OPENCL
static kq_proc look_up_nothing(void *user, const char *name)
{
    (void)user;
    (void)name;
    asked++;
    return NULL;
}

static void test_opencl(void **state)
{
    (void)state;
    uintptr_t any = 0;
    report said = {0};
    kq_opencl *pack = NULL;
    const kq_opencl_params params = {
        .lookup = {look_up_nothing, NULL},
        .context = (cl_context)&any,
        .device = (cl_device_id)&any,
        .errors = report_errors(&said),
    };
    asked = 0;
    kq_result result = kq_opencl_create(&params, &pack);
    assert_null(pack);
    check_refusal(result, &said);
}
#endif

// --- Sizes

static void open_reference(kq_device **device, report *said)
{
    const kq_device_params params = {.device = "reference", .errors = report_errors(said)};
    assert_int_equal(kq_device_create(&params, device), KQ_OK);
}

static void test_large_buffers(void **state)
{
    (void)state;
    kq_device *device = NULL;
    report said = {0};
    open_reference(&device, &said);
    const uint64_t half = (uint64_t)PTRDIFF_MAX + 1;
    const uint64_t sizes[] = {
        half,
        half + 16,
        UINT64_MAX,
        UINT64_MAX - 15,
        (uint64_t)SIZE_MAX - 3,
        sizeof(size_t) < 8 ? 2 * half + 16 : UINT64_MAX / 2 + 1,
        sizeof(size_t) < 8 ? UINT64_C(5) << 30 : UINT64_MAX - 4095,
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        kq_buffer *buffer = NULL;
        said = (report){0};
        kq_result result = kq_buffer_create(device, sizes[i], &buffer);
        assert_true(result == KQ_ERROR_MEMORY || result == KQ_ERROR_UNSUPPORTED ||
                    result == KQ_ERROR_ARGUMENT);
        assert_null(buffer);
        assert_int_equal(said.count, 1);
        printf("%s\n", said.reason);
    }
    kq_device_destroy(&device);
}

enum { G_HERE = 4 };

// Each is lawful but for one number, which 2^32 is added to.
static void test_large_views(void **state)
{
    (void)state;
    kq_device *device = NULL;
    kq_buffer *values = NULL, *records = NULL;
    report said = {0};
    unsigned char bytes[G_HERE * KQ_BLOCK_BYTES] = {0};
    open_reference(&device, &said);
    assert_int_equal(kq_buffer_create(device, sizeof bytes, &values), KQ_OK);
    assert_int_equal(kq_buffer_create(device, sizeof bytes, &records), KQ_OK);
    assert_int_equal(kq_buffer_upload(values, 0, bytes, sizeof bytes), KQ_OK);
    const kq_quantize_args lawful = {.format = KQ_FORMAT_Q8_K,
                                     .values = {values, {.G = G_HERE}},
                                     .records = {records, {.G = G_HERE}}};
    assert_int_equal(kq_quantize(device, &lawful), KQ_OK);
    const uint64_t far = UINT64_C(1) << 32;
#define REFUSE(call)                                                                               \
 do {                                                                                              \
  said = (report){0};                                                                              \
  assert_int_equal(call, KQ_ERROR_ARGUMENT);                                                       \
  assert_int_equal(said.count, 1);                                                                 \
  printf("%s\n", said.reason);                                                                     \
 } while (0)
    for (int k = 0; k < 5; k++) {
        kq_quantize_args args = lawful;
        uint64_t *numbers[] = {&args.values.view.offset, &args.values.view.stride,
                               &args.values.view.value_stride, &args.records.view.offset,
                               &args.records.view.stride};
        const uint64_t usual[] = {0, KQ_BLOCK_BYTES, 4, 0, KQ_Q8_K_BYTES};
        *numbers[k] = usual[k] + far;
        REFUSE(kq_quantize(device, &args));
    }
    REFUSE(kq_buffer_upload(values, far, bytes, 4));
    REFUSE(kq_buffer_upload(values, 0, bytes, far + 4));
    REFUSE(kq_buffer_download(values, far, bytes, 4));
    REFUSE(kq_buffer_download(values, 0, bytes, far + 4));
    if (sizeof(size_t) < 8) {
        // Of memory that can't be there; elsewhere it could, and would be read.
        float in[2 * KQ_BLOCK] = {0}, sums[4] = {0};
        REFUSE(kq_quantize_host(device, KQ_FORMAT_Q8_K, in, far / 4 + KQ_BLOCK, bytes, NULL));
        REFUSE(kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                     KQ_ORDER_SEQUENTIAL, 1, bytes, KQ_Q4_K_BYTES * (far >> 7),
                                     bytes, KQ_Q8_K_BYTES * (far >> 7), sums));
    }
#undef REFUSE
    kq_buffer_destroy(&values);
    kq_buffer_destroy(&records);
    kq_device_destroy(&device);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: host_test BUILD_FOLDER\n");
        return 2;
    }
    build_root = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),     cmocka_unit_test(test_large_buffers),
        cmocka_unit_test(test_large_views),
#ifdef KQ_HAS_VULKAN
        cmocka_unit_test(test_vulkan),
#endif
#ifdef KQ_HAS_OPENCL
        cmocka_unit_test(test_opencl),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
