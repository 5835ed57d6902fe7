#include "draws.h"
#include "bytes.h"

#include <kquant/kquant.h>

// --- Values

// 256 values of one of several kinds, most of them legal.
void draw_block(uint64_t *state, uint8_t *block)
{
    uint32_t kind = draw_below(state, 32);
    uint32_t exponent = draw_below(state, 255), mantissa = (uint32_t)draw(state) & 0x7FFFFF;
    for (size_t i = 0; i < KQ_BLOCK; i++) {
        uint64_t random = draw(state);
        uint32_t bits = (uint32_t)random;
        uint32_t sign = bits & 0x80000000, more = (uint32_t)(random >> 32);
        if (kind < 10) {  // near each other, as in weights
            bits = (bits & 0x807FFFFF) | (120 + more % 8) << 23;
        } else if (kind < 14) {  // any finite ones
            bits = (bits & 0x807FFFFF) | more % 255 << 23;
        } else if (kind < 18) {  // one exponent: many codes, and ties of the extreme's magnitude
            bits = (more % 16 == 0 ? mantissa : bits & 0x7FFFFF) | exponent << 23 | sign;
        } else if (kind < 22) {  // small whole numbers: ties of the rounding
            bits = (bits & 0x807C0000) | (127 + more % 7) << 23;
        } else if (kind < 24) {  // subnormals and around the least legal extreme
            bits = sign | more % 0x04000000;
        } else if (kind < 26) {  // around the largest value
            bits = sign | (0x7F7FFFFF - more % 0x02000000);
        } else if (kind < 28) {  // mostly zeros
            bits = more % 8 == 0 ? (bits & 0x807FFFFF) | 0x3F800000 : sign;
        } else if (kind < 30) {  // one value among zeros of both signs
            bits = sign | (i == mantissa % KQ_BLOCK ? exponent << 23 | mantissa : 0);
        } else if (kind < 31) {  // below the least legal extreme, all of it or nearly
            bits = sign | more % 0x02FE0002;
        }
        // else any bits at all: NaNs and infinities
        store_u32(block + 4 * i, bits);
    }
}

// --- Records

void draw_lhs(uint64_t *state, uint32_t kind, uint8_t *record)
{
    draw_q4_k(draw(state), 1, record);
    uint64_t random = draw(state);
    if (kind == 0) {  // any d and dmin, now and then infinite or NaN
        store_u32(record, (uint32_t)random);
    } else if (kind == 1) {  // subnormal and tiny ones
        store_u32(record, (uint32_t)random & 0x87FF87FF);
    } else if (kind == 2) {  // largest scales and codes
        memset(record + 4, 0xFF, KQ_Q4_K_BYTES - 4 - random % 64);
    }
}

void draw_rhs(uint64_t *state, uint32_t kind, uint8_t *record)
{
    for (size_t i = 0; i < KQ_Q8_K_BYTES; i += 4) {
        store_u32(record + i, (uint32_t)draw(state));
    }
    uint32_t ds = load_u32(record);
    if (kind == 1) {  // tiny, and so are the terms
        store_u32(record, (ds & 0x807FFFFF) | (ds >> 23 & 31) << 23);
    } else if (kind != 0) {
        store_u32(record, (ds & 0x807FFFFF) | (110 + (ds >> 23 & 15)) << 23);
    }
    if (kind == 2) {  // extreme codes
        memset(record + 4, draw(state) & 1 ? 0x7F : 0x80, 200);
    }
    if (draw(state) % 4 == 0) {
        return;  // bsum as drawn: not the sums
    }
    for (size_t j = 0; j < 16; j++) {
        int32_t sum = 0;
        for (size_t i = 0; i < 16; i++) {
            sum += (int32_t)(record[4 + 16 * j + i] ^ 0x80) - 0x80;
        }
        store_u16(record + 260 + 2 * j, (uint32_t)sum);
    }
}
