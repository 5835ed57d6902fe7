#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Errors

static void take_report(void *user, kq_result result, const char *reason)
{
    report *r = user;
    r->result = result;
    r->count++;
    snprintf(r->reason, sizeof r->reason, "%s", reason);
}

kq_errors report_errors(report *report)
{
    return (kq_errors){take_report, report};
}

// --- The self-test

// A verdict that contradicts itself is taken for no verdict.
const char *judge_self_test(const unsigned char *bytes)
{
    report said = {0};
    const kq_errors errors = report_errors(&said);
    const char *step = "none";
    kq_result result = kq_self_test_verdict(bytes, &step, &errors);
    if (step == NULL) {
        return result == KQ_OK && said.count == 0 ? NULL : "no step";
    }
    printf("%s\n", said.reason);
    return result == KQ_ERROR_DRIVER && said.count == 1 && strstr(said.reason, step) == said.reason
               ? step
               : "no verdict";
}

// --- Bytes

uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void draw_bytes(uint64_t *state, void *bytes, size_t count)
{
    unsigned char *at = bytes;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t bits = draw(state);
        for (size_t k = i; k < i + 8 && k < count; k++, bits >>= 8) {
            at[k] = (unsigned char)bits;
        }
    }
}

uint32_t load_u32(const void *bytes)
{
    const unsigned char *b = bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

void store_u32(void *bytes, uint32_t value)
{
    unsigned char *b = bytes;
    for (int i = 0; i < 4; i++) {
        b[i] = (unsigned char)(value >> 8 * i);
    }
}

void draw_values(uint64_t seed, uint32_t G, unsigned char *values)
{
    for (size_t i = 0; i < (size_t)G * KQ_BLOCK; i++) {
        uint32_t x = (uint32_t)draw(&seed);
        store_u32(values + 4 * i, (x & 0x807FFFFFu) | (120u + ((x >> 23) & 255u) % 8u) << 23);
    }
}

void draw_q4_k(uint64_t seed, uint32_t G, unsigned char *records)
{
    draw_bytes(&seed, records, (size_t)G * KQ_Q4_K_BYTES);
    for (size_t g = 0; g < G; g++) {
        unsigned char *record = records + g * KQ_Q4_K_BYTES;
        for (int i = 0; i < 4; i += 2) {
            uint32_t h = record[i] | (uint32_t)record[i + 1] << 8;
            h = (h & 0x83FFu) | (8u + ((h >> 10) & 7u)) << 10;
            record[i] = (unsigned char)h;
            record[i + 1] = (unsigned char)(h >> 8);
        }
    }
}

void draw_q8_k(uint64_t seed, uint32_t G, unsigned char *records)
{
    draw_bytes(&seed, records, (size_t)G * KQ_Q8_K_BYTES);
    for (size_t g = 0; g < G; g++) {
        unsigned char *record = records + g * KQ_Q8_K_BYTES;
        uint32_t ds = load_u32(record);
        store_u32(record, (ds & 0x807FFFFFu) | (120u + ((ds >> 23) & 7u)) << 23);
    }
}

uint64_t fnv1a64(const unsigned char *bytes, size_t count)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

// --- Vectors

enum { COLUMN_CAPACITY = 6 };

static void *checked(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "out of memory for vectors\n");
        exit(1);
    }
    return memory;
}

static char *read_text(const char *folder, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        fprintf(stderr, "%s can't be read\n", path);
        return NULL;
    }
    size_t bytes = 0;
    size_t capacity = 1 << 20;
    char *text = checked(malloc(capacity));
    for (size_t got; (got = fread(text + bytes, 1, capacity - bytes - 1, stream)) > 0;) {
        bytes += got;
        if (capacity - bytes < 2) {
            capacity *= 2;
            text = checked(realloc(text, capacity));
        }
    }
    text[bytes] = '\0';
    fclose(stream);
    return text;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// `count` bytes from hex, "-" for none; NULL if the text holds anything else.
static unsigned char *read_hex(const char *text, size_t count)
{
    unsigned char *bytes = checked(malloc(count + 1));
    bool is_good = strlen(text) == 2 * count || (count == 0 && strcmp(text, "-") == 0);
    for (size_t i = 0; i < count && is_good; i++) {
        is_good = digit(text[2 * i]) >= 0 && digit(text[2 * i + 1]) >= 0;
        bytes[i] = (unsigned char)(is_good ? digit(text[2 * i]) << 4 | digit(text[2 * i + 1]) : 0);
    }
    if (!is_good) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static bool read_number(const char *text, int base, uint64_t *number)
{
    char *end = NULL;
    *number = strtoull(text, &end, base);
    return end != text && *end == '\0';
}

static bool read_outcome(const char *text, kq_domain *domain)
{
    unsigned record = 0;
    unsigned element = 0;
    int length = -1;
    *domain = (kq_domain){0};
    if (strcmp(text, "ok") == 0) {
        return true;
    }
    domain->reason = KQ_REASON_NONFINITE_INPUT;
    if (sscanf(text, "domain-error:%u:nonfinite-input@%u%n", &record, &element, &length) != 2) {
        domain->reason = KQ_REASON_INVERSE_OVERFLOW;
        sscanf(text, "domain-error:%u:inverse-overflow%n", &record, &length);
    }
    domain->record = record;
    domain->element = element;
    return length >= 0 && text[length] == '\0';
}

// Room for one more.
static void *grown(void *array, size_t count, size_t bytes)
{
    return (count & (count - 1)) == 0
               ? checked(realloc(array, (count == 0 ? 1 : 2 * count) * bytes))
               : array;
}

static char *copied(const char *text)
{
    return strcpy(checked(malloc(strlen(text) + 1)), text);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static bool add_quantize(vectors *vectors, char *const columns[])
{
    vectors->quantize = grown(vectors->quantize, vectors->quantize_count, sizeof(quantize_vector));
    quantize_vector *v = &vectors->quantize[vectors->quantize_count++];
    uint64_t G = 0;
    memset(v, 0, sizeof *v);
    v->name = copied(columns[0]);
    bool is_good = read_number(columns[1], 10, &G) && read_outcome(columns[3], &v->domain);
    v->G = (uint32_t)G;
    v->values = read_hex(columns[2], (size_t)G * KQ_BLOCK_BYTES);
    v->records = read_hex(columns[4], (size_t)G * KQ_Q8_K_BYTES);
    vectors->largest_quantize_G = larger(vectors->largest_quantize_G, v->G);
    for (size_t g = 0; g < G && v->records != NULL; g++) {
        // Only a bad record has this ds.
        v->domain.bad_count += load_u32(v->records + g * KQ_Q8_K_BYTES) == 0x7FC00000u;
    }
    return is_good && v->values != NULL && v->records != NULL;
}

static bool read_results(char *const columns[], uint32_t results[2])
{
    uint64_t bits[2] = {0, 0};
    bool is_good = read_number(columns[0], 16, &bits[0]) && read_number(columns[1], 16, &bits[1]);
    results[KQ_ORDER_SEQUENTIAL] = (uint32_t)bits[0];
    results[KQ_ORDER_PAIRWISE] = (uint32_t)bits[1];
    return is_good;
}

static bool add_dot(vectors *vectors, char *const columns[])
{
    vectors->dot = grown(vectors->dot, vectors->dot_count, sizeof(dot_vector));
    dot_vector *v = &vectors->dot[vectors->dot_count++];
    uint64_t G = 0;
    memset(v, 0, sizeof *v);
    v->name = copied(columns[0]);
    bool is_good = read_number(columns[1], 10, &G) && read_results(&columns[4], v->results);
    v->G = (uint32_t)G;
    v->lhs = read_hex(columns[2], (size_t)G * KQ_Q4_K_BYTES);
    v->rhs = read_hex(columns[3], (size_t)G * KQ_Q8_K_BYTES);
    vectors->largest_dot_G = larger(vectors->largest_dot_G, v->G);
    return is_good && v->lhs != NULL && v->rhs != NULL;
}

static bool add_bulk(vectors *vectors, char *const columns[])
{
    vectors->bulk = grown(vectors->bulk, vectors->bulk_count, sizeof(bulk_vector));
    bulk_vector *v = &vectors->bulk[vectors->bulk_count++];
    uint64_t G = 0;
    memset(v, 0, sizeof *v);
    bool is_good = read_number(columns[0], 16, &v->seed) && read_number(columns[1], 10, &G) &&
                   read_number(columns[2], 16, &v->digest) && read_results(&columns[3], v->results);
    v->G = (uint32_t)G;
    vectors->largest_bulk_G = larger(vectors->largest_bulk_G, v->G);
    return is_good;
}

static bool add_file(vectors *vectors, const char *folder, const char *file, int column_count,
                     bool (*add)(struct vectors *vectors, char *const columns[]))
{
    char *text = read_text(folder, file);
    bool is_good = text != NULL;
    int number = 0;
    for (char *line = text; is_good && *line != '\0';) {
        char *end = line + strcspn(line, "\n");
        char *next = *end != '\0' ? end + 1 : end;
        char *columns[COLUMN_CAPACITY] = {line};
        int count = 1;
        *end = '\0';
        number++;
        if (*line != '#' && *line != '\0') {
            for (char *c = line; *c != '\0'; c++) {
                if (*c == '\t') {
                    *c = '\0';
                    if (count < COLUMN_CAPACITY) {
                        columns[count] = c + 1;
                    }
                    count++;
                }
            }
            is_good = count == column_count && add(vectors, columns);
        }
        line = next;
    }
    if (text != NULL && !is_good) {
        fprintf(stderr, "%s/%s:%d: no vector\n", folder, file, number);
    }
    free(text);
    return is_good;
}

bool add_vectors(vectors *vectors, const char *folder)
{
    return add_file(vectors, folder, "quantize.tsv", 5, add_quantize) &&
           add_file(vectors, folder, "dot.tsv", 6, add_dot) &&
           add_file(vectors, folder, "bulk.tsv", 5, add_bulk);
}

void free_vectors(vectors *vectors)
{
    for (size_t i = 0; i < vectors->quantize_count; i++) {
        free(vectors->quantize[i].name);
        free(vectors->quantize[i].values);
        free(vectors->quantize[i].records);
    }
    for (size_t i = 0; i < vectors->dot_count; i++) {
        free(vectors->dot[i].name);
        free(vectors->dot[i].lhs);
        free(vectors->dot[i].rhs);
    }
    free(vectors->quantize);
    free(vectors->dot);
    free(vectors->bulk);
    memset(vectors, 0, sizeof *vectors);
}
