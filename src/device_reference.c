// The reference as a device: host memory and the definition.
#include "device.h"
#include "reference.h"
#include "self_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static kq_result reference_list(const kq_lookup *lookup, const kq_errors *errors,
                                kq_device_info *infos, uint32_t capacity, uint32_t *count)
{
    (void)lookup;
    (void)errors;
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

// --- Work: the pieces as they are

typedef struct reference_item {
    const kq_operation *operation;
    const kq_piece *piece;
} reference_item;

static kq_result reference_work_create(kq_device *device, bool is_kept, uint32_t count,
                                       uint64_t scratch_bytes, void **work)
{
    (void)is_kept;
    (void)scratch_bytes;
    *work = calloc((size_t)count + 1, sizeof(reference_item));
    return *work != NULL ? KQ_OK
                         : kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for work");
}

static void reference_work_destroy(kq_device *device, void *work)
{
    (void)device;
    free(work);
}

static kq_result reference_record(kq_device *device, void *work, uint32_t index,
                                  const kq_operation *operation, const kq_piece *piece)
{
    (void)device;
    ((reference_item *)work)[index] = (reference_item){operation, piece};
    return KQ_OK;
}

static void *memory_of(const reference_item *item, int role)
{
    const kq_buffer *buffer = kq_operand_buffer(item->operation, role);
    return buffer != NULL ? buffer->memory[0] : NULL;
}

// As the kernel does it: a word a lane is the xor of what that lane read.
static void read_words(const unsigned char *from, unsigned char *sums, uint64_t bytes)
{
    const size_t lane_words = 4, row_words = KQ_LANES * lane_words;
    for (uint64_t unit = 0; unit < bytes / KQ_BANDWIDTH_BYTES; unit++) {
        uint32_t row[KQ_LANES * 4] = {0};
        for (size_t k = 0; k < KQ_BANDWIDTH_BYTES; k += sizeof row) {
            uint32_t words[KQ_LANES * 4];
            memcpy(words, from + unit * KQ_BANDWIDTH_BYTES + k, sizeof words);
            for (size_t i = 0; i < row_words; i++) {
                row[i] ^= words[i];
            }
        }
        for (size_t lane = 0; lane < KQ_LANES; lane++) {
            const uint32_t *v = row + lane * lane_words;
            uint32_t sum = v[0] ^ v[1] ^ v[2] ^ v[3];
            memcpy(sums + (unit * KQ_LANES + lane) * 4, &sum, sizeof sum);
        }
    }
}

static kq_result reference_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                               uint64_t *nanoseconds)
{
    const reference_item *item = (const reference_item *)work + index;
    const kq_shape *shape = &item->piece->shape;
    (void)device;
    *nanoseconds = 0;
    if (item->operation->op == KQ_OP_QUANTIZE) {
        kq_reference_quantize(shape, memory_of(item, KQ_VALUES), memory_of(item, KQ_RECORDS),
                              status);
    } else if (item->operation->op == KQ_OP_SELF_TEST) {
        const uint64_t bytes = (uint64_t)shape->G * KQ_BANDWIDTH_BYTES;
        if (item->operation->is_copy) {
            memcpy(memory_of(item, KQ_TO), memory_of(item, KQ_FROM), (size_t)bytes);
        } else {
            read_words(memory_of(item, KQ_FROM), memory_of(item, KQ_TO), bytes);
        }
    } else {
        kq_reference_dot(shape, item->operation->order, memory_of(item, KQ_LHS),
                         memory_of(item, KQ_RHS), memory_of(item, KQ_RESULT));
    }
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
    .work_create = reference_work_create,
    .work_destroy = reference_work_destroy,
    .record = reference_record,
    .run = reference_run,
    .primitives = reference_primitives,
    .self_test = reference_self_test,
};
