// A read-only view of a GGUF file: where each tensor lies and what it is. Versions 2 and 3,
// little-endian. Written from the format's public description; needs nothing but C11 (and mmap,
// where there is one). Metadata is checked and skipped, only general.alignment is used.
//
// Nothing in the file is trusted. Every count, length and offset is compared with the bytes that
// are there before it is used, in 64 bits, so no file can make this read outside of it or ask for
// memory out of proportion to its size.
#ifndef GGUF_H
#define GGUF_H

#include <stddef.h>
#include <stdint.h>

#define GGUF_MAX_DIMS    4u
#define GGUF_MAX_NESTING 8u    // arrays within arrays in metadata
#define GGUF_ERROR_BYTES 512u  // an error is one line of at most this, its end included
#define GGUF_TYPE_Q4_K   12u

// As in the file: any bytes, no terminator.
typedef struct gguf_string {
    const char *bytes;
    uint64_t length;
} gguf_string;

typedef struct gguf_tensor {
    gguf_string name;
    uint64_t dims[GGUF_MAX_DIMS];  // dims[0] is the length of a row; 1 beyond dim_count; none is 0
    uint32_t dim_count;            // 1 to 4
    uint32_t type;
    uint64_t offset;  // bytes from the start of the file, a multiple of the file's alignment
    uint64_t bytes;   // [offset, offset + bytes) lies in the file; 0: type isn't a known one
    uint64_t rows;    // dims[1] * dims[2] * dims[3]
} gguf_tensor;

typedef struct gguf_file {
    const unsigned char *bytes;
    uint64_t size;
    uint32_t version;
    uint32_t alignment;  // a power of two, from 1
    gguf_tensor *tensors;
    uint64_t tensor_count;  // their names differ, and their bytes don't overlap
    int owns_bytes;
} gguf_file;

// Both return 1, or 0 with an error that names the tensor or key it is about; then there is nothing
// to close. open maps the file (Windows: reads it), which must not shrink before close. parse takes
// bytes that the caller keeps until close.
int gguf_open(gguf_file *file, const char *path, char error[GGUF_ERROR_BYTES]);
int gguf_parse(gguf_file *file, const void *bytes, size_t size, char error[GGUF_ERROR_BYTES]);
void gguf_close(gguf_file *file);

// NULL if there is none of that name, which is compared byte by byte.
const gguf_tensor *gguf_find(const gguf_file *file, const char *name);

// "Q4_K", ...; "unknown" for a type that this reader has no name for.
const char *gguf_type_name(uint32_t type);

// A name in quotes, safe on any terminal: whatever isn't printable ASCII becomes \xNN, and a name
// too long for text ends in "...". Returns text. text_bytes is at least 8.
char *gguf_quote(gguf_string name, char *text, size_t text_bytes);

#endif
