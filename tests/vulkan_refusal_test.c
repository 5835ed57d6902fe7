// What level 2 refuses beside the rules of an operation: arguments of its calls, with the words for
// it and nothing recorded; what does not fit the device, with the largest that does.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none, or no validation layer if that is asked for.
// Usage: vulkan_refusal_test [--validate|--validate=gpu] [FOLDER...]
// The folders of vectors are not needed; they may be there, as with other tests of drivers.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "reference.h"
#include "support.h"
#include "vulkan_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    wrapped_vulkan shown;
    engine engine;
} fixture;

// --- Refusals

static void clear(engine *e)
{
    wrapped_vulkan_reset(&e->wrapped);
    memset(&e->report, 0, sizeof e->report);
}

// The call was refused with one report that holds the text, and the driver heard nothing of it.
static void check_refused(const engine *e, kq_result result, kq_result expected, const char *text)
{
    const wrapped_vulkan_counts none = {0};
    if (e->report.count != 1 || strstr(e->report.reason, text) == NULL) {
        fail_msg("%u reports, the last \"%s\"; it should hold \"%s\"", e->report.count,
                 e->report.reason, text);
    }
    assert_int_equal(result, expected);
    assert_int_equal(e->report.result, expected);
    assert_memory_equal(&e->wrapped.counts, &none, sizeof none);
}

// write_set and record refuse either, with a command buffer that is recording.
static void refuse_work(engine *e, const kq_vulkan_quantized_dot *dot,
                        const kq_vulkan_quantize *quantize, const char *text)
{
    VkDescriptorSet set = e->lane.set;
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    clear(e);
    check_refused(e,
                  dot != NULL ? kq_vulkan_quantized_dot_write_set(e->pack, dot, set)
                              : kq_vulkan_quantize_write_set(e->pack, quantize, set),
                  KQ_ERROR_UNSUPPORTED, text);
    clear(e);
    check_refused(e,
                  dot != NULL ? kq_vulkan_quantized_dot_record(e->pack, dot, set, commands)
                              : kq_vulkan_quantize_record(e->pack, quantize, set, commands),
                  KQ_ERROR_UNSUPPORTED, text);
    lane_end(&e->lane, false);
}

// What query, write_set and record take beside the operation.
static void test_call_arguments(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operands o = make_operands(e, 1024, 292, 64, 64);
    const kq_view view = {.G = 1};
    const kq_vulkan_quantize quantize = quantize_of(&o, view, view, 0);
    const kq_vulkan_quantized_dot dot = dot_of(&o, KQ_ORDER_SEQUENTIAL, view, view, 0);
    const VkDescriptorSet set = e->lane.set;
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    kq_needs needs;

#define REFUSE(call, text)                                                                         \
 do {                                                                                              \
  clear(e);                                                                                        \
  check_refused(e, call, KQ_ERROR_ARGUMENT, text);                                                 \
 } while (0)
    REFUSE(kq_vulkan_quantize_query(e->pack, NULL, &needs), "op is null");
    REFUSE(kq_vulkan_quantized_dot_query(e->pack, NULL, &needs), "op is null");
    REFUSE(kq_vulkan_quantize_query(e->pack, &quantize, NULL), "needs is null");
    REFUSE(kq_vulkan_quantized_dot_query(e->pack, &dot, NULL), "needs is null");
    REFUSE(kq_vulkan_quantize_write_set(e->pack, NULL, set), "op is null");
    REFUSE(kq_vulkan_quantized_dot_write_set(e->pack, NULL, set), "op is null");
    REFUSE(kq_vulkan_quantize_write_set(e->pack, &quantize, VK_NULL_HANDLE), "set is null");
    REFUSE(kq_vulkan_quantized_dot_write_set(e->pack, &dot, VK_NULL_HANDLE), "set is null");
    REFUSE(kq_vulkan_quantize_record(e->pack, NULL, set, commands), "op is null");
    REFUSE(kq_vulkan_quantized_dot_record(e->pack, NULL, set, commands), "op is null");
    REFUSE(kq_vulkan_quantize_record(e->pack, &quantize, VK_NULL_HANDLE, commands), "set is null");
    REFUSE(kq_vulkan_quantized_dot_record(e->pack, &dot, VK_NULL_HANDLE, commands), "set is null");
    REFUSE(kq_vulkan_quantize_record(e->pack, &quantize, set, NULL), "command_buffer is null");
    REFUSE(kq_vulkan_quantized_dot_record(e->pack, &dot, set, NULL), "command_buffer is null");
#undef REFUSE
    clear(e);
    assert_int_equal(kq_vulkan_quantize_query(NULL, &quantize, &needs), KQ_ERROR_ARGUMENT);
    assert_int_equal(kq_vulkan_quantized_dot_record(NULL, &dot, set, commands), KQ_ERROR_ARGUMENT);
    assert_int_equal(e->report.count, 0);
    lane_end(&e->lane, false);
    destroy_operands(e, &o);
    engine_close(e);
}

// --- Packs

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find_nothing(VkInstance instance, const char *name)
{
    (void)instance;
    (void)name;
    return NULL;
}

// clang-format off
#define REFUSE_PACK(text, change)                                                                  \
    do {                                                                                           \
        kq_vulkan_params params = engine_pack_params(e);                                           \
        kq_vulkan *pack = e->pack;                                                                 \
        change;                                                                                    \
        clear(e);                                                                                  \
        check_refused(e, kq_vulkan_create(&params, &pack), KQ_ERROR_ARGUMENT, text);               \
        assert_null(pack);                                                                         \
    } while (0)
// clang-format on

static void test_pack_arguments(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    REFUSE_PACK("get_instance_proc_addr is null", params.get_instance_proc_addr = NULL);
    REFUSE_PACK("instance is null", params.instance = NULL);
    REFUSE_PACK("physical_device is null", params.physical_device = NULL);
    REFUSE_PACK("device is null", params.device = NULL);
    REFUSE_PACK("caps is 0x2; it may hold 0x1", params.caps = 2);
    REFUSE_PACK("ops is 0x1;", params.ops = 1);
    REFUSE_PACK("ops is 0x10;", params.ops = 16);
    REFUSE_PACK("does not lead to vk", params.get_instance_proc_addr = find_nothing);

    // Kernels that were not asked for are not compiled.
    operands o = make_operands(e, 2048, 512, 64, 64);
    const kq_view view = {.G = 1};
    const kq_vulkan_quantize quantize = quantize_of(&o, view, view, 0);
    const kq_vulkan_quantized_dot dot = dot_of(&o, KQ_ORDER_PAIRWISE, view, view, 0);
    kq_vulkan *all = e->pack;
    kq_vulkan_params params = engine_pack_params(e);
    params.ops = 1u << KQ_OP_QUANTIZE;
    clear(e);
    assert_int_equal(kq_vulkan_create(&params, &e->pack), KQ_OK);
    assert_int_equal(wrapped_vulkan_calls(&e->wrapped, "vkCreateComputePipelines"),
                     wrapped_vulkan_kernels(1u << KQ_OP_QUANTIZE));
    assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &quantize, e->lane.set), KQ_OK);
    kq_vulkan_destroy(&e->pack);
    params.ops = 1u << KQ_OP_QUANTIZED_DOT;
    clear(e);
    assert_int_equal(kq_vulkan_create(&params, &e->pack), KQ_OK);
    assert_int_equal(wrapped_vulkan_calls(&e->wrapped, "vkCreateComputePipelines"),
                     wrapped_vulkan_kernels(1u << KQ_OP_QUANTIZED_DOT));
    assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, &dot, e->lane.set), KQ_OK);
    kq_vulkan_destroy(&e->pack);
    e->pack = all;
    destroy_operands(e, &o);
    engine_close(e);
}

// --- The self-test

// Either call refuses a range; nothing is written, bound or recorded.
static void refuse_range(engine *e, const kq_vulkan_range *range, const char *text)
{
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    clear(e);
    check_refused(e, kq_vulkan_self_test_write_set(e->pack, range, e->lane.set), KQ_ERROR_ARGUMENT,
                  text);
    clear(e);
    check_refused(e, kq_vulkan_self_test_record(e->pack, range, e->lane.set, commands),
                  KQ_ERROR_ARGUMENT, text);
    lane_end(&e->lane, false);
}

static void test_self_test(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    uint64_t alignment = e->limits.minStorageBufferOffsetAlignment;
    alignment = alignment < 4 ? 4 : alignment;
    const VkDescriptorSet set = e->lane.set;
    operand o = engine_make_operand(e, KQ_SELF_TEST_BYTES + alignment);
    operands all = {{o}};
    const kq_vulkan_range good = {o.buffer, o.bytes, alignment};
    const struct {
        uint64_t bytes, offset;
        const char *text;
    } cases[] = {
        {o.bytes, 1, "range begins at byte 1; it must be a multiple of"},
        {o.bytes, alignment / 2, "it must be a multiple of"},
        {o.bytes, alignment - 1, "it must be a multiple of"},
        {o.bytes, 2 * alignment, "ends past its buffer's end at"},
        {o.bytes - 1, alignment, "KQ_SELF_TEST_BYTES, 20480, long; it ends past its buffer's end"},
        {KQ_SELF_TEST_BYTES - 1, 0, "ends past its buffer's end at 20479"},
        {0, 0, "ends past its buffer's end at 0"},
        {o.bytes, UINT64_MAX - alignment + 1, "range begins at byte 18446744073709"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refuse_range(e, &(kq_vulkan_range){o.buffer, cases[i].bytes, cases[i].offset},
                     cases[i].text);
    }
    refuse_range(e, NULL, "range is null");
    refuse_range(e, &(kq_vulkan_range){VK_NULL_HANDLE, o.bytes, 0}, "range.buffer is null");

    VkCommandBuffer commands = lane_begin(&e->lane, false);
    clear(e);
    check_refused(e, kq_vulkan_self_test_write_set(e->pack, &good, VK_NULL_HANDLE),
                  KQ_ERROR_ARGUMENT, "set is null");
    clear(e);
    check_refused(e, kq_vulkan_self_test_record(e->pack, &good, VK_NULL_HANDLE, commands),
                  KQ_ERROR_ARGUMENT, "set is null");
    clear(e);
    check_refused(e, kq_vulkan_self_test_record(e->pack, &good, set, NULL), KQ_ERROR_ARGUMENT,
                  "command_buffer is null");
    clear(e);
    assert_int_equal(kq_vulkan_self_test_write_set(NULL, &good, set), KQ_ERROR_ARGUMENT);
    assert_int_equal(kq_vulkan_self_test_record(NULL, &good, set, commands), KQ_ERROR_ARGUMENT);
    assert_int_equal(e->report.count, 0);
    lane_end(&e->lane, false);

    // It takes the kernels of all ops.
    static const char *const names[] = {
        [KQ_OP_QUANTIZE] = "without KQ_OP_QUANTIZE",
        [KQ_OP_QUANTIZED_DOT] = "without KQ_OP_QUANTIZED_DOT",
        [KQ_OP_SELF_TEST] = "without KQ_OP_SELF_TEST",
    };
    kq_vulkan *pack = e->pack;
    kq_vulkan_params params = engine_pack_params(e);
    for (int op = KQ_OP_QUANTIZE; op <= KQ_OP_SELF_TEST; op++) {
        params.ops = KQ_KNOWN_OPS & ~(1u << op);
        assert_int_equal(kq_vulkan_create(&params, &e->pack), KQ_OK);
        refuse_range(e, &good, names[op]);
        kq_vulkan_destroy(&e->pack);
    }
    e->pack = pack;
    destroy_operands(e, &all);
    engine_close(e);
}

// Layouts are of a device. One of no more than a handle is enough to be another.
static void test_foreign_layouts(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    kq_vulkan_params params = engine_pack_params(e);
    kq_vulkan *pack = e->pack;
    params.share_layouts = e->pack;
    params.device = (VkDevice)&params;
    clear(e);
    check_refused(e, kq_vulkan_create(&params, &pack), KQ_ERROR_ARGUMENT,
                  "share_layouts is a pack of another device");
    assert_null(pack);
    engine_close(e);
}

// --- Limits

typedef struct limit_case {
    uint32_t G;
    kq_order order;
    uint64_t offset;
    kq_repeat repeat;
    bool fits;
} limit_case;

// Asked from any number: the largest that fits does fit, and runs; one more does not.
static void check_largest_dot(engine *e, operands *o, const limit_case *c, bool is_G)
{
    kq_repeat repeat = c->repeat;
    const kq_view lhs = {.offset = c->offset, .G = c->G};
    const kq_view rhs = {.offset = c->offset + 1, .G = c->G};
    kq_vulkan_quantized_dot op = dot_of(o, c->order, lhs, rhs, c->offset + 2);
    kq_needs needs;
    kq_needs again;
    op.repeat = &repeat;
    op.lhs.buffer_bytes = (uint64_t)1 << 50;
    op.rhs.buffer_bytes = (uint64_t)1 << 50;
    op.result.buffer_bytes = (uint64_t)1 << 50;
    clear(e);
    assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &needs), KQ_OK);
    uint32_t largest = is_G ? needs.largest_G : needs.largest_count;
    uint32_t *number = is_G ? &op.lhs.view.G : &repeat.count[0];
    assert_true(largest < UINT32_MAX);
    if (!is_G && largest == 0) {
        return;  // not even one dot; no dot at all is always possible
    }

    *number = largest + (largest > 0 ? 1 : 0);  // where it is 0 not even that fits
    op.rhs.view.G = op.lhs.view.G;
    assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &again), KQ_OK);
    assert_non_null(again.limit);
    assert_true(again.needed > again.limit_value);
    assert_int_equal(is_G ? again.largest_G : again.largest_count, largest);
    if (largest == 0) {
        return;
    }

    *number = largest;
    op.rhs.view.G = op.lhs.view.G;
    assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &again), KQ_OK);
    assert_null(again.limit);
    assert_int_equal(is_G ? again.largest_G : again.largest_count, largest);
    op.lhs.buffer_bytes = o->at[KQ_LHS].bytes;
    op.rhs.buffer_bytes = o->at[KQ_RHS].bytes;
    op.result.buffer_bytes = o->at[KQ_RESULT].bytes;
    operand_fill(&o->at[KQ_RESULT], 0, NULL, 0);
    operand_fill(&o->at[KQ_SCRATCH], 0, NULL, 0);
    expect_dot(o, &op);
    check_dot(e, o, &op, false);
}

static void check_limits(fixture *f, const limit_case *cases, size_t count, const char *limit,
                         uint64_t value)
{
    engine *e = &f->engine;
    engine_open(e, f->shown);
    // Room for what fits; the ends of what does not are only claimed.
    operands o = make_operands(e, 2 << 20, 2 << 20, 2 << 20, 2 << 20);
    draw_q4_k(1, (2 << 20) / KQ_Q4_K_BYTES, o.at[KQ_LHS].host);
    draw_q8_k(2, (2 << 20) / KQ_Q8_K_BYTES, o.at[KQ_RHS].host);
    memcpy(o.at[KQ_LHS].expected, o.at[KQ_LHS].host, 2 << 20);
    memcpy(o.at[KQ_RHS].expected, o.at[KQ_RHS].host, 2 << 20);
    for (size_t i = 0; i < count; i++) {
        const limit_case *c = &cases[i];
        const kq_view lhs = {.offset = c->offset, .G = c->G};
        const kq_view rhs = {.offset = c->offset + 1, .G = c->G};
        kq_vulkan_quantized_dot op = dot_of(&o, c->order, lhs, rhs, c->offset + 2);
        kq_needs needs;
        op.repeat = &c->repeat;
        op.lhs.buffer_bytes = (uint64_t)1 << 50;
        op.rhs.buffer_bytes = (uint64_t)1 << 50;
        op.result.buffer_bytes = (uint64_t)1 << 50;
        op.scratch.buffer_bytes = (uint64_t)1 << 50;
        assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &needs), KQ_OK);
        if (c->fits) {
            assert_null(needs.limit);
            assert_int_equal(needs.limit_value, 0);
        } else {
            assert_non_null(needs.limit);
            assert_non_null(strstr(needs.limit, limit));
            assert_true(needs.limit_value == value);
            assert_true(needs.needed > value);
            char text[128];
            snprintf(text, sizeof text, "%s is %llu; %llu", needs.limit, (unsigned long long)value,
                     (unsigned long long)needs.needed);
            refuse_work(e, &op, NULL, text);
        }
        check_largest_dot(e, &o, c, true);
        check_largest_dot(e, &o, c, false);
    }
    destroy_operands(e, &o);
    engine_close(e);
}

static void test_range_limit(void **state)
{
    // 1 MiB is 3591 records of rhs and an offset, or scratch of 2^18 words.
    static const limit_case cases[] = {
        {3592, KQ_ORDER_SEQUENTIAL, 0, {{1, 1}, {0, 0}, {0, 0}, {4, 4}}, false},
        {3590, KQ_ORDER_SEQUENTIAL, 0, {{1, 1}, {4, 0}, {4, 0}, {4, 4}}, true},
        {3592, KQ_ORDER_PAIRWISE, 7, {{1, 1}, {4, 0}, {292, 0}, {4, 4}}, false},
        {100, KQ_ORDER_PAIRWISE, 1, {{4000, 1}, {144, 0}, {0, 0}, {4, 4}}, false},
        {100, KQ_ORDER_SEQUENTIAL, 2, {{2, 3}, {4, 0}, {0, 8}, {4, 1 << 17}}, true},
        {1, KQ_ORDER_SEQUENTIAL, 0, {{2, 1}, {0, 0}, {0, 0}, {1 << 20, 4}}, false},
    };
    check_limits(*state, cases, sizeof cases / sizeof *cases, "maxStorageBufferRange", 1 << 20);
}

static void test_group_limit(void **state)
{
    // 7 by 7 workgroups of 64 lanes: 3136 terms.
    static const limit_case cases[] = {
        {3136, KQ_ORDER_SEQUENTIAL, 0, {{1, 1}, {4, 0}, {4, 0}, {4, 4}}, true},
        {3137, KQ_ORDER_PAIRWISE, 0, {{1, 1}, {4, 0}, {4, 0}, {4, 4}}, false},
        {4, KQ_ORDER_PAIRWISE, 3, {{785, 1}, {4, 0}, {4, 0}, {4, 4}}, false},
        {4, KQ_ORDER_SEQUENTIAL, 3, {{28, 28}, {4, 144}, {4, 292}, {4, 4096}}, true},
        {10, KQ_ORDER_PAIRWISE, 1, {{1000, 1}, {4, 0}, {0, 0}, {4, 4}}, false},
        {0, KQ_ORDER_PAIRWISE, 0, {{3137, 1}, {0, 0}, {0, 0}, {4, 4}}, false},
        {0, KQ_ORDER_SEQUENTIAL, 0, {{3137, 1}, {0, 0}, {0, 0}, {4, 4}}, false},
    };
    check_limits(*state, cases, sizeof cases / sizeof *cases, "maxComputeWorkGroupCount", 49);
}

// The same of quantize. What limits it is the range of values, and workgroups of 4 blocks.
static void test_quantize_limits(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operands o = make_operands(e, 2 << 20, 2 << 20, 64, 4);
    kq_vulkan_quantize op =
        quantize_of(&o, (kq_view){.offset = 5, .G = 5000}, (kq_view){.offset = 6, .G = 5000}, 4);
    kq_needs needs;
    op.values.buffer_bytes = (uint64_t)1 << 50;
    assert_int_equal(kq_vulkan_quantize_query(e->pack, &op, &needs), KQ_OK);
    bool is_range = f->shown.max_groups == 0;
    uint32_t largest = is_range ? 1023 : 49 * 4;
    assert_non_null(needs.limit);
    assert_non_null(
        strstr(needs.limit, is_range ? "maxStorageBufferRange" : "maxComputeWorkGroupCount"));
    assert_int_equal(needs.largest_G, largest);
    refuse_work(e, NULL, &op, needs.limit);
    for (uint32_t more = 0; more < 2; more++) {
        op.values.view.G = largest + more;
        op.records.view.G = largest + more;
        assert_int_equal(kq_vulkan_quantize_query(e->pack, &op, &needs), KQ_OK);
        assert_int_equal(needs.limit != NULL, more);
        assert_int_equal(needs.largest_G, largest);
    }
    op.values.view.G = largest;
    op.records.view.G = largest;
    op.values.buffer_bytes = o.at[KQ_VALUES].bytes;
    kq_status status = KQ_STATUS_PRESET;
    kq_shape shape;
    const kq_operation operation = {
        .op = KQ_OP_QUANTIZE,
        .format = KQ_FORMAT_Q8_K,
        .operands[KQ_VALUES] = {1, o.at[KQ_VALUES].bytes, op.values.view},
        .operands[KQ_RECORDS] = {2, o.at[KQ_RECORDS].bytes, op.records.view},
        .operands[KQ_STATUS] = {3, 64, {.offset = 4}},
    };
    const kq_errors errors = {0};
    assert_int_equal(kq_shape_make(&operation, &errors, &shape), KQ_OK);
    draw_values(4, (2 << 20) / KQ_BLOCK_BYTES, o.at[KQ_VALUES].host);
    memcpy(o.at[KQ_VALUES].expected, o.at[KQ_VALUES].host, 2 << 20);
    fill_status(&o.at[KQ_STATUS], 4);
    kq_reference_quantize(&shape, o.at[KQ_VALUES].host, o.at[KQ_RECORDS].expected, &status);
    expect_status(&o.at[KQ_STATUS], 4, status.lowest_bad, status.bad_count, status.done_count);
    check_quantize(e, &o, &op, false);
    destroy_operands(e, &o);
    engine_close(e);
}

// --- All of it

int main(int argc, char **argv)
{
    static fixture plain;
    static fixture small_range;
    static fixture few_groups;
    static fixture aligned;
    if (argc > 1) {
        plain.shown.validation = wrapped_vulkan_validation(argv[1]);
    }
    if (!engine_is_possible(plain.shown.validation)) {
        return EXIT_SKIP;
    }
    aligned = plain;
    aligned.shown.offset_alignment = 256;
    small_range = plain;
    small_range.shown.max_storage_buffer_range = 1 << 20;
    few_groups = plain;
    few_groups.shown.max_groups = 7;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_call_arguments, &plain),
        cmocka_unit_test_prestate(test_pack_arguments, &plain),
        cmocka_unit_test_prestate(test_self_test, &plain),
        {"test_self_test: the least alignment", test_self_test, NULL, NULL, &aligned},
        cmocka_unit_test_prestate(test_foreign_layouts, &plain),
        cmocka_unit_test_prestate(test_range_limit, &small_range),
        cmocka_unit_test_prestate(test_group_limit, &few_groups),
        {"test_quantize_limits: range", test_quantize_limits, NULL, NULL, &small_range},
        {"test_quantize_limits: groups", test_quantize_limits, NULL, NULL, &few_groups},
    };
    int failed = cmocka_run_group_tests_name("vulkan_refusal", tests, NULL, NULL);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
