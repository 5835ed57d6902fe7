#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(text *text, size_t count)
{
    if (text->capacity - text->count < count) {
        uint64_t capacity = UINT64_C(2) * text->capacity + count + 4096;
        text->bytes = reallocate(text->bytes, capacity, 1);
        text->capacity = (size_t)capacity;
    }
    return text->bytes + text->count;
}

void text_add_bytes(text *text, const char *bytes, size_t count)
{
    if (count > 0) {
        memcpy(reserve(text, count), bytes, count);
        text->count += count;
    }
}

void text_add(text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int count = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    // vsnprintf ends what it writes with a 0, which is not counted.
    if (count > 0) {
        vsnprintf(reserve(text, (size_t)count + 1), (size_t)count + 1, format, again);
        text->count += (size_t)count;
    }
    va_end(again);
}

// The character that a string begins with, and its bytes; one byte and U+FFFD if it is no UTF-8.
static uint32_t decode(const char *string, size_t *bytes)
{
    const unsigned char *s = (const unsigned char *)string;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = s[0] < 0x80                   ? 1
                   : s[0] >= 0xC0 && s[0] < 0xE0 ? 2
                   : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                   : s[0] >= 0xF0 && s[0] < 0xF8 ? 4
                                                 : 0;
    uint32_t character = count <= 1 ? s[0] : s[0] & (0xFFu >> (count + 1));
    *bytes = 1;
    for (size_t i = 1; i < count; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0xFFFD;
        }
        character = character << 6 | (s[i] & 0x3F);
    }
    if (count == 0 || character < least[count] || character > 0x10FFFF ||
        (character >= 0xD800 && character < 0xE000)) {
        return 0xFFFD;
    }
    *bytes = count;
    return character;
}

// Characters that move the cursor, or what is written around them.
static bool is_steering(uint32_t c)
{
    return c < ' ' || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void print_text(FILE *file, const char *text)
{
    for (size_t bytes; *text != '\0'; text += bytes) {
        uint32_t c = decode(text, &bytes);
        if (bytes == 1 && (c == 0xFFFD || is_steering(c))) {
            fprintf(file, "\\x%02x", (unsigned)(unsigned char)*text);
        } else if (is_steering(c)) {
            fprintf(file, "\\u%04x", (unsigned)c);
        } else {
            fwrite(text, 1, bytes, file);
        }
    }
}

bool text_is_utf8(const char *string)
{
    bool is_good = true;
    for (size_t bytes; *string != '\0' && is_good; string += bytes) {
        decode(string, &bytes);
        is_good = bytes > 1 || (unsigned char)*string < 0x80;
    }
    return is_good;
}

void text_add_json(text *text, const char *string)
{
    text_add_bytes(text, "\"", 1);
    for (size_t bytes; *string != '\0'; string += bytes) {
        uint32_t c = decode(string, &bytes);
        if (c == '"' || c == '\\') {
            text_add(text, "\\%c", (int)c);
        } else if (c == '<' || c == 0xFFFD || is_steering(c)) {
            text_add(text, "\\u%04x", (unsigned)c);
        } else {
            text_add_bytes(text, string, bytes);
        }
    }
    text_add_bytes(text, "\"", 1);
}

void text_add_xml(text *text, const char *string)
{
    for (size_t bytes; *string != '\0'; string += bytes) {
        uint32_t c = decode(string, &bytes);
        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\t' || c == '\n' || c == '\r') {
            text_add(text, "&#%u;", (unsigned)c);
        } else if (c < ' ' || (c >= 0xFFFD && c <= 0xFFFF)) {
            text_add(text, "&#xFFFD;");
        } else {
            text_add_bytes(text, string, bytes);
        }
    }
}
