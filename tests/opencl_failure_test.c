// Level 3 on an OpenCL device whose calls fail: the right error, and nothing left behind.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_failure_test [--expect=TEXT] [--il] [--quick]
//   TEXT     must occur in the name of device or platform
//   --il     the SPIR-V modules are what runs, if need be translated for the driver
//   --quick  for interpreters: leaves out what it prints
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void lists_no_device_without_a_loader(void **state)
{
    (void)state;
    static const char *const names[] = {"clGetPlatformIDs", "clEnqueueReadBuffer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t count = 0;
        kq_device *opened = NULL;
        own.wrapped.missing_name = names[i];
        assert_int_equal(kq_list_devices(&own.lookup, NULL, &count), KQ_OK);
        assert_int_equal(count, 1);
        assert_int_equal(open_device(0, &opened), KQ_ERROR_NO_DEVICE);
        assert_null(opened);
        own.wrapped.missing_name = NULL;
    }
}

static struct {
    const char *call;  // NULL: any
    unsigned number;   // of that call, from 1; 0: every one
    cl_int code;
    unsigned seen;
    char failed[64];  // the call that failed, or ""
} fault;

static cl_int inject(void *user, const char *call, unsigned number)
{
    (void)user;
    (void)number;
    if (fault.call != NULL && strcmp(fault.call, call) != 0) {
        return CL_SUCCESS;
    }
    fault.seen++;
    if (fault.number != 0 && fault.seen != fault.number) {
        return CL_SUCCESS;
    }
    snprintf(fault.failed, sizeof fault.failed, "%s", call);
    return fault.code;
}

static void set_fault(const char *call, unsigned number, cl_int code)
{
    memset(&fault, 0, sizeof fault);
    memset(&own.report, 0, sizeof own.report);
    fault.call = call;
    fault.number = number;
    fault.code = code;
    own.wrapped.fail = code != CL_SUCCESS ? inject : NULL;
}

static void a_failed_call_is_named(void **state)
{
    (void)state;
    kq_buffer *buffer = NULL;
    kq_device *opened = NULL;
    set_fault("clCreateBuffer", 1, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(kq_buffer_create(own.device, 100, &buffer), KQ_ERROR_MEMORY);
    assert_null(buffer);
    assert_true(
        is_reported(KQ_ERROR_MEMORY, "clCreateBuffer gave CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"));
    assert_int_equal(own.report.count, 1);

    int live = wrapped_opencl_live(&own.wrapped);
    own.wrapped.build_log = "\n \t\nline 7: no such thing\nand more\n";
    set_fault("clBuildProgram", 0, CL_BUILD_PROGRAM_FAILURE);
    expect_ok("opening", open_device(0, &opened));
    const char *step = NULL;
    assert_int_equal(kq_self_test(opened, &step), KQ_ERROR_DRIVER);
    own.wrapped.build_log = NULL;
    kq_device_destroy(&opened);
    assert_null(step);
    assert_true(is_reported(KQ_ERROR_DRIVER, "CL_BUILD_PROGRAM_FAILURE (-11)"));
    assert_true(is_reported(KQ_ERROR_DRIVER, "clBuildProgram of quantize "));
    assert_true(is_reported(KQ_ERROR_DRIVER, "line 7: no such thing"));
    assert_false(is_reported(KQ_ERROR_DRIVER, "and more"));
    assert_int_equal(own.report.count, 1);
    assert_int_equal(wrapped_opencl_live(&own.wrapped), live);

    unsigned char *q4 = make_q4_k(1, 1);
    kq_buffer *lhs = create_buffer(q4, 144, 0, 0);
    kq_buffer *rhs = create_buffer(NULL, 292, 0, 0);
    kq_buffer *result = create_buffer(NULL, 4, 0, 0);
    kq_quantized_dot_args args = dot_args(KQ_ORDER_PAIRWISE, lhs, rhs, 1, result);
    set_fault(NULL, 0, CL_SUCCESS);
    expect_ok("the first dot", kq_quantized_dot(own.device, &args));  // from here on all is there
    live = wrapped_opencl_live(&own.wrapped);
    wrapped_opencl_reset(&own.wrapped);
    set_fault("clEnqueueNDRangeKernel", 2, CL_OUT_OF_RESOURCES);
    kq_result failed = kq_quantized_dot(own.device, &args);
    set_fault(NULL, 0, CL_SUCCESS);
    assert_int_equal(failed, KQ_ERROR_DRIVER);
    assert_int_equal(wrapped_opencl_launches(&own.wrapped, NULL), 1);
    expect_ok("the next dot", kq_quantized_dot(own.device, &args));
    assert_int_equal(wrapped_opencl_live(&own.wrapped), live);
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&rhs);
    kq_buffer_destroy(&result);
    free(q4);
}

// There are drivers whose calls all succeed, and which then don't do the work.
static void lost_work_is_an_error(void **state)
{
    (void)state;
    unsigned char *values = make_values(1, 5);
    unsigned char *q4 = make_q4_k(2, 5);
    kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K,
        .values = {create_buffer(values, 5 * KQ_BLOCK_BYTES, 0, 0), {.G = 5}},
        .records = {create_buffer(NULL, 5 * KQ_Q8_K_BYTES, 0, 0), {.G = 5}},
    };
    kq_buffer *lhs = create_buffer(q4, 5 * KQ_Q4_K_BYTES, 0, 0);
    kq_buffer *result = create_buffer(NULL, 4, 0, 0);
    const kq_quantized_dot_args dot =
        dot_args(KQ_ORDER_SEQUENTIAL, lhs, quantize.records.buffer, 5, result);
    const char *step = NULL;
    own.wrapped.loses_launches = true;
    assert_int_equal(kq_self_test(own.device, &step), KQ_ERROR_DRIVER);
    assert_string_equal(step, "f16 to f32");
    kq_result lost = kq_quantize(own.device, &quantize);
    own.wrapped.loses_launches = false;
    assert_int_equal(lost, KQ_ERROR_DRIVER);
    assert_true(is_reported(KQ_ERROR_DRIVER, "0 of 5 records"));
    expect_ok("quantize", kq_quantize(own.device, &quantize));

    own.wrapped.execution_status = CL_OUT_OF_RESOURCES;
    kq_result failed[2] = {kq_quantize(own.device, &quantize), kq_quantized_dot(own.device, &dot)};
    own.wrapped.execution_status = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(failed[i], KQ_ERROR_DRIVER);
    }
    assert_true(is_reported(KQ_ERROR_DRIVER, "execution gave CL_OUT_OF_RESOURCES (-5)"));
    expect_ok("a dot", kq_quantized_dot(own.device, &dot));
    kq_buffer_destroy(&quantize.values.buffer);
    kq_buffer_destroy(&quantize.records.buffer);
    kq_buffer_destroy(&lhs);
    kq_buffer_destroy(&result);
    free(values);
    free(q4);
}

// Opens a second device, for one operation, carries that out once, and closes it.
static kq_result open_and_close(kq_op op)
{
    static const float values[KQ_BLOCK] = {1.0f};
    static const unsigned char q4_k[KQ_Q4_K_BYTES];
    unsigned char q8_k[KQ_Q8_K_BYTES] = {0};
    float sum = 1;
    kq_device *opened = NULL;
    kq_result result = open_device(1u << op, &opened);
    assert_true((opened != NULL) == (result == KQ_OK));
    if (result == KQ_OK && op == KQ_OP_QUANTIZE) {
        result = kq_quantize_host(opened, KQ_FORMAT_Q8_K, values, KQ_BLOCK, q8_k, NULL);
    } else if (result == KQ_OK) {
        result = kq_quantized_dot_host(opened, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                       KQ_ORDER_SEQUENTIAL, 1, q4_k, sizeof q4_k, q8_k, sizeof q8_k,
                                       &sum);
        assert_true(result != KQ_OK || sum == 0);
    }
    kq_device_destroy(&opened);
    return result;
}

static kq_result open_for_quantize(void)
{
    return open_and_close(KQ_OP_QUANTIZE);
}

static kq_result open_for_dot(void)
{
    return open_and_close(KQ_OP_QUANTIZED_DOT);
}

// Buffers, one quantize and one dot, whose result is known, and the self-test. KQ_OK, or the first
// result that isn't.
static kq_result use_buffers(void)
{
    static const uint64_t sizes[4] = {1024, 292, 144, 4};
    unsigned char values[1024] = {0, 0, 0xFE, 0x42};  // 127
    unsigned char q4[144] = {0, 0x3C};                // d = 1
    unsigned char bytes[4];
    kq_buffer *buffers[4] = {NULL, NULL, NULL, NULL};
    kq_recording *recording = NULL;
    q4[4] = 3;   // sc[0]
    q4[16] = 5;  // q[0]; ds is -1, so the dot is -1 * (3 * 5 * -127)
    kq_result result = KQ_OK;
    for (unsigned i = 0; i < 4 && result == KQ_OK; i++) {
        result = kq_buffer_create(own.device, sizes[i], &buffers[i]);
    }
    result = result != KQ_OK ? result : kq_buffer_upload(buffers[0], 0, values, sizeof values);
    result = result != KQ_OK ? result : kq_buffer_upload(buffers[2], 0, q4, sizeof q4);
    if (result == KQ_OK) {
        kq_quantize_args args = {
            .format = KQ_FORMAT_Q8_K,
            .values = {buffers[0], {.G = 1}},
            .records = {buffers[1], {.G = 1}},
        };
        result = kq_quantize(own.device, &args);
    }
    if (result == KQ_OK) {
        kq_quantized_dot_args args = dot_args(0, buffers[2], buffers[1], 1, buffers[3]);
        result = kq_quantized_dot(own.device, &args);
        result = result != KQ_OK ? result : kq_quantized_dot_record(own.device, &args, &recording);
    }
    for (int run = 0; run < 2; run++) {
        result = result != KQ_OK ? result : kq_recording_run(recording, NULL);
    }
    kq_recording_destroy(&recording);
    result = result != KQ_OK ? result : kq_buffer_download(buffers[3], 0, bytes, 4);
    if (result == KQ_OK) {
        const float wanted = 1905.0f;
        assert_memory_equal(bytes, &wanted, 4);
    }
    const char *step = NULL;
    result = result != KQ_OK ? result : kq_self_test(own.device, &step);
    assert_null(step);
    for (unsigned i = 0; i < 4; i++) {
        kq_buffer_destroy(&buffers[i]);
    }
    return result;
}

// Where the library can do without an answer, or tries something else.
static bool is_dispensable(const char *call)
{
    static const char *const calls[] = {"clEnqueueMarkerWithWaitList", "clGetEventProfilingInfo",
                                        "clGetPlatformInfo",           "clGetDeviceInfo",
                                        "clGetProgramBuildInfo",       "clBuildProgram",
                                        "clCreateProgramWithSource",   "clCreateProgramWithIL"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(call, calls[i]) == 0) {
            return true;
        }
    }
    return strncmp(call, "clRelease", 9) == 0;
}

// Runs use() with its first call failing, then its second, and so on: each time an error of the
// right kind that names the call, or none where the call is dispensable; and nothing is left
// behind.
static void fail_each_call(const char *what, kq_result (*use)(void), cl_int code,
                           const char *code_name, kq_result wanted)
{
    unsigned wrong = 0;
    for (unsigned number = 1;; number++) {
        int live = wrapped_opencl_live(&own.wrapped);
        set_fault(NULL, number, code);
        kq_result result = use();
        own.wrapped.fail = NULL;
        if (fault.failed[0] == '\0') {
            expect_ok("without a fault", result);
            print_message("%s: %u calls gave %s in turn\n", what, number - 1, code_name);
            break;
        }
        bool is_listing = strcmp(fault.failed, "clGetPlatformIDs") == 0 ||
                          strcmp(fault.failed, "clGetDeviceIDs") == 0;
        bool is_right =
            result == wanted && is_reported(result, fault.failed) && is_reported(result, code_name);
        is_right = is_right || (is_dispensable(fault.failed) && result == KQ_OK);
        is_right = is_right || (is_listing && result == KQ_ERROR_NO_DEVICE);
        int left = wrapped_opencl_live(&own.wrapped) - live;
        if (!is_right || own.report.count != (result != KQ_OK) || left != 0) {
            print_error("%s, call %u, %s, gives %s: %s, %u errors, \"%s\", %d objects left\n", what,
                        number, fault.failed, code_name, kq_result_name(result), own.report.count,
                        own.report.reason, left);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void each_call_of_opening_may_fail(void **state)
{
    (void)state;
    if (own.is_quick) {
        print_message("left out: each call of opening a device fails in turn\n");
        skip();
    }
    fail_each_call("opening for quantize", open_for_quantize, CL_OUT_OF_HOST_MEMORY,
                   "CL_OUT_OF_HOST_MEMORY (-6)", KQ_ERROR_MEMORY);
    fail_each_call("opening for dots", open_for_dot, CL_OUT_OF_RESOURCES,
                   "CL_OUT_OF_RESOURCES (-5)", KQ_ERROR_DRIVER);
}

static void each_call_of_an_operation_may_fail(void **state)
{
    (void)state;
    expect_ok("without a fault", use_buffers());  // so that scratch is there
    fail_each_call("operations", use_buffers, CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY (-6)",
                   KQ_ERROR_MEMORY);
    fail_each_call("operations", use_buffers, CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES (-5)",
                   KQ_ERROR_DRIVER);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_its_driver),
        cmocka_unit_test(lists_no_device_without_a_loader),
        cmocka_unit_test(a_failed_call_is_named),
        cmocka_unit_test(lost_work_is_an_error),
        cmocka_unit_test(each_call_of_opening_may_fail),
        cmocka_unit_test(each_call_of_an_operation_may_fail),
        cmocka_unit_test(leaves_nothing_behind),
    };
    int status = own_start(argc, argv, false);
    if (status == EXIT_SUCCESS) {
        int failed = cmocka_run_group_tests_name("opencl_failure", tests, NULL, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    own_free();
    return status;
}
