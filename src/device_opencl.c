// OpenCL devices: a context, an in-order queue and a pack of level 2 each.
#include "device_opencl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of which a segment of a buffer is a multiple.
enum { OPENCL_SEGMENT_UNIT = 4096 };

// --- The devices present

typedef struct entry {
    cl_platform_id platform;
    cl_device_id device;
} entry;

static bool find_opencl_functions(kq_opencl_functions *cl, const kq_lookup *lookup)
{
    bool found = lookup->fn != NULL;
#define FIND(name) found = found && KQ_CL_FIND(cl, lookup, name) != NULL;
    OPENCL_DEVICE_FUNCTIONS(FIND)
#undef FIND
    return found;
}

// Appends a platform's devices; one that has none, or fails, adds none.
static kq_result add_devices(const kq_opencl_functions *cl, cl_platform_id platform,
                             entry **entries, uint32_t *count)
{
    cl_uint added = 0;
    kq_result result = KQ_OK;
    if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &added) != CL_SUCCESS ||
        added == 0) {
        return KQ_OK;
    }
    cl_device_id *devices = calloc(added, sizeof *devices);
    entry *grown = realloc(*entries, ((size_t)*count + added) * sizeof *grown);
    if (grown != NULL) {
        *entries = grown;
    }
    if (devices == NULL || grown == NULL) {
        result = KQ_ERROR_MEMORY;
    } else if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, added, devices, NULL) ==
               CL_SUCCESS) {
        for (cl_uint i = 0; i < added; i++) {
            grown[(*count)++] = (entry){platform, devices[i]};
        }
    }
    free(devices);
    return result;
}

// All devices in the order of platforms, then of each platform's devices. *entries is to be freed.
static kq_result find_devices(const kq_opencl_functions *cl, entry **entries, uint32_t *count)
{
    cl_uint platform_count = 0;
    kq_result result = KQ_OK;
    *entries = NULL;
    *count = 0;
    if (cl->clGetPlatformIDs(0, NULL, &platform_count) != CL_SUCCESS || platform_count == 0) {
        return KQ_OK;
    }
    cl_platform_id *platforms = calloc(platform_count, sizeof *platforms);
    if (platforms == NULL) {
        return KQ_ERROR_MEMORY;
    }
    if (cl->clGetPlatformIDs(platform_count, platforms, NULL) == CL_SUCCESS) {
        for (cl_uint i = 0; i < platform_count && result == KQ_OK; i++) {
            result = add_devices(cl, platforms[i], entries, count);
        }
    }
    free(platforms);
    return result;
}

static char *platform_text(const kq_opencl_functions *cl, cl_platform_id platform,
                           cl_platform_info info)
{
    size_t bytes = 0;
    char *text = NULL;
    if (cl->clGetPlatformInfo(platform, info, 0, NULL, &bytes) == CL_SUCCESS &&
        (text = calloc(1, bytes + 1)) != NULL &&
        cl->clGetPlatformInfo(platform, info, bytes, text, NULL) != CL_SUCCESS) {
        free(text);
        text = NULL;
    }
    return text;
}

// Without the blanks around it, which some drivers put there. NULL is "".
static const char *trim(char *text)
{
    if (text == NULL) {
        return "";
    }
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL) {
        text[--length] = '\0';
    }
    return text + strspn(text, " \t\r\n");
}

static void describe(const kq_opencl_functions *cl, const entry *e, uint32_t index,
                     kq_device_info *info)
{
    cl_device_type type = 0;
    cl_bool shares_memory = CL_TRUE;
    unsigned char uuid[CL_UUID_SIZE_KHR];
    char *name;
    char *version;
    char *extensions;
    kq_cl_device_text(cl->clGetDeviceInfo, e->device, CL_DEVICE_NAME, &name);
    kq_cl_device_text(cl->clGetDeviceInfo, e->device, CL_DRIVER_VERSION, &version);
    kq_cl_device_text(cl->clGetDeviceInfo, e->device, CL_DEVICE_EXTENSIONS, &extensions);
    char *platform = platform_text(cl, e->platform, CL_PLATFORM_NAME);
    cl->clGetDeviceInfo(e->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    cl->clGetDeviceInfo(e->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof shares_memory,
                        &shares_memory, NULL);
    bool is_software = (type & CL_DEVICE_TYPE_CPU) != 0;
    bool is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0 && !is_software;
    *info = (kq_device_info){
        .api = KQ_API_OPENCL,
        .is_software = is_software,
        .is_discrete = is_gpu && !shares_memory,
    };
    snprintf(info->id, sizeof info->id, "opencl:%" PRIu32, index);
    snprintf(info->name, sizeof info->name, "%s", trim(name));
    snprintf(info->driver, sizeof info->driver, "%s, %s", trim(platform), trim(version));
    if (extensions != NULL && kq_cl_has_word(extensions, "cl_khr_device_uuid") &&
        cl->clGetDeviceInfo(e->device, CL_DEVICE_UUID_KHR, sizeof uuid, uuid, NULL) == CL_SUCCESS) {
        for (size_t i = 0; i < sizeof uuid; i++) {
            snprintf(info->uuid + 2 * i, 3, "%02x", uuid[i]);
        }
    }
    free(name);
    free(version);
    free(extensions);
    free(platform);
}

static kq_result opencl_list(const kq_lookup *lookup, const kq_errors *errors,
                             kq_device_info *infos, uint32_t capacity, uint32_t *count)
{
    kq_opencl_functions cl;
    entry *entries;
    const kq_lookup system = kq_opencl_lookup(lookup);
    *count = 0;
    if (!find_opencl_functions(&cl, &system)) {
        return KQ_OK;
    }
    kq_result result = find_devices(&cl, &entries, count);
    for (uint32_t i = 0; i < *count && i < capacity && result == KQ_OK; i++) {
        describe(&cl, &entries[i], i, &infos[i]);
    }
    free(entries);
    return result == KQ_OK ? KQ_OK
                           : kq_fail(errors, result, "out of host memory for a list of devices");
}

// --- A device

static void opencl_close(kq_device *device)
{
    kq_opencl_device *d = device->self;
    device->self = NULL;
    if (d == NULL) {
        return;
    }
    for (unsigned op = 0; op <= KQ_OP_SELF_TEST; op++) {
        kq_opencl_destroy(&d->packs[op]);
    }
    if (d->queue != NULL) {
        d->cl.clReleaseCommandQueue(d->queue);
    }
    if (d->context != NULL) {
        d->cl.clReleaseContext(d->context);
    }
    free(d);
}

static kq_result opencl_create_pack(const kq_device *device, uint32_t ops, uint32_t without,
                                    kq_opencl **pack)
{
    const kq_opencl_device *d = device->self;
    const kq_opencl_params params = {
        .lookup = d->lookup,
        .context = d->context,
        .device = d->id,
        .ops = ops,
        .cache = d->cache,
        .errors = device->errors,
    };
    return kq_opencl_create_without(&params, without, pack);
}

kq_result kq_opencl_need_pack(const kq_device *device, kq_op op, kq_opencl **pack)
{
    kq_opencl_device *d = device->self;
    kq_op from = d->packs[KQ_OP_SELF_TEST] != NULL ? KQ_OP_SELF_TEST : op;
    uint32_t ops = op == KQ_OP_SELF_TEST ? device->ops : 1u << op;
    kq_result result = KQ_OK;
    if (d->packs[from] == NULL) {
        result = opencl_create_pack(device, ops, device->without, &d->packs[from]);
    }
    *pack = d->packs[from];
    return result;
}

static void opencl_properties(const kq_device *device, kq_property_fn *fn, void *user)
{
    const kq_opencl_device *d = device->self;
#define NAMED(name)                                                                                \
 {                                                                                                 \
  name, #name                                                                                      \
 }
    static const struct {
        cl_platform_info info;
        const char *name;
    } platform[] = {NAMED(CL_PLATFORM_NAME), NAMED(CL_PLATFORM_VENDOR), NAMED(CL_PLATFORM_VERSION)};
    static const struct {
        cl_device_info info;
        const char *name;
    } texts[] = {NAMED(CL_DEVICE_NAME),      NAMED(CL_DEVICE_VENDOR),
                 NAMED(CL_DEVICE_VERSION),   NAMED(CL_DRIVER_VERSION),
                 NAMED(CL_DEVICE_PROFILE),   NAMED(CL_DEVICE_OPENCL_C_VERSION),
                 NAMED(CL_DEVICE_IL_VERSION)},
      numbers[] = {NAMED(CL_DEVICE_TYPE),
                   NAMED(CL_DEVICE_VENDOR_ID),
                   NAMED(CL_DEVICE_ADDRESS_BITS),
                   NAMED(CL_DEVICE_MAX_COMPUTE_UNITS),
                   NAMED(CL_DEVICE_MAX_WORK_GROUP_SIZE),
                   NAMED(CL_DEVICE_MAX_MEM_ALLOC_SIZE),
                   NAMED(CL_DEVICE_GLOBAL_MEM_SIZE),
                   NAMED(CL_DEVICE_LOCAL_MEM_SIZE),
                   NAMED(CL_DEVICE_HOST_UNIFIED_MEMORY)};
#undef NAMED
    for (size_t i = 0; i < sizeof platform / sizeof *platform; i++) {
        char *text = platform_text(&d->cl, d->platform, platform[i].info);
        fn(user, platform[i].name, text != NULL ? text : "");
        free(text);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = NULL;
        kq_cl_device_text(d->cl.clGetDeviceInfo, d->id, texts[i].info, &text);
        if (text != NULL) {
            fn(user, texts[i].name, text);
        }
        free(text);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        // Of 4 or 8 bytes; hosts with OpenCL are little-endian as their devices.
        uint64_t number = 0;
        char text[24];
        if (d->cl.clGetDeviceInfo(d->id, numbers[i].info, sizeof number, &number, NULL) ==
            CL_SUCCESS) {
            snprintf(text, sizeof text, "%" PRIu64, number);
            fn(user, numbers[i].name, text);
        }
    }
    kq_opencl *all = NULL;
    if (kq_opencl_need_pack(device, KQ_OP_SELF_TEST, &all) == KQ_OK) {
        fn(user, "program", kq_opencl_program_text(all));
    }
}

kq_result kq_opencl_memory_make(const kq_device *device, uint64_t bytes, cl_mem *memory)
{
    const kq_opencl_device *d = device->self;
    cl_int code = CL_SUCCESS;
    *memory = NULL;
    cl_mem made = d->cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (made == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clCreateBuffer", code);
    }
    *memory = made;
    return KQ_OK;
}

static kq_result open_entry(kq_device *device, const entry *e, const kq_lookup *lookup)
{
    kq_opencl_device *d = device->self;
    d->platform = e->platform;
    d->id = e->device;
    cl_int code = CL_SUCCESS;
    cl_ulong max_bytes = 0;
    cl_ulong memory_bytes = 0;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)e->platform, 0};
    code = d->cl.clGetDeviceInfo(e->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof max_bytes,
                                 &max_bytes, NULL);
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clGetDeviceInfo(CL_DEVICE_MAX_MEM_ALLOC_SIZE)", code);
    }
    code = d->cl.clGetDeviceInfo(e->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory_bytes,
                                 &memory_bytes, NULL);
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clGetDeviceInfo(CL_DEVICE_GLOBAL_MEM_SIZE)", code);
    }
    max_bytes = max_bytes < SIZE_MAX ? max_bytes : SIZE_MAX;
    max_bytes -= max_bytes % OPENCL_SEGMENT_UNIT;
    device->is_limited = true;
    device->capacity.limits = kq_opencl_limits;
    device->capacity.memory_bytes = memory_bytes;
    device->capacity.segment_bytes = max_bytes > 0 ? max_bytes : OPENCL_SEGMENT_UNIT;
    device->capacity.scratch_bytes = device->capacity.segment_bytes;
    d->context = d->cl.clCreateContext(properties, 1, &e->device, NULL, NULL, &code);
    if (d->context == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clCreateContext", code);
    }
    // One queue for all, the uploads and the recordings that take times: on Intel's CPU runtime
    // kernels of a second queue were lost between the blocking copies of the first.
    d->queue = d->cl.clCreateCommandQueue(d->context, e->device, CL_QUEUE_PROFILING_ENABLE, &code);
    if (d->queue == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clCreateCommandQueue", code);
    }
    d->lookup = *lookup;
    // Whether the device will do, before anything is compiled.
    kq_opencl *none = NULL;
    kq_result result = opencl_create_pack(device, 0, UINT32_MAX, &none);
    if (result == KQ_OK) {
        device->capacity.limits.variants = kq_opencl_variants(none) & ~device->without;
    }
    kq_opencl_destroy(&none);
    return result;
}

static kq_result opencl_open(kq_device *device, uint32_t index, const kq_device_params *params)
{
    const kq_lookup lookup = kq_opencl_lookup(&params->lookup);
    entry *entries = NULL;
    uint32_t count = 0;
    kq_result result;
    kq_opencl_device *d = calloc(1, sizeof *d);
    device->self = d;
    if (d == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for a device");
    }
    if (!find_opencl_functions(&d->cl, &lookup)) {
        result = kq_fail(&device->errors, KQ_ERROR_NO_DEVICE, "no OpenCL loader");
        goto fail;
    }
    result = find_devices(&d->cl, &entries, &count);
    if (result != KQ_OK) {
        result = kq_fail(&device->errors, result, "out of host memory for a list of devices");
        goto fail;
    }
    if (index >= count) {
        result = kq_fail(&device->errors, KQ_ERROR_NO_DEVICE,
                         "opencl:%" PRIu32 " is gone; %" PRIu32 " OpenCL devices are left", index,
                         count);
        goto fail;
    }
    d->cache = params->cache;
    result = open_entry(device, &entries[index], &lookup);
    if (result != KQ_OK) {
        goto fail;
    }
    free(entries);
    return KQ_OK;
fail:
    free(entries);
    opencl_close(device);
    return result;
}

// --- Buffers

static kq_result opencl_memory_create(kq_device *device, uint64_t bytes, void **memory)
{
    cl_mem made = NULL;
    kq_result result = kq_opencl_memory_make(device, bytes, &made);
    *memory = made;
    return result;
}

static void opencl_memory_destroy(kq_device *device, void *memory)
{
    const kq_opencl_device *d = device->self;
    d->cl.clReleaseMemObject(memory);
}

kq_result kq_opencl_read(const kq_device *device, cl_mem memory, uint64_t offset, void *data,
                         uint64_t bytes)
{
    const kq_opencl_device *d = device->self;
    cl_int code = d->cl.clEnqueueReadBuffer(d->queue, memory, CL_TRUE, (size_t)offset,
                                            (size_t)bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueReadBuffer", code);
}

kq_result kq_opencl_write(const kq_device *device, cl_mem memory, uint64_t offset, const void *data,
                          uint64_t bytes, bool is_blocking)
{
    const kq_opencl_device *d = device->self;
    cl_int code = d->cl.clEnqueueWriteBuffer(d->queue, memory, is_blocking ? CL_TRUE : CL_FALSE,
                                             (size_t)offset, (size_t)bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueWriteBuffer", code);
}

// The last byte shows whether a copy was made: another one is there before.

static kq_result judge_copy(const kq_device *device, const char *call, unsigned char got,
                            unsigned char wanted)
{
    return got == wanted ? KQ_OK
                         : kq_fail(&device->errors, KQ_ERROR_DRIVER,
                                   "%s gave CL_SUCCESS, but copied nothing", call);
}

// Copies block: a queue in order begins with one only when the kernels before it are done, so that
// one put off would overlap nothing.
static kq_result opencl_upload(kq_device *device, void *memory, uint64_t offset, const void *data,
                               uint64_t bytes)
{
    static const unsigned char others[] = {0x00, 0xFF};
    const uint64_t at = offset + bytes - 1;
    const unsigned char last = ((const unsigned char *)data)[bytes - 1];
    const unsigned char *other = &others[last == 0x00];
    unsigned char got = *other;
    kq_result result = kq_opencl_write(device, memory, at, other, 1, false);
    result = result != KQ_OK ? result : kq_opencl_write(device, memory, offset, data, bytes, true);
    result = result != KQ_OK ? result : kq_opencl_read(device, memory, at, &got, 1);
    return result != KQ_OK ? result : judge_copy(device, "clEnqueueWriteBuffer", got, last);
}

static kq_result opencl_download(kq_device *device, void *memory, uint64_t offset, void *data,
                                 uint64_t bytes)
{
    unsigned char *last = (unsigned char *)data + bytes - 1;
    unsigned char wanted = 0;
    kq_result result = kq_opencl_read(device, memory, offset + bytes - 1, &wanted, 1);
    *last = (unsigned char)~wanted;
    result = result != KQ_OK ? result : kq_opencl_read(device, memory, offset, data, bytes);
    return result != KQ_OK ? result : judge_copy(device, "clEnqueueReadBuffer", *last, wanted);
}

// --- Other commands

kq_result kq_opencl_finish(const kq_device *device, cl_event event, kq_result so_far)
{
    const kq_opencl_device *d = device->self;
    cl_int status = CL_COMPLETE;
    const char *call = "clFinish";
    cl_int code = d->cl.clFinish(d->queue);
    if (code == CL_SUCCESS && event != NULL) {
        call = "clGetEventInfo(CL_EVENT_COMMAND_EXECUTION_STATUS)";
        code = d->cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                    &status, NULL);
    }
    if (so_far != KQ_OK) {
        return so_far;
    }
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, call, code);
    }
    return status >= 0 ? KQ_OK : kq_cl_fail(&device->errors, "a kernel's execution", status);
}

// Of an event's command, which it releases.
static kq_result finish_own(const kq_device *device, cl_event event, kq_result so_far)
{
    const kq_opencl_device *d = device->self;
    kq_result result = kq_opencl_finish(device, event, so_far);
    if (event != NULL) {
        d->cl.clReleaseEvent(event);
    }
    return result;
}

static kq_result opencl_primitives(kq_device *device, void *memory, uint32_t count)
{
    const kq_opencl_device *d = device->self;
    cl_event event = NULL;
    kq_opencl *pack = NULL;
    kq_result result = kq_opencl_need_pack(device, KQ_OP_SELF_TEST, &pack);
    if (result == KQ_OK) {
        result = kq_opencl_primitives_enqueue(pack, memory, count, d->queue, &event);
    }
    return finish_own(device, event, result);
}

static kq_result opencl_self_test(kq_device *device, void *memory)
{
    const kq_opencl_device *d = device->self;
    const kq_opencl_range range = {.buffer = memory};
    cl_event event = NULL;
    kq_opencl *pack = NULL;
    kq_result result = kq_opencl_need_pack(device, KQ_OP_SELF_TEST, &pack);
    if (result == KQ_OK) {
        result = kq_opencl_self_test_enqueue(pack, &range, d->queue, 0, NULL, &event);
    }
    return finish_own(device, event, result);
}

const kq_backend kq_opencl_backend = {
    .api = KQ_API_OPENCL,
    .name = "opencl",
    .list = opencl_list,
    .open = opencl_open,
    .close = opencl_close,
    .properties = opencl_properties,
    .memory_create = opencl_memory_create,
    .memory_destroy = opencl_memory_destroy,
    .upload = opencl_upload,
    .download = opencl_download,
    .work_create = kq_opencl_work_create,
    .work_destroy = kq_opencl_work_destroy,
    .record = kq_opencl_work_record,
    .run = kq_opencl_work_run,
    .primitives = opencl_primitives,
    .self_test = opencl_self_test,
};
