// Level 3 on the memory layouts, limits and versions that the wrapped driver shows: every vector on
// each, what is moved, and what is left alone.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none, or no validation layer if that is asked for.
// Usage: vulkan_memory_test [--validate|--validate=gpu] FOLDER...
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"
#include "vulkan_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_unified(wrapped_layout layout)
{
    return layout == WRAPPED_LAYOUT_UNIFIED || layout == WRAPPED_LAYOUT_UNIFIED_NO_CACHED ||
           layout == WRAPPED_LAYOUT_UNIFIED_NONCOHERENT;
}

static bool is_noncoherent(wrapped_layout layout)
{
    return layout == WRAPPED_LAYOUT_UNIFIED_NONCOHERENT ||
           layout == WRAPPED_LAYOUT_DISCRETE_NONCOHERENT;
}

// --- Every vector

enum { GUARD = 24 };

typedef struct buffers {
    kq_buffer *lhs, *rhs, *result;
    unsigned char *expected, *got;
    const char *name;  // of the vector in work
} buffers;

static buffers make_buffers(fixture *f, uint32_t G)
{
    uint64_t bytes = (uint64_t)(G + 1) * KQ_BLOCK_BYTES;
    return (buffers){
        .lhs = make_buffer(f, bytes),
        .rhs = make_buffer(f, bytes),
        .result = make_buffer(f, 64),
        .expected = allocate(bytes),
        .got = allocate(bytes),
    };
}

static void destroy_buffers(buffers *b)
{
    kq_buffer_destroy(&b->lhs);
    kq_buffer_destroy(&b->rhs);
    kq_buffer_destroy(&b->result);
    free(b->expected);
    free(b->got);
}

// Poisons an output and its neighbourhood, on the device and in what is expected of it.
static void poison(buffers *b, kq_buffer *output, uint64_t bytes)
{
    memset(b->expected, POISON, (size_t)bytes);
    upload(output, 0, b->expected, bytes);
}

static void compare(buffers *b, kq_buffer *output, uint64_t bytes)
{
    memset(b->got, 0, (size_t)bytes);
    download(output, 0, b->got, bytes);
    if (memcmp(b->got, b->expected, (size_t)bytes) != 0) {
        print_error("vector %s\n", b->name);
    }
    assert_memory_equal(b->got, b->expected, (size_t)bytes);
}

static void check_quantize_vector(fixture *f, buffers *b, const quantize_vector *v, uint64_t shift)
{
    kq_domain domain = {0};
    uint64_t bytes = (uint64_t)v->G * KQ_Q8_K_BYTES;
    b->name = v->name;
    uint64_t at = GUARD + shift % 8;
    poison(b, b->rhs, at + bytes + GUARD);
    memcpy(b->expected + at, v->records, (size_t)bytes);
    upload(b->lhs, shift % 5, v->values, (uint64_t)v->G * KQ_BLOCK_BYTES);
    kq_result result =
        quantize(f, view_of(b->lhs, shift % 5, v->G), view_of(b->rhs, at, v->G), &domain);
    compare(b, b->rhs, at + bytes + GUARD);
    assert_int_equal(result, v->domain.reason != KQ_REASON_NONE ? KQ_ERROR_DOMAIN : KQ_OK);
    assert_memory_equal(&domain, &v->domain, sizeof domain);
}

static void check_dot_vector(fixture *f, buffers *b, const dot_vector *v, uint64_t shift)
{
    b->name = v->name;
    upload(b->lhs, shift % 7, v->lhs, (uint64_t)v->G * KQ_Q4_K_BYTES);
    upload(b->rhs, shift % 6, v->rhs, (uint64_t)v->G * KQ_Q8_K_BYTES);
    for (int order = 0; order < 2; order++) {
        uint64_t at = GUARD + shift % 8;
        poison(b, b->result, 64);
        store_u32(b->expected + at, v->results[order]);
        kq_result result = dot(f->device, (kq_order)order, view_of(b->lhs, shift % 7, v->G),
                               view_of(b->rhs, shift % 6, v->G), b->result, at, NULL);
        assert_int_equal(result, KQ_OK);
        compare(b, b->result, 64);
    }
}

static void check_bulk_vector(fixture *f, buffers *b, const bulk_vector *v)
{
    b->name = "of bulk.tsv";
    draw_values(v->seed, v->G, b->got);
    upload(b->lhs, 0, b->got, (uint64_t)v->G * KQ_BLOCK_BYTES);
    poison(b, b->rhs, (uint64_t)v->G * KQ_Q8_K_BYTES + GUARD);
    assert_int_equal(quantize(f, view_of(b->lhs, 0, v->G), view_of(b->rhs, 0, v->G), NULL), KQ_OK);
    download(b->rhs, 0, b->got, (uint64_t)v->G * KQ_Q8_K_BYTES + GUARD);
    assert_true(fnv1a64(b->got, (size_t)v->G * KQ_Q8_K_BYTES) == v->digest);
    assert_memory_equal(b->got + (size_t)v->G * KQ_Q8_K_BYTES,
                        b->expected + (size_t)v->G * KQ_Q8_K_BYTES, GUARD);
    draw_q4_k(v->seed + 1, v->G, b->got);
    upload(b->lhs, 0, b->got, (uint64_t)v->G * KQ_Q4_K_BYTES);
    for (int order = 0; order < 2; order++) {
        poison(b, b->result, 64);
        store_u32(b->expected, v->results[order]);
        assert_int_equal(dot(f->device, (kq_order)order, view_of(b->lhs, 0, v->G),
                             view_of(b->rhs, 0, v->G), b->result, 0, NULL),
                         KQ_OK);
        compare(b, b->result, 64);
    }
}

static void test_vectors(void **state)
{
    fixture *f = *state;
    const vectors *v = f->vectors;
    open_device(f);
    uint32_t G =
        v->largest_quantize_G > v->largest_dot_G ? v->largest_quantize_G : v->largest_dot_G;
    buffers b = make_buffers(f, G);
    for (size_t i = 0; i < v->quantize_count; i++) {
        check_quantize_vector(f, &b, &v->quantize[i], i);
    }
    for (size_t i = 0; i < v->dot_count; i++) {
        check_dot_vector(f, &b, &v->dot[i], i);
    }
    destroy_buffers(&b);
    b = make_buffers(f, v->largest_bulk_G);
    for (size_t i = 0; i < v->bulk_count; i++) {
        check_bulk_vector(f, &b, &v->bulk[i]);
    }
    destroy_buffers(&b);

    const wrapped_vulkan_counts *counts = &f->wrapped.counts;
    assert_true(counts->dispatches > v->quantize_count + 2 * v->dot_count);
    assert_int_equal(counts->copied_bytes, 0);
    if (is_unified(f->shown.layout)) {
        assert_int_equal(counts->copies, 0);
    }
    if (f->shown.layout != WRAPPED_LAYOUT_OF_DRIVER) {
        assert_int_equal(counts->flushed_ranges != 0, is_noncoherent(f->shown.layout));
        assert_int_equal(counts->invalidated_ranges != 0, is_noncoherent(f->shown.layout));
    }
    close_device(f);
}

// --- Memory types

static void test_memory_types(void **state)
{
    // The types of operands and staging; -1: there is no staging.
    static const int types[WRAPPED_LAYOUT_COUNT][2] = {
        [WRAPPED_LAYOUT_UNIFIED] = {0, -1},
        [WRAPPED_LAYOUT_UNIFIED_NO_CACHED] = {0, -1},
        [WRAPPED_LAYOUT_UNIFIED_NONCOHERENT] = {0, -1},
        [WRAPPED_LAYOUT_DISCRETE] = {0, 2},
        [WRAPPED_LAYOUT_DISCRETE_NONCOHERENT] = {0, 2},
        [WRAPPED_LAYOUT_NO_CACHED] = {0, 1},
        [WRAPPED_LAYOUT_REBAR] = {0, 1},
    };
    fixture *f = *state;
    const int *type = types[f->shown.layout];
    bool is_staged = type[1] >= 0;
    open_device(f);
    kq_buffer *lhs = make_buffer(f, KQ_BLOCK_BYTES);
    kq_buffer *rhs = make_buffer(f, KQ_Q8_K_BYTES);
    unsigned char block[KQ_BLOCK_BYTES];
    draw_values(7, 1, block);
    upload(lhs, 0, block, sizeof block);
    assert_int_equal(quantize(f, view_of(lhs, 0, 1), view_of(rhs, 0, 1), NULL), KQ_OK);
    download(rhs, 0, block, KQ_Q8_K_BYTES);
    for (int i = 0; i < WRAPPED_TYPE_CAPACITY; i++) {
        unsigned operands = i == type[0] ? 3 : 0;  // with status
        unsigned staging = i == type[1] ? 1 : 0;
        assert_int_equal(f->wrapped.counts.allocations[i], operands + staging);
        assert_int_equal(f->wrapped.counts.maps[i], is_staged ? staging : operands);
    }
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&rhs);
    close_device(f);
}

// --- What is moved

// The dots of a repeat are two dispatches in one submission, in which nothing is moved; reading the
// results moves them alone.
static void check_repeat(fixture *f, kq_order order, const kq_repeat *repeat, uint32_t lhs_count,
                         uint32_t rhs_count)
{
    enum { G = 16 };
    uint64_t lhs_bytes = (uint64_t)lhs_count * G * KQ_Q4_K_BYTES;
    uint64_t rhs_bytes = (uint64_t)rhs_count * G * KQ_Q8_K_BYTES;
    uint64_t result_bytes = (uint64_t)repeat->count[0] * repeat->count[1] * 4;
    unsigned char *lhs_data = allocate(lhs_bytes);
    unsigned char *rhs_data = allocate(rhs_bytes);
    unsigned char *results[2] = {allocate(result_bytes), allocate(result_bytes)};
    kq_device *reference = NULL;
    draw_q4_k(1, lhs_count * G, lhs_data);
    draw_q8_k(2, rhs_count * G, rhs_data);
    assert_int_equal(kq_device_create(&(kq_device_params){.device = "reference"}, &reference),
                     KQ_OK);
    for (int i = 0; i < 2; i++) {
        kq_device *device = i == 0 ? reference : f->device;
        kq_buffer *lhs = NULL;
        kq_buffer *rhs = NULL;
        kq_buffer *result = NULL;
        assert_int_equal(kq_buffer_create(device, lhs_bytes, &lhs), KQ_OK);
        assert_int_equal(kq_buffer_create(device, rhs_bytes, &rhs), KQ_OK);
        assert_int_equal(kq_buffer_create(device, result_bytes, &result), KQ_OK);
        upload(lhs, 0, lhs_data, lhs_bytes);
        upload(rhs, 0, rhs_data, rhs_bytes);
        memset(results[i], POISON, (size_t)result_bytes);
        upload(result, 0, results[i], result_bytes);
        wrapped_vulkan_reset(&f->wrapped);
        assert_int_equal(
            dot(device, order, view_of(lhs, 0, G), view_of(rhs, 0, G), result, 0, repeat), KQ_OK);
        wrapped_vulkan_counts counts = f->wrapped.counts;
        if (i == 1) {
            const char *fold =
                order == KQ_ORDER_PAIRWISE ? "quantized_dot_pairwise" : "quantized_dot_sequential";
            assert_int_equal(counts.dispatches, 2);
            assert_int_equal(wrapped_vulkan_dispatches(&f->wrapped, "quantized_dot_terms"), 1);
            assert_int_equal(wrapped_vulkan_dispatches(&f->wrapped, fold), 1);
            assert_int_equal(counts.submits, 1);
            assert_int_equal(counts.uploaded_bytes, 0);
            assert_int_equal(counts.read_back_bytes, 0);
            assert_int_equal(counts.copied_bytes, 0);
            assert_int_equal(counts.updated_bytes, 0);
            // What shows that it was done has atoms of its own.
            assert_true(counts.flushed_bytes <= WRAPPED_ATOM_BYTES);
            assert_true(counts.invalidated_bytes <= 3 * WRAPPED_ATOM_BYTES);
        }
        download(result, 0, results[i], result_bytes);
        if (i == 1) {
            counts = f->wrapped.counts;
            assert_int_equal(counts.read_back_bytes,
                             is_unified(f->shown.layout) ? 0 : result_bytes);
            assert_int_equal(counts.uploaded_bytes, 0);
        }
        kq_buffer_destroy(&lhs);
        kq_buffer_destroy(&rhs);
        kq_buffer_destroy(&result);
    }
    assert_memory_equal(results[1], results[0], (size_t)result_bytes);
    kq_device_destroy(&reference);
    free(lhs_data);
    free(rhs_data);
    free(results[0]);
    free(results[1]);
}

static void test_repeats(void **state)
{
    fixture *f = *state;
    const kq_repeat row = {
        .count = {4096, 1},
        .lhs_step = {16 * KQ_Q4_K_BYTES, 0},
        .result_step = {4, 0},
    };
    const kq_repeat table = {
        .count = {64, 64},
        .lhs_step = {16 * KQ_Q4_K_BYTES, 0},
        .rhs_step = {0, 16 * KQ_Q8_K_BYTES},
        .result_step = {4, 256},
    };
    open_device(f);
    for (int order = 0; order < 2; order++) {
        check_repeat(f, (kq_order)order, &row, 4096, 1);
        check_repeat(f, (kq_order)order, &table, 64, 64);
    }
    close_device(f);
}

// Records that quantize made are used where they are, and views at multiples of 4 are bound there.
static void test_records_stay(void **state)
{
    enum { G = 24, DOTS = 32 };
    fixture *f = *state;
    open_device(f);
    kq_buffer *values = make_buffer(f, G * KQ_BLOCK_BYTES);
    kq_buffer *records = make_buffer(f, 12 + G * KQ_Q8_K_BYTES);
    kq_buffer *weights = make_buffer(f, G * KQ_Q4_K_BYTES);
    kq_buffer *result = make_buffer(f, 4 * DOTS);
    unsigned char *data = allocate(G * KQ_BLOCK_BYTES);
    uint32_t got[DOTS];
    draw_values(3, G, data);
    upload(values, 0, data, G * KQ_BLOCK_BYTES);
    draw_q4_k(4, G, data);
    upload(weights, 0, data, G * KQ_Q4_K_BYTES);
    wrapped_vulkan_reset(&f->wrapped);
    assert_int_equal(quantize(f, view_of(values, 0, G), view_of(records, 12, G), NULL), KQ_OK);
    assert_int_equal(f->wrapped.counts.dispatches, 1);
    assert_int_equal(f->wrapped.counts.submits, 1);
    assert_int_equal(f->wrapped.counts.updated_bytes, 0);
    assert_int_equal(f->wrapped.counts.read_back_bytes, 0);
    for (uint32_t i = 0; i < DOTS; i++) {
        // Other parts of the same records: dot i takes some from record i % 8 on.
        uint32_t first = i % 8;
        assert_int_equal(
            dot(f->device, (kq_order)(i % 2), view_of(weights, first * KQ_Q4_K_BYTES, G - first),
                view_of(records, 12 + first * KQ_Q8_K_BYTES, G - first), result, 4 * i, NULL),
            KQ_OK);
    }
    assert_int_equal(f->wrapped.counts.dispatches, 1 + 2 * DOTS);
    assert_int_equal(f->wrapped.counts.submits, 1 + DOTS);
    assert_int_equal(f->wrapped.counts.uploaded_bytes, 0);
    assert_int_equal(f->wrapped.counts.read_back_bytes, 0);
    assert_int_equal(f->wrapped.counts.copied_bytes, 0);
    download(result, 0, got, sizeof got);
    for (uint32_t i = 16; i < DOTS; i++) {
        assert_int_equal(got[i], got[i - 16]);
    }
    assert_true(f->wrapped.counts.read_back_bytes <= sizeof got);
    free(data);
    kq_buffer_destroy(&values);
    kq_buffer_destroy(&records);
    kq_buffer_destroy(&weights);
    kq_buffer_destroy(&result);
    close_device(f);
}

static void test_empty(void **state)
{
    fixture *f = *state;
    open_device(f);
    kq_buffer *result = make_buffer(f, 40);
    const kq_buffer_view nothing = {0};
    unsigned char expected[40];
    unsigned char got[40];
    for (int order = 0; order < 2; order++) {
        memset(expected, POISON, sizeof expected);
        upload(result, 0, expected, sizeof expected);
        memset(expected + 7, 0, 4);
        memset(expected + 16, 0, 4);
        wrapped_vulkan_reset(&f->wrapped);
        const kq_repeat repeat = {.count = {2, 1}, .result_step = {9, 0}};
        assert_int_equal(dot(f->device, (kq_order)order, nothing, nothing, result, 7, &repeat),
                         KQ_OK);
        assert_int_equal(f->wrapped.counts.dispatches, 1);
        download(result, 0, got, sizeof got);
        assert_memory_equal(got, expected, sizeof got);
    }
    wrapped_vulkan_reset(&f->wrapped);
    const kq_repeat none = {.count = {3, 0}, .result_step = {4, 0}};
    assert_int_equal(dot(f->device, KQ_ORDER_SEQUENTIAL, nothing, nothing, result, 0, &none),
                     KQ_OK);
    assert_int_equal(quantize(f, nothing, nothing, NULL), KQ_OK);
    assert_int_equal(f->wrapped.counts.submits, 0);
    assert_int_equal(f->wrapped.counts.dispatches, 0);
    kq_buffer_destroy(&result);
    close_device(f);
}

// --- Upload and download

// Any bytes at any offset, also across the ends of atoms and of the buffer.
static void test_odd_ranges(void **state)
{
    enum { BYTES = 2 * WRAPPED_ATOM_BYTES + 19 };
    static const uint32_t bases[] = {0, WRAPPED_ATOM_BYTES - 9, BYTES - 16};
    fixture *f = *state;
    open_device(f);
    kq_buffer *buffer = make_buffer(f, BYTES);
    unsigned char model[BYTES];
    unsigned char got[BYTES];
    unsigned char part[16];
    uint64_t seed = 11;
    draw_bytes(&seed, model, sizeof model);
    upload(buffer, 0, model, sizeof model);
    for (size_t k = 0; k < sizeof bases / sizeof *bases; k++) {
        for (uint32_t bytes = 1; bytes <= 7; bytes++) {
            for (uint32_t offset = bases[k]; offset <= bases[k] + 9; offset++) {
                draw_bytes(&seed, model + offset, bytes);
                upload(buffer, offset, model + offset, bytes);
                memset(part, POISON, sizeof part);
                download(buffer, offset, part + 1, bytes);
                assert_memory_equal(part + 1, model + offset, bytes);
                assert_int_equal(part[0], POISON);
                assert_int_equal(part[1 + bytes], POISON);
                download(buffer, 0, got, sizeof got);
                assert_memory_equal(got, model, sizeof got);
            }
        }
    }
    assert_int_equal(kq_buffer_upload(buffer, BYTES, model, 0), KQ_OK);
    assert_int_equal(kq_buffer_download(buffer, BYTES - 1, got, 2), KQ_ERROR_ARGUMENT);
    kq_buffer_destroy(&buffer);
    close_device(f);
}

// What the device wrote since the host last looked survives an upload beside it.
static void test_upload_beside_records(void **state)
{
    // From two atoms before the one that the record starts in, to one after that it ends in.
    enum {
        AT = 2 * WRAPPED_ATOM_BYTES + 67,
        END = AT + KQ_Q8_K_BYTES,
        BYTES = END + WRAPPED_ATOM_BYTES + 1,
    };
    fixture *f = *state;
    open_device(f);
    kq_buffer *values = make_buffer(f, KQ_BLOCK_BYTES);
    kq_buffer *records = make_buffer(f, BYTES);
    unsigned char block[KQ_BLOCK_BYTES];
    unsigned char expected[BYTES];
    unsigned char got[BYTES];
    memset(expected, POISON, sizeof expected);
    upload(records, 0, expected, sizeof expected);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        draw_values(seed, 1, block);
        upload(values, 0, block, sizeof block);
        kq_reason reason = kq_block_reason(block, 0, NULL);
        assert_int_equal(reason, KQ_REASON_NONE);
        assert_int_equal(quantize(f, view_of(values, 0, 1), view_of(records, AT, 1), NULL), KQ_OK);
        memset(expected, (int)seed, AT);
        memset(expected + END, (int)seed, BYTES - END);
        upload(records, 0, expected, AT);
        upload(records, END, expected + END, BYTES - END);
        download(records, 0, got, sizeof got);
        kq_device *reference = NULL;
        assert_int_equal(kq_device_create(&(kq_device_params){.device = "reference"}, &reference),
                         KQ_OK);
        float numbers[KQ_BLOCK];
        memcpy(numbers, block, sizeof block);
        assert_int_equal(
            kq_quantize_host(reference, KQ_FORMAT_Q8_K, numbers, KQ_BLOCK, expected + AT, NULL),
            KQ_OK);
        kq_device_destroy(&reference);
        assert_memory_equal(got, expected, sizeof got);
    }
    kq_buffer_destroy(&values);
    kq_buffer_destroy(&records);
    close_device(f);
}

// More than any staging buffer holds, from and to odd offsets.
static void test_large_ranges(void **state)
{
    enum { BYTES = 40 * 1000 * 1000 + 5 };
    fixture *f = *state;
    open_device(f);
    kq_buffer *buffer = make_buffer(f, BYTES + 8);
    unsigned char *data = allocate(BYTES);
    unsigned char *got = allocate(BYTES + 8);
    uint64_t seed = 5;
    draw_bytes(&seed, data, BYTES);
    memset(got, POISON, BYTES + 8);
    upload(buffer, 0, got, 8);
    upload(buffer, BYTES, got, 8);
    upload(buffer, 3, data, BYTES);
    memset(got, 0, BYTES + 8);
    download(buffer, 0, got, BYTES + 8);
    assert_memory_equal(got + 3, data, BYTES);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(got[i < 3 ? i : BYTES + i], POISON);
    }
    memset(got, 0, BYTES);
    download(buffer, 5, got, BYTES - 2);
    assert_memory_equal(got, data + 2, BYTES - 2);
    free(data);
    free(got);
    kq_buffer_destroy(&buffer);
    close_device(f);
}

// Bindings hold 3 of the kernel's units and segments 8, so 20 units are 8 pieces: 3, 3, 2, 3, 3, 2,
// 3, 1.
static void test_bandwidth(void **state)
{
    enum { UNIT = 16384, UNITS = 20, BYTES = UNITS * UNIT, PIECES = 8 };
    fixture *f = *state;
    open_device(f);
    kq_buffer *from = make_buffer(f, BYTES), *to = make_buffer(f, BYTES);
    unsigned char *data = allocate(BYTES), *got = allocate(BYTES);
    uint64_t seed = 6;
    draw_bytes(&seed, data, BYTES);
    upload(from, 0, data, BYTES);
    for (int reads_only = 0; reads_only < 2; reads_only++) {
        kq_recording *recording = NULL;
        uint32_t sum = 0;
        assert_int_equal(kq_bandwidth_record(f->device, from, to, BYTES, reads_only, &recording),
                         KQ_OK);
        wrapped_vulkan_reset(&f->wrapped);
        assert_int_equal(kq_recording_run(recording, NULL), KQ_OK);
        assert_int_equal(f->wrapped.counts.submits, PIECES);
        download(to, 0, got, BYTES);
        // Behind what it writes there still is the copy.
        size_t written = reads_only ? BYTES / 64 : 0;
        for (size_t i = 0; i < BYTES; i += 4) {
            sum ^= load_u32(data + i) ^ (i < written ? load_u32(got + i) : 0);
        }
        assert_true(!reads_only || sum == 0);
        assert_memory_equal(got + written, data + written, BYTES - written);
        kq_recording_destroy(&recording);
    }
    free(data);
    free(got);
    kq_buffer_destroy(&from);
    kq_buffer_destroy(&to);
    close_device(f);
}

// --- Objects and memory

static void test_thousand_operations(void **state)
{
    enum { G = 3 };
    fixture *f = *state;
    open_device(f);
    kq_buffer *values = make_buffer(f, G * KQ_BLOCK_BYTES);
    kq_buffer *records = make_buffer(f, G * KQ_Q8_K_BYTES);
    kq_buffer *weights = make_buffer(f, G * KQ_Q4_K_BYTES);
    kq_buffer *result = make_buffer(f, 4);
    unsigned char data[G * KQ_BLOCK_BYTES];
    uint32_t first = 0;
    int live[WRAPPED_VULKAN_KIND_COUNT] = {0};
    draw_values(8, G, data);
    upload(values, 0, data, sizeof data);
    draw_q4_k(9, G, data);
    upload(weights, 0, data, G * KQ_Q4_K_BYTES);
    for (int i = 0; i < 1000; i++) {
        uint32_t got = 0;
        kq_buffer *extra = make_buffer(f, 100);
        assert_int_equal(quantize(f, view_of(values, 0, G), view_of(records, 0, G), NULL), KQ_OK);
        assert_int_equal(dot(f->device, (kq_order)(i % 2), view_of(weights, 0, G),
                             view_of(records, 0, G), result, 0, NULL),
                         KQ_OK);
        download(result, 0, &got, sizeof got);
        kq_buffer_destroy(&extra);
        if (i == 1) {
            first = got;
            memcpy(live, f->wrapped.live, sizeof live);
            wrapped_vulkan_reset(&f->wrapped);
        }
        assert_true(i < 1 || i % 2 == 0 || got == first);
    }
    assert_memory_equal(f->wrapped.live, live, sizeof live);
    assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkAllocateMemory"), 998);
    assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkCreateComputePipelines"), 0);
    kq_buffer_destroy(&values);
    kq_buffer_destroy(&records);
    kq_buffer_destroy(&weights);
    kq_buffer_destroy(&result);
    close_device(f);
}

// Resident bytes of this process, or 0 where the system doesn't say or a sanitizer swells them.
static uint64_t resident_bytes(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return 0;
#elif defined(__has_feature)
# if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return 0;
# endif
#endif
    char line[256];
    unsigned long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmRSS: %lu", &kilobytes) == 1) {
            break;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return (uint64_t)kilobytes * 1024;
}

// A device whose memory is the host's takes no more than its buffers and a little.
static void test_resident_memory(void **state)
{
    enum { DOTS = 4096, G = 64 };
    fixture *f = *state;
    uint64_t lhs_bytes = (uint64_t)DOTS * G * KQ_Q4_K_BYTES;
    uint64_t buffer_bytes = lhs_bytes + G * KQ_Q8_K_BYTES + DOTS * 4 + (uint64_t)DOTS * G * 4;
    const kq_repeat repeat = {
        .count = {DOTS, 1},
        .lhs_step = {G * KQ_Q4_K_BYTES, 0},
        .result_step = {4, 0},
    };
    open_device(f);
    // The bound is lavapipe's; what another driver's compiler keeps is its own affair.
    if (resident_bytes() == 0 || strstr(kq_device_get_info(f->device)->name, "llvmpipe") == NULL) {
        close_device(f);
        skip();
    }
    unsigned char *data = allocate(lhs_bytes);
    draw_q4_k(1, DOTS * G, data);
    uint64_t before = resident_bytes();
    kq_buffer *lhs = make_buffer(f, lhs_bytes);
    kq_buffer *rhs = make_buffer(f, G * KQ_Q8_K_BYTES);
    kq_buffer *result = make_buffer(f, DOTS * 4);
    upload(lhs, 0, data, lhs_bytes);
    draw_q8_k(2, G, data);
    upload(rhs, 0, data, G * KQ_Q8_K_BYTES);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(dot(f->device, (kq_order)(i % 2), view_of(lhs, 0, G), view_of(rhs, 0, G),
                             result, 0, &repeat),
                         KQ_OK);
    }
    uint64_t after = resident_bytes();
    assert_true(after < before + buffer_bytes + (64u << 20));
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&rhs);
    kq_buffer_destroy(&result);
    free(data);
    close_device(f);
}

// --- Versions

// Where the loader is of version 1.0, nothing newer is called, be it there or not.
static void test_version_1_0(void **state)
{
    fixture *f = *state;
    open_device(f);
    const kq_device_info *info = kq_device_get_info(f->device);
    assert_string_equal(info->uuid, "");
    assert_memory_equal(info->driver, "0x", 2);
    assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkGetPhysicalDeviceProperties2"), 0);
    close_device(f);
}

// --- All of it

enum { TEST_CAPACITY = 128 };

typedef struct suite {
    struct CMUnitTest tests[TEST_CAPACITY];
    fixture fixtures[TEST_CAPACITY];
    char names[TEST_CAPACITY][64];
    size_t count;
} suite;

static void add(suite *s, const char *name, const char *variant, CMUnitTestFunction function,
                const vectors *vectors, wrapped_vulkan shown)
{
    size_t i = s->count++;
    snprintf(s->names[i], sizeof s->names[i], "%s: %s", name, variant);
    s->fixtures[i] = (fixture){.shown = shown, .vectors = vectors};
    s->tests[i] = (struct CMUnitTest){
        .name = s->names[i],
        .test_func = function,
        .initial_state = &s->fixtures[i],
    };
}

int main(int argc, char **argv)
{
    static suite s;
    vectors vectors = {0};
    wrapped_validation validation = WRAPPED_VALIDATION_NONE;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--only=", 7) == 0) {
            cmocka_set_test_filter(argv[i] + 7);
            continue;
        }
        wrapped_validation asked = wrapped_vulkan_validation(argv[i]);
        validation = asked != WRAPPED_VALIDATION_NONE ? asked : validation;
        if (asked == WRAPPED_VALIDATION_NONE && !add_vectors(&vectors, argv[i])) {
            return EXIT_FAILURE;
        }
    }
    if (vectors.dot_count == 0) {
        fprintf(stderr, "usage: vulkan_memory_test [--validate|--validate=gpu] [--only=GLOB] "
                        "FOLDER...\n");
        return EXIT_FAILURE;
    }
    if (!device_is_possible(validation)) {
        free_vectors(&vectors);
        return EXIT_SKIP;
    }
    for (int layout = 0; layout < WRAPPED_LAYOUT_COUNT; layout++) {
        const wrapped_vulkan shown = {.layout = (wrapped_layout)layout, .validation = validation};
        const char *name = wrapped_layout_names[layout];
        add(&s, "vectors", name, test_vectors, &vectors, shown);
        add(&s, "odd ranges", name, test_odd_ranges, NULL, shown);
        add(&s, "large ranges", name, test_large_ranges, NULL, shown);
        add(&s, "upload beside records", name, test_upload_beside_records, NULL, shown);
        add(&s, "empty", name, test_empty, NULL, shown);
        if (layout != WRAPPED_LAYOUT_OF_DRIVER) {
            add(&s, "memory types", name, test_memory_types, NULL, shown);
            add(&s, "repeats", name, test_repeats, NULL, shown);
            add(&s, "records stay", name, test_records_stay, NULL, shown);
        }
    }
    const wrapped_vulkan unified = {.layout = WRAPPED_LAYOUT_UNIFIED, .validation = validation};
    wrapped_vulkan discrete = unified;
    discrete.layout = WRAPPED_LAYOUT_DISCRETE;
    wrapped_vulkan least = unified;
    least.api_version = VK_API_VERSION_1_0;
    least.hides_extensions = true;
    least.offset_alignment = 256;
    least.max_storage_buffer_range = 1u << 27;
    wrapped_vulkan newer = least;
    newer.finds_newer = true;
    add(&s, "vectors", "the least device", test_vectors, &vectors, least);
    add(&s, "version 1.0", "the least device", test_version_1_0, NULL, least);
    add(&s, "version 1.0", "newer functions are found", test_version_1_0, NULL, newer);
    wrapped_vulkan narrow = unified;
    narrow.max_storage_buffer_range = 3 * 16384 + 100;
    narrow.max_allocation = 8 * 16384;
    narrow.max_groups = 2;
    add(&s, "bandwidth", "narrow bindings", test_bandwidth, NULL, narrow);
    add(&s, "thousand operations", "unified", test_thousand_operations, NULL, unified);
    add(&s, "thousand operations", "discrete", test_thousand_operations, NULL, discrete);
    if (validation == WRAPPED_VALIDATION_NONE) {  // whose own memory is not to be counted
        add(&s, "resident memory", "unified", test_resident_memory, NULL, unified);
    }
    int failed = cmocka_run_group_tests_name("vulkan_memory", s.tests, NULL, NULL);
    free_vectors(&vectors);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
