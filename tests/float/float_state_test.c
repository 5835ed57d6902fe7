// Everything that the host computes, in every floating-point state of a caller's: the bits are
// those of the vectors, and registers are afterwards as they were before. Also on a driver's
// device.
//
// Usage: float_state_test DEVICE FOLDER...; compiled with float_guard.py's header. Prints how often
// a call was made. Exits with 77 where the device isn't there.
#include "float_state.h"
#include "known_answers.h"
#include "support.h"

#ifdef KQ_HAS_VULKAN
# include "device_vulkan.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *device_name;
static vectors known;
static report said;

// Not an assert: what is compared are bytes, and what may not be used is everything that computes.
static void check(int line, int is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "line %d: %s is wrong; last report \"%s\"\n", line, what, said.reason);
        exit(EXIT_FAILURE);
    }
}

#define CHECK(condition, what) check(__LINE__, (condition), (what))
#define WORKS(call)            check(__LINE__, (call) == KQ_OK, #call)

static unsigned char *allocate(size_t bytes)
{
    unsigned char *p = malloc(bytes);
    CHECK(p != NULL, "malloc");
    memset(p, POISON, bytes);
    return p;
}

static kq_buffer *make(kq_device *device, const void *data, uint64_t bytes)
{
    kq_buffer *buffer = NULL;
    WORKS(kq_buffer_create(device, bytes, &buffer));
    WORKS(kq_buffer_upload(buffer, 0, data, bytes));
    return buffer;
}

static void check_quantize(kq_device *device, const quantize_vector *v)
{
    uint64_t record_bytes = (uint64_t)KQ_Q8_K_BYTES * v->G;
    unsigned char *out = allocate(record_bytes);
    kq_domain domain = {0};
    kq_result expected = v->domain.reason == KQ_REASON_NONE ? KQ_OK : KQ_ERROR_DOMAIN;
    kq_result result = kq_quantize_host(device, KQ_FORMAT_Q8_K, (const float *)(void *)v->values,
                                        (uint64_t)KQ_BLOCK * v->G, out, &domain);
    CHECK(result == expected && memcmp(out, v->records, record_bytes) == 0, v->name);
    if (expected != KQ_OK) {
        uint32_t element = 0;
        CHECK(domain.record == v->domain.record && domain.reason == v->domain.reason, v->name);
        CHECK(kq_block_reason(v->values + 1024 * (size_t)domain.record, 0, &element) ==
                  domain.reason,
              v->name);
    }
    if (v->G == 0) {
        free(out);
        return;
    }
    kq_buffer *values = make(device, v->values, (uint64_t)KQ_BLOCK_BYTES * v->G);
    kq_buffer *records = make(device, out, record_bytes);
    const kq_quantize_args args = {
        .format = KQ_FORMAT_Q8_K,
        .values = {values, {.G = v->G}},
        .records = {records, {.G = v->G}},
    };
    kq_needs needs;
    memset(out, 0, record_bytes);
    WORKS(kq_quantize_query(device, &args, &needs));
    CHECK(kq_quantize(device, &args) == expected, v->name);
    WORKS(kq_buffer_download(records, 0, out, record_bytes));
    CHECK(memcmp(out, v->records, record_bytes) == 0, v->name);
    kq_buffer_destroy(&records);
    kq_buffer_destroy(&values);
    free(out);
}

static void check_dot(kq_device *device, const dot_vector *v, kq_order order)
{
    unsigned char bits[4];
    WORKS(kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32, order,
                                1, v->lhs, (uint64_t)KQ_Q4_K_BYTES * v->G, v->rhs,
                                (uint64_t)KQ_Q8_K_BYTES * v->G, (float *)(void *)bits));
    CHECK(load_u32(bits) == v->results[order], v->name);
}

// One that is recorded, with its time.
static void check_recorded(kq_device *device, const dot_vector *v, kq_order order)
{
    unsigned char bits[4] = {0};
    kq_buffer *lhs = make(device, v->lhs, (uint64_t)KQ_Q4_K_BYTES * v->G);
    kq_buffer *rhs = make(device, v->rhs, (uint64_t)KQ_Q8_K_BYTES * v->G);
    kq_buffer *result = make(device, bits, sizeof bits);
    const kq_quantized_dot_args args = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {lhs, {.G = v->G}},
        .rhs = {rhs, {.G = v->G}},
        .result = result,
    };
    kq_needs needs;
    kq_recording *recording = NULL;
    uint64_t nanoseconds = 0;
    WORKS(kq_quantized_dot_query(device, &args, &needs));
    WORKS(kq_quantized_dot_record(device, &args, &recording));
    WORKS(kq_recording_run(recording, &nanoseconds));
    kq_recording_destroy(&recording);
    WORKS(kq_buffer_download(result, 0, bits, sizeof bits));
    CHECK(load_u32(bits) == v->results[order], v->name);
    WORKS(kq_quantized_dot(device, &args));
    kq_buffer_destroy(&result);
    kq_buffer_destroy(&rhs);
    kq_buffer_destroy(&lhs);
}

static void check_bulk(kq_device *device, const bulk_vector *v)
{
    unsigned char *values = allocate((size_t)KQ_BLOCK_BYTES * v->G);
    unsigned char *lhs = allocate((size_t)KQ_Q4_K_BYTES * v->G);
    unsigned char *records = allocate((size_t)KQ_Q8_K_BYTES * v->G);
    draw_values(v->seed, v->G, values);
    draw_q4_k(v->seed + 1, v->G, lhs);
    WORKS(kq_quantize_host(device, KQ_FORMAT_Q8_K, (const float *)(void *)values,
                           (uint64_t)KQ_BLOCK * v->G, records, NULL));
    CHECK(fnv1a64(records, (size_t)KQ_Q8_K_BYTES * v->G) == v->digest, "a bulk vector's records");
    dot_vector dot = {.name = "a bulk vector's dot", .G = v->G, .lhs = lhs, .rhs = records};
    memcpy(dot.results, v->results, sizeof dot.results);
    check_dot(device, &dot, KQ_ORDER_SEQUENTIAL);
    check_dot(device, &dot, KQ_ORDER_PAIRWISE);
    free(values);
    free(lhs);
    free(records);
}

static void check_steps(kq_device *device)
{
    enum { COUNT = sizeof kq_known_answers / sizeof kq_known_answers[0] };
    static uint32_t items[COUNT][4];
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    const char *step = "none";
    memcpy(items, kq_known_answers, sizeof items);
    for (int i = 0; i < COUNT; i++) {
        items[i][3] = ~items[i][3];
    }
    WORKS(kq_primitives_host(device, &items[0][0], COUNT));
    CHECK(memcmp(items, kq_known_answers, sizeof items) == 0, "a step of the arithmetic");
    WORKS(kq_self_test(device, &step));
    CHECK(step == NULL, "self-test");
    const kq_errors errors = report_errors(&said);
    kq_self_test_input(bytes);
    CHECK(kq_self_test_verdict(bytes, &step, &errors) == KQ_ERROR_DRIVER && step != NULL,
          "the verdict on no work");
}

static void check_copies(kq_device *device)
{
    enum { BYTES = 2 * 16384 };
    static unsigned char data[BYTES], back[BYTES];
    uint64_t seed = 1;
    draw_bytes(&seed, data, BYTES);
    kq_buffer *from = make(device, data, BYTES);
    kq_buffer *to = make(device, back, BYTES);
    kq_recording *recording = NULL;
    WORKS(kq_bandwidth_record(device, from, to, BYTES, 0, &recording));
    WORKS(kq_recording_run(recording, NULL));
    kq_recording_destroy(&recording);
    WORKS(kq_buffer_download(to, 0, back, BYTES));
    CHECK(memcmp(data, back, BYTES) == 0, "a copy");
    kq_buffer_destroy(&to);
    kq_buffer_destroy(&from);
}

static void count_property(void *user, const char *name, const char *value)
{
    *(unsigned *)user += name != NULL && value != NULL;
}

static void check_all(void)
{
    kq_device *device = NULL;
    size_t kernel_count = 0;
    uint32_t device_count = 0;
    unsigned properties = 0;
    const kq_device_params params = {.device = device_name, .errors = report_errors(&said)};
    WORKS(kq_list_devices(NULL, NULL, &device_count));
    CHECK(device_count > 0 && kq_result_name(KQ_OK) != NULL, "the list of devices");
    (void)kq_kernels(&kernel_count);
    WORKS(kq_device_create(&params, &device));
    CHECK(kq_device_get_info(device)->name[0] != '\0', "the device's name");
    kq_device_properties(device, count_property, &properties);
    for (size_t i = 0; i < known.quantize_count; i++) {
        check_quantize(device, &known.quantize[i]);
    }
    for (size_t i = 0; i < known.dot_count; i++) {
        check_dot(device, &known.dot[i], KQ_ORDER_SEQUENTIAL);
        check_dot(device, &known.dot[i], KQ_ORDER_PAIRWISE);
        if (known.dot[i].G > 0 && i % 32 < 2) {
            check_recorded(device, &known.dot[i],
                           i % 2 == 0 ? KQ_ORDER_SEQUENTIAL : KQ_ORDER_PAIRWISE);
        }
    }
    for (size_t i = 0; i < known.bulk_count; i++) {
        if (known.bulk[i].G <= 2048) {
            check_bulk(device, &known.bulk[i]);
        }
    }
    check_steps(device);
    check_copies(device);
    CHECK(kq_buffer_create(device, 0, &(kq_buffer *){NULL}) == KQ_ERROR_ARGUMENT, "no bytes");
    kq_device_destroy(&device);
}

#ifdef KQ_HAS_VULKAN
// Ticks, bits of a period, and their product, rounded down modulo 2^64: from exact fractions.
static void check_times(void)
{
    static const struct {
        uint64_t ticks;
        uint32_t period;
        uint64_t nanoseconds;
    } times[] = {
        {UINT64_C(0x0), 0x3F800000, UINT64_C(0)},
        {UINT64_C(0x3E8), 0x3F800000, UINT64_C(1000)},
        {UINT64_C(0x10000000007), 0x3F800000, UINT64_C(1099511627783)},
        {UINT64_C(0xFFFFFFFFFFFFFFFF), 0x3F800000, UINT64_C(18446744073709551615)},
        {UINT64_C(0x3039), 0x42A6AAAB, UINT64_C(1028750)},
        {UINT64_C(0xFFFFFFFFFFFF), 0x42A6AAAB, UINT64_C(23456248775049132)},
        {UINT64_C(0x3E7), 0x42505555, UINT64_C(52031)},
        {UINT64_C(0xE8D4A51000), 0x3DCCCCCD, UINT64_C(100000001490)},
        {UINT64_C(0x7), 0x3F000000, UINT64_C(3)},
        {UINT64_C(0x1), 0x3F000000, UINT64_C(0)},
        {UINT64_C(0x8000000000000000), 0x3E800000, UINT64_C(2305843009213693952)},
        {UINT64_C(0x800000001), 0x2B800000, UINT64_C(0)},
        {UINT64_C(0x7FFFFFFFFF), 0x2C000000, UINT64_C(0)},
        {UINT64_C(0x8000000000000005), 0x2B800000, UINT64_C(8388608)},
        {UINT64_C(0x3), 0x2E000000, UINT64_C(0)},
        {UINT64_C(0x5), 0x4B000000, UINT64_C(41943040)},
        {UINT64_C(0xB), 0x4B7FFFFF, UINT64_C(184549365)},
        {UINT64_C(0x8000000000000001), 0x3089705F, UINT64_C(9223371776)},
        {UINT64_C(0x1000000000000000), 0x2EDBE6FF, UINT64_C(115292152)},
        {1000, 0x00000000,
         0},  // 0, the least subnormal, 2^-41, 2^24, infinity, NaN, -1: no clock's
        {1000, 0x00000001, 0},
        {UINT64_MAX, 0x2B000000, 0},
        {1000, 0x4B800000, 0},
        {1000, 0x7F800000, 0},
        {1000, 0x7FC00000, 0},
        {1000, 0xBF800000, 0},
    };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        float_enter();
        uint64_t found = kq_vulkan_nanoseconds(times[i].ticks, times[i].period);
        float_leave("kq_vulkan_nanoseconds");
        if (found != times[i].nanoseconds) {
            fprintf(stderr, "time %zu: %llu ns, must be %llu\n", i, (unsigned long long)found,
                    (unsigned long long)times[i].nanoseconds);
            exit(EXIT_FAILURE);
        }
    }
}
#endif

int main(int argc, char **argv)
{
    device_name = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        if (!add_vectors(&known, argv[i])) {
            return EXIT_FAILURE;
        }
    }
    if (known.quantize_count == 0 || known.dot_count == 0) {
        fprintf(stderr, "usage: %s DEVICE FOLDER...\n", argv[0]);
        return EXIT_FAILURE;
    }
    kq_device *device = NULL;
    const kq_device_params params = {.device = device_name, .errors = report_errors(&said)};
    float_choose(FLOAT_DEFAULT);
    if (kq_device_create(&params, &device) == KQ_ERROR_NO_DEVICE) {
        printf("%s\n", said.reason);
        return EXIT_SKIP;
    }
    kq_device_destroy(&device);
    for (int state = FLOAT_EACH; state < float_state_count(); state++) {
        float_choose(state);
        check_all();
#ifdef KQ_HAS_VULKAN
        check_times();
#endif
    }
    // One linked with -ffast-math does: that sets it so before main.
    volatile float least = 1.0e-45f;
    printf("%s: %u calls in %d states, %u of them changed control bits; this program %s "
           "subnormals\n",
           device_name, float_calls(), float_state_count(), float_changes(),
           least * 1.0f == 0.0f ? "loses" : "keeps");
    free_vectors(&known);
    return EXIT_SUCCESS;
}
