// Faults made up in the wrapped driver: each call fails in turn, with each code that the OpenCL
// specification has for it, or a command is lost.
#ifndef KQ_OPENCL_FAULTS_H
#define KQ_OPENCL_FAULTS_H

#include "support.h"
#include "wrapped_opencl.h"

// The codes of a call. The first is CL_OUT_OF_HOST_MEMORY, which any call may give.
const cl_int *fault_codes(const char *call, unsigned *count);

// What a fault came to.
typedef struct fault {
    unsigned seen;    // calls, or commands
    char failed[64];  // the call that failed, or whose command was lost; "": there are fewer
    cl_int code;
} fault;

// The number-th call, from 1, of those of that name if it isn't NULL, fails; 0: every one does.
// fault_end ends that.
void fault_fail(wrapped_opencl *wrapped, const char *call, unsigned number, cl_int code);

// The number-th command is not carried out. status: below 0, how its event then ends.
void fault_lose(wrapped_opencl *wrapped, unsigned number, cl_int status);

const fault *fault_end(wrapped_opencl *wrapped);

// The library's answer to a failed call.
kq_result fault_result(const fault *f);

// Whether the report has the call and the code in it.
bool fault_is_named(const fault *f, const report *report);

bool fault_is_release(const fault *f);

// Machine-readable: "faults: WHAT: 12 of 13 survived". Returns whether all were.
bool fault_summary(const char *what, unsigned survived, unsigned all);

#endif
