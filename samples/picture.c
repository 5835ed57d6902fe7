#include "picture.h"

#include <kquant/kquant.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WAVES = 128 };

typedef struct wave {
    uint32_t across, down;  // how far its phase goes from point to point; a turn is 2^32
    uint32_t start;
    uint32_t per_frame;
    float height;
    float slope[2];  // the same times the turns along x and y
} wave;

// --- The waves

// Of a phase in turns of 2^32, to three digits: a parabola through the zeros and a correction. No
// library's sine, for these need not agree in the last bit; and no fused multiply-add, which this
// project's compiler flags forbid.
static float sine(uint32_t phase)
{
    const float x = (float)(int32_t)(phase & 0xFFFFFF00u) / 2147483648.0f;
    const float y = 4.0f * x * (1.0f - (x < 0.0f ? -x : x));
    return y * (0.775f + 0.225f * (y < 0.0f ? -y : y));
}

static float cosine(uint32_t phase)
{
    return sine(phase + 0x40000000u);
}

// A linear congruential generator, whose lower half is too regular to be used.
static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16 << 16 | *state >> 16;
}

static void make_waves(wave waves[WAVES])
{
    uint32_t state = 20;
    for (int k = 0; k < WAVES; k++) {
        wave *w = &waves[k];
        const float turns = 0.4f + 0.04f * (float)k;  // over the width of the picture
        const float per_point = 4294967296.0f * PICTURE_CELL / PICTURE_WIDTH;
        const uint32_t direction = draw(&state);
        const float turns_x = turns * cosine(direction), turns_y = turns * sine(direction);
        w->across = (uint32_t)(int32_t)(turns_x * per_point);
        w->down = (uint32_t)(int32_t)(turns_y * per_point);
        w->start = draw(&state);
        // A whole number of turns until the picture starts again, in either direction.
        const uint32_t speed = UINT32_MAX / PICTURE_FRAMES + 1;
        w->per_frame = draw(&state) >> 31 ? speed : 0u - speed;
        w->height = 0.35f / (0.5f + turns * turns);
        w->slope[0] = w->height * turns_x;
        w->slope[1] = w->height * turns_y;
    }
}

void picture_activations(int frame, float *values)
{
    wave waves[WAVES];
    make_waves(waves);
    for (uint32_t x = 0; x < PICTURE_COLUMNS; x++) {
        for (uint32_t k = 0; k < WAVES; k++) {
            const uint32_t phase =
                waves[k].start + x * waves[k].across + (uint32_t)frame * waves[k].per_frame;
            values[x * KQ_BLOCK + 2 * k] = sine(phase);
            values[x * KQ_BLOCK + 2 * k + 1] = cosine(phase);
        }
    }
}

// --- The weights

// Makes a sub-block: weight = d * sc * q - dmin * m. Leaves in weights what they lack.
static void encode_sub_block(float weights[32], unsigned s, float d, float dmin,
                             unsigned char *record)
{
    float largest = 0;
    for (int i = 0; i < 32; i++) {
        const float size = weights[i] < 0 ? -weights[i] : weights[i];
        largest = size > largest ? size : largest;
    }
    unsigned m = (unsigned)(largest / dmin) + 1;
    m = m < 63 ? m : 63;
    unsigned sc = (unsigned)((largest + dmin * (float)m) / (15 * d)) + 1;
    sc = sc < 63 ? sc : 63;
    if (s < 4) {
        record[4 + s] = (unsigned char)(record[4 + s] | sc);
        record[8 + s] = (unsigned char)(record[8 + s] | m);
    } else {
        record[s] = (unsigned char)(record[s] | sc >> 4 << 6);
        record[4 + s] = (unsigned char)(record[4 + s] | m >> 4 << 6);
        record[8 + s] = (unsigned char)((sc & 15) | (m & 15) << 4);
    }
    for (int i = 0; i < 32; i++) {
        const float q = (weights[i] + dmin * (float)m) / (d * (float)sc) + 0.5f;
        const unsigned code = q < 0 ? 0 : q < 15 ? (unsigned)q : 15;
        unsigned char *byte = &record[16 + 32 * (s / 2) + (unsigned)i];
        *byte = (unsigned char)(*byte | code << (s % 2 * 4));
        weights[i] -= d * (float)(sc * code) - dmin * (float)m;
    }
}

void picture_weights(unsigned char *records)
{
    wave waves[WAVES];
    make_waves(waves);
    memset(records, 0, PICTURE_ROWS * PICTURE_G * KQ_Q4_K_BYTES);
    for (uint32_t row = 0; row < PICTURE_ROWS; row++) {
        unsigned char *record = records + row * PICTURE_G * KQ_Q4_K_BYTES;
        float weights[KQ_BLOCK];
        for (int k = 0; k < WAVES; k++) {
            const wave *w = &waves[k];
            const uint32_t phase = row / 3 * w->down;
            const uint32_t kind = row % 3;
            // height * sin(a + b), slope * cos(a + b)
            weights[2 * k] =
                kind == 0 ? w->height * cosine(phase) : -w->slope[kind - 1] * sine(phase);
            weights[2 * k + 1] =
                kind == 0 ? w->height * sine(phase) : w->slope[kind - 1] * cosine(phase);
        }
        // d and dmin are 2^-9 and 2^-6, then 2^-13 and 2^-10, here as the upper bytes of two f16.
        for (int g = 0; g < PICTURE_G; g++, record += KQ_Q4_K_BYTES) {
            const float d = g == 0 ? 1.0f / 512 : 1.0f / 8192;
            record[1] = g == 0 ? 6 << 2 : 2 << 2;
            record[3] = g == 0 ? 9 << 2 : 5 << 2;
            for (unsigned s = 0; s < 8; s++) {
                encode_sub_block(weights + 32 * s, s, d, 8 * d, record);
            }
        }
    }
}

// --- The pixels

bool picture_is_right(const unsigned char *rgba)
{
    const uint64_t expected = UINT64_C(0x04A4D9825DFBAFCA);
    uint64_t digest = UINT64_C(0xCBF29CE484222325);  // FNV-1a
    for (int i = 0; i < PICTURE_BYTES; i++) {
        digest = (digest ^ rgba[i]) * UINT64_C(0x100000001B3);
    }
    printf("last frame %016" PRIx64 ", %s\n", digest,
           digest == expected ? "as on every device" : "which is wrong");
    return digest == expected;
}

static unsigned char *put_be32(unsigned char *at, uint32_t word)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(word >> (24 - 8 * i));
    }
    return at + 4;
}

static bool write_chunk(FILE *file, const char *type, const unsigned char *data, uint32_t bytes)
{
    unsigned char head[8], tail[4];
    uint32_t crc = UINT32_MAX;
    memcpy(put_be32(head, bytes), type, 4);
    for (uint32_t i = 4; i < 8 + bytes; i++) {
        crc ^= i < 8 ? head[i] : data[i - 8];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    put_be32(tail, ~crc);
    return fwrite(head, 1, 8, file) == 8 && fwrite(data, 1, bytes, file) == bytes &&
           fwrite(tail, 1, 4, file) == 4;
}

bool picture_write(const char *path, const unsigned char *rgba)
{
    // A line is a byte that says "no filter" and its pixels; each has a stored block of its own.
    enum { LINE = 1 + 3 * PICTURE_WIDTH, BLOCK = 5 + LINE };
    static unsigned char data[2 + PICTURE_HEIGHT * BLOCK + 4] = {0x78, 0x01};
    unsigned char header[13] = {0};
    uint32_t a = 1, b = 0;  // Adler-32
    for (uint32_t y = 0; y < PICTURE_HEIGHT; y++) {
        unsigned char *block = data + 2 + y * BLOCK;
        block[0] = y == PICTURE_HEIGHT - 1;  // the last one
        block[1] = LINE & 255;
        block[2] = LINE >> 8;
        block[3] = (unsigned char)~block[1];
        block[4] = (unsigned char)~block[2];
        for (uint32_t i = 0; i < LINE; i++) {
            const uint32_t x = (i - 1) / 3;
            block[5 + i] = i == 0 ? 0 : rgba[(y * PICTURE_WIDTH + x) * 4 + (i - 1) % 3];
            a = (a + block[5 + i]) % 65521;
            b = (b + a) % 65521;
        }
    }
    put_be32(data + sizeof(data) - 4, b << 16 | a);
    put_be32(put_be32(header, PICTURE_WIDTH), PICTURE_HEIGHT);
    header[8] = 8;  // bits
    header[9] = 2;  // RGB
    FILE *file = fopen(path, "wb");
    bool ok = file != NULL && fwrite("\x89PNG\r\n\x1a\n", 1, 8, file) == 8 &&
              write_chunk(file, "IHDR", header, sizeof(header)) &&
              write_chunk(file, "IDAT", data, sizeof(data)) && write_chunk(file, "IEND", data, 0);
    return file != NULL && fclose(file) == 0 && ok;
}
