#include "diagnose.h"
#include "bytes.h"
#include "primitives.h"

#include "../prelude.h"
#include "../exact.h"
#include "../records.h"
#include "../primitive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct steps {
    item *items;
    uint32_t count, capacity;
} steps;

// Adds a step, and returns what it must give.
static uint32_t step(steps *s, uint32_t primitive, uint32_t a, uint32_t b)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity == 0 ? 128 : 2 * s->capacity;
        s->items = reallocate(s->items, s->capacity, sizeof s->items[0]);
    }
    item *item = &s->items[s->count++];
    *item = (struct item){.primitive = primitive, .a = a, .b = b};
    return primitive_result(item);
}

// Asks the device for all steps, and frees them.
static void say_first_wrong(target *target, const char *indent, steps *s)
{
    kq_result result = primitive_run(target, s->items, s->count);
    uint32_t k = 0;
    while (k < s->count && s->items[k].result == primitive_result(&s->items[k])) {
        k++;
    }
    char said[1200];
    if (result != KQ_OK) {
        snprintf(said, sizeof said, "its steps can't be asked for alone: %s", target->reason);
    } else if (k == s->count) {
        snprintf(said, sizeof said,
                 "each of its %" PRIu32 " steps alone is right on this device: what is wrong is "
                 "around them",
                 s->count);
    } else {
        const item *item = &s->items[k];
        snprintf(said, sizeof said,
                 "the first step that is wrong alone: %s %s: 0x%08" PRIX32 ", 0x%08" PRIX32
                 " gave 0x%08" PRIX32 ", expected 0x%08" PRIX32,
                 primitive_name(item->primitive), primitive_fault(item, item->result), item->a,
                 item->b, item->result, primitive_result(item));
    }
    printf("%s%s\n@diagnosis %s\n", indent, said, said);
    free(s->items);
}

void diagnose_term(target *target, const char *indent, const uint8_t *lhs, const uint8_t *rhs)
{
    steps s = {0};
    uint32_t sum[2] = {0, 0};  // S, T
    uint32_t word3 = load_u32(lhs + 12);
    for (unsigned r = 0; r < 2; r++) {
        uint32_t word = load_u32(lhs + 4 + 4 * r);
        uint32_t fields[2] = {
            step(&s, KQ_PRIMITIVE_FIELDS_LOW, word, 0),
            step(&s, KQ_PRIMITIVE_FIELDS_HIGH, word, word3 >> (4 * r)),
        };
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t part = 0;
            if (r == 1) {
                part = step(&s, KQ_PRIMITIVE_SUM_I16X2, load_u32(rhs + 260 + 4 * k), 0);
            }
            for (uint32_t i = 0; r == 0 && i < 8; i++) {
                uint32_t codes = load_u32(lhs + 16 + 32 * (k / 2) + 4 * i);
                part += step(&s, KQ_PRIMITIVE_DOT4, codes >> (4 * (k % 2)) & 0x0F0F0F0F,
                             load_u32(rhs + 4 + 32 * k + 4 * i));
            }
            sum[r] += (fields[k / 4] >> (8 * (k % 4)) & 255) * part;
        }
    }
    uint32_t scaled[2];
    for (unsigned r = 0; r < 2; r++) {
        uint32_t scale = step(&s, KQ_PRIMITIVE_F16_TO_F32, load_u16(lhs + 2 * r), 0);
        uint32_t number = step(&s, KQ_PRIMITIVE_I32_TO_F32, sum[r], 0);
        scaled[r] = step(&s, KQ_PRIMITIVE_F32_MULTIPLY, scale, number);
    }
    uint32_t difference = step(&s, KQ_PRIMITIVE_F32_SUBTRACT, scaled[0], scaled[1]);
    step(&s, KQ_PRIMITIVE_F32_MULTIPLY, load_u32(rhs), difference);
    say_first_wrong(target, indent, &s);
}

void diagnose_sum(target *target, const char *indent, kq_order order, const uint32_t *terms,
                  uint32_t G)
{
    steps s = {0};
    uint32_t *values = allocate(G, sizeof *values);
    memcpy(values, terms, G * sizeof *values);
    if (order == KQ_ORDER_SEQUENTIAL) {
        for (uint32_t g = 1; g < G; g++) {
            values[0] = step(&s, KQ_PRIMITIVE_F32_ADD, values[0], values[g]);
        }
    }
    for (uint32_t count = G; order == KQ_ORDER_PAIRWISE && count > 1; count = (count + 1) / 2) {
        for (uint32_t i = 0; 2 * i < count; i++) {
            values[i] = 2 * i + 1 < count
                            ? step(&s, KQ_PRIMITIVE_F32_ADD, values[2 * i], values[2 * i + 1])
                            : values[2 * i];
        }
    }
    free(values);
    if (s.count > 0) {
        say_first_wrong(target, indent, &s);
    }
}

void diagnose_block(target *target, const char *indent, const uint8_t *block)
{
    steps s = {0};
    uint32_t key = 0;
    for (size_t i = 0; i < KQ_BLOCK; i++) {
        uint32_t k = step(&s, KQ_PRIMITIVE_EXTREME_KEY, load_u32(block + 4 * i), 0);
        key = k > key ? k : key;
    }
    uint32_t inverse = kq_inverse(key);
    if (key >= 2) {
        step(&s, KQ_PRIMITIVE_F32_DIVIDE, 0xC2FE0000 ^ key << 31, key >> 1);
        step(&s, KQ_PRIMITIVE_F32_DIVIDE, 0x3F800000, inverse);
    }
    for (size_t i = 0; i < KQ_BLOCK; i++) {
        uint32_t scaled = step(&s, KQ_PRIMITIVE_F32_MULTIPLY, load_u32(block + 4 * i), inverse);
        step(&s, KQ_PRIMITIVE_F32_TO_I8, scaled, 0);
    }
    say_first_wrong(target, indent, &s);
}
