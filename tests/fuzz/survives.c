// In place of functions of the C library, by the linker's --wrap: while fuzz_survives runs, exit
// returns there, files are the input, memory is counted, and what is printed is not.
#define _POSIX_C_SOURCE 200809L  // fmemopen

#include "fuzz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
_Noreturn void __real_exit(int code);
FILE *__real_fopen(const char *path, const char *mode);
int __real_fclose(FILE *file);

void *__wrap_malloc(size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);
_Noreturn void __wrap_exit(int code);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
int __wrap_fclose(FILE *file);
int __wrap_fprintf(FILE *file, const char *format, ...);

// No input has reason to ask for more at once.
enum { MOST_BYTES = 4 << 20, MOST_BLOCKS = 4096 };

static bool is_running;
static jmp_buf ended;
static void *blocks[MOST_BLOCKS];
static size_t block_count;
static FILE *opened;
static const char *content_name;
static const uint8_t *content;
static size_t content_bytes;

static size_t index_of(const void *memory)
{
    size_t i = block_count;
    while (i > 0 && blocks[i - 1] != memory) {
        i--;
    }
    REQUIRE(i > 0);  // it is ours, and hasn't been freed
    return i - 1;
}

void *__wrap_malloc(size_t bytes)
{
    if (!is_running) {
        return __real_malloc(bytes);
    }
    if (bytes > MOST_BYTES || block_count == MOST_BLOCKS) {
        return NULL;
    }
    void *memory = __real_malloc(bytes);
    blocks[block_count++] = memory;
    return memory;
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (!is_running) {
        return __real_realloc(memory, bytes);
    }
    if (memory == NULL || bytes > MOST_BYTES) {
        return memory == NULL ? __wrap_malloc(bytes) : NULL;
    }
    size_t i = index_of(memory);
    blocks[i] = __real_realloc(memory, bytes);
    return blocks[i];
}

void __wrap_free(void *memory)
{
    if (is_running && memory != NULL) {
        blocks[index_of(memory)] = blocks[block_count - 1];
        block_count--;
    }
    __real_free(memory);
}

_Noreturn void __wrap_exit(int code)
{
    if (is_running) {
        longjmp(ended, 1);
    }
    __real_exit(code);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!is_running) {
        return __real_fopen(path, mode);
    }
    REQUIRE(opened == NULL);
    const char *name = strrchr(path, '/');
    REQUIRE(name != NULL);
    size_t bytes = strcmp(name + 1, content_name) == 0 ? content_bytes : 0;
    opened = fmemopen((void *)content, bytes, "rb");
    return opened;
}

// What large files make of it in 32-bit programs, and Meson everywhere.
FILE *__wrap_fopen64(const char *path, const char *mode)
{
    return __wrap_fopen(path, mode);
}

int __wrap_fclose(FILE *file)
{
    opened = file == opened ? NULL : opened;
    return __real_fclose(file);
}

int __wrap_fprintf(FILE *file, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int count = is_running ? vsnprintf(text, sizeof text, format, arguments)
                           : vfprintf(file, format, arguments);
    va_end(arguments);
    if (is_running)
        fputs(text, stderr);
    return count;
}

bool fuzz_survives(void (*fn)(void *user), void *user, const char *name, const uint8_t *data,
                   size_t size)
{
    content_name = name;
    content = data;
    content_bytes = size;
    is_running = true;
    bool survives = setjmp(ended) == 0;
    if (survives) {
        fn(user);
        REQUIRE(opened == NULL && block_count == 0);
    }
    is_running = false;
    if (opened != NULL) {
        __real_fclose(opened);
        opened = NULL;
    }
    while (block_count > 0) {
        __real_free(blocks[--block_count]);
    }
    return survives;
}
