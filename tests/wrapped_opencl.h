// The wrapped driver for OpenCL: a lookup whose functions forward to the system's ICD loader, and
// on the way count calls and objects, show other limits than the driver has, and fail when told to.
//
// OpenCL's functions carry no user pointer, so one wrapper is in use at a time: the one that
// wrapped_opencl_lookup() was called for last. Any number of threads may call through it.
#ifndef KQ_WRAPPED_OPENCL_H
#define KQ_WRAPPED_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
# define CL_TARGET_OPENCL_VERSION 210
#endif
#include <CL/cl_icd.h>
#include <kquant/kquant.h>

#include <stdbool.h>

// How the device takes SPIR-V.
typedef enum wrapped_il {
    WRAPPED_IL_OF_DRIVER = 0,
    WRAPPED_IL_CORE,       // it shows OpenCL 2.1 and clCreateProgramWithIL
    WRAPPED_IL_EXTENSION,  // it shows OpenCL 1.2, cl_khr_il_program and clCreateProgramWithILKHR
} wrapped_il;

typedef enum wrapped_kind {
    WRAPPED_CONTEXT,
    WRAPPED_QUEUE,
    WRAPPED_BUFFER,
    WRAPPED_PROGRAM,
    WRAPPED_KERNEL,
    WRAPPED_EVENT,
    WRAPPED_KIND_COUNT,
} wrapped_kind;

// One clEnqueueNDRangeKernel that succeeded.
typedef struct wrapped_launch {
    char kernel[32];
    cl_command_queue queue;
    cl_uint wait_count;
    cl_event first_wait;  // NULL if none
    cl_event event;       // NULL if not asked for
} wrapped_launch;

enum { WRAPPED_CALL_CAPACITY = 48, WRAPPED_LAUNCH_CAPACITY = 64 };

// An answer of `fail`: the call that should make an object says CL_SUCCESS, and makes none.
enum { WRAPPED_NO_OBJECT = 1 };

typedef struct wrapped_opencl {
    // What the device shows, and the wrapper then holds to. 0 or NULL: what the driver says.
    const char *version;
    const char *profile;
    const char *extensions;
    cl_ulong max_mem_alloc_size;
    cl_uint native_vector_width_char;
    cl_ulong local_mem_size;
    size_t max_work_group_size;
    size_t max_work_item_sizes[3];
    cl_uint address_bits;
    bool is_big_endian;
    bool has_no_compiler;

    // Emulated by the translator llvm-spirv (14) and a driver that takes LLVM bitcode of SPIR, so
    // that the modules themselves run. A driver that takes SPIR-V is left to do so.
    wrapped_il il;

    // Asked before each call: its name and its number among the calls of that name, from 1. What
    // is not CL_SUCCESS is the call's answer, and the driver isn't called, but for releases, which
    // are carried out all the same.
    cl_int (*fail)(void *user, const char *call, unsigned number);
    void *fail_user;
    // Asked of each launch, read, write, copy and fill that the driver is to be given. True: it is
    // not carried out, and the call says CL_SUCCESS all the same. *status, below 0, is then what
    // its event says, which also befalls what waits for it; 0: even that says all is well.
    bool (*lose)(void *user, const char *call, cl_int *status);
    void *lose_user;
    const char *build_log;     // in place of the driver's
    size_t build_log_bytes;    // 0: a string's, with its end
    const char *more_options;  // of each build, behind its own
    const char *missing_name;  // the lookup doesn't find this one
    cl_int execution_status;   // not 0: how every command ended, for those who ask
    bool loses_launches;       // kernels don't run, and nobody says so
    // The compiler reads the first text as the second, of the same length, wherever it stands in
    // the source of the kernel of that name. NULL: it is right.
    const char *misread_kernel, *misread, *misread_as;
    unsigned misread_count;

    // What was seen. wrapped_opencl_reset() sets these to 0, but for live objects.
    unsigned call_count;
    unsigned calls[WRAPPED_CALL_CAPACITY];  // by name: wrapped_opencl_calls()
    unsigned il_count;                      // programs made from SPIR-V
    uint64_t bytes_written, bytes_read, bytes_copied;
    unsigned launch_count;
    wrapped_launch launches[WRAPPED_LAUNCH_CAPACITY];  // the first ones
    int live[WRAPPED_KIND_COUNT];  // references made through the wrapper and not yet released
    unsigned foreign_releases;     // of objects that were not made through the wrapper

    struct wrapped_object *objects;
    size_t object_count, object_capacity;
} wrapped_opencl;

// A lookup without fn where there is no OpenCL loader. It finds the functions that are wrapped, and
// no others, so that none escapes the counting.
kq_lookup wrapped_opencl_lookup(wrapped_opencl *wrapped);

// A function of the loader itself; NULL where there is none.
kq_proc wrapped_opencl_direct(const char *name);

void wrapped_opencl_reset(wrapped_opencl *wrapped);

// Calls of a function, the failed ones too.
unsigned wrapped_opencl_calls(const wrapped_opencl *wrapped, const char *name);

// The launches of a kernel, or of all if name is NULL.
unsigned wrapped_opencl_launches(const wrapped_opencl *wrapped, const char *kernel);

// The SPIR-V modules that a pack of all kernels is made of: an engine's, or that of an own device.
unsigned wrapped_opencl_modules(bool is_own_device);

// Live objects of all kinds.
int wrapped_opencl_live(const wrapped_opencl *wrapped);

// Frees what the wrapper keeps, not what is live.
void wrapped_opencl_free(wrapped_opencl *wrapped);

// Oclgrind reports bad memory accesses, races and misuse of the API, and, four times slower, reads
// of uninitialised memory. Call watch before a context is made that is to be watched, and before
// anything else of OpenCL. Count is the number of reports up to now; the first lines of each log
// are printed. A new context begins Oclgrind's log anew, so count before you make one; the wrapper
// does. Contexts made through the wrapper have notify as their callback, which counts too; not what
// is said of a build, whose result is an answer.
void wrapped_opencl_watch(bool uninitialised);
unsigned wrapped_opencl_count_reports(void);
void CL_CALLBACK wrapped_opencl_notify(const char *text, const void *data, size_t bytes,
                                       void *user);

#endif
