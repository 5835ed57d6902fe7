// A bench's results as a picture.
#ifndef KQ_TOOL_PLOT_H
#define KQ_TOOL_PLOT_H

#include "bench.h"

// The curve shows dots of so many records that share their rhs.
enum { PLOT_CURVE_RECORDS = 16 };

// An SVG that needs nothing beside it, with two charts for each device: a roofline, all results as
// products/s against products a byte below the line of the memory that is read; and the rate of the
// dots of the curve against the number of their records. Whole or not at all. False: the reason was
// complained about.
bool plot_write(const char *path, const bench_device *devices, size_t count);

#endif
