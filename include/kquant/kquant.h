// kquant: f32 blocks to Q8_K records, and dot products of Q4_K and Q8_K records, with the same bits on every Vulkan and
// OpenCL driver: those that CONTRACT.md, beside this file, defines. Three levels, each built on the one before:
//   1 data     kq_kernels(): the kernels, for your own pipelines
//   2 bring    <kquant/vulkan.h>, <kquant/opencl.h>: your device, your command buffer or queue
//   3 own      kq_device, below: the library opens a device and owns memory on it
//
// A block is 256 values, a record is their bytes, G is the number of records of one operation. All data is
// little-endian and may start at any byte. The library has no global state, prints nothing, never aborts. Unless a
// comment says otherwise, pointers and handles are not null, {0} in an optional field is its default, structs given to
// a call need only live until it returns, any number of threads may call at once. What create and record make is yours,
// or NULL if they fail; destroy leaves NULL. "Errors" are all that a call can return.
#ifndef KQ_KQUANT_H
#define KQ_KQUANT_H
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && !defined(KQ_API)
# define KQ_API extern "C"
#elif !defined(KQ_API)  // the library's own build exports with it
# define KQ_API extern
#endif

#define KQ_VERSION_MAJOR 0  // changes when a declaration or any output bit does
#define KQ_VERSION_MINOR 1
#define KQ_VERSION_PATCH 0

// --- Formats (CONTRACT.md, Records); 0 is none
#define KQ_BLOCK       256u   // values in a block
#define KQ_BLOCK_BYTES 1024u  // the same as f32
#define KQ_Q4_K_BYTES  144u   // f16 d, dmin; 6-bit sc[8], m[8]; 4-bit q[256]
#define KQ_Q8_K_BYTES  292u   // f32 ds; i8 q[256]; i16 bsum[16]
typedef enum kq_format { KQ_FORMAT_Q4_K = 1, KQ_FORMAT_Q8_K = 2 } kq_format;
typedef enum kq_accumulator { KQ_ACCUMULATOR_F32 = 1 } kq_accumulator;

// How the terms of a dot are added; the bits depend on it (CONTRACT.md, Orders): ((v0 + v1) + v2) + ..., or
typedef enum kq_order { KQ_ORDER_SEQUENTIAL = 0, KQ_ORDER_PAIRWISE = 1 } kq_order;  // neighbours by levels, in parallel

// `ops` in params: the kernels to compile, as bits 1u << KQ_OP_*; 0: all. KQ_OP_SELF_TEST has known answers of every
// step; with KQ_OP_QUANTIZE and KQ_OP_QUANTIZED_DOT it makes the self-test.
typedef enum kq_op { KQ_OP_QUANTIZE = 1, KQ_OP_QUANTIZED_DOT = 2, KQ_OP_SELF_TEST = 3 } kq_op;

typedef enum kq_result {
    KQ_OK = 0,
    KQ_ERROR_ARGUMENT,     // a rule of CONTRACT.md, Argument rules, or of a comment is broken; nothing was done
    KQ_ERROR_DOMAIN,       // a block holds a value that has no record; all other records are right
    KQ_ERROR_UNSUPPORTED,  // beyond a limit of the device or the library
    KQ_ERROR_NO_DEVICE,    // no loader, no driver, or no device of that name
    KQ_ERROR_MEMORY,       // out of host or device memory; outputs are not to be used
    KQ_ERROR_DRIVER,       // any other failure in the driver; outputs are not to be used
} kq_result;
KQ_API const char *kq_result_name(kq_result result);  // "KQ_OK", "KQ_ERROR_ARGUMENT", ...; "KQ_?" for any other number

// fn, if not NULL, is called once for each result other than KQ_OK, on the thread of the call that then returns it.
// reason is one line without a newline, valid during the call: the argument, the rule and the value, and the VkResult
// or cl_int where there is one. A null device, buffer or pack is KQ_ERROR_ARGUMENT, and nobody is told.
typedef struct kq_errors {
    void (*fn)(void *user, kq_result result, const char *reason);
    void *user;
} kq_errors;

// --- Where G records, or blocks, lie in a buffer (CONTRACT.md, Views): each is contiguous, at offset + g * stride
#define KQ_BROADCAST UINT64_MAX  // a stride of 0 bytes: the same record, or the same value, each time
typedef struct kq_view {
    uint64_t offset;        // bytes from the start of the buffer, any
    uint64_t stride;        // bytes from record to record; 0: packed, the size of a record
    uint64_t value_stride;  // of f32 blocks: bytes from value to value; 0: packed, 4
    uint32_t G;  // records, in (G - 1) * stride + 144, 292 or 255 * value_stride + 4 bytes; 0: nothing is read
} kq_view;

// Two nested loops over dots, count[0] the inner one (CONTRACT.md, Repeats); NULL: one dot. Dot (i, j) has the bits it
// has alone, its operands and result i * step[0] + j * step[1] bytes past (0, 0)'s. {n, 1} is one loop, 0 does nothing.
typedef struct kq_repeat {
    uint32_t count[2];
    uint64_t lhs_step[2], rhs_step[2], result_step[2];  // 0 for lhs or rhs: every dot takes the same records
} kq_repeat;

// The views hold a part of the records of a dot too long for one command; NULL: all of them (CONTRACT.md, Parts).
typedef struct kq_part {
    uint32_t first, total;  // records of the dot: before this part, and in all
} kq_part;
// The answer of a query, before any work; KQ_OK also where the operation doesn't fit.
typedef struct kq_needs {
    uint64_t scratch_bytes;             // 4 * G * dots and a little more; 0 for quantize
    uint64_t dispatch_count;            // what will be issued
    uint32_t missing_bytes;             // R14: a buffer must be that much longer, 1 to 3; 0: none
    const char *limit;                  // NULL: it fits. Else the limit that stops it, as its API spells it,
    uint64_t limit_value, needed;       // the limit's value, and what the operation needs of it
    uint32_t largest_G, largest_count;  // the largest G, and repeat.count[0], within the limits, all else equal
    uint64_t submission_count;          // level 3, which cuts what doesn't fit; and by binding
    uint64_t staged_bytes[3];           // what none reaches, and is copied on the device
} kq_needs;
// --- Blocks without a record: a value is infinite or NaN, or the largest is too small (CONTRACT.md, Domain errors)
typedef enum kq_reason { KQ_REASON_NONE = 0, KQ_REASON_NONFINITE_INPUT = 1, KQ_REASON_INVERSE_OVERFLOW = 2 } kq_reason;
typedef struct kq_domain {
    uint32_t record, bad_count;  // the lowest bad one, and how many are bad
    kq_reason reason;            // why that one is
    uint32_t element;            // of KQ_REASON_NONFINITE_INPUT: its first infinity or NaN, 0 to 255
} kq_domain;
// The reason of one block: 256 f32, value_stride bytes apart (0: 4), at any address. *element, as above; may be NULL.
KQ_API kq_reason kq_block_reason(const void *values, uint64_t value_stride, uint32_t *element);
// What quantize leaves, 16 bytes. You preset it; commands only lower the first word and add to the next two.
typedef struct kq_status {
    uint32_t lowest_bad, bad_count;  // the lowest bad record, 0xFFFFFFFF: none; and how many are bad
    uint32_t done_count, zero;       // records written; short of G, the driver did not do the work
} kq_status;
// clang-format off
#define KQ_STATUS_PRESET { 0xFFFFFFFFu, 0u, 0u, 0u }
// clang-format on

// --- Level 1: the kernels. kernels.json, installed, has their bindings, parameters and dispatch counts.
typedef enum kq_api { KQ_API_REFERENCE = 0, KQ_API_VULKAN = 1, KQ_API_OPENCL = 2 } kq_api;
typedef enum kq_cap { KQ_CAP_PACKED_DOT = 1 } kq_cap;  // Vulkan's shaderIntegerDotProduct
typedef struct kq_kernel {
    const char *name;  // "quantized_dot_terms.base": <kernel>.<variant>, the name used everywhere
    kq_api api;
    kq_op op;
    uint32_t caps;          // features that must be enabled, as bits: kq_cap
    uint32_t address_bits;  // OpenCL: 32 or 64, of this SPIR-V; Vulkan: 0
    const uint32_t *spirv;  // one module, host-endian words; entry point "main" in Vulkan, <kernel> in OpenCL; NULL in
    size_t spirv_bytes;     // <kernel>.cpu, which is for OpenCL CPUs, from source
    const char *source;     // OpenCL C 1.2 of the same kernel, includes resolved; NULL in Vulkan
    size_t source_bytes;
} kq_kernel;
KQ_API const kq_kernel *kq_kernels(size_t *count);  // *count is set; static, of the APIs this library has
// --- Self-test: every step and both operations, held to known answers. At level 2 write the input to your memory,
// record or enqueue, read it back, ask for the verdict. KQ_OK: the driver can be trusted. KQ_ERROR_DRIVER: *step is the
// first wrong one, as "f32 multiply"; errors is told question, answer and right answer. step and errors may be NULL.
#define KQ_SELF_TEST_BYTES 20480u  // of `bytes`, and of level 2's range
KQ_API void kq_self_test_input(void *bytes);
KQ_API kq_result kq_self_test_verdict(const void *bytes, const char **step, const kq_errors *errors);

// --- Level 3: own device
// A lookup finds a function that a loader exports, "vkGetInstanceProcAddr" or "clGetPlatformIDs"; or NULL.
typedef void (*kq_proc)(void);
typedef struct kq_lookup {
    kq_proc (*fn)(void *user, const char *name);
    void *user;
} kq_lookup;

// A place of yours for what OpenCL compilers made. Keys make file names, below 64 bytes. Damage is noticed: a miss.
typedef struct kq_cache {
    size_t (*load)(void *user, const char *key, void *data, size_t capacity);  // bytes stored, copied if they fit; or 0
    void (*store)(void *user, const char *key, const void *data, size_t bytes);
    void *user;
} kq_cache;
typedef struct kq_device_info {
    char id[32];  // "reference", "vulkan:0", "opencl:1": the same as long as drivers are
    kq_api api;
    int is_software, is_discrete;  // 1 for a CPU implementation; 1 for a GPU with memory of its own
    char name[256], driver[520];   // the device, and driver and version, as the driver spells them
    char uuid[36];                 // 32 hex digits, or "" where the driver has none
} kq_device_info;

// Fills at most *count infos, if not NULL, and sets *count to all there are, the reference first. lookup NULL: the
// system's loaders; a missing one is no error. Not at once with itself or kq_device_create. Errors: MEMORY, DRIVER.
KQ_API kq_result kq_list_devices(const kq_lookup *lookup, kq_device_info *infos, uint32_t *count);

typedef struct kq_device_params {
    const char *device;  // an id, a uuid, or a part of one device's name, in its case. NULL: the first discrete GPU,
                         // else integrated, else software, Vulkan before OpenCL; never the reference
    kq_lookup lookup;    // {0}: the system's loaders
    uint32_t ops;
    uint64_t work;  // the most of one submission, so that no watchdog takes the device away, in records of dots: a step
                    // of a sequential fold is 2, a block of quantize 16. 0: 2^20, half a second at 2 million records/s
    const kq_cache *cache;  // optional, of OpenCL programs; lives as long as the device
    kq_errors errors;
} kq_device_params;

// One thread at a time for each device and all of its, which is destroyed before it; its info is valid until then.
// Errors: ARGUMENT, UNSUPPORTED (OpenCL below 1.2 or its least limits; a big-endian host); NO_DEVICE; MEMORY; DRIVER.
typedef struct kq_device kq_device;
KQ_API kq_result kq_device_create(const kq_device_params *params, kq_device **device);
KQ_API void kq_device_destroy(kq_device **device);
KQ_API const kq_device_info *kq_device_get_info(const kq_device *device);
// Calls fn with the name and the value of all that driver and device say of themselves, and of the limits that count.
KQ_API void kq_device_properties(const kq_device *device, void (*fn)(void *, const char *, const char *), void *user);

// Memory on a device, 1 byte or more, of any contents. Copies lie in it, and block. Errors: ARGUMENT, MEMORY, DRIVER.
typedef struct kq_buffer kq_buffer;
KQ_API kq_result kq_buffer_create(kq_device *device, uint64_t bytes, kq_buffer **buffer);
KQ_API void kq_buffer_destroy(kq_buffer **buffer);
KQ_API kq_result kq_buffer_upload(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
KQ_API kq_result kq_buffer_download(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);
typedef struct kq_buffer_view {
    kq_buffer *buffer;
    kq_view view;
} kq_buffer_view;

typedef struct kq_quantize_args {
    kq_format format;                // KQ_FORMAT_Q8_K
    kq_buffer_view values, records;  // f32 [G,256], u8 [G,292]
    kq_domain *domain;               // optional; set when the result is KQ_ERROR_DOMAIN
} kq_quantize_args;
typedef struct kq_quantized_dot_args {
    kq_format lhs_format, rhs_format;  // KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K
    kq_accumulator acc;                // KQ_ACCUMULATOR_F32
    kq_order order;
    kq_buffer_view lhs, rhs;  // u8 [G,144], u8 [G,292]
    kq_buffer *result;        // one f32 a dot
    uint64_t result_offset;   // bytes, any
    const kq_repeat *repeat;  // NULL: one dot
} kq_quantized_dot_args;

// These block until records or results are written. A bad block's record has ds = 0x7FC00000 and zeros; with G = 0
// results are +0. Errors: ARGUMENT, UNSUPPORTED, MEMORY, DRIVER, also for an output not written; quantize: DOMAIN.
KQ_API kq_result kq_quantize(kq_device *device, const kq_quantize_args *args);
KQ_API kq_result kq_quantized_dot(kq_device *device, const kq_quantized_dot_args *args);

// How the device will carry that out: cut into several submissions where it is beyond limits or more work than one
// should take, with the same bits. The reference needs nothing. Errors: ARGUMENT.
KQ_API kq_result kq_quantize_query(const kq_device *device, const kq_quantize_args *args, kq_needs *needs);
KQ_API kq_result kq_quantized_dot_query(const kq_device *device, const kq_quantized_dot_args *args, kq_needs *needs);

// The same, recorded once to run any number of times; buffers and *domain outlive it. *nanoseconds, if not NULL, is the
// time by the device's own clock, 0 if it has none. Errors: as above.
typedef struct kq_recording kq_recording;
KQ_API kq_result kq_quantize_record(kq_device *device, const kq_quantize_args *args, kq_recording **recording);
KQ_API kq_result kq_quantized_dot_record(
    kq_device *device, const kq_quantized_dot_args *args, kq_recording **recording);
KQ_API kq_result kq_recording_run(kq_recording *recording, uint64_t *nanoseconds);
KQ_API void kq_recording_destroy(kq_recording **recording);
// For benches: copies bytes, a multiple of 16384; or, if reads_only, reads them and writes a 64th as many, whose words'
// xor is that of the words read. Needs KQ_OP_SELF_TEST. Errors: as above.
KQ_API kq_result kq_bandwidth_record(
    kq_device *device, kq_buffer *from, kq_buffer *to, uint64_t bytes, int reads_only, kq_recording **recording);

// An operation from and to packed host memory: G blocks, value_count = G * 256, to G * 292 bytes of records; or count
// dots of lhs, count * G * 144 bytes, each of the next G records with one rhs, to count * 4 bytes. Errors: the same.
KQ_API kq_result kq_quantize_host(
    kq_device *device, kq_format format, const float *values, uint64_t value_count, void *records, kq_domain *domain);
KQ_API kq_result kq_quantized_dot_host(kq_device *device, kq_format lhs_format, kq_format rhs_format,
    kq_accumulator acc, kq_order order, uint32_t count, const void *lhs, uint64_t lhs_bytes, const void *rhs,
    uint64_t rhs_bytes, float *results);

// The whole self-test; *step as above, NULL too where it got to no verdict. And single steps: count items of 4 words, a
// number of device/primitive.h, its a and b, and the result, which is written. Errors: as kq_quantized_dot.
KQ_API kq_result kq_self_test(kq_device *device, const char **step);
KQ_API kq_result kq_primitives_host(kq_device *device, uint32_t *items, uint32_t count);
#endif
