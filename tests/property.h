// What the property test asks of each API: devices of the library on the wrapped driver, what the
// wrapper counted, and dots cut by hand at level 2. Failures are cmocka's.
#ifndef KQ_PROPERTY_H
#define KQ_PROPERTY_H

#include "property_draw.h"

#include "device.h"

#include <stdbool.h>

// The devices differ in the limits they show: the driver's own; every limit lowered as far as can
// be; 65,535 workgroups; one that has an instruction for packed dots, if the driver has it at all;
// and others between.
enum { DEVICE_OWN, DEVICE_LOWEST, DEVICE_GROUPS, DEVICE_PACKED = 5, DEVICE_COUNT };

typedef struct property_counts {
    uint64_t submissions;
    uint64_t dispatches;
    uint64_t staged_bytes;
    bool is_stepwise;  // dispatches of long dots are submissions of their own
} property_counts;

// From one record of a view to the next.
uint64_t property_stride(const kq_view *view, uint64_t size);

bool property_is_possible(void);

// Whether the library has variants of kernels for this API.
bool property_has_variants(void);

// The device of that number, opened when first asked for. The last one asked for is the one to be
// used and counted.
kq_device *property_device(unsigned number, report *report);
void property_reset(void);
property_counts property_count(void);

// No rule of the API may have been broken.
void property_check(void);

// Runs a dot at level 2, part by part, with not a byte of scratch to spare, and checks every byte
// of its operands.
void property_run_parts(const drawn *d, const uint32_t *sizes, uint32_t count);

// Closes what was opened; nothing may be left.
void property_close(void);

#endif
