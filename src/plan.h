// A shape carried onto a device: the ranges to bind and the dispatches in order, worked out once
// for every API. Level 2 only carries a plan out.
#ifndef KQ_PLAN_H
#define KQ_PLAN_H

#include "params.h"
#include "shape.h"

// What a workgroup of bandwidth takes: KQ_BANDWIDTH_VECTORS a lane.
#define KQ_BANDWIDTH_BYTES 16384u

// A base kernel, on its own, serves all shapes that come to it. A variant behind it does the same
// work for some of them, or on some devices, and a pack may lack it.
enum {
    KQ_KERNEL_QUANTIZE,
    KQ_KERNEL_QUANTIZE_ALIGNED,
    KQ_KERNEL_QUANTIZE_CPU,
    KQ_KERNEL_DOT_CPU,
    KQ_KERNEL_DOT_TERMS,
    KQ_KERNEL_DOT_TERMS_COLUMNS,
    KQ_KERNEL_DOT_TERMS_CPU,
    KQ_KERNEL_DOT_TERMS_SHARED,
    KQ_KERNEL_DOT_TERMS_SHARED_ALIGNED,
    KQ_KERNEL_DOT_TERMS_SHARED_PACKED,
    KQ_KERNEL_DOT_SEQUENTIAL,
    KQ_KERNEL_DOT_PAIRWISE,
    KQ_KERNEL_PRIMITIVE,
    KQ_KERNEL_BANDWIDTH,
    KQ_KERNEL_COUNT,
};

// Kernels that level 2 has no call for, as bits 1u << KQ_KERNEL_*: an engine's pack is without.
#define KQ_LEVEL_3_KERNELS (1u << KQ_KERNEL_BANDWIDTH)

// "quantize.base", "quantized_dot_terms_shared.aligned", ...: as in kq_kernel, unique in an API.
extern const char *const kq_kernel_names[KQ_KERNEL_COUNT];

// The operation that a kernel belongs to, and whether it is a variant.
kq_op kq_kernel_op(unsigned kernel);
bool kq_kernel_is_variant(unsigned kernel);

// Whether a variant is for CPUs, where a workgroup is one work item; all others have KQ_LANES.
bool kq_kernel_is_for_cpus(unsigned kernel);

// The first half of a kernel's name, which is the entry point in OpenCL. Copied to stem, which it
// returns.
enum { KQ_STEM_BYTES = 64 };
const char *kq_kernel_stem(unsigned kernel, char stem[KQ_STEM_BYTES]);

#define KQ_PARAMS_FIELD(name) uint32_t name;
typedef struct kq_quantize_params {
    KQ_QUANTIZE_PARAMS(KQ_PARAMS_FIELD)
} kq_quantize_params;
typedef struct kq_dot_params {
    KQ_DOT_PARAMS(KQ_PARAMS_FIELD)
} kq_dot_params;
typedef struct kq_primitive_params {
    KQ_PRIMITIVE_PARAMS(KQ_PARAMS_FIELD)
} kq_primitive_params;
typedef struct kq_bandwidth_params {
    KQ_BANDWIDTH_PARAMS(KQ_PARAMS_FIELD)
} kq_bandwidth_params;
#undef KQ_PARAMS_FIELD

// What a device can bind and dispatch, with the API's own words for it.
typedef struct kq_limits {
    uint64_t range_bytes;  // of one binding, at most 2^32 - 1, for kernels count bytes in 32 bits
    const char *range_name;
    uint32_t offset_alignment;  // of a binding's start: a power of two, at least 4
    uint32_t groups[2];         // workgroups in x and y
    const char *groups_name;
    uint32_t variants;  // those that may be dispatched, as bits 1u << KQ_KERNEL_*; no limit depends
                        // on them, for none takes more workgroups than its base
} kq_limits;

// A range of a buffer to bind: from an aligned offset to the end of a 4-byte word.
typedef struct kq_range {
    uint64_t offset;
    uint64_t bytes;  // 0: no kernel of the plan uses this binding
} kq_range;

typedef struct kq_plan {
    kq_op op;
    kq_order order;
    kq_range ranges[KQ_BINDING_COUNT];
    kq_needs needs;          // but for largest_G and largest_count
    const char *stopped_by;  // the argument that is beyond a limit or lacks bytes; NULL: none
    kq_quantize_params quantize;
    kq_dot_params dot;  // its last five fields are a step's
    kq_primitive_params primitive;
    kq_bandwidth_params bandwidth;  // count 0: the plan is of primitives
    kq_part part;
    uint32_t sums_at;  // where sums wait, in scratch; the terms are behind them
    uint32_t terms_at;
    uint32_t max_groups_x;
    uint32_t variants;  // of the limits
} kq_plan;

// KQ_ERROR_ARGUMENT if a rule is broken. A plan that does not fit the device is no error here:
// plan->needs says what stops it. Scratch is left out where it is yet to be provided.
kq_result kq_plan_make(const kq_operation *operation, bool has_scratch, const kq_limits *limits,
                       const kq_errors *errors, kq_plan *plan);

// Items of four words, from a multiple of 4 bytes on, in binding KQ_ITEMS: see primitive.comp. They
// must be within the limits.
void kq_plan_primitives(uint32_t count, uint64_t offset, const kq_limits *limits, kq_plan *plan);

// What the bandwidth kernel does: copies bytes, or reads them and writes a word a lane.
typedef struct kq_transfer {
    uint64_t from_offset, to_offset;  // multiples of the limits' alignment and of 16
    uint64_t bytes;                   // a multiple of KQ_BANDWIDTH_BYTES, within the limits
    bool is_copy;
} kq_transfer;
void kq_plan_bandwidth(const kq_transfer *transfer, const kq_limits *limits, kq_plan *plan);

// The bytes that it writes.
uint64_t kq_transfer_written(const kq_transfer *transfer);

// The answer to a query: everything of kq_needs, whether it fits or not.
kq_result kq_plan_query(const kq_operation *operation, const kq_limits *limits,
                        const kq_errors *errors, kq_needs *needs);

// Whether the device can carry out a shape, of operands that lie where it says. If not, *needs has
// the limit.
bool kq_plan_fits(kq_op op, kq_order order, const kq_shape *shape, const kq_limits *limits,
                  kq_needs *needs);

// KQ_OK if that can be carried out; else KQ_ERROR_UNSUPPORTED with limit, value and need.
kq_result kq_needs_fit(const kq_needs *needs, const kq_errors *errors);

// The same of a plan, with the argument; KQ_ERROR_ARGUMENT where only padding is missing.
kq_result kq_plan_fit(const kq_plan *plan, const kq_errors *errors);

// A word that dispatch `index` of a dot writes: of result or scratch, its first byte counted from
// the start of the buffer. is_read: the dispatch reads it before; else what it holds before is of
// no use.
typedef struct kq_written {
    int role;
    uint64_t offset;
    bool is_read;
} kq_written;
kq_written kq_plan_written(const kq_plan *plan, uint32_t index);

typedef struct kq_step {
    unsigned kernel;
    uint32_t groups[2];
    uint32_t params_bytes;
    uint32_t params[sizeof(kq_dot_params) / sizeof(uint32_t)];  // the kernel's, in order
} kq_step;

// Dispatch `index` of plan->needs.dispatch_count. Each reads what the one before it wrote.
kq_step kq_plan_step(const kq_plan *plan, uint32_t index);

// The last word of scratch that dispatch `index` of a dot writes, counted from the start of its
// range: one that held nothing, and that no later dispatch of the plan writes. UINT32_MAX: there is
// none, for it writes the results, or adds to a sum where that is, or is one of several that do.
uint32_t kq_plan_last_word(const kq_plan *plan, uint32_t index);

// That of a dispatch which adds to sums where they are.
uint32_t kq_plan_last_sum(const kq_plan *plan, uint32_t index);

#endif
