#define _POSIX_C_SOURCE 200809L
#include "wrapped_opencl_inside.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME(name) #name,
static const char *const call_names[CALL_COUNT] = {FUNCTIONS(NAME) "clCreateProgramWithILKHR"};
#undef NAME

wrapped_functions wrapped_real;
wrapped_opencl *wrapped_current;
_Thread_local bool wrapped_is_building;

static void *library;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned notice_count;

kq_proc wrapped_opencl_direct(const char *name)
{
    kq_proc proc = NULL;
    if (library == NULL) {
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    }
    if (library != NULL) {
        // ISO C has no cast from an object pointer to a function pointer; POSIX promises the copy.
        void *symbol = dlsym(library, name);
        memcpy(&proc, &symbol, sizeof proc);
    }
    return proc;
}

// --- Bookkeeping

struct wrapped_object {
    void *handle;
    wrapped_kind kind;
    int references;
    bool is_translated;
    char kernel[32];
    cl_int status;  // of an event: below 0, or the driver's
};

cl_int wrapped_begin(int call)
{
    pthread_mutex_lock(&mutex);
    wrapped_current->call_count++;
    unsigned number = ++wrapped_current->calls[call];
    pthread_mutex_unlock(&mutex);
    return wrapped_current->fail != NULL
               ? wrapped_current->fail(wrapped_current->fail_user, call_names[call], number)
               : CL_SUCCESS;
}

// The mutex is held.
static struct wrapped_object *find_object(const void *handle, wrapped_kind kind)
{
    for (size_t i = 0; i < wrapped_current->object_count; i++) {
        if (wrapped_current->objects[i].handle == handle &&
            wrapped_current->objects[i].kind == kind) {
            return &wrapped_current->objects[i];
        }
    }
    return NULL;
}

void wrapped_add(wrapped_kind kind, void *handle, bool is_translated, const char *kernel)
{
    if (handle == NULL) {
        return;
    }
    pthread_mutex_lock(&mutex);
    struct wrapped_object *object = find_object(handle, kind);
    if (object == NULL) {
        if (wrapped_current->object_count == wrapped_current->object_capacity) {
            wrapped_current->object_capacity = 2 * wrapped_current->object_capacity + 64;
            wrapped_current->objects =
                realloc(wrapped_current->objects,
                        wrapped_current->object_capacity * sizeof *wrapped_current->objects);
            if (wrapped_current->objects == NULL) {
                abort();
            }
        }
        object = &wrapped_current->objects[wrapped_current->object_count++];
        *object =
            (struct wrapped_object){.handle = handle, .kind = kind, .is_translated = is_translated};
        snprintf(object->kernel, sizeof object->kernel, "%s", kernel);
    }
    object->references++;
    wrapped_current->live[kind]++;
    pthread_mutex_unlock(&mutex);
}

void wrapped_remove(wrapped_kind kind, const void *handle)
{
    pthread_mutex_lock(&mutex);
    struct wrapped_object *object = find_object(handle, kind);
    if (object == NULL) {
        wrapped_current->foreign_releases++;
    } else {
        wrapped_current->live[kind]--;
        if (--object->references == 0) {
            *object = wrapped_current->objects[--wrapped_current->object_count];
        }
    }
    pthread_mutex_unlock(&mutex);
}

bool wrapped_is_translated(cl_program program)
{
    pthread_mutex_lock(&mutex);
    const struct wrapped_object *object = find_object(program, WRAPPED_PROGRAM);
    bool is_translated = object != NULL && object->is_translated;
    pthread_mutex_unlock(&mutex);
    return is_translated;
}

void wrapped_count_il(void)
{
    pthread_mutex_lock(&mutex);
    wrapped_current->il_count++;
    pthread_mutex_unlock(&mutex);
}

void *wrapped_give_up(cl_int code, cl_int *out)
{
    if (out != NULL) {
        *out = code == WRAPPED_NO_OBJECT ? CL_SUCCESS : code;
    }
    return NULL;
}

// An enqueued command's event is the caller's to release.
static cl_int add_event(cl_int code, const cl_event *event)
{
    if (code == CL_SUCCESS && event != NULL) {
        wrapped_add(WRAPPED_EVENT, *event, false, "");
    }
    return code;
}

// How the wrapper ended an event; 0 where it did not.
static cl_int status_of(cl_event event)
{
    pthread_mutex_lock(&mutex);
    const struct wrapped_object *object = find_object(event, WRAPPED_EVENT);
    cl_int status = object != NULL ? object->status : 0;
    pthread_mutex_unlock(&mutex);
    return status;
}

// Whether a command is not to be carried out.
static bool is_lost(int call, cl_uint wait_count, const cl_event *waits, cl_int *status)
{
    bool lost = false;
    *status = 0;
    for (cl_uint i = 0; i < wait_count && *status == 0; i++) {
        *status = status_of(waits[i]) < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : 0;
        lost = *status < 0;
    }
    return lost || (wrapped_current->lose != NULL &&
                    wrapped_current->lose(wrapped_current->lose_user, call_names[call], status));
}

// A marker in the place of a command.
static cl_int lose_command(cl_command_queue queue, bool is_blocking, cl_int status,
                           cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    cl_int code =
        add_event(wrapped_real.clEnqueueMarkerWithWaitList(queue, wait_count, waits, event), event);
    if (code == CL_SUCCESS && event != NULL) {
        pthread_mutex_lock(&mutex);
        find_object(*event, WRAPPED_EVENT)->status = status;
        pthread_mutex_unlock(&mutex);
    }
    if (code == CL_SUCCESS && is_blocking) {
        code = wrapped_real.clFinish(queue);
    }
    return code == CL_SUCCESS && is_blocking && status < 0 ? status : code;
}

// --- What the device shows

bool wrapped_takes_spirv(cl_device_id device)
{
    char languages[256] = "";
    char version[256] = "";
    unsigned major = 0;
    unsigned minor = 0;
    // Drivers below 2.1 are not asked, for not all of them refuse.
    return wrapped_real.clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL) ==
               CL_SUCCESS &&
           sscanf(version, "OpenCL %u.%u", &major, &minor) == 2 && 100 * major + minor >= 201 &&
           wrapped_real.clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof languages, languages,
                                        NULL) == CL_SUCCESS &&
           strstr(languages, "SPIR-V") != NULL;
}

wrapped_il wrapped_emulated_il(cl_device_id device)
{
    return wrapped_current->il == WRAPPED_IL_OF_DRIVER || wrapped_takes_spirv(device)
               ? WRAPPED_IL_OF_DRIVER
               : wrapped_current->il;
}

// The text that a device shows in place of the driver's; NULL if none.
static const char *shown_text(cl_device_id device, cl_device_info info)
{
    wrapped_il il = wrapped_emulated_il(device);
    switch (info) {
    case CL_DEVICE_VERSION:
        return wrapped_current->version != NULL ? wrapped_current->version
               : il == WRAPPED_IL_CORE          ? "OpenCL 2.1 wrapped"
               : il == WRAPPED_IL_EXTENSION     ? "OpenCL 1.2 wrapped"
                                                : NULL;
    case CL_DEVICE_PROFILE: return wrapped_current->profile;
    case CL_DEVICE_EXTENSIONS:
        return wrapped_current->extensions != NULL ? wrapped_current->extensions
               : il == WRAPPED_IL_EXTENSION        ? "cl_khr_spir cl_khr_il_program"
                                                   : NULL;
    case CL_DEVICE_IL_VERSION: return il != WRAPPED_IL_OF_DRIVER ? "SPIR-V_1.0" : NULL;
    default: return NULL;
    }
}

// The number that a device shows in place of the driver's; false if none.
static bool shown_number(cl_device_info info, void *value, size_t *bytes)
{
    cl_bool flag = CL_FALSE;
    const void *from = NULL;
    switch (info) {
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        *bytes = sizeof wrapped_current->max_mem_alloc_size;
        from =
            wrapped_current->max_mem_alloc_size != 0 ? &wrapped_current->max_mem_alloc_size : NULL;
        break;
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR:
        *bytes = sizeof wrapped_current->native_vector_width_char;
        from = wrapped_current->native_vector_width_char != 0
                   ? &wrapped_current->native_vector_width_char
                   : NULL;
        break;
    case CL_DEVICE_LOCAL_MEM_SIZE:
        *bytes = sizeof wrapped_current->local_mem_size;
        from = wrapped_current->local_mem_size != 0 ? &wrapped_current->local_mem_size : NULL;
        break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        *bytes = sizeof wrapped_current->max_work_group_size;
        from = wrapped_current->max_work_group_size != 0 ? &wrapped_current->max_work_group_size
                                                         : NULL;
        break;
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        *bytes = sizeof wrapped_current->max_work_item_sizes;
        from = wrapped_current->max_work_item_sizes[0] != 0 ? wrapped_current->max_work_item_sizes
                                                            : NULL;
        break;
    case CL_DEVICE_ADDRESS_BITS:
        *bytes = sizeof wrapped_current->address_bits;
        from = wrapped_current->address_bits != 0 ? &wrapped_current->address_bits : NULL;
        break;
    case CL_DEVICE_ENDIAN_LITTLE:
        *bytes = sizeof flag;
        from = wrapped_current->is_big_endian ? &flag : NULL;
        break;
    case CL_DEVICE_COMPILER_AVAILABLE:
        *bytes = sizeof flag;
        from = wrapped_current->has_no_compiler ? &flag : NULL;
        break;
    default: break;
    }
    if (from != NULL) {
        memcpy(value, from, *bytes);
    }
    return from != NULL;
}

cl_int wrapped_answer(const void *data, size_t bytes, size_t size, void *value, size_t *size_ret)
{
    if (value != NULL && size < bytes) {
        return CL_INVALID_VALUE;
    }
    if (value != NULL) {
        memcpy(value, data, bytes);
    }
    if (size_ret != NULL) {
        *size_ret = bytes;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL wrap_clGetDeviceInfo(cl_device_id device, cl_device_info info,
                                               size_t size, void *value, size_t *size_ret)
{
    cl_ulong number[3] = {0};
    size_t bytes = 0;
    cl_int code = wrapped_begin(CALL_clGetDeviceInfo);
    if (code != CL_SUCCESS) {
        return code;
    }
    const char *text = shown_text(device, info);
    if (text != NULL) {
        return wrapped_answer(text, strlen(text) + 1, size, value, size_ret);
    }
    if (info == CL_DEVICE_IL_VERSION && wrapped_current->version != NULL) {
        return CL_INVALID_VALUE;  // as a driver of OpenCL 1.2 says
    }
    if (shown_number(info, number, &bytes)) {
        return wrapped_answer(number, bytes, size, value, size_ret);
    }
    return wrapped_real.clGetDeviceInfo(device, info, size, value, size_ret);
}

// --- Calls that are counted only

#define FORWARD(name, parameters, arguments)                                                       \
 static cl_int CL_API_CALL wrap_##name parameters                                                  \
 {                                                                                                 \
  cl_int code = wrapped_begin(CALL_##name);                                                        \
  return code != CL_SUCCESS ? code : wrapped_real.name arguments;                                  \
 }

FORWARD(clGetPlatformIDs, (cl_uint capacity, cl_platform_id *platforms, cl_uint *count),
        (capacity, platforms, count))
FORWARD(clGetPlatformInfo,
        (cl_platform_id platform, cl_platform_info info, size_t size, void *value, size_t *ret),
        (platform, info, size, value, ret))
FORWARD(clGetDeviceIDs,
        (cl_platform_id platform, cl_device_type type, cl_uint capacity, cl_device_id *devices,
         cl_uint *count),
        (platform, type, capacity, devices, count))
FORWARD(clGetContextInfo,
        (cl_context context, cl_context_info info, size_t size, void *value, size_t *ret),
        (context, info, size, value, ret))
FORWARD(clGetMemObjectInfo,
        (cl_mem memory, cl_mem_info info, size_t size, void *value, size_t *ret),
        (memory, info, size, value, ret))
FORWARD(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
        (kernel, index, size, value))
FORWARD(clGetKernelWorkGroupInfo,
        (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info info, size_t size,
         void *value, size_t *ret),
        (kernel, device, info, size, value, ret))
FORWARD(clWaitForEvents, (cl_uint count, const cl_event *events), (count, events))
FORWARD(clGetEventProfilingInfo,
        (cl_event event, cl_profiling_info info, size_t size, void *value, size_t *ret),
        (event, info, size, value, ret))
FORWARD(clFlush, (cl_command_queue queue), (queue))
FORWARD(clFinish, (cl_command_queue queue), (queue))

static cl_int CL_API_CALL wrap_clGetEventInfo(cl_event event, cl_event_info info, size_t size,
                                              void *value, size_t *size_ret)
{
    cl_int code = wrapped_begin(CALL_clGetEventInfo);
    if (code != CL_SUCCESS) {
        return code;
    }
    cl_int status = wrapped_current->execution_status;
    status = status == 0 ? status_of(event) : status;
    if (info == CL_EVENT_COMMAND_EXECUTION_STATUS && status != 0) {
        return wrapped_answer(&status, sizeof status, size, value, size_ret);
    }
    return wrapped_real.clGetEventInfo(event, info, size, value, size_ret);
}

// --- Objects

#define RETAIN_AND_RELEASE(retain, release, type, kind)                                            \
 static cl_int CL_API_CALL wrap_##retain(type object)                                              \
 {                                                                                                 \
  cl_int code = wrapped_begin(CALL_##retain);                                                      \
  code = code != CL_SUCCESS ? code : wrapped_real.retain(object);                                  \
  if (code == CL_SUCCESS) {                                                                        \
   wrapped_add(kind, object, false, "");                                                           \
  }                                                                                                \
  return code;                                                                                     \
 }                                                                                                 \
 static cl_int CL_API_CALL wrap_##release(type object)                                             \
 {                                                                                                 \
  cl_int code = wrapped_begin(CALL_##release);                                                     \
  wrapped_remove(kind, object);                                                                    \
  cl_int released = wrapped_real.release(object);                                                  \
  return code != CL_SUCCESS ? code : released;                                                     \
 }

RETAIN_AND_RELEASE(clRetainContext, clReleaseContext, cl_context, WRAPPED_CONTEXT)
RETAIN_AND_RELEASE(clRetainCommandQueue, clReleaseCommandQueue, cl_command_queue, WRAPPED_QUEUE)
RETAIN_AND_RELEASE(clRetainMemObject, clReleaseMemObject, cl_mem, WRAPPED_BUFFER)
RETAIN_AND_RELEASE(clRetainProgram, clReleaseProgram, cl_program, WRAPPED_PROGRAM)
RETAIN_AND_RELEASE(clRetainKernel, clReleaseKernel, cl_kernel, WRAPPED_KERNEL)
RETAIN_AND_RELEASE(clRetainEvent, clReleaseEvent, cl_event, WRAPPED_EVENT)

void CL_CALLBACK wrapped_opencl_notify(const char *text, const void *data, size_t bytes, void *user)
{
    (void)data;
    (void)bytes;
    (void)user;
    if (wrapped_is_building) {
        return;
    }
    pthread_mutex_lock(&mutex);
    notice_count++;
    pthread_mutex_unlock(&mutex);
    fprintf(stderr, "the driver says: %s\n", text);
}

static cl_context CL_API_CALL wrap_clCreateContext(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateContext);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    if (notify == NULL) {
        notify = wrapped_opencl_notify;
        user = NULL;
    }
    wrapped_opencl_count_reports();
    cl_context made = wrapped_real.clCreateContext(properties, count, devices, notify, user, out);
    wrapped_add(WRAPPED_CONTEXT, made, false, "");
    return made;
}

static cl_command_queue CL_API_CALL wrap_clCreateCommandQueue(
    cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateCommandQueue);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    cl_command_queue made = wrapped_real.clCreateCommandQueue(context, device, properties, out);
    wrapped_add(WRAPPED_QUEUE, made, false, "");
    return made;
}

static cl_mem CL_API_CALL wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size,
                                              void *host, cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateBuffer);
    if (code == CL_SUCCESS && wrapped_current->max_mem_alloc_size != 0 &&
        size > wrapped_current->max_mem_alloc_size) {
        code = CL_INVALID_BUFFER_SIZE;
    }
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    cl_mem made = wrapped_real.clCreateBuffer(context, flags, size, host, out);
    wrapped_add(WRAPPED_BUFFER, made, false, "");
    return made;
}

static cl_mem CL_API_CALL wrap_clCreateSubBuffer(cl_mem parent, cl_mem_flags flags,
                                                 cl_buffer_create_type type, const void *info,
                                                 cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateSubBuffer);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    cl_mem made = wrapped_real.clCreateSubBuffer(parent, flags, type, info, out);
    wrapped_add(WRAPPED_BUFFER, made, false, "");
    return made;
}

// --- Commands

static cl_int CL_API_CALL wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                      cl_uint dimensions, const size_t *offset,
                                                      const size_t *global, const size_t *local,
                                                      cl_uint wait_count, const cl_event *waits,
                                                      cl_event *event)
{
    cl_int code = wrapped_begin(CALL_clEnqueueNDRangeKernel);
    size_t items = 1;
    for (cl_uint i = 0; i < dimensions; i++) {
        items *= local != NULL ? local[i] : 1;
    }
    if (code == CL_SUCCESS && wrapped_current->max_work_group_size != 0 &&
        items > wrapped_current->max_work_group_size) {
        code = CL_INVALID_WORK_GROUP_SIZE;
    }
    if (code != CL_SUCCESS) {
        return code;
    }
    cl_int status = 0;
    bool lost = is_lost(CALL_clEnqueueNDRangeKernel, wait_count, waits, &status);
    code = lost || wrapped_current->loses_launches
               ? lose_command(queue, false, status, wait_count, waits, event)
               : add_event(wrapped_real.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset,
                                                               global, local, wait_count, waits,
                                                               event),
                           event);
    pthread_mutex_lock(&mutex);
    if (code == CL_SUCCESS && wrapped_current->launch_count++ < WRAPPED_LAUNCH_CAPACITY) {
        wrapped_launch *launch = &wrapped_current->launches[wrapped_current->launch_count - 1];
        const struct wrapped_object *object = find_object(kernel, WRAPPED_KERNEL);
        *launch = (wrapped_launch){.queue = queue,
                                   .wait_count = wait_count,
                                   .first_wait = wait_count > 0 ? waits[0] : NULL,
                                   .event = event != NULL ? *event : NULL};
        memcpy(launch->kernel, object != NULL ? object->kernel : "?", object != NULL ? 32 : 2);
    }
    pthread_mutex_unlock(&mutex);
    return code;
}

static void add_bytes(cl_int code, uint64_t *counter, size_t bytes)
{
    pthread_mutex_lock(&mutex);
    *counter += code == CL_SUCCESS ? bytes : 0;
    pthread_mutex_unlock(&mutex);
}

static cl_int CL_API_CALL wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer,
                                                   cl_bool is_blocking, size_t offset, size_t bytes,
                                                   void *data, cl_uint wait_count,
                                                   const cl_event *waits, cl_event *event)
{
    cl_int status = 0;
    cl_int code = wrapped_begin(CALL_clEnqueueReadBuffer);
    if (code == CL_SUCCESS && is_lost(CALL_clEnqueueReadBuffer, wait_count, waits, &status)) {
        return lose_command(queue, is_blocking, status, wait_count, waits, event);
    }
    if (code == CL_SUCCESS) {
        code = add_event(wrapped_real.clEnqueueReadBuffer(queue, buffer, is_blocking, offset, bytes,
                                                          data, wait_count, waits, event),
                         event);
        add_bytes(code, &wrapped_current->bytes_read, bytes);
    }
    return code;
}

static cl_int CL_API_CALL wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer,
                                                    cl_bool is_blocking, size_t offset,
                                                    size_t bytes, const void *data,
                                                    cl_uint wait_count, const cl_event *waits,
                                                    cl_event *event)
{
    cl_int status = 0;
    cl_int code = wrapped_begin(CALL_clEnqueueWriteBuffer);
    if (code == CL_SUCCESS && is_lost(CALL_clEnqueueWriteBuffer, wait_count, waits, &status)) {
        return lose_command(queue, is_blocking, status, wait_count, waits, event);
    }
    if (code == CL_SUCCESS) {
        code = add_event(wrapped_real.clEnqueueWriteBuffer(queue, buffer, is_blocking, offset,
                                                           bytes, data, wait_count, waits, event),
                         event);
        add_bytes(code, &wrapped_current->bytes_written, bytes);
    }
    return code;
}

static cl_int CL_API_CALL wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                                   size_t from_offset, size_t to_offset,
                                                   size_t bytes, cl_uint wait_count,
                                                   const cl_event *waits, cl_event *event)
{
    cl_int status = 0;
    cl_int code = wrapped_begin(CALL_clEnqueueCopyBuffer);
    if (code == CL_SUCCESS && is_lost(CALL_clEnqueueCopyBuffer, wait_count, waits, &status)) {
        return lose_command(queue, false, status, wait_count, waits, event);
    }
    if (code == CL_SUCCESS) {
        code = add_event(wrapped_real.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset,
                                                          bytes, wait_count, waits, event),
                         event);
        add_bytes(code, &wrapped_current->bytes_copied, bytes);
    }
    return code;
}

static cl_int CL_API_CALL wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer,
                                                   const void *pattern, size_t pattern_bytes,
                                                   size_t offset, size_t bytes, cl_uint wait_count,
                                                   const cl_event *waits, cl_event *event)
{
    cl_int status = 0;
    cl_int code = wrapped_begin(CALL_clEnqueueFillBuffer);
    if (code == CL_SUCCESS && is_lost(CALL_clEnqueueFillBuffer, wait_count, waits, &status)) {
        return lose_command(queue, false, status, wait_count, waits, event);
    }
    return code != CL_SUCCESS
               ? code
               : add_event(wrapped_real.clEnqueueFillBuffer(queue, buffer, pattern, pattern_bytes,
                                                            offset, bytes, wait_count, waits,
                                                            event),
                           event);
}

#define WAIT_LIST_COMMAND(name)                                                                    \
 static cl_int CL_API_CALL wrap_##name(cl_command_queue queue, cl_uint wait_count,                 \
                                       const cl_event *waits, cl_event *event)                     \
 {                                                                                                 \
  cl_int code = wrapped_begin(CALL_##name);                                                        \
  return code != CL_SUCCESS                                                                        \
             ? code                                                                                \
             : add_event(wrapped_real.name(queue, wait_count, waits, event), event);               \
 }
WAIT_LIST_COMMAND(clEnqueueMarkerWithWaitList)
WAIT_LIST_COMMAND(clEnqueueBarrierWithWaitList)

// --- The wrapper

static kq_proc find(void *user, const char *name)
{
    const wrapped_opencl *wrapped = user;
    if (wrapped->missing_name != NULL && strcmp(wrapped->missing_name, name) == 0) {
        return NULL;
    }
#define FIND(function)                                                                             \
 if (strcmp(name, #function) == 0) {                                                               \
  return wrapped_real.function != NULL ? (kq_proc)wrap_##function : NULL;                          \
 }
    FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

kq_lookup wrapped_opencl_lookup(wrapped_opencl *wrapped)
{
    if (wrapped_opencl_direct("clGetPlatformIDs") == NULL) {
        return (kq_lookup){NULL, NULL};
    }
#define LOAD(name) wrapped_real.name = (cl_api_##name)wrapped_opencl_direct(#name);
    FUNCTIONS(LOAD)
#undef LOAD
    wrapped_current = wrapped;
    return (kq_lookup){find, wrapped};
}

void wrapped_opencl_reset(wrapped_opencl *wrapped)
{
    wrapped->call_count = 0;
    memset(wrapped->calls, 0, sizeof wrapped->calls);
    wrapped->il_count = 0;
    wrapped->bytes_written = 0;
    wrapped->bytes_read = 0;
    wrapped->bytes_copied = 0;
    wrapped->launch_count = 0;
    wrapped->foreign_releases = 0;
}

unsigned wrapped_opencl_calls(const wrapped_opencl *wrapped, const char *name)
{
    for (int i = 0; i < CALL_COUNT; i++) {
        if (strcmp(call_names[i], name) == 0) {
            return wrapped->calls[i];
        }
    }
    fprintf(stderr, "%s is not wrapped\n", name);
    abort();
}

unsigned wrapped_opencl_launches(const wrapped_opencl *wrapped, const char *kernel)
{
    unsigned count = 0;
    if (kernel == NULL) {
        return wrapped->launch_count;
    }
    if (wrapped->launch_count > WRAPPED_LAUNCH_CAPACITY) {
        fprintf(stderr, "more launches than the wrapper keeps\n");
        abort();
    }
    for (unsigned i = 0; i < wrapped->launch_count; i++) {
        count += strcmp(wrapped->launches[i].kernel, kernel) == 0;
    }
    return count;
}

unsigned wrapped_opencl_modules(bool is_own_device)
{
    unsigned modules = 0;
    size_t count = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    for (size_t i = 0; i < count; i++) {
        modules += kernels[i].api == KQ_API_OPENCL && kernels[i].address_bits == 64 &&
                   kernels[i].spirv != NULL &&
                   (is_own_device || strcmp(kernels[i].name, "bandwidth.base") != 0);
    }
    return modules;
}

int wrapped_opencl_live(const wrapped_opencl *wrapped)
{
    int count = 0;
    for (int i = 0; i < WRAPPED_KIND_COUNT; i++) {
        count += wrapped->live[i];
    }
    return count;
}

void wrapped_opencl_free(wrapped_opencl *wrapped)
{
    free(wrapped->objects);
    wrapped->objects = NULL;
    wrapped->object_count = 0;
    wrapped->object_capacity = 0;
}

// --- Oclgrind's reports

static char report_path[512];
static unsigned report_count;
static long log_bytes;  // of the log when it was last read

static void remove_log(void)
{
    remove(report_path);
}

void wrapped_opencl_watch(bool uninitialised)
{
    const char *folder = getenv("TMPDIR");
    if (report_path[0] == '\0') {
        snprintf(report_path, sizeof report_path, "%s/kquant-reports-XXXXXX",
                 folder != NULL ? folder : "/tmp");
        int file = mkstemp(report_path);
        if (file < 0) {
            fprintf(stderr, "no temporary file for reports\n");
            abort();
        }
        close(file);
        atexit(remove_log);
    }
    setenv("OCLGRIND_LOG", report_path, 1);
    setenv("OCLGRIND_CHECK_API", "1", 1);
    setenv("OCLGRIND_DATA_RACES", "1", 1);
    if (uninitialised) {
        setenv("OCLGRIND_UNINITIALIZED", "1", 1);
    } else {
        unsetenv("OCLGRIND_UNINITIALIZED");
    }
}

unsigned wrapped_opencl_count_reports(void)
{
    enum { LINES_SHOWN = 24 };
    char line[512];
    unsigned lines = 0;
    FILE *file = report_path[0] != '\0' ? fopen(report_path, "r") : NULL;
    if (file == NULL) {
        return report_count + notice_count;
    }
    if (fseek(file, 0, SEEK_END) != 0 || ftell(file) < log_bytes) {
        log_bytes = 0;
    }
    fseek(file, log_bytes, SEEK_SET);
    while (fgets(line, sizeof line, file) != NULL) {
        if (lines++ < LINES_SHOWN) {
            fputs(line, stderr);
        }
        // A report is a line at the margin, with its details indented below.
        report_count += line[0] != '\n' && line[0] != '\t' && line[0] != ' ';
    }
    log_bytes = ftell(file);
    fclose(file);
    return report_count + notice_count;
}
