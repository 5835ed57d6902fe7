// What a kernel is told at each dispatch, written once: Vulkan push constants, OpenCL arguments and
// the manifest all come from these lists, in this order. Every field is a 32-bit word. Installed in
// include/kquant/device, for C, GLSL and OpenCL C: it needs no prelude, and a list makes the fields
// of a struct of yours.
//
// An offset is in bytes from the start of the bound range; "at" is an index of words in scratch.
// Strides and steps are bytes and taken as they are, without the defaults of kq_view: packed
// records are 144 or 292 apart, packed blocks 1024 and their values 4, and 0 is the same one each
// time. inner is the repeat's count[0], at least 1, and dots is count[0] * count[1]; CONTRACT.md
// has the rest.
#ifndef KQ_PARAMS_H
#define KQ_PARAMS_H

// clang-format off
#define KQ_QUANTIZE_PARAMS(field)                                                                  \
    field(G)                                                                                       \
    field(values_offset)                                                                           \
    field(values_stride)                                                                           \
    field(value_stride)                                                                            \
    field(records_offset)                                                                          \
    field(records_stride)                                                                          \
    field(status_offset)
// clang-format on

// Dot i of a command is dot (i % inner, i / inner) of the repeat. Terms are written from `to_at`
// on: that of record g lies at to_at + g * dots + i, so dots side by side are words side by side. A
// fold reads `count` values of each dot, laid out like that, from `from_at` on. If `ends` is 1 it
// writes the results, if 0 it leaves what it has at `to_at`, laid out like that again. If `resumes`
// is 1 the sequential fold goes on from the sum that one before it left at `to_at`. quantized_dot
// has no part in scratch: it adds the terms of all G records, in sequential order if `resumes` is 1
// and in pairwise order if 0, and writes the results.
// clang-format off
#define KQ_DOT_PARAMS(field)                                                                       \
    field(G)                                                                                       \
    field(dots)                                                                                    \
    field(inner)                                                                                   \
    field(lhs_offset)                                                                              \
    field(lhs_stride)                                                                              \
    field(lhs_inner_step)                                                                          \
    field(lhs_outer_step)                                                                          \
    field(rhs_offset)                                                                              \
    field(rhs_stride)                                                                              \
    field(rhs_inner_step)                                                                          \
    field(rhs_outer_step)                                                                          \
    field(result_offset)                                                                           \
    field(result_inner_step)                                                                       \
    field(result_outer_step)                                                                       \
    field(count)                                                                                   \
    field(from_at)                                                                                 \
    field(to_at)                                                                                   \
    field(resumes)                                                                                 \
    field(ends)
// clang-format on

// Of items of four words each: a number of primitive.h, its operands a and b, and its result.
// clang-format off
#define KQ_PRIMITIVE_PARAMS(field)                                                                 \
    field(count)                                                                                   \
    field(items_offset)
// clang-format on

// How many workgroups' worth of vectors; copied, or if `copies` is 0 only read.
// clang-format off
#define KQ_BANDWIDTH_PARAMS(field)                                                                 \
    field(count)                                                                                   \
    field(copies)
// clang-format on

// Invocations of a workgroup, 16-value lanes of a block in quantize, and 32-value ones in
// quantize.aligned.
#define KQ_LANES                   64u
#define KQ_LANES_PER_BLOCK         16u
#define KQ_LANES_PER_ALIGNED_BLOCK 8u

// Dots of one row that a lane of quantized_dot_terms.columns takes, or a work item of
// quantized_dot.cpu.
#define KQ_COLUMNS 4u

// What a work item of the kernels for CPUs takes: dots side by side, and records of each.
#define KQ_CPU_LANES   16u
#define KQ_CPU_RECORDS 16u

// Dots that are enough work items without the records of each divided among several.
#define KQ_CPU_DOTS 128u

// 16-byte vectors that a lane of bandwidth takes.
#define KQ_BANDWIDTH_VECTORS 16u

// Terms that a lane of the pairwise fold adds up by itself, and those that a workgroup reduces to
// one value.
#define KQ_PAIRWISE_VALUES 8u
#define KQ_PAIRWISE_CHUNK  512u

// Steps of the sequential fold in one dispatch. A software driver ends every loop after 65,535
// iterations without a word.
#define KQ_SEQUENTIAL_STEPS 32768u

#endif
