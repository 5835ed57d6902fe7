// OpenCL functions found at run time, and how they fail. Include it first, for
// clCreateProgramWithIL is newer than the version that kquant/opencl.h asks for.
#ifndef KQ_OPENCL_FUNCTIONS_H
#define KQ_OPENCL_FUNCTIONS_H

#ifndef CL_TARGET_OPENCL_VERSION
# define CL_TARGET_OPENCL_VERSION 210
#endif
#include <CL/cl_icd.h>
#include <kquant/opencl.h>

#include "plan.h"

// A table of functions is a struct whose members bear their names, made from a list of the names.
#define KQ_CL_MEMBER(name) cl_api_##name name;
#define KQ_CL_FIND(table, lookup, name)                                                            \
 ((table)->name = (cl_api_##name)(lookup)->fn((lookup)->user, #name))

// Reports what an OpenCL call returned, as KQ_ERROR_MEMORY or KQ_ERROR_DRIVER, and returns that.
kq_result kq_cl_fail(const kq_errors *errors, const char *call, cl_int code);

// Reports that a caller's lookup finds no function of this name.
kq_result kq_cl_fail_lookup(const kq_errors *errors, const char *name);

// Sets *text to a string of clGetDeviceInfo, which is `get`; to be freed, NULL on any failure.
cl_int kq_cl_device_text(cl_api_clGetDeviceInfo get, cl_device_id device, cl_device_info info,
                         char **text);

// What the latest of the programs was made of: "SPIR-V", or "source" with the options.
const char *kq_opencl_program_text(const kq_opencl *pack);

// Enqueues the primitives of `count` items of four words at the start of buffer. For level 3, whose
// callers ask for single steps.
kq_result kq_opencl_primitives_enqueue(const kq_opencl *pack, cl_mem buffer, uint32_t count,
                                       cl_command_queue queue, cl_event *event);

// A dot on a queue in order, some of its dispatches at a time: `count` of them from `first` on.
kq_result kq_opencl_dot_steps_enqueue(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                      uint32_t first, uint32_t count, cl_command_queue queue,
                                      cl_event *event);

// How many dispatches the dot has, and a word that the index-th of them writes: of op's result or
// scratch.
kq_result kq_opencl_dot_written(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                uint32_t index, uint32_t *count, kq_written *written);

// A transfer between two buffers.
kq_result kq_opencl_bandwidth_enqueue(const kq_opencl *pack, cl_mem from, cl_mem to,
                                      const kq_transfer *transfer, cl_command_queue queue,
                                      cl_event *event);

// kq_opencl_create without some kernels, as bits 1u << KQ_KERNEL_*: for level 3, and for tests of
// what variants do.
kq_result kq_opencl_create_without(const kq_opencl_params *params, uint32_t without,
                                   kq_opencl **pack);

// The variants of kernels that the library has for the device, as bits 1u << KQ_KERNEL_*, those
// that the pack was made without among them. Its compiler may still refuse those for CPUs.
uint32_t kq_opencl_variants(const kq_opencl *pack);

// What a command may take of any device; no variants.
extern const kq_limits kq_opencl_limits;

// Whether a space-separated list holds a word.
int kq_cl_has_word(const char *list, const char *word);

#endif
