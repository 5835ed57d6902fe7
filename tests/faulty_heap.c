#include "faulty_heap.h"

#include <stdbool.h>

faulty_heap heap;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);
void *own_malloc(size_t bytes);
void *own_calloc(size_t count, size_t bytes);
void *own_realloc(void *memory, size_t bytes);
void own_free(void *memory);

void faulty_heap_set(unsigned number)
{
    heap.calls = 0;
    heap.number = number;
    heap.failed = 0;
}

static bool fails(void)
{
    bool is_it = ++heap.calls == heap.number;
    heap.failed += is_it;
    return is_it;
}

static void *count(void *memory)
{
    heap.live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    heap.last_calloc_bytes = number * bytes;
    return fails() ? NULL : count(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (fails()) {
        return NULL;
    }
    void *moved = __real_realloc(memory, bytes);
    return memory == NULL ? count(moved) : moved;
}

void __wrap_free(void *memory)
{
    heap.live -= memory != NULL;
    __real_free(memory);
}

void *own_malloc(size_t bytes)
{
    return __real_malloc(bytes);
}

void *own_calloc(size_t number, size_t bytes)
{
    return __real_calloc(number, bytes);
}

void *own_realloc(void *memory, size_t bytes)
{
    return __real_realloc(memory, bytes);
}

void own_free(void *memory)
{
    __real_free(memory);
}
