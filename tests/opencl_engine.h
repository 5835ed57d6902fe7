// A small pipeline with an OpenCL context, device and queues of its own, as a user of level 2 has
// them. Its own calls go to the driver, the pack's to the wrapped driver. Failures are cmocka's.
#ifndef KQ_OPENCL_ENGINE_H
#define KQ_OPENCL_ENGINE_H

#include "support.h"
#include "wrapped_opencl.h"

#include <kquant/opencl.h>

#include "shape.h"

// clang-format off
#define ENGINE_FUNCTIONS(f)                                                                        \
    f(clGetPlatformIDs)                                                                            \
    f(clGetPlatformInfo)                                                                           \
    f(clGetDeviceIDs)                                                                              \
    f(clGetDeviceInfo)                                                                             \
    f(clCreateContext)                                                                             \
    f(clReleaseContext)                                                                            \
    f(clCreateCommandQueue)                                                                        \
    f(clReleaseCommandQueue)                                                                       \
    f(clCreateBuffer)                                                                              \
    f(clCreateSubBuffer)                                                                           \
    f(clReleaseMemObject)                                                                          \
    f(clEnqueueReadBuffer)                                                                         \
    f(clEnqueueWriteBuffer)                                                                        \
    f(clCreateUserEvent)                                                                           \
    f(clSetUserEventStatus)                                                                        \
    f(clGetEventInfo)                                                                              \
    f(clWaitForEvents)                                                                             \
    f(clReleaseEvent)                                                                              \
    f(clFlush)                                                                                     \
    f(clFinish)
// clang-format on

typedef struct engine_functions {
#define ENGINE_FIELD(name) cl_api_##name name;
    ENGINE_FUNCTIONS(ENGINE_FIELD)
#undef ENGINE_FIELD
} engine_functions;

typedef struct engine {
    wrapped_opencl wrapped;
    kq_lookup lookup;
    engine_functions cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_command_queue unordered;  // NULL: the driver has no out-of-order queue
    size_t alignment;            // of a sub-buffer's origin, in bytes
    report report;
    kq_opencl *pack;  // of all kernels
} engine;

// What a test was asked for, by arguments.
typedef struct engine_options {
    const char *expected_name;  // must occur in the name of device or platform
    wrapped_il il;
    bool is_quick;
    bool has_cpu_kernels;  // where the device is a CPU; else base kernels, which all devices have
    vectors vectors;
} engine_options;

// Reads --expect=TEXT, --il, --quick and, where vectors are needed, their folders. Not
// EXIT_SUCCESS: what the test is to exit with.
int engine_read_options(int argc, char **argv, bool needs_vectors, engine_options *options);

// Whether there is a device, whose name is printed, and whether it is the expected one: else what
// the test is to exit with.
int engine_check_device(const engine_options *options);

// Opens device 0 with queues and a pack.
void engine_open(engine *e, const engine_options *options);

// Nothing of the pack's may be left, and no report of the driver's.
void engine_close(engine *e);

kq_opencl_params engine_pack_params(engine *e);

// The queues in turn.
cl_command_queue engine_choose_queue(const engine *e, size_t i);

void engine_expect_ok(const engine *e, kq_result result);

// The first vector of G records.
const dot_vector *engine_find_dot(const engine_options *options, uint32_t G);
const quantize_vector *engine_find_quantize(const engine_options *options, uint32_t G);

// A buffer, and the bytes that must be in it.
typedef struct operand {
    cl_mem buffer;
    size_t bytes;
    unsigned char *expected;
} operand;

// Poisoned. No byte: no buffer.
operand operand_make(const engine *e, size_t bytes);
void operand_destroy(const engine *e, operand *o);

// Poisons the operand, and puts data there. What is expected is that it stays so.
void operand_fill(const engine *e, operand *o, size_t offset, const void *data, size_t bytes);
void operand_check(const engine *e, const operand *o, const char *what);

// Writes what is expected into the buffer.
void operand_write(const engine *e, const operand *o);

// A sub-buffer. origin is a multiple of the engine's alignment.
cl_mem operand_region(const engine *e, const operand *parent, size_t origin, size_t bytes);

// The end of the last word that holds a byte of a range.
size_t operand_end(uint64_t offset, size_t bytes);

// The operands of an operation, by binding.
typedef struct operands {
    operand at[KQ_BINDING_COUNT];
} operands;

operands operands_make(const engine *e, size_t first, size_t second, size_t third, size_t scratch);
void operands_destroy(const engine *e, operands *o);

kq_opencl_quantized_dot dot_of(const operands *o, kq_order order, kq_view lhs, kq_view rhs,
                               uint64_t result_offset);
kq_opencl_quantize quantize_of(const operands *o, kq_view values, kq_view records,
                               uint64_t status_offset);

// Puts what the reference makes of the operands into what is expected of result, or of records and
// status.
void expect_dot(operands *o, const kq_opencl_quantized_dot *op);
void expect_quantize(operands *o, const kq_opencl_quantize *op);

// Presets status, and says what is expected of it.
void fill_status(const engine *e, operand *status, uint64_t offset);
void expect_status(operand *status, uint64_t offset, const kq_status *wanted);

// Carries an operation out as query says it will go, a dot with scratch of not a byte too much from
// op->scratch.offset on. Then every byte of every buffer is as expected.
void check_dot(engine *e, operands *o, kq_opencl_quantized_dot *op, cl_command_queue queue,
               const char *what);
void check_quantize(engine *e, operands *o, const kq_opencl_quantize *op, cl_command_queue queue,
                    const char *what);

// The same of a vector, each operand at its offset in a buffer that has `spare` bytes, a multiple
// of 4, more than it needs.
void check_dot_vector(engine *e, const dot_vector *v, kq_order order,
                      const size_t offsets[KQ_BINDING_COUNT], size_t spare, cl_command_queue queue);
void check_quantize_vector(engine *e, const quantize_vector *v, const size_t offsets[3],
                           size_t spare, cl_command_queue queue);

#endif
