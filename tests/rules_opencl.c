#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_engine.h"
#include "rules.h"

#include <stdlib.h>
#include <string.h>

static engine e;
static kq_opencl *some;  // a pack of some operations
static uint32_t some_ops;

static int find(void)
{
    static const engine_options options;
    return engine_check_device(&options);
}

static void open_engine(void)
{
    static const engine_options options;
    engine_open(&e, &options);
}

static void close_engine(void)
{
    kq_opencl_destroy(&some);
    engine_close(&e);
}

static const kq_opencl *pack_of(uint32_t ops)
{
    kq_opencl_params params = engine_pack_params(&e);
    if (ops == 0) {
        return e.pack;
    }
    if (ops != some_ops) {
        kq_opencl_destroy(&some);
        params.ops = ops;
        engine_expect_ok(&e, kq_opencl_create(&params, &some));
        some_ops = ops;
    }
    return some;
}

static void clear(void)
{
    wrapped_opencl_reset(&e.wrapped);
    memset(&e.report, 0, sizeof e.report);
}

// Of what is refused the driver hears no more than what the buffers are.
static void check(const rule_case *c, const char *call, kq_result result)
{
    rules_check(c, call, result, &e.report);
    if (c->expected != KQ_OK &&
        e.wrapped.call_count != wrapped_opencl_calls(&e.wrapped, "clGetMemObjectInfo")) {
        fail_msg("%s: the driver was called", rules_name(c, call));
    }
}

static void try(const rule_case *c)
{
    const kq_opencl *pack = pack_of(c->ops);
    operand made[RULES_BUFFER_COUNT + 1] = {{0}};
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        made[i] = operand_make(&e, (size_t)rules_buffer_bytes(c, i));
    }
    const kq_opencl_quantize quantize = {
        .format = c->format,
        .values = {made[c->values.buffer].buffer, c->values.view},
        .records = {made[c->records.buffer].buffer, c->records.view},
        .status = {made[c->status.buffer].buffer, c->status.view.offset},
    };
    const kq_opencl_quantized_dot dot = {
        .lhs_format = c->lhs_format,
        .rhs_format = c->rhs_format,
        .acc = c->acc,
        .order = c->order,
        .lhs = {made[c->lhs.buffer].buffer, c->lhs.view},
        .rhs = {made[c->rhs.buffer].buffer, c->rhs.view},
        .result = {made[c->result.buffer].buffer, c->result.view.offset},
        .scratch = {made[c->scratch.buffer].buffer, c->scratch.view.offset},
        .repeat = c->has_repeat ? &c->repeat : NULL,
        .part = c->has_part ? &c->part : NULL,
    };
    bool is_dot = c->op == KQ_OP_QUANTIZED_DOT;
    kq_needs needs;
    clear();
    kq_result result = is_dot ? kq_opencl_quantized_dot_query(pack, &dot, &needs)
                              : kq_opencl_quantize_query(pack, &quantize, &needs);
    rules_check_query(c, result, &e.report, &needs);
    clear();
    check(c, "enqueue",
          is_dot ? kq_opencl_quantized_dot_enqueue(pack, &dot, e.queue, 0, NULL, NULL)
                 : kq_opencl_quantize_enqueue(pack, &quantize, e.queue, 0, NULL, NULL));
    if (c->expected == KQ_OK) {
        assert_int_equal(wrapped_opencl_launches(&e.wrapped, NULL), needs.dispatch_count);
        assert_int_equal(e.cl.clFinish(e.queue), CL_SUCCESS);
    }
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        if (c->expected != KQ_OK) {
            operand_check(&e, &made[i], rules_name(c, "enqueue"));
        }
        operand_destroy(&e, &made[i]);
    }
}

const struct rules_bring rules_bring = {"level 2, OpenCL", RULES_OPENCL, find,
                                        open_engine,       close_engine, try};
