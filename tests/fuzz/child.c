// src/tool/session.c: whatever lines a child prints, no more cases have a result than there are,
// each has one, and it is such as a report may hold.
#include "fuzz.h"

#include "session.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 5 };

static size_t opened, steps;

static void has_opened(void *user, const device_run *run)
{
    (void)user;
    REQUIRE(run->is_open && run->info.api <= KQ_API_OPENCL);
    opened++;
}

static void has_stepped(void *user, const device_run *run, size_t done)
{
    (void)user;
    (void)run;
    steps++;
    REQUIRE(done == steps && done <= CASES);
}

static void check_results(const device_run *run)
{
    uint64_t counts[CASE_STATUSES] = {0};
    for (size_t k = 0; k < CASES; k++) {
        const case_result *result = &run->results[k];
        REQUIRE(result->status < CASE_STATUSES);
        counts[result->status]++;
        REQUIRE(result->seconds >= 0 && result->seconds < 0x1p53);
        REQUIRE(result->digest[0] == '\0' ||
                strspn(result->digest, "0123456789abcdef") == SHA256_HEX_BYTES - 1);
        REQUIRE(result->status <= CASE_PASS || result->reason != NULL);
    }
    REQUIRE(counts[CASE_MISSING] == CASES - steps);
    for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
        REQUIRE(counts[status] == run->counts[status]);
    }
    REQUIRE(run->opened <= KQ_ERROR_DRIVER && opened <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char names[CASES][8] = {"a.b.c", "a.b.d", "a.b.e", "a.b.f", "a"};
    test_case cases[CASES] = {{0}};
    const test_case *selected[CASES];
    case_result *results = calloc(CASES, sizeof *results);
    const selection selection = {.cases = selected, .count = CASES};
    const run_options options = {.time_limit = 300};
    const run_watch watch = {.opened = has_opened, .stepped = has_stepped};
    device_run run = {.results = results};
    session s = {.options = &options, .selection = &selection, .run = &run, .watch = &watch};
    opened = 0;
    steps = 0;
    for (size_t k = 0; k < CASES; k++) {
        cases[k] = (test_case){.name = names[k], .op = KQ_OP_QUANTIZE};
        selected[k] = &cases[k];
    }
    char *text = fuzz_text(data, size);
    // As it is read, until the run is given up; no line has a NUL in it.
    for (char *line = text, *next; line != NULL && run.reason[0] == '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        session_read(&s, line);
    }
    check_results(&run);
    if (s.is_in_case) {
        session_lose(&s, "it ended");
        check_results(&run);
    }
    free(text);
    free(s.reason);
    free(s.fallback.bytes);
    device_run_free(&run, CASES);
    return 0;
}
