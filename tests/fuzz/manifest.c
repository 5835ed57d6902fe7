// samples/manifest.c. Whatever a manifest says, dispatches are not too many and are work, and their
// parameters lie in their room. Values of the parameters come before the first brace.
#include "fuzz.h"

#include "../../samples/manifest.h"

#include <stdlib.h>
#include <string.h>

static fuzz_input input;

static void check_dispatches(const cJSON *manifest, const char *api, const char *operation,
                             const manifest_values *values)
{
    static manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES];
    size_t count = manifest_dispatches(manifest, api, operation, values, dispatches);
    REQUIRE(count <= MANIFEST_MOST_DISPATCHES);
    for (size_t k = 0; k < count; k++) {
        REQUIRE(dispatches[k].workgroups > 0);
        REQUIRE(dispatches[k].params_bytes % 4 == 0 &&
                dispatches[k].params_bytes <= sizeof dispatches[k].params);
        manifest_has_file(dispatches[k].kernel, api);
    }
    REQUIRE(manifest_scratch_bytes(manifest, operation, values) % 4 == 0);
}

static void read_manifest(void *user)
{
    static const char *const apis[] = {"vulkan", "opencl_64", "opencl_cpu"};
    static const char *const operations[] = {"quantize", "quantized_dot.sequential",
                                             "quantized_dot.pairwise"};
    static const char *const names[] = {"G", "dots", "count_0", "count_1", "lhs_stride"};
    (void)user;
    const char *api = apis[fuzz_byte(&input) % 3];
    const char *operation = operations[fuzz_byte(&input) % 3];
    manifest_values values = {0};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        // Mostly small, some of 32 bits.
        uint8_t first = fuzz_byte(&input);
        manifest_set(&values, names[k], first < 240 ? first : (uint32_t)fuzz_number(&input, 4));
    }
    cJSON *manifest = manifest_read("folder");
    check_dispatches(manifest, api, operation, &values);
    cJSON_Delete(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static cJSON_Hooks hooks = {malloc, free};
    const uint8_t *end = memchr(data, '{', size);
    const size_t head = end != NULL ? (size_t)(end - data) : size;
    input = (fuzz_input){data, head};
    cJSON_InitHooks(&hooks);
    fuzz_survives(read_manifest, NULL, "kernels.json", data + head, size - head);
    return 0;
}
