// What tests of devices share: reports of errors, bytes, and the vectors of tests/vectors.
#ifndef KQ_TEST_SUPPORT_H
#define KQ_TEST_SUPPORT_H

#include <kquant/kquant.h>

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_SKIP = 77, POISON = 0xA5 };

// --- Errors

// The last report, and how many there were.
typedef struct report {
    kq_result result;
    unsigned count;
    char reason[512];
} report;

kq_errors report_errors(report *report);

// --- The self-test

// The step that is wrong by the verdict on a buffer read back, whose report is printed; or NULL.
const char *judge_self_test(const unsigned char *bytes);

// --- Bytes

uint64_t draw(uint64_t *state);  // splitmix64
void draw_bytes(uint64_t *state, void *bytes, size_t count);

uint32_t load_u32(const void *bytes);
void store_u32(void *bytes, uint32_t value);

// values(seed), 1024 * G bytes, and q4(seed), 144 * G bytes, as tests/vectors/README.md has them.
void draw_values(uint64_t seed, uint32_t G, unsigned char *values);
void draw_q4_k(uint64_t seed, uint32_t G, unsigned char *records);

// Q8_K records of random codes and sums and a moderate ds: legal or not, a dot takes them.
void draw_q8_k(uint64_t seed, uint32_t G, unsigned char *records);

uint64_t fnv1a64(const unsigned char *bytes, size_t count);

// --- Vectors

typedef struct quantize_vector {
    char *name;
    uint32_t G;
    unsigned char *values;
    unsigned char *records;
    kq_domain domain;  // reason and element; record is the lowest bad one
} quantize_vector;

typedef struct dot_vector {
    char *name;
    uint32_t G;
    unsigned char *lhs;
    unsigned char *rhs;
    uint32_t results[2];  // by kq_order
} dot_vector;

typedef struct bulk_vector {
    uint64_t seed;
    uint32_t G;
    uint64_t digest;
    uint32_t results[2];
} bulk_vector;

typedef struct vectors {
    quantize_vector *quantize;
    dot_vector *dot;
    bulk_vector *bulk;
    size_t quantize_count, dot_count, bulk_count;
    uint32_t largest_quantize_G, largest_dot_G, largest_bulk_G;
} vectors;

// Adds those of quantize.tsv, dot.tsv and bulk.tsv in a folder. False: the reason was printed.
bool add_vectors(vectors *vectors, const char *folder);
void free_vectors(vectors *vectors);

#endif
