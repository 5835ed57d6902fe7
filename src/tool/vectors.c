#include "vectors.h"
#include "bytes.h"
#include "files.h"
#include "platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// Made by the build from the TSV files of tests/vectors: the texts as they are.
extern const unsigned char kq_vectors_quantize[];
extern const size_t kq_vectors_quantize_bytes;
extern const unsigned char kq_vectors_dot[];
extern const size_t kq_vectors_dot_bytes;
extern const unsigned char kq_vectors_bulk[];
extern const size_t kq_vectors_bulk_bytes;

enum { MAX_COLUMNS = 6, MAX_FILE_BYTES = 1 << 30 };

// Part of the text.
typedef struct slice {
    const char *start;
    size_t length;
} slice;

// A line taken apart, and where it is, for messages.
typedef struct line {
    const char *source;
    size_t number;  // from 1
    slice columns[MAX_COLUMNS];
    size_t column_count;
} line;

static bool wrong(const line *line, const char *format, ...) TOOL_PRINTF(2, 3);

static bool wrong(const line *line, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    complain("%s:%zu: %s", line->source, line->number, reason);
    return false;
}

// --- Columns

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

static bool read_name(const line *line, size_t column, char **name)
{
    slice text = line->columns[column];
    if (text.length == 0) {
        return wrong(line, "column %zu: the name is empty", column + 1);
    }
    for (size_t i = 0; i < text.length; i++) {
        if (text.start[i] <= ' ' || text.start[i] > '~') {
            return wrong(line, "column %zu: a name holds a blank or a byte that is no ASCII",
                         column + 1);
        }
    }
    *name = allocate(text.length + 1, 1);
    memcpy(*name, text.start, text.length);
    return true;
}

static bool read_u32(const line *line, size_t column, slice text, const char *what,
                     uint32_t *number)
{
    uint64_t value = 0;
    bool is_good = text.length > 0 && text.length <= 10;
    for (size_t i = 0; is_good && i < text.length; i++) {
        is_good = text.start[i] >= '0' && text.start[i] <= '9';
        value = value * 10 + (uint64_t)(text.start[i] - '0');
    }
    if (!is_good || value > UINT32_MAX) {
        return wrong(line, "column %zu: %s is \"%.*s\", not a whole number below 2^32", column + 1,
                     what, (int)(text.length < 40 ? text.length : 40), text.start);
    }
    *number = (uint32_t)value;
    return true;
}

// A number of exactly `digits` hex digits, most significant first.
static bool read_hex_number(const line *line, size_t column, size_t digits, uint64_t *number)
{
    slice text = line->columns[column];
    *number = 0;
    bool is_good = text.length == digits;
    for (size_t i = 0; is_good && i < digits; i++) {
        int digit = hex_digit(text.start[i]);
        is_good = digit >= 0;
        *number = *number << 4 | (uint64_t)(is_good ? digit : 0);
    }
    if (!is_good) {
        return wrong(line, "column %zu: is \"%.*s\", not %zu hex digits", column + 1,
                     (int)(text.length < 40 ? text.length : 40), text.start, digits);
    }
    return true;
}

static bool read_result(const line *line, size_t column, uint32_t *bits)
{
    uint64_t number;
    if (!read_hex_number(line, column, 8, &number)) {
        return false;
    }
    *bits = (uint32_t)number;
    return true;
}

// G units of `unit` bytes, as hex; "-" is none.
static bool read_bytes(const line *line, size_t column, uint32_t G, size_t unit, uint8_t **bytes)
{
    slice text = line->columns[column];
    if (text.length == 1 && text.start[0] == '-') {
        text.length = 0;
    } else if (text.length == 0) {
        return wrong(line, "column %zu: is empty; where there are no bytes it is -", column + 1);
    }
    if (text.length % 2 != 0) {
        return wrong(line, "column %zu: an odd number of hex digits, %zu", column + 1, text.length);
    }
    uint64_t expected = (uint64_t)G * unit;
    if (text.length / 2 != expected) {
        return wrong(line, "column %zu: %zu bytes; G = %" PRIu32 " takes %" PRIu64, column + 1,
                     text.length / 2, G, expected);
    }
    *bytes = allocate(expected, 1);
    for (size_t i = 0; i < expected; i++) {
        int high = hex_digit(text.start[2 * i]);
        int low = hex_digit(text.start[2 * i + 1]);
        if (high < 0 || low < 0) {
            return wrong(line, "column %zu: \"%.2s\" at byte %zu is no hex", column + 1,
                         text.start + 2 * i, i);
        }
        (*bytes)[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

// Takes `text` off the front of *rest if it is there.
static bool skip(slice *rest, const char *text)
{
    size_t length = strlen(text);
    if (rest->length < length || memcmp(rest->start, text, length) != 0) {
        return false;
    }
    rest->start += length;
    rest->length -= length;
    return true;
}

static bool is_text(slice rest, const char *text)
{
    return skip(&rest, text) && rest.length == 0;
}

// "ok", "domain-error:RECORD:nonfinite-input@ELEMENT" or "domain-error:RECORD:inverse-overflow".
static bool read_outcome(const line *line, size_t column, uint32_t G, kq_domain *domain)
{
    slice rest = line->columns[column];
    memset(domain, 0, sizeof *domain);
    if (is_text(rest, "ok")) {
        return true;
    }
    if (skip(&rest, "domain-error:")) {
        const char *colon = memchr(rest.start, ':', rest.length);
        if (colon != NULL) {
            slice record = {rest.start, (size_t)(colon - rest.start)};
            if (!read_u32(line, column, record, "the record", &domain->record)) {
                return false;
            }
            if (domain->record >= G) {
                return wrong(line, "column %zu: record %" PRIu32 " of %" PRIu32, column + 1,
                             domain->record, G);
            }
            rest.length -= record.length + 1;
            rest.start = colon + 1;
            if (is_text(rest, "inverse-overflow")) {
                domain->reason = KQ_REASON_INVERSE_OVERFLOW;
                return true;
            }
            if (skip(&rest, "nonfinite-input@")) {
                domain->reason = KQ_REASON_NONFINITE_INPUT;
                if (!read_u32(line, column, rest, "the element", &domain->element)) {
                    return false;
                }
                if (domain->element >= KQ_BLOCK) {
                    return wrong(line, "column %zu: element %" PRIu32 " of 256", column + 1,
                                 domain->element);
                }
                return true;
            }
        }
    }
    return wrong(line,
                 "column %zu: neither ok nor domain-error:RECORD:inverse-overflow nor "
                 "domain-error:RECORD:nonfinite-input@ELEMENT",
                 column + 1);
}

// --- Lines

// The room for one more element of an array of `count`, which doubles at each power of two.
static void *grown(void *array, size_t count, size_t size)
{
    return (count & (count - 1)) == 0 ? reallocate(array, count == 0 ? 1 : 2 * count, size) : array;
}

static bool add_quantize(vectors *vectors, const line *line)
{
    vectors->quantize = grown(vectors->quantize, vectors->quantize_count, sizeof(quantize_vector));
    quantize_vector *vector = &vectors->quantize[vectors->quantize_count++];
    memset(vector, 0, sizeof *vector);
    if (!read_name(line, 0, &vector->name) ||
        !read_u32(line, 1, line->columns[1], "G", &vector->G) ||
        !read_bytes(line, 2, vector->G, KQ_BLOCK_BYTES, &vector->values) ||
        !read_outcome(line, 3, vector->G, &vector->domain) ||
        !read_bytes(line, 4, vector->G, KQ_Q8_K_BYTES, &vector->records)) {
        return false;
    }
    // The number of bad records is not in the file, but no other record has this ds.
    if (vector->domain.reason != KQ_REASON_NONE) {
        for (size_t g = 0; g < vector->G; g++) {
            vector->domain.bad_count += load_u32(vector->records + g * KQ_Q8_K_BYTES) == 0x7FC00000;
        }
    }
    return true;
}

static bool add_dot(vectors *vectors, const line *line)
{
    vectors->dot = grown(vectors->dot, vectors->dot_count, sizeof(dot_vector));
    dot_vector *vector = &vectors->dot[vectors->dot_count++];
    memset(vector, 0, sizeof *vector);
    return read_name(line, 0, &vector->name) &&
           read_u32(line, 1, line->columns[1], "G", &vector->G) &&
           read_bytes(line, 2, vector->G, KQ_Q4_K_BYTES, &vector->lhs) &&
           read_bytes(line, 3, vector->G, KQ_Q8_K_BYTES, &vector->rhs) &&
           read_result(line, 4, &vector->results[0]) && read_result(line, 5, &vector->results[1]);
}

// Bulk inputs are made up, so that no file's size bounds them.
static bool check_bulk_G(const line *line, uint32_t G)
{
    if (G <= 1u << 22) {
        return true;
    }
    complain("%s:%zu: G is %" PRIu32 "; a bulk line has at most 4194304 records", line->source,
             line->number, G);
    return false;
}

static bool add_bulk(vectors *vectors, const line *line)
{
    vectors->bulk = grown(vectors->bulk, vectors->bulk_count, sizeof(bulk_vector));
    bulk_vector *vector = &vectors->bulk[vectors->bulk_count++];
    memset(vector, 0, sizeof *vector);
    return read_hex_number(line, 0, 16, &vector->seed) &&
           read_u32(line, 1, line->columns[1], "G", &vector->G) && check_bulk_G(line, vector->G) &&
           read_hex_number(line, 2, 16, &vector->digest) &&
           read_result(line, 3, &vector->results[0]) && read_result(line, 4, &vector->results[1]);
}

// What each of the three files holds.
typedef struct schema {
    const char *file;
    size_t columns;
    bool (*add)(vectors *vectors, const line *line);
    bool has_op[3];
} schema;

static const schema schemas[] = {
    {"quantize.tsv", 5, add_quantize, {[KQ_OP_QUANTIZE] = true}},
    {"dot.tsv", 6, add_dot, {[KQ_OP_QUANTIZED_DOT] = true}},
    {"bulk.tsv", 5, add_bulk, {[KQ_OP_QUANTIZE] = true, [KQ_OP_QUANTIZED_DOT] = true}},
};

enum { SCHEMAS = sizeof schemas / sizeof schemas[0] };

// Sets the columns of a line; more than there may be are counted, not kept.
static void split(line *line, slice text)
{
    line->column_count = 0;
    for (;;) {
        const char *tab = memchr(text.start, '\t', text.length);
        size_t length = tab == NULL ? text.length : (size_t)(tab - text.start);
        if (line->column_count < MAX_COLUMNS) {
            line->columns[line->column_count] = (slice){text.start, length};
        }
        line->column_count++;
        if (tab == NULL) {
            return;
        }
        text.start += length + 1;
        text.length -= length + 1;
    }
}

static bool add_text(vectors *vectors, const schema *schema, const char *source, const void *text,
                     size_t bytes)
{
    line line = {.source = source};
    const char *start = text;
    for (size_t at = 0; at < bytes;) {
        line.number++;
        const char *newline = memchr(start + at, '\n', bytes - at);
        slice rest = {start + at, newline == NULL ? bytes - at : (size_t)(newline - start) - at};
        at += rest.length + 1;
        if (rest.length > 0 && rest.start[rest.length - 1] == '\r') {
            rest.length--;
        }
        if (rest.length == 0 || rest.start[0] == '#') {
            continue;
        }
        split(&line, rest);
        if (line.column_count != schema->columns) {
            return wrong(&line, "%zu columns, not %zu", line.column_count, schema->columns);
        }
        if (!schema->add(vectors, &line)) {
            return false;
        }
    }
    for (int op = 0; op < 3; op++) {
        vectors->has_op[op] |= schema->has_op[op];
    }
    return true;
}

// --- Sources

bool vectors_add_text(vectors *vectors, const char *file, const char *source, const void *text,
                      size_t bytes)
{
    size_t i = 0;
    while (strcmp(schemas[i].file, file) != 0) {
        i++;
    }
    return add_text(vectors, &schemas[i], source, text, bytes);
}

bool vectors_add_built_in(vectors *vectors)
{
    return vectors_add_text(vectors, "quantize.tsv", "built-in quantize.tsv", kq_vectors_quantize,
                            kq_vectors_quantize_bytes) &&
           vectors_add_text(vectors, "dot.tsv", "built-in dot.tsv", kq_vectors_dot,
                            kq_vectors_dot_bytes) &&
           vectors_add_text(vectors, "bulk.tsv", "built-in bulk.tsv", kq_vectors_bulk,
                            kq_vectors_bulk_bytes);
}

bool vectors_add_folder(vectors *vectors, const char *folder)
{
    if (platform_path_kind(folder) != PATH_FOLDER) {
        complain("--vectors=%s: there is no such folder", folder);
        return false;
    }
    bool is_good = true;
    sha256 hash;
    sha256_begin(&hash);
    for (size_t i = 0; is_good && i < SCHEMAS; i++) {
        size_t bytes = strlen(folder) + strlen(schemas[i].file) + 2;
        char *path = allocate(bytes, 1);
        snprintf(path, bytes, "%s/%s", folder, schemas[i].file);
        path_kind kind = platform_path_kind(path);
        if (kind == PATH_OTHER) {
            complain("%s: is no ordinary file", path);
            is_good = false;
        } else if (kind != PATH_ABSENT) {
            uint8_t *text = NULL;
            size_t count = 0;
            is_good = read_file(path, MAX_FILE_BYTES, &text, &count) &&
                      add_text(vectors, &schemas[i], path, text, count);
            sha256_add(&hash, schemas[i].file, strlen(schemas[i].file) + 1);
            sha256_add(&hash, text, count);
            free(text);
        }
        free(path);
    }
    sha256_end(&hash, vectors->digest);
    return is_good;
}

bool vectors_has_file(const char *folder, const char *path)
{
    bool has = false;
    for (size_t i = 0; i < SCHEMAS; i++) {
        size_t bytes = strlen(folder) + strlen(schemas[i].file) + 2;
        char *own = allocate(bytes, 1);
        snprintf(own, bytes, "%s/%s", folder, schemas[i].file);
        has |= is_same_file(own, path);
        free(own);
    }
    return has;
}

void vectors_free(vectors *vectors)
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
