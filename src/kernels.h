// The generated table of kernels.
#ifndef KQ_KERNELS_H
#define KQ_KERNELS_H

#include <kquant/kquant.h>

extern const kq_kernel kq_kernel_table[];
extern const size_t kq_kernel_table_count;

// The kernel of that name, or NULL.
const kq_kernel *kq_find_kernel(kq_api api, const char *name, uint32_t address_bits);

#endif
