// Level 3 inside: what device.c asks of each API. A backend opens devices and owns memory on them;
// names, argument checks that need no device, and domain errors are device.c's.
#ifndef KQ_DEVICE_H
#define KQ_DEVICE_H

#include "shape.h"

typedef struct kq_backend kq_backend;

struct kq_device {
    const kq_backend *backend;
    void *self;  // the backend's own part
    kq_device_info info;
    kq_errors errors;
    uint32_t ops;  // of kq_device_params
};

struct kq_buffer {
    kq_device *device;
    uint64_t bytes;  // as asked for; memory goes on to the next multiple of 4
    void *memory;    // the backend's own part
};

// Every result but KQ_OK has been reported through device->errors (list: has no reporter).
struct kq_backend {
    kq_api api;
    const char *name;  // "vulkan" of "vulkan:0"

    // Fills at most capacity infos, sets *count to all there are. No loader: none.
    kq_result (*list)(const kq_lookup *lookup, kq_device_info *infos, uint32_t capacity,
                      uint32_t *count);

    // Opens the index-th device that list gives; device->info and ->errors are set. On failure
    // device->self is NULL and nothing is left behind.
    kq_result (*open)(kq_device *device, uint32_t index, const kq_device_params *params);
    void (*close)(kq_device *device);

    // buffer->device and ->bytes are set. Sets buffer->memory.
    kq_result (*buffer_create)(kq_buffer *buffer);
    void (*buffer_destroy)(kq_buffer *buffer);
    kq_result (*upload)(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
    kq_result (*download)(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);

    // Blocking. The arguments break no rule; shape is what they come to. *status is preset, and is
    // what the kernels left afterwards.
    kq_result (*quantize)(kq_device *device, const kq_quantize_args *args, const kq_shape *shape,
                          kq_status *status);
    kq_result (*quantized_dot)(kq_device *device, const kq_quantized_dot_args *args,
                               const kq_shape *shape);
};

extern const kq_backend kq_reference_backend;
extern const kq_backend kq_vulkan_backend;
extern const kq_backend kq_opencl_backend;

// The loaders of this system, each opened when first asked for a name and then kept. NULL where
// there is none. The lookup a caller gave comes first.
kq_proc kq_find_vulkan(const kq_lookup *lookup);  // vkGetInstanceProcAddr
kq_lookup kq_opencl_lookup(const kq_lookup *lookup);

#endif
