// OpenCL devices: a context, an in-order queue and a pack of level 2 each.
#include "opencl_functions.h"

#include "device.h"
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define FUNCTIONS(f)                                                                               \
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
    f(clFinish)                                                                                    \
    f(clGetEventInfo)                                                                              \
    f(clReleaseEvent)
// clang-format on

typedef struct functions {
    FUNCTIONS(KQ_CL_MEMBER)
} functions;

typedef struct opencl_device {
    functions cl;
    cl_context context;
    cl_command_queue queue;
    kq_opencl *pack;
    uint64_t max_bytes;  // of a buffer
    cl_mem status;
    cl_mem scratch;  // grows with need
    uint64_t scratch_bytes;
} opencl_device;

// --- The devices present

typedef struct entry {
    cl_platform_id platform;
    cl_device_id device;
} entry;

static bool find_functions(functions *cl, const kq_lookup *lookup)
{
    bool found = lookup->fn != NULL;
#define FIND(name) found = found && KQ_CL_FIND(cl, lookup, name) != NULL;
    FUNCTIONS(FIND)
#undef FIND
    return found;
}

// Appends a platform's devices; one that has none, or fails, adds none.
static kq_result add_devices(const functions *cl, cl_platform_id platform, entry **entries,
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
static kq_result find_devices(const functions *cl, entry **entries, uint32_t *count)
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

static char *platform_text(const functions *cl, cl_platform_id platform, cl_platform_info info)
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

static void describe(const functions *cl, const entry *e, uint32_t index, kq_device_info *info)
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

static kq_result list(const kq_lookup *lookup, kq_device_info *infos, uint32_t capacity,
                      uint32_t *count)
{
    functions cl;
    entry *entries;
    const kq_lookup system = kq_opencl_lookup(lookup);
    *count = 0;
    if (!find_functions(&cl, &system)) {
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

static void close_device(kq_device *device)
{
    opencl_device *d = device->self;
    device->self = NULL;
    if (d == NULL) {
        return;
    }
    kq_opencl_destroy(&d->pack);
    if (d->status != NULL) {
        d->cl.clReleaseMemObject(d->status);
    }
    if (d->scratch != NULL) {
        d->cl.clReleaseMemObject(d->scratch);
    }
    if (d->queue != NULL) {
        d->cl.clReleaseCommandQueue(d->queue);
    }
    if (d->context != NULL) {
        d->cl.clReleaseContext(d->context);
    }
    free(d);
}

static kq_result create_memory(const kq_device *device, uint64_t bytes, cl_mem *memory)
{
    const opencl_device *d = device->self;
    uint64_t most = d->max_bytes < SIZE_MAX ? d->max_bytes : SIZE_MAX;
    cl_int code = CL_SUCCESS;
    *memory = NULL;
    if (bytes > most) {
        return kq_fail(&device->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_MAX_MEM_ALLOC_SIZE is %" PRIu64 "; %" PRIu64 " are needed", most,
                       bytes);
    }
    cl_mem made = d->cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (made == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clCreateBuffer", code);
    }
    *memory = made;
    return KQ_OK;
}

static kq_result open_entry(kq_device *device, const entry *e, const kq_lookup *lookup,
                            const kq_device_params *params)
{
    opencl_device *d = device->self;
    cl_int code = CL_SUCCESS;
    cl_ulong max_bytes = 0;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)e->platform, 0};
    code = d->cl.clGetDeviceInfo(e->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof max_bytes,
                                 &max_bytes, NULL);
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clGetDeviceInfo(CL_DEVICE_MAX_MEM_ALLOC_SIZE)", code);
    }
    d->max_bytes = max_bytes;
    d->context = d->cl.clCreateContext(properties, 1, &e->device, NULL, NULL, &code);
    if (d->context == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clCreateContext", code);
    }
    d->queue = d->cl.clCreateCommandQueue(d->context, e->device, 0, &code);
    if (d->queue == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clCreateCommandQueue", code);
    }
    const kq_opencl_params pack = {
        .lookup = *lookup,
        .context = d->context,
        .device = e->device,
        .ops = params->ops,
        .errors = device->errors,
    };
    kq_result result = kq_opencl_create(&pack, &d->pack);
    return result != KQ_OK ? result : create_memory(device, sizeof(kq_status), &d->status);
}

static kq_result open_device(kq_device *device, uint32_t index, const kq_device_params *params)
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
    if (!find_functions(&d->cl, &lookup)) {
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
    result = open_entry(device, &entries[index], &lookup, params);
    if (result != KQ_OK) {
        goto fail;
    }
    free(entries);
    return KQ_OK;
fail:
    free(entries);
    close_device(device);
    return result;
}

// --- Buffers

static kq_result buffer_create(kq_buffer *buffer)
{
    cl_mem memory = NULL;
    uint64_t padding = (4 - buffer->bytes % 4) % 4;
    if (buffer->bytes > UINT64_MAX - padding) {
        padding = 0;  // too large in any case
    }
    kq_result result = create_memory(buffer->device, buffer->bytes + padding, &memory);
    buffer->memory = memory;
    return result;
}

static void buffer_destroy(kq_buffer *buffer)
{
    const opencl_device *d = buffer->device->self;
    d->cl.clReleaseMemObject(buffer->memory);
}

static kq_result upload(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes)
{
    const opencl_device *d = buffer->device->self;
    cl_int code = d->cl.clEnqueueWriteBuffer(d->queue, buffer->memory, CL_TRUE, (size_t)offset,
                                             (size_t)bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK
                              : kq_cl_fail(&buffer->device->errors, "clEnqueueWriteBuffer", code);
}

static kq_result download(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes)
{
    const opencl_device *d = buffer->device->self;
    cl_int code = d->cl.clEnqueueReadBuffer(d->queue, buffer->memory, CL_TRUE, (size_t)offset,
                                            (size_t)bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK
                              : kq_cl_fail(&buffer->device->errors, "clEnqueueReadBuffer", code);
}

// --- Operations

static kq_opencl_view view_of(const kq_buffer_view *view)
{
    return (kq_opencl_view){view->buffer != NULL ? view->buffer->memory : NULL, view->view};
}

// Waits for all work and releases event, the last of it. A driver may end a command with an error
// and yet finish well.
static kq_result finish(const kq_device *device, cl_event event)
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
    if (event != NULL) {
        d->cl.clReleaseEvent(event);
    }
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, call, code);
    }
    return status >= 0 ? KQ_OK : kq_cl_fail(&device->errors, "a kernel's execution", status);
}

// Where item (g, i, j) of an operand starts.
static uint64_t place_of(const kq_extent *e, uint64_t g, uint64_t i, uint64_t j)
{
    return e->offset + g * e->stride + i * e->step[0] + j * e->step[1];
}

static kq_result quantize_piece(const kq_device *device, const kq_opencl_quantize *op,
                                kq_status *status)
{
    const opencl_device *d = device->self;
    const kq_status preset = KQ_STATUS_PRESET;
    cl_event event = NULL;
    cl_int code = d->cl.clEnqueueWriteBuffer(d->queue, d->status, CL_TRUE, 0, sizeof preset,
                                             &preset, 0, NULL, NULL);
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&device->errors, "clEnqueueWriteBuffer", code);
    }
    kq_result result = kq_opencl_quantize_enqueue(d->pack, op, d->queue, 0, NULL, &event);
    result = result != KQ_OK ? result : finish(device, event);
    if (result != KQ_OK) {
        return result;
    }
    code = d->cl.clEnqueueReadBuffer(d->queue, d->status, CL_TRUE, 0, sizeof *status, status, 0,
                                     NULL, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueReadBuffer", code);
}

// In pieces of as many records as fit; each piece's status counts from its own first record.
static kq_result quantize(kq_device *device, const kq_quantize_args *args, const kq_shape *shape,
                          kq_status *status)
{
    const opencl_device *d = device->self;
    kq_opencl_quantize op = {
        .format = args->format,
        .values = view_of(&args->values),
        .records = view_of(&args->records),
        .status = {.buffer = d->status},
    };
    kq_needs needs;
    kq_result result = kq_opencl_quantize_query(d->pack, &op, &needs);
    if (result == KQ_OK && needs.limit != NULL && needs.largest_G == 0) {
        result = kq_needs_fit(&needs, &device->errors);
    }
    for (uint64_t first = 0; first < shape->G && result == KQ_OK; first += op.records.view.G) {
        kq_status piece;
        uint64_t left = shape->G - first;
        uint32_t count =
            needs.limit != NULL && left > needs.largest_G ? needs.largest_G : (uint32_t)left;
        op.values.view.G = count;
        op.records.view.G = count;
        op.values.view.offset = place_of(&shape->extents[KQ_VALUES], first, 0, 0);
        op.records.view.offset = place_of(&shape->extents[KQ_RECORDS], first, 0, 0);
        result = quantize_piece(device, &op, &piece);
        if (result == KQ_OK) {
            if (status->bad_count == 0 && piece.bad_count > 0) {
                status->lowest_bad = (uint32_t)first + piece.lowest_bad;
            }
            status->bad_count += piece.bad_count;
            status->done_count += piece.done_count;
        }
    }
    return result;
}

static kq_result grow_scratch(kq_device *device, uint64_t bytes)
{
    opencl_device *d = device->self;
    cl_mem memory = NULL;
    if (bytes <= d->scratch_bytes) {
        return KQ_OK;
    }
    // The old one goes first, so that both need not fit at once.
    if (d->scratch != NULL) {
        d->cl.clReleaseMemObject(d->scratch);
    }
    d->scratch = NULL;
    d->scratch_bytes = 0;
    kq_result result = create_memory(device, bytes, &memory);
    if (result == KQ_OK) {
        d->scratch = memory;
        d->scratch_bytes = bytes;
    }
    return result;
}

// Makes *piece, op's repeat, as short as it must be for the device, by halves, and sets *needs.
static kq_result fit_piece(const kq_device *device, const kq_opencl_quantized_dot *op,
                           kq_repeat *piece, kq_needs *needs)
{
    const opencl_device *d = device->self;
    for (;;) {
        kq_result result = kq_opencl_quantized_dot_query(d->pack, op, needs);
        if (result != KQ_OK) {
            return result;
        }
        if (needs->limit == NULL && needs->scratch_bytes > d->max_bytes) {
            needs->limit = "CL_DEVICE_MAX_MEM_ALLOC_SIZE";
            needs->limit_value = d->max_bytes;
            needs->needed = needs->scratch_bytes;
        }
        uint32_t *count = piece->count[1] > 1 ? &piece->count[1] : &piece->count[0];
        if (needs->limit == NULL || *count == 1) {
            return kq_needs_fit(needs, &device->errors);
        }
        *count -= *count / 2;
    }
}

static kq_result dot_piece(const kq_device *device, const kq_opencl_quantized_dot *op)
{
    const opencl_device *d = device->self;
    cl_event event = NULL;
    kq_result result = kq_opencl_quantized_dot_enqueue(d->pack, op, d->queue, 0, NULL, &event);
    return result != KQ_OK ? result : finish(device, event);
}

// The dots of a repeat stand alone, so it can be cut.
static kq_result quantized_dot(kq_device *device, const kq_quantized_dot_args *args,
                               const kq_shape *shape)
{
    const opencl_device *d = device->self;
    kq_repeat piece = args->repeat != NULL ? *args->repeat : (kq_repeat){.count = {1, 1}};
    kq_opencl_quantized_dot op = {
        .lhs_format = args->lhs_format,
        .rhs_format = args->rhs_format,
        .acc = args->acc,
        .order = args->order,
        .lhs = view_of(&args->lhs),
        .rhs = view_of(&args->rhs),
        .result = {args->result->memory, args->result_offset},
        .repeat = &piece,
    };
    kq_needs needs;
    kq_result result = fit_piece(device, &op, &piece, &needs);
    result = result != KQ_OK ? result : grow_scratch(device, needs.scratch_bytes);
    op.scratch.buffer = d->scratch;
    const uint64_t most[2] = {piece.count[0], piece.count[1]};
    for (uint64_t j = 0; j < shape->count[1] && result == KQ_OK; j += most[1]) {
        for (uint64_t i = 0; i < shape->count[0] && result == KQ_OK; i += most[0]) {
            const uint64_t left[2] = {shape->count[0] - i, shape->count[1] - j};
            for (int k = 0; k < 2; k++) {
                piece.count[k] = (uint32_t)(left[k] < most[k] ? left[k] : most[k]);
            }
            op.lhs.view.offset = place_of(&shape->extents[KQ_LHS], 0, i, j);
            op.rhs.view.offset = place_of(&shape->extents[KQ_RHS], 0, i, j);
            op.result.offset = place_of(&shape->extents[KQ_RESULT], 0, i, j);
            result = dot_piece(device, &op);
        }
    }
    return result;
}

const kq_backend kq_opencl_backend = {
    .api = KQ_API_OPENCL,
    .name = "opencl",
    .list = list,
    .open = open_device,
    .close = close_device,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .upload = upload,
    .download = download,
    .quantize = quantize,
    .quantized_dot = quantized_dot,
};
