#include "opencl_functions.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *code_name(cl_int code)
{
#define NAME(code)                                                                                 \
 case code: return #code;
    switch (code) {
    case CL_SUCCESS:
        return "CL_SUCCESS, but no object";
        NAME(CL_DEVICE_NOT_FOUND)
        NAME(CL_DEVICE_NOT_AVAILABLE)
        NAME(CL_COMPILER_NOT_AVAILABLE)
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        NAME(CL_OUT_OF_RESOURCES)
        NAME(CL_OUT_OF_HOST_MEMORY)
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE)
        NAME(CL_MEM_COPY_OVERLAP)
        NAME(CL_BUILD_PROGRAM_FAILURE)
        NAME(CL_MAP_FAILURE)
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        NAME(CL_COMPILE_PROGRAM_FAILURE)
        NAME(CL_LINKER_NOT_AVAILABLE)
        NAME(CL_LINK_PROGRAM_FAILURE)
        NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)
        NAME(CL_INVALID_VALUE)
        NAME(CL_INVALID_DEVICE_TYPE)
        NAME(CL_INVALID_PLATFORM)
        NAME(CL_INVALID_DEVICE)
        NAME(CL_INVALID_CONTEXT)
        NAME(CL_INVALID_QUEUE_PROPERTIES)
        NAME(CL_INVALID_COMMAND_QUEUE)
        NAME(CL_INVALID_HOST_PTR)
        NAME(CL_INVALID_MEM_OBJECT)
        NAME(CL_INVALID_BINARY)
        NAME(CL_INVALID_BUILD_OPTIONS)
        NAME(CL_INVALID_PROGRAM)
        NAME(CL_INVALID_PROGRAM_EXECUTABLE)
        NAME(CL_INVALID_KERNEL_NAME)
        NAME(CL_INVALID_KERNEL_DEFINITION)
        NAME(CL_INVALID_KERNEL)
        NAME(CL_INVALID_ARG_INDEX)
        NAME(CL_INVALID_ARG_VALUE)
        NAME(CL_INVALID_ARG_SIZE)
        NAME(CL_INVALID_KERNEL_ARGS)
        NAME(CL_INVALID_WORK_DIMENSION)
        NAME(CL_INVALID_WORK_GROUP_SIZE)
        NAME(CL_INVALID_WORK_ITEM_SIZE)
        NAME(CL_INVALID_GLOBAL_OFFSET)
        NAME(CL_INVALID_EVENT_WAIT_LIST)
        NAME(CL_INVALID_EVENT)
        NAME(CL_INVALID_OPERATION)
        NAME(CL_INVALID_BUFFER_SIZE)
        NAME(CL_INVALID_GLOBAL_WORK_SIZE)
        NAME(CL_INVALID_PROPERTY)
        NAME(CL_INVALID_COMPILER_OPTIONS)
        NAME(CL_INVALID_LINKER_OPTIONS)
    default: return "an unknown code";
    }
#undef NAME
}

kq_result kq_cl_fail(const kq_errors *errors, const char *call, cl_int code)
{
    kq_result result = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE
                           ? KQ_ERROR_MEMORY
                           : KQ_ERROR_DRIVER;
    return kq_fail(errors, result, "%s gave %s (%d)", call, code_name(code), (int)code);
}

kq_result kq_cl_fail_lookup(const kq_errors *errors, const char *name)
{
    return kq_fail(errors, KQ_ERROR_ARGUMENT, "lookup.fn finds no %s", name);
}

cl_int kq_cl_device_text(cl_api_clGetDeviceInfo get, cl_device_id device, cl_device_info info,
                         char **text)
{
    size_t bytes = 0;
    *text = NULL;
    cl_int code = get(device, info, 0, NULL, &bytes);
    if (code != CL_SUCCESS) {
        return code;
    }
    char *made = bytes < SIZE_MAX ? calloc(1, bytes + 1) : NULL;
    if (made == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (bytes > 0) {
        code = get(device, info, bytes, made, NULL);
    }
    if (code != CL_SUCCESS) {
        free(made);
        return code;
    }
    *text = made;
    return CL_SUCCESS;
}

int kq_cl_has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}
