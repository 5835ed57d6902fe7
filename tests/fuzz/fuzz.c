#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_require(bool holds, const char *what, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
        abort();
    }
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    REQUIRE(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

static size_t digits_for(char c)
{
    return c == '~' ? 2048 : c == '^' ? 584 : c == '%' ? 288 : 0;
}

char *fuzz_vectors(const uint8_t *data, size_t size, size_t *count)
{
    enum { MOST = 6 };
    char *text = malloc(size + MOST * 2048 + 1);
    unsigned stood = 0;
    REQUIRE(text != NULL);
    *count = 0;
    for (size_t i = 0; i < size; i++) {
        size_t digits = stood < MOST ? digits_for((char)data[i]) : 0;
        stood += digits > 0;
        for (size_t k = 0; k < digits; k++) {
            text[(*count)++] = "0123456789abcdef"[(k * (k + 3) / 2) % 16];
        }
        if (digits == 0) {
            text[(*count)++] = (char)data[i];
        }
    }
    // No byte more than there are, so that reading past the end is noticed.
    void *whole = realloc(text, *count > 0 ? *count : 1);
    REQUIRE(whole != NULL);
    return whole;
}

uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

uint64_t fuzz_number(fuzz_input *in, unsigned bytes)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        number |= (uint64_t)fuzz_byte(in) << 8 * i;
    }
    return number;
}
