// The C prelude of exact.h and records.h: types and function qualifiers, nothing else.
// shaders/prelude.glsl and cl/prelude.cl are its counterparts.
#ifndef KQ_PRELUDE_H
#define KQ_PRELUDE_H

#include <stdint.h>

typedef uint32_t u32;

#define KQ_FN static inline

#endif
