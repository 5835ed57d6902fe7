// A heap that counts, and whose n-th allocation fails: for programs linked with
// faulty_heap_link_args of meson.build. The linker brings the calls of what is linked statically,
// the library's; those of drivers and loaders it does not see. Sources compiled with
// faulty_heap_own_args, the test's own and the wrapped driver's, are neither counted nor failed.
// Any number of threads are counted.
#ifndef KQ_FAULTY_HEAP_H
#define KQ_FAULTY_HEAP_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct faulty_heap {
    atomic_uint calls;   // of malloc, calloc and realloc since the last faulty_heap_set
    atomic_uint number;  // the call that gives NULL; 0: none
    atomic_uint failed;  // how many did
    atomic_long live;    // blocks not yet freed
    atomic_size_t last_calloc_bytes;
} faulty_heap;

extern faulty_heap heap;

// The number-th call from here on fails, and no other; 0: none. Live blocks stay counted.
void faulty_heap_set(unsigned number);

#endif
