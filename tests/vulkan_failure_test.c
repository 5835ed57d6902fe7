// Level 3 when calls of the driver fail for good: the right code, one report that names the call,
// nothing left. faults/ has each call that fails once.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none. Takes no argument, and minds none.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"
#include "vulkan_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Calls of that name fail from number on.
typedef struct failure {
    const char *call;
    unsigned number;
    VkResult result;
} failure;

static VkResult fail_armed(void *user, const char *call, unsigned number)
{
    const failure *failure = user;
    return strcmp(failure->call, call) == 0 && number >= failure->number ? failure->result
                                                                         : VK_SUCCESS;
}

static void arm(fixture *f, failure *armed, failure next)
{
    wrapped_vulkan_reset(&f->wrapped);
    memset(&f->report, 0, sizeof f->report);
    *armed = next;
}

static void check_report(const fixture *f, kq_result result, const char *call)
{
    assert_int_equal(f->report.count, 1);
    assert_int_equal(f->report.result, result);
    assert_non_null(strstr(f->report.reason, call));
}

static void test_failed_allocation(void **state)
{
    fixture *f = *state;
    failure armed = {.call = "none"};
    f->wrapped = f->shown;
    f->wrapped.fail = fail_armed;
    f->wrapped.fail_user = &armed;
    assert_int_equal(try_to_open(f), KQ_OK);
    int live = wrapped_vulkan_live(&f->wrapped);
    static const failure failures[] = {
        {.call = "vkCreateBuffer", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkAllocateMemory", .number = 1, .result = VK_ERROR_OUT_OF_DEVICE_MEMORY},
        {.call = "vkBindBufferMemory", .number = 1, .result = VK_ERROR_OUT_OF_DEVICE_MEMORY},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        kq_buffer *buffer = NULL;
        arm(f, &armed, failures[i]);
        assert_int_equal(kq_buffer_create(f->device, 1000, &buffer), KQ_ERROR_MEMORY);
        assert_null(buffer);
        check_report(f, KQ_ERROR_MEMORY, failures[i].call);
        assert_int_equal(wrapped_vulkan_live(&f->wrapped), live);
    }
    arm(f, &armed, (failure){.call = "none"});
    kq_buffer *buffer = make_buffer(f, 1000);
    kq_buffer_destroy(&buffer);
    close_device(f);
}

static void test_lost_device(void **state)
{
    fixture *f = *state;
    failure armed = {.call = "none"};
    f->wrapped = f->shown;
    f->wrapped.fail = fail_armed;
    f->wrapped.fail_user = &armed;
    assert_int_equal(try_to_open(f), KQ_OK);
    kq_buffer *values = make_buffer(f, KQ_BLOCK_BYTES);
    kq_buffer *records = make_buffer(f, KQ_Q8_K_BYTES);
    kq_buffer *result = make_buffer(f, 4);
    unsigned char block[KQ_BLOCK_BYTES];
    draw_values(1, 1, block);
    upload(values, 0, block, sizeof block);
    static const char *const calls[] = {"vkQueueSubmit", "vkWaitForFences", "vkBeginCommandBuffer"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        arm(f, &armed, (failure){.call = calls[i], .number = 1, .result = VK_ERROR_DEVICE_LOST});
        assert_int_equal(quantize(f, view_of(values, 0, 1), view_of(records, 0, 1), NULL),
                         KQ_ERROR_DRIVER);
        check_report(f, KQ_ERROR_DRIVER, calls[i]);
        arm(f, &armed, (failure){.call = calls[i], .number = 1, .result = VK_ERROR_DEVICE_LOST});
        assert_int_equal(dot(f->device, KQ_ORDER_PAIRWISE, view_of(values, 0, 1),
                             view_of(records, 0, 1), result, 0, NULL),
                         KQ_ERROR_DRIVER);
        check_report(f, KQ_ERROR_DRIVER, calls[i]);
    }
    kq_buffer_destroy(&values);
    kq_buffer_destroy(&records);
    kq_buffer_destroy(&result);
    close_device(f);
}

static void test_failed_opening(void **state)
{
    fixture *f = *state;
    static const failure failures[] = {
        {.call = "vkCreateComputePipelines", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateComputePipelines", .number = 3, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateShaderModule", .number = 2, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateDescriptorSetLayout", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreatePipelineLayout", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateCommandPool", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkAllocateCommandBuffers", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateFence", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateDescriptorPool", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkAllocateDescriptorSets", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
        {.call = "vkCreateDevice", .number = 1, .result = VK_ERROR_OUT_OF_HOST_MEMORY},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        failure armed = failures[i];
        f->wrapped = f->shown;
        f->wrapped.fail = fail_armed;
        f->wrapped.fail_user = &armed;
        // What an operation needs is there when the first one comes.
        const char *step = NULL;
        kq_result result = try_to_open(f);
        assert_true((f->device != NULL) == (result == KQ_OK));
        result = result != KQ_OK ? result : kq_self_test(f->device, &step);
        assert_int_equal(result, KQ_ERROR_MEMORY);
        check_report(f, KQ_ERROR_MEMORY, failures[i].call);
        kq_device_destroy(&f->device);
        check_closed(f);
    }
}

// The engine's own call learns it too, and what the device says is otherwise all right.
static void test_lost_work(void **state)
{
    fixture *f = *state;
    const char *step = NULL;
    open_device(f);
    f->wrapped.lost_kernels = "";
    assert_int_equal(kq_self_test(f->device, &step), KQ_ERROR_DRIVER);
    assert_string_equal(step, "f16 to f32");
    check_report(f, KQ_ERROR_DRIVER, "f16 to f32 of 0x00000000");
    memset(&f->report, 0, sizeof f->report);
    f->wrapped.lost_kernels = "quantized_dot_pairwise";
    assert_int_equal(kq_self_test(f->device, &step), KQ_ERROR_DRIVER);
    assert_string_equal(step, "pairwise dot");
    check_report(f, KQ_ERROR_DRIVER, "pairwise dot, 2 x 1 of G = 601 in pairwise order: FNV-1a");
    f->wrapped.lost_kernels = NULL;
    assert_int_equal(kq_self_test(f->device, &step), KQ_OK);
    assert_null(step);
    close_device(f);
}

int main(void)
{
    static fixture unified = {.shown.layout = WRAPPED_LAYOUT_UNIFIED};
    static fixture discrete = {.shown.layout = WRAPPED_LAYOUT_DISCRETE_NONCOHERENT};
    if (!device_is_possible(WRAPPED_VALIDATION_NONE)) {
        return EXIT_SKIP;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_failed_allocation, &unified),
        cmocka_unit_test_prestate(test_failed_opening, &unified),
        {"test_lost_device: unified", test_lost_device, NULL, NULL, &unified},
        {"test_lost_device: discrete", test_lost_device, NULL, NULL, &discrete},
        {"test_lost_work: unified", test_lost_work, NULL, NULL, &unified},
        {"test_lost_work: discrete", test_lost_work, NULL, NULL, &discrete},
    };
    int failed = cmocka_run_group_tests_name("vulkan_failure", tests, NULL, NULL);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
