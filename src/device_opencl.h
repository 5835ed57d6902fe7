// An OpenCL device of level 3 inside: what its files share.
#ifndef KQ_DEVICE_OPENCL_H
#define KQ_DEVICE_OPENCL_H

#include "opencl_functions.h"

#include "device.h"

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

typedef struct kq_opencl_functions {
    OPENCL_DEVICE_FUNCTIONS(KQ_CL_MEMBER)
} kq_opencl_functions;

typedef struct kq_opencl_device {
    kq_opencl_functions cl;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    kq_lookup lookup;
    const kq_cache *cache;
    kq_opencl *packs[KQ_OP_SELF_TEST + 1];  // by what they were made for: need_pack
} kq_opencl_device;

// The kernels of an operation, compiled when it is first asked for; those of the self-test are all.
kq_result kq_opencl_need_pack(const kq_device *device, kq_op op, kq_opencl **pack);

kq_result kq_opencl_memory_make(const kq_device *device, uint64_t bytes, cl_mem *memory);

// Waits for all work; event is the kernels' last, or NULL. A driver may end a command with an error
// and yet finish well. `so_far` goes before what is found here.
kq_result kq_opencl_finish(const kq_device *device, cl_event event, kq_result so_far);

// Reads, blocking.
kq_result kq_opencl_read(const kq_device *device, cl_mem memory, uint64_t offset, void *data,
                         uint64_t bytes);

// Writes, blocking; or from data that stays, without waiting.
kq_result kq_opencl_write(const kq_device *device, cl_mem memory, uint64_t offset, const void *data,
                          uint64_t bytes, bool is_blocking);

// Of kq_backend.
kq_result kq_opencl_work_create(kq_device *device, bool is_kept, uint32_t count,
                                uint64_t scratch_bytes, void **work);
void kq_opencl_work_destroy(kq_device *device, void *work);
kq_result kq_opencl_work_record(kq_device *device, void *work, uint32_t index,
                                const kq_operation *operation, const kq_piece *piece);
kq_result kq_opencl_work_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                             uint64_t *nanoseconds);

#endif
