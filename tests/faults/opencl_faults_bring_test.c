// Level 2 where a driver's calls fail: each call with each of its codes, each allocation, caches
// that give anything, logs of any kind, lookups that find less. The right result, once, in words
// that name the call; nothing left behind; and then the same goes well.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_faults_bring_test [--expect=TEXT] [--il]
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "faulty_heap.h"
#include "opencl_engine.h"
#include "opencl_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    engine_options options;
    engine engine;
    cl_api_clReleaseEvent release;  // the wrapped one
} fixture;

static fixture shared;

static int open_engine(void **state)
{
    engine *e = &shared.engine;
    engine_open(e, &shared.options);
    shared.release = (cl_api_clReleaseEvent)e->lookup.fn(e->lookup.user, "clReleaseEvent");
    *state = e;
    return 0;
}

static void closes(void **state)
{
    engine_close(*state);
    assert_int_equal(heap.live, 0);
}

static void clear(engine *e)
{
    wrapped_opencl_reset(&e->wrapped);
    memset(&e->report, 0, sizeof e->report);
}

typedef struct tally {
    unsigned survived, all;
} tally;

// What is tried, with or without a fault: the result, and all that it made is gone again.
typedef struct trial {
    const char *name;
    kq_result (*run)(engine *e, const struct trial *t);
    bool (*works)(engine *e, const struct trial *t);  // the same without a fault, in full
    bool is_building;
    uint32_t ops;
    const kq_cache *cache;
    kq_order order;
    bool is_empty, has_waits, is_unordered;
    operands *operands;
} trial;

// Where the library can do without an answer, or tries something else.
static bool is_dispensable(const trial *t, const fault *f)
{
    static const char *const calls[] = {"clGetDeviceInfo",           "clGetProgramBuildInfo",
                                        "clGetProgramInfo",          "clBuildProgram",
                                        "clCreateProgramWithSource", "clCreateProgramWithIL",
                                        "clCreateProgramWithBinary", "clCreateKernel",
                                        "clGetKernelWorkGroupInfo"};
    for (size_t i = 0; t->is_building && i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(f->failed, calls[i]) == 0) {
            return true;
        }
    }
    return fault_is_release(f);
}

static bool complain(const engine *e, const trial *t, const char *what, const char *call, int code,
                     unsigned number, kq_result result)
{
    print_error("%s, %s %u, %s, gives %d: %s, %u reports, \"%s\"\n", t->name, what, number, call,
                code, kq_result_name(result), e->report.count, e->report.reason);
    return false;
}

static void fail_each_call(engine *e, const trial *t, tally *sum)
{
    for (unsigned number = 1;; number++) {
        unsigned code_count = 1;
        const cl_int *codes = NULL;
        for (unsigned k = 0; k < code_count; k++) {
            int live = wrapped_opencl_live(&e->wrapped);
            long blocks = heap.live;
            clear(e);
            fault_fail(&e->wrapped, NULL, number, k > 0 ? codes[k] : CL_OUT_OF_HOST_MEMORY);
            kq_result result = t->run(e, t);
            const fault *f = fault_end(&e->wrapped);
            if (f->failed[0] == '\0') {
                assert_int_equal(result, KQ_OK);
                return;
            }
            codes = fault_codes(f->failed, &code_count);
            bool is_right = (result == fault_result(f) && fault_is_named(f, &e->report)) ||
                            (result == KQ_OK && is_dispensable(t, f));
            is_right = is_right && e->report.count == (result != KQ_OK) && heap.live == blocks &&
                       wrapped_opencl_live(&e->wrapped) == live;
            if (!is_right) {
                complain(e, t, "call", f->failed, f->code, number, result);
            }
            sum->survived += t->works(e, t) && is_right;
            sum->all++;
        }
    }
}

static void fail_each_allocation(engine *e, const trial *t, tally *sum)
{
    for (unsigned number = 1;; number++) {
        int live = wrapped_opencl_live(&e->wrapped);
        long blocks = heap.live;
        clear(e);
        faulty_heap_set(number);
        kq_result result = t->run(e, t);
        bool has_failed = heap.failed > 0;
        faulty_heap_set(0);
        if (!has_failed) {
            assert_int_equal(result, KQ_OK);
            return;
        }
        // The cache, the log and the question for SPIR-V can be done without.
        bool is_right = result == KQ_ERROR_MEMORY || (result == KQ_OK && t->is_building);
        is_right = is_right && e->report.count == (result != KQ_OK) && heap.live == blocks &&
                   wrapped_opencl_live(&e->wrapped) == live &&
                   (result == KQ_OK || strstr(e->report.reason, "CL_OUT_OF_HOST_MEMORY") != NULL ||
                    strstr(e->report.reason, "out of host memory") != NULL);
        if (!is_right) {
            complain(e, t, "allocation", "", 0, number, result);
        }
        sum->survived += t->works(e, t) && is_right;
        sum->all++;
    }
}

// --- Packs

static struct {
    char key[64];
    void *data;
    size_t bytes;
} kept[32];

// How the cache is wrong.
typedef enum damage {
    DAMAGE_NONE,
    DAMAGE_GARBAGE,
    DAMAGE_BIT,      // the last one
    DAMAGE_SHORTER,  // it says a byte less
    DAMAGE_LONGER,   // it says a byte more, which is 0
    DAMAGE_HUGE,     // it says more than there is memory
    DAMAGE_TINY,     // less than a digest
    DAMAGE_GONE,     // at the second question
    DAMAGE_GROWN,    // at the second question
    DAMAGE_OTHER,    // what another key has
    DAMAGE_COUNT,
} damage;

static damage damaged;
static bool forgets;  // what is stored

static size_t find_kept(const char *key)
{
    size_t i = 0;
    while (i < sizeof kept / sizeof *kept && kept[i].bytes > 0 && strcmp(kept[i].key, key) != 0) {
        i++;
    }
    return i;
}

static size_t load_kept(void *user, const char *key, void *data, size_t capacity)
{
    (void)user;
    size_t i = find_kept(key);
    size_t bytes = i < sizeof kept / sizeof *kept ? kept[i].bytes : 0;
    if (bytes == 0) {
        return 0;
    }
    if (damaged == DAMAGE_OTHER) {
        i = kept[i + 1].bytes > 0 ? i + 1 : 0;
        bytes = kept[i].bytes;
    }
    const size_t said = damaged == DAMAGE_SHORTER  ? bytes - 1
                        : damaged == DAMAGE_LONGER ? bytes + 1
                        : damaged == DAMAGE_HUGE   ? SIZE_MAX / 2
                        : damaged == DAMAGE_TINY   ? 8
                                                   : bytes;
    if (capacity > 0 && damaged == DAMAGE_GONE) {
        return 0;
    }
    if (capacity > 0 && damaged == DAMAGE_GROWN) {
        return bytes + 1;
    }
    if (said > capacity) {
        return said;
    }
    memset(data, 0, said);
    memcpy(data, kept[i].data, said < bytes ? said : bytes);
    if (damaged == DAMAGE_GARBAGE) {
        uint64_t state = 1;
        draw_bytes(&state, data, said);
    } else if (damaged == DAMAGE_BIT) {
        ((unsigned char *)data)[said - 1] ^= 0x80;
    }
    return said;
}

static void store_kept(void *user, const char *key, const void *data, size_t bytes)
{
    (void)user;
    size_t i = find_kept(key);
    if (forgets) {
        return;
    }
    assert_true(i < sizeof kept / sizeof *kept);
    free(kept[i].data);
    kept[i].data = malloc(bytes);
    assert_non_null(kept[i].data);
    memcpy(kept[i].data, data, bytes);
    kept[i].bytes = bytes;
    snprintf(kept[i].key, sizeof kept[i].key, "%s", key);
}

static void forget_kept(void)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        free(kept[i].data);
    }
    memset(kept, 0, sizeof kept);
}

static const kq_cache cache = {load_kept, store_kept, NULL};

static kq_result run_create(engine *e, const trial *t)
{
    kq_opencl_params params = engine_pack_params(e);
    kq_opencl *pack = (kq_opencl *)&params;
    params.ops = t->ops;
    params.cache = t->cache;
    kq_result result = kq_opencl_create(&params, &pack);
    assert_true((pack != NULL) == (result == KQ_OK));
    kq_opencl_destroy(&pack);
    return result;
}

static bool creates(engine *e, const trial *t)
{
    clear(e);
    kq_result result = run_create(e, t);
    return (result == KQ_OK && e->report.count == 0) || complain(e, t, "again", "", 0, 0, result);
}

static const trial creations[] = {
    {.name = "create for quantize",
     .run = run_create,
     .works = creates,
     .is_building = true,
     .ops = 1u << KQ_OP_QUANTIZE},
    {.name = "create for dots, kept",
     .run = run_create,
     .works = creates,
     .is_building = true,
     .ops = 1u << KQ_OP_QUANTIZED_DOT,
     .cache = &cache},
    {.name = "create, kept",
     .run = run_create,
     .works = creates,
     .is_building = true,
     .cache = &cache},
};
enum { CREATION_COUNT = sizeof creations / sizeof *creations };

static void each_call_of_create_may_fail(void **state)
{
    engine *e = *state;
    tally sum = {0, 0};
    for (size_t i = 0; i < CREATION_COUNT; i++) {
        assert_true(creates(e, &creations[i]));
        fail_each_call(e, &creations[i], &sum);
    }
    assert_true(
        fault_summary("opencl level 2, each code of each call of create", sum.survived, sum.all));
}

static void each_allocation_of_create_may_fail(void **state)
{
    engine *e = *state;
    tally sum = {0, 0};
    for (size_t i = 0; i < CREATION_COUNT; i++) {
        fail_each_allocation(e, &creations[i], &sum);
    }
    assert_true(fault_summary("opencl level 2, each allocation of create", sum.survived, sum.all));
}

// The lookup doesn't find the n-th function that it is asked for.
static struct {
    kq_lookup lookup;
    unsigned number, seen;
    char missing[64];
} finder;

static kq_proc find_less(void *user, const char *name)
{
    (void)user;
    if (++finder.seen == finder.number) {
        snprintf(finder.missing, sizeof finder.missing, "%s", name);
        return NULL;
    }
    return finder.lookup.fn(finder.lookup.user, name);
}

static void each_function_may_be_missing(void **state)
{
    engine *e = *state;
    tally sum = {0, 0};
    unsigned refused = 0;
    finder.lookup = e->lookup;
    for (finder.number = 1;; finder.number++) {
        kq_opencl_params params = engine_pack_params(e);
        kq_opencl *pack = NULL;
        char text[128];
        int live = wrapped_opencl_live(&e->wrapped);
        long blocks = heap.live;
        clear(e);
        finder.seen = 0;
        finder.missing[0] = '\0';
        params.lookup = (kq_lookup){find_less, NULL};
        params.cache = &cache;
        kq_result result = kq_opencl_create(&params, &pack);
        kq_opencl_destroy(&pack);
        if (finder.missing[0] == '\0') {
            break;
        }
        snprintf(text, sizeof text, "lookup.fn finds no %s", finder.missing);
        bool is_optional = strncmp(finder.missing, "clCreateProgramWithBinary", 25) == 0 ||
                           strcmp(finder.missing, "clGetProgramInfo") == 0 ||
                           strcmp(finder.missing, "clCreateProgramWithIL") == 0;
        bool is_right = is_optional ? result == KQ_OK && e->report.count == 0
                                    : result == KQ_ERROR_ARGUMENT && e->report.count == 1 &&
                                          strcmp(e->report.reason, text) == 0;
        is_right = is_right && wrapped_opencl_live(&e->wrapped) == live && heap.live == blocks;
        if (!is_right) {
            print_error("without %s: %s, %u reports, \"%s\"\n", finder.missing,
                        kq_result_name(result), e->report.count, e->report.reason);
        }
        refused += result != KQ_OK;
        sum.survived += is_right;
        sum.all++;
    }
    assert_true(refused > 10);
    assert_true(fault_summary("opencl level 2, each function missing", sum.survived, sum.all));
}

// --- Build logs

static cl_int fail_builds(void *user, const char *call, unsigned number)
{
    (void)number;
    return strcmp(call, "clBuildProgram") == 0                          ? CL_BUILD_PROGRAM_FAILURE
           : user != NULL && strcmp(call, "clGetProgramBuildInfo") == 0 ? CL_OUT_OF_RESOURCES
                                                                        : CL_SUCCESS;
}

static void any_log_is_told(void **state)
{
    enum { LARGE = 1 << 20 };
    engine *e = *state;
    tally sum = {0, 0};
    char *large = malloc(LARGE);
    assert_non_null(large);
    memset(large, 'x', LARGE);
    const struct {
        const char *log;
        size_t bytes;
        const char *told;  // in the reason
        bool is_refused;   // even the log can't be had
    } logs[] = {
        {"", 0, "(log: )", false},
        {"\0", 1, "(log: )", false},
        {"unused", 0, "(log: )", true},
        {" \n\r\n\t", 0, "(log: )", false},
        {"no end", 6, "(log: no end)", false},
        {"first\nsecond", 0, "(log: first)", false},
        {"first\rsecond", 0, "(log: first)", false},
        {"100%s %n of \xC3\xA9\xFF\x80", 0, "(log: 100%s %n of \xC3\xA9\xFF\x80)", false},
        {large, LARGE, "(log: xxxxxxxxxxxxxxxx", false},
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        const trial t = {.name = "create", .ops = 1u << KQ_OP_QUANTIZE};
        int live = wrapped_opencl_live(&e->wrapped);
        long blocks = heap.live;
        clear(e);
        e->wrapped.build_log = logs[i].log;
        e->wrapped.build_log_bytes = logs[i].bytes;
        e->wrapped.fail = fail_builds;
        e->wrapped.fail_user = logs[i].is_refused ? e : NULL;
        kq_result result = run_create(e, &t);
        e->wrapped.build_log = NULL;
        e->wrapped.build_log_bytes = 0;
        e->wrapped.fail = NULL;
        e->wrapped.fail_user = NULL;
        bool is_right = result == KQ_ERROR_DRIVER && e->report.count == 1 &&
                        strstr(e->report.reason, "clBuildProgram of quantize") != NULL &&
                        strstr(e->report.reason, logs[i].told) != NULL &&
                        strstr(e->report.reason, "CL_BUILD_PROGRAM_FAILURE (-11)") != NULL &&
                        strpbrk(e->report.reason, "\r\n") == NULL &&
                        wrapped_opencl_live(&e->wrapped) == live && heap.live == blocks;
        if (!is_right) {
            complain(e, &t, "log", "", 0, (unsigned)i, result);
        }
        sum.survived += is_right;
        sum.all++;
    }
    free(large);
    assert_true(fault_summary("opencl level 2, build logs", sum.survived, sum.all));
}

// --- Commands

static operands make_dot(engine *e)
{
    enum { G = 5 };
    unsigned char lhs[G * KQ_Q4_K_BYTES];
    unsigned char rhs[G * KQ_Q8_K_BYTES];
    operands o = operands_make(e, sizeof lhs, sizeof rhs, 4, 4096);
    draw_q4_k(1, G, lhs);
    draw_q8_k(2, G, rhs);
    operand_fill(e, &o.at[KQ_LHS], 0, lhs, sizeof lhs);
    operand_fill(e, &o.at[KQ_RHS], 0, rhs, sizeof rhs);
    return o;
}

static operands make_quantize(engine *e)
{
    enum { G = 3 };
    unsigned char values[G * KQ_BLOCK_BYTES];
    operands o = operands_make(e, sizeof values, G * KQ_Q8_K_BYTES, sizeof(kq_status), 0);
    draw_values(3, G, values);
    operand_fill(e, &o.at[KQ_VALUES], 0, values, sizeof values);
    return o;
}

static cl_command_queue queue_of(const engine *e, const trial *t)
{
    return t->is_unordered && e->unordered != NULL ? e->unordered : e->queue;
}

static kq_result enqueue_dot(engine *e, const trial *t, cl_uint wait_count, const cl_event *waits,
                             cl_event *event)
{
    static const kq_repeat none = {.count = {0, 0}};
    const kq_view view = {.G = 5};
    kq_opencl_quantized_dot op = dot_of(t->operands, t->order, view, view, 0);
    op.repeat = t->is_empty ? &none : NULL;
    return kq_opencl_quantized_dot_enqueue(e->pack, &op, queue_of(e, t), wait_count, waits, event);
}

static kq_result enqueue_quantize(engine *e, const trial *t, cl_uint wait_count,
                                  const cl_event *waits, cl_event *event)
{
    const kq_view view = {.G = 3};
    const kq_opencl_quantize op = quantize_of(t->operands, view, view, 0);
    return kq_opencl_quantize_enqueue(e->pack, &op, queue_of(e, t), wait_count, waits, event);
}

static kq_result enqueue_self_test(engine *e, const trial *t, cl_uint wait_count,
                                   const cl_event *waits, cl_event *event)
{
    const kq_opencl_range range = {t->operands->at[0].buffer, 0};
    return kq_opencl_self_test_enqueue(e->pack, &range, queue_of(e, t), wait_count, waits, event);
}

typedef kq_result enqueue_fn(engine *, const trial *, cl_uint, const cl_event *, cl_event *);

// Behind a gate that opens when all is enqueued. On failure the event is left alone.
static kq_result run_enqueue(engine *e, const trial *t, enqueue_fn *enqueue)
{
    cl_int code = CL_SUCCESS;
    cl_event gate = NULL;
    cl_event event = NULL;
    if (t->has_waits) {
        gate = e->cl.clCreateUserEvent(e->context, &code);
        assert_int_equal(code, CL_SUCCESS);
    }
    kq_result result =
        enqueue(e, t, t->has_waits, t->has_waits ? &gate : NULL, t->has_waits ? &event : NULL);
    if (t->has_waits) {
        assert_int_equal(e->cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
        assert_true((event != NULL) == (result == KQ_OK));
    }
    if (event != NULL) {
        assert_int_equal(e->cl.clWaitForEvents(1, &event), CL_SUCCESS);
        shared.release(event);
    }
    assert_int_equal(e->cl.clFinish(queue_of(e, t)), CL_SUCCESS);
    if (gate != NULL) {
        e->cl.clReleaseEvent(gate);
    }
    return result;
}

static kq_result run_dot(engine *e, const trial *t)
{
    return run_enqueue(e, t, enqueue_dot);
}

static kq_result run_quantize(engine *e, const trial *t)
{
    return run_enqueue(e, t, enqueue_quantize);
}

static kq_result run_self_test(engine *e, const trial *t)
{
    return run_enqueue(e, t, enqueue_self_test);
}

static bool is_ok(engine *e, const trial *t, kq_result result)
{
    return (result == KQ_OK && e->report.count == 0) || complain(e, t, "again", "", 0, 0, result);
}

static bool dots(engine *e, const trial *t)
{
    const kq_view view = {.G = 5};
    const kq_opencl_quantized_dot op = dot_of(t->operands, t->order, view, view, 0);
    clear(e);
    operand_fill(e, &t->operands->at[KQ_RESULT], 0, NULL, 0);
    bool is_right = is_ok(e, t, run_dot(e, t));
    if (!t->is_empty) {
        expect_dot(t->operands, &op);
    }
    for (int i = 0; i < KQ_SCRATCH; i++) {
        operand_check(e, &t->operands->at[i], t->name);
    }
    return is_right;
}

static bool quantizes(engine *e, const trial *t)
{
    const kq_view view = {.G = 3};
    const kq_opencl_quantize op = quantize_of(t->operands, view, view, 0);
    clear(e);
    operand_fill(e, &t->operands->at[KQ_RECORDS], 0, NULL, 0);
    fill_status(e, &t->operands->at[KQ_STATUS], 0);
    bool is_right = is_ok(e, t, run_quantize(e, t));
    expect_quantize(t->operands, &op);
    for (int i = 0; i < KQ_SCRATCH; i++) {
        operand_check(e, &t->operands->at[i], t->name);
    }
    return is_right;
}

static bool tests_itself(engine *e, const trial *t)
{
    static unsigned char bytes[KQ_SELF_TEST_BYTES];
    operand *o = &t->operands->at[0];
    clear(e);
    kq_self_test_input(bytes);
    operand_fill(e, o, 0, bytes, sizeof bytes);
    bool is_right = is_ok(e, t, run_self_test(e, t));
    assert_int_equal(e->cl.clEnqueueReadBuffer(e->queue, o->buffer, CL_TRUE, 0, sizeof bytes, bytes,
                                               0, NULL, NULL),
                     CL_SUCCESS);
    return judge_self_test(bytes) == NULL && is_right;
}

// Calls fn with each of the commands.
static void with_commands(engine *e, void (*fn)(engine *, const trial *, tally *), tally *sum)
{
    operands dot = make_dot(e);
    operands quantize = make_quantize(e);
    operands self_test = {{operand_make(e, KQ_SELF_TEST_BYTES)}};
    const trial trials[] = {
        {.name = "sequential dot", .run = run_dot, .works = dots, .operands = &dot},
        {.name = "pairwise dot, behind an event",
         .run = run_dot,
         .works = dots,
         .operands = &dot,
         .order = KQ_ORDER_PAIRWISE,
         .has_waits = true,
         .is_unordered = true},
        {.name = "no dot, behind an event",
         .run = run_dot,
         .works = dots,
         .operands = &dot,
         .is_empty = true,
         .has_waits = true},
        {.name = "quantize", .run = run_quantize, .works = quantizes, .operands = &quantize},
        {.name = "quantize, behind an event",
         .run = run_quantize,
         .works = quantizes,
         .operands = &quantize,
         .has_waits = true,
         .is_unordered = true},
        {.name = "self-test, behind an event",
         .run = run_self_test,
         .works = tests_itself,
         .operands = &self_test,
         .has_waits = true,
         .is_unordered = true},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        assert_true(trials[i].works(e, &trials[i]));
        fn(e, &trials[i], sum);
    }
    operands_destroy(e, &dot);
    operands_destroy(e, &quantize);
    operands_destroy(e, &self_test);
}

static void each_call_of_a_command_may_fail(void **state)
{
    engine *e = *state;
    tally sum = {0, 0};
    with_commands(e, fail_each_call, &sum);
    assert_true(
        fault_summary("opencl level 2, each code of each call of commands", sum.survived, sum.all));
}

// Commands have none.
static void commands_allocate_nothing(void **state)
{
    engine *e = *state;
    tally sum = {0, 0};
    with_commands(e, fail_each_allocation, &sum);
    assert_int_equal(sum.all, 0);
}

// A pack that was made with the help of a wrong cache is right.
static void any_cache_will_do(void **state)
{
    engine *e = *state;
    operands o = make_dot(e);
    kq_opencl *main_pack = e->pack;
    tally sum = {0, 0};
    const trial t = {.name = "a damaged cache", .operands = &o, .run = run_dot, .works = dots};
    forgets = true;
    for (unsigned i = 0; i < DAMAGE_COUNT; i++) {
        kq_opencl_params params = engine_pack_params(e);
        params.cache = &cache;
        params.ops = 1u << KQ_OP_QUANTIZED_DOT;
        long blocks = heap.live;
        damaged = (damage)i;
        clear(e);
        kq_result result = kq_opencl_create(&params, &e->pack);
        unsigned from_binary = wrapped_opencl_calls(&e->wrapped, "clCreateProgramWithBinary");
        bool is_right = result == KQ_OK && e->report.count == 0 &&
                        (from_binary > 0) == (i == DAMAGE_NONE) && dots(e, &t);
        kq_opencl_destroy(&e->pack);
        is_right = is_right && heap.live == blocks;
        if (!is_right) {
            print_error("damage %u: %s, %s\n", i, kq_result_name(result), e->report.reason);
        }
        sum.survived += is_right;
        sum.all++;
    }
    damaged = DAMAGE_NONE;
    forgets = false;
    e->pack = main_pack;
    operands_destroy(e, &o);
    assert_true(fault_summary("opencl level 2, damaged caches", sum.survived, sum.all));
}

int main(int argc, char **argv)
{
    int status = engine_read_options(argc, argv, false, &shared.options);
    status = status != EXIT_SUCCESS ? status : engine_check_device(&shared.options);
    if (status == EXIT_SUCCESS) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(each_call_of_create_may_fail),
            cmocka_unit_test(each_allocation_of_create_may_fail),
            cmocka_unit_test(each_function_may_be_missing),
            cmocka_unit_test(any_log_is_told),
            cmocka_unit_test(any_cache_will_do),
            cmocka_unit_test(each_call_of_a_command_may_fail),
            cmocka_unit_test(commands_allocate_nothing),
            cmocka_unit_test(closes),
        };
        int failed = cmocka_run_group_tests_name("opencl_faults_bring", tests, open_engine, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    forget_kept();
    return status;
}
