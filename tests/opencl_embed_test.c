// Level 2 on a context of one's own: every vector, views anywhere in buffers and sub-buffers, long
// dots. Linked with levels 1 and 2 alone.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_embed_test [--expect=TEXT] [--il] [--quick] FOLDER...
//   TEXT     must occur in the name of device or platform
//   --il     the SPIR-V modules are what runs, if need be translated for the driver
//   --quick  for interpreters: leaves out what it prints
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    engine_options options;
    engine engine;
} fixture;

static fixture shared;

static int open_plain(void **state)
{
    wrapped_opencl_watch(false);
    engine_open(&shared.engine, &shared.options);
    *state = &shared;
    return 0;
}

// With reads of uninitialised memory reported too, where the driver can.
static int open_watched(void **state)
{
    wrapped_opencl_watch(true);
    engine_open(&shared.engine, &shared.options);
    *state = &shared;
    return 0;
}

static void test_close(void **state)
{
    fixture *f = *state;
    engine_close(&f->engine);
}

// --- Every vector, each operand at its own odd offset, in buffers without a byte to spare, or with

static void test_vectors(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const vectors *v = &f->options.vectors;
    for (size_t i = 0; i < v->dot_count; i++) {
        const size_t offsets[] = {i % 4, i / 4 % 4, i / 16 % 4, 4 * (i % 5)};
        check_dot_vector(e, &v->dot[i], (kq_order)(i / 2 % 2), offsets, i % 3 * 4,
                         engine_choose_queue(e, i));
    }
    for (size_t i = 0; i < v->quantize_count; i++) {
        const size_t offsets[] = {i % 4, i / 4 % 4, 4 * (i % 5)};
        check_quantize_vector(e, &v->quantize[i], offsets, i % 3 * 4, engine_choose_queue(e, i));
    }
    print_message("%zu dots, %zu quantizes\n", v->dot_count, v->quantize_count);
}

// --- All offsets of all operands

static void test_offsets(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const dot_vector *dot = engine_find_dot(&f->options, 5);
    const quantize_vector *quantize = engine_find_quantize(&f->options, 5);
    for (size_t i = 0; i < 64; i++) {
        const size_t offsets[] = {4 + i % 4, 4 + i / 4 % 4, 4 + i / 16, 4 * (i % 8)};
        for (unsigned order = 0; order < 2; order++) {
            check_dot_vector(e, dot, (kq_order)order, offsets, 0, e->queue);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        const size_t offsets[] = {4 + i % 4, 4 + i / 4, 4 * (i % 8)};
        check_quantize_vector(e, quantize, offsets, 0, e->queue);
    }
}

// --- Strides and steps, against the reference

typedef struct stride_case {
    size_t sizes[3];
    kq_view lhs, rhs;
    uint64_t result_offset;
    kq_repeat repeat;
} stride_case;

static void test_strides(void **state)
{
    static const stride_case cases[] = {
        // Records apart, dots overlapping each other's records, results between other bytes.
        {{904, 1904, 64},
         {.offset = 3, .stride = 149, .G = 6},
         {.offset = 1, .stride = 307, .G = 6},
         2,
         {{3, 2}, {1, 7}, {0, 0}, {5, 23}}},
        // Records closer than their size; the outer step is the smaller one.
        {{304, 640, 60},
         {.offset = 0, .stride = 1, .G = 9},
         {.offset = 2, .stride = 4, .G = 9},
         1,
         {{2, 3}, {144, 0}, {292, 8}, {40, 4}}},
        // One record of lhs for all.
        {{176, 2928, 16},
         {.offset = 5, .stride = KQ_BROADCAST, .G = 7},
         {.offset = 6, .G = 7},
         0,
         {{1, 4}, {9, 0}, {9, 292}, {0, 4}}},
        // One record of rhs for all; strides that are never taken don't count.
        {{724, 308, 40},
         {.offset = 1, .stride = (uint64_t)1 << 40, .G = 1},
         {.offset = 1, .stride = KQ_BROADCAST, .G = 1},
         8,
         {{5, 1}, {144, (uint64_t)1 << 50}, {0, 3}, {6, 1}}},
        // So many dots share rhs that they do so inside a workgroup, with some lanes left over.
        {{144 * 92, 880, 464},
         {.offset = 2, .G = 3},
         {.offset = 3, .G = 3},
         1,
         {{41, 2}, {144, 144 * 41}, {0, 0}, {5, 210}}},
        // More dots than a workgroup has lanes, more terms than a chunk of the pairwise fold.
        {{19744, 39712, 320},
         {.offset = 0, .G = 130},
         {.offset = 0, .G = 130},
         4,
         {{7, 11}, {144, 16}, {292, 0}, {4, 28}}},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stride_case *c = &cases[i];
        if (f->options.is_quick && c->lhs.G > 100) {
            print_message("left out: strides of G = %" PRIu32 "\n", c->lhs.G);
            continue;
        }
        for (unsigned order = 0; order < 2; order++) {
            operands o = operands_make(e, c->sizes[0], c->sizes[1], c->sizes[2], 0);
            kq_opencl_quantized_dot op =
                dot_of(&o, (kq_order)order, c->lhs, c->rhs, c->result_offset);
            char name[32];
            // Whatever the strides hit is some record.
            for (int k = KQ_LHS; k <= KQ_RHS; k++) {
                unsigned char *bytes = malloc(c->sizes[k]);
                assert_non_null(bytes);
                draw_bytes(&seed, bytes, c->sizes[k]);
                operand_fill(e, &o.at[k], 0, bytes, c->sizes[k]);
                free(bytes);
            }
            op.repeat = &c->repeat;
            op.scratch.offset = 20;
            expect_dot(&o, &op);
            snprintf(name, sizeof name, "strides %zu, order %u", i, order);
            check_dot(e, &o, &op, e->queue, name);
            operands_destroy(e, &o);
        }
    }
}

static void test_quantize_strides(void **state)
{
    static const struct {
        size_t sizes[2];
        kq_view values, records;
    } cases[] = {
        {{5136, 1468}, {.offset = 1, .stride = 1027, .G = 5}, {.offset = 3, .stride = 293, .G = 5}},
        // Transposed, with a record's worth between records.
        {{7176, 3800},
         {.offset = 8, .stride = 4, .value_stride = 28, .G = 7},
         {.offset = 2, .stride = 584, .G = 7}},
        {{1028, 896}, {.offset = 4, .stride = KQ_BROADCAST, .G = 3}, {.stride = 301, .G = 3}},
        {{68, 1756},
         {.offset = 4, .value_stride = KQ_BROADCAST, .stride = 12, .G = 6},
         {.offset = 1, .G = 6}},
        {{1028, 296},
         {.offset = 2, .value_stride = 4, .G = 1, .stride = (uint64_t)1 << 45},
         {.offset = 4, .stride = (uint64_t)1 << 45, .G = 1}},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char values[8 * KQ_BLOCK_BYTES];
        char name[32];
        operands o = operands_make(e, cases[i].sizes[0], cases[i].sizes[1], 32, 0);
        draw_values(i, 8, values);
        operand_fill(e, &o.at[KQ_VALUES], 0, values, cases[i].sizes[0]);
        fill_status(e, &o.at[KQ_STATUS], 12);
        const kq_opencl_quantize op = quantize_of(&o, cases[i].values, cases[i].records, 12);
        expect_quantize(&o, &op);
        snprintf(name, sizeof name, "quantize strides %zu", i);
        check_quantize(e, &o, &op, e->queue, name);
        operands_destroy(e, &o);
    }
}

// --- Long dots, whose folds take several launches

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

// Each dot against the host's sum of its terms, which are so many dots of one record in one repeat.
static void test_long_dots(void **state)
{
    static const struct {
        uint32_t G, dots;
        kq_order order;
        uint32_t launches;
    } cases[] = {
        {512, 3, KQ_ORDER_PAIRWISE, 2},     {513, 3, KQ_ORDER_PAIRWISE, 3},
        {16385, 2, KQ_ORDER_PAIRWISE, 3},   {20000, 1, KQ_ORDER_PAIRWISE, 3},
        {32768, 2, KQ_ORDER_SEQUENTIAL, 2}, {32769, 2, KQ_ORDER_SEQUENTIAL, 3},
        {70000, 1, KQ_ORDER_SEQUENTIAL, 4},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    const uint32_t most = f->options.is_quick ? 150 : 70002;
    operands o = operands_make(e, (size_t)most * KQ_Q4_K_BYTES, (size_t)most * KQ_Q8_K_BYTES,
                               (size_t)most * 4, 0);
    unsigned char *lhs = malloc(o.at[KQ_LHS].bytes);
    unsigned char *rhs = malloc(o.at[KQ_RHS].bytes);
    float *terms = malloc((size_t)4 * most);
    assert_true(lhs != NULL && rhs != NULL && terms != NULL);
    draw_q4_k(1, most, lhs);
    draw_q8_k(2, most, rhs);
    operand_fill(e, &o.at[KQ_LHS], 0, lhs, o.at[KQ_LHS].bytes);
    operand_fill(e, &o.at[KQ_RHS], 0, rhs, o.at[KQ_RHS].bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t G = cases[i].G;
        const kq_view one = {.G = 1};
        const kq_view view = {.G = G};
        const kq_repeat repeat = {{cases[i].dots, 1}, {KQ_Q4_K_BYTES, 0}, {0, 0}, {4, 0}};
        const kq_repeat each = {{G, 1}, {KQ_Q4_K_BYTES, 0}, {KQ_Q8_K_BYTES, 0}, {4, 0}};
        unsigned char wanted[3 * 4];
        char name[48];
        kq_needs needs;
        if (G > most - 2) {
            print_message("left out: a dot of G = %" PRIu32 "\n", G);
            continue;
        }
        for (uint32_t dot = 0; dot < cases[i].dots; dot++) {
            kq_opencl_quantized_dot op = dot_of(&o, KQ_ORDER_SEQUENTIAL, one, one, 0);
            operand scratch = operand_make(e, (size_t)4 * G);
            op.lhs.view.offset = (uint64_t)KQ_Q4_K_BYTES * dot;
            op.scratch.buffer = scratch.buffer;
            op.repeat = &each;
            engine_expect_ok(
                e, kq_opencl_quantized_dot_enqueue(e->pack, &op, e->queue, 0, NULL, NULL));
            assert_int_equal(e->cl.clEnqueueReadBuffer(e->queue, o.at[KQ_RESULT].buffer, CL_TRUE, 0,
                                                       (size_t)4 * G, terms, 0, NULL, NULL),
                             CL_SUCCESS);
            operand_destroy(e, &scratch);
            float sum = fold(cases[i].order, terms, G);
            assert_true(isfinite(sum));
            memcpy(wanted + 4 * dot, &sum, 4);
        }
        kq_opencl_quantized_dot op = dot_of(&o, cases[i].order, view, view, 8);
        op.repeat = &repeat;
        engine_expect_ok(e, kq_opencl_quantized_dot_query(e->pack, &op, &needs));
        assert_int_equal(needs.dispatch_count, cases[i].launches);
        operand_fill(e, &o.at[KQ_RESULT], 0, NULL, 0);
        memcpy(o.at[KQ_RESULT].expected + 8, wanted, (size_t)4 * cases[i].dots);
        snprintf(name, sizeof name, "G = %" PRIu32 ", order %d", G, (int)cases[i].order);
        check_dot(e, &o, &op, engine_choose_queue(e, i), name);
    }
    operands_destroy(e, &o);
    free(lhs);
    free(rhs);
    free(terms);
}

// --- Nothing to read

// With G = 0 one launch writes +0s, and no input is there.
static void test_no_records(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const kq_repeat six = {.count = {3, 2}, .result_step = {4, 17}};
    const kq_view none = {0};
    for (unsigned i = 0; i < 8; i++) {
        operands o = operands_make(e, 0, 0, 64, 0);
        kq_opencl_quantized_dot op = dot_of(&o, (kq_order)(i % 2), none, none, 16 + i);
        op.repeat = i % 4 < 2 ? NULL : &six;
        store_u32(o.at[KQ_RESULT].expected + op.result.offset, 0);
        for (unsigned k = 0; k < 6 && op.repeat != NULL; k++) {
            store_u32(o.at[KQ_RESULT].expected + op.result.offset + k % 3 * 4 + k / 3 * 17, 0);
        }
        check_dot(e, &o, &op, e->queue, "G = 0");
        assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), 1);
        operands_destroy(e, &o);
    }
}

// --- Sub-buffers

// All operands of an operation are regions of one buffer, which ends with the last; inside a region
// an operand starts at an odd byte. What is not an output stays as it was.
static void test_sub_buffers(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const dot_vector *v = engine_find_dot(&f->options, 5);
    const quantize_vector *w = engine_find_quantize(&f->options, 5);
    const size_t lhs_bytes = 5 * KQ_Q4_K_BYTES;
    const size_t rhs_bytes = 5 * KQ_Q8_K_BYTES;
    const size_t step = ((size_t)8192 + e->alignment - 1) / e->alignment * e->alignment;
    operand parent = operand_make(e, 3 * step + 64);
    cl_mem regions[4];
    const size_t sizes[4] = {operand_end(1, lhs_bytes), operand_end(2, rhs_bytes), 8, 64};
    for (size_t i = 0; i < 4; i++) {
        regions[i] = operand_region(e, &parent, i * step, sizes[i]);
    }
    for (unsigned order = 0; order < 2; order++) {
        operand_fill(e, &parent, 0, NULL, 0);
        memcpy(parent.expected + 1, v->lhs, lhs_bytes);
        memcpy(parent.expected + step + 2, v->rhs, rhs_bytes);
        operand_write(e, &parent);
        // The parent itself and its regions go together, as long as they are apart.
        const kq_opencl_quantized_dot op = {
            .lhs_format = KQ_FORMAT_Q4_K,
            .rhs_format = KQ_FORMAT_Q8_K,
            .acc = KQ_ACCUMULATOR_F32,
            .order = (kq_order)order,
            .lhs = {order == 0 ? regions[0] : parent.buffer, {.offset = 1, .G = 5}},
            .rhs = {regions[1], {.offset = 2, .G = 5}},
            .result = {regions[2], 3},
            .scratch = {regions[3], 8},
        };
        engine_expect_ok(e, kq_opencl_quantized_dot_enqueue(e->pack, &op, e->queue, 0, NULL, NULL));
        assert_int_equal(e->cl.clFinish(e->queue), CL_SUCCESS);
        store_u32(parent.expected + 2 * step + 3, v->results[order]);
        unsigned char *bytes = malloc(parent.bytes);
        assert_non_null(bytes);
        assert_int_equal(e->cl.clEnqueueReadBuffer(e->queue, parent.buffer, CL_TRUE, 0,
                                                   parent.bytes, bytes, 0, NULL, NULL),
                         CL_SUCCESS);
        memcpy(parent.expected + 3 * step + 8, bytes + 3 * step + 8, 5 * 4);  // scratch as lent
        free(bytes);
        operand_check(e, &parent, "a dot of sub-buffers");
    }
    for (size_t i = 0; i < 4; i++) {
        e->cl.clReleaseMemObject(regions[i]);
    }

    const kq_status status = {w->domain.bad_count > 0 ? w->domain.record : 0xFFFFFFFFu,
                              w->domain.bad_count, 5, 0};
    const size_t places[3] = {step, 0, 2 * step};
    const size_t quantize_sizes[3] = {5 * KQ_BLOCK_BYTES + 4, operand_end(3, rhs_bytes), 32};
    for (size_t i = 0; i < 3; i++) {
        regions[i] = operand_region(e, &parent, places[i], quantize_sizes[i]);
    }
    fill_status(e, &parent, 2 * step + 12);
    memcpy(parent.expected + step + 1, w->values, 5 * KQ_BLOCK_BYTES);
    operand_write(e, &parent);
    const kq_opencl_quantize op = {
        .format = KQ_FORMAT_Q8_K,
        .values = {regions[0], {.offset = 1, .G = 5}},
        .records = {regions[1], {.offset = 3, .G = 5}},
        .status = {regions[2], 12},
    };
    engine_expect_ok(e, kq_opencl_quantize_enqueue(e->pack, &op, e->queue, 0, NULL, NULL));
    assert_int_equal(e->cl.clFinish(e->queue), CL_SUCCESS);
    memcpy(parent.expected + 3, w->records, rhs_bytes);
    expect_status(&parent, 2 * step + 12, &status);
    operand_check(e, &parent, "a quantize of sub-buffers");
    for (size_t i = 0; i < 3; i++) {
        e->cl.clReleaseMemObject(regions[i]);
    }
    operand_destroy(e, &parent);
}

// --- All of it

int main(int argc, char **argv)
{
    int status = engine_read_options(argc, argv, true, &shared.options);
    status = status != EXIT_SUCCESS ? status : engine_check_device(&shared.options);
    if (status == EXIT_SUCCESS) {
        const struct CMUnitTest plain[] = {
            cmocka_unit_test(test_vectors),
            cmocka_unit_test(test_long_dots),
            cmocka_unit_test(test_close),
        };
        const struct CMUnitTest watched[] = {
            cmocka_unit_test(test_offsets),          cmocka_unit_test(test_strides),
            cmocka_unit_test(test_quantize_strides), cmocka_unit_test(test_no_records),
            cmocka_unit_test(test_sub_buffers),      cmocka_unit_test(test_close),
        };
        int failed = cmocka_run_group_tests_name("opencl_embed", plain, open_plain, NULL);
        failed += cmocka_run_group_tests_name("opencl_embed watched", watched, open_watched, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    free_vectors(&shared.options.vectors);
    return status;
}
