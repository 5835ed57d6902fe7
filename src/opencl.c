#include "opencl_compiler.h"

#include "plan.h"
#include "self_test.h"

#include <inttypes.h>
#include <stdlib.h>

// clang-format off
#define OPENCL_PACK_FUNCTIONS(f)                                                                   \
    f(clReleaseProgram)                                                                            \
    f(clCreateKernel)                                                                              \
    f(clGetKernelWorkGroupInfo)                                                                    \
    f(clSetKernelArg)                                                                              \
    f(clReleaseKernel)                                                                             \
    f(clGetMemObjectInfo)                                                                          \
    f(clEnqueueNDRangeKernel)                                                                      \
    f(clEnqueueMarkerWithWaitList)                                                                 \
    f(clReleaseEvent)
// clang-format on

struct kq_opencl {
    kq_errors errors;
    cl_device_id device;
    OPENCL_PACK_FUNCTIONS(KQ_CL_MEMBER)
    uint32_t ops;
    kq_limits limits;
    kq_cl_programs programs;
};

// Kernels index bytes of a range in 32 bits; a range ends with a whole word. OpenCL limits the work
// items of a dispatch by nothing but size_t; drivers on top of other APIs have 16 bits for
// workgroups.
const kq_limits kq_opencl_limits = {
    .range_bytes = 0xFFFFFFFCu,
    .range_name = "the reach of a 32-bit byte index",
    .offset_alignment = 4,
    .groups = {65535, 65535},
    .groups_name = "the largest count of workgroups",
};

static kq_result find_pack_functions(kq_opencl *pack, const kq_lookup *lookup)
{
    const char *missing = NULL;
#define FIND(name) missing = KQ_CL_FIND(pack, lookup, name) == NULL ? #name : missing;
    OPENCL_PACK_FUNCTIONS(FIND)
#undef FIND
    return missing == NULL ? KQ_OK : kq_cl_fail_lookup(&pack->errors, missing);
}

static kq_result check_opencl_params(const kq_opencl_params *params)
{
    const char *missing = params->lookup.fn == NULL ? "lookup.fn"
                          : params->context == NULL ? "context"
                          : params->device == NULL  ? "device"
                                                    : NULL;
    if (missing != NULL) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT, "%s is null; it is required", missing);
    }
    if ((unsigned)params->program > KQ_OPENCL_PROGRAM_SOURCE) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT,
                       "program is %u; it must be any (0), SPIR-V (1) or source (2)",
                       (unsigned)params->program);
    }
    if (params->caps != 0) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT,
                       "caps is 0x%" PRIX32 "; no kernel needs any", params->caps);
    }
    if ((params->ops & ~KQ_KNOWN_OPS) != 0) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT,
                       "ops is 0x%" PRIX32 "; it has bits that are no 1u << KQ_OP_*", params->ops);
    }
    return KQ_OK;
}

kq_result kq_opencl_create(const kq_opencl_params *params, kq_opencl **pack)
{
    return kq_opencl_create_without(params, KQ_LEVEL_3_KERNELS, pack);
}

kq_result kq_opencl_create_without(const kq_opencl_params *params, uint32_t without,
                                   kq_opencl **pack)
{
    kq_opencl *p = NULL;
    kq_result result;
    if (pack == NULL || params == NULL) {
        return kq_fail(params != NULL ? &params->errors : NULL, KQ_ERROR_ARGUMENT, "%s is null",
                       params != NULL ? "pack" : "params");
    }
    *pack = NULL;
    result = check_opencl_params(params);
    if (result != KQ_OK) {
        return result;
    }
    p = calloc(1, sizeof *p);
    if (p == NULL) {
        return kq_fail(&params->errors, KQ_ERROR_MEMORY, "out of host memory");
    }
    p->errors = params->errors;
    p->ops = params->ops;
    p->device = params->device;
    p->limits = kq_opencl_limits;
    kq_cl_compiler compiler;
    if ((result = find_pack_functions(p, &params->lookup)) != KQ_OK ||
        (result = kq_cl_compiler_make(params, &compiler)) != KQ_OK) {
        goto fail;
    }
    uint32_t kernels = 0;
    for (unsigned i = 0; i < KQ_KERNEL_COUNT; i++) {
        bool is_wanted = p->ops == 0 || (p->ops >> kq_kernel_op(i) & 1) != 0;
        kernels |= (uint32_t)is_wanted << i;
    }
    result = kq_cl_compile(&compiler, kernels & ~without, &p->programs);
    if (result != KQ_OK) {
        goto fail;
    }
    p->limits.variants = p->programs.variants;
    *pack = p;
    return KQ_OK;
fail:
    kq_opencl_destroy(&p);
    return result;
}

uint32_t kq_opencl_variants(const kq_opencl *pack)
{
    return pack->programs.suitable;
}

const char *kq_opencl_program_text(const kq_opencl *pack)
{
    return pack->programs.text;
}

void kq_opencl_destroy(kq_opencl **pack)
{
    if (pack == NULL || *pack == NULL) {
        return;
    }
    for (unsigned i = 0; i < KQ_KERNEL_COUNT; i++) {
        if ((*pack)->programs.of[i] != NULL) {
            (*pack)->clReleaseProgram((*pack)->programs.of[i]);
        }
    }
    free(*pack);
    *pack = NULL;
}

// --- Operations

// One operation with its buffers by role. A sub-buffer is planned as the part of its parent that it
// is, so that overlap shows, and bound as itself.
typedef struct opencl_job {
    kq_operation operation;
    cl_mem buffers[KQ_BINDING_COUNT];
    uint64_t origins[KQ_BINDING_COUNT];  // of a sub-buffer in its parent, else 0
} opencl_job;

static kq_result add_operand(const kq_opencl *pack, opencl_job *j, int role, cl_mem buffer,
                             const kq_view *view)
{
    kq_operand *operand = &j->operation.operands[role];
    cl_mem parent = NULL;
    size_t origin = 0;
    size_t bytes = 0;
    operand->view = *view;
    if (buffer == NULL) {
        return KQ_OK;
    }
    cl_int code = pack->clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (code == CL_SUCCESS) {
        code = pack->clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent,
                                        NULL);
    }
    if (code == CL_SUCCESS && parent != NULL) {
        code = pack->clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof origin, &origin, NULL);
    }
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&pack->errors, "clGetMemObjectInfo", code);
    }
    j->buffers[role] = buffer;
    j->origins[role] = origin;
    operand->buffer = (uint64_t)(uintptr_t)(parent != NULL ? parent : buffer);
    operand->buffer_bytes = (uint64_t)origin + bytes;
    // An offset that wraps is far past the end, and so stays.
    operand->view.offset = view->offset > UINT64_MAX - origin ? UINT64_MAX : view->offset + origin;
    return KQ_OK;
}

static kq_result add_view(const kq_opencl *pack, opencl_job *j, int role,
                          const kq_opencl_view *view)
{
    return add_operand(pack, j, role, view->buffer, &view->view);
}

static kq_result add_range(const kq_opencl *pack, opencl_job *j, int role,
                           const kq_opencl_range *range)
{
    const kq_view view = {.offset = range->offset};
    return add_operand(pack, j, role, range->buffer, &view);
}

static kq_result read_quantize(const kq_opencl *pack, const kq_opencl_quantize *op, opencl_job *j)
{
    kq_result result;
    if (op == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "op is null");
    }
    *j = (opencl_job){.operation = {.op = KQ_OP_QUANTIZE, .format = op->format}};
    result = add_view(pack, j, KQ_VALUES, &op->values);
    result = result != KQ_OK ? result : add_view(pack, j, KQ_RECORDS, &op->records);
    return result != KQ_OK ? result : add_range(pack, j, KQ_STATUS, &op->status);
}

static kq_result read_dot(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                          bool has_scratch, opencl_job *j)
{
    kq_result result;
    if (op == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "op is null");
    }
    *j = (opencl_job){.operation = {.op = KQ_OP_QUANTIZED_DOT,
                                    .lhs_format = op->lhs_format,
                                    .rhs_format = op->rhs_format,
                                    .acc = op->acc,
                                    .order = op->order,
                                    .repeat = op->repeat,
                                    .part = op->part}};
    result = add_view(pack, j, KQ_LHS, &op->lhs);
    result = result != KQ_OK ? result : add_view(pack, j, KQ_RHS, &op->rhs);
    result = result != KQ_OK ? result : add_range(pack, j, KQ_RESULT, &op->result);
    if (result == KQ_OK && has_scratch) {
        result = add_range(pack, j, KQ_SCRATCH, &op->scratch);
    }
    return result;
}

static kq_result check_opencl_needs(const kq_opencl *pack, const kq_needs *needs)
{
    if (pack == NULL) {
        return KQ_ERROR_ARGUMENT;  // and nobody to tell
    }
    return needs != NULL ? KQ_OK : kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "needs is null");
}

kq_result kq_opencl_quantize_query(const kq_opencl *pack, const kq_opencl_quantize *op,
                                   kq_needs *needs)
{
    opencl_job j;
    kq_result result = check_opencl_needs(pack, needs);
    result = result != KQ_OK ? result : read_quantize(pack, op, &j);
    return result != KQ_OK ? result
                           : kq_plan_query(&j.operation, &pack->limits, &pack->errors, needs);
}

kq_result kq_opencl_quantized_dot_query(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                        kq_needs *needs)
{
    opencl_job j;
    kq_result result = check_opencl_needs(pack, needs);
    result = result != KQ_OK ? result : read_dot(pack, op, false, &j);
    return result != KQ_OK ? result
                           : kq_plan_query(&j.operation, &pack->limits, &pack->errors, needs);
}

// The buffers that a kernel takes, in its order.
static const struct {
    int count;
    int roles[3];
} kernel_buffers[KQ_KERNEL_COUNT] = {
    [KQ_KERNEL_QUANTIZE] = {3, {KQ_VALUES, KQ_RECORDS, KQ_STATUS}},
    [KQ_KERNEL_QUANTIZE_ALIGNED] = {3, {KQ_VALUES, KQ_RECORDS, KQ_STATUS}},
    [KQ_KERNEL_QUANTIZE_CPU] = {3, {KQ_VALUES, KQ_RECORDS, KQ_STATUS}},
    [KQ_KERNEL_DOT_CPU] = {3, {KQ_LHS, KQ_RHS, KQ_RESULT}},
    [KQ_KERNEL_DOT_TERMS] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_COLUMNS] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_CPU] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED_ALIGNED] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED_PACKED] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_SEQUENTIAL] = {2, {KQ_RESULT, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_PAIRWISE] = {2, {KQ_RESULT, KQ_SCRATCH}},
    [KQ_KERNEL_PRIMITIVE] = {1, {KQ_ITEMS}},
    [KQ_KERNEL_BANDWIDTH] = {2, {KQ_FROM, KQ_TO}},
};

static cl_int set_arguments(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                            const kq_step *step, cl_kernel kernel)
{
    cl_uint index = 0;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < kernel_buffers[step->kernel].count && code == CL_SUCCESS; i++) {
        int role = kernel_buffers[step->kernel].roles[i];
        if (plan->ranges[role].bytes == 0) {
            role = KQ_RESULT;  // with G = 0 nothing else is there, or read
        }
        uint64_t word = (plan->ranges[role].offset - j->origins[role]) / 4;
        cl_uint low = (cl_uint)(word & 0x3FFFFFFFu);
        cl_uint high = (cl_uint)(word >> 30);
        code = pack->clSetKernelArg(kernel, index++, sizeof(cl_mem), &j->buffers[role]);
        if (code == CL_SUCCESS) {
            code = pack->clSetKernelArg(kernel, index++, sizeof low, &low);
        }
        if (code == CL_SUCCESS) {
            code = pack->clSetKernelArg(kernel, index++, sizeof high, &high);
        }
    }
    for (uint32_t i = 0; i < step->params_bytes / sizeof(uint32_t) && code == CL_SUCCESS; i++) {
        code = pack->clSetKernelArg(kernel, index++, sizeof(uint32_t), &step->params[i]);
    }
    return code;
}

// The device has too few registers for as many work items of this kernel.
static kq_result fail_work_group(const kq_opencl *pack, cl_kernel kernel, const char *name,
                                 size_t needed)
{
    size_t items = 0;
    pack->clGetKernelWorkGroupInfo(kernel, pack->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof items,
                                   &items, NULL);
    return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                   "CL_KERNEL_WORK_GROUP_SIZE of %s is %zu; %zu are needed", name, items, needed);
}

static kq_result enqueue_step(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                              uint32_t index, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *waits, cl_event *event)
{
    const kq_step step = kq_plan_step(plan, index);
    char stem[KQ_STEM_BYTES];
    kq_kernel_stem(step.kernel, stem);
    const size_t local[2] = {kq_kernel_is_for_cpus(step.kernel) ? 1 : KQ_LANES, 1};
    const size_t global[2] = {step.groups[0] * local[0], step.groups[1]};
    cl_int code = CL_SUCCESS;
    const char *call = "clCreateKernel";
    cl_kernel kernel = pack->clCreateKernel(pack->programs.of[step.kernel], stem, &code);
    if (kernel == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&pack->errors, call, code);
    }
    call = "clSetKernelArg";
    code = set_arguments(pack, j, plan, &step, kernel);
    if (code == CL_SUCCESS) {
        call = "clEnqueueNDRangeKernel";
        code = pack->clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, wait_count,
                                            waits, event);
    }
    kq_result result = KQ_OK;
    if (code == CL_INVALID_WORK_GROUP_SIZE) {
        result = fail_work_group(pack, kernel, kq_kernel_names[step.kernel], local[0]);
    } else if (code != CL_SUCCESS) {
        result = kq_cl_fail(&pack->errors, call, code);
    }
    pack->clReleaseKernel(kernel);
    return result;
}

static kq_result check_enqueue(const kq_opencl *pack, kq_op op, cl_command_queue queue,
                               cl_uint wait_count, const cl_event *waits)
{
    if (pack == NULL) {
        return KQ_ERROR_ARGUMENT;  // and nobody to tell
    }
    if (queue == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "queue is null");
    }
    if ((wait_count == 0) != (waits == NULL)) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "wait_count is %u and waits is %s",
                       (unsigned)wait_count, waits != NULL ? "not null" : "null");
    }
    return kq_check_op(op, pack->ops, &pack->errors);
}

// A command's steps, of which each waits for the one before by an event, for the queue may be
// out-of-order.
typedef struct chain {
    cl_command_queue queue;
    cl_uint wait_count;  // of the caller's events, for the first step
    const cl_event *waits;
    cl_event last;  // NULL before that
} chain;

// Steps [first, end) of the plan. The event of the last of them goes to `event`, if that is not
// NULL; else the chain goes on.
static kq_result enqueue_steps(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                               uint32_t first, uint32_t end, chain *c, bool ends, cl_event *event)
{
    kq_result result = KQ_OK;
    for (uint32_t i = first; i < end && result == KQ_OK; i++) {
        cl_event next = NULL;
        bool is_first = c->last == NULL;
        result = enqueue_step(pack, j, plan, i, c->queue, is_first ? c->wait_count : 1,
                              is_first ? c->waits : &c->last, ends && i + 1 == end ? event : &next);
        if (c->last != NULL) {
            pack->clReleaseEvent(c->last);
        }
        c->last = next;
    }
    return result;
}

static kq_result enqueue_plan(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                              chain *c, bool ends, cl_event *event)
{
    return enqueue_steps(pack, j, plan, 0, (uint32_t)plan->needs.dispatch_count, c, ends, event);
}

static kq_result enqueue(const kq_opencl *pack, const opencl_job *j, cl_command_queue queue,
                         cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    kq_plan plan;
    kq_result result = kq_plan_make(&j->operation, true, &pack->limits, &pack->errors, &plan);
    result = result != KQ_OK ? result : kq_plan_fit(&plan, &pack->errors);
    if (result != KQ_OK) {
        return result;
    }
    if (plan.needs.dispatch_count == 0 && (event != NULL || wait_count > 0)) {
        cl_int code = pack->clEnqueueMarkerWithWaitList(queue, wait_count, waits, event);
        return code == CL_SUCCESS ? KQ_OK
                                  : kq_cl_fail(&pack->errors, "clEnqueueMarkerWithWaitList", code);
    }
    chain c = {queue, wait_count, waits, NULL};
    return enqueue_plan(pack, j, &plan, &c, true, event);
}

kq_result kq_opencl_quantize_enqueue(const kq_opencl *pack, const kq_opencl_quantize *op,
                                     cl_command_queue queue, cl_uint wait_count,
                                     const cl_event *waits, cl_event *event)
{
    opencl_job j;
    kq_result result = check_enqueue(pack, KQ_OP_QUANTIZE, queue, wait_count, waits);
    result = result != KQ_OK ? result : read_quantize(pack, op, &j);
    return result != KQ_OK ? result : enqueue(pack, &j, queue, wait_count, waits, event);
}

kq_result kq_opencl_quantized_dot_enqueue(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                          cl_command_queue queue, cl_uint wait_count,
                                          const cl_event *waits, cl_event *event)
{
    opencl_job j;
    kq_result result = check_enqueue(pack, KQ_OP_QUANTIZED_DOT, queue, wait_count, waits);
    result = result != KQ_OK ? result : read_dot(pack, op, true, &j);
    return result != KQ_OK ? result : enqueue(pack, &j, queue, wait_count, waits, event);
}

kq_result kq_opencl_self_test_enqueue(const kq_opencl *pack, const kq_opencl_range *range,
                                      cl_command_queue queue, cl_uint wait_count,
                                      const cl_event *waits, cl_event *event)
{
    opencl_job j = {.operation = {.op = KQ_OP_SELF_TEST}};
    kq_plan plans[KQ_SELF_TEST_PLANS];
    kq_result result = check_enqueue(pack, KQ_OP_SELF_TEST, queue, wait_count, waits);
    if (result == KQ_OK && range == NULL) {
        result = kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "range is null");
    }
    result = result != KQ_OK ? result : add_range(pack, &j, 0, range);
    const kq_operand *whole = &j.operation.operands[0];
    if (result == KQ_OK) {
        result = kq_self_test_check(pack->ops, whole, pack->limits.offset_alignment, &pack->errors);
    }
    for (unsigned i = 0; i < KQ_SELF_TEST_PLANS && result == KQ_OK; i++) {
        result = kq_self_test_plan(i, whole, &pack->limits, &pack->errors, &plans[i]);
    }
    for (int role = 1; role < KQ_BINDING_COUNT; role++) {
        j.buffers[role] = j.buffers[0];
        j.origins[role] = j.origins[0];
    }
    chain c = {queue, wait_count, waits, NULL};
    for (unsigned i = 0; i < KQ_SELF_TEST_PLANS && result == KQ_OK; i++) {
        result = enqueue_plan(pack, &j, &plans[i], &c, i + 1 == KQ_SELF_TEST_PLANS, event);
    }
    return result;
}

// The plan of a dot, if it fits.
static kq_result plan_dot(const kq_opencl *pack, const kq_opencl_quantized_dot *op, opencl_job *j,
                          kq_plan *plan)
{
    kq_result result = read_dot(pack, op, true, j);
    result = result != KQ_OK
                 ? result
                 : kq_plan_make(&j->operation, true, &pack->limits, &pack->errors, plan);
    return result != KQ_OK ? result : kq_plan_fit(plan, &pack->errors);
}

kq_result kq_opencl_dot_steps_enqueue(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                      uint32_t first, uint32_t count, cl_command_queue queue,
                                      cl_event *event)
{
    opencl_job j;
    kq_plan plan;
    chain c = {.queue = queue};
    kq_result result = plan_dot(pack, op, &j, &plan);
    return result != KQ_OK ? result
                           : enqueue_steps(pack, &j, &plan, first, first + count, &c, true, event);
}

kq_result kq_opencl_dot_written(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                uint32_t index, uint32_t *count, kq_written *written)
{
    opencl_job j;
    kq_plan plan;
    kq_result result = plan_dot(pack, op, &j, &plan);
    if (result == KQ_OK) {
        *count = (uint32_t)plan.needs.dispatch_count;
        *written = kq_plan_written(&plan, index);
    }
    return result;
}

kq_result kq_opencl_primitives_enqueue(const kq_opencl *pack, cl_mem buffer, uint32_t count,
                                       cl_command_queue queue, cl_event *event)
{
    kq_plan plan;
    const opencl_job j = {.operation = {.op = KQ_OP_SELF_TEST}, .buffers[KQ_ITEMS] = buffer};
    chain c = {.queue = queue};
    kq_plan_primitives(count, 0, &pack->limits, &plan);
    return enqueue_plan(pack, &j, &plan, &c, true, event);
}

kq_result kq_opencl_bandwidth_enqueue(const kq_opencl *pack, cl_mem from, cl_mem to,
                                      const kq_transfer *transfer, cl_command_queue queue,
                                      cl_event *event)
{
    kq_plan plan;
    const opencl_job j = {.operation = {.op = KQ_OP_SELF_TEST}, .buffers = {from, to}};
    chain c = {.queue = queue};
    kq_plan_bandwidth(transfer, &pack->limits, &plan);
    return enqueue_plan(pack, &j, &plan, &c, true, event);
}
