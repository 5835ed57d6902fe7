#include "bench_json.h"

#include "files.h"
#include "report.h"
#include "text.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BENCH_FORMAT = 1, MAX_FILE_BYTES = 16 << 20 };

// --- Writing

static void add_times(text *text, const char *name, const bench_times *times)
{
    if (times->median > 0) {
        text_add(text, ", \"%s\": {\"median\": %.9f, \"least\": %.9f, \"most\": %.9f}", name,
                 times->median, times->least, times->most);
    }
}

static void add_memory(text *text, const bench_memory *memory)
{
    text_add(text, "{\"bytes\": %" PRIu64, memory->bytes);
    for (int traffic = 0; traffic < BENCH_TRAFFICS; traffic++) {
        const bench_timing *timing = &memory->timings[traffic];
        if (timing->rounds > 0) {
            text_add(text, ", \"%s\": {\"rounds\": %zu", bench_traffic_names[traffic],
                     timing->rounds);
            add_times(text, "host", &timing->host);
            add_times(text, "device", &timing->device);
            text_add(text, "}");
        }
    }
    text_add(text, "}");
}

static void add_result(text *text, const bench_device *device, const bench_result *result)
{
    const bench_shape *shape = result->shape;
    double share = bench_share(device, result);
    text_add(text, "    {\"name\": ");
    text_add_json(text, shape->name);
    text_add(text, ", \"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"rounds\": %zu",
             bench_records(shape), bench_bytes(shape), result->timing.rounds);
    text_add(text, ", \"scratch_bytes\": %" PRIu64 ", \"submissions\": %" PRIu64,
             result->needs.scratch_bytes, result->needs.submission_count);
    add_times(text, "host", &result->timing.host);
    add_times(text, "device", &result->timing.device);
    if (share > 0) {
        text_add(text, ", \"share\": {\"of\": \"%s\", \"bytes\": %" PRIu64 ", \"share\": %.6f}",
                 bench_traffic_names[bench_traffic(shape)], bench_memory_bytes(shape), share);
    }
    text_add(text, "}");
}

bool bench_write_json(const char *path, const bench_device *devices, size_t count, bool is_complete)
{
    text text = {0};
    run_report origin = {0};
    report_add_origin(&origin);
    text_add(&text, "{\"bench_format\": %d,\n \"status\": \"%s\",\n ", BENCH_FORMAT,
             is_complete ? "complete" : "incomplete");
    report_text_origin(&text, &origin);
    report_free(&origin);
    text_add(&text, ",\n \"devices\": [");
    for (size_t d = 0; d < count; d++) {
        text_add(&text, "%s\n  {\"id\": ", d == 0 ? "" : ",");
        text_add_json(&text, devices[d].info.id);
        text_add(&text, ", \"name\": ");
        text_add_json(&text, devices[d].info.name);
        text_add(&text, ", \"driver\": ");
        text_add_json(&text, devices[d].info.driver);
        if (devices[d].first_dot > 0) {
            text_add(&text, ", \"first_dot\": %.9f", devices[d].first_dot);
        }
        text_add(&text, ", \"memory\": [");
        for (size_t k = 0; k < devices[d].memory_count; k++) {
            text_add(&text, k == 0 ? "\n    " : ",\n    ");
            add_memory(&text, &devices[d].memories[k]);
        }
        text_add(&text, "],\n   \"results\": [");
        for (size_t k = 0; k < devices[d].count; k++) {
            text_add(&text, k == 0 ? "\n" : ",\n");
            add_result(&text, &devices[d], &devices[d].results[k]);
        }
        text_add(&text, "]}");
    }
    text_add(&text, "]}\n");
    bool is_good = write_file(path, (const uint8_t *)text.bytes, text.count);
    free(text.bytes);
    return is_good;
}

// --- Reading

// Of one operation: from what bench itself writes, with 9 decimals, to a year.
static const double LEAST_SECONDS = 1e-9, MOST_SECONDS = 366.0 * 86400;

struct bench_baseline {
    cJSON *root;
};

static bool is_named(const cJSON *item)
{
    return cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "name"));
}

// Where it is there.
static bool is_median(const cJSON *result, const char *clock)
{
    const cJSON *times = cJSON_GetObjectItemCaseSensitive(result, clock);
    const cJSON *median = cJSON_GetObjectItemCaseSensitive(times, "median");
    return times == NULL || (cJSON_IsNumber(median) && median->valuedouble >= LEAST_SECONDS &&
                             median->valuedouble <= MOST_SECONDS);
}

// What is compared with, so that a ratio is one.
static bool check_devices(const char *path, const cJSON *devices)
{
    const cJSON *device, *result;
    size_t d = 0;
    cJSON_ArrayForEach(device, devices)
    {
        const cJSON *results = cJSON_GetObjectItemCaseSensitive(device, "results");
        if (!is_named(device) || !cJSON_IsArray(results)) {
            complain("%s: devices[%zu] must have a name and results", path, d);
            return false;
        }
        size_t k = 0;
        cJSON_ArrayForEach(result, results)
        {
            if (!is_named(result) || !is_median(result, "host") || !is_median(result, "device")) {
                complain("%s: devices[%zu].results[%zu] must have a name and medians, which are "
                         "from %g to %g seconds",
                         path, d, k, LEAST_SECONDS, MOST_SECONDS);
                return false;
            }
            k++;
        }
        d++;
    }
    return true;
}

bench_baseline *bench_baseline_read_bytes(const char *path, const void *bytes, size_t count)
{
    // With a NUL behind it nothing else may be there.
    char *json = allocate(count + 1, 1);
    memcpy(json, bytes, count);
    cJSON *root = cJSON_ParseWithLengthOpts(json, count + 1, NULL, 1);
    free(json);
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "bench_format");
    if (!cJSON_IsNumber(format) || format->valuedouble != BENCH_FORMAT ||
        !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(root, "devices"))) {
        complain("%s: is no file of kquant bench --json, format %d", path, BENCH_FORMAT);
        cJSON_Delete(root);
        return NULL;
    }
    if (!check_devices(path, cJSON_GetObjectItemCaseSensitive(root, "devices"))) {
        cJSON_Delete(root);
        return NULL;
    }
    bench_baseline *baseline = allocate(1, sizeof *baseline);
    baseline->root = root;
    return baseline;
}

bench_baseline *bench_baseline_read(const char *path)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    if (!read_file(path, MAX_FILE_BYTES, &bytes, &count)) {
        return NULL;
    }
    bench_baseline *baseline = bench_baseline_read_bytes(path, bytes, count);
    free(bytes);
    return baseline;
}

void bench_baseline_free(bench_baseline *baseline)
{
    if (baseline != NULL) {
        cJSON_Delete(baseline->root);
        free(baseline);
    }
}

// The item of a list whose "name" is that.
static const cJSON *find(const cJSON *object, const char *list, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(object, list))
    {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, "name");
        if (cJSON_IsString(value) && strcmp(value->valuestring, name) == 0) {
            return item;
        }
    }
    return NULL;
}

bool bench_baseline_has(const bench_baseline *baseline, const char *device)
{
    return find(baseline->root, "devices", device) != NULL;
}

double bench_baseline_median(const bench_baseline *baseline, const char *device, const char *shape,
                             bool is_device)
{
    const cJSON *result = find(find(baseline->root, "devices", device), "results", shape);
    const cJSON *times = cJSON_GetObjectItemCaseSensitive(result, is_device ? "device" : "host");
    const cJSON *median = cJSON_GetObjectItemCaseSensitive(times, "median");
    return median != NULL ? median->valuedouble : 0;
}
