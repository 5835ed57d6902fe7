// What a system's part of the command gives to platform_lines.c, which makes lines of it.
#ifndef KQ_TOOL_PLATFORM_CHILD_H
#define KQ_TOOL_PLATFORM_CHILD_H

#include "platform.h"

typedef struct child_text {
    char *bytes;  // read, but not yet given out as lines
    size_t count, capacity, taken;
} child_text;

child_text *platform_child_text(platform_child *child);

// Whether there is something to read, or an end, as reading will show. False: it is `until`.
bool platform_is_readable(platform_child *child, double until);

// How many bytes came; 0: it is at its end.
size_t platform_read_some(platform_child *child, char *to, size_t bytes);

#endif
