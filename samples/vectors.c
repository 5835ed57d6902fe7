#include "vectors.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Records of one line: of bulk.tsv they are drawn, so that no file's size bounds them.
enum { MOST_COLUMNS = 6, LONGEST_NAME = 64, MOST_RECORDS = 1 << 22 };

static void require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "vectors: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static void *allocate(size_t bytes)
{
    void *data = malloc(bytes + 1);
    require(data != NULL, "out of memory");
    return data;
}

// --- Numbers and bytes

static unsigned read_digit(char c)
{
    const char *const digits = "0123456789abcdef";
    const char *found = c >= 'A' && c <= 'F' ? strchr(digits, c - 'A' + 'a')
                        : c != '\0'          ? strchr(digits, c)
                                             : NULL;
    require(found != NULL, "that is no digit");
    return (unsigned)(found - digits);
}

// Digits up to `end`, and a number of at most so many bits.
static uint64_t read_number(const char *text, char end, unsigned base, unsigned bits)
{
    const uint64_t most = UINT64_MAX >> (64 - bits);
    uint64_t number = 0;
    require(*text != end, "a number is missing");
    for (; *text != end; text++) {
        const unsigned digit = read_digit(*text);
        require(digit < base && number <= (most - digit) / base, "that is no such number");
        number = number * base + digit;
    }
    return number;
}

static uint32_t read_G(const char *text)
{
    const uint64_t G = read_number(text, '\0', 10, 32);
    require(G <= MOST_RECORDS, "a line has too many records");
    return (uint32_t)G;
}

// `bytes` bytes in hexadecimal; "-" where there are none.
static unsigned char *read_bytes(const char *text, size_t bytes)
{
    require(bytes == 0 ? strcmp(text, "-") == 0 : strlen(text) == 2 * bytes, "bytes are missing");
    unsigned char *data = allocate(bytes);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(read_digit(text[2 * i]) << 4 | read_digit(text[2 * i + 1]));
    }
    return data;
}

static void put(unsigned char *data, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(number >> 8 * i);
    }
}

uint64_t vectors_digest(const unsigned char *data, size_t bytes)
{
    uint64_t digest = 0xCBF29CE484222325u;  // FNV-1a
    for (size_t i = 0; i < bytes; i++) {
        digest = (digest ^ data[i]) * 0x100000001B3u;
    }
    return digest;
}

// --- Inputs of bulk.tsv

static uint64_t draw(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;  // SplitMix64
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static unsigned char *draw_values(uint64_t seed, uint32_t G)
{
    unsigned char *values = allocate((size_t)G * VECTORS_VALUES_BYTES);
    for (size_t i = 0; i < (size_t)G * VECTORS_VALUES_BYTES; i += 4) {
        const uint32_t x = (uint32_t)draw(&seed);
        put(values + i, (x & 0x807FFFFFu) | (120 + (x >> 23 & 255) % 8) << 23, 4);
    }
    return values;
}

static unsigned char *draw_q4_k(uint64_t seed, uint32_t G)
{
    unsigned char *records = allocate((size_t)G * VECTORS_Q4_K_BYTES);
    for (size_t i = 0; i < (size_t)G * VECTORS_Q4_K_BYTES; i += 8) {
        put(records + i, draw(&seed), 8);
    }
    for (size_t i = 0; i < (size_t)G * VECTORS_Q4_K_BYTES; i += VECTORS_Q4_K_BYTES) {
        for (size_t high = i + 1; high <= i + 3; high += 2) {  // of d and of dmin
            records[high] =
                (unsigned char)((records[high] & 0x83) | (8 + (records[high] >> 2 & 7)) << 2);
        }
    }
    return records;
}

// --- Lines

static void read_quantize(char *const column[], vector *v)
{
    v->G = read_G(column[1]);
    v->values = read_bytes(column[2], (size_t)v->G * VECTORS_VALUES_BYTES);
    const char *const bad = "domain-error:";
    const bool is_bad = strncmp(column[3], bad, strlen(bad)) == 0;
    require(is_bad || strcmp(column[3], "ok") == 0, "that is no status");
    v->lowest_bad =
        is_bad ? (uint32_t)read_number(column[3] + strlen(bad), ':', 10, 32) : UINT32_MAX;
    v->records = read_bytes(column[4], (size_t)v->G * VECTORS_Q8_K_BYTES);
}

static void read_dot(char *const column[], vector *v)
{
    v->G = read_G(column[1]);
    v->lhs = read_bytes(column[2], (size_t)v->G * VECTORS_Q4_K_BYTES);
    v->records = read_bytes(column[3], (size_t)v->G * VECTORS_Q8_K_BYTES);
    v->sequential = (uint32_t)read_number(column[4], '\0', 16, 32);
    v->pairwise = (uint32_t)read_number(column[5], '\0', 16, 32);
}

static void read_bulk(char *const column[], vector *v)
{
    const uint64_t seed = read_number(column[0], '\0', 16, 64);
    v->G = read_G(column[1]);
    v->values = draw_values(seed, v->G);
    v->digest = read_number(column[2], '\0', 16, 64);
    v->lowest_bad = UINT32_MAX;
    v->lhs = draw_q4_k(seed + 1, v->G);
    v->sequential = (uint32_t)read_number(column[3], '\0', 16, 32);
    v->pairwise = (uint32_t)read_number(column[4], '\0', 16, 32);
}

static const struct {
    const char *name;
    int columns;
    void (*read)(char *const column[], vector *v);
} files[] = {
    {"quantize.tsv", 5, read_quantize}, {"dot.tsv", 6, read_dot}, {"bulk.tsv", 5, read_bulk}};

static char *read_file(const char *folder, const char *name)
{
    char path[4096];
    require(snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path), folder);
    FILE *file = fopen(path, "rb");
    require(file != NULL, path);
    require(fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0, path);
    const size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = allocate(bytes);
    require(fread(text, 1, bytes, file) == bytes, path);
    fclose(file);
    text[bytes] = '\0';
    require(strlen(text) == bytes, "a file has a NUL in it");
    return text;
}

// Ends what comes up to `end` there, and returns what is behind; NULL at the end of the text.
static char *cut(char *text, char end)
{
    char *found = strchr(text, end);
    if (found == NULL) {
        return NULL;
    }
    *found = '\0';
    return found + 1;
}

static vector read_line(char *line, int columns, void (*read)(char *const column[], vector *v))
{
    vector v = {.lowest_bad = UINT32_MAX};
    char *column[MOST_COLUMNS];
    int count = 0;
    for (char *text = line; text != NULL && count < MOST_COLUMNS; count++) {
        column[count] = text;
        text = cut(text, '\t');
    }
    require(count == columns, "a line has another number of columns");
    read(column, &v);
    char *name = allocate(LONGEST_NAME);
    snprintf(name, LONGEST_NAME, "%s", column[0]);
    v.name = name;
    return v;
}

vector *vectors_read(const char *folder, size_t *count)
{
    vector *vectors = NULL;
    *count = 0;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char *text = read_file(folder, files[i].name);
        for (char *line = text, *next; line != NULL; line = next) {
            next = cut(line, '\n');
            if (*line != '#' && *line != '\0') {
                vectors = realloc(vectors, (*count + 1) * sizeof(*vectors));
                require(vectors != NULL, "out of memory");
                vectors[(*count)++] = read_line(line, files[i].columns, files[i].read);
            }
        }
        free(text);
    }
    return vectors;
}

void vectors_free(vector *vectors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)vectors[i].name);
        free(vectors[i].values);
        free(vectors[i].records);
        free(vectors[i].lhs);
    }
    free(vectors);
}
