#include "kernels.h"

#include <string.h>

const kq_kernel *kq_kernels(size_t *count)
{
    *count = kq_kernel_table_count;
    return kq_kernel_table;
}

const kq_kernel *kq_find_kernel(kq_api api, const char *name, uint32_t address_bits)
{
    for (size_t i = 0; i < kq_kernel_table_count; i++) {
        const kq_kernel *kernel = &kq_kernel_table[i];
        if (kernel->api == api && kernel->address_bits == address_bits &&
            strcmp(kernel->name, name) == 0) {
            return kernel;
        }
    }
    return NULL;
}
