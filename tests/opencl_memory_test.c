// Level 3 on an OpenCL device: every vector, and how much work, memory and traffic operations take.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_memory_test [--expect=TEXT] [--il] [--quick] FOLDER...
//   TEXT     must occur in the name of device or platform
//   --il     the SPIR-V modules are what runs, if need be translated for the driver
//   --quick  for interpreters: leaves out what it prints
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_own.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUICK_G = 300,    // the longest bulk vector of --quick
    DOT_TRAFFIC = 8,  // a word of each of a dot's two kernels, by which it is seen to be done
};

// --- The vectors

// At every offset in turn, and every distance from the buffer's end.
static void quantizes_every_vector(void **state)
{
    (void)state;
    for (size_t k = 0; k < own.vectors.quantize_count; k++) {
        const quantize_vector *v = &own.vectors.quantize[k];
        size_t before = k % 4;
        size_t after = k / 4 % 4;
        size_t values_bytes = (size_t)KQ_BLOCK_BYTES * v->G;
        size_t records_bytes = (size_t)KQ_Q8_K_BYTES * v->G;
        kq_domain domain = {0};
        kq_quantize_args args = {
            .format = KQ_FORMAT_Q8_K,
            .values = {create_buffer(v->values, values_bytes, before, after), {before, 0, 0, v->G}},
            .records = {create_buffer(NULL, records_bytes, before, after), {before, 0, 0, v->G}},
            .domain = &domain,
        };
        kq_result wanted = v->domain.reason != KQ_REASON_NONE ? KQ_ERROR_DOMAIN : KQ_OK;
        kq_result result = kq_quantize(own.device, &args);
        if (result != wanted || memcmp(&domain, &v->domain, sizeof domain) != 0) {
            fail_msg("%s: %s, record %" PRIu32 " of %" PRIu32
                     " bad ones, reason %d, element %" PRIu32 " (%s)",
                     v->name, kq_result_name(result), domain.record, domain.bad_count,
                     (int)domain.reason, domain.element, own.report.reason);
        }
        expect_buffer(v->name, args.records.buffer, v->records, records_bytes, before, after);
        expect_buffer(v->name, args.values.buffer, v->values, values_bytes, before, after);
        kq_buffer_destroy(&args.values.buffer);
        kq_buffer_destroy(&args.records.buffer);
    }
    print_message("quantize.tsv: %zu vectors\n", own.vectors.quantize_count);
}

static void dots_every_vector(void **state)
{
    (void)state;
    for (size_t k = 0; k < own.vectors.dot_count; k++) {
        const dot_vector *v = &own.vectors.dot[k];
        size_t before = k % 4;
        size_t after = k / 4 % 4;
        kq_buffer *lhs = create_buffer(v->lhs, (size_t)KQ_Q4_K_BYTES * v->G, before, after);
        kq_buffer *rhs = create_buffer(v->rhs, (size_t)KQ_Q8_K_BYTES * v->G, after, before);
        for (unsigned order = 0; order < 2; order++) {
            unsigned char bits[4];
            kq_buffer *result = create_buffer(NULL, 4, before, after);
            kq_quantized_dot_args args = dot_args((kq_order)order, lhs, rhs, v->G, result);
            args.lhs.view.offset = before;
            args.rhs.view.offset = after;
            args.result_offset = before;
            expect_ok(v->name, kq_quantized_dot(own.device, &args));
            store_u32(bits, v->results[order]);
            expect_buffer(v->name, result, bits, 4, before, after);
            kq_buffer_destroy(&result);
        }
        kq_buffer_destroy(&lhs);
        kq_buffer_destroy(&rhs);
    }
    print_message("dot.tsv: %zu vectors\n", own.vectors.dot_count);
}

// Inputs are drawn, and of the records only their digest is known.
static void agrees_with_every_bulk_vector(void **state)
{
    (void)state;
    size_t dropped = 0;
    for (size_t k = 0; k < own.vectors.bulk_count; k++) {
        const bulk_vector *v = &own.vectors.bulk[k];
        char name[64];
        size_t records_bytes = (size_t)KQ_Q8_K_BYTES * v->G;
        if (own.is_quick && v->G > QUICK_G) {
            print_message("left out: bulk vector of G = %" PRIu32 "\n", v->G);
            dropped++;
            continue;
        }
        snprintf(name, sizeof name, "seed %016" PRIx64 ", G %" PRIu32, v->seed, v->G);
        unsigned char *values = make_values(v->seed, v->G);
        unsigned char *q4 = make_q4_k(v->seed + 1, v->G);
        unsigned char *records = allocate(records_bytes);
        kq_quantize_args quantize = {
            .format = KQ_FORMAT_Q8_K,
            .values = {create_buffer(values, (size_t)KQ_BLOCK_BYTES * v->G, 0, 0), {.G = v->G}},
            .records = {create_buffer(NULL, records_bytes, 0, 0), {.G = v->G}},
        };
        expect_ok(name, kq_quantize(own.device, &quantize));
        if (v->G > 0) {
            expect_ok(name, kq_buffer_download(quantize.records.buffer, 0, records, records_bytes));
        }
        if (fnv1a64(records, records_bytes) != v->digest) {
            fail_msg("%s: the records differ", name);
        }
        kq_buffer *lhs = create_buffer(q4, (size_t)KQ_Q4_K_BYTES * v->G, 0, 0);
        for (unsigned order = 0; order < 2; order++) {
            unsigned char bits[4];
            kq_buffer *result = create_buffer(NULL, 4, 0, 0);
            kq_quantized_dot_args dot =
                dot_args((kq_order)order, lhs, quantize.records.buffer, v->G, result);
            expect_ok(name, kq_quantized_dot(own.device, &dot));
            store_u32(bits, v->results[order]);
            expect_buffer(name, result, bits, 4, 0, 0);
            kq_buffer_destroy(&result);
        }
        kq_buffer_destroy(&lhs);
        kq_buffer_destroy(&quantize.values.buffer);
        kq_buffer_destroy(&quantize.records.buffer);
        free(values);
        free(q4);
        free(records);
    }
    print_message("bulk.tsv: %zu vectors\n", own.vectors.bulk_count - dropped);
}

// --- Work and traffic

// The host's own f32 additions in each order. The terms are used up.
static float fold(kq_order order, float *terms, uint32_t count)
{
    if (order == KQ_ORDER_SEQUENTIAL) {
        volatile float sum = terms[0];
        for (uint32_t i = 1; i < count; i++) {
            sum = sum + terms[i];
        }
        return sum;
    }
    for (; count > 1; count = (count + 1) / 2) {
        for (uint32_t i = 0; i < count / 2; i++) {
            volatile float sum = terms[2 * i] + terms[2 * i + 1];
            terms[i] = sum;
        }
        if (count % 2 == 1) {
            terms[count / 2] = terms[count - 1];
        }
    }
    return terms[0];
}

// The terms of side * side dots of G records, each got as a dot of its own. The rhs of outer dot j
// starts at record j * slide.
static void get_terms(kq_buffer *lhs, kq_buffer *rhs, uint32_t G, uint32_t side, uint32_t slide,
                      float *terms)
{
    kq_buffer *buffer = create_buffer(NULL, (size_t)4 * G * side, 0, 0);
    const kq_repeat each = {{G, side}, {144, 144 * G}, {292, 0}, {4, 4 * G}};
    kq_quantized_dot_args args = dot_args(KQ_ORDER_SEQUENTIAL, lhs, rhs, 1, buffer);
    args.repeat = &each;
    for (uint32_t j = 0; j < side; j++) {
        args.lhs.view.offset = (uint64_t)144 * G * side * j;
        args.rhs.view.offset = (uint64_t)292 * slide * j;
        expect_ok("each term", kq_quantized_dot(own.device, &args));
        expect_ok("each term", kq_buffer_download(buffer, 0, terms + (size_t)G * side * j,
                                                  (uint64_t)4 * G * side));
    }
    kq_buffer_destroy(&buffer);
}

// 4,096 dots of 16 records, as one loop and as two, with rhs shared by all and by some: two kernels
// each, with the bits that the same terms have when each is a dot of its own and the host adds
// them.
static void a_repeat_is_two_kernels(void **state)
{
    (void)state;
    enum { G = 16 };
    static const char *const folds[] = {"quantized_dot_sequential", "quantized_dot_pairwise"};
    const uint32_t side = own.is_quick ? 8 : 64;
    const uint32_t dots = side * side;
    if (own.is_quick) {
        print_message("left out of the repeats: 64 x 64 dots, it is 8 x 8\n");
    }
    unsigned char *q4 = make_q4_k(7, dots * G);
    unsigned char *values = make_values(8, G + side);
    kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K,
        .values = {create_buffer(values, (size_t)1024 * (G + side), 0, 0), {.G = G + side}},
        .records = {create_buffer(NULL, (size_t)292 * (G + side), 0, 0), {.G = G + side}},
    };
    expect_ok("kq_quantize", kq_quantize(own.device, &quantize));
    kq_buffer *rhs = quantize.records.buffer;
    kq_buffer *lhs = create_buffer(q4, (size_t)144 * G * dots, 0, 0);
    kq_buffer *results = create_buffer(NULL, (size_t)4 * dots, 0, 0);
    float *got = allocate((size_t)4 * dots);
    float *terms = allocate((size_t)4 * G * dots);

    const uint64_t row = (uint64_t)144 * G * side;
    const kq_repeat repeats[] = {
        {{dots, 1}, {144 * G, 0}, {0, 0}, {4, 0}},
        {{side, side}, {144 * G, row}, {0, 0}, {4, 4 * (uint64_t)side}},
        {{side, side}, {144 * G, row}, {0, 292}, {4, 4 * (uint64_t)side}},
    };
    for (unsigned k = 0; k < 6; k++) {
        kq_order order = (kq_order)(k % 2);
        kq_quantized_dot_args args = dot_args(order, lhs, rhs, G, results);
        args.repeat = &repeats[k / 2];
        get_terms(lhs, rhs, G, side, k / 2 == 2, terms);
        memset(got, POISON, (size_t)4 * dots);
        expect_ok("poison", kq_buffer_upload(results, 0, got, (uint64_t)4 * dots));
        wrapped_opencl_reset(&own.wrapped);
        expect_ok("a repeat", kq_quantized_dot(own.device, &args));
        assert_int_equal(wrapped_opencl_launches(&own.wrapped, NULL), 2);
        assert_int_equal(wrapped_opencl_launches(&own.wrapped, folds[order]), 1);
        assert_int_equal(strncmp(own.wrapped.launches[0].kernel, "quantized_dot_terms", 19), 0);
        assert_int_equal(own.wrapped.bytes_written, DOT_TRAFFIC);
        assert_int_equal(own.wrapped.bytes_read, DOT_TRAFFIC);
        expect_ok("results", kq_buffer_download(results, 0, got, (uint64_t)4 * dots));
        // Its last byte is read before it.
        assert_int_equal(own.wrapped.bytes_read, DOT_TRAFFIC + 4 * dots + 1);
        assert_int_equal(wrapped_opencl_calls(&own.wrapped, "clEnqueueCopyBuffer"), 0);
        for (uint32_t i = 0; i < dots; i++) {
            float wanted = fold(order, terms + (size_t)G * i, G);
            assert_false(isnan(wanted));
            assert_memory_equal(&wanted, &got[i], 4);
        }
    }
    kq_buffer_destroy(&quantize.values.buffer);
    kq_buffer_destroy(&quantize.records.buffer);
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&results);
    free(q4);
    free(values);
    free(got);
    free(terms);
}

// Records quantized once are used by many dots without leaving the device or coming back to it; the
// status of quantize is all that moves, and a dot's words. Nothing is staged, whatever the offsets,
// and nothing grows.
static void records_stay_on_the_device(void **state)
{
    (void)state;
    enum { G = 3 };
    const unsigned count = own.is_quick ? 100 : 1000;
    if (own.is_quick) {
        print_message("left out of the operations in a row: %u of 1000\n", 1000 - count);
    }
    unsigned char *values = make_values(1, G);
    unsigned char *q4 = make_q4_k(2, G);
    kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K,
        .values = {create_buffer(values, 1024 * G, 1, 0), {1, 0, 0, G}},
        .records = {create_buffer(NULL, 292 * G, 3, 0), {3, 0, 0, G}},
    };
    kq_buffer *lhs = create_buffer(q4, 144 * G, 2, 0);
    kq_buffer *result = create_buffer(NULL, 4, 1, 0);
    kq_quantized_dot_args dots[2];
    for (unsigned order = 0; order < 2; order++) {
        dots[order] = dot_args((kq_order)order, lhs, quantize.records.buffer, G, result);
        dots[order].lhs.view.offset = 2;
        dots[order].rhs.view.offset = 3;
        dots[order].result_offset = 1;
        expect_ok("kq_quantized_dot", kq_quantized_dot(own.device, &dots[order]));
    }
    wrapped_opencl_reset(&own.wrapped);
    expect_ok("kq_quantize", kq_quantize(own.device, &quantize));
    assert_int_equal(wrapped_opencl_launches(&own.wrapped, "quantize"), 1);
    assert_int_equal(wrapped_opencl_launches(&own.wrapped, NULL), 1);
    assert_int_equal(own.wrapped.bytes_written, sizeof(kq_status));
    assert_int_equal(own.wrapped.bytes_read, sizeof(kq_status));
    for (unsigned order = 0; order < 2; order++) {
        expect_ok("kq_quantized_dot", kq_quantized_dot(own.device, &dots[order]));
    }
    int live[WRAPPED_KIND_COUNT];
    memcpy(live, own.wrapped.live, sizeof live);
    for (unsigned i = 0; i < count; i++) {
        expect_ok("an operation", i % 4 == 3 ? kq_quantize(own.device, &quantize)
                                             : kq_quantized_dot(own.device, &dots[i % 2]));
    }
    unsigned quantizes = 1 + count / 4;
    unsigned dot_count = 2 + count - count / 4;
    uint64_t traffic = quantizes * sizeof(kq_status) + dot_count * DOT_TRAFFIC;
    assert_memory_equal(live, own.wrapped.live, sizeof live);
    assert_int_equal(wrapped_opencl_launches(&own.wrapped, NULL), quantizes + 2 * dot_count);
    assert_int_equal(own.wrapped.bytes_written, traffic);
    assert_int_equal(own.wrapped.bytes_read, traffic);
    assert_int_equal(wrapped_opencl_calls(&own.wrapped, "clEnqueueCopyBuffer"), 0);
    assert_int_equal(wrapped_opencl_calls(&own.wrapped, "clCreateBuffer"), 0);
    assert_int_equal(wrapped_opencl_calls(&own.wrapped, "clBuildProgram"), 0);
    assert_int_equal(wrapped_opencl_calls(&own.wrapped, "clCreateKernel"),
                     wrapped_opencl_calls(&own.wrapped, "clReleaseKernel"));
    kq_buffer_destroy(&quantize.values.buffer);
    kq_buffer_destroy(&quantize.records.buffer);
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&result);
    free(values);
    free(q4);
}

static void nothing_to_do_calls_nothing(void **state)
{
    (void)state;
    kq_buffer *result = create_buffer(NULL, 4, 0, 0);
    const kq_quantize_args quantize = {.format = KQ_FORMAT_Q8_K};
    const kq_repeat none[2] = {{.count = {0, 5}, .result_step = {0, 4}},
                               {.count = {5, 0}, .result_step = {4, 0}}};
    kq_quantized_dot_args dot = dot_args(0, NULL, NULL, 0, result);
    wrapped_opencl_reset(&own.wrapped);
    expect_ok("an empty quantize", kq_quantize(own.device, &quantize));
    for (unsigned k = 0; k < 2; k++) {
        dot.repeat = &none[k];
        expect_ok("a zero count", kq_quantized_dot(own.device, &dot));
    }
    assert_int_equal(wrapped_opencl_launches(&own.wrapped, NULL), 0);
    assert_int_equal(own.wrapped.bytes_written, 0);
    assert_int_equal(own.wrapped.bytes_read, 0);
    unsigned char poison[4];
    memset(poison, POISON, 4);
    expect_buffer("a zero count", result, poison, 4, 0, 0);

    dot.repeat = NULL;
    wrapped_opencl_reset(&own.wrapped);
    expect_ok("G = 0", kq_quantized_dot(own.device, &dot));
    assert_int_equal(wrapped_opencl_launches(&own.wrapped, NULL), 1);
    expect_buffer("G = 0", result, "\0\0\0", 4, 0, 0);
    kq_buffer_destroy(&result);
}

// --- Other limits

enum { SMALL_ALLOCATION = 8192, CUT_COUNT = 3 };

// Repeats whose terms take much more memory than SMALL_ALLOCATION while all else fits: one record
// of each operand is every record of a dot. Sets results[k], of 8,000 bytes at most; returns the
// launches of each.
static void run_large_repeats(unsigned char results[CUT_COUNT][2][8000],
                              unsigned launches[CUT_COUNT][2])
{
    static const kq_repeat repeats[CUT_COUNT] = {
        {{20, 100}, {1, 20}, {2, 3}, {4, 80}},
        {{2000, 1}, {3, 0}, {1, 0}, {4, 0}},
        {{600, 3}, {5, 1}, {3, 7}, {4, 2400}},
    };
    unsigned char *lhs_bytes = make_q4_k(3, 50);
    unsigned char *rhs_bytes = make_values(4, 7);
    kq_buffer *lhs = create_buffer(lhs_bytes, 50 * KQ_Q4_K_BYTES, 0, 0);
    kq_buffer *rhs = create_buffer(rhs_bytes, 7 * KQ_BLOCK_BYTES, 0, 0);
    for (unsigned k = 0; k < CUT_COUNT; k++) {
        for (unsigned order = 0; order < 2; order++) {
            kq_buffer *result = create_buffer(NULL, 8000, 0, 0);
            kq_quantized_dot_args args = dot_args((kq_order)order, lhs, rhs, 16, result);
            args.lhs.view.stride = KQ_BROADCAST;
            args.rhs.view.stride = KQ_BROADCAST;
            args.repeat = &repeats[k];
            wrapped_opencl_reset(&own.wrapped);
            expect_ok("a repeat of many terms", kq_quantized_dot(own.device, &args));
            launches[k][order] = wrapped_opencl_launches(&own.wrapped, NULL);
            expect_ok("results", kq_buffer_download(result, 0, results[k][order], 8000));
            kq_buffer_destroy(&result);
        }
    }
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&rhs);
    free(lhs_bytes);
    free(rhs_bytes);
}

// A buffer may not be longer than the device allows, and scratch isn't: a repeat whose terms don't
// fit at once is cut, which no bit shows. The wrapped driver holds to the limit.
static void keeps_to_the_largest_allocation(void **state)
{
    (void)state;
    static unsigned char results[2][CUT_COUNT][2][8000];
    unsigned launches[2][CUT_COUNT][2];
    kq_device *main_device = own.device;
    kq_buffer *two_segments = NULL;
    if (own.is_quick) {
        print_message("left out: repeats that are cut\n");
        skip();
    }
    run_large_repeats(results[0], launches[0]);
    own.wrapped.max_mem_alloc_size = SMALL_ALLOCATION;
    expect_ok("a device of small allocations", open_device(0, &own.device));
    expect_ok("a buffer of two segments",
              kq_buffer_create(own.device, SMALL_ALLOCATION + 1, &two_segments));
    kq_buffer_destroy(&two_segments);
    run_large_repeats(results[1], launches[1]);
    kq_device_destroy(&own.device);
    own.wrapped.max_mem_alloc_size = 0;
    own.device = main_device;
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    for (unsigned k = 0; k < CUT_COUNT; k++) {
        for (unsigned order = 0; order < 2; order++) {
            // 128,000 or 115,200 bytes of terms.
            assert_int_equal(launches[0][k][order], 2);
            assert_in_range(launches[1][k][order], 2 * 15, 2 * 40);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_its_driver),
        cmocka_unit_test(quantizes_every_vector),
        cmocka_unit_test(dots_every_vector),
        cmocka_unit_test(agrees_with_every_bulk_vector),
        cmocka_unit_test(a_repeat_is_two_kernels),
        cmocka_unit_test(records_stay_on_the_device),
        cmocka_unit_test(nothing_to_do_calls_nothing),
        cmocka_unit_test(keeps_to_the_largest_allocation),
        cmocka_unit_test(leaves_nothing_behind),
    };
    int status = own_start(argc, argv, true);
    if (status == EXIT_SUCCESS) {
        int failed = cmocka_run_group_tests_name("opencl_memory", tests, NULL, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    own_finish();
    return status;
}
