#include "opencl_compiler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- The device and its compiler

static kq_result get_info(const kq_cl_compiler *c, cl_device_info info, const char *call,
                          size_t bytes, void *value)
{
    cl_int code = c->clGetDeviceInfo(c->device, info, bytes, value, NULL);
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&c->errors, call, code);
}

#define GET_INFO(c, info, value)                                                                   \
 get_info(c, info, "clGetDeviceInfo(" #info ")", sizeof *(value), value)

static kq_result check_version(kq_cl_compiler *c)
{
    char *text = NULL;
    unsigned major = 0;
    unsigned minor = 0;
    kq_result result = KQ_OK;
    cl_int code = kq_cl_device_text(c->clGetDeviceInfo, c->device, CL_DEVICE_VERSION, &text);
    if (code != CL_SUCCESS) {
        return kq_cl_fail(&c->errors, "clGetDeviceInfo(CL_DEVICE_VERSION)", code);
    }
    if (sscanf(text, "OpenCL %u.%u", &major, &minor) != 2 || major < 1 ||
        (major == 1 && minor < 2)) {
        result = kq_fail(&c->errors, KQ_ERROR_UNSUPPORTED,
                         "CL_DEVICE_VERSION is \"%s\"; the kernels need OpenCL 1.2", text);
    }
    c->version = 100 * major + minor;
    free(text);
    return result;
}

static kq_result check_device(kq_cl_compiler *c)
{
    cl_bool is_little_endian = CL_FALSE;
    cl_device_type type = 0;
    cl_uint char_width = 0;
    size_t items = 0;
    size_t sizes[8] = {0};  // by dimension, of which there are three everywhere
    kq_result result = check_version(c);
    if (result != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_ENDIAN_LITTLE, &is_little_endian)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_ADDRESS_BITS, &c->address_bits)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_MAX_WORK_GROUP_SIZE, &items)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_MAX_WORK_ITEM_SIZES, &sizes)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_LOCAL_MEM_SIZE, &c->local_bytes)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_COMPILER_AVAILABLE, &c->has_compiler)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_TYPE, &type)) != KQ_OK ||
        (result = GET_INFO(c, CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR, &char_width)) != KQ_OK) {
        return result;
    }
    // A width of 1 is that of an interpreter, or of a compiler that makes one vector of work items.
    c->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0 && char_width > 1;
    if (!is_little_endian) {
        return kq_fail(&c->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_ENDIAN_LITTLE is CL_FALSE; records are little-endian");
    }
    if (c->address_bits != 32 && c->address_bits != 64) {
        return kq_fail(&c->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_ADDRESS_BITS is %u; the kernels need 32 or 64",
                       (unsigned)c->address_bits);
    }
    if (items < KQ_LANES) {
        return kq_fail(&c->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_MAX_WORK_GROUP_SIZE is %zu; the kernels need %u", items,
                       (unsigned)KQ_LANES);
    }
    if (sizes[0] < KQ_LANES) {
        return kq_fail(&c->errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_MAX_WORK_ITEM_SIZES begins with %zu; the kernels need %u",
                       sizes[0], (unsigned)KQ_LANES);
    }
    return KQ_OK;
}

// The function that takes SPIR-V, or NULL. Some loaders crash when it is called for a device that
// doesn't announce it, so what the device says comes before what the lookup finds.
static cl_api_clCreateProgramWithIL find_il(const kq_cl_compiler *c, const kq_lookup *lookup)
{
    cl_api_clCreateProgramWithIL create = NULL;
    char *extensions = NULL;
    char *languages = NULL;
    kq_cl_device_text(c->clGetDeviceInfo, c->device, CL_DEVICE_EXTENSIONS, &extensions);
    int has_extension = extensions != NULL && kq_cl_has_word(extensions, "cl_khr_il_program");
    if (c->version >= 201 || has_extension) {
        kq_cl_device_text(c->clGetDeviceInfo, c->device, CL_DEVICE_IL_VERSION, &languages);
    }
    if (languages == NULL || strstr(languages, "SPIR-V") == NULL) {
        goto done;
    }
    if (c->version >= 201) {
        create = (cl_api_clCreateProgramWithIL)lookup->fn(lookup->user, "clCreateProgramWithIL");
    }
    if (create == NULL && has_extension) {
        cl_platform_id platform = NULL;
        cl_api_clGetExtensionFunctionAddressForPlatform find =
            (cl_api_clGetExtensionFunctionAddressForPlatform)lookup->fn(
                lookup->user, "clGetExtensionFunctionAddressForPlatform");
        if (find != NULL && c->clGetDeviceInfo(c->device, CL_DEVICE_PLATFORM, sizeof platform,
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

kq_result kq_cl_compiler_make(const kq_opencl_params *params, kq_cl_compiler *c)
{
    const kq_lookup *lookup = &params->lookup;
    const char *missing = NULL;
    *c = (kq_cl_compiler){.errors = params->errors,
                          .context = params->context,
                          .device = params->device,
                          .wanted = params->program};
#define FIND(name) missing = KQ_CL_FIND(c, lookup, name) == NULL ? #name : missing;
    KQ_CL_COMPILER_FUNCTIONS(FIND)
#undef FIND
    kq_result result = missing == NULL ? check_device(c) : kq_cl_fail_lookup(&c->errors, missing);
    if (result != KQ_OK) {
        return result;
    }
    if (c->wanted != KQ_OPENCL_PROGRAM_SOURCE) {
        c->create_with_il = find_il(c, lookup);
    }
    c->cache = kq_cl_cache_make(params->cache, lookup, c->clGetDeviceInfo, c->device);
    return KQ_OK;
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
static kq_result fail_build(const kq_cl_compiler *c, const char *stem, cl_program program,
                            cl_int code, const kq_errors *errors)
{
    char call[400];
    size_t bytes = 0;
    char *log = NULL;
    if (c->clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes > 0 && (log = calloc(1, bytes + 1)) != NULL) {
        c->clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    }
    const char *line = log != NULL ? log + strspn(log, " \t\r\n") : "";
    snprintf(call, sizeof call, "clBuildProgram of %s (log: %.*s)", stem,
             (int)strcspn(line, "\r\n"), line);
    free(log);
    return kq_cl_fail(errors, call, code);
}

// One kernel object made for a try: there are compilers that accept a program and leave it empty.
// CL_KERNEL_WORK_GROUP_SIZE is no use, since there are drivers that report less than they run.
static kq_result try_kernel(const kq_cl_compiler *c, const char *stem, cl_program program,
                            cl_int *code, const kq_errors *errors)
{
    cl_ulong local_bytes = 0;
    cl_kernel kernel = c->clCreateKernel(program, stem, code);
    if (kernel == NULL || *code != CL_SUCCESS) {
        return kq_cl_fail(errors, "clCreateKernel", *code);
    }
    *code = c->clGetKernelWorkGroupInfo(kernel, c->device, CL_KERNEL_LOCAL_MEM_SIZE,
                                        sizeof local_bytes, &local_bytes, NULL);
    c->clReleaseKernel(kernel);
    if (*code != CL_SUCCESS) {
        return kq_cl_fail(errors, "clGetKernelWorkGroupInfo", *code);
    }
    if (local_bytes > c->local_bytes) {
        return kq_fail(errors, KQ_ERROR_UNSUPPORTED,
                       "CL_DEVICE_LOCAL_MEM_SIZE is %" PRIu64 "; %s needs %" PRIu64,
                       (uint64_t)c->local_bytes, stem, (uint64_t)local_bytes);
    }
    return KQ_OK;
}

// Builds what was made of a kernel's code, or of an earlier build of it; releases it if that fails.
static kq_result build_made(const kq_cl_compiler *c, const char *stem, const way *from,
                            cl_program made, cl_int *code, const kq_errors *errors)
{
    kq_result result = KQ_OK;
    *code = c->clBuildProgram(made, 1, &c->device, from->options, NULL, NULL);
    if (*code != CL_SUCCESS) {
        result = fail_build(c, stem, made, *code, errors);
    } else {
        result = try_kernel(c, stem, made, code, errors);
    }
    if (result != KQ_OK) {
        c->clReleaseProgram(made);
    }
    return result;
}

// Whether the cache had a program, which is built; one that doesn't is taken for none.
static bool build_kept(const kq_cl_compiler *c, const char *stem, const way *from, const char *key,
                       cl_program *program)
{
    cl_int code = CL_SUCCESS;
    const kq_errors nobody = {NULL, NULL};
    cl_program made = kq_cl_cache_load(&c->cache, key, c->context, c->device);
    if (made == NULL || build_made(c, stem, from, made, &code, &nobody) != KQ_OK) {
        return false;
    }
    *program = made;
    return true;
}

// Sets *program, or leaves it NULL. *code is OpenCL's answer where that is what failed.
static kq_result build(const kq_cl_compiler *c, const char *stem, const kq_kernel *kernel,
                       const way *from, cl_program *program, cl_int *code, const kq_errors *errors)
{
    const char *call = from->is_spirv ? "clCreateProgramWithIL" : "clCreateProgramWithSource";
    const void *data = from->is_spirv ? (const void *)kernel->spirv : kernel->source;
    const size_t bytes = from->is_spirv ? kernel->spirv_bytes : kernel->source_bytes;
    const bool is_keeping = kq_cl_cache_is_there(&c->cache);
    char key[KQ_CL_KEY_BYTES] = "";
    if (is_keeping) {
        kq_cl_cache_key(&c->cache, from->options, data, bytes, key);
        if (build_kept(c, stem, from, key, program)) {
            return KQ_OK;
        }
    }
    cl_program made =
        from->is_spirv
            ? c->create_with_il(c->context, data, bytes, code)
            : c->clCreateProgramWithSource(c->context, 1, (const char *[]){data}, &bytes, code);
    if (made == NULL || *code != CL_SUCCESS) {
        return kq_cl_fail(errors, call, *code);
    }
    kq_result result = build_made(c, stem, from, made, code, errors);
    if (result == KQ_OK && is_keeping) {
        kq_cl_cache_store(&c->cache, key, made);
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
static cl_program find_program(const kq_cl_compiler *c, const kq_cl_programs *programs,
                               unsigned index, const kq_kernel *kernel)
{
    for (unsigned i = 0; i < index && kq_kernel_is_for_cpus(index); i++) {
        if (programs->of[i] != NULL && kq_kernel_is_for_cpus(i) &&
            kq_find_kernel(KQ_API_OPENCL, kq_kernel_names[i], c->address_bits)->source ==
                kernel->source) {
            return programs->of[i];
        }
    }
    return NULL;
}

// Builds one kernel from what the caller wants. *first is the first way to try, and is set to the
// one that worked. A kernel for CPUs may ask too much of a compiler: all of them are then left out.
static kq_result build_kernel(kq_cl_compiler *c, kq_cl_programs *programs, unsigned index,
                              unsigned *first)
{
    char stem[KQ_STEM_BYTES];
    kq_kernel_stem(index, stem);
    const kq_kernel *kernel =
        kq_find_kernel(KQ_API_OPENCL, kq_kernel_names[index], c->address_bits);
    if (kernel == NULL) {
        return kq_fail(&c->errors, KQ_ERROR_UNSUPPORTED,
                       "this library holds no OpenCL kernel %s of %u address bits",
                       kq_kernel_names[index], (unsigned)c->address_bits);
    }
    cl_program shared = find_program(c, programs, index, kernel);
    if (shared != NULL) {
        cl_int code = c->clRetainProgram(shared);
        programs->of[index] = code == CL_SUCCESS ? shared : NULL;
        return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&c->errors, "clRetainProgram", code);
    }
    char reason[REASON_BYTES];
    const kq_errors keeper = {keep_reason, reason};
    kq_result result = kq_fail(&keeper, KQ_ERROR_UNSUPPORTED,
                               c->wanted == KQ_OPENCL_PROGRAM_SPIRV
                                   ? "CL_DEVICE_IL_VERSION names no SPIR-V; params.program asks "
                                     "for it"
                                   : "CL_DEVICE_COMPILER_AVAILABLE is CL_FALSE; source needs it");
    bool is_refused = false;
    for (unsigned i = *first; i < WAY_COUNT; i++) {
        const way *from = &ways[i];
        bool is_possible = from->is_spirv ? c->wanted != KQ_OPENCL_PROGRAM_SOURCE &&
                                                c->create_with_il != NULL && kernel->spirv != NULL
                                          : c->wanted != KQ_OPENCL_PROGRAM_SPIRV && c->has_compiler;
        cl_int code = CL_SUCCESS;
        if (!is_possible) {
            continue;
        }
        result = build(c, stem, kernel, from, &programs->of[index], &code, &keeper);
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
        c->is_cpu = false;
        return KQ_OK;
    }
    return kq_fail(&c->errors, result, "%s", reason);
}

// Whether the library has a variant for the device. Those for CPUs are source.
static bool has_variant(const kq_cl_compiler *c, unsigned index)
{
    bool suits = !kq_kernel_is_for_cpus(index) ||
                 (c->is_cpu && c->has_compiler && c->wanted != KQ_OPENCL_PROGRAM_SPIRV);
    return suits && kq_find_kernel(KQ_API_OPENCL, kq_kernel_names[index], c->address_bits) != NULL;
}

kq_result kq_cl_compile(kq_cl_compiler *c, uint32_t kernels, kq_cl_programs *programs)
{
    unsigned first = 0;
    for (unsigned i = 0; i < KQ_KERNEL_COUNT; i++) {
        bool is_variant = kq_kernel_is_variant(i);
        bool is_suitable = !is_variant || has_variant(c, i);
        programs->suitable |= is_variant && is_suitable ? 1u << i : 0;
        if ((kernels >> i & 1) == 0 || !is_suitable) {
            continue;
        }
        unsigned of_source = 0;
        kq_result result =
            build_kernel(c, programs, i, kq_kernel_is_for_cpus(i) ? &of_source : &first);
        if (result != KQ_OK) {
            return result;
        }
        if (!is_variant) {
            programs->text = ways[first].text;
        } else if (programs->of[i] != NULL) {
            programs->variants |= 1u << i;
        }
    }
    return KQ_OK;
}
