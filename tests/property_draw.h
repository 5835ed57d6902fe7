// Random operations: an operation of level 3 and the bytes of its buffers, drawn from one number.
#ifndef KQ_PROPERTY_DRAW_H
#define KQ_PROPERTY_DRAW_H

#include "support.h"

#include "shape.h"

// How large a drawn operation may be.
typedef struct drawn_size {
    uint32_t records;  // of all dots together
    uint64_t bytes;    // of a buffer, about
} drawn_size;

// Operands that share a buffer have the same image.
typedef struct drawn {
    kq_op op;
    kq_order order;
    kq_view views[3];  // by role; of a result only the offset counts
    kq_repeat repeat;
    bool has_repeat;
    int buffer[3];             // by role; -1: null
    unsigned char *images[3];  // by buffer; NULL: there is none
    uint64_t bytes[3];
} drawn;

void draw_operation(uint64_t *state, drawn_size size, drawn *d);
void free_drawn(drawn *d);
void print_drawn(const drawn *d);

// The same, each operand in a buffer of its own.
kq_operation operation_of(const drawn *d);

// One of `count` numbers from 0 on.
uint64_t draw_below(uint64_t *state, uint64_t count);

// From 1 to `most`, as often below the square root of that as above.
uint64_t draw_magnitude(uint64_t *state, uint64_t most);

// Cuts G records into parts that the order allows, and returns their number: part k has sizes[k].
uint32_t draw_parts(uint64_t *state, kq_order order, uint32_t G, uint32_t *sizes);

// Words that make good records wherever one starts on a word: f16 pairs, or f32, of moderate size.
void draw_f16_words(uint64_t *state, void *bytes, uint64_t count);
void draw_f32_words(uint64_t *state, void *bytes, uint64_t count);

#endif
