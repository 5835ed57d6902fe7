// What engines count on in level 2: recording allocates nothing and changes no pack, packs share a
// device, frames go on for ever, and the pipeline cache, allocator and names of create are used.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none, or no validation layer if that is asked for.
// Usage: vulkan_engine_test [--validate] [FOLDER...]
// The folders of vectors are not needed; they may be there, as with other tests of drivers.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "faulty_heap.h"
#include "support.h"
#include "vulkan_engine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Of the whole process, so the driver's too.
static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %ld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

// Calls fail once, at the count that *user has.
static VkResult fail_once(void *user, const char *call, unsigned number)
{
    (void)call;
    (void)number;
    return --*(int *)user == 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
}

// --- Operations on random data, each with a set of its own

enum { JOB_G = 20 };

typedef struct job {
    engine_lane lane;  // for its set alone
    operands o;
    bool is_dot;
    kq_vulkan_quantized_dot dot;
    kq_vulkan_quantize quantize;
} job;

static void expect_unchanged(operand *o)
{
    memcpy(o->expected, o->host, (size_t)o->bytes);
}

static job open_dot(engine *e, const engine_functions *vk, const kq_vulkan *pack, uint64_t seed,
                    kq_order order)
{
    const kq_view view = {.offset = seed % 4, .G = JOB_G};
    job j = {.is_dot = true};
    lane_open(&j.lane, e, vk, pack);
    j.o = make_operands(e, JOB_G * KQ_Q4_K_BYTES + 8, JOB_G * KQ_Q8_K_BYTES + 8, 16, 8 * JOB_G);
    draw_q4_k(seed, JOB_G, j.o.at[KQ_LHS].host + view.offset);
    draw_q8_k(seed, JOB_G, j.o.at[KQ_RHS].host + view.offset);
    expect_unchanged(&j.o.at[KQ_LHS]);
    expect_unchanged(&j.o.at[KQ_RHS]);
    j.dot = dot_of(&j.o, order, view, view, seed % 5);
    expect_dot(&j.o, &j.dot);
    return j;
}

static job open_quantize(engine *e, const engine_functions *vk, const kq_vulkan *pack,
                         uint64_t seed)
{
    const kq_view view = {.G = JOB_G};
    job j = {.is_dot = false};
    lane_open(&j.lane, e, vk, pack);
    j.o = make_operands(e, JOB_G * KQ_BLOCK_BYTES, JOB_G * KQ_Q8_K_BYTES, 16, 4);
    draw_values(seed, JOB_G, j.o.at[KQ_VALUES].host);
    expect_unchanged(&j.o.at[KQ_VALUES]);
    j.quantize = quantize_of(&j.o, view, view, 0);
    expect_quantize(&j.o, &j.quantize);
    return j;
}

// Outputs as they were before the work.
static void preset_job(job *j)
{
    if (j->is_dot) {
        memset(j->o.at[KQ_RESULT].host, POISON, (size_t)j->o.at[KQ_RESULT].bytes);
    } else {
        memset(j->o.at[KQ_RECORDS].host, POISON, (size_t)j->o.at[KQ_RECORDS].bytes);
        fill_status(&j->o.at[KQ_STATUS], 0);
        expect_status(&j->o.at[KQ_STATUS], 0, 0xFFFFFFFFu, 0, JOB_G);
    }
}

static void record_job(const job *j, const kq_vulkan *pack, VkCommandBuffer commands)
{
    kq_needs needs;
    if (j->is_dot) {
        assert_int_equal(kq_vulkan_quantized_dot_query(pack, &j->dot, &needs), KQ_OK);
        assert_int_equal(kq_vulkan_quantized_dot_write_set(pack, &j->dot, j->lane.set), KQ_OK);
        assert_int_equal(kq_vulkan_quantized_dot_record(pack, &j->dot, j->lane.set, commands),
                         KQ_OK);
    } else {
        assert_int_equal(kq_vulkan_quantize_query(pack, &j->quantize, &needs), KQ_OK);
        assert_int_equal(kq_vulkan_quantize_write_set(pack, &j->quantize, j->lane.set), KQ_OK);
        assert_int_equal(kq_vulkan_quantize_record(pack, &j->quantize, j->lane.set, commands),
                         KQ_OK);
    }
}

// All but scratch, which may hold anything.
static void check_job(const engine *e, const job *j)
{
    for (int i = 0; i < KQ_SCRATCH; i++) {
        operand_check(e, &j->o.at[i]);
    }
}

enum { JOBS = 4 };

// Quantize, and a dot of either order, twice: the same operation with other buffers.
static void open_jobs(job jobs[JOBS], engine *e, const engine_functions *vk, const kq_vulkan *pack)
{
    jobs[0] = open_dot(e, vk, pack, 1, KQ_ORDER_SEQUENTIAL);
    jobs[1] = open_dot(e, vk, pack, 2, KQ_ORDER_PAIRWISE);
    jobs[2] = open_dot(e, vk, pack, 3, KQ_ORDER_PAIRWISE);
    jobs[3] = open_quantize(e, vk, pack, 4);
}

static void close_jobs(job jobs[JOBS], engine *e)
{
    for (int i = 0; i < JOBS; i++) {
        lane_close(&jobs[i].lane);
        destroy_operands(e, &jobs[i].o);
    }
}

// Job i is recorded with packs[i], all in one command buffer.
static void run_jobs(job *jobs, int count, const kq_vulkan *const *packs, engine *e,
                     engine_lane *lane)
{
    VkCommandBuffer commands = lane_begin(lane, false);
    for (int i = 0; i < count; i++) {
        preset_job(&jobs[i]);
        record_job(&jobs[i], packs[i], commands);
        lane_barrier(lane, commands);
    }
    lane_end(lane, false);
    engine_run(e, lane->vk, lane->primary);
    for (int i = 0; i < count; i++) {
        check_job(e, &jobs[i]);
    }
}

// --- Recording

static void record_self_test(const kq_vulkan *pack, engine_lane *lane, const operand *o)
{
    const kq_vulkan_range range = {o->buffer, o->bytes, 0};
    kq_self_test_input(o->host);
    assert_int_equal(kq_vulkan_self_test_write_set(pack, &range, lane->set), KQ_OK);
    VkCommandBuffer commands = lane_begin(lane, false);
    assert_int_equal(kq_vulkan_self_test_record(pack, &range, lane->set, commands), KQ_OK);
    lane_end(lane, false);
}

// Without the wrapped driver, which allocates.
static void test_recording(void **state)
{
    engine *e = *state;
    engine_functions direct;
    engine_lane lane;
    job jobs[JOBS];
    kq_vulkan *pack = NULL;
    engine_load(&direct, wrapped_vulkan_direct(), e->instance, e->device);
    kq_vulkan_params params = engine_pack_params(e);
    params.get_instance_proc_addr = wrapped_vulkan_direct();
    unsigned long calls = heap.calls;
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    assert_true(heap.calls > calls);  // so they are seen
    size_t bytes = heap.last_calloc_bytes;
    void *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, pack, bytes);
    lane_open(&lane, e, &direct, pack);
    open_jobs(jobs, e, &direct, pack);
    operand test = engine_make_operand(e, KQ_SELF_TEST_BYTES);
    calls = heap.calls;
    const kq_vulkan *const packs[JOBS] = {pack, pack, pack, pack};
    run_jobs(jobs, JOBS, packs, e, &lane);
    record_self_test(pack, &lane, &test);
    assert_int_equal(heap.calls, calls);
    assert_memory_equal(pack, before, bytes);
    engine_run(e, &direct, lane.primary);
    assert_int_equal(kq_self_test_verdict(test.host, NULL, NULL), KQ_OK);
    free(before);
    free(test.expected);
    close_jobs(jobs, e);
    lane_close(&lane);
    kq_vulkan_destroy(&pack);
}

// Their dispatches stand side by side, and the one lives on without the other. The sets of all are
// made with the layout of one, for layouts alike are compatible.
static void test_two_packs(void **state)
{
    engine *e = *state;
    job jobs[JOBS];
    kq_vulkan *second = NULL;
    kq_vulkan_params params = engine_pack_params(e);
    params.ops = 1u << KQ_OP_QUANTIZED_DOT;
    assert_int_equal(kq_vulkan_create(&params, &second), KQ_OK);
    open_jobs(jobs, e, &e->vk, e->pack);
    int live = wrapped_vulkan_live(&e->wrapped);
    const kq_vulkan *const packs[JOBS] = {second, e->pack, second, e->pack};
    const kq_vulkan *const first[JOBS] = {e->pack, e->pack, e->pack, e->pack};
    run_jobs(jobs, JOBS, packs, e, &e->lane);
    kq_vulkan_destroy(&second);
    run_jobs(jobs, JOBS, first, e, &e->lane);
    assert_int_equal(wrapped_vulkan_live(&e->wrapped),
                     live - 2 - (int)wrapped_vulkan_kernels(1u << KQ_OP_QUANTIZED_DOT));
    close_jobs(jobs, e);
}

// A pack with the layouts of an older one makes none, and leaves them to it; so does one that takes
// them from there.
static void test_shared_layouts(void **state)
{
    engine *e = *state;
    const wrapped_vulkan *w = &e->wrapped;
    kq_vulkan *young[2] = {NULL, NULL};
    job jobs[JOBS];
    operand test;
    kq_vulkan_params params = engine_pack_params(e);
    int live = wrapped_vulkan_live(w);
    int kernels = (int)wrapped_vulkan_kernels(0);
    int layouts[2] = {w->live[WRAPPED_VULKAN_DESCRIPTOR_SET_LAYOUT],
                      w->live[WRAPPED_VULKAN_PIPELINE_LAYOUT]};
    wrapped_vulkan_reset(&e->wrapped);
    for (int i = 0; i < 2; i++) {
        params.share_layouts = i == 0 ? e->pack : young[0];
        assert_int_equal(kq_vulkan_create(&params, &young[i]), KQ_OK);
        assert_true(kq_vulkan_set_layout(young[i]) == kq_vulkan_set_layout(e->pack));
        assert_int_equal(wrapped_vulkan_live(w), live + (i + 1) * kernels);
    }
    assert_int_equal(wrapped_vulkan_calls(w, "vkCreateDescriptorSetLayout"), 0);
    assert_int_equal(wrapped_vulkan_calls(w, "vkCreatePipelineLayout"), 0);
    open_jobs(jobs, e, &e->vk, young[1]);
    test = engine_make_operand(e, KQ_SELF_TEST_BYTES);
    const kq_vulkan *const packs[JOBS] = {young[0], young[1], e->pack, young[1]};
    run_jobs(jobs, JOBS, packs, e, &e->lane);
    for (int i = 1; i >= 0; i--) {
        record_self_test(young[i], &e->lane, &test);
        engine_run(e, &e->vk, e->lane.primary);
        assert_int_equal(kq_self_test_verdict(test.host, NULL, NULL), KQ_OK);
        kq_vulkan_destroy(&young[i]);
        assert_int_equal(w->live[WRAPPED_VULKAN_DESCRIPTOR_SET_LAYOUT], layouts[0]);
        assert_int_equal(w->live[WRAPPED_VULKAN_PIPELINE_LAYOUT], layouts[1]);
    }
    assert_int_equal(wrapped_vulkan_calls(w, "vkDestroyDescriptorSetLayout"), 0);
    assert_int_equal(wrapped_vulkan_calls(w, "vkDestroyPipelineLayout"), 0);
    const kq_vulkan *const first[JOBS] = {e->pack, e->pack, e->pack, e->pack};
    run_jobs(jobs, JOBS, first, e, &e->lane);
    close_jobs(jobs, e);
    free(test.expected);
    assert_int_equal(wrapped_vulkan_live(w), live);
}

// One that can't be made leaves them too.
static void test_failing_with_shared_layouts(void **state)
{
    engine *e = *state;
    int calls_left = 3;
    int live = wrapped_vulkan_live(&e->wrapped);
    kq_vulkan *pack = NULL;
    kq_vulkan_params params = engine_pack_params(e);
    params.share_layouts = e->pack;
    wrapped_vulkan_reset(&e->wrapped);
    e->wrapped.fail = fail_once;
    e->wrapped.fail_user = &calls_left;
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_ERROR_MEMORY);
    e->wrapped.fail = NULL;
    memset(&e->report, 0, sizeof e->report);
    assert_null(pack);
    assert_int_equal(wrapped_vulkan_live(&e->wrapped), live);
    assert_int_equal(wrapped_vulkan_calls(&e->wrapped, "vkDestroyPipelineLayout"), 0);
}

// Each of them records anew, runs, and is checked. What leaks does so in every window of frames;
// a driver's pool that takes a step (SwiftShader's has been seen to take 16 MiB) does so in one.
static void test_frames(void **state)
{
    enum { FRAMES = 10000, WINDOW = 1000, MOST_BYTES = 1 << 17 };
    engine *e = *state;
    job jobs[JOBS];
    int live = 0;
    long blocks = 0, resident = 0, growth = LONG_MAX;
    unsigned long calls = 0;
    const kq_vulkan *const packs[JOBS] = {e->pack, e->pack, e->pack, e->pack};
    open_jobs(jobs, e, &e->vk, e->pack);
    for (int frame = 0; frame < FRAMES; frame++) {
        run_jobs(jobs, JOBS, packs, e, &e->lane);
        if ((frame + 1) % WINDOW != 0)
            continue;
        long now = resident_bytes();
        if (frame + 1 == WINDOW) {
            live = wrapped_vulkan_live(&e->wrapped);
            calls = heap.calls;
            blocks = heap.live;
        } else if (now - resident < growth) {
            growth = now - resident;
        }
        resident = now;
    }
    print_message("%d frames: the process grew by %ld bytes or more\n", WINDOW, growth);
    assert_int_equal(wrapped_vulkan_live(&e->wrapped), live);
    assert_int_equal(heap.calls, calls);
    assert_int_equal(heap.live, blocks);
#ifndef __SANITIZE_ADDRESS__  // which keeps what is freed
    assert_true(growth <= MOST_BYTES);
#endif
    assert_int_equal(e->report.count, 0);
    close_jobs(jobs, e);
}

// --- The pipeline cache

static VkPipelineCache make_cache(const engine *e, const void *data, size_t bytes)
{
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = bytes,
        .pInitialData = data,
    };
    VkPipelineCache cache = VK_NULL_HANDLE;
    assert_int_equal(e->vk.vkCreatePipelineCache(e->device, &info, NULL, &cache), VK_SUCCESS);
    return cache;
}

// Of processor time, for compilers use one thread and the machine may be busy.
static double time_create(const kq_vulkan_params *params, kq_vulkan **pack)
{
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    assert_int_equal(kq_vulkan_create(params, pack), KQ_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return 1e3 * (double)(end.tv_sec - start.tv_sec) + 1e-6 * (double)(end.tv_nsec - start.tv_nsec);
}

static double median(double values[3])
{
    double least = values[0] < values[1] ? values[0] : values[1];
    double most = values[0] < values[1] ? values[1] : values[0];
    return values[2] < least ? least : values[2] > most ? most : values[2];
}

// Each pipeline is made with the cache. Of SwiftShader's a new pack gets the optimised module,
// which is a quarter of the work: compiled code is there for the same VkPipelineLayout alone.
// Lavapipe's holds nothing.
static void test_cache(void **state)
{
    enum { TIMES = 3 };
    engine *e = *state;
    double cold[TIMES], warm[TIMES], shared[TIMES];
    kq_vulkan *packs[TIMES];
    kq_vulkan *older = NULL;
    kq_vulkan *pack = NULL;
    long resident = 0;
    unsigned kernels = wrapped_vulkan_kernels(0);
    kq_vulkan_params params = engine_pack_params(e);
    VkPipelineCache cache = make_cache(e, NULL, 0);
    params.pipeline_cache = cache;
    time_create(&params, &older);
    wrapped_vulkan_reset(&e->wrapped);
    for (unsigned i = 0; i < TIMES; i++) {
        params.pipeline_cache = VK_NULL_HANDLE;
        long before = resident_bytes();
        cold[i] = time_create(&params, &packs[i]);
        resident += resident_bytes() - before;
        assert_int_equal(e->wrapped.counts.with_cache, 2 * i * kernels);
        params.pipeline_cache = cache;
        warm[i] = time_create(&params, &pack);
        kq_vulkan_destroy(&pack);
        params.share_layouts = older;
        shared[i] = time_create(&params, &pack);
        kq_vulkan_destroy(&pack);
        params.share_layouts = NULL;
        assert_int_equal(e->wrapped.counts.with_cache, 2 * (i + 1) * kernels);
    }
    kq_vulkan_destroy(&older);
    for (int i = 0; i < TIMES; i++) {
        kq_vulkan_destroy(&packs[i]);
    }
    e->vk.vkDestroyPipelineCache(e->device, cache, NULL);
    print_message(
        "a pack: %.0f ms, %.1f MB; with a full cache %.0f ms, with older layouts too %.2f "
        "ms\n",
        median(cold), (double)resident / TIMES / 1e6, median(warm), median(shared));
    if (strstr(e->device_name, "SwiftShader") != NULL) {
        assert_true(median(cold) > 5 * median(shared));
    }
}

// What an engine may have kept on disk: nothing, too little, another driver's, a damaged one.
static void test_cache_data(void **state)
{
    enum { HEADER_BYTES = 32, VENDOR_AT = 8, UUID_AT = 16 };
    engine *e = *state;
    size_t bytes = 0;
    kq_vulkan_params params = engine_pack_params(e);
    kq_vulkan *pack = NULL;
    job quantize = open_quantize(e, &e->vk, e->pack, 5);
    VkPipelineCache full = make_cache(e, NULL, 0);
    params.ops = 1u << KQ_OP_QUANTIZE;
    params.pipeline_cache = full;
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    kq_vulkan_destroy(&pack);
    assert_int_equal(e->vk.vkGetPipelineCacheData(e->device, full, &bytes, NULL), VK_SUCCESS);
    assert_true(bytes >= HEADER_BYTES);
    unsigned char *data = malloc(bytes);
    assert_non_null(data);
    assert_int_equal(e->vk.vkGetPipelineCacheData(e->device, full, &bytes, data), VK_SUCCESS);
    e->vk.vkDestroyPipelineCache(e->device, full, NULL);
    const struct {
        size_t bytes, flipped;  // the byte to damage, past the end for none
    } cases[] = {
        {0, bytes},         {bytes, bytes},   {bytes - 1, bytes}, {UUID_AT, bytes},
        {bytes, VENDOR_AT}, {bytes, UUID_AT}, {bytes, 0},         {bytes, bytes - 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *copy = malloc(bytes);
        assert_non_null(copy);
        memcpy(copy, data, bytes);
        if (cases[i].flipped < bytes) {
            copy[cases[i].flipped] ^= 0x10;
        }
        params.pipeline_cache = make_cache(e, copy, cases[i].bytes);
        free(copy);
        assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
        run_jobs(&quantize, 1, (const kq_vulkan *const[]){pack}, e, &e->lane);
        kq_vulkan_destroy(&pack);
        e->vk.vkDestroyPipelineCache(e->device, params.pipeline_cache, NULL);
    }
    free(data);
    lane_close(&quantize.lane);
    destroy_operands(e, &quantize.o);
}

// --- Names

static struct {
    const engine *engine;
    unsigned count, fails_at;
    uint64_t handles[16];
    char names[16][64];
} named;

static VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice device,
                                               const VkDebugUtilsObjectNameInfoEXT *info)
{
    assert_ptr_equal(device, named.engine->device);
    assert_int_equal(info->sType, VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT);
    assert_null(info->pNext);
    assert_int_equal(info->objectType, VK_OBJECT_TYPE_PIPELINE);
    assert_true(named.count < 16);
    named.handles[named.count] = info->objectHandle;
    snprintf(named.names[named.count], sizeof named.names[0], "%s", info->pObjectName);
    named.count++;
    if (named.count == named.fails_at) {
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    // The layer switches the extension on, and looks at what it is told.
    PFN_vkSetDebugUtilsObjectNameEXT next =
        named.engine->wrapped.validation != WRAPPED_VALIDATION_NONE
            ? (PFN_vkSetDebugUtilsObjectNameEXT)wrapped_vulkan_direct()(
                  named.engine->instance, "vkSetDebugUtilsObjectNameEXT")
            : NULL;
    return next != NULL ? next(device, info) : VK_SUCCESS;
}

static void test_names(void **state)
{
    engine *e = *state;
    size_t count = 0;
    const kq_kernel *kernels = kq_kernels(&count);
    kq_vulkan *pack = NULL;
    memset(&named, 0, sizeof named);
    named.engine = e;
    kq_vulkan_params params = engine_pack_params(e);
    params.set_debug_name = (PFN_vkVoidFunction)set_name;
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    unsigned found = 0;
    for (size_t k = 0; k < count; k++) {
        for (unsigned i = 0; i < named.count && kernels[k].api == KQ_API_VULKAN; i++) {
            found += strcmp(named.names[i], kernels[k].name) == 0;
        }
    }
    assert_int_equal(found, named.count);
    assert_int_equal(found, wrapped_vulkan_kernels(0));
    for (unsigned i = 0; i < found; i++) {
        assert_true(wrapped_vulkan_is_kernel(&e->wrapped, named.handles[i], named.names[i]));
    }
    kq_vulkan_destroy(&pack);

    int live = wrapped_vulkan_live(&e->wrapped);
    memset(&named, 0, sizeof named);
    named.engine = e;
    named.fails_at = 2;
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_ERROR_MEMORY);
    assert_non_null(strstr(e->report.reason, "vkSetDebugUtilsObjectNameEXT"));
    assert_null(pack);
    assert_int_equal(wrapped_vulkan_live(&e->wrapped), live);
}

// --- The allocator

typedef struct allocations {
    int live, made;
} allocations;

// An allocator that counts; it hides where malloc put the block in front of it.
static void *VKAPI_CALL count_allocation(void *user, size_t bytes, size_t alignment,
                                         VkSystemAllocationScope scope)
{
    (void)scope;
    size_t step = alignment < 2 * sizeof(size_t) ? 2 * sizeof(size_t) : alignment;
    unsigned char *block = malloc(bytes + 2 * step);
    if (block == NULL) {
        return NULL;
    }
    unsigned char *memory = block + 2 * step - (uintptr_t)block % step;
    memcpy(memory - sizeof block, &block, sizeof block);
    memcpy(memory - sizeof block - sizeof bytes, &bytes, sizeof bytes);
    ((allocations *)user)->live++;
    ((allocations *)user)->made++;

    return memory;
}

static void VKAPI_CALL count_free(void *user, void *memory)
{
    unsigned char *block = NULL;
    if (memory != NULL) {
        memcpy(&block, (unsigned char *)memory - sizeof block, sizeof block);
        free(block);
        ((allocations *)user)->live--;
    }
}

static void *VKAPI_CALL count_reallocation(void *user, void *memory, size_t bytes, size_t alignment,
                                           VkSystemAllocationScope scope)
{
    void *moved = bytes > 0 ? count_allocation(user, bytes, alignment, scope) : NULL;
    if (moved != NULL && memory != NULL) {
        size_t had = 0;
        memcpy(&had, (unsigned char *)memory - sizeof(void *) - sizeof had, sizeof had);
        memcpy(moved, memory, had < bytes ? had : bytes);
    }
    if (moved != NULL || bytes == 0) {
        count_free(user, memory);
    }
    return moved;
}

// All that is made is made and destroyed with the caller's, also where a call fails, each in turn.
static void test_allocator(void **state)
{
    engine *e = *state;
    allocations blocks = {0, 0};
    int calls_left = 0;
    unsigned tried = 0;
    const VkAllocationCallbacks allocator = {
        .pUserData = &blocks,
        .pfnAllocation = count_allocation,
        .pfnReallocation = count_reallocation,
        .pfnFree = count_free,
    };
    kq_vulkan_params params = engine_pack_params(e);
    kq_vulkan *pack = NULL;
    params.allocator = &allocator;
    wrapped_vulkan_reset(&e->wrapped);
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    // Two layouts, and of each kernel a module and a pipeline.
    unsigned calls = 2 + 2 * (wrapped_vulkan_kernels(0));
    assert_int_equal(e->wrapped.counts.with_allocator, calls);
    assert_true(blocks.made > 0);
    kq_vulkan_destroy(&pack);
    assert_int_equal(blocks.live, 0);
    int live = wrapped_vulkan_live(&e->wrapped);
    e->wrapped.fail = fail_once;
    e->wrapped.fail_user = &calls_left;
    memset(&e->report, 0, sizeof e->report);
    for (unsigned i = 1; i <= calls; i += i < 6 ? 1 : 3) {
        calls_left = (int)i;
        assert_int_equal(kq_vulkan_create(&params, &pack), KQ_ERROR_MEMORY);
        assert_null(pack);
        assert_int_equal(blocks.live, 0);
        assert_int_equal(wrapped_vulkan_live(&e->wrapped), live);
        tried++;
    }
    e->wrapped.fail = NULL;
    assert_int_equal(e->report.count, tried);
    params.allocator = NULL;
    wrapped_vulkan_reset(&e->wrapped);
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    assert_int_equal(e->wrapped.counts.with_allocator, 0);
    kq_vulkan_destroy(&pack);
    kq_vulkan_destroy(&pack);
}

static wrapped_vulkan shown;

static int open_engine(void **state)
{
    static engine e;
    engine_open(&e, shown);
    *state = &e;
    return 0;
}

static int close_engine(void **state)
{
    engine_close(*state);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        wrapped_validation asked = wrapped_vulkan_validation(argv[i]);
        shown.validation = asked != WRAPPED_VALIDATION_NONE ? asked : shown.validation;
    }
    if (!engine_is_possible(shown.validation)) {
        return EXIT_SKIP;
    }
    // On one device, for SwiftShader takes seconds to make a pack.
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_two_packs),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cache_data),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_allocator),
        cmocka_unit_test(test_shared_layouts),
        cmocka_unit_test(test_failing_with_shared_layouts),
    };
    int failed = cmocka_run_group_tests_name("vulkan_engine", tests, open_engine, close_engine);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
