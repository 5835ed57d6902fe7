// The same as own_pipelines.c for OpenCL: kernels made from kquant's OpenCL C files, or with --il
// from its SPIR-V modules, and their manifest alone, without the library and without its headers.
//
// What to look at for your own program: make_kernel() and run(); manifest.c says what to dispatch.

#define CL_TARGET_OPENCL_VERSION 210
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include "manifest.h"
#include "own_trial.h"

#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 16, MOST_BINDINGS = TRIAL_RANGES + 1 };

typedef struct kernel {
    const cJSON *described;
    cl_program program;
    cl_kernel kernel;
} kernel;

typedef struct engine {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cJSON *manifest;
    const char *form;  // of the files that are used
    kernel kernels[MOST_KERNELS];
    uint32_t kernel_count;
} engine;

static void check(cl_int code, const char *call)
{
    if (code != CL_SUCCESS) {
        fprintf(stderr, "own_kernels: error %d of %s\n", (int)code, call);
        exit(EXIT_FAILURE);
    }
}
#define CHECK(call) check(call, #call)

// --- Kernels from the manifest

static void open_device(engine *e)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) {
        count = 0;
    }
    for (cl_uint i = 0; i < count && i < 16 && e->device == NULL; i++) {
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &e->device, NULL) != CL_SUCCESS) {
            e->device = NULL;
        }
    }
    if (e->device == NULL) {
        fprintf(stderr, "own_kernels: there is no OpenCL device\n");
        exit(77);  // a test that could not test
    }
    cl_int code;
    e->context = clCreateContext(NULL, 1, &e->device, NULL, NULL, &code);
    check(code, "clCreateContext");
    // In order, so that each dispatch sees what the one before it wrote.
    e->queue = clCreateCommandQueue(e->context, e->device, 0, &code);
    check(code, "clCreateCommandQueue");
}

static void make_kernel(const engine *e, const char *folder, const cJSON *described, bool il,
                        kernel *k)
{
    cl_int code;
    size_t bytes;
    void *data = manifest_read_file(folder, described, e->form, &bytes);
    const char *source = data;
    k->described = described;
    k->program = il ? clCreateProgramWithIL(e->context, data, bytes, &code)
                    : clCreateProgramWithSource(e->context, 1, &source, &bytes, &code);
    check(code, il ? "clCreateProgramWithIL" : "clCreateProgramWithSource");
    free(data);
    CHECK(clBuildProgram(k->program, 1, &e->device, il ? "" : "-cl-std=CL1.2", NULL, NULL));
    const cJSON *file = manifest_member(manifest_member(described, "files"), e->form);
    k->kernel = clCreateKernel(k->program, manifest_text(file, "entry_point"), &code);
    check(code, "clCreateKernel");
}

static void make_engine(engine *e, const char *folder, bool il)
{
    cl_uint address_bits;
    CHECK(clGetDeviceInfo(e->device, CL_DEVICE_ADDRESS_BITS, sizeof(address_bits), &address_bits,
                          NULL));
    e->form = !il ? "opencl_source" : address_bits == 32 ? "opencl_32" : "opencl_64";
    e->manifest = manifest_read(folder);
    const cJSON *described;
    cJSON_ArrayForEach(described, manifest_member(e->manifest, "kernels"))
    {
        if (manifest_has_file(described, e->form) && e->kernel_count < MOST_KERNELS) {
            make_kernel(e, folder, described, il, &e->kernels[e->kernel_count++]);
        }
    }
}

static void destroy_engine(engine *e)
{
    for (uint32_t i = 0; i < e->kernel_count; i++) {
        clReleaseKernel(e->kernels[i].kernel);
        clReleaseProgram(e->kernels[i].program);
    }
    clReleaseCommandQueue(e->queue);
    clReleaseContext(e->context);
    cJSON_Delete(e->manifest);
}

// --- An operation

typedef struct role {
    const char *name;
    cl_mem buffer;
} role;

static role make_role(const engine *e, const char *name, const void *data, size_t bytes)
{
    // Kernels take whole words, and OpenCL has no buffer of 0 bytes.
    const size_t padded = (bytes > 0 ? bytes + 3 : 4) & ~(size_t)3;
    const unsigned char unwritten = 0xAA;  // so that what isn't written shows
    cl_int code;
    role made = {name, clCreateBuffer(e->context, CL_MEM_READ_WRITE, padded, NULL, &code)};
    check(code, "clCreateBuffer");
    CHECK(clEnqueueFillBuffer(e->queue, made.buffer, &unwritten, 1, 0, padded, 0, NULL, NULL));
    if (data != NULL && bytes > 0) {
        CHECK(clEnqueueWriteBuffer(e->queue, made.buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL));
    }
    return made;
}

static cl_mem *find_buffer(role *roles, const char *name)
{
    for (uint32_t i = 0; i < MOST_BINDINGS; i++) {
        if (strcmp(roles[i].name, name) == 0) {
            return &roles[i].buffer;
        }
    }
    fprintf(stderr, "own_kernels: a kernel wants %s\n", name);
    exit(EXIT_FAILURE);
}

static void write_presets(const engine *e, const char *operation, role *roles)
{
    const cJSON *operations = manifest_member(e->manifest, "operations");
    const cJSON *preset, *item;
    cJSON_ArrayForEach(preset, manifest_member(manifest_member(operations, operation), "preset"))
    {
        size_t at = 0;
        cJSON_ArrayForEach(item, preset)
        {
            const uint32_t word = (uint32_t)item->valuedouble;
            CHECK(clEnqueueWriteBuffer(e->queue, *find_buffer(roles, preset->string), CL_TRUE, at,
                                       sizeof(word), &word, 0, NULL, NULL));
            at += sizeof(word);
        }
    }
}

static void set_arguments(cl_kernel kernel, const manifest_dispatch *d, role *roles)
{
    const cJSON *binding, *param;
    cJSON_ArrayForEach(binding, manifest_member(d->kernel, "bindings"))
    {
        // The buffer, and where in it the bound range starts, as a low and a high part: at 0 here.
        const cJSON *arguments = manifest_member(binding, "opencl_arguments");
        const cl_uint first_word = 0;
        CHECK(clSetKernelArg(kernel, (cl_uint)cJSON_GetArrayItem(arguments, 0)->valueint,
                             sizeof(cl_mem), find_buffer(roles, binding->string)));
        for (int i = 1; i < 3; i++) {
            CHECK(clSetKernelArg(kernel, (cl_uint)cJSON_GetArrayItem(arguments, i)->valueint,
                                 sizeof(first_word), &first_word));
        }
    }
    cJSON_ArrayForEach(param, manifest_member(d->kernel, "params"))
    {
        CHECK(clSetKernelArg(kernel, manifest_number(param, "opencl_argument"), sizeof(cl_uint),
                             &d->params[manifest_number(param, "offset") / 4]));
    }
}

static void enqueue(const engine *e, const manifest_dispatch *d, role *roles)
{
    const kernel *k = e->kernels;
    while (k->described != d->kernel) {
        k++;
    }
    size_t local[3], global[3];
    for (int i = 0; i < 3; i++) {
        const cJSON *sizes = manifest_member(d->kernel, "local_size");
        local[i] = (size_t)cJSON_GetArrayItem(sizes, i)->valueint;
        global[i] = local[i] * (i == 0 ? (size_t)d->workgroups : 1);
    }
    set_arguments(k->kernel, d, roles);
    CHECK(clEnqueueNDRangeKernel(e->queue, k->kernel, 3, NULL, global, local, 0, NULL, NULL));
}

static void run(void *user, const char *operation, const manifest_values *values,
                const trial_range ranges[TRIAL_RANGES])
{
    const engine *e = user;
    role roles[MOST_BINDINGS];
    for (int i = 0; i < TRIAL_RANGES; i++) {
        roles[i] = make_role(e, ranges[i].role, ranges[i].in, ranges[i].bytes);
    }
    const uint64_t scratch_bytes = manifest_scratch_bytes(e->manifest, operation, values);
    roles[TRIAL_RANGES] = make_role(e, "scratch", NULL, (size_t)scratch_bytes);
    write_presets(e, operation, roles);

    manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES];
    const size_t count = manifest_dispatches(e->manifest, e->form, operation, values, dispatches);
    for (size_t i = 0; i < count; i++) {
        enqueue(e, &dispatches[i], roles);
    }

    for (int i = 0; i < TRIAL_RANGES; i++) {
        if (ranges[i].out != NULL && ranges[i].bytes > 0) {
            CHECK(clEnqueueReadBuffer(e->queue, roles[i].buffer, CL_TRUE, 0, ranges[i].bytes,
                                      ranges[i].out, 0, NULL, NULL));
        }
    }
    CHECK(clFinish(e->queue));
    for (int i = 0; i < MOST_BINDINGS; i++) {
        clReleaseMemObject(roles[i].buffer);
    }
}

// --- The program

static int print_usage(FILE *file)
{
    fprintf(file, "usage: own_kernels [--il] DATA VECTORS...\n\n"
                  "Makes kernels from the files and kernels.json of DATA, share/kquant once\n"
                  "installed, and compares what they give with test vectors, on the first OpenCL\n"
                  "device. --il: from SPIR-V in place of OpenCL C.\n\n"
                  "  own_kernels /usr/local/share/kquant tests/vectors\n");
    return file == stdout ? EXIT_SUCCESS : 2;
}

int main(int argc, char **argv)
{
    static engine e;
    char name[256] = "";
    const bool il = argc > 1 && strcmp(argv[1], "--il") == 0;
    const int first = il ? 2 : 1;
    if (argc - first < 2 || argv[first][0] == '-') {
        return print_usage(argc > 1 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    }
    open_device(&e);
    make_engine(&e, argv[first], il);
    CHECK(clGetDeviceInfo(e.device, CL_DEVICE_NAME, sizeof(name), name, NULL));
    printf("%s, %u kernels\n", name, e.kernel_count);
    const bool ok = trial_vectors(run, &e, argv + first + 1, argc - first - 1);
    destroy_engine(&e);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
