// Level 2 on OpenCL: one context, and two queues, in order and out of order, for all threads. What
// kquant calls goes through the wrapped driver, which counts its objects.
#include "../wrapped_opencl.h"

#include "soak.h"

#include "../support.h"

#include <kquant/opencl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define ENGINE_FUNCTIONS(f)                                                                        \
    f(clGetPlatformIDs)                                                                            \
    f(clGetDeviceIDs)                                                                              \
    f(clCreateContext)                                                                             \
    f(clReleaseContext)                                                                            \
    f(clCreateCommandQueue)                                                                        \
    f(clReleaseCommandQueue)                                                                       \
    f(clCreateBuffer)                                                                              \
    f(clReleaseMemObject)                                                                          \
    f(clEnqueueReadBuffer)                                                                         \
    f(clEnqueueWriteBuffer)                                                                        \
    f(clWaitForEvents)                                                                             \
    f(clReleaseEvent)
// clang-format on

typedef struct opencl_engine {
    cl_device_id device;
    cl_context context;
    cl_command_queue queues[2];  // the second NULL where the driver has none out of order
    kq_opencl *pack;
    cl_api_clReleaseEvent release_counted;  // of events that the wrapped driver made
    struct {
#define MEMBER(name) cl_api_##name name;
        ENGINE_FUNCTIONS(MEMBER)
#undef MEMBER
    } cl;
} opencl_engine;

static wrapped_opencl wrapped;

static kq_lookup lookup;

// There is no layer.
static kq_lookup opencl_lookup(bool is_validated)
{
    (void)is_validated;
    lookup = wrapped_opencl_lookup(&wrapped);
    return lookup;
}

static unsigned opencl_messages(void)
{
    return wrapped_opencl_count_reports() + wrapped.foreign_releases;
}

static long opencl_live(void)
{
    return wrapped_opencl_live(&wrapped);
}

// --- The engine

static kq_opencl_params pack_params(const opencl_engine *e)
{
    return (kq_opencl_params){
        .lookup = lookup,
        .context = e->context,
        .device = e->device,
        .cache = soak_cache(),
        .errors = soak_errors(),
    };
}

static void opencl_close(void *engine)
{
    opencl_engine *e = engine;
    kq_opencl_destroy(&e->pack);
    for (int i = 0; i < 2; i++) {
        if (e->queues[i] != NULL) {
            e->cl.clReleaseCommandQueue(e->queues[i]);
        }
    }
    if (e->context != NULL) {
        e->cl.clReleaseContext(e->context);
    }
    free(e);
}

static bool load(opencl_engine *e)
{
    bool is_found = lookup.fn != NULL;
#define LOAD(name)                                                                                 \
 e->cl.name = (cl_api_##name)wrapped_opencl_direct(#name);                                         \
 is_found = is_found && e->cl.name != NULL;
    ENGINE_FUNCTIONS(LOAD)
#undef LOAD
    e->release_counted =
        is_found ? (cl_api_clReleaseEvent)lookup.fn(lookup.user, "clReleaseEvent") : NULL;
    return is_found;
}

static bool open_context(opencl_engine *e)
{
    cl_platform_id platform = NULL;
    cl_int code = CL_SUCCESS;
    if (e->cl.clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        e->cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &e->device, NULL) != CL_SUCCESS) {
        return false;
    }
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)platform, 0};
    e->context =
        e->cl.clCreateContext(properties, 1, &e->device, wrapped_opencl_notify, NULL, &code);
    if (code != CL_SUCCESS) {
        return false;
    }
    e->queues[0] = e->cl.clCreateCommandQueue(e->context, e->device, 0, &code);
    e->queues[1] = e->cl.clCreateCommandQueue(e->context, e->device,
                                              CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    const kq_opencl_params params = pack_params(e);
    return e->queues[0] != NULL && kq_opencl_create(&params, &e->pack) == KQ_OK;
}

static void *opencl_open(void)
{
    opencl_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    if (!load(e) || !open_context(e)) {
        soak_complain("no OpenCL device, or no pack");
        opencl_close(e);
        return NULL;
    }
    return e;
}

// Threads share everything.
static void *opencl_lane_open(void *engine)
{
    return engine;
}

static void opencl_lane_close(void *lane)
{
    (void)lane;
}

// --- A job

enum { VALUES, RECORDS, LHS, RESULT, STATUS, SELF_TEST, SCRATCH, BUFFER_COUNT };

typedef struct opencl_work {
    const kq_opencl *pack;
    kq_opencl *own_pack;
    cl_command_queue queue, own_queue;
    cl_mem buffers[BUFFER_COUNT];
    size_t bytes[BUFFER_COUNT];
    unsigned char *contents[BUFFER_COUNT];
    unsigned char self_test[KQ_SELF_TEST_BYTES];
    kq_status status;
    // Writes, then the self-test, quantize and the dot, which the pack makes, then reads.
    cl_event events[2 * BUFFER_COUNT + 3];
    cl_uint event_count, first_of_pack, end_of_pack;
} opencl_work;

#define TRY(condition)                                                                             \
 do {                                                                                              \
  if (!(condition)) {                                                                              \
   return soak_complain("not so: %s", #condition);                                                 \
  }                                                                                                \
 } while (0)

// One job in eight has a queue of its own.
static bool choose_queue(const opencl_engine *e, const soak_job *job, opencl_work *w)
{
    const cl_command_queue_properties properties =
        job->seed % 2 == 1 && e->queues[1] != NULL ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0;
    cl_int code = CL_SUCCESS;
    w->queue = e->queues[properties != 0];
    if (job->seed / 2 % 8 == 1) {
        w->own_queue = e->cl.clCreateCommandQueue(e->context, e->device, properties, &code);
        TRY(code == CL_SUCCESS);
        w->queue = w->own_queue;
    }
    return true;
}

static bool make_pack(const opencl_engine *e, const soak_job *job, opencl_work *w)
{
    w->pack = e->pack;
    if (job->way == SOAK_OWN_PACK) {
        kq_opencl_params params = pack_params(e);
        params.ops = 1u << KQ_OP_QUANTIZE | 1u << KQ_OP_QUANTIZED_DOT;
        TRY(kq_opencl_create(&params, &w->own_pack) == KQ_OK);
        w->pack = w->own_pack;
    }
    return true;
}

static cl_event *next_event(opencl_work *w)
{
    return &w->events[w->event_count++];
}

static bool make_buffers(const opencl_engine *e, const soak_job *job, soak_data *data,
                         opencl_work *w)
{
    const size_t bytes[BUFFER_COUNT] = {soak_values_bytes(job), soak_records_bytes(job),
                                        soak_lhs_bytes(job),    soak_result_bytes(job),
                                        sizeof w->status,       KQ_SELF_TEST_BYTES};
    unsigned char *contents[BUFFER_COUNT] = {
        data->values, data->records, data->lhs, data->result, (unsigned char *)&w->status,
        w->self_test};
    cl_int code = CL_SUCCESS;
    w->status = (kq_status)KQ_STATUS_PRESET;
    kq_self_test_input(w->self_test);
    for (int i = 0; i < SCRATCH; i++) {
        w->bytes[i] = bytes[i];
        w->contents[i] = contents[i];
        w->buffers[i] = e->cl.clCreateBuffer(e->context, CL_MEM_READ_WRITE, bytes[i], NULL, &code);
        TRY(code == CL_SUCCESS);
        TRY(e->cl.clEnqueueWriteBuffer(w->queue, w->buffers[i], CL_FALSE, 0, bytes[i], contents[i],
                                       0, NULL, next_event(w)) == CL_SUCCESS);
    }
    return true;
}

static bool enqueue(const opencl_engine *e, const soak_job *job, opencl_work *w)
{
    const kq_repeat repeat = soak_repeat(job);
    const kq_opencl_quantize quantize = {
        .format = KQ_FORMAT_Q8_K,
        .values = {w->buffers[VALUES], soak_values_view(job)},
        .records = {w->buffers[RECORDS], soak_records_view(job)},
        .status = {w->buffers[STATUS], 0},
    };
    kq_opencl_quantized_dot dot = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = job->order,
        .lhs = {w->buffers[LHS], soak_lhs_view(job)},
        .rhs = {w->buffers[RECORDS], soak_rhs_view(job)},
        .result = {w->buffers[RESULT], job->result_offset},
        .repeat = &repeat,
    };
    const kq_opencl_range self_test = {w->buffers[SELF_TEST], 0};
    const cl_uint writes = w->event_count;
    w->first_of_pack = writes;
    kq_needs needs;
    cl_int code = CL_SUCCESS;
    TRY(kq_opencl_quantized_dot_query(w->pack, &dot, &needs) == KQ_OK && needs.limit == NULL);
    if (needs.scratch_bytes > 0) {
        w->buffers[SCRATCH] = e->cl.clCreateBuffer(e->context, CL_MEM_READ_WRITE,
                                                   (size_t)needs.scratch_bytes, NULL, &code);
        TRY(code == CL_SUCCESS);
        dot.scratch.buffer = w->buffers[SCRATCH];
    }
    if (job->way == SOAK_BROUGHT_TESTED) {
        TRY(kq_opencl_self_test_enqueue(w->pack, &self_test, w->queue, writes, w->events,
                                        next_event(w)) == KQ_OK);
    }
    TRY(kq_opencl_quantize_enqueue(w->pack, &quantize, w->queue, writes, w->events,
                                   next_event(w)) == KQ_OK);
    const cl_event quantized = w->events[w->event_count - 1];
    TRY(kq_opencl_quantized_dot_enqueue(w->pack, &dot, w->queue, 1, &quantized, next_event(w)) ==
        KQ_OK);
    const int outputs[] = {RECORDS, RESULT, STATUS, SELF_TEST};
    const cl_uint before = w->event_count;
    w->end_of_pack = before;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const int k = outputs[i];
        TRY(e->cl.clEnqueueReadBuffer(w->queue, w->buffers[k], CL_FALSE, 0, w->bytes[k],
                                      w->contents[k], before, w->events,
                                      next_event(w)) == CL_SUCCESS);
    }
    TRY(e->cl.clWaitForEvents(w->event_count, w->events) == CL_SUCCESS);
    return true;
}

static bool opencl_run(void *lane, const soak_job *job, soak_data *data)
{
    const opencl_engine *e = lane;
    opencl_work w = {0};
    soak_poison_outputs(job, data);
    bool is_good = choose_queue(e, job, &w) && make_pack(e, job, &w) &&
                   make_buffers(e, job, data, &w) && enqueue(e, job, &w);
    is_good = is_good && soak_take_status(job, &w.status, data) &&
              (job->way != SOAK_BROUGHT_TESTED || judge_self_test(w.self_test) == NULL);
    if (!is_good) {
        return false;  // and something may still be under way
    }
    for (cl_uint i = 0; i < w.event_count; i++) {
        bool is_of_pack = i >= w.first_of_pack && i < w.end_of_pack;
        (is_of_pack ? e->release_counted : e->cl.clReleaseEvent)(w.events[i]);
    }
    for (int i = 0; i < BUFFER_COUNT; i++) {
        if (w.buffers[i] != NULL) {
            e->cl.clReleaseMemObject(w.buffers[i]);
        }
    }
    kq_opencl_destroy(&w.own_pack);
    if (w.own_queue != NULL) {
        e->cl.clReleaseCommandQueue(w.own_queue);
    }
    return true;
}

const soak_api soak_opencl = {
    .lookup = opencl_lookup,
    .open = opencl_open,
    .close = opencl_close,
    .lane_open = opencl_lane_open,
    .lane_close = opencl_lane_close,
    .run = opencl_run,
    .messages = opencl_messages,
    .live = opencl_live,
};
