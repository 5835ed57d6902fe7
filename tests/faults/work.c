#include "work.h"

#include <stdlib.h>
#include <string.h>

typedef struct objects {
    kq_buffer *values, *records, *lhs, *rhs, *results, *from, *to;
    kq_recording *recording;
} objects;

static void destroy_all(objects *o)
{
    kq_buffer **buffers[] = {&o->values,  &o->records, &o->lhs, &o->rhs,
                             &o->results, &o->from,    &o->to};
    kq_recording_destroy(&o->recording);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        kq_buffer_destroy(buffers[i]);
    }
}

static kq_quantized_dot_args dots(const objects *o, kq_order order, uint64_t result_at,
                                  const kq_repeat *repeat)
{
    uint32_t G = repeat != NULL ? WORK_G : WORK_LONG_G;
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {o->lhs, {.G = G}},
        .rhs = {o->rhs, {.G = G}},
        .result = o->results,
        .result_offset = WORK_RESULTS_AT + result_at,
        .repeat = repeat,
    };
}

// clang-format off
#define TRY(name, expression)                                                                      \
    if (result == KQ_OK) {                                                                         \
        *call = name;                                                                              \
        result = expression;                                                                       \
    }
// clang-format on

static kq_result make_buffers(work *w, kq_device *d, objects *o, const char **call)
{
    const struct {
        kq_buffer **buffer;
        uint64_t bytes, at, data_bytes;
        const void *data;
    } made[] = {
        {&o->values, WORK_VALUES_AT + sizeof w->values, WORK_VALUES_AT, sizeof w->values,
         w->values},
        {&o->records, sizeof w->got.records, 0, sizeof w->got.records, w->got.records},
        {&o->lhs, sizeof w->lhs, 0, sizeof w->lhs, w->lhs},
        {&o->rhs, sizeof w->rhs, 0, sizeof w->rhs, w->rhs},
        {&o->results, WORK_RESULTS_AT + sizeof w->got.results, WORK_RESULTS_AT,
         sizeof w->got.results, w->got.results},
        {&o->from, WORK_BANDWIDTH, 0, WORK_BANDWIDTH, w->lhs},
        {&o->to, WORK_BANDWIDTH, 0, 1, w->lhs},
    };
    kq_result result = KQ_OK;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        TRY("kq_buffer_create", kq_buffer_create(d, made[i].bytes, made[i].buffer))
        TRY("kq_buffer_upload",
            kq_buffer_upload(*made[i].buffer, made[i].at, made[i].data, made[i].data_bytes))
    }
    return result;
}

static kq_result run_recording(objects *o, const char **call)
{
    kq_result result = KQ_OK;
    uint64_t nanoseconds = 0;
    for (int i = 0; i < 2; i++) {
        TRY("kq_recording_run", kq_recording_run(o->recording, &nanoseconds))
    }
    kq_recording_destroy(&o->recording);
    return result;
}

static kq_result run_all(work *w, kq_device *d, objects *o, const char **call)
{
    work_outputs *got = &w->got;
    const uint64_t row = WORK_G * KQ_Q4_K_BYTES;
    const kq_repeat repeat = {.count = {4, 3}, .lhs_step = {row, 4 * row}, .result_step = {4, 16}};
    const char *step = NULL;
    kq_result result = make_buffers(w, d, o, call);
    const kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K,
        .values = {o->values, {.offset = WORK_VALUES_AT, .G = WORK_G}},
        .records = {o->records, {.G = WORK_G}},
    };
    TRY("kq_quantize", kq_quantize(d, &quantize))
    TRY("kq_buffer_download", kq_buffer_download(o->records, 0, got->records, sizeof got->records))
    uint64_t at = 0;
    for (int order = 0; order < 2; order++) {
        kq_quantized_dot_args args = dots(o, (kq_order)order, at, &repeat);
        TRY("kq_quantized_dot", kq_quantized_dot(d, &args))
        at += sizeof(uint32_t) * WORK_DOTS;
        args = dots(o, (kq_order)order, at, NULL);
        TRY("kq_quantized_dot", kq_quantized_dot(d, &args))
        at += sizeof(uint32_t);
    }
    TRY("kq_buffer_download",
        kq_buffer_download(o->results, WORK_RESULTS_AT, got->results, sizeof got->results))
    TRY("kq_quantize_host", kq_quantize_host(d, KQ_FORMAT_Q8_K, (const float *)(void *)w->values,
                                             WORK_G * KQ_BLOCK, got->host_records, NULL))
    TRY("kq_quantized_dot_host",
        kq_quantized_dot_host(d, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                              KQ_ORDER_PAIRWISE, WORK_HOST_DOTS, w->lhs, WORK_HOST_DOTS * row,
                              w->rhs, WORK_G * KQ_Q8_K_BYTES, (float *)(void *)got->host_results))
    // What the recordings are to write is overwritten first.
    TRY("kq_buffer_upload",
        kq_buffer_upload(o->records, 0, got->recorded_records, sizeof got->recorded_records))
    TRY("kq_quantize_record", kq_quantize_record(d, &quantize, &o->recording))
    TRY("kq_recording_run", run_recording(o, call))
    TRY("kq_buffer_download",
        kq_buffer_download(o->records, 0, got->recorded_records, sizeof got->recorded_records))
    const kq_quantized_dot_args recorded = dots(o, KQ_ORDER_SEQUENTIAL, 0, &repeat);
    TRY("kq_buffer_upload", kq_buffer_upload(o->results, WORK_RESULTS_AT, got->recorded_results,
                                             sizeof got->recorded_results))
    TRY("kq_quantized_dot_record", kq_quantized_dot_record(d, &recorded, &o->recording))
    TRY("kq_recording_run", run_recording(o, call))
    TRY("kq_buffer_download", kq_buffer_download(o->results, WORK_RESULTS_AT, got->recorded_results,
                                                 sizeof got->recorded_results))
    TRY("kq_self_test", kq_self_test(d, &step))
    TRY("kq_primitives_host", kq_primitives_host(d, got->items, WORK_ITEMS))
    for (int reads_only = 0; reads_only < 2; reads_only++) {
        TRY("kq_bandwidth_record",
            kq_bandwidth_record(d, o->from, o->to, WORK_BANDWIDTH, reads_only, &o->recording))
        TRY("kq_recording_run", run_recording(o, call))
        TRY("kq_buffer_download",
            kq_buffer_download(o->to, 0, reads_only ? got->read : got->copied,
                               reads_only ? sizeof got->read : sizeof got->copied))
    }
    return result;
}

static void set_items(uint32_t *items)
{
    for (uint32_t i = 0; i < WORK_ITEMS; i++) {
        const uint32_t item[] = {i, 0x3C00 + i, 0x40000000, 0xA5A5A5A5};
        memcpy(items + (size_t)4 * i, item, sizeof item);
    }
}

kq_result work_run(work *w, kq_device *device, const char **call)
{
    objects o = {0};
    memset(&w->got, POISON, sizeof w->got);
    set_items(w->got.items);
    kq_result result = run_all(w, device, &o, call);
    destroy_all(&o);
    return result;
}

void work_prepare(work *w)
{
    const char *call = NULL;
    kq_device *reference = NULL;
    draw_values(1, WORK_G, w->values);
    draw_q4_k(2, WORK_LHS, w->lhs);
    draw_q8_k(3, WORK_LONG_G, w->rhs);
    if (kq_device_create(&(kq_device_params){.device = "reference"}, &reference) != KQ_OK ||
        work_run(w, reference, &call) != KQ_OK) {
        abort();
    }
    w->expected = w->got;
    kq_device_destroy(&reference);
}

bool work_is_right(const work *w)
{
    return memcmp(&w->got, &w->expected, sizeof w->got) == 0;
}

bool work_is_right_or_poison(const work *w)
{
    const unsigned char *got = (const unsigned char *)&w->got;
    const unsigned char *expected = (const unsigned char *)&w->expected;
    for (size_t i = 0; i < sizeof w->got; i++) {
        if (got[i] != expected[i] && got[i] != POISON) {
            return false;
        }
    }
    return true;
}
