// The child's part of a run. On stdout, lines for the parent begin with @, all others are
// mismatches to be shown:
//   @open ID API SOFTWARE DISCRETE UUID, @name TEXT, @driver TEXT   the device
//   @property NAME=VALUE                                            and what there is to know of it
//   @closed CODE REASON                                             it can't be opened
//   @case N                                                         case N of the selection begins
//   @diagnosis TEXT                                                 a mismatch of it comes from
//   this
//   @result STATUS MISMATCHES SECONDS DIGEST                        and ends; a REASON line may
//   @reason TEXT                                                    come before
//   @end                                                            the child is done, with all
//                                                                   cases or after an error
#include "platform.h"
#include "replay.h"
#include "run.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_one_line(const char *tag, const char *text)
{
    printf("%s ", tag);
    for (; *text != '\0'; text++) {
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('\n');
}

// --- What there is to know of a device

static void say_property(void *user, const char *name, const char *value)
{
    text line = {0};
    (void)user;
    text_add(&line, "%s=%s", name, value);
    text_add_bytes(&line, "", 1);
    say_one_line("@property", line.bytes);
    free(line.bytes);
}

// The libraries that it brings: its loader, its driver, and what that needs.

typedef struct paths {
    char **items;
    size_t count;
} paths;

static void add_path(void *user, const char *path)
{
    paths *paths = user;
    paths->items = reallocate(paths->items, paths->count + 1, sizeof paths->items[0]);
    paths->items[paths->count++] = copy_without_home(path);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void paths_free(paths *paths)
{
    for (size_t k = 0; k < paths->count; k++) {
        free(paths->items[k]);
    }
    free(paths->items);
}

// Those that were not there before, which it frees.
static void say_libraries(paths *before)
{
    paths now = {0};
    text line = {0};
    platform_list_libraries(add_path, &now);
    if (now.count > 0) {
        qsort(now.items, now.count, sizeof now.items[0], compare_paths);
    }
    for (size_t k = 0; k < now.count; k++) {
        bool is_old = k > 0 && strcmp(now.items[k - 1], now.items[k]) == 0;
        for (size_t b = 0; b < before->count && !is_old; b++) {
            is_old = strcmp(before->items[b], now.items[k]) == 0;
        }
        if (!is_old) {
            text_add(&line, "%s%s", line.count > 0 ? ", " : "", now.items[k]);
        }
    }
    if (line.count > 0) {
        text_add_bytes(&line, "", 1);
        say_property(NULL, "libraries", line.bytes);
    }
    free(line.bytes);
    paths_free(&now);
    paths_free(before);
}

// --- Cases

static case_status run_self_test(report *report, const char *name, fault_kind fault)
{
    const char *step = NULL;
    report->device->reason[0] = '\0';
    kq_result result =
        fault == FAULT_NONE ? kq_self_test(report->device->device, &step) : KQ_ERROR_DRIVER;
    if (result == KQ_ERROR_DRIVER && (step != NULL || fault != FAULT_NONE) && fault != FAULT_LOST) {
        if (report_counts(report)) {
            printf("FAIL   %s: %s\n", name,
                   step != NULL ? report->device->reason : "as --fault wants it");
        }
        return CASE_FAIL;
    }
    if (fault == FAULT_LOST) {
        snprintf(report->device->reason, sizeof report->device->reason,
                 "lost, as --fault wants it");
    }
    return result == KQ_OK ? CASE_PASS : judge_error(report, name, result);
}

static case_status run_primitive(const selection *selection, report *report, const test_case *test,
                                 fault_kind fault, char digest[SHA256_HEX_BYTES])
{
    if (test->primitive == 0) {
        return run_self_test(report, test->name, fault);
    }
    uint32_t count;
    item *items = primitive_items(test->primitive, (operand_class)test->operand_class,
                                  selection->list.seed, test->draws, &count);
    kq_result result = primitive_run(report->device, items, count);
    result = fault_alter_items(fault, items, count, result);
    case_status status = primitive_judge(report, test->name, items, count, result, digest);
    free(items);
    return status;
}

static case_status run_trial(const selection *selection, target *reference, report *report,
                             const test_case *test, fault_kind fault, char digest[SHA256_HEX_BYTES])
{
    trial trial;
    outcome outcome;
    const char *reason = NULL;
    if (!test->build(&selection->list, test, reference, &trial, &reason)) {
        snprintf(report->device->reason, sizeof report->device->reason, "%s", reason);
        return judge_error(report, test->name, KQ_ERROR_DRIVER);
    }
    if (test->runs != 0) {
        case_status status =
            replay(report, test->name, &trial, test->runs, test->has_twin, fault, digest);
        trial_free(&trial);
        return status;
    }
    trial_run(&trial, report->device, &outcome);
    fault_alter(fault, &trial, report->device, &outcome);
    case_status status = judge(report, test->name, &trial, &outcome);
    outcome_digest(&trial, &outcome, digest);
    outcome_free(&outcome);
    trial_free(&trial);
    return status;
}

static case_status run_case(const run_options *options, const selection *selection,
                            target *reference, report *report, const test_case *test,
                            char digest[SHA256_HEX_BYTES])
{
    fault_kind fault = fault_of(options->fault, test->name);
    fault_strike(fault);
    case_status status = test->build == NULL
                             ? run_primitive(selection, report, test, fault, digest)
                             : run_trial(selection, reference, report, test, fault, digest);
    if (status == CASE_ERROR || status == CASE_UNSUPPORTED) {
        say_one_line("@reason", report->device->reason);
    }
    return status;
}

int run_worker(const run_options *options, const selection *selection, const char *device,
               size_t first, size_t end)
{
    target reference, tested;
    paths before = {0};
    platform_end_with_parent();
    platform_list_libraries(add_path, &before);
    kq_result result = target_open(&tested, device);
    if (result != KQ_OK) {
        paths_free(&before);
        printf("@closed %d ", (int)result);
        say_one_line("", tested.reason);
        return EXIT_UNDECIDED;
    }
    const kq_device_info *info = tested.info;
    printf("@open %s %d %d %d %s\n", info->id, (int)info->api, info->is_software, info->is_discrete,
           info->uuid[0] != '\0' ? info->uuid : "-");
    say_one_line("@name", info->name);
    say_one_line("@driver", info->driver);
    kq_device_properties(tested.device, say_property, NULL);
    say_libraries(&before);
    fflush(stdout);
    result = target_open(&reference, "reference");
    if (result != KQ_OK) {
        target_close(&tested);
        return EXIT_UNDECIDED;
    }
    report report = {
        .device = &tested,
        .reference = info->api == KQ_API_REFERENCE ? NULL : &reference,
    };
    case_status status = CASE_PASS;
    // A driver that has failed may be good for nothing more: the next case gets a new process.
    for (size_t k = first; k < end && status != CASE_ERROR; k++) {
        char digest[SHA256_HEX_BYTES] = "";
        uint64_t mismatches = report.mismatch_count;
        report.case_lines = 0;
        double begin = platform_seconds();
        printf("@case %zu\n", k);
        fflush(stdout);
        status = run_case(options, selection, &reference, &report, selection->cases[k], digest);
        printf("@result %d %" PRIu64 " %.6f %s\n", (int)status, report.mismatch_count - mismatches,
               platform_seconds() - begin, digest[0] != '\0' ? digest : "-");
    }
    printf("@end\n");
    target_close(&reference);
    target_close(&tested);
    return EXIT_DONE;
}
