// Matrix times vector with the real weights of a model: every Q4_K tensor of a GGUF file, as it
// lies in the file, with one activation vector that is quantized once; on every device, and the
// same bits on each.
//
// What to look at for your own program: run_device (buffers, quantize once, many dots) and
// set_up_dots (a matrix is G records a row, and one repeat over the rows).

#if !defined(_WIN32)
# define _POSIX_C_SOURCE 200809L
#endif

#include "gguf.h"

#include <kquant/kquant.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(_WIN32)
# include <io.h>
# define isatty _isatty
#else
# include <unistd.h>
#endif

enum { EXIT_SAME = 0, EXIT_BAD = 1, EXIT_UNDECIDED = 99 };

static const char help[] =
    "usage: gguf_matvec [OPTION...] MODEL.gguf\n"
    "\n"
    "Lists the Q4_K tensors of a GGUF file (version 2 or 3), quantizes one activation vector to\n"
    "Q8_K records, and takes the dot of those records with every row of every Q4_K tensor, on "
    "each\n"
    "device. Prints a line for each: the time of the dots, the rate at which Q4_K bytes were "
    "read,\n"
    "and a digest of the records and all results, which must be the reference's.\n"
    "\n"
    "  --device=D        a device: reference, vulkan:0, opencl:1, a uuid or a part of a name.\n"
    "                    May be given several times. all: every device, the default. The "
    "reference\n"
    "                    always runs, first, and is the judge.\n"
    "  --tensor=NAME     only this tensor\n"
    "  --values=FILE     the activations: f32, little-endian, as many as the longest row has; a\n"
    "                    shorter row takes the first of them\n"
    "  --seed=N          the activations: drawn in [-2, 2) from this seed; 1 if nothing is said\n"
    "  --order=ORDER     how the terms of a dot are added: sequential, the default, or pairwise.\n"
    "                    The bits depend on it, so compare digests of one order.\n"
    "  --list            list the tensors and stop\n"
    "  --help            this\n"
    "\n"
    "Exit status: 0 all digests are the same; 1 one differs, or the file or an argument is bad;\n"
    "99 a device isn't there or failed.\n"
    "\n"
    "  gguf_matvec --list model.gguf\n"
    "  gguf_matvec --device=vulkan:0 --tensor=blk.0.ffn_down.weight model.gguf\n";

typedef struct options {
    const char *path;
    const char *tensor;
    const char *values;
    const char **devices;
    size_t device_count;
    uint64_t seed;
    kq_order order;
    int list;
} options;

// What is the same for every device, and then what the reference made of it.
typedef struct job {
    const gguf_file *file;
    const gguf_tensor **tensors;
    size_t tensor_count;
    uint64_t row_count;
    uint64_t weight_bytes;
    kq_order order;
    unsigned char *values;  // 4 * value_count bytes: the longest row
    uint64_t value_count;
    unsigned char *records;  // the reference's, value_count / 256
    unsigned char *results;  // the reference's, 4 * row_count bytes, in the order of the tensors
    int is_judged;           // the reference has run
    unsigned same_count;     // devices, the reference among them
    unsigned other_count;
    unsigned failed_count;
} job;

// --- Small things

// A path or what a driver says, of which no byte may steer a terminal; it takes `width` columns or
// more.
static void print_plain(FILE *file, const char *text, int width)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        width -= c >= 0x20 && c < 0x7F ? fprintf(file, "%c", c) : fprintf(file, "\\x%02x", c);
    }
    fprintf(file, "%*s", width > 0 ? width : 0, "");
}

static int complain(const char *subject, const char *text)
{
    fputs("gguf_matvec: ", stderr);
    if (subject) {
        print_plain(stderr, subject, 0);
        fputs(": ", stderr);
    }
    print_plain(stderr, text, 0);
    fputs("\n", stderr);
    return EXIT_BAD;
}

// An error about a tensor of the file.
static int complain_of(const options *given, const gguf_tensor *tensor, const char *text)
{
    char name[160], all[512];
    snprintf(all, sizeof(all), "tensor %s: %s", gguf_quote(tensor->name, name, sizeof(name)), text);
    return complain(given->path, all);
}

static double seconds(void)
{
#if defined(_WIN32)  // where this is the time that passes, and not every C library has the other
    return (double)clock() / CLOCKS_PER_SEC;
#else
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}

static uint32_t load_u32(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static double decimal(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// FNV-1a, 64 bits: tells results apart, and needs no library.
static uint64_t digest_of(uint64_t digest, const unsigned char *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        digest = (digest ^ bytes[i]) * 0x100000001B3u;
    }
    return digest;
}

static uint32_t records_of(const gguf_tensor *tensor)
{
    return (uint32_t)(tensor->dims[0] / KQ_BLOCK);
}

// --- Arguments

static int take_device(options *given, const char *name)
{
    if (!*name) {
        return complain("--device", "needs a name");
    }
    given->devices[given->device_count++] = name;
    return 0;
}

static int take_seed(options *given, const char *text)
{
    char *end;
    errno = 0;
    given->seed = strtoull(text, &end, 0);
    if (*text < '0' || *text > '9' || *end || errno) {
        return complain("--seed", "needs a whole number of at most 64 bits");
    }
    return 0;
}

static int take_order(options *given, const char *text)
{
    if (!strcmp(text, "sequential")) {
        given->order = KQ_ORDER_SEQUENTIAL;
    } else if (!strcmp(text, "pairwise")) {
        given->order = KQ_ORDER_PAIRWISE;
    } else {
        return complain("--order", "is sequential or pairwise");
    }
    return 0;
}

// The text after NAME= if argument begins so.
static const char *value_of(const char *argument, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(argument, name, length) ? NULL : argument + length;
}

// given->devices has room for count names. Returns 0, or EXIT_BAD with a line on stderr.
static int read_arguments(options *given, int count, char **arguments)
{
    int only_paths = 0;
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        const char *value;
        int bad = 0;
        if (only_paths || argument[0] != '-') {
            if (given->path) {
                return complain(argument, "only one file can be given (see --help)");
            }
            given->path = argument;
        } else if (!strcmp(argument, "--")) {
            only_paths = 1;
        } else if (!strcmp(argument, "--list")) {
            given->list = 1;
        } else if ((value = value_of(argument, "--device="))) {
            bad = take_device(given, value);
        } else if ((value = value_of(argument, "--tensor="))) {
            given->tensor = value;
        } else if ((value = value_of(argument, "--values="))) {
            given->values = value;
        } else if ((value = value_of(argument, "--seed="))) {
            bad = take_seed(given, value);
        } else if ((value = value_of(argument, "--order="))) {
            bad = take_order(given, value);
        } else {
            return complain(argument, "no such option (see --help)");
        }
        if (bad) {
            return bad;
        }
    }
    return given->path ? 0 : complain(NULL, "no MODEL.gguf was named (see --help)");
}

// --- Tensors

static void print_tensor(const gguf_tensor *tensor)
{
    char name[160];
    char shape[96];
    int at = 0;
    for (unsigned i = 0; i < tensor->dim_count; i++) {
        at += snprintf(shape + at, sizeof(shape) - (size_t)at, "%s%" PRIu64, i ? " x " : "",
                       tensor->dims[i]);
    }
    printf("  %-36s %-16s rows of %" PRIu32 " records, %" PRIu64 " bytes at %" PRIu64 "\n",
           gguf_quote(tensor->name, name, sizeof(name)), shape, records_of(tensor), tensor->bytes,
           tensor->offset);
}

// " (skipped: 109 F32, 9 Q6_K)": what is not Q4_K. Ends the line.
static void print_other_types(const gguf_file *file)
{
    uint64_t counts[64] = {0};  // the last: all types from there on
    const char *before = " (skipped:";
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        counts[file->tensors[i].type < 63 ? file->tensors[i].type : 63]++;
    }
    for (uint32_t type = 0; type < 64; type++) {
        if (counts[type] && type != GGUF_TYPE_Q4_K) {
            printf("%s %" PRIu64 " %s", before, counts[type], gguf_type_name(type));
            before = ",";
        }
    }
    puts(*before == ',' ? ")" : "");
}

static void print_tensors(const options *given, const job *work)
{
    print_plain(stdout, given->path, 0);
    printf(": GGUF version %" PRIu32 ", alignment %" PRIu32 ", %" PRIu64 " tensor%s",
           work->file->version, work->file->alignment, work->file->tensor_count,
           work->file->tensor_count == 1 ? "" : "s");
    print_other_types(work->file);
    for (size_t i = 0; i < work->tensor_count; i++) {
        print_tensor(work->tensors[i]);
    }
    fflush(stdout);
}

// The limits are kquant's: G and counts of a repeat are 32 bits. No row that exists reaches them.
static int check_tensor(const options *given, const gguf_tensor *tensor)
{
    char text[96];
    if (tensor->type != GGUF_TYPE_Q4_K) {
        snprintf(text, sizeof(text), "is of type %s (%" PRIu32 "), not Q4_K",
                 gguf_type_name(tensor->type), tensor->type);
        return complain_of(given, tensor, text);
    }
    if (tensor->dims[0] / KQ_BLOCK > UINT32_MAX || tensor->rows > UINT32_MAX) {
        return complain_of(given, tensor, "has more records in a row, or rows, than 32 bits hold");
    }
    return 0;
}

// Sets all of work that comes from the file. Returns 0 or EXIT_BAD.
static int choose_tensors(const options *given, job *work)
{
    const gguf_file *file = work->file;
    work->tensors = malloc((size_t)(file->tensor_count + 1) * sizeof(*work->tensors));
    if (!work->tensors) {
        return complain(given->path, "out of memory");
    }
    if (given->tensor) {
        const gguf_tensor *tensor = gguf_find(file, given->tensor);
        if (!tensor) {
            char name[160];
            char text[192];
            const gguf_string wanted = {given->tensor, strlen(given->tensor)};
            snprintf(text, sizeof(text), "holds no tensor %s",
                     gguf_quote(wanted, name, sizeof(name)));
            return complain(given->path, text);
        }
        work->tensors[work->tensor_count++] = tensor;
    } else {
        for (uint64_t i = 0; i < file->tensor_count; i++) {
            if (file->tensors[i].type == GGUF_TYPE_Q4_K) {
                work->tensors[work->tensor_count++] = &file->tensors[i];
            }
        }
    }
    for (size_t i = 0; i < work->tensor_count; i++) {
        const gguf_tensor *tensor = work->tensors[i];
        if (check_tensor(given, tensor)) {
            return EXIT_BAD;
        }
        // These sums fit, for tensors don't overlap in the file.
        work->row_count += tensor->rows;
        work->weight_bytes += tensor->bytes;
        if (tensor->dims[0] > work->value_count) {
            work->value_count = tensor->dims[0];
        }
    }
    return work->tensor_count ? 0 : complain(given->path, "holds no Q4_K tensor");
}

// --- Activations

// Multiples of 2^-22 in [-2, 2), so that each is exactly an f32 however a machine computes.
static void draw_values(unsigned char *values, uint64_t count, uint64_t seed)
{
    uint64_t state = seed;
    for (uint64_t i = 0; i < count; i++) {
        state += 0x9E3779B97F4A7C15u;  // SplitMix64
        uint64_t z = state;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        const float value = (float)((int32_t)(z >> 40) - (1 << 23)) / (1 << 22);
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        for (unsigned k = 0; k < 4; k++) {
            values[4 * i + k] = (unsigned char)(bits >> 8 * k);
        }
    }
}

static int read_values(const options *given, const job *work)
{
    FILE *stream = fopen(given->values, "rb");
    if (!stream) {
        return complain(given->values, strerror(errno));
    }
    const size_t got = fread(work->values, 1, (size_t)(4 * work->value_count), stream);
    const int failed = ferror(stream);
    fclose(stream);
    if (failed) {
        return complain(given->values, "can't be read");
    }
    for (size_t i = 0; i < work->tensor_count; i++) {
        if (work->tensors[i]->dims[0] > got / 4) {
            char text[160];
            snprintf(text, sizeof(text),
                     "needs %" PRIu64 " activations, the --values file has %" PRIu64,
                     work->tensors[i]->dims[0], (uint64_t)(got / 4));
            return complain_of(given, work->tensors[i], text);
        }
    }
    return 0;
}

static int make_values(const options *given, job *work)
{
    const uint64_t bytes = 4 * work->value_count;
    if (bytes > SIZE_MAX || !(work->values = malloc((size_t)bytes))) {
        return complain(given->path, "out of memory");
    }
    if (given->values) {
        return read_values(given, work);
    }
    draw_values(work->values, work->value_count, given->seed);
    return 0;
}

// --- One device

// What one device has and makes. Of each tensor's buffers there is one at a time.
typedef struct run {
    kq_device *device;
    kq_buffer *values;
    kq_buffer *activations;  // the Q8_K records of values
    kq_buffer *weights;
    kq_buffer *results;
    unsigned char *records;  // copies of what the device made, laid out as in job
    unsigned char *floats;
    double dot_seconds;
    kq_domain domain;
    char reason[512];  // of the last failure
} run;

static void keep_reason(void *user, kq_result result, const char *reason)
{
    run *r = user;
    snprintf(r->reason, sizeof(r->reason), "%s: %s", kq_result_name(result), reason);
}

// A line on a terminal, gone when clear_progress is called.
static void show_progress(const char *device, const char *what, size_t done, size_t all)
{
    if (isatty(2)) {
        fputs("\r", stderr);
        print_plain(stderr, device, 0);
        fprintf(stderr, ": %s", what);
        if (all) {
            fprintf(stderr, " %zu of %zu", done, all);
        }
        fputs("\033[K", stderr);
        fflush(stderr);
    }
}

static void clear_progress(void)
{
    if (isatty(2)) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

// Fills a buffer, and the host memory that it will be read into, with 0xFF: as f32 a NaN that no
// kernel makes, so that output which wasn't written shows.
static kq_result poison(kq_buffer *buffer, unsigned char *host, uint64_t bytes)
{
    memset(host, 0xFF, (size_t)bytes);
    return kq_buffer_upload(buffer, 0, host, bytes);
}

// The f32 vector becomes Q8_K records, once, and the records stay on the device.
static kq_result quantize(run *r, const job *work)
{
    const uint32_t G = (uint32_t)(work->value_count / KQ_BLOCK);
    const uint64_t value_bytes = 4 * work->value_count;
    const uint64_t record_bytes = (uint64_t)G * KQ_Q8_K_BYTES;
    kq_result result;
    if ((result = kq_buffer_create(r->device, value_bytes, &r->values)) ||
        (result = kq_buffer_create(r->device, record_bytes, &r->activations)) ||
        (result = kq_buffer_upload(r->values, 0, work->values, value_bytes)) ||
        (result = poison(r->activations, r->records, record_bytes))) {
        return result;
    }
    result = kq_quantize(r->device, &(kq_quantize_args){
                                        .format = KQ_FORMAT_Q8_K,
                                        .values = {.buffer = r->values, .view = {.G = G}},
                                        .records = {.buffer = r->activations, .view = {.G = G}},
                                        .domain = &r->domain,
                                    });
    return result ? result : kq_buffer_download(r->activations, 0, r->records, record_bytes);
}

// A matrix of Q4_K rows: each row is G records, one after the other, and one repeat goes over the
// rows. Every row meets the same activations (rhs_step 0), and the results are packed. Offsets may
// be any byte, so the weights stay as they are in the file.
static kq_quantized_dot_args set_up_dots(const run *r, const job *work, const gguf_tensor *tensor,
                                         uint64_t offset, kq_repeat *rows)
{
    const uint32_t G = records_of(tensor);
    *rows = (kq_repeat){
        .count = {(uint32_t)tensor->rows, 1},
        .lhs_step = {(uint64_t)G * KQ_Q4_K_BYTES, 0},
        .rhs_step = {0, 0},
        .result_step = {4, 0},
    };
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = work->order,
        .lhs = {.buffer = r->weights, .view = {.offset = offset, .G = G}},
        .rhs = {.buffer = r->activations, .view = {.G = G}},
        .result = r->results,
        .repeat = rows,
    };
}

// Two runs of all rows: one that isn't timed, in which drivers compile and allocate, and one that
// is. floats: where the results go.
static kq_result multiply(run *r, const job *work, const gguf_tensor *tensor, unsigned char *floats)
{
    // Uploaded from a round place in the file at or before the tensor, so that the tensor is as far
    // from it on the device as it is in the file: any number of bytes, if the file's alignment
    // is 1.
    const uint64_t start = tensor->offset & ~(uint64_t)63;
    const uint64_t weight_bytes = tensor->offset - start + tensor->bytes;
    kq_repeat rows;
    kq_result result;
    if ((result = kq_buffer_create(r->device, weight_bytes, &r->weights)) ||
        (result = kq_buffer_create(r->device, 4 * tensor->rows, &r->results)) ||
        (result = kq_buffer_upload(r->weights, 0, work->file->bytes + start, weight_bytes))) {
        return result;
    }
    const kq_quantized_dot_args dots = set_up_dots(r, work, tensor, tensor->offset - start, &rows);
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        if ((result = poison(r->results, floats, 4 * tensor->rows))) {
            return result;
        }
        const double before = seconds();
        if ((result = kq_quantized_dot(r->device, &dots))) {
            return result;
        }
        r->dot_seconds += is_timed ? seconds() - before : 0;
    }
    result = kq_buffer_download(r->results, 0, floats, 4 * tensor->rows);
    kq_buffer_destroy(&r->weights);
    kq_buffer_destroy(&r->results);
    return result;
}

static kq_result run_all(run *r, const job *work)
{
    const char *id = kq_device_get_info(r->device)->id;
    kq_result result = quantize(r, work);
    uint64_t row = 0;
    for (size_t i = 0; i < work->tensor_count && result == KQ_OK; i++) {
        show_progress(id, "tensor", i + 1, work->tensor_count);
        result = multiply(r, work, work->tensors[i], r->floats + 4 * row);
        row += work->tensors[i]->rows;
    }
    return result;
}

static void destroy_run(run *r)
{
    kq_buffer_destroy(&r->results);
    kq_buffer_destroy(&r->weights);
    kq_buffer_destroy(&r->activations);
    kq_buffer_destroy(&r->values);
    kq_device_destroy(&r->device);
    free(r->records);
    free(r->floats);
}

// --- Comparing

static void explain_difference(const run *r, const job *work)
{
    const uint64_t record_bytes = work->value_count / KQ_BLOCK * KQ_Q8_K_BYTES;
    for (uint64_t i = 0; i < record_bytes; i++) {
        if (r->records[i] != work->records[i]) {
            printf("  records differ, first in record %" PRIu64 ", byte %" PRIu64
                   ": got %02X, the reference %02X\n",
                   i / KQ_Q8_K_BYTES, i % KQ_Q8_K_BYTES, r->records[i], work->records[i]);
            break;
        }
    }
    uint64_t at = 0;
    for (size_t i = 0; i < work->tensor_count; i++) {
        for (uint64_t row = 0; row < work->tensors[i]->rows; row++, at++) {
            const uint32_t got = load_u32(r->floats + 4 * at);
            const uint32_t wanted = load_u32(work->results + 4 * at);
            if (got != wanted) {
                char name[160];
                printf("  results differ, first in tensor %s, row %" PRIu64 ": got %08" PRIX32
                       " (%.9g), the reference %08" PRIX32 " (%.9g)\n",
                       gguf_quote(work->tensors[i]->name, name, sizeof(name)), row, got,
                       decimal(got), wanted, decimal(wanted));
                return;
            }
        }
    }
}

static void print_head(void)
{
    printf("\n%-11s %-36s %7s %9s %10s %8s  %-16s %s\n", "device", "name", "tensors", "rows",
           "time, ms", "GB/s", "digest", "same as reference");
    fflush(stdout);
}

// Returns whether the device made what the reference did; the reference's own stay in work.
static int report(run *r, job *work)
{
    const kq_device_info *info = kq_device_get_info(r->device);
    const uint64_t record_bytes = work->value_count / KQ_BLOCK * KQ_Q8_K_BYTES;
    clear_progress();
    uint64_t digest = digest_of(0xCBF29CE484222325u, r->records, record_bytes);
    digest = digest_of(digest, r->floats, 4 * work->row_count);
    const int is_reference = !work->is_judged;
    if (is_reference) {
        work->records = r->records;
        work->results = r->floats;
        work->is_judged = 1;
        r->records = r->floats = NULL;
    }
    const int same =
        is_reference || (!memcmp(r->records, work->records, (size_t)record_bytes) &&
                         !memcmp(r->floats, work->results, (size_t)(4 * work->row_count)));
    char name[37];
    snprintf(name, sizeof(name), "%.36s", info->name);
    printf("%-11s ", info->id);
    print_plain(stdout, name, 36);
    printf(" %7zu %9" PRIu64 " %10.3f %8.2f  %016" PRIx64 " %s\n", work->tensor_count,
           work->row_count, 1e3 * r->dot_seconds,
           r->dot_seconds > 0 ? 1e-9 * (double)work->weight_bytes / r->dot_seconds : 0, digest,
           is_reference ? "is it"
           : same       ? "yes"
                        : "NO");
    if (!same) {
        explain_difference(r, work);
    }
    work->same_count += same ? 1 : 0;
    work->other_count += same ? 0 : 1;
    fflush(stdout);
    return same;
}

static void report_failure(job *work, const char *device, const char *what)
{
    clear_progress();
    fflush(stdout);
    fputs("gguf_matvec: device ", stderr);
    print_plain(stderr, device, 0);
    fputs(": ", stderr);
    print_plain(stderr, what, 0);
    fputs("\n", stderr);
    work->failed_count++;
}

static void report_all(const job *work)
{
    const unsigned count = work->same_count + work->other_count + work->failed_count;
    if (work->other_count || work->failed_count) {
        printf("Of %u devices, %u made another digest and %u failed.\n", count, work->other_count,
               work->failed_count);
    } else if (count == 1) {
        puts("Only the reference ran; it was compared with no other device.");
    } else {
        printf("The same digest on all %u devices.\n", count);
    }
}

// --- All devices

// The first device of a job is the reference, the judge. done: ids of the devices that have run, so
// that none runs twice under two names; has room for one more. Returns an exit status.
static int run_device(job *work, const char *name, char (*done)[32], size_t *done_count)
{
    run r = {0};
    const uint64_t record_bytes = work->value_count / KQ_BLOCK * KQ_Q8_K_BYTES;
    int status = EXIT_UNDECIDED;
    show_progress(name, "opening", 0, 0);
    kq_result result = kq_device_create(
        &(kq_device_params){.device = name, .errors = {.fn = keep_reason, .user = &r}}, &r.device);
    if (result) {
        report_failure(work, name, r.reason);
        return result == KQ_ERROR_ARGUMENT ? EXIT_BAD : EXIT_UNDECIDED;
    }
    const char *id = kq_device_get_info(r.device)->id;
    for (size_t i = 0; i < *done_count; i++) {
        if (!strcmp(done[i], id)) {
            clear_progress();
            status = EXIT_SAME;
            goto end;
        }
    }
    memcpy(done[(*done_count)++], id, sizeof(*done));
    r.records = malloc((size_t)record_bytes);
    r.floats = malloc((size_t)(4 * work->row_count));
    if (!r.records || !r.floats) {
        report_failure(work, id, "out of memory");
        goto end;
    }
    result = run_all(&r, work);
    if (result == KQ_ERROR_DOMAIN) {
        // The reference's word on the values is final; another device that says so alone is wrong.
        char text[160];
        snprintf(text, sizeof(text), "activation %" PRIu64 ": %s",
                 (uint64_t)r.domain.record * KQ_BLOCK + r.domain.element,
                 r.domain.reason == KQ_REASON_NONFINITE_INPUT
                     ? "is not finite, and has no Q8_K record"
                     : "its block of 256 is too small in magnitude to have a Q8_K record");
        report_failure(work, id, text);
        status = EXIT_BAD;
    } else if (result) {
        report_failure(work, id, r.reason);
    } else {
        status = report(&r, work) ? EXIT_SAME : EXIT_BAD;
    }

end:
    destroy_run(&r);
    return status;
}

// A device that differs outweighs one that is missing.
static int worse(int a, int b)
{
    return a == EXIT_BAD || b == EXIT_BAD ? EXIT_BAD : a ? a : b;
}

// Every device that is here. Only where they are asked for, for this loads every driver. NULL: it
// failed.
static kq_device_info *list_devices(uint32_t *count)
{
    uint32_t room = 0;
    kq_device_info *devices = NULL;
    if (kq_list_devices(NULL, NULL, &room) || !(devices = calloc(room, sizeof(*devices)))) {
        return NULL;
    }
    *count = room;
    if (kq_list_devices(NULL, devices, count)) {
        free(devices);
        return NULL;
    }
    *count = *count < room ? *count : room;
    return devices;
}

static int run_devices(const options *given, job *work)
{
    kq_device_info *present = NULL;
    uint32_t present_count = 0;
    size_t done_count = 0;
    int status = EXIT_UNDECIDED;
    for (size_t i = 0; i < given->device_count && !present; i++) {
        if (!strcmp(given->devices[i], "all") && !(present = list_devices(&present_count))) {
            complain("devices", "can't be listed");
            return status;
        }
    }
    char(*done)[32] = calloc(1 + present_count + given->device_count, sizeof(*done));
    if (!done) {
        complain("devices", "out of memory");
        goto end;
    }
    print_head();
    status = run_device(work, "reference", done, &done_count);
    for (size_t i = 0; i < given->device_count && work->is_judged; i++) {
        if (strcmp(given->devices[i], "all")) {
            status = worse(status, run_device(work, given->devices[i], done, &done_count));
            continue;
        }
        for (uint32_t k = 0; k < present_count; k++) {
            status = worse(status, run_device(work, present[k].id, done, &done_count));
        }
    }
    report_all(work);

end:
    free(done);
    free(present);
    return status;
}

static int run_file(const options *given)
{
    gguf_file file;
    char error[GGUF_ERROR_BYTES];
    if (!gguf_open(&file, given->path, error)) {
        return complain(given->path, error);
    }
    job work = {.file = &file, .order = given->order};
    int status = choose_tensors(given, &work);
    if (!status) {
        print_tensors(given, &work);
        if (!given->list) {
            status = make_values(given, &work);
            status = status ? status : run_devices(given, &work);
        }
    }
    free(work.results);
    free(work.records);
    free(work.values);
    free(work.tensors);
    gguf_close(&file);
    return status;
}

int main(int count, char **arguments)
{
    options given = {.seed = 1};
    for (int i = 1; i < count && strcmp(arguments[i], "--"); i++) {
        if (!strcmp(arguments[i], "--help") || !strcmp(arguments[i], "-h")) {
            fputs(help, stdout);
            return EXIT_SAME;
        }
    }
    given.devices = malloc((size_t)(count + 1) * sizeof(*given.devices));
    if (!given.devices) {
        return complain(NULL, "out of memory");
    }
    int status = read_arguments(&given, count, arguments);
    if (!status) {
        if (given.device_count == 0) {
            given.devices[given.device_count++] = "all";
        }
        status = run_file(&given);
    }
    free(given.devices);
    if (fflush(stdout) || ferror(stdout)) {
        status = complain("standard output", "can't be written");
    }
    return status;
}
