// Level 2 of Vulkan, or with RULES_ON_OPENCL that of OpenCL, on the wrapped driver.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#ifdef RULES_ON_OPENCL
# include "opencl_engine.h"
# define API(name)        kq_opencl_##name
# define BUFFER(o)        (o)->buffer > 0 ? made.at[(o)->buffer - 1].buffer : NULL
# define MAKE_OPERANDS    operands_make
# define DESTROY_OPERANDS operands_destroy
typedef kq_opencl pack;
#else
# include "vulkan_engine.h"
# define API(name)        kq_vulkan_##name
# define BUFFER(o)        (o)->buffer > 0 ? made.at[(o)->buffer - 1].buffer : VK_NULL_HANDLE, (o)->bytes
# define MAKE_OPERANDS    make_operands
# define DESTROY_OPERANDS destroy_operands
typedef kq_vulkan pack;
#endif

#include "rules.h"

#include <stdlib.h>
#include <string.h>

static engine e;
static pack *packs[3];  // by ops: of all, then of one alone

int rules_find_driver(void)
{
#ifdef RULES_ON_OPENCL
    return engine_check_device(&(engine_options){0});
#else
    return engine_is_possible(WRAPPED_VALIDATION_NONE) ? EXIT_SUCCESS : EXIT_SKIP;
#endif
}

void rules_bring_open(void)
{
#ifdef RULES_ON_OPENCL
    engine_open(&e, &(engine_options){0});
#else
    engine_open(&e, (wrapped_vulkan){0});
#endif
    API(params) params = engine_pack_params(&e);
    for (uint32_t i = 1; i < 3; i++) {
        params.ops = 2 * i;
        assert_int_equal(API(create)(&params, &packs[i]), KQ_OK);
    }
    packs[0] = e.pack;
}

void rules_bring_close(void)
{
    API(destroy)(&packs[1]);
    API(destroy)(&packs[2]);
    engine_close(&e);
}

static void clear(void)
{
#ifdef RULES_ON_OPENCL
    wrapped_opencl_reset(&e.wrapped);
#else
    wrapped_vulkan_reset(&e.wrapped);
#endif
    memset(&e.report, 0, sizeof e.report);
}

// Of what is refused the driver hears nothing, or is asked what the buffers are.
static void check(const rule_case *c, const char *call, kq_result result)
{
#ifdef RULES_ON_OPENCL
    unsigned calls = wrapped_opencl_calls(&e.wrapped, "clGetMemObjectInfo");
    bool is_called = e.wrapped.call_count != calls;
#else
    const wrapped_vulkan_counts none = {0};
    bool is_called = memcmp(&e.wrapped.counts, &none, sizeof none) != 0;
#endif
    rules_check(c, call, result, &e.report);
    if (c->expected != KQ_OK && is_called) {
        fail_msg("%s: the driver was called", rules_name(c, call));
    }
}

// The calls that work, of one operation; the dispatches of the last.
static unsigned work(const rule_case *c, const pack *p, const API(quantize) * quantize,
                     const API(quantized_dot) * dot)
{
    clear();
#ifdef RULES_ON_OPENCL
    check(c, "enqueue",
          dot != NULL ? kq_opencl_quantized_dot_enqueue(p, dot, e.queue, 0, NULL, NULL)
                      : kq_opencl_quantize_enqueue(p, quantize, e.queue, 0, NULL, NULL));
    assert_int_equal(e.cl.clFinish(e.queue), CL_SUCCESS);
    return wrapped_opencl_launches(&e.wrapped, NULL);
#else
    const VkDescriptorSet set = e.lane.set;
    check(c, "write_set",
          dot != NULL ? kq_vulkan_quantized_dot_write_set(p, dot, set)
                      : kq_vulkan_quantize_write_set(p, quantize, set));
    VkCommandBuffer commands = lane_begin(&e.lane, false);
    clear();
    check(c, "record",
          dot != NULL ? kq_vulkan_quantized_dot_record(p, dot, set, commands)
                      : kq_vulkan_quantize_record(p, quantize, set, commands));
    lane_end(&e.lane, false);
    return e.wrapped.counts.dispatches;
#endif
}

void rules_bring_try(const rule_case *c)
{
    const pack *p = packs[c->ops / 2];
    operands made = MAKE_OPERANDS(&e, rules_buffer_bytes(c, 1), rules_buffer_bytes(c, 2),
                                  rules_buffer_bytes(c, 3), rules_buffer_bytes(c, 4));
    const API(quantize) quantize = {
        .format = c->format,
        .values = {BUFFER(&c->values), rules_view(&c->values)},
        .records = {BUFFER(&c->records), rules_view(&c->records)},
        .status = {BUFFER(&c->status), c->status.offset},
    };
    const API(quantized_dot) dot = {
        .lhs_format = c->lhs_format,
        .rhs_format = c->rhs_format,
        .acc = c->acc,
        .order = c->order,
        .lhs = {BUFFER(&c->lhs), rules_view(&c->lhs)},
        .rhs = {BUFFER(&c->rhs), rules_view(&c->rhs)},
        .result = {BUFFER(&c->result), c->result.offset},
        .scratch = {BUFFER(&c->scratch), c->scratch.offset},
        .repeat = c->has_repeat ? &c->repeat : NULL,
        .part = c->has_part ? &c->part : NULL,
    };
    bool is_dot = c->op == KQ_OP_QUANTIZED_DOT;
    kq_needs needs;
    clear();
    rules_check_query(c,
                      is_dot ? API(quantized_dot_query)(p, &dot, &needs)
                             : API(quantize_query)(p, &quantize, &needs),
                      &e.report, &needs);
    unsigned dispatches = work(c, p, &quantize, is_dot ? &dot : NULL);
    if (c->expected == KQ_OK) {
        assert_int_equal(dispatches, needs.dispatch_count);
    }
    DESTROY_OPERANDS(&e, &made);
}
