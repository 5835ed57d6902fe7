// A script of all calls of level 3 but the one that opens a device, small, yet cut into many
// submissions, with operands that are staged; and what the reference makes of it.
#ifndef KQ_FAULTS_WORK_H
#define KQ_FAULTS_WORK_H

#include "support.h"

#include <kquant/kquant.h>

enum {
    WORK_G = 10,        // blocks, and records of short dots
    WORK_DOTS = 12,     // of these
    WORK_LONG_G = 140,  // of a dot that is cut along them
    WORK_LHS = 140,
    WORK_RESULTS = WORK_DOTS * 2 + 2,
    WORK_HOST_DOTS = 6,
    WORK_ITEMS = 3,
    WORK_BANDWIDTH = 16384,
    WORK_OF_DEVICE = 64,   // kq_device_params.work
    WORK_SEGMENT = 65536,  // to be shown as the most of an allocation: values lie in two
    WORK_VALUES_AT = WORK_SEGMENT - 2500,
    WORK_RESULTS_AT = WORK_SEGMENT - 4 * WORK_DOTS - 2,  // one dot's lies in two
};

// What the host gets, first poisoned.
typedef struct work_outputs {
    unsigned char records[WORK_G * KQ_Q8_K_BYTES];
    unsigned char results[WORK_RESULTS * 4];
    unsigned char host_records[WORK_G * KQ_Q8_K_BYTES];
    unsigned char host_results[WORK_HOST_DOTS * 4];
    unsigned char recorded_records[WORK_G * KQ_Q8_K_BYTES];
    unsigned char recorded_results[WORK_DOTS * 4];
    uint32_t items[WORK_ITEMS * 4];
    unsigned char copied[WORK_BANDWIDTH], read[WORK_BANDWIDTH / 64];
} work_outputs;

typedef struct work {
    unsigned char values[WORK_G * KQ_BLOCK_BYTES];
    unsigned char lhs[WORK_LHS * KQ_Q4_K_BYTES];
    unsigned char rhs[WORK_LONG_G * KQ_Q8_K_BYTES];
    work_outputs expected, got;
} work;

void work_prepare(work *w);

// Does all of it on the device, up to the first call that fails, whose name goes to *call. Nothing
// is left but the device. A host result that is not KQ_OK leaves got with poison or what is
// expected in every byte.
kq_result work_run(work *w, kq_device *device, const char **call);

// Whether all that the host got is right; and whether it is right or was never written.
bool work_is_right(const work *w);
bool work_is_right_or_poison(const work *w);

#endif
