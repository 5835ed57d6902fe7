// Level 3.
#include "soak.h"

#include <string.h>

// A part of what follows that failed.
#define TRY(condition)                                                                             \
 do {                                                                                              \
  if (!(condition)) {                                                                              \
   is_good = soak_complain("job %llu: not so: %s", (unsigned long long)job->number, #condition);   \
   goto done;                                                                                      \
  }                                                                                                \
 } while (0)

static kq_result expected_of(const soak_job *job)
{
    return job->has_bad ? KQ_ERROR_DOMAIN : KQ_OK;
}

static bool run_recorded(kq_device *device, const soak_job *job, const kq_quantize_args *quantize,
                         const kq_quantized_dot_args *dot)
{
    kq_recording *recordings[2] = {NULL, NULL};
    bool is_good = true;
    TRY(kq_quantize_record(device, quantize, &recordings[0]) == KQ_OK);
    TRY(kq_quantized_dot_record(device, dot, &recordings[1]) == KQ_OK);
    for (uint64_t i = 0; i <= job->seed % 3; i++) {
        TRY(kq_recording_run(recordings[0], NULL) == expected_of(job));
        TRY(kq_recording_run(recordings[1], NULL) == KQ_OK);
    }
done:
    kq_recording_destroy(&recordings[1]);
    kq_recording_destroy(&recordings[0]);
    return is_good;
}

bool soak_run_buffers(kq_device *device, const soak_job *job, soak_data *data, bool is_recorded)
{
    enum { VALUES, RECORDS, LHS, RESULT, COUNT };
    kq_buffer *buffers[COUNT] = {NULL};
    const size_t bytes[COUNT] = {soak_values_bytes(job), soak_records_bytes(job),
                                 soak_lhs_bytes(job), soak_result_bytes(job)};
    unsigned char *const contents[COUNT] = {data->values, data->records, data->lhs, data->result};
    bool is_good = true;
    soak_poison_outputs(job, data);
    for (int i = 0; i < COUNT; i++) {
        TRY(kq_buffer_create(device, bytes[i], &buffers[i]) == KQ_OK);
        TRY(kq_buffer_upload(buffers[i], 0, contents[i], bytes[i]) == KQ_OK);
    }
    const kq_repeat repeat = soak_repeat(job);
    const kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K,
        .values = {buffers[VALUES], soak_values_view(job)},
        .records = {buffers[RECORDS], soak_records_view(job)},
        .domain = &data->domain,
    };
    const kq_quantized_dot_args dot = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = job->order,
        .lhs = {buffers[LHS], soak_lhs_view(job)},
        .rhs = {buffers[RECORDS], soak_rhs_view(job)},
        .result = buffers[RESULT],
        .result_offset = job->result_offset,
        .repeat = &repeat,
    };
    if (is_recorded) {
        TRY(run_recorded(device, job, &quantize, &dot));
    } else {
        TRY(kq_quantize(device, &quantize) == expected_of(job));
        TRY(kq_quantized_dot(device, &dot) == KQ_OK);
    }
    for (int i = RECORDS; i < COUNT; i += RESULT - RECORDS) {
        TRY(kq_buffer_download(buffers[i], 0, contents[i], bytes[i]) == KQ_OK);
    }
done:
    for (int i = 0; i < COUNT; i++) {
        kq_buffer_destroy(&buffers[i]);
    }
    return is_good;
}

// A pointer to float is at a multiple of 4, which the views of a job need not be.
static const float *aligned(unsigned char *view, size_t bytes)
{
    size_t past = (uintptr_t)view % sizeof(float);
    memmove(view - past, view, bytes);
    return (const float *)(const void *)(view - past);
}

bool soak_run_host(kq_device *device, const soak_job *job, soak_data *data)
{
    float results[SOAK_MAX_DOTS];
    bool is_good = true;
    const uint64_t value_count = (uint64_t)soak_values_view(job).G * KQ_BLOCK;
    const size_t row_bytes = (size_t)job->G * job->rows * KQ_Q4_K_BYTES;
    const size_t column_bytes = (size_t)job->G * KQ_Q8_K_BYTES;
    soak_poison_outputs(job, data);
    const float *values =
        aligned(data->values + job->values_offset, (size_t)value_count * sizeof(float));
    unsigned char *records = data->records + job->records_offset;
    TRY(kq_quantize_host(device, KQ_FORMAT_Q8_K, values, value_count, records, &data->domain) ==
        expected_of(job));
    for (uint32_t j = 0; j < job->columns; j++) {
        TRY(kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                  job->order, job->rows, data->lhs + job->lhs_offset, row_bytes,
                                  records + j * column_bytes, column_bytes,
                                  results + j * job->rows) == KQ_OK);
    }
    memcpy(data->result + job->result_offset, results,
           (size_t)job->rows * job->columns * sizeof *results);
done:
    return is_good;
}
