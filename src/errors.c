#include "errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

kq_result kq_fail(const kq_errors *errors, kq_result result, const char *format, ...)
{
    if (errors != NULL && errors->fn != NULL) {
        char reason[512];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
        for (char *c = reason; *c != '\0'; c++) {
            if (*c == '\n' || *c == '\r') {
                *c = ' ';
            }
        }
        errors->fn(errors->user, result, reason);
    }
    return result;
}

kq_result kq_check_host(const kq_errors *errors)
{
    const uint32_t one = 1;
    unsigned char first = 0;
    memcpy(&first, &one, sizeof first);
    return first == 1 ? KQ_OK
                      : kq_fail(errors, KQ_ERROR_UNSUPPORTED,
                                "this host is big-endian; records are little-endian, and kernels "
                                "take words and arguments in the host's order");
}

const char *kq_result_name(kq_result result)
{
    switch (result) {
    case KQ_OK: return "KQ_OK";
    case KQ_ERROR_ARGUMENT: return "KQ_ERROR_ARGUMENT";
    case KQ_ERROR_DOMAIN: return "KQ_ERROR_DOMAIN";
    case KQ_ERROR_UNSUPPORTED: return "KQ_ERROR_UNSUPPORTED";
    case KQ_ERROR_NO_DEVICE: return "KQ_ERROR_NO_DEVICE";
    case KQ_ERROR_MEMORY: return "KQ_ERROR_MEMORY";
    case KQ_ERROR_DRIVER: return "KQ_ERROR_DRIVER";
    }
    return "KQ_?";
}
