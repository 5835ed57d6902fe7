// Every argument rule of CONTRACT.md, broken alone at each level that has it: the call gives the
// code and the words and does nothing. And every rule of the table there is broken here, none
// besides.
//
// Built for level 3 alone, or with that level 2 which RULES_BRING_LEVEL is.
// Usage: rules_test CONTRACT_MD [DEVICE], a device for a level 2. Exits with 77 where it has no
// driver.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 1 << 14, RULE_CAPACITY = 64 };

static report heard;
static unsigned broken, kept;  // cases tried, by what is expected

static void print_count(const char *level)
{
    printf("%s: %u breaks refused, %u legal changes taken\n", level, broken, kept);
    broken = kept = 0;
}

// --- Level 3

typedef struct own {
    kq_device *devices[3];  // by ops: of all, then of one alone
    kq_buffer *foreign;
} own;

static kq_device *open_device(const char *name, uint32_t ops)
{
    kq_device *device = NULL;
    const kq_device_params params = {.device = name, .ops = ops, .errors = report_errors(&heard)};
    if (kq_device_create(&params, &device) != KQ_OK) {
        fail_msg("%s: %s", name, heard.reason);
    }
    return device;
}

static void try_own(void *user, const rule_case *c)
{
    static unsigned char bytes[CAPACITY];
    own *o = user;
    if ((c->levels & RULES_OWN) == 0) {
        return;
    }
    kq_device *device = o->devices[c->ops / 2];
    kq_buffer *buffers[RULES_FOREIGN + 1] = {[RULES_FOREIGN] = o->foreign};
    memset(bytes, POISON, sizeof bytes);
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        uint64_t size = rules_buffer_bytes(c, i);
        if (size > 0) {
            assert_int_equal(kq_buffer_create(device, size, &buffers[i]), KQ_OK);
            assert_int_equal(kq_buffer_upload(buffers[i], 0, bytes, size), KQ_OK);
        }
    }
    kq_domain domain = {0};
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
    memset(&heard, 0, sizeof heard);
    rules_check(c, "level 3, query",
                is_dot ? kq_quantized_dot_query(device, &dot, &needs)
                       : kq_quantize_query(device, &quantize, &needs),
                &heard);
    memset(&heard, 0, sizeof heard);
    rules_check(c, "level 3",
                is_dot ? kq_quantized_dot(device, &dot) : kq_quantize(device, &quantize), &heard);
    assert_int_equal(domain.bad_count, 0);
    for (int i = 1; i <= RULES_BUFFER_COUNT; i++) {
        uint64_t size = rules_buffer_bytes(c, i);
        if (size > 0 && c->expected != KQ_OK) {
            assert_int_equal(kq_buffer_download(buffers[i], 0, bytes, size), KQ_OK);
            for (uint64_t k = 0; k < size; k++) {
                assert_int_equal(bytes[k], POISON);
            }
        }
        kq_buffer_destroy(&buffers[i]);
    }
    *(c->expected != KQ_OK ? &broken : &kept) += 1;
}

static void test_own(void **state)
{
    own o;
    for (uint32_t i = 0; i < 3; i++) {
        o.devices[i] = open_device(*state, 2 * i);
    }
    kq_device *other = open_device("reference", 0);
    assert_int_equal(kq_buffer_create(other, 8192, &o.foreign), KQ_OK);
    rules_go_through(try_own, &o);
    kq_buffer_destroy(&o.foreign);
    kq_device_destroy(&other);
    for (int i = 0; i < 3; i++) {
        kq_device_destroy(&o.devices[i]);
    }
    print_count(*state);
}

// --- Level 2

#ifdef RULES_BRING_LEVEL
static void try_bring(void *user, const rule_case *c)
{
    (void)user;
    if ((c->levels & RULES_BRING_LEVEL) != 0) {
        rules_bring_try(c);
        *(c->expected != KQ_OK ? &broken : &kept) += 1;
    }
}

static void test_bring(void **state)
{
    (void)state;
    rules_bring_open();
    rules_go_through(try_bring, NULL);
    rules_bring_close();
    print_count("level 2");
}
#endif

// --- The table

static void note_break(void *user, const rule_case *c)
{
    unsigned *levels = user;
    assert_true(c->rule < RULE_CAPACITY);
    levels[c->rule] |= c->expected != KQ_OK ? c->levels : 0;
}

// Its rows are like "| R7 | 3 | ...": the rule, and the levels that have it.
static void test_table(void **state)
{
    unsigned written[RULE_CAPACITY] = {0};
    unsigned tried[RULE_CAPACITY] = {0};
    unsigned rows = 0;
    char line[256];
    FILE *file = fopen(*state, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned rule = 0;
        char levels[4] = "";
        if (sscanf(line, "| R%u | %3[23,] |", &rule, levels) == 2) {
            assert_true(rule < RULE_CAPACITY && written[rule] == 0);
            written[rule] = (strchr(levels, '2') != NULL ? RULES_BRING : 0) |
                            (strchr(levels, '3') != NULL ? RULES_OWN : 0);
            rows++;
        }
    }
    fclose(file);
    rules_go_through(note_break, tried);
    for (unsigned rule = 0; rule < RULE_CAPACITY; rule++) {
        if (written[rule] != tried[rule]) {
            fail_msg("R%u is written of levels %X and broken at %X (1 Vulkan, 2 OpenCL, 4 own)",
                     rule, written[rule], tried[rule]);
        }
    }
    assert_true(rows > 10);
    printf("%u rules\n", rows);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"the table", test_table, NULL, NULL, argc > 1 ? argv[1] : NULL},
        {"level 3, reference", test_own, NULL, NULL, "reference"},
#ifdef RULES_BRING_LEVEL
        {"level 3, device", test_own, NULL, NULL, argc > 2 ? argv[2] : NULL},
        {"level 2", test_bring, NULL, NULL, NULL},
#endif
    };
#ifdef RULES_BRING_LEVEL
    int status = rules_find_driver();
    if (status != EXIT_SUCCESS) {
        return status;
    }
#endif
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL) == 0 ? EXIT_SUCCESS
                                                                        : EXIT_FAILURE;
}
