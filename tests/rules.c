#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "rules.h"

#include <stdio.h>
#include <string.h>

enum { BUFFER_BYTES = 8192 };

#define PAST    UINT64_MAX
#define LONGEST ((uint64_t)INT64_MAX)

const char *rules_name(const rule_case *c, const char *call)
{
    static char name[512];
    snprintf(name, sizeof name, "%s, %s, %s", c->rule, c->change, call);
    return name;
}

void rules_check(const rule_case *c, const char *call, kq_result result, const report *report)
{
    bool is_refused = c->expected != KQ_OK;
    if (result != c->expected || report->count != is_refused ||
        (is_refused && (report->result != result || strstr(report->reason, c->text) == NULL ||
                        strpbrk(report->reason, "\r\n") != NULL))) {
        fail_msg("%s: %s and %u reports, \"%s\"; it should be %s, \"%s\"", rules_name(c, call),
                 kq_result_name(result), report->count, report->reason, kq_result_name(c->expected),
                 c->text);
    }
}

void rules_check_query(const rule_case *c, kq_result result, const report *report,
                       const kq_needs *needs)
{
    rule_case asked = *c;
    asked.expected = c->query_takes ? KQ_OK : c->expected;
    rules_check(&asked, "query", result, report);
    if (result == KQ_OK && (needs->missing_bytes != c->missing_bytes ||
                            (needs->limit != NULL) != (c->expected == KQ_ERROR_UNSUPPORTED))) {
        fail_msg("%s: %u bytes are missing, the limit is %s", rules_name(c, "query"),
                 (unsigned)needs->missing_bytes, needs->limit != NULL ? needs->limit : "none");
    }
}

uint64_t rules_buffer_bytes(const rule_case *c, int buffer)
{
    const rule_operand *all[] = {&c->values, &c->records, &c->status, &c->lhs,
                                 &c->rhs,    &c->result,  &c->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->buffer == buffer) {
            return all[i]->bytes;
        }
    }
    return 0;
}

// Values [0, 3072), records [0, 876), status [0, 16).
static rule_case legal_quantize(void)
{
    return (rule_case){
        .op = KQ_OP_QUANTIZE,
        .format = KQ_FORMAT_Q8_K,
        .values = {1, BUFFER_BYTES, {.G = 3}},
        .records = {2, BUFFER_BYTES, {.G = 3}},
        .status = {3, BUFFER_BYTES, {0}},
    };
}

// Six dots: lhs [0, 1008), rhs [0, 1752), results [0, 24), scratch [0, 120).
static rule_case legal_dot(void)
{
    return (rule_case){
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .lhs = {1, BUFFER_BYTES, {.G = 5}},
        .rhs = {2, BUFFER_BYTES, {.G = 5}},
        .result = {3, BUFFER_BYTES, {0}},
        .scratch = {4, BUFFER_BYTES, {0}},
        .repeat = {{3, 2}, {144, 0}, {0, 292}, {4, 12}},
        .has_repeat = true,
    };
}

// Pairwise order, 4 records of a dot of 13 after its first 8.
static rule_case legal_part(void)
{
    rule_case c = legal_dot();
    c.order = KQ_ORDER_PAIRWISE;
    c.part = (kq_part){8, 13};
    c.has_part = true;
    c.lhs.view.G = c.rhs.view.G = 4;
    return c;
}

// clang-format off
#define TRY(legal, at, name, code, words, ...)                                                     \
 do {                                                                                              \
  rule_case c = legal;                                                                             \
  c.rule = name;                                                                                   \
  c.change = #__VA_ARGS__;                                                                         \
  c.levels = at;                                                                                   \
  c.expected = code;                                                                               \
  c.text = words;                                                                                  \
  __VA_ARGS__;                                                                                     \
  try(user, &c);                                                                                   \
 } while (0)
// clang-format on

// A change that breaks the rule: of quantize, of a dot, of a part of one.
#define QUANTIZE(rule, at, text, ...)                                                              \
 TRY(legal_quantize(), at, rule, KQ_ERROR_ARGUMENT, text, __VA_ARGS__)
#define DOT(rule, at, text, ...) TRY(legal_dot(), at, rule, KQ_ERROR_ARGUMENT, text, __VA_ARGS__)
#define PART(rule, text, ...)                                                                      \
 TRY(legal_part(), RULES_BRING, rule, KQ_ERROR_ARGUMENT, text, __VA_ARGS__)

// A change that goes up to the rule and doesn't break it.
#define QUANTIZE_OK(rule, at, ...) TRY(legal_quantize(), at, rule, KQ_OK, "", __VA_ARGS__)
#define DOT_OK(rule, at, ...)      TRY(legal_dot(), at, rule, KQ_OK, "", __VA_ARGS__)
#define PART_OK(rule, ...)         TRY(legal_part(), RULES_BRING, rule, KQ_OK, "", __VA_ARGS__)

static void go_through_kinds(rule_try *try, void *user)
{
    const unsigned all = RULES_ALL;
    QUANTIZE_OK("R1", all, (void)0);
    QUANTIZE("R1", all, "format is none (0)", c.format = (kq_format)0);
    QUANTIZE("R1", all, "format is Q4_K (1)", c.format = KQ_FORMAT_Q4_K);
    QUANTIZE("R1", all, "format is unknown (3)", c.format = (kq_format)3);
    QUANTIZE("R1", all, "format is unknown (4294967295)", c.format = (kq_format)-1);
    DOT_OK("R1", all, (void)0);
    DOT_OK("R1", all, c.has_repeat = false);
    DOT("R1", all, "lhs_format is none (0)", c.lhs_format = (kq_format)0);
    DOT("R1", all, "lhs_format is Q8_K (2)", c.lhs_format = KQ_FORMAT_Q8_K);
    DOT("R1", all, "lhs_format is unknown (3)", c.lhs_format = (kq_format)3);
    DOT("R1", all, "rhs_format is none (0)", c.rhs_format = (kq_format)0);
    DOT("R1", all, "rhs_format is Q4_K (1)", c.rhs_format = KQ_FORMAT_Q4_K);
    DOT("R1", all, "rhs_format is unknown (77)", c.rhs_format = (kq_format)77);
    DOT("R1", all, "acc is 0", c.acc = (kq_accumulator)0);
    DOT("R1", all, "acc is 2", c.acc = (kq_accumulator)2);
    DOT_OK("R1", all, c.order = KQ_ORDER_PAIRWISE);
    DOT("R1", all, "order is 2", c.order = (kq_order)2);
    DOT("R1", all, "order is 7", c.order = (kq_order)7);

    QUANTIZE("R2", all, "values.G is 3 and records.G is 2", c.records.view.G = 2);
    QUANTIZE("R2", all, "values.G is 3 and records.G is 0", c.records.view.G = 0);
    DOT("R2", all, "lhs.G is 5 and rhs.G is 6", c.rhs.view.G = 6);
    DOT("R2", all, "lhs.G is 0 and rhs.G is 5", c.lhs.view.G = 0);
}

static void go_through_views(rule_try *try, void *user)
{
    const unsigned all = RULES_ALL;
    QUANTIZE("R3", all, "values.stride is -1024", c.values.view.stride = PAST - 1023);
    QUANTIZE("R3", all, "values.stride is -9223372036854775808",
             c.values.view.stride = LONGEST + 1);
    QUANTIZE("R3", all, "values.value_stride is -4", c.values.view.value_stride = PAST - 3);
    QUANTIZE("R3", all, "records.stride is -292", c.records.view.stride = PAST - 291);
    QUANTIZE_OK("R3", all, c.values.view.stride = c.values.view.value_stride = KQ_BROADCAST);
    DOT("R3", all, "lhs.stride is -144", c.lhs.view.stride = PAST - 143);
    DOT("R3", all, "rhs.stride is -2", c.rhs.view.stride = PAST - 1);
    DOT_OK("R3", all, c.lhs.view.stride = c.rhs.view.stride = KQ_BROADCAST);
    DOT("R3", all, "repeat.lhs_step[0] is -144", c.repeat.lhs_step[0] = PAST - 143);
    DOT("R3", all, "repeat.lhs_step[1] is -1", c.repeat.lhs_step[1] = KQ_BROADCAST);
    DOT("R3", all, "repeat.rhs_step[0] is -292", c.repeat.rhs_step[0] = PAST - 291);
    DOT("R3", all, "repeat.rhs_step[1] is -4", c.repeat.rhs_step[1] = PAST - 3);
    DOT("R3", all, "repeat.result_step[0] is -4", c.repeat.result_step[0] = PAST - 3);
    DOT("R3", all, "repeat.result_step[1] is -8", c.repeat.result_step[1] = PAST - 7);
    // Steps that are never taken.
    DOT_OK("R3", all, c.repeat = (kq_repeat){{1, 1}, {LONGEST, 1}, {2, LONGEST}, {LONGEST, 0}});

    QUANTIZE("R4", all, "values.value_stride is 6", c.values.view.value_stride = 6);
    QUANTIZE("R4", all, "values.value_stride is 1", c.values.view.value_stride = 1);
    QUANTIZE_OK("R4", all, c.values.view.value_stride = 12, c.values.view.stride = 4);
    QUANTIZE("R4", all, "records.value_stride is 4", c.records.view.value_stride = 4);
    DOT("R4", all, "lhs.value_stride is 4", c.lhs.view.value_stride = 4);
    DOT("R4", all, "rhs.value_stride is 1", c.rhs.view.value_stride = 1);

    QUANTIZE("R5", all, "records.stride is 291", c.records.view.stride = 291);
    QUANTIZE("R5", all, "records.stride is 1;", c.records.view.stride = 1);
    QUANTIZE("R5", all, "records.stride is 0;", c.records.view.stride = KQ_BROADCAST);
    QUANTIZE("R5", all, "records.stride is 0;", c.records.view.stride = KQ_BROADCAST,
             c.values.view.G = c.records.view.G = 0);
    QUANTIZE_OK("R5", all, c.records.view.stride = 292);
    QUANTIZE_OK("R5", all, c.records.view.stride = 293);
    DOT_OK("R5", all, c.lhs.view.stride = 1, c.rhs.view.stride = 2);
}

static void go_through_buffers(rule_try *try, void *user)
{
    const unsigned all = RULES_ALL;
    QUANTIZE("R6", all, "values is a null buffer; with G = 3", c.values.buffer = RULES_NULL);
    QUANTIZE("R6", all, "records is a null buffer; with G = 3", c.records.buffer = RULES_NULL);
    QUANTIZE("R6", RULES_BRING, "status is a null buffer", c.status.buffer = RULES_NULL);
    QUANTIZE_OK("R6", all, c.values = c.records = c.status = (rule_operand){0});
    DOT("R6", all, "lhs is a null buffer; with G = 5", c.lhs.buffer = RULES_NULL);
    DOT("R6", all, "rhs is a null buffer; with G = 5", c.rhs.buffer = RULES_NULL);
    DOT("R6", all, "result is a null buffer", c.result.buffer = RULES_NULL);
    DOT("R6", all, "result is a null buffer; with G = 0", c.result.buffer = RULES_NULL,
        c.lhs.view.G = c.rhs.view.G = 0);
    DOT("R6", RULES_BRING, "scratch is a null buffer", c.scratch.buffer = RULES_NULL,
        c.query_takes = true);
    DOT_OK("R6", all, c.lhs = c.rhs = c.scratch = (rule_operand){0});
    DOT_OK("R6", all, c.lhs.buffer = c.rhs.buffer = c.result.buffer = c.scratch.buffer = RULES_NULL,
           c.repeat.count[0] = 0);

    QUANTIZE("R7", RULES_OWN, "values is a buffer of another", c.values.buffer = RULES_FOREIGN);
    QUANTIZE("R7", RULES_OWN, "records is a buffer of another", c.records.buffer = RULES_FOREIGN);
    DOT("R7", RULES_OWN, "lhs is a buffer of another", c.lhs.buffer = RULES_FOREIGN);
    DOT("R7", RULES_OWN, "rhs is a buffer of another", c.rhs.buffer = RULES_FOREIGN);
    DOT("R7", RULES_OWN, "result is a buffer of another", c.result.buffer = RULES_FOREIGN);
}

static void go_through_ends(rule_try *try, void *user)
{
    const unsigned all = RULES_ALL;
    QUANTIZE("R8", all, "values ends at byte 8193, past its buffer's end at 8192",
             c.values.view.offset = 5121);
    QUANTIZE("R8", all, "values ends at byte 8194", c.values.view.stride = 3585);
    QUANTIZE("R8", all, "values ends at byte 9192", c.values.view.value_stride = 28);
    QUANTIZE("R8", all, "values ends at byte 3072, past its buffer's end at 3071",
             c.values.bytes = 3071);
    QUANTIZE("R8", all, "records ends at byte 8193", c.records.view.offset = 7317);
    QUANTIZE("R8", all, "records ends at byte 8194", c.records.view.stride = 3951);
    QUANTIZE("R8", all, "records ends at byte 876, past its buffer's end at 875",
             c.records.bytes = 875);
    QUANTIZE("R8", RULES_BRING, "status ends at byte 8196", c.status.view.offset = 8180);
    QUANTIZE_OK("R8", all, c.values.view.offset = 5120, c.records.view.offset = 7316,
                c.status.view.offset = 8176);
    QUANTIZE("R8", all, "values ends at byte 4398046510080",
             c.values.view.G = c.records.view.G = UINT32_MAX);
    QUANTIZE("R8", all, "records ends at byte", c.values.view.G = c.records.view.G = UINT32_MAX,
             c.values.view.stride = KQ_BROADCAST);
    DOT("R8", all, "lhs ends at byte 8193, past its buffer's end at 8192",
        c.lhs.view.offset = 7185);
    DOT("R8", all, "lhs ends at byte 1008, past its buffer's end at 1007", c.lhs.bytes = 1007);
    DOT("R8", all, "lhs ends at byte 8200", c.lhs.view.stride = 1942);
    DOT("R8", all, "lhs ends at byte", c.lhs.view.G = c.rhs.view.G = UINT32_MAX);
    DOT("R8", all, "rhs ends at byte 8193", c.rhs.view.offset = 6441);
    DOT("R8", all, "rhs ends at byte 8193", c.repeat.rhs_step[1] = 6733);
    DOT("R8", all, "result ends at byte 8193", c.result.view.offset = 8169);
    DOT("R8", all, "result ends at byte 24, past its buffer's end at 23", c.result.bytes = 23);
    DOT("R8", all, "result ends at byte 9223372036854775819", c.repeat.result_step[1] = LONGEST);
    DOT("R8", RULES_BRING, "scratch ends at byte 120, past its buffer's end at 116",
        c.scratch.bytes = 116, c.query_takes = true);
    DOT_OK("R8", all, c.lhs.view.offset = 7184, c.rhs.view.offset = 6440,
           c.result.view.offset = 8168, c.scratch.bytes = 120);

    QUANTIZE("R9", all, "values.value_stride is 9223372036854775804; a block reaches past 2^64",
             c.values.view.value_stride = LONGEST - 3);
    QUANTIZE("R9", all, "values reaches past 2^64 bytes, from offset 18446744073709551614",
             c.values.view.offset = PAST - 1);
    QUANTIZE("R9", all, "values reaches past 2^64 bytes", c.values.view.stride = LONGEST);
    QUANTIZE("R9", all, "records reaches past 2^64 bytes", c.records.view.stride = LONGEST);
    QUANTIZE("R8", all, "values ends at byte 18446744073709551615",
             c.values.view.offset = PAST - 3072);
    DOT("R9", all, "lhs reaches past 2^64 bytes", c.lhs.view.offset = PAST - 3);
    DOT("R9", all, "by strides of 9223372036854775807", c.rhs.view.stride = LONGEST);
    DOT("R9", all, "steps of {9223372036854775807, 0}", c.repeat.lhs_step[0] = LONGEST);
    DOT("R9", all, "rhs reaches past 2^64 bytes", c.repeat.rhs_step[1] = LONGEST,
        c.repeat.count[1] = 3, c.repeat.result_step[1] = 12);
    DOT("R9", all, "result reaches past 2^64 bytes", c.result.view.offset = PAST);
    DOT("R9", all, "result reaches past 2^64 bytes",
        c.repeat = (kq_repeat){{UINT32_MAX, UINT32_MAX}, {0}, {0}, {4, UINT64_C(1) << 34}});
    DOT("R9", RULES_BRING, "scratch reaches past 2^64 bytes", c.scratch.view.offset = PAST - 3,
        c.query_takes = true);
}

// From the first to the last byte, in one buffer.
static void go_through_overlaps(rule_try *try, void *user)
{
    const unsigned all = RULES_ALL;
    QUANTIZE("R10", all, "records, bytes [3071, 3947), overlaps values, bytes [0, 3072)",
             c.records.buffer = c.values.buffer, c.records.view.offset = 3071);
    QUANTIZE("R10", all, "records, bytes [0, 876), overlaps values, bytes [875, 3947)",
             c.records.buffer = c.values.buffer, c.values.view.offset = 875);
    QUANTIZE("R10", all, "records, bytes [1100, 5488), overlaps values, bytes [0, 5120)",
             c.records.buffer = c.values.buffer, c.records.view.offset = 1100,
             c.records.view.stride = c.values.view.stride = 2048);
    QUANTIZE("R10", RULES_BRING, "status, bytes [3068, 3084), overlaps values, bytes [0, 3072)",
             c.status.buffer = c.values.buffer, c.status.view.offset = 3068);
    QUANTIZE("R10", RULES_BRING, "status, bytes [872, 888), overlaps records, bytes [0, 876)",
             c.status.buffer = c.records.buffer, c.status.view.offset = 872);
    QUANTIZE_OK("R10", all, c.records.buffer = c.status.buffer = c.values.buffer,
                c.records.view.offset = 3072, c.status.view.offset = 3948);
    DOT("R10", all, "result, bytes [1007, 1031), overlaps lhs, bytes [0, 1008)",
        c.result.buffer = c.lhs.buffer, c.result.view.offset = 1007);
    DOT("R10", all, "result, bytes [99, 123), overlaps rhs, bytes [122, 1874)",
        c.result.buffer = c.rhs.buffer, c.result.view.offset = 99, c.rhs.view.offset = 122);
    DOT("R10", all, "result, bytes [150, 154), overlaps lhs, bytes [0, 944)", c.has_repeat = false,
        c.result.buffer = c.lhs.buffer, c.lhs.view.stride = 200, c.result.view.offset = 150);
    DOT("R10", RULES_BRING, "scratch, bytes [20, 140), overlaps result, bytes [0, 24)",
        c.scratch.buffer = c.result.buffer, c.scratch.view.offset = 20, c.query_takes = true);
    DOT("R10", RULES_BRING, "scratch, bytes [1004, 1124), overlaps lhs, bytes [0, 1008)",
        c.scratch.buffer = c.lhs.buffer, c.scratch.view.offset = 1004, c.query_takes = true);
    DOT("R10", RULES_BRING, "scratch, bytes [0, 120), overlaps rhs, bytes [119, 1871)",
        c.scratch.buffer = c.rhs.buffer, c.rhs.view.offset = 119, c.query_takes = true);
    DOT_OK("R10", all, c.result.buffer = c.scratch.buffer = c.lhs.buffer,
           c.result.view.offset = 1008, c.scratch.view.offset = 1032);
    // Inputs may be the same bytes.
    DOT_OK("R10", all, c.rhs.buffer = c.lhs.buffer);
}

static void go_through_repeats(rule_try *try, void *user)
{
    const unsigned all = RULES_ALL;
    DOT("R11", all, "repeat.result_step[0] is 3; with a count of 3", c.repeat.result_step[0] = 3);
    DOT("R11", all, "repeat.result_step[0] is 0", c.repeat.result_step[0] = 0);
    DOT("R11", all, "repeat.result_step[1] is 0; with a count of 2", c.repeat.result_step[1] = 0);
    DOT_OK("R11", all, c.repeat.count[1] = 1, c.repeat.result_step[1] = 0);
    DOT("R12", all, "repeat.result_step is {4, 11} with counts {3, 2}",
        c.repeat.result_step[1] = 11);
    DOT("R12", all, "repeat.result_step is {7, 4}", c.repeat.result_step[0] = 7,
        c.repeat.result_step[1] = 4);
    DOT("R12", all, "counts {4294967295, 4294967295}",
        c.repeat.count[0] = c.repeat.count[1] = UINT32_MAX);
    DOT("R12", all, "repeat.result_step is {9223372036854775807, 9223372036854775807}",
        c.repeat = (kq_repeat){{UINT32_MAX, UINT32_MAX}, {0}, {0}, {LONGEST, LONGEST}});
    DOT_OK("R12", all, c.repeat.result_step[0] = 8, c.repeat.result_step[1] = 4);
}

// What level 2 alone has: words, padding, limits, parts; and operations that nobody compiled.
static void go_through_devices(rule_try *try, void *user)
{
    const unsigned bring = RULES_BRING;
    QUANTIZE("R13", bring, "status.offset is 2", c.status.view.offset = 2);
    DOT("R13", bring, "scratch.offset is 7", c.scratch.view.offset = 7, c.query_takes = true);
    for (uint32_t missing = 1; missing <= 3; missing++) {
        for (uint32_t at = 1; at <= 4 - missing; at++) {
            char text[80];
#define PADDING(make, operand, end)                                                                \
 snprintf(text, sizeof text, "%s ends inside a 4-byte word; its buffer must be %u bytes longer",   \
          #operand, (unsigned)missing);                                                            \
 make("R14", bring, text, c.operand.view.offset = at, c.operand.bytes = (end) + 4 - missing,       \
      c.missing_bytes = missing, c.query_takes = true)
            PADDING(QUANTIZE, values, 3072);
            PADDING(QUANTIZE, records, 876);
            PADDING(DOT, lhs, 1008);
            PADDING(DOT, rhs, 1752);
            PADDING(DOT, result, 24);
#undef PADDING
        }
    }
    QUANTIZE_OK("R14", bring, c.values.view.offset = 1, c.values.bytes = 3076);
    TRY(legal_dot(), bring, "R15", KQ_ERROR_UNSUPPORTED, "; 4294968320 are needed for scratch",
        c.lhs.view.G = c.rhs.view.G = 1 << 22, c.query_takes = true,
        c.lhs.view.stride = c.rhs.view.stride = KQ_BROADCAST,
        c.repeat = (kq_repeat){{256, 1}, {0}, {0}, {4}});
    QUANTIZE("R16", RULES_ALL, "created with ops = 0x4, without KQ_OP_QUANTIZE",
             c.ops = 1u << KQ_OP_QUANTIZED_DOT, c.query_takes = true);
    DOT_OK("R16", RULES_ALL, c.ops = 1u << KQ_OP_QUANTIZED_DOT);
    QUANTIZE_OK("R16", RULES_ALL, c.ops = 1u << KQ_OP_QUANTIZE);
    DOT("R16", RULES_ALL, "created with ops = 0x2, without KQ_OP_QUANTIZED_DOT",
        c.ops = 1u << KQ_OP_QUANTIZE, c.query_takes = true);

    PART_OK("R17", (void)0);
    PART("R17", "part.total is 13 and G is 0", c.lhs.view.G = c.rhs.view.G = 0);
    PART("R17", "part.first is 8 and G is 4; together they are past part.total, 11",
         c.part.total = 11);
    PART("R17", "part.first is 14", c.part.first = 14);
    PART("R17", "part.first is 4294967292", c.part.first = UINT32_MAX - 3);
    PART_OK("R17", c.part.total = 12);
    PART_OK("R17", c.part.first = 9, c.order = KQ_ORDER_SEQUENTIAL);
    PART_OK("R17", c.part = (kq_part){0, 0}, c.lhs.view.G = c.rhs.view.G = 0);
    PART("R18", "G is 3 of a part", c.lhs.view.G = c.rhs.view.G = 3);
    PART_OK("R18", c.lhs.view.G = c.rhs.view.G = 3, c.part.total = 11);
    PART_OK("R18", c.lhs.view.G = c.rhs.view.G = 3, c.order = KQ_ORDER_SEQUENTIAL);
    PART("R19", "part.first is 6 and G is 4", c.part.first = 6);
    PART("R19", "part.first is 10 and G is 3", c.part.first = 10, c.lhs.view.G = 3,
         c.rhs.view.G = 3);
    PART_OK("R19", c.part.first = 4);
}

void rules_go_through(rule_try *try, void *user)
{
    go_through_kinds(try, user);
    go_through_views(try, user);
    go_through_buffers(try, user);
    go_through_ends(try, user);
    go_through_overlaps(try, user);
    go_through_repeats(try, user);
    go_through_devices(try, user);
}
