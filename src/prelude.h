// The C prelude of exact.h and records.h: types and qualifiers, nothing else. Installed
// beside them in include/kquant/device; prelude.glsl and prelude.cl are its counterparts.
#ifndef KQ_PRELUDE_H
#define KQ_PRELUDE_H

#include <stdint.h>

typedef uint32_t u32;

#define KQ_FN static inline
#define KQ_IN

#endif
