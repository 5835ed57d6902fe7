// kquant: f32 blocks to Q8_K records, and dot products of Q4_K and Q8_K records, with the same bits
// on every Vulkan and OpenCL driver: those that CONTRACT.md, beside this file, defines.
//
// Three levels, each built on the one before:
//   1 data     kq_kernels(): the kernels, for your own pipelines
//   2 bring    <kquant/vulkan.h>, <kquant/opencl.h>: your device, your command buffer or queue
//   3 own      kq_device, below: the library opens a device and owns memory on it
//
// A block is 256 values, a record is their bytes, G is the number of records of one operation.
// All data is little-endian and may start at any byte. The library has no global state, prints
// nothing and never aborts. A params or args struct need only live until the call returns; {0} in
// an optional field is its default, and a pointer must not be null where nothing is said about it.
#ifndef KQ_KQUANT_H
#define KQ_KQUANT_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(KQ_SHARED)
# ifdef KQ_BUILD
#  define KQ_API __declspec(dllexport)
# else
#  define KQ_API __declspec(dllimport)
# endif
#elif defined(__GNUC__) && !defined(_WIN32)
# define KQ_API __attribute__((visibility("default")))
#else
# define KQ_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The version is written here only. MAJOR changes when a declaration or any output bit does.
#define KQ_VERSION_MAJOR 0
#define KQ_VERSION_MINOR 1
#define KQ_VERSION_PATCH 0

// --- Formats (CONTRACT.md, Records)

#define KQ_BLOCK       256u   // values in a block
#define KQ_BLOCK_BYTES 1024u  // the same as f32
#define KQ_Q4_K_BYTES  144u   // f16 d, dmin; 6-bit sc[8], m[8]; 4-bit q[256]
#define KQ_Q8_K_BYTES  292u   // f32 ds; i8 q[256]; i16 bsum[16]

// 0 is no member of either.
typedef enum kq_format { KQ_FORMAT_Q4_K = 1, KQ_FORMAT_Q8_K = 2 } kq_format;
typedef enum kq_accumulator { KQ_ACCUMULATOR_F32 = 1 } kq_accumulator;

// How the terms of a dot are added; the bits depend on it (CONTRACT.md, Numbers).
typedef enum kq_order {
    KQ_ORDER_SEQUENTIAL = 0,  // ((v0 + v1) + v2) + ...
    KQ_ORDER_PAIRWISE = 1,    // neighbours, level by level, folded in parallel
} kq_order;

typedef enum kq_op {
    KQ_OP_QUANTIZE = 1,       // u8 [G,292] = f32 [G,256]
    KQ_OP_QUANTIZED_DOT = 2,  // one f32    = u8 [G,144] . u8 [G,292]
    KQ_OP_SELF_TEST = 3,      // with the other two: known answers
} kq_op;

// --- Results

typedef enum kq_result {
    KQ_OK = 0,
    KQ_ERROR_ARGUMENT,     // a rule written below is broken; nothing was done
    KQ_ERROR_DOMAIN,       // a block holds a value that has no record; all other records are right
    KQ_ERROR_UNSUPPORTED,  // beyond a limit of the device or the library; nothing was done
    KQ_ERROR_NO_DEVICE,    // no loader, no driver, or no device of that name
    KQ_ERROR_MEMORY,       // out of host or device memory
    KQ_ERROR_DRIVER,       // any other failure in the driver; outputs are not to be used
} kq_result;

// "KQ_OK", "KQ_ERROR_ARGUMENT", ...; "KQ_?" for any other number. Never NULL.
KQ_API const char *kq_result_name(kq_result result);

// fn, if not NULL, is called once for each result other than KQ_OK, on the thread of the call that
// then returns it. reason is one line without a newline, valid during the call: the argument, the
// rule and the value, and the VkResult or cl_int where there is one.
typedef struct kq_errors {
    void (*fn)(void *user, kq_result result, const char *reason);
    void *user;
} kq_errors;

// --- Views: where G records (or blocks) lie in a buffer (CONTRACT.md, Views)

// A stride of 0 bytes: the same record, or the same value, each time.
#define KQ_BROADCAST UINT64_MAX

// The bytes of one record are contiguous; record g starts at offset + g * stride.
typedef struct kq_view {
    uint64_t offset;        // bytes from the start of the buffer, any
    uint64_t stride;        // bytes from record to record; 0: packed, the size of a record
    uint64_t value_stride;  // of f32 blocks: bytes from value to value; 0: packed, 4
    uint32_t G;             // records; 0: nothing is read
} kq_view;

// Two nested loops over single dots (CONTRACT.md, Repeats), count[0] the inner one. Dot (i, j)
// takes its operands and puts its result i * step[0] + j * step[1] bytes further on than dot (0,
// 0), with the bits it has alone. A count of 0 does nothing. NULL in place of a repeat is one dot.
typedef struct kq_repeat {
    uint32_t count[2];
    uint64_t lhs_step[2], rhs_step[2];  // 0: every dot takes the same records
    uint64_t result_step[2];
} kq_repeat;

// A dot too long for one command is cut along its records. The views of a command then hold its own
// records only; scratch, order, repeat and result are the same in all commands of a dot, which run
// one after the other from the first record to the last. The last one writes the results, with the
// bits of an uncut dot. NULL in place of a part is the whole dot.
typedef struct kq_part {
    uint32_t first;  // records of the dot before this command's
    uint32_t total;  // records of the dot
} kq_part;

// --- Argument rules, and the levels that have them
//
// What breaks one is refused with KQ_ERROR_ARGUMENT, by query too; but level 2's takes any scratch
// and what R14 to R16 forbid, for it is there to say what is missing.
//   R1   2,3  formats and acc are those named beside them; order is one of kq_order
//   R2   2,3  both views have the same G
//   R3   2,3  no stride or step is negative, 2^63 or more; but a stride may be KQ_BROADCAST
//   R4   2,3  value_stride is a multiple of 4 or KQ_BROADCAST; 0 in all views but of f32 values
//   R5   2,3  the stride of records that are written is at least their size
//   R6   2,3  no buffer is null; but with G = 0 inputs may be, and all of quantize, scratch of 0
//             bytes may be, and with a count of 0 all of a dot
//   R7     3  buffers are of the device that the call is for
//   R8   2,3  an operand ends within its buffer, repeats included
//   R9   2,3  no block and no operand reaches past 2^64 bytes
//   R10  2,3  outputs (status and scratch too) overlap neither inputs nor each other, judged from
//             first to last byte in one buffer
//   R11  2,3  result_step is at least 4 where its count is above 1
//   R12  2,3  of two such, one is at least the span of the other loop, 4 + (count - 1) * step
//   R13  2    the offsets of status and scratch are multiples of 4
//   R14  2    the 4-byte word in which a view or the last result ends lies within its buffer
//   R15  2    the operation is within the device's limits; else it is KQ_ERROR_UNSUPPORTED
//   R16  2,3  the operation is among the ops of the pack or device
//   R17  2    part.first + G is at most part.total, and G at least 1 unless total is 0
//   R18  2    in pairwise order the G of each part but the last is a power of two,
//   R19  2    and part.first is a multiple of G rounded up to a power of two

// --- Domain errors of quantize (CONTRACT.md, Domain errors)

typedef enum kq_reason {
    KQ_REASON_NONE = 0,
    KQ_REASON_NONFINITE_INPUT = 1,   // element is the block's first infinity or NaN
    KQ_REASON_INVERSE_OVERFLOW = 2,  // largest magnitude is below 0x02FE0001, and not 0
} kq_reason;

typedef struct kq_domain {
    uint32_t record;  // the lowest bad one
    uint32_t bad_count;
    kq_reason reason;  // why that one is bad
    uint32_t element;  // 0 to 255, for KQ_REASON_NONFINITE_INPUT
} kq_domain;

// Why one block has no record. values: 256 f32, value_stride bytes apart (0: 4), not aligned.
// *element is set for KQ_REASON_NONFINITE_INPUT; may be NULL.
KQ_API kq_reason kq_block_reason(const void *values, uint64_t value_stride, uint32_t *element);

// What quantize leaves on the device. The caller presets it to KQ_STATUS_PRESET; kernels only lower
// the first word and add to the next two, so it may span several commands.
typedef struct kq_status {
    uint32_t lowest_bad;  // 0xFFFFFFFF: none
    uint32_t bad_count;
    uint32_t done_count;  // records written; short of G, the driver did not do the work
    uint32_t zero;
} kq_status;

// clang-format off
#define KQ_STATUS_PRESET { 0xFFFFFFFFu, 0u, 0u, 0u }
// clang-format on

// --- What an operation needs, answered before any work (the query functions)

typedef struct kq_needs {
    uint64_t scratch_bytes;   // 4 * G * dots and a little more; 0 for quantize
    uint64_t dispatch_count;  // what will be issued
    uint32_t missing_bytes;   // R14: a buffer must be that much longer, 1 to 3; 0: none
    const char *limit;        // NULL: it fits. Else the limit that stops it, as its API spells it,
    uint64_t limit_value;     // the limit's value,
    uint64_t needed;          // and what the operation needs of it
    uint32_t largest_G;       // the largest G within the limits, all else equal
    uint32_t largest_count;   // the largest repeat.count[0], the same
    uint64_t submission_count;  // level 3, which cuts what doesn't fit; and by binding
    uint64_t staged_bytes[3];   // what none reaches, and is copied on the device
} kq_needs;

// --- Data: the kernels themselves

typedef enum kq_api { KQ_API_REFERENCE = 0, KQ_API_VULKAN = 1, KQ_API_OPENCL = 2 } kq_api;

// One SPIR-V module; kernels.json, installed, has its bindings, parameters and dispatch counts.
typedef struct kq_kernel {
    const char *name;  // "quantized_dot_terms.base": <kernel>.<variant>, the name used everywhere
    kq_api api;
    kq_op op;
    uint32_t caps;          // features that must be enabled, as bits; none has a bit yet, so 0
    uint32_t address_bits;  // OpenCL: 32 or 64, of this SPIR-V; Vulkan: 0
    const uint32_t *spirv;  // host-endian words; entry point "main" in Vulkan, <kernel> in OpenCL
    size_t spirv_bytes;
    const char *source;  // OpenCL C 1.2 of the same kernel, includes resolved; NULL in Vulkan
    size_t source_bytes;
} kq_kernel;

// All kernels, static storage, of the APIs this library was built with. *count is set.
KQ_API const kq_kernel *kq_kernels(size_t *count);

// --- Self-test: known answers of every step of the arithmetic and of both operations

#define KQ_SELF_TEST_BYTES 16384u

// What a buffer holds before the self-test is recorded or enqueued on it: KQ_SELF_TEST_BYTES.
KQ_API void kq_self_test_input(void *bytes);

// What that buffer, read back, says of the driver. KQ_ERROR_DRIVER: *step is the first step that is
// wrong, as "f32 multiply", and errors is told an example. Else *step is NULL. Both may be NULL.
KQ_API kq_result kq_self_test_verdict(const void *bytes, const char **step,
                                      const kq_errors *errors);

// --- Own device

// Finds a function that a loader exports, as "vkGetInstanceProcAddr" or "clGetPlatformIDs"; or
// NULL.
typedef void (*kq_proc)(void);
typedef struct kq_lookup {
    kq_proc (*fn)(void *user, const char *name);
    void *user;
} kq_lookup;

typedef struct kq_device_info {
    char id[32];  // "reference", "vulkan:0", "opencl:1": the same as long as drivers are
    kq_api api;
    int is_software;   // 1 for a CPU implementation
    int is_discrete;   // 1 for a GPU with memory of its own
    char name[256];    // the device, as the driver spells it
    char driver[520];  // driver and version, as the driver spells them
    char uuid[36];     // 32 hex digits, or "" where the driver has none
} kq_device_info;

// Fills at most *count entries, if infos is not NULL, and sets *count to the number of devices, the
// reference always first. lookup NULL: the system's loaders; a missing one is no error. Not at the
// same time as itself or kq_device_create.
KQ_API kq_result kq_list_devices(const kq_lookup *lookup, kq_device_info *infos, uint32_t *count);

typedef struct kq_device_params {
    const char *device;  // an id, a uuid, or a part of one device's name, in its case. NULL: the
                         // first discrete GPU, else integrated, else software, Vulkan before
                         // OpenCL; never the reference
    kq_lookup lookup;    // {0}: the system's loaders
    uint32_t ops;        // 1u << KQ_OP_*: the kernels to compile now; 0: all
    uint64_t work;  // the most of one submission, so that no watchdog takes the device away, in
                    // records of dots: a step of the sequential fold counts 2 and a block of
                    // quantize 16. 0: 2^20, half a second at 2 million records/s
    kq_errors errors;
} kq_device_params;

// One thread at a time for each device and its buffers. Null: KQ_ERROR_ARGUMENT, without a report.
typedef struct kq_device kq_device;

// KQ_ERROR_ARGUMENT: the name is a part of several devices' names. KQ_ERROR_NO_DEVICE: of none.
// KQ_ERROR_UNSUPPORTED: an OpenCL device below version 1.2 or its least limits.
KQ_API kq_result kq_device_create(const kq_device_params *params, kq_device **device);

// Its buffers must be destroyed first. *device may be NULL; it is set to NULL.
KQ_API void kq_device_destroy(kq_device **device);

// Valid as long as the device.
KQ_API const kq_device_info *kq_device_get_info(const kq_device *device);

// Memory on a device, of any size from 1 byte, contents undefined. Upload and download copy bytes
// [offset, offset + bytes) and block; a range past the end is KQ_ERROR_ARGUMENT. Nothing is pending
// when buffers are destroyed; *buffer may be NULL and is set to NULL.
typedef struct kq_buffer kq_buffer;

KQ_API kq_result kq_buffer_create(kq_device *device, uint64_t bytes, kq_buffer **buffer);
KQ_API void kq_buffer_destroy(kq_buffer **buffer);
KQ_API kq_result kq_buffer_upload(kq_buffer *buffer, uint64_t offset, const void *data,
                                  uint64_t bytes);
KQ_API kq_result kq_buffer_download(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);

typedef struct kq_buffer_view {
    kq_buffer *buffer;
    kq_view view;
} kq_buffer_view;

typedef struct kq_quantize_args {
    kq_format format;        // KQ_FORMAT_Q8_K
    kq_buffer_view values;   // f32 [G,256]
    kq_buffer_view records;  // u8 [G,292]
    kq_domain *domain;       // optional; set when the result is KQ_ERROR_DOMAIN
} kq_quantize_args;

// Blocks until the records are written. KQ_ERROR_DOMAIN: a bad block's record has ds = 0x7FC00000
// and zeros, all others are right. KQ_ERROR_DRIVER: some records were not written.
KQ_API kq_result kq_quantize(kq_device *device, const kq_quantize_args *args);

typedef struct kq_quantized_dot_args {
    kq_format lhs_format;  // KQ_FORMAT_Q4_K
    kq_format rhs_format;  // KQ_FORMAT_Q8_K
    kq_accumulator acc;    // KQ_ACCUMULATOR_F32
    kq_order order;
    kq_buffer_view lhs;       // u8 [G,144]
    kq_buffer_view rhs;       // u8 [G,292]
    kq_buffer *result;        // one f32 a dot
    uint64_t result_offset;   // bytes, any
    const kq_repeat *repeat;  // NULL: one dot
} kq_quantized_dot_args;

// Blocks until the results are written. With G = 0 they are +0.
KQ_API kq_result kq_quantized_dot(kq_device *device, const kq_quantized_dot_args *args);

// How the device will carry that out: cut into several submissions where it is beyond limits or
// more work than one should take, with the same bits. The reference needs nothing.
KQ_API kq_result kq_quantize_query(const kq_device *device, const kq_quantize_args *args,
                                   kq_needs *needs);
KQ_API kq_result kq_quantized_dot_query(const kq_device *device, const kq_quantized_dot_args *args,
                                        kq_needs *needs);

// The self-test on a buffer of its own, and the verdict. The device has all ops. *step is NULL
// unless one is wrong.
KQ_API kq_result kq_self_test(kq_device *device, const char **step);

// Operations from and to host memory, packed, through buffers of its own. value_count is a multiple
// of 256; records takes value_count / 256 * 292 bytes.
KQ_API kq_result kq_quantize_host(kq_device *device, kq_format format, const float *values,
                                  uint64_t value_count, void *records, kq_domain *domain);

// count dots of the records of lhs, one after the other, each with the records of rhs.
// lhs_bytes = count * G * 144, rhs_bytes = G * 292, results takes count * 4 bytes.
KQ_API kq_result kq_quantized_dot_host(kq_device *device, kq_format lhs_format,
                                       kq_format rhs_format, kq_accumulator acc, kq_order order,
                                       uint32_t count, const void *lhs, uint64_t lhs_bytes,
                                       const void *rhs, uint64_t rhs_bytes, float *results);

#ifdef __cplusplus
}
#endif

#endif
