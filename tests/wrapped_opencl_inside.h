// The wrapped driver inside: what its files share.
#ifndef KQ_WRAPPED_OPENCL_INSIDE_H
#define KQ_WRAPPED_OPENCL_INSIDE_H

#include "wrapped_opencl.h"

// clang-format off
#define FUNCTIONS(f)                                                                               \
    f(clGetPlatformIDs)                                                                            \
    f(clGetPlatformInfo)                                                                           \
    f(clGetDeviceIDs)                                                                              \
    f(clGetDeviceInfo)                                                                             \
    f(clCreateContext)                                                                             \
    f(clRetainContext)                                                                             \
    f(clReleaseContext)                                                                            \
    f(clGetContextInfo)                                                                            \
    f(clCreateCommandQueue)                                                                        \
    f(clRetainCommandQueue)                                                                        \
    f(clReleaseCommandQueue)                                                                       \
    f(clCreateBuffer)                                                                              \
    f(clCreateSubBuffer)                                                                           \
    f(clRetainMemObject)                                                                           \
    f(clReleaseMemObject)                                                                          \
    f(clGetMemObjectInfo)                                                                          \
    f(clCreateProgramWithSource)                                                                   \
    f(clCreateProgramWithBinary)                                                                   \
    f(clCreateProgramWithIL)                                                                       \
    f(clRetainProgram)                                                                             \
    f(clReleaseProgram)                                                                            \
    f(clBuildProgram)                                                                              \
    f(clGetProgramBuildInfo)                                                                       \
    f(clGetProgramInfo)                                                                            \
    f(clCreateKernel)                                                                              \
    f(clRetainKernel)                                                                              \
    f(clReleaseKernel)                                                                             \
    f(clSetKernelArg)                                                                              \
    f(clGetKernelWorkGroupInfo)                                                                    \
    f(clEnqueueNDRangeKernel)                                                                      \
    f(clEnqueueReadBuffer)                                                                         \
    f(clEnqueueWriteBuffer)                                                                        \
    f(clEnqueueCopyBuffer)                                                                         \
    f(clEnqueueFillBuffer)                                                                         \
    f(clEnqueueMarkerWithWaitList)                                                                 \
    f(clEnqueueBarrierWithWaitList)                                                                \
    f(clWaitForEvents)                                                                             \
    f(clGetEventInfo)                                                                              \
    f(clGetEventProfilingInfo)                                                                     \
    f(clRetainEvent)                                                                               \
    f(clReleaseEvent)                                                                              \
    f(clFlush)                                                                                     \
    f(clFinish)                                                                                    \
    f(clGetExtensionFunctionAddressForPlatform)
// clang-format on

// Calls are told apart by number; the last is no function of the loader's.
#define NUMBER(name) CALL_##name,
enum { FUNCTIONS(NUMBER) CALL_clCreateProgramWithILKHR, CALL_COUNT };
#undef NUMBER
_Static_assert((int)CALL_COUNT <= (int)WRAPPED_CALL_CAPACITY, "more calls than counters");

// The loader's own functions.
#define MEMBER(name) cl_api_##name name;
typedef struct wrapped_functions {
    FUNCTIONS(MEMBER)
} wrapped_functions;
#undef MEMBER

extern wrapped_functions wrapped_real;
extern wrapped_opencl *wrapped_current;
extern _Thread_local bool wrapped_is_building;  // the driver builds a program or makes a kernel

// Counts a call and asks whether it is to fail.
cl_int wrapped_begin(int call);

// What a function that makes objects gives when it fails: NULL, and the code in *out.
void *wrapped_give_up(cl_int code, cl_int *out);

// Answers a query of the API's with data.
cl_int wrapped_answer(const void *data, size_t bytes, size_t size, void *value, size_t *size_ret);

// A new object, or a new reference to a known one; NULL is none. A program that was translated from
// SPIR-V is marked, a kernel bears its name.
void wrapped_add(wrapped_kind kind, void *handle, bool is_translated, const char *kernel);

// Before the driver releases, for afterwards another thread may be given the same handle.
void wrapped_remove(wrapped_kind kind, const void *handle);

bool wrapped_is_translated(cl_program program);
void wrapped_count_il(void);

// How the wrapper makes a device take SPIR-V: _OF_DRIVER if not at all.
wrapped_il wrapped_emulated_il(cl_device_id device);
bool wrapped_takes_spirv(cl_device_id device);

// Of wrapped_opencl_programs.c.
cl_program CL_API_CALL wrap_clCreateProgramWithSource(cl_context context, cl_uint count,
                                                      const char **texts, const size_t *lengths,
                                                      cl_int *out);
cl_program CL_API_CALL wrap_clCreateProgramWithBinary(cl_context context, cl_uint count,
                                                      const cl_device_id *devices,
                                                      const size_t *lengths,
                                                      const unsigned char **binaries,
                                                      cl_int *status, cl_int *out);
cl_program CL_API_CALL wrap_clCreateProgramWithIL(cl_context context, const void *il, size_t bytes,
                                                  cl_int *out);
void *CL_API_CALL wrap_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                                const char *name);
cl_int CL_API_CALL wrap_clBuildProgram(cl_program program, cl_uint count,
                                       const cl_device_id *devices, const char *options,
                                       void(CL_CALLBACK *notify)(cl_program, void *), void *user);
cl_int CL_API_CALL wrap_clGetProgramInfo(cl_program program, cl_program_info info, size_t size,
                                         void *value, size_t *ret);
cl_int CL_API_CALL wrap_clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                              cl_program_build_info info, size_t size, void *value,
                                              size_t *ret);
cl_kernel CL_API_CALL wrap_clCreateKernel(cl_program program, const char *name, cl_int *out);

#endif
