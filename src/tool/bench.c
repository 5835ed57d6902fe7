#include "bench.h"

#include "bytes.h"
#include "interrupt.h"
#include "platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 0, RHS = 1, OUT = 2, DRAWN_RECORDS = 4096 };

#define DOTS(name, records, first, second, own_rhs)                                                \
 {                                                                                                 \
     name "-sequential", KQ_OP_QUANTIZED_DOT, KQ_ORDER_SEQUENTIAL, own_rhs, records,               \
     {first, second}},                                                                             \
 {                                                                                                 \
  name "-pairwise", KQ_OP_QUANTIZED_DOT, KQ_ORDER_PAIRWISE, own_rhs, records,                      \
  {                                                                                                \
   first, second                                                                                   \
  }                                                                                                \
 }

const bench_shape bench_shapes[] = {
    DOTS("dots-4096-of-16", 16, 4096, 1, false),
    DOTS("dots-32768-of-16", 16, 32768, 1, false),
    DOTS("dots-4096-of-56", 56, 4096, 1, false),
    DOTS("dots-65536-of-1", 1, 65536, 1, false),
    DOTS("dots-4096x8-of-16", 16, 4096, 8, false),
    DOTS("dots-4096x64-of-16", 16, 4096, 64, false),
    DOTS("own-rhs-4096-of-16", 16, 4096, 1, true),
    // As many bytes as the long dot has.
    DOTS("own-rhs-65536-of-16", 16, 65536, 1, true),
    DOTS("long-of-1048576", 1048576, 1, 1, true),
    {"quantize-16", KQ_OP_QUANTIZE, KQ_ORDER_SEQUENTIAL, false, 16, {1, 1}},
    {"quantize-4096", KQ_OP_QUANTIZE, KQ_ORDER_SEQUENTIAL, false, 4096, {1, 1}},
    {"quantize-32768", KQ_OP_QUANTIZE, KQ_ORDER_SEQUENTIAL, false, 32768, {1, 1}},
};

const size_t bench_shape_count = sizeof bench_shapes / sizeof bench_shapes[0];

struct bench_work {
    const bench_shape *shape;
    uint64_t bytes[3];  // of IN, RHS, OUT
    uint8_t *in, *rhs, *out;
    uint32_t unit;  // of an output
};

uint64_t bench_records(const bench_shape *shape)
{
    return (uint64_t)shape->G * shape->count[0] * shape->count[1];
}

uint64_t bench_bytes(const bench_shape *shape)
{
    return bench_records(shape) * (shape->op == KQ_OP_QUANTIZE ? KQ_BLOCK_BYTES : KQ_Q4_K_BYTES);
}

double bench_products(const bench_shape *shape)
{
    return (double)bench_records(shape) * KQ_BLOCK;
}

// The bytes of buffer `slot`.
static uint64_t bytes_of(const bench_shape *shape, unsigned slot)
{
    bool is_quantize = shape->op == KQ_OP_QUANTIZE;
    uint64_t dots = (uint64_t)shape->count[0] * shape->count[1];
    uint64_t rhs = shape->has_own_rhs ? dots : shape->count[1];
    switch (slot) {
    case IN:
        return (uint64_t)shape->G * shape->count[0] *
               (is_quantize ? KQ_BLOCK_BYTES : KQ_Q4_K_BYTES);
    case RHS: return is_quantize ? 0 : shape->G * rhs * KQ_Q8_K_BYTES;
    default: return is_quantize ? shape->G * (uint64_t)KQ_Q8_K_BYTES : 4 * dots;
    }
}

double bench_least_bytes(const bench_shape *shape)
{
    return (double)(bytes_of(shape, IN) + bytes_of(shape, RHS) + bytes_of(shape, OUT));
}

// --- The operation

// What a call takes beside buffers.
static kq_repeat repeat_of(const bench_shape *shape)
{
    uint64_t rhs = (uint64_t)shape->G * KQ_Q8_K_BYTES;
    return (kq_repeat){
        .count = {shape->count[0], shape->count[1]},
        .lhs_step = {(uint64_t)shape->G * KQ_Q4_K_BYTES, 0},
        .rhs_step = {shape->has_own_rhs ? rhs : 0, rhs},
        .result_step = {4, 4 * (uint64_t)shape->count[0]},
    };
}

// Carries it out; records it, if recording is not NULL, and says what it needs, if needs is not.
static kq_result operate(target *target, const bench_shape *shape, kq_recording **recording,
                         kq_needs *needs)
{
    if (shape->op == KQ_OP_QUANTIZE) {
        const kq_quantize_args args = {
            .format = KQ_FORMAT_Q8_K,
            .values = {target->buffers[IN], {.G = shape->G}},
            .records = {target->buffers[OUT], {.G = shape->G}},
        };
        return needs != NULL       ? kq_quantize_query(target->device, &args, needs)
               : recording != NULL ? kq_quantize_record(target->device, &args, recording)
                                   : kq_quantize(target->device, &args);
    }
    const kq_repeat repeat = repeat_of(shape);
    const kq_quantized_dot_args args = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = shape->order,
        .lhs = {target->buffers[IN], {.G = shape->G}},
        .rhs = {target->buffers[RHS], {.G = shape->G}},
        .result = target->buffers[OUT],
        .repeat = &repeat,
    };
    return needs != NULL       ? kq_quantized_dot_query(target->device, &args, needs)
           : recording != NULL ? kq_quantized_dot_record(target->device, &args, recording)
                               : kq_quantized_dot(target->device, &args);
}

// Puts the inputs into the device's buffers, and what no right result is where results will be, so
// that nothing old can pass for one.
static kq_result load(target *target, const bench_work *work, const uint8_t *expected)
{
    const uint8_t *bytes[] = {work->in, work->rhs};
    uint8_t *poison = allocate(work->bytes[OUT], 1);
    for (uint64_t k = 0; k < work->bytes[OUT]; k++) {
        poison[k] = (uint8_t)(expected == NULL ? 0xA5 : expected[k] ^ 0xFF);
    }
    kq_result result = KQ_OK;
    for (unsigned slot = IN; slot <= OUT && result == KQ_OK; slot++) {
        if (work->bytes[slot] > 0) {
            result = target_reserve(target, slot, work->bytes[slot], true);
        }
        if (result == KQ_OK && work->bytes[slot] > 0) {
            result = kq_buffer_upload(target->buffers[slot], 0, slot == OUT ? poison : bytes[slot],
                                      work->bytes[slot]);
        }
    }
    free(poison);
    return result;
}

// --- The work

// Q8_K records as a quantized layer has them, some of them over and over.
static kq_result draw_rhs_records(target *reference, uint8_t *rhs, uint64_t bytes)
{
    uint64_t records = bytes / KQ_Q8_K_BYTES;
    uint32_t drawn = records < DRAWN_RECORDS ? (uint32_t)records : DRAWN_RECORDS;
    uint8_t *block_bytes = allocate(drawn, KQ_BLOCK_BYTES);
    float *values = allocate((size_t)drawn * KQ_BLOCK, sizeof *values);
    draw_values(1, drawn, block_bytes);
    for (size_t i = 0; i < (size_t)drawn * KQ_BLOCK; i++) {
        uint32_t word = load_u32(block_bytes + 4 * i);
        memcpy(&values[i], &word, sizeof word);
    }
    kq_result result = kq_quantize_host(reference->device, KQ_FORMAT_Q8_K, values,
                                        (uint64_t)drawn * KQ_BLOCK, rhs, NULL);
    for (uint64_t k = drawn; k < records && result == KQ_OK; k++) {
        memcpy(rhs + k * KQ_Q8_K_BYTES, rhs + k % drawn * KQ_Q8_K_BYTES, KQ_Q8_K_BYTES);
    }
    free(values);
    free(block_bytes);
    return result;
}

static kq_result fill(bench_work *work, target *reference)
{
    const bench_shape *shape = work->shape;
    kq_result result = KQ_OK;
    if (shape->op == KQ_OP_QUANTIZE) {
        draw_values(1, shape->G, work->in);
    } else {
        draw_q4_k(2, shape->G * shape->count[0], work->in);
        result = draw_rhs_records(reference, work->rhs, work->bytes[RHS]);
    }
    result = result != KQ_OK ? result : load(reference, work, NULL);
    result = result != KQ_OK ? result : operate(reference, shape, NULL, NULL);
    return result != KQ_OK
               ? result
               : kq_buffer_download(reference->buffers[OUT], 0, work->out, work->bytes[OUT]);
}

bench_work *bench_work_make(const bench_shape *shape)
{
    bench_work *work = allocate(1, sizeof *work);
    *work = (bench_work){
        .shape = shape,
        .bytes = {bytes_of(shape, IN), bytes_of(shape, RHS), bytes_of(shape, OUT)},
        .unit = shape->op == KQ_OP_QUANTIZE ? KQ_Q8_K_BYTES : 4,
    };
    work->in = allocate(work->bytes[IN], 1);
    work->rhs = allocate(work->bytes[RHS], 1);
    work->out = allocate(work->bytes[OUT], 1);
    target reference;
    int code = target_open_or_complain(&reference, "reference");
    if (code == EXIT_DONE) {
        if (fill(work, &reference) != KQ_OK) {
            complain("bench: reference: %s: %s", shape->name, reference.reason);
            code = EXIT_UNDECIDED;
        }
        target_close(&reference);
    }
    if (code != EXIT_DONE) {
        bench_work_free(work);
        work = NULL;
    }
    return work;
}

void bench_work_free(bench_work *work)
{
    if (work != NULL) {
        free(work->in);
        free(work->rhs);
        free(work->out);
        free(work);
    }
}

// --- Measuring

static int compare_times(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static bench_times times_of(double *seconds, size_t count)
{
    qsort(seconds, count, sizeof *seconds, compare_times);
    return (bench_times){
        .median =
            count % 2 ? seconds[count / 2] : (seconds[count / 2 - 1] + seconds[count / 2]) / 2,
        .least = seconds[0],
        .most = seconds[count - 1],
    };
}

double bench_median(const bench_timing *timing)
{
    return timing->device.median > 0 ? timing->device.median : timing->host.median;
}

// The times of one recording as they come in.
typedef struct samples {
    double *host, *device;
    double total;
    size_t count;
    bool has_clock;
} samples;

static bool is_enough(const samples *s)
{
    return s->count == BENCH_MAX_ROUNDS ||
           (s->count >= BENCH_MIN_ROUNDS && s->total >= BENCH_MIN_SECONDS);
}

static kq_result take_turn(kq_recording *recording, bool warms_up, samples *s)
{
    enum { ROUNDS_OF_TURN = 4 };
    kq_result code = KQ_OK;
    for (int k = 0; warms_up && k < BENCH_WARM_UP_ROUNDS && code == KQ_OK; k++) {
        code = kq_recording_run(recording, NULL);
    }
    for (int k = 0; k < ROUNDS_OF_TURN && code == KQ_OK && !is_enough(s); k++) {
        uint64_t nanoseconds = 0;
        double start = platform_seconds();
        code = kq_recording_run(recording, &nanoseconds);
        s->host[s->count] = platform_seconds() - start;
        s->device[s->count] = (double)nanoseconds / 1e9;
        s->has_clock &= nanoseconds > 0;
        s->total += s->host[s->count++];
    }
    return code;
}

kq_result bench_time(kq_recording *const *recordings, size_t count, bench_timing *timings)
{
    samples *all = allocate(count, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        all[i] = (samples){
            .host = allocate(BENCH_MAX_ROUNDS, sizeof(double)),
            .device = allocate(BENCH_MAX_ROUNDS, sizeof(double)),
            .has_clock = true,
        };
    }
    kq_result code = KQ_OK;
    for (bool is_done = false; code == KQ_OK && !is_done && !interrupt_has_come();) {
        is_done = true;
        for (size_t i = 0; i < count && code == KQ_OK; i++) {
            if (!is_enough(&all[i])) {
                code = take_turn(recordings[i], count > 1 || all[i].count == 0, &all[i]);
            }
            is_done &= is_enough(&all[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (code == KQ_OK) {
            timings[i].rounds = all[i].count;
            timings[i].host = times_of(all[i].host, all[i].count);
            timings[i].device = all[i].has_clock ? times_of(all[i].device, all[i].count)
                                                 : (bench_times){.median = 0};
        }
        free(all[i].host);
        free(all[i].device);
    }
    free(all);
    return code;
}

// Of the first output that is not the reference's *reason tells.
static int compare(target *target, const bench_work *work, bench_reason *reason)
{
    int code = EXIT_DONE;
    uint8_t *got = allocate(work->bytes[OUT], 1);
    if (kq_buffer_download(target->buffers[OUT], 0, got, work->bytes[OUT]) != KQ_OK) {
        snprintf(reason->text, sizeof reason->text, "%s", target->reason);
        code = EXIT_UNDECIDED;
    }
    for (uint64_t k = 0; code == EXIT_DONE && k < work->bytes[OUT]; k += work->unit) {
        if (memcmp(got + k, work->out + k, work->unit) != 0) {
            snprintf(reason->text, sizeof reason->text,
                     "it is wrong and not timed: number %" PRIu64 " begins %08" PRIx32
                     ", the reference's %08" PRIx32 "; see kquant check",
                     k / work->unit, load_u32(got + k), load_u32(work->out + k));
            code = EXIT_FAILED;
        }
    }
    free(got);
    return code;
}

double bench_first_dot(const char *device)
{
    const uint8_t lhs[KQ_Q4_K_BYTES] = {0}, rhs[KQ_Q8_K_BYTES] = {0};
    float out;
    target target;
    double start = platform_seconds();
    if (target_open(&target, device) != KQ_OK) {
        return 0;
    }
    kq_result code =
        kq_quantized_dot_host(target.device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                              KQ_ORDER_SEQUENTIAL, 1, lhs, sizeof lhs, rhs, sizeof rhs, &out);
    double seconds = platform_seconds() - start;
    target_close(&target);
    return code == KQ_OK ? seconds : 0;
}

int bench_measure(target *target, const bench_work *work, bench_result *result,
                  bench_reason *reason)
{
    kq_recording *recording = NULL;
    *result = (bench_result){.shape = work->shape};
    kq_result code = load(target, work, work->out);
    code = code != KQ_OK ? code : operate(target, work->shape, NULL, &result->needs);
    code = code != KQ_OK ? code : operate(target, work->shape, &recording, NULL);
    code = code != KQ_OK ? code : kq_recording_run(recording, NULL);
    int verified = code == KQ_OK ? compare(target, work, reason) : EXIT_DONE;
    if (code == KQ_OK && verified == EXIT_DONE) {
        code = bench_time(&recording, 1, &result->timing);
    }
    kq_recording_destroy(&recording);
    if (code != KQ_OK) {
        snprintf(reason->text, sizeof reason->text, "%s", target->reason);
        return EXIT_UNDECIDED;
    }
    return verified;
}
