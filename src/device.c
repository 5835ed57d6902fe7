// Devices and buffers of level 3.
#include "device.h"

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
                              const kq_errors *errors, kq_device_info *infos, uint32_t capacity,
                              uint32_t *count)
{
    *count = 0;
    for (int b = 0; b < BACKEND_COUNT; b++) {
        uint32_t found = 0;
        uint32_t left = *count < capacity ? capacity - *count : 0;
        if (only != NULL && only != backends[b]) {
            continue;
        }
        kq_result result =
            backends[b]->list(lookup, errors, left > 0 ? infos + *count : NULL, left, &found);
        if (result != KQ_OK) {
            return result;
        }
        *count += found;
    }
    return KQ_OK;
}

kq_result kq_list_devices(const kq_lookup *lookup, kq_device_info *infos, uint32_t *count)
{
    const kq_errors silent = {NULL, NULL};
    return list_devices(NULL, lookup, &silent, infos, infos != NULL ? *count : 0, count);
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
    kq_result result = infos != NULL && d != NULL
                           ? list_devices(only, lookup, errors, infos, capacity, &count)
                           : kq_fail(errors, KQ_ERROR_MEMORY, "out of host memory for a device");
    if (result == KQ_OK && count > capacity) {
        capacity = count;
        kq_device_info *more = realloc(infos, capacity * sizeof *infos);
        infos = more != NULL ? more : infos;
        result = more != NULL
                     ? list_devices(only, lookup, errors, infos, capacity, &count)
                     : kq_fail(errors, KQ_ERROR_MEMORY, "out of host memory for a list of devices");
    }
    if (result != KQ_OK) {
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
    d->host_work = d->capacity.work;
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
    if (result != KQ_OK) {
        goto done;
    }
    uint64_t stage_bytes = d->capacity.segment_bytes / KQ_BINDING_COUNT;
    d->capacity.stage_bytes = stage_bytes < KQ_STAGE_BYTES ? stage_bytes : KQ_STAGE_BYTES;
    result = d->backend->work_create(d, false, KQ_IN_FLIGHT, 0, &d->work);
    if (result != KQ_OK) {
        d->backend->close(d);
        goto done;
    }
    *device = d;
    d = NULL;
done:
    free(infos);
    free(d);
    return result;
}

void kq_device_destroy(kq_device **device)
{
    kq_device *d = *device;
    if (d != NULL) {
        d->backend->work_destroy(d, d->work);
        d->backend->close(d);
        free(d);
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

kq_result kq_check_addresses(const kq_errors *errors, const char *name, const void *pointer,
                             uint64_t bytes)
{
    return bytes <= UINTPTR_MAX - (uintptr_t)pointer
               ? KQ_OK
               : kq_fail(errors, KQ_ERROR_ARGUMENT,
                         "%s has %" PRIu64 " bytes, which go on past the last address of this host",
                         name, bytes);
}

kq_result kq_check_pointer(const kq_device *device, const char *name, const void *pointer,
                           uint64_t bytes)
{
    return pointer != NULL || bytes == 0
               ? kq_check_addresses(&device->errors, name, pointer, bytes)
               : kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                         "%s is null; %" PRIu64 " bytes are needed", name, bytes);
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
    if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
        return kq_fail(&buffer->device->errors, KQ_ERROR_ARGUMENT,
                       "%" PRIu64 " bytes at offset %" PRIu64
                       " are past the buffer's end at %" PRIu64,
                       bytes, offset, buffer->bytes);
    }
    return kq_check_addresses(&buffer->device->errors, "data", data, bytes);
}

kq_result kq_device_check_op(const kq_device *device, kq_op op, const char *name)
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

kq_result kq_device_finish(kq_device *device, kq_result so_far)
{
    return device->backend->finish != NULL ? device->backend->finish(device, so_far) : so_far;
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
    return buffer != NULL ? kq_device_finish(buffer->device, result) : result;
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
    return buffer != NULL ? kq_device_finish(buffer->device, result) : result;
}
