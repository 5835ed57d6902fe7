// Words of data, which is little-endian at any address, on any host.
#ifndef KQ_WORDS_H
#define KQ_WORDS_H

#include <stdint.h>

static inline uint32_t kq_load_word(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void kq_store_word(unsigned char *at, uint32_t word)
{
    at[0] = (unsigned char)(word & 255u);
    at[1] = (unsigned char)(word >> 8 & 255u);
    at[2] = (unsigned char)(word >> 16 & 255u);
    at[3] = (unsigned char)(word >> 24);
}

#endif
