#include "opencl_faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Codes: sections 4 to 5 of the OpenCL 1.2 specification, and 5.6 of 2.1 for
// clCreateProgramWithIL

#define MEMORIES CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES
#define TRANSFER                                                                                   \
 MEMORIES, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE,  \
     CL_INVALID_EVENT_WAIT_LIST, CL_MISALIGNED_SUB_BUFFER_OFFSET, CL_MEM_OBJECT_ALLOCATION_FAILURE
#define BLOCKING CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_OPERATION

enum { CODE_CAPACITY = 18 };

static const struct {
    const char *call;
    cl_int codes[CODE_CAPACITY];
} calls[] = {
    {"clGetPlatformIDs", {CL_OUT_OF_HOST_MEMORY, CL_INVALID_VALUE, -1001}},
    {"clGetPlatformInfo", {CL_OUT_OF_HOST_MEMORY, CL_INVALID_PLATFORM, CL_INVALID_VALUE}},
    {"clGetDeviceIDs",
     {MEMORIES, CL_INVALID_PLATFORM, CL_INVALID_DEVICE_TYPE, CL_INVALID_VALUE,
      CL_DEVICE_NOT_FOUND}},
    {"clGetDeviceInfo", {MEMORIES, CL_INVALID_DEVICE, CL_INVALID_VALUE}},
    {"clCreateContext",
     {MEMORIES, CL_INVALID_PLATFORM, CL_INVALID_PROPERTY, CL_INVALID_VALUE, CL_INVALID_DEVICE,
      CL_DEVICE_NOT_AVAILABLE, WRAPPED_NO_OBJECT}},
    {"clReleaseContext", {MEMORIES, CL_INVALID_CONTEXT}},
    {"clCreateCommandQueue",
     {MEMORIES, CL_INVALID_CONTEXT, CL_INVALID_DEVICE, CL_INVALID_VALUE,
      CL_INVALID_QUEUE_PROPERTIES, WRAPPED_NO_OBJECT}},
    {"clReleaseCommandQueue", {MEMORIES, CL_INVALID_COMMAND_QUEUE}},
    {"clCreateBuffer",
     {MEMORIES, CL_INVALID_CONTEXT, CL_INVALID_VALUE, CL_INVALID_BUFFER_SIZE, CL_INVALID_HOST_PTR,
      CL_MEM_OBJECT_ALLOCATION_FAILURE, WRAPPED_NO_OBJECT}},
    {"clReleaseMemObject", {MEMORIES, CL_INVALID_MEM_OBJECT}},
    {"clGetMemObjectInfo", {MEMORIES, CL_INVALID_VALUE, CL_INVALID_MEM_OBJECT}},
    {"clCreateProgramWithSource",
     {MEMORIES, CL_INVALID_CONTEXT, CL_INVALID_VALUE, WRAPPED_NO_OBJECT}},
    {"clCreateProgramWithBinary",
     {MEMORIES, CL_INVALID_CONTEXT, CL_INVALID_VALUE, CL_INVALID_DEVICE, CL_INVALID_BINARY,
      WRAPPED_NO_OBJECT}},
    {"clCreateProgramWithIL",
     {MEMORIES, CL_INVALID_CONTEXT, CL_INVALID_OPERATION, CL_INVALID_VALUE, WRAPPED_NO_OBJECT}},
    {"clRetainProgram", {MEMORIES, CL_INVALID_PROGRAM}},
    {"clReleaseProgram", {MEMORIES, CL_INVALID_PROGRAM}},
    {"clBuildProgram",
     {MEMORIES, CL_INVALID_PROGRAM, CL_INVALID_VALUE, CL_INVALID_DEVICE, CL_INVALID_BINARY,
      CL_INVALID_BUILD_OPTIONS, CL_INVALID_OPERATION, CL_COMPILER_NOT_AVAILABLE,
      CL_BUILD_PROGRAM_FAILURE}},
    {"clGetProgramBuildInfo", {MEMORIES, CL_INVALID_DEVICE, CL_INVALID_VALUE, CL_INVALID_PROGRAM}},
    {"clGetProgramInfo",
     {MEMORIES, CL_INVALID_VALUE, CL_INVALID_PROGRAM, CL_INVALID_PROGRAM_EXECUTABLE}},
    {"clCreateKernel",
     {MEMORIES, CL_INVALID_PROGRAM, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME,
      CL_INVALID_KERNEL_DEFINITION, CL_INVALID_VALUE, WRAPPED_NO_OBJECT}},
    {"clReleaseKernel", {MEMORIES, CL_INVALID_KERNEL}},
    {"clSetKernelArg",
     {MEMORIES, CL_INVALID_KERNEL, CL_INVALID_ARG_INDEX, CL_INVALID_ARG_VALUE,
      CL_INVALID_MEM_OBJECT, CL_INVALID_ARG_SIZE}},
    {"clGetKernelWorkGroupInfo",
     {MEMORIES, CL_INVALID_DEVICE, CL_INVALID_VALUE, CL_INVALID_KERNEL}},
    {"clEnqueueNDRangeKernel",
     {MEMORIES, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_COMMAND_QUEUE, CL_INVALID_KERNEL,
      CL_INVALID_CONTEXT, CL_INVALID_KERNEL_ARGS, CL_INVALID_WORK_DIMENSION,
      CL_INVALID_GLOBAL_WORK_SIZE, CL_INVALID_GLOBAL_OFFSET, CL_INVALID_WORK_GROUP_SIZE,
      CL_INVALID_WORK_ITEM_SIZE, CL_MISALIGNED_SUB_BUFFER_OFFSET, CL_MEM_OBJECT_ALLOCATION_FAILURE,
      CL_INVALID_EVENT_WAIT_LIST}},
    {"clEnqueueReadBuffer", {TRANSFER, BLOCKING}},
    {"clEnqueueWriteBuffer", {TRANSFER, BLOCKING}},
    {"clEnqueueCopyBuffer", {TRANSFER, CL_MEM_COPY_OVERLAP}},
    {"clEnqueueFillBuffer", {TRANSFER}},
    {"clEnqueueMarkerWithWaitList",
     {MEMORIES, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_EVENT_WAIT_LIST}},
    {"clFinish", {MEMORIES, CL_INVALID_COMMAND_QUEUE}},
    {"clGetEventInfo", {MEMORIES, CL_INVALID_VALUE, CL_INVALID_EVENT}},
    {"clGetEventProfilingInfo",
     {MEMORIES, CL_PROFILING_INFO_NOT_AVAILABLE, CL_INVALID_VALUE, CL_INVALID_EVENT}},
    {"clReleaseEvent", {MEMORIES, CL_INVALID_EVENT}},
    // It has no codes: any is NULL.
    {"clGetExtensionFunctionAddressForPlatform", {CL_INVALID_VALUE}},
};

const cl_int *fault_codes(const char *call, unsigned *count)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(call, calls[i].call) == 0) {
            for (*count = 0; *count < CODE_CAPACITY && calls[i].codes[*count] != 0; ++*count) {
            }
            return calls[i].codes;
        }
    }
    fprintf(stderr, "no codes are known of %s\n", call);
    abort();
}

// --- One fault at a time

static struct {
    fault fault;
    const char *call;
    unsigned number;
    cl_int code;
} wanted;

static cl_int fail_wanted(void *user, const char *call, unsigned number)
{
    (void)user;
    (void)number;
    if (wanted.call != NULL && strcmp(wanted.call, call) != 0) {
        return CL_SUCCESS;
    }
    wanted.fault.seen++;
    if (wanted.number != 0 && wanted.fault.seen != wanted.number) {
        return CL_SUCCESS;
    }
    wanted.fault.code = wanted.code;
    snprintf(wanted.fault.failed, sizeof wanted.fault.failed, "%s", call);
    return wanted.fault.code;
}

static bool lose_wanted(void *user, const char *call, cl_int *status)
{
    (void)user;
    if (++wanted.fault.seen != wanted.number) {
        return false;
    }
    snprintf(wanted.fault.failed, sizeof wanted.fault.failed, "%s", call);
    wanted.fault.code = wanted.code;
    *status = wanted.code;
    return true;
}

void fault_fail(wrapped_opencl *wrapped, const char *call, unsigned number, cl_int code)
{
    memset(&wanted, 0, sizeof wanted);
    wanted.call = call;
    wanted.number = number;
    wanted.code = code;
    wrapped->fail = fail_wanted;
}

void fault_lose(wrapped_opencl *wrapped, unsigned number, cl_int status)
{
    memset(&wanted, 0, sizeof wanted);
    wanted.number = number;
    wanted.code = status;
    wrapped->lose = lose_wanted;
}

const fault *fault_end(wrapped_opencl *wrapped)
{
    wrapped->fail = NULL;
    wrapped->lose = NULL;
    return &wanted.fault;
}

kq_result fault_result(const fault *f)
{
    if (f->code == CL_INVALID_WORK_GROUP_SIZE) {
        return KQ_ERROR_UNSUPPORTED;
    }
    return f->code == CL_OUT_OF_HOST_MEMORY || f->code == CL_MEM_OBJECT_ALLOCATION_FAILURE
               ? KQ_ERROR_MEMORY
               : KQ_ERROR_DRIVER;
}

bool fault_is_named(const fault *f, const report *report)
{
    char code[16];
    if (f->code == CL_INVALID_WORK_GROUP_SIZE) {
        return strstr(report->reason, "CL_KERNEL_WORK_GROUP_SIZE of ") != NULL;
    }
    snprintf(code, sizeof code, "(%d)", f->code == WRAPPED_NO_OBJECT ? CL_SUCCESS : (int)f->code);
    return strstr(report->reason, f->failed) != NULL && strstr(report->reason, code) != NULL &&
           strstr(report->reason, "unknown code") == NULL;
}

bool fault_is_release(const fault *f)
{
    return strncmp(f->failed, "clRelease", 9) == 0;
}

bool fault_summary(const char *what, unsigned survived, unsigned all)
{
    printf("faults: %s: %u of %u survived\n", what, survived, all);
    fflush(stdout);
    return survived == all && all > 0;
}
