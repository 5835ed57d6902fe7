// The self-test of level 2 on an OpenCL device: right on this driver, in either queue and anywhere
// in buffers and sub-buffers, and no byte around it touched; and a driver that compiles wrongly or
// doesn't do the work is found out, by the step that is wrong.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_answers_test [--expect=TEXT] [--il] [--quick]
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
    wrapped_opencl_watch(false);
    engine_open(&shared.engine, &shared.options);
    *state = &shared;
    return 0;
}

static void test_close(void **state)
{
    fixture *f = *state;
    engine_close(&f->engine);
}

// The input from `at` on in the parent of range, which is poisoned else; and the work.
static void run(engine *e, const kq_opencl *pack, operand *parent, size_t at,
                const kq_opencl_range *range, cl_command_queue queue)
{
    unsigned char input[KQ_SELF_TEST_BYTES];
    kq_self_test_input(input);
    operand_fill(e, parent, at, input, sizeof input);
    wrapped_opencl_reset(&e->wrapped);
    engine_expect_ok(e, kq_opencl_self_test_enqueue(pack, range, queue, 0, NULL, NULL));
    assert_int_equal(e->cl.clFinish(queue), CL_SUCCESS);
}

static unsigned char *read_back(const engine *e, const operand *o)
{
    unsigned char *bytes = malloc(o->bytes);
    assert_non_null(bytes);
    assert_int_equal(
        e->cl.clEnqueueReadBuffer(e->queue, o->buffer, CL_TRUE, 0, o->bytes, bytes, 0, NULL, NULL),
        CL_SUCCESS);
    return bytes;
}

// --- On the driver as it is

// Right, and of all other bytes but scratch, which kernels alone write, as the reference leaves it.
// Most of scratch is for five columns of 66 dots of two records.
static void check_work(const engine *e, const operand *o, size_t at)
{
    unsigned char *bytes = read_back(e, o);
    unsigned char done[KQ_SELF_TEST_BYTES];
    size_t first = sizeof done;
    size_t last = 0;
    kq_self_test_input(done);
    kq_self_test_reference(done);
    assert_null(judge_self_test(bytes + at));
    for (size_t k = 0; k < sizeof done; k += 4) {
        if (memcmp(bytes + at + k, done + k, 4) != 0) {
            first = k < first ? k : first;
            last = k;
        }
    }
    assert_int_equal(last + 4 - first, 4 * 2 * (601 + 2));
    assert_memory_equal(bytes, o->expected, at);
    assert_memory_equal(bytes + at + sizeof done, o->expected + at + sizeof done,
                        o->bytes - at - sizeof done);
    free(bytes);
}

static void test_places(void **state)
{
    static const struct {
        const char *kernel;
        unsigned launches;
    } parts[] = {
        {"primitive", 1},
        {"quantize", 3},
        {"quantized_dot_terms", 6},
        {"quantized_dot_terms_shared", 5},
        {"quantized_dot_sequential", 6},
        {"quantized_dot_pairwise", 6},
    };
    static const size_t offsets[] = {0, 4, 404};
    fixture *f = *state;
    engine *e = &f->engine;
    for (size_t i = 0; i < 6; i++) {
        const size_t offset = offsets[i / 2];
        // Some end with the buffer.
        operand o = operand_make(e, offset + KQ_SELF_TEST_BYTES + (i < 4 ? 0 : 68));
        const kq_opencl_range range = {o.buffer, offset};
        run(e, e->pack, &o, offset, &range, engine_choose_queue(e, i));
        check_work(e, &o, offset);
        unsigned sum = 0;
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
            assert_int_equal(wrapped_opencl_launches(&e->wrapped, parts[part].kernel),
                             parts[part].launches);
            sum += parts[part].launches;
        }
        assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), sum);
        operand_destroy(e, &o);
    }
}

static void test_sub_buffer(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const size_t origin = 3 * e->alignment;
    operand parent = operand_make(e, origin + KQ_SELF_TEST_BYTES + 512);
    cl_mem region = operand_region(e, &parent, origin, KQ_SELF_TEST_BYTES + 8);
    for (size_t offset = 0; offset <= 8; offset += 4) {
        const kq_opencl_range range = {region, offset};
        run(e, e->pack, &parent, origin + offset, &range, engine_choose_queue(e, offset / 4));
        check_work(e, &parent, origin + offset);
    }
    e->cl.clReleaseMemObject(region);
    operand_destroy(e, &parent);
}

// Behind a gate, so that nothing has run when the call returns: the first launch waits for it, each
// other for the one before, and the last has the event.
static void test_events(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    cl_api_clReleaseEvent release =
        (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
    for (size_t i = 0; i < 2; i++) {
        cl_command_queue queue = engine_choose_queue(e, i);
        unsigned char input[KQ_SELF_TEST_BYTES];
        operand o = operand_make(e, KQ_SELF_TEST_BYTES);
        const kq_opencl_range range = {o.buffer, 0};
        cl_int code = CL_SUCCESS;
        cl_event gate = e->cl.clCreateUserEvent(e->context, &code);
        cl_event event = NULL;
        cl_int status = CL_COMPLETE;
        assert_int_equal(code, CL_SUCCESS);
        kq_self_test_input(input);
        operand_fill(e, &o, 0, input, sizeof input);
        wrapped_opencl_reset(&e->wrapped);
        engine_expect_ok(e, kq_opencl_self_test_enqueue(e->pack, &range, queue, 1, &gate, &event));
        const wrapped_launch *launches = e->wrapped.launches;
        unsigned count = e->wrapped.launch_count;
        assert_non_null(event);
        assert_int_equal(count, 27);
        for (unsigned k = 0; k < count; k++) {
            assert_ptr_equal(launches[k].queue, queue);
            assert_int_equal(launches[k].wait_count, 1);
            assert_ptr_equal(launches[k].first_wait, k == 0 ? gate : launches[k - 1].event);
        }
        assert_ptr_equal(launches[count - 1].event, event);
        assert_int_equal(e->wrapped.live[WRAPPED_EVENT], 1);
        assert_int_equal(e->wrapped.live[WRAPPED_KERNEL], 0);
        assert_int_equal(e->cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                              sizeof status, &status, NULL),
                         CL_SUCCESS);
        assert_int_not_equal(status, CL_COMPLETE);
        e->cl.clSetUserEventStatus(gate, CL_COMPLETE);
        assert_int_equal(e->cl.clWaitForEvents(1, &event), CL_SUCCESS);
        check_work(e, &o, 0);
        assert_int_equal(release(event), CL_SUCCESS);
        e->cl.clReleaseEvent(gate);
        operand_destroy(e, &o);
    }
}

// --- On a faulty driver

static void test_lost_work(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    operand o = operand_make(e, KQ_SELF_TEST_BYTES);
    const kq_opencl_range range = {o.buffer, 0};
    e->wrapped.loses_launches = true;
    run(e, e->pack, &o, 0, &range, e->queue);
    e->wrapped.loses_launches = false;
    unsigned char *bytes = read_back(e, &o);
    const char *step = judge_self_test(bytes);
    assert_non_null(step);
    assert_string_equal(step, "f16 to f32");
    free(bytes);
    operand_destroy(e, &o);
}

// A compiler that takes one text of a kernel's source for another.
static void test_wrong_kernels(void **state)
{
    static const struct {
        const char *kernel, *text, *as, *step;
    } faults[] = {
        {"primitive", "h & 0x3FFu", "h & 0x1FFu", "f16 to f32"},
        {"primitive", "no such text", "and no fault", NULL},
        {"primitive", "kq_f32_add(a, b ^ ", "kq_f32_add(a, b & ", "f32 subtract"},
        {"primitive", "i < 27u", "i < 26u", "f32 divide"},
        {"quantize", "0xC2FE0000u", "0xC2FC0000u", "quantize"},
        {"quantized_dot_pairwise", "? x - y : x + y", "? x - y : x - y", "pairwise dot"},
        {"quantized_dot_terms_shared", "0x30303030u", "0x30303010u", "dots of shared records"},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    operand o = operand_make(e, KQ_SELF_TEST_BYTES);
    const kq_opencl_range range = {o.buffer, 0};
    kq_opencl_params params = engine_pack_params(e);
    params.program = KQ_OPENCL_PROGRAM_SOURCE;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        kq_opencl *pack = NULL;
        e->wrapped.misread_kernel = faults[i].kernel;
        e->wrapped.misread = faults[i].text;
        e->wrapped.misread_as = faults[i].as;
        e->wrapped.misread_count = 0;
        engine_expect_ok(e, kq_opencl_create(&params, &pack));
        e->wrapped.misread_kernel = NULL;
        assert_int_equal(e->wrapped.misread_count > 0, faults[i].step != NULL);
        run(e, pack, &o, 0, &range, e->queue);
        unsigned char *bytes = read_back(e, &o);
        const char *step = judge_self_test(bytes);
        free(bytes);
        assert_int_equal(step == NULL, faults[i].step == NULL);
        assert_true(step == NULL || strcmp(step, faults[i].step) == 0);
        kq_opencl_destroy(&pack);
    }
    operand_destroy(e, &o);
}

int main(int argc, char **argv)
{
    int status = engine_read_options(argc, argv, false, &shared.options);
    status = status != EXIT_SUCCESS ? status : engine_check_device(&shared.options);
    if (status == EXIT_SUCCESS) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_places),        cmocka_unit_test(test_sub_buffer),
            cmocka_unit_test(test_events),        cmocka_unit_test(test_lost_work),
            cmocka_unit_test(test_wrong_kernels), cmocka_unit_test(test_close),
        };
        int failed = cmocka_run_group_tests_name("opencl_answers", tests, open_engine, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    free_vectors(&shared.options.vectors);
    return status;
}
