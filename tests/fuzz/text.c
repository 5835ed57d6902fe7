// src/tool/text.c and copy_without_home, which are given what drivers and files say. Any bytes
// become a JSON string that reads as the same bytes where they are UTF-8, and XML without markup.
#ifndef _POSIX_C_SOURCE
# define _POSIX_C_SOURCE 200809L
#endif

#include "fuzz.h"

#include "text.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

// By RFC 3629's table.
static bool is_utf8(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        unsigned more = *s < 0x80                 ? 0
                        : *s >= 0xC2 && *s < 0xE0 ? 1
                        : *s >= 0xE0 && *s < 0xF0 ? 2
                        : *s >= 0xF0 && *s < 0xF5 ? 3
                                                  : 4;
        unsigned char least = *s == 0xE0 ? 0xA0 : *s == 0xF0 ? 0x90 : 0x80;
        unsigned char most = *s == 0xED ? 0x9F : *s == 0xF4 ? 0x8F : 0xBF;
        if (more == 4 || (more > 0 && (s[1] < least || s[1] > most))) {
            return false;
        }
        for (unsigned k = 2; k <= more; k++) {
            if ((s[k] & 0xC0) != 0x80) {
                return false;
            }
        }
        s += more + 1;
    }
    return true;
}

static void check_json(const char *string)
{
    text out = {0};
    text_add_json(&out, string);
    for (size_t k = 0; k < out.count; k++) {
        REQUIRE((unsigned char)out.bytes[k] >= ' ' && out.bytes[k] != 0x7F && out.bytes[k] != '<');
        // U+0080 to U+009F
        REQUIRE(k + 1 == out.count || (unsigned char)out.bytes[k] != 0xC2 ||
                (unsigned char)out.bytes[k + 1] >= 0xA0);
    }
    cJSON *value = cJSON_ParseWithLength(out.bytes, out.count);
    REQUIRE(cJSON_IsString(value) && is_utf8(value->valuestring));
    REQUIRE(text_is_utf8(string) == is_utf8(string));
    REQUIRE(!is_utf8(string) || strcmp(value->valuestring, string) == 0);
    cJSON_Delete(value);
    free(out.bytes);
}

static void check_xml(const char *string)
{
    text out = {0};
    text_add_xml(&out, string);
    text_add_bytes(&out, "", 1);
    REQUIRE(is_utf8(out.bytes));
    for (const char *c = out.bytes; *c != '\0'; c++) {
        REQUIRE((unsigned char)*c >= ' ' && *c != '<' && *c != '>' && *c != '"');
        if (*c == '&') {
            REQUIRE(c[1] == '#' && c[2 + strspn(c + 2, "0123456789xABCDEF")] == ';');
        }
    }
    free(out.bytes);
}

// The corpus knows this home, whoever runs it.
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("HOME", "/home/you", 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *string = fuzz_text(data, size);
    check_json(string);
    check_xml(string);
    char *shown = copy_without_home(string);
    REQUIRE(strlen(shown) <= strlen(string));
    REQUIRE(strncmp(shown, "/home/you/", 10) != 0);
    free(shown);
    free(string);
    return 0;
}
