// How a call fails: one result code, one line of reason through the caller's callback.
#ifndef KQ_ERRORS_H
#define KQ_ERRORS_H

#include <kquant/kquant.h>

#if defined(__MINGW32__)  // whose stdio is C11's, unlike the system's own
# define KQ_PRINTF(text, first) __attribute__((__format__(__gnu_printf__, text, first)))
#elif defined(__GNUC__)
# define KQ_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
# define KQ_PRINTF(text, first)
#endif

// Calls errors->fn, if there is one, and returns result, so that a caller can return it in turn.
kq_result kq_fail(const kq_errors *errors, kq_result result, const char *format, ...)
    KQ_PRINTF(3, 4);

// Whether kernels see records as this host does: on a big-endian one neither Vulkan's words, which
// are in the host's order, nor OpenCL's arguments, which are copied, are what the kernels take them
// for.
kq_result kq_check_host(const kq_errors *errors);

#endif
