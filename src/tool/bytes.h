// Little-endian numbers at any address, on any host; the digest and the random bits of the vectors.
#ifndef KQ_TOOL_BYTES_H
#define KQ_TOOL_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t load_u16(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

static inline uint32_t load_u32(const uint8_t *bytes)
{
    return load_u16(bytes) | load_u16(bytes + 2) << 16;
}

static inline void store_u32(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline void store_u16(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

// The number that f32 bits stand for, for messages only.
static inline double f32_number(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

static inline uint64_t fnv1a64(const uint8_t *bytes, size_t count)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    }
    return hash;
}

// splitmix64
static inline uint64_t draw(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// A number below limit, which is not 0. Not quite uniform, which no test needs.
static inline uint32_t draw_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)((draw(state) >> 32) * limit >> 32);
}

// G blocks of moderate values, and G Q4_K records of moderate d and dmin, as bulk.tsv defines them.
void draw_values(uint64_t seed, uint32_t G, uint8_t *values);
void draw_q4_k(uint64_t seed, uint32_t G, uint8_t *records);

#endif
