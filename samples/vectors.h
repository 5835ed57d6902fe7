// Reads kquant's test vectors, tests/vectors, whose README says what is in them. Knows no kquant.
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>
#include <stdint.h>

enum {
    VECTORS_VALUES_BYTES = 1024,  // of a block
    VECTORS_Q4_K_BYTES = 144,
    VECTORS_Q8_K_BYTES = 292,
};

// Values to quantize, or a dot to take, or both one after the other.
typedef struct vector {
    const char *name;
    uint32_t G;
    unsigned char *values;  // NULL: nothing is quantized
    unsigned char
        *records;  // what values give, and rhs of the dot. NULL: digest is all that is known
    uint64_t digest;
    uint32_t lowest_bad;  // record, or 0xFFFFFFFF
    unsigned char *lhs;   // NULL: no dot is taken
    uint32_t sequential;  // the dot's bits
    uint32_t pairwise;
} vector;

// All of a folder's quantize.tsv, dot.tsv and bulk.tsv. What is no vector ends the program.
vector *vectors_read(const char *folder, size_t *count);
void vectors_free(vector *vectors, size_t count);

uint64_t vectors_digest(const unsigned char *data, size_t bytes);

#endif
