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

// Seconds of a round; all zero where nothing was timed.
typedef struct bench_times {
    double median, least, most;
} bench_times;

typedef struct bench_result {
    const bench_shape *shape;
    size_t rounds;
    bench_times host;    // from a call's start until its result is there
    bench_times device;  // by the device's own clock, without what the call costs around it
    kq_needs needs;
} bench_result;

// The rounds of one measurement: some to warm up, then at least so many, for at least so long.
enum { BENCH_WARM_UP_ROUNDS = 2, BENCH_MIN_ROUNDS = 7, BENCH_MAX_ROUNDS = 1000 };
#define BENCH_MIN_SECONDS 0.3

// Inputs of a shape, and the results that a device is held to.
typedef struct bench_work bench_work;

// NULL: the reference can't make them, which was complained about.
bench_work *bench_work_make(const bench_shape *shape);
void bench_work_free(bench_work *work);

// Records the operation on the device, verifies one run of it and times more. An exit code; what is
// not EXIT_DONE was complained about.
int bench_measure(target *target, const bench_work *work, bench_result *result);

#endif
