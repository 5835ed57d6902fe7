// The self-test of level 2 on a Vulkan device: right on this driver, wherever it is recorded, and
// no bytes around it touched; and a driver that compiles wrongly or doesn't do the work is found
// out, by the step that is wrong.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none, or no validation layer if that is asked for.
// Usage: vulkan_answers_test [--validate] [FOLDER...]
// The folders of vectors are not needed; they may be there, as with other tests of drivers.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "self_test.h"
#include "support.h"
#include "vulkan_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    wrapped_vulkan shown;
    engine engine;
} fixture;

// What the whole buffer holds after right work, but for words that only the kernels write.
static unsigned char done[KQ_SELF_TEST_BYTES];

// Records and runs the self-test on bytes of o, with a pack.
static void run(engine *e, const kq_vulkan *pack, operand *o, uint64_t offset, bool is_secondary)
{
    const kq_vulkan_range range = {o->buffer, o->bytes, offset};
    unsigned char input[KQ_SELF_TEST_BYTES];
    kq_self_test_input(input);
    operand_fill(o, offset, input, sizeof input);
    assert_int_equal(kq_vulkan_self_test_write_set(pack, &range, e->lane.set), KQ_OK);
    wrapped_vulkan_reset(&e->wrapped);
    VkCommandBuffer commands = lane_begin(&e->lane, is_secondary);
    assert_int_equal(kq_vulkan_self_test_record(pack, &range, e->lane.set, commands), KQ_OK);
    lane_end(&e->lane, is_secondary);
    engine_run(e, &e->vk, e->lane.primary);
}

// --- On the driver as it is

static void test_places(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    uint64_t alignment = e->limits.minStorageBufferOffsetAlignment;
    alignment = alignment < 4 ? 4 : alignment;
    kq_self_test_input(done);
    kq_self_test_reference(done);
    for (uint64_t i = 0; i < 6; i++) {
        const uint64_t offset = i / 2 * 3 * alignment;
        // Some end with the buffer.
        operand o = engine_make_operand(e, offset + KQ_SELF_TEST_BYTES + (i < 4 ? 0 : 68));
        operands all = {{o}};
        run(e, e->pack, &o, offset, i % 2 == 1);
        assert_null(judge_self_test(o.host + offset));
        // Scratch is what the kernels alone write, most of it for two pairwise dots of 601 records,
        // in two chunks each.
        size_t first = sizeof done;
        size_t last = 0;
        for (size_t k = 0; k < sizeof done; k += 4) {
            if (memcmp(o.host + offset + k, done + k, 4) != 0) {
                first = k < first ? k : first;
                last = k;
            }
        }
        assert_int_equal(last + 4 - first, 4 * 2 * (601 + 2));
        assert_memory_equal(o.host, o.expected, offset);
        assert_memory_equal(o.host + offset + KQ_SELF_TEST_BYTES,
                            o.expected + offset + KQ_SELF_TEST_BYTES,
                            o.bytes - offset - KQ_SELF_TEST_BYTES);

        // Every kernel has its part, and each dispatch but the first a barrier before it; the last
        // barrier is the engine's.
        const bool is_packed = f->shown.accelerates_dots;
        const struct {
            const char *kernel;
            unsigned dispatches;
        } parts[] = {
            {"primitive.", 1},
            {"quantize.base", 2},
            {"quantize.aligned", 1},
            {"quantized_dot_terms.base", 5},
            {"quantized_dot_terms.columns", 1},
            {"quantized_dot_terms_shared.base", 3},
            {"quantized_dot_terms_shared.aligned", is_packed ? 0 : 2},
            {"quantized_dot_terms_shared.packed", is_packed ? 2 : 0},
            {"quantized_dot_sequential.", 6},
            {"quantized_dot_pairwise.", 6},
        };
        enum { PARTS = sizeof parts / sizeof *parts };
        unsigned sum = 0;
        for (size_t part = 0; part < PARTS; part++) {
            unsigned dispatches = wrapped_vulkan_dispatches(&e->wrapped, parts[part].kernel);
            assert_int_equal(dispatches, parts[part].dispatches);
            sum += dispatches;
        }
        assert_int_equal(PARTS, 1 + wrapped_vulkan_kernels(0));  // that need no feature
        assert_int_equal(e->wrapped.counts.dispatches, sum);
        assert_int_equal(e->wrapped.counts.barriers, sum);
        destroy_operands(e, &all);
    }
    engine_close(e);
}

// --- On a faulty driver

// One constant of a kernel that the driver takes for another: the `skip`-th of that value, for
// types have constants of their own.
typedef struct fault {
    const char *kernel;
    uint32_t constant, instead;
    unsigned skip;
    const char *step;  // the first that is wrong then
} fault;

static const fault faults[] = {
    {"primitive.base", 0x3FF, 0x1FF, 0, "f16 to f32"},            // the significand
    {"primitive.base", 0x7FC00000, 0xFFC00000, 0, "f16 to f32"},  // the NaN
    {"primitive.base", 1180, 1179, 0, "i32 to f32"},              // 1023 + 127 + 30
    {"primitive.base", 1150, 1151, 0, "f32 multiply"},            // 1023 + 127
    {"primitive.base", 63, 62, 0, "f32 add"},                     // of the rounding
    {"primitive.base", 27, 26, 0, "f32 divide"},                  // bits of the quotient
    {"primitive.base", 150, 149, 0, "f32 to i8"},                 // the shift
    {"primitive.base", 0x3F3F3F3F, 0x3F1F3F3F, 0, "low fields of Q4_K"},
    {"primitive.base", 0x30303030, 0x30303020, 0, "high fields of Q4_K"},
    {"primitive.base", 0x01010101, 0x01010100, 0, "dot of four codes"},
    {"primitive.base", 11, 13, 0, "sum of two i16"},
    {"primitive.base", 12, 14, 0, "key of an extreme"},
    {"quantize.base", 0xC2FE0000, 0xC2FC0000, 0, "quantize"},     // -127
    {"quantize.aligned", 0xC2FE0000, 0xC2FC0000, 0, "quantize"},  // the same
    {"quantized_dot_terms.base", 0x30303030, 0x30303010, 0, "sequential dot"},
    {"quantized_dot_sequential.base", 0x7FFFFF, 0x3FFFFF, 0, "repeat of dots"},  // the significand
    {"quantized_dot_pairwise.base", 0x7FFFFF, 0x3FFFFF, 0, "pairwise dot"},
    {"quantized_dot_terms_shared.base", 0x30303030, 0x30303010, 0, "dots of shared records"},
    {"quantized_dot_terms_shared.aligned", 0x30303030, 0x30303010, 0, "dots of shared records"},
    {"quantized_dot_terms.columns", 0x30303030, 0x30303010, 0, "columns of dots"},
};

static void spoil(void *user, const char *kernel, uint32_t *words, size_t count)
{
    enum { HEADER_WORDS = 5, OP_CONSTANT = 43, VALUE = 3 };
    const fault *fault = user;
    unsigned met = 0;
    if (strcmp(kernel, fault->kernel) != 0) {
        return;
    }
    for (size_t i = HEADER_WORDS; i < count; i += words[i] >> 16) {
        if ((words[i] & 0xFFFF) == OP_CONSTANT && words[i + VALUE] == fault->constant &&
            met++ == fault->skip) {
            words[i + VALUE] = fault->instead;
        }
    }
    assert_true(met > fault->skip);
}

// Packs take the layouts of the engine's, and share a cache: SwiftShader then compiles the changed
// kernel only.
static void test_wrong_kernels(void **state)
{
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operand o = engine_make_operand(e, KQ_SELF_TEST_BYTES);
    operands all = {{o}};
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache = VK_NULL_HANDLE;
    assert_int_equal(e->vk.vkCreatePipelineCache(e->device, &info, NULL, &cache), VK_SUCCESS);
    kq_vulkan_params params = engine_pack_params(e);
    params.share_layouts = e->pack;
    params.pipeline_cache = cache;
    for (size_t i = 0; i <= sizeof faults / sizeof *faults; i++) {
        const bool is_faulty = i < sizeof faults / sizeof *faults;
        fault fault = faults[is_faulty ? i : 0];
        kq_vulkan *pack = NULL;
        e->wrapped.spoil = is_faulty ? spoil : NULL;
        e->wrapped.spoil_user = &fault;
        assert_int_equal(kq_vulkan_create(&params, &pack), KQ_OK);
        run(e, pack, &o, 0, false);
        const char *step = judge_self_test(o.host);
        if (is_faulty && (step == NULL || strcmp(step, fault.step) != 0)) {
            fail_msg("with 0x%X for 0x%X in %s: %s", (unsigned)fault.instead,
                     (unsigned)fault.constant, fault.kernel, step != NULL ? step : "no step");
        }
        assert_true(is_faulty || step == NULL);
        kq_vulkan_destroy(&pack);
    }
    e->vk.vkDestroyPipelineCache(e->device, cache, NULL);
    destroy_operands(e, &all);
    engine_close(e);
}

// Dispatches that the driver loses, all or those of some kernels.
static void test_lost_work(void **state)
{
    static const char *const lost[][2] = {
        {"", "f16 to f32"},
        {"primitive", "f16 to f32"},
        {"quantize.base", "quantize"},
        {"quantize.aligned", "quantize"},
        {"quantized_dot", "sequential dot"},
        {"quantized_dot_terms.base", "sequential dot"},
        {"quantized_dot_sequential", "sequential dot"},
        {"quantized_dot_pairwise", "pairwise dot"},
        {"quantized_dot_terms_shared.base", "dots of shared records"},
        {"quantized_dot_terms_shared.aligned", "dots of shared records"},
        {"quantized_dot_terms.columns", "columns of dots"},
    };
    fixture *f = *state;
    engine *e = &f->engine;
    engine_open(e, f->shown);
    operand o = engine_make_operand(e, KQ_SELF_TEST_BYTES);
    operands all = {{o}};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        e->wrapped.lost_kernels = lost[i][0];
        run(e, e->pack, &o, 0, false);
        const char *step = judge_self_test(o.host);
        assert_non_null(step);
        assert_string_equal(step, lost[i][1]);
        e->wrapped.lost_kernels = NULL;
        run(e, e->pack, &o, 0, false);
        assert_null(judge_self_test(o.host));
    }
    destroy_operands(e, &all);
    engine_close(e);
}

int main(int argc, char **argv)
{
    static fixture plain;
    static fixture least;
    static fixture packed;
    for (int i = 1; i < argc; i++) {
        wrapped_validation asked = wrapped_vulkan_validation(argv[i]);
        plain.shown.validation = asked != WRAPPED_VALIDATION_NONE ? asked : plain.shown.validation;
    }
    if (!engine_is_possible(plain.shown.validation)) {
        return EXIT_SKIP;
    }
    least = plain;
    least.shown.api_version = VK_API_VERSION_1_0;
    least.shown.hides_extensions = true;
    least.shown.offset_alignment = 256;
    packed = plain;
    packed.shown.accelerates_dots = true;
    // The engine's instance is of 1.0, of which the layer would not have the feature.
    const bool has_layer = plain.shown.validation != WRAPPED_VALIDATION_NONE;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_places, &plain),
        {"test_places: packed dots", test_places, NULL, NULL, has_layer ? &plain : &packed},
        {"test_places: the least device", test_places, NULL, NULL, &least},
        cmocka_unit_test_prestate(test_wrong_kernels, &plain),
        cmocka_unit_test_prestate(test_lost_work, &plain),
    };
    int failed = cmocka_run_group_tests_name("vulkan_answers", tests, NULL, NULL);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
