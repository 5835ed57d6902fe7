#include "opencl_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// FNV-1a of 64 bits, http://www.isthe.com/chongo/tech/comp/fnv/: it tells what is meant to be kept
// apart, not what is made to look alike.
#define DIGEST_START UINT64_C(0xCBF29CE484222325)

static uint64_t digest_more(uint64_t digest, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        digest = (digest ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001B3);
    }
    return digest;
}

kq_cl_cache kq_cl_cache_make(const kq_cache *place, const kq_lookup *lookup,
                             cl_api_clGetDeviceInfo get_device_info, cl_device_id device)
{
    static const cl_device_info infos[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                           CL_DRIVER_VERSION, CL_DEVICE_EXTENSIONS};
    kq_cl_cache cache = {.driver = DIGEST_START};
    if (place == NULL || place->load == NULL || place->store == NULL) {
        return cache;
    }
    cache.create =
        (cl_api_clCreateProgramWithBinary)lookup->fn(lookup->user, "clCreateProgramWithBinary");
    cache.get_info = (cl_api_clGetProgramInfo)lookup->fn(lookup->user, "clGetProgramInfo");
    if (cache.create == NULL || cache.get_info == NULL) {
        return cache;
    }
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++) {
        char *text = NULL;
        if (kq_cl_device_text(get_device_info, device, infos[i], &text) != CL_SUCCESS) {
            return cache;  // nobody knows whose programs these would be
        }
        cache.driver = digest_more(cache.driver, text, strlen(text) + 1);
        free(text);
    }
    cache.place = *place;
    return cache;
}

bool kq_cl_cache_is_there(const kq_cl_cache *cache)
{
    return cache->place.load != NULL;
}

const char *kq_cl_cache_key(const kq_cl_cache *cache, const char *options, const void *code,
                            size_t bytes, char key[KQ_CL_KEY_BYTES])
{
    uint64_t digest = digest_more(DIGEST_START, options, strlen(options) + 1);
    digest = digest_more(digest, code, bytes);
    snprintf(key, KQ_CL_KEY_BYTES, "kquant-%d.%d.%d-%016" PRIx64 "-%016" PRIx64, KQ_VERSION_MAJOR,
             KQ_VERSION_MINOR, KQ_VERSION_PATCH, cache->driver, digest);
    return key;
}

// What is kept begins with a digest of the key and of the driver's binary behind it: there are
// drivers that abort at a binary which was cut off, or run one with a wrong bit.
static uint64_t digest_kept(const char *key, const unsigned char *binary, size_t bytes)
{
    return digest_more(digest_more(DIGEST_START, key, strlen(key) + 1), binary, bytes);
}

cl_program kq_cl_cache_load(const kq_cl_cache *cache, const char *key, cl_context context,
                            cl_device_id device)
{
    cl_int code = CL_SUCCESS;
    cl_int status = CL_SUCCESS;
    cl_program program = NULL;
    uint64_t digest = 0;
    size_t bytes = cache->place.load(cache->place.user, key, NULL, 0);
    unsigned char *kept = bytes > sizeof digest ? malloc(bytes) : NULL;
    if (kept == NULL || cache->place.load(cache->place.user, key, kept, bytes) != bytes) {
        goto done;
    }
    const unsigned char *binary = kept + sizeof digest;
    bytes -= sizeof digest;
    memcpy(&digest, kept, sizeof digest);
    if (digest == digest_kept(key, binary, bytes)) {
        program = cache->create(context, 1, &device, &bytes, &binary, &status, &code);
    }
done:
    free(kept);
    return code == CL_SUCCESS && status == CL_SUCCESS ? program : NULL;
}

void kq_cl_cache_store(const kq_cl_cache *cache, const char *key, cl_program program)
{
    uint64_t digest = 0;
    size_t bytes = 0;
    if (cache->get_info(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0 || bytes > SIZE_MAX - sizeof digest) {
        return;
    }
    unsigned char *kept = malloc(sizeof digest + bytes);
    if (kept == NULL) {
        return;
    }
    unsigned char *binary = kept + sizeof digest;
    if (cache->get_info(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS) {
        digest = digest_kept(key, binary, bytes);
        memcpy(kept, &digest, sizeof digest);
        cache->place.store(cache->place.user, key, kept, sizeof digest + bytes);
    }
    free(kept);
}
