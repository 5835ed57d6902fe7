// Level 3 as a caller meets it: buffers, host memory, and what views, repeats and domain errors
// give, on the reference and on the device named by the argument.
//
// Usage: api_test [DEVICE]. Exits with 77 where that device isn't there.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAN_BITS UINT32_C(0x7FC00000)
#define MARK     UINT32_C(0xABABABAB)
#define LONGEST  (UINT64_C(1) << 63)

// Sizes that no memory has are a part of this test, and no reason to stop.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

// --- The device of this run, and what it last reported

static kq_device *device;
static kq_device *judge;  // the reference, silent

static report said;

// A call gave `result`. If that is a failure it was reported once, in one line that holds all
// words.
static void check_result(int line, kq_result expected, kq_result result, const char *const words[])
{
    if (result != expected) {
        fail_msg("line %d: %s, not %s; \"%s\"", line, kq_result_name(result),
                 kq_result_name(expected), said.reason);
    }
    if (said.count != (result != KQ_OK) || (result != KQ_OK && said.result != result)) {
        fail_msg("line %d: %u reports, the last %s", line, said.count, kq_result_name(said.result));
    }
    if (result != KQ_OK && (said.reason[0] == '\0' || strpbrk(said.reason, "\r\n") != NULL)) {
        fail_msg("line %d: not a line: \"%s\"", line, said.reason);
    }
    for (; *words != NULL; words++) {
        if (strstr(said.reason, *words) == NULL) {
            fail_msg("line %d: no \"%s\" in \"%s\"", line, *words, said.reason);
        }
    }
}

#define GIVES(expected, call, ...)                                                                 \
 check_result(__LINE__, expected, (memset(&said, 0, sizeof said), (call)),                         \
              (const char *const[]){__VA_ARGS__, NULL})
#define WORKS(call)        GIVES(KQ_OK, call, "")
#define REFUSES(call, ...) GIVES(KQ_ERROR_ARGUMENT, call, __VA_ARGS__)

// --- Data

static uint64_t seed;

// A buffer and what the test wants in it. Every byte of a new one is a random one; seen as an f32
// it is legal wherever it starts, and seen as an f16 finite, for no byte has all of bits 2 to 6.
typedef struct operand {
    kq_buffer *buffer;
    unsigned char *bytes;
    size_t size;
} operand;

static void send(const operand *o)
{
    WORKS(kq_buffer_upload(o->buffer, 0, o->bytes, o->size));
}

static operand make_operand(size_t size)
{
    operand o = {NULL, malloc(size), size};
    assert_non_null(o.bytes);
    for (size_t i = 0; i < size; i++) {
        o.bytes[i] = (unsigned char)((draw(&seed) & 0xBF) | 0x08);
    }
    WORKS(kq_buffer_create(device, size, &o.buffer));
    send(&o);
    return o;
}

static void free_operand(operand *o)
{
    kq_buffer_destroy(&o->buffer);
    assert_null(o->buffer);
    free(o->bytes);
}

// The buffer holds what it should, byte by byte.
static void check_operand(int line, const operand *o)
{
    unsigned char *found = malloc(o->size);
    assert_non_null(found);
    WORKS(kq_buffer_download(o->buffer, 0, found, o->size));
    for (size_t i = 0; i < o->size; i++) {
        if (found[i] != o->bytes[i]) {
            size_t byte = i;
            unsigned value = found[i];
            free(found);
            fail_msg("line %d: byte %zu is 0x%02X, not 0x%02X", line, byte, value, o->bytes[byte]);
        }
    }
    free(found);
}

// --- Buffers

static void test_buffers(void **state)
{
    (void)state;
    kq_buffer *buffer = (kq_buffer *)&said;
    REFUSES(kq_buffer_create(device, 0, &buffer), "bytes is 0");
    assert_null(buffer);
    kq_buffer_destroy(&buffer);
    // No device has as much; which limit says so is its own affair.
    static const uint64_t too_large[] = {UINT64_MAX, UINT64_MAX - 3, LONGEST, LONGEST - 1};
    for (int i = 0; i < 4; i++) {
        memset(&said, 0, sizeof said);
        kq_result result = kq_buffer_create(device, too_large[i], &buffer);
        assert_true(result == KQ_ERROR_MEMORY || result == KQ_ERROR_UNSUPPORTED);
        assert_int_equal(said.count, 1);
        assert_null(buffer);
    }
    for (size_t size = 1; size < 10; size++) {
        operand o = make_operand(size);
        unsigned char found[10] = {0};
        check_operand(__LINE__, &o);
        // Single bytes, wherever in a word.
        for (size_t i = 0; i < size; i++) {
            o.bytes[i] ^= 0xFF;
            WORKS(kq_buffer_upload(o.buffer, i, o.bytes + i, 1));
            check_operand(__LINE__, &o);
            WORKS(kq_buffer_download(o.buffer, i, found, 1));
            assert_int_equal(found[0], o.bytes[i]);
        }
        WORKS(kq_buffer_upload(o.buffer, size, NULL, 0));
        WORKS(kq_buffer_download(o.buffer, 0, NULL, 0));
        static const uint64_t ranges[][2] = {
            {0, 11},         {1, 10},         {10, 1},
            {11, 0},         {UINT64_MAX, 1}, {1, UINT64_MAX},
            {UINT64_MAX, 0}, {0, LONGEST},    {LONGEST, LONGEST},
        };
        unsigned char kept[sizeof found];
        memset(found, 0x5A, sizeof found);
        memcpy(kept, found, sizeof kept);
        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            REFUSES(kq_buffer_upload(o.buffer, ranges[i][0], found, ranges[i][1]), "end");
            REFUSES(kq_buffer_download(o.buffer, ranges[i][0], found, ranges[i][1]), "end");
        }
        assert_memory_equal(found, kept, sizeof kept);
        check_operand(__LINE__, &o);
        free_operand(&o);
    }
}

// --- Host memory: what is refused leaves it as it is

static void test_host_refusals(void **state)
{
    (void)state;
    const kq_format q4 = KQ_FORMAT_Q4_K;
    const kq_format q8 = KQ_FORMAT_Q8_K;
    const kq_accumulator f32 = KQ_ACCUMULATOR_F32;
    const kq_order order = KQ_ORDER_SEQUENTIAL;
    static float values[2 * KQ_BLOCK];
    static unsigned char lhs[4 * KQ_Q4_K_BYTES];
    unsigned char records[2 * KQ_Q8_K_BYTES];
    unsigned char results[8];
    unsigned char kept[sizeof records];
    memset(records, 0xA5, sizeof records);
    memset(results, 0xA5, sizeof results);
    memset(kept, 0xA5, sizeof kept);

#define QUANTIZE(format, values, count, records)                                                   \
 kq_quantize_host(device, format, values, count, records, NULL)
#define DOT(count, lhs, lhs_bytes, rhs, rhs_bytes)                                                 \
 kq_quantized_dot_host(device, q4, q8, f32, order, count, lhs, lhs_bytes, rhs, rhs_bytes,          \
                       (float *)(void *)results)
    REFUSES(QUANTIZE(q8, values, 255, records), "value_count is 255", "256");
    REFUSES(QUANTIZE(q8, values, 257, records), "value_count is 257", "256");
    REFUSES(QUANTIZE(q8, values, UINT64_MAX, records), "value_count", "256");
    GIVES(KQ_ERROR_UNSUPPORTED, QUANTIZE(q8, values, UINT64_C(256) << 32, records), "value_count");
    REFUSES(QUANTIZE(q8, NULL, 256, records), "values is null", "1024");
    REFUSES(QUANTIZE(q8, values, 512, NULL), "records is null", "584");
    REFUSES(QUANTIZE(q4, values, 256, records), "format is Q4_K");
    REFUSES(QUANTIZE(q4, NULL, 0, NULL), "format is Q4_K");
    REFUSES(DOT(1, lhs, 143, kept, 292), "lhs_bytes is 143", "144");
    REFUSES(DOT(1, lhs, 144, kept, 293), "rhs_bytes is 293", "292");
    REFUSES(DOT(1, lhs, 288, kept, 292), "lhs", "rhs", "G");
    REFUSES(DOT(2, lhs, 288, kept, 584), "lhs", "rhs", "G", "4 records");
    REFUSES(DOT(0, lhs, 144, kept, 292), "lhs", "rhs", "0 dots");
    REFUSES(DOT(1, NULL, 144, kept, 292), "lhs is null", "144");
    REFUSES(DOT(1, lhs, 144, NULL, 292), "rhs is null", "292");
    REFUSES(DOT(UINT32_MAX, lhs, 144, kept, 584), "G");
    REFUSES(DOT(1u << 31, NULL, 0, kept, 584), "4294967296 records");
    GIVES(KQ_ERROR_UNSUPPORTED, DOT(1, lhs, UINT64_C(144) << 32, kept, 584), "lhs_bytes");
    REFUSES(kq_quantized_dot_host(device, q4, q8, f32, order, 1, lhs, 144, kept, 292, NULL),
            "results is null", "4");
    REFUSES(kq_quantized_dot_host(device, q8, q8, f32, order, 1, lhs, 144, kept, 292,
                                  (float *)(void *)results),
            "lhs_format is Q8_K");
    assert_memory_equal(records, kept, sizeof records);
    assert_memory_equal(results, kept, sizeof results);

    // Nothing to do is no reason to refuse.
    WORKS(QUANTIZE(q8, NULL, 0, NULL));
    WORKS(kq_quantized_dot_host(device, q4, q8, f32, order, 0, NULL, 0, NULL, 0, NULL));
    WORKS(DOT(0, NULL, 0, kept, 584));
    assert_memory_equal(results, kept, sizeof results);
    WORKS(DOT(1, NULL, 0, NULL, 0));
    store_u32(kept, 0);
    assert_memory_equal(results, kept, sizeof results);
#undef QUANTIZE
#undef DOT
}

// --- Quantize: what a view selects is what packed blocks give, and nothing else changes

static uint64_t resolve(uint64_t given, uint64_t packed)
{
    return given == 0 ? packed : given == KQ_BROADCAST ? 0 : given;
}

// Packs the records of a view, each of `count` pieces.
static void gather(const unsigned char *bytes, const kq_view *view, size_t piece, size_t count,
                   unsigned char *packed)
{
    for (uint32_t g = 0; g < view->G; g++) {
        for (size_t k = 0; k < count; k++) {
            memcpy(packed + (g * count + k) * piece,
                   bytes + view->offset + g * resolve(view->stride, piece * count) +
                       k * resolve(view->value_stride, piece),
                   piece);
        }
    }
}

// What the last quantize_view reported.
static char heard[sizeof said.reason];

// Bits written over the random values before they are sent.
typedef struct patch {
    uint32_t block, element, bits;
} patch;

static kq_result quantize_view(int line, const kq_view *in, const kq_view *out,
                               const patch *patches, size_t patch_count, kq_domain *domain)
{
    operand values = make_operand(16384);
    operand records = make_operand(4096);
    static unsigned char blocks[8 * KQ_BLOCK_BYTES];
    static unsigned char packed[8 * KQ_Q8_K_BYTES];
    for (size_t i = 0; i < patch_count; i++) {
        store_u32(values.bytes + in->offset +
                      patches[i].block * resolve(in->stride, KQ_BLOCK_BYTES) +
                      patches[i].element * resolve(in->value_stride, 4),
                  patches[i].bits);
    }
    send(&values);
    gather(values.bytes, in, 4, KQ_BLOCK, blocks);
    kq_domain expected_domain = {MARK, MARK, KQ_REASON_NONE, MARK};
    kq_result expected = kq_quantize_host(judge, KQ_FORMAT_Q8_K, (const float *)(void *)blocks,
                                          KQ_BLOCK * in->G, packed, &expected_domain);
    for (size_t i = 0; expected == KQ_ERROR_DOMAIN && i < KQ_Q8_K_BYTES; i++) {
        unsigned byte = packed[expected_domain.record * KQ_Q8_K_BYTES + i];
        assert_int_equal(byte, i < 4 ? NAN_BITS >> 8 * i & 255u : 0);
    }
    for (uint32_t g = 0; g < out->G; g++) {
        memcpy(records.bytes + out->offset + g * resolve(out->stride, KQ_Q8_K_BYTES),
               packed + g * KQ_Q8_K_BYTES, KQ_Q8_K_BYTES);
    }
    kq_quantize_args args = {
        .format = KQ_FORMAT_Q8_K,
        .values = {values.buffer, *in},
        .records = {records.buffer, *out},
        .domain = domain,
    };
    *domain = (kq_domain){MARK, MARK, KQ_REASON_NONE, MARK};
    GIVES(expected, kq_quantize(device, &args), "");
    assert_memory_equal(domain, &expected_domain, sizeof *domain);
    check_operand(line, &values);
    check_operand(line, &records);
    // The same for who doesn't ask for the reason.
    args.domain = NULL;
    GIVES(expected, kq_quantize(device, &args), "");
    memcpy(heard, said.reason, sizeof heard);
    check_operand(line, &records);
    free_operand(&values);
    free_operand(&records);
    return expected;
}

static void test_quantize_views(void **state)
{
    (void)state;
    static const kq_view ins[] = {
        {.offset = 0, .G = 1},
        {.offset = 1, .G = 5},
        {.offset = 2, .G = 3, .stride = 1030},
        {.offset = 3, .G = 4, .stride = 1},
        {.offset = 6, .G = 6, .stride = 4, .value_stride = 24},  // f32 [256,G]
        {.offset = 5, .G = 2, .stride = 9, .value_stride = 60},
        {.offset = 7, .G = 4, .stride = KQ_BROADCAST},
        {.offset = 8, .G = 4, .value_stride = KQ_BROADCAST},
        {.offset = 9, .G = 2, .stride = KQ_BROADCAST, .value_stride = KQ_BROADCAST},
    };
    static const kq_view outs[] = {
        {.offset = 0}, {.offset = 1}, {.offset = 2, .stride = 293}, {.offset = 3, .stride = 600}};
    kq_domain domain;
    for (size_t i = 0; i < sizeof ins / sizeof *ins; i++) {
        for (size_t o = 0; o < sizeof outs / sizeof *outs; o++) {
            kq_view out = outs[o];
            out.G = ins[i].G;
            assert_int_equal(quantize_view(__LINE__, &ins[i], &out, NULL, 0, &domain), KQ_OK);
            assert_int_equal(domain.record, MARK);
        }
    }
}

static void test_domain(void **state)
{
    (void)state;
    static const patch patches[] = {
        {1, 7, 0x7F800000u}, {1, 6, 0xFFC12345u}, {4, 255, 0xFF800000u}, {3, 0, 0x7F800001u}};
    static const kq_view ins[] = {
        {.offset = 0, .G = 6},
        {.offset = 3, .G = 6, .stride = 4, .value_stride = 32},
    };
    const kq_view out = {.offset = 1, .G = 6, .stride = 301};
    const kq_view same = {.offset = 2, .G = 3, .stride = KQ_BROADCAST};
    const kq_view flat = {.offset = 5, .G = 1, .value_stride = KQ_BROADCAST};
    const kq_view three = {.G = 3};
    const kq_view one = {.G = 1};
    kq_domain d;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(quantize_view(__LINE__, &ins[i], &out, patches, 4, &d), KQ_ERROR_DOMAIN);
        assert_int_equal(d.record, 1);
        assert_int_equal(d.bad_count, 3);
        assert_int_equal(d.reason, KQ_REASON_NONFINITE_INPUT);
        assert_int_equal(d.element, 6);
        assert_non_null(strstr(heard, "record 1: nonfinite-input@6,"));
        assert_non_null(strstr(heard, "3 bad"));
        assert_int_equal(quantize_view(__LINE__, &ins[i], &out, patches + 2, 1, &d),
                         KQ_ERROR_DOMAIN);
        assert_int_equal(d.record, 4);
        assert_int_equal(d.bad_count, 1);
        assert_int_equal(d.element, 255);
    }
    const patch bad = {0, 9, 0x7F800000u};
    assert_int_equal(quantize_view(__LINE__, &same, &three, &bad, 1, &d), KQ_ERROR_DOMAIN);
    assert_int_equal(d.record, 0);
    assert_int_equal(d.bad_count, 3);
    assert_int_equal(d.element, 9);
    // Both sides of the smallest legal magnitude.
    static const uint32_t edges[] = {0x02FE0000u, 0x82FE0000u, 1u, 0x02FE0001u};
    for (int i = 0; i < 4; i++) {
        const patch edge = {0, 0, edges[i]};
        kq_result expected = i < 3 ? KQ_ERROR_DOMAIN : KQ_OK;
        assert_int_equal(quantize_view(__LINE__, &flat, &one, &edge, 1, &d), expected);
        assert_int_equal(d.reason, i < 3 ? KQ_REASON_INVERSE_OVERFLOW : KQ_REASON_NONE);
        assert_true(i == 3 || strstr(heard, "record 0: inverse-overflow,") != NULL);
    }
}

// Records beside values in one buffer, with no byte between them.
static void test_adjacent(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        operand both = make_operand(KQ_BLOCK_BYTES + KQ_Q8_K_BYTES);
        size_t from = before ? KQ_Q8_K_BYTES : 0;
        size_t to = before ? 0 : KQ_BLOCK_BYTES;
        const kq_quantize_args args = {
            .format = KQ_FORMAT_Q8_K,
            .values = {both.buffer, {.offset = from, .G = 1}},
            .records = {both.buffer, {.offset = to, .G = 1}},
        };
        WORKS(kq_quantize(device, &args));
        assert_int_equal(kq_quantize_host(judge, KQ_FORMAT_Q8_K,
                                          (const float *)(void *)(both.bytes + from), KQ_BLOCK,
                                          both.bytes + to, NULL),
                         KQ_OK);
        check_operand(__LINE__, &both);
        free_operand(&both);
    }
}

// --- Dots: at every position of a repeat what the same records give alone

// What the reference makes of the packed records of dot (i, j).
static void place_expected(const operand *lhs, const operand *rhs, const operand *result,
                           const kq_quantized_dot_args *args, uint32_t i, uint32_t j)
{
    static unsigned char l[257 * KQ_Q4_K_BYTES];
    static unsigned char r[257 * KQ_Q8_K_BYTES];
    float value;
    const kq_repeat *repeat = args->repeat;
    uint32_t G = args->lhs.view.G;
    kq_view left = args->lhs.view;
    kq_view right = args->rhs.view;
    left.offset += i * repeat->lhs_step[0] + j * repeat->lhs_step[1];
    right.offset += i * repeat->rhs_step[0] + j * repeat->rhs_step[1];
    gather(lhs->bytes, &left, KQ_Q4_K_BYTES, 1, l);
    gather(rhs->bytes, &right, KQ_Q8_K_BYTES, 1, r);
    assert_int_equal(kq_quantized_dot_host(judge, args->lhs_format, args->rhs_format, args->acc,
                                           args->order, 1, l, (uint64_t)G * KQ_Q4_K_BYTES, r,
                                           (uint64_t)G * KQ_Q8_K_BYTES, &value),
                     KQ_OK);
    memcpy(result->bytes + args->result_offset + i * repeat->result_step[0] +
               j * repeat->result_step[1],
           &value, sizeof value);
}

static void check_dots(int line, kq_order order, const kq_view *left, const kq_view *right,
                       uint64_t result_offset, const kq_repeat *repeat)
{
    operand lhs = make_operand(96 * 1024);
    operand rhs = make_operand(96 * 1024);
    operand result = make_operand(4096);
    const kq_quantized_dot_args args = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {left->G > 0 ? lhs.buffer : NULL, *left},
        .rhs = {left->G > 0 ? rhs.buffer : NULL, *right},
        .result = result.buffer,
        .result_offset = result_offset,
        .repeat = repeat,
    };
    for (uint32_t j = 0; j < repeat->count[1]; j++) {
        for (uint32_t i = 0; i < repeat->count[0]; i++) {
            place_expected(&lhs, &rhs, &result, &args, i, j);
        }
    }
    WORKS(kq_quantized_dot(device, &args));
    check_operand(line, &result);
    check_operand(line, &lhs);
    check_operand(line, &rhs);
    // Each dot alone on the same device, over noise.
    for (uint32_t dot = 0; dot < repeat->count[0] * repeat->count[1] && dot < 12; dot++) {
        uint32_t i = dot % repeat->count[0];
        uint32_t j = dot / repeat->count[0];
        uint32_t noise = (uint32_t)draw(&seed);
        kq_quantized_dot_args alone = args;
        alone.repeat = NULL;
        alone.lhs.view.offset += i * repeat->lhs_step[0] + j * repeat->lhs_step[1];
        alone.rhs.view.offset += i * repeat->rhs_step[0] + j * repeat->rhs_step[1];
        alone.result_offset += i * repeat->result_step[0] + j * repeat->result_step[1];
        WORKS(kq_buffer_upload(result.buffer, alone.result_offset, &noise, sizeof noise));
        WORKS(kq_quantized_dot(device, &alone));
        check_operand(line, &result);
    }
    free_operand(&lhs);
    free_operand(&rhs);
    free_operand(&result);
}

static void test_dot_views(void **state)
{
    (void)state;
    static const kq_view lefts[] = {
        {.offset = 0},
        {.offset = 1, .stride = 145},
        {.offset = 2, .stride = 1},
        {.offset = 3, .stride = KQ_BROADCAST},
    };
    static const kq_view rights[] = {
        {.offset = 3},
        {.offset = 2, .stride = 295},
        {.offset = 1, .stride = KQ_BROADCAST},
        {.offset = 0, .stride = 8},
    };
    static const uint32_t sizes[] = {0, 1, 2, 3, 129, 257};
    const kq_repeat one = {{1, 1}, {0}, {0}, {0}};
    for (uint64_t i = 0; i < 4 * 6; i++) {
        kq_view left = lefts[i % 4];
        kq_view right = rights[(i + i / 4) % 4];
        left.G = right.G = sizes[i / 4];
        check_dots(__LINE__, KQ_ORDER_SEQUENTIAL, &left, &right, i % 5, &one);
        check_dots(__LINE__, KQ_ORDER_PAIRWISE, &left, &right, i % 7, &one);
    }
}

static void test_repeats(void **state)
{
    (void)state;
    static const kq_repeat repeats[] = {
        {{3, 2}, {432, 0}, {0, 876}, {4, 12}},
        {{3, 2}, {7, 300}, {11, 5}, {9, 31}},
        {{3, 4}, {144, 1}, {0, 0}, {19, 5}},   // the outer loop's results lie inside the inner's
        {{2, 2}, {0, 144}, {292, 0}, {8, 4}},  // alternating
        {{1, 5}, {LONGEST - 1, 3}, {LONGEST - 1, 2}, {0, 4}},
        {{5, 1}, {2, LONGEST - 1}, {0, LONGEST - 1}, {6, 0}},
        {{70, 3}, {5, 2}, {1, 4}, {4, 281}},
        {{1, 130}, {0, 6}, {0, 3}, {LONGEST - 1, 5}},
        {{0, 1}, {1, 1}, {1, 1}, {4, 4}},
        {{UINT32_MAX, 0}, {1, 1}, {1, 1}, {4, 4}},
    };
    static const uint32_t sizes[] = {0, 1, 3, 5, 131};
    for (size_t r = 0; r < sizeof repeats / sizeof *repeats; r++) {
        // Many dots are short ones.
        size_t lengths = repeats[r].count[0] * repeats[r].count[1] > 12 ? 4 : 5;
        for (size_t s = 0; s < lengths; s++) {
            const kq_view left = {.offset = r % 4, .G = sizes[s]};
            const kq_view right = {.offset = s % 4, .stride = r % 3 * 293, .G = sizes[s]};
            check_dots(__LINE__, KQ_ORDER_SEQUENTIAL, &left, &right, (r + s) % 4, &repeats[r]);
            check_dots(__LINE__, KQ_ORDER_PAIRWISE, &left, &right, (r + s) % 4, &repeats[r]);
        }
    }
}

// --- The self-test

static double milliseconds(void)
{
#if defined(_WIN32)  // where this is the time that passes, and not every C library has the other
    return 1e3 * (double)clock() / CLOCKS_PER_SEC;
#else
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
#endif
}

// The best of a few times, in ms: the machine may be busy.
static double time_self_test(void)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        const char *step = "none";
        double start = milliseconds();
        WORKS(kq_self_test(device, &step));
        double ms = milliseconds() - start;
        assert_null(step);
        best = ms < best ? ms : best;
    }
    return best;
}

static void test_self_test(void **state)
{
    (void)state;
    const kq_device_info *info = kq_device_get_info(device);
    const char *step = "none";
    WORKS(kq_self_test(device, NULL));
    assert_int_equal(kq_self_test(NULL, &step), KQ_ERROR_ARGUMENT);
    assert_null(step);
    double ms = time_self_test();
    print_message("self-test: %.2f ms\n", ms);
    // What an engine waits for when it starts. Lavapipe takes less than a hundredth of that.
    assert_true(info->api != KQ_API_VULKAN || strstr(info->name, "llvmpipe") == NULL || ms < 50);
}

// It is of all kernels.
static void test_self_test_ops(void **state)
{
    (void)state;
    static const char *const names[] = {
        [KQ_OP_QUANTIZE] = "KQ_OP_QUANTIZE",
        [KQ_OP_QUANTIZED_DOT] = "KQ_OP_QUANTIZED_DOT",
        [KQ_OP_SELF_TEST] = "KQ_OP_SELF_TEST",
    };
    const uint32_t all = 1u << KQ_OP_QUANTIZE | 1u << KQ_OP_QUANTIZED_DOT | 1u << KQ_OP_SELF_TEST;
    for (int op = KQ_OP_QUANTIZE; op <= KQ_OP_SELF_TEST; op++) {
        kq_device *lesser = NULL;
        const char *step = "none";
        char ops[32];
        const kq_device_params params = {
            .device = kq_device_get_info(device)->id,
            .ops = all & ~(1u << op),
            .errors = report_errors(&said),
        };
        WORKS(kq_device_create(&params, &lesser));
        snprintf(ops, sizeof ops, "ops = 0x%" PRIX32 ", ", params.ops);
        REFUSES(kq_self_test(lesser, &step), "the device was created with", ops, names[op]);
        assert_null(step);
        kq_device_destroy(&lesser);
    }
}

// --- Bandwidth

enum { UNIT = 16384, UNITS = 5 };

// What the kernel leaves behind `to`'s first bytes is what was there.
static void check_bandwidth(int line, const operand *from, operand *to, uint64_t bytes,
                            int reads_only)
{
    kq_recording *recording = NULL;
    uint64_t nanoseconds = MARK;
    send(to);
    WORKS(kq_bandwidth_record(device, from->buffer, to->buffer, bytes, reads_only, &recording));
    // The second time it finds its own results.
    for (int run = 0; run < 2; run++) {
        WORKS(kq_recording_run(recording, &nanoseconds));
        assert_true(nanoseconds != MARK);
    }
    kq_recording_destroy(&recording);
    if (!reads_only) {
        memcpy(to->bytes, from->bytes, (size_t)bytes);
        check_operand(line, to);
        return;
    }
    memset(to->bytes, 0, (size_t)bytes / 64);
    for (size_t i = 0; i < bytes; i += 4) {
        // Lane i of a workgroup reads vectors i, i + 64, ... of its own.
        unsigned char *sum = to->bytes + i / UNIT * 256 + i % 1024 / 16 * 4;
        store_u32(sum, load_u32(sum) ^ load_u32(from->bytes + i));
    }
    check_operand(line, to);
}

static void test_bandwidth(void **state)
{
    (void)state;
    operand from = make_operand(UNITS * UNIT), to = make_operand(UNITS * UNIT + 3);
    for (int reads_only = 0; reads_only < 2; reads_only++) {
        for (uint64_t units = 1; units <= UNITS; units += 2) {
            check_bandwidth(__LINE__, &from, &to, units * UNIT, reads_only);
        }
    }
    check_operand(__LINE__, &from);
    free_operand(&to);
    free_operand(&from);
}

// What is written may be any word, also those that the library looks for where work was lost.
static void test_bandwidth_of_any_words(void **state)
{
    (void)state;
    static const uint32_t words[] = {0, 0xFFFFFFFFu};
    operand from = make_operand(UNIT), to = make_operand(UNIT);
    for (unsigned which = 0; which < 4; which++) {
        // The first two words of each vector that a lane reads last, and the last two.
        memset(from.bytes, 0, UNIT);
        for (size_t i = 0; i < UNIT / 64; i += 4) {
            store_u32(from.bytes + UNIT / 16 * 15 + 4 * i, words[which % 2]);
            store_u32(from.bytes + UNIT / 16 * 15 + 4 * i + 4, words[which / 2]);
            store_u32(from.bytes + UNIT / 16 * 15 + 4 * i + 8, words[which % 2]);
            store_u32(from.bytes + UNIT / 16 * 15 + 4 * i + 12, words[which / 2]);
        }
        memcpy(from.bytes, from.bytes + UNIT - 8, 8);
        send(&from);
        for (int reads_only = 0; reads_only < 2; reads_only++) {
            check_bandwidth(__LINE__, &from, &to, UNIT, reads_only);
        }
    }
    free_operand(&to);
    free_operand(&from);
}

static void test_bandwidth_refusals(void **state)
{
    (void)state;
    operand from = make_operand(2 * UNIT), sums = make_operand(2 * UNIT / 64), other = {0};
    kq_recording *r = (kq_recording *)&said;
    kq_device *lesser = NULL;
    const kq_device_params params = {
        .device = kq_device_get_info(device)->id,
        .ops = 1u << KQ_OP_QUANTIZE,
        .errors = report_errors(&said),
    };
    REFUSES(kq_bandwidth_record(device, from.buffer, sums.buffer, 0, 1, &r), "bytes is 0");
    assert_null(r);
    REFUSES(kq_bandwidth_record(device, from.buffer, sums.buffer, UNIT + 4, 1, &r), "16388",
            "16384");
    REFUSES(kq_bandwidth_record(device, NULL, sums.buffer, UNIT, 1, &r), "from is null");
    REFUSES(kq_bandwidth_record(device, from.buffer, NULL, UNIT, 1, &r), "to is null");
    REFUSES(kq_bandwidth_record(device, from.buffer, sums.buffer, 3 * UNIT, 1, &r), "from has",
            "49152");
    REFUSES(kq_bandwidth_record(device, from.buffer, sums.buffer, UNIT, 0, &r), "to has 512",
            "16384 are needed");
    REFUSES(kq_bandwidth_record(device, from.buffer, from.buffer, UNIT, 1, &r), "one buffer");
    assert_int_equal(kq_bandwidth_record(NULL, from.buffer, sums.buffer, UNIT, 1, &r),
                     KQ_ERROR_ARGUMENT);
    WORKS(kq_bandwidth_record(device, from.buffer, sums.buffer, 2 * UNIT, 1, &r));
    kq_recording_destroy(&r);
    WORKS(kq_device_create(&params, &lesser));
    WORKS(kq_buffer_create(lesser, UNIT, &other.buffer));
    REFUSES(kq_bandwidth_record(device, other.buffer, sums.buffer, UNIT, 1, &r), "from",
            "another device");
    REFUSES(kq_bandwidth_record(lesser, other.buffer, other.buffer, UNIT, 1, &r),
            "KQ_OP_SELF_TEST");
    kq_buffer_destroy(&other.buffer);
    kq_device_destroy(&lesser);
    check_operand(__LINE__, &sums);
    free_operand(&sums);
    free_operand(&from);
}

static int run_on(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_host_refusals),
        cmocka_unit_test(test_quantize_views),
        cmocka_unit_test(test_domain),
        cmocka_unit_test(test_adjacent),
        cmocka_unit_test(test_dot_views),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_self_test),
        cmocka_unit_test(test_self_test_ops),
        cmocka_unit_test(test_bandwidth),
        cmocka_unit_test(test_bandwidth_of_any_words),
        cmocka_unit_test(test_bandwidth_refusals),
    };
    const kq_device_params params = {.device = name, .errors = report_errors(&said)};
    kq_result result = kq_device_create(&params, &device);
    if (result != KQ_OK) {
        fprintf(stderr, "api_test: %s: %s\n", name, said.reason);
        return result == KQ_ERROR_NO_DEVICE ? 77 : 1;
    }
    const kq_device_info *info = kq_device_get_info(device);
    printf("on %s: %s, %s\n", info->id, info->name, info->driver);
    int failed = cmocka_run_group_tests_name(name, tests, NULL, NULL);
    kq_device_destroy(&device);
    return failed > 0;
}

int main(int argc, char **argv)
{
    const kq_device_params params = {.device = "reference"};
    if (kq_device_create(&params, &judge) != KQ_OK) {
        return 1;
    }
    int failed = run_on("reference");
    if (argc > 1 && failed == 0) {
        failed = run_on(argv[1]);
    }
    kq_device_destroy(&judge);
    return failed;
}
