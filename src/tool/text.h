// A text that grows, and what it takes to put any bytes into JSON or XML.
#ifndef KQ_TOOL_TEXT_H
#define KQ_TOOL_TEXT_H

#include "tool.h"

typedef struct text {
    char *bytes;  // the caller frees them; not terminated
    size_t count, capacity;
} text;

void text_add(text *text, const char *format, ...) TOOL_PRINTF(2, 3);
void text_add_bytes(text *text, const char *bytes, size_t count);

bool text_is_utf8(const char *string);

// A JSON string, with its quotes, which may also stand inside a script element of HTML and steers
// no terminal. Bytes that are no UTF-8 become U+FFFD.
void text_add_json(text *text, const char *string);

// The inside of an attribute or an element of XML. So do control characters that XML 1.0 can't
// have.
void text_add_xml(text *text, const char *string);

#endif
