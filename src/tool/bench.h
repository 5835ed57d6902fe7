// Times operations on a device, once their results are known to be the reference's.
#ifndef KQ_TOOL_BENCH_H
#define KQ_TOOL_BENCH_H

#include "target.h"

// What is timed: quantize of G blocks; or count[0] dots of G records, which share their rhs or have
// each its own, count[1] times over with other rhs.
typedef struct bench_shape {
    const char *name;
    kq_op op;
    kq_order order;  // of dots
    bool has_own_rhs;
    uint32_t G;
    uint32_t count[2];
} bench_shape;

// The shapes that are timed where none is asked for; a name is never another shape's.
extern const bench_shape bench_shapes[];
extern const size_t bench_shape_count;

// Records of Q4_K that dots take, each as often as it is taken, or blocks; and their bytes.
uint64_t bench_records(const bench_shape *shape);
uint64_t bench_bytes(const bench_shape *shape);

// What the operation multiplies, and the bytes that it can't do without: each input read once, each
// output written once.
double bench_products(const bench_shape *shape);
double bench_least_bytes(const bench_shape *shape);

// Seconds of a round; all zero where nothing was timed.
typedef struct bench_times {
    double median, least, most;
} bench_times;

typedef struct bench_timing {
    size_t rounds;       // 0: nothing was timed
    bench_times host;    // from a call's start until its result is there
    bench_times device;  // by the device's own clock, without what the call costs around it
} bench_timing;

// The median by the device's clock if it has one, else by the host's.
double bench_median(const bench_timing *timing);

typedef struct bench_result {
    const bench_shape *shape;
    bench_timing timing;
    kq_needs needs;
} bench_result;

// Why something could not be measured.
typedef struct bench_reason {
    char text[1200];
} bench_reason;

// The rounds of one measurement: some to warm up, then at least so many, for at least so long.
enum { BENCH_WARM_UP_ROUNDS = 2, BENCH_MIN_ROUNDS = 7, BENCH_MAX_ROUNDS = 1000 };
#define BENCH_MIN_SECONDS 0.3

// Times recordings in turns of some rounds each, a turn after the warm-up, so that what slows the
// machine for a while slows all of them.
kq_result bench_time(kq_recording *const *recordings, size_t count, bench_timing *timings);

// Inputs of a shape, and the results that a device is held to.
typedef struct bench_work bench_work;

// NULL: the reference can't make them, which was complained about.
bench_work *bench_work_make(const bench_shape *shape);
void bench_work_free(bench_work *work);

// Records the operation on the device, verifies one run of it and times more. An exit code; of what
// is not EXIT_DONE *reason tells.
int bench_measure(target *target, const bench_work *work, bench_result *result,
                  bench_reason *reason);

// --- How fast the device's memory is, by kq_bandwidth_record

enum { BENCH_READ, BENCH_COPY, BENCH_TRAFFICS };
extern const char *const bench_traffic_names[BENCH_TRAFFICS];

typedef struct bench_memory {
    uint64_t bytes;  // that are read or copied
    bench_timing timings[BENCH_TRAFFICS];
} bench_memory;

// What is measured for a shape: as many bytes as its Q4_K records or values have, in whole units of
// the kernel, up to where no cache holds them.
uint64_t bench_memory_bytes(const bench_shape *shape);

// The one of them that the shape is held to: dots read, quantize also writes.
int bench_traffic(const bench_shape *shape);

// What one device came to.
typedef struct bench_device {
    kq_device_info info;
    double first_dot;  // of bench_first_dot
    bench_result *results;
    size_t count;
    bench_memory *memories;  // of each size once
    size_t memory_count;
} bench_device;

// What was measured over so many bytes; NULL: nothing.
const bench_memory *bench_find_memory(const bench_device *device, uint64_t bytes);

// The bench_bytes of one of its results a second as a part of the memory's bytes a second, by one
// clock; 0: not known. Above 1 where a record that is read once serves several dots.
double bench_share(const bench_device *device, const bench_result *result);

// Seconds from before a device is opened until a dot of one record is there, which takes the
// driver's compilers with it, but for what their caches hold; 0: it failed.
double bench_first_dot(const char *device);

// As bench_measure: one run of each is verified, then they are timed. EXIT_NOTHING: the device has
// no memory for two such buffers.
int bench_measure_memory(target *target, uint64_t bytes, bench_memory *memory,
                         bench_reason *reason);

#endif
