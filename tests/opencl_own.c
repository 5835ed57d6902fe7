#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

own_fixture own;

void expect_ok(const char *what, kq_result result)
{
    if (result != KQ_OK) {
        fail_msg("%s: %s: %s", what, kq_result_name(result), own.report.reason);
    }
}

bool is_reported(kq_result result, const char *text)
{
    return own.report.result == result && strstr(own.report.reason, text) != NULL;
}

kq_result open_device(uint32_t ops, kq_device **opened)
{
    const kq_device_params params = {
        .device = "opencl:0",
        .lookup = own.lookup,
        .ops = ops,
        .errors = report_errors(&own.report),
    };
    return kq_device_create(&params, opened);
}

void *allocate(size_t bytes)
{
    void *data = malloc(bytes + 1);
    assert_non_null(data);
    return data;
}

kq_buffer *create_buffer(const void *data, size_t bytes, size_t before, size_t after)
{
    kq_buffer *buffer = NULL;
    size_t whole = before + bytes + after;
    if (bytes == 0) {
        return NULL;
    }
    unsigned char *image = allocate(whole);
    memset(image, POISON, whole);
    if (data != NULL) {
        memcpy(image + before, data, bytes);
    }
    expect_ok("kq_buffer_create", kq_buffer_create(own.device, whole, &buffer));
    expect_ok("kq_buffer_upload", kq_buffer_upload(buffer, 0, image, whole));
    free(image);
    return buffer;
}

void expect_buffer(const char *what, kq_buffer *buffer, const void *data, size_t bytes,
                   size_t before, size_t after)
{
    size_t whole = before + bytes + after;
    if (bytes == 0) {
        return;
    }
    unsigned char *image = allocate(whole);
    expect_ok(what, kq_buffer_download(buffer, 0, image, whole));
    for (size_t i = 0; i < whole; i++) {
        bool is_inside = i >= before && i < before + bytes;
        unsigned char wanted = is_inside ? ((const unsigned char *)data)[i - before] : POISON;
        if (image[i] != wanted) {
            fail_msg("%s: byte %td is 0x%02x, must be 0x%02x", what, (ptrdiff_t)(i - before),
                     image[i], wanted);
        }
    }
    free(image);
}

unsigned char *make_values(uint64_t seed, uint32_t G)
{
    unsigned char *values = allocate((size_t)KQ_BLOCK_BYTES * G);
    draw_values(seed, G, values);
    return values;
}

unsigned char *make_q4_k(uint64_t seed, uint32_t G)
{
    unsigned char *records = allocate((size_t)KQ_Q4_K_BYTES * G);
    draw_q4_k(seed, G, records);
    return records;
}

kq_quantized_dot_args dot_args(kq_order order, kq_buffer *lhs, kq_buffer *rhs, uint32_t G,
                               kq_buffer *result)
{
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {.buffer = lhs, .view.G = G},
        .rhs = {.buffer = rhs, .view.G = G},
        .result = result,
    };
}

void shows_its_driver(void **state)
{
    (void)state;
    const kq_device_info *info = kq_device_get_info(own.device);
    print_message("%s: %s, %s\n", info->id, info->name, info->driver);
    assert_string_equal(info->id, "opencl:0");
    assert_int_equal(info->api, KQ_API_OPENCL);
    if (own.expected_name != NULL && strstr(info->name, own.expected_name) == NULL &&
        strstr(info->driver, own.expected_name) == NULL) {
        fail_msg("neither holds \"%s\"", own.expected_name);
    }
    if (own.wrapped.il != WRAPPED_IL_OF_DRIVER) {
        // What needs all kernels, for they are built when they are first asked for.
        assert_int_equal(kq_self_test(own.device, NULL), KQ_OK);
        assert_int_equal(own.wrapped.il_count, wrapped_opencl_modules(true));
        assert_int_equal(wrapped_opencl_calls(&own.wrapped, "clCreateProgramWithSource"), 0);
    }
}

void leaves_nothing_behind(void **state)
{
    (void)state;
    kq_device_destroy(&own.device);
    for (int kind = 0; kind < WRAPPED_KIND_COUNT; kind++) {
        assert_int_equal(own.wrapped.live[kind], 0);
    }
    assert_int_equal(own.wrapped.foreign_releases, 0);
    assert_int_equal(wrapped_opencl_count_reports(), 0);
}

int own_start(int argc, char **argv, bool needs_vectors)
{
    bool has_vectors = false;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--expect=", 9) == 0) {
            own.expected_name = argv[i] + 9;
        } else if (strcmp(argv[i], "--il") == 0) {
            own.wrapped.il = WRAPPED_IL_CORE;
        } else if (strcmp(argv[i], "--quick") == 0) {
            own.is_quick = true;
        } else if (argv[i][0] != '-' && add_vectors(&own.vectors, argv[i])) {
            has_vectors = true;
        } else {
            fprintf(stderr, "%s is not to be used\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    if (needs_vectors && !has_vectors) {
        fprintf(stderr, "no folder of vectors is given\n");
        return EXIT_FAILURE;
    }
    wrapped_opencl_watch(false);
    own.wrapped.native_vector_width_char = 1;  // base kernels
    own.lookup = wrapped_opencl_lookup(&own.wrapped);
    kq_result result = own.lookup.fn != NULL ? open_device(0, &own.device) : KQ_ERROR_NO_DEVICE;
    if (result != KQ_OK) {
        fprintf(stderr, "%s: %s\n", kq_result_name(result),
                own.lookup.fn != NULL ? own.report.reason : "no OpenCL loader");
        return result == KQ_ERROR_NO_DEVICE ? EXIT_SKIP : EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

void own_finish(void)
{
    free_vectors(&own.vectors);
    wrapped_opencl_free(&own.wrapped);
}
