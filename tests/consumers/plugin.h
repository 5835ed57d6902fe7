// What plugin.c exports.
#ifndef CONSUMERS_PLUGIN_H
#define CONSUMERS_PLUGIN_H

#include <kquant/kquant.h>

uint32_t plugin_dot(const char *device);
const kq_kernel *plugin_kernels(void);

#endif
