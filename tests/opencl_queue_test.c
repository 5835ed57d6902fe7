// Level 2 on queues of one's own: what is enqueued and when it runs, by events alone; programs from
// source and from SPIR-V; threads. Linked with levels 1 and 2 alone.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_queue_test [--expect=TEXT] [--il] [--quick] FOLDER...
//   TEXT     must occur in the name of device or platform
//   --il     the SPIR-V modules are what runs, if need be translated for the driver
//   --quick  for interpreters: leaves out what it prints
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    engine_options options;
    engine engine;
    cl_event gate;        // what is enqueued behind it waits; NULL: none
    bool runs_one_queue;  // the driver gets mixed up if it runs two at once
} fixture;

static fixture shared;

static int open_plain(void **state)
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

// --- The gate

static cl_event make_gate(fixture *f)
{
    cl_int code = CL_SUCCESS;
    f->gate = f->engine.cl.clCreateUserEvent(f->engine.context, &code);
    assert_int_equal(code, CL_SUCCESS);
    return f->gate;
}

static void open_gate(fixture *f)
{
    if (f->gate != NULL) {
        f->engine.cl.clSetUserEventStatus(f->gate, CL_COMPLETE);
        f->engine.cl.clReleaseEvent(f->gate);
        f->gate = NULL;
    }
}

// After a failed test, for else the driver would wait for ever.
static int open_gate_at_last(void **state)
{
    open_gate(*state);
    return 0;
}

// --- Nothing to write

static void check_status(const engine *e, cl_event event, bool is_complete)
{
    cl_int status = CL_QUEUED;
    assert_int_equal(e->cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                          &status, NULL),
                     CL_SUCCESS);
    assert_true(status >= CL_COMPLETE);
    assert_int_equal(status == CL_COMPLETE, is_complete);
}

// Without a block, or without a dot, no call at all is made; an event that is asked for is a
// marker's, which waits for what it is to wait for.
static void test_nothing(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    const kq_repeat empty[] = {
        {.count = {0, 5}, .result_step = {4, 4}},
        {.count = {5, 0}, .result_step = {4, 4}},
        {.count = {0, 0}},
    };
    const kq_opencl_quantize quantize = {.format = KQ_FORMAT_Q8_K};
    for (uint32_t i = 0; i < 7; i++) {
        const kq_opencl_quantized_dot dot = {
            .lhs_format = KQ_FORMAT_Q4_K,
            .rhs_format = KQ_FORMAT_Q8_K,
            .acc = KQ_ACCUMULATOR_F32,
            .lhs.view.G = i,
            .rhs.view.G = i,
            .repeat = &empty[i % 3],
        };
        kq_needs needs = {.dispatch_count = 9, .scratch_bytes = 9};
        cl_event event = NULL;
        cl_event gate = make_gate(f);
        cl_command_queue queue = engine_choose_queue(e, i);
        wrapped_opencl_reset(&e->wrapped);
        for (cl_uint waits = 0; waits < 2; waits++) {
            if (i < 6) {
                engine_expect_ok(e, kq_opencl_quantized_dot_query(e->pack, &dot, &needs));
                engine_expect_ok(e, kq_opencl_quantized_dot_enqueue(e->pack, &dot, queue, waits,
                                                                    waits > 0 ? &gate : NULL,
                                                                    waits > 0 ? &event : NULL));
            } else {
                engine_expect_ok(e, kq_opencl_quantize_query(e->pack, &quantize, &needs));
                engine_expect_ok(e, kq_opencl_quantize_enqueue(e->pack, &quantize, queue, waits,
                                                               waits > 0 ? &gate : NULL,
                                                               waits > 0 ? &event : NULL));
            }
            assert_int_equal(needs.dispatch_count, 0);
            assert_int_equal(needs.scratch_bytes, 0);
            assert_int_equal(e->wrapped.call_count, waits);
        }
        assert_int_equal(wrapped_opencl_calls(&e->wrapped, "clEnqueueMarkerWithWaitList"), 1);
        assert_non_null(event);
        check_status(e, event, false);
        open_gate(f);
        assert_int_equal(e->cl.clWaitForEvents(1, &event), CL_SUCCESS);
        check_status(e, event, true);
        // The event was the pack's to make and is the test's to release.
        assert_int_equal(e->wrapped.live[WRAPPED_EVENT], 1);
        cl_api_clReleaseEvent release =
            (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
        assert_int_equal(release(event), CL_SUCCESS);
    }
}

// --- Operations in a row, bound together by events alone

static void release_events(engine *e, cl_event *events, size_t count)
{
    cl_api_clReleaseEvent release =
        (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(release(events[i]), CL_SUCCESS);
    }
}

// Launches of one operation: the first waits for `first`, each other for the one before it, and the
// last has the event that was asked for.
static void check_chain(const engine *e, unsigned from, unsigned count, cl_uint wait_count,
                        cl_event first, cl_event last)
{
    const wrapped_launch *launches = &e->wrapped.launches[from];
    assert_true(from + count <= e->wrapped.launch_count);
    assert_int_equal(launches[0].wait_count, wait_count);
    assert_ptr_equal(launches[0].first_wait, first);
    for (unsigned i = 1; i < count; i++) {
        assert_non_null(launches[i - 1].event);
        assert_int_equal(launches[i].wait_count, 1);
        assert_ptr_equal(launches[i].first_wait, launches[i - 1].event);
    }
    assert_ptr_equal(launches[count - 1].event, last);
}

// Write, quantize, two dots side by side whose results share a word, read. Nothing starts before
// the gate opens, so that all is enqueued by calls that return before anything has run.
static void run_pipeline(fixture *f, cl_command_queue queue)
{
    enum { BLOCKS = 3, G = 600, DOTS = 2 };  // dots take the last record again and again
    engine *e = &f->engine;
    const engine_functions *cl = &e->cl;
    const kq_view values_view = {.offset = 4, .G = BLOCKS};
    const kq_view records_view = {.offset = 3, .G = BLOCKS};
    const kq_view rhs_view = {
        .offset = 3 + (BLOCKS - 1) * KQ_Q8_K_BYTES, .stride = KQ_BROADCAST, .G = G};
    const kq_view lhs_view = {.G = G};
    const kq_repeat repeat = {{1, DOTS}, {0, G * KQ_Q4_K_BYTES}, {0, 0}, {0, 4}};
    static const uint64_t result_offsets[2] = {1, 1 + 4 * DOTS};
    operands q = operands_make(e, BLOCKS * KQ_BLOCK_BYTES + 4,
                               operand_end(3, BLOCKS * KQ_Q8_K_BYTES), 16, 0);
    operands d = operands_make(e, DOTS * G * KQ_Q4_K_BYTES, 0, 20, 8 * G * DOTS);
    operand other_scratch = operand_make(e, 8 * G * DOTS);
    unsigned char *values = malloc(BLOCKS * KQ_BLOCK_BYTES);
    unsigned char *lhs = malloc(DOTS * G * KQ_Q4_K_BYTES);
    static const unsigned char preset[16] = {0xFF, 0xFF, 0xFF, 0xFF};
    unsigned char results[20];
    unsigned char records[BLOCKS * KQ_Q8_K_BYTES + 4];
    cl_event written[3];
    cl_event made[3] = {NULL, NULL, NULL};  // by quantize and the dots
    cl_event was_read[2];
    assert_true(values != NULL && lhs != NULL);
    draw_values(5, BLOCKS, values);
    draw_q4_k(6, DOTS * G, lhs);
    memset(results, 0, sizeof results);
    const cl_event gate = make_gate(f);
    wrapped_opencl_reset(&e->wrapped);

    assert_int_equal(cl->clEnqueueWriteBuffer(queue, q.at[KQ_VALUES].buffer, CL_FALSE, 4,
                                              BLOCKS * KQ_BLOCK_BYTES, values, 1, &gate,
                                              &written[0]),
                     CL_SUCCESS);
    assert_int_equal(cl->clEnqueueWriteBuffer(queue, q.at[KQ_STATUS].buffer, CL_FALSE, 0, 16,
                                              preset, 1, &gate, &written[1]),
                     CL_SUCCESS);
    assert_int_equal(cl->clEnqueueWriteBuffer(queue, d.at[KQ_LHS].buffer, CL_FALSE, 0,
                                              DOTS * G * KQ_Q4_K_BYTES, lhs, 1, &gate, &written[2]),
                     CL_SUCCESS);
    kq_opencl_quantize quantize = quantize_of(&q, values_view, records_view, 0);
    engine_expect_ok(e,
                     kq_opencl_quantize_enqueue(e->pack, &quantize, queue, 2, written, &made[0]));
    const cl_event ready[2] = {made[0], written[2]};
    kq_opencl_quantized_dot dots[2];
    for (unsigned order = 0; order < 2; order++) {
        dots[order] = dot_of(&d, (kq_order)order, lhs_view, rhs_view, result_offsets[order]);
        dots[order].rhs.buffer = q.at[KQ_RECORDS].buffer;
        dots[order].repeat = &repeat;
    }
    dots[1].scratch.buffer = other_scratch.buffer;
    for (unsigned order = 0; order < 2; order++) {
        engine_expect_ok(e, kq_opencl_quantized_dot_enqueue(e->pack, &dots[order], queue, 2, ready,
                                                            &made[1 + order]));
    }
    assert_int_equal(cl->clEnqueueReadBuffer(queue, d.at[KQ_RESULT].buffer, CL_FALSE, 0, 20,
                                             results, 2, &made[1], &was_read[0]),
                     CL_SUCCESS);
    assert_int_equal(cl->clEnqueueReadBuffer(queue, q.at[KQ_RECORDS].buffer, CL_FALSE, 0,
                                             sizeof records, records, 1, &made[0], &was_read[1]),
                     CL_SUCCESS);
    // G = 600: one fold of the sequential dot, two of the pairwise one.
    check_chain(e, 0, 1, 2, written[0], made[0]);
    check_chain(e, 1, 2, 2, made[0], made[1]);
    check_chain(e, 3, 3, 2, made[0], made[2]);
    assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), 6);
    assert_int_equal(e->wrapped.live[WRAPPED_EVENT], 3);
    assert_int_equal(e->wrapped.live[WRAPPED_KERNEL], 0);
    for (unsigned i = 0; i < 3; i++) {
        check_status(e, made[i], false);
    }
    open_gate(f);
    assert_int_equal(cl->clWaitForEvents(2, was_read), CL_SUCCESS);
    for (unsigned i = 0; i < 3; i++) {
        check_status(e, made[i], true);
    }

    // The reference does the same with what is expected.
    memcpy(q.at[KQ_VALUES].expected + 4, values, BLOCKS * KQ_BLOCK_BYTES);
    memcpy(d.at[KQ_LHS].expected, lhs, DOTS * G * KQ_Q4_K_BYTES);
    expect_quantize(&q, &quantize);
    operands made_dot = d;
    made_dot.at[KQ_RHS] = q.at[KQ_RECORDS];
    for (unsigned order = 0; order < 2; order++) {
        expect_dot(&made_dot, &dots[order]);
    }
    assert_memory_equal(results, d.at[KQ_RESULT].expected, sizeof results);
    assert_memory_equal(records, q.at[KQ_RECORDS].expected, sizeof records);
    for (int i = 0; i < 3; i++) {
        operand_check(e, &q.at[i], "pipeline, quantize");
        operand_check(e, &d.at[i], "pipeline, dots");
    }
    release_events(e, made, 3);
    for (int i = 0; i < 3; i++) {
        cl->clReleaseEvent(written[i]);
    }
    cl->clReleaseEvent(was_read[0]);
    cl->clReleaseEvent(was_read[1]);
    operands_destroy(e, &q);
    operands_destroy(e, &d);
    operand_destroy(e, &other_scratch);
    free(values);
    free(lhs);
}

static void test_pipeline(void **state)
{
    fixture *f = *state;
    run_pipeline(f, f->engine.queue);
}

static void test_unordered_pipeline(void **state)
{
    fixture *f = *state;
    if (f->engine.unordered == NULL) {
        print_message("left out: the driver has no out-of-order queue\n");
        skip();
    }
    for (int i = 0; i < (f->options.is_quick ? 1 : 20); i++) {
        run_pipeline(f, f->engine.unordered);
    }
}

// --- Neighbours that share words, written by commands that no event orders

enum { NEIGHBOURS = 40, NEIGHBOUR_ROUNDS = 64 };

// What two queues hold behind the gate, or one that has no order, starts together.
static void run_side_by_side(fixture *f, const cl_command_queue queues[2])
{
    const engine_functions *cl = &f->engine.cl;
    for (int i = 0; i < 2 && !f->runs_one_queue; i++) {
        assert_int_equal(cl->clFlush(queues[i]), CL_SUCCESS);
    }
    open_gate(f);
    assert_int_equal(cl->clFinish(queues[0]), CL_SUCCESS);
    assert_int_equal(cl->clFinish(queues[1]), CL_SUCCESS);
}

// The records of one command lie between those of the other, so that all words that two records
// share are of both commands. Every other command is one workgroup: the two then take two threads
// of a driver that gives all its threads to one command first.
static void quantize_side_by_side(fixture *f, const cl_command_queue queues[2], int rounds)
{
    const kq_status presets[] = {KQ_STATUS_PRESET, KQ_STATUS_PRESET};
    engine *e = &f->engine;
    operands o = operands_make(e, 2 * NEIGHBOURS * KQ_BLOCK_BYTES,
                               2 * NEIGHBOURS * KQ_Q8_K_BYTES + 8, 40, 0);
    unsigned char *values = malloc(2 * NEIGHBOURS * KQ_BLOCK_BYTES);
    assert_non_null(values);
    for (int round = 0; round < rounds; round++) {
        const uint32_t G = round % 2 == 0 ? 4 : NEIGHBOURS;
        kq_opencl_quantize ops[2];
        draw_values((uint64_t)round, 2 * NEIGHBOURS, values);
        operand_fill(e, &o.at[KQ_VALUES], 0, values, 2 * NEIGHBOURS * KQ_BLOCK_BYTES);
        operand_fill(e, &o.at[KQ_RECORDS], 0, NULL, 0);
        operand_fill(e, &o.at[KQ_STATUS], 4, presets, sizeof presets);
        const cl_event gate = make_gate(f);
        for (uint64_t k = 0; k < 2; k++) {
            const kq_view from = {.offset = k * NEIGHBOURS * KQ_BLOCK_BYTES, .G = G};
            const kq_view to = {.offset = 1 + (uint64_t)round % 3 + k * KQ_Q8_K_BYTES,
                                .stride = 2 * KQ_Q8_K_BYTES,
                                .G = G};
            ops[k] = quantize_of(&o, from, to, 4 + k * sizeof(kq_status));
            expect_quantize(&o, &ops[k]);
            engine_expect_ok(
                e, kq_opencl_quantize_enqueue(e->pack, &ops[k], queues[k], 1, &gate, NULL));
        }
        run_side_by_side(f, queues);
        for (int i = 0; i <= KQ_STATUS; i++) {
            operand_check(e, &o.at[i], "quantize, side by side");
        }
    }
    operands_destroy(e, &o);
    free(values);
}

// The same of results. In every other round the dots have no records: zeros are one launch, so that
// both commands store results, and many, as soon as they start.
static void dot_side_by_side(fixture *f, const cl_command_queue queues[2], int rounds)
{
    enum { G = 3, SCRATCH = 8 * G * NEIGHBOURS, ZEROS = 4000 };
    engine *e = &f->engine;
    operands o = operands_make(e, NEIGHBOURS * G * KQ_Q4_K_BYTES, G * KQ_Q8_K_BYTES, 8 * ZEROS + 8,
                               2 * SCRATCH);
    unsigned char *lhs = malloc(NEIGHBOURS * G * KQ_Q4_K_BYTES);
    unsigned char rhs[G * KQ_Q8_K_BYTES];
    assert_non_null(lhs);
    for (int round = 0; round < rounds; round++) {
        const kq_view view = {.G = round % 2 == 0 ? 0 : G};
        const kq_repeat repeat = {.count = {view.G == 0 ? ZEROS : NEIGHBOURS, 1},
                                  .lhs_step = {G * KQ_Q4_K_BYTES},
                                  .result_step = {8}};
        kq_opencl_quantized_dot ops[2];
        draw_q4_k(2 * (uint64_t)round, NEIGHBOURS * G, lhs);
        draw_q8_k(2 * (uint64_t)round + 1, G, rhs);
        operand_fill(e, &o.at[KQ_LHS], 0, lhs, NEIGHBOURS * G * KQ_Q4_K_BYTES);
        operand_fill(e, &o.at[KQ_RHS], 0, rhs, sizeof rhs);
        operand_fill(e, &o.at[KQ_RESULT], 0, NULL, 0);
        const cl_event gate = make_gate(f);
        for (uint32_t k = 0; k < 2; k++) {
            ops[k] = dot_of(&o, (kq_order)((k + (unsigned)round / 2) % 2), view, view,
                            1 + (uint64_t)round % 3 + 4 * k);
            ops[k].scratch.offset = k * SCRATCH;
            ops[k].repeat = &repeat;
            expect_dot(&o, &ops[k]);
            engine_expect_ok(
                e, kq_opencl_quantized_dot_enqueue(e->pack, &ops[k], queues[k], 1, &gate, NULL));
        }
        run_side_by_side(f, queues);
        for (int i = 0; i <= KQ_RESULT; i++) {
            operand_check(e, &o.at[i], "dots, side by side");
        }
    }
    operands_destroy(e, &o);
    free(lhs);
}

static void check_side_by_side(fixture *f, cl_command_queue first, cl_command_queue second)
{
    const cl_command_queue queues[2] = {first, second};
    const int rounds = f->options.is_quick ? 4 : NEIGHBOUR_ROUNDS;
    quantize_side_by_side(f, queues, rounds);
    dot_side_by_side(f, queues, rounds);
}

static void test_unordered_neighbours(void **state)
{
    fixture *f = *state;
    if (f->engine.unordered == NULL) {
        print_message("left out: the driver has no out-of-order queue\n");
        skip();
    }
    check_side_by_side(f, f->engine.unordered, f->engine.unordered);
}

static void test_neighbours_of_two_queues(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    cl_int code = CL_SUCCESS;
    cl_command_queue second = e->cl.clCreateCommandQueue(e->context, e->device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    // Rusticl of Mesa 22.3 then loses commands and takes arguments of others, also where two
    // commands share no buffer.
    cl_platform_id platform = NULL;
    char name[256] = "";
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    e->cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    f->runs_one_queue = strcmp(name, "rusticl") == 0;
    if (f->runs_one_queue) {
        print_message("left out: two queues of rusticl at once; one runs after the other\n");
    }
    check_side_by_side(f, e->queue, second);
    f->runs_one_queue = false;
    e->cl.clReleaseCommandQueue(second);
}

// --- Programs from source and from SPIR-V

static bool info_holds(const engine *e, cl_device_info info, const char *text)
{
    char value[8192] = "";
    e->cl.clGetDeviceInfo(e->device, info, sizeof value, value, NULL);
    return strstr(value, text) != NULL;
}

static void check_program(fixture *f, kq_opencl_program program, wrapped_il il, bool takes_spirv)
{
    engine *e = &f->engine;
    kq_opencl *main_pack = e->pack;
    kq_opencl_params params = engine_pack_params(e);
    const size_t offsets[] = {1, 3, 4, 0};
    bool is_possible = program != KQ_OPENCL_PROGRAM_SPIRV || takes_spirv;
    bool is_spirv = program != KQ_OPENCL_PROGRAM_SOURCE && takes_spirv;
    const char *const create[] = {"clCreateProgramWithIL", "clCreateProgramWithILKHR"};
    params.program = program;
    e->wrapped.il = il;
    wrapped_opencl_reset(&e->wrapped);
    memset(&e->report, 0, sizeof e->report);
    kq_result result = kq_opencl_create(&params, &e->pack);
    assert_int_equal(result, is_possible ? KQ_OK : KQ_ERROR_UNSUPPORTED);
    assert_int_equal(e->report.count, !is_possible);
    assert_int_equal(e->wrapped.il_count, is_spirv ? wrapped_opencl_modules(false) : 0);
    assert_int_equal(wrapped_opencl_calls(&e->wrapped, create[il != WRAPPED_IL_EXTENSION]), 0);
    if (is_spirv) {
        assert_int_equal(wrapped_opencl_calls(&e->wrapped, "clCreateProgramWithSource"), 0);
    }
    if (is_possible) {
        check_dot_vector(e, engine_find_dot(&f->options, 33), KQ_ORDER_PAIRWISE, offsets, 0,
                         e->queue);
        check_quantize_vector(e, engine_find_quantize(&f->options, 5), offsets, 0, e->queue);
        kq_opencl_destroy(&e->pack);
    } else {
        assert_non_null(strstr(e->report.reason, "CL_DEVICE_IL_VERSION"));
        assert_null(e->pack);
    }
    e->pack = main_pack;
    e->wrapped.il = f->options.il;
}

static void test_programs(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    bool takes_spirv = info_holds(e, CL_DEVICE_IL_VERSION, "SPIR-V");
    // Oclgrind takes SPIR too, but local variables only by names, which the modules don't have.
    bool takes_spir = info_holds(e, CL_DEVICE_EXTENSIONS, "cl_khr_spir") &&
                      !info_holds(e, CL_DEVICE_VERSION, "Oclgrind");
    print_message("SPIR-V: %s\n", takes_spirv  ? "by the driver"
                                  : takes_spir ? "emulated"
                                               : "refused");
    for (int program = KQ_OPENCL_PROGRAM_ANY; program <= KQ_OPENCL_PROGRAM_SOURCE; program++) {
        check_program(f, (kq_opencl_program)program, WRAPPED_IL_OF_DRIVER, takes_spirv);
        if (takes_spir && !takes_spirv) {
            check_program(f, (kq_opencl_program)program, WRAPPED_IL_CORE, true);
            check_program(f, (kq_opencl_program)program, WRAPPED_IL_EXTENSION, true);
        }
    }
}

// What a caller keeps of programs.
typedef struct kept {
    unsigned count, loads;
    struct {
        char key[64];
        unsigned char *data;
        size_t bytes;
    } programs[32];
} kept;

static size_t load_kept(void *user, const char *key, void *data, size_t capacity)
{
    kept *k = user;
    k->loads++;
    for (unsigned i = 0; i < k->count; i++) {
        if (strcmp(k->programs[i].key, key) == 0) {
            if (k->programs[i].bytes <= capacity) {
                memcpy(data, k->programs[i].data, k->programs[i].bytes);
            }
            return k->programs[i].bytes;
        }
    }
    return 0;
}

static void store_kept(void *user, const char *key, const void *data, size_t bytes)
{
    kept *k = user;
    unsigned i = 0;
    while (i < k->count && strcmp(k->programs[i].key, key) != 0) {
        i++;
    }
    assert_in_range(i, 0, sizeof k->programs / sizeof *k->programs - 1);
    k->count += i == k->count;
    free(k->programs[i].data);
    k->programs[i].data = malloc(bytes);
    assert_non_null(k->programs[i].data);
    memcpy(k->programs[i].data, data, bytes);
    k->programs[i].bytes = bytes;
    assert_in_range(snprintf(k->programs[i].key, sizeof k->programs[i].key, "%s", key), 1, 63);
}

// Cut off, down to nothing; a bit flipped, in front or anywhere; the program of another key.
enum { DAMAGES = 7 };

static void damage(kept *k, unsigned how)
{
    unsigned char *first = k->programs[0].data;
    const size_t first_bytes = k->programs[0].bytes;
    for (unsigned i = 0; i < k->count; i++) {
        size_t *bytes = &k->programs[i].bytes;
        unsigned char *data = k->programs[i].data;
        switch (how) {
        case 0: *bytes -= 1; break;
        case 1: *bytes /= 2; break;
        case 2: *bytes = 8; break;
        case 3: *bytes = 1; break;
        case 4: data[0] ^= 1; break;
        case 5: data[*bytes - *bytes / 3] ^= 0x10; break;
        default:
            k->programs[i].data = i + 1 < k->count ? k->programs[i + 1].data : first;
            *bytes = i + 1 < k->count ? k->programs[i + 1].bytes : first_bytes;
        }
    }
}

static cl_int refuse_binaries(void *user, const char *call, unsigned number)
{
    (void)user;
    (void)number;
    return strcmp(call, "clCreateProgramWithBinary") == 0 ? CL_INVALID_BINARY : CL_SUCCESS;
}

// A pack with that cache, which is used; the numbers of programs that were made of source and of
// binaries.
static void use_cache(fixture *f, const kq_cache *cache, unsigned *sources, unsigned *binaries)
{
    engine *e = &f->engine;
    kq_opencl *main_pack = e->pack;
    kq_opencl_params params = engine_pack_params(e);
    const size_t offsets[] = {1, 3, 4, 0};
    params.cache = cache;
    params.program = KQ_OPENCL_PROGRAM_SOURCE;
    wrapped_opencl_reset(&e->wrapped);
    engine_expect_ok(e, kq_opencl_create(&params, &e->pack));
    *sources = wrapped_opencl_calls(&e->wrapped, "clCreateProgramWithSource");
    *binaries = wrapped_opencl_calls(&e->wrapped, "clCreateProgramWithBinary");
    check_dot_vector(e, engine_find_dot(&f->options, 33), KQ_ORDER_PAIRWISE, offsets, 0, e->queue);
    check_quantize_vector(e, engine_find_quantize(&f->options, 5), offsets, 0, e->queue);
    kq_opencl_destroy(&e->pack);
    e->pack = main_pack;
}

// What was compiled once is taken from the caller's cache; what is damaged never meets the driver,
// and is compiled again, as is what a driver no longer takes; without a cache nothing is asked for.
static void test_cache(void **state)
{
    fixture *f = *state;
    kept k = {0};
    const kq_cache cache = {load_kept, store_kept, &k};
    const kq_cache lacking = {load_kept, NULL, &k};
    unsigned sources, binaries;
    use_cache(f, NULL, &sources, &binaries);
    assert_int_equal(sources, wrapped_opencl_modules(false));
    use_cache(f, &lacking, &sources, &binaries);
    assert_int_equal(sources, wrapped_opencl_modules(false));
    assert_int_equal(k.loads, 0);
    use_cache(f, &cache, &sources, &binaries);
    assert_int_equal(sources, wrapped_opencl_modules(false));
    assert_int_equal(binaries, 0);
    assert_int_equal(k.count, sources);  // no two of one key
    use_cache(f, &cache, &sources, &binaries);
    assert_int_equal(sources, 0);
    assert_int_equal(binaries, k.count);
    for (unsigned how = 0; how < DAMAGES; how++) {
        damage(&k, how);
        use_cache(f, &cache, &sources, &binaries);
        assert_int_equal(sources, k.count);
        assert_int_equal(binaries, 0);
        use_cache(f, &cache, &sources, &binaries);
        assert_int_equal(sources, 0);
    }
    f->engine.wrapped.fail = refuse_binaries;
    use_cache(f, &cache, &sources, &binaries);
    f->engine.wrapped.fail = NULL;
    assert_int_equal(binaries, k.count);
    assert_int_equal(sources, k.count);
    for (unsigned i = 0; i < k.count; i++) {
        free(k.programs[i].data);
    }
}

// Options that relax floats change no bit, wherever a driver may take them from, for device code
// has no floats.
static void test_relaxed_builds(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    kq_opencl *main_pack = e->pack;
    kq_opencl_params params = engine_pack_params(e);
    const size_t offsets[] = {1, 3, 4, 0};
    e->wrapped.more_options = "-cl-fast-relaxed-math -cl-unsafe-math-optimizations -cl-mad-enable "
                              "-cl-finite-math-only -cl-no-signed-zeros -cl-denorms-are-zero "
                              "-cl-single-precision-constant";
    engine_expect_ok(e, kq_opencl_create(&params, &e->pack));
    for (size_t i = 0; i < f->options.vectors.dot_count; i++) {
        check_dot_vector(e, &f->options.vectors.dot[i], KQ_ORDER_PAIRWISE, offsets, 0, e->queue);
    }
    for (size_t i = 0; i < f->options.vectors.quantize_count; i++) {
        check_quantize_vector(e, &f->options.vectors.quantize[i], offsets, 0, e->queue);
    }
    kq_opencl_destroy(&e->pack);
    e->wrapped.more_options = "-no-such-option";
    params.program = KQ_OPENCL_PROGRAM_SOURCE;
    assert_int_not_equal(kq_opencl_create(&params, &e->pack), KQ_OK);
    e->wrapped.more_options = NULL;
    e->pack = main_pack;
}

// --- One pack, four threads, each with a queue

enum { THREADS = 4, ROUNDS = 50 };

typedef struct worker {
    pthread_t thread;
    const kq_opencl *pack;
    cl_command_queue queue;
    operands dot_operands, quantize_operands;
    operand scratch;
    kq_opencl_quantized_dot dot;
    kq_opencl_quantize quantize;
    int rounds;
    int failures;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < w->rounds; i++) {
        kq_needs needs;
        w->failures += kq_opencl_quantized_dot_query(w->pack, &w->dot, &needs) != KQ_OK;
        w->failures +=
            kq_opencl_quantized_dot_enqueue(w->pack, &w->dot, w->queue, 0, NULL, NULL) != KQ_OK;
        w->failures +=
            kq_opencl_quantize_enqueue(w->pack, &w->quantize, w->queue, 0, NULL, NULL) != KQ_OK;
    }
    return NULL;
}

static void test_threads(void **state)
{
    enum { G = 30 };
    fixture *f = *state;
    engine *e = &f->engine;
    worker workers[THREADS];
    const int rounds = f->options.is_quick ? 3 : ROUNDS;
    if (f->options.is_quick) {
        print_message("left out: %d of %d rounds of each thread\n", ROUNDS - rounds, ROUNDS);
    }
    wrapped_opencl_reset(&e->wrapped);
    for (uint64_t t = 0; t < THREADS; t++) {
        worker *w = &workers[t];
        unsigned char bytes[G * KQ_BLOCK_BYTES];
        const kq_view view = {.offset = t, .G = G};
        cl_int code = CL_SUCCESS;
        memset(w, 0, sizeof *w);
        w->pack = e->pack;
        w->rounds = rounds;
        w->queue = e->cl.clCreateCommandQueue(e->context, e->device, 0, &code);
        assert_int_equal(code, CL_SUCCESS);
        w->dot_operands = operands_make(e, G * KQ_Q4_K_BYTES + 8, G * KQ_Q8_K_BYTES + 8, 16, 8 * G);
        draw_q4_k(t, G, bytes);
        operand_fill(e, &w->dot_operands.at[KQ_LHS], (size_t)t, bytes, G * KQ_Q4_K_BYTES);
        draw_q8_k(t, G, bytes);
        operand_fill(e, &w->dot_operands.at[KQ_RHS], (size_t)t, bytes, G * KQ_Q8_K_BYTES);
        w->dot = dot_of(&w->dot_operands, (kq_order)(t % 2), view, view, t);
        expect_dot(&w->dot_operands, &w->dot);
        w->quantize_operands =
            operands_make(e, G * KQ_BLOCK_BYTES + 4, G * KQ_Q8_K_BYTES + 4, 16, 0);
        draw_values(t, G, bytes);
        operand_fill(e, &w->quantize_operands.at[KQ_VALUES], (size_t)t, bytes, G * KQ_BLOCK_BYTES);
        fill_status(e, &w->quantize_operands.at[KQ_STATUS], 0);
        w->quantize = quantize_of(&w->quantize_operands, view, view, 0);
        expect_quantize(&w->quantize_operands, &w->quantize);
        const kq_status status = {0xFFFFFFFFu, 0, (uint32_t)rounds * G, 0};
        expect_status(&w->quantize_operands.at[KQ_STATUS], 0, &status);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
    }
    assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), 3 * THREADS * rounds);
    for (int t = 0; t < THREADS; t++) {
        worker *w = &workers[t];
        assert_int_equal(w->failures, 0);
        assert_int_equal(e->cl.clFinish(w->queue), CL_SUCCESS);
        for (int i = 0; i < KQ_SCRATCH; i++) {
            operand_check(e, &w->dot_operands.at[i], "a dot of a thread");
            operand_check(e, &w->quantize_operands.at[i], "a quantize of a thread");
        }
        operands_destroy(e, &w->dot_operands);
        operands_destroy(e, &w->quantize_operands);
        e->cl.clReleaseCommandQueue(w->queue);
    }
}

// --- All of it

int main(int argc, char **argv)
{
    int status = engine_read_options(argc, argv, true, &shared.options);
    status = status != EXIT_SUCCESS ? status : engine_check_device(&shared.options);
    if (status == EXIT_SUCCESS) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_teardown(test_nothing, open_gate_at_last),
            cmocka_unit_test_teardown(test_pipeline, open_gate_at_last),
            cmocka_unit_test_teardown(test_unordered_pipeline, open_gate_at_last),
            cmocka_unit_test_teardown(test_unordered_neighbours, open_gate_at_last),
            cmocka_unit_test_teardown(test_neighbours_of_two_queues, open_gate_at_last),
            cmocka_unit_test(test_programs),
            cmocka_unit_test(test_cache),
            cmocka_unit_test(test_relaxed_builds),
            cmocka_unit_test(test_threads),
            cmocka_unit_test(test_close),
        };
        int failed = cmocka_run_group_tests_name("opencl_queue", tests, open_plain, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    free_vectors(&shared.options.vectors);
    return status;
}
