#include "tool.h"
#include "platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int worst_exit(int a, int b)
{
    static const int order[] = {EXIT_FAILED, EXIT_USAGE, EXIT_UNDECIDED, EXIT_NOTHING};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (a == order[i] || b == order[i]) {
            return order[i];
        }
    }
    return EXIT_DONE;
}

void complain(const char *format, ...)
{
    // Two paths and more; on the stack, for memory may be what there is none of.
    char text[16384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "kquant: ");
    print_text(stderr, text);
    fprintf(stderr, "\n");
}

void *reallocate(void *memory, uint64_t count, size_t size)
{
    bool is_reachable = size == 0 || count <= SIZE_MAX / size;
    size_t bytes = is_reachable ? (size_t)count * size : 0;
    void *moved = is_reachable ? realloc(memory, bytes == 0 ? 1 : bytes) : NULL;
    if (moved == NULL) {
        complain("out of memory: %" PRIu64 " times %zu bytes", count, size);
        exit(EXIT_UNDECIDED);
    }
    return moved;
}

void *allocate(uint64_t count, size_t size)
{
    void *memory = reallocate(NULL, count, size);
    memset(memory, 0, (size_t)count * size);
    return memory;
}

char *copy_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(allocate(bytes, 1), text, bytes);
}

static void find_home(void *user, const char *variable)
{
    char **home = user;
    size_t skip = strncmp(variable, "HOME=/", 6) == 0 && variable[6] != '\0' ? 5
                  : strncmp(variable, "USERPROFILE=", 12) == 0               ? 12
                                                                             : 0;
    if (skip > 0 && *home == NULL) {
        *home = copy_text(variable + skip);
    }
}

char *copy_without_home(const char *text)
{
    char *home = NULL;
    platform_list_environment(find_home, &home);
    size_t length = home != NULL ? strlen(home) : 0;
    char *copy = allocate(strlen(text) + 1, 1);
    size_t count = 0;
    for (const char *at = text; *at != '\0';) {
        bool begins = at == text || strchr(":;, =", at[-1]) != NULL;
        if (length > 0 && begins && strncmp(at, home, length) == 0 &&
            strchr("/\\:;, ", at[length]) != NULL) {
            copy[count++] = '~';
            at += length;
        } else {
            copy[count++] = *at++;
        }
    }
    free(home);
    return copy;
}

kq_device_info *list_devices(uint32_t *count)
{
    // Listing opens the drivers, which takes a while: a second time only if there are many devices.
    uint32_t capacity = 32;
    for (;;) {
        kq_device_info *infos = allocate(capacity, sizeof *infos);
        *count = capacity;
        kq_result result = kq_list_devices(NULL, infos, count);
        if (result == KQ_OK && *count <= capacity) {
            return infos;
        }
        free(infos);
        if (result != KQ_OK) {
            complain("the devices can't be listed: %s", kq_result_name(result));
            return NULL;
        }
        capacity = *count;
    }
}

const char *api_name(kq_api api)
{
    return api == KQ_API_VULKAN ? "vulkan" : api == KQ_API_OPENCL ? "opencl" : "reference";
}

const char *device_kind(const kq_device_info *info)
{
    if (info->api == KQ_API_REFERENCE) {
        return "reference";
    }
    return info->is_software ? "cpu" : info->is_discrete ? "discrete" : "integrated";
}

bool parse_number(const char *text, uint64_t max, uint64_t *number)
{
    unsigned base = 10;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    if (text[0] == '\0') {
        return false;
    }
    uint64_t value = 0;
    for (; *text != '\0'; text++) {
        unsigned digit;
        if (*text >= '0' && *text <= '9') {
            digit = (unsigned)(*text - '0');
        } else if (*text >= 'a' && *text <= 'f') {
            digit = (unsigned)(*text - 'a') + 10;
        } else if (*text >= 'A' && *text <= 'F') {
            digit = (unsigned)(*text - 'A') + 10;
        } else {
            return false;
        }
        if (digit >= base || value > (UINT64_MAX - digit) / base) {
            return false;
        }
        value = value * base + digit;
    }
    *number = value;
    return value <= max;
}

bool matches(const char *pattern, const char *text)
{
    const char *star = NULL;  // the last * met, and the text it has not eaten yet
    const char *rest = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            rest = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++rest;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}
