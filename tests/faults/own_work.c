#include "own_work.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

// Buffers of one run, and its result so far.
typedef struct run {
    kq_device *device;
    kq_result result;
    kq_buffer *buffers[4];
    unsigned count;
} run;

static kq_buffer *make(run *r, const void *data, uint64_t bytes, uint64_t offset)
{
    kq_buffer *buffer = NULL;
    if (r->result == KQ_OK) {
        r->result = kq_buffer_create(r->device, offset + bytes, &buffer);
    }
    if (r->result == KQ_OK) {
        r->buffers[r->count++] = buffer;
    }
    if (r->result == KQ_OK && data != NULL) {
        r->result = kq_buffer_upload(buffer, offset, data, bytes);
    }
    return buffer;
}

static void download(run *r, kq_buffer *buffer, uint64_t offset, void *out, uint64_t bytes)
{
    if (r->result == KQ_OK) {
        r->result = kq_buffer_download(buffer, offset, out, bytes);
    }
}

static kq_result finish(run *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        kq_buffer_destroy(&r->buffers[i]);
    }
    return r->result;
}

// Results of before, which must not be taken for new ones.
static const unsigned char *stale(void)
{
    static unsigned char bytes[OWN_WORK_BYTES];
    memset(bytes, 0x41, sizeof bytes);
    return bytes;
}

static kq_result buffers(kq_device *device, uint64_t seed, unsigned char *out)
{
    static unsigned char data[2 * OWN_WORK_SEGMENT];
    run r = {.device = device};
    draw_q4_k(seed + 1, 100, data);
    kq_buffer *small = make(&r, data, 97, 3);
    kq_buffer *large = make(&r, data, 14000, 1);
    download(&r, small, 3, out, 97);
    download(&r, large, 2, out + 100, 13999);
    return finish(&r);
}

// A domain error is what is wanted of blocks with a bad one, and has its own report.
static kq_result quantize_blocks(kq_device *device, uint64_t seed, uint32_t G, bool is_bad,
                                 unsigned char *out)
{
    static unsigned char values[12 * KQ_BLOCK_BYTES];
    run r = {.device = device};
    kq_domain domain = {0};
    draw_values(seed + 2, G, values);
    if (is_bad) {
        store_u32(values + KQ_BLOCK_BYTES + 4, 0x7F800000u);
    }
    kq_quantize_args args = {
        .format = KQ_FORMAT_Q8_K,
        .values = {make(&r, values, (uint64_t)KQ_BLOCK_BYTES * G, 2), {.offset = 2, .G = G}},
        .records = {make(&r, stale(), (uint64_t)KQ_Q8_K_BYTES * G, 5), {.offset = 5, .G = G}},
        .domain = &domain,
    };
    r.result = r.result != KQ_OK ? r.result : kq_quantize(device, &args);
    if (is_bad && r.result == KQ_ERROR_DOMAIN && domain.record == 1 && domain.bad_count == 1 &&
        domain.element == 1) {
        r.result = KQ_OK;
    }
    download(&r, args.records.buffer, 5, out, (uint64_t)KQ_Q8_K_BYTES * G);
    return finish(&r);
}

static kq_result quantize(kq_device *device, uint64_t seed, unsigned char *out)
{
    return quantize_blocks(device, seed, 3, false, out);
}

static kq_result quantize_bad(kq_device *device, uint64_t seed, unsigned char *out)
{
    return quantize_blocks(device, seed, 2, true, out);
}

static kq_result quantize_cut(kq_device *device, uint64_t seed, unsigned char *out)
{
    return quantize_blocks(device, seed, 12, false, out);
}

// Blocks whose values lie a segment's quarter apart.
static kq_result quantize_apart(kq_device *device, uint64_t seed, unsigned char *out)
{
    enum { APART = 64 };
    static unsigned char values[KQ_BLOCK * APART];
    run r = {.device = device};
    draw_values(seed + 3, sizeof values / KQ_BLOCK_BYTES, values);
    kq_quantize_args args = {
        .format = KQ_FORMAT_Q8_K,
        .values = {make(&r, values, sizeof values, 0), {.value_stride = APART, .G = 1}},
        .records = {make(&r, stale(), KQ_Q8_K_BYTES, 0), {.G = 1}},
    };
    r.result = r.result != KQ_OK ? r.result : kq_quantize(device, &args);
    download(&r, args.records.buffer, 0, out, KQ_Q8_K_BYTES);
    return finish(&r);
}

static kq_quantized_dot_args args_of(kq_order order, kq_buffer *lhs, kq_buffer *rhs,
                                     kq_buffer *result)
{
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {.buffer = lhs},
        .rhs = {.buffer = rhs},
        .result = result,
    };
}

// Dots of G records, in each order.
static kq_result dots_of(kq_device *device, uint64_t seed, uint32_t G, uint32_t records,
                         const kq_repeat *repeat, bool is_broadcast, uint64_t result_bytes,
                         unsigned char *out)
{
    static unsigned char lhs[60 * KQ_Q4_K_BYTES];
    static unsigned char rhs[60 * KQ_Q8_K_BYTES];
    run r = {.device = device};
    draw_q4_k(seed + 4, records, lhs);
    draw_q8_k(seed + 5, records, rhs);
    kq_buffer *left = make(&r, lhs, (uint64_t)records * KQ_Q4_K_BYTES, 7);
    kq_buffer *right = make(&r, rhs, (uint64_t)records * KQ_Q8_K_BYTES, 0);
    kq_buffer *result = make(&r, NULL, result_bytes, 3);
    for (unsigned order = 0; order < 2; order++) {
        kq_quantized_dot_args args = args_of((kq_order)order, left, right, result);
        args.lhs.view = (kq_view){7, is_broadcast ? KQ_BROADCAST : 0, 0, G};
        args.rhs.view = (kq_view){0, is_broadcast ? KQ_BROADCAST : 0, 0, G};
        args.result_offset = 3;
        args.repeat = repeat;
        if (r.result == KQ_OK) {
            r.result = kq_buffer_upload(result, 3, stale(), result_bytes);
        }
        r.result = r.result != KQ_OK ? r.result : kq_quantized_dot(device, &args);
        download(&r, result, 3, out + order * result_bytes, result_bytes);
    }
    return finish(&r);
}

static kq_result dots(kq_device *device, uint64_t seed, unsigned char *out)
{
    return dots_of(device, seed, 5, 5, NULL, false, 4, out);
}

static kq_result no_records(kq_device *device, uint64_t seed, unsigned char *out)
{
    return dots_of(device, seed, 0, 1, NULL, false, 4, out);
}

// More terms than a segment has room for: several pieces.
static kq_result repeat_cut(kq_device *device, uint64_t seed, unsigned char *out)
{
    static const kq_repeat repeat = {{100, 3}, {1, 7}, {3, 2}, {4, 400}};
    return dots_of(device, seed, 16, 4, &repeat, true, 1200, out);
}

// A dot whose operands no segment holds: parts, and records at the segments' ends staged.
static kq_result dot_cut(kq_device *device, uint64_t seed, unsigned char *out)
{
    return dots_of(device, seed, 60, 60, NULL, false, 4, out);
}

static kq_result host_calls(kq_device *device, uint64_t seed, unsigned char *out)
{
    enum { G = 9, COUNT = 4 };
    static float values[G * KQ_BLOCK];
    static unsigned char lhs[COUNT * G * KQ_Q4_K_BYTES];
    float sums[COUNT];
    draw_values(seed + 6, G, (unsigned char *)values);
    draw_q4_k(seed + 7, COUNT * G, lhs);
    memset(sums, POISON, sizeof sums);
    kq_result result = kq_quantize_host(device, KQ_FORMAT_Q8_K, values, G * KQ_BLOCK, out, NULL);
    for (unsigned order = 0; order < 2 && result == KQ_OK; order++) {
        result = kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                       (kq_order)order, COUNT, lhs, sizeof lhs, out,
                                       G * KQ_Q8_K_BYTES, sums);
        memcpy(out + 8192 + sizeof sums * order, sums, sizeof sums);
    }
    return result;
}

static kq_result recordings(kq_device *device, uint64_t seed, unsigned char *out)
{
    enum { G = 3 };
    static unsigned char values[G * KQ_BLOCK_BYTES];
    static unsigned char lhs[G * KQ_Q4_K_BYTES];
    run r = {.device = device};
    kq_recording *recorded[2] = {NULL, NULL};
    uint64_t nanoseconds = 0;
    draw_values(seed + 8, G, values);
    draw_q4_k(seed + 9, G, lhs);
    kq_quantize_args quantized = {
        .format = KQ_FORMAT_Q8_K,
        .values = {make(&r, values, sizeof values, 0), {.G = G}},
        .records = {make(&r, stale(), G * KQ_Q8_K_BYTES, 0), {.G = G}},
    };
    kq_buffer *left = make(&r, lhs, sizeof lhs, 0);
    kq_buffer *result = make(&r, stale(), 4, 0);
    kq_quantized_dot_args dot =
        args_of(KQ_ORDER_SEQUENTIAL, left, quantized.records.buffer, result);
    dot.lhs.view.G = G;
    dot.rhs.view.G = G;
    r.result = r.result != KQ_OK ? r.result : kq_quantize_record(device, &quantized, &recorded[0]);
    r.result = r.result != KQ_OK ? r.result : kq_quantized_dot_record(device, &dot, &recorded[1]);
    for (unsigned k = 0; k < 4 && r.result == KQ_OK; k++) {
        r.result = kq_recording_run(recorded[k % 2], k < 2 ? &nanoseconds : NULL);
        if (r.result == KQ_OK && k == 1) {
            // The second run's results are to be new too.
            r.result = kq_buffer_upload(result, 0, stale(), 4);
        }
    }
    kq_recording_destroy(&recorded[0]);
    kq_recording_destroy(&recorded[1]);
    download(&r, quantized.records.buffer, 0, out, G * KQ_Q8_K_BYTES);
    download(&r, result, 0, out + 8192, 4);
    return finish(&r);
}

static kq_result bandwidth(kq_device *device, uint64_t seed, unsigned char *out)
{
    enum { BYTES = 16384 };
    static unsigned char data[BYTES];
    uint64_t state = seed + 10;
    run r = {.device = device};
    draw_bytes(&state, data, sizeof data);
    kq_buffer *from = make(&r, data, BYTES, 0);
    kq_buffer *to = make(&r, stale(), BYTES, 0);
    for (int reads_only = 0; reads_only < 2; reads_only++) {
        kq_recording *recording = NULL;
        r.result = r.result != KQ_OK
                       ? r.result
                       : kq_bandwidth_record(device, from, to, BYTES, reads_only, &recording);
        r.result = r.result != KQ_OK ? r.result : kq_recording_run(recording, NULL);
        kq_recording_destroy(&recording);
        if (reads_only) {
            // Only the words' xor is promised.
            unsigned char words[BYTES / 64];
            uint32_t sum = 0;
            download(&r, to, 0, words, sizeof words);
            for (size_t i = 0; i < sizeof words && r.result == KQ_OK; i += 4) {
                sum ^= load_u32(words + i);
            }
            store_u32(out + BYTES - 4, sum);
        } else {
            download(&r, to, 0, out, BYTES - 4);
        }
    }
    return finish(&r);
}

static kq_result self_test(kq_device *device, uint64_t seed, unsigned char *out)
{
    (void)seed;  // its input is always the same
    const char *step = NULL;
    kq_result result = kq_self_test(device, &step);
    out[0] = step != NULL;
    return result;
}

static kq_result primitives(kq_device *device, uint64_t seed, unsigned char *out)
{
    // Of device/primitive.h: a sum, a product, and an integer as f32.
    uint32_t items[3][4] = {{4, 0x3F800000u, 0x40000000u + (uint32_t)seed, 0x41414141u},
                            {3, 0x40400000u, 0x40A00000u + (uint32_t)seed, 0x41414141u},
                            {2, 77 + (uint32_t)seed, 0, 0x41414141u}};
    kq_result result = kq_primitives_host(device, &items[0][0], 3);
    memcpy(out, items, sizeof items);
    return result;
}

const own_work own_works[] = {
    {"buffers", buffers, true},           {"quantize", quantize, false},
    {"a bad block", quantize_bad, false}, {"dots", dots, false},
    {"no records", no_records, false},    {"host calls", host_calls, true},
    {"recordings", recordings, false},    {"bandwidth", bandwidth, false},
    {"self-test", self_test, false},      {"primitives", primitives, false},
    {"many blocks", quantize_cut, true},  {"a repeat", repeat_cut, true},
    {"a long dot", dot_cut, true},        {"values apart", quantize_apart, true},
};
const size_t own_work_count = sizeof own_works / sizeof *own_works;
