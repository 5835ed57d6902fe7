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
    snprintf(name, sizeof name, "R%u, %s, %s", c->rule, c->change, call);
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

kq_view rules_view(const rule_operand *o)
{
    return (kq_view){o->offset, o->stride, o->value_stride, o->G};
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
static const rule_case legal_quantize = {
    .op = KQ_OP_QUANTIZE,
    .format = KQ_FORMAT_Q8_K,
    .values = {1, BUFFER_BYTES, .G = 3},
    .records = {2, BUFFER_BYTES, .G = 3},
    .status = {3, .bytes = BUFFER_BYTES},
};

// Six dots: lhs [0, 1008), rhs [0, 1752), results [0, 24), scratch [0, 120). And of these in
// pairwise order 4 records of 13 after the first 8.
#define LEGAL_DOT                                                                                  \
 .op = KQ_OP_QUANTIZED_DOT, .lhs_format = KQ_FORMAT_Q4_K, .rhs_format = KQ_FORMAT_Q8_K,            \
 .acc = KQ_ACCUMULATOR_F32, .result = {3, .bytes = BUFFER_BYTES},                                  \
 .scratch = {4, .bytes = BUFFER_BYTES}, .repeat = {{3, 2}, {144, 0}, {0, 292}, {4, 12}},           \
 .has_repeat = true
static const rule_case legal_dot = {LEGAL_DOT, .lhs = {1, BUFFER_BYTES, .G = 5},
                                    .rhs = {2, BUFFER_BYTES, .G = 5}};
static const rule_case legal_part = {
    LEGAL_DOT,
    .lhs = {1, BUFFER_BYTES, .G = 4},
    .rhs = {2, BUFFER_BYTES, .G = 4},
    .order = KQ_ORDER_PAIRWISE,
    .part = {8, 13},
    .has_part = true,
};

// clang-format off
#define TRY(legal, at, number, code, words, ...)                                                   \
 do {                                                                                              \
  rule_case c = legal;                                                                             \
  c.rule = number;                                                                                 \
  c.change = #__VA_ARGS__;                                                                         \
  c.levels = at;                                                                                   \
  c.expected = code;                                                                               \
  c.text = words;                                                                                  \
  __VA_ARGS__;                                                                                     \
  try(user, &c);                                                                                   \
 } while (0)

// A change that breaks the rule at all levels, at 2 or at 3. Query takes a dot that 2 alone refuses.
#define QUANTIZE(rule, ...)   TRY(legal_quantize, RULES_ALL, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__)
#define QUANTIZE_2(rule, ...) TRY(legal_quantize, RULES_BRING, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__)
#define QUANTIZE_3(rule, ...) TRY(legal_quantize, RULES_OWN, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__)
#define DOT(rule, ...)        TRY(legal_dot, RULES_ALL, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__)
#define DOT_2(rule, ...)      TRY(legal_dot, RULES_BRING, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__, TAKEN)
#define DOT_3(rule, ...)      TRY(legal_dot, RULES_OWN, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__)
#define PART(rule, ...)       TRY(legal_part, RULES_BRING, rule, KQ_ERROR_ARGUMENT, __VA_ARGS__)
#define TAKEN                 c.query_takes = true

// One that goes up to the rule and doesn't break it.
#define QUANTIZE_OK(rule, ...) TRY(legal_quantize, RULES_ALL, rule, KQ_OK, "", __VA_ARGS__)
#define DOT_OK(rule, ...)      TRY(legal_dot, RULES_ALL, rule, KQ_OK, "", __VA_ARGS__)
#define PART_OK(rule, ...)     TRY(legal_part, RULES_BRING, rule, KQ_OK, "", __VA_ARGS__)
// clang-format on

static void go_through_views(rule_try *try, void *user)
{
    QUANTIZE(1, "format is none (0)", c.format = (kq_format)0);
    QUANTIZE(1, "format is Q4_K (1)", c.format = KQ_FORMAT_Q4_K);
    QUANTIZE(1, "format is unknown (4294967295)", c.format = (kq_format)-1);
    QUANTIZE_OK(1, (void)0);
    DOT_OK(1, (void)0);
    DOT_OK(1, c.has_repeat = false);
    DOT(1, "lhs_format is none (0)", c.lhs_format = (kq_format)0);
    DOT(1, "lhs_format is Q8_K (2)", c.lhs_format = KQ_FORMAT_Q8_K);
    DOT(1, "rhs_format is Q4_K (1)", c.rhs_format = KQ_FORMAT_Q4_K);
    DOT(1, "rhs_format is unknown (77)", c.rhs_format = (kq_format)77);
    DOT(1, "acc is 0", c.acc = (kq_accumulator)0);
    DOT(1, "acc is 2", c.acc = (kq_accumulator)2);
    DOT_OK(1, c.order = KQ_ORDER_PAIRWISE);
    DOT(1, "order is 2", c.order = (kq_order)2);

    QUANTIZE(2, "values.G is 3 and records.G is 2", c.records.G = 2);
    DOT(2, "lhs.G is 5 and rhs.G is 6", c.rhs.G = 6);
    DOT(2, "lhs.G is 0 and rhs.G is 5", c.lhs.G = 0);

    QUANTIZE(3, "values.stride is -1024", c.values.stride = PAST - 1023);
    QUANTIZE(3, "values.stride is -9223372036854775808", c.values.stride = LONGEST + 1);
    QUANTIZE(3, "values.value_stride is -4", c.values.value_stride = PAST - 3);
    QUANTIZE(3, "records.stride is -292", c.records.stride = PAST - 291);
    QUANTIZE_OK(3, c.values.stride = c.values.value_stride = KQ_BROADCAST);
    DOT(3, "lhs.stride is -144", c.lhs.stride = PAST - 143);
    DOT(3, "rhs.stride is -2", c.rhs.stride = PAST - 1);
    DOT_OK(3, c.lhs.stride = c.rhs.stride = KQ_BROADCAST);
    DOT(3, "repeat.lhs_step[0] is -144", c.repeat.lhs_step[0] = PAST - 143);
    DOT(3, "repeat.lhs_step[1] is -1", c.repeat.lhs_step[1] = KQ_BROADCAST);
    DOT(3, "repeat.rhs_step[0] is -292", c.repeat.rhs_step[0] = PAST - 291);
    DOT(3, "repeat.rhs_step[1] is -4", c.repeat.rhs_step[1] = PAST - 3);
    DOT(3, "repeat.result_step[0] is -4", c.repeat.result_step[0] = PAST - 3);
    DOT(3, "repeat.result_step[1] is -8", c.repeat.result_step[1] = PAST - 7);
    // Steps that are never taken.
    DOT_OK(3, c.repeat = (kq_repeat){{1, 1}, {LONGEST, 1}, {2, LONGEST}, {LONGEST, 0}});

    QUANTIZE(4, "values.value_stride is 6", c.values.value_stride = 6);
    QUANTIZE_OK(4, c.values.value_stride = 12, c.values.stride = 4);
    QUANTIZE(4, "records.value_stride is 4", c.records.value_stride = 4);
    DOT(4, "lhs.value_stride is 4", c.lhs.value_stride = 4);
    DOT(4, "rhs.value_stride is 1", c.rhs.value_stride = 1);

    QUANTIZE(5, "records.stride is 291", c.records.stride = 291);
    QUANTIZE(5, "records.stride is 0;", c.records.stride = KQ_BROADCAST);
    QUANTIZE(5, "records.stride is 0;", c.records.stride = KQ_BROADCAST,
             c.values.G = c.records.G = 0);
    QUANTIZE_OK(5, c.records.stride = 292);
    DOT_OK(5, c.lhs.stride = 1, c.rhs.stride = 2);
}

static void go_through_buffers(rule_try *try, void *user)
{
    QUANTIZE(6, "values is a null buffer; with G = 3", c.values.buffer = RULES_NULL);
    QUANTIZE(6, "records is a null buffer; with G = 3", c.records.buffer = RULES_NULL);
    QUANTIZE_2(6, "status is a null buffer", c.status.buffer = RULES_NULL);
    QUANTIZE_OK(6, c.values = c.records = c.status = (rule_operand){.stride = 300});
    QUANTIZE_OK(6, c.values = c.records = (rule_operand){.offset = PAST});
    DOT(6, "lhs is a null buffer; with G = 5", c.lhs.buffer = RULES_NULL);
    DOT(6, "rhs is a null buffer; with G = 5", c.rhs.buffer = RULES_NULL);
    DOT(6, "result is a null buffer", c.result.buffer = RULES_NULL);
    DOT(6, "result is a null buffer; with G = 0", c.result.buffer = RULES_NULL,
        c.lhs.G = c.rhs.G = 0);
    DOT_2(6, "scratch is a null buffer", c.scratch.buffer = RULES_NULL);
    DOT_OK(6, c.lhs = c.rhs = c.scratch = (rule_operand){0});
    for (int k = 0; k < 2; k++) {
        DOT_OK(6, c.lhs.buffer = c.rhs.buffer = c.result.buffer = c.scratch.buffer = RULES_NULL,
               c.repeat.count[k] = 0, c.result.offset = PAST);
    }

    QUANTIZE_3(7, "values is a buffer of another", c.values.buffer = RULES_FOREIGN);
    QUANTIZE_3(7, "records is a buffer of another", c.records.buffer = RULES_FOREIGN);
    DOT_3(7, "lhs is a buffer of another", c.lhs.buffer = RULES_FOREIGN);
    DOT_3(7, "rhs is a buffer of another", c.rhs.buffer = RULES_FOREIGN);
    DOT_3(7, "result is a buffer of another", c.result.buffer = RULES_FOREIGN);

    QUANTIZE(8, "values ends at byte 8193, past its buffer's end at 8192", c.values.offset = 5121);
    QUANTIZE(8, "values ends at byte 8194", c.values.stride = 3585);
    QUANTIZE(8, "values ends at byte 9192", c.values.value_stride = 28);
    QUANTIZE(8, "records ends at byte 8193", c.records.offset = 7317);
    QUANTIZE(8, "records ends at byte 8194", c.records.stride = 3951);
    QUANTIZE(8, "records ends at byte 876, past its buffer's end at 875", c.records.bytes = 875);
    QUANTIZE_2(8, "status ends at byte 8196", c.status.offset = 8180);
    QUANTIZE_OK(8, c.values.offset = 5120, c.records.offset = 7316, c.status.offset = 8176);
    QUANTIZE(8, "values ends at byte 4398046510080", c.values.G = c.records.G = UINT32_MAX);
    QUANTIZE(8, "records ends at byte", c.values.G = c.records.G = UINT32_MAX,
             c.values.stride = KQ_BROADCAST);
    DOT(8, "lhs ends at byte 8193, past its buffer's end at 8192", c.lhs.offset = 7185);
    DOT(8, "lhs ends at byte 1008, past its buffer's end at 1007", c.lhs.bytes = 1007);
    DOT(8, "lhs ends at byte 8200", c.lhs.stride = 1942);
    DOT(8, "lhs ends at byte", c.lhs.G = c.rhs.G = UINT32_MAX);
    DOT(8, "rhs ends at byte 8193", c.rhs.offset = 6441);
    DOT(8, "rhs ends at byte 8193", c.repeat.rhs_step[1] = 6733);
    DOT(8, "result ends at byte 8193", c.result.offset = 8169);
    DOT(8, "result ends at byte 24, past its buffer's end at 23", c.result.bytes = 23);
    DOT(8, "result ends at byte 9223372036854775819", c.repeat.result_step[1] = LONGEST);
    DOT_2(8, "scratch ends at byte 120, past its buffer's end at 116", c.scratch.bytes = 116);
    DOT_OK(8, c.lhs.offset = 7184, c.rhs.offset = 6440, c.result.offset = 8168,
           c.scratch.bytes = 120);

    QUANTIZE(9, "values.value_stride is 9223372036854775804; a block reaches past 2^64",
             c.values.value_stride = LONGEST - 3);
    QUANTIZE(9, "values reaches past 2^64 bytes, from offset 18446744073709551614",
             c.values.offset = PAST - 1);
    QUANTIZE(9, "values reaches past 2^64 bytes", c.values.stride = LONGEST);
    QUANTIZE(9, "records reaches past 2^64 bytes", c.records.stride = LONGEST);
    QUANTIZE(8, "values ends at byte 18446744073709551615", c.values.offset = PAST - 3072);
    DOT(9, "lhs reaches past 2^64 bytes", c.lhs.offset = PAST - 3);
    DOT(9, "by strides of 9223372036854775807", c.rhs.stride = LONGEST);
    DOT(9, "steps of {9223372036854775807, 0}", c.repeat.lhs_step[0] = LONGEST);
    DOT(9, "rhs reaches past 2^64 bytes", c.repeat.rhs_step[1] = LONGEST, c.repeat.count[1] = 3,
        c.repeat.result_step[1] = 12);
    DOT(9, "result reaches past 2^64 bytes", c.result.offset = PAST);
    DOT(9, "result reaches past 2^64 bytes",
        c.repeat = (kq_repeat){{UINT32_MAX, UINT32_MAX}, {0}, {0}, {4, UINT64_C(1) << 34}});
    DOT_2(9, "scratch reaches past 2^64 bytes", c.scratch.offset = PAST - 3);
}

// From the first to the last byte, in one buffer.
static void go_through_overlaps(rule_try *try, void *user)
{
    QUANTIZE(10, "records, bytes [3071, 3947), overlaps values, bytes [0, 3072)",
             c.records.buffer = c.values.buffer, c.records.offset = 3071);
    QUANTIZE(10, "records, bytes [0, 876), overlaps values, bytes [875, 3947)",
             c.records.buffer = c.values.buffer, c.values.offset = 875);
    QUANTIZE(10, "records, bytes [1100, 5488), overlaps values, bytes [0, 5120)",
             c.records.buffer = c.values.buffer, c.records.offset = 1100,
             c.records.stride = c.values.stride = 2048);
    QUANTIZE_2(10, "status, bytes [3068, 3084), overlaps values, bytes [0, 3072)",
               c.status.buffer = c.values.buffer, c.status.offset = 3068);
    QUANTIZE_2(10, "status, bytes [872, 888), overlaps records, bytes [0, 876)",
               c.status.buffer = c.records.buffer, c.status.offset = 872);
    QUANTIZE_OK(10, c.records.buffer = c.status.buffer = c.values.buffer, c.records.offset = 3072,
                c.status.offset = 3948);
    DOT(10, "result, bytes [1007, 1031), overlaps lhs, bytes [0, 1008)",
        c.result.buffer = c.lhs.buffer, c.result.offset = 1007);
    DOT(10, "result, bytes [99, 123), overlaps rhs, bytes [122, 1874)",
        c.result.buffer = c.rhs.buffer, c.result.offset = 99, c.rhs.offset = 122);
    DOT(10, "result, bytes [150, 154), overlaps lhs, bytes [0, 944)", c.has_repeat = false,
        c.result.buffer = c.lhs.buffer, c.lhs.stride = 200, c.result.offset = 150);
    DOT_2(10, "scratch, bytes [20, 140), overlaps result, bytes [0, 24)",
          c.scratch.buffer = c.result.buffer, c.scratch.offset = 20);
    DOT_2(10, "scratch, bytes [1004, 1124), overlaps lhs, bytes [0, 1008)",
          c.scratch.buffer = c.lhs.buffer, c.scratch.offset = 1004);
    DOT_2(10, "scratch, bytes [0, 120), overlaps rhs, bytes [119, 1871)",
          c.scratch.buffer = c.rhs.buffer, c.rhs.offset = 119);
    QUANTIZE_OK(10, c.records.buffer = c.values.buffer, c.values.offset = 876);
    DOT_OK(10, c.result.buffer = c.scratch.buffer = c.lhs.buffer, c.result.offset = 1008,
           c.scratch.offset = 1032);
    // Inputs may be the same bytes.
    DOT_OK(10, c.rhs.buffer = c.lhs.buffer);

    DOT(11, "repeat.result_step[0] is 3; with a count of 3", c.repeat.result_step[0] = 3);
    DOT(11, "repeat.result_step[1] is 0; with a count of 2", c.repeat.result_step[1] = 0);
    DOT_OK(11, c.repeat.count[1] = 1, c.repeat.result_step[1] = 0);
    DOT(12, "repeat.result_step is {4, 11} with counts {3, 2}", c.repeat.result_step[1] = 11);
    DOT(12, "repeat.result_step is {7, 4}", c.repeat.result_step[0] = 7,
        c.repeat.result_step[1] = 4);
    DOT(12, "counts {4294967295, 4294967295}", c.repeat.count[0] = c.repeat.count[1] = UINT32_MAX);
    DOT(12, "repeat.result_step is {9223372036854775807, 9223372036854775807}",
        c.repeat = (kq_repeat){{UINT32_MAX, UINT32_MAX}, {0}, {0}, {LONGEST, LONGEST}});
    DOT_OK(12, c.repeat.result_step[0] = 8, c.repeat.result_step[1] = 4);
}

// What level 2 alone has: words, padding, limits, parts; and operations that nobody compiled.
static void go_through_devices(rule_try *try, void *user)
{
    QUANTIZE_2(13, "status.offset is 2", c.status.offset = 2);
    DOT_2(13, "scratch.offset is 7", c.scratch.offset = 7);
    for (uint32_t at = 1; at <= 3; at++) {
        for (uint32_t missing = 1; missing <= 4 - at; missing++) {
            char words[80];
#define PADDED(make, operand, end)                                                                 \
 snprintf(words, sizeof words, #operand " ends inside a 4-byte word; its buffer must be %u bytes", \
          (unsigned)missing);                                                                      \
 make(14, words, c.operand.offset = at, c.operand.bytes = (end) + 4 - missing, TAKEN,              \
      c.missing_bytes = missing)
            PADDED(QUANTIZE_2, values, 3072);
            PADDED(QUANTIZE_2, records, 876);
            PADDED(DOT_2, lhs, 1008);
            PADDED(DOT_2, rhs, 1752);
            PADDED(DOT_2, result, 24);
        }
    }
    QUANTIZE_OK(14, c.values.offset = 1, c.values.bytes = 3076);
    DOT_2(15, "; 4294968320 are needed for scratch", c.expected = KQ_ERROR_UNSUPPORTED,
          c.lhs.G = c.rhs.G = 1 << 22, c.lhs.stride = c.rhs.stride = KQ_BROADCAST,
          c.repeat = (kq_repeat){{256, 1}, {0}, {0}, {4}});
    QUANTIZE(16, "created with ops = 0x4, without KQ_OP_QUANTIZE",
             c.ops = 1u << KQ_OP_QUANTIZED_DOT, TAKEN);
    DOT_OK(16, c.ops = 1u << KQ_OP_QUANTIZED_DOT);
    QUANTIZE_OK(16, c.ops = 1u << KQ_OP_QUANTIZE);
    DOT(16, "created with ops = 0x2, without KQ_OP_QUANTIZED_DOT", c.ops = 1u << KQ_OP_QUANTIZE,
        TAKEN);

    PART_OK(17, (void)0);
    PART(17, "part.total is 13 and G is 0", c.lhs.G = c.rhs.G = 0);
    PART(17, "part.first is 8 and G is 4; together they are past part.total, 11",
         c.part.total = 11);
    PART(17, "part.first is 4294967292", c.part.first = UINT32_MAX - 3);
    PART_OK(17, c.part.total = 12);
    PART_OK(17, c.part.first = 9, c.order = KQ_ORDER_SEQUENTIAL);
    PART_OK(17, c.part = (kq_part){0, 0}, c.lhs.G = c.rhs.G = 0);
    PART(18, "G is 3 of a part", c.lhs.G = c.rhs.G = 3, c.part.total = 12);
    PART_OK(18, c.lhs.G = c.rhs.G = 3, c.part.total = 11);
    PART_OK(18, c.lhs.G = c.rhs.G = 3, c.order = KQ_ORDER_SEQUENTIAL);
    PART(19, "part.first is 6 and G is 4", c.part.first = 6);
    PART(19, "part.first is 10 and G is 3", c.part.first = 10, c.lhs.G = 3, c.rhs.G = 3);
    PART_OK(19, c.part.first = 4);
}

void rules_go_through(rule_try *try, void *user)
{
    go_through_views(try, user);
    go_through_buffers(try, user);
    go_through_overlaps(try, user);
    go_through_devices(try, user);
}
