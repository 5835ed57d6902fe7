// What level 2 refuses beside the rules of an operation: arguments of its calls and sub-buffers,
// with the words for it and nothing enqueued; devices that can't do it; calls that fail. Linked
// with levels 1 and 2 alone.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_refusal_test [--expect=TEXT] [--il] [--quick]
//   TEXT     must occur in the name of device or platform
//   --il     the SPIR-V modules are what runs, if need be translated for the driver
//   --quick  for interpreters: changes nothing here
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_engine.h"

#include "self_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    engine_options options;
    engine engine;
} fixture;

static fixture shared;

static int open_engine(void **state)
{
    wrapped_opencl_watch(true);
    engine_open(&shared.engine, &shared.options);
    *state = &shared.engine;
    return 0;
}

static void test_close(void **state)
{
    engine_close(*state);
}

// --- Refusals

static void clear(engine *e)
{
    wrapped_opencl_reset(&e->wrapped);
    memset(&e->report, 0, sizeof e->report);
}

static void check_report(const engine *e, kq_result result, kq_result expected, const char *text)
{
    if (e->report.count != 1 || strstr(e->report.reason, text) == NULL) {
        fail_msg("%u reports, the last \"%s\"; it should hold \"%s\"", e->report.count,
                 e->report.reason, text);
    }
    assert_int_equal(result, expected);
    assert_int_equal(e->report.result, expected);
}

// The call was refused with one report that holds the text. Of the driver no more was asked than
// what the buffers are.
static void check_refused(const engine *e, kq_result result, kq_result expected, const char *text)
{
    check_report(e, result, expected, text);
    assert_int_equal(e->wrapped.call_count,
                     wrapped_opencl_calls(&e->wrapped, "clGetMemObjectInfo"));
}

// Changes a good operation, which is `op` there, so that it must be refused in these words.
#define REFUSE_DOT(text, ...)                                                                      \
 do {                                                                                              \
  kq_opencl_quantized_dot op = good;                                                               \
  cl_event event = NULL;                                                                           \
  __VA_ARGS__;                                                                                     \
  clear(e);                                                                                        \
  check_refused(e, kq_opencl_quantized_dot_enqueue(e->pack, &op, e->queue, 0, NULL, &event),       \
                KQ_ERROR_ARGUMENT, text);                                                          \
  assert_null(event);                                                                              \
 } while (0)

// What query and enqueue take beside the operation.
static void test_call_arguments(void **state)
{
    engine *e = *state;
    operands o = operands_make(e, 1024, 292, 64, 64);
    const kq_view view = {.G = 1};
    const kq_opencl_quantize quantize = quantize_of(&o, view, view, 0);
    const kq_opencl_quantized_dot dot = dot_of(&o, KQ_ORDER_SEQUENTIAL, view, view, 0);
    cl_int code = CL_SUCCESS;
    cl_event gate = e->cl.clCreateUserEvent(e->context, &code);
    kq_needs needs;
    assert_int_equal(code, CL_SUCCESS);

#define REFUSE(call, text)                                                                         \
 do {                                                                                              \
  clear(e);                                                                                        \
  check_refused(e, call, KQ_ERROR_ARGUMENT, text);                                                 \
 } while (0)
    REFUSE(kq_opencl_quantize_query(e->pack, &quantize, NULL), "needs is null");
    REFUSE(kq_opencl_quantized_dot_query(e->pack, &dot, NULL), "needs is null");
    REFUSE(kq_opencl_quantize_query(e->pack, NULL, &needs), "op is null");
    REFUSE(kq_opencl_quantized_dot_query(e->pack, NULL, &needs), "op is null");
    REFUSE(kq_opencl_quantize_enqueue(e->pack, NULL, e->queue, 0, NULL, NULL), "op is null");
    REFUSE(kq_opencl_quantized_dot_enqueue(e->pack, NULL, e->queue, 0, NULL, NULL), "op is null");
    REFUSE(kq_opencl_quantize_enqueue(e->pack, &quantize, NULL, 0, NULL, NULL), "queue is null");
    REFUSE(kq_opencl_quantized_dot_enqueue(e->pack, &dot, NULL, 0, NULL, NULL), "queue is null");
    REFUSE(kq_opencl_quantize_enqueue(e->pack, &quantize, e->queue, 1, NULL, NULL),
           "wait_count is 1 and waits is null");
    REFUSE(kq_opencl_quantized_dot_enqueue(e->pack, &dot, e->queue, 0, &gate, NULL),
           "wait_count is 0 and waits is not null");
#undef REFUSE
    clear(e);
    assert_int_equal(kq_opencl_quantize_query(NULL, &quantize, &needs), KQ_ERROR_ARGUMENT);
    assert_int_equal(kq_opencl_quantized_dot_enqueue(NULL, &dot, e->queue, 0, NULL, NULL),
                     KQ_ERROR_ARGUMENT);
    assert_int_equal(e->report.count, 0);
    kq_opencl *none = NULL;
    kq_opencl_destroy(&none);
    kq_opencl_destroy(NULL);
    e->cl.clReleaseEvent(gate);
    operands_destroy(e, &o);
}

// --- Buffers

// Regions of one buffer overlap where their bytes in it do, and end where they end themselves.
static void test_sub_buffers(void **state)
{
    engine *e = *state;
    const size_t step = e->alignment;
    operands o = operands_make(e, 8 * step + 2048, 512, 64, 64);
    const kq_view view = {.G = 1};
    const kq_opencl_quantized_dot good = dot_of(&o, KQ_ORDER_SEQUENTIAL, view, view, 0);
    const cl_mem whole = o.at[KQ_LHS].buffer;
    const cl_mem low = operand_region(e, &o.at[KQ_LHS], 0, 4 * step + 300);
    const cl_mem high = operand_region(e, &o.at[KQ_LHS], 4 * step, 152);
    char text[128];
    kq_needs needs;

    snprintf(text, sizeof text, "result, bytes [%zu, %zu), overlaps lhs, bytes [%zu, %zu)",
             4 * step + 7, 4 * step + 11, 4 * step + 8, 4 * step + 152);
    REFUSE_DOT(text, op.lhs.buffer = low, op.lhs.view.offset = 4 * step + 8,
               op.result.buffer = high, op.result.offset = 7);
    REFUSE_DOT(text, op.lhs.buffer = whole, op.lhs.view.offset = 4 * step + 8,
               op.result.buffer = high, op.result.offset = 7);
    REFUSE_DOT(text, op.lhs.buffer = high, op.lhs.view.offset = 8, op.result.buffer = whole,
               op.result.offset = 4 * step + 7);
    REFUSE_DOT("scratch, bytes", op.lhs.buffer = low, op.lhs.view.offset = 4 * step,
               op.scratch.buffer = high, op.scratch.offset = 140);
    snprintf(text, sizeof text, "lhs ends at byte %zu, past its buffer's end at %zu",
             4 * step + 153, 4 * step + 152);
    REFUSE_DOT(text, op.lhs.buffer = high, op.lhs.view.offset = 9);
    // The same offset in two regions is not the same byte.
    kq_opencl_quantized_dot apart = good;
    apart.lhs.buffer = low;
    apart.result.buffer = high;
    engine_expect_ok(e, kq_opencl_quantized_dot_query(e->pack, &apart, &needs));
    // The word that a region's last byte lies in is its own or missing, whatever comes behind.
    for (size_t missing = 1; missing < 4; missing++) {
        const cl_mem shorter = operand_region(e, &o.at[KQ_LHS], step, 148 - missing);
        kq_opencl_quantized_dot op = good;
        op.lhs.buffer = shorter;
        op.lhs.view.offset = 4 - missing;
        engine_expect_ok(e, kq_opencl_quantized_dot_query(e->pack, &op, &needs));
        assert_int_equal(needs.missing_bytes, missing);
        e->cl.clReleaseMemObject(shorter);
    }
    e->cl.clReleaseMemObject(low);
    e->cl.clReleaseMemObject(high);
    operands_destroy(e, &o);
}

// --- The self-test

static void test_self_test(void **state)
{
    engine *e = *state;
    const size_t origin = e->alignment;
    operand o = operand_make(e, origin + KQ_SELF_TEST_BYTES + 8);
    const cl_mem region = operand_region(e, &o, origin, KQ_SELF_TEST_BYTES + 4);
    const kq_opencl_range good = {o.buffer, 4};
    char text[128];
    cl_event event = NULL;
    cl_int code = CL_SUCCESS;
    cl_event gate = e->cl.clCreateUserEvent(e->context, &code);
    assert_int_equal(code, CL_SUCCESS);

#define REFUSE_CALL(pack, range, queue, count, waits, text)                                        \
 do {                                                                                              \
  clear(e);                                                                                        \
  check_refused(e, kq_opencl_self_test_enqueue(pack, range, queue, count, waits, &event),          \
                KQ_ERROR_ARGUMENT, text);                                                          \
  assert_null(event);                                                                              \
 } while (0)
#define REFUSE_RANGE(text, ...)                                                                    \
 REFUSE_CALL(e->pack, (&(kq_opencl_range){__VA_ARGS__}), e->queue, 0, NULL, text)
    REFUSE_CALL(e->pack, NULL, e->queue, 0, NULL, "range is null");
    REFUSE_CALL(e->pack, &good, NULL, 0, NULL, "queue is null");
    REFUSE_CALL(e->pack, &good, e->queue, 1, NULL, "wait_count is 1 and waits is null");
    REFUSE_CALL(e->pack, &good, e->queue, 0, &gate, "wait_count is 0 and waits is not null");
    REFUSE_RANGE("range.buffer is null", NULL, 0);
    for (uint64_t offset = 1; offset < 4; offset++) {
        snprintf(text, sizeof text, "range begins at byte %u; it must be a multiple of 4",
                 (unsigned)offset);
        REFUSE_RANGE(text, o.buffer, offset);
    }
    snprintf(text, sizeof text, "ends past its buffer's end at %zu", o.bytes);
    REFUSE_RANGE(text, o.buffer, origin + 12);
    REFUSE_RANGE(text, o.buffer, (uint64_t)1 << 63);
    // Bytes count from the parent's start.
    snprintf(text, sizeof text, "range begins at byte %zu and is KQ_SELF_TEST_BYTES, 20480, long",
             origin + 8);
    REFUSE_RANGE(text, region, 8);
    REFUSE_RANGE("must be a multiple of 4", region, UINT64_MAX);
    clear(e);
    assert_int_equal(kq_opencl_self_test_enqueue(NULL, &good, e->queue, 0, NULL, &event),
                     KQ_ERROR_ARGUMENT);
    assert_int_equal(e->report.count, 0);

    // It takes the kernels of all ops.
    static const char *const names[] = {
        [KQ_OP_QUANTIZE] = "without KQ_OP_QUANTIZE",
        [KQ_OP_QUANTIZED_DOT] = "without KQ_OP_QUANTIZED_DOT",
        [KQ_OP_SELF_TEST] = "without KQ_OP_SELF_TEST",
    };
    kq_opencl_params params = engine_pack_params(e);
    for (int op = KQ_OP_QUANTIZE; op <= KQ_OP_SELF_TEST; op++) {
        kq_opencl *lesser = NULL;
        params.ops = KQ_KNOWN_OPS & ~(1u << op);
        engine_expect_ok(e, kq_opencl_create(&params, &lesser));
        REFUSE_CALL(lesser, &good, e->queue, 0, NULL, names[op]);
        kq_opencl_destroy(&lesser);
    }
#undef REFUSE_RANGE
#undef REFUSE_CALL
    e->cl.clReleaseEvent(gate);
    e->cl.clReleaseMemObject(region);
    operand_destroy(e, &o);
}

// --- Packs

#define REFUSE_PACK(code, text, change)                                                            \
 do {                                                                                              \
  kq_opencl_params params = engine_pack_params(e);                                                 \
  kq_opencl *pack = e->pack;                                                                       \
  int live = wrapped_opencl_live(&e->wrapped);                                                     \
  change;                                                                                          \
  clear(e);                                                                                        \
  check_report(e, kq_opencl_create(&params, &pack), code, text);                                   \
  assert_null(pack);                                                                               \
  assert_int_equal(wrapped_opencl_live(&e->wrapped), live);                                        \
 } while (0)

static void test_pack_arguments(void **state)
{
    static const char *const names[] = {"clGetDeviceInfo", "clBuildProgram", "clSetKernelArg",
                                        "clEnqueueNDRangeKernel", "clEnqueueMarkerWithWaitList"};
    engine *e = *state;
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "lookup.fn is null", params.lookup.fn = NULL);
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "context is null", params.context = NULL);
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "device is null", params.device = NULL);
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "program is 3", params.program = (kq_opencl_program)3);
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "caps is 0x1;", params.caps = 1);
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "ops is 0x1;", params.ops = 1);
    REFUSE_PACK(KQ_ERROR_ARGUMENT, "ops is 0x10;", params.ops = 16);
    assert_int_equal(e->wrapped.call_count, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[64];
        snprintf(text, sizeof text, "lookup.fn finds no %s", names[i]);
        e->wrapped.missing_name = names[i];
        REFUSE_PACK(KQ_ERROR_ARGUMENT, text, (void)0);
        e->wrapped.missing_name = NULL;
    }
    kq_opencl_params params = engine_pack_params(e);
    clear(e);
    check_report(e, kq_opencl_create(&params, NULL), KQ_ERROR_ARGUMENT, "pack is null");
    kq_opencl *pack = e->pack;
    assert_int_equal(kq_opencl_create(NULL, &pack), KQ_ERROR_ARGUMENT);
}

// Kernels that were not asked for are not built.
static void test_ops(void **state)
{
    engine *e = *state;
    kq_opencl_params params = engine_pack_params(e);
    kq_opencl *pack = NULL;
    int all = e->wrapped.live[WRAPPED_PROGRAM];
    params.ops = 1u << KQ_OP_QUANTIZE;
    engine_expect_ok(e, kq_opencl_create(&params, &pack));
    assert_int_equal(e->wrapped.live[WRAPPED_PROGRAM] - all, 1);
    kq_opencl_destroy(&pack);
    params.ops = 1u << KQ_OP_QUANTIZED_DOT;
    engine_expect_ok(e, kq_opencl_create(&params, &pack));
    assert_int_equal(e->wrapped.live[WRAPPED_PROGRAM] - all, all - 2);
    kq_opencl_destroy(&pack);
    assert_int_equal(e->wrapped.live[WRAPPED_PROGRAM], all);
}

// --- Devices

static void test_lesser_devices(void **state)
{
    engine *e = *state;
    wrapped_opencl *shown = &e->wrapped;
#define REFUSE_DEVICE(change, text)                                                                \
 do {                                                                                              \
  change;                                                                                          \
  REFUSE_PACK(KQ_ERROR_UNSUPPORTED, text, (void)0);                                                \
  shown->version = NULL;                                                                           \
  shown->extensions = NULL;                                                                        \
  shown->max_work_group_size = 0;                                                                  \
  shown->max_work_item_sizes[0] = 0;                                                               \
  shown->local_mem_size = 0;                                                                       \
  shown->address_bits = 0;                                                                         \
  shown->is_big_endian = false;                                                                    \
  shown->has_no_compiler = false;                                                                  \
  shown->il = shared.options.il;                                                                   \
 } while (0)
    REFUSE_DEVICE(shown->version = "OpenCL 1.1 ", "CL_DEVICE_VERSION is \"OpenCL 1.1 \"");
    REFUSE_DEVICE(shown->version = "OpenCL 0.9 x", "CL_DEVICE_VERSION is");
    REFUSE_DEVICE(shown->version = "CUDA 8.0", "CL_DEVICE_VERSION is");
    REFUSE_DEVICE(shown->max_work_group_size = 63,
                  "CL_DEVICE_MAX_WORK_GROUP_SIZE is 63; the kernels need 64");
    REFUSE_DEVICE(shown->max_work_item_sizes[0] = 63,
                  "CL_DEVICE_MAX_WORK_ITEM_SIZES begins with 63; the kernels need 64");
    REFUSE_DEVICE(shown->address_bits = 16, "CL_DEVICE_ADDRESS_BITS is 16");
    REFUSE_DEVICE(shown->is_big_endian = true, "CL_DEVICE_ENDIAN_LITTLE");
    REFUSE_DEVICE(shown->local_mem_size = 767, "CL_DEVICE_LOCAL_MEM_SIZE is 767; quantize needs ");
    REFUSE_DEVICE((shown->has_no_compiler = true, shown->il = WRAPPED_IL_OF_DRIVER,
                   shown->version = "OpenCL 1.2 ", shown->extensions = ""),
                  "CL_DEVICE_COMPILER_AVAILABLE");
#undef REFUSE_DEVICE
}

// The least device of all: OpenCL 1.2, embedded profile with as little local memory as that
// promises, no extension, and 32-bit addresses. It is not asked for SPIR-V, for some loaders crash
// then; and it gives the same bits.
static void test_least_device(void **state)
{
    engine *e = *state;
    kq_opencl *main_pack = e->pack;
    kq_opencl_params params = engine_pack_params(e);
    cl_platform_id platform = NULL;
    char name[128] = "";
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    e->cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    const bool counts_twice = strcmp(name, "rusticl") == 0;
    if (counts_twice) {
        print_message("rusticl counts each local variable twice\n");
    }
    for (cl_uint bits = 0; bits <= 32; bits += 32) {
        e->wrapped.il = WRAPPED_IL_OF_DRIVER;
        e->wrapped.version = "OpenCL 1.2 ";
        e->wrapped.profile = "EMBEDDED_PROFILE";
        e->wrapped.extensions = "";
        e->wrapped.max_work_group_size = 64;
        e->wrapped.max_work_item_sizes[0] = 64;
        e->wrapped.local_mem_size = counts_twice ? 2048 : 1024;
        e->wrapped.address_bits = bits;
        clear(e);
        engine_expect_ok(e, kq_opencl_create(&params, &e->pack));
        assert_int_equal(e->wrapped.il_count, 0);
        assert_int_equal(wrapped_opencl_calls(&e->wrapped, "clCreateProgramWithIL"), 0);
        assert_int_equal(wrapped_opencl_calls(&e->wrapped, "clCreateProgramWithILKHR"), 0);
        unsigned char q4[40 * KQ_Q4_K_BYTES];
        unsigned char q8[KQ_Q8_K_BYTES];
        const kq_view view = {.G = 1};
        const kq_repeat repeat = {{40, 1}, {KQ_Q4_K_BYTES, 0}, {0, 0}, {4, 0}};
        operands o = operands_make(e, sizeof q4, sizeof q8, 160, 0);
        draw_q4_k(bits, 40, q4);
        draw_q8_k(bits + 1, 1, q8);
        operand_fill(e, &o.at[KQ_LHS], 0, q4, sizeof q4);
        operand_fill(e, &o.at[KQ_RHS], 0, q8, sizeof q8);
        kq_opencl_quantized_dot op = dot_of(&o, KQ_ORDER_PAIRWISE, view, view, 0);
        op.repeat = &repeat;
        expect_dot(&o, &op);
        check_dot(e, &o, &op, e->queue, "the least device");
        operands_destroy(e, &o);
        kq_opencl_destroy(&e->pack);
    }
    e->pack = main_pack;
    e->wrapped.il = shared.options.il;
    e->wrapped.version = NULL;
    e->wrapped.profile = NULL;
    e->wrapped.extensions = NULL;
    e->wrapped.max_work_group_size = 0;
    e->wrapped.max_work_item_sizes[0] = 0;
    e->wrapped.local_mem_size = 0;
    e->wrapped.address_bits = 0;
}

// --- Calls that fail

static struct {
    const char *call;  // NULL: any
    unsigned number;   // of those, from 1
    cl_int code;
    unsigned seen;
    char failed[64];  // the call that failed
} fault;

static cl_int inject(void *user, const char *call, unsigned number)
{
    (void)user;
    (void)number;
    if ((fault.call != NULL && strcmp(fault.call, call) != 0) || ++fault.seen != fault.number) {
        return CL_SUCCESS;
    }
    snprintf(fault.failed, sizeof fault.failed, "%s", call);
    return fault.code;
}

static void set_fault(engine *e, const char *call, unsigned number, cl_int code)
{
    memset(&fault, 0, sizeof fault);
    fault.call = call;
    fault.number = number;
    fault.code = code;
    clear(e);
    e->wrapped.fail = inject;
}

// Each call of an enqueue fails in turn: the error names it, and the pack keeps no event or kernel.
static void test_failing_calls(void **state)
{
    engine *e = *state;
    operands o = operands_make(e, 4096, 4096, 64, 64);
    const kq_view view = {.G = 3};
    const kq_repeat none = {.count = {0, 0}};
    const kq_opencl_quantized_dot dot = dot_of(&o, KQ_ORDER_PAIRWISE, view, view, 0);
    kq_opencl_quantized_dot nothing = dot;
    nothing.repeat = &none;
    int live = wrapped_opencl_live(&e->wrapped);
    cl_event event = NULL;

    set_fault(e, "clEnqueueNDRangeKernel", 2, CL_OUT_OF_RESOURCES);
    kq_result result = kq_opencl_quantized_dot_enqueue(e->pack, &dot, e->queue, 0, NULL, &event);
    check_report(e, result, KQ_ERROR_DRIVER,
                 "clEnqueueNDRangeKernel gave CL_OUT_OF_RESOURCES (-5)");
    assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), 1);
    assert_null(event);
    set_fault(e, "clEnqueueNDRangeKernel", 1, CL_INVALID_WORK_GROUP_SIZE);
    result = kq_opencl_quantized_dot_enqueue(e->pack, &dot, e->queue, 0, NULL, NULL);
    check_report(e, result, KQ_ERROR_UNSUPPORTED,
                 "CL_KERNEL_WORK_GROUP_SIZE of quantized_dot_terms.base is ");
    assert_non_null(strstr(e->report.reason, "; 64 are needed"));
    set_fault(e, "clEnqueueMarkerWithWaitList", 1, CL_OUT_OF_HOST_MEMORY);
    result = kq_opencl_quantized_dot_enqueue(e->pack, &nothing, e->queue, 0, NULL, &event);
    check_report(e, result, KQ_ERROR_MEMORY,
                 "clEnqueueMarkerWithWaitList gave CL_OUT_OF_HOST_MEMORY (-6)");
    assert_int_equal(wrapped_opencl_live(&e->wrapped), live);

    for (unsigned number = 1;; number++) {
        set_fault(e, NULL, number, CL_MEM_OBJECT_ALLOCATION_FAILURE);
        event = NULL;
        result = kq_opencl_quantized_dot_enqueue(e->pack, &dot, e->queue, 0, NULL, &event);
        e->wrapped.fail = NULL;
        if (fault.failed[0] == '\0') {
            engine_expect_ok(e, result);
            assert_non_null(event);
            assert_true(number > 50);
            break;
        }
        // A release that fails has released all the same.
        if (result == KQ_OK) {
            assert_int_equal(strncmp(fault.failed, "clRelease", 9), 0);
        } else {
            check_report(e, result, KQ_ERROR_MEMORY, fault.failed);
            assert_null(event);
        }
        if (event != NULL) {
            cl_api_clReleaseEvent release =
                (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
            assert_int_equal(release(event), CL_SUCCESS);
        }
        assert_int_equal(wrapped_opencl_live(&e->wrapped), live);
    }
    assert_int_equal(e->cl.clFinish(e->queue), CL_SUCCESS);
    cl_api_clReleaseEvent release =
        (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
    assert_int_equal(release(event), CL_SUCCESS);
    operands_destroy(e, &o);
}

// The same of the launches of the self-test, in which each waits for the one before.
static void test_failing_self_test(void **state)
{
    engine *e = *state;
    operand o = operand_make(e, KQ_SELF_TEST_BYTES);
    const kq_opencl_range range = {o.buffer, 0};
    int live = wrapped_opencl_live(&e->wrapped);
    unsigned failed = 0;
    for (unsigned number = 1; failed + 1 == number; number++) {
        cl_event event = NULL;
        set_fault(e, "clEnqueueNDRangeKernel", number, CL_OUT_OF_HOST_MEMORY);
        kq_result result = kq_opencl_self_test_enqueue(e->pack, &range, e->queue, 0, NULL, &event);
        e->wrapped.fail = NULL;
        if (result == KQ_OK) {
            cl_api_clReleaseEvent release =
                (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
            assert_int_equal(release(event), CL_SUCCESS);
            assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), failed);
        } else {
            failed++;
            check_report(e, result, KQ_ERROR_MEMORY, "clEnqueueNDRangeKernel gave");
            assert_null(event);
            assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), number - 1);
        }
        assert_int_equal(wrapped_opencl_live(&e->wrapped), live);
    }
    assert_true(failed >= KQ_SELF_TEST_PLANS);
    assert_int_equal(e->cl.clFinish(e->queue), CL_SUCCESS);
    operand_destroy(e, &o);
}

// The first line of the log, and whether another try is made.
static void test_failing_builds(void **state)
{
    engine *e = *state;
    e->wrapped.build_log = "\n \t\r\nline 7: no such thing\nand more\n";
    set_fault(e, "clBuildProgram", 1, CL_OUT_OF_HOST_MEMORY);
    REFUSE_PACK(KQ_ERROR_MEMORY, "clBuildProgram of quantize (log: line 7: no such thing) gave",
                (void)0);
    assert_null(strstr(e->report.reason, "and more"));
    assert_int_equal(wrapped_opencl_calls(&e->wrapped, "clBuildProgram"), 1);
    e->wrapped.build_log = NULL;
    // A compiler that refuses one way gets another.
    kq_opencl_params params = engine_pack_params(e);
    kq_opencl *pack = NULL;
    set_fault(e, "clBuildProgram", 1, CL_BUILD_PROGRAM_FAILURE);
    engine_expect_ok(e, kq_opencl_create(&params, &pack));
    e->wrapped.fail = NULL;
    assert_string_equal(fault.failed, "clBuildProgram");
    kq_opencl_destroy(&pack);
}

// How often a pack of base kernels makes its compiler build.
static unsigned count_builds(engine *e, uint32_t ops)
{
    kq_opencl_params params = engine_pack_params(e);
    kq_opencl *pack = NULL;
    params.ops = ops;
    clear(e);
    engine_expect_ok(e, kq_opencl_create(&params, &pack));
    kq_opencl_destroy(&pack);
    return wrapped_opencl_calls(&e->wrapped, "clBuildProgram");
}

// A compiler that refuses the kernels for CPUs is asked once, and the pack goes without them.
static void test_refused_variants(void **state)
{
    engine *e = *state;
    kq_opencl_params params = engine_pack_params(e);
    kq_opencl *pack = NULL;
    cl_device_type type = 0;
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    assert_true((type & CL_DEVICE_TYPE_CPU) != 0);
    // The first of them is built behind the base kernel of quantize.
    unsigned first = count_builds(e, 1u << KQ_OP_QUANTIZE) + 1;
    unsigned builds = count_builds(e, 0) + 1;
    e->wrapped.native_vector_width_char = 16;
    set_fault(e, "clBuildProgram", first, CL_BUILD_PROGRAM_FAILURE);
    engine_expect_ok(e, kq_opencl_create(&params, &pack));
    assert_string_equal(fault.failed, "clBuildProgram");
    assert_int_equal(wrapped_opencl_calls(&e->wrapped, "clBuildProgram"), builds);
    e->wrapped.fail = NULL;
    kq_opencl_destroy(&pack);
    set_fault(e, "clBuildProgram", first, CL_OUT_OF_HOST_MEMORY);
    REFUSE_PACK(KQ_ERROR_MEMORY, "clBuildProgram of quantize", (void)0);
    e->wrapped.native_vector_width_char = 1;
}

// --- All of it

int main(int argc, char **argv)
{
    int status = engine_read_options(argc, argv, false, &shared.options);
    status = status != EXIT_SUCCESS ? status : engine_check_device(&shared.options);
    if (status == EXIT_SUCCESS) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_call_arguments),    cmocka_unit_test(test_sub_buffers),
            cmocka_unit_test(test_pack_arguments),    cmocka_unit_test(test_ops),
            cmocka_unit_test(test_lesser_devices),    cmocka_unit_test(test_least_device),
            cmocka_unit_test(test_failing_calls),     cmocka_unit_test(test_failing_builds),
            cmocka_unit_test(test_refused_variants),  cmocka_unit_test(test_self_test),
            cmocka_unit_test(test_failing_self_test), cmocka_unit_test(test_close),
        };
        int failed = cmocka_run_group_tests_name("opencl_refusal", tests, open_engine, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    free_vectors(&shared.options.vectors);
    return status;
}
