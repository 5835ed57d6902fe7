#include "device.h"
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kq_backend *const backends[] = {
    &kq_reference_backend,
#ifdef KQ_HAS_VULKAN
    &kq_vulkan_backend,
#endif
#ifdef KQ_HAS_OPENCL
    &kq_opencl_backend,
#endif
};

enum { BACKEND_COUNT = sizeof backends / sizeof *backends };

enum { DEFAULT_WORK = 1 << 20 };

// Lists the devices of one backend, or of all if only is NULL. Sets *count to all there are.
static kq_result list_devices(const kq_backend *only, const kq_lookup *lookup,
                              kq_device_info *infos, uint32_t capacity, uint32_t *count)
{
    *count = 0;
    for (int b = 0; b < BACKEND_COUNT; b++) {
        uint32_t found = 0;
        uint32_t left = *count < capacity ? capacity - *count : 0;
        if (only != NULL && only != backends[b]) {
            continue;
        }
        kq_result result =
            backends[b]->list(lookup, left > 0 ? infos + *count : NULL, left, &found);
        if (result != KQ_OK) {
            return result;
        }
        *count += found;
    }
    return KQ_OK;
}

kq_result kq_list_devices(const kq_lookup *lookup, kq_device_info *infos, uint32_t *count)
{
    return list_devices(NULL, lookup, infos, infos != NULL ? *count : 0, count);
}

// --- Choosing a device

// Of two devices none was asked for, the one with the smaller rank is taken.
static int rank(const kq_device_info *info)
{
    if (info->api == KQ_API_REFERENCE) {
        return -1;
    }
    return info->is_software ? 2 : info->is_discrete ? 0 : 1;
}

static kq_result choose_best(const kq_errors *errors, const kq_device_info *infos, uint32_t count,
                             uint32_t *chosen)
{
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        int r = rank(&infos[i]);
        if (r >= 0 && (best < 0 || r < best)) {
            best = r;
            *chosen = i;
        }
    }
    return best >= 0 ? KQ_OK
                     : kq_fail(errors, KQ_ERROR_NO_DEVICE,
                               "no Vulkan or OpenCL device is present; \"reference\" always is");
}

static kq_result choose_named(const kq_errors *errors, const char *name,
                              const kq_device_info *infos, uint32_t count, uint32_t *chosen)
{
    uint32_t matches = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(infos[i].id, name) == 0 ||
            (infos[i].uuid[0] != '\0' && strcmp(infos[i].uuid, name) == 0)) {
            *chosen = i;
            return KQ_OK;
        }
        if (name[0] != '\0' && strstr(infos[i].name, name) != NULL) {
            if (matches == 0) {
                *chosen = i;
                first = i;
            }
            matches++;
        }
    }
    if (matches == 1) {
        return KQ_OK;
    }
    if (matches > 1) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT,
                       "device \"%s\" is a part of %" PRIu32 " devices' names, the first of them "
                       "%s; use an id",
                       name, matches, infos[first].id);
    }
    return kq_fail(errors, KQ_ERROR_NO_DEVICE,
                   "device \"%s\" is not here: it is no id, no uuid and no part of a name", name);
}

// The backend that an id like "vulkan:0" belongs to, so that no other driver is woken; else NULL.
static const kq_backend *backend_of_id(const char *name)
{
    for (int b = 0; name != NULL && b < BACKEND_COUNT; b++) {
        size_t length = strlen(backends[b]->name);
        if (strncmp(name, backends[b]->name, length) == 0 &&
            (name[length] == ':' || backends[b]->api == KQ_API_REFERENCE)) {
            return backends[b];
        }
    }
    return NULL;
}

kq_result kq_device_create(const kq_device_params *params, kq_device **device)
{
    return kq_device_create_without(params, 0, device);
}

kq_result kq_device_create_without(const kq_device_params *params, uint32_t variants,
                                   kq_device **device)
{
    *device = NULL;
    const kq_errors *errors = &params->errors;
    const kq_lookup *lookup = params->lookup.fn != NULL ? &params->lookup : NULL;
    if ((params->ops & ~KQ_KNOWN_OPS) != 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT, "ops is 0x%" PRIX32 "; it may hold 0x%" PRIX32,
                       params->ops, KQ_KNOWN_OPS);
    }
    const kq_backend *only = backend_of_id(params->device);
    uint32_t capacity = 16;
    uint32_t count = 0;
    uint32_t chosen = 0;
    kq_device_info *infos = malloc(capacity * sizeof *infos);
    kq_device *d = calloc(1, sizeof *d);
    kq_result result = KQ_ERROR_MEMORY;
    if (infos != NULL && d != NULL) {
        result = list_devices(only, lookup, infos, capacity, &count);
    }
    if (result == KQ_OK && count > capacity) {
        capacity = count;
        kq_device_info *more = realloc(infos, capacity * sizeof *infos);
        infos = more != NULL ? more : infos;
        result =
            more != NULL ? list_devices(only, lookup, infos, capacity, &count) : KQ_ERROR_MEMORY;
    }
    if (result != KQ_OK) {
        kq_fail(errors, result,
                result == KQ_ERROR_MEMORY ? "out of host memory for a device"
                                          : "devices could not be listed");
        goto done;
    }
    // Should devices come between two listings, the last are not looked at.
    count = count < capacity ? count : capacity;
    result = params->device != NULL ? choose_named(errors, params->device, infos, count, &chosen)
                                    : choose_best(errors, infos, count, &chosen);
    if (result != KQ_OK) {
        goto done;
    }
    d->info = infos[chosen];
    d->errors = params->errors;
    d->ops = params->ops;
    d->without = variants;
    d->capacity.work = params->work > 0 ? params->work : DEFAULT_WORK;
    uint32_t index = 0;
    for (uint32_t i = 0; i < chosen; i++) {
        index += infos[i].api == d->info.api;
    }
    for (int b = 0; b < BACKEND_COUNT; b++) {
        if (backends[b]->api == d->info.api) {
            d->backend = backends[b];
        }
    }
    result = d->backend->open(d, index, params);
    if (result == KQ_OK) {
        uint64_t stage_bytes = d->capacity.segment_bytes / KQ_BINDING_COUNT;
        d->capacity.stage_bytes = stage_bytes < KQ_STAGE_BYTES ? stage_bytes : KQ_STAGE_BYTES;
        *device = d;
        d = NULL;
    }
done:
    free(infos);
    free(d);
    return result;
}

void kq_device_destroy(kq_device **device)
{
    if (*device != NULL) {
        (*device)->backend->close(*device);
        free(*device);
        *device = NULL;
    }
}

const kq_device_info *kq_device_get_info(const kq_device *device)
{
    return &device->info;
}

void kq_device_properties(const kq_device *device,
                          void (*fn)(void *user, const char *name, const char *value), void *user)
{
    device->backend->properties(device, fn, user);
}

// --- Buffers

kq_segment_run kq_buffer_run(const kq_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    uint64_t segment = buffer->device->capacity.segment_bytes;
    uint64_t left = segment - offset % segment;
    return (kq_segment_run){
        .memory = buffer->memory[offset / segment],
        .offset = offset % segment,
        .bytes = bytes < left ? bytes : left,
    };
}

kq_result kq_buffer_create(kq_device *device, uint64_t bytes, kq_buffer **buffer)
{
    *buffer = NULL;
    if (device == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    if (bytes == 0) {
        return kq_fail(&device->errors, KQ_ERROR_ARGUMENT, "bytes is 0; a buffer has at least 1");
    }
    uint64_t segment = device->capacity.segment_bytes;
    uint64_t count = bytes / segment + (bytes % segment != 0);
    if (bytes > device->capacity.memory_bytes) {
        // Not tried: a system may hand out memory until it has none left for itself.
        return kq_fail(&device->errors, KQ_ERROR_MEMORY,
                       "bytes is %" PRIu64 "; the device has %" PRIu64 " bytes of memory", bytes,
                       device->capacity.memory_bytes);
    }
    kq_buffer *b = NULL;
    if (bytes <= INT64_MAX && count <= (SIZE_MAX - sizeof *b) / sizeof b->memory[0]) {
        b = malloc(sizeof *b + (size_t)count * sizeof b->memory[0]);
    }
    if (b == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY,
                       "out of host memory for a buffer of %" PRIu64 " bytes", bytes);
    }
    *b = (kq_buffer){.device = device, .bytes = bytes};
    uint64_t left = (bytes + 3) / 4 * 4;
    while (b->count < count) {
        uint64_t part = left < segment ? left : segment;
        kq_result result = device->backend->memory_create(device, part, &b->memory[b->count]);
        if (result != KQ_OK) {
            kq_buffer_destroy(&b);
            return result;
        }
        left -= part;
        b->count++;
    }
    *buffer = b;
    return KQ_OK;
}

void kq_buffer_destroy(kq_buffer **buffer)
{
    kq_buffer *b = *buffer;
    for (uint64_t i = 0; b != NULL && i < b->count; i++) {
        b->device->backend->memory_destroy(b->device, b->memory[i]);
    }
    free(b);
    *buffer = NULL;
}

void *kq_piece_memory(const kq_piece *piece, int role, const kq_buffer *buffer, void *stage)
{
    if (role != KQ_RESULT && piece->shape.G == 0) {
        return NULL;
    }
    return piece->is_staged[role]
               ? stage
               : kq_buffer_run(buffer, piece->source.extents[role].offset, 1).memory;
}

static kq_result check_range(const kq_buffer *buffer, uint64_t offset, const void *data,
                             uint64_t bytes)
{
    if (buffer == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    if (data == NULL && bytes > 0) {
        return kq_fail(&buffer->device->errors, KQ_ERROR_ARGUMENT,
                       "data is null; %" PRIu64 " bytes are to be copied", bytes);
    }
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) {
        return KQ_OK;
    }
    return kq_fail(&buffer->device->errors, KQ_ERROR_ARGUMENT,
                   "%" PRIu64 " bytes at offset %" PRIu64 " are past the buffer's end at %" PRIu64,
                   bytes, offset, buffer->bytes);
}

kq_result kq_buffer_upload(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes)
{
    kq_result result = check_range(buffer, offset, data, bytes);
    for (uint64_t done = 0; done < bytes && result == KQ_OK;) {
        kq_device *device = buffer->device;
        kq_segment_run run = kq_buffer_run(buffer, offset + done, bytes - done);
        result = device->backend->upload(device, run.memory, run.offset,
                                         (const unsigned char *)data + done, run.bytes);
        done += run.bytes;
    }
    return result;
}

kq_result kq_buffer_download(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes)
{
    kq_result result = check_range(buffer, offset, data, bytes);
    for (uint64_t done = 0; done < bytes && result == KQ_OK;) {
        kq_device *device = buffer->device;
        kq_segment_run run = kq_buffer_run(buffer, offset + done, bytes - done);
        result = device->backend->download(device, run.memory, run.offset,
                                           (unsigned char *)data + done, run.bytes);
        done += run.bytes;
    }
    return result;
}

// --- Operations

// A buffer's operand, its padding left out.
static kq_result fill_operand(const kq_device *device, const char *name, const kq_buffer *buffer,
                              const kq_view *view, kq_operand *operand)
{
    if (buffer != NULL && buffer->device != device) {
        return kq_fail(&device->errors, KQ_ERROR_ARGUMENT, "%s is a buffer of another device",
                       name);
    }
    operand->buffer = (uint64_t)(uintptr_t)buffer;
    operand->buffer_bytes = buffer != NULL ? buffer->bytes : 0;
    operand->view = *view;
    return KQ_OK;
}

// Reads the lowest bad block back and reports it.
static kq_result report_domain(const kq_quantize_args *args, const kq_shape *shape,
                               const kq_status *status)
{
    const kq_errors *errors = &args->values.buffer->device->errors;
    const kq_extent *values = &shape->extents[KQ_VALUES];
    uint64_t first = values->offset + status->lowest_bad * values->stride;
    unsigned char block[KQ_BLOCK_BYTES];
    kq_domain domain = {.record = status->lowest_bad, .bad_count = status->bad_count};
    // A packed block is one copy, any other one a value.
    uint32_t pieces = shape->value_stride == 4 ? 1 : KQ_BLOCK;
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t bytes = KQ_BLOCK_BYTES / pieces;
        kq_result result = kq_buffer_download(args->values.buffer, first + i * shape->value_stride,
                                              block + i * bytes, bytes);
        if (result != KQ_OK) {
            return result;
        }
    }
    domain.reason = kq_block_reason(block, 0, &domain.element);
    if (args->domain != NULL && domain.reason != KQ_REASON_NONE) {
        *args->domain = domain;
    }
    if (domain.reason == KQ_REASON_NONFINITE_INPUT) {
        return kq_fail(errors, KQ_ERROR_DOMAIN,
                       "record %" PRIu32 ": nonfinite-input@%" PRIu32
                       ", its first infinity or NaN; %" PRIu32 " bad records in all",
                       domain.record, domain.element, domain.bad_count);
    }
    if (domain.reason == KQ_REASON_INVERSE_OVERFLOW) {
        return kq_fail(errors, KQ_ERROR_DOMAIN,
                       "record %" PRIu32
                       ": inverse-overflow, its largest magnitude is below 0x02FE0001 and not 0; "
                       "%" PRIu32 " bad records in all",
                       domain.record, domain.bad_count);
    }
    return kq_fail(errors, KQ_ERROR_DRIVER,
                   "the driver found record %" PRIu32 " bad, but its block is legal",
                   domain.record);
}

// Every backend compiles, or need not, the kernels of the operations that were asked for.
static kq_result check_op(const kq_device *device, kq_op op, const char *name)
{
    if (device == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    return device->ops == 0 || (device->ops & 1u << op) != 0
               ? KQ_OK
               : kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                         "the device was created with ops = 0x%" PRIX32 ", without %s", device->ops,
                         name);
}

// The operation that the arguments come to, its shape, and where to cut it.
typedef struct job {
    kq_operation operation;
    kq_shape shape;
    kq_cutter cutter;
} job;

static kq_result start_job(const kq_device *device, job *j)
{
    kq_result result = kq_shape_make(&j->operation, &device->errors, &j->shape);
    j->cutter =
        kq_cut_start(&j->operation, &j->shape, device->is_limited ? &device->capacity : NULL);
    return result;
}

static kq_result start_quantize(const kq_device *device, const kq_quantize_args *args, job *j)
{
    j->operation = (kq_operation){
        .op = KQ_OP_QUANTIZE,
        .format = args->format,
        // Status lies apart, in no buffer of the caller's.
        .operands[KQ_STATUS] = {.buffer = UINT64_MAX, .buffer_bytes = sizeof(kq_status)},
    };
    kq_result result = check_op(device, KQ_OP_QUANTIZE, "KQ_OP_QUANTIZE");
    if (result == KQ_OK) {
        result = fill_operand(device, "values", args->values.buffer, &args->values.view,
                              &j->operation.operands[KQ_VALUES]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "records", args->records.buffer, &args->records.view,
                              &j->operation.operands[KQ_RECORDS]);
    }
    return result != KQ_OK ? result : start_job(device, j);
}

static kq_result start_dot(const kq_device *device, const kq_quantized_dot_args *args, job *j)
{
    const kq_view result_view = {.offset = args->result_offset};
    j->operation = (kq_operation){
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = args->lhs_format,
        .rhs_format = args->rhs_format,
        .acc = args->acc,
        .order = args->order,
        .repeat = args->repeat,
    };
    kq_result result = check_op(device, KQ_OP_QUANTIZED_DOT, "KQ_OP_QUANTIZED_DOT");
    if (result == KQ_OK) {
        result = fill_operand(device, "lhs", args->lhs.buffer, &args->lhs.view,
                              &j->operation.operands[KQ_LHS]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "rhs", args->rhs.buffer, &args->rhs.view,
                              &j->operation.operands[KQ_RHS]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "result", args->result, &result_view,
                              &j->operation.operands[KQ_RESULT]);
    }
    return result != KQ_OK ? result : start_job(device, j);
}

// The sum of what the pieces need. An operation with nothing to do has none.
static kq_result sum_needs(const kq_device *device, job *j, kq_needs *needs)
{
    kq_piece piece;
    bool is_empty = j->operation.op == KQ_OP_QUANTIZE && j->shape.G == 0;
    memset(needs, 0, sizeof *needs);
    needs->largest_G = UINT32_MAX;
    needs->largest_count = UINT32_MAX;
    while (device->is_limited && !is_empty && kq_cut_next(&j->cutter, &piece)) {
        if (piece.needs.limit != NULL) {
            *needs = piece.needs;
            return KQ_OK;
        }
        needs->dispatch_count += piece.needs.dispatch_count;
        needs->submission_count++;
        if (piece.needs.scratch_bytes > needs->scratch_bytes) {
            needs->scratch_bytes = piece.needs.scratch_bytes;
        }
        for (int role = 0; role < 3; role++) {
            needs->staged_bytes[role] += piece.needs.staged_bytes[role];
        }
    }
    return KQ_OK;
}

static kq_result check_needs(const kq_device *device, const kq_needs *needs)
{
    if (device == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    return needs != NULL ? KQ_OK : kq_fail(&device->errors, KQ_ERROR_ARGUMENT, "needs is null");
}

kq_result kq_quantize_query(const kq_device *device, const kq_quantize_args *args, kq_needs *needs)
{
    job j;
    kq_result result = check_needs(device, needs);
    result = result != KQ_OK ? result : start_quantize(device, args, &j);
    return result != KQ_OK ? result : sum_needs(device, &j, needs);
}

kq_result kq_quantized_dot_query(const kq_device *device, const kq_quantized_dot_args *args,
                                 kq_needs *needs)
{
    job j;
    kq_result result = check_needs(device, needs);
    result = result != KQ_OK ? result : start_dot(device, args, &j);
    return result != KQ_OK ? result : sum_needs(device, &j, needs);
}

kq_result kq_quantize(kq_device *device, const kq_quantize_args *args)
{
    job j;
    kq_piece piece;
    kq_status all = KQ_STATUS_PRESET;
    uint32_t first = 0;
    kq_result result = start_quantize(device, args, &j);
    if (result != KQ_OK || j.shape.G == 0) {
        return result;
    }
    while (result == KQ_OK && kq_cut_next(&j.cutter, &piece)) {
        // Each piece's status counts from its own first record.
        kq_status status = KQ_STATUS_PRESET;
        result = kq_needs_fit(&piece.needs, &device->errors);
        result =
            result != KQ_OK ? result : device->backend->quantize(device, args, &piece, &status);
        if (all.bad_count == 0 && status.bad_count > 0 && status.lowest_bad < piece.shape.G) {
            all.lowest_bad = first + status.lowest_bad;
        }
        all.bad_count += status.bad_count;
        all.done_count += status.done_count;
        first += piece.shape.G;
    }
    if (result != KQ_OK) {
        return result;
    }
    if (all.done_count != j.shape.G || all.bad_count > j.shape.G ||
        (all.bad_count > 0) != (all.lowest_bad < j.shape.G)) {
        return kq_fail(&device->errors, KQ_ERROR_DRIVER,
                       "the driver reports %" PRIu32 " of %" PRIu32 " records written, %" PRIu32
                       " bad, the lowest %" PRIu32,
                       all.done_count, j.shape.G, all.bad_count, all.lowest_bad);
    }
    return all.bad_count > 0 ? report_domain(args, &j.shape, &all) : KQ_OK;
}

kq_result kq_quantized_dot(kq_device *device, const kq_quantized_dot_args *args)
{
    job j;
    kq_piece piece;
    kq_result result = start_dot(device, args, &j);
    if (result != KQ_OK || j.shape.count[0] == 0 || j.shape.count[1] == 0) {
        return result;
    }
    while (result == KQ_OK && kq_cut_next(&j.cutter, &piece)) {
        result = kq_needs_fit(&piece.needs, &device->errors);
        result = result != KQ_OK ? result : device->backend->quantized_dot(device, args, &piece);
    }
    return result;
}

// --- The self-test

static kq_result check_pointer(const kq_device *device, const char *name, const void *pointer,
                               uint64_t bytes)
{
    return pointer != NULL || bytes == 0
               ? KQ_OK
               : kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                         "%s is null; %" PRIu64 " bytes are needed", name, bytes);
}

kq_result kq_self_test(kq_device *device, const char **step)
{
    unsigned char *bytes = NULL;
    kq_buffer *buffer = NULL;
    if (step != NULL) {
        *step = NULL;
    }
    kq_result result = check_op(device, KQ_OP_SELF_TEST, "KQ_OP_SELF_TEST");
    result = result != KQ_OK ? result : check_op(device, KQ_OP_QUANTIZE, "KQ_OP_QUANTIZE");
    result =
        result != KQ_OK ? result : check_op(device, KQ_OP_QUANTIZED_DOT, "KQ_OP_QUANTIZED_DOT");
    result = result != KQ_OK ? result : kq_buffer_create(device, KQ_SELF_TEST_BYTES, &buffer);
    if (result == KQ_OK && (bytes = malloc(KQ_SELF_TEST_BYTES)) == NULL) {
        result = kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for the self-test");
    }
    if (result == KQ_OK) {
        kq_self_test_input(bytes);
        result = kq_buffer_upload(buffer, 0, bytes, KQ_SELF_TEST_BYTES);
    }
    result = result != KQ_OK ? result : device->backend->self_test(device, buffer->memory[0]);
    if (result == KQ_OK) {
        // What isn't read back is no answer.
        memset(bytes, 0, KQ_SELF_TEST_BYTES);
        result = kq_buffer_download(buffer, 0, bytes, KQ_SELF_TEST_BYTES);
    }
    result = result != KQ_OK ? result : kq_self_test_verdict(bytes, step, &device->errors);
    kq_buffer_destroy(&buffer);
    free(bytes);
    return result;
}

// Items as they lie in a buffer.
static void pack_items(unsigned char *bytes, const uint32_t *items, size_t words)
{
    for (size_t k = 0; k < words; k++) {
        kq_store_word(bytes + 4 * k, items[k]);
    }
}

kq_result kq_primitives_host(kq_device *device, uint32_t *items, uint32_t count)
{
    enum { MOST_ITEMS = 4096, WORDS = 4 };  // 64 KiB, which any device binds
    unsigned char *bytes = NULL;
    kq_buffer *buffer = NULL;
    kq_result result = check_op(device, KQ_OP_SELF_TEST, "KQ_OP_SELF_TEST");
    result = result != KQ_OK ? result
                             : check_pointer(device, "items", items, 4 * WORDS * (uint64_t)count);
    if (result != KQ_OK || count == 0) {
        return result;
    }
    result = kq_buffer_create(device, 4 * WORDS * MOST_ITEMS, &buffer);
    if (result == KQ_OK && (bytes = malloc(4 * WORDS * MOST_ITEMS)) == NULL) {
        result = kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for primitives");
    }
    for (uint32_t done = 0; done < count && result == KQ_OK;) {
        uint32_t part = count - done < MOST_ITEMS ? count - done : MOST_ITEMS;
        uint32_t *first = items + (size_t)WORDS * done;
        pack_items(bytes, first, (size_t)WORDS * part);
        result = kq_buffer_upload(buffer, 0, bytes, 4 * WORDS * (uint64_t)part);
        if (result == KQ_OK) {
            result = device->backend->primitives(device, buffer->memory[0], part);
        }
        if (result == KQ_OK) {
            result = kq_buffer_download(buffer, 0, bytes, 4 * WORDS * (uint64_t)part);
        }
        for (size_t k = 0; k < part && result == KQ_OK; k++) {
            first[WORDS * k + 3] = kq_load_word(bytes + 4 * (WORDS * k + 3));
        }
        done += part;
    }
    kq_buffer_destroy(&buffer);
    free(bytes);
    return result;
}

// --- Operations on host memory

// A buffer of at least one byte that starts with these.
static kq_result create_filled(kq_device *device, const void *data, uint64_t bytes,
                               kq_buffer **buffer)
{
    kq_result result = kq_buffer_create(device, bytes > 0 ? bytes : 1, buffer);
    return result != KQ_OK || data == NULL ? result : kq_buffer_upload(*buffer, 0, data, bytes);
}

static kq_result check_whole(const kq_device *device, const char *name, uint64_t value,
                             uint64_t unit, const char *unit_name)
{
    if (device == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    if (value % unit == 0 && value / unit <= UINT32_MAX) {
        return KQ_OK;
    }
    if (value % unit == 0) {
        return kq_fail(&device->errors, KQ_ERROR_UNSUPPORTED,
                       "%s is %" PRIu64 ", more than 2^32 - 1 times %s", name, value, unit_name);
    }
    return kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                   "%s is %" PRIu64 "; it must be a multiple "
                   "of %s",
                   name, value, unit_name);
}

kq_result kq_quantize_host(kq_device *device, kq_format format, const float *values,
                           uint64_t value_count, void *records, kq_domain *domain)
{
    uint64_t G = value_count / KQ_BLOCK;
    kq_quantize_args args = {.format = format, .domain = domain};
    kq_result result = check_whole(device, "value_count", value_count, KQ_BLOCK, "256");
    result = result != KQ_OK ? result : check_pointer(device, "values", values, value_count * 4);
    result =
        result != KQ_OK ? result : check_pointer(device, "records", records, G * KQ_Q8_K_BYTES);
    if (result != KQ_OK) {
        return result;
    }
    args.values.view.G = (uint32_t)G;
    args.records.view.G = (uint32_t)G;
    result = create_filled(device, values, value_count * 4, &args.values.buffer);
    if (result == KQ_OK) {
        result = create_filled(device, NULL, G * KQ_Q8_K_BYTES, &args.records.buffer);
    }
    if (result == KQ_OK) {
        result = kq_quantize(device, &args);
    }
    if (result == KQ_OK || result == KQ_ERROR_DOMAIN) {
        kq_result read = kq_buffer_download(args.records.buffer, 0, records, G * KQ_Q8_K_BYTES);
        result = read != KQ_OK ? read : result;
    }
    kq_buffer_destroy(&args.values.buffer);
    kq_buffer_destroy(&args.records.buffer);
    return result;
}

kq_result kq_quantized_dot_host(kq_device *device, kq_format lhs_format, kq_format rhs_format,
                                kq_accumulator acc, kq_order order, uint32_t count, const void *lhs,
                                uint64_t lhs_bytes, const void *rhs, uint64_t rhs_bytes,
                                float *results)
{
    uint64_t G = rhs_bytes / KQ_Q8_K_BYTES;
    uint64_t result_bytes = (uint64_t)count * 4;
    kq_repeat repeat = {
        .count = {count, 1},
        .lhs_step = {G * KQ_Q4_K_BYTES, 0},
        .result_step = {4, 0},
    };
    kq_quantized_dot_args args = {
        .lhs_format = lhs_format,
        .rhs_format = rhs_format,
        .acc = acc,
        .order = order,
        .repeat = &repeat,
    };
    kq_result result =
        check_whole(device, "rhs_bytes", rhs_bytes, KQ_Q8_K_BYTES, "292, a Q8_K record");
    result = result != KQ_OK
                 ? result
                 : check_whole(device, "lhs_bytes", lhs_bytes, KQ_Q4_K_BYTES, "144, a Q4_K record");
    if (result == KQ_OK && lhs_bytes / KQ_Q4_K_BYTES != G * count) {
        result = kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                         "lhs has %" PRIu64 " records and rhs has G = %" PRIu64 "; %" PRIu32
                         " dots need equal G, %" PRIu64 " records of lhs",
                         lhs_bytes / KQ_Q4_K_BYTES, G, count, G * count);
    }
    result = result != KQ_OK ? result : check_pointer(device, "lhs", lhs, lhs_bytes);
    result = result != KQ_OK ? result : check_pointer(device, "rhs", rhs, rhs_bytes);
    result = result != KQ_OK ? result : check_pointer(device, "results", results, result_bytes);
    if (result != KQ_OK) {
        return result;
    }
    args.lhs.view.G = (uint32_t)G;
    args.rhs.view.G = (uint32_t)G;
    result = create_filled(device, lhs, lhs_bytes, &args.lhs.buffer);
    if (result == KQ_OK) {
        result = create_filled(device, rhs, rhs_bytes, &args.rhs.buffer);
    }
    if (result == KQ_OK) {
        result = create_filled(device, NULL, result_bytes, &args.result);
    }
    if (result == KQ_OK) {
        result = kq_quantized_dot(device, &args);
    }
    if (result == KQ_OK) {
        result = kq_buffer_download(args.result, 0, results, result_bytes);
    }
    kq_buffer_destroy(&args.lhs.buffer);
    kq_buffer_destroy(&args.rhs.buffer);
    kq_buffer_destroy(&args.result);
    return result;
}
