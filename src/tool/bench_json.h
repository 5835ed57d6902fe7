// A bench's results in a file, and an earlier file to compare with.
#ifndef KQ_TOOL_BENCH_JSON_H
#define KQ_TOOL_BENCH_JSON_H

#include "bench.h"

// Whole or not at all; is_complete: nothing that was to be measured is missing. False: the reason
// was complained about.
bool bench_write_json(const char *path, const bench_device *devices, size_t count,
                      bool is_complete);

// What an earlier run took. NULL: what is wrong with the file was complained about.
typedef struct bench_baseline bench_baseline;
bench_baseline *bench_baseline_read(const char *path);
bench_baseline *bench_baseline_read_bytes(const char *path, const void *bytes, size_t count);
void bench_baseline_free(bench_baseline *baseline);

bool bench_baseline_has(const bench_baseline *baseline, const char *device);

// The median of that shape on the device of that name, by its own clock if is_device; 0: not known.
double bench_baseline_median(const bench_baseline *baseline, const char *device, const char *shape,
                             bool is_device);

#endif
