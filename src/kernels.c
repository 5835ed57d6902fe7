#include "kernels.h"

#include <string.h>

const kq_kernel *kq_kernels(size_t *count)
{
    *count = kq_kernel_table_count;
    return kq_kernel_table;
}

const kq_kernel *kq_find_kernel(kq_api api, const char *stem, uint32_t address_bits)
{
    size_t length = strlen(stem);
    for (size_t i = 0; i < kq_kernel_table_count; i++) {
        const kq_kernel *kernel = &kq_kernel_table[i];
        if (kernel->api == api && kernel->address_bits == address_bits &&
            strncmp(kernel->name, stem, length) == 0 &&
            strcmp(kernel->name + length, ".base") == 0) {
            return kernel;
        }
    }
    return NULL;
}
