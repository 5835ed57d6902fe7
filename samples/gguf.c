#if !defined(_WIN32)
# define _POSIX_C_SOURCE   200809L
# define _FILE_OFFSET_BITS 64
#endif

#include "gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(_WIN32)
# include <fcntl.h>
# include <sys/mman.h>
# include <sys/stat.h>
# include <unistd.h>
#endif

// --- Types

// A row consists of whole blocks of so many values in so many bytes.
typedef struct tensor_type {
    const char *name;
    uint32_t block_values;
    uint32_t block_bytes;
} tensor_type;

// By the number in the file. Gaps are types that were withdrawn.
static const tensor_type tensor_types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},      [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},
    [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},      [10] = {"Q2_K", 256, 84},
    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66},
    [17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},
    [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},
    [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
};

static const tensor_type *find_type(uint32_t type)
{
    if (type >= sizeof(tensor_types) / sizeof(tensor_types[0]) || !tensor_types[type].name) {
        return NULL;
    }
    return &tensor_types[type];
}

const char *gguf_type_name(uint32_t type)
{
    const tensor_type *known = find_type(type);
    return known ? known->name : "unknown";
}

// Types of metadata values
enum { VALUE_UINT32 = 4, VALUE_STRING = 8, VALUE_ARRAY = 9, VALUE_TYPE_COUNT = 13 };

// Bytes of a value; 0 for strings and arrays, which say how long they are.
static const unsigned char value_bytes[VALUE_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// The least bytes of one entry, to judge a count by: what a string, an array, a key with its value
// and a tensor take at least.
enum { STRING_LEAST = 8, ARRAY_LEAST = 12, PAIR_LEAST = 13, TENSOR_LEAST = 32 };

// --- Errors

char *gguf_quote(gguf_string name, char *text, size_t text_bytes)
{
    const size_t tail = sizeof("...\"");  // kept free for the end
    size_t at = 0;
    text[at++] = '"';
    for (uint64_t i = 0; i < name.length; i++) {
        const unsigned char c = (unsigned char)name.bytes[i];
        const int plain = c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
        if (at + (plain ? 1 : 4) + tail > text_bytes) {
            memcpy(text + at, "...", 3);
            at += 3;
            break;
        }
        if (plain) {
            text[at++] = (char)c;
        } else {
            at += (size_t)snprintf(text + at, 5, "\\x%02x", c);
        }
    }
    text[at++] = '"';
    text[at] = 0;
    return text;
}

// The place in the file, and what is being read there, for errors.
typedef struct cursor {
    const unsigned char *bytes;
    uint64_t size;
    uint64_t at;       // never above size
    const char *what;  // "the header", "metadata entry", "tensor"
    uint64_t index;    // which of them
    gguf_string name;  // once it has been read; bytes is NULL before
    char *error;
} cursor;

// Always returns 0.
static int fail(const cursor *in, const char *format, ...)
{
    char name[160];
    char text[GGUF_ERROR_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (in->name.bytes) {
        snprintf(in->error, GGUF_ERROR_BYTES, "%s %s: %s", in->what,
                 gguf_quote(in->name, name, sizeof(name)), text);
    } else if (in->index != UINT64_MAX) {
        snprintf(in->error, GGUF_ERROR_BYTES, "%s %" PRIu64 ": %s", in->what, in->index, text);
    } else {
        snprintf(in->error, GGUF_ERROR_BYTES, "%s", text);
    }
    return 0;
}

static int fail_at_end(const cursor *in, const char *part)
{
    return fail(in, "the file of %" PRIu64 " bytes ends inside %s", in->size, part);
}

// --- Reading

static uint64_t left(const cursor *in)
{
    return in->size - in->at;
}

// bytes is at most left(in).
static uint64_t take(cursor *in, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)in->bytes[in->at++] << (8 * i);
    }
    return value;
}

static int read_u32(cursor *in, const char *part, uint32_t *value)
{
    if (left(in) < 4) {
        return fail_at_end(in, part);
    }
    *value = (uint32_t)take(in, 4);
    return 1;
}

static int read_u64(cursor *in, const char *part, uint64_t *value)
{
    if (left(in) < 8) {
        return fail_at_end(in, part);
    }
    *value = take(in, 8);
    return 1;
}

static int read_string(cursor *in, const char *part, gguf_string *string)
{
    uint64_t length = 0;
    if (!read_u64(in, part, &length)) {
        return 0;
    }
    if (length > left(in)) {
        return fail(in, "%s is said to have %" PRIu64 " bytes, the file has %" PRIu64 " more", part,
                    length, left(in));
    }
    string->bytes = (const char *)in->bytes + in->at;
    string->length = length;
    in->at += length;
    return 1;
}

static int equals(gguf_string string, const char *text)
{
    return string.length == strlen(text) && !memcmp(string.bytes, text, (size_t)string.length);
}

// --- Metadata

// depth: the arrays around this value.
static int skip_value(cursor *in, uint32_t type, unsigned depth)
{
    if (type >= VALUE_TYPE_COUNT) {
        return fail(in, "values of type %" PRIu32 " don't exist", type);
    }
    if (type == VALUE_STRING) {
        gguf_string string;
        return read_string(in, "a string", &string);
    }
    if (type != VALUE_ARRAY) {
        if (left(in) < value_bytes[type]) {
            return fail_at_end(in, "the value");
        }
        in->at += value_bytes[type];
        return 1;
    }
    uint32_t element = 0;
    uint64_t count = 0;
    if (depth == GGUF_MAX_NESTING) {
        return fail(in, "arrays are nested deeper than %u", GGUF_MAX_NESTING);
    }
    if (!read_u32(in, "an array", &element) || !read_u64(in, "an array", &count)) {
        return 0;
    }
    if (element >= VALUE_TYPE_COUNT) {
        return fail(in, "arrays of type %" PRIu32 " don't exist", element);
    }
    const unsigned least = element == VALUE_STRING  ? STRING_LEAST
                           : element == VALUE_ARRAY ? ARRAY_LEAST
                                                    : value_bytes[element];
    if (count > left(in) / least) {
        return fail(in,
                    "an array is said to have %" PRIu64 " elements, the file has %" PRIu64
                    " more bytes",
                    count, left(in));
    }
    if (value_bytes[element]) {
        in->at += count * value_bytes[element];
        return 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!skip_value(in, element, depth + 1)) {
            return 0;
        }
    }
    return 1;
}

static int read_alignment(cursor *in, uint32_t type, uint32_t *alignment)
{
    if (type != VALUE_UINT32) {
        return fail(in, "must be a uint32 (type %d), is of type %" PRIu32, VALUE_UINT32, type);
    }
    if (!read_u32(in, "the value", alignment)) {
        return 0;
    }
    if (*alignment == 0 || (*alignment & (*alignment - 1))) {
        return fail(in, "must be a power of two, is %" PRIu32, *alignment);
    }
    return 1;
}

static int read_metadata(cursor *in, uint64_t count, gguf_file *file)
{
    int has_alignment = 0;
    in->what = "metadata entry";
    for (uint64_t i = 0; i < count; i++) {
        uint32_t type = 0;
        in->index = i;
        in->name = (gguf_string){0};
        gguf_string key = {0};
        if (!read_string(in, "its key", &key)) {
            return 0;
        }
        in->name = key;
        if (!read_u32(in, "its type", &type)) {
            return 0;
        }
        if (!equals(key, "general.alignment")) {
            if (!skip_value(in, type, 0)) {
                return 0;
            }
            continue;
        }
        if (has_alignment) {
            return fail(in, "is there twice");
        }
        has_alignment = 1;
        if (!read_alignment(in, type, &file->alignment)) {
            return 0;
        }
    }
    return 1;
}

// --- Tensors

// Sets rows and bytes. A product that doesn't fit 64 bits can't fit the file either.
static int measure(cursor *in, gguf_tensor *tensor)
{
    const tensor_type *type = find_type(tensor->type);
    uint64_t rows = 1;
    for (unsigned i = 1; i < GGUF_MAX_DIMS; i++) {
        if (rows > UINT64_MAX / tensor->dims[i]) {
            return fail(in, "its dimensions multiply to more than 64 bits hold");
        }
        rows *= tensor->dims[i];
    }
    tensor->rows = rows;
    tensor->bytes = 0;
    if (!type) {
        return 1;
    }
    if (tensor->dims[0] % type->block_values) {
        return fail(in, "is of type %s, but its row of %" PRIu64 " values is not a multiple of %u",
                    type->name, tensor->dims[0], type->block_values);
    }
    const uint64_t blocks = tensor->dims[0] / type->block_values;
    if (blocks > UINT64_MAX / type->block_bytes ||
        rows > UINT64_MAX / (blocks * type->block_bytes)) {
        return fail(in, "its dimensions multiply to more than 64 bits hold");
    }
    tensor->bytes = rows * blocks * type->block_bytes;
    return 1;
}

// Leaves the offset as in the file: from the start of the data.
static int read_tensor(cursor *in, gguf_tensor *tensor)
{
    in->name = (gguf_string){0};
    if (!read_string(in, "its name", &tensor->name)) {
        return 0;
    }
    in->name = tensor->name;
    if (!read_u32(in, "its number of dimensions", &tensor->dim_count)) {
        return 0;
    }
    if (tensor->dim_count == 0 || tensor->dim_count > GGUF_MAX_DIMS) {
        return fail(in, "has %" PRIu32 " dimensions, not 1 to %u", tensor->dim_count,
                    GGUF_MAX_DIMS);
    }
    for (unsigned i = 0; i < GGUF_MAX_DIMS; i++) {
        tensor->dims[i] = 1;
        if (i < tensor->dim_count && !read_u64(in, "its dimensions", &tensor->dims[i])) {
            return 0;
        }
        if (tensor->dims[i] == 0) {
            return fail(in, "dimension %u is 0", i);
        }
    }
    return read_u32(in, "its type", &tensor->type) && read_u64(in, "its offset", &tensor->offset) &&
           measure(in, tensor);
}

static int place(cursor *in, gguf_tensor *tensor, uint64_t data_start, uint32_t alignment)
{
    in->name = tensor->name;
    if (tensor->offset & (alignment - 1)) {
        return fail(in,
                    "its offset %" PRIu64 " is not a multiple of the file's alignment, %" PRIu32,
                    tensor->offset, alignment);
    }
    const uint64_t room = in->size < data_start ? 0 : in->size - data_start;
    if (in->size < data_start || tensor->offset > room) {
        return fail(
            in, "its offset %" PRIu64 " is beyond the end; the file has %" PRIu64 " bytes of data",
            tensor->offset, room);
    }
    if (tensor->bytes > room - tensor->offset) {
        return fail(in,
                    "its %" PRIu64 " bytes at offset %" PRIu64
                    " go beyond the end; the file has %" PRIu64 " bytes of data",
                    tensor->bytes, tensor->offset, room);
    }
    tensor->offset += data_start;
    return 1;
}

static int compare_names(const void *a, const void *b)
{
    const gguf_string x = (*(const gguf_tensor *const *)a)->name;
    const gguf_string y = (*(const gguf_tensor *const *)b)->name;
    const uint64_t common = x.length < y.length ? x.length : y.length;
    const int order = common ? memcmp(x.bytes, y.bytes, (size_t)common) : 0;
    return order ? order : (x.length > y.length) - (x.length < y.length);
}

static int compare_offsets(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a;
    const gguf_tensor *y = *(const gguf_tensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

// No two of one name, and no two that share bytes. sorted has room for all tensors.
static int check_neighbours(cursor *in, const gguf_file *file, const gguf_tensor **sorted)
{
    const size_t count = (size_t)file->tensor_count;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &file->tensors[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < count; i++) {
        if (!compare_names(&sorted[i - 1], &sorted[i])) {
            in->name = sorted[i]->name;
            return fail(in, "there are two of this name");
        }
    }
    qsort(sorted, count, sizeof(*sorted), compare_offsets);
    const gguf_tensor *last = NULL;  // the last one whose size is known
    for (size_t i = 0; i < count; i++) {
        if (sorted[i]->bytes == 0) {
            continue;
        }
        if (last && sorted[i]->offset - last->offset < last->bytes) {
            char name[160];
            in->name = sorted[i]->name;
            return fail(in, "its bytes overlap those of tensor %s",
                        gguf_quote(last->name, name, sizeof(name)));
        }
        last = sorted[i];
    }
    return 1;
}

static int check_all(cursor *in, const gguf_file *file)
{
    const gguf_tensor **sorted = malloc((size_t)(file->tensor_count + 1) * sizeof(*sorted));
    const int is_good = sorted ? check_neighbours(in, file, sorted) : fail(in, "out of memory");
    free(sorted);
    return is_good;
}

static int read_tensors(cursor *in, gguf_file *file)
{
    in->what = "tensor";
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        in->index = i;
        if (!read_tensor(in, &file->tensors[i])) {
            return 0;
        }
    }
    const uint64_t mask = file->alignment - 1;
    const uint64_t data_start = (in->at + mask) & ~mask;
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        if (!place(in, &file->tensors[i], data_start, file->alignment)) {
            return 0;
        }
    }
    return check_all(in, file);
}

// --- The file

static int read_header(cursor *in, gguf_file *file, uint64_t *pair_count)
{
    if (in->size == 0) {
        return fail(in, "the file is empty");
    }
    if (memcmp(in->bytes, "GGUF", in->size < 4 ? (size_t)in->size : 4)) {
        return fail(in, "not a GGUF file: it doesn't begin with \"GGUF\"");
    }
    if (in->size < 24) {
        return fail_at_end(in, "the header");
    }
    in->at = 4;
    file->version = (uint32_t)take(in, 4);
    if (file->version && !(file->version & 0xFFFFu)) {
        return fail(in, "the file is big-endian; only little-endian files are supported");
    }
    if (file->version != 2 && file->version != 3) {
        return fail(in, "the file is of GGUF version %" PRIu32 "; versions 2 and 3 are supported",
                    file->version);
    }
    file->tensor_count = take(in, 8);
    *pair_count = take(in, 8);
    if (*pair_count > left(in) / PAIR_LEAST) {
        return fail(in,
                    "the header says %" PRIu64 " metadata entries, more than %" PRIu64
                    " bytes can hold",
                    *pair_count, in->size);
    }
    if (file->tensor_count > left(in) / TENSOR_LEAST ||
        file->tensor_count > SIZE_MAX / sizeof(gguf_tensor) - 1) {
        return fail(in, "the header says %" PRIu64 " tensors, more than %" PRIu64 " bytes can hold",
                    file->tensor_count, in->size);
    }
    return 1;
}

int gguf_parse(gguf_file *file, const void *bytes, size_t size, char error[GGUF_ERROR_BYTES])
{
    cursor in = {.bytes = bytes, .size = size, .index = UINT64_MAX, .error = error};
    uint64_t pair_count = 0;
    *file = (gguf_file){.bytes = bytes, .size = size, .alignment = 32};
    if (!read_header(&in, file, &pair_count) || !read_metadata(&in, pair_count, file)) {
        goto fail;
    }
    // Again, for metadata has taken its part of the file.
    in.index = UINT64_MAX;
    in.name = (gguf_string){0};
    if (file->tensor_count > left(&in) / TENSOR_LEAST) {
        fail(&in,
             "the header says %" PRIu64 " tensors, more than the last %" PRIu64
             " bytes can hold; the file may be cut off",
             file->tensor_count, left(&in));
        goto fail;
    }
    file->tensors = calloc((size_t)file->tensor_count + 1, sizeof(gguf_tensor));
    if (!file->tensors) {
        fail(&in, "out of memory");
        goto fail;
    }
    if (!read_tensors(&in, file)) {
        goto fail;
    }
    return 1;

fail:
    gguf_close(file);
    return 0;
}

const gguf_tensor *gguf_find(const gguf_file *file, const char *name)
{
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        if (equals(file->tensors[i].name, name)) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

#if defined(_WIN32)

// The whole file, or NULL with errno set.
static void *load(const char *path, size_t *size, const char **problem)
{
    FILE *stream = fopen(path, "rb");
    unsigned char *bytes = NULL;
    size_t room = 0;
    *size = 0;
    *problem = NULL;
    if (!stream) {
        goto fail;
    }
    for (;;) {
        if (*size == room) {
            room = room ? 2 * room : (size_t)1 << 20;
            unsigned char *larger = room ? realloc(bytes, room) : NULL;
            if (!larger) {
                errno = ENOMEM;
                goto fail;
            }
            bytes = larger;
        }
        const size_t got = fread(bytes + *size, 1, room - *size, stream);
        *size += got;
        if (got == 0) {
            break;
        }
    }
    if (ferror(stream)) {
        goto fail;
    }
    fclose(stream);
    return bytes;

fail:
    *problem = strerror(errno);
    free(bytes);
    if (stream) {
        fclose(stream);
    }
    return NULL;
}

static void unload(const void *bytes, uint64_t size)
{
    (void)size;
    free((void *)bytes);
}

#else

static void *load(const char *path, size_t *size, const char **problem)
{
    struct stat status;
    void *bytes = MAP_FAILED;
    // A pipe must be refused, not waited for.
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *problem = NULL;
    if (descriptor < 0 || fstat(descriptor, &status)) {
        goto fail;
    }
    if (!S_ISREG(status.st_mode)) {
        *problem = S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file";
    } else if (status.st_size == 0) {
        *problem = "the file is empty";  // which can't be mapped
    } else if ((uintmax_t)status.st_size > SIZE_MAX) {
        *problem = "is too large for this machine's addresses";
    }
    if (*problem) {
        goto fail;
    }
    *size = (size_t)status.st_size;
    bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) {
        goto fail;
    }
    close(descriptor);
    return bytes;

fail:
    if (!*problem) {
        *problem = strerror(errno);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
    return NULL;
}

static void unload(const void *bytes, uint64_t size)
{
    munmap((void *)bytes, (size_t)size);
}

#endif

int gguf_open(gguf_file *file, const char *path, char error[GGUF_ERROR_BYTES])
{
    size_t size = 0;
    const char *problem;
    *file = (gguf_file){0};
    void *bytes = load(path, &size, &problem);
    if (!bytes) {
        snprintf(error, GGUF_ERROR_BYTES, "%s", problem);
        return 0;
    }
    if (!gguf_parse(file, bytes, size, error)) {
        unload(bytes, size);
        return 0;
    }
    file->owns_bytes = 1;
    return 1;
}

void gguf_close(gguf_file *file)
{
    if (file->owns_bytes) {
        unload(file->bytes, file->size);
    }
    free(file->tensors);
    *file = (gguf_file){0};
}
