// Level 2 on a Vulkan device of which every call that create makes fails once, with each code that
// it may give; every function that it looks up is not there; every allocation fails: the result and
// one report that say so, nothing left, and the next pack is made. Query, write_set, record and
// destroy make no call that can fail. And a driver that loses a dispatch: what quantize's status
// and the self-test's verdict then say.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "vulkan_faults.h"
#include "faulty_heap.h"
#include "vulkan_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static engine the_engine;

// --- The caller's own parts of create

static long blocks;

static void *VKAPI_CALL allocate_block(void *user, size_t bytes, size_t alignment,
                                       VkSystemAllocationScope scope)
{
    (void)user;
    (void)scope;
    assert_true(alignment <= 16);  // malloc's
    void *block = malloc(bytes);
    blocks += block != NULL;
    return block;
}

static void *VKAPI_CALL reallocate_block(void *user, void *block, size_t bytes, size_t alignment,
                                         VkSystemAllocationScope scope)
{
    if (block == NULL) {
        return allocate_block(user, bytes, alignment, scope);
    }
    return realloc(block, bytes);
}

static void VKAPI_CALL free_block(void *user, void *block)
{
    (void)user;
    blocks -= block != NULL;
    free(block);
}

static faults_hook *naming_hook;

static VKAPI_ATTR VkResult VKAPI_CALL name_object(VkDevice device,
                                                  const VkDebugUtilsObjectNameInfoEXT *info)
{
    (void)device;
    (void)info;
    return naming_hook != NULL ? faults_fail(naming_hook, "vkSetDebugUtilsObjectNameEXT", 0)
                               : VK_SUCCESS;
}

static const VkAllocationCallbacks callbacks = {
    .pfnAllocation = allocate_block,
    .pfnReallocation = reallocate_block,
    .pfnFree = free_block,
};

enum { IS_CACHED = 1, HAS_ALLOCATOR = 2, SHARES_LAYOUTS = 4, IS_NAMED = 8, VARIANTS = 16 };

static const uint32_t op_sets[] = {1u << KQ_OP_QUANTIZE, 1u << KQ_OP_QUANTIZED_DOT, 0};

static kq_vulkan_params params_of(engine *e, uint32_t ops, unsigned variant, VkPipelineCache cache)
{
    kq_vulkan_params params = engine_pack_params(e);
    params.ops = ops;
    params.pipeline_cache = (variant & IS_CACHED) != 0 ? cache : VK_NULL_HANDLE;
    params.allocator = (variant & HAS_ALLOCATOR) != 0 ? &callbacks : NULL;
    params.share_layouts = (variant & SHARES_LAYOUTS) != 0 ? e->pack : NULL;
    params.set_debug_name = (variant & IS_NAMED) != 0 ? (PFN_vkVoidFunction)name_object : NULL;
    return params;
}

// --- Create

typedef struct state_before {
    int objects;
    long heap_blocks, callback_blocks;
} state_before;

static state_before look(const engine *e)
{
    return (state_before){wrapped_vulkan_live(&e->wrapped), heap.live, blocks};
}

// Whether all is as before, and the next pack is made and destroyed.
static bool goes_on(engine *e, const kq_vulkan_params *params, state_before before)
{
    kq_vulkan *pack = NULL;
    bool is_made = false;
    for (int i = 0; i < 2; i++) {
        state_before now = look(e);
        if (now.objects != before.objects || now.heap_blocks != before.heap_blocks ||
            now.callback_blocks != before.callback_blocks) {
            print_error("%d objects, %ld and %ld allocations are left\n",
                        now.objects - before.objects, now.heap_blocks - before.heap_blocks,
                        now.callback_blocks - before.callback_blocks);
            return false;
        }
        is_made |= i == 0 && kq_vulkan_create(params, &pack) == KQ_OK;
        kq_vulkan_destroy(&pack);
    }
    return is_made && e->wrapped.violations == 0;
}

static bool has_report(const engine *e, kq_result result, const char *first, const char *second)
{
    bool has = e->report.count == 1 && e->report.result == result &&
               strstr(e->report.reason, first) != NULL && strstr(e->report.reason, second) != NULL;
    if (!has) {
        print_error("%u reports, not one of %s and %s; the last %s: \"%s\"\n", e->report.count,
                    first, second, kq_result_name(e->report.result), e->report.reason);
    }
    return has;
}

static bool survives(engine *e, const kq_vulkan_params *params, faults_hook *hook)
{
    kq_vulkan *pack = NULL;
    char code[16];
    const state_before before = look(e);
    memset(&e->report, 0, sizeof e->report);
    snprintf(code, sizeof code, "(%d)", (int)hook->code);
    e->wrapped.fail = faults_fail;
    e->wrapped.fail_user = hook;
    naming_hook = hook;
    kq_result result = kq_vulkan_create(params, &pack);
    e->wrapped.fail = NULL;
    naming_hook = NULL;
    if (hook->number == 0) {
        kq_vulkan_destroy(&pack);
        return result == KQ_OK;
    }
    return hook->failed != NULL && pack == NULL && result == faults_result_of(hook->code) &&
           has_report(e, result, hook->failed, code) && goes_on(e, params, before);
}

static void test_each_call(void **state)
{
    static faults_hook clean;
    static faults_hook hook;
    engine *e = &the_engine;
    faults_tally tally = {0};
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache = VK_NULL_HANDLE;
    (void)state;
    assert_int_equal(e->vk.vkCreatePipelineCache(e->device, &info, NULL, &cache), VK_SUCCESS);
    for (size_t set = 0; set < sizeof op_sets / sizeof *op_sets; set++) {
        for (unsigned variant = 0; variant < VARIANTS; variant++) {
            const kq_vulkan_params params = params_of(e, op_sets[set], variant, cache);
            memset(&clean, 0, sizeof clean);
            assert_true(survives(e, &params, &clean));
            for (unsigned number = 1; number <= clean.seen; number++) {
                size_t count = 0;
                const VkResult *codes = faults_codes(clean.names[number - 1], &count);
                for (size_t i = 0; i < count; i++) {
                    memset(&hook, 0, sizeof hook);
                    hook.number = number;
                    hook.code = codes[i];
                    tally.made++;
                    tally.survived += survives(e, &params, &hook);
                }
            }
        }
    }
    e->vk.vkDestroyPipelineCache(e->device, cache, NULL);
    faults_print("vulkan level 2, each code of each call", tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 500);
}

// --- Functions that aren't there

typedef struct lacking {
    unsigned number, seen;
    char name[64];
} lacking;

static bool lack(void *user, const char *name)
{
    lacking *l = user;
    l->seen++;
    if (l->seen != l->number) {
        return false;
    }
    snprintf(l->name, sizeof l->name, "%s", name);
    return true;
}

static void test_each_function(void **state)
{
    engine *e = &the_engine;
    faults_tally tally = {0};
    const kq_vulkan_params params = engine_pack_params(e);
    (void)state;
    for (unsigned number = 1;; number++) {
        lacking l = {.number = number};
        kq_vulkan *pack = NULL;
        const state_before before = look(e);
        memset(&e->report, 0, sizeof e->report);
        e->wrapped.lacks = lack;
        e->wrapped.lacks_user = &l;
        kq_result result = kq_vulkan_create(&params, &pack);
        e->wrapped.lacks = NULL;
        if (l.name[0] == '\0') {
            assert_int_equal(result, KQ_OK);
            kq_vulkan_destroy(&pack);
            break;
        }
        tally.made++;
        tally.survived += result == KQ_ERROR_ARGUMENT && pack == NULL &&
                          has_report(e, KQ_ERROR_ARGUMENT, "get_instance_proc_addr", l.name) &&
                          goes_on(e, &params, before);
    }
    faults_print("vulkan level 2, each function missing", tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 10);
}

// --- Allocations

static void test_each_allocation(void **state)
{
    engine *e = &the_engine;
    faults_tally tally = {0};
    const kq_vulkan_params params = engine_pack_params(e);
    (void)state;
    for (unsigned number = 1;; number++) {
        kq_vulkan *pack = NULL;
        const state_before before = look(e);
        memset(&e->report, 0, sizeof e->report);
        faulty_heap_set(number);
        kq_result result = kq_vulkan_create(&params, &pack);
        unsigned failed = heap.failed;
        faulty_heap_set(0);
        if (failed == 0) {
            assert_int_equal(result, KQ_OK);
            kq_vulkan_destroy(&pack);
            break;
        }
        tally.made++;
        tally.survived += result == KQ_ERROR_MEMORY && pack == NULL &&
                          has_report(e, KQ_ERROR_MEMORY, "host", "memory") &&
                          goes_on(e, &params, before);
    }
    faults_print("vulkan level 2, each allocation", tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 0);
}

// --- Operations

enum { G = 20 };

static operands make_all(engine *e)
{
    operands o = make_operands(e, G * KQ_BLOCK_BYTES, G * KQ_Q8_K_BYTES, KQ_SELF_TEST_BYTES, 4096);
    unsigned char values[G * KQ_BLOCK_BYTES];
    draw_values(1, G, values);
    operand_fill(&o.at[KQ_VALUES], 0, values, sizeof values);
    return o;
}

static kq_vulkan_range test_range(const operands *o)
{
    return (kq_vulkan_range){o->at[KQ_RESULT].buffer, o->at[KQ_RESULT].bytes, 0};
}

// Nothing that an engine does each frame asks the driver for anything, or the heap.
static void test_operations(void **state)
{
    static faults_hook hook;
    engine *e = &the_engine;
    operands o = make_all(e);
    kq_needs needs;
    const kq_vulkan_range range = test_range(&o);
    const kq_vulkan_quantize quantize = quantize_of(&o, (kq_view){.G = G}, (kq_view){.G = G}, 0);
    kq_vulkan *pack = NULL;
    const kq_vulkan_params params = engine_pack_params(e);
    (void)state;
    assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    memset(&hook, 0, sizeof hook);
    e->wrapped.fail = faults_fail;
    e->wrapped.fail_user = &hook;
    faulty_heap_set(1);
    assert_int_equal(kq_vulkan_quantize_query(pack, &quantize, &needs), KQ_OK);
    assert_int_equal(kq_vulkan_quantize_write_set(pack, &quantize, e->lane.set), KQ_OK);
    assert_int_equal(kq_vulkan_quantize_record(pack, &quantize, e->lane.set, commands), KQ_OK);
    for (int order = 0; order < 2; order++) {
        const kq_vulkan_quantized_dot dot =
            dot_of(&o, (kq_order)order, (kq_view){.G = G}, (kq_view){.G = G}, 0);
        assert_int_equal(kq_vulkan_quantized_dot_query(pack, &dot, &needs), KQ_OK);
        assert_int_equal(kq_vulkan_quantized_dot_write_set(pack, &dot, e->lane.set), KQ_OK);
        assert_int_equal(kq_vulkan_quantized_dot_record(pack, &dot, e->lane.set, commands), KQ_OK);
    }
    assert_int_equal(kq_vulkan_self_test_write_set(pack, &range, e->lane.set), KQ_OK);
    assert_int_equal(kq_vulkan_self_test_record(pack, &range, e->lane.set, commands), KQ_OK);
    kq_vulkan_destroy(&pack);
    assert_int_equal(heap.calls, 0);
    faulty_heap_set(0);
    e->wrapped.fail = NULL;
    assert_int_equal(hook.seen, 0);
    lane_end(&e->lane, false);
    lane_begin(&e->lane, false);
    lane_end(&e->lane, false);
    destroy_operands(e, &o);
}

// What the caller is told of a quantize or a self-test of which dispatch `number` is lost. Sets
// *count to all there are.
static bool tells(engine *e, operands *o, bool is_quantize, unsigned number, unsigned *count)
{
    faults_loss loss = {.call = "vkCmdDispatch", .number = number};
    const kq_vulkan_range range = test_range(o);
    const kq_vulkan_quantize quantize = quantize_of(o, (kq_view){.G = G}, (kq_view){.G = G}, 0);
    operand *last = &o->at[KQ_RESULT];
    const char *step = NULL;
    VkCommandBuffer commands = lane_begin(&e->lane, false);
    e->wrapped.loses = faults_lose;
    e->wrapped.loses_user = &loss;
    if (is_quantize) {
        fill_status(last, 0);
        assert_int_equal(kq_vulkan_quantize_write_set(e->pack, &quantize, e->lane.set), KQ_OK);
        assert_int_equal(kq_vulkan_quantize_record(e->pack, &quantize, e->lane.set, commands),
                         KQ_OK);
    } else {
        kq_self_test_input(last->host);
        assert_int_equal(kq_vulkan_self_test_write_set(e->pack, &range, e->lane.set), KQ_OK);
        assert_int_equal(kq_vulkan_self_test_record(e->pack, &range, e->lane.set, commands), KQ_OK);
    }
    lane_end(&e->lane, false);
    engine_run(e, &e->vk, e->lane.primary);
    e->wrapped.loses = NULL;
    *count = loss.seen;
    bool is_done = is_quantize ? load_u32(last->host + 8) == G
                               : kq_self_test_verdict(last->host, &step, NULL) == KQ_OK;
    return is_done == (number == 0) && (is_quantize || (step == NULL) == is_done);
}

static void test_each_dispatch_lost(void **state)
{
    engine *e = &the_engine;
    faults_tally tally = {0};
    operands o = make_all(e);
    (void)state;
    for (int is_quantize = 0; is_quantize < 2; is_quantize++) {
        unsigned count = 0;
        unsigned ignored = 0;
        assert_true(tells(e, &o, is_quantize, 0, &count));
        for (unsigned number = 1; number <= count; number++) {
            tally.made++;
            tally.survived += tells(e, &o, is_quantize, number, &ignored);
        }
    }
    destroy_operands(e, &o);
    faults_print("vulkan level 2, each dispatch lost", tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 5);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    if (!engine_is_possible(WRAPPED_VALIDATION_NONE)) {
        return EXIT_SKIP;
    }
    const wrapped_vulkan shown = {.keeps = true};
    engine_open(&the_engine, shown);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call),          cmocka_unit_test(test_each_function),
        cmocka_unit_test(test_each_allocation),    cmocka_unit_test(test_operations),
        cmocka_unit_test(test_each_dispatch_lost),
    };
    int failed = cmocka_run_group_tests_name("vulkan_faults_bring", tests, NULL, NULL);
    if (failed == 0) {
        engine_close(&the_engine);
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
