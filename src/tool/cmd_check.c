// kquant check: runs the cases on devices, compares every bit, and sums up.

#include "cases.h"
#include "judge.h"
#include "options.h"
#include "platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL_DRAWS = 2000, MAX_ERRORS = 8 };

typedef struct tally {
    char id[32];
    uint64_t counts[CASE_STATUSES];
    bool has_run[3];    // by kq_op: a case of it ran
    char reason[1024];  // why the device could not be opened, or was given up; else ""
} tally;

typedef struct check {
    case_list list;
    const char *filter;
    size_t selected;
    target reference;  // for expectations and explanations, never what is judged
} check;

static bool is_selected(const check *check, const test_case *test)
{
    return check->filter == NULL || matches(check->filter, test->name);
}

// --- Progress, on stderr

typedef struct progress {
    const char *id;
    size_t done, total;
    bool is_bar;
} progress;

static void progress_show(const progress *progress)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    size_t filled = progress->total == 0 ? WIDTH : progress->done * WIDTH / progress->total;
    memset(bar, '.', WIDTH);
    memset(bar, '#', filled);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%-10s [%s] %zu/%zu", progress->id, bar, progress->done, progress->total);
}

static void progress_begin(progress *progress, const char *id, size_t total)
{
    progress->id = id;
    progress->done = 0;
    progress->total = total;
    progress->is_bar = platform_stderr_is_terminal();
    if (progress->is_bar) {
        progress_show(progress);
    } else {
        fprintf(stderr, "%s: running %zu cases\n", id, total);
    }
}

static void progress_step(progress *progress)
{
    progress->done++;
    if (progress->is_bar && (progress->done % 16 == 0 || progress->done == progress->total)) {
        progress_show(progress);
    }
}

// Takes the bar away, so that a line on stdout does not end up behind it.
static void progress_hide(void *user)
{
    const progress *progress = user;
    if (progress->is_bar) {
        fprintf(stderr, "\r%*s\r", 79, "");
    }
}

// --- Running

static case_status run_case(check *check, report *report, const test_case *test)
{
    trial trial;
    const char *reason = NULL;
    if (!test->build(&check->list, test, &check->reference, &trial, &reason)) {
        if (report_counts(report)) {
            printf("ERROR  %s: %s\n", test->name, reason);
        }
        return CASE_ERROR;
    }
    outcome outcome;
    trial_run(&trial, report->device, &outcome);
    case_status status = judge(report, test->name, &trial, &outcome);
    outcome_free(&outcome);
    trial_free(&trial);
    return status;
}

// A driver that has failed may be good for nothing more: the next case gets a new device, unless
// that fails too, or errors have come in a row; then there is none.
static void reopen(target *device, unsigned errors, const char *name, tally *tally)
{
    if (errors >= MAX_ERRORS) {
        snprintf(tally->reason, sizeof tally->reason, "%u errors in a row", errors);
    } else if (target_open(device, tally->id) != KQ_OK) {
        snprintf(tally->reason, sizeof tally->reason, "%s", device->reason);
    } else {
        return;
    }
    printf("ERROR  the device is given up after %s: %s\n", name, tally->reason);
}

// All selected cases on one device. The device itself is the first to fail if it can't be opened.
static void run_device(check *check, const char *name, tally *tally)
{
    target device;
    kq_result result = target_open(&device, name);
    if (result != KQ_OK) {
        snprintf(tally->id, sizeof tally->id, "%s", name);
        snprintf(tally->reason, sizeof tally->reason, "%s", device.reason);
        tally->counts[CASE_ERROR] = check->selected;
        printf("%s\nERROR  the device can't be opened: %s\n", name, tally->reason);
        return;
    }
    snprintf(tally->id, sizeof tally->id, "%s", device.info->id);
    target_print(device.info);
    printf("\n");
    fflush(stdout);

    progress progress;
    report report = {
        .device = &device,
        .reference = device.info->api == KQ_API_REFERENCE ? NULL : &check->reference,
        .before_line = progress_hide,
        .user = &progress,
    };
    progress_begin(&progress, tally->id, check->selected);
    unsigned errors = 0;  // in a row
    for (size_t k = 0; k < check->list.count; k++) {
        const test_case *test = &check->list.cases[k];
        if (!is_selected(check, test)) {
            continue;
        }
        if (device.device == NULL) {
            tally->counts[CASE_ERROR]++;
            continue;
        }
        uint64_t mismatches = report.mismatch_count;
        case_status status = run_case(check, &report, test);
        tally->counts[status]++;
        tally->has_run[test->op] |= status != CASE_UNSUPPORTED;
        progress_step(&progress);
        if (report.mismatch_count != mismatches) {
            fflush(stdout);
        }
        errors = status == CASE_ERROR ? errors + 1 : 0;
        if (errors > 0) {
            target_close(&device);
            reopen(&device, errors, test->name, tally);
        }
    }
    progress_hide(&progress);
    if (report.mismatch_count > REPORT_LINES) {
        printf("       and %" PRIu64 " mismatches more\n", report.mismatch_count - REPORT_LINES);
    }
    if (device.device != NULL) {
        target_close(&device);
    }
}

// --- Summing up

static int exit_of(const check *check, const tally *tally)
{
    int code = EXIT_DONE;
    for (int op = KQ_OP_QUANTIZE; op <= KQ_OP_QUANTIZED_DOT; op++) {
        if (check->list.vectors.has_op[op] && !tally->has_run[op]) {
            code = EXIT_NOTHING;
        }
    }
    if (check->selected == 0) {
        code = EXIT_NOTHING;
    }
    if (tally->counts[CASE_ERROR] > 0 || tally->reason[0] != '\0') {
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    if (tally->counts[CASE_FAIL] > 0 || tally->counts[CASE_UNSUPPORTED] > 0) {
        code = worst_exit(code, EXIT_FAILED);
    }
    return code;
}

static int sum_up(const check *check, const tally *tallies, size_t count)
{
    int code = count == 0 ? EXIT_NOTHING : EXIT_DONE;
    uint64_t passed = 0, failed = 0, skipped = 0;
    printf("\n%-10s", "device");
    for (unsigned status = 0; status < CASE_STATUSES; status++) {
        printf("  %11s", case_status_name((case_status)status));
    }
    printf("\n");
    for (size_t d = 0; d < count; d++) {
        const tally *tally = &tallies[d];
        printf("%-10s", tally->id);
        for (unsigned status = 0; status < CASE_STATUSES; status++) {
            printf("  %11" PRIu64, tally->counts[status]);
        }
        printf("\n");
        code = worst_exit(code, exit_of(check, tally));
        passed += tally->counts[CASE_PASS];
        failed += check->selected - tally->counts[CASE_PASS];
        skipped += check->list.count - check->selected;
    }
    static const char *const op_names[] = {NULL, "quantize", "quantized_dot"};
    for (int op = KQ_OP_QUANTIZE; op <= KQ_OP_QUANTIZED_DOT; op++) {
        for (size_t d = 0; d < count; d++) {
            if (check->list.vectors.has_op[op] && !tallies[d].has_run[op]) {
                printf("%s: no case of %s ran\n", tallies[d].id, op_names[op]);
            }
        }
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed, %" PRIu64 " skipped\n", passed, failed,
           skipped);
    return code;
}

// --- The command

// Fills the list of cases; EXIT_DONE or why it can't be.
static int fill(case_list *list, const char *folder, bool is_full)
{
    if (folder != NULL) {
        if (!vectors_add_folder(&list->vectors, folder)) {
            return EXIT_UNDECIDED;
        }
        cases_add_vectors(list);
    } else {
        if (!vectors_add_built_in(&list->vectors)) {
            return EXIT_UNDECIDED;
        }
        cases_add_vectors(list);
        cases_add_layouts(list);
        if (is_full) {
            cases_add_limits(list);
            cases_add_draws(list, FULL_DRAWS);
        }
    }
    cases_finish(list);
    return EXIT_DONE;
}

static void print_list(const check *check)
{
    for (size_t k = 0; k < check->list.count; k++) {
        if (is_selected(check, &check->list.cases[k])) {
            printf("%s\n", check->list.cases[k].name);
        }
    }
}

// Runs on the devices meant by `device`: NULL, "all" or one. what: vectors or level, for the head.
static int run_devices(check *check, const char *device, const char *what)
{
    uint32_t count;
    int code;
    kq_device_info *infos = target_list(device, &count, &code);
    if (infos == NULL) {
        return code;
    }
    printf("kquant %d.%d.%d check: %s, seed %" PRIu64 ", %zu of %zu cases\n", KQ_VERSION_MAJOR,
           KQ_VERSION_MINOR, KQ_VERSION_PATCH, what, check->list.seed, check->selected,
           check->list.count);
    tally *tallies = allocate(count, sizeof *tallies);
    for (uint32_t d = 0; d < count; d++) {
        run_device(check, infos[d].id, &tallies[d]);
    }
    code = sum_up(check, tallies, count);
    free(tallies);
    free(infos);
    return code;
}

static const char about[] =
    "Runs the test vectors on a device, and with them every operation at odd offsets, with "
    "strides,\n"
    "in repeats, on no records, on blocks that have no record. Every case fills its outputs and "
    "what\nlies around them with other bytes first, and compares all of it afterwards, byte by "
    "byte.\n\n"
    "A mismatch is one line: case, record, field, input, expected, got; bits in hex, most "
    "significant\nfirst. Below a wrong dot stands the first record whose own term is wrong, taken "
    "apart. The first 20\nof each device are printed, all are counted.\n\n"
    "--vectors=DIR runs one case for each line of quantize.tsv and dot.tsv, two for one of "
    "bulk.tsv, of\nthe files that DIR has. Columns are divided by tabs; # begins a comment line; - "
    "is no bytes:\n"
    "  quantize.tsv  name, G, values as hex, ok or domain-error:RECORD:REASON, records as hex\n"
    "                (REASON is nonfinite-input@ELEMENT or inverse-overflow)\n"
    "  dot.tsv       name, G, Q4_K records as hex, Q8_K records as hex, bits of the sequential "
    "and\n"
    "                of the pairwise result\n"
    "  bulk.tsv      seed, G, FNV-1a 64 of the records quantized from values(seed), bits of both\n"
    "                results of these with q4(seed + 1), where values and q4 are drawn by "
    "splitmix64\n\n"
    "The last line is always \"N passed, N failed, N skipped\", over all devices: failed is "
    "whatever did\nnot pass, and the table above it says how; skipped is what --filter left out. "
    "Exit 0 means that at\nleast one case of each operation ran on every device (with --vectors: "
    "of each that DIR has a file\nfor) and all passed. A filter that leaves one operation out "
    "gives "
    "77 where all else passes. Exit 1:\na case failed, or a limit of the device stopped it. 99: a "
    "driver failed, the named device is not\nthere, a file is malformed. 77: nothing to run.\n";

static const char examples[] = "  kquant check                          # the default device\n"
                               "  kquant check --device=all --level=full\n"
                               "  kquant check --device=reference --filter='*.base.offsets-*'\n"
                               "  kquant check --device=all --vectors=more-vectors\n";

int cmd_check(int argc, char **argv)
{
    const char *device = NULL, *folder = NULL;
    unsigned level = 0;
    bool list_only = false;
    check check = {.list = {.seed = 1}};
    const option options[] = {
        {.name = "device",
         .value = "D|all",
         .kind = OPTION_TEXT,
         .text = &device,
         .help = "an id, a uuid, or a part of one device's name; all: every device\n"
                 "that is listed, the reference too; without it the first discrete\n"
                 "GPU, else integrated, else software"},
        {.name = "filter",
         .value = "GLOB",
         .kind = OPTION_TEXT,
         .text = &check.filter,
         .help = "only cases with such names; * is any characters, ? any one"},
        {.name = "level",
         .value = "quick|full",
         .kind = OPTION_CHOICE,
         .choice = &level,
         .help = "full: every case also cut into many submissions, repeats of millions of\n"
                 "dots, and 2000 random draws compared with the reference (quick)"},
        {.name = "seed",
         .value = "N",
         .kind = OPTION_NUMBER,
         .max = UINT64_MAX,
         .number = &check.list.seed,
         .help = "of the draws, and of the bytes that outputs are filled with (1)"},
        {.name = "vectors",
         .value = "DIR",
         .kind = OPTION_TEXT,
         .text = &folder,
         .help = "the TSV files of this folder in place of the built-in vectors"},
        {.name = "list",
         .kind = OPTION_FLAG,
         .flag = &list_only,
         .help = "print the names of the cases and run nothing"},
    };
    const usage usage = {
        .name = "check",
        .summary = "[--device=D|all] [--filter=GLOB] [--level=quick|full] [--seed=N] "
                   "[--vectors=DIR] [--list]",
        .about = about,
        .examples = examples,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    switch (options_parse(&usage, argc, argv, NULL)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }
    if (folder != NULL && level == 1) {
        complain("check: --level=full adds draws to the built-in vectors, not to --vectors=%s",
                 folder);
        return EXIT_USAGE;
    }

    int code = fill(&check.list, folder, level == 1);
    if (code != EXIT_DONE) {
        goto done;
    }
    for (size_t k = 0; k < check.list.count; k++) {
        check.selected += is_selected(&check, &check.list.cases[k]);
    }
    if (list_only) {
        print_list(&check);
        goto done;
    }
    if (check.list.count == 0 && folder != NULL) {
        complain("--vectors=%s: no case in quantize.tsv, dot.tsv or bulk.tsv", folder);
    } else if (check.selected == 0) {
        complain("--filter=%s: no case has such a name; see --list", check.filter);
    }

    code = target_open_or_complain(&check.reference, "reference");
    if (code == EXIT_DONE) {
        code = run_devices(&check, device,
                           folder != NULL ? folder
                           : level == 1   ? "level full"
                                          : "level quick");
        target_close(&check.reference);
    }
done:
    cases_free(&check.list);
    return code;
}
