// An operation as numbers: the arguments of any API brought to one form, their defaults resolved
// and every argument rule of CONTRACT.md checked. No device's limits are known here.
#ifndef KQ_SHAPE_H
#define KQ_SHAPE_H

#include "errors.h"

#include <stdbool.h>

// The roles of operands are the numbers of their bindings.
enum { KQ_BINDING_COUNT = 4 };
enum { KQ_VALUES = 0, KQ_RECORDS = 1, KQ_STATUS = 2 };
enum { KQ_LHS = 0, KQ_RHS = 1, KQ_RESULT = 2, KQ_SCRATCH = 3 };
enum { KQ_ITEMS = 0 };
enum { KQ_FROM = 0, KQ_TO = 1 };

typedef struct kq_operand {
    uint64_t buffer;  // the API's buffer as a number: 0 is null, else it tells buffers apart
    uint64_t buffer_bytes;
    kq_view view;  // of result, status and scratch only the offset counts
} kq_operand;

typedef struct kq_operation {
    kq_op op;
    kq_format format;                  // of quantize
    kq_format lhs_format, rhs_format;  // and what follows, of a dot
    kq_accumulator acc;
    kq_order order;
    const kq_repeat *repeat;
    const kq_part *part;
    bool is_copy;  // of a bandwidth recording, whose op is KQ_OP_SELF_TEST
    kq_operand operands[KQ_BINDING_COUNT];
} kq_operation;

// Item (g, i, j) is `size` bytes at offset + g * stride + i * step[0] + j * step[1].
typedef struct kq_extent {
    uint64_t offset;
    uint64_t size;
    uint64_t stride;
    uint64_t step[2];
} kq_extent;

typedef struct kq_shape {
    kq_extent extents[KQ_BINDING_COUNT];
    uint64_t value_stride;  // of the values of quantize
    uint32_t G;
    uint32_t count[2];  // {1, 1} for quantize
    kq_part part;       // {0, G} where it is the whole
} kq_shape;

// The argument that a binding is, as users spell it.
const char *kq_role_name(kq_op op, int role);

// What a caller's word of ops may hold.
#define KQ_KNOWN_OPS (1u << KQ_OP_QUANTIZE | 1u << KQ_OP_QUANTIZED_DOT | 1u << KQ_OP_SELF_TEST)

// Whether op is among the ops that a pack was created with.
kq_result kq_check_op(kq_op op, uint32_t ops, const kq_errors *errors);

// The smallest power of two that is at least n; 1 for 0, 0 past 2^31.
uint32_t kq_power_above(uint32_t n);

// Adds a * b to *sum; false if that is past 64 bits.
bool kq_add_product(uint64_t *sum, uint64_t a, uint64_t b);

// Sets *end to the end of an operand's last byte, counted from the start of its buffer; false if
// that is past 64 bits.
bool kq_extent_end(const kq_shape *shape, int role, uint64_t *end);

// KQ_ERROR_ARGUMENT names argument, rule and value. Scratch is not looked at.
kq_result kq_shape_make(const kq_operation *operation, const kq_errors *errors, kq_shape *shape);

// Checks a dot's scratch of that size and adds it to the shape.
kq_result kq_shape_add_scratch(const kq_operation *operation, uint64_t scratch_bytes,
                               const kq_errors *errors, kq_shape *shape);

#endif
