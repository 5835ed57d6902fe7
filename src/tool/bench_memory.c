// How fast a device reads and copies memory, which no operation on it can be faster than.
#include "bench.h"

#include "bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// UNIT: of kq_bandwidth_record, which writes a WRITTEN_PART of what it only reads. MOST: past every
// cache, so more would be no slower.
enum { UNIT = 16384, WRITTEN_PART = 64, MOST = 1 << 30 };

const char *const bench_traffic_names[BENCH_TRAFFICS] = {
    [BENCH_READ] = "read",
    [BENCH_COPY] = "copy",
};

uint64_t bench_memory_bytes(const bench_shape *shape)
{
    uint64_t unit = shape->op == KQ_OP_QUANTIZE ? KQ_BLOCK_BYTES : KQ_Q4_K_BYTES;
    uint64_t bytes = (uint64_t)shape->G * shape->count[0] * unit;
    return bytes < MOST ? (bytes + UNIT - 1) / UNIT * UNIT : MOST;
}

int bench_traffic(const bench_shape *shape)
{
    return shape->op == KQ_OP_QUANTIZE ? BENCH_COPY : BENCH_READ;
}

const bench_memory *bench_find_memory(const bench_device *device, uint64_t bytes)
{
    for (size_t k = 0; k < device->memory_count; k++) {
        if (device->memories[k].bytes == bytes) {
            return &device->memories[k];
        }
    }
    return NULL;
}

double bench_share(const bench_device *device, const bench_result *result)
{
    const bench_memory *memory = bench_find_memory(device, bench_memory_bytes(result->shape));
    const bench_timing *timing = &result->timing;
    if (memory == NULL || timing->rounds == 0) {
        return 0;
    }
    const bench_timing *of = &memory->timings[bench_traffic(result->shape)];
    if (of->rounds == 0) {
        return 0;
    }
    bool by_device = of->device.median > 0 && timing->device.median > 0;
    double of_seconds = by_device ? of->device.median : of->host.median;
    double seconds = by_device ? timing->device.median : timing->host.median;
    return (double)bench_bytes(result->shape) / seconds / ((double)memory->bytes / of_seconds);
}

// What the kernel left is what it should: the bytes, or words whose xor is theirs.
static bool is_right(const uint8_t *from, const uint8_t *to, uint64_t bytes, int traffic)
{
    uint32_t sum = 0;
    if (traffic == BENCH_COPY) {
        return memcmp(from, to, (size_t)bytes) == 0;
    }
    for (uint64_t k = 0; k < bytes; k += 4) {
        sum ^= load_u32(from + k);
    }
    for (uint64_t k = 0; k < bytes / WRITTEN_PART; k += 4) {
        sum ^= load_u32(to + k);
    }
    return sum == 0;
}

// What the measurement holds.
typedef struct yardstick {
    kq_buffer *from, *to;
    uint8_t *bytes, *got;
    kq_recording *recordings[BENCH_TRAFFICS];
} yardstick;

static kq_result make(target *target, uint64_t bytes, yardstick *y)
{
    y->bytes = allocate(bytes, 1);
    y->got = allocate(bytes, 1);
    draw_q4_k(3, (uint32_t)(bytes / KQ_Q4_K_BYTES), y->bytes);
    kq_result code = kq_buffer_create(target->device, bytes, &y->from);
    code = code != KQ_OK ? code : kq_buffer_create(target->device, bytes, &y->to);
    code = code != KQ_OK ? code : kq_buffer_upload(y->from, 0, y->bytes, bytes);
    for (int traffic = 0; traffic < BENCH_TRAFFICS && code == KQ_OK; traffic++) {
        code = kq_bandwidth_record(target->device, y->from, y->to, bytes, traffic == BENCH_READ,
                                   &y->recordings[traffic]);
    }
    return code;
}

// One run over a buffer of what no right result is.
static kq_result verify(yardstick *y, uint64_t bytes, int traffic, bool *is_good)
{
    uint64_t written = traffic == BENCH_COPY ? bytes : bytes / WRITTEN_PART;
    for (uint64_t k = 0; k < written; k++) {
        y->got[k] = (uint8_t)(y->bytes[k] ^ 0xFF);
    }
    kq_result code = kq_buffer_upload(y->to, 0, y->got, written);
    code = code != KQ_OK ? code : kq_recording_run(y->recordings[traffic], NULL);
    code = code != KQ_OK ? code : kq_buffer_download(y->to, 0, y->got, written);
    *is_good = code == KQ_OK && is_right(y->bytes, y->got, bytes, traffic);
    return code;
}

int bench_measure_memory(target *target, uint64_t bytes, bench_memory *memory, bench_reason *reason)
{
    yardstick y = {0};
    int verdict = EXIT_DONE;
    *memory = (bench_memory){.bytes = bytes};
    kq_result code = make(target, bytes, &y);
    for (int traffic = 0; traffic < BENCH_TRAFFICS && code == KQ_OK && verdict == EXIT_DONE;
         traffic++) {
        bool is_good = false;
        code = verify(&y, bytes, traffic, &is_good);
        if (code == KQ_OK && !is_good) {
            snprintf(reason->text, sizeof reason->text,
                     "the %s kernel is wrong and not timed: it left other bytes than it should",
                     bench_traffic_names[traffic]);
            verdict = EXIT_FAILED;
        }
    }
    if (code == KQ_OK && verdict == EXIT_DONE) {
        code = bench_time(y.recordings, BENCH_TRAFFICS, memory->timings);
    }
    if (code != KQ_OK) {
        snprintf(reason->text, sizeof reason->text, "%s", target->reason);
        // Operations that need less of it may well run.
        verdict = code == KQ_ERROR_MEMORY ? EXIT_NOTHING : EXIT_UNDECIDED;
    }
    for (int traffic = 0; traffic < BENCH_TRAFFICS; traffic++) {
        kq_recording_destroy(&y.recordings[traffic]);
    }
    kq_buffer_destroy(&y.from);
    kq_buffer_destroy(&y.to);
    free(y.bytes);
    free(y.got);
    return verdict;
}
