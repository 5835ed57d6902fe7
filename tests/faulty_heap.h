// A heap that counts, and whose n-th allocation fails: for programs linked with
// faulty_heap_link_args of meson.build. The linker brings the calls of what is linked statically,
// the library's; those of drivers and loaders it does not see. Sources compiled with
// faulty_heap_own_args, the test's own and the wrapped driver's, are neither counted nor failed.
// One thread at a time.
#ifndef KQ_FAULTY_HEAP_H
#define KQ_FAULTY_HEAP_H

#include <stddef.h>

typedef struct faulty_heap {
    unsigned calls;   // of malloc, calloc and realloc since the last faulty_heap_set
    unsigned number;  // the call that gives NULL; 0: none
    unsigned failed;  // how many did
    long live;        // blocks not yet freed
} faulty_heap;

extern faulty_heap heap;

// The number-th call from here on fails, and no other; 0: none. Live blocks stay counted.
void faulty_heap_set(unsigned number);

#endif
