// kquant bench: how fast a device is, once its results are known to be right.

#include "bytes.h"
#include "options.h"
#include "platform.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP_ROUNDS = 2, MIN_ROUNDS = 7, MAX_ROUNDS = 1000, QUANTIZE_BLOCKS = 4096 };

static const double MIN_SECONDS = 0.3;

// The head of the table, which comes with its first line: what fails before prints its error alone.
typedef struct head {
    const kq_device_info *infos;
    uint32_t count;
    bool is_printed;
} head;

// What is measured: inputs, and the reference's results to hold a device to.
typedef struct work {
    uint32_t G;
    uint32_t count[2];  // dots: [0] of them share their rhs
    bool is_long;       // of a table of long dots
    head *head;
    uint64_t lhs_bytes, rhs_bytes, results_bytes, values_bytes, records_bytes;
    uint8_t *lhs, *rhs, *values;
    uint8_t *results[2];  // by order
    uint8_t *records;
} work;

enum { LHS, RHS, RESULTS, VALUES = LHS, RECORDS = RESULTS };

static kq_result upload(target *target, unsigned slot, const uint8_t *bytes, uint64_t count)
{
    kq_result result = target_reserve(target, slot, count, true);
    return result == KQ_OK ? kq_buffer_upload(target->buffers[slot], 0, bytes, count) : result;
}

// Fills the outputs with what no right result is, so that nothing old can pass for a result.
static kq_result poison(target *target, uint64_t count, const uint8_t *expected)
{
    uint8_t *bytes = allocate((size_t)count, 1);
    for (uint64_t k = 0; k < count; k++) {
        bytes[k] = (uint8_t)(expected == NULL ? 0xA5 : expected[k] ^ 0xFF);
    }
    kq_result result = upload(target, RESULTS, bytes, count);
    free(bytes);
    return result;
}

// --- The three operations. Their buffers are ready; nothing moves to or from the device.

typedef kq_result operation(target *target, const work *work);

static kq_result run_quantize(target *target, const work *work)
{
    (void)work;
    kq_quantize_args args = {
        .format = KQ_FORMAT_Q8_K,
        .values = {.buffer = target->buffers[VALUES], .view = {.G = QUANTIZE_BLOCKS}},
        .records = {.buffer = target->buffers[RECORDS], .view = {.G = QUANTIZE_BLOCKS}},
    };
    return kq_quantize(target->device, &args);
}

static kq_repeat repeat_of(const work *work)
{
    return (kq_repeat){
        .count = {work->count[0], work->count[1]},
        .lhs_step = {(uint64_t)work->G * KQ_Q4_K_BYTES, 0},
        .rhs_step = {0, (uint64_t)work->G * KQ_Q8_K_BYTES},
        .result_step = {4, 4 * (uint64_t)work->count[0]},
    };
}

static kq_quantized_dot_args args_of(const target *target, const work *work,
                                     const kq_repeat *repeat, kq_order order)
{
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {.buffer = target->buffers[LHS], .view = {.G = work->G}},
        .rhs = {.buffer = target->buffers[RHS], .view = {.G = work->G}},
        .result = target->buffers[RESULTS],
        .repeat = repeat,
    };
}

static kq_result run_dots(target *target, const work *work, kq_order order)
{
    kq_repeat repeat = repeat_of(work);
    kq_quantized_dot_args args = args_of(target, work, &repeat, order);
    return kq_quantized_dot(target->device, &args);
}

// The scratch that a call takes, in MB.
static double scratch_megabytes(const target *target, const work *work, kq_order order)
{
    kq_repeat repeat = repeat_of(work);
    kq_quantized_dot_args args = args_of(target, work, &repeat, order);
    kq_needs needs;
    kq_result result = kq_quantized_dot_query(target->device, &args, &needs);
    return result == KQ_OK ? (double)needs.scratch_bytes / 1e6 : 0;
}

static kq_result run_sequential(target *target, const work *work)
{
    return run_dots(target, work, KQ_ORDER_SEQUENTIAL);
}

static kq_result run_pairwise(target *target, const work *work)
{
    return run_dots(target, work, KQ_ORDER_PAIRWISE);
}

// --- Measuring

static int compare_times(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

// Runs once and compares; the first wrong result or record is complained about.
static int verify(target *target, const work *work, operation *run, const char *name,
                  const uint8_t *expected, uint64_t bytes, uint32_t unit)
{
    kq_result result = poison(target, bytes, expected);
    if (result == KQ_OK) {
        result = run(target, work);
    }
    uint8_t *got = allocate((size_t)bytes, 1);
    if (result == KQ_OK) {
        result = kq_buffer_download(target->buffers[RESULTS], 0, got, bytes);
    }
    int code = EXIT_DONE;
    if (result != KQ_OK) {
        complain("bench: %s: %s: %s", target->info->id, name, target->reason);
        code = EXIT_UNDECIDED;
    }
    for (uint64_t k = 0; code == EXIT_DONE && k < bytes; k += unit) {
        if (memcmp(got + k, expected + k, unit) == 0) {
            continue;
        }
        complain("bench: %s: %s is wrong and not timed: number %" PRIu64 " begins %08" PRIx32
                 ", the reference's %08" PRIx32 "; see kquant check",
                 target->info->id, name, k / unit, load_u32(got + k), load_u32(expected + k));
        code = EXIT_FAILED;
    }
    free(got);
    return code;
}

static void print_head(const work *work)
{
    if (work->head->is_printed) {
        return;
    }
    work->head->is_printed = true;
    if (work->is_long) {
        printf("one dot of 16, 64, ... records");
    } else {
        printf("dots: %" PRIu32 " x %" PRIu32 " of %" PRIu32 " records; quantize: %d blocks",
               work->count[0], work->count[1], work->G, QUANTIZE_BLOCKS);
    }
    printf("; %d rounds to warm up, then at least %d and %.1f s\n", WARM_UP_ROUNDS, MIN_ROUNDS,
           MIN_SECONDS);
    for (uint32_t d = 0; d < work->head->count; d++) {
        target_print(&work->head->infos[d]);
        printf("\n");
    }
    printf("\n%-10s  %-24s  %10s  %10s  %10s  %6s  %9s%s\n", "device", "operation", "median ms",
           "min ms", "max ms", "rounds", "GB/s", work->is_long ? "     records  scratch MB" : "");
}

// bytes: of input in a round, which the GB/s count. after: what the line ends with.
static int measure(target *target, const work *work, operation *run, const char *name,
                   uint64_t bytes, const char *after)
{
    double *times = allocate(MAX_ROUNDS, sizeof *times);
    double total = 0;
    size_t rounds = 0;
    kq_result result = KQ_OK;
    for (int k = 0; k < WARM_UP_ROUNDS && result == KQ_OK; k++) {
        result = run(target, work);
    }
    while (result == KQ_OK && rounds < MAX_ROUNDS && (rounds < MIN_ROUNDS || total < MIN_SECONDS)) {
        double start = platform_seconds();
        result = run(target, work);
        times[rounds] = platform_seconds() - start;
        total += times[rounds++];
    }
    if (result == KQ_OK) {
        qsort(times, rounds, sizeof *times, compare_times);
        double median =
            rounds % 2 ? times[rounds / 2] : (times[rounds / 2 - 1] + times[rounds / 2]) / 2;
        print_head(work);
        printf("%-10s  %-24s  %10.3f  %10.3f  %10.3f  %6zu  %9.3f%s\n", target->info->id, name,
               median * 1e3, times[0] * 1e3, times[rounds - 1] * 1e3, rounds,
               (double)bytes / median / 1e9, after);
        fflush(stdout);
    } else {
        complain("bench: %s: %s: %s", target->info->id, name, target->reason);
    }
    free(times);
    return result == KQ_OK ? EXIT_DONE : EXIT_UNDECIDED;
}

// --- The work

static kq_result fill_by_reference(work *work, target *reference)
{
    kq_result result = upload(reference, VALUES, work->values, work->values_bytes);
    if (result == KQ_OK) {
        result = poison(reference, work->records_bytes, NULL);
    }
    if (result == KQ_OK) {
        result = run_quantize(reference, work);
    }
    if (result == KQ_OK) {
        result =
            kq_buffer_download(reference->buffers[RECORDS], 0, work->records, work->records_bytes);
    }
    // The rhs of the dots are such records, over and over.
    for (uint64_t at = 0; at < work->rhs_bytes; at += KQ_Q8_K_BYTES) {
        memcpy(work->rhs + at, work->records + at % work->records_bytes, KQ_Q8_K_BYTES);
    }
    if (result == KQ_OK) {
        result = upload(reference, LHS, work->lhs, work->lhs_bytes);
    }
    if (result == KQ_OK) {
        result = upload(reference, RHS, work->rhs, work->rhs_bytes);
    }
    for (unsigned order = 0; order < 2 && result == KQ_OK; order++) {
        result = poison(reference, work->results_bytes, NULL);
        if (result == KQ_OK) {
            result = run_dots(reference, work, (kq_order)order);
        }
        if (result == KQ_OK) {
            result = kq_buffer_download(reference->buffers[RESULTS], 0, work->results[order],
                                        work->results_bytes);
        }
    }
    return result;
}

static int work_make(work *work)
{
    work->lhs_bytes = (uint64_t)work->G * work->count[0] * KQ_Q4_K_BYTES;
    work->rhs_bytes = (uint64_t)work->G * work->count[1] * KQ_Q8_K_BYTES;
    work->results_bytes = (uint64_t)work->count[0] * work->count[1] * 4;
    work->values_bytes = (uint64_t)QUANTIZE_BLOCKS * KQ_BLOCK_BYTES;
    work->records_bytes = (uint64_t)QUANTIZE_BLOCKS * KQ_Q8_K_BYTES;
    work->lhs = allocate((size_t)work->lhs_bytes, 1);
    work->rhs = allocate((size_t)work->rhs_bytes, 1);
    work->values = allocate((size_t)work->values_bytes, 1);
    work->records = allocate((size_t)work->records_bytes, 1);
    work->results[0] = allocate((size_t)work->results_bytes, 1);
    work->results[1] = allocate((size_t)work->results_bytes, 1);
    draw_values(1, QUANTIZE_BLOCKS, work->values);
    draw_q4_k(2, work->G * work->count[0], work->lhs);

    target reference;
    int code = target_open_or_complain(&reference, "reference");
    if (code != EXIT_DONE) {
        return code;
    }
    kq_result result = fill_by_reference(work, &reference);
    if (result != KQ_OK) {
        complain("bench: reference: %s", reference.reason);
        code = EXIT_UNDECIDED;
    }
    target_close(&reference);
    return code;
}

static void work_free(work *work)
{
    free(work->lhs);
    free(work->rhs);
    free(work->values);
    free(work->records);
    free(work->results[0]);
    free(work->results[1]);
}

static int bench_device(const char *device, const work *work)
{
    static const struct {
        operation *run;
        const char *name;
    } dots[] = {
        {run_sequential, "quantized_dot sequential"},
        {run_pairwise, "quantized_dot pairwise"},
    };
    target target;
    int code = target_open_or_complain(&target, device);
    if (code != EXIT_DONE) {
        return code;
    }
    kq_result result = upload(&target, LHS, work->lhs, work->lhs_bytes);
    if (result == KQ_OK) {
        result = upload(&target, RHS, work->rhs, work->rhs_bytes);
    }
    for (unsigned order = 0; order < 2 && result == KQ_OK; order++) {
        int verified = verify(&target, work, dots[order].run, dots[order].name,
                              work->results[order], work->results_bytes, 4);
        // Each dot takes its own Q4_K records, as often as there are rhs for them.
        char after[32] = "";
        if (work->is_long) {
            snprintf(after, sizeof after, "  %10" PRIu32 "  %10.3f", work->G,
                     scratch_megabytes(&target, work, (kq_order)order));
        }
        if (verified == EXIT_DONE) {
            verified = measure(&target, work, dots[order].run, dots[order].name,
                               work->lhs_bytes * work->count[1], after);
        }
        code = worst_exit(code, verified);
    }
    if (result == KQ_OK && !work->is_long) {
        result = upload(&target, VALUES, work->values, work->values_bytes);
    }
    if (result == KQ_OK && !work->is_long) {
        int verified = verify(&target, work, run_quantize, "quantize", work->records,
                              work->records_bytes, KQ_Q8_K_BYTES);
        if (verified == EXIT_DONE) {
            verified = measure(&target, work, run_quantize, "quantize", work->values_bytes, "");
        }
        code = worst_exit(code, verified);
    }
    if (result != KQ_OK) {
        complain("bench: %s: %s", target.info->id, target.reason);
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    target_close(&target);
    return code;
}

// --- The command

// "A" or "A,B".
static bool parse_counts(const char *text, uint32_t count[2])
{
    char first[32];
    size_t length = strcspn(text, ",");
    uint64_t numbers[2] = {0, 1};
    if (length >= sizeof first) {
        return false;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    if (!parse_number(first, 1u << 24, &numbers[0]) || numbers[0] == 0) {
        return false;
    }
    if (text[length] == ',' &&
        (!parse_number(text + length + 1, 1u << 24, &numbers[1]) || numbers[1] == 0)) {
        return false;
    }
    count[0] = (uint32_t)numbers[0];
    count[1] = (uint32_t)numbers[1];
    return true;
}

static int bench_devices(work *work)
{
    int code = work_make(work);
    for (uint32_t d = 0; code != EXIT_UNDECIDED && d < work->head->count; d++) {
        code = worst_exit(code, bench_device(work->head->infos[d].id, work));
    }
    work_free(work);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    const char *device = "all", *repeat = NULL;
    uint64_t records = 16, dots = 0, longest = 0;
    const option options[] = {
        {.name = "device",
         .value = "D|all",
         .kind = OPTION_TEXT,
         .text = &device,
         .help = "an id, a uuid, or a part of one device's name (all)"},
        {.name = "records",
         .value = "G",
         .kind = OPTION_NUMBER,
         .min = 1,
         .max = 1u << 24,
         .number = &records,
         .help = "records of a dot (16)"},
        {.name = "repeat",
         .value = "A,B",
         .kind = OPTION_TEXT,
         .text = &repeat,
         .help = "A dots share their Q8_K records, B times over (4096,1)"},
        {.name = "dots",
         .value = "A",
         .kind = OPTION_NUMBER,
         .min = 1,
         .max = 1u << 24,
         .number = &dots,
         .help = "the same as --repeat=A,1"},
        {.name = "long",
         .value = "G",
         .kind = OPTION_NUMBER,
         .min = 16,
         .max = 1u << 24,
         .number = &longest,
         .help = "instead: one dot of 16, 64, ... up to G records, and its scratch"},
    };
    const usage usage = {
        .name = "bench",
        .summary = "[--device=D|all] [--records=G] [--repeat=A,B] [--dots=A] [--long=G]",
        .about =
            "Times dots in both orders, and quantize on 4096 blocks, with all data on the device. "
            "First each\nis compared with the reference, and what is wrong is not timed (exit 1). "
            "A round is one call, from\nits start until its result is there; after 2 rounds to "
            "warm up come at least 7, for at least 0.3 s.\nGB/s count 144 bytes for each Q4_K "
            "record a dot takes, 1024 for each block that is quantized.\n",
        .examples = "  kquant bench\n"
                    "  kquant bench --device=vulkan:0 --records=64 --repeat=4096,4\n"
                    "  kquant bench --device=vulkan:0 --long=4194304\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    switch (options_parse(&usage, argc, argv, NULL)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }
    work work = {.G = (uint32_t)records, .count = {4096, 1}};
    if (repeat != NULL && dots != 0) {
        complain("bench: --dots and --repeat are the same thing; one of them is enough");
        return EXIT_USAGE;
    }
    if (repeat != NULL && !parse_counts(repeat, work.count)) {
        complain("bench: --repeat=%s: must be A or A,B, whole numbers from 1 to %u", repeat,
                 1u << 24);
        return EXIT_USAGE;
    }
    if (dots != 0) {
        work.count[0] = (uint32_t)dots;
    }
    if ((uint64_t)work.count[0] * work.G > 1u << 26 ||
        (uint64_t)work.count[1] * work.G > 1u << 24 ||
        (uint64_t)work.count[0] * work.count[1] > 1u << 28) {
        complain("bench: --records and --repeat ask for more than bench keeps in memory: 2^26 Q4_K "
                 "records, 2^24 Q8_K records or 2^28 results");
        return EXIT_USAGE;
    }

    if (longest != 0 && (repeat != NULL || dots != 0 || records != 16)) {
        complain("bench: --long is one dot of its own sizes, without --records, --repeat, --dots");
        return EXIT_USAGE;
    }
    if (longest != 0) {
        work.is_long = true;
        work.count[0] = 1;
        work.G = 16;
    }

    uint32_t count;
    int code;
    kq_device_info *infos = target_list(device, &count, &code);
    if (infos == NULL) {
        return code;
    }
    head head = {.infos = infos, .count = count};
    work.head = &head;
    for (;;) {
        code = worst_exit(code, bench_devices(&work));
        if (work.G > longest / 4 || code == EXIT_UNDECIDED) {
            break;
        }
        work = (struct work){.G = 4 * work.G, .count = {1, 1}, .is_long = true, .head = &head};
    }
    free(infos);
    return code;
}
