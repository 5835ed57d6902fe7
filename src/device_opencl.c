// OpenCL devices: a context, an in-order queue and a pack of level 2 each.
#include "opencl_functions.h"

#include "device.h"
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define OPENCL_DEVICE_FUNCTIONS(f)                                                                 \
    f(clGetPlatformIDs)                                                                            \
    f(clGetPlatformInfo)                                                                           \
    f(clGetDeviceIDs)                                                                              \
    f(clGetDeviceInfo)                                                                             \
    f(clCreateContext)                                                                             \
    f(clReleaseContext)                                                                            \
    f(clCreateCommandQueue)                                                                        \
    f(clReleaseCommandQueue)                                                                       \
    f(clCreateBuffer)                                                                              \
    f(clReleaseMemObject)                                                                          \
    f(clEnqueueReadBuffer)                                                                         \
    f(clEnqueueWriteBuffer)                                                                        \
    f(clEnqueueCopyBuffer)                                                                         \
    f(clFinish)                                                                                    \
    f(clGetEventInfo)                                                                              \
    f(clGetEventProfilingInfo)                                                                     \
    f(clEnqueueMarkerWithWaitList)                                                                 \
    f(clReleaseEvent)
// clang-format on

typedef struct opencl_functions {
    OPENCL_DEVICE_FUNCTIONS(KQ_CL_MEMBER)
} opencl_functions;

typedef struct opencl_device {
    opencl_functions cl;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    kq_lookup lookup;
    const kq_cache *cache;
    kq_opencl *packs[KQ_OP_SELF_TEST + 1];  // by what they were made for: need_pack
} opencl_device;

typedef struct opencl_item {
    const kq_operation *operation;
    const kq_piece *piece;
} opencl_item;

typedef struct opencl_work {
    bool is_kept;
    cl_mem status;
    cl_mem scratch;  // grows, unless the work is kept
    uint64_t scratch_bytes;
    cl_mem stage;  // made when first needed
    opencl_item items[];
} opencl_work;

// Of which a segment of a buffer is a multiple.
enum { OPENCL_SEGMENT_UNIT = 4096 };

// --- The devices present

typedef struct entry {
    cl_platform_id platform;
    cl_device_id device;
} entry;

static bool find_opencl_functions(opencl_functions *cl, const kq_lookup *lookup)
{
    bool found = lookup->fn != NULL;
#define FIND(name) found = found && KQ_CL_FIND(cl, lookup, name) != NULL;
    OPENCL_DEVICE_FUNCTIONS(FIND)
#undef FIND
    return found;
}

// Appends a platform's devices; one that has none, or fails, adds none.
static kq_result add_devices(const opencl_functions *cl, cl_platform_id platform, entry **entries,
                             uint32_t *count)
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
static kq_result find_devices(const opencl_functions *cl, entry **entries, uint32_t *count)
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

static char *platform_text(const opencl_functions *cl, cl_platform_id platform,
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

static void describe(const opencl_functions *cl, const entry *e, uint32_t index,
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

static kq_result opencl_list(const kq_lookup *lookup, kq_device_info *infos, uint32_t capacity,
                             uint32_t *count)
{
    opencl_functions cl;
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
    return result;
}

// --- A device

static void opencl_close(kq_device *device)
{
    opencl_device *d = device->self;
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
    const opencl_device *d = device->self;
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

// The kernels of an operation, compiled when it is first asked for; those of the self-test are all.
static kq_result opencl_need_pack(const kq_device *device, kq_op op, kq_opencl **pack)
{
    opencl_device *d = device->self;
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
    const opencl_device *d = device->self;
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
        // Of 4 or 8 bytes, on a host that is little-endian, or the device was not opened.
        uint64_t number = 0;
        char text[24];
        if (d->cl.clGetDeviceInfo(d->id, numbers[i].info, sizeof number, &number, NULL) ==
            CL_SUCCESS) {
            snprintf(text, sizeof text, "%" PRIu64, number);
            fn(user, numbers[i].name, text);
        }
    }
    kq_opencl *all = NULL;
    if (opencl_need_pack(device, KQ_OP_SELF_TEST, &all) == KQ_OK) {
        fn(user, "program", kq_opencl_program_text(all));
    }
}

static kq_result opencl_create_memory(const kq_device *device, uint64_t bytes, cl_mem *memory)
{
    const opencl_device *d = device->self;
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
    opencl_device *d = device->self;
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
    opencl_device *d = calloc(1, sizeof *d);
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
    kq_result result = opencl_create_memory(device, bytes, &made);
    *memory = made;
    return result;
}

static void opencl_memory_destroy(kq_device *device, void *memory)
{
    const opencl_device *d = device->self;
    d->cl.clReleaseMemObject(memory);
}

// Copies block: a queue in order begins with one only when the kernels before it are done, so that
// one put off would overlap nothing.
static kq_result opencl_upload(kq_device *device, void *memory, uint64_t offset, const void *data,
                               uint64_t bytes)
{
    const opencl_device *d = device->self;
    cl_int code = d->cl.clEnqueueWriteBuffer(d->queue, memory, CL_TRUE, (size_t)offset,
                                             (size_t)bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueWriteBuffer", code);
}

static kq_result opencl_download(kq_device *device, void *memory, uint64_t offset, void *data,
                                 uint64_t bytes)
{
    const opencl_device *d = device->self;
    cl_int code = d->cl.clEnqueueReadBuffer(d->queue, memory, CL_TRUE, (size_t)offset,
                                            (size_t)bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueReadBuffer", code);
}

// --- Work

static void opencl_work_destroy(kq_device *device, void *work)
{
    const opencl_device *d = device->self;
    opencl_work *w = work;
    if (w == NULL) {
        return;
    }
    cl_mem memory[] = {w->status, w->scratch, w->stage};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        if (memory[i] != NULL) {
            d->cl.clReleaseMemObject(memory[i]);
        }
    }
    free(w);
}

static kq_result opencl_need_scratch(kq_device *device, uint64_t bytes, opencl_work *w)
{
    const opencl_device *d = device->self;
    cl_mem memory = NULL;
    if (bytes <= w->scratch_bytes) {
        return KQ_OK;
    }
    // The old one goes first, so that both need not fit at once.
    if (w->scratch != NULL) {
        d->cl.clReleaseMemObject(w->scratch);
    }
    w->scratch = NULL;
    w->scratch_bytes = 0;
    kq_result result = opencl_create_memory(device, bytes, &memory);
    if (result == KQ_OK) {
        w->scratch = memory;
        w->scratch_bytes = bytes;
    }
    return result;
}

static kq_result opencl_work_create(kq_device *device, bool is_kept, uint32_t count,
                                    uint64_t scratch_bytes, void **work)
{
    opencl_work *w = calloc(1, sizeof *w + (size_t)count * sizeof w->items[0]);
    *work = NULL;
    if (w == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for work");
    }
    w->is_kept = is_kept;
    kq_result result = opencl_create_memory(device, sizeof(kq_status), &w->status);
    result = result != KQ_OK ? result : opencl_need_scratch(device, scratch_bytes, w);
    if (result != KQ_OK) {
        opencl_work_destroy(device, w);
        return result;
    }
    *work = w;
    return KQ_OK;
}

static kq_result opencl_record(kq_device *device, void *work, uint32_t index,
                               const kq_operation *operation, const kq_piece *piece)
{
    opencl_work *w = work;
    bool is_staged = piece->is_staged[0] || piece->is_staged[1] || piece->is_staged[2];
    kq_result result = KQ_OK;
    w->items[index] = (opencl_item){operation, piece};
    if (is_staged && w->stage == NULL) {
        result = opencl_create_memory(device, KQ_BINDING_COUNT * device->capacity.stage_bytes,
                                      &w->stage);
    }
    return result != KQ_OK ? result : opencl_need_scratch(device, piece->needs.scratch_bytes, w);
}

// Copies the runs of a staged operand, in order after all that was enqueued.
static kq_result opencl_copy_runs(const kq_device *device, const opencl_work *w,
                                  const opencl_item *item, int role, bool is_input)
{
    const opencl_device *d = device->self;
    const kq_buffer *buffer = kq_operand_buffer(item->operation, role);
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; i < kq_piece_run_count(item->piece, role); i++) {
        kq_run run = kq_piece_run(item->piece, role, i);
        for (uint64_t done = 0; done < run.bytes && code == CL_SUCCESS;) {
            kq_segment_run part = kq_buffer_run(buffer, run.at + done, run.bytes - done);
            size_t stage = (size_t)(run.stage + done);
            size_t bytes = (size_t)part.bytes;
            code = is_input
                       ? d->cl.clEnqueueCopyBuffer(d->queue, part.memory, w->stage,
                                                   (size_t)part.offset, stage, bytes, 0, NULL, NULL)
                       : d->cl.clEnqueueCopyBuffer(d->queue, w->stage, part.memory, stage,
                                                   (size_t)part.offset, bytes, 0, NULL, NULL);
            done += part.bytes;
        }
    }
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueCopyBuffer", code);
}

// Waits for all work; event is the kernels' last, or NULL. A driver may end a command with an error
// and yet finish well. `so_far` goes before what is found here.
static kq_result opencl_finish(const kq_device *device, cl_event event, kq_result so_far)
{
    const opencl_device *d = device->self;
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

static kq_opencl_view opencl_view_of(const opencl_work *w, const opencl_item *item, int role)
{
    return (kq_opencl_view){kq_piece_memory(item->operation, item->piece, role, w->stage),
                            kq_piece_view(item->piece, role)};
}

static kq_result enqueue_quantize(const kq_device *device, const opencl_work *w,
                                  const opencl_item *item, const kq_status *status, cl_event *event)
{
    const opencl_device *d = device->self;
    const kq_opencl_quantize op = {
        .format = item->operation->format,
        .values = opencl_view_of(w, item, KQ_VALUES),
        .records = opencl_view_of(w, item, KQ_RECORDS),
        .status = {.buffer = w->status},
    };
    kq_opencl *pack = NULL;
    kq_result result = opencl_need_pack(device, KQ_OP_QUANTIZE, &pack);
    result = result != KQ_OK ? result : opencl_copy_runs(device, w, item, KQ_VALUES, true);
    if (result == KQ_OK) {
        cl_int code = d->cl.clEnqueueWriteBuffer(d->queue, w->status, CL_TRUE, 0, sizeof *status,
                                                 status, 0, NULL, NULL);
        result =
            code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueWriteBuffer", code);
    }
    if (result == KQ_OK) {
        result = kq_opencl_quantize_enqueue(pack, &op, d->queue, 0, NULL, event);
    }
    return result != KQ_OK ? result : opencl_copy_runs(device, w, item, KQ_RECORDS, false);
}

static kq_result enqueue_dot(const kq_device *device, const opencl_work *w, const opencl_item *item,
                             cl_event *event)
{
    const opencl_device *d = device->self;
    const kq_piece *piece = item->piece;
    const kq_operation *operation = item->operation;
    const kq_repeat repeat = kq_piece_repeat(piece);
    const kq_opencl_quantized_dot op = {
        .lhs_format = operation->lhs_format,
        .rhs_format = operation->rhs_format,
        .acc = operation->acc,
        .order = operation->order,
        .lhs = opencl_view_of(w, item, KQ_LHS),
        .rhs = opencl_view_of(w, item, KQ_RHS),
        .result = {kq_piece_memory(operation, piece, KQ_RESULT, w->stage),
                   piece->shape.extents[KQ_RESULT].offset},
        .scratch = {.buffer = w->scratch},
        .repeat = &repeat,
        .part = &piece->shape.part,
    };
    kq_opencl *pack = NULL;
    kq_result result = opencl_need_pack(device, KQ_OP_QUANTIZED_DOT, &pack);
    result = result != KQ_OK ? result : opencl_copy_runs(device, w, item, KQ_LHS, true);
    result = result != KQ_OK ? result : opencl_copy_runs(device, w, item, KQ_RHS, true);
    if (result == KQ_OK) {
        result = kq_opencl_quantized_dot_enqueue(pack, &op, d->queue, 0, NULL, event);
    }
    return result != KQ_OK ? result : opencl_copy_runs(device, w, item, KQ_RESULT, false);
}

static kq_result enqueue_bandwidth(const kq_device *device, const opencl_item *item,
                                   cl_event *event)
{
    const opencl_device *d = device->self;
    const kq_transfer transfer = kq_piece_transfer(item->operation, item->piece);
    kq_opencl *pack = NULL;
    kq_result result = opencl_need_pack(device, KQ_OP_SELF_TEST, &pack);
    return result != KQ_OK ? result
                           : kq_opencl_bandwidth_enqueue(
                                 pack, kq_piece_memory(item->operation, item->piece, KQ_FROM, NULL),
                                 kq_piece_memory(item->operation, item->piece, KQ_TO, NULL),
                                 &transfer, d->queue, event);
}

// From the end of all that came before the kernels to the end of the last of them; 0 where the
// driver can't tell.
static uint64_t time_between(const opencl_device *d, cl_event before, cl_event last)
{
    cl_ulong begin = 0;
    cl_ulong end = 0;
    cl_int code =
        d->cl.clGetEventProfilingInfo(before, CL_PROFILING_COMMAND_END, sizeof begin, &begin, NULL);
    if (code == CL_SUCCESS) {
        code =
            d->cl.clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    }
    return code == CL_SUCCESS && end > begin ? end - begin : 0;
}

static kq_result opencl_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                            uint64_t *nanoseconds)
{
    const opencl_device *d = device->self;
    const opencl_work *w = work;
    const opencl_item *item = &w->items[index];
    bool is_quantize = item->operation->op == KQ_OP_QUANTIZE;
    cl_event before = NULL;
    cl_event last = NULL;
    *nanoseconds = 0;
    if (w->is_kept) {
        d->cl.clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &before);
    }
    kq_result result = is_quantize ? enqueue_quantize(device, w, item, status, &last)
                       : item->operation->op == KQ_OP_SELF_TEST
                           ? enqueue_bandwidth(device, item, &last)
                           : enqueue_dot(device, w, item, &last);
    result = opencl_finish(device, last, result);
    if (result == KQ_OK && is_quantize) {
        cl_int code = d->cl.clEnqueueReadBuffer(d->queue, w->status, CL_TRUE, 0, sizeof *status,
                                                status, 0, NULL, NULL);
        result =
            code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueReadBuffer", code);
    }
    if (result == KQ_OK && before != NULL && last != NULL) {
        *nanoseconds = time_between(d, before, last);
    }
    if (before != NULL) {
        d->cl.clReleaseEvent(before);
    }
    if (last != NULL) {
        d->cl.clReleaseEvent(last);
    }
    return result;
}

// --- Other commands

// Of an event's command, which it releases.
static kq_result finish_own(const kq_device *device, cl_event event, kq_result so_far)
{
    const opencl_device *d = device->self;
    kq_result result = opencl_finish(device, event, so_far);
    if (event != NULL) {
        d->cl.clReleaseEvent(event);
    }
    return result;
}

static kq_result opencl_primitives(kq_device *device, void *memory, uint32_t count)
{
    const opencl_device *d = device->self;
    cl_event event = NULL;
    kq_opencl *pack = NULL;
    kq_result result = opencl_need_pack(device, KQ_OP_SELF_TEST, &pack);
    if (result == KQ_OK) {
        result = kq_opencl_primitives_enqueue(pack, memory, count, d->queue, &event);
    }
    return finish_own(device, event, result);
}

static kq_result opencl_self_test(kq_device *device, void *memory)
{
    const opencl_device *d = device->self;
    const kq_opencl_range range = {.buffer = memory};
    cl_event event = NULL;
    kq_opencl *pack = NULL;
    kq_result result = opencl_need_pack(device, KQ_OP_SELF_TEST, &pack);
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
    .work_create = opencl_work_create,
    .work_destroy = opencl_work_destroy,
    .record = opencl_record,
    .run = opencl_run,
    .primitives = opencl_primitives,
    .self_test = opencl_self_test,
};
