// JUnit XML, as continuous integration reads it: a testsuite for each device. What check counts
// against a device is a failure or an error here too; nothing is skipped.
#include "report.h"
#include "files.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add_attribute(text *text, const char *name, const char *value)
{
    text_add(text, " %s=\"", name);
    text_add_xml(text, value);
    text_add(text, "\"");
}

static void add_property(text *text, const char *name, const char *value)
{
    text_add(text, "   <property");
    add_attribute(text, "name", name);
    add_attribute(text, "value", value);
    text_add(text, "/>\n");
}

static void add_values(text *text, const report_values *values)
{
    for (size_t k = 0; k < values->count; k++) {
        add_property(text, values->items[k].name, values->items[k].value);
    }
}

static void add_case(text *text, const report_case *test)
{
    const char *class = strchr(test->name, '.');
    size_t length = class != NULL ? (size_t)(class - test->name) : strlen(test->name);
    text_add(text, "  <testcase classname=\"kquant.%.*s\"", (int)length, test->name);
    add_attribute(text, "name", test->name);
    text_add(text, " time=\"%.6f\"", test->seconds);
    if (test->status == CASE_PASS) {
        text_add(text, "/>\n");
        return;
    }
    const char *element = test->status == CASE_ERROR ? "error" : "failure";
    text_add(text, ">\n   <%s", element);
    add_attribute(text, "type", case_status_name(test->status));
    add_attribute(text, "message", test->reason);
    text_add(text, "/>\n  </testcase>\n");
}

static void add_suite(text *text, const run_report *report, const report_device *device)
{
    double seconds = 0;
    for (size_t k = 0; k < device->case_count; k++) {
        seconds += device->cases[k].seconds;
    }
    // A device that is not done with has one error more, which stands for the cases that wait.
    bool is_incomplete = device->status == DEVICE_INCOMPLETE;
    text_add(text, " <testsuite");
    add_attribute(text, "name", device->id);
    text_add(text,
             " tests=\"%zu\" failures=\"%" PRIu64 "\" errors=\"%" PRIu64
             "\" skipped=\"0\" time=\"%.6f\">\n  <properties>\n",
             device->case_count + is_incomplete,
             device->counts[CASE_FAIL] + device->counts[CASE_UNSUPPORTED],
             device->counts[CASE_ERROR] + is_incomplete, seconds);
    add_property(text, "device", device->name);
    add_property(text, "driver", device->driver);
    add_property(text, "status", device_status_name(device->status));
    add_property(text, "fingerprint", device->fingerprint);
    add_property(text, "kquant", report->version);
    add_property(text, "commit", report->commit);
    add_values(text, &report->system);
    add_values(text, &report->environment);
    add_values(text, &device->properties);
    text_add(text, "  </properties>\n");
    for (size_t k = 0; k < device->case_count; k++) {
        add_case(text, &device->cases[k]);
    }
    if (is_incomplete) {
        text_add(text,
                 "  <testcase classname=\"kquant\" name=\"the other cases\" time=\"0\">\n"
                 "   <error type=\"incomplete\" message=\"%" PRIu64
                 " cases have no result: the run was interrupted, or is going on\"/>\n"
                 "  </testcase>\n",
                 report->case_count - device->case_count);
    }
    text_add(text, " </testsuite>\n");
}

bool report_write_junit(const run_report *report, const char *path)
{
    text text = {0};
    text_add(&text,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kquant check\">\n");
    for (size_t d = 0; d < report->device_count; d++) {
        add_suite(&text, report, &report->devices[d]);
    }
    text_add(&text, "</testsuites>\n");
    bool is_good = write_file(path, (const uint8_t *)text.bytes, text.count);
    free(text.bytes);
    return is_good;
}
