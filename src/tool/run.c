#include "run.h"
#include "interrupt.h"
#include "platform.h"
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUICK_ITEMS = 2048,
    QUICK_BATCH = 300,
    QUICK_REPLAYS = 200,
    QUICK_REPLAYS_OF_TWINS = 50,
    FULL_ITEMS = 65536,
    FULL_BATCH_OF_BLOCKS = 5000,
    FULL_BATCH_OF_DOTS = 70000,
    FULL_REPLAYS = 10000,
    FULL_REPLAYS_OF_TWINS = 1000,
    FULL_DRAWS = 2000,
    MAX_ERRORS = 8,
    MAX_ARGUMENTS = 16
};

// --- The selection

static int fill(const run_options *options, case_list *list)
{
    list->seed = options->seed;
    bool is_good = options->vectors != NULL ? vectors_add_folder(&list->vectors, options->vectors)
                                            : vectors_add_built_in(&list->vectors);
    if (!is_good) {
        return EXIT_UNDECIDED;
    }
    if (options->vectors == NULL) {
        cases_add_primitives(list, options->is_full ? FULL_ITEMS : QUICK_ITEMS);
    }
    cases_add_vectors(list);
    if (options->vectors == NULL) {
        cases_add_layouts(list);
        cases_add_alone(list);
        cases_add_batches(list, QUICK_BATCH, QUICK_BATCH);
        cases_add_walks(list);
    }
    if (options->is_full) {
        cases_add_batches(list, FULL_BATCH_OF_BLOCKS, FULL_BATCH_OF_DOTS);
        cases_add_limits(list);
    }
    if (options->vectors == NULL) {
        cases_add_replays(list, QUICK_REPLAYS, QUICK_REPLAYS_OF_TWINS);
    }
    if (options->is_full) {
        cases_add_replays(list, FULL_REPLAYS, FULL_REPLAYS_OF_TWINS);
        cases_add_draws(list, FULL_DRAWS);
    }
    cases_finish(list);
    return EXIT_DONE;
}

// "!GLOB" selects what GLOB does not.
static bool is_selected(const char *filter, const char *name)
{
    bool is_left_out = filter != NULL && filter[0] == '!';
    return filter == NULL || matches(filter + is_left_out, name) != is_left_out;
}

int selection_make(const run_options *options, selection *selection)
{
    memset(selection, 0, sizeof *selection);
    int code = fill(options, &selection->list);
    selection->cases = allocate(selection->list.count, sizeof selection->cases[0]);
    for (size_t k = 0; k < selection->list.count; k++) {
        const test_case *test = &selection->list.cases[k];
        if (is_selected(options->filter, test->name)) {
            selection->cases[selection->count++] = test;
        }
    }
    return code;
}

void selection_free(selection *selection)
{
    free(selection->cases);
    cases_free(&selection->list);
    memset(selection, 0, sizeof *selection);
}

void selection_digest(const selection *selection, char hex[SHA256_HEX_BYTES])
{
    sha256 hash;
    sha256_begin(&hash);
    for (size_t k = 0; k < selection->count; k++) {
        sha256_add(&hash, selection->cases[k]->name, strlen(selection->cases[k]->name) + 1);
    }
    sha256_add(&hash, selection->list.vectors.digest, strlen(selection->list.vectors.digest));
    sha256_end(&hash, hex);
}

// --- The child

static platform_child *start_child(const session *s, const char *device, size_t first, size_t end)
{
    const run_options *o = s->options;
    char digest[SHA256_HEX_BYTES];
    text texts[MAX_ARGUMENTS] = {0};
    const char *arguments[MAX_ARGUMENTS] = {"check"};
    unsigned count = 1;
    selection_digest(s->selection, digest);
#define ADD(condition, ...)                                                                        \
 if (condition) {                                                                                  \
  text_add(&texts[count], __VA_ARGS__);                                                            \
  text_add_bytes(&texts[count], "", 1);                                                            \
  arguments[count] = texts[count].bytes;                                                           \
  count++;                                                                                         \
 }
    ADD(true, "--worker=%zu,%zu,%s", first, end, digest)
    ADD(device != NULL, "--device=%s", device)
    ADD(o->filter != NULL, "--filter=%s", o->filter)
    ADD(o->vectors != NULL, "--vectors=%s", o->vectors)
    ADD(o->is_full, "--level=full")
    ADD(true, "--seed=%" PRIu64, o->seed)
    ADD(o->fault != NULL && !s->run->is_judge, "--fault=%s", o->fault)
#undef ADD
    platform_child *child = platform_start(arguments);
    for (unsigned k = 0; k < count; k++) {
        free(texts[k].bytes);
    }
    return child;
}

// Cases first .. end - 1 in one child, until it ends or must be ended.
static void run_child(session *s, const char *device, size_t first, size_t end)
{
    char how[200], reason[400];
    char *line = NULL;
    child_line kind = CHILD_END;
    platform_child *child = start_child(s, device, first, end);
    s->has_ended = false;
    s->is_in_case = false;
    if (child == NULL) {
        snprintf(s->run->reason, sizeof s->run->reason, "a process of its own can't be started: %s",
                 strerror(errno));
        return;
    }
    s->deadline = platform_seconds() + (double)s->options->time_limit;
    while (s->run->reason[0] == '\0' && !interrupt_has_come()) {
        double second = platform_seconds() + 1;
        kind = platform_read_line(child, second < s->deadline ? second : s->deadline, &line);
        if (kind == CHILD_LINE) {
            session_read(s, line);
        } else if (kind == CHILD_LATE && platform_seconds() < s->deadline) {
            s->watch->stepped(s->watch->user, s->run, s->done);
        } else {
            break;
        }
    }
    if (interrupt_has_come()) {
        platform_end(child, 0, how, sizeof how);
        return;
    }
    bool is_late = kind == CHILD_LATE;
    bool is_good = platform_end(child, is_late ? 0 : 5, how, sizeof how);
    if (s->is_in_case) {
        if (is_late) {
            snprintf(reason, sizeof reason, "not done after %" PRIu64 " s, see --time-limit",
                     s->options->time_limit);
        } else {
            snprintf(reason, sizeof reason, "the driver took the process with it: %s", how);
        }
        session_lose(s, reason);
    } else if (s->run->reason[0] == '\0' && (is_late || !s->has_ended || !is_good)) {
        snprintf(s->run->reason, sizeof s->run->reason, "the driver %s: %s",
                 is_late                      ? "hangs between cases"
                 : s->run->is_open && is_good ? "ended the process between cases"
                 : s->run->is_open            ? "took the process with it, outside of cases"
                                              : "took the process with it as it was opened",
                 how);
    }
}

// Those that have no result have none for the reason that the device has none.
static void give_up(session *s)
{
    size_t count = s->selection->count;
    for (size_t k = 0; k < count; k++) {
        if (s->run->results[k].status == CASE_MISSING) {
            s->run->results[k].status = CASE_ERROR;
            s->run->results[k].reason = copy_text(s->run->reason);
            s->run->counts[CASE_ERROR]++;
        }
    }
}

void run_device(const run_options *options, const selection *selection, const char *device,
                device_run *run, const run_watch *watch)
{
    session s = {.options = options, .selection = selection, .run = run, .watch = watch};
    for (size_t k = 0; k < selection->count; k++) {
        const case_result *result = &run->results[k];
        if (result->status != CASE_MISSING) {
            run->counts[result->status]++;
            run->has_run[selection->cases[k]->op] |= result->status != CASE_UNSUPPORTED;
            s.done++;
        }
    }
    for (size_t k = 0; k < selection->count && run->reason[0] == '\0' && !interrupt_has_come();
         k++) {
        if (run->results[k].status != CASE_MISSING) {
            continue;
        }
        size_t end = k + 1;
        while (end < selection->count && run->results[end].status == CASE_MISSING) {
            end++;
        }
        run_child(&s, device, k, end);
        if (s.errors >= MAX_ERRORS && run->reason[0] == '\0') {
            snprintf(run->reason, sizeof run->reason, "%u errors in a row, the last in %s",
                     s.errors, selection->cases[s.test]->name);
        }
    }
    if (run->is_open) {
        progress_hide(&s.progress);
    }
    if (run->reason[0] != '\0' && run->is_open) {
        printf("ERROR  the device is given up: ");
        print_text(stdout, run->reason);
        printf("\n");
    }
    if (s.done == selection->count && run->reason[0] == '\0' && !run->is_open) {
        run_child(&s, device, s.done, s.done);  // it must still be the one that all is of
    }
    // What an earlier run has of the device that was meant is still good.
    bool is_kept = run->is_other && !run->is_open && s.done > 0;
    if (run->reason[0] != '\0' && !is_kept) {
        give_up(&s);
    }
    if (s.mismatches > s.lines) {
        printf("       and %" PRIu64 " mismatches more\n", s.mismatches - s.lines);
    }
    free(s.reason);
    free(s.fallback.bytes);
}

void device_run_add_property(device_run *run, const char *name, const char *value)
{
    run->properties =
        reallocate(run->properties, run->property_count + 1, sizeof run->properties[0]);
    run->properties[run->property_count++] = (device_property){copy_text(name), copy_text(value)};
}

void device_run_free(device_run *run, size_t count)
{
    for (size_t k = 0; k < run->property_count; k++) {
        free(run->properties[k].name);
        free(run->properties[k].value);
    }
    free(run->properties);
    for (size_t k = 0; k < count; k++) {
        free(run->results[k].reason);
    }
    free(run->results);
    memset(run, 0, sizeof *run);
}

void fingerprint_add(sha256 *hash, const char *name, const char *digest)
{
    const char *class = name + strcspn(name, ".");
    class += *class == '.';
    class += strcspn(class, ".");
    sha256_add(hash, name, strcspn(name, "."));
    sha256_add(hash, class, strlen(class) + 1);
    sha256_add(hash, digest, strlen(digest) + 1);
}

void run_fingerprint(const selection *selection, const device_run *run, char text[SHA256_HEX_BYTES])
{
    sha256 hash;
    sha256_begin(&hash);
    for (size_t k = 0; k < selection->count; k++) {
        const case_result *result = &run->results[k];
        if (result->status != CASE_PASS) {
            snprintf(text, SHA256_HEX_BYTES, "incomplete");
            return;
        }
        fingerprint_add(&hash, selection->cases[k]->name, result->digest);
    }
    if (selection->count == 0) {
        snprintf(text, SHA256_HEX_BYTES, "incomplete");
        return;
    }
    sha256_end(&hash, text);
}
