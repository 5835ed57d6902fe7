// Level 2 as an engine uses it: every vector, views anywhere, long folds, recording on threads.
// Linked with levels 1 and 2 alone.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none, or no validation layer if that is asked for.
// Usage: vulkan_embed_test [--validate|--validate=gpu] FOLDER...
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"
#include "vulkan_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    wrapped_vulkan shown;
    const vectors *vectors;
    engine engine;
} fixture;

// --- Every vector, each operand at its own odd offset, or far into its buffer

static void check_dot_vector(engine *e, operands *o, const dot_vector *v, kq_order order,
                             const uint64_t offsets[KQ_BINDING_COUNT], bool is_secondary)
{
    kq_view lhs = {.offset = offsets[KQ_LHS], .G = v->G};
    kq_view rhs = {.offset = offsets[KQ_RHS], .G = v->G};
    operand_fill(&o->at[KQ_LHS], lhs.offset, v->lhs, (uint64_t)v->G * KQ_Q4_K_BYTES);
    operand_fill(&o->at[KQ_RHS], rhs.offset, v->rhs, (uint64_t)v->G * KQ_Q8_K_BYTES);
    operand_fill(&o->at[KQ_RESULT], 0, NULL, 0);
    operand_fill(&o->at[KQ_SCRATCH], 0, NULL, 0);
    store_u32(o->at[KQ_RESULT].expected + offsets[KQ_RESULT], v->results[order]);
    kq_vulkan_quantized_dot op = dot_of(o, order, lhs, rhs, offsets[KQ_RESULT]);
    op.scratch.offset = offsets[KQ_SCRATCH];
    op.lhs.buffer_bytes = operand_end(lhs.offset, (uint64_t)v->G * KQ_Q4_K_BYTES);
    op.rhs.buffer_bytes = operand_end(rhs.offset, (uint64_t)v->G * KQ_Q8_K_BYTES);
    op.result.buffer_bytes = operand_end(op.result.offset, 4);
    e->name = v->name;
    check_dot(e, o, &op, is_secondary);
    e->name = NULL;
}

static void check_quantize_vector(engine *e, operands *o, const quantize_vector *v,
                                  const uint64_t offsets[3], bool is_secondary)
{
    kq_view values = {.offset = offsets[KQ_VALUES], .G = v->G};
    kq_view records = {.offset = offsets[KQ_RECORDS], .G = v->G};
    bool is_bad = v->domain.reason != KQ_REASON_NONE;
    operand_fill(&o->at[KQ_VALUES], values.offset, v->values, (uint64_t)v->G * KQ_BLOCK_BYTES);
    operand_fill(&o->at[KQ_RECORDS], 0, NULL, 0);
    memcpy(o->at[KQ_RECORDS].expected + records.offset, v->records, (size_t)v->G * KQ_Q8_K_BYTES);
    fill_status(&o->at[KQ_STATUS], offsets[KQ_STATUS]);
    expect_status(&o->at[KQ_STATUS], offsets[KQ_STATUS], is_bad ? v->domain.record : 0xFFFFFFFFu,
                  v->domain.bad_count, v->G);
    kq_vulkan_quantize op = quantize_of(o, values, records, offsets[KQ_STATUS]);
    op.values.buffer_bytes = operand_end(values.offset, (uint64_t)v->G * KQ_BLOCK_BYTES);
    op.records.buffer_bytes = operand_end(records.offset, (uint64_t)v->G * KQ_Q8_K_BYTES);
    op.status.buffer_bytes = offsets[KQ_STATUS] + sizeof(kq_status);
    e->name = v->name;
    check_quantize(e, o, &op, is_secondary);
    e->name = NULL;
}

// For every third vector somewhere between two offsets that can be bound.
static uint64_t far_offset(size_t i, uint64_t alignment)
{
    return i % 3 == 0 ? 5 * alignment + 4 * i % alignment : 0;
}

static void test_vectors(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const vectors *v = f->vectors;
    // Each access is checked then, which takes a hundred times as long.
    size_t step = f->shown.validation == WRAPPED_VALIDATION_GPU ? 25 : 1;
    engine_open(e, f->shown);
    uint64_t alignment = e->limits.minStorageBufferOffsetAlignment;
    uint64_t spare = 8 * alignment + 64;
    operands o = make_operands(e, (uint64_t)v->largest_dot_G * KQ_Q4_K_BYTES + spare,
                               (uint64_t)v->largest_dot_G * KQ_Q8_K_BYTES + spare, spare,
                               (uint64_t)v->largest_dot_G * 8 + spare);
    for (size_t i = 0; i < v->dot_count; i += step) {
        uint64_t far = far_offset(i, alignment);
        const uint64_t offsets[] = {far + i % 4, far + i / 4 % 4, far + i / 16 % 4,
                                    far + 4 * (i % 5)};
        check_dot_vector(e, &o, &v->dot[i], (kq_order)(i % 2), offsets, i % 7 < 3);
    }
    destroy_operands(e, &o);
    o = make_operands(e, (uint64_t)v->largest_quantize_G * KQ_BLOCK_BYTES + spare,
                      (uint64_t)v->largest_quantize_G * KQ_Q8_K_BYTES + spare, spare, 4);
    for (size_t i = 0; i < v->quantize_count; i += step) {
        uint64_t far = far_offset(i, alignment);
        const uint64_t offsets[] = {far + i % 4, far + i / 4 % 4, far + 4 * (i % 5)};
        check_quantize_vector(e, &o, &v->quantize[i], offsets, i % 7 < 3);
    }
    destroy_operands(e, &o);
    engine_close(e);
}

// --- All offsets of all operands

static void test_offsets(void **state)
{
    enum { G = 5 };
    fixture *f = *state;
    engine *e = &f->engine;
    const dot_vector *dot = NULL;
    const quantize_vector *quantize = NULL;
    for (size_t i = 0; i < f->vectors->dot_count; i++) {
        dot = f->vectors->dot[i].G == G ? &f->vectors->dot[i] : dot;
    }
    for (size_t i = 0; i < f->vectors->quantize_count; i++) {
        quantize = f->vectors->quantize[i].G == G ? &f->vectors->quantize[i] : quantize;
    }
    assert_non_null(dot);
    assert_non_null(quantize);
    engine_open(e, f->shown);
    operands o = make_operands(e, G * KQ_BLOCK_BYTES + 64, G * KQ_Q8_K_BYTES + 64, 64, 256);
    for (uint64_t i = 0; i < 64; i++) {
        for (int order = 0; order < 2; order++) {
            const uint64_t offsets[] = {16 + i % 4, 16 + i / 4 % 4, 16 + i / 16, 4 * (i % 8)};
            check_dot_vector(e, &o, dot, (kq_order)order, offsets, false);
        }
    }
    for (uint64_t i = 0; i < 16; i++) {
        const uint64_t offsets[] = {16 + i % 4, 16 + i / 4, 4 * (i % 8)};
        check_quantize_vector(e, &o, quantize, offsets, false);
    }
    destroy_operands(e, &o);
    engine_close(e);
}

// --- Strides and steps, against the reference

typedef struct stride_case {
    kq_view lhs, rhs;
    uint64_t result_offset;
    kq_repeat repeat;
} stride_case;

static void test_strides(void **state)
{
    static const stride_case cases[] = {
        // Records apart, dots overlapping each other's records, results between other bytes.
        {{.offset = 3, .stride = 149, .G = 6},
         {.offset = 1, .stride = 307, .G = 6},
         2,
         {{3, 2}, {1, 7}, {0, 311}, {5, 23}}},
        // Records closer than their size; the outer step is the smaller one.
        {{.offset = 0, .stride = 1, .G = 9},
         {.offset = 2, .stride = 4, .G = 9},
         1,
         {{2, 3}, {144, 0}, {292, 8}, {40, 4}}},
        // One record of lhs for all.
        {{.offset = 5, .stride = KQ_BROADCAST, .G = 7},
         {.offset = 6, .G = 7},
         0,
         {{1, 4}, {9, 0}, {9, 292}, {0, 4}}},
        // One record of rhs for all; strides that are never taken don't count.
        {{.offset = 1, .stride = (uint64_t)1 << 40, .G = 1},
         {.offset = 1, .stride = KQ_BROADCAST, .G = 1},
         8,
         {{5, 1}, {144, (uint64_t)1 << 50}, {0, 3}, {6, 1}}},
        // Dots enough to share rhs within a workgroup, and more than it has lanes.
        {{.offset = 1, .stride = 161, .G = 5},
         {.offset = 3, .stride = 293, .G = 5},
         1,
         {{35, 2}, {144, 3}, {0, 0}, {4, 140}}},
        // More dots than a workgroup has lanes, more terms than a chunk of the pairwise fold.
        {{.offset = 0, .G = 130},
         {.offset = 0, .G = 130},
         4,
         {{7, 11}, {144, 16}, {292, 4}, {4, 28}}},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operands o = make_operands(e, 1 << 15, 1 << 16, 1 << 10, 1 << 17);
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int order = 0; order < 2; order++) {
            const stride_case *c = &cases[i];
            kq_vulkan_quantized_dot op =
                dot_of(&o, (kq_order)order, c->lhs, c->rhs, c->result_offset);
            for (int k = 0; k < KQ_BINDING_COUNT; k++) {
                operand_fill(&o.at[k], 0, NULL, 0);
            }
            // Whatever the strides hit is some record.
            draw_bytes(&seed, o.at[KQ_LHS].host, 1 << 15);
            draw_bytes(&seed, o.at[KQ_RHS].host, 1 << 16);
            memcpy(o.at[KQ_LHS].expected, o.at[KQ_LHS].host, 1 << 15);
            memcpy(o.at[KQ_RHS].expected, o.at[KQ_RHS].host, 1 << 16);
            op.repeat = &c->repeat;
            op.scratch.offset = 20;
            expect_dot(&o, &op);
            check_dot(e, &o, &op, false);
        }
    }
    destroy_operands(e, &o);
    engine_close(e);
}

static void test_quantize_strides(void **state)
{
    static const kq_view cases[][2] = {
        {{.offset = 1, .stride = 1027, .G = 5}, {.offset = 3, .stride = 293, .G = 5}},
        // Transposed, with a record's worth between records.
        {{.offset = 8, .stride = 4, .value_stride = 28, .G = 7},
         {.offset = 2, .stride = 584, .G = 7}},
        {{.offset = 4, .stride = KQ_BROADCAST, .G = 3}, {.offset = 0, .stride = 301, .G = 3}},
        {{.offset = 4, .value_stride = KQ_BROADCAST, .stride = 12, .G = 6}, {.offset = 1, .G = 6}},
        {{.offset = 2, .value_stride = 4, .G = 1, .stride = (uint64_t)1 << 45},
         {.offset = 4, .stride = (uint64_t)1 << 45, .G = 1}},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operands o = make_operands(e, 1 << 14, 1 << 13, 64, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char values[1 << 14];
        draw_values(i, sizeof values / KQ_BLOCK_BYTES, values);
        operand_fill(&o.at[KQ_VALUES], 0, values, sizeof values);
        operand_fill(&o.at[KQ_RECORDS], 0, NULL, 0);
        fill_status(&o.at[KQ_STATUS], 12);
        kq_vulkan_quantize op = quantize_of(&o, cases[i][0], cases[i][1], 12);
        expect_quantize(&o, &op);
        check_quantize(e, &o, &op, false);
    }
    destroy_operands(e, &o);
    engine_close(e);
}

// --- Long dots, whose folds take several dispatches

static void test_long_folds(void **state)
{
    static const struct {
        uint32_t G, dots;
        kq_order order;
        uint32_t dispatches;
    } cases[] = {
        {70000, 1, KQ_ORDER_SEQUENTIAL, 4}, {20000, 1, KQ_ORDER_PAIRWISE, 3},
        {32769, 3, KQ_ORDER_SEQUENTIAL, 3}, {32768, 3, KQ_ORDER_SEQUENTIAL, 2},
        {513, 3, KQ_ORDER_PAIRWISE, 3},     {512, 3, KQ_ORDER_PAIRWISE, 2},
        {16385, 2, KQ_ORDER_PAIRWISE, 3},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    uint64_t lhs_bytes = 70002u * KQ_Q4_K_BYTES;
    uint64_t rhs_bytes = 70000u * KQ_Q8_K_BYTES;
    operands o = make_operands(e, lhs_bytes, rhs_bytes, 64, 70010 * 4 * 2);
    draw_q4_k(1, 70002, o.at[KQ_LHS].host);
    draw_q8_k(2, 70000, o.at[KQ_RHS].host);
    memcpy(o.at[KQ_LHS].expected, o.at[KQ_LHS].host, (size_t)lhs_bytes);
    memcpy(o.at[KQ_RHS].expected, o.at[KQ_RHS].host, (size_t)rhs_bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kq_repeat repeat = {
            .count = {cases[i].dots, 1},
            .lhs_step = {KQ_Q4_K_BYTES, 0},
            .result_step = {4, 0},
        };
        kq_view view = {.G = cases[i].G};
        kq_vulkan_quantized_dot op = dot_of(&o, cases[i].order, view, view, 8);
        kq_needs needs;
        op.repeat = &repeat;
        operand_fill(&o.at[KQ_RESULT], 0, NULL, 0);
        operand_fill(&o.at[KQ_SCRATCH], 0, NULL, 0);
        expect_dot(&o, &op);
        assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &needs), KQ_OK);
        assert_int_equal(needs.dispatch_count, cases[i].dispatches);
        check_dot(e, &o, &op, false);
    }
    destroy_operands(e, &o);
    engine_close(e);
}

// --- Nothing to read, nothing to write

static void test_nothing(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operands o = make_operands(e, 64, 64, 64, 64);
    const kq_repeat six = {.count = {3, 2}, .result_step = {4, 17}};
    for (int i = 0; i < 8; i++) {
        // With no input and no scratch, and with some all the same.
        const kq_view none = {0};
        kq_vulkan_quantized_dot op = dot_of(&o, (kq_order)(i % 2), none, none, 16 + (uint64_t)i);
        for (int k = 0; k < KQ_BINDING_COUNT; k++) {
            operand_fill(&o.at[k], 0, NULL, 0);
        }
        if (i < 6) {
            op.lhs.buffer = VK_NULL_HANDLE;
            op.rhs.buffer = VK_NULL_HANDLE;
            op.lhs.buffer_bytes = 0;
            op.rhs.buffer_bytes = 0;
            op.scratch = (kq_vulkan_range){0};
        }
        op.repeat = i % 4 < 2 ? NULL : &six;
        expect_dot(&o, &op);
        store_u32(o.at[KQ_RESULT].expected + op.result.offset, 0);
        check_dot(e, &o, &op, i % 3 == 0);
        assert_int_equal(e->wrapped.counts.dispatches, 1);
    }
    destroy_operands(e, &o);

    // No record at all, or no dot: nothing is looked at, not even the set.
    const kq_repeat empty[] = {
        {.count = {0, 5}, .result_step = {4, 4}},
        {.count = {5, 0}, .result_step = {4, 4}},
        {.count = {0, 0}},
    };
    wrapped_vulkan_reset(&e->wrapped);
    for (uint32_t i = 0; i < 6; i++) {
        kq_vulkan_quantized_dot op = {
            .lhs_format = KQ_FORMAT_Q4_K,
            .rhs_format = KQ_FORMAT_Q8_K,
            .acc = KQ_ACCUMULATOR_F32,
            .lhs.view.G = i,
            .rhs.view.G = i,
            .repeat = &empty[i % 3],
        };
        kq_needs needs = {.dispatch_count = 9, .scratch_bytes = 9};
        assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &needs), KQ_OK);
        assert_int_equal(needs.dispatch_count, 0);
        assert_int_equal(needs.scratch_bytes, 0);
        assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, &op, VK_NULL_HANDLE), KQ_OK);
        assert_int_equal(kq_vulkan_quantized_dot_record(e->pack, &op, VK_NULL_HANDLE, NULL), KQ_OK);
    }
    const kq_vulkan_quantize op = {.format = KQ_FORMAT_Q8_K};
    kq_needs needs = {.dispatch_count = 9};
    assert_int_equal(kq_vulkan_quantize_query(e->pack, &op, &needs), KQ_OK);
    assert_int_equal(needs.dispatch_count, 0);
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &op, VK_NULL_HANDLE), KQ_OK);
    assert_int_equal(kq_vulkan_quantize_record(e->pack, &op, VK_NULL_HANDLE, NULL), KQ_OK);
    const wrapped_vulkan_counts none = {0};
    assert_memory_equal(&e->wrapped.counts, &none, sizeof none);
    assert_int_equal(e->report.count, 0);
    engine_close(e);
}

// --- Several operations

// Records made and used in one command buffer, which runs twice.
static void test_chain(void **state)
{
    enum { G = 40, DOTS = 2 };
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    engine_lane second;
    lane_open(&second, e, &e->vk, e->pack);
    operands q = make_operands(e, G * KQ_BLOCK_BYTES, G * KQ_Q8_K_BYTES + 8, 16, 4);
    operands d = make_operands(e, DOTS * G * KQ_Q4_K_BYTES, 4, 8 * DOTS, 8 * G * DOTS);
    const kq_repeat repeat = {
        .count = {1, DOTS},
        .lhs_step = {0, G * KQ_Q4_K_BYTES},
        .result_step = {0, 4},
    };
    const kq_view values = {.G = G};
    const kq_view records = {.offset = 3, .G = G};
    draw_q4_k(9, DOTS * G, d.at[KQ_LHS].host);
    kq_vulkan_quantize quantize = quantize_of(&q, values, records, 0);
    kq_vulkan_quantized_dot dot = dot_of(&d, KQ_ORDER_PAIRWISE, values, records, 1);
    dot.rhs.buffer = q.at[KQ_RECORDS].buffer;
    dot.rhs.buffer_bytes = q.at[KQ_RECORDS].bytes;
    dot.repeat = &repeat;
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &quantize, e->lane.set), KQ_OK);
    assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, &dot, second.set), KQ_OK);
    assert_int_equal(kq_vulkan_quantize_record(e->pack, &quantize, e->lane.set, commands), KQ_OK);
    lane_barrier(&e->lane, commands);
    assert_int_equal(kq_vulkan_quantized_dot_record(e->pack, &dot, second.set, commands), KQ_OK);
    lane_end(&e->lane, false);
    assert_int_equal(wrapped_vulkan_dispatches(&e->wrapped, "quantize."), 1);
    assert_int_equal(wrapped_vulkan_dispatches(&e->wrapped, "quantized_dot_terms"), 1);
    assert_int_equal(wrapped_vulkan_dispatches(&e->wrapped, "quantized_dot_pairwise"), 1);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        draw_values(seed, G, q.at[KQ_VALUES].host);
        operand_fill(&q.at[KQ_RECORDS], 0, NULL, 0);
        operand_fill(&d.at[KQ_RESULT], 0, NULL, 0);
        fill_status(&q.at[KQ_STATUS], 0);
        engine_run(e, &e->vk, e->lane.primary);
        // The reference takes the records from where quantize left them.
        operands made = d;
        made.at[KQ_RHS] = q.at[KQ_RECORDS];
        expect_dot(&made, &dot);
        operand_check(e, &d.at[KQ_RESULT]);
        expect_status(&q.at[KQ_STATUS], 0, 0xFFFFFFFFu, 0, G);
        operand_check(e, &q.at[KQ_STATUS]);
    }
    destroy_operands(e, &q);
    destroy_operands(e, &d);
    lane_close(&second);
    engine_close(e);
}

// --- Neighbours that share words, written by commands with no barrier between them

enum { NEIGHBOURS = 40, NEIGHBOUR_ROUNDS = 12 };

static void forgive(engine *e)
{
    e->wrapped.violations = 0;
    e->wrapped.messages = 0;
    memset(e->wrapped.violation, 0, sizeof e->wrapped.violation);
}

// Sets are new for each pair of buffers: llvmpipe takes hold of whatever lies in a set, also of a
// destroyed buffer in a binding that no later operation writes or reads.
static void open_lanes(engine *e, engine_lane lanes[2])
{
    lane_open(&lanes[0], e, &e->vk, e->pack);
    lane_open(&lanes[1], e, &e->vk, e->pack);
}

static void close_lanes(engine_lane lanes[2])
{
    lane_close(&lanes[0]);
    lane_close(&lanes[1]);
}

// Where the second of two commands is recorded: into the buffer of the first, or into one that the
// same submit runs next.
static engine_lane *choose_second_lane(engine *e, engine_lane lanes[2], bool is_split)
{
    if (!is_split) {
        return &lanes[0];
    }
    assert_int_equal(e->vk.vkEndCommandBuffer(lanes[0].primary), VK_SUCCESS);
    lane_begin(&lanes[1], false);
    return &lanes[1];
}

// Wrapped driver and layer follow buffers and bindings, not words, so they rightly miss a barrier.
// The first round shows that none is there; the others go by them. Debian 12's layer looks into one
// command buffer at a time, and sees a write that is followed by a read, not by another write.
static void run_side_by_side(engine *e, const engine_functions *direct, const engine_lane lanes[2],
                             bool is_split, bool is_read, int round)
{
    const VkCommandBuffer primaries[] = {lanes[0].primary, lanes[1].primary};
    engine_run_all(e, round == 0 ? &e->vk : direct, is_split ? 2 : 1, primaries);
    if (round == 0) {
        assert_int_equal(e->wrapped.violations, 1);
        if (e->wrapped.validation == WRAPPED_VALIDATION_NONE) {
            assert_int_equal(e->wrapped.messages, 0);
        } else if (is_read && !is_split) {
            assert_int_not_equal(e->wrapped.messages, 0);
        }
        forgive(e);
    }
}

// The records of one command lie between those of the other, so that all words that two records
// share are of both commands.
static void quantize_side_by_side(engine *e, const engine_functions *direct, uint64_t offset,
                                  bool is_split)
{
    operands o = make_operands(e, 2 * NEIGHBOURS * KQ_BLOCK_BYTES,
                               operand_end(offset, 2 * NEIGHBOURS * KQ_Q8_K_BYTES) + 4, 40, 4);
    engine_lane lanes[2];
    kq_vulkan_quantize ops[2];
    open_lanes(e, lanes);
    for (uint64_t k = 0; k < 2; k++) {
        const kq_view values = {.offset = k * NEIGHBOURS * KQ_BLOCK_BYTES, .G = NEIGHBOURS};
        const kq_view records = {
            .offset = offset + k * KQ_Q8_K_BYTES, .stride = 2 * KQ_Q8_K_BYTES, .G = NEIGHBOURS};
        ops[k] = quantize_of(&o, values, records, 4 + k * sizeof(kq_status));
    }
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &ops[0], lanes[0].set), KQ_OK);
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &ops[1], lanes[1].set), KQ_OK);
    VkCommandBuffer commands = lane_begin(&lanes[0], false);
    assert_int_equal(kq_vulkan_quantize_record(e->pack, &ops[0], lanes[0].set, commands), KQ_OK);
    engine_lane *last = choose_second_lane(e, lanes, is_split);
    assert_int_equal(kq_vulkan_quantize_record(e->pack, &ops[1], lanes[1].set, last->primary),
                     KQ_OK);
    lane_end(last, false);
    for (int round = 0; round < NEIGHBOUR_ROUNDS; round++) {
        const kq_status presets[] = {KQ_STATUS_PRESET, KQ_STATUS_PRESET};
        draw_values((uint64_t)round, 2 * NEIGHBOURS, o.at[KQ_VALUES].host);
        memcpy(o.at[KQ_VALUES].expected, o.at[KQ_VALUES].host, (size_t)o.at[KQ_VALUES].bytes);
        operand_fill(&o.at[KQ_RECORDS], 0, NULL, 0);
        operand_fill(&o.at[KQ_STATUS], 4, presets, sizeof presets);
        expect_quantize(&o, &ops[0]);
        expect_quantize(&o, &ops[1]);
        run_side_by_side(e, direct, lanes, is_split, false, round);
        for (int i = 0; i <= KQ_STATUS; i++) {
            operand_check(e, &o.at[i]);
        }
    }
    close_lanes(lanes);
    destroy_operands(e, &o);
}

// The same of results. A dot has a barrier before its last dispatch, which would make the second
// wait for the first, so the second also comes without records: its zeros are then one dispatch, to
// which its result is bound as what it would read, too.
static void dot_side_by_side(engine *e, const engine_functions *direct, uint64_t offset,
                             bool is_split, bool is_empty)
{
    enum { G = 3, SCRATCH = 8 * G * NEIGHBOURS };
    const uint64_t lhs_bytes = NEIGHBOURS * G * KQ_Q4_K_BYTES;
    operands o = make_operands(e, lhs_bytes, G * KQ_Q8_K_BYTES,
                               operand_end(offset, 8 * NEIGHBOURS) + 4, 2 * SCRATCH);
    const kq_repeat repeat = {
        .count = {NEIGHBOURS, 1}, .lhs_step = {G * KQ_Q4_K_BYTES}, .result_step = {8}};
    engine_lane lanes[2];
    kq_vulkan_quantized_dot ops[2];
    open_lanes(e, lanes);
    for (uint32_t k = 0; k < 2; k++) {
        const kq_view view = {.G = k == 1 && is_empty ? 0 : G};
        ops[k] = dot_of(&o, (kq_order)((k + is_split) % 2), view, view, offset + 4 * k);
        ops[k].scratch.offset = k * SCRATCH;
        ops[k].repeat = &repeat;
    }
    assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, &ops[0], lanes[0].set), KQ_OK);
    assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, &ops[1], lanes[1].set), KQ_OK);
    VkCommandBuffer commands = lane_begin(&lanes[0], false);
    assert_int_equal(kq_vulkan_quantized_dot_record(e->pack, &ops[0], lanes[0].set, commands),
                     KQ_OK);
    engine_lane *last = choose_second_lane(e, lanes, is_split);
    assert_int_equal(kq_vulkan_quantized_dot_record(e->pack, &ops[1], lanes[1].set, last->primary),
                     KQ_OK);
    lane_end(last, false);
    for (int round = 0; round < NEIGHBOUR_ROUNDS; round++) {
        draw_q4_k(2 * (uint64_t)round, NEIGHBOURS * G, o.at[KQ_LHS].host);
        draw_q8_k(2 * (uint64_t)round + 1, G, o.at[KQ_RHS].host);
        memcpy(o.at[KQ_LHS].expected, o.at[KQ_LHS].host, (size_t)lhs_bytes);
        memcpy(o.at[KQ_RHS].expected, o.at[KQ_RHS].host, G * KQ_Q8_K_BYTES);
        operand_fill(&o.at[KQ_RESULT], 0, NULL, 0);
        expect_dot(&o, &ops[0]);
        expect_dot(&o, &ops[1]);
        run_side_by_side(e, direct, lanes, is_split, is_empty, round);
        for (int i = 0; i <= KQ_RESULT; i++) {
            operand_check(e, &o.at[i]);
        }
    }
    close_lanes(lanes);
    destroy_operands(e, &o);
}

static void test_neighbours(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_functions direct;
    engine_open(e, f->shown);
    engine_load(&direct, wrapped_vulkan_direct(), e->instance, e->device);
    for (int is_split = 0; is_split < 2; is_split++) {
        for (uint64_t offset = 1; offset < 4; offset++) {
            quantize_side_by_side(e, &direct, offset, is_split != 0);
            dot_side_by_side(e, &direct, offset, is_split != 0, false);
            dot_side_by_side(e, &direct, offset, is_split != 0, true);
        }
    }
    engine_close(e);
}

// --- One pack, four threads

enum { THREADS = 4, ROUNDS = 200 };

typedef struct worker {
    pthread_t thread;
    engine_lane lane;
    kq_vulkan_params params;
    const kq_vulkan *pack;
    kq_vulkan_quantized_dot op;
    int failures;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    kq_vulkan *own = NULL;
    w->failures += kq_vulkan_create(&w->params, &own) != KQ_OK;
    for (int i = 0; i < ROUNDS; i++) {
        kq_needs needs;
        VkCommandBuffer commands = lane_begin(&w->lane, false);
        w->failures += kq_vulkan_quantized_dot_query(w->pack, &w->op, &needs) != KQ_OK;
        w->failures += kq_vulkan_quantized_dot_write_set(w->pack, &w->op, w->lane.set) != KQ_OK;
        w->failures +=
            kq_vulkan_quantized_dot_record(w->pack, &w->op, w->lane.set, commands) != KQ_OK;
        lane_end(&w->lane, false);
    }
    kq_vulkan_destroy(&own);
    return NULL;
}

// The wrapped driver is for one thread, so these call the driver itself.
static void test_threads(void **state)
{
    enum { G = 30 };
    fixture *f = *state;
    engine *e = &f->engine;
    engine_functions direct;
    operands o[THREADS];
    worker workers[THREADS];
    kq_vulkan *pack = NULL;
    engine_open(e, f->shown);
    engine_load(&direct, wrapped_vulkan_direct(), e->instance, e->device);
    kq_vulkan_params params = engine_pack_params(e);
    params.get_instance_proc_addr = wrapped_vulkan_direct();
    params.errors = (kq_errors){0};
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    for (uint64_t t = 0; t < THREADS; t++) {
        worker *w = &workers[t];
        const kq_view view = {.offset = t, .G = G};
        memset(w, 0, sizeof *w);
        o[t] = make_operands(e, G * KQ_Q4_K_BYTES + 8, G * KQ_Q8_K_BYTES + 8, 16, 8 * G);
        draw_q4_k(t, G, o[t].at[KQ_LHS].host + t);
        draw_q8_k(t, G, o[t].at[KQ_RHS].host + t);
        w->op = dot_of(&o[t], (kq_order)(t % 2), view, view, t);
        expect_dot(&o[t], &w->op);
        w->pack = pack;
        w->params = params;
        lane_open(&w->lane, e, &direct, pack);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(workers[t].failures, 0);
        engine_run(e, &direct, workers[t].lane.primary);
        operand_check(e, &o[t].at[KQ_RESULT]);
    }
    for (int t = 0; t < THREADS; t++) {
        lane_close(&workers[t].lane);
        destroy_operands(e, &o[t]);
    }
    kq_vulkan_destroy(&pack);
    engine_close(e);
}

// --- That faults are seen: by the wrapped driver, and by the validation layer where it is on

// A good operation put to a faulty use: a barrier left out, or a binding shorter than the view.
static void run_faulty(engine *e, bool has_barrier, bool has_binding)
{
    operands o = make_operands(e, KQ_BLOCK_BYTES, KQ_Q8_K_BYTES, 16, 4);
    const kq_view one = {.G = 1};
    const uint32_t zero = 0;
    kq_vulkan_quantize op = quantize_of(&o, one, one, 0);
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &op, e->lane.set), KQ_OK);
    if (!has_binding) {
        VkDescriptorBufferInfo info = {.buffer = o.at[KQ_VALUES].buffer, .range = 512};
        VkWriteDescriptorSet write = {
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = e->lane.set,
            .dstBinding = KQ_VALUES,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &info,
        };
        e->vk.vkUpdateDescriptorSets(e->device, 1, &write, 0, NULL);
    }
    if (!has_barrier) {
        e->vk.vkCmdUpdateBuffer(commands, o.at[KQ_VALUES].buffer, 0, sizeof zero, &zero);
    }
    assert_int_equal(kq_vulkan_quantize_record(e->pack, &op, e->lane.set, commands), KQ_OK);
    lane_end(&e->lane, false);
    engine_run(e, &e->vk, e->lane.primary);
    destroy_operands(e, &o);
}

static void test_missing_barrier(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    run_faulty(e, false, true);
    assert_int_equal(e->wrapped.violations, 2);  // before the shader, and before the host
    assert_int_equal(e->wrapped.messages != 0,
                     f->shown.validation == WRAPPED_VALIDATION_SYNCHRONIZATION);
    forgive(e);
    engine_close(e);
}

// With instrumented shaders. The layer of Debian 12 (1.3.239) does not see this one, newer ones do.
static void test_short_binding(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    run_faulty(e, true, false);
    bool is_seen = e->wrapped.messages != 0;
    e->wrapped.messages = 0;
    engine_close(e);
    if (!is_seen) {
        skip();
    }
}

// --- All of it

int main(int argc, char **argv)
{
    static fixture f;
    vectors vectors = {0};
    for (int i = 1; i < argc; i++) {
        wrapped_validation asked = wrapped_vulkan_validation(argv[i]);
        f.shown.validation = asked != WRAPPED_VALIDATION_NONE ? asked : f.shown.validation;
        if (asked == WRAPPED_VALIDATION_NONE && !add_vectors(&vectors, argv[i])) {
            return EXIT_FAILURE;
        }
    }
    if (vectors.dot_count == 0) {
        fprintf(stderr, "usage: vulkan_embed_test [--validate|--validate=gpu] FOLDER...\n");
        return EXIT_FAILURE;
    }
    if (!engine_is_possible(f.shown.validation)) {
        free_vectors(&vectors);
        return EXIT_SKIP;
    }
    f.vectors = &vectors;
    static fixture aligned;
    aligned = f;
    aligned.shown.api_version = VK_API_VERSION_1_0;
    aligned.shown.hides_extensions = true;
    aligned.shown.offset_alignment = 256;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_vectors, &f),
        {"test_vectors: the least device", test_vectors, NULL, NULL, &aligned},
        cmocka_unit_test_prestate(test_offsets, &f),
        {"test_offsets: the least device", test_offsets, NULL, NULL, &aligned},
        cmocka_unit_test_prestate(test_strides, &f),
        {"test_strides: the least device", test_strides, NULL, NULL, &aligned},
        cmocka_unit_test_prestate(test_quantize_strides, &f),
        cmocka_unit_test_prestate(test_long_folds, &f),
        cmocka_unit_test_prestate(test_nothing, &f),
        cmocka_unit_test_prestate(test_chain, &f),
        cmocka_unit_test_prestate(test_neighbours, &f),
        cmocka_unit_test_prestate(test_threads, &f),
        cmocka_unit_test_prestate(test_missing_barrier, &f),
    };
    // GPU-assisted validation takes minutes; what is left out here runs without it.
    const struct CMUnitTest gpu_tests[] = {
        cmocka_unit_test_prestate(test_vectors, &f),
        cmocka_unit_test_prestate(test_offsets, &aligned),
        cmocka_unit_test_prestate(test_strides, &f),
        cmocka_unit_test_prestate(test_quantize_strides, &f),
        cmocka_unit_test_prestate(test_long_folds, &f),
        cmocka_unit_test_prestate(test_nothing, &f),
        cmocka_unit_test_prestate(test_short_binding, &f),
    };
    int failed = f.shown.validation == WRAPPED_VALIDATION_GPU
                     ? cmocka_run_group_tests_name("vulkan_embed, gpu", gpu_tests, NULL, NULL)
                     : cmocka_run_group_tests_name("vulkan_embed", tests, NULL, NULL);
    free_vectors(&vectors);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
