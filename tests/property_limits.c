#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "property_limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static report last_report;

// An operation with operands of so many bytes, each behind a few others; filled with poison.
static void begin(drawn *d, kq_op op, uint32_t G, uint64_t first, uint64_t second, uint64_t third)
{
    const uint64_t bytes[3] = {first, second, third};
    memset(d, 0, sizeof *d);
    d->op = op;
    for (int role = 0; role < 3; role++) {
        d->buffer[role] = bytes[role] > 0 ? role : -1;
        if (bytes[role] > 0) {
            d->views[role] = (kq_view){.offset = (unsigned)role + 1, .G = role < 2 ? G : 0};
        }
        d->bytes[role] = bytes[role] > 0 ? d->views[role].offset + bytes[role] + 1 : 0;
        d->images[role] = malloc((size_t)d->bytes[role] + 1);
        assert_non_null(d->images[role]);
        memset(d->images[role], POISON, (size_t)d->bytes[role]);
    }
}

static unsigned char *data_of(const drawn *d, int role)
{
    return d->images[role] + d->views[role].offset;
}

// --- Vectors

static void check_quantize(kq_device *device, const quantize_vector *v)
{
    drawn d;
    kq_needs needs;
    size_t values_bytes = (size_t)v->G * KQ_BLOCK_BYTES;
    size_t records_bytes = (size_t)v->G * KQ_Q8_K_BYTES;
    begin(&d, KQ_OP_QUANTIZE, v->G, values_bytes, records_bytes, 0);
    memcpy(data_of(&d, KQ_VALUES), v->values, values_bytes);
    unsigned char *got = property_run(device, &d, &needs);
    assert_memory_equal(got + d.views[KQ_RECORDS].offset, v->records, records_bytes);
    free(got);
    free_drawn(&d);
}

static void check_dot(kq_device *device, const dot_vector *v)
{
    drawn d;
    kq_needs needs;
    size_t lhs_bytes = (size_t)v->G * KQ_Q4_K_BYTES;
    size_t rhs_bytes = (size_t)v->G * KQ_Q8_K_BYTES;
    begin(&d, KQ_OP_QUANTIZED_DOT, v->G, lhs_bytes, rhs_bytes, 4);
    memcpy(data_of(&d, KQ_LHS), v->lhs, lhs_bytes);
    memcpy(data_of(&d, KQ_RHS), v->rhs, rhs_bytes);
    for (int order = 0; order < 2; order++) {
        d.order = (kq_order)order;
        unsigned char *got = property_run(device, &d, &needs);
        assert_int_equal(load_u32(got + d.views[KQ_RESULT].offset), v->results[order]);
        free(got);
    }
    free_drawn(&d);
}

// The same dot many times over, in shapes that variants of the kernels serve: of one rhs, or of
// columns that each have a copy of it.
static void check_repeated_dot(kq_device *device, const dot_vector *v, uint32_t columns)
{
    enum { ROWS = 33 };
    drawn d;
    kq_needs needs;
    size_t lhs_bytes = (size_t)v->G * KQ_Q4_K_BYTES;
    size_t rhs_bytes = (size_t)v->G * KQ_Q8_K_BYTES;
    begin(&d, KQ_OP_QUANTIZED_DOT, v->G, 15 + lhs_bytes, columns * rhs_bytes, 4 * ROWS * columns);
    d.views[KQ_LHS].offset = 16;
    d.has_repeat = true;
    d.repeat = (kq_repeat){
        .count = {ROWS, columns},
        .rhs_step = {0, columns > 1 ? rhs_bytes : 0},
        .result_step = {4, 4 * ROWS},
    };
    memcpy(data_of(&d, KQ_LHS), v->lhs, lhs_bytes);
    for (uint32_t i = 0; i < columns; i++) {
        memcpy(data_of(&d, KQ_RHS) + i * rhs_bytes, v->rhs, rhs_bytes);
    }
    unsigned char *got = property_run(device, &d, &needs);
    for (uint32_t i = 0; i < ROWS * columns; i++) {
        assert_int_equal(load_u32(got + d.views[KQ_RESULT].offset + 4 * (size_t)i), v->results[0]);
    }
    free(got);
    free_drawn(&d);
}

static void check_bulk(kq_device *device, const bulk_vector *v)
{
    drawn d;
    kq_needs needs;
    size_t records_bytes = (size_t)v->G * KQ_Q8_K_BYTES;
    begin(&d, KQ_OP_QUANTIZE, v->G, (size_t)v->G * KQ_BLOCK_BYTES, records_bytes, 0);
    draw_values(v->seed, v->G, data_of(&d, KQ_VALUES));
    unsigned char *records = property_run(device, &d, &needs);
    unsigned char *first = records + d.views[KQ_RECORDS].offset;
    assert_true(fnv1a64(first, records_bytes) == v->digest);
    dot_vector dot = {.G = v->G, .rhs = first, .results = {v->results[0], v->results[1]}};
    dot.lhs = malloc((size_t)v->G * KQ_Q4_K_BYTES);
    assert_non_null(dot.lhs);
    draw_q4_k(v->seed + 1, v->G, dot.lhs);
    check_dot(device, &dot);
    free(dot.lhs);
    free(records);
    free_drawn(&d);
}

static void check_variants(const vectors *vectors, size_t step)
{
    static const unsigned devices[] = {DEVICE_OWN, DEVICE_PACKED};
    for (int k = 0; k < 2; k++) {
        kq_device *device = property_device(devices[k], &last_report);
        for (size_t i = 0; i < vectors->dot_count; i += step) {
            check_repeated_dot(device, &vectors->dot[i], 1);
            if (devices[k] == DEVICE_OWN) {
                check_repeated_dot(device, &vectors->dot[i], 5);
            }
        }
    }
}

void property_test_vectors(const vectors *vectors, bool is_quick)
{
    kq_device *device = property_device(DEVICE_LOWEST, &last_report);
    size_t step = is_quick ? 10 : 1;
    for (size_t i = 0; i < vectors->quantize_count; i += step) {
        check_quantize(device, &vectors->quantize[i]);
    }
    for (size_t i = 0; i < vectors->dot_count; i += step) {
        check_dot(device, &vectors->dot[i]);
    }
    if (property_has_variants()) {
        check_variants(vectors, step);
    }
    device = property_device(DEVICE_LOWEST, &last_report);
    for (size_t i = 0; i < vectors->bulk_count; i++) {
        if (!is_quick || vectors->bulk[i].G < 100) {
            check_bulk(device, &vectors->bulk[i]);
        }
    }
}

// --- Counts

// A few lhs, over and over.
static void check_dot_count(kq_device *device, uint32_t period, uint32_t count, kq_order order)
{
    drawn d;
    kq_needs needs;
    uint64_t state = count;
    begin(&d, KQ_OP_QUANTIZED_DOT, 1, period * KQ_Q4_K_BYTES, KQ_Q8_K_BYTES, 4 * (size_t)count);
    draw_f16_words(&state, data_of(&d, KQ_LHS), period * KQ_Q4_K_BYTES);
    draw_f32_words(&state, data_of(&d, KQ_RHS), KQ_Q8_K_BYTES);
    d.order = order;
    d.has_repeat = true;
    d.repeat = (kq_repeat){
        .count = {period, count / period},
        .lhs_step = {KQ_Q4_K_BYTES, 0},
        .result_step = {4, 4 * period},
    };
    unsigned char *got = property_run(device, &d, &needs);
    const unsigned char *results = got + d.views[KQ_RESULT].offset;
    for (uint32_t i = period; i < count; i++) {
        if (memcmp(results + 4 * (size_t)i, results + i % period * 4, 4) != 0) {
            fail_msg("dot %" PRIu32 " of %" PRIu32 " is not as dot %" PRIu32, i, count, i % period);
        }
    }
    free(got);
    free_drawn(&d);
}

// Columns, of 13 workgroups: in no two dimensions are there as many where a device allows 7 in x.
static void check_columns(kq_device *device)
{
    enum { G = 13, ROWS = 64, COLUMNS = 3, ROW_STEP = 256 };
    drawn d;
    kq_needs needs;
    uint64_t state = G;
    begin(&d, KQ_OP_QUANTIZED_DOT, G, (ROWS - 1) * ROW_STEP + G * KQ_Q4_K_BYTES,
          (COLUMNS - 1 + G) * KQ_Q8_K_BYTES, 4 * ROWS * COLUMNS);
    d.views[KQ_LHS].offset = 0;  // there is a kernel for lhs that is aligned
    draw_q4_k(state, (ROWS - 1) * ROW_STEP / KQ_Q4_K_BYTES + G, data_of(&d, KQ_LHS));
    draw_f32_words(&state, data_of(&d, KQ_RHS), (COLUMNS - 1 + G) * KQ_Q8_K_BYTES);
    d.has_repeat = true;
    d.repeat = (kq_repeat){
        .count = {ROWS, COLUMNS},
        .lhs_step = {ROW_STEP, 0},
        .rhs_step = {0, KQ_Q8_K_BYTES},
        .result_step = {4, 4 * ROWS},
    };
    free(property_run(device, &d, &needs));
    free_drawn(&d);
}

void property_test_dot_counts(bool is_quick)
{
    // A period that divides it, and a count; the first is for interpreters.
    static const uint32_t cases[][2] = {
        {5, 500}, {5, 65535}, {8, 65536}, {8, 70000}, {8, 5000000},
    };
    static const uint64_t works[] = {UINT64_MAX, 30011};
    kq_device *device = property_device(DEVICE_GROUPS, &last_report);
    const kq_capacity own = device->capacity;
    for (size_t i = 0; i < (is_quick ? 1 : 5); i++) {
        // The largest takes long enough uncut in one order.
        for (int k = 0; k < (cases[i][1] > 100000 ? 1 : 4); k++) {
            device->capacity.work = works[k / 2];
            check_dot_count(device, cases[i][0], cases[i][1], (kq_order)(k % 2));
        }
    }
    device->capacity = own;
    for (unsigned number = 0; number < DEVICE_COUNT && property_has_variants(); number++) {
        check_columns(property_device(number, &last_report));
    }
}

// --- Long dots

// Records overlap, so that few bytes make many.
static void begin_long(drawn *d, uint32_t G)
{
    uint64_t state = G;
    uint64_t lhs_bytes = 4 * (uint64_t)(G - 1) + KQ_Q4_K_BYTES;
    uint64_t rhs_bytes = 4 * (uint64_t)(G - 1) + KQ_Q8_K_BYTES;
    begin(d, KQ_OP_QUANTIZED_DOT, G, lhs_bytes, rhs_bytes, 4);
    d->views[KQ_LHS].stride = 4;
    d->views[KQ_RHS].stride = 4;
    draw_f16_words(&state, data_of(d, KQ_LHS), lhs_bytes);
    draw_f32_words(&state, data_of(d, KQ_RHS), rhs_bytes);
}

void property_test_long_dots(bool is_quick)
{
    static const struct {
        unsigned device;
        uint64_t work;
        bool is_cut;
    } cases[] = {
        {DEVICE_OWN, UINT64_MAX, false},
        {DEVICE_OWN, 3000, true},
        {DEVICE_LOWEST, UINT64_MAX, true},
    };
    drawn d;
    begin_long(&d, is_quick ? 1000 : 70000);
    for (int k = 0; k < 6; k++) {
        kq_device *device = property_device(cases[k / 2].device, &last_report);
        const kq_capacity own = device->capacity;
        kq_needs needs;
        device->capacity.work = cases[k / 2].work;
        d.order = (kq_order)(k % 2);
        free(property_run(device, &d, &needs));
        assert_true((needs.submission_count > 1) == cases[k / 2].is_cut || is_quick);
        device->capacity = own;
    }
    free_drawn(&d);
}
