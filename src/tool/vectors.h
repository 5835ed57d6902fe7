// The vectors: TSV texts read into memory. `kquant check --help` describes the files.
#ifndef KQ_TOOL_VECTORS_H
#define KQ_TOOL_VECTORS_H

#include "sha256.h"
#include "tool.h"

// A line of quantize.tsv. All bytes are as they lie in buffers, packed.
typedef struct quantize_vector {
    char *name;
    uint32_t G;
    uint8_t *values;
    uint8_t *records;
    kq_domain domain;  // reason is KQ_REASON_NONE where the outcome is "ok"
} quantize_vector;

// A line of dot.tsv. results by kq_order.
typedef struct dot_vector {
    char *name;
    uint32_t G;
    uint8_t *lhs;
    uint8_t *rhs;
    uint32_t results[2];
} dot_vector;

// A line of bulk.tsv.
typedef struct bulk_vector {
    uint64_t seed;
    uint32_t G;
    uint64_t digest;  // FNV-1a 64 of the records
    uint32_t results[2];
} bulk_vector;

typedef struct vectors {
    quantize_vector *quantize;
    size_t quantize_count;
    dot_vector *dot;
    size_t dot_count;
    bulk_vector *bulk;
    size_t bulk_count;
    bool has_op[3];                 // by kq_op: a text with vectors of this operation was given
    char digest[SHA256_HEX_BYTES];  // of the files of a folder; "" of the built-in ones
} vectors;

// Adds the vectors that the command was built with.
bool vectors_add_built_in(vectors *vectors);

// Adds those of the files quantize.tsv, dot.tsv and bulk.tsv in a folder, each of which may be
// absent.
bool vectors_add_folder(vectors *vectors, const char *folder);

// Whether the path leads to one of these files, which must not be an output.
bool vectors_has_file(const char *folder, const char *path);

// Adds those of a text. file: what it is, "quantize.tsv", "dot.tsv" or "bulk.tsv"; source: where it
// is from, for messages.
bool vectors_add_text(vectors *vectors, const char *file, const char *source, const void *text,
                      size_t bytes);

// All are false where a text is malformed or can't be read; one line has said where and why.
void vectors_free(vectors *vectors);

#endif
