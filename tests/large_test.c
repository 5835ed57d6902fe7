// What takes minutes or gigabytes: 2^26 dots, room for 2^31, a dot of 2^24 records, data beyond 4
// GiB of one buffer. Not part of the default run: `meson test -C build --benchmark`.
//
// Usage: large_test DEVICE. Exits with 77 where that isn't here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)

static kq_device *devices[2];  // the reference, and the one to test
static report reports[2];

static kq_buffer *make_buffer(int d, uint64_t bytes)
{
    kq_buffer *buffer = NULL;
    assert_int_equal(kq_buffer_create(devices[d], bytes, &buffer), KQ_OK);
    return buffer;
}

static void upload(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes)
{
    assert_int_equal(kq_buffer_upload(buffer, offset, data, bytes), KQ_OK);
}

static void *download(kq_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    void *data = malloc((size_t)bytes);
    assert_non_null(data);
    assert_int_equal(kq_buffer_download(buffer, offset, data, bytes), KQ_OK);
    return data;
}

static kq_quantized_dot_args dot_args(kq_order order, kq_buffer_view lhs, kq_buffer_view rhs,
                                      kq_buffer *result, const kq_repeat *repeat)
{
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = lhs,
        .rhs = rhs,
        .result = result,
        .repeat = repeat,
    };
}

// --- Dots without number. Records overlap, a word apart, so that all of them fit.

enum { SIDE = 8192, RHS_SEED = 7 };

static kq_buffer *make_rhs(int d)
{
    unsigned char record[KQ_Q8_K_BYTES];
    draw_q8_k(RHS_SEED, 1, record);
    kq_buffer *rhs = make_buffer(d, sizeof record);
    upload(rhs, 0, record, sizeof record);
    return rhs;
}

static void test_many_dots(void **state)
{
    (void)state;
    const uint64_t dots = (uint64_t)SIDE * SIDE;
    const uint64_t lhs_bytes = 4 * dots + KQ_Q4_K_BYTES;
    const kq_repeat repeat = {
        .count = {SIDE, SIDE}, .lhs_step = {4, 4 * SIDE}, .result_step = {4, 4 * SIDE}};
    unsigned char *lhs_data = malloc((size_t)lhs_bytes);
    unsigned char *results[2];
    uint64_t seed = 1;
    assert_non_null(lhs_data);
    draw_bytes(&seed, lhs_data, (size_t)lhs_bytes);
    for (int d = 0; d < 2; d++) {
        kq_buffer *lhs = make_buffer(d, lhs_bytes);
        kq_buffer *rhs = make_rhs(d);
        kq_buffer *result = make_buffer(d, 4 * dots);
        upload(lhs, 0, lhs_data, lhs_bytes);
        const kq_quantized_dot_args args =
            dot_args(KQ_ORDER_SEQUENTIAL, (kq_buffer_view){lhs, {.G = 1}},
                     (kq_buffer_view){rhs, {.G = 1}}, result, &repeat);
        assert_int_equal(kq_quantized_dot(devices[d], &args), KQ_OK);
        results[d] = download(result, 0, 4 * dots);
        kq_buffer_destroy(&lhs);
        kq_buffer_destroy(&rhs);
        kq_buffer_destroy(&result);
    }
    assert_memory_equal(results[0], results[1], 4 * dots);
    free(results[0]);
    free(results[1]);
    free(lhs_data);
}

// Accepted, and cut: they would take half an hour.
static void test_most_dots(void **state)
{
    (void)state;
    const uint64_t dots = (uint64_t)1 << 31;
    const kq_repeat repeat = {.count = {65536, 32768}, .result_step = {4, 4 * 65536}};
    kq_buffer *rhs = make_rhs(1);
    kq_buffer *result = make_buffer(1, 4 * dots);
    const kq_quantized_dot_args args = dot_args(KQ_ORDER_PAIRWISE, (kq_buffer_view){rhs, {.G = 1}},
                                                (kq_buffer_view){rhs, {.G = 1}}, result, &repeat);
    kq_needs needs;
    assert_int_equal(kq_quantized_dot_query(devices[1], &args, &needs), KQ_OK);
    assert_null(needs.limit);
    print_message("2^31 dots: %" PRIu64 " submissions\n", needs.submission_count);
    assert_true(needs.submission_count >= dots >> 20);
    kq_buffer_destroy(&rhs);
    kq_buffer_destroy(&result);
}

// --- The longest dot: one pair of records, again and again, so that sums round in ever other ways

static void test_longest_dot(void **state)
{
    (void)state;
    uint32_t bits[2][2];
    for (int d = 0; d < 2; d++) {
        unsigned char record[KQ_Q4_K_BYTES];
        draw_q4_k(5, 1, record);
        kq_buffer *lhs = make_buffer(d, sizeof record);
        kq_buffer *rhs = make_rhs(d);
        kq_buffer *result = make_buffer(d, 4);
        upload(lhs, 0, record, sizeof record);
        const kq_view view = {.stride = KQ_BROADCAST, .G = 1u << 24};
        for (int order = 0; order < 2; order++) {
            const kq_quantized_dot_args args =
                dot_args((kq_order)order, (kq_buffer_view){lhs, view}, (kq_buffer_view){rhs, view},
                         result, NULL);
            assert_int_equal(kq_quantized_dot(devices[d], &args), KQ_OK);
            unsigned char *bytes = download(result, 0, 4);
            bits[d][order] = load_u32(bytes);
            free(bytes);
        }
        kq_buffer_destroy(&lhs);
        kq_buffer_destroy(&rhs);
        kq_buffer_destroy(&result);
    }
    print_message("2^24 records: %08" PRIx32 " sequential, %08" PRIx32 " pairwise\n", bits[0][0],
                  bits[0][1]);
    assert_int_not_equal(bits[0][0], bits[0][1]);
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

// --- Beyond 4 GiB

// What quantize and a dot make of blocks and Q4_K records that lie so in one buffer of device d,
// and records that go so into another: records, then results by order. The caller's to free.
static unsigned char *run_views(int d, uint64_t bytes, kq_view values, kq_view records, kq_view lhs)
{
    const uint32_t G = values.G;
    const uint64_t records_bytes = (uint64_t)G * KQ_Q8_K_BYTES;
    kq_buffer *all = make_buffer(d, bytes);
    kq_buffer *apart = make_buffer(d, bytes);
    kq_buffer *result = make_buffer(d, 8);
    unsigned char *data = malloc((size_t)G * (KQ_BLOCK_BYTES + KQ_Q4_K_BYTES));
    unsigned char *made = malloc((size_t)records_bytes + 8);
    assert_true(data != NULL && made != NULL);
    draw_values(3, G, data);
    draw_q4_k(4, G, data + (size_t)G * KQ_BLOCK_BYTES);
    for (uint32_t g = 0; g < G; g++) {
        for (uint32_t i = 0; i < KQ_BLOCK; i++) {
            upload(all, values.offset + g * values.stride + i * values.value_stride,
                   data + (size_t)g * KQ_BLOCK_BYTES + 4 * (size_t)i, 4);
        }
        upload(all, lhs.offset + g * lhs.stride,
               data + (size_t)G * KQ_BLOCK_BYTES + (size_t)g * KQ_Q4_K_BYTES, KQ_Q4_K_BYTES);
    }
    const kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K, .values = {all, values}, .records = {apart, records}};
    kq_needs needs;
    assert_int_equal(kq_quantize_query(devices[d], &quantize, &needs), KQ_OK);
    print_message("%s: %" PRIu64 " submissions, %" PRIu64 " bytes of values staged\n",
                  kq_device_get_info(devices[d])->id, needs.submission_count,
                  needs.staged_bytes[0]);
    assert_int_equal(kq_quantize(devices[d], &quantize), KQ_OK);
    for (uint32_t g = 0; g < G; g++) {
        unsigned char *record = download(apart, records.offset + g * records.stride, KQ_Q8_K_BYTES);
        memcpy(made + (size_t)g * KQ_Q8_K_BYTES, record, KQ_Q8_K_BYTES);
        free(record);
    }
    for (int order = 0; order < 2; order++) {
        const kq_quantized_dot_args args = dot_args((kq_order)order, (kq_buffer_view){all, lhs},
                                                    (kq_buffer_view){apart, records}, result, NULL);
        assert_int_equal(kq_quantized_dot(devices[d], &args), KQ_OK);
        unsigned char *bits = download(result, 0, 4);
        memcpy(made + records_bytes + 4 * order, bits, 4);
        free(bits);
    }
    kq_buffer_destroy(&all);
    kq_buffer_destroy(&apart);
    kq_buffer_destroy(&result);
    free(data);
    return made;
}

static void test_beyond_4_gib(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        kq_view values, records, lhs;
    } cases[] = {
        {"far offsets",
         {4 * GIB + 3, KQ_BLOCK_BYTES, 4, 9},
         {5 * GIB + 1, KQ_Q8_K_BYTES, 0, 9},
         {4 * GIB + GIB / 2 + 2, KQ_Q4_K_BYTES, 0, 9}},
        {"across 4 GiB",
         {4 * GIB - 4000, KQ_BLOCK_BYTES, 4, 9},
         {2 * GIB - 1001, KQ_Q8_K_BYTES, 0, 9},
         {GIB - 500, KQ_Q4_K_BYTES, 0, 9}},
        {"far apart", {0, GIB + 1, 4, 5}, {5000, GIB + 7, 0, 5}, {9001, GIB - 300, 0, 5}},
        {"values far apart", {1, 4, 17895700, 5}, {77, GIB + 7, 0, 5}, {9001, GIB - 300, 0, 5}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        print_message("%s\n", cases[k].name);
        unsigned char *made[2];
        for (int d = 0; d < 2; d++) {
            made[d] = run_views(d, 6 * GIB, cases[k].values, cases[k].records, cases[k].lhs);
        }
        assert_memory_equal(made[0], made[1], (size_t)cases[k].values.G * KQ_Q8_K_BYTES + 8);
        free(made[0]);
        free(made[1]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: large_test DEVICE\n");
        return EXIT_FAILURE;
    }
    const char *const names[2] = {"reference", argv[1]};
    for (int d = 0; d < 2; d++) {
        const kq_device_params params = {.device = names[d], .errors = report_errors(&reports[d])};
        kq_result result = kq_device_create(&params, &devices[d]);
        if (result != KQ_OK) {
            fprintf(stderr, "%s: %s\n", names[d], reports[d].reason);
            return result == KQ_ERROR_NO_DEVICE ? EXIT_SKIP : EXIT_FAILURE;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beyond_4_gib),
        cmocka_unit_test(test_most_dots),
        cmocka_unit_test(test_longest_dot),
        cmocka_unit_test(test_many_dots),
    };
    int failed = cmocka_run_group_tests_name("large", tests, NULL, NULL);
    kq_device_destroy(&devices[1]);
    kq_device_destroy(&devices[0]);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
