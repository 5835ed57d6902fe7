// The child's part of a run. On stdout, lines for the parent begin with @, all others are
// mismatches to be shown:
//   @open ID API SOFTWARE DISCRETE UUID, @name TEXT, @driver TEXT   the device
//   @closed CODE REASON                                             it can't be opened
//   @case N                                                         case N of the selection begins
//   @result STATUS MISMATCHES SECONDS DIGEST                        and ends; a REASON line may
//   @reason TEXT                                                    come before
//   @end                                                            the child is done, with all
//                                                                   cases or after an error
#include "platform.h"
#include "run.h"

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

static case_status run_case(const run_options *options, const selection *selection,
                            target *reference, report *report, const test_case *test,
                            char digest[SHA256_HEX_BYTES])
{
    trial trial;
    const char *reason = NULL;
    fault_kind fault = fault_of(options->fault, test->name);
    if (!test->build(&selection->list, test, reference, &trial, &reason)) {
        report->device->reason[0] = '\0';
        if (report_counts(report)) {
            printf("ERROR  %s: %s\n", test->name, reason);
        }
        say_one_line("@reason", reason);
        return CASE_ERROR;
    }
    outcome outcome;
    fault_strike(fault);
    trial_run(&trial, report->device, &outcome);
    fault_alter(fault, &trial, &outcome);
    case_status status = judge(report, test->name, &trial, &outcome);
    outcome_digest(&trial, &outcome, digest);
    if (status == CASE_ERROR || status == CASE_UNSUPPORTED) {
        say_one_line("@reason", report->device->reason[0] != '\0' ? report->device->reason
                                                                  : kq_result_name(outcome.result));
    }
    outcome_free(&outcome);
    trial_free(&trial);
    return status;
}

int run_worker(const run_options *options, const selection *selection, const char *device,
               size_t first)
{
    target reference, tested;
    kq_result result = target_open(&tested, device);
    if (result != KQ_OK) {
        printf("@closed %d ", (int)result);
        say_one_line("", tested.reason);
        return EXIT_UNDECIDED;
    }
    const kq_device_info *info = tested.info;
    printf("@open %s %d %d %d %s\n", info->id, (int)info->api, info->is_software, info->is_discrete,
           info->uuid[0] != '\0' ? info->uuid : "-");
    say_one_line("@name", info->name);
    say_one_line("@driver", info->driver);
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
    for (size_t k = first; k < selection->count && status != CASE_ERROR; k++) {
        char digest[SHA256_HEX_BYTES] = "";
        uint64_t mismatches = report.mismatch_count;
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
