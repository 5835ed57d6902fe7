// The definition, in portable C: what every device must give. Shapes have been checked; pointers
// are to the first byte of an operand's buffer.
#ifndef KQ_REFERENCE_H
#define KQ_REFERENCE_H

#include "shape.h"

void kq_reference_quantize(const kq_shape *shape, const unsigned char *values,
                           unsigned char *records, kq_status *status);

void kq_reference_dot(const kq_shape *shape, kq_order order, const unsigned char *lhs,
                      const unsigned char *rhs, unsigned char *result);

#endif
