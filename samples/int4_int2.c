// Ordinary packed INT4 and INT2 stay what they are: this decodes them explicitly and multiplies
// them in plain i32 and f32, in the same program as a dot of kquant. Nothing is quantized on the
// way: kquant does that only where kq_quantize is called, and knows no format that it could take
// INT4 for.
//
// An INT4 byte holds two numbers from -8 to 7, the first one in the low bits; an INT2 byte holds
// four from -2 to 1. A scale, if your format has one, is yours to multiply.

#include <kquant/kquant.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000 };  // no multiple of 256: there are no blocks in these formats

// Number i of an array of two's-complement numbers of `bits` bits (4 or 2), packed.
static int32_t decode(const unsigned char *packed, unsigned bits, size_t i)
{
    const unsigned per_byte = 8 / bits;
    const unsigned field = packed[i / per_byte] >> (i % per_byte * bits) & ((1u << bits) - 1);
    const unsigned sign = 1u << (bits - 1);
    return (int32_t)(field ^ sign) - (int32_t)sign;
}

// The inverse, into bytes that were 0.
static void encode(unsigned char *packed, unsigned bits, size_t i, int32_t number)
{
    const unsigned per_byte = 8 / bits;
    const unsigned field = (unsigned)number & ((1u << bits) - 1);
    packed[i / per_byte] = (unsigned char)(packed[i / per_byte] | field << (i % per_byte * bits));
}

// INT4 times INT2. A product is at most 16, so an i32 has room for 2^27 of them.
static int32_t dot_i32(const unsigned char *int4, const unsigned char *int2, size_t count)
{
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += decode(int4, 4, i) * decode(int2, 2, i);
    }
    return sum;
}

// INT4 or INT2 times f32 values, which are used as they are.
static float dot_f32(const unsigned char *packed, unsigned bits, const float *values, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (float)decode(packed, bits, i) * values[i];
    }
    return sum;
}

static bool check(bool ok, const char *what)
{
    printf("%s: %s\n", what, ok ? "yes" : "NO");
    return ok;
}

static void report(void *user, kq_result result, const char *reason)
{
    snprintf((char *)user, 256, "%s: %s", kq_result_name(result), reason);
}

// A dot of kquant on the bytes of Q4_K records; whatever `format` is, it says what they are.
static kq_result quantized_dot(kq_device *device, kq_format format, const unsigned char *lhs,
                               const unsigned char *records, float *result)
{
    return kq_quantized_dot_host(device, format, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                 KQ_ORDER_SEQUENTIAL, 1, lhs, KQ_Q4_K_BYTES, records, KQ_Q8_K_BYTES,
                                 result);
}

int main(int argc, char **argv)
{
    static int32_t a[COUNT], b[COUNT];  // the numbers before they are packed
    static unsigned char int4[COUNT / 2], int2[COUNT / 4], before[COUNT / 2];
    static float values[COUNT];
    const char *name = argc == 2 && strncmp(argv[1], "--device=", 9) == 0 ? argv[1] + 9 : NULL;
    if (argc > 2 || (argc == 2 && name == NULL)) {
        const bool is_help = strcmp(argv[1], "--help") == 0;
        fprintf(is_help ? stdout : stderr,
                "usage: int4_int2 [--device=NAME]\n\n"
                "Multiplies packed INT4 and INT2 in i32 and f32, beside a dot of kquant.\n"
                "NAME is an id, a uuid or a part of a name.\n\n"
                "  int4_int2 --device=reference\n");
        return is_help ? EXIT_SUCCESS : 2;
    }

    uint32_t state = 1;  // a linear congruential generator, of which the upper bits are good
    int32_t sum = 0, sum4 = 0, sum2 = 0;
    for (size_t i = 0; i < COUNT; i++) {
        state = state * 1664525u + 1013904223u;
        a[i] = (int32_t)(state >> 28) - 8;
        b[i] = (int32_t)(state >> 26 & 3) - 2;
        values[i] = (float)(int)(state >> 16 & 1023) / 64.0f - 8.0f;
        encode(int4, 4, i, a[i]);
        encode(int2, 2, i, b[i]);
        sum += a[i] * b[i];
        // In 64ths: values are whole numbers of these, and all sums are exact in f32.
        sum4 += a[i] * (int32_t)(values[i] * 64.0f);
        sum2 += b[i] * (int32_t)(values[i] * 64.0f);
    }
    memcpy(before, int4, sizeof(int4));

    // kquant beside it: a block is quantized because this says so, and a Q4_K record is one because
    // it was made as one: d = 2^-4, dmin = 0, sc = 1 and m = 0 for all sub-blocks, codes 0 to 15.
    char reason[256] = "";
    unsigned char records[KQ_Q8_K_BYTES], weights[KQ_Q4_K_BYTES] = {0x00, 0x2C, 0x00, 0x00};
    float result = 0, refused = 0;
    memset(weights + 4, 1, 4);
    memset(weights + 12, 1, 4);
    memcpy(weights + 16, int4, 128);
    kq_device *device = NULL;
    const kq_device_params params = {.device = name, .errors = {report, reason}};
    if (kq_device_create(&params, &device) != KQ_OK ||
        kq_quantize_host(device, KQ_FORMAT_Q8_K, values, KQ_BLOCK, records, NULL) != KQ_OK ||
        quantized_dot(device, KQ_FORMAT_Q4_K, weights, records, &result) != KQ_OK) {
        fprintf(stderr, "int4_int2: %s\n", reason);
        kq_device_destroy(&device);
        return EXIT_FAILURE;
    }
    printf("%s: INT4 . INT2 = %d, INT4 . f32 = %g, INT2 . f32 = %g, Q4_K . Q8_K = %g\n",
           kq_device_get_info(device)->name, (int)dot_i32(int4, int2, COUNT),
           (double)dot_f32(int4, 4, values, COUNT), (double)dot_f32(int2, 2, values, COUNT),
           (double)result);
    bool ok = check(dot_i32(int4, int2, COUNT) == sum, "INT4 . INT2 is exact in i32");
    ok = check(dot_f32(int4, 4, values, COUNT) == (float)sum4 / 64.0f &&
                   dot_f32(int2, 2, values, COUNT) == (float)sum2 / 64.0f,
               "INT4 . f32 and INT2 . f32 took the f32 values unquantized") &&
         ok;
    ok = check(memcmp(before, int4, sizeof(int4)) == 0, "kquant left the packed bytes alone") && ok;
    const kq_result other = quantized_dot(device, (kq_format)4, int4, records, &refused);
    ok = check(other == KQ_ERROR_ARGUMENT, "kquant takes no other format") && ok;
    printf("  it says: %s\n", reason);
    kq_device_destroy(&device);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
