// An operation of level 3 beside the same on the reference. Failures are cmocka's.
#ifndef KQ_PROPERTY_CHECK_H
#define KQ_PROPERTY_CHECK_H

#include "property.h"

// What the query says.
kq_needs property_ask(kq_device *device, const drawn *d);

// Runs the operation: result, domain and every byte of every buffer must be the reference's, inputs
// as they were, and the wrapper must have counted what the query said. Returns the bytes of the
// buffer that holds the output, to be freed.
unsigned char *property_run(kq_device *device, const drawn *d, kq_needs *needs);

#endif
