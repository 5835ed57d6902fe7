#include "sha256.h"

#include <stdio.h>
#include <string.h>

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t constants[64] = {
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void compress(sha256 *hash)
{
    uint32_t w[64];
    uint32_t v[8];
    for (int t = 0; t < 16; t++) {
        const uint8_t *b = hash->block + 4 * t;
        w[t] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    memcpy(v, hash->state, sizeof v);
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t one = v[7] + s1 + choice + constants[t] + w[t];
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += one;
        v[0] = one + s0 + majority;
    }
    for (int i = 0; i < 8; i++) {
        hash->state[i] += v[i];
    }
}

void sha256_begin(sha256 *hash)
{
    static const uint32_t first[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
    memcpy(hash->state, first, sizeof first);
    hash->bytes = 0;
}

void sha256_add(sha256 *hash, const void *data, size_t count)
{
    const uint8_t *bytes = data;
    while (count > 0) {
        size_t at = (size_t)(hash->bytes % 64);
        size_t part = count < 64 - at ? count : 64 - at;
        memcpy(hash->block + at, bytes, part);
        hash->bytes += part;
        bytes += part;
        count -= part;
        if (hash->bytes % 64 == 0) {
            compress(hash);
        }
    }
}

void sha256_end(sha256 *hash, char hex[SHA256_HEX_BYTES])
{
    const uint8_t one = 0x80, zero = 0;
    uint64_t bits = 8 * hash->bytes;
    uint8_t length[8];
    sha256_add(hash, &one, 1);
    while (hash->bytes % 64 != 56) {
        sha256_add(hash, &zero, 1);
    }
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++) {
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)hash->state[i]);
    }
}
