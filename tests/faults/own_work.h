// Work that takes every call of level 3, in short parts that any device does: what is to hold where
// a driver's calls fail.
#ifndef KQ_OWN_WORK_H
#define KQ_OWN_WORK_H

#include <kquant/kquant.h>

#include <stdbool.h>
#include <stddef.h>

enum { OWN_WORK_BYTES = 16384 };

typedef struct own_work {
    const char *name;
    // Creates what it takes on the device, carries out operations, leaves their outputs in out, of
    // OWN_WORK_BYTES, and destroys all. Inputs are drawn by the seed. The first result that isn't
    // KQ_OK, or that.
    kq_result (*run)(kq_device *device, uint64_t seed, unsigned char *out);
    bool is_cut;  // of interest where an allocation has OWN_WORK_SEGMENT bytes
} own_work;

enum { OWN_WORK_SEGMENT = 8192 };

extern const own_work own_works[];
extern const size_t own_work_count;

#endif
