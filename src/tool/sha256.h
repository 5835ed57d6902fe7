// SHA-256, FIPS 180-4.
#ifndef KQ_TOOL_SHA256_H
#define KQ_TOOL_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_HEX_BYTES = 65 };  // 64 digits and the end

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} sha256;

void sha256_begin(sha256 *hash);
void sha256_add(sha256 *hash, const void *bytes, size_t count);
void sha256_end(sha256 *hash, char hex[SHA256_HEX_BYTES]);

#endif
