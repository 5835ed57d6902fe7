// One dot product that is too long for one device: its records are cut over MPI ranks, each with a
// device of its own, and the bits are those of one device, whatever the number of ranks.
//
// What to look at for your own program: choose_chunk and dot_part (where a dot may be cut), and
// fold (how the results of the pieces become that of the whole).

#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64

#include <kquant/kquant.h>

#include <mpi.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if defined(__FAST_MATH__)
# error "fold needs the f32 additions of IEEE 754"
#endif

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { W, X };              // the operands
enum { LINE_BYTES = 384 };  // what a rank says of itself

static const uint32_t record_bytes[2] = {KQ_Q4_K_BYTES, KQ_Q8_K_BYTES};

static const char usage[] = "usage: mpi_dot [--device=A,B,...] W.q4k X.q8k\n"
                            "       mpi_dot [--device=A,B,...] [--seed=N] --records=G\n";
static const char help[] =
    "\n"
    "The dot product of the Q4_K records of one file and as many Q8_K records of another, in\n"
    "pairwise order, cut over all MPI ranks; each rank reads its own part of the files. The last\n"
    "line is that of `kquant dot --order=pairwise`: decimal, tab, the bits as 8 hex digits.\n"
    "\n"
    "  --device=A,B,...  ids, uuids or parts of names, as `kquant devices` lists them: rank 0\n"
    "                    takes A, rank 1 takes B, and after the last comes A again. Without it:\n"
    "                    all devices present but the reference; where none is, the reference.\n"
    "  --records=G       no files: G records of each kind are drawn, by each rank its own\n"
    "  --seed=N          what they are drawn from; 1 if nothing is said\n"
    "  --help            this\n"
    "\n"
    "Exit status: 0 done; 1 a file is bad or a device failed; 2 an argument is wrong.\n"
    "\n"
    "  mpirun -n 2 mpi_dot --device=vulkan:0,vulkan:1 W.q4k X.q8k\n";

// What one rank knows and has. `own` are its chunks, and the records in them.
typedef struct run {
    int rank, rank_count;
    const char *devices;   // NULL: those present
    const char *paths[2];  // NULL: records are drawn
    uint64_t seed;
    uint64_t G;  // of the whole dot
    uint64_t P;  // records of a chunk; the last one may have fewer
    uint64_t chunk_count;
    uint64_t own_first, own_count, own_records;
    kq_device *device;
    kq_buffer *operands[2];
    kq_buffer *results;
    char error[640];
} run;

// --- Errors

static int fail(run *r, int status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(r->error, sizeof(r->error), format, values);
    va_end(values);
    return status;
}

static void keep_reason(void *user, kq_result result, const char *reason)
{
    fail(user, EXIT_FAILED, "%s: %s", kq_result_name(result), reason);
}

// All ranks meet here and leave with one status: that of the lowest rank which failed. It alone
// says why, for most failures are the same on every rank.
static int agree(const run *r, int status)
{
    int mine = status ? r->rank : r->rank_count;
    int lowest;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == r->rank_count) {
        return EXIT_DONE;
    }
    if (lowest == r->rank) {
        if (status == EXIT_USAGE) {
            fprintf(stderr, "mpi_dot: %s\n%s", r->error, usage);
        } else {
            fprintf(stderr, "mpi_dot: rank %d: %s\n", lowest, r->error);
        }
    }
    MPI_Bcast(&status, 1, MPI_INT, lowest, MPI_COMM_WORLD);
    return status;
}

// --- Arguments and records

static int read_number(run *r, const char *argument, uint64_t *number)
{
    const char *text = strchr(argument, '=') + 1;
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno) {
        return fail(r, EXIT_USAGE, "%s: needs a whole number of at most 64 bits", argument);
    }
    return EXIT_DONE;
}

static int read_arguments(run *r, int count, char **arguments)
{
    int path_count = 0, is_drawn = 0, status = EXIT_DONE;
    for (int i = 1; i < count && !status; i++) {
        const char *argument = arguments[i];
        if (!strncmp(argument, "--device=", 9)) {
            r->devices = argument + 9;
        } else if (!strncmp(argument, "--records=", 10)) {
            is_drawn = 1;
            status = read_number(r, argument, &r->G);
        } else if (!strncmp(argument, "--seed=", 7)) {
            status = read_number(r, argument, &r->seed);
        } else if (argument[0] == '-' || path_count == 2) {
            return fail(r, EXIT_USAGE, "%s: %s (see --help)", argument,
                        argument[0] == '-' ? "no such option" : "a third file");
        } else {
            r->paths[path_count++] = argument;
        }
    }
    if (!status && path_count != (is_drawn ? 0 : 2)) {
        return fail(r, EXIT_USAGE, "needs two files, or --records=G and no file");
    }
    if (!status && r->G >> 48) {
        return fail(r, EXIT_USAGE, "--records=%" PRIu64 ": more than 2^48 - 1", r->G);
    }
    return status;
}

static int count_records(run *r)
{
    uint64_t G[2];
    for (int i = 0; i < 2 && r->paths[i]; i++) {
        struct stat found;
        if (stat(r->paths[i], &found) || !S_ISREG(found.st_mode)) {
            return fail(r, EXIT_FAILED, "%s: is no file that can be read", r->paths[i]);
        }
        const uint64_t bytes = (uint64_t)found.st_size;
        if (bytes % record_bytes[i]) {
            return fail(r, EXIT_FAILED,
                        "%s: %" PRIu64 " bytes are no whole number of records of %" PRIu32 " bytes",
                        r->paths[i], bytes, record_bytes[i]);
        }
        r->G = G[i] = bytes / record_bytes[i];
    }
    if (r->paths[W] && G[W] != G[X]) {
        return fail(r, EXIT_FAILED, "G is unequal: %s has %" PRIu64 " records, %s has %" PRIu64,
                    r->paths[W], G[W], r->paths[X], G[X]);
    }
    return EXIT_DONE;
}

// Number `index` of a sequence (SplitMix64), without those before it, so that each rank can draw
// the records that are its own.
static uint64_t draw(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void draw_record(uint64_t seed, int which, uint64_t g, unsigned char *record)
{
    for (uint32_t i = 0; i < record_bytes[which]; i++) {
        record[i] =
            (unsigned char)(draw(seed, 128 * g + 64 * (unsigned)which + i / 8) >> i % 8 * 8);
    }
    if (which == W) {  // exponents of d and dmin from 8 to 15, so neither 0 nor infinite
        record[1] = (record[1] & 0x9F) | 0x20;
        record[3] = (record[3] & 0x9F) | 0x20;
        return;
    }
    record[3] = (record[3] & 0x83) | 0x3C;  // exponent of ds from 120 to 127
    for (unsigned j = 0; j < 16; j++) {
        unsigned sum = 0;
        for (unsigned i = 0; i < 16; i++) {
            const unsigned q = record[4 + 16 * j + i];
            sum += q < 128 ? q : q - 256;
        }
        record[260 + 2 * j] = (unsigned char)sum;
        record[261 + 2 * j] = (unsigned char)(sum >> 8);
    }
}

// This rank's records of one operand, onto its device.
static int load(run *r, int which)
{
    const uint64_t first = r->own_first * r->P;
    const uint32_t size = record_bytes[which];
    const size_t count = (size_t)r->own_records;
    unsigned char *records = r->own_records > SIZE_MAX / size ? NULL : malloc(count * size);
    int status = records ? EXIT_DONE : fail(r, EXIT_FAILED, "out of memory");
    if (records && r->paths[which]) {
        FILE *file = fopen(r->paths[which], "rb");
        if (!file || fseeko(file, (off_t)(first * size), SEEK_SET) ||
            fread(records, size, count, file) != count) {
            status = fail(r, EXIT_FAILED, "%s: can't be read", r->paths[which]);
        }
        if (file) {
            fclose(file);
        }
    } else if (records) {
        for (size_t i = 0; i < count; i++) {
            draw_record(r->seed, which, first + i, records + i * size);
        }
    }
    if (!status && (kq_buffer_create(r->device, count * size, &r->operands[which]) ||
                    kq_buffer_upload(r->operands[which], 0, records, count * size))) {
        status = EXIT_FAILED;
    }
    free(records);
    return status;
}

// --- The dot

// In pairwise order every P records from a multiple of P on, P a power of two, are a tree of their
// own (the last one may have fewer), and the sum goes on pairwise over the trees' results: a chunk
// is such a tree, and fold is the rest. So the bits are the same for every power of two, and P can
// be what suits the number of ranks: here 8 chunks or more for each, so that their work is alike.
static void choose_chunk(run *r)
{
    r->P = 1;
    while (r->P < (uint64_t)1 << 31 && r->G / (2 * r->P) >= 8 * (uint64_t)r->rank_count) {
        r->P *= 2;
    }
    r->chunk_count = r->G / r->P + (r->G % r->P != 0);
}

static uint64_t first_chunk(const run *r, int rank)
{
    return r->chunk_count * (uint64_t)rank / (uint64_t)r->rank_count;
}

// `count` dots of G records each, one after the other, from this rank's chunk `from` on.
static kq_result dot_chunks(run *r, uint64_t from, uint64_t count, uint64_t G)
{
    const uint64_t start = from * r->P;
    const kq_repeat chunks = {
        .count = {(uint32_t)count, 1},
        .lhs_step = {G * KQ_Q4_K_BYTES, 0},
        .rhs_step = {G * KQ_Q8_K_BYTES, 0},
        .result_step = {4, 0},
    };
    const kq_quantized_dot_args args = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = KQ_ORDER_PAIRWISE,
        .lhs = {r->operands[W], {.offset = start * KQ_Q4_K_BYTES, .G = (uint32_t)G}},
        .rhs = {r->operands[X], {.offset = start * KQ_Q8_K_BYTES, .G = (uint32_t)G}},
        .result = r->results,
        .result_offset = 4 * from,
        .repeat = &chunks,
    };
    return kq_quantized_dot(r->device, &args);
}

// terms: 4 bytes for each of this rank's chunks.
static int dot_part(run *r, unsigned char *terms)
{
    const uint64_t full = r->own_records / r->P;
    const uint64_t ragged = r->own_records % r->P;
    if (r->own_count == 0) {
        return EXIT_DONE;
    }
    if (load(r, W) || load(r, X) || kq_buffer_create(r->device, 4 * r->own_count, &r->results) ||
        dot_chunks(r, 0, full, r->P) || (ragged && dot_chunks(r, full, 1, ragged)) ||
        kq_buffer_download(r->results, 0, terms, 4 * r->own_count)) {
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

// Volatile, for a register may hold more than an f32.
static float add(float a, float b)
{
    const volatile float sum = a + b;
    return sum;
}

// The sum of all chunks' terms, as bits.
static uint32_t fold(const unsigned char *terms, float *sums, uint64_t count)
{
    uint32_t bits = 0;
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *t = terms + 4 * i;
        bits = t[0] | (uint32_t)t[1] << 8 | (uint32_t)t[2] << 16 | (uint32_t)t[3] << 24;
        memcpy(&sums[i], &bits, 4);
    }
    for (; count > 1; count = (count + 1) / 2) {
        for (uint64_t i = 0; i < count / 2; i++) {
            sums[i] = add(sums[2 * i], sums[2 * i + 1]);
        }
        if (count % 2) {
            sums[count / 2] = sums[count - 1];
        }
    }
    if (count) {
        memcpy(&bits, sums, 4);
    }
    // Processors differ in which NaN they make; kquant has one.
    return count && isnan(sums[0]) ? 0x7FC00000u : bits;
}

// --- All ranks

static int open_device(run *r)
{
    char name[256] = "reference";
    if (r->devices) {
        const char *at = r->devices;
        int count = 1;
        for (const char *c = at; *c; c++) {
            count += *c == ',';
        }
        for (int i = 0; i < r->rank % count; i++) {
            at = strchr(at, ',') + 1;
        }
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        if (!name[0]) {
            return fail(r, EXIT_USAGE, "--device=%s: a name is empty", r->devices);
        }
    } else {
        kq_device_info present[64];
        uint32_t count = 64;
        if (!kq_list_devices(NULL, present, &count) && count > 1) {
            count = count < 64 ? count : 64;
            memcpy(name, present[1 + (uint32_t)r->rank % (count - 1)].id, sizeof(present->id));
        }
    }
    return kq_device_create(&(kq_device_params){.device = name,
                                                .ops = 1u << KQ_OP_QUANTIZED_DOT,
                                                .errors = {keep_reason, r}},
                            &r->device)
               ? EXIT_FAILED
               : EXIT_DONE;
}

// Rank 0 gathers what each rank is and its terms, in the order of ranks and so of chunks, and
// prints. Memory is that of main.
static void gather(run *r, const unsigned char *terms, char *lines, int *sizes,
                   unsigned char *all_terms, float *sums)
{
    int *starts = sizes + r->rank_count;
    char line[LINE_BYTES];
    const kq_device_info *info = kq_device_get_info(r->device);
    snprintf(line, sizeof(line), "rank %d: %s, %s: %" PRIu64 " records", r->rank, info->id,
             info->name, r->own_records);
    for (int i = 0; i < r->rank_count; i++) {
        starts[i] = (int)(4 * first_chunk(r, i));
        sizes[i] = (int)(4 * first_chunk(r, i + 1)) - starts[i];
    }
    MPI_Gather(line, LINE_BYTES, MPI_CHAR, lines, LINE_BYTES, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Gatherv(terms, sizes[r->rank], MPI_UNSIGNED_CHAR, all_terms, sizes, starts,
                MPI_UNSIGNED_CHAR, 0, MPI_COMM_WORLD);
    if (r->rank == 0) {
        const uint32_t bits = fold(all_terms, sums, r->chunk_count);
        float sum;
        memcpy(&sum, &bits, 4);
        printf("G %" PRIu64 ", ranks %d, chunks %" PRIu64 ", each of %" PRIu64 " records\n", r->G,
               r->rank_count, r->chunk_count, r->P);
        for (int i = 0; i < r->rank_count; i++) {
            puts(lines + (size_t)i * LINE_BYTES);
        }
        printf("%.9g\t%08" PRIx32 "\n", (double)sum, bits);
    }
}

static int run_all(run *r)
{
    int status = agree(r, count_records(r));
    if (status) {
        return status;
    }
    uint64_t G = r->G;
    MPI_Bcast(&G, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    status = agree(
        r, G == r->G ? EXIT_DONE
                     : fail(r, EXIT_FAILED, "finds %" PRIu64 " records, rank 0 %" PRIu64, r->G, G));
    if (status) {
        return status;
    }
    choose_chunk(r);
    r->own_first = first_chunk(r, r->rank);
    r->own_count = first_chunk(r, r->rank + 1) - r->own_first;
    if (r->own_count) {
        const uint64_t after = (r->own_first + r->own_count) * r->P;
        r->own_records = (after < r->G ? after : r->G) - r->own_first * r->P;
    }
    // One more than needed, for an allocation of 0 bytes may give NULL.
    const size_t rank_count = (size_t)r->rank_count, chunk_count = (size_t)r->chunk_count;
    unsigned char *terms = malloc(4 * (size_t)r->own_count + 1);
    unsigned char *all_terms = malloc(4 * chunk_count + 1);
    float *sums = malloc((chunk_count + 1) * sizeof(*sums));
    int *sizes = malloc(2 * rank_count * sizeof(*sizes));
    char *lines = malloc(rank_count * LINE_BYTES);
    if (!terms || !all_terms || !sums || !sizes || !lines) {
        status = fail(r, EXIT_FAILED, "out of memory");
    }
    status = status ? status : open_device(r);
    status = agree(r, status ? status : dot_part(r, terms));
    if (!status) {
        gather(r, terms, lines, sizes, all_terms, sums);
    }
    free(lines);
    free(sizes);
    free(sums);
    free(all_terms);
    free(terms);
    return status;
}

int main(int count, char **arguments)
{
    run r = {.seed = 1};
    int status;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.rank_count);
    if (count > 1 && (!strcmp(arguments[1], "--help") || !strcmp(arguments[1], "-h"))) {
        status = EXIT_DONE;
        printf("%s%s", r.rank ? "" : usage, r.rank ? "" : help);
    } else {
        status = agree(&r, read_arguments(&r, count, arguments));
        status = status ? status : run_all(&r);
    }
    kq_buffer_destroy(&r.operands[W]);
    kq_buffer_destroy(&r.operands[X]);
    kq_buffer_destroy(&r.results);
    kq_device_destroy(&r.device);
    if (!status) {
        const int is_lost = fflush(stdout) || ferror(stdout);
        status = agree(&r, is_lost ? fail(&r, EXIT_FAILED, "the output can't be written") : status);
    }
    MPI_Finalize();
    return status;
}
