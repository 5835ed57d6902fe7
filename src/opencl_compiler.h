// Programs of the kernels, one a kernel, built for a device.
#ifndef KQ_OPENCL_COMPILER_H
#define KQ_OPENCL_COMPILER_H

#include "opencl_cache.h"

#include "kernels.h"

// clang-format off
#define KQ_CL_COMPILER_FUNCTIONS(f)                                                                \
    f(clGetDeviceInfo)                                                                             \
    f(clCreateProgramWithSource)                                                                   \
    f(clBuildProgram)                                                                              \
    f(clGetProgramBuildInfo)                                                                       \
    f(clRetainProgram)                                                                             \
    f(clReleaseProgram)                                                                            \
    f(clCreateKernel)                                                                              \
    f(clGetKernelWorkGroupInfo)                                                                    \
    f(clReleaseKernel)
// clang-format on

typedef struct kq_cl_compiler {
    kq_errors errors;
    KQ_CL_COMPILER_FUNCTIONS(KQ_CL_MEMBER)
    cl_context context;
    cl_device_id device;
    kq_opencl_program wanted;
    cl_uint version;  // 102 for OpenCL 1.2
    cl_uint address_bits;
    cl_ulong local_bytes;
    cl_bool has_compiler;
    bool is_cpu;                                  // one whose compiler has vectors to make of ours
    cl_api_clCreateProgramWithIL create_with_il;  // NULL: takes no SPIR-V
    kq_cl_cache cache;
} kq_cl_compiler;

typedef struct kq_cl_programs {
    cl_program of[KQ_KERNEL_COUNT];  // NULL where there is none
    uint32_t variants;               // those that there are, as bits 1u << KQ_KERNEL_*
    uint32_t suitable;               // those that suit the device, whether asked for or not
    const char *text;                // what the latest that is no variant was made of
} kq_cl_programs;

// Of the device and context of params. Fails where the device can run no kernel.
kq_result kq_cl_compiler_make(const kq_opencl_params *params, kq_cl_compiler *c);

// Builds the programs of kernels given as bits, of variants those that suit the device. What was
// built is the caller's to release, after a failure too.
kq_result kq_cl_compile(kq_cl_compiler *c, uint32_t kernels, kq_cl_programs *programs);

#endif
