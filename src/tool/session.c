#include "session.h"
#include "platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A line that is to be seen, after which the bar comes back by itself.
static void show_line(session *s, const char *line)
{
    if (line[0] != ' ') {
        s->is_shown = s->lines < REPORT_LINES;
        s->lines += s->is_shown;
    }
    if (s->is_shown) {
        progress_hide(&s->progress);
        print_text(stdout, line);
        printf("\n");
        fflush(stdout);
    }
}

static void begin_case(session *s, size_t test)
{
    s->test = test;
    s->is_in_case = true;
    s->deadline = platform_seconds() + (double)s->options->time_limit;
    free(s->reason);
    s->reason = NULL;
    s->fallback.count = 0;
    s->is_diagnosed = false;
}

static void finish_case(session *s, case_status status, uint64_t mismatches, double seconds,
                        const char *digest)
{
    case_result *result = &s->run->results[s->test];
    *result = (case_result){.status = status, .mismatches = mismatches, .seconds = seconds};
    snprintf(result->digest, sizeof result->digest, "%s", strcmp(digest, "-") != 0 ? digest : "");
    if (status != CASE_PASS) {
        text_add_bytes(&s->fallback, "", 1);
        const char *found = s->fallback.count > 1 ? s->fallback.bytes : "no reason is given";
        result->reason = copy_text(s->reason != NULL ? s->reason : found);
    }
    s->mismatches += mismatches;
    s->run->counts[status]++;
    s->run->has_run[s->selection->cases[s->test]->op] |= status != CASE_UNSUPPORTED;
    s->errors = status == CASE_ERROR ? s->errors + 1 : 0;
    s->is_in_case = false;
    s->done++;
    progress_step(&s->progress);
    s->watch->stepped(s->watch->user, s->run, s->done);
}

void session_lose(session *s, const char *reason)
{
    const char *name = s->selection->cases[s->test]->name;
    size_t bytes = strlen(name) + strlen(reason) + 16;
    char *line = allocate(bytes, 1);
    snprintf(line, bytes, "ERROR  %s: %s", name, reason);
    free(s->reason);
    s->reason = copy_text(reason);
    show_line(s, line);
    finish_case(s, CASE_ERROR, 1, 0, "-");
    free(line);
}

// Control characters are blanks by the time they arrive.
static bool is_same_line(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (*a != *b && !((unsigned char)*a < ' ' && *b == ' ')) {
            return false;
        }
    }
    return *a == *b;
}

static void read_open(session *s, const char *text)
{
    kq_device_info *info = &s->info;
    int api = 0;
    memset(info, 0, sizeof *info);
    char uuid[36] = "";
    if (sscanf(text, "%31s %d %d %d %35s", info->id, &api, &info->is_software, &info->is_discrete,
               uuid) == 5 &&
        api >= KQ_API_REFERENCE && api <= KQ_API_OPENCL) {
        info->api = (kq_api)api;
        snprintf(info->uuid, sizeof info->uuid, "%s", strcmp(uuid, "-") != 0 ? uuid : "");
    }
}

// All lines of the device but its properties have come. Each child opens it anew, and must meet
// the same.
static void finish_open(session *s)
{
    device_run *run = s->run;
    if (run->is_known &&
        (strcmp(run->info.id, s->info.id) != 0 || strcmp(run->info.uuid, s->info.uuid) != 0 ||
         !is_same_line(run->info.name, s->info.name) ||
         !is_same_line(run->info.driver, s->info.driver))) {
        snprintf(run->reason, sizeof run->reason,
                 "it is another device now: %.31s, %.200s (%.200s), and was %.31s, %.200s (%.200s)",
                 s->info.id, s->info.name, s->info.driver, run->info.id, run->info.name,
                 run->info.driver);
        run->is_other = true;
        return;
    }
    if (!run->is_open) {
        run->info = s->info;
        run->is_known = true;
        run->is_open = true;
        s->watch->opened(s->watch->user, run);
        fflush(stdout);
        progress_begin(&s->progress, run->info.id, "case", s->done, s->selection->count);
    }
}

static void read_property(session *s, char *text)
{
    char *value = strchr(text, '=');
    if (value == NULL) {
        return;
    }
    *value = '\0';
    for (size_t k = 0; k < s->run->property_count; k++) {
        if (strcmp(text, s->run->properties[k].name) == 0) {
            return;  // from an earlier child
        }
    }
    device_run_add_property(s->run, text, value + 1);
}

// A case that has no result yet: each has one only.
static bool is_missing(const session *s, size_t number)
{
    return number < s->selection->count && s->run->results[number].status == CASE_MISSING;
}

static bool is_digest(const char *text)
{
    return strcmp(text, "-") == 0 || (strlen(text) == SHA256_HEX_BYTES - 1 &&
                                      strspn(text, "0123456789abcdef") == SHA256_HEX_BYTES - 1);
}

static void read_tagged(session *s, char *line)
{
    kq_device_info *info = &s->info;
    size_t number = 0;
    int code = 0;
    int skip = 0;
    uint64_t mismatches = 0;
    double seconds = 0;
    char digest[SHA256_HEX_BYTES];
    if (strncmp(line, "@open ", 6) == 0) {
        read_open(s, line + 6);
    } else if (strncmp(line, "@name ", 6) == 0) {
        snprintf(info->name, sizeof info->name, "%s", line + 6);
    } else if (strncmp(line, "@driver ", 8) == 0) {
        snprintf(info->driver, sizeof info->driver, "%s", line + 8);
        finish_open(s);
    } else if (strncmp(line, "@property ", 10) == 0) {
        read_property(s, line + 10);
    } else if (sscanf(line, "@closed %d %n", &code, &skip) == 1 && code > KQ_OK &&
               code <= KQ_ERROR_DRIVER) {
        s->run->opened = (kq_result)code;
        snprintf(s->run->reason, sizeof s->run->reason, "%s", line + skip);
    } else if (sscanf(line, "@case %zu", &number) == 1 && is_missing(s, number)) {
        begin_case(s, number);
    } else if (strncmp(line, "@reason ", 8) == 0) {
        free(s->reason);
        s->reason = copy_text(line + 8);
    } else if (sscanf(line, "@result %d %" SCNu64 " %lf %64s", &code, &mismatches, &seconds,
                      digest) == 4 &&
               s->is_in_case && code > CASE_MISSING && code < CASE_STATUSES && seconds >= 0 &&
               seconds < 0x1p53 && is_digest(digest)) {
        finish_case(s, (case_status)code, mismatches, seconds, digest);
    } else if (strncmp(line, "@diagnosis ", 11) == 0 && s->is_in_case && !s->is_diagnosed) {
        text_add(&s->fallback, "; %s", line + 11);
        s->is_diagnosed = true;
    } else if (strcmp(line, "@end") == 0) {
        s->has_ended = true;
    }
}

void session_read(session *s, char *line)
{
    if (line[0] == '@') {
        read_tagged(s, line);
        return;
    }
    if (s->fallback.count == 0 && s->is_in_case) {
        const char *name = s->selection->cases[s->test]->name;
        const char *rest = strstr(line, name);
        text_add(&s->fallback, "%s",
                 rest != NULL ? rest + strlen(name) + strspn(rest + strlen(name), ": ") : line);
    }
    show_line(s, line);
}
