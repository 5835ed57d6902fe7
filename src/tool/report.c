#include "commit.h"
#include "report.h"
#include "bytes.h"
#include "platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct kept *next;
    char text[];
};

const char *report_keep_bytes(run_report *report, const char *text, size_t count)
{
    struct kept *kept = allocate(sizeof *kept + count + 1, 1);
    memcpy(kept->text, text, count);
    kept->next = report->kept;
    report->kept = kept;
    return kept->text;
}

const char *report_keep(run_report *report, const char *text)
{
    return report_keep_bytes(report, text, strlen(text));
}

void report_add_value(report_values *values, const char *name, const char *value)
{
    // Room for a power of two of them.
    if ((values->count & (values->count - 1)) == 0) {
        values->items = reallocate(values->items, values->count == 0 ? 1 : 2 * values->count,
                                   sizeof values->items[0]);
    }
    values->items[values->count].name = name;
    values->items[values->count].value = value;
    values->count++;
}

const char *device_status_name(device_status status)
{
    static const char *const names[DEVICE_STATUSES] = {"complete", "incomplete", "given up",
                                                       "not opened"};
    return names[status];
}

// --- Where it comes from

// Begins the names of variables that loaders, drivers and their compilers read.
static const char *const prefixes[] = {
    "VK_",   "OCL_ICD_", "LD_",       "DYLD_", "LP_",    "GALLIUM_",     "GALLIVM_", "MESA_",
    "NIR_",  "RUSTICL_", "CLC_",      "RADV_", "AMD_",   "ACO_",         "GPU_",     "HSA_",
    "ROC_",  "ANV_",     "INTEL_",    "IGC_",  "NEO_",   "CL_",          "NVK_",     "NAK_",
    "CUDA_", "__GL_",    "ZINK_",     "TU_",   "IR3_",   "V3D_",         "PAN_",     "PVR_",
    "MVK_",  "POCL_",    "OCLGRIND_", "DRI_",  "LIBGL_", "SWIFTSHADER_", "OMP_",     "TBB_",
};

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct variables {
    run_report *report;
    const char **items;
    size_t count;
} variables;

static void add_variable(void *user, const char *variable)
{
    variables *found = user;
    for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++) {
        if (strncmp(variable, prefixes[p], strlen(prefixes[p])) == 0 && strchr(variable, '=')) {
            found->items = reallocate(found->items, found->count + 1, sizeof found->items[0]);
            found->items[found->count++] = report_keep(found->report, variable);
            break;
        }
    }
}

static void add_environment(run_report *report)
{
    variables found = {.report = report};
    platform_list_environment(add_variable, &found);
    if (found.count > 0) {
        qsort(found.items, found.count, sizeof found.items[0], compare_texts);
    }
    for (size_t k = 0; k < found.count; k++) {
        const char *name = found.items[k];
        const char *value = strchr(name, '=') + 1;
        char *shown = copy_without_home(value);
        report_add_value(&report->environment,
                         report_keep_bytes(report, name, (size_t)(value - 1 - name)),
                         report_keep(report, shown));
        free(shown);
    }
    free(found.items);
}

static void add_system(run_report *report)
{
    platform_system system;
    platform_describe_system(&system);
    report_add_value(&report->system, "os", report_keep(report, system.os));
    report_add_value(&report->system, "kernel", report_keep(report, system.kernel));
    report_add_value(&report->system, "machine", report_keep(report, system.machine));
}

static const char *keep_number(run_report *report, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    return report_keep(report, digits);
}

// As a command line has them; those that are not set are left out.
static void add_options(run_report *report, const run_options *o, const char *device,
                        const char *against)
{
    report_values *options = &report->options;
    const char *const texts[][2] = {
        {"device", device},      {"against", against}, {"filter", o->filter},
        {"vectors", o->vectors}, {"fault", o->fault},  {"level", o->is_full ? "full" : "quick"}};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        if (texts[k][1] != NULL) {
            report_add_value(options, texts[k][0], texts[k][1]);
        }
    }
    report_add_value(options, "seed", keep_number(report, o->seed));
    report_add_value(options, "time-limit", keep_number(report, o->time_limit));
}

static const char *keep_digest(run_report *report, sha256 *hash)
{
    char hex[SHA256_HEX_BYTES];
    sha256_end(hash, hex);
    return report_keep(report, hex);
}

static void add_module(run_report *report, const kq_kernel *kernel, const char *form,
                       const void *bytes, size_t count)
{
    sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, bytes, count);
    report->modules =
        reallocate(report->modules, report->module_count + 1, sizeof report->modules[0]);
    report->modules[report->module_count++] = (report_module){
        .name = kernel->name,
        .api = api_name(kernel->api),
        .form = form,
        .sha256 = keep_digest(report, &hash),
    };
}

static void add_modules(run_report *report)
{
    size_t count = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    for (size_t k = 0; k < count; k++) {
        const kq_kernel *kernel = &kernels[k];
        // As in its file, which is little-endian on any host.
        uint8_t *spirv = allocate(kernel->spirv_bytes, 1);
        for (size_t i = 0; i < kernel->spirv_bytes / 4; i++) {
            store_u32(spirv + 4 * i, kernel->spirv[i]);
        }
        add_module(report, kernel,
                   kernel->address_bits == 0    ? "SPIR-V"
                   : kernel->address_bits == 32 ? "SPIR-V 32"
                                                : "SPIR-V 64",
                   spirv, kernel->spirv_bytes);
        free(spirv);
        // The source is the same for 32 and 64 bits.
        if (kernel->source != NULL && kernel->address_bits == 64) {
            add_module(report, kernel, "source", kernel->source, kernel->source_bytes);
        }
    }
}

static void add_case_list(run_report *report, const selection *selection)
{
    char digest[SHA256_HEX_BYTES];
    selection_digest(selection, digest);
    report->case_count = selection->count;
    report->case_digest = report_keep(report, digest);
}

// --- Devices

static void add_device(run_report *report, const selection *selection, const device_run *run)
{
    char fingerprint[SHA256_HEX_BYTES];
    report_device *device = &report->devices[report->device_count++];
    run_fingerprint(selection, run, fingerprint);
    *device = (report_device){
        .id = run->info.id,
        .api = run->is_known ? api_name(run->info.api) : "",
        .kind = run->is_known ? device_kind(&run->info) : "",
        .name = run->info.name,
        .driver = run->info.driver,
        .uuid = run->info.uuid,
        .reason = run->reason,
        .fingerprint = report_keep(report, fingerprint),
        .cases = allocate(selection->count, sizeof device->cases[0]),
    };
    for (size_t k = 0; k < run->property_count; k++) {
        report_add_value(&device->properties, run->properties[k].name, run->properties[k].value);
    }
    for (size_t k = 0; k < selection->count; k++) {
        const case_result *result = &run->results[k];
        if (result->status != CASE_MISSING) {
            device->counts[result->status]++;
            device->cases[device->case_count++] = (report_case){
                .name = selection->cases[k]->name,
                .status = result->status,
                .digest = result->digest,
                .mismatches = result->mismatches,
                .seconds = result->seconds,
                .reason = result->reason != NULL ? result->reason : "",
            };
        }
    }
    device->status = run->reason[0] != '\0' ? run->is_open ? DEVICE_GIVEN_UP : DEVICE_NOT_OPENED
                     : device->case_count == selection->count ? DEVICE_COMPLETE
                                                              : DEVICE_INCOMPLETE;
}

void report_add_origin(run_report *report)
{
    static const char commit[] = KQ_TOOL_COMMIT, dirty[] = "-dirty";
    size_t clean = strlen(commit) >= strlen(dirty) ? strlen(commit) - strlen(dirty) : 0;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", KQ_VERSION_MAJOR, KQ_VERSION_MINOR,
             KQ_VERSION_PATCH);
    report->version = report_keep(report, version);
    report->is_dirty = strcmp(&commit[clean], dirty) == 0;
    report->commit = report_keep_bytes(report, commit, report->is_dirty ? clean : strlen(commit));
    add_system(report);
    add_environment(report);
}

void report_make(const run_options *options, const selection *selection, const char *device,
                 const char *against, const device_run *runs, size_t count, run_report *report)
{
    memset(report, 0, sizeof *report);
    report_add_origin(report);
    add_options(report, options, device, against);
    add_modules(report);
    add_case_list(report, selection);
    report->devices = allocate(count, sizeof report->devices[0]);
    for (size_t d = 0; d < count; d++) {
        add_device(report, selection, &runs[d]);
    }
}

bool report_is_complete(const run_report *report)
{
    for (size_t d = 0; d < report->device_count; d++) {
        if (report->devices[d].status == DEVICE_INCOMPLETE) {
            return false;
        }
    }
    return true;
}

void report_free(run_report *report)
{
    for (size_t d = 0; d < report->device_count; d++) {
        free(report->devices[d].properties.items);
        free(report->devices[d].cases);
    }
    free(report->devices);
    free(report->modules);
    free(report->system.items);
    free(report->environment.items);
    free(report->options.items);
    for (struct kept *kept = report->kept, *next; kept != NULL; kept = next) {
        next = kept->next;
        free(kept);
    }
    memset(report, 0, sizeof *report);
}
