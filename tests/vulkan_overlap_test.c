// Level 3 while the device works and the host copies: two submissions under way and no more,
// nothing used again before it is waited for, the bytes of the reference, whatever fails in the
// middle.
//
// The wrapped driver can defer: it begins a submission only when that is waited for. So what the
// host touches too early shows in the bytes, and not just now and then.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none, or no validation layer if that is asked for.
// Usage: vulkan_overlap_test [--validate] [--quick] [--only=GLOB] [FOLDER...]
// --quick leaves out the failures, folders are not minded.
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

// README.md: what a device takes beside buffers.
enum { MOST_BESIDE_BUFFERS = 32 << 20 };

static bool is_unified(const fixture *f)
{
    return f->shown.layout == WRAPPED_LAYOUT_UNIFIED ||
           f->shown.layout == WRAPPED_LAYOUT_UNIFIED_NO_CACHED ||
           f->shown.layout == WRAPPED_LAYOUT_UNIFIED_NONCOHERENT;
}

// --- An operation on host memory, and what the reference makes of it

typedef struct host_operation {
    bool is_dot;
    uint32_t G, count;
    kq_order order;
    float *values;
    unsigned char *lhs, *rhs;
    uint64_t input_bytes, output_bytes;
    unsigned char *expected, *got;
    kq_result expected_result;
    kq_domain expected_domain;
} host_operation;

static kq_result run_host(kq_device *device, const host_operation *o, unsigned char *output,
                          kq_domain *domain)
{
    if (o->is_dot) {
        return kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                     o->order, o->count, o->lhs,
                                     (uint64_t)o->count * o->G * KQ_Q4_K_BYTES, o->rhs,
                                     (uint64_t)o->G * KQ_Q8_K_BYTES, (float *)(void *)output);
    }
    return kq_quantize_host(device, KQ_FORMAT_Q8_K, o->values, (uint64_t)o->G * KQ_BLOCK, output,
                            domain);
}

static void expect(host_operation *o)
{
    kq_device *reference = NULL;
    assert_int_equal(kq_device_create(&(kq_device_params){.device = "reference"}, &reference),
                     KQ_OK);
    o->expected = allocate(o->output_bytes);
    o->got = allocate(o->output_bytes);
    o->expected_result = run_host(reference, o, o->expected, &o->expected_domain);
    kq_device_destroy(&reference);
}

static host_operation make_quantize(uint64_t seed, uint32_t G, uint32_t bad_count)
{
    host_operation o = {
        .G = G,
        .count = 1,
        .values = allocate((uint64_t)G * KQ_BLOCK_BYTES),
        .input_bytes = (uint64_t)G * KQ_BLOCK_BYTES,
        .output_bytes = (uint64_t)G * KQ_Q8_K_BYTES,
    };
    draw_values(seed, G, (unsigned char *)o.values);
    for (uint32_t i = 0; i < bad_count; i++) {
        store_u32(&o.values[draw(&seed) % ((uint64_t)G * KQ_BLOCK)], 0x7F800000);
    }
    expect(&o);
    assert_int_equal(o.expected_result, bad_count > 0 ? KQ_ERROR_DOMAIN : KQ_OK);
    return o;
}

static host_operation make_dot(uint64_t seed, uint32_t G, uint32_t count, kq_order order)
{
    host_operation o = {
        .is_dot = true,
        .G = G,
        .count = count,
        .order = order,
        .lhs = allocate((uint64_t)count * G * KQ_Q4_K_BYTES),
        .rhs = allocate((uint64_t)G * KQ_Q8_K_BYTES),
        .input_bytes = (uint64_t)count * G * KQ_Q4_K_BYTES + (uint64_t)G * KQ_Q8_K_BYTES,
        .output_bytes = (uint64_t)count * 4,
    };
    draw_q4_k(seed, count * G, o.lhs);
    draw_q8_k(seed + 1, G, o.rhs);
    expect(&o);
    assert_int_equal(o.expected_result, KQ_OK);
    return o;
}

static void free_operation(host_operation *o)
{
    free(o->values);
    free(o->lhs);
    free(o->rhs);
    free(o->expected);
    free(o->got);
}

static void check_operation(fixture *f, const host_operation *o)
{
    kq_domain domain = {0};
    memset(o->got, POISON, (size_t)o->output_bytes);
    assert_int_equal(run_host(f->device, o, o->got, &domain), o->expected_result);
    assert_memory_equal(o->got, o->expected, (size_t)o->output_bytes);
    assert_memory_equal(&domain, &o->expected_domain, sizeof domain);
}

// --- Host memory

// Parts of an operation: one dispatch of quantize each, one fold of a dot.
static unsigned part_count(const fixture *f, const host_operation *o)
{
    return o->is_dot ? wrapped_vulkan_dispatches(&f->wrapped, "quantized_dot_terms")
                     : wrapped_vulkan_dispatches(&f->wrapped, "quantize");
}

// Moves each byte once, or, in memory that the host reaches, none.
static void check_moves(fixture *f, const host_operation *o)
{
    wrapped_vulkan_reset(&f->wrapped);
    check_operation(f, o);
    const wrapped_vulkan_counts *counts = &f->wrapped.counts;
    unsigned parts = part_count(f, o);
    if (o->expected_result == KQ_OK && is_unified(f)) {
        assert_int_equal(counts->copies, 0);
        assert_int_equal(counts->submits, parts);
    } else if (o->expected_result == KQ_OK && f->shown.layout != WRAPPED_LAYOUT_OF_DRIVER) {
        assert_int_equal(counts->uploaded_bytes, o->input_bytes);
        // A part may have so few results that they are not counted.
        assert_true(counts->read_back_bytes <= o->output_bytes &&
                    counts->read_back_bytes + WRAPPED_SAMPLE_BYTES * (uint64_t)parts >=
                        o->output_bytes);
        assert_int_equal(counts->copied_bytes, 0);
    }
    assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkWaitForFences"), counts->submits);
    // The next part is submitted before the one before it is waited for, and no third.
    assert_int_equal(counts->most_in_flight, counts->submits > 1 ? 2 : 1);
    assert_true(parts > 1 || o->input_bytes < 15 << 20);
}

static void test_host(void **state)
{
    fixture *f = *state;
    open_device(f);
    uint64_t seed = 1 + (uint64_t)f->shown.layout;
    for (int i = 0; i < 8; i++) {
        uint32_t G = 1 + (uint32_t)(draw(&seed) % 7000);
        host_operation o = make_quantize(seed, i == 0 ? 3 : G, i % 3 == 2 ? 1 + G / 1000 : 0);
        check_moves(f, &o);
        free_operation(&o);
    }
    for (int i = 0; i < 8; i++) {
        uint32_t G = 1 + (uint32_t)(draw(&seed) % 400);
        uint32_t count = 1 + (uint32_t)(draw(&seed) % (90000 / G));
        host_operation o = make_dot(seed, G, i == 0 ? 1 : count, (kq_order)(i % 2));
        check_moves(f, &o);
        free_operation(&o);
    }
    // Dots of which each is many parts.
    for (int order = 0; order < 2; order++) {
        host_operation o = make_dot(seed, 90001, 1, (kq_order)order);
        check_moves(f, &o);
        free_operation(&o);
    }
    close_device(f);
}

static void test_nothing(void **state)
{
    fixture *f = *state;
    float results[3] = {1.0f, 1.0f, 1.0f};
    open_device(f);
    wrapped_vulkan_reset(&f->wrapped);
    assert_int_equal(kq_quantize_host(f->device, KQ_FORMAT_Q8_K, NULL, 0, NULL, NULL), KQ_OK);
    assert_int_equal(kq_quantized_dot_host(f->device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K,
                                           KQ_ACCUMULATOR_F32, KQ_ORDER_PAIRWISE, 0, NULL, 0, NULL,
                                           0, NULL),
                     KQ_OK);
    assert_int_equal(f->wrapped.counts.submits, 0);
    assert_int_equal(kq_quantized_dot_host(f->device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K,
                                           KQ_ACCUMULATOR_F32, KQ_ORDER_PAIRWISE, 3, NULL, 0, NULL,
                                           0, results),
                     KQ_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(load_u32(&results[i]), 0);
    }
    close_device(f);
}

static void test_bounded_memory(void **state)
{
    fixture *f = *state;
    open_device(f);
    host_operation quantize = make_quantize(3, 20000, 0);
    host_operation dot = make_dot(4, 150, 1000, KQ_ORDER_PAIRWISE);
    const host_operation *operations[] = {&quantize, &dot};
    for (int i = 0; i < 2; i++) {
        const host_operation *o = operations[i];
        wrapped_vulkan_reset(&f->wrapped);
        check_operation(f, o);
        assert_true(f->wrapped.counts.most_memory_bytes > o->input_bytes + o->output_bytes);
        assert_true(f->wrapped.counts.most_memory_bytes <=
                    o->input_bytes + o->output_bytes + MOST_BESIDE_BUFFERS);
    }
    free_operation(&quantize);
    free_operation(&dot);
    close_device(f);
}

// --- Buffers

// Copies in chunks of half the staging: the host fills one, or empties it, while the other moves.
static void test_chunks(void **state)
{
    enum { CHUNK = (8 << 20) - 2048, BYTES = 4 * CHUNK + 4711, CHUNKS = 5, OFFSET = 3 };
    fixture *f = *state;
    open_device(f);
    kq_buffer *buffer = make_buffer(f, OFFSET + BYTES);
    unsigned char *data = allocate(BYTES);
    unsigned char *got = allocate(BYTES);
    uint64_t seed = 9;
    draw_bytes(&seed, data, BYTES);
    for (int i = 0; i < 2; i++) {
        wrapped_vulkan_reset(&f->wrapped);
        if (i == 0) {
            upload(buffer, OFFSET, data, BYTES);
        } else {
            memset(got, POISON, BYTES);
            download(buffer, OFFSET, got, BYTES);
        }
        const wrapped_vulkan_counts *counts = &f->wrapped.counts;
        bool is_staged = !is_unified(f);
        assert_int_equal(counts->submits, is_staged ? CHUNKS : 0);
        assert_int_equal(counts->most_in_flight, is_staged ? 2 : 0);
        assert_int_equal(i == 0 ? counts->uploaded_bytes : counts->read_back_bytes,
                         is_staged ? BYTES : 0);
        assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkWaitForFences"), counts->submits);
    }
    assert_memory_equal(got, data, BYTES);
    free(data);
    free(got);
    kq_buffer_destroy(&buffer);
    close_device(f);
}

// Pieces of an operation on buffers: the next is submitted while one runs.
static void test_pieces(void **state)
{
    enum { G = 1000, PIECES = 10 };  // of 100 blocks, by fixture.work
    fixture *f = *state;
    open_device(f);
    host_operation o = make_quantize(6, G, 4);
    kq_buffer *values = make_buffer(f, o.input_bytes);
    kq_buffer *records = make_buffer(f, o.output_bytes);
    kq_domain domain = {0};
    upload(values, 0, o.values, o.input_bytes);
    wrapped_vulkan_reset(&f->wrapped);
    assert_int_equal(quantize(f, view_of(values, 0, G), view_of(records, 0, G), &domain),
                     KQ_ERROR_DOMAIN);
    assert_int_equal(wrapped_vulkan_dispatches(&f->wrapped, "quantize"), PIECES);
    assert_int_equal(f->wrapped.counts.most_in_flight, 2);
    assert_memory_equal(&domain, &o.expected_domain, sizeof domain);
    download(records, 0, o.got, o.output_bytes);
    assert_memory_equal(o.got, o.expected, (size_t)o.output_bytes);
    kq_buffer_destroy(&values);
    kq_buffer_destroy(&records);
    free_operation(&o);
    close_device(f);
}

// Of dots that begin shortly before the end of a segment, the second piece is larger than the
// first.
static void test_growing_scratch(void **state)
{
    enum {
        G = 16,
        ROW = G * KQ_Q4_K_BYTES,
        DOTS = 300,
        SEGMENT = 1 << 20,
        FIRST = SEGMENT - 5 * ROW
    };
    fixture *f = *state;
    f->shown.max_allocation = SEGMENT;
    open_device(f);
    host_operation o = make_dot(14, G, DOTS, KQ_ORDER_PAIRWISE);
    const kq_repeat repeat = {.count = {DOTS, 1}, .lhs_step = {ROW, 0}, .result_step = {4, 0}};
    kq_buffer *lhs = make_buffer(f, FIRST + DOTS * ROW);
    kq_buffer *rhs = make_buffer(f, G * KQ_Q8_K_BYTES);
    kq_buffer *result = make_buffer(f, DOTS * 4);
    upload(lhs, FIRST, o.lhs, DOTS * ROW);
    upload(rhs, 0, o.rhs, G * KQ_Q8_K_BYTES);
    wrapped_vulkan_reset(&f->wrapped);
    assert_int_equal(
        dot(f->device, o.order, view_of(lhs, FIRST, G), view_of(rhs, 0, G), result, 0, &repeat),
        KQ_OK);
    assert_int_equal(f->wrapped.counts.submits, 2);
    // Where the host doesn't reach scratch, the second piece comes with a staging of its own.
    assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkAllocateMemory"), is_unified(f) ? 2 : 3);
    download(result, 0, o.got, DOTS * 4);
    assert_memory_equal(o.got, o.expected, DOTS * 4);
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&rhs);
    kq_buffer_destroy(&result);
    free_operation(&o);
    close_device(f);
}

// --- Failures in the middle

// Call `number` of all of them fails, or all from there on.
typedef struct failure {
    unsigned number, seen;
    bool is_lasting;
    VkResult result;
    const char *failed;
} failure;

static VkResult fail_armed(void *user, const char *call, unsigned number)
{
    failure *failure = user;
    (void)number;
    failure->seen++;
    if (failure->number == 0 || failure->seen < failure->number ||
        (failure->seen > failure->number && !failure->is_lasting)) {
        return VK_SUCCESS;
    }
    failure->failed = failure->failed != NULL ? failure->failed : call;
    return failure->result;
}

typedef struct middle {
    host_operation quantize, dot;
    unsigned char *data, *got;
    uint64_t bytes;
} middle;

static kq_result run_middle(fixture *f, const middle *m, int which)
{
    kq_buffer *buffer = NULL;
    kq_domain domain;
    if (which < 2) {
        const host_operation *o = which == 0 ? &m->quantize : &m->dot;
        memset(o->got, POISON, (size_t)o->output_bytes);
        return run_host(f->device, o, o->got, &domain);
    }
    memset(m->got, POISON, (size_t)m->bytes);
    kq_result result = kq_buffer_create(f->device, m->bytes, &buffer);
    result = result != KQ_OK ? result : kq_buffer_upload(buffer, 0, m->data, m->bytes);
    result = result != KQ_OK ? result : kq_buffer_download(buffer, 0, m->got, m->bytes);
    kq_buffer_destroy(&buffer);
    return result;
}

static void check_middle(const middle *m, int which)
{
    const host_operation *o = which == 0 ? &m->quantize : &m->dot;
    if (which < 2) {
        assert_memory_equal(o->got, o->expected, (size_t)o->output_bytes);
    } else {
        assert_memory_equal(m->got, m->data, (size_t)m->bytes);
    }
}

// Each call in turn. The result is the failure's, once reported; and if the driver goes on to work,
// so does the device.
static void test_failures(void **state)
{
    static const struct {
        VkResult result;
        bool is_lasting;
        kq_result expected;
    } kinds[] = {
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, false, KQ_ERROR_MEMORY},
        {VK_ERROR_DEVICE_LOST, true, KQ_ERROR_DRIVER},
    };
    fixture *f = *state;
    middle m = {
        .quantize = make_quantize(11, 350, 0),
        .dot = make_dot(12, 60, 100, KQ_ORDER_SEQUENTIAL),
        .bytes = (17 << 20) + 3,
    };
    m.data = allocate(m.bytes);
    m.got = allocate(m.bytes);
    uint64_t seed = 13;
    draw_bytes(&seed, m.data, (size_t)m.bytes);
    unsigned failed[3] = {0};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int which = 0; which < 3; which++) {
            failure armed = {0};
            for (unsigned number = 1; number == 1 || armed.failed != NULL; number++) {
                failure next = {
                    .number = number, .result = kinds[k].result, .is_lasting = kinds[k].is_lasting};
                armed = (failure){0};
                f->wrapped = f->shown;
                f->wrapped.fail = fail_armed;
                f->wrapped.fail_user = &armed;
                assert_int_equal(try_to_open(f), KQ_OK);
                // With all that is made when first needed, or without.
                if (number % 2 == 0) {
                    assert_int_equal(run_middle(f, &m, which), KQ_OK);
                }
                armed = next;
                kq_result result = run_middle(f, &m, which);
                bool is_right = armed.failed == NULL
                                    ? result == KQ_OK && f->report.count == 0
                                    : result == kinds[k].expected && f->report.count == 1 &&
                                          strstr(f->report.reason, armed.failed) != NULL;
                if (!is_right) {
                    fail_msg("%d, call %u, %s: %s, %u reports, the last \"%s\"", which, number,
                             armed.failed, kq_result_name(result), f->report.count,
                             f->report.reason);
                }
                failed[which] += armed.failed != NULL;
                assert_int_equal(f->wrapped.pending_count, 0);
                if (armed.failed != NULL && !kinds[k].is_lasting) {
                    armed = (failure){.failed = armed.failed};
                    if (run_middle(f, &m, which) != KQ_OK) {
                        fail_msg("%d, after call %u, %s: \"%s\"", which, number, armed.failed,
                                 f->report.reason);
                    }
                    check_middle(&m, which);
                }
                kq_device_destroy(&f->device);
                check_closed(f);
            }
        }
    }
    assert_true(failed[0] > 40 && failed[1] > 40 && failed[2] > 8);
    free_operation(&m.quantize);
    free_operation(&m.dot);
    free(m.data);
    free(m.got);
}

// --- All of it

enum { TEST_CAPACITY = 64 };

typedef struct suite {
    struct CMUnitTest tests[TEST_CAPACITY];
    fixture fixtures[TEST_CAPACITY];
    char names[TEST_CAPACITY][64];
    size_t count;
} suite;

static void add(suite *s, const char *name, CMUnitTestFunction function, fixture shown)
{
    size_t i = s->count++;
    snprintf(s->names[i], sizeof s->names[i], "%s: %s%s", name,
             wrapped_layout_names[shown.shown.layout], shown.shown.defers ? ", deferred" : "");
    s->fixtures[i] = shown;
    s->tests[i] = (struct CMUnitTest){
        .name = s->names[i],
        .test_func = function,
        .initial_state = &s->fixtures[i],
    };
}

int main(int argc, char **argv)
{
    static suite s;
    wrapped_validation validation = WRAPPED_VALIDATION_NONE;
    bool is_quick = false;
    for (int i = 1; i < argc; i++) {
        is_quick |= strcmp(argv[i], "--quick") == 0;
        if (strncmp(argv[i], "--only=", 7) == 0) {
            cmocka_set_test_filter(argv[i] + 7);
        } else if (validation == WRAPPED_VALIDATION_NONE) {
            validation = wrapped_vulkan_validation(argv[i]);
        }
    }
    if (!device_is_possible(validation)) {
        return EXIT_SKIP;
    }
    for (int layout = 0; layout < WRAPPED_LAYOUT_COUNT; layout++) {
        fixture shown = {.shown = {.layout = (wrapped_layout)layout, .validation = validation}};
        shown.shown.defers = layout != WRAPPED_LAYOUT_OF_DRIVER;
        add(&s, "host", test_host, shown);
        add(&s, "nothing", test_nothing, shown);
        if (layout != WRAPPED_LAYOUT_OF_DRIVER) {
            add(&s, "bounded memory", test_bounded_memory, shown);
            add(&s, "chunks", test_chunks, shown);
            add(&s, "growing scratch", test_growing_scratch, shown);
        }
        fixture cut = shown;
        cut.work = 1600;
        add(&s, "pieces", test_pieces, cut);
    }
    const wrapped_layout failing[] = {WRAPPED_LAYOUT_UNIFIED_NONCOHERENT,
                                      WRAPPED_LAYOUT_DISCRETE_NONCOHERENT};
    for (size_t i = 0; !is_quick && i < sizeof failing / sizeof *failing; i++) {
        const fixture shown = {
            .work = 1600,
            .shown = {.layout = failing[i], .validation = validation, .defers = true},
        };
        add(&s, "failures", test_failures, shown);
    }
    int failed = cmocka_run_group_tests_name("vulkan_overlap", s.tests, NULL, NULL);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
