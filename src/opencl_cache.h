// Programs that a caller keeps, as the driver's binaries.
#ifndef KQ_OPENCL_CACHE_H
#define KQ_OPENCL_CACHE_H

#include "opencl_functions.h"

typedef struct kq_cl_cache {
    kq_cache place;   // without functions: nothing is kept
    uint64_t driver;  // a digest of what compiles
    cl_api_clCreateProgramWithBinary create;
    cl_api_clGetProgramInfo get_info;
} kq_cl_cache;

enum { KQ_CL_KEY_BYTES = 64 };

// A cache that keeps nothing where place is NULL or the lookup lacks a function.
kq_cl_cache kq_cl_cache_make(const kq_cache *place, const kq_lookup *lookup,
                             cl_api_clGetDeviceInfo get_device_info, cl_device_id device);
bool kq_cl_cache_is_there(const kq_cl_cache *cache);

// The key of a program: of the library, of what compiles it, how and what from. Copied to key,
// which it returns.
const char *kq_cl_cache_key(const kq_cl_cache *cache, const char *options, const void *code,
                            size_t bytes, char key[KQ_CL_KEY_BYTES]);

// A program that is yet to be built, or NULL.
cl_program kq_cl_cache_load(const kq_cl_cache *cache, const char *key, cl_context context,
                            cl_device_id device);

// Of a program of one device, which was built. What fails is left: the next time it is built again.
void kq_cl_cache_store(const kq_cl_cache *cache, const char *key, cl_program program);

#endif
