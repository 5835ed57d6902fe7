#include "report.h"
#include "files.h"
#include "text.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 64 << 20 };

// --- Writing

static void add_values(text *text, const char *name, const report_values *values)
{
    text_add(text, "%s: {", name);
    for (size_t k = 0; k < values->count; k++) {
        text_add(text, k == 0 ? "" : ", ");
        text_add_json(text, values->items[k].name);
        text_add(text, ": ");
        text_add_json(text, values->items[k].value);
    }
    text_add(text, "}");
}

static void add_member(text *text, const char *name, const char *value)
{
    text_add(text, "\"%s\": ", name);
    text_add_json(text, value);
    text_add(text, ", ");
}

// What most cases don't have is left out.
static void add_case(text *text, const report_case *test)
{
    text_add(text, "    {");
    add_member(text, "name", test->name);
    add_member(text, "status", case_status_name(test->status));
    add_member(text, "digest", test->digest);
    if (test->mismatches > 0) {
        text_add(text, "\"mismatches\": %" PRIu64 ", ", test->mismatches);
    }
    if (test->reason[0] != '\0') {
        add_member(text, "reason", test->reason);
    }
    text_add(text, "\"seconds\": %.3f}", test->seconds);
}

static void add_device(text *text, const report_device *device)
{
    const char *const members[][2] = {
        {"id", device->id},
        {"api", device->api},
        {"kind", device->kind},
        {"name", device->name},
        {"driver", device->driver},
        {"uuid", device->uuid},
        {"status", device_status_name(device->status)},
        {"reason", device->reason},
        {"fingerprint", device->fingerprint},
    };
    text_add(text, "  {");
    for (size_t k = 0; k < sizeof members / sizeof members[0]; k++) {
        add_member(text, members[k][0], members[k][1]);
    }
    add_values(text, "\n   \"properties\"", &device->properties);
    text_add(text, ",\n   \"counts\": {");
    for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
        text_add(text, "%s\"%s\": %" PRIu64, status == CASE_PASS ? "" : ", ",
                 case_status_name((case_status)status), device->counts[status]);
    }
    text_add(text, "},\n   \"cases\": [");
    for (size_t k = 0; k < device->case_count; k++) {
        text_add(text, k == 0 ? "\n" : ",\n");
        add_case(text, &device->cases[k]);
    }
    text_add(text, "]}");
}

void report_text_origin(text *text, const run_report *report)
{
    text_add(text, "\"tool\": {");
    add_member(text, "version", report->version);
    add_member(text, "commit", report->commit);
    text_add(text, "\"dirty\": %s},\n ", report->is_dirty ? "true" : "false");
    add_values(text, "\"system\"", &report->system);
    add_values(text, ",\n \"environment\"", &report->environment);
}

void report_text_json(text *text, const run_report *report)
{
    text_add(text, "{\"format\": %d,\n ", REPORT_FORMAT);
    text_add(text, "\"status\": \"%s\",\n ",
             report_is_complete(report) ? "complete" : "incomplete");
    report_text_origin(text, report);
    add_values(text, ",\n \"options\"", &report->options);
    text_add(text, ",\n \"case_list\": {\"count\": %" PRIu64 ", \"sha256\": \"%s\"},\n",
             report->case_count, report->case_digest);
    text_add(text, " \"modules\": [");
    for (size_t k = 0; k < report->module_count; k++) {
        const report_module *module = &report->modules[k];
        text_add(text, k == 0 ? "\n  {" : ",\n  {");
        add_member(text, "name", module->name);
        add_member(text, "api", module->api);
        add_member(text, "form", module->form);
        text_add(text, "\"sha256\": \"%s\"}", module->sha256);
    }
    text_add(text, "],\n \"devices\": [\n");
    for (size_t d = 0; d < report->device_count; d++) {
        text_add(text, d == 0 ? "" : ",\n");
        add_device(text, &report->devices[d]);
    }
    text_add(text, "]}\n");
}

bool report_write_json(const run_report *report, const char *path)
{
    text text = {0};
    report_text_json(&text, report);
    bool is_good = write_file(path, (const uint8_t *)text.bytes, text.count);
    free(text.bytes);
    return is_good;
}

// --- Reading

// Where in a file the reader is; the first thing that is wrong there ends it.
typedef struct reader {
    const char *path;
    run_report *report;
    char where[64];  // "devices[0].cases[17]", or ""
    bool is_wrong;
} reader;

static void wrong(reader *r, const char *name, const char *rule)
{
    if (!r->is_wrong) {
        complain("%s: %s%s%s: %s", r->path, r->where,
                 r->where[0] != '\0' && name[0] != '\0' ? "." : "", name, rule);
        r->is_wrong = true;
    }
}

static const cJSON *member(reader *r, const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    if (value == NULL) {
        wrong(r, name, "is missing");
    }
    // Readers don't agree on which of two counts.
    for (const cJSON *other = value != NULL ? value->next : NULL; other != NULL;
         other = other->next) {
        if (strcmp(other->string, name) == 0) {
            wrong(r, name, "is there twice");
        }
    }
    return value;
}

static bool has(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name) != NULL;
}

static const char *read_text(reader *r, const cJSON *object, const char *name)
{
    const cJSON *value = member(r, object, name);
    if (!cJSON_IsString(value)) {
        wrong(r, name, "must be a string");
        return "";
    }
    return report_keep(r->report, value->valuestring);
}

// The index of a text among `count` names, from `first` on.
static int read_choice(reader *r, const cJSON *object, const char *name,
                       const char *(*name_of)(int), int first, int count)
{
    const cJSON *value = member(r, object, name);
    for (int k = first; cJSON_IsString(value) && k < count; k++) {
        if (strcmp(value->valuestring, name_of(k)) == 0) {
            return k;
        }
    }
    wrong(r, name, "is none of the words that it may be");
    return first;
}

static double read_number(reader *r, const cJSON *object, const char *name)
{
    const cJSON *value = member(r, object, name);
    // Below 2^53 every whole number is a double.
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble < 0x1p53)) {
        wrong(r, name, "must be a number from 0 to 2^53");
        return 0;
    }
    return value->valuedouble;
}

static uint64_t read_count(reader *r, const cJSON *object, const char *name)
{
    double number = read_number(r, object, name);
    if (number != (double)(uint64_t)number) {
        wrong(r, name, "must be a whole number");
    }
    return (uint64_t)number;
}

static const char *read_digest(reader *r, const cJSON *object, const char *name, const char *other)
{
    const char *digest = read_text(r, object, name);
    if (strcmp(digest, other) != 0 &&
        (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64)) {
        wrong(r, name, "must be a SHA-256 in lower-case hex");
    }
    return digest;
}

static const cJSON *read_list(reader *r, const cJSON *object, const char *name, int max)
{
    const cJSON *value = member(r, object, name);
    if (!cJSON_IsArray(value)) {
        wrong(r, name, "must be an array");
        return NULL;
    }
    if (cJSON_GetArraySize(value) > max) {
        wrong(r, name, "is longer than a report may be");
    }
    return value;
}

static void read_values(reader *r, const cJSON *object, const char *name, report_values *values)
{
    const cJSON *value, *all = member(r, object, name);
    if (!cJSON_IsObject(all)) {
        wrong(r, name, "must be an object");
        return;
    }
    cJSON_ArrayForEach(value, all)
    {
        if (!cJSON_IsString(value)) {
            wrong(r, name, "must have strings only");
            return;
        }
        report_add_value(values, report_keep(r->report, value->string),
                         report_keep(r->report, value->valuestring));
    }
}

static const char *status_of_case(int k)
{
    return case_status_name((case_status)k);
}

static const char *status_of_device(int k)
{
    return device_status_name((device_status)k);
}

static int compare_names(const void *a, const void *b)
{
    const report_case *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static void refuse_same_names(reader *r, const report_device *device)
{
    const report_case **sorted = allocate(device->case_count, sizeof sorted[0]);
    for (size_t k = 0; k < device->case_count; k++) {
        sorted[k] = &device->cases[k];
    }
    qsort(sorted, device->case_count, sizeof sorted[0], compare_names);
    for (size_t k = 1; k < device->case_count; k++) {
        if (strcmp(sorted[k - 1]->name, sorted[k]->name) == 0) {
            wrong(r, sorted[k]->name, "is there twice");
        }
    }
    free(sorted);
}

// Of a device all of whose cases passed: what can be computed must be what the report says.
static void check_digests(reader *r, const report_device *device, bool has_vectors)
{
    sha256 names, outputs;
    char digest[SHA256_HEX_BYTES];
    sha256_begin(&names);
    sha256_begin(&outputs);
    for (size_t k = 0; k < device->case_count; k++) {
        const report_case *test = &device->cases[k];
        sha256_add(&names, test->name, strlen(test->name) + 1);
        fingerprint_add(&outputs, test->name, test->digest);
    }
    sha256_end(&outputs, digest);
    if (strcmp(digest, device->fingerprint) != 0) {
        wrong(r, "fingerprint", "is not that of its cases");
    }
    sha256_end(&names, digest);
    // Vectors of the user's are a part of the list that is not in the report.
    if (!has_vectors && strcmp(digest, r->report->case_digest) != 0) {
        wrong(r, "cases", "are not those of case_list.sha256");
    }
}

static void read_cases(reader *r, const cJSON *from, size_t d, report_device *device)
{
    const cJSON *value, *all = read_list(r, from, "cases", REPORT_MAX_CASES);
    if (r->is_wrong) {
        return;
    }
    device->cases = allocate((size_t)cJSON_GetArraySize(all), sizeof device->cases[0]);
    uint64_t counts[CASE_STATUSES] = {0};
    cJSON_ArrayForEach(value, all)
    {
        snprintf(r->where, sizeof r->where, "devices[%zu].cases[%zu]", d, device->case_count);
        report_case *test = &device->cases[device->case_count++];
        test->name = read_text(r, value, "name");
        test->status =
            (case_status)read_choice(r, value, "status", status_of_case, CASE_PASS, CASE_STATUSES);
        test->digest = read_digest(r, value, "digest", "");
        test->seconds = read_number(r, value, "seconds");
        test->mismatches = has(value, "mismatches") ? read_count(r, value, "mismatches") : 0;
        test->reason = has(value, "reason") ? read_text(r, value, "reason") : "";
        counts[test->status]++;
        if (test->status == CASE_PASS && (test->mismatches > 0 || test->reason[0] != '\0')) {
            wrong(r, "status", "is pass, with mismatches or a reason");
        }
        if (r->is_wrong) {
            return;
        }
    }
    snprintf(r->where, sizeof r->where, "devices[%zu]", d);
    refuse_same_names(r, device);
    if (memcmp(counts, device->counts, sizeof counts) != 0) {
        wrong(r, "counts", "are not those of its cases");
    }
    bool is_whole = device->case_count == r->report->case_count;
    if (device->case_count > r->report->case_count ||
        (device->status == DEVICE_COMPLETE && !is_whole)) {
        wrong(r, "cases", "are not as many as its status and case_list.count say");
    }
    bool has_passed = is_whole && device->status == DEVICE_COMPLETE && device->case_count > 0 &&
                      counts[CASE_PASS] == device->case_count;
    if (has_passed != (strcmp(device->fingerprint, "incomplete") != 0)) {
        wrong(r, "fingerprint", "must be there where all cases passed, and nowhere else");
    }
    bool has_vectors = false;
    for (size_t k = 0; k < r->report->options.count; k++) {
        has_vectors |= strcmp(r->report->options.items[k].name, "vectors") == 0;
    }
    if (has_passed && !r->is_wrong) {
        check_digests(r, device, has_vectors);
    }
}

static void read_device(reader *r, const cJSON *from, size_t d, report_device *device)
{
    snprintf(r->where, sizeof r->where, "devices[%zu]", d);
    *device = (report_device){
        .id = read_text(r, from, "id"),
        .api = read_text(r, from, "api"),
        .kind = read_text(r, from, "kind"),
        .name = read_text(r, from, "name"),
        .driver = read_text(r, from, "driver"),
        .uuid = read_text(r, from, "uuid"),
        .status =
            (device_status)read_choice(r, from, "status", status_of_device, 0, DEVICE_STATUSES),
        .reason = read_text(r, from, "reason"),
        .fingerprint = read_digest(r, from, "fingerprint", "incomplete"),
    };
    read_values(r, from, "properties", &device->properties);
    const cJSON *counts = member(r, from, "counts");
    for (int status = CASE_PASS; status < CASE_STATUSES && !r->is_wrong; status++) {
        device->counts[status] = read_count(r, counts, case_status_name((case_status)status));
    }
    read_cases(r, from, d, device);
    r->where[0] = '\0';
}

static void read_modules(reader *r, const cJSON *root)
{
    const cJSON *value, *all = read_list(r, root, "modules", 1000);
    if (r->is_wrong) {
        return;
    }
    run_report *report = r->report;
    report->modules = allocate((size_t)cJSON_GetArraySize(all), sizeof report->modules[0]);
    cJSON_ArrayForEach(value, all)
    {
        snprintf(r->where, sizeof r->where, "modules[%zu]", report->module_count);
        report->modules[report->module_count++] = (report_module){
            .name = read_text(r, value, "name"),
            .api = read_text(r, value, "api"),
            .form = read_text(r, value, "form"),
            .sha256 = read_digest(r, value, "sha256", "-"),
        };
    }
    r->where[0] = '\0';
}

static void read_root(reader *r, const cJSON *root)
{
    run_report *report = r->report;
    if (!cJSON_IsObject(root)) {
        wrong(r, "", "is no report of kquant check: no JSON object");
        return;
    }
    if (read_count(r, root, "format") != REPORT_FORMAT && !r->is_wrong) {
        wrong(r, "format", "is not 1, the one that this version of kquant reads");
    }
    const cJSON *tool = member(r, root, "tool"), *list = member(r, root, "case_list");
    if (r->is_wrong) {
        return;
    }
    report->version = read_text(r, tool, "version");
    report->commit = read_text(r, tool, "commit");
    const cJSON *dirty = member(r, tool, "dirty");
    report->is_dirty = cJSON_IsTrue(dirty);
    if (!cJSON_IsBool(dirty)) {
        wrong(r, "tool.dirty", "must be true or false");
    }
    read_values(r, root, "system", &report->system);
    read_values(r, root, "environment", &report->environment);
    read_values(r, root, "options", &report->options);
    report->case_count = read_count(r, list, "count");
    report->case_digest = read_digest(r, list, "sha256", "-");
    read_modules(r, root);
    const cJSON *value, *all = read_list(r, root, "devices", REPORT_MAX_DEVICES);
    if (r->is_wrong) {
        return;
    }
    if (cJSON_GetArraySize(all) == 0) {
        wrong(r, "devices", "must have at least one");
    }
    report->devices = allocate((size_t)cJSON_GetArraySize(all), sizeof report->devices[0]);
    cJSON_ArrayForEach(value, all)
    {
        if (!r->is_wrong) {
            read_device(r, value, report->device_count, &report->devices[report->device_count]);
            report->device_count++;
        }
    }
    const char *status = read_text(r, root, "status");
    if (strcmp(status, report_is_complete(report) ? "complete" : "incomplete") != 0) {
        wrong(r, "status", "is not what those of the devices say");
    }
}

// Whether a string has a NUL, with which other readers would go on, or the file has one. Of what is
// no JSON it doesn't matter.
static bool has_nul(const char *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        bool is_escape = bytes[k] == '\\' && k + 1 < count;
        if (bytes[k] == '\0' ||
            (is_escape && count - k >= 6 && memcmp(bytes + k, "\\u0000", 6) == 0)) {
            return true;
        }
        k += is_escape;
    }
    return false;
}

bool report_read_bytes(const char *path, const void *bytes, size_t count, run_report *report)
{
    const char *end = NULL;
    char *json = allocate(count + 1, 1);
    memset(report, 0, sizeof *report);
    memcpy(json, bytes, count);
    cJSON *root = cJSON_ParseWithLengthOpts(json, count + 1, &end, 1);
    reader reader = {.path = path, .report = report};
    if (root == NULL) {
        complain("%s: is no report of kquant check: no JSON at byte %zu of %zu", path,
                 (size_t)(end != NULL ? end - json : 0), count);
        reader.is_wrong = true;
    } else if (has_nul((const char *)bytes, count)) {
        complain("%s: is no report of kquant check: there is a NUL in it", path);
        reader.is_wrong = true;
    } else if (!text_is_utf8(json)) {
        // Written again, two names could be one.
        wrong(&reader, "", "is no report of kquant check: not all of it is UTF-8");
    } else {
        read_root(&reader, root);
    }
    cJSON_Delete(root);
    free(json);
    if (reader.is_wrong) {
        report_free(report);
    }
    return !reader.is_wrong;
}

bool report_read(const char *path, run_report *report)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    memset(report, 0, sizeof *report);
    bool is_good = read_file(path, MAX_FILE_BYTES, &bytes, &count) &&
                   report_read_bytes(path, bytes, count, report);
    free(bytes);
    return is_good;
}
