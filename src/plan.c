#include "plan.h"

#include <inttypes.h>
#include <string.h>

// Vulkan promises 128 bytes of push constants.
_Static_assert(sizeof(kq_dot_params) <= 128 && sizeof(kq_quantize_params) <= sizeof(kq_dot_params),
               "parameters outgrow push constants");
_Static_assert(KQ_LANES *KQ_BANDWIDTH_VECTORS * 16 == KQ_BANDWIDTH_BYTES,
               "KQ_BANDWIDTH_BYTES is what a workgroup takes");

const char *const kq_kernel_names[KQ_KERNEL_COUNT] = {
    [KQ_KERNEL_QUANTIZE] = "quantize.base",
    [KQ_KERNEL_QUANTIZE_ALIGNED] = "quantize.aligned",
    [KQ_KERNEL_QUANTIZE_CPU] = "quantize.cpu",
    [KQ_KERNEL_DOT_CPU] = "quantized_dot.cpu",
    [KQ_KERNEL_DOT_TERMS] = "quantized_dot_terms.base",
    [KQ_KERNEL_DOT_TERMS_COLUMNS] = "quantized_dot_terms.columns",
    [KQ_KERNEL_DOT_TERMS_CPU] = "quantized_dot_terms.cpu",
    [KQ_KERNEL_DOT_TERMS_SHARED] = "quantized_dot_terms_shared.base",
    [KQ_KERNEL_DOT_TERMS_SHARED_ALIGNED] = "quantized_dot_terms_shared.aligned",
    [KQ_KERNEL_DOT_TERMS_SHARED_PACKED] = "quantized_dot_terms_shared.packed",
    [KQ_KERNEL_DOT_SEQUENTIAL] = "quantized_dot_sequential.base",
    [KQ_KERNEL_DOT_PAIRWISE] = "quantized_dot_pairwise.base",
    [KQ_KERNEL_PRIMITIVE] = "primitive.base",
    [KQ_KERNEL_BANDWIDTH] = "bandwidth.base",
};

kq_op kq_kernel_op(unsigned kernel)
{
    bool is_quantize = kernel == KQ_KERNEL_QUANTIZE || kernel == KQ_KERNEL_QUANTIZE_ALIGNED ||
                       kernel == KQ_KERNEL_QUANTIZE_CPU;
    return is_quantize                                                      ? KQ_OP_QUANTIZE
           : kernel == KQ_KERNEL_PRIMITIVE || kernel == KQ_KERNEL_BANDWIDTH ? KQ_OP_SELF_TEST
                                                                            : KQ_OP_QUANTIZED_DOT;
}

bool kq_kernel_is_variant(unsigned kernel)
{
    return strcmp(strchr(kq_kernel_names[kernel], '.'), ".base") != 0;
}

bool kq_kernel_is_for_cpus(unsigned kernel)
{
    return strcmp(strchr(kq_kernel_names[kernel], '.'), ".cpu") == 0;
}

const char *kq_kernel_stem(unsigned kernel, char stem[KQ_STEM_BYTES])
{
    size_t length = strcspn(kq_kernel_names[kernel], ".");
    memcpy(stem, kq_kernel_names[kernel], length);
    stem[length] = '\0';
    return stem;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

static uint64_t dots_of(const kq_shape *shape)
{
    return (uint64_t)shape->count[0] * shape->count[1];
}

// Nothing is written, so nothing is dispatched.
static bool is_empty(kq_op op, const kq_shape *shape)
{
    return dots_of(shape) == 0 || (op == KQ_OP_QUANTIZE && shape->G == 0);
}

// Whether this is all there is of the dots.
static bool is_whole(const kq_part *part, uint32_t G)
{
    return part->total == G;
}

// Whether one dispatch of a kernel for CPUs does all of the dots: its work items are as many as if
// the records of each were divided too, or enough.
static bool is_at_once(const kq_shape *shape, uint32_t variants)
{
    return (variants >> KQ_KERNEL_DOT_CPU & 1) != 0 && shape->G > 0 &&
           is_whole(&shape->part, shape->G) && shape->count[0] >= KQ_CPU_LANES &&
           (shape->G <= KQ_CPU_RECORDS || dots_of(shape) >= KQ_CPU_DOTS);
}

// Sums of each dot that wait in scratch. In sequential order that is one, the running sum. In
// pairwise order they are those of complete subtrees, a larger one before a smaller one, as in the
// binary digits of the number of records so far.
static uint32_t waiting_sums(kq_order order, const kq_part *part, uint32_t G)
{
    if (order == KQ_ORDER_SEQUENTIAL) {
        return is_whole(part, G) && G <= KQ_SEQUENTIAL_STEPS ? 0 : 1;
    }
    uint32_t sums = 0;
    for (uint32_t left = is_whole(part, G) ? 0 : part->total; left > 0; left >>= 1) {
        sums++;
    }
    return sums > 0 ? sums + 1 : 0;
}

// UINT64_MAX where it is past 64 bits.
static uint64_t scratch_bytes(kq_order order, const kq_shape *shape)
{
    uint64_t bytes = 0;
    uint64_t values = shape->G;
    values += waiting_sums(order, &shape->part, shape->G);
    // A first pass of the pairwise fold can't write over the terms it reads.
    if (order == KQ_ORDER_PAIRWISE && shape->G > KQ_PAIRWISE_CHUNK) {
        values += ceil_div(shape->G, KQ_PAIRWISE_CHUNK);
    }
    return kq_add_product(&bytes, values * 4, dots_of(shape)) ? bytes : UINT64_MAX;
}

// The pairwise fold lays dots of few values side by side in a workgroup.
static uint64_t pairwise_groups(uint64_t dots, uint32_t values)
{
    uint32_t lanes = 1;
    while (KQ_PAIRWISE_VALUES * lanes < values && lanes < KQ_LANES) {
        lanes *= 2;
    }
    return ceil_div(dots, KQ_LANES / lanes) * ceil_div(values, KQ_PAIRWISE_CHUNK);
}

// A stride or step that is never taken may be any number, even one past 32 bits.
static uint32_t taken(uint64_t step, uint32_t count)
{
    return count > 1 ? (uint32_t)step : 0;
}

// Whether the terms are those of enough dots with one rhs to go round a workgroup.
static bool shares_rhs(uint64_t dots, uint32_t inner_step, uint32_t outer_step)
{
    return inner_step == 0 && outer_step == 0 && dots >= KQ_LANES / 2;
}

// The workgroups of a base kernel of terms. No variant for GPUs takes more; those for CPUs take at
// most four times as many, which is no matter there: scratch ends long before their count can.
static uint64_t terms_groups(bool shared, uint64_t dots, uint32_t G)
{
    return shared ? ceil_div(dots, KQ_LANES) * G : ceil_div(dots * G, KQ_LANES);
}

// Whether `needed` of a limit is too much; if so that is what stops the operation.
static bool exceeds(kq_needs *needs, const char *limit, uint64_t value, uint64_t needed)
{
    if (needed <= value) {
        return false;
    }
    needs->limit = limit;
    needs->limit_value = value;
    needs->needed = needed;
    return true;
}

// The range to bind for an operand; false if it is too long.
static bool bind_range(const kq_shape *shape, int role, const kq_limits *limits, kq_needs *needs,
                       kq_range *range)
{
    uint64_t offset = shape->extents[role].offset;
    uint64_t end = 0;
    range->offset = offset - offset % limits->offset_alignment;
    // An end past 64 bits, or in their last word, is beyond any limit.
    bool fits = kq_extent_end(shape, role, &end) && end <= UINT64_MAX - 3;
    range->bytes = fits ? end + (4 - end % 4) % 4 - range->offset : UINT64_MAX;
    return !exceeds(needs, limits->range_name, limits->range_bytes, range->bytes);
}

static uint32_t count_ones(uint32_t bits)
{
    uint32_t ones = 0;
    for (; bits != 0; bits &= bits - 1) {
        ones++;
    }
    return ones;
}

// In pairwise order: how often a part's sum is added to one that waits. The last part meets all of
// them, any other those of its own size that this one completes.
static uint32_t count_merges(const kq_part *part, uint32_t G)
{
    if (part->first + G == part->total) {
        return count_ones(part->first);
    }
    uint32_t merges = 0;
    for (uint32_t size = G; (part->first & size) != 0; size <<= 1) {
        merges++;
    }
    return merges;
}

static uint32_t pairwise_passes(uint32_t G)
{
    uint32_t passes = 1;
    for (uint64_t n = G; n > KQ_PAIRWISE_CHUNK; n = ceil_div(n, KQ_PAIRWISE_CHUNK)) {
        passes++;
    }
    return passes;
}

static uint32_t count_dispatches(kq_op op, kq_order order, const kq_shape *shape, uint32_t variants)
{
    if (is_empty(op, shape)) {
        return 0;
    }
    if (op == KQ_OP_QUANTIZE || shape->G == 0 || is_at_once(shape, variants)) {
        return 1;
    }
    if (order == KQ_ORDER_SEQUENTIAL) {
        return 1 + (uint32_t)ceil_div(shape->G, KQ_SEQUENTIAL_STEPS);
    }
    return 1 + pairwise_passes(shape->G) + count_merges(&shape->part, shape->G);
}

// Fills the ranges, scratch_bytes and dispatch_count; false, with the limit in *needs, if the shape
// is too large for the device. How long the buffers are does not matter here.
static bool measure(kq_op op, kq_order order, const kq_shape *shape, const kq_limits *limits,
                    kq_range ranges[KQ_BINDING_COUNT], kq_needs *needs)
{
    memset(ranges, 0, KQ_BINDING_COUNT * sizeof *ranges);
    if (is_empty(op, shape)) {
        return true;
    }
    bool has_inputs = shape->G > 0;
    for (int role = 0; role < 3; role++) {
        if ((has_inputs || role == KQ_RESULT) &&
            !bind_range(shape, role, limits, needs, &ranges[role])) {
            return false;
        }
    }
    uint64_t groups = ceil_div(shape->G, KQ_LANES / KQ_LANES_PER_BLOCK);
    if (op == KQ_OP_QUANTIZED_DOT) {
        // Results are within the range limit, so dots are below 2^30 and no product overflows.
        kq_shape with_scratch = *shape;
        needs->scratch_bytes = scratch_bytes(order, shape);
        with_scratch.extents[KQ_SCRATCH].size = needs->scratch_bytes;
        if (needs->scratch_bytes > 0 &&
            !bind_range(&with_scratch, KQ_SCRATCH, limits, needs, &ranges[KQ_SCRATCH])) {
            return false;
        }
        uint64_t dots = dots_of(shape);
        const uint64_t *step = shape->extents[KQ_RHS].step;
        bool shared =
            shares_rhs(dots, taken(step[0], shape->count[0]), taken(step[1], shape->count[1]));
        uint64_t terms = terms_groups(shared, dots, shape->G);
        // With G = 0 the sequential fold alone writes +0, whatever the order.
        groups = order == KQ_ORDER_PAIRWISE && has_inputs ? pairwise_groups(dots, shape->G)
                                                          : ceil_div(dots, KQ_LANES);
        groups = groups > terms ? groups : terms;
    }
    if (exceeds(needs, limits->groups_name, (uint64_t)limits->groups[0] * limits->groups[1],
                groups)) {
        return false;
    }
    needs->dispatch_count = count_dispatches(op, order, shape, limits->variants);
    return true;
}

// 0 for a binding that is not used.
static uint32_t residue(const kq_plan *plan, const kq_shape *shape, int role)
{
    const kq_range *range = &plan->ranges[role];
    return range->bytes == 0 ? 0 : (uint32_t)(shape->extents[role].offset - range->offset);
}

static void fill_params(kq_plan *plan, const kq_shape *s)
{
    const kq_extent *e = s->extents;
    if (plan->op == KQ_OP_QUANTIZE) {
        plan->quantize = (kq_quantize_params){
            .G = s->G,
            .values_offset = residue(plan, s, KQ_VALUES),
            .values_stride = taken(e[KQ_VALUES].stride, s->G),
            .value_stride = (uint32_t)s->value_stride,
            .records_offset = residue(plan, s, KQ_RECORDS),
            .records_stride = taken(e[KQ_RECORDS].stride, s->G),
            .status_offset = residue(plan, s, KQ_STATUS),
        };
        return;
    }
    plan->dot = (kq_dot_params){
        .G = s->G,
        .dots = s->count[0] * s->count[1],
        .inner = s->count[0],
        .lhs_offset = residue(plan, s, KQ_LHS),
        .lhs_stride = taken(e[KQ_LHS].stride, s->G),
        .lhs_inner_step = taken(e[KQ_LHS].step[0], s->count[0]),
        .lhs_outer_step = taken(e[KQ_LHS].step[1], s->count[1]),
        .rhs_offset = residue(plan, s, KQ_RHS),
        .rhs_stride = taken(e[KQ_RHS].stride, s->G),
        .rhs_inner_step = taken(e[KQ_RHS].step[0], s->count[0]),
        .rhs_outer_step = taken(e[KQ_RHS].step[1], s->count[1]),
        .result_offset = residue(plan, s, KQ_RESULT),
        .result_inner_step = taken(e[KQ_RESULT].step[0], s->count[0]),
        .result_outer_step = taken(e[KQ_RESULT].step[1], s->count[1]),
    };
    plan->part = s->part;
    plan->sums_at = residue(plan, s, KQ_SCRATCH) / 4;
    plan->terms_at = plan->sums_at + waiting_sums(plan->order, &s->part, s->G) * plan->dot.dots;
}

static kq_result make(const kq_operation *operation, bool has_scratch, const kq_limits *limits,
                      const kq_errors *errors, kq_shape *shape, kq_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->op = operation->op;
    plan->order = operation->order;
    plan->max_groups_x = limits->groups[0];
    plan->variants = limits->variants;
    kq_result result = kq_shape_make(operation, errors, shape);
    if (result != KQ_OK) {
        return result;
    }
    // What no scratch would make possible is refused for that, not for its scratch.
    bool fits = measure(plan->op, plan->order, shape, limits, plan->ranges, &plan->needs);
    if (fits && has_scratch && operation->op == KQ_OP_QUANTIZED_DOT) {
        result = kq_shape_add_scratch(operation, plan->needs.scratch_bytes, errors, shape);
        if (result != KQ_OK) {
            return result;
        }
        fits = measure(plan->op, plan->order, shape, limits, plan->ranges, &plan->needs);
    }
    if (!fits) {
        for (int role = 0; role < KQ_BINDING_COUNT; role++) {
            if (plan->ranges[role].bytes > limits->range_bytes) {
                plan->stopped_by = kq_role_name(plan->op, role);
            }
        }
        return KQ_OK;
    }
    for (int role = 0; role < 3; role++) {
        // A view within its buffer whose last word is not: one to three bytes are missing.
        uint64_t end = plan->ranges[role].offset + plan->ranges[role].bytes;
        uint64_t bytes = operation->operands[role].buffer_bytes;
        if (plan->ranges[role].bytes > 0 && end > bytes &&
            end - bytes > plan->needs.missing_bytes) {
            plan->needs.missing_bytes = (uint32_t)(end - bytes);
            plan->stopped_by = kq_role_name(plan->op, role);
        }
    }
    fill_params(plan, shape);
    return KQ_OK;
}

bool kq_plan_fits(kq_op op, kq_order order, const kq_shape *shape, const kq_limits *limits,
                  kq_needs *needs)
{
    kq_range ranges[KQ_BINDING_COUNT];
    memset(needs, 0, sizeof *needs);
    return measure(op, order, shape, limits, ranges, needs);
}

kq_result kq_plan_make(const kq_operation *operation, bool has_scratch, const kq_limits *limits,
                       const kq_errors *errors, kq_plan *plan)
{
    kq_shape shape;
    return make(operation, has_scratch, limits, errors, &shape, plan);
}

void kq_plan_primitives(uint32_t count, uint64_t offset, const kq_limits *limits, kq_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->op = KQ_OP_SELF_TEST;
    plan->max_groups_x = limits->groups[0];
    plan->needs.dispatch_count = 1;
    kq_range *items = &plan->ranges[KQ_ITEMS];
    items->offset = offset - offset % limits->offset_alignment;
    items->bytes = offset - items->offset + 16 * (uint64_t)count;
    plan->primitive.count = count;
    plan->primitive.items_offset = (uint32_t)(offset - items->offset);
}

uint64_t kq_transfer_written(const kq_transfer *transfer)
{
    return transfer->is_copy ? transfer->bytes
                             : transfer->bytes / KQ_BANDWIDTH_BYTES * (4 * KQ_LANES);
}

void kq_plan_bandwidth(const kq_transfer *transfer, const kq_limits *limits, kq_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->op = KQ_OP_SELF_TEST;
    plan->max_groups_x = limits->groups[0];
    plan->needs.dispatch_count = 1;
    plan->ranges[KQ_FROM] = (kq_range){transfer->from_offset, transfer->bytes};
    plan->ranges[KQ_TO] = (kq_range){transfer->to_offset, kq_transfer_written(transfer)};
    plan->bandwidth.count = (uint32_t)(transfer->bytes / KQ_BANDWIDTH_BYTES);
    plan->bandwidth.copies = transfer->is_copy;
}

// The largest value of *field, G or a count of *shape, with which the shape fits the device.
static uint32_t largest(const kq_plan *plan, kq_shape *shape, const kq_limits *limits,
                        uint32_t *field)
{
    const kq_shape was = *shape;
    uint32_t fits = 0;
    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        kq_needs needs;
        *field = fits | bit;
        shape->part.total = is_whole(&was.part, was.G) ? shape->G : was.part.total;
        if (kq_plan_fits(plan->op, plan->order, shape, limits, &needs)) {
            fits |= bit;
        }
    }
    *shape = was;
    return fits;
}

kq_result kq_plan_query(const kq_operation *operation, const kq_limits *limits,
                        const kq_errors *errors, kq_needs *needs)
{
    kq_shape shape;
    kq_plan plan;
    kq_result result = make(operation, false, limits, errors, &shape, &plan);
    memset(needs, 0, sizeof *needs);
    if (result == KQ_OK) {
        *needs = plan.needs;
        needs->largest_G = largest(&plan, &shape, limits, &shape.G);
        needs->largest_count = largest(&plan, &shape, limits, &shape.count[0]);
    }
    return result;
}

kq_result kq_needs_fit(const kq_needs *needs, const kq_errors *errors)
{
    return needs->limit == NULL
               ? KQ_OK
               : kq_fail(errors, KQ_ERROR_UNSUPPORTED, "%s is %" PRIu64 "; %" PRIu64 " are needed",
                         needs->limit, needs->limit_value, needs->needed);
}

kq_result kq_plan_fit(const kq_plan *plan, const kq_errors *errors)
{
    const kq_needs *needs = &plan->needs;
    if (needs->limit != NULL && plan->stopped_by != NULL) {
        return kq_fail(errors, KQ_ERROR_UNSUPPORTED,
                       "%s is %" PRIu64 "; %" PRIu64 " are needed for %s", needs->limit,
                       needs->limit_value, needs->needed, plan->stopped_by);
    }
    if (needs->missing_bytes > 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT,
                       "%s ends inside a 4-byte word; its buffer must be %" PRIu32 " bytes longer",
                       plan->stopped_by, needs->missing_bytes);
    }
    return kq_needs_fit(needs, errors);
}

// The folds of a dot, numbered from 0.

static void sequential_fold(const kq_plan *plan, uint32_t fold, kq_dot_params *p)
{
    uint32_t done = fold * KQ_SEQUENTIAL_STEPS;
    uint32_t left = p->G - done;
    p->count = left < KQ_SEQUENTIAL_STEPS ? left : KQ_SEQUENTIAL_STEPS;
    p->from_at = plan->terms_at + done * p->dots;
    p->to_at = plan->sums_at;
    p->resumes = plan->part.first > 0 || fold > 0;
    p->ends = p->count == left && plan->part.first + p->G == plan->part.total;
}

// A pass over the terms, or over what the pass before it left.
static void pairwise_pass(const kq_plan *plan, uint32_t pass, kq_dot_params *p)
{
    // Passes read and write the place of the terms and the one behind it in turn.
    uint32_t behind_at = plan->terms_at + p->G * p->dots;
    p->count = p->G;
    for (uint32_t i = 0; i < pass; i++) {
        p->count = (uint32_t)ceil_div(p->count, KQ_PAIRWISE_CHUNK);
    }
    p->from_at = pass % 2 == 0 ? plan->terms_at : behind_at;
    p->to_at = pass % 2 == 0 ? behind_at : plan->terms_at;
    if (p->count <= KQ_PAIRWISE_CHUNK) {
        p->ends = is_whole(&plan->part, p->G);
        p->to_at = plan->sums_at + count_ones(plan->part.first) * p->dots;
    }
}

// The last two sums that wait become one.
static void pairwise_merge(const kq_plan *plan, uint32_t merge, kq_dot_params *p)
{
    uint32_t sum = count_ones(plan->part.first) - merge - 1;
    p->count = 2;
    p->from_at = plan->sums_at + sum * p->dots;
    p->to_at = p->from_at;
    p->ends = sum == 0 && plan->part.first + p->G == plan->part.total;
}

static void pairwise_fold(const kq_plan *plan, uint32_t fold, kq_dot_params *p)
{
    uint32_t passes = pairwise_passes(p->G);
    if (fold < passes) {
        pairwise_pass(plan, fold, p);
    } else {
        pairwise_merge(plan, fold - passes, p);
    }
}

// A base kernel is always there.
static bool plan_has(const kq_plan *plan, unsigned kernel)
{
    return !kq_kernel_is_variant(kernel) || (plan->variants >> kernel & 1) != 0;
}

// Whether every record of lhs starts at a multiple of 16 bytes of the range.
static bool has_aligned_lhs(const kq_dot_params *p)
{
    return (p->lhs_offset | p->lhs_stride | p->lhs_inner_step | p->lhs_outer_step) % 16 == 0;
}

static bool has_shared_rhs(const kq_dot_params *p)
{
    return shares_rhs(p->dots, p->rhs_inner_step, p->rhs_outer_step);
}

static bool has_aligned_shared_rhs(const kq_dot_params *p)
{
    return has_shared_rhs(p) && has_aligned_lhs(p);
}

// Whether the inner count goes over lhs alone, in enough rows to go round a workgroup, and the
// outer one over rhs alone.
static bool has_aligned_columns(const kq_dot_params *p)
{
    return p->rhs_inner_step == 0 && p->lhs_outer_step == 0 && p->inner >= KQ_LANES / 2 &&
           has_aligned_lhs(p);
}

static bool always(const kq_dot_params *p)
{
    (void)p;
    return true;
}

static uint64_t shared_terms_groups(const kq_dot_params *p)
{
    return terms_groups(true, p->dots, p->G);
}

static uint64_t own_terms_groups(const kq_dot_params *p)
{
    return terms_groups(false, p->dots, p->G);
}

static uint64_t columns_groups(const kq_dot_params *p)
{
    return ceil_div(p->inner, KQ_LANES) * ceil_div(p->dots / p->inner, KQ_COLUMNS) * p->G;
}

static uint64_t cpu_groups(const kq_dot_params *p)
{
    return ceil_div(p->dots, KQ_CPU_LANES) * ceil_div(p->G, KQ_CPU_RECORDS);
}

static uint64_t at_once_groups(const kq_dot_params *p)
{
    return ceil_div(p->inner, KQ_CPU_LANES) * ceil_div(p->dots / p->inner, KQ_COLUMNS);
}

// The kernels of the terms, of which the first that the pack has and that suits is taken.
static const struct {
    unsigned kernel;
    bool (*suits)(const kq_dot_params *);
    uint64_t (*groups)(const kq_dot_params *);
} terms_kernels[] = {
    {KQ_KERNEL_DOT_TERMS_CPU, always, cpu_groups},
    {KQ_KERNEL_DOT_TERMS_SHARED_PACKED, has_aligned_shared_rhs, shared_terms_groups},
    {KQ_KERNEL_DOT_TERMS_SHARED_ALIGNED, has_aligned_shared_rhs, shared_terms_groups},
    {KQ_KERNEL_DOT_TERMS_SHARED, has_shared_rhs, shared_terms_groups},
    {KQ_KERNEL_DOT_TERMS_COLUMNS, has_aligned_columns, columns_groups},
    {KQ_KERNEL_DOT_TERMS, always, own_terms_groups},
};

// Sets step->kernel to that of the terms; its workgroups.
static uint64_t choose_terms(const kq_plan *plan, kq_step *step)
{
    size_t i = 0;
    while (!plan_has(plan, terms_kernels[i].kernel) || !terms_kernels[i].suits(&plan->dot)) {
        i++;
    }
    step->kernel = terms_kernels[i].kernel;
    return terms_kernels[i].groups(&plan->dot);
}

// Whether the values of each block lie side by side from a multiple of 16 bytes of the range on,
// and every record at one of 4.
static bool has_aligned_blocks(const kq_quantize_params *p)
{
    return (p->values_offset | p->values_stride) % 16 == 0 && p->value_stride == 4 &&
           (p->records_offset | p->records_stride) % 4 == 0;
}

// Sets step->kernel to that of a quantization; its workgroups.
static uint64_t choose_quantize(const kq_plan *plan, kq_step *step)
{
    uint32_t blocks = KQ_LANES / KQ_LANES_PER_BLOCK;
    step->kernel = KQ_KERNEL_QUANTIZE;
    if (plan_has(plan, KQ_KERNEL_QUANTIZE_CPU)) {
        step->kernel = KQ_KERNEL_QUANTIZE_CPU;
        blocks = KQ_CPU_LANES;
    } else if (plan_has(plan, KQ_KERNEL_QUANTIZE_ALIGNED) && has_aligned_blocks(&plan->quantize)) {
        step->kernel = KQ_KERNEL_QUANTIZE_ALIGNED;
        blocks = KQ_LANES / KQ_LANES_PER_ALIGNED_BLOCK;
    }
    return ceil_div(plan->quantize.G, blocks);
}

kq_written kq_plan_written(const kq_plan *plan, uint32_t index)
{
    const kq_step step = kq_plan_step(plan, index);
    kq_dot_params p;
    memcpy(&p, step.params, sizeof p);
    bool is_sequential = step.kernel == KQ_KERNEL_DOT_SEQUENTIAL;
    bool is_fold = is_sequential || step.kernel == KQ_KERNEL_DOT_PAIRWISE;
    if (step.kernel == KQ_KERNEL_DOT_CPU || (is_fold && p.ends != 0)) {
        return (kq_written){KQ_RESULT, plan->ranges[KQ_RESULT].offset + p.result_offset, false};
    }
    // The last term, for what a pass of the fold leaves may go over the first.
    uint64_t word = is_fold ? p.to_at : p.to_at + (uint64_t)p.G * p.dots - 1;
    return (kq_written){
        .role = KQ_SCRATCH,
        .offset = plan->ranges[KQ_SCRATCH].offset + 4 * word,
        .is_read = is_fold && (is_sequential ? p.resumes != 0 : p.to_at == p.from_at),
    };
}

kq_step kq_plan_step(const kq_plan *plan, uint32_t index)
{
    kq_step step = {0};
    uint64_t groups;
    if (plan->op == KQ_OP_QUANTIZE) {
        groups = choose_quantize(plan, &step);
        step.params_bytes = sizeof plan->quantize;
        memcpy(step.params, &plan->quantize, sizeof plan->quantize);
    } else if (plan->op == KQ_OP_SELF_TEST && plan->bandwidth.count > 0) {
        step.kernel = KQ_KERNEL_BANDWIDTH;
        step.params_bytes = sizeof plan->bandwidth;
        memcpy(step.params, &plan->bandwidth, sizeof plan->bandwidth);
        groups = plan->bandwidth.count;
    } else if (plan->op == KQ_OP_SELF_TEST) {
        step.kernel = KQ_KERNEL_PRIMITIVE;
        step.params_bytes = sizeof plan->primitive;
        memcpy(step.params, &plan->primitive, sizeof plan->primitive);
        groups = ceil_div(plan->primitive.count, KQ_LANES);
    } else {
        kq_dot_params p = plan->dot;
        if (p.G > 0 && plan->needs.dispatch_count == 1) {
            step.kernel = KQ_KERNEL_DOT_CPU;
            p.resumes = plan->order == KQ_ORDER_SEQUENTIAL;
            groups = at_once_groups(&p);
        } else if (p.G > 0 && index == 0) {
            groups = choose_terms(plan, &step);
            p.to_at = plan->terms_at;
        } else {
            // With G = 0 the sequential fold alone writes +0, whatever the order.
            bool pairwise = plan->order == KQ_ORDER_PAIRWISE && p.G > 0;
            if (pairwise) {
                step.kernel = KQ_KERNEL_DOT_PAIRWISE;
                pairwise_fold(plan, index - 1, &p);
                groups = pairwise_groups(p.dots, p.count);
            } else {
                step.kernel = KQ_KERNEL_DOT_SEQUENTIAL;
                sequential_fold(plan, p.G > 0 ? index - 1 : 0, &p);
                groups = ceil_div(p.dots, KQ_LANES);
            }
        }
        step.params_bytes = sizeof p;
        memcpy(step.params, &p, sizeof p);
    }
    step.groups[0] = groups < plan->max_groups_x ? (uint32_t)groups : plan->max_groups_x;
    step.groups[1] = (uint32_t)ceil_div(groups, step.groups[0]);
    return step;
}

// Rows of one word a dot that a dispatch writes in scratch; *adds: where there was something.
static uint32_t rows_written(const kq_plan *plan, uint32_t index, kq_dot_params *p, bool *adds)
{
    const kq_step step = kq_plan_step(plan, index);
    memcpy(p, step.params, sizeof *p);
    *adds = false;
    if (step.kernel == KQ_KERNEL_DOT_CPU || p->G == 0 || (index > 0 && p->ends)) {
        return 0;
    }
    if (index == 0) {
        return p->G;
    }
    if (plan->order == KQ_ORDER_SEQUENTIAL) {
        // Several folds hand one sum on.
        *adds = p->resumes != 0;
        return plan->needs.dispatch_count > 2 ? 0 : 1;
    }
    *adds = index > pairwise_passes(p->G);
    return (uint32_t)ceil_div(p->count, KQ_PAIRWISE_CHUNK);
}

uint32_t kq_plan_last_word(const kq_plan *plan, uint32_t index)
{
    kq_dot_params p;
    bool adds;
    uint32_t rows = rows_written(plan, index, &p, &adds);
    return rows > 0 && !adds ? p.to_at + rows * p.dots - 1 : UINT32_MAX;
}

uint32_t kq_plan_last_sum(const kq_plan *plan, uint32_t index)
{
    kq_dot_params p;
    bool adds;
    uint32_t rows = rows_written(plan, index, &p, &adds);
    return rows > 0 && adds ? p.to_at + rows * p.dots - 1 : UINT32_MAX;
}
