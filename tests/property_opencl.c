#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_engine.h"
#include "property.h"

#include <stdlib.h>
#include <string.h>

// OpenCL says nothing of ranges and workgroups: where they are lower, level 3 alone is told.
static const struct {
    uint64_t max_allocation;
    uint64_t range_bytes;
    uint32_t groups;
} shown[DEVICE_COUNT] = {
    [DEVICE_OWN] = {0, 0, 0},        [DEVICE_LOWEST] = {4096, 2048, 7},
    [DEVICE_GROUPS] = {0, 0, 65535}, {4096, 0, 0},
    {1 << 20, 1 << 20, 7},           {65536 + 1, 99999, 0},
};

// Devices go without variants: the lowest has base kernels alone, each of those for CPUs is lacking
// from one behind it.
static uint32_t without(unsigned number)
{
    enum { FIRST = DEVICE_GROUPS + 1 };
    unsigned variants = 0;
    uint32_t kernels = 0;
    for (unsigned kernel = 0; kernel < KQ_KERNEL_COUNT; kernel++) {
        if (kq_kernel_is_for_cpus(kernel)) {
            unsigned lacking = FIRST + variants++ % (DEVICE_COUNT - FIRST);
            kernels |= number == DEVICE_LOWEST || number == lacking ? 1u << kernel : 0;
        }
    }
    return kernels;
}

static wrapped_opencl wrapped_now[DEVICE_COUNT];
static kq_device *devices[DEVICE_COUNT];
static wrapped_opencl *current;
static engine parts_engine;
static const engine_options options = {.has_cpu_kernels = true};

bool property_is_possible(void)
{
    return engine_check_device(&options) == EXIT_SUCCESS;
}

bool property_has_variants(void)
{
    return false;
}

kq_device *property_device(unsigned number, report *report)
{
    current = &wrapped_now[number];
    kq_lookup lookup = wrapped_opencl_lookup(current);
    if (devices[number] == NULL) {
        current->max_mem_alloc_size = shown[number].max_allocation;
        const kq_device_params params = {
            .device = "opencl:0",
            .lookup = lookup,
            .errors = report_errors(report),
        };
        assert_int_equal(kq_device_create_without(&params, without(number), &devices[number]),
                         KQ_OK);
        kq_limits *limits = &devices[number]->capacity.limits;
        if (shown[number].range_bytes != 0) {
            limits->range_bytes = shown[number].range_bytes;
        }
        for (int i = 0; i < 2 && shown[number].groups != 0; i++) {
            limits->groups[i] = shown[number].groups;
        }
    }
    devices[number]->errors = report_errors(report);
    return devices[number];
}

void property_reset(void)
{
    wrapped_opencl_reset(current);
}

property_counts property_count(void)
{
    return (property_counts){
        wrapped_opencl_calls(current, "clFinish"),
        current->launch_count,
        current->bytes_copied,
        true,
    };
}

void property_check(void)
{
    assert_int_equal(wrapped_opencl_count_reports(), 0);
}

void property_close(void)
{
    for (unsigned i = 0; i < DEVICE_COUNT; i++) {
        if (devices[i] != NULL) {
            wrapped_opencl_lookup(&wrapped_now[i]);
            kq_device_destroy(&devices[i]);
            assert_int_equal(wrapped_opencl_live(&wrapped_now[i]), 0);
            assert_int_equal(wrapped_now[i].foreign_releases, 0);
            wrapped_opencl_free(&wrapped_now[i]);
        }
    }
    if (parts_engine.pack != NULL) {
        wrapped_opencl_lookup(&parts_engine.wrapped);
        engine_close(&parts_engine);
        parts_engine.pack = NULL;
    }
}

// --- Level 2

// Sets the operation to its part k, which begins at record `first`.
static void take_part(const kq_opencl_quantized_dot *whole, uint32_t first, uint32_t size,
                      kq_part *part, kq_opencl_quantized_dot *op)
{
    *op = *whole;
    *part = (kq_part){first, whole->lhs.view.G};
    op->part = part;
    op->lhs.view.G = size;
    op->rhs.view.G = size;
    op->lhs.view.offset += first * property_stride(&whole->lhs.view, KQ_Q4_K_BYTES);
    op->rhs.view.offset += first * property_stride(&whole->rhs.view, KQ_Q8_K_BYTES);
}

void property_run_parts(const drawn *d, const uint32_t *sizes, uint32_t count)
{
    engine *e = &parts_engine;
    if (e->pack == NULL) {
        engine_open(e, &options);
    }
    wrapped_opencl_lookup(&e->wrapped);
    operands o = {0};
    for (int role = 0; role < 3; role++) {
        size_t bytes = (size_t)d->bytes[d->buffer[role]];
        o.at[role] = operand_make(e, operand_end(0, bytes));
        operand_fill(e, &o.at[role], 0, d->images[d->buffer[role]], bytes);
    }
    kq_opencl_quantized_dot whole =
        dot_of(&o, d->order, d->views[KQ_LHS], d->views[KQ_RHS], d->views[KQ_RESULT].offset);
    whole.repeat = d->has_repeat ? &d->repeat : NULL;
    uint64_t scratch_bytes = 0;
    uint32_t first = 0;
    kq_opencl_quantized_dot op;
    kq_part part;
    for (uint32_t k = 0; k < count; first += sizes[k++]) {
        kq_needs needs;
        take_part(&whole, first, sizes[k], &part, &op);
        engine_expect_ok(e, kq_opencl_quantized_dot_query(e->pack, &op, &needs));
        assert_null(needs.limit);
        scratch_bytes = needs.scratch_bytes > scratch_bytes ? needs.scratch_bytes : scratch_bytes;
    }
    o.at[KQ_SCRATCH] = operand_make(e, (size_t)scratch_bytes);
    whole.scratch.buffer = o.at[KQ_SCRATCH].buffer;
    first = 0;
    for (uint32_t k = 0; k < count; first += sizes[k++]) {
        if (k + 1 == count) {
            operand_check(e, &o.at[KQ_RESULT], "result before the last part");
        }
        take_part(&whole, first, sizes[k], &part, &op);
        engine_expect_ok(e, kq_opencl_quantized_dot_enqueue(e->pack, &op, e->queue, 0, NULL, NULL));
        assert_int_equal(e->cl.clFinish(e->queue), CL_SUCCESS);
    }
    expect_dot(&o, &whole);
    for (int role = 0; role < KQ_SCRATCH; role++) {
        operand_check(e, &o.at[role], "operand");
    }
    operands_destroy(e, &o);
}
