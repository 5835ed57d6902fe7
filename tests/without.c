// The kquant command, on devices that go without some variants of their kernels: those that
// KQ_TEST_WITHOUT names, "quantized_dot_terms_shared.aligned" or "*.cpu". The linker puts this in
// place of kq_device_create in an ordinary build of the command, whose children have the same
// environment.
#include "device.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

kq_result __wrap_kq_device_create(const kq_device_params *params, kq_device **device);

kq_result __wrap_kq_device_create(const kq_device_params *params, kq_device **device)
{
    const char *names = getenv("KQ_TEST_WITHOUT");
    uint32_t variants = 0;
    for (unsigned kernel = 0; names != NULL && kernel < KQ_KERNEL_COUNT; kernel++) {
        if (kq_kernel_is_variant(kernel) && fnmatch(names, kq_kernel_names[kernel], 0) == 0) {
            variants |= 1u << kernel;
        }
    }
    if (variants == 0) {
        fprintf(stderr, "KQ_TEST_WITHOUT names no variant\n");
        exit(EXIT_FAILURE);
    }
    return kq_device_create_without(params, variants, device);
}
