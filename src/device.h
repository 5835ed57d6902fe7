// Level 3 inside: what device.c and device_operations.c ask of each API. A backend opens devices,
// owns memory on them and carries out pieces; names, argument checks that need no device, cutting
// and domain errors are not its own.
#ifndef KQ_DEVICE_H
#define KQ_DEVICE_H

#include "cut.h"

typedef struct kq_backend kq_backend;

// Pieces that may be under way at once.
enum { KQ_IN_FLIGHT = 2 };

// As in kq_device_properties.
typedef void kq_property_fn(void *user, const char *name, const char *value);

struct kq_device {
    const kq_backend *backend;
    void *self;  // the backend's own part
    void *work;  // the backend's, of KQ_IN_FLIGHT pieces: for operations that no recording keeps
    kq_device_info info;
    kq_errors errors;
    uint32_t ops;          // of kq_device_params
    uint32_t without;      // of kq_device_create_without
    bool is_limited;       // false: the backend takes anything in one piece
    kq_capacity capacity;  // of one piece; segment_bytes counts in any case
    uint32_t doubts;       // dispatches since it was set to 0 that should add to a sum, and left it
                           // as it was: perhaps they were not done
    uint64_t host_work;    // as capacity.work, from and to host memory: less where copies overlap
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

// The buffer that is an operand of level 3's operations.
const kq_buffer *kq_operand_buffer(const kq_operation *operation, int role);

// The memory that an operand of a piece is bound in: its segment's, or the stage; NULL where it
// isn't used.
void *kq_piece_memory(const kq_operation *operation, const kq_piece *piece, int role, void *stage);

// What a piece of a bandwidth recording moves, in the memory that it is bound in.
kq_transfer kq_piece_transfer(const kq_operation *operation, const kq_piece *piece);

// Waits until everything that was asked of the device is done, also after a failure. The result is
// so_far, unless that is KQ_OK: then that of all which finishes here.
kq_result kq_device_finish(kq_device *device, kq_result so_far);

// Whether the device was created with the operation; ARGUMENT, too, where there is no device. Every
// backend compiles, or need not, the kernels of those that were asked for.
kq_result kq_device_check_op(const kq_device *device, kq_op op, const char *name);

// Whether the caller's memory is there, and as long as that can be.
kq_result kq_check_pointer(const kq_device *device, const char *name, const void *pointer,
                           uint64_t bytes);

// Whether the caller's memory can be as long as that; where addresses have 32 bits, 64-bit numbers
// of bytes say more than there is.
kq_result kq_check_addresses(const kq_errors *errors, const char *name, const void *pointer,
                             uint64_t bytes);

// Every result but KQ_OK has been reported through device->errors, or those given.
struct kq_backend {
    kq_api api;
    const char *name;  // "vulkan" of "vulkan:0"

    // Fills at most capacity infos, sets *count to all there are. No loader: none.
    kq_result (*list)(const kq_lookup *lookup, const kq_errors *errors, kq_device_info *infos,
                      uint32_t capacity, uint32_t *count);

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

    // Without finish, both are done when they return. With it they are done in the order of the
    // calls, at the latest in finish, which comes last and also after a failure. An upload no
    // longer needs its data when it returns; it goes to no byte that is in use by what comes
    // before. A download follows the perform that it reads from, or nothing.
    kq_result (*upload)(kq_device *device, void *memory, uint64_t offset, const void *data,
                        uint64_t bytes);
    kq_result (*download)(kq_device *device, void *memory, uint64_t offset, void *data,
                          uint64_t bytes);

    // NULL, all three: what device->work holds is recorded and run. A piece in its turn; *status
    // as in run. submit starts it and the copies around it; by then the one KQ_IN_FLIGHT before it
    // is done.
    kq_result (*perform)(kq_device *device, const kq_operation *operation, const kq_piece *piece,
                         kq_status *status);
    kq_result (*submit)(kq_device *device);
    kq_result (*finish)(kq_device *device, kq_result so_far);

    // Work: what pieces take beside buffers. It has room for `count` of them, each of which takes
    // less host memory than a kq_piece, and so many bytes of scratch. is_kept: each is recorded
    // once, and run tells its time; else scratch grows with need.
    kq_result (*work_create)(kq_device *device, bool is_kept, uint32_t count,
                             uint64_t scratch_bytes, void **work);
    void (*work_destroy)(kq_device *device, void *work);

    // Makes a piece ready as the index-th of the work, in place of one that was. The arguments
    // break no rule. Both structs stay where they are until it has run for the last time.
    kq_result (*record)(kq_device *device, void *work, uint32_t index,
                        const kq_operation *operation, const kq_piece *piece);

    // Carries it out, blocking; pieces of a dot that is cut along its records in their order.
    // *status is preset, and is what the kernels of quantize left afterwards. *nanoseconds is the
    // time by the device's own clock; 0: not known.
    kq_result (*run)(kq_device *device, void *work, uint32_t index, kq_status *status,
                     uint64_t *nanoseconds);

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
