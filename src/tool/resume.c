#include "resume.h"

#include <stdio.h>
#include <string.h>

static const char *value_of(const report_values *values, const char *name, const char *absent)
{
    for (size_t k = 0; k < values->count; k++) {
        if (strcmp(values->items[k].name, name) == 0) {
            return values->items[k].value;
        }
    }
    return absent;
}

static bool is_same(const char *path, const char *what, const char *old, const char *now)
{
    bool same = strcmp(old, now) == 0;
    if (!same) {
        complain("--resume: %s is of another run: %s was %s and is %s", path, what, old, now);
    }
    return same;
}

// What changes drivers: variables that either of them has, and the system.
static bool is_same_machine(const char *path, const run_report *old, const run_report *now)
{
    bool same = true;
    for (size_t k = 0; k < old->environment.count && same; k++) {
        const char *name = old->environment.items[k].name;
        same = is_same(path, name, old->environment.items[k].value,
                       value_of(&now->environment, name, "unset"));
    }
    for (size_t k = 0; k < now->environment.count && same; k++) {
        const char *name = now->environment.items[k].name;
        same = is_same(path, name, value_of(&old->environment, name, "unset"),
                       now->environment.items[k].value);
    }
    for (size_t k = 0; k < now->system.count && same; k++) {
        const char *name = now->system.items[k].name;
        same =
            is_same(path, name, value_of(&old->system, name, "unset"), now->system.items[k].value);
    }
    return same;
}

static bool is_same_run(const char *path, const run_report *old, const run_report *now)
{
    // The time limit changes no result but errors, which are run again.
    static const char *const options[] = {"device",  "against", "level", "filter",
                                          "vectors", "seed",    "fault"};
    bool same = is_same(path, "the version of kquant", old->version, now->version) &&
                is_same(path, "the commit of kquant", old->commit, now->commit) &&
                is_same(path, "its working tree", old->is_dirty ? "changed" : "clean",
                        now->is_dirty ? "changed" : "clean");
    for (size_t k = 0; k < sizeof options / sizeof options[0] && same; k++) {
        char what[32];
        snprintf(what, sizeof what, "--%s", options[k]);
        same = is_same(path, what, value_of(&old->options, options[k], "none"),
                       value_of(&now->options, options[k], "none"));
    }
    same = same &&
           is_same(path, "the digest of the list of cases", old->case_digest, now->case_digest);
    for (size_t k = 0; k < now->module_count && same; k++) {
        const report_module *a = &old->modules[k], *b = &now->modules[k];
        bool is_there = k < old->module_count && strcmp(a->name, b->name) == 0 &&
                        strcmp(a->api, b->api) == 0 && strcmp(a->form, b->form) == 0;
        same = is_same(path, b->name, is_there ? a->sha256 : "absent", b->sha256);
    }
    return same && is_same_machine(path, old, now);
}

static void read_info(const report_device *device, kq_device_info *info)
{
    snprintf(info->id, sizeof info->id, "%s", device->id);
    snprintf(info->name, sizeof info->name, "%s", device->name);
    snprintf(info->driver, sizeof info->driver, "%s", device->driver);
    snprintf(info->uuid, sizeof info->uuid, "%s", device->uuid);
    info->api = strcmp(device->api, "vulkan") == 0   ? KQ_API_VULKAN
                : strcmp(device->api, "opencl") == 0 ? KQ_API_OPENCL
                                                     : KQ_API_REFERENCE;
    info->is_discrete = strcmp(device->kind, "discrete") == 0;
    info->is_software = !info->is_discrete && strcmp(device->kind, "integrated") != 0;
}

// Its results, which are in the order of the list. False: they are not.
static bool read_results(const report_device *device, const selection *selection, device_run *run)
{
    size_t k = 0;
    for (size_t c = 0; c < device->case_count; c++) {
        const report_case *test = &device->cases[c];
        while (k < selection->count && strcmp(selection->cases[k]->name, test->name) != 0) {
            k++;
        }
        if (k == selection->count) {
            return false;
        }
        if (test->status != CASE_ERROR) {
            case_result *result = &run->results[k];
            *result = (case_result){
                .status = test->status, .mismatches = test->mismatches, .seconds = test->seconds};
            snprintf(result->digest, sizeof result->digest, "%s", test->digest);
            result->reason = test->status != CASE_PASS ? copy_text(test->reason) : NULL;
        }
        k++;
    }
    return true;
}

int resume_from(const char *path, const run_report *old, const run_report *now,
                const selection *selection, device_run *runs, size_t count)
{
    if (!is_same_run(path, old, now)) {
        return EXIT_USAGE;
    }
    for (size_t d = 0; d < count; d++) {
        const report_device *device = &old->devices[d];
        bool has_begun =
            d < old->device_count && device->case_count > 0 && device->status != DEVICE_NOT_OPENED;
        if (!has_begun) {
            continue;
        }
        if (runs[d].is_known && !is_same(path, "a device", device->id, runs[d].info.id)) {
            return EXIT_USAGE;
        }
        if (!read_results(device, selection, &runs[d])) {
            complain("--resume: %s: the cases of %s are not in the order of the list", path,
                     device->id);
            return EXIT_USAGE;
        }
        read_info(device, &runs[d].info);
        runs[d].is_known = true;
        for (size_t k = 0; k < device->properties.count; k++) {
            device_run_add_property(&runs[d], device->properties.items[k].name,
                                    device->properties.items[k].value);
        }
    }
    return EXIT_DONE;
}
