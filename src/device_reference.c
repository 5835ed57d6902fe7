// The reference as a device: host memory and the definition.
#include "device.h"
#include "reference.h"
#include "self_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static kq_result reference_list(const kq_lookup *lookup, kq_device_info *infos, uint32_t capacity,
                                uint32_t *count)
{
    (void)lookup;
    *count = 1;
    if (capacity > 0) {
        infos[0] = (kq_device_info){
            .id = "reference",
            .api = KQ_API_REFERENCE,
            .is_software = 1,
            .name = "reference",
            .driver = "kquant, portable C",
        };
    }
    return KQ_OK;
}

static kq_result reference_open(kq_device *device, uint32_t index, const kq_device_params *params)
{
    (void)index;
    (void)params;
    device->capacity.segment_bytes = UINT64_MAX;
    device->capacity.memory_bytes = UINT64_MAX;
    return KQ_OK;
}

static void reference_close(kq_device *device)
{
    (void)device;
}

static void reference_properties(const kq_device *device, kq_property_fn *fn, void *user)
{
    (void)device;
#ifdef __VERSION__
    fn(user, "compiler", __VERSION__);
#endif
    fn(user, "pointer bits", sizeof(void *) == 8 ? "64" : "32");
}

static kq_result reference_memory_create(kq_device *device, uint64_t bytes, void **memory)
{
    // No malloc gives more, and checkers of memory report the attempt.
    *memory = bytes <= PTRDIFF_MAX ? malloc((size_t)bytes) : NULL;
    return *memory != NULL ? KQ_OK
                           : kq_fail(&device->errors, KQ_ERROR_MEMORY,
                                     "out of host memory for a buffer of %" PRIu64 " bytes", bytes);
}

static void reference_memory_destroy(kq_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static kq_result reference_upload(kq_device *device, void *memory, uint64_t offset,
                                  const void *data, uint64_t bytes)
{
    (void)device;
    memcpy((unsigned char *)memory + offset, data, (size_t)bytes);
    return KQ_OK;
}

static kq_result reference_download(kq_device *device, void *memory, uint64_t offset, void *data,
                                    uint64_t bytes)
{
    (void)device;
    memcpy(data, (const unsigned char *)memory + offset, (size_t)bytes);
    return KQ_OK;
}

static void *memory_of(const kq_buffer *buffer)
{
    return buffer != NULL ? buffer->memory[0] : NULL;
}

static kq_result reference_quantize(kq_device *device, const kq_quantize_args *args,
                                    const kq_piece *piece, kq_status *status)
{
    (void)device;
    kq_reference_quantize(&piece->shape, memory_of(args->values.buffer),
                          memory_of(args->records.buffer), status);
    return KQ_OK;
}

static kq_result reference_quantized_dot(kq_device *device, const kq_quantized_dot_args *args,
                                         const kq_piece *piece)
{
    (void)device;
    kq_reference_dot(&piece->shape, args->order, memory_of(args->lhs.buffer),
                     memory_of(args->rhs.buffer), memory_of(args->result));
    return KQ_OK;
}

static kq_result reference_primitives(kq_device *device, void *memory, uint32_t count)
{
    (void)device;
    kq_reference_primitives(memory, count);
    return KQ_OK;
}

static kq_result reference_self_test(kq_device *device, void *memory)
{
    (void)device;
    kq_self_test_reference(memory);
    return KQ_OK;
}

const kq_backend kq_reference_backend = {
    .api = KQ_API_REFERENCE,
    .name = "reference",
    .list = reference_list,
    .open = reference_open,
    .close = reference_close,
    .properties = reference_properties,
    .memory_create = reference_memory_create,
    .memory_destroy = reference_memory_destroy,
    .upload = reference_upload,
    .download = reference_download,
    .quantize = reference_quantize,
    .quantized_dot = reference_quantized_dot,
    .primitives = reference_primitives,
    .self_test = reference_self_test,
};
