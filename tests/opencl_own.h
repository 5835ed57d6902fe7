// A device opened by the library, level 3, on the wrapped driver: one for the whole test. Failures
// are cmocka's.
#ifndef KQ_OPENCL_OWN_H
#define KQ_OPENCL_OWN_H

#include "support.h"
#include "wrapped_opencl.h"

typedef struct own_fixture {
    wrapped_opencl wrapped;
    kq_lookup lookup;
    report report;  // of every device
    kq_device *device;
    vectors vectors;
    const char *expected_name;  // must occur in the name of device or platform
    bool is_quick;              // for interpreters
} own_fixture;

extern own_fixture own;

// Reads the arguments and opens the device. Not EXIT_SUCCESS: what the test is to exit with.
int own_start(int argc, char **argv, bool needs_vectors);

// Prints and checks the device's name, and that SPIR-V is what runs if that was asked for.
void shows_its_driver(void **state);

// Closes the device; nothing may be left, and no report of the driver's.
void leaves_nothing_behind(void **state);

void own_finish(void);

// Another device. ops: 0 for all.
kq_result open_device(uint32_t ops, kq_device **opened);

void expect_ok(const char *what, kq_result result);
bool is_reported(kq_result result, const char *text);  // by the last report

void *allocate(size_t bytes);
unsigned char *make_values(uint64_t seed, uint32_t G);
unsigned char *make_q4_k(uint64_t seed, uint32_t G);

// A buffer that holds data, or poison if that is NULL, with `before` and `after` bytes of poison
// around it; NULL for no bytes.
kq_buffer *create_buffer(const void *data, size_t bytes, size_t before, size_t after);

// The same, as what must be in it.
void expect_buffer(const char *what, kq_buffer *buffer, const void *data, size_t bytes,
                   size_t before, size_t after);

// A dot of packed records from the buffers' start.
kq_quantized_dot_args dot_args(kq_order order, kq_buffer *lhs, kq_buffer *rhs, uint32_t G,
                               kq_buffer *result);

#endif
