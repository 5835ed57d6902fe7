// What OpenCL compilers made, in memory, for all packs and devices.
#include "soak.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_CAPACITY = 32 };

static struct {
    pthread_mutex_t mutex;
    struct {
        char key[64];
        void *data;
        size_t bytes;
    } entries[CACHE_CAPACITY];
    unsigned count;
} cache = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static size_t cache_load(void *user, const char *key, void *data, size_t capacity)
{
    (void)user;
    size_t bytes = 0;
    pthread_mutex_lock(&cache.mutex);
    for (unsigned i = 0; i < cache.count; i++) {
        if (strcmp(cache.entries[i].key, key) == 0) {
            bytes = cache.entries[i].bytes;
            if (bytes <= capacity) {
                memcpy(data, cache.entries[i].data, bytes);
            }
        }
    }
    pthread_mutex_unlock(&cache.mutex);
    return bytes;
}

static void cache_store(void *user, const char *key, const void *data, size_t bytes)
{
    (void)user;
    pthread_mutex_lock(&cache.mutex);
    bool is_new = cache.count < CACHE_CAPACITY;
    for (unsigned i = 0; i < cache.count; i++) {
        is_new = is_new && strcmp(cache.entries[i].key, key) != 0;
    }
    void *copy = is_new ? malloc(bytes) : NULL;
    if (copy != NULL) {
        memcpy(copy, data, bytes);
        snprintf(cache.entries[cache.count].key, sizeof cache.entries[0].key, "%s", key);
        cache.entries[cache.count].data = copy;
        cache.entries[cache.count++].bytes = bytes;
    }
    pthread_mutex_unlock(&cache.mutex);
}

const kq_cache *soak_cache(void)
{
    static const kq_cache functions = {cache_load, cache_store, NULL};
    return &functions;
}

void soak_cache_free(void)
{
    for (unsigned i = 0; i < cache.count; i++) {
        free(cache.entries[i].data);
    }
    cache.count = 0;
}
