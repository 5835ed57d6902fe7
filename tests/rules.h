// The argument rules of CONTRACT.md, each broken alone, told in no API's words; and the levels at
// which that is tried.
#ifndef KQ_TEST_RULES_H
#define KQ_TEST_RULES_H

#include "support.h"

// Levels, as bits.
enum { RULES_VULKAN = 1, RULES_OPENCL = 2, RULES_BRING = 3, RULES_OWN = 4, RULES_ALL = 7 };

// Buffers by number. Where operands name the same one they give the same bytes.
enum { RULES_NULL = 0, RULES_BUFFER_COUNT = 4, RULES_FOREIGN = 5 };

typedef struct rule_operand {
    int buffer;
    uint64_t bytes;  // of the buffer
    uint64_t offset;
    uint64_t stride, value_stride;  // these are no use to result, status and scratch
    uint32_t G;
} rule_operand;

// A legal operation after one change.
typedef struct rule_case {
    unsigned rule;       // 7 for R7
    const char *change;  // as it is written, for messages
    unsigned levels;
    kq_op op;
    kq_format format;
    rule_operand values, records, status;
    kq_format lhs_format, rhs_format;
    kq_accumulator acc;
    kq_order order;
    rule_operand lhs, rhs, result, scratch;
    kq_repeat repeat;
    kq_part part;
    bool has_repeat, has_part;
    uint32_t ops;            // of the pack or device
    kq_result expected;      // KQ_OK: the change breaks nothing
    const char *text;        // that the reason holds
    bool query_takes;        // level 2's query gives KQ_OK all the same,
    uint32_t missing_bytes;  // and says this
} rule_case;

typedef void rule_try(void *user, const rule_case *c);

// All cases, one after the other.
void rules_go_through(rule_try *try, void *user);

// "R7, c.lhs.view.G = 6, the query"; valid until the next call.
const char *rules_name(const rule_case *c, const char *call);

// What a call gave, and its one report, are what the case expects.
void rules_check(const rule_case *c, const char *call, kq_result result, const report *report);

// The same of level 2's query, which takes what only work refuses and says what is missing.
void rules_check_query(const rule_case *c, kq_result result, const report *report,
                       const kq_needs *needs);

kq_view rules_view(const rule_operand *o);

// The size of a buffer; 0 where no operand lies in it.
uint64_t rules_buffer_bytes(const rule_case *c, int buffer);

// Level 2 of one API, RULES_BRING_LEVEL. Find gives what the test is to exit with.
int rules_find_driver(void);
void rules_bring_open(void);
void rules_bring_close(void);
void rules_bring_try(const rule_case *c);

#endif
