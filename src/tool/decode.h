// The fields of records as text, for messages.
#ifndef KQ_TOOL_DECODE_H
#define KQ_TOOL_DECODE_H

#include <kquant/kquant.h>

#include <stddef.h>

// A field of a Q8_K record: ds, q[0..255], bsum[0..15] are numbers 0, 1..256, 257..272.
enum { Q8_K_FIELDS = 1 + 256 + 16 };

typedef struct field {
    size_t offset, bytes;  // in the record
    char name[16];         // "ds", "q[17]", "bsum[3]"
} field;

field q8_k_field(unsigned number);

// "bf800000 (-1)": the bits, most significant first, and the number. text has room for 48 bytes.
void print_f32(char *text, uint32_t bits);
void print_field(char *text, const uint8_t *record, unsigned number);

// Lines about a pair of records: all fields that a dot's term is made of, and S and T.
void print_pair(const char *indent, const uint8_t *q4_k, const uint8_t *q8_k);

#endif
