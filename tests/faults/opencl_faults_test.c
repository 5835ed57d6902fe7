// Level 3 on an OpenCL device whose calls fail: the right error, and nothing left behind.
//
// Runs on device 0 of the OpenCL drivers that the environment shows. Exits with 77 where there is
// none.
// Usage: opencl_faults_test [--expect=TEXT] [--il] [--quick]
//   TEXT     must occur in the name of device or platform
//   --il     the SPIR-V modules are what runs, if need be translated for the driver
//   --quick  for interpreters: leaves out what it prints
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "faulty_heap.h"
#include "opencl_faults.h"
#include "opencl_own.h"
#include "own_work.h"

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

// Of every device here, where nothing is reported but what this asks for.
static void set_fault(const char *call, unsigned number, cl_int code)
{
    memset(&own.report, 0, sizeof own.report);
    fault_fail(&own.wrapped, call, number, code);
}

static void a_failed_call_is_named(void **state)
{
    (void)state;
    kq_buffer *buffer = NULL;
    kq_device *opened = NULL;
    set_fault("clCreateBuffer", 1, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(kq_buffer_create(own.device, 100, &buffer), KQ_ERROR_MEMORY);
    fault_end(&own.wrapped);
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
    fault_end(&own.wrapped);
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
    expect_ok("the first dot", kq_quantized_dot(own.device, &args));  // from here on all is there
    live = wrapped_opencl_live(&own.wrapped);
    wrapped_opencl_reset(&own.wrapped);
    set_fault("clEnqueueNDRangeKernel", 2, CL_OUT_OF_RESOURCES);
    kq_result failed = kq_quantized_dot(own.device, &args);
    fault_end(&own.wrapped);
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

// --- Each call fails

// A device whose reports are own.report's, but for domain errors, and programs are kept in the
// place of `kept`.
static void note(void *user, kq_result result, const char *reason)
{
    if (result != KQ_ERROR_DOMAIN) {
        const kq_errors errors = report_errors(user);
        errors.fn(errors.user, result, reason);
    }
}

static kq_result open_noted(uint32_t ops, const kq_cache *cache, kq_device **opened)
{
    const kq_device_params params = {
        .device = "opencl:0",
        .lookup = own.lookup,
        .ops = ops,
        .cache = cache,
        .errors = {note, &own.report},
    };
    return kq_device_create(&params, opened);
}

// Programs, so that compilers need not run each time.
static struct {
    char key[64];
    void *data;
    size_t bytes;
} kept[32];

static size_t load_kept(void *user, const char *key, void *data, size_t capacity)
{
    (void)user;
    for (size_t i = 0; i < sizeof kept / sizeof *kept && kept[i].bytes > 0; i++) {
        if (strcmp(kept[i].key, key) == 0) {
            if (kept[i].bytes <= capacity) {
                memcpy(data, kept[i].data, kept[i].bytes);
            }
            return kept[i].bytes;
        }
    }
    return 0;
}

static void store_kept(void *user, const char *key, const void *data, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (kept[i].bytes == 0 || strcmp(kept[i].key, key) == 0) {
            free(kept[i].data);
            kept[i].data = malloc(bytes);
            assert_non_null(kept[i].data);
            memcpy(kept[i].data, data, bytes);
            kept[i].bytes = bytes;
            snprintf(kept[i].key, sizeof kept[i].key, "%s", key);
            return;
        }
    }
    fail_msg("no room for %s", key);
}

static const kq_cache cache = {load_kept, store_kept, NULL};

static void forget_kept(void)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        free(kept[i].data);
    }
    memset(kept, 0, sizeof kept);
}

// What is tried, with or without a fault.
typedef struct trial {
    const char *name;
    kq_device *device;  // NULL: the work opens one of its own
    const own_work *work;
    uint32_t ops;
    const kq_cache *cache;
    unsigned char wanted[OWN_WORK_BYTES];
} trial;

static unsigned char output[OWN_WORK_BYTES];

static kq_result run_trial(const trial *t)
{
    kq_device *device = t->device;
    memset(output, POISON, sizeof output);
    memset(&own.report, 0, sizeof own.report);
    kq_result result = device != NULL ? KQ_OK : open_noted(t->ops, t->cache, &device);
    assert_true((device != NULL) == (result == KQ_OK));
    result = result != KQ_OK ? result : t->work->run(device, 0, output);
    if (device != t->device) {
        kq_device_destroy(&device);
        assert_null(device);
    }
    return result;
}

// What the reference gives.
static void want(trial *t, const own_work *work)
{
    const kq_device_params params = {.device = "reference"};
    kq_device *reference = NULL;
    assert_int_equal(kq_device_create(&params, &reference), KQ_OK);
    t->work = work;
    memset(t->wanted, POISON, sizeof t->wanted);
    assert_int_equal(work->run(reference, 0, t->wanted), KQ_OK);
    kq_device_destroy(&reference);
}

static bool is_wanted(const trial *t)
{
    return memcmp(output, t->wanted, sizeof output) == 0;
}

// The device is as good as before.
static bool works_again(const trial *t, const char *after)
{
    kq_result result = run_trial(t);
    if (result != KQ_OK || !is_wanted(t) || own.report.count != 0) {
        print_error("%s, after %s: %s: %s%s\n", t->name, after, kq_result_name(result),
                    own.report.reason, result == KQ_OK ? "wrong bytes" : "");
        return false;
    }
    return true;
}

// Where the library can do without an answer, or tries something else.
static bool is_dispensable(const trial *t, const char *call)
{
    static const char *const calls[] = {
        "clEnqueueMarkerWithWaitList", "clGetEventProfilingInfo", "clGetPlatformInfo",
        "clGetDeviceInfo", "clGetProgramBuildInfo", "clGetProgramInfo",
        // From here on: of programs, which there is another way to.
        "clBuildProgram", "clCreateProgramWithSource", "clCreateProgramWithIL",
        "clCreateProgramWithBinary", "clCreateKernel", "clGetKernelWorkGroupInfo"};
    size_t count = sizeof calls / sizeof *calls - (t->device != NULL ? 6 : 0);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(call, calls[i]) == 0) {
            return true;
        }
    }
    return strncmp(call, "clRelease", 9) == 0;
}

static bool is_listing(const char *call)
{
    return strcmp(call, "clGetPlatformIDs") == 0 || strcmp(call, "clGetDeviceIDs") == 0;
}

typedef struct tally {
    unsigned survived, all;
} tally;

// Objects and blocks of memory.
typedef struct left_over {
    int objects;
    long blocks;
} left_over;

static left_over count_all(void)
{
    return (left_over){wrapped_opencl_live(&own.wrapped), heap.live};
}

static left_over count_since(left_over before)
{
    left_over now = count_all();
    return (left_over){now.objects - before.objects, now.blocks - before.blocks};
}

// Whether the result is right, with the bytes of it, and nothing is left.
static bool judge(const trial *t, const fault *f, unsigned number, kq_result result,
                  left_over before)
{
    bool is_right = result == fault_result(f) && fault_is_named(f, &own.report);
    is_right = is_right || (result == KQ_OK && is_dispensable(t, f->failed) && is_wanted(t));
    is_right = is_right || (is_listing(f->failed) && result == KQ_ERROR_NO_DEVICE);
    left_over left = count_since(before);
    if (!is_right || own.report.count != (result != KQ_OK) || left.objects != 0 ||
        left.blocks != 0) {
        print_error(
            "%s, call %u, %s, gives %d: %s, %u errors, \"%s\", %d objects and %ld blocks left%s\n",
            t->name, number, f->failed, (int)f->code, kq_result_name(result), own.report.count,
            own.report.reason, left.objects, left.blocks,
            result == KQ_OK && !is_wanted(t) ? ", wrong bytes" : "");
        return false;
    }
    return true;
}

// How often each call has failed first.
typedef struct turns {
    char names[32][64];
    unsigned counts[32];
} turns;

static unsigned take_turn(turns *all, const char *name)
{
    for (size_t i = 0; i < sizeof all->counts / sizeof *all->counts; i++) {
        if (all->counts[i] == 0) {
            snprintf(all->names[i], sizeof all->names[i], "%s", name);
        }
        if (strcmp(all->names[i], name) == 0) {
            return ++all->counts[i];
        }
    }
    fail_msg("no room for %s", name);
    return 0;
}

// Each call in turn with each of its codes, from the fifth of one name on with two of them; after
// each the same is done again, without a fault.
static void fail_each_call(const trial *t, tally *sum)
{
    enum { WITH_ALL = 4, FEW = 2 };
    unsigned code_count = 1;
    const cl_int *codes = NULL;
    turns all = {.counts = {0}};
    if (!works_again(t, "nothing")) {
        sum->all++;
        return;
    }
    for (unsigned number = 1;; number++) {
        for (unsigned k = 0; k < code_count; k++) {
            left_over before = count_all();
            fault_fail(&own.wrapped, NULL, number, k > 0 ? codes[k] : CL_OUT_OF_HOST_MEMORY);
            kq_result result = run_trial(t);
            const fault *f = fault_end(&own.wrapped);
            if (f->failed[0] == '\0') {
                return;
            }
            if (k == 0) {
                codes = fault_codes(f->failed, &code_count);
                bool is_late = take_turn(&all, f->failed) > WITH_ALL;
                code_count = is_late && code_count > FEW ? FEW : code_count;
            }
            bool is_right = judge(t, f, number, result, before);
            // A device of its own is gone.
            is_right = is_right && (t->device == NULL || works_again(t, f->failed));
            sum->survived += is_right;
            sum->all++;
        }
        code_count = 1;
    }
}

// Devices that stay open, on which all is compiled.
static void each_call_of_an_operation_may_fail(void **state)
{
    (void)state;
    static trial t;
    tally sum = {0, 0};
    for (size_t i = 0; i < own_work_count; i++) {
        want(&t, &own_works[i]);
        t.name = own_works[i].name;
        own.wrapped.max_mem_alloc_size = own_works[i].is_cut ? OWN_WORK_SEGMENT : 0;
        expect_ok("opening", open_noted(0, &cache, &t.device));
        fail_each_call(&t, &sum);
        kq_device_destroy(&t.device);
    }
    own.wrapped.max_mem_alloc_size = 0;
    assert_true(
        fault_summary("opencl level 3, each call of operations fails", sum.survived, sum.all));
}

// With and without a place that programs are kept in.
static const struct {
    const char *name, *work;
    uint32_t ops;
    const kq_cache *cache;
} openings[] = {
    {"opening for quantize, kept", "quantize", 1u << KQ_OP_QUANTIZE, &cache},
    {"opening for dots, kept", "dots", 1u << KQ_OP_QUANTIZED_DOT, &cache},
    {"opening for quantize", "quantize", 1u << KQ_OP_QUANTIZE, NULL},
};
enum { OPENING_COUNT = sizeof openings / sizeof *openings };

static void set_opening(trial *t, size_t i)
{
    for (size_t k = 0; k < own_work_count; k++) {
        if (strcmp(own_works[k].name, openings[i].work) == 0) {
            want(t, &own_works[k]);
        }
    }
    t->name = openings[i].name;
    t->device = NULL;
    t->ops = openings[i].ops;
    t->cache = openings[i].cache;
}

static void each_call_of_opening_may_fail(void **state)
{
    (void)state;
    static trial t;
    tally sum = {0, 0};
    for (size_t i = 0; i < OPENING_COUNT; i++) {
        set_opening(&t, i);
        fail_each_call(&t, &sum);
    }
    assert_true(fault_summary("opencl level 3, each call of opening fails", sum.survived, sum.all));
}

// --- Each allocation fails

static void fail_each_allocation(const trial *t, tally *sum)
{
    for (unsigned number = 1;; number++) {
        left_over before = count_all();
        faulty_heap_set(number);
        kq_result result = run_trial(t);
        bool has_failed = heap.failed > 0;
        faulty_heap_set(0);
        if (!has_failed) {
            assert_int_equal(result, KQ_OK);
            return;
        }
        // The cache can be done without, and names.
        bool is_right = result == KQ_ERROR_MEMORY
                            ? strstr(own.report.reason, "out of host memory") != NULL ||
                                  strstr(own.report.reason, "CL_OUT_OF_HOST_MEMORY") != NULL
                            : result == KQ_OK && t->device == NULL && is_wanted(t);
        left_over left = count_since(before);
        if (!is_right || own.report.count != (result != KQ_OK) || left.objects != 0 ||
            left.blocks != 0) {
            print_error("%s, allocation %u: %s, %u errors, \"%s\", %d objects, %ld blocks left\n",
                        t->name, number, kq_result_name(result), own.report.count,
                        own.report.reason, left.objects, left.blocks);
            is_right = false;
        }
        is_right = is_right && works_again(t, "an allocation");
        sum->survived += is_right;
        sum->all++;
    }
}

static kq_result list_all(void)
{
    kq_device_info infos[4];
    uint32_t count = 4;
    kq_result result = kq_list_devices(&own.lookup, infos, &count);
    assert_true(result != KQ_OK || count >= 2);
    return result;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    static trial t;
    tally sum = {0, 0};
    for (size_t i = 0; i < own_work_count; i++) {
        want(&t, &own_works[i]);
        t.name = own_works[i].name;
        own.wrapped.max_mem_alloc_size = own_works[i].is_cut ? OWN_WORK_SEGMENT : 0;
        expect_ok("opening", open_noted(0, &cache, &t.device));
        if (works_again(&t, "nothing")) {
            fail_each_allocation(&t, &sum);
        }
        kq_device_destroy(&t.device);
    }
    own.wrapped.max_mem_alloc_size = 0;
    for (size_t i = 0; i < OPENING_COUNT; i++) {
        set_opening(&t, i);
        fail_each_allocation(&t, &sum);
    }
    // A list of devices has no other way to say why.
    for (unsigned number = 1, failed = 1; failed > 0; number++) {
        left_over before = count_all();
        faulty_heap_set(number);
        kq_result result = list_all();
        failed = heap.failed;
        faulty_heap_set(0);
        left_over left = count_since(before);
        sum.survived += failed > 0 && left.blocks == 0 && left.objects == 0 &&
                        (result == KQ_ERROR_MEMORY || result == KQ_OK) && list_all() == KQ_OK;
        sum.all += failed > 0;
    }
    assert_true(fault_summary("opencl level 3, each allocation", sum.survived, sum.all));
}

// --- Each command is lost

static void lose_each_command(const trial *t, cl_int status, tally *sum)
{
    if (!works_again(t, "nothing")) {
        sum->all++;
        return;
    }
    for (unsigned number = 1;; number++) {
        left_over before = count_all();
        // What scratch and stage still hold is of other inputs.
        expect_ok("other inputs", t->work->run(t->device, 1, output));
        fault_lose(&own.wrapped, number, status);
        kq_result result = run_trial(t);
        const fault *f = fault_end(&own.wrapped);
        if (f->failed[0] == '\0') {
            return;
        }
        // A command whose loss changes nothing may go unnoticed.
        bool is_right = result == KQ_OK ? is_wanted(t) : result == KQ_ERROR_DRIVER;
        left_over left = count_since(before);
        if (!is_right || own.report.count != (result != KQ_OK) || left.objects != 0 ||
            left.blocks != 0) {
            print_error("%s, command %u, %s, lost: %s, %u errors, \"%s\", %d objects and %ld "
                        "blocks left%s\n",
                        t->name, number, f->failed, kq_result_name(result), own.report.count,
                        own.report.reason, left.objects, left.blocks,
                        result == KQ_OK && !is_wanted(t) ? ", wrong bytes" : "");
            is_right = false;
        }
        is_right = works_again(t, "a loss") && is_right;
        sum->survived += is_right;
        sum->all++;
    }
}

// A driver that says CL_SUCCESS, and then doesn't do the work, which its event tells or not.
static void each_command_may_be_lost(void **state)
{
    (void)state;
    static trial t;
    static const cl_int statuses[] = {0, CL_OUT_OF_RESOURCES};
    tally sums[2] = {{0, 0}, {0, 0}};
    for (size_t i = 0; i < own_work_count; i++) {
        want(&t, &own_works[i]);
        t.name = own_works[i].name;
        own.wrapped.max_mem_alloc_size = own_works[i].is_cut ? OWN_WORK_SEGMENT : 0;
        expect_ok("opening", open_noted(0, &cache, &t.device));
        for (unsigned k = 0; k < 2; k++) {
            lose_each_command(&t, statuses[k], &sums[k]);
        }
        kq_device_destroy(&t.device);
    }
    own.wrapped.max_mem_alloc_size = 0;
    bool is_right =
        fault_summary("opencl level 3, each command lost", sums[0].survived, sums[0].all);
    is_right = fault_summary("opencl level 3, each command ended by an error", sums[1].survived,
                             sums[1].all) &&
               is_right;
    assert_true(is_right);
}

// Of a cut dot some of whose records are zeros: what leaves a sum as it was is done again, and in
// that, too, a command may be lost.
static kq_result dot_with_zeros(kq_device *device, uint64_t order, unsigned char *out)
{
    enum { G = 60 };
    static unsigned char lhs[G * KQ_Q4_K_BYTES];
    static unsigned char rhs[G * KQ_Q8_K_BYTES];
    kq_buffer *buffers[3] = {NULL, NULL, NULL};
    draw_q4_k(1, G, lhs);
    draw_q8_k(2, G, rhs);
    for (size_t g = 10; g < G; g++) {
        memset(rhs + KQ_Q8_K_BYTES * g, 0, g % 8 < 5 ? KQ_Q8_K_BYTES : 0);
    }
    kq_result result = kq_buffer_create(device, sizeof lhs, &buffers[0]);
    result = result != KQ_OK ? result : kq_buffer_create(device, sizeof rhs, &buffers[1]);
    result = result != KQ_OK ? result : kq_buffer_create(device, 4, &buffers[2]);
    result = result != KQ_OK ? result : kq_buffer_upload(buffers[0], 0, lhs, sizeof lhs);
    result = result != KQ_OK ? result : kq_buffer_upload(buffers[1], 0, rhs, sizeof rhs);
    if (result == KQ_OK) {
        const kq_quantized_dot_args args =
            dot_args((kq_order)order, buffers[0], buffers[1], G, buffers[2]);
        result = kq_quantized_dot(device, &args);
    }
    result = result != KQ_OK ? result : kq_buffer_download(buffers[2], 0, out, 4);
    for (size_t i = 0; i < 3; i++) {
        kq_buffer_destroy(&buffers[i]);
    }
    return result;
}

static kq_result sequential_zeros(kq_device *device, uint64_t seed, unsigned char *out)
{
    (void)seed;
    return dot_with_zeros(device, KQ_ORDER_SEQUENTIAL, out);
}

static kq_result pairwise_zeros(kq_device *device, uint64_t seed, unsigned char *out)
{
    (void)seed;
    return dot_with_zeros(device, KQ_ORDER_PAIRWISE, out);
}

static void a_command_done_again_may_be_lost(void **state)
{
    (void)state;
    static trial t;
    static const own_work works[] = {{"zeros, sequential", sequential_zeros, true},
                                     {"zeros, pairwise", pairwise_zeros, true}};
    tally sum = {0, 0};
    own.wrapped.max_mem_alloc_size = OWN_WORK_SEGMENT;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        want(&t, &works[i]);
        t.name = works[i].name;
        expect_ok("opening", open_noted(0, &cache, &t.device));
        lose_each_command(&t, 0, &sum);
        kq_device_destroy(&t.device);
    }
    own.wrapped.max_mem_alloc_size = 0;
    assert_int_equal(sum.survived, sum.all);
    assert_true(sum.all > 100);
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
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_command_may_be_lost),
        cmocka_unit_test(a_command_done_again_may_be_lost),
        cmocka_unit_test(leaves_nothing_behind),
    };
    int status = own_start(argc, argv, false);
    if (status == EXIT_SUCCESS) {
        int failed = cmocka_run_group_tests_name("opencl_faults", tests, NULL, NULL);
        status = failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    forget_kept();
    own_finish();
    return status;
}
