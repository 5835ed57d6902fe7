#include "opencl_cache.h"

#include "kernels.h"
#include "plan.h"
#include "self_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define OPENCL_PACK_FUNCTIONS(f)                                                                   \
    f(clGetDeviceInfo)                                                                             \
    f(clCreateProgramWithSource)                                                                   \
    f(clBuildProgram)                                                                              \
    f(clGetProgramBuildInfo)                                                                       \
    f(clRetainProgram)                                                                             \
    f(clReleaseProgram)                                                                            \
    f(clCreateKernel)                                                                              \
    f(clGetKernelWorkGroupInfo)                                                                    \
    f(clSetKernelArg)                                                                              \
    f(clReleaseKernel)                                                                             \
    f(clGetMemObjectInfo)                                                                          \
    f(clEnqueueNDRangeKernel)                                                                      \
    f(clEnqueueMarkerWithWaitList)                                                                 \
    f(clReleaseEvent)
// clang-format on

struct kq_opencl {
    kq_errors errors;
    cl_device_id device;
    OPENCL_PACK_FUNCTIONS(KQ_CL_MEMBER)
    uint32_t ops;
    kq_limits limits;
    cl_program programs[KQ_KERNEL_COUNT];  // NULL where the pack has none
    const char *program_text;
};

// Kernels index bytes of a range in 32 bits; a range ends with a whole word. OpenCL limits the work
// items of a dispatch by nothing but size_t; drivers on top of other APIs have 16 bits for
// workgroups.
const kq_limits kq_opencl_limits = {
    .range_bytes = 0xFFFFFFFCu,
    .range_name = "the reach of a 32-bit byte index",
    .offset_alignment = 4,
    .groups = {65535, 65535},
    .groups_name = "the largest count of workgroups",
};

// --- The device

// What programs are built for.
typedef struct target {
    cl_context context;
    cl_device_id device;
    cl_uint version;  // 102 for OpenCL 1.2
    cl_uint address_bits;
    cl_ulong local_bytes;
    cl_bool has_compiler;
    bool is_cpu;                                  // one whose compiler has vectors to make of ours
    cl_api_clCreateProgramWithIL create_with_il;  // NULL: takes no SPIR-V
    kq_cl_cache cache;
} target;

static kq_result get_info(const kq_opencl *pack, cl_device_id device, cl_device_info info,
                          const char *call, size_t bytes, void *value)
{
    cl_int code = pack->clGetDeviceInfo(device, info, bytes, value, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&pack->errors, call, code);
}

#define GET_INFO(pack, device, info, value)                                                        \
 get_info(pack, device, info, "clGetDeviceInfo(" #info ")", sizeof *(value), value)

static kq_result check_version(const kq_opencl *pack, target *t)
{
    char *text = NULL;
    unsigned major = 0;
    unsigned minor = 0;
    kq_result result = KQ_OK;
    cl_int code = kq_cl_device_text(pack->clGetDeviceInfo, t->device, CL_DEVICE_VERSION, &text);
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&pack->errors, "clGetDeviceInfo(CL_DEVICE_VERSION)", code);
    }
    if (sscanf(text, "OpenCL %u.%u", &major, &minor) != 2 || major < 1 ||
        (major == 1 && minor < 2)) {
        result = kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                         "CL_DEVICE_VERSION is \"%s\"; the kernels need OpenCL 1.2", text);
    }
    t->version = 100 * major + minor;
    free(text);
    return result;
}

static kq_result check_device(const kq_opencl *pack, target *t)
{
    cl_bool is_little_endian = CL_FALSE;
    cl_device_type type = 0;
    cl_uint char_width = 0;
    size_t items = 0;
    size_t sizes[8] = {0};  // by dimension, of which there are three everywhere
    kq_result result = check_version(pack, t);
    if (result != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_ENDIAN_LITTLE, &is_little_endian)) != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_ADDRESS_BITS, &t->address_bits)) != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, &items)) != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, &sizes)) != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_LOCAL_MEM_SIZE, &t->local_bytes)) != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_COMPILER_AVAILABLE, &t->has_compiler)) !=
            KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_TYPE, &type)) != KQ_OK ||
        (result = GET_INFO(pack, t->device, CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR, &char_width)) !=
            KQ_OK) {
        return result;
    }
    // A width of 1 is that of an interpreter, or of a compiler that makes one vector of work items.
    t->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0 && char_width > 1;
    if (!is_little_endian) {
        return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_ENDIAN_LITTLE is CL_FALSE; records are little-endian");
    }
    if (t->address_bits != 32 && t->address_bits != 64) {
        return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_ADDRESS_BITS is %u; the kernels need 32 or 64",
                       (unsigned)t->address_bits);
    }
    if (items < KQ_LANES) {
        return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_MAX_WORK_GROUP_SIZE is %zu; the kernels need %u", items,
                       (unsigned)KQ_LANES);
    }
    if (sizes[0] < KQ_LANES) {
        return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_MAX_WORK_ITEM_SIZES begins with %zu; the kernels need %u",
                       sizes[0], (unsigned)KQ_LANES);
    }
    return KQ_OK;
}

// The function that takes SPIR-V, or NULL. Some loaders crash when it is called for a device that
// doesn't announce it, so what the device says comes before what the lookup finds.
static cl_api_clCreateProgramWithIL find_il(const kq_opencl *pack, const target *t,
                                            const kq_lookup *lookup)
{
    cl_api_clCreateProgramWithIL create = NULL;
    char *extensions = NULL;
    char *languages = NULL;
    kq_cl_device_text(pack->clGetDeviceInfo, t->device, CL_DEVICE_EXTENSIONS, &extensions);
    int has_extension = extensions != NULL && kq_cl_has_word(extensions, "cl_khr_il_program");
    if (t->version >= 201 || has_extension) {
        kq_cl_device_text(pack->clGetDeviceInfo, t->device, CL_DEVICE_IL_VERSION, &languages);
    }
    if (languages == NULL || strstr(languages, "SPIR-V") == NULL) {
        goto done;
    }
    if (t->version >= 201) {
        create = (cl_api_clCreateProgramWithIL)lookup->fn(lookup->user, "clCreateProgramWithIL");
    }
    if (create == NULL && has_extension) {
        cl_platform_id platform = NULL;
        cl_api_clGetExtensionFunctionAddressForPlatform find =
            (cl_api_clGetExtensionFunctionAddressForPlatform)lookup->fn(
                lookup->user, "clGetExtensionFunctionAddressForPlatform");
        if (find != NULL && pack->clGetDeviceInfo(t->device, CL_DEVICE_PLATFORM, sizeof platform,
                                                  &platform, NULL) == CL_SUCCESS) {
            void *address = find(platform, "clCreateProgramWithILKHR");
            // C has no cast from an object's address to a function's.
            memcpy(&create, &address, sizeof create);
        }
    }
done:
    free(extensions);
    free(languages);
    return create;
}

// --- Programs, one a kernel: compilers on phones crash on big ones

// Where a program comes from, in the order of trying. There are compilers that fail on what their
// own optimiser makes. All options are ours: none changes integers, and device code has nothing
// else.
typedef struct way {
    bool is_spirv;
    const char *options;
    const char *text;
} way;

static const way ways[] = {
    {true, "", "SPIR-V"},
    {false, "-cl-std=CL1.2", "source, -cl-std=CL1.2"},
    {false, "-cl-std=CL1.2 -cl-opt-disable", "source, -cl-std=CL1.2 -cl-opt-disable"},
};

enum { WAY_COUNT = sizeof ways / sizeof *ways, REASON_BYTES = 512 };

// Reports a failed build with the first line that its log has.
static kq_result fail_build(const kq_opencl *pack, const target *t, const char *stem,
                            cl_program program, cl_int code, const kq_errors *errors)
{
    char call[400];
    size_t bytes = 0;
    char *log = NULL;
    if (pack->clGetProgramBuildInfo(program, t->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes > 0 && (log = calloc(1, bytes + 1)) != NULL) {
        pack->clGetProgramBuildInfo(program, t->device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    }
    const char *line = log != NULL ? log + strspn(log, " \t\r\n") : "";
    snprintf(call, sizeof call, "clBuildProgram of %s (log: %.*s)", stem,
             (int)strcspn(line, "\r\n"), line);
    free(log);
    return kq_cl_fail(errors, call, code);
}

// One kernel object made for a try: there are compilers that accept a program and leave it empty.
// CL_KERNEL_WORK_GROUP_SIZE is no use, since there are drivers that report less than they run.
static kq_result try_kernel(const kq_opencl *pack, const target *t, const char *stem,
                            cl_program program, cl_int *code, const kq_errors *errors)
{
    cl_ulong local_bytes = 0;
    cl_kernel kernel = pack->clCreateKernel(program, stem, code);
    if (kernel == NULL || *code != CL_SUCCESS) {
        return kq_cl_fail(errors, "clCreateKernel", *code);
    }
    *code = pack->clGetKernelWorkGroupInfo(kernel, t->device, CL_KERNEL_LOCAL_MEM_SIZE,
                                           sizeof local_bytes, &local_bytes, NULL);
    pack->clReleaseKernel(kernel);
    if (*code != CL_SUCCESS) {
        return kq_cl_fail(errors, "clGetKernelWorkGroupInfo", *code);
    }
    if (local_bytes > t->local_bytes) {
        return kq_fail(errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_LOCAL_MEM_SIZE is %" PRIu64 "; %s needs %" PRIu64,
                       (uint64_t)t->local_bytes, stem, (uint64_t)local_bytes);
    }
    return KQ_OK;
}

// Builds what was made of a kernel's code, or of an earlier build of it; releases it if that fails.
static kq_result build_made(const kq_opencl *pack, const target *t, const char *stem,
                            const way *from, cl_program made, cl_int *code, const kq_errors *errors)
{
    kq_result result = KQ_OK;
    *code = pack->clBuildProgram(made, 1, &t->device, from->options, NULL, NULL);
    if (*code != CL_SUCCESS) {
        result = fail_build(pack, t, stem, made, *code, errors);
    } else {
        result = try_kernel(pack, t, stem, made, code, errors);
    }
    if (result != KQ_OK) {
        pack->clReleaseProgram(made);
    }
    return result;
}

// Whether the cache had a program, which is built; one that doesn't is taken for none.
static bool build_kept(const kq_opencl *pack, const target *t, const char *stem, const way *from,
                       const char *key, cl_program *program)
{
    cl_int code = CL_SUCCESS;
    const kq_errors nobody = {NULL, NULL};
    cl_program made = kq_cl_cache_load(&t->cache, key, t->context, t->device);
    if (made == NULL || build_made(pack, t, stem, from, made, &code, &nobody) != KQ_OK) {
        return false;
    }
    *program = made;
    return true;
}

// Sets *program, or leaves it NULL. *code is OpenCL's answer where that is what failed.
static kq_result build(const kq_opencl *pack, const target *t, const char *stem,
                       const kq_kernel *kernel, const way *from, cl_program *program, cl_int *code,
                       const kq_errors *errors)
{
    const char *call = from->is_spirv ? "clCreateProgramWithIL" : "clCreateProgramWithSource";
    const void *data = from->is_spirv ? (const void *)kernel->spirv : kernel->source;
    const size_t bytes = from->is_spirv ? kernel->spirv_bytes : kernel->source_bytes;
    const bool is_keeping = kq_cl_cache_is_there(&t->cache);
    char key[KQ_CL_KEY_BYTES] = "";
    if (is_keeping) {
        kq_cl_cache_key(&t->cache, from->options, data, bytes, key);
        if (build_kept(pack, t, stem, from, key, program)) {
            return KQ_OK;
        }
    }
    cl_program made =
        from->is_spirv
            ? t->create_with_il(t->context, data, bytes, code)
            : pack->clCreateProgramWithSource(t->context, 1, (const char *[]){data}, &bytes, code);
    if (made == NULL || *code != CL_SUCCESS) {
        return kq_cl_fail(errors, call, *code);
    }
    kq_result result = build_made(pack, t, stem, from, made, code, errors);
    if (result == KQ_OK && is_keeping) {
        kq_cl_cache_store(&t->cache, key, made);
    }
    *program = result == KQ_OK ? made : NULL;
    return result;
}

// Whether a compiler doesn't like what it was given, so that another way is worth a try.
static bool is_refusal(const way *from, cl_int code)
{
    switch (code) {
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_INVALID_PROGRAM_EXECUTABLE:
    case CL_INVALID_KERNEL_NAME:
    case CL_INVALID_KERNEL_DEFINITION: return true;
    case CL_SUCCESS:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return false;
    default: return from->is_spirv;
    }
}

static void keep_reason(void *user, kq_result result, const char *reason)
{
    (void)result;
    snprintf(user, REASON_BYTES, "%s", reason);
}

// The program of an earlier kernel whose source has this one too, or NULL.
static cl_program find_program(const kq_opencl *pack, const target *t, unsigned index,
                               const kq_kernel *kernel)
{
    for (unsigned i = 0; i < index && kq_kernel_is_for_cpus(index); i++) {
        if (pack->programs[i] != NULL && kq_kernel_is_for_cpus(i) &&
            kq_find_kernel(KQ_API_OPENCL, kq_kernel_names[i], t->address_bits)->source ==
                kernel->source) {
            return pack->programs[i];
        }
    }
    return NULL;
}

// Builds one kernel from what `wanted` allows. *first is the first way to try, and is set to the
// one that worked. A kernel for CPUs may ask too much of a compiler: all of them are then left out.
static kq_result build_kernel(kq_opencl *pack, target *t, kq_opencl_program wanted, unsigned index,
                              unsigned *first)
{
    char stem[KQ_STEM_BYTES];
    kq_kernel_stem(index, stem);
    const kq_kernel *kernel =
        kq_find_kernel(KQ_API_OPENCL, kq_kernel_names[index], t->address_bits);
    if (kernel == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                       "this library holds no OpenCL kernel %s of %u address bits",
                       kq_kernel_names[index], (unsigned)t->address_bits);
    }
    cl_program shared = find_program(pack, t, index, kernel);
    if (shared != NULL) {
        cl_int code = pack->clRetainProgram(shared);
        pack->programs[index] = code == CL_SUCCESS ? shared : NULL;
        return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&pack->errors, "clRetainProgram", code);
    }
    char reason[REASON_BYTES];
    const kq_errors keeper = {keep_reason, reason};
    kq_result result = kq_fail(&keeper, KQ_ERROR_UNSUPPORTED,
                               wanted == KQ_OPENCL_PROGRAM_SPIRV
                                   ? "CL_DEVICE_IL_VERSION names no SPIR-V; params.program asks "
                                     "for it"
                                   : "CL_DEVICE_COMPILER_AVAILABLE is CL_FALSE; source needs it");
    bool is_refused = false;
    for (unsigned i = *first; i < WAY_COUNT; i++) {
        const way *from = &ways[i];
        bool is_possible = from->is_spirv ? wanted != KQ_OPENCL_PROGRAM_SOURCE &&
                                                t->create_with_il != NULL && kernel->spirv != NULL
                                          : wanted != KQ_OPENCL_PROGRAM_SPIRV && t->has_compiler;
        cl_int code = CL_SUCCESS;
        if (!is_possible) {
            continue;
        }
        result = build(pack, t, stem, kernel, from, &pack->programs[index], &code, &keeper);
        if (result == KQ_OK) {
            *first = i;
            return KQ_OK;
        }
        is_refused = is_refusal(from, code);
        // Without optimization those for CPUs are of no use.
        if (!is_refused || kq_kernel_is_for_cpus(index)) {
            break;
        }
    }
    if (is_refused && kq_kernel_is_for_cpus(index)) {
        t->is_cpu = false;
        return KQ_OK;
    }
    return kq_fail(&pack->errors, result, "%s", reason);
}

// Whether the library has a variant for the device. Those for CPUs are source.
static bool has_variant(const target *t, unsigned index, kq_opencl_program wanted)
{
    bool suits = !kq_kernel_is_for_cpus(index) ||
                 (t->is_cpu && t->has_compiler && wanted != KQ_OPENCL_PROGRAM_SPIRV);
    return suits && kq_find_kernel(KQ_API_OPENCL, kq_kernel_names[index], t->address_bits) != NULL;
}

static kq_result find_pack_functions(kq_opencl *pack, const kq_lookup *lookup)
{
    const char *missing = NULL;
#define FIND(name) missing = KQ_CL_FIND(pack, lookup, name) == NULL ? #name : missing;
    OPENCL_PACK_FUNCTIONS(FIND)
#undef FIND
    return missing == NULL
               ? KQ_OK
               : kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "lookup.fn finds no %s", missing);
}

static kq_result check_opencl_params(const kq_opencl_params *params)
{
    const char *missing = params->lookup.fn == NULL ? "lookup.fn"
                          : params->context == NULL ? "context"
                          : params->device == NULL  ? "device"
                                                    : NULL;
    if (missing != NULL) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT, "%s is null; it is required", missing);
    }
    if ((unsigned)params->program > KQ_OPENCL_PROGRAM_SOURCE) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT,
                       "program is %u; it must be any (0), SPIR-V (1) or source (2)",
                       (unsigned)params->program);
    }
    if (params->caps != 0) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT,
                       "caps is 0x%" PRIX32 "; no kernel needs any", params->caps);
    }
    if ((params->ops & ~KQ_KNOWN_OPS) != 0) {
        return kq_fail(&params->errors, KQ_ERROR_ARGUMENT,
                       "ops is 0x%" PRIX32 "; it has bits that are no 1u << KQ_OP_*", params->ops);
    }
    return KQ_OK;
}

kq_result kq_opencl_create(const kq_opencl_params *params, kq_opencl **pack)
{
    return kq_opencl_create_without(params, KQ_LEVEL_3_KERNELS, pack);
}

kq_result kq_opencl_create_without(const kq_opencl_params *params, uint32_t without,
                                   kq_opencl **pack)
{
    kq_opencl *p = NULL;
    kq_result result;
    if (pack == NULL || params == NULL) {
        return kq_fail(params != NULL ? &params->errors : NULL, KQ_ERROR_ARGUMENT, "%s is null",
                       params != NULL ? "pack" : "params");
    }
    *pack = NULL;
    result = check_opencl_params(params);
    if (result != KQ_OK) {
        return result;
    }
    p = calloc(1, sizeof *p);
    if (p == NULL) {
        return kq_fail(&params->errors, KQ_ERROR_MEMORY, "out of host memory");
    }
    p->errors = params->errors;
    p->ops = params->ops;
    p->device = params->device;
    p->limits = kq_opencl_limits;
    target t = {.context = params->context, .device = params->device};
    if ((result = find_pack_functions(p, &params->lookup)) != KQ_OK ||
        (result = check_device(p, &t)) != KQ_OK) {
        goto fail;
    }
    if (params->program != KQ_OPENCL_PROGRAM_SOURCE) {
        t.create_with_il = find_il(p, &t, &params->lookup);
    }
    t.cache = kq_cl_cache_make(params->cache, &params->lookup, p->clGetDeviceInfo, params->device);
    unsigned first = 0;
    for (unsigned i = 0; i < KQ_KERNEL_COUNT; i++) {
        bool is_variant = kq_kernel_is_variant(i);
        if ((params->ops != 0 && (params->ops >> kq_kernel_op(i) & 1) == 0) ||
            (without >> i & 1) != 0 || (is_variant && !has_variant(&t, i, params->program))) {
            continue;
        }
        unsigned of_source = 0;
        result =
            build_kernel(p, &t, params->program, i, kq_kernel_is_for_cpus(i) ? &of_source : &first);
        if (result != KQ_OK) {
            goto fail;
        }
        if (!is_variant) {
            p->program_text = ways[first].text;
        } else if (p->programs[i] != NULL) {
            p->limits.variants |= 1u << i;
        }
    }
    *pack = p;
    return KQ_OK;
fail:
    kq_opencl_destroy(&p);
    return result;
}

const char *kq_opencl_program_text(const kq_opencl *pack)
{
    return pack->program_text;
}

void kq_opencl_destroy(kq_opencl **pack)
{
    if (pack == NULL || *pack == NULL) {
        return;
    }
    for (unsigned i = 0; i < KQ_KERNEL_COUNT; i++) {
        if ((*pack)->programs[i] != NULL) {
            (*pack)->clReleaseProgram((*pack)->programs[i]);
        }
    }
    free(*pack);
    *pack = NULL;
}

// --- Operations

// One operation with its buffers by role. A sub-buffer is planned as the part of its parent that it
// is, so that overlap shows, and bound as itself.
typedef struct opencl_job {
    kq_operation operation;
    cl_mem buffers[KQ_BINDING_COUNT];
    uint64_t origins[KQ_BINDING_COUNT];  // of a sub-buffer in its parent, else 0
} opencl_job;

static kq_result add_operand(const kq_opencl *pack, opencl_job *j, int role, cl_mem buffer,
                             const kq_view *view)
{
    kq_operand *operand = &j->operation.operands[role];
    cl_mem parent = NULL;
    size_t origin = 0;
    size_t bytes = 0;
    operand->view = *view;
    if (buffer == NULL) {
        return KQ_OK;
    }
    cl_int code = pack->clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (code == CL_SUCCESS) {
        code = pack->clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent,
                                        NULL);
    }
    if (code == CL_SUCCESS && parent != NULL) {
        code = pack->clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof origin, &origin, NULL);
    }
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&pack->errors, "clGetMemObjectInfo", code);
    }
    j->buffers[role] = buffer;
    j->origins[role] = origin;
    operand->buffer = (uint64_t)(uintptr_t)(parent != NULL ? parent : buffer);
    operand->buffer_bytes = (uint64_t)origin + bytes;
    // An offset that wraps is far past the end, and so stays.
    operand->view.offset = view->offset > UINT64_MAX - origin ? UINT64_MAX : view->offset + origin;
    return KQ_OK;
}

static kq_result add_view(const kq_opencl *pack, opencl_job *j, int role,
                          const kq_opencl_view *view)
{
    return add_operand(pack, j, role, view->buffer, &view->view);
}

static kq_result add_range(const kq_opencl *pack, opencl_job *j, int role,
                           const kq_opencl_range *range)
{
    const kq_view view = {.offset = range->offset};
    return add_operand(pack, j, role, range->buffer, &view);
}

static kq_result read_quantize(const kq_opencl *pack, const kq_opencl_quantize *op, opencl_job *j)
{
    kq_result result;
    if (op == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "op is null");
    }
    *j = (opencl_job){.operation = {.op = KQ_OP_QUANTIZE, .format = op->format}};
    result = add_view(pack, j, KQ_VALUES, &op->values);
    result = result != KQ_OK ? result : add_view(pack, j, KQ_RECORDS, &op->records);
    return result != KQ_OK ? result : add_range(pack, j, KQ_STATUS, &op->status);
}

static kq_result read_dot(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                          bool has_scratch, opencl_job *j)
{
    kq_result result;
    if (op == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "op is null");
    }
    *j = (opencl_job){.operation = {.op = KQ_OP_QUANTIZED_DOT,
                                    .lhs_format = op->lhs_format,
                                    .rhs_format = op->rhs_format,
                                    .acc = op->acc,
                                    .order = op->order,
                                    .repeat = op->repeat,
                                    .part = op->part}};
    result = add_view(pack, j, KQ_LHS, &op->lhs);
    result = result != KQ_OK ? result : add_view(pack, j, KQ_RHS, &op->rhs);
    result = result != KQ_OK ? result : add_range(pack, j, KQ_RESULT, &op->result);
    if (result == KQ_OK && has_scratch) {
        result = add_range(pack, j, KQ_SCRATCH, &op->scratch);
    }
    return result;
}

static kq_result check_opencl_needs(const kq_opencl *pack, const kq_needs *needs)
{
    if (pack == NULL) {
        return KQ_ERROR_ARGUMENT;  // and nobody to tell
    }
    return needs != NULL ? KQ_OK : kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "needs is null");
}

kq_result kq_opencl_quantize_query(const kq_opencl *pack, const kq_opencl_quantize *op,
                                   kq_needs *needs)
{
    opencl_job j;
    kq_result result = check_opencl_needs(pack, needs);
    result = result != KQ_OK ? result : read_quantize(pack, op, &j);
    return result != KQ_OK ? result
                           : kq_plan_query(&j.operation, &pack->limits, &pack->errors, needs);
}

kq_result kq_opencl_quantized_dot_query(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                        kq_needs *needs)
{
    opencl_job j;
    kq_result result = check_opencl_needs(pack, needs);
    result = result != KQ_OK ? result : read_dot(pack, op, false, &j);
    return result != KQ_OK ? result
                           : kq_plan_query(&j.operation, &pack->limits, &pack->errors, needs);
}

// The buffers that a kernel takes, in its order.
static const struct {
    int count;
    int roles[3];
} kernel_buffers[KQ_KERNEL_COUNT] = {
    [KQ_KERNEL_QUANTIZE] = {3, {KQ_VALUES, KQ_RECORDS, KQ_STATUS}},
    [KQ_KERNEL_QUANTIZE_CPU] = {3, {KQ_VALUES, KQ_RECORDS, KQ_STATUS}},
    [KQ_KERNEL_DOT_TERMS] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_COLUMNS] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_CPU] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_COLUMNS_CPU] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED_ALIGNED] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED_PACKED] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_TERMS_SHARED_CPU] = {3, {KQ_LHS, KQ_RHS, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_SEQUENTIAL] = {2, {KQ_RESULT, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_SEQUENTIAL_CPU] = {2, {KQ_RESULT, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_PAIRWISE] = {2, {KQ_RESULT, KQ_SCRATCH}},
    [KQ_KERNEL_DOT_PAIRWISE_CPU] = {2, {KQ_RESULT, KQ_SCRATCH}},
    [KQ_KERNEL_PRIMITIVE] = {1, {KQ_ITEMS}},
    [KQ_KERNEL_BANDWIDTH] = {2, {KQ_FROM, KQ_TO}},
};

static cl_int set_arguments(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                            const kq_step *step, cl_kernel kernel)
{
    cl_uint index = 0;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < kernel_buffers[step->kernel].count && code == CL_SUCCESS; i++) {
        int role = kernel_buffers[step->kernel].roles[i];
        if (plan->ranges[role].bytes == 0) {
            role = KQ_RESULT;  // with G = 0 nothing else is there, or read
        }
        uint64_t word = (plan->ranges[role].offset - j->origins[role]) / 4;
        cl_uint low = (cl_uint)(word & 0x3FFFFFFFu);
        cl_uint high = (cl_uint)(word >> 30);
        code = pack->clSetKernelArg(kernel, index++, sizeof(cl_mem), &j->buffers[role]);
        if (code == CL_SUCCESS) {
            code = pack->clSetKernelArg(kernel, index++, sizeof low, &low);
        }
        if (code == CL_SUCCESS) {
            code = pack->clSetKernelArg(kernel, index++, sizeof high, &high);
        }
    }
    for (uint32_t i = 0; i < step->params_bytes / sizeof(uint32_t) && code == CL_SUCCESS; i++) {
        code = pack->clSetKernelArg(kernel, index++, sizeof(uint32_t), &step->params[i]);
    }
    return code;
}

// The device has too few registers for as many work items of this kernel.
static kq_result fail_work_group(const kq_opencl *pack, cl_kernel kernel, const char *name,
                                 size_t needed)
{
    size_t items = 0;
    pack->clGetKernelWorkGroupInfo(kernel, pack->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof items,
                                   &items, NULL);
    return kq_fail(&pack->errors, KQ_ERROR_UNSUPPORTED,
                   "CL_KERNEL_WORK_GROUP_SIZE of %s is %zu; %zu are needed", name, items, needed);
}

static kq_result enqueue_step(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                              uint32_t index, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *waits, cl_event *event)
{
    const kq_step step = kq_plan_step(plan, index);
    char stem[KQ_STEM_BYTES];
    kq_kernel_stem(step.kernel, stem);
    const size_t local[2] = {kq_kernel_is_for_cpus(step.kernel) ? 1 : KQ_LANES, 1};
    const size_t global[2] = {step.groups[0] * local[0], step.groups[1]};
    cl_int code = CL_SUCCESS;
    const char *call = "clCreateKernel";
    cl_kernel kernel = pack->clCreateKernel(pack->programs[step.kernel], stem, &code);
    if (kernel == NULL || code != CL_SUCCESS) {
        return kq_cl_fail(&pack->errors, call, code);
    }
    call = "clSetKernelArg";
    code = set_arguments(pack, j, plan, &step, kernel);
    if (code == CL_SUCCESS) {
        call = "clEnqueueNDRangeKernel";
        code = pack->clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, wait_count,
                                            waits, event);
    }
    kq_result result = KQ_OK;
    if (code == CL_INVALID_WORK_GROUP_SIZE) {
        result = fail_work_group(pack, kernel, kq_kernel_names[step.kernel], local[0]);
    } else if (code != CL_SUCCESS) {
        result = kq_cl_fail(&pack->errors, call, code);
    }
    pack->clReleaseKernel(kernel);
    return result;
}

static kq_result check_enqueue(const kq_opencl *pack, kq_op op, cl_command_queue queue,
                               cl_uint wait_count, const cl_event *waits)
{
    if (pack == NULL) {
        return KQ_ERROR_ARGUMENT;  // and nobody to tell
    }
    if (queue == NULL) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "queue is null");
    }
    if ((wait_count == 0) != (waits == NULL)) {
        return kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "wait_count is %u and waits is %s",
                       (unsigned)wait_count, waits != NULL ? "not null" : "null");
    }
    return kq_check_op(op, pack->ops, &pack->errors);
}

// A command's steps, of which each waits for the one before by an event, for the queue may be
// out-of-order.
typedef struct chain {
    cl_command_queue queue;
    cl_uint wait_count;  // of the caller's events, for the first step
    const cl_event *waits;
    cl_event last;  // NULL before that
} chain;

// The event of the plan's last step goes to `event`, if that is not NULL; else the chain goes on.
static kq_result enqueue_plan(const kq_opencl *pack, const opencl_job *j, const kq_plan *plan,
                              chain *c, bool ends, cl_event *event)
{
    kq_result result = KQ_OK;
    uint32_t count = (uint32_t)plan->needs.dispatch_count;
    for (uint32_t i = 0; i < count && result == KQ_OK; i++) {
        cl_event next = NULL;
        bool is_first = c->last == NULL;
        result =
            enqueue_step(pack, j, plan, i, c->queue, is_first ? c->wait_count : 1,
                         is_first ? c->waits : &c->last, ends && i + 1 == count ? event : &next);
        if (c->last != NULL) {
            pack->clReleaseEvent(c->last);
        }
        c->last = next;
    }
    return result;
}

static kq_result enqueue(const kq_opencl *pack, const opencl_job *j, cl_command_queue queue,
                         cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    kq_plan plan;
    kq_result result = kq_plan_make(&j->operation, true, &pack->limits, &pack->errors, &plan);
    result = result != KQ_OK ? result : kq_plan_fit(&plan, &pack->errors);
    if (result != KQ_OK) {
        return result;
    }
    if (plan.needs.dispatch_count == 0 && (event != NULL || wait_count > 0)) {
        cl_int code = pack->clEnqueueMarkerWithWaitList(queue, wait_count, waits, event);
        return code == CL_SUCCESS ? KQ_OK
                                  : kq_cl_fail(&pack->errors, "clEnqueueMarkerWithWaitList", code);
    }
    chain c = {queue, wait_count, waits, NULL};
    return enqueue_plan(pack, j, &plan, &c, true, event);
}

kq_result kq_opencl_quantize_enqueue(const kq_opencl *pack, const kq_opencl_quantize *op,
                                     cl_command_queue queue, cl_uint wait_count,
                                     const cl_event *waits, cl_event *event)
{
    opencl_job j;
    kq_result result = check_enqueue(pack, KQ_OP_QUANTIZE, queue, wait_count, waits);
    result = result != KQ_OK ? result : read_quantize(pack, op, &j);
    return result != KQ_OK ? result : enqueue(pack, &j, queue, wait_count, waits, event);
}

kq_result kq_opencl_quantized_dot_enqueue(const kq_opencl *pack, const kq_opencl_quantized_dot *op,
                                          cl_command_queue queue, cl_uint wait_count,
                                          const cl_event *waits, cl_event *event)
{
    opencl_job j;
    kq_result result = check_enqueue(pack, KQ_OP_QUANTIZED_DOT, queue, wait_count, waits);
    result = result != KQ_OK ? result : read_dot(pack, op, true, &j);
    return result != KQ_OK ? result : enqueue(pack, &j, queue, wait_count, waits, event);
}

kq_result kq_opencl_self_test_enqueue(const kq_opencl *pack, const kq_opencl_range *range,
                                      cl_command_queue queue, cl_uint wait_count,
                                      const cl_event *waits, cl_event *event)
{
    opencl_job j = {.operation = {.op = KQ_OP_SELF_TEST}};
    kq_plan plans[KQ_SELF_TEST_PLANS];
    kq_result result = check_enqueue(pack, KQ_OP_SELF_TEST, queue, wait_count, waits);
    if (result == KQ_OK && range == NULL) {
        result = kq_fail(&pack->errors, KQ_ERROR_ARGUMENT, "range is null");
    }
    result = result != KQ_OK ? result : add_range(pack, &j, 0, range);
    const kq_operand *whole = &j.operation.operands[0];
    if (result == KQ_OK) {
        result = kq_self_test_check(pack->ops, whole, pack->limits.offset_alignment, &pack->errors);
    }
    for (unsigned i = 0; i < KQ_SELF_TEST_PLANS && result == KQ_OK; i++) {
        result = kq_self_test_plan(i, whole, &pack->limits, &pack->errors, &plans[i]);
    }
    for (int role = 1; role < KQ_BINDING_COUNT; role++) {
        j.buffers[role] = j.buffers[0];
        j.origins[role] = j.origins[0];
    }
    chain c = {queue, wait_count, waits, NULL};
    for (unsigned i = 0; i < KQ_SELF_TEST_PLANS && result == KQ_OK; i++) {
        result = enqueue_plan(pack, &j, &plans[i], &c, i + 1 == KQ_SELF_TEST_PLANS, event);
    }
    return result;
}

kq_result kq_opencl_primitives_enqueue(const kq_opencl *pack, cl_mem buffer, uint32_t count,
                                       cl_command_queue queue, cl_event *event)
{
    kq_plan plan;
    const opencl_job j = {.operation = {.op = KQ_OP_SELF_TEST}, .buffers[KQ_ITEMS] = buffer};
    chain c = {.queue = queue};
    kq_plan_primitives(count, 0, &pack->limits, &plan);
    return enqueue_plan(pack, &j, &plan, &c, true, event);
}

kq_result kq_opencl_bandwidth_enqueue(const kq_opencl *pack, cl_mem from, cl_mem to,
                                      const kq_transfer *transfer, cl_command_queue queue,
                                      cl_event *event)
{
    kq_plan plan;
    const opencl_job j = {.operation = {.op = KQ_OP_SELF_TEST}, .buffers = {from, to}};
    chain c = {.queue = queue};
    kq_plan_bandwidth(transfer, &pack->limits, &plan);
    return enqueue_plan(pack, &j, &plan, &c, true, event);
}
