#include "platform_child.h"

#include <stdlib.h>
#include <string.h>

child_line platform_read_line(platform_child *child, double until, char **line)
{
    child_text *text = platform_child_text(child);
    for (;;) {
        char *begin = text->bytes + text->taken;
        char *end =
            text->taken < text->count ? memchr(begin, '\n', text->count - text->taken) : NULL;
        if (end != NULL) {
            *end = '\0';
            *line = begin;
            text->taken += (size_t)(end - begin) + 1;
            return CHILD_LINE;
        }
        if (text->taken > 0) {
            text->count -= text->taken;
            memmove(text->bytes, begin, text->count);
            text->taken = 0;
        }
        if (text->count == text->capacity) {
            size_t capacity = text->capacity == 0 ? 4096 : 2 * text->capacity;
            char *bytes = realloc(text->bytes, capacity);
            if (bytes == NULL) {
                return CHILD_END;
            }
            text->bytes = bytes;
            text->capacity = capacity;
        }
        if (!platform_is_readable(child, until)) {
            return CHILD_LATE;
        }
        size_t got =
            platform_read_some(child, text->bytes + text->count, text->capacity - text->count);
        if (got == 0) {
            return CHILD_END;  // half a line at the end is none
        }
        text->count += got;
    }
}
