// Level 3 inside: what device.c asks of each API. A backend opens devices and owns memory on them;
// names, argument checks that need no device, and domain errors are device.c's.
#ifndef KQ_DEVICE_H
#define KQ_DEVICE_H

#include "cut.h"

typedef struct kq_backend kq_backend;

// As in kq_device_properties.
typedef void kq_property_fn(void *user, const char *name, const char *value);

struct kq_device {
    const kq_backend *backend;
    void *self;  // the backend's own part
    kq_device_info info;
    kq_errors errors;
    uint32_t ops;          // of kq_device_params
    uint32_t without;      // of kq_device_create_without
    bool is_limited;       // false: the backend takes anything in one piece
    kq_capacity capacity;  // of one piece; segment_bytes counts in any case
};

struct kq_buffer {
    kq_device *device;
    uint64_t bytes;  // as asked for; memory goes on to the next multiple of 4
    uint64_t count;  // of segments, each of capacity.segment_bytes but the last
    void *memory[];  // of each: the backend's own part
};

// As many of the bytes from offset on as lie in one segment.
typedef struct kq_segment_run {
    void *memory;
    uint64_t offset;
    uint64_t bytes;
} kq_segment_run;
kq_segment_run kq_buffer_run(const kq_buffer *buffer, uint64_t offset, uint64_t bytes);

// The memory that an operand of a piece is bound in: its segment's, or the stage; NULL where it
// isn't used.
void *kq_piece_memory(const kq_piece *piece, int role, const kq_buffer *buffer, void *stage);

// Every result but KQ_OK has been reported through device->errors (list: has no reporter).
struct kq_backend {
    kq_api api;
    const char *name;  // "vulkan" of "vulkan:0"

    // Fills at most capacity infos, sets *count to all there are. No loader: none.
    kq_result (*list)(const kq_lookup *lookup, kq_device_info *infos, uint32_t capacity,
                      uint32_t *count);

    // Opens the index-th device that list gives; device->info, ->errors and ->capacity.work are
    // set. Sets the rest of the capacity but stage_bytes. On failure device->self is NULL and
    // nothing is left behind.
    kq_result (*open)(kq_device *device, uint32_t index, const kq_device_params *params);
    void (*close)(kq_device *device);

    // What driver and device say of themselves, in the API's own names.
    void (*properties)(const kq_device *device, kq_property_fn *fn, void *user);

    // Memory of one segment: a multiple of 4 bytes, at most capacity.segment_bytes.
    kq_result (*memory_create)(kq_device *device, uint64_t bytes, void **memory);
    void (*memory_destroy)(kq_device *device, void *memory);
    kq_result (*upload)(kq_device *device, void *memory, uint64_t offset, const void *data,
                        uint64_t bytes);
    kq_result (*download)(kq_device *device, void *memory, uint64_t offset, void *data,
                          uint64_t bytes);

    // One piece of the operation, blocking. The arguments break no rule. *status is preset, and is
    // what the kernels left afterwards. Pieces of a dot that is cut along its records come one
    // after the other, and need as much scratch each.
    kq_result (*quantize)(kq_device *device, const kq_quantize_args *args, const kq_piece *piece,
                          kq_status *status);
    kq_result (*quantized_dot)(kq_device *device, const kq_quantized_dot_args *args,
                               const kq_piece *piece);

    // As many items of four words in memory, blocking: kq_plan_primitives.
    kq_result (*primitives)(kq_device *device, void *memory, uint32_t count);

    // The self-test on the first KQ_SELF_TEST_BYTES of memory, blocking.
    kq_result (*self_test)(kq_device *device, void *memory);
};

// kq_device_create without some variants of kernels, as bits 1u << KQ_KERNEL_*: for tests, and the
// command.
kq_result kq_device_create_without(const kq_device_params *params, uint32_t variants,
                                   kq_device **device);

extern const kq_backend kq_reference_backend;
extern const kq_backend kq_vulkan_backend;
extern const kq_backend kq_opencl_backend;

// The loaders of this system, each opened when first asked for a name and then kept. NULL where
// there is none. The lookup a caller gave comes first.
kq_proc kq_find_vulkan(const kq_lookup *lookup);  // vkGetInstanceProcAddr
kq_lookup kq_opencl_lookup(const kq_lookup *lookup);

#endif
