// kquant on your own OpenCL context and queue. It makes programs at create, and kernel objects for the time of each
// enqueue, no queue, memory, flush, wait or thread; it links no loader.
#ifndef KQ_OPENCL_H
#define KQ_OPENCL_H
#ifndef CL_TARGET_OPENCL_VERSION
# define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <kquant/kquant.h>

typedef enum kq_opencl_program {
    KQ_OPENCL_PROGRAM_ANY = 0,     // SPIR-V where the device takes it, else the same kernels' source
    KQ_OPENCL_PROGRAM_SPIRV = 1,   // SPIR-V or KQ_ERROR_UNSUPPORTED
    KQ_OPENCL_PROGRAM_SOURCE = 2,  // OpenCL C 1.2
} kq_opencl_program;

typedef struct kq_opencl_params {
    kq_lookup lookup;  // finds "clCreateKernel" and its like
    cl_context context;
    cl_device_id device;        // of context; OpenCL 1.2 or later, embedded profile too
    kq_opencl_program program;  // optional
    uint32_t caps;              // features you enabled, as bits; OpenCL has none, so 0
    uint32_t ops;               // the kernels to build, see kq_op
    const kq_cache *cache;      // optional, of programs
    kq_errors errors;
} kq_opencl_params;

// Immutable: any number of threads may use it at once, and one then destroy it; work that is enqueued goes on. Create
// blocks for as long as the compiler does; source that it refuses is tried once more with its optimiser off. Errors:
// ARGUMENT; UNSUPPORTED; MEMORY; DRIVER, with the first line of the build log.
typedef struct kq_opencl kq_opencl;
KQ_API kq_result kq_opencl_create(const kq_opencl_params *params, kq_opencl **pack);
KQ_API void kq_opencl_destroy(kq_opencl **pack);

// Buffers or sub-buffers, CL_MEM_READ_WRITE but for inputs; they overlap where they do in their parent.
typedef struct kq_opencl_view {
    cl_mem buffer;
    kq_view view;
} kq_opencl_view;
typedef struct kq_opencl_range {
    cl_mem buffer;
    uint64_t offset;  // bytes; of the self-test's KQ_SELF_TEST_BYTES a multiple of 4
} kq_opencl_range;

typedef struct kq_opencl_quantize {
    kq_format format;                // KQ_FORMAT_Q8_K
    kq_opencl_view values, records;  // f32 [G,256], u8 [G,292]
    kq_opencl_range status;          // kq_status, preset by you
} kq_opencl_quantize;

typedef struct kq_opencl_quantized_dot {
    kq_format lhs_format, rhs_format;  // KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K
    kq_accumulator acc;                // KQ_ACCUMULATOR_F32
    kq_order order;
    kq_opencl_view lhs, rhs;          // u8 [G,144], u8 [G,292]
    kq_opencl_range result, scratch;  // one f32 a dot, at any byte; kq_needs.scratch_bytes, undefined
    const kq_repeat *repeat;          // NULL: one dot
    const kq_part *part;              // NULL: all records of the dots
} kq_opencl_quantized_dot;

// Whether and how it fits; scratch is not looked at, so {0} will do. Errors: ARGUMENT, MEMORY, DRIVER.
KQ_API kq_result kq_opencl_quantize_query(const kq_opencl *pack, const kq_opencl_quantize *op, kq_needs *needs);
KQ_API kq_result kq_opencl_quantized_dot_query(
    const kq_opencl *pack, const kq_opencl_quantized_dot *op, kq_needs *needs);

// Enqueues on queue, in-order or out-of-order, of context and device; never blocks or flushes. wait_count, waits and
// event are those of clEnqueueNDRangeKernel; event, if not NULL, completes with the whole operation, or is a marker's
// where there is nothing to do. Errors: ARGUMENT; UNSUPPORTED, MEMORY, DRIVER: some kernels may be enqueued.
KQ_API kq_result kq_opencl_quantize_enqueue(const kq_opencl *pack, const kq_opencl_quantize *op, cl_command_queue queue,
    cl_uint wait_count, const cl_event *waits, cl_event *event);
KQ_API kq_result kq_opencl_quantized_dot_enqueue(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
    cl_command_queue queue, cl_uint wait_count, const cl_event *waits, cl_event *event);
KQ_API kq_result kq_opencl_self_test_enqueue(const kq_opencl *pack, const kq_opencl_range *range,
    cl_command_queue queue, cl_uint wait_count, const cl_event *waits, cl_event *event);
#endif
