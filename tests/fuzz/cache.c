// src/opencl_cache.c: a driver is given a binary only if it is, to the bit, one that was stored by
// that key. A driver of no more than two functions stands in; the place gives what it likes.
#include "fuzz.h"

#include "opencl_cache.h"

#include <stdlib.h>
#include <string.h>

typedef struct place {
    uint8_t *kept;  // what was stored
    size_t kept_bytes;
    const uint8_t *shown;  // what is loaded
    size_t first, second;  // bytes, as the first call says, and as the second does
    unsigned calls;
} place;

// What the stand-in has made a program of, or what it is asked for.
static const uint8_t *binary;
static size_t binary_bytes;
static unsigned made;
static const uint8_t *wanted;
static size_t wanted_bytes;

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info info, size_t bytes,
                                          void *value, size_t *size)
{
    static const char text[] = "stand-in";
    (void)device;
    (void)info;
    if (value != NULL && bytes >= sizeof text) {
        memcpy(value, text, sizeof text);
    }
    if (size != NULL) {
        *size = sizeof text;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_program_info(cl_program program, cl_program_info info, size_t bytes,
                                           void *value, size_t *size)
{
    (void)program;
    (void)bytes;
    (void)size;
    if (info == CL_PROGRAM_BINARY_SIZES) {
        memcpy(value, &binary_bytes, sizeof binary_bytes);
    } else {
        memcpy(*(unsigned char **)value, binary, binary_bytes);
    }
    return CL_SUCCESS;
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count,
                                             const cl_device_id *devices, const size_t *bytes,
                                             const unsigned char **binaries, cl_int *status,
                                             cl_int *code)
{
    (void)context;
    (void)devices;
    REQUIRE(count == 1 && bytes[0] == wanted_bytes);
    REQUIRE(memcmp(binaries[0], wanted, wanted_bytes) == 0);
    made++;
    *status = CL_SUCCESS;
    *code = CL_SUCCESS;
    return (cl_program)&made;
}

static kq_proc find(void *user, const char *name)
{
    (void)user;
    return strcmp(name, "clGetProgramInfo") == 0 ? (kq_proc)get_program_info
                                                 : (kq_proc)create_program;
}

static size_t load(void *user, const char *key, void *data, size_t capacity)
{
    place *p = user;
    (void)key;
    size_t bytes = p->calls++ == 0 ? p->first : p->second;
    if (data != NULL && bytes <= capacity) {
        memcpy(data, p->shown, bytes);
    }
    return bytes;
}

static void store(void *user, const char *key, const void *data, size_t bytes)
{
    place *p = user;
    REQUIRE(strlen(key) < KQ_CL_KEY_BYTES && p->kept == NULL);
    p->kept = malloc(bytes);
    REQUIRE(p->kept != NULL);
    memcpy(p->kept, data, bytes);
    p->kept_bytes = bytes;
}

static cl_program ask(const kq_cl_cache *cache, place *p, const char *key, const uint8_t *shown,
                      size_t first, size_t second)
{
    *p = (place){p->kept, p->kept_bytes, shown, first, second, 0};
    return kq_cl_cache_load(cache, key, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    place p = {0};
    const kq_lookup lookup = {.fn = find};
    const kq_cache functions = {load, store, &p};
    kq_cl_cache cache = kq_cl_cache_make(&functions, &lookup, get_device_info, NULL);
    REQUIRE(kq_cl_cache_is_there(&cache));
    fuzz_input in = {data, size};
    const uint64_t change = fuzz_number(&in, 3);
    char key[KQ_CL_KEY_BYTES], other[KQ_CL_KEY_BYTES];
    kq_cl_cache_key(&cache, "-cl-std=CL1.2", in.at, in.left, key);
    kq_cl_cache_key(&cache, "-cl-std=CL1.2 ", in.at, in.left, other);
    REQUIRE(strcmp(key, other) != 0);

    // The input as what a place holds: good only if its digest is.
    wanted = size > sizeof(uint64_t) ? data + sizeof(uint64_t) : data;
    wanted_bytes = size > sizeof(uint64_t) ? size - sizeof(uint64_t) : 0;
    ask(&cache, &p, key, data, size, size);

    // As a program that is stored, loaded, and loaded with a wrong bit, size or key.
    binary = in.at;
    binary_bytes = in.left;
    kq_cl_cache_store(&cache, key, NULL);
    REQUIRE((p.kept != NULL) == (binary_bytes > 0));
    if (p.kept != NULL) {
        wanted = binary;
        wanted_bytes = binary_bytes;
        made = 0;
        REQUIRE(ask(&cache, &p, key, p.kept, p.kept_bytes, p.kept_bytes) != NULL && made == 1);
        REQUIRE(ask(&cache, &p, other, p.kept, p.kept_bytes, p.kept_bytes) == NULL);
        const size_t less = (size_t)(change % p.kept_bytes);
        REQUIRE(ask(&cache, &p, key, p.kept, less, less) == NULL);
        REQUIRE(ask(&cache, &p, key, p.kept, less, p.kept_bytes) == NULL);
        REQUIRE(ask(&cache, &p, key, p.kept, p.kept_bytes, less) == NULL);
        p.kept[change / 8 % p.kept_bytes] ^= (uint8_t)(1u << change % 8);
        REQUIRE(ask(&cache, &p, key, p.kept, p.kept_bytes, p.kept_bytes) == NULL && made == 1);
    }
    free(p.kept);
    return 0;
}
