#include "decode.h"
#include "bytes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { TEXT_BYTES = 48 };

field q8_k_field(unsigned number)
{
    field field;
    if (number == 0) {
        field.offset = 0;
        field.bytes = 4;
        snprintf(field.name, sizeof field.name, "ds");
    } else if (number <= KQ_BLOCK) {
        field.offset = 4 + (number - 1);
        field.bytes = 1;
        snprintf(field.name, sizeof field.name, "q[%u]", (number - 1) % KQ_BLOCK);
    } else {
        unsigned j = number - 1 - KQ_BLOCK;
        field.offset = 260 + 2 * (size_t)j;
        field.bytes = 2;
        snprintf(field.name, sizeof field.name, "bsum[%u]", j % 16);
    }
    return field;
}

void print_f32(char *text, uint32_t bits)
{
    snprintf(text, TEXT_BYTES, "%08" PRIx32 " (%.9g)", bits, f32_number(bits));
}

static int32_t load_i8(const uint8_t *bytes)
{
    return (int32_t)(bytes[0] ^ 0x80) - 0x80;
}

static int32_t load_i16(const uint8_t *bytes)
{
    return (int32_t)(load_u16(bytes) ^ 0x8000) - 0x8000;
}

void print_field(char *text, const uint8_t *record, unsigned number)
{
    const uint8_t *bytes = record + q8_k_field(number).offset;
    if (number == 0) {
        print_f32(text, load_u32(bytes));
    } else if (number <= KQ_BLOCK) {
        snprintf(text, TEXT_BYTES, "%02x (%" PRId32 ")", bytes[0], load_i8(bytes));
    } else {
        snprintf(text, TEXT_BYTES, "%04" PRIx32 " (%" PRId32 ")", load_u16(bytes), load_i16(bytes));
    }
}

static double f16_number(uint32_t bits)
{
    uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double number;
    if (exponent == 31) {
        number = mantissa == 0 ? (double)INFINITY : (double)NAN;
    } else {
        number = (exponent == 0 ? mantissa : mantissa + 1024) / 16777216.0;
        for (uint32_t k = 1; k < exponent; k++) {
            number *= 2;
        }
    }
    return bits & 0x8000 ? -number : number;
}

// Field i, 0 to 7, of sc (high is 0) or m (high is 1).
static uint32_t scale_field(const uint8_t *q4_k, unsigned high, unsigned i)
{
    uint32_t byte = q4_k[4 + 4 * high + i % 4];
    if (i < 4) {
        return byte & 63;
    }
    return (uint32_t)(q4_k[12 + i % 4] >> (4 * high) & 15) | byte >> 6 << 4;
}

static uint32_t code(const uint8_t *q4_k, unsigned i)
{
    return q4_k[16 + 32 * (i / 64) + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15;
}

void print_pair(const char *indent, const uint8_t *q4_k, const uint8_t *q8_k)
{
    int64_t s = 0, t = 0;
    for (unsigned i = 0; i < KQ_BLOCK; i++) {
        s += (int64_t)scale_field(q4_k, 0, i / 32) * code(q4_k, i) * load_i8(q8_k + 4 + i);
    }
    for (unsigned j = 0; j < 16; j++) {
        t += (int64_t)scale_field(q4_k, 1, j / 2) * load_i16(q8_k + 260 + 2 * j);
    }

    uint32_t d = load_u16(q4_k), dmin = load_u16(q4_k + 2);
    char ds[TEXT_BYTES];
    print_f32(ds, load_u32(q8_k));
    printf("%slhs d %04" PRIx32 " (%.9g), dmin %04" PRIx32 " (%.9g); rhs ds %s\n", indent, d,
           f16_number(d), dmin, f16_number(dmin), ds);
    for (unsigned high = 0; high < 2; high++) {
        printf("%slhs %s", indent, high ? "m " : "sc");
        for (unsigned i = 0; i < 8; i++) {
            printf(" %2" PRIu32, scale_field(q4_k, high, i));
        }
        printf("; %s = %" PRId64 "\n", high ? "T" : "S", high ? t : s);
    }
    printf("%srhs bsum", indent);
    for (unsigned j = 0; j < 16; j++) {
        printf(" %" PRId32, load_i16(q8_k + 260 + 2 * j));
    }
    printf("\n");
}
