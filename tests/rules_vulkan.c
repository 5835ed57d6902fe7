#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "rules.h"
#include "vulkan_engine.h"

#include <stdlib.h>
#include <string.h>

static engine e;
static kq_vulkan *some;  // a pack of some operations
static uint32_t some_ops;
static VkBuffer buffers[RULES_BUFFER_COUNT + 1];  // by number

static int find(void)
{
    return engine_is_possible(WRAPPED_VALIDATION_NONE) ? EXIT_SUCCESS : EXIT_SKIP;
}

static void open_engine(void)
{
    engine_open(&e, (wrapped_vulkan){0});
    operands o = make_operands(&e, 8192, 8192, 8192, 8192);
    for (int i = 0; i < RULES_BUFFER_COUNT; i++) {
        buffers[i + 1] = o.at[i].buffer;
        free(o.at[i].expected);
    }
}

static void close_engine(void)
{
    kq_vulkan_destroy(&some);
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        e.vk.vkDestroyBuffer(e.device, buffers[i], NULL);
    }
    engine_close(&e);
}

static const kq_vulkan *pack_of(uint32_t ops)
{
    kq_vulkan_params params = engine_pack_params(&e);
    if (ops == 0) {
        return e.pack;
    }
    if (ops != some_ops) {
        kq_vulkan_destroy(&some);
        params.ops = ops;
        assert_int_equal(kq_vulkan_create(&params, &some), KQ_OK);
        some_ops = ops;
    }
    return some;
}

static kq_vulkan_view view_of(const rule_operand *o)
{
    return (kq_vulkan_view){buffers[o->buffer], o->bytes, o->view};
}

static kq_vulkan_range range_of(const rule_operand *o)
{
    return (kq_vulkan_range){buffers[o->buffer], o->bytes, o->view.offset};
}

static void clear(void)
{
    wrapped_vulkan_reset(&e.wrapped);
    memset(&e.report, 0, sizeof e.report);
}

// What is refused the driver doesn't hear of.
static void check(const rule_case *c, const char *call, kq_result result)
{
    const wrapped_vulkan_counts none = {0};
    rules_check(c, call, result, &e.report);
    if (c->expected != KQ_OK && memcmp(&e.wrapped.counts, &none, sizeof none) != 0) {
        fail_msg("%s: the driver was called", rules_name(c, call));
    }
}

static void try(const rule_case *c)
{
    const kq_vulkan *pack = pack_of(c->ops);
    const kq_vulkan_quantize quantize = {
        .format = c->format,
        .values = view_of(&c->values),
        .records = view_of(&c->records),
        .status = range_of(&c->status),
    };
    const kq_vulkan_quantized_dot dot = {
        .lhs_format = c->lhs_format,
        .rhs_format = c->rhs_format,
        .acc = c->acc,
        .order = c->order,
        .lhs = view_of(&c->lhs),
        .rhs = view_of(&c->rhs),
        .result = range_of(&c->result),
        .scratch = range_of(&c->scratch),
        .repeat = c->has_repeat ? &c->repeat : NULL,
        .part = c->has_part ? &c->part : NULL,
    };
    bool is_dot = c->op == KQ_OP_QUANTIZED_DOT;
    kq_needs needs;
    clear();
    kq_result result = is_dot ? kq_vulkan_quantized_dot_query(pack, &dot, &needs)
                              : kq_vulkan_quantize_query(pack, &quantize, &needs);
    rules_check_query(c, result, &e.report, &needs);
    clear();
    check(c, "write_set",
          is_dot ? kq_vulkan_quantized_dot_write_set(pack, &dot, e.lane.set)
                 : kq_vulkan_quantize_write_set(pack, &quantize, e.lane.set));
    VkCommandBuffer commands = lane_begin(&e.lane, false);
    clear();
    check(c, "record",
          is_dot ? kq_vulkan_quantized_dot_record(pack, &dot, e.lane.set, commands)
                 : kq_vulkan_quantize_record(pack, &quantize, e.lane.set, commands));
    if (c->expected == KQ_OK) {
        assert_int_equal(e.wrapped.counts.dispatches, needs.dispatch_count);
    }
    lane_end(&e.lane, false);
}

const struct rules_bring rules_bring = {"level 2, Vulkan", RULES_VULKAN, find,
                                        open_engine,       close_engine, try};
