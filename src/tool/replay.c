#include "replay.h"
#include "platform.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The runs on one device.
typedef struct lane {
    const trial *trial;
    target *target;
    uint32_t runs;
    fault_kind fault;

    outcome first;       // of run 0
    outcome other;       // of the first run that differs from it
    uint32_t other_run;  // which; 0: none does
    uint32_t differing;  // runs
    char reason[1024];   // of the one that was the last, if it failed
} lane;

static bool has_answer(const outcome *outcome)
{
    return outcome->got[0] != NULL;
}

static bool is_same(const trial *trial, const outcome *a, const outcome *b)
{
    bool is_equal = a->result == b->result && a->domain.record == b->domain.record &&
                    a->domain.bad_count == b->domain.bad_count &&
                    a->domain.reason == b->domain.reason && a->domain.element == b->domain.element;
    for (unsigned buffer = 0; buffer < trial->buffer_count && is_equal; buffer++) {
        is_equal = memcmp(a->got[buffer], b->got[buffer], trial->sizes[buffer]) == 0;
    }
    return is_equal;
}

// Records the trial once. Ends early with a run that has no answer.
static void run_lane(void *user)
{
    lane *lane = user;
    trial_recording *recording = trial_record(lane->trial, lane->target, &lane->first);
    bool goes_on = recording != NULL;
    for (uint32_t run = 0; run < lane->runs && goes_on; run++) {
        outcome outcome;
        trial_recording_run(recording, &outcome);
        fault_alter(fault_of_run(lane->fault, run), lane->trial, lane->target, &outcome);
        goes_on = has_answer(&outcome);
        bool differs = run > 0 && (!goes_on || !is_same(lane->trial, &lane->first, &outcome));
        lane->differing += differs;
        if (run == 0) {
            lane->first = outcome;
        } else if (differs && (lane->other_run == 0 || !goes_on)) {
            outcome_free(&lane->other);
            lane->other = outcome;
            lane->other_run = run;
        } else {
            outcome_free(&outcome);
        }
    }
    memcpy(lane->reason, lane->target->reason, sizeof lane->reason);
    trial_recording_free(recording);
}

static case_status judge_one(report *report, const char *name, lane *lane, const outcome *outcome)
{
    memcpy(report->device->reason, lane->reason, sizeof lane->reason);
    return judge(report, name, lane->trial, outcome);
}

// Of two, the one that says more against the device.
static case_status worse(case_status a, case_status b)
{
    static const case_status order[] = {CASE_ERROR, CASE_FAIL, CASE_UNSUPPORTED};
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        if (a == order[k] || b == order[k]) {
            return order[k];
        }
    }
    return CASE_PASS;
}

static case_status judge_lane(report *report, const char *name, lane *lane, const char *where)
{
    case_status status = judge_one(report, name, lane, &lane->first);
    if (lane->other_run == 0) {
        return status;
    }
    if (report_counts(report)) {
        printf("FAIL   %s: %" PRIu32 " of %" PRIu32 " runs%s differ from the first, as run %" PRIu32
               " does%s\n",
               name, lane->differing, lane->runs, where, lane->other_run,
               has_answer(&lane->other) ? "" : ", the last");
    }
    return worse(worse(status, CASE_FAIL), judge_one(report, name, lane, &lane->other));
}

case_status replay(report *report, const char *name, const trial *trial, uint32_t runs,
                   bool has_twin, fault_kind fault, char digest[SHA256_HEX_BYTES])
{
    lane lanes[2] = {{.trial = trial, .target = report->device, .runs = runs, .fault = fault}};
    case_status status;
    if (has_twin) {
        lanes[1] = lanes[0];
        lanes[1].target = target_twin(report->device, 0);
        if (lanes[1].target == NULL) {
            return judge_error(report, name, KQ_ERROR_DRIVER);
        }
        platform_thread *thread = platform_start_thread(run_lane, &lanes[1]);
        if (thread == NULL) {
            snprintf(report->device->reason, sizeof report->device->reason,
                     "a second thread can't be started: %s", strerror(errno));
            return judge_error(report, name, KQ_ERROR_DRIVER);
        }
        run_lane(&lanes[0]);
        platform_join_thread(thread);
        status = judge_lane(report, name, &lanes[0], " in the first thread");
        status = worse(status, judge_lane(report, name, &lanes[1], " in the second thread"));
    } else {
        run_lane(&lanes[0]);
        status = judge_lane(report, name, &lanes[0], "");
    }
    outcome_digest(trial, &lanes[0].first, digest);
    for (unsigned k = 0; k < 2; k++) {
        outcome_free(&lanes[k].first);
        outcome_free(&lanes[k].other);
    }
    return status;
}
