// The kquant command, on devices that go without a variant of their kernels: the one that
// KQ_TEST_WITHOUT names, "quantized_dot_terms_shared.aligned". The linker puts this in place of
// kq_device_create in an ordinary build of the command, whose children have the same environment.
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kq_result __wrap_kq_device_create(const kq_device_params *params, kq_device **device);

kq_result __wrap_kq_device_create(const kq_device_params *params, kq_device **device)
{
    const char *name = getenv("KQ_TEST_WITHOUT");
    for (unsigned kernel = 0; name != NULL && kernel < KQ_KERNEL_COUNT; kernel++) {
        if (kq_kernel_is_variant(kernel) && strcmp(kq_kernel_names[kernel], name) == 0) {
            return kq_device_create_without(params, 1u << kernel, device);
        }
    }
    fprintf(stderr, "KQ_TEST_WITHOUT names no variant\n");
    exit(EXIT_FAILURE);
}
