#include "shape.h"

#include <inttypes.h>
#include <string.h>

bool kq_add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    if ((b != 0 && a > UINT64_MAX / b) || a * b > UINT64_MAX - *sum) {
        return false;
    }
    *sum += a * b;
    return true;
}

uint32_t kq_power_above(uint32_t n)
{
    uint32_t power = 1;
    while (power != 0 && power < n) {
        power *= 2;
    }
    return power;
}

static uint64_t steps(uint32_t count)
{
    return count > 1 ? count - 1 : 0;
}

bool kq_extent_end(const kq_shape *shape, int role, uint64_t *end)
{
    const kq_extent *e = &shape->extents[role];
    *end = e->offset;
    return kq_add_product(end, e->size, 1) && kq_add_product(end, steps(shape->G), e->stride) &&
           kq_add_product(end, steps(shape->count[0]), e->step[0]) &&
           kq_add_product(end, steps(shape->count[1]), e->step[1]);
}

const char *kq_role_name(kq_op op, int role)
{
    static const char *const quantize[] = {"values", "records", "status"};
    static const char *const dot[] = {"lhs", "rhs", "result", "scratch"};
    return op == KQ_OP_QUANTIZE ? quantize[role] : dot[role];
}

kq_result kq_check_op(kq_op op, uint32_t ops, const kq_errors *errors)
{
    if (ops == 0 || (ops & 1u << op) != 0) {
        return KQ_OK;
    }
    return kq_fail(errors, KQ_ERROR_ARGUMENT,
                   "the pack was created with ops = 0x%" PRIX32 ", without KQ_OP_%s", ops,
                   op == KQ_OP_QUANTIZE        ? "QUANTIZE"
                   : op == KQ_OP_QUANTIZED_DOT ? "QUANTIZED_DOT"
                                               : "SELF_TEST");
}

// One operation under check.
typedef struct checker {
    const kq_operation *operation;
    const kq_errors *errors;
    kq_shape *shape;
} checker;

static const char *role_name(const checker *c, int role)
{
    return kq_role_name(c->operation->op, role);
}

static bool is_values(const checker *c, int role)
{
    return c->operation->op == KQ_OP_QUANTIZE && role == KQ_VALUES;
}

static kq_result check_format(const checker *c, const char *argument, kq_format format,
                              kq_format wanted)
{
    static const char *const names[] = {"none", "Q4_K", "Q8_K"};
    if (format == wanted) {
        return KQ_OK;
    }
    unsigned value = (unsigned)format;
    const char *name = value < sizeof names / sizeof *names ? names[value] : "unknown";
    const char *rule = c->operation->op == KQ_OP_QUANTIZE
                           ? "quantize makes Q8_K records only"
                           : "quantized_dot takes lhs_format Q4_K and rhs_format Q8_K only";
    return kq_fail(c->errors, KQ_ERROR_ARGUMENT, "%s is %s (%u); %s", argument, name, value, rule);
}

static kq_result check_same_G(const checker *c, int first, int second)
{
    uint32_t a = c->operation->operands[first].view.G;
    uint32_t b = c->operation->operands[second].view.G;
    if (a == b) {
        return KQ_OK;
    }
    return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                   "%s.G is %" PRIu32 " and %s.G is %" PRIu32 "; they must be equal",
                   role_name(c, first), a, role_name(c, second), b);
}

// A stride or step beyond INT64_MAX is a negative number in disguise.
static kq_result check_not_negative(const checker *c, int role, const char *field, uint64_t value)
{
    if (value <= INT64_MAX) {
        return KQ_OK;
    }
    return kq_fail(c->errors, KQ_ERROR_ARGUMENT, "%s.%s is -%" PRIu64 "; it can't be negative",
                   role_name(c, role), field, UINT64_MAX - value + 1);
}

// The value stride of f32 values, and with it the bytes from a block's first to its last.
static kq_result resolve_value_stride(const checker *c, uint64_t *size)
{
    uint64_t stride = c->operation->operands[KQ_VALUES].view.value_stride;
    stride = stride == 0 ? 4 : stride == KQ_BROADCAST ? 0 : stride;
    kq_result result = check_not_negative(c, KQ_VALUES, "value_stride", stride);
    if (result != KQ_OK) {
        return result;
    }
    if (stride % 4 != 0) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "values.value_stride is %" PRIu64 "; it must be a multiple of 4", stride);
    }
    *size = 4;
    if (!kq_add_product(size, KQ_BLOCK - 1, stride)) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "values.value_stride is %" PRIu64 "; a block reaches past 2^64 bytes",
                       stride);
    }
    c->shape->value_stride = stride;
    return KQ_OK;
}

// The view of an operand whose packed records have `bytes` bytes.
static kq_result resolve_view(const checker *c, int role, uint64_t bytes, bool is_output)
{
    const kq_view *view = &c->operation->operands[role].view;
    kq_extent *e = &c->shape->extents[role];
    kq_result result = KQ_OK;
    e->offset = view->offset;
    e->size = bytes;
    if (is_values(c, role)) {
        result = resolve_value_stride(c, &e->size);
    } else if (view->value_stride != 0) {
        result = kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                         "%s.value_stride is %" PRIu64 "; only f32 values have one",
                         role_name(c, role), view->value_stride);
    }
    if (result == KQ_OK && view->stride != KQ_BROADCAST) {
        e->stride = view->stride == 0 ? bytes : view->stride;
        result = check_not_negative(c, role, "stride", e->stride);
    }
    if (result == KQ_OK && is_output && e->stride < bytes) {
        result = kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                         "%s.stride is %" PRIu64 "; an output's must be at least %" PRIu64
                         ", the size of its record",
                         role_name(c, role), e->stride, bytes);
    }
    return result;
}

// An operand that is used lies in a buffer, and within it.
static kq_result check_bounds(const checker *c, int role)
{
    const kq_operand *operand = &c->operation->operands[role];
    const char *name = role_name(c, role);
    if (operand->buffer == 0) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "%s is a null buffer; with G = %" PRIu32 " it is needed", name, c->shape->G);
    }
    uint64_t end;
    if (!kq_extent_end(c->shape, role, &end)) {
        const kq_extent *e = &c->shape->extents[role];
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "%s reaches past 2^64 bytes, from offset %" PRIu64 " by strides of %" PRIu64
                       " and steps of {%" PRIu64 ", %" PRIu64 "}",
                       name, operand->view.offset, e->stride, e->step[0], e->step[1]);
    }
    if (end > operand->buffer_bytes) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "%s ends at byte %" PRIu64 ", past its buffer's end at %" PRIu64, name, end,
                       operand->buffer_bytes);
    }
    return KQ_OK;
}

static kq_result check_word_offset(const checker *c, int role)
{
    uint64_t offset = c->operation->operands[role].view.offset;
    if (offset % 4 == 0) {
        return KQ_OK;
    }
    return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                   "%s.offset is %" PRIu64 "; it must be a multiple of 4", role_name(c, role),
                   offset);
}

// An output and another operand of one buffer, both within it, judged from first to last byte.
static kq_result check_apart(const checker *c, int output, int other)
{
    const kq_operand *a = &c->operation->operands[output];
    const kq_operand *b = &c->operation->operands[other];
    uint64_t a_end;
    uint64_t b_end;
    if (a->buffer != b->buffer || !kq_extent_end(c->shape, output, &a_end) ||
        !kq_extent_end(c->shape, other, &b_end) || a->view.offset >= b_end ||
        b->view.offset >= a_end) {
        return KQ_OK;
    }
    return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                   "%s, bytes [%" PRIu64 ", %" PRIu64 "), overlaps %s, bytes [%" PRIu64 ", %" PRIu64
                   ") of one buffer",
                   role_name(c, output), a->view.offset, a_end, role_name(c, other), b->view.offset,
                   b_end);
}

static kq_result make_quantize(const checker *c)
{
    kq_shape *s = c->shape;
    kq_result r = check_format(c, "format", c->operation->format, KQ_FORMAT_Q8_K);
    r = r != KQ_OK ? r : check_same_G(c, KQ_VALUES, KQ_RECORDS);
    s->G = c->operation->operands[KQ_VALUES].view.G;
    s->count[0] = 1;
    s->count[1] = 1;
    s->extents[KQ_STATUS].offset = c->operation->operands[KQ_STATUS].view.offset;
    s->extents[KQ_STATUS].size = sizeof(kq_status);
    r = r != KQ_OK ? r : resolve_view(c, KQ_VALUES, KQ_BLOCK_BYTES, false);
    r = r != KQ_OK ? r : resolve_view(c, KQ_RECORDS, KQ_Q8_K_BYTES, true);
    r = r != KQ_OK ? r : check_word_offset(c, KQ_STATUS);
    if (s->G > 0) {
        r = r != KQ_OK ? r : check_bounds(c, KQ_VALUES);
        r = r != KQ_OK ? r : check_bounds(c, KQ_RECORDS);
        r = r != KQ_OK ? r : check_bounds(c, KQ_STATUS);
        r = r != KQ_OK ? r : check_apart(c, KQ_RECORDS, KQ_VALUES);
        r = r != KQ_OK ? r : check_apart(c, KQ_STATUS, KQ_VALUES);
        r = r != KQ_OK ? r : check_apart(c, KQ_STATUS, KQ_RECORDS);
    }
    return r;
}

static kq_result resolve_repeat(const checker *c)
{
    static const char *const roles[3] = {"lhs", "rhs", "result"};
    const kq_repeat *repeat = c->operation->repeat;
    kq_shape *s = c->shape;
    s->count[0] = 1;
    s->count[1] = 1;
    if (repeat == NULL) {
        return KQ_OK;
    }
    kq_result r = KQ_OK;
    for (int k = 0; k < 2; k++) {
        s->count[k] = repeat->count[k];
        s->extents[KQ_LHS].step[k] = repeat->lhs_step[k];
        s->extents[KQ_RHS].step[k] = repeat->rhs_step[k];
        s->extents[KQ_RESULT].step[k] = repeat->result_step[k];
        for (int role = KQ_LHS; role <= KQ_RESULT; role++) {
            uint64_t step = s->extents[role].step[k];
            if (r == KQ_OK && step > INT64_MAX) {
                r = kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                            "repeat.%s_step[%d] is -%" PRIu64 "; it can't be negative", roles[role],
                            k, UINT64_MAX - step + 1);
            }
        }
        if (r == KQ_OK && s->count[k] > 1 && repeat->result_step[k] < 4) {
            r = kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                        "repeat.result_step[%d] is %" PRIu64 "; with a count of %" PRIu32
                        " it must be at least 4",
                        k, repeat->result_step[k], s->count[k]);
        }
    }
    if (r == KQ_OK && s->count[0] > 1 && s->count[1] > 1) {
        // The bytes from the first to the last result of each loop alone.
        uint64_t span[2] = {4, 4};
        bool fits[2];
        for (int k = 0; k < 2; k++) {
            fits[k] = kq_add_product(&span[k], s->count[k] - 1, repeat->result_step[k]);
        }
        if (!(fits[0] && repeat->result_step[1] >= span[0]) &&
            !(fits[1] && repeat->result_step[0] >= span[1])) {
            r = kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                        "repeat.result_step is {%" PRIu64 ", %" PRIu64 "} with counts {%" PRIu32
                        ", %" PRIu32 "}; results overlap, for neither step spans all the other's",
                        repeat->result_step[0], repeat->result_step[1], s->count[0], s->count[1]);
        }
    }
    return r;
}

// A command's records are a part of the dot that its order can go on with.
static kq_result resolve_part(const checker *c)
{
    kq_shape *s = c->shape;
    const kq_part *part = c->operation->part;
    s->part = (kq_part){0, s->G};
    if (part == NULL) {
        return KQ_OK;
    }
    s->part = *part;
    if (s->G == 0 && part->total > 0) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "part.total is %" PRIu32 " and G is 0; a part has at least one record",
                       part->total);
    }
    if (part->first > part->total || s->G > part->total - part->first) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "part.first is %" PRIu32 " and G is %" PRIu32
                       "; together they are past part.total, %" PRIu32,
                       part->first, s->G, part->total);
    }
    if (c->operation->order == KQ_ORDER_SEQUENTIAL || s->G == 0) {
        return KQ_OK;
    }
    uint32_t power = kq_power_above(s->G);
    if (power != s->G && s->G < part->total - part->first) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "G is %" PRIu32 " of a part; in pairwise order every part but the last has "
                       "a power of two",
                       s->G);
    }
    if (part->first != 0 && (power == 0 || part->first % power != 0)) {
        return kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                       "part.first is %" PRIu32 " and G is %" PRIu32
                       "; in pairwise order first is a multiple of G rounded up to a power of two",
                       part->first, s->G);
    }
    return KQ_OK;
}

static kq_result make_dot(const checker *c)
{
    const kq_operation *o = c->operation;
    kq_shape *s = c->shape;
    kq_result r = check_format(c, "lhs_format", o->lhs_format, KQ_FORMAT_Q4_K);
    r = r != KQ_OK ? r : check_format(c, "rhs_format", o->rhs_format, KQ_FORMAT_Q8_K);
    if (r == KQ_OK && o->acc != KQ_ACCUMULATOR_F32) {
        r = kq_fail(c->errors, KQ_ERROR_ARGUMENT, "acc is %u; the only accumulator is f32 (%u)",
                    (unsigned)o->acc, (unsigned)KQ_ACCUMULATOR_F32);
    }
    if (r == KQ_OK && o->order != KQ_ORDER_SEQUENTIAL && o->order != KQ_ORDER_PAIRWISE) {
        r = kq_fail(c->errors, KQ_ERROR_ARGUMENT,
                    "order is %u; it must be sequential (%u) or pairwise (%u)", (unsigned)o->order,
                    (unsigned)KQ_ORDER_SEQUENTIAL, (unsigned)KQ_ORDER_PAIRWISE);
    }
    r = r != KQ_OK ? r : check_same_G(c, KQ_LHS, KQ_RHS);
    r = r != KQ_OK ? r : resolve_repeat(c);
    s->G = o->operands[KQ_LHS].view.G;
    r = r != KQ_OK ? r : resolve_part(c);
    r = r != KQ_OK ? r : resolve_view(c, KQ_LHS, KQ_Q4_K_BYTES, false);
    r = r != KQ_OK ? r : resolve_view(c, KQ_RHS, KQ_Q8_K_BYTES, false);
    s->extents[KQ_RESULT].offset = o->operands[KQ_RESULT].view.offset;
    s->extents[KQ_RESULT].size = 4;
    // There is one result a dot, so only steps and no stride apply to it.
    if (r != KQ_OK || s->count[0] == 0 || s->count[1] == 0) {
        return r;
    }
    r = check_bounds(c, KQ_RESULT);
    if (s->G > 0) {
        r = r != KQ_OK ? r : check_bounds(c, KQ_LHS);
        r = r != KQ_OK ? r : check_bounds(c, KQ_RHS);
        r = r != KQ_OK ? r : check_apart(c, KQ_RESULT, KQ_LHS);
        r = r != KQ_OK ? r : check_apart(c, KQ_RESULT, KQ_RHS);
    }
    return r;
}

kq_result kq_shape_make(const kq_operation *operation, const kq_errors *errors, kq_shape *shape)
{
    const checker c = {operation, errors, shape};
    memset(shape, 0, sizeof *shape);
    return operation->op == KQ_OP_QUANTIZE ? make_quantize(&c) : make_dot(&c);
}

kq_result kq_shape_add_scratch(const kq_operation *operation, uint64_t scratch_bytes,
                               const kq_errors *errors, kq_shape *shape)
{
    const checker c = {operation, errors, shape};
    shape->extents[KQ_SCRATCH].offset = operation->operands[KQ_SCRATCH].view.offset;
    shape->extents[KQ_SCRATCH].size = scratch_bytes;
    if (scratch_bytes == 0) {
        return KQ_OK;
    }
    kq_result r = check_word_offset(&c, KQ_SCRATCH);
    r = r != KQ_OK ? r : check_bounds(&c, KQ_SCRATCH);
    r = r != KQ_OK ? r : check_apart(&c, KQ_SCRATCH, KQ_LHS);
    r = r != KQ_OK ? r : check_apart(&c, KQ_SCRATCH, KQ_RHS);
    return r != KQ_OK ? r : check_apart(&c, KQ_SCRATCH, KQ_RESULT);
}
