#include "soak.h"

#include "../support.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WORD = 4 };

// Of 64 jobs.
static const struct {
    soak_way way;
    unsigned share;
} ways[] = {
    {SOAK_OWN_DEVICE, 1},  {SOAK_BUFFERS, 15}, {SOAK_RECORDED, 8}, {SOAK_HOST, 10},
    {SOAK_SELF_TESTED, 2}, {SOAK_BROUGHT, 24}, {SOAK_OWN_PACK, 2}, {SOAK_BROUGHT_TESTED, 2},
};

static uint32_t at_most(uint64_t drawn, uint32_t most)
{
    return 1 + (uint32_t)(drawn % most);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

soak_job soak_draw(uint64_t seed, uint64_t number)
{
    uint64_t state = seed ^ number * UINT64_C(0xD1342543DE82EF95);
    soak_job job = {.number = number};
    unsigned share = (unsigned)(draw(&state) % 64);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        job.way = ways[i].way;
        if (share < ways[i].share) {
            break;
        }
        share -= ways[i].share;
    }
    job.G = at_most(draw(&state), draw(&state) % 16 == 0 ? SOAK_MAX_BLOCKS : 32);
    job.columns = smaller(at_most(draw(&state), 6), SOAK_MAX_BLOCKS / job.G);
    job.rows = smaller(at_most(draw(&state), 24), SOAK_MAX_ROW_RECORDS / job.G);
    job.order = draw(&state) % 2 == 0 ? KQ_ORDER_SEQUENTIAL : KQ_ORDER_PAIRWISE;
    uint32_t *offsets[] = {&job.values_offset, &job.records_offset, &job.lhs_offset,
                           &job.result_offset};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        *offsets[i] = draw(&state) % 2 == 0 ? 0 : (uint32_t)(draw(&state) % (SOAK_MAX_OFFSET + 1));
    }
    job.has_bad = draw(&state) % 8 == 0;
    job.seed = draw(&state);
    return job;
}

static size_t padded(size_t bytes)
{
    return (bytes + WORD - 1) / WORD * WORD + WORD;
}

static uint32_t blocks(const soak_job *job)
{
    return job->G * job->columns;
}

size_t soak_values_bytes(const soak_job *job)
{
    return padded(job->values_offset + (size_t)blocks(job) * KQ_BLOCK_BYTES);
}

size_t soak_records_bytes(const soak_job *job)
{
    return padded(job->records_offset + (size_t)blocks(job) * KQ_Q8_K_BYTES);
}

size_t soak_lhs_bytes(const soak_job *job)
{
    return padded(job->lhs_offset + (size_t)job->G * job->rows * KQ_Q4_K_BYTES);
}

size_t soak_result_bytes(const soak_job *job)
{
    return padded(job->result_offset + (size_t)job->rows * job->columns * WORD);
}

kq_view soak_values_view(const soak_job *job)
{
    return (kq_view){.offset = job->values_offset, .G = blocks(job)};
}

kq_view soak_records_view(const soak_job *job)
{
    return (kq_view){.offset = job->records_offset, .G = blocks(job)};
}

kq_view soak_lhs_view(const soak_job *job)
{
    return (kq_view){.offset = job->lhs_offset, .G = job->G};
}

kq_view soak_rhs_view(const soak_job *job)
{
    return (kq_view){.offset = job->records_offset, .G = job->G};
}

kq_repeat soak_repeat(const soak_job *job)
{
    return (kq_repeat){
        .count = {job->rows, job->columns},
        .lhs_step = {(uint64_t)job->G * KQ_Q4_K_BYTES, 0},
        .rhs_step = {0, (uint64_t)job->G * KQ_Q8_K_BYTES},
        .result_step = {WORD, (uint64_t)job->rows * WORD},
    };
}

void soak_fill_inputs(const soak_job *job, soak_data *data)
{
    uint64_t state = job->seed;
    uint64_t values_seed = draw(&state);
    uint64_t lhs_seed = draw(&state);
    memset(data->values, POISON, soak_values_bytes(job));
    memset(data->lhs, POISON, soak_lhs_bytes(job));
    draw_values(values_seed, blocks(job), data->values + job->values_offset);
    draw_q4_k(lhs_seed, job->G * job->rows, data->lhs + job->lhs_offset);
    if (job->has_bad) {
        size_t at = (size_t)(draw(&state) % ((uint64_t)blocks(job) * KQ_BLOCK));
        static const uint32_t bad[] = {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFA00001u};
        store_u32(data->values + job->values_offset + WORD * at, bad[draw(&state) % 4]);
    }
}

void soak_poison_outputs(const soak_job *job, soak_data *data)
{
    memset(data->records, POISON, soak_records_bytes(job));
    memset(data->result, POISON, soak_result_bytes(job));
    data->domain = (kq_domain){0};
}

uint64_t soak_digest(const soak_job *job, const soak_data *data)
{
    unsigned char parts[16 + 4 * WORD];
    const uint64_t digests[] = {fnv1a64(data->records, soak_records_bytes(job)),
                                fnv1a64(data->result, soak_result_bytes(job))};
    for (int i = 0; i < 4; i++) {
        store_u32(parts + WORD * i, (uint32_t)(digests[i / 2] >> 32 * (i % 2)));
    }
    store_u32(parts + 16, data->domain.record);
    store_u32(parts + 20, data->domain.bad_count);
    store_u32(parts + 24, (uint32_t)data->domain.reason);
    store_u32(parts + 28, data->domain.element);
    return fnv1a64(parts, sizeof parts);
}

bool soak_take_status(const soak_job *job, const kq_status *status, soak_data *data)
{
    if (status->done_count != blocks(job) || (status->bad_count > 0) != job->has_bad) {
        return soak_complain("job %llu: %u of %u blocks done, %u bad",
                             (unsigned long long)job->number, (unsigned)status->done_count,
                             (unsigned)blocks(job), (unsigned)status->bad_count);
    }
    if (job->has_bad) {
        const unsigned char *view = data->values + job->values_offset;
        data->domain.record = status->lowest_bad;
        data->domain.bad_count = status->bad_count;
        data->domain.reason = kq_block_reason(view + (size_t)status->lowest_bad * KQ_BLOCK_BYTES, 0,
                                              &data->domain.element);
    }
    return true;
}

// --- Complaints

bool soak_complain(const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "soak: %s\n", text);
    return false;
}

// A block without a record is what some jobs are about.
static void take_error(void *user, kq_result result, const char *reason)
{
    (void)user;
    if (result != KQ_ERROR_DOMAIN) {
        soak_complain("%s: %s", kq_result_name(result), reason);
    }
}

kq_errors soak_errors(void)
{
    return (kq_errors){take_error, NULL};
}
