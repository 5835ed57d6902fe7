// Operations at the limits of devices, beside what they give alone. Failures are cmocka's.
#ifndef KQ_PROPERTY_LIMITS_H
#define KQ_PROPERTY_LIMITS_H

#include "property_check.h"

// All vectors under the lowest limits at once.
void property_test_vectors(const vectors *vectors, bool is_quick);

// More dots than workgroups: each as alone.
void property_test_dot_counts(bool is_quick);

// Dots longer than 16 bits count, cut and uncut.
void property_test_long_dots(bool is_quick);

#endif
