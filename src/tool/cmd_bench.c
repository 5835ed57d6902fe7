// kquant bench: how fast a device is, once its results are known to be right.

#include "bench_json.h"
#include "files.h"
#include "interrupt.h"
#include "options.h"
#include "plot.h"
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHAPES = 64, SHAPE_NAME_BYTES = 64 };

typedef struct bench {
    const kq_device_info *infos;
    uint32_t device_count;
    bench_shape shapes[MAX_SHAPES];
    char names[MAX_SHAPES][SHAPE_NAME_BYTES];  // of those that aren't built in
    size_t shape_count;
    bench_device *devices;  // as many as there are infos
    const char *json, *plot;
    bench_baseline *baseline;  // NULL: none
    bool has_head;
} bench;

// --- The table

static void print_head(bench *b)
{
    if (b->has_head) {
        return;
    }
    b->has_head = true;
    printf("%d rounds to warm up, then at least %d and %.1f s; medians\n", BENCH_WARM_UP_ROUNDS,
           BENCH_MIN_ROUNDS, BENCH_MIN_SECONDS);
    for (uint32_t d = 0; d < b->device_count; d++) {
        target_print(&b->infos[d]);
        if (b->devices[d].first_dot > 0) {
            printf("; first dot %.1f ms after opening it", b->devices[d].first_dot * 1e3);
        }
        if (b->baseline != NULL && !bench_baseline_has(b->baseline, b->infos[d].name)) {
            printf("; not among the devices of --compare");
        }
        printf("\n");
    }
    printf(
        "memory: a kernel that only reads, and one that copies, as many bytes; share: of the GB/s "
        "that dots\nread, against those of memory-read; of the GB/s that quantize reads, against "
        "those of memory-copy\n");
    printf("\n%-10s  %-29s  %9s  %6s  %9s  %6s  %7s  %8s  %6s%s\n", "device", "operation",
           "device ms", "spread", "host ms", "spread", "GB/s", "M rec/s", "share",
           b->baseline != NULL ? "  against" : "");
}

// How far the slowest round is from the fastest, as a part of the median.
static void print_times(const bench_times *times)
{
    if (times->median > 0) {
        printf("  %9.3f  %5.0f%%", times->median * 1e3,
               100 * (times->most - times->least) / times->median);
    } else {
        printf("  %9s  %6s", "-", "-");
    }
}

// Up to the column of GB/s.
static void print_timing(bench *b, const kq_device_info *info, const char *name, uint64_t bytes,
                         const bench_timing *timing)
{
    print_head(b);
    printf("%-10s  %-29s", info->id, name);
    print_times(&timing->device);
    print_times(&timing->host);
    printf("  %7.3f", (double)bytes / bench_median(timing) / 1e9);
}

static void print_memory(bench *b, const kq_device_info *info, const bench_memory *memory)
{
    for (int traffic = 0; traffic < BENCH_TRAFFICS; traffic++) {
        char name[SHAPE_NAME_BYTES];
        snprintf(name, sizeof name, "memory-%s-%" PRIu64, bench_traffic_names[traffic],
                 memory->bytes);
        print_timing(b, info, name, memory->bytes, &memory->timings[traffic]);
        printf("  %8s  %6s%s\n", "-", "-", b->baseline != NULL ? "        -" : "");
    }
    fflush(stdout);
}

static void print_result(bench *b, const bench_device *device, const bench_result *result)
{
    const kq_device_info *info = &device->info;
    double median = bench_median(&result->timing);
    double share = bench_share(device, result);
    print_timing(b, info, result->shape->name, bench_bytes(result->shape), &result->timing);
    printf("  %8.3f", (double)bench_records(result->shape) / median / 1e6);
    if (share > 0) {
        printf("  %5.1f%%", 100 * share);
    } else {
        printf("  %6s", "-");
    }
    if (b->baseline != NULL) {
        double was = bench_baseline_median(b->baseline, info->name, result->shape->name,
                                           result->timing.device.median > 0);
        if (was > 0) {
            printf("  %6.2fx", was / median);
        } else {
            printf("  %7s", "-");
        }
    }
    printf("\n");
    fflush(stdout);
}

// --- Running

// Of each size on each device once, before the first operation that takes so much. An exit code.
static int measure_memory(bench *b, bench_device *device, target *target, const bench_shape *shape,
                          progress *progress)
{
    uint64_t bytes = bench_memory_bytes(shape);
    bench_memory memory;
    bench_reason reason;
    if (bench_find_memory(device, bytes) != NULL) {
        return EXIT_DONE;
    }
    progress_show(progress, "memory");
    int code = bench_measure_memory(target, bytes, &memory, &reason);
    progress_hide(progress);
    if (interrupt_has_come()) {
        return EXIT_UNDECIDED;
    }
    device->memories =
        reallocate(device->memories, device->memory_count + 1, sizeof device->memories[0]);
    device->memories[device->memory_count++] = memory;
    if (code == EXIT_DONE) {
        print_memory(b, &device->info, &memory);
        return EXIT_DONE;
    }
    complain("bench: %s: memory of %" PRIu64 " bytes: %s", device->info.id, bytes, reason.text);
    return code == EXIT_NOTHING ? EXIT_DONE : code;
}

static int measure_shape(bench *b, bench_device *device, target *target, const bench_work *work,
                         const bench_shape *shape, progress *progress)
{
    bench_result result;
    bench_reason reason;
    progress_show(progress, shape->name);
    int code = bench_measure(target, work, &result, &reason);
    progress_hide(progress);
    if (interrupt_has_come()) {
        return EXIT_UNDECIDED;
    }
    if (code != EXIT_DONE) {
        complain("bench: %s: %s: %s", device->info.id, shape->name, reason.text);
        return code;
    }
    device->results = reallocate(device->results, device->count + 1, sizeof device->results[0]);
    device->results[device->count++] = result;
    print_result(b, device, &result);
    return EXIT_DONE;
}

// One shape on all devices, so that its inputs are made once.
static int run_shape(bench *b, const bench_shape *shape, progress *progress)
{
    progress_show(progress, shape->name);
    bench_work *work = bench_work_make(shape);
    int code = work != NULL ? EXIT_DONE : EXIT_UNDECIDED;
    for (uint32_t d = 0; d < b->device_count && work != NULL && !interrupt_has_come(); d++) {
        target target;
        progress_hide(progress);
        int opened = target_open_or_complain(&target, b->infos[d].id);
        if (opened == EXIT_DONE) {
            bench_device *device = &b->devices[d];
            code = worst_exit(code, measure_memory(b, device, &target, shape, progress));
            if (!interrupt_has_come()) {
                code = worst_exit(code, measure_shape(b, device, &target, work, shape, progress));
            }
            target_close(&target);
        }
        code = worst_exit(code, opened);
        progress_step(progress);
    }
    bench_work_free(work);
    return code;
}

// What an interrupt has left: numbers are kept, and a picture of some of them is none.
static bool write_files(bench *b)
{
    size_t count = 0;
    for (uint32_t d = 0; d < b->device_count; d++) {
        count += b->devices[d].count;
    }
    bool is_complete = !interrupt_has_come();
    bool writes_json = b->json != NULL && (is_complete || count > 0);
    bool is_good =
        !writes_json || bench_write_json(b->json, b->devices, b->device_count, is_complete);
    if (is_complete && b->plot != NULL) {
        is_good = plot_write(b->plot, b->devices, b->device_count) && is_good;
    }
    if (!is_complete) {
        complain("bench: interrupted after %zu of %zu measurements%s%s%s", count,
                 b->shape_count * b->device_count,
                 writes_json && is_good               ? "; what there is of them is in "
                 : b->json != NULL || b->plot != NULL ? "; nothing was written"
                                                      : "",
                 writes_json && is_good ? b->json : "",
                 writes_json && is_good && b->plot != NULL ? ", and no picture was drawn" : "");
    }
    return is_good;
}

static int run(bench *b)
{
    int code = EXIT_DONE;
    progress progress;
    b->devices = allocate(b->device_count, sizeof b->devices[0]);
    interrupt_catch();
    for (uint32_t d = 0; d < b->device_count; d++) {
        b->devices[d].info = b->infos[d];
        b->devices[d].first_dot = bench_first_dot(b->infos[d].id);
    }
    progress_begin(&progress, "bench", "measurement", 0, b->shape_count * b->device_count);
    for (size_t k = 0; k < b->shape_count && !interrupt_has_come(); k++) {
        code = worst_exit(code, run_shape(b, &b->shapes[k], &progress));
    }
    progress_hide(&progress);
    if (!write_files(b)) {
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    for (uint32_t d = 0; d < b->device_count; d++) {
        free(b->devices[d].results);
        free(b->devices[d].memories);
    }
    free(b->devices);
    return code;
}

// --- What is to be timed

static void add_shape(bench *b, const bench_shape *shape)
{
    if (b->shape_count < MAX_SHAPES) {
        b->shapes[b->shape_count++] = *shape;
    }
}

static bool is_same_shape(const bench_shape *a, const bench_shape *b)
{
    return a->op == b->op && a->order == b->order && a->has_own_rhs == b->has_own_rhs &&
           a->G == b->G && a->count[0] == b->count[0] && a->count[1] == b->count[1];
}

// A shape that isn't built in, in both orders, but for what is in the list already.
static void add_dots(bench *b, const char *kind, uint32_t G, const uint32_t count[2], bool own_rhs)
{
    static const char *const orders[] = {"sequential", "pairwise"};
    for (unsigned order = 0; order < 2 && b->shape_count < MAX_SHAPES; order++) {
        char *name = b->names[b->shape_count];
        const bench_shape shape = {
            .name = name,
            .op = KQ_OP_QUANTIZED_DOT,
            .order = (kq_order)order,
            .has_own_rhs = own_rhs,
            .G = G,
            .count = {count[0], count[1]},
        };
        bool is_there = false;
        for (size_t k = 0; k < b->shape_count; k++) {
            is_there |= is_same_shape(&b->shapes[k], &shape);
        }
        if (!is_there) {
            snprintf(name, SHAPE_NAME_BYTES, "%s-%" PRIu32 "x%" PRIu32 "-of-%" PRIu32 "-%s", kind,
                     count[0], count[1], G, orders[order]);
            add_shape(b, &shape);
        }
    }
}

// What the plot's curve is made of: dots of 16 records that share them, 2^10 to 2^20 records in
// all.
static void add_series(bench *b)
{
    for (uint32_t dots = 1u << 6; dots <= 1u << 16; dots *= 4) {
        add_dots(b, "dots", PLOT_CURVE_RECORDS, (const uint32_t[]){dots, 1}, false);
    }
}

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

static bool is_too_large(uint64_t G, const uint32_t count[2])
{
    return count[0] * G > 1u << 26 || count[1] * G > 1u << 24 ||
           (uint64_t)count[0] * count[1] > 1u << 28;
}

// Two files that must not be one, for outputs are no inputs. False: complained about.
static bool are_apart(const char *a, const char *path_a, const char *b, const char *path_b)
{
    bool are = path_a == NULL || path_b == NULL || !is_same_file(path_a, path_b);
    if (!are) {
        complain("bench: --%s=%s and --%s=%s are one file", a, path_a, b, path_b);
    }
    return are;
}

static bool has_any(const bench *b)
{
    bool has = false;
    for (uint32_t d = 0; d < b->device_count; d++) {
        has |= bench_baseline_has(b->baseline, b->infos[d].name);
    }
    return has;
}

int cmd_bench(int argc, char **argv)
{
    bench b = {0};
    const char *device = "all", *repeat = NULL, *filter = NULL, *baseline = NULL;
    uint64_t records = 0, longest = 0;
    bool list_only = false;
    const option options[] = {
        {.name = "device",
         .value = "D|all",
         .kind = OPTION_TEXT,
         .text = &device,
         .help = "an id, a uuid, or a part of one device's name (all)"},
        {.name = "filter",
         .value = "GLOB",
         .kind = OPTION_TEXT,
         .text = &filter,
         .help = "only operations with such names"},
        {.name = "list",
         .kind = OPTION_FLAG,
         .flag = &list_only,
         .help = "print the names of the operations and time nothing"},
        {.name = "records",
         .value = "G",
         .kind = OPTION_NUMBER,
         .min = 1,
         .max = 1u << 24,
         .number = &records,
         .help = "instead: dots of G records (16)"},
        {.name = "repeat",
         .value = "A,B",
         .kind = OPTION_TEXT,
         .text = &repeat,
         .help = "instead: A dots that share their Q8_K records, B times over (4096,1)"},
        {.name = "long",
         .value = "G",
         .kind = OPTION_NUMBER,
         .min = 16,
         .max = 1u << 24,
         .number = &longest,
         .help = "instead: one dot of 16, 64, ... up to G records"},
        {.name = "json",
         .value = "F",
         .kind = OPTION_TEXT,
         .text = &b.json,
         .help = "write the times, and where they come from, to this file; what an\n"
                 "interrupt ends leaves those that it has, and says that it is incomplete"},
        {.name = "plot",
         .value = "F.svg",
         .kind = OPTION_TEXT,
         .text = &b.plot,
         .help = "write a picture: products/s against products a byte, under the memory's roof,\n"
                 "and how the rate of dots of 16 records grows with their number, for which\n"
                 "some more are timed"},
        {.name = "compare",
         .value = "F",
         .kind = OPTION_TEXT,
         .text = &baseline,
         .help = "an earlier file of --json, which has one of the devices: how many times as\n"
                 "fast those of the same names are now"},
    };
    const usage usage = {
        .name = "bench",
        .summary = "[--option=value ...]",
        .about =
            "Times dots in both orders, and quantize, with all data on the device. First each is "
            "compared with\nthe reference, and what is wrong is not timed (exit 1). An operation "
            "is recorded once; a round is\none run of it. Host time goes from the call until its "
            "result is there, device time is the\ndevice's own, - where it has no clock. The "
            "spread is from the fastest round to the slowest. GB/s\ncount 144 bytes for each Q4_K "
            "record a dot takes, 1024 for each block that is quantized, by the\ndevice's time if "
            "there is one. On a machine that does other things compare only ratios of one run.\n\n"
            "Beside them, once for each size of input, a kernel that only reads as many bytes and "
            "one that copies\nthem, whose results are checked too. The share is an operation's "
            "GB/s "
            "of theirs: of those of\nmemory-read for dots, of those of memory-copy for quantize. "
            "It "
            "can be above 100%, for a record\nthat is read once may serve several dots, and "
            "quantize "
            "writes less than a copy. Inputs of more\nthan 1 GiB are held to 1 GiB.\n\n"
            "The first dot is of one record. It tells how long the driver's compilers take, unless "
            "a "
            "cache of the\ndriver's holds what they made.\n",
        .examples = "  kquant bench --device=vulkan:0\n"
                    "  kquant bench --device=vulkan:0 --records=64 --repeat=4096,4\n"
                    "  kquant bench --device=vulkan:0 --long=4194304 --json=before.json\n"
                    "  kquant bench --device=vulkan:0 --compare=before.json --plot=now.svg\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    switch (options_parse(&usage, argc, argv, NULL)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }
    if (!are_apart("json", b.json, "compare", baseline) ||
        !are_apart("plot", b.plot, "compare", baseline) ||
        !are_apart("json", b.json, "plot", b.plot)) {
        return EXIT_USAGE;
    }
    if (list_only && (b.json != NULL || b.plot != NULL)) {
        complain("bench: --list times nothing, so there is nothing to write");
        return EXIT_USAGE;
    }
    uint32_t count[2] = {4096, 1};
    bool is_own = records != 0 || repeat != NULL;
    if (repeat != NULL && !parse_counts(repeat, count)) {
        complain("bench: --repeat=%s: must be A or A,B, whole numbers from 1 to %u", repeat,
                 1u << 24);
        return EXIT_USAGE;
    }
    records = records != 0 ? records : 16;
    if (is_too_large(records, count)) {
        complain("bench: --records and --repeat ask for more than bench keeps in memory: 2^26 Q4_K "
                 "records, 2^24 Q8_K records or 2^28 results");
        return EXIT_USAGE;
    }
    if (longest != 0 && is_own) {
        complain("bench: --long is one dot of its own sizes, without --records and --repeat");
        return EXIT_USAGE;
    }
    if (filter != NULL && (is_own || longest != 0)) {
        complain(
            "bench: --filter chooses from the list, which --records, --repeat and --long replace");
        return EXIT_USAGE;
    }
    if (is_own) {
        add_dots(&b, "dots", (uint32_t)records, count, false);
    }
    for (uint64_t G = 16; G <= longest; G *= 4) {
        add_dots(&b, "long", (uint32_t)G, (const uint32_t[]){1, 1}, true);
    }
    for (size_t k = 0; k < bench_shape_count && !is_own && longest == 0; k++) {
        if (filter == NULL || matches(filter, bench_shapes[k].name)) {
            add_shape(&b, &bench_shapes[k]);
        }
    }
    if (b.plot != NULL && b.shape_count > 0) {
        add_series(&b);
    }
    if (b.shape_count == 0) {
        complain("bench: --filter=%s: no operation has such a name; see --list", filter);
        return EXIT_NOTHING;
    }
    if (list_only) {
        for (size_t k = 0; k < b.shape_count; k++) {
            printf("%s\n", b.shapes[k].name);
        }
        return EXIT_DONE;
    }
    if ((b.json != NULL && !is_writable(b.json)) || (b.plot != NULL && !is_writable(b.plot))) {
        return EXIT_UNDECIDED;
    }
    if (baseline != NULL && (b.baseline = bench_baseline_read(baseline)) == NULL) {
        return EXIT_UNDECIDED;
    }
    int code;
    kq_device_info *infos = target_list(device, &b.device_count, &code);
    b.infos = infos;
    if (infos != NULL && b.baseline != NULL && !has_any(&b)) {
        complain("bench: --compare=%s: none of these devices is in it", baseline);
        code = EXIT_UNDECIDED;
    } else if (infos != NULL) {
        code = run(&b);
    }
    free(infos);
    bench_baseline_free(b.baseline);
    if (interrupt_has_come()) {
        fflush(stdout);
        interrupt_end();
    }
    return code;
}
