#include "bytes.h"

#include <kquant/kquant.h>

void draw_values(uint64_t seed, uint32_t G, uint8_t *values)
{
    for (size_t i = 0; i < (size_t)G * KQ_BLOCK; i++) {
        uint32_t x = (uint32_t)draw(&seed);
        store_u32(values + 4 * i, (x & 0x807FFFFFu) | (120u + ((x >> 23) & 255u) % 8u) << 23);
    }
}

void draw_q4_k(uint64_t seed, uint32_t G, uint8_t *records)
{
    for (size_t g = 0; g < G; g++) {
        uint8_t *record = records + g * KQ_Q4_K_BYTES;
        for (size_t i = 0; i < KQ_Q4_K_BYTES; i += 8) {
            uint64_t bits = draw(&seed);
            store_u32(record + i, (uint32_t)bits);
            store_u32(record + i + 4, (uint32_t)(bits >> 32));
        }
        for (size_t i = 0; i < 4; i += 2) {  // d and dmin
            uint32_t h = load_u16(record + i);
            store_u16(record + i, (h & 0x83FFu) | (8u + ((h >> 10) & 7u)) << 10);
        }
    }
}
