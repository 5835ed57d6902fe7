// Reads kernels.json, the manifest that kquant installs beside its kernels, and works out from it
// what is to be dispatched. Knows no API and no device, and needs cJSON only. A manifest that is
// not one ends the program with a message; an engine would do something better.
#ifndef MANIFEST_H
#define MANIFEST_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MANIFEST_MOST_PARAMS = 32, MANIFEST_MOST_DISPATCHES = 64 };

// Values by name, for params of kernels: "G", "dots", "lhs_stride" and so on.
typedef struct manifest_values {
    size_t count;
    struct {
        const char *name;
        uint32_t value;
    } of[MANIFEST_MOST_PARAMS];
} manifest_values;

void manifest_set(manifest_values *values, const char *name, uint32_t value);
uint32_t manifest_get(const manifest_values *values, const char *name);  // 0 if it is not set

// The manifest of a folder, share/kquant once installed. cJSON_Delete it.
cJSON *manifest_read(const char *folder);

// The bytes of a file that a kernel has for an API: "vulkan", "opencl_64" and so on. free them.
void *manifest_read_file(const char *folder, const cJSON *kernel, const char *api, size_t *bytes);

// A member that has to be there.
const cJSON *manifest_member(const cJSON *object, const char *name);
const char *manifest_text(const cJSON *object, const char *name);
uint32_t manifest_number(const cJSON *object, const char *name);

typedef struct manifest_dispatch {
    const cJSON *kernel;
    uint64_t workgroups;
    uint32_t params[MANIFEST_MOST_PARAMS];  // the kernel's, where their offsets say
    uint32_t params_bytes;
} manifest_dispatch;

// Whether a kernel has a file for an API and needs no feature. Variants may be there for one API
// alone.
bool manifest_has_file(const cJSON *kernel, const char *api);

// The dispatches of an operation, "quantize", "quantized_dot.sequential" or
// "quantized_dot.pairwise", of kernels for that API; each reads what the one before it wrote.
// Returns how many.
size_t manifest_dispatches(const cJSON *manifest, const char *api, const char *operation,
                           const manifest_values *values,
                           manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES]);

uint64_t manifest_scratch_bytes(const cJSON *manifest, const char *operation,
                                const manifest_values *values);

#endif
