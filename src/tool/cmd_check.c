// kquant check: runs the cases on devices, compares every bit, and sums up.

#include "files.h"
#include "interrupt.h"
#include "options.h"
#include "platform.h"
#include "resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check {
    run_options options;
    selection selection;
    const char *device;        // NULL, "all" or one
    const char *against;       // one more, or NULL
    const char *json, *junit;  // files to write, or NULL
    bool is_resumed;
    device_run *runs;  // of all devices, whether they have run or not
    size_t run_count;
    bool has_head;
    bool cannot_save;
    double saved_at;
} check;

// --- Summing up

// The name of an operation that cases were to be run of, and none was; or NULL.
static const char *not_run(const check *check, const device_run *run)
{
    static const char *const names[] = {NULL, "quantize", "quantized_dot"};
    for (int op = KQ_OP_QUANTIZE; op <= KQ_OP_QUANTIZED_DOT; op++) {
        if (check->selection.list.vectors.has_op[op] && !run->has_run[op]) {
            return names[op];
        }
    }
    return NULL;
}

static int exit_of(const check *check, const device_run *run)
{
    int code = EXIT_DONE;
    if (not_run(check, run) != NULL || check->selection.count == 0) {
        code = EXIT_NOTHING;
    }
    if (run->counts[CASE_ERROR] > 0 || run->reason[0] != '\0' ||
        run->counts[CASE_PASS] + run->counts[CASE_FAIL] + run->counts[CASE_UNSUPPORTED] +
                run->counts[CASE_ERROR] !=
            check->selection.count) {
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    if (run->counts[CASE_FAIL] > 0 || run->counts[CASE_UNSUPPORTED] > 0) {
        code = worst_exit(code, EXIT_FAILED);
    }
    return code;
}

static int sum_up(const check *check)
{
    int code = check->run_count == 0 ? EXIT_NOTHING : EXIT_DONE;
    uint64_t passed = 0, failed = 0;
    size_t skipped = check->selection.list.count - check->selection.count;
    printf("\n%-10s", "device");
    for (unsigned status = CASE_PASS; status < CASE_STATUSES; status++) {
        printf("  %11s", case_status_name((case_status)status));
    }
    printf("  fingerprint\n");
    for (size_t d = 0; d < check->run_count; d++) {
        const device_run *run = &check->runs[d];
        char fingerprint[SHA256_HEX_BYTES];
        run_fingerprint(&check->selection, run, fingerprint);
        print_text(stdout, run->info.id);
        printf("%*s", strlen(run->info.id) < 10 ? (int)(10 - strlen(run->info.id)) : 0, "");
        for (unsigned status = CASE_PASS; status < CASE_STATUSES; status++) {
            printf("  %11" PRIu64, run->counts[status]);
        }
        // A report calls it incomplete.
        printf("  %.16s\n",
               run->counts[CASE_PASS] == check->selection.count ? fingerprint : "none");
        code = worst_exit(code, exit_of(check, run));
        passed += run->counts[CASE_PASS];
        failed += check->selection.count - run->counts[CASE_PASS];
    }
    for (size_t d = 0; d < check->run_count; d++) {
        const char *op = not_run(check, &check->runs[d]);
        if (op != NULL) {
            print_text(stdout, check->runs[d].info.id);
            printf(": no case of %s ran\n", op);
        }
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed, %zu skipped\n", passed, failed,
           skipped * check->run_count);
    return code;
}

// The cases in which the last device's outputs are not the other's.
static int compare(const check *check)
{
    const device_run *other = &check->runs[check->run_count - 1];
    uint64_t differences = 0, compared = 0;
    for (size_t d = 0; d + 1 < check->run_count; d++) {
        const device_run *run = &check->runs[d];
        for (size_t k = 0; k < check->selection.count; k++) {
            const case_result *a = &run->results[k], *b = &other->results[k];
            bool is_both = a->digest[0] != '\0' && b->digest[0] != '\0';
            compared += is_both;
            if (is_both && strcmp(a->digest, b->digest) != 0 && differences++ < REPORT_LINES) {
                printf("DIFFER %s: outputs are %.16s on %s, %.16s on %s\n",
                       check->selection.cases[k]->name, a->digest, run->info.id, b->digest,
                       other->info.id);
            }
        }
    }
    printf("%" PRIu64 " cases compared with ", compared);
    print_text(stdout, other->info.id);
    printf(", %" PRIu64 " differ\n", differences);
    return differences > 0 ? EXIT_FAILED : compared == 0 ? EXIT_NOTHING : EXIT_DONE;
}

static void print_head(const check *check)
{
    printf("kquant %d.%d.%d check: ", KQ_VERSION_MAJOR, KQ_VERSION_MINOR, KQ_VERSION_PATCH);
    print_text(stdout, check->options.vectors != NULL ? check->options.vectors
                       : check->options.is_full       ? "level full"
                                                      : "level quick");
    printf(", seed %" PRIu64 ", %zu of %zu cases\n", check->options.seed, check->selection.count,
           check->selection.list.count);
}

// The head of the output waits for the first device, so that a name that is none gets a complaint
// and nothing else.
static void print_opened(void *user, const device_run *run)
{
    check *check = user;
    if (!check->has_head) {
        print_head(check);
        check->has_head = true;
    }
    target_print(&run->info);
    printf("\n");
}

// --- Reports

// Writes the files that were asked for. What went wrong once goes wrong again, and is said once.
static bool save(check *check)
{
    bool is_wanted = check->json != NULL || check->junit != NULL;
    if (is_wanted && !check->cannot_save) {
        run_report report;
        report_make(&check->options, &check->selection, check->device, check->against, check->runs,
                    check->run_count, &report);
        check->cannot_save = (check->json != NULL && !report_write_json(&report, check->json)) ||
                             (check->junit != NULL && !report_write_junit(&report, check->junit));
        report_free(&report);
        check->saved_at = platform_seconds();
    }
    return !check->cannot_save;
}

static void after_case(void *user, const device_run *run, size_t done)
{
    enum { SAVE_SECONDS = 2 };
    check *check = user;
    (void)run;
    (void)done;
    if (platform_seconds() - check->saved_at >= SAVE_SECONDS) {
        save(check);
    }
}

// Takes over what the file has of this run, if it is there.
static int resume(check *check)
{
    run_report old, now;
    path_kind kind = platform_path_kind(check->json);
    if (kind == PATH_ABSENT) {
        return EXIT_DONE;
    }
    if (kind == PATH_OTHER) {
        complain("--resume: %s: is no ordinary file", check->json);
        return EXIT_UNDECIDED;
    }
    if (!report_read(check->json, &old)) {
        return EXIT_UNDECIDED;
    }
    report_make(&check->options, &check->selection, check->device, check->against, check->runs,
                check->run_count, &now);
    int code =
        resume_from(check->json, &old, &now, &check->selection, check->runs, check->run_count);
    report_free(&now);
    report_free(&old);
    return code;
}

// --- Running

// A code other than EXIT_DONE: the device was asked for and isn't there, which was complained
// about.
static int run_one(check *check, const char *device, bool is_listed, device_run *run)
{
    const run_watch watch = {print_opened, after_case, check};
    run_device(&check->options, &check->selection, device, run, &watch);
    if (run->is_other && check->is_resumed && !run->is_open) {
        complain("--resume: %s is of another device: %s", check->json, run->reason);
        run->reason[0] = '\0';
        return EXIT_UNDECIDED;
    }
    if (!run->is_open && !is_listed && run->opened != KQ_OK) {
        return target_complain(run->is_judge ? "against" : "device", device, run->opened,
                               run->reason);
    }
    if (!run->is_open && !check->has_head) {
        print_head(check);
        check->has_head = true;
    }
    if (!run->is_open && run->reason[0] != '\0') {
        print_text(stdout, run->info.id);
        printf("\nERROR  the device can't be opened: ");
        print_text(stdout, run->reason);
        printf("\n");
    }
    return EXIT_DONE;
}

// What was done is kept. Returns the exit code of who can't be told apart from a signal.
static int say_interrupted(const check *check)
{
    size_t done = 0;
    for (size_t d = 0; d < check->run_count; d++) {
        for (size_t k = 0; k < check->selection.count; k++) {
            done += check->runs[d].results[k].status != CASE_MISSING;
        }
    }
    complain("interrupted after %zu of %zu cases%s%s", done,
             check->run_count * check->selection.count,
             check->json != NULL ? "; the same command with --resume goes on from " : "",
             check->json != NULL ? check->json : "");
    return EXIT_UNDECIDED;
}

static void plan(check *check, const char *device, const kq_device_info *info)
{
    device_run *run = &check->runs[check->run_count++];
    run->results = allocate(check->selection.count, sizeof run->results[0]);
    run->is_known = info != NULL;
    if (info != NULL) {
        run->info = *info;
    } else {
        snprintf(run->info.id, sizeof run->info.id, "%s", device != NULL ? device : "default");
    }
}

static int run_all(check *check)
{
    uint32_t count = 1;
    kq_device_info *infos = NULL;
    if (check->device != NULL && strcmp(check->device, "all") == 0) {
        infos = list_devices(&count);
        if (infos == NULL) {
            return EXIT_UNDECIDED;
        }
    }
    check->runs = allocate(count + 1, sizeof check->runs[0]);
    for (uint32_t d = 0; d < count; d++) {
        plan(check, check->device, infos != NULL ? &infos[d] : NULL);
    }
    if (check->against != NULL) {
        plan(check, check->against, NULL);
        check->runs[check->run_count - 1].is_judge = true;
    }
    int code = check->is_resumed ? resume(check) : EXIT_DONE;
    if (code == EXIT_DONE && !save(check)) {
        code = EXIT_UNDECIDED;
    }
    bool has_begun = code == EXIT_DONE;
    interrupt_catch();
    for (size_t d = 0; d < check->run_count && code == EXIT_DONE && !interrupt_has_come(); d++) {
        bool is_against = d == count;
        code = run_one(check,
                       is_against      ? check->against
                       : infos != NULL ? infos[d].id
                                       : check->device,
                       infos != NULL && !is_against, &check->runs[d]);
    }
    if (code == EXIT_DONE && interrupt_has_come()) {
        code = say_interrupted(check);
    } else if (code == EXIT_DONE) {
        code = sum_up(check);
        code = check->against != NULL ? worst_exit(code, compare(check)) : code;
    }
    if (has_begun && !save(check)) {
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    free(infos);
    for (size_t d = 0; d < check->run_count; d++) {
        device_run_free(&check->runs[d], check->selection.count);
    }
    free(check->runs);
    return code;
}

// --- The command

// Whether an output is no input.
static bool is_apart(const check *check, const char *option, const char *path)
{
    const char *folder = check->options.vectors;
    bool is = path == NULL || folder == NULL || !vectors_has_file(folder, path);
    if (!is) {
        complain("check: --%s=%s is one of the files of --vectors=%s", option, path, folder);
    }
    return is;
}

static void print_list(const selection *selection)
{
    for (size_t k = 0; k < selection->count; k++) {
        printf("%s\n", selection->cases[k]->name);
    }
}

static const char about[] =
    "Runs the test vectors on a device, and with them every operation at odd offsets, with "
    "strides,\n"
    "in repeats, on no records, on blocks that have no record, among many, with every bit of its\n"
    "records flipped, over and over, and on two devices in two threads at once. Every case fills "
    "its\noutputs and what lies around them with other bytes first, and compares all of it "
    "afterwards, byte\nby byte.\n\n"
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
    "driver failed, the named device is not\nthere, a file is malformed. 77: nothing to run. 2: "
    "the command line is wrong. What an interrupt ends\nleaves its report for --resume.\n";

static const char examples[] =
    "  kquant check                          # the default device\n"
    "  kquant check --device=all --level=full\n"
    "  kquant check --device=reference --filter='*.base.offsets-*'\n"
    "  kquant check --device=all --vectors=more-vectors\n"
    "  kquant check --device=all --level=full --json=mine.json --resume\n";

int cmd_check(int argc, char **argv)
{
    unsigned level = 0;
    bool list_only = false;
    const char *worker = NULL;
    check check = {.options = {.seed = 1, .time_limit = 300}};
    const option options[] = {
        {.name = "device",
         .value = "D|all",
         .kind = OPTION_TEXT,
         .text = &check.device,
         .help = "an id, a uuid, or a part of one device's name; all: every device\n"
                 "that is listed, the reference too; without it the first discrete\n"
                 "GPU, else integrated, else software"},
        {.name = "against",
         .value = "D",
         .kind = OPTION_TEXT,
         .text = &check.against,
         .help = "one device more, and the cases in which its outputs are others"},
        {.name = "filter",
         .value = "GLOB",
         .kind = OPTION_TEXT,
         .text = &check.options.filter,
         .help = "only cases with such names; * is any characters, ? any one;\n"
                 "!GLOB: only those without"},
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
         .number = &check.options.seed,
         .help = "of the draws, and of the bytes that outputs are filled with (1)"},
        {.name = "time-limit",
         .value = "S",
         .kind = OPTION_NUMBER,
         .min = 1,
         .max = 86400,
         .number = &check.options.time_limit,
         .help = "seconds that a case may take, and opening a device (300)"},
        {.name = "vectors",
         .value = "DIR",
         .kind = OPTION_TEXT,
         .text = &check.options.vectors,
         .help = "the TSV files of this folder in place of the built-in vectors"},
        {.name = "json",
         .value = "F",
         .kind = OPTION_TEXT,
         .text = &check.json,
         .help = "write a report of the run to this file, for kquant report; it is there\n"
                 "from the start, and says that it is incomplete until it is not"},
        {.name = "junit",
         .value = "F",
         .kind = OPTION_TEXT,
         .text = &check.junit,
         .help = "the same as JUnit XML"},
        {.name = "resume",
         .kind = OPTION_FLAG,
         .flag = &check.is_resumed,
         .help = "go on with the run that left the file of --json: errors and what is\n"
                 "missing there is run; where there is no file, everything"},
        {.name = "list",
         .kind = OPTION_FLAG,
         .flag = &list_only,
         .help = "print the names of the cases and run nothing"},
        {.name = "fault",
         .value = "KIND[:GLOB]",
         .kind = OPTION_TEXT,
         .text = &check.options.fault,
         .help = "act as if the driver were broken, in cases of such names, to see that\n"
                 "the verdict is never a pass; not on --against. " FAULT_NAMES
                 ":\nnothing is written, a bit is wrong, a byte beside outputs is written,\n"
                 "the device is lost, the process ends, a case never does"},
        {.name = "worker", .value = "N,M", .kind = OPTION_TEXT, .text = &worker},
    };
    const usage usage = {
        .name = "check",
        .summary = "[--option=value ...]",
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
    check.options.is_full = level == 1;
    if (check.options.vectors != NULL && check.options.is_full) {
        complain("check: --level=full adds draws to the built-in vectors, not to --vectors=%s",
                 check.options.vectors);
        return EXIT_USAGE;
    }
    if (check.options.fault != NULL && !fault_is_known(check.options.fault)) {
        complain("check: --fault=%s: must be one of " FAULT_NAMES ", or that and :GLOB",
                 check.options.fault);
        return EXIT_USAGE;
    }
    if (check.is_resumed && check.json == NULL) {
        complain("check: --resume needs the --json=F that it goes on with");
        return EXIT_USAGE;
    }
    if (check.json != NULL && check.junit != NULL && is_same_file(check.json, check.junit)) {
        complain("check: --json=%s and --junit=%s are one file", check.json, check.junit);
        return EXIT_USAGE;
    }
    if (!is_apart(&check, "json", check.json) || !is_apart(&check, "junit", check.junit)) {
        return EXIT_USAGE;
    }
    if (list_only && (check.json != NULL || check.junit != NULL)) {
        complain("check: --list runs nothing that --json or --junit could report");
        return EXIT_USAGE;
    }

    int code = selection_make(&check.options, &check.selection);
    const selection *selection = &check.selection;
    if (code != EXIT_DONE) {
        goto done;
    }
    size_t first = 0, end = 0;
    if (worker != NULL) {
        char expected[SHA256_HEX_BYTES], digest[SHA256_HEX_BYTES];
        selection_digest(selection, digest);
        if (sscanf(worker, "%zu,%zu,%64s", &first, &end, expected) != 3 || end > selection->count ||
            strcmp(expected, digest) != 0) {
            complain("check: --worker=%s: the list has %zu cases, digest %s", worker,
                     selection->count, digest);
            code = EXIT_USAGE;
            goto done;
        }
        code = run_worker(&check.options, selection, check.device, first, end);
        goto done;
    }
    size_t struck = 0;
    for (size_t k = 0; k < selection->count; k++) {
        struck += fault_of(check.options.fault, selection->cases[k]->name) != FAULT_NONE;
    }
    if (selection->list.count == 0 && check.options.vectors != NULL) {
        complain("--vectors=%s: no case in quantize.tsv, dot.tsv or bulk.tsv",
                 check.options.vectors);
    } else if (selection->count == 0) {
        complain("--filter=%s: no case has such a name; see --list", check.options.filter);
    } else if (struck == 0 && check.options.fault != NULL) {
        complain("check: --fault=%s: no case that is run has such a name", check.options.fault);
        code = EXIT_USAGE;
        goto done;
    }
    if (selection->count == 0) {
        printf("0 passed, 0 failed, %zu skipped\n", selection->list.count);
        code = EXIT_NOTHING;
    } else if (list_only) {
        print_list(selection);
    } else {
        code = run_all(&check);
    }
done:
    selection_free(&check.selection);
    if (interrupt_has_come()) {
        fflush(stdout);
        interrupt_end();
    }
    return code;
}
