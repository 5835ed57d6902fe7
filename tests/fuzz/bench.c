// src/tool/bench_json.c: a median of an earlier file is a number that bench can divide and print.
#include "fuzz.h"

#include "bench_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const devices[] = {"reference", "d", ""};
    static const char *const shapes[] = {"sequential-16x4096", "s", ""};
    fuzz_complaints = 0;
    bench_baseline *baseline = bench_baseline_read_bytes("input", data, size);
    REQUIRE(fuzz_complaints == (baseline != NULL ? 0 : 1));
    for (int k = 0; k < 18 && baseline != NULL; k++) {
        double median = bench_baseline_median(baseline, devices[k % 3], shapes[k / 3 % 3], k >= 9);
        // From a picosecond to a year.
        REQUIRE(median == 0 || (median >= 1e-12 && median <= 4e7));
    }
    bench_baseline_free(baseline);
    return 0;
}
