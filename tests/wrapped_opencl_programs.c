// Programs of the wrapped driver, and the emulation of SPIR-V.
#define _POSIX_C_SOURCE 200809L
#include "wrapped_opencl_inside.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// A copy of a source as a faulty compiler reads it, ended by a zero; to be freed.
static char *misread_source(const char *text, size_t length)
{
    wrapped_opencl *w = wrapped_current;
    char entry[64];
    char *copy = malloc(length + 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    snprintf(entry, sizeof entry, "kernel void %s(", w->misread_kernel);
    if (strstr(copy, entry) != NULL) {
        for (char *at = copy; (at = strstr(at, w->misread)) != NULL; at += strlen(w->misread)) {
            memcpy(at, w->misread_as, strlen(w->misread));
            w->misread_count++;
        }
    }
    return copy;
}

// With one text, which has a length.
cl_program CL_API_CALL wrap_clCreateProgramWithSource(cl_context context, cl_uint count,
                                                      const char **texts, const size_t *lengths,
                                                      cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateProgramWithSource);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    char *misread = NULL;
    const char *text = NULL;
    if (wrapped_current->misread_kernel != NULL) {
        misread = misread_source(texts[0], lengths[0]);
        text = misread;
        texts = &text;
    }
    cl_program made = wrapped_real.clCreateProgramWithSource(context, count, texts, lengths, out);
    free(misread);
    wrapped_add(WRAPPED_PROGRAM, made, false, "");
    return made;
}

cl_program CL_API_CALL wrap_clCreateProgramWithBinary(cl_context context, cl_uint count,
                                                      const cl_device_id *devices,
                                                      const size_t *lengths,
                                                      const unsigned char **binaries,
                                                      cl_int *status, cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateProgramWithBinary);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    cl_program made = wrapped_real.clCreateProgramWithBinary(context, count, devices, lengths,
                                                             binaries, status, out);
    wrapped_add(WRAPPED_PROGRAM, made, false, "");
    return made;
}

// Runs llvm-spirv -r on a file; whether that went well.
static bool translate_back(char *spirv_path, char *bitcode_path)
{
    extern char **environ;
    static char *const names[] = {"llvm-spirv-14", "llvm-spirv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pid_t pid;
        int status = -1;
        char *const arguments[] = {names[i], "-r", spirv_path, "-o", bitcode_path, NULL};
        if (posix_spawnp(&pid, names[i], NULL, NULL, arguments, environ) == 0) {
            return waitpid(pid, &status, 0) == pid && status == 0;
        }
    }
    return false;
}

static unsigned char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
        rewind(file);
    }
    if (size > 0 && (data = malloc((size_t)size)) != NULL) {
        *bytes = fread(data, 1, (size_t)size, file);
    }
    if (file != NULL) {
        fclose(file);
    }
    return data;
}

// LLVM bitcode of a SPIR-V module, by way of files; to be freed, NULL on any failure.
static unsigned char *bitcode_of(const void *il, size_t il_bytes, size_t *bytes)
{
    const char *folder = getenv("TMPDIR");
    char base[512];
    char spirv_path[520];
    char bitcode_path[520];
    snprintf(base, sizeof base, "%s/kquant-il-XXXXXX", folder != NULL ? folder : "/tmp");
    if (mkdtemp(base) == NULL) {
        return NULL;
    }
    snprintf(spirv_path, sizeof spirv_path, "%s/in", base);
    snprintf(bitcode_path, sizeof bitcode_path, "%s/out", base);
    unsigned char *data = NULL;
    FILE *file = fopen(spirv_path, "wb");
    if (file != NULL) {
        bool written = fwrite(il, 1, il_bytes, file) == il_bytes;
        if (fclose(file) == 0 && written && translate_back(spirv_path, bitcode_path)) {
            data = read_file(bitcode_path, bytes);
        }
    }
    remove(spirv_path);
    remove(bitcode_path);
    rmdir(base);
    return data;
}

// For a context of one device.
static cl_program create_with_il(cl_context context, const void *il, size_t il_bytes, cl_int *out)
{
    cl_device_id device = NULL;
    cl_int code =
        wrapped_real.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    bool is_emulated = wrapped_emulated_il(device) != WRAPPED_IL_OF_DRIVER;
    cl_program made = NULL;
    if (is_emulated) {
        size_t bytes = 0;
        unsigned char *bitcode = bitcode_of(il, il_bytes, &bytes);
        if (bitcode == NULL) {
            fprintf(stderr, "llvm-spirv did not translate the module\n");
            return wrapped_give_up(CL_INVALID_VALUE, out);
        }
        made = wrapped_real.clCreateProgramWithBinary(context, 1, &device, &bytes,
                                                      (const unsigned char **)&bitcode, NULL, out);
        free(bitcode);
    } else if (wrapped_takes_spirv(device) && wrapped_current->version == NULL) {
        made = wrapped_real.clCreateProgramWithIL(context, il, il_bytes, out);
    } else {
        return wrapped_give_up(CL_INVALID_OPERATION, out);
    }
    wrapped_add(WRAPPED_PROGRAM, made, is_emulated, "");
    if (made != NULL) {
        wrapped_count_il();
    }
    return made;
}

cl_program CL_API_CALL wrap_clCreateProgramWithIL(cl_context context, const void *il, size_t bytes,
                                                  cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateProgramWithIL);
    return code != CL_SUCCESS ? wrapped_give_up(code, out)
                              : create_with_il(context, il, bytes, out);
}

static cl_program CL_API_CALL wrap_clCreateProgramWithILKHR(cl_context context, const void *il,
                                                            size_t bytes, cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateProgramWithILKHR);
    return code != CL_SUCCESS ? wrapped_give_up(code, out)
                              : create_with_il(context, il, bytes, out);
}

void *CL_API_CALL wrap_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                                const char *name)
{
    cl_api_clCreateProgramWithIL create = wrap_clCreateProgramWithILKHR;
    void *address = NULL;
    if (wrapped_begin(CALL_clGetExtensionFunctionAddressForPlatform) == CL_SUCCESS &&
        strcmp(name, "clCreateProgramWithILKHR") == 0 &&
        (wrapped_current->il == WRAPPED_IL_EXTENSION ||
         wrapped_real.clGetExtensionFunctionAddressForPlatform(platform, name) != NULL)) {
        memcpy(&address, &create, sizeof address);
    }
    return address;
}

cl_int CL_API_CALL wrap_clBuildProgram(cl_program program, cl_uint count,
                                       const cl_device_id *devices, const char *options,
                                       void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    char more[256];
    cl_int code = wrapped_begin(CALL_clBuildProgram);
    if (code != CL_SUCCESS) {
        return code;
    }
    snprintf(more, sizeof more, "%s %s%s", options != NULL ? options : "",
             wrapped_current->more_options != NULL ? wrapped_current->more_options : "",
             wrapped_is_translated(program) ? " -x spir -spir-std=1.2" : "");
    wrapped_is_building = true;
    code = wrapped_real.clBuildProgram(program, count, devices, more, notify, user);
    wrapped_is_building = false;
    return code;
}

cl_int CL_API_CALL wrap_clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                              cl_program_build_info info, size_t size, void *value,
                                              size_t *ret)
{
    cl_int code = wrapped_begin(CALL_clGetProgramBuildInfo);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (info == CL_PROGRAM_BUILD_LOG && wrapped_current->build_log != NULL) {
        size_t bytes = wrapped_current->build_log_bytes;
        bytes = bytes == 0 ? strlen(wrapped_current->build_log) + 1 : bytes;
        return wrapped_answer(wrapped_current->build_log, bytes, size, value, ret);
    }
    return wrapped_real.clGetProgramBuildInfo(program, device, info, size, value, ret);
}

cl_int CL_API_CALL wrap_clGetProgramInfo(cl_program program, cl_program_info info, size_t size,
                                         void *value, size_t *ret)
{
    cl_int code = wrapped_begin(CALL_clGetProgramInfo);
    return code != CL_SUCCESS ? code
                              : wrapped_real.clGetProgramInfo(program, info, size, value, ret);
}

cl_kernel CL_API_CALL wrap_clCreateKernel(cl_program program, const char *name, cl_int *out)
{
    cl_int code = wrapped_begin(CALL_clCreateKernel);
    if (code != CL_SUCCESS) {
        return wrapped_give_up(code, out);
    }
    wrapped_is_building = true;
    cl_kernel made = wrapped_real.clCreateKernel(program, name, out);
    wrapped_is_building = false;
    wrapped_add(WRAPPED_KERNEL, made, false, name);
    return made;
}
