// Every argument rule of kquant.h, broken alone at each level that has it: the call gives the code
// and the words and does nothing. And every rule of the table there is broken here, none besides.
//
// Built for level 3 alone, or with level 2 of one API, RULES_BRING_LEVEL.
// Usage: rules_test KQUANT_H [DEVICE]. Exits with 77 where that device isn't there.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned broken, kept;  // cases tried, by what is expected

static void count(const rule_case *c)
{
    broken += c->expected != KQ_OK;
    kept += c->expected == KQ_OK;
}

// --- Level 3

typedef struct own {
    const char *name;
    report report;
    kq_device *all;
    kq_device *some;  // of some operations
    uint32_t some_ops;
    kq_device *other;
    kq_buffer *foreign;
} own;

static kq_device *open_device(own *o, const char *name, uint32_t ops)
{
    kq_device *device = NULL;
    const kq_device_params params = {
        .device = name, .ops = ops, .errors = report_errors(&o->report)};
    if (kq_device_create(&params, &device) != KQ_OK) {
        fail_msg("%s: %s", name, o->report.reason);
    }
    return device;
}

static kq_device *device_of(own *o, uint32_t ops)
{
    if (ops == 0) {
        return o->all;
    }
    if (ops != o->some_ops) {
        kq_device_destroy(&o->some);
        o->some = open_device(o, o->name, ops);
        o->some_ops = ops;
    }
    return o->some;
}

static void check_unchanged(const rule_case *c, kq_buffer *const buffers[])
{
    static unsigned char found[1 << 14];
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        size_t bytes = (size_t)rules_buffer_bytes(c, i);
        if (buffers[i] == NULL) {
            continue;
        }
        assert_int_equal(kq_buffer_download(buffers[i], 0, found, bytes), KQ_OK);
        for (size_t k = 0; k < bytes; k++) {
            if (found[k] != POISON) {
                fail_msg("%s: byte %zu of buffer %d has changed", rules_name(c, "level 3"), k, i);
            }
        }
    }
}

static void try_own(void *user, const rule_case *c)
{
    static unsigned char poison[1 << 14];
    own *o = user;
    if ((c->levels & RULES_OWN) == 0) {
        return;
    }
    kq_device *device = device_of(o, c->ops);
    kq_buffer *buffers[RULES_FOREIGN + 1] = {NULL};
    buffers[RULES_FOREIGN] = o->foreign;
    memset(poison, POISON, sizeof poison);
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        uint64_t bytes = rules_buffer_bytes(c, i);
        assert_true(bytes <= sizeof poison);
        if (bytes > 0) {
            assert_int_equal(kq_buffer_create(device, bytes, &buffers[i]), KQ_OK);
            assert_int_equal(kq_buffer_upload(buffers[i], 0, poison, bytes), KQ_OK);
        }
    }
    const kq_domain preset = {7, 7, KQ_REASON_NONE, 7};
    kq_domain domain = preset;
    const kq_quantize_args quantize = {
        .format = c->format,
        .values = {buffers[c->values.buffer], rules_view(&c->values)},
        .records = {buffers[c->records.buffer], rules_view(&c->records)},
        .domain = &domain,
    };
    const kq_quantized_dot_args dot = {
        .lhs_format = c->lhs_format,
        .rhs_format = c->rhs_format,
        .acc = c->acc,
        .order = c->order,
        .lhs = {buffers[c->lhs.buffer], rules_view(&c->lhs)},
        .rhs = {buffers[c->rhs.buffer], rules_view(&c->rhs)},
        .result = buffers[c->result.buffer],
        .result_offset = c->result.offset,
        .repeat = c->has_repeat ? &c->repeat : NULL,
    };
    bool is_dot = c->op == KQ_OP_QUANTIZED_DOT;
    kq_needs needs;
    memset(&o->report, 0, sizeof o->report);
    kq_result result = is_dot ? kq_quantized_dot_query(device, &dot, &needs)
                              : kq_quantize_query(device, &quantize, &needs);
    rules_check(c, "level 3, query", result, &o->report);
    memset(&o->report, 0, sizeof o->report);
    result = is_dot ? kq_quantized_dot(device, &dot) : kq_quantize(device, &quantize);
    rules_check(c, "level 3", result, &o->report);
    assert_memory_equal(&domain, &preset, sizeof domain);
    if (c->expected != KQ_OK) {
        check_unchanged(c, buffers);
    }
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        kq_buffer_destroy(&buffers[i]);
    }
    count(c);
}

static void test_own(void **state)
{
    own o = {.name = *state};
    broken = kept = 0;
    o.all = open_device(&o, o.name, 0);
    o.other = open_device(&o, "reference", 0);
    assert_int_equal(kq_buffer_create(o.other, 8192, &o.foreign), KQ_OK);
    rules_go_through(try_own, &o);
    kq_buffer_destroy(&o.foreign);
    kq_device_destroy(&o.other);
    kq_device_destroy(&o.some);
    kq_device_destroy(&o.all);
    printf("level 3, %s: %u breaks refused, %u legal changes taken\n", o.name, broken, kept);
}

// --- Level 2

#ifdef RULES_BRING_LEVEL
static void try_bring(void *user, const rule_case *c)
{
    (void)user;
    if ((c->levels & RULES_BRING_LEVEL) != 0) {
        rules_bring_try(c);
        count(c);
    }
}

static void test_bring(void **state)
{
    (void)state;
    broken = kept = 0;
    rules_bring_open();
    rules_go_through(try_bring, NULL);
    rules_bring_close();
    printf("level 2: %u breaks refused, %u legal changes taken\n", broken, kept);
}
#endif

// --- The table

enum { RULE_CAPACITY = 64 };

// Levels at which each rule is in force, or broken.
typedef struct table {
    unsigned levels[RULE_CAPACITY];
} table;

static void note_break(void *user, const rule_case *c)
{
    table *t = user;
    assert_true(c->rule < RULE_CAPACITY);
    t->levels[c->rule] |= c->expected != KQ_OK ? c->levels : 0;
}

// Its rows are comments like "//   R7   3    ...": the rule, and the levels that have it.
static void test_table(void **state)
{
    static table written, tried;
    char line[256];
    unsigned rows = 0;
    FILE *file = fopen(*state, "r");
    if (file == NULL) {
        fail_msg("%s can't be read", (const char *)*state);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned rule = 0;
        char levels[4] = "";
        if (sscanf(line, "//   R%u %3[23,]", &rule, levels) == 2) {
            assert_true(rule < RULE_CAPACITY && written.levels[rule] == 0);
            written.levels[rule] = (strchr(levels, '2') != NULL ? RULES_BRING : 0) |
                                   (strchr(levels, '3') != NULL ? RULES_OWN : 0);
            rows++;
        }
    }
    fclose(file);
    rules_go_through(note_break, &tried);
    for (unsigned rule = 0; rule < RULE_CAPACITY; rule++) {
        if (written.levels[rule] != tried.levels[rule]) {
            fail_msg("R%u is in force at levels %X and broken at %X (1 Vulkan, 2 OpenCL, 4 own)",
                     rule, written.levels[rule], tried.levels[rule]);
        }
    }
    assert_true(rows > 10);
    printf("%u rules\n", rows);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: rules_test KQUANT_H [DEVICE]\n");
        return EXIT_FAILURE;
    }
#ifdef RULES_BRING_LEVEL
    int status = rules_find_driver();
    if (status != EXIT_SUCCESS) {
        return status;
    }
#endif
    struct CMUnitTest tests[4] = {
        {"the table", test_table, NULL, NULL, argv[1]},
        {"level 3, reference", test_own, NULL, NULL, "reference"},
    };
    size_t test_count = 2;
    if (argc > 2) {
        tests[test_count++] = (struct CMUnitTest){argv[2], test_own, NULL, NULL, argv[2]};
    }
#ifdef RULES_BRING_LEVEL
    tests[test_count++] = (struct CMUnitTest){"level 2", test_bring, NULL, NULL, NULL};
#endif
    // Of tests in an array that isn't full.
    int failed = _cmocka_run_group_tests("rules", tests, test_count, NULL, NULL);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
