// Quantizes and multiplies test vectors by whatever carries out an operation of the manifest, and
// compares every byte. Knows no API.
#ifndef OWN_TRIAL_H
#define OWN_TRIAL_H

#include "manifest.h"

enum { TRIAL_RANGES = 3 };

// What a binding is to hold before an operation, and where to what it holds after it.
typedef struct trial_range {
    const char *role;
    const void *in;  // NULL: bytes that no kernel writes
    void *out;       // NULL: nowhere
    size_t bytes;
} trial_range;

// Carries out an operation of the manifest, presets and scratch included, and waits.
typedef void (*trial_run)(void *user, const char *operation, const manifest_values *values,
                          const trial_range ranges[TRIAL_RANGES]);

// Tries the vectors of folders, prints what was wrong and how much was tried. Returns whether all
// was right.
bool trial_vectors(trial_run run, void *user, char *const folders[], int count);

#endif
