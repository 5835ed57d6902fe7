#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "property.h"
#include "vulkan_engine.h"

#include <stdlib.h>
#include <string.h>

// Layouts of the wrapper's, so that staged bytes are all that is copied within one sort of memory.
static const wrapped_vulkan shown[DEVICE_COUNT] = {
    [DEVICE_OWN] = {.layout = WRAPPED_LAYOUT_UNIFIED},
    [DEVICE_LOWEST] = {.layout = WRAPPED_LAYOUT_UNIFIED_NONCOHERENT,
                       .max_storage_buffer_range = 2048,
                       .max_groups = 7,
                       .offset_alignment = 256,
                       .max_allocation = 65536},
    [DEVICE_GROUPS] = {.layout = WRAPPED_LAYOUT_UNIFIED, .max_groups = 65535},
    {.layout = WRAPPED_LAYOUT_DISCRETE,
     .max_storage_buffer_range = 1 << 20,
     .max_groups = 7,
     .max_allocation = 1 << 20},
    {.layout = WRAPPED_LAYOUT_DISCRETE_NONCOHERENT,
     .max_storage_buffer_range = 99999,
     .offset_alignment = 64,
     .max_allocation = 3 * 65536 + 1},
    [DEVICE_PACKED] = {.layout = WRAPPED_LAYOUT_UNIFIED,
                       .max_allocation = 65536,
                       .accelerates_dots = true},
};

// Devices go without variants: the lowest has base kernels alone, of those between each lacks one.
static uint32_t without(unsigned number)
{
    uint32_t mask = 0;
    unsigned variant = DEVICE_GROUPS;
    for (unsigned kernel = 0; kernel < KQ_KERNEL_COUNT; kernel++) {
        if (kq_kernel_is_variant(kernel) && !kq_kernel_is_for_cpus(kernel)) {
            variant++;
            bool is_meant =
                number == DEVICE_LOWEST || (variant == number && number < DEVICE_PACKED);
            mask |= is_meant ? 1u << kernel : 0;
        }
    }
    return mask;
}

static wrapped_vulkan wrapped_now[DEVICE_COUNT];
static kq_device *devices[DEVICE_COUNT];
static wrapped_vulkan *current;
static engine parts_engine;

bool property_is_possible(void)
{
    return engine_is_possible(WRAPPED_VALIDATION_NONE);
}

bool property_has_variants(void)
{
    return true;
}

kq_device *property_device(unsigned number, report *report)
{
    current = &wrapped_now[number];
    if (devices[number] == NULL) {
        *current = shown[number];
        const kq_device_params params = {
            .device = "vulkan:0",
            .lookup = wrapped_vulkan_lookup(current),
            .errors = report_errors(report),
        };
        assert_int_equal(kq_device_create_without(&params, without(number), &devices[number]),
                         KQ_OK);
    }
    wrapped_vulkan_get(current);
    devices[number]->errors = report_errors(report);
    return devices[number];
}

void property_reset(void)
{
    wrapped_vulkan_reset(current);
}

property_counts property_count(void)
{
    const wrapped_vulkan_counts *counts = &current->counts;
    return (property_counts){counts->submits, counts->dispatches, counts->staged_bytes, false};
}

void property_check(void)
{
    assert_string_equal(current->violation, "");
}

void property_close(void)
{
    for (unsigned i = 0; i < DEVICE_COUNT; i++) {
        if (devices[i] != NULL) {
            wrapped_vulkan_get(&wrapped_now[i]);
            kq_device_destroy(&devices[i]);
            assert_int_equal(wrapped_vulkan_live(&wrapped_now[i]), 0);
            assert_string_equal(wrapped_now[i].violation, "");
        }
    }
    if (parts_engine.pack != NULL) {
        wrapped_vulkan_get(&parts_engine.wrapped);
        engine_close(&parts_engine);
        parts_engine.pack = NULL;
    }
}

// --- Level 2

static void run_part(engine *e, const kq_vulkan_quantized_dot *op)
{
    kq_needs needs;
    assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, op, &needs), KQ_OK);
    assert_int_equal(kq_vulkan_quantized_dot_write_set(e->pack, op, e->lane.set), KQ_OK);
    wrapped_vulkan_reset(&e->wrapped);
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    assert_int_equal(kq_vulkan_quantized_dot_record(e->pack, op, e->lane.set, commands), KQ_OK);
    lane_end(&e->lane, false);
    assert_int_equal(e->wrapped.counts.dispatches, needs.dispatch_count);
    engine_run(e, &e->vk, e->lane.primary);
}

// Sets the operation to its part k, which begins at record `first`.
static void take_part(const kq_vulkan_quantized_dot *whole, uint32_t first, uint32_t size,
                      kq_part *part, kq_vulkan_quantized_dot *op)
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
        engine_open(e, (wrapped_vulkan){.offset_alignment = 256});
    }
    wrapped_vulkan_get(&e->wrapped);
    operands o = {0};
    for (int role = 0; role < 3; role++) {
        uint64_t bytes = d->bytes[d->buffer[role]];
        o.at[role] = engine_make_operand(e, operand_end(0, bytes));
        operand_fill(&o.at[role], 0, d->images[d->buffer[role]], bytes);
    }
    kq_vulkan_quantized_dot whole =
        dot_of(&o, d->order, d->views[KQ_LHS], d->views[KQ_RHS], d->views[KQ_RESULT].offset);
    whole.repeat = d->has_repeat ? &d->repeat : NULL;
    uint64_t scratch_bytes = 4;
    uint32_t first = 0;
    kq_vulkan_quantized_dot op;
    kq_part part;
    for (uint32_t k = 0; k < count; first += sizes[k++]) {
        kq_needs needs;
        take_part(&whole, first, sizes[k], &part, &op);
        assert_int_equal(kq_vulkan_quantized_dot_query(e->pack, &op, &needs), KQ_OK);
        assert_null(needs.limit);
        scratch_bytes = needs.scratch_bytes > scratch_bytes ? needs.scratch_bytes : scratch_bytes;
    }
    operand *scratch = &o.at[KQ_SCRATCH];
    *scratch = engine_make_operand(e, scratch_bytes + 64);
    whole.scratch = (kq_vulkan_range){scratch->buffer, scratch_bytes, 0};
    first = 0;
    for (uint32_t k = 0; k < count; first += sizes[k++]) {
        operand_check(e, &o.at[KQ_RESULT]);
        take_part(&whole, first, sizes[k], &part, &op);
        run_part(e, &op);
    }
    expect_dot(&o, &whole);
    memcpy(scratch->expected, scratch->host, (size_t)scratch_bytes);
    for (int role = 0; role < KQ_BINDING_COUNT; role++) {
        operand_check(e, &o.at[role]);
    }
    destroy_operands(e, &o);
}
