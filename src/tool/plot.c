#include "plot.h"

#include "files.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// In pixels. A device's part has a heading, the two charts side by side, and the key below them.
enum {
    WIDTH = 1120,
    HEADING = 64,
    CHART_HEIGHT = 330,
    BELOW_CHART = 70,
    KEY_ROW = 16,
    KEY_COLUMNS = 2,
    MARGIN = 36,
    LABEL_STEP = 11,
    MOST_TITLE = 120,  // characters
};

// An axis: values from least to most, on a logarithmic scale or from 0 on a linear one, lie between
// two pixels.
typedef struct axis {
    double least, most;
    double from, to;
    bool is_linear;
} axis;

typedef struct chart {
    axis x, y;
} chart;

static double place(const axis *a, double value)
{
    double part = a->is_linear ? (value - a->least) / (a->most - a->least)
                               : log(value / a->least) / log(a->most / a->least);
    return a->from + part * (a->to - a->from);
}

// A logarithmic axis of whole powers of base around the values.
static axis log_axis(double base, double least, double most, double from, double to)
{
    double low = floor(log(least) / log(base) + 1e-9), high = ceil(log(most) / log(base) - 1e-9);
    return (axis){pow(base, low), pow(base, high > low ? high : low + 1), from, to, false};
}

// --- Elements

static void add_line(text *t, const char *kind, double x1, double y1, double x2, double y2)
{
    text_add(t, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kind, x1,
             y1, x2, y2);
}

// anchor: "start", "middle" or "end".
static void open_text(text *t, const char *kind, const char *anchor, double x, double y)
{
    text_add(t, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", kind, anchor, x, y);
}

static void add_text(text *t, const char *kind, const char *anchor, double x, double y,
                     const char *words)
{
    open_text(t, kind, anchor, x, y);
    text_add_xml(t, words);
    text_add(t, "</text>\n");
}

// The words up to MOST_TITLE characters.
static void add_title(text *t, const char *kind, double x, double y, const char *words)
{
    size_t bytes = 0;
    for (size_t characters = 0; words[bytes] != '\0'; bytes++) {
        characters += ((unsigned char)words[bytes] & 0xC0) != 0x80;
        if (characters > MOST_TITLE) {
            break;
        }
    }
    char *cut = allocate(bytes + 4, 1);
    memcpy(cut, words, bytes);
    memcpy(cut + bytes, words[bytes] != '\0' ? "..." : "", words[bytes] != '\0' ? 4 : 1);
    add_text(t, kind, "start", x, y, cut);
    free(cut);
}

// A number as axes have it: 0.1, 20, 1 M, 100 G.
static void format_number(char *to, size_t size, double number)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
    for (size_t k = 0; k < sizeof units / sizeof units[0]; k++) {
        if (number >= units[k].unit * 0.999) {
            snprintf(to, size, "%.4g%s", number / units[k].unit, units[k].name);
            return;
        }
    }
    snprintf(to, size, "%.4g", number);
}

static const char *kind_of(const bench_shape *shape)
{
    return shape->op == KQ_OP_QUANTIZE           ? "quantize"
           : shape->order == KQ_ORDER_SEQUENTIAL ? "sequential"
                                                 : "pairwise";
}

// A result's mark, which says its name and rate where a pointer rests on it.
static void add_mark(text *t, const bench_result *result, double x, double y)
{
    const bench_shape *shape = result->shape;
    const char *kind = kind_of(shape);
    const double r = 4.5;
    text_add(t, "<path class=\"point %s\" d=\"", kind);
    if (shape->op == KQ_OP_QUANTIZE) {
        text_add(t, "M%.1f %.1fh%.1fv%.1fh%.1fz", x - r, y - r, 2 * r, 2 * r, -2 * r);
    } else if (shape->order == KQ_ORDER_SEQUENTIAL) {
        text_add(t, "M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 %.1f 0z", x - r, y, r, r,
                 2 * r, r, r, -2 * r);
    } else {
        text_add(t, "M%.1f %.1fl%.1f %.1fh%.1fz", x, y - 1.2 * r, 1.2 * r, 2.1 * r, -2.4 * r);
    }
    text_add(t, "\"><title>");
    text_add_xml(t, shape->name);
    text_add(t, ": %.3f million records/s</title></path>\n",
             (double)bench_records(shape) / bench_median(&result->timing) / 1e6);
}

static void add_frame(text *t, const chart *c, const char *title, const char *x, const char *y)
{
    double middle_x = (c->x.from + c->x.to) / 2, middle_y = (c->y.from + c->y.to) / 2;
    text_add(t, "<path class=\"frame\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", c->x.from, c->y.to,
             c->y.from, c->x.to);
    add_text(t, "chart", "start", c->x.from, c->y.to - 10, title);
    add_text(t, "axis", "middle", middle_x, c->y.from + 36, x);
    text_add(t, "<g transform=\"rotate(-90 %.1f %.1f)\">", c->x.from - 56, middle_y);
    add_text(t, "axis", "middle", c->x.from - 56, middle_y, y);
    text_add(t, "</g>\n");
}

static void add_x_tick(text *t, const chart *c, double value, const char *label)
{
    double x = place(&c->x, value);
    add_line(t, "grid", x, c->y.from, x, c->y.to);
    add_text(t, "tick", "middle", x, c->y.from + 16, label);
}

static void add_y_tick(text *t, const chart *c, double value)
{
    char label[32];
    double y = place(&c->y, value);
    format_number(label, sizeof label, value);
    add_line(t, "grid", c->x.from, y, c->x.to, y);
    add_text(t, "tick", "end", c->x.from - 6, y + 4, label);
}

// --- The roofline

static double rate_of(const bench_result *result)
{
    return bench_products(result->shape) / bench_median(&result->timing);
}

static double intensity_of(const bench_shape *shape)
{
    return bench_products(shape) / bench_least_bytes(shape);
}

// The bytes a second of a memory's read kernel.
static double reads_of(const bench_memory *memory)
{
    const bench_timing *read = &memory->timings[BENCH_READ];
    return read->rounds > 0 ? (double)memory->bytes / bench_median(read) : 0;
}

// What was measured over the largest buffer; NULL: nothing.
static const bench_memory *roof_of(const bench_device *device)
{
    const bench_memory *roof = NULL;
    for (size_t k = 0; k < device->memory_count; k++) {
        const bench_memory *memory = &device->memories[k];
        if (reads_of(memory) > 0 && (roof == NULL || memory->bytes > roof->bytes)) {
            roof = memory;
        }
    }
    return roof;
}

static chart roofline_axes(const bench_device *device, double roof, double top)
{
    double least_x = INFINITY, most_x = 0, least_y = INFINITY, most_y = 0, highest = 0;
    for (size_t k = 0; k < device->count; k++) {
        double x = intensity_of(device->results[k].shape), y = rate_of(&device->results[k]);
        least_x = fmin(least_x, x);
        most_x = fmax(most_x, x);
        least_y = fmin(least_y, y);
        most_y = fmax(most_y, y);
        highest = fmax(highest, roof * x);
    }
    // Far above the results the line would leave them no room.
    most_y = fmax(most_y, fmin(highest, 100 * most_y));
    return (chart){log_axis(10, least_x, most_x, 100, 560),
                   log_axis(10, least_y, most_y, top + CHART_HEIGHT, top)};
}

static void add_roof(text *t, const chart *c, const bench_memory *roof)
{
    double rate = reads_of(roof);
    double from = fmax(c->x.least, c->y.least / rate), to = fmin(c->x.most, c->y.most / rate);
    if (from >= to) {
        return;
    }
    double x = place(&c->x, to), y = place(&c->y, to * rate);
    char bytes[32], speed[32];
    format_number(bytes, sizeof bytes, (double)roof->bytes);
    format_number(speed, sizeof speed, rate);
    add_line(t, "roof", place(&c->x, from), place(&c->y, from * rate), x, y);
    bool is_left = x > c->x.from + 200;
    open_text(t, "roof-name", is_left ? "end" : "start", is_left ? x - 16 : x + 8, y + 2);
    text_add(t, "memory, read: %sB/s over %sB</text>\n", speed, bytes);
}

// The number of a result, beside its mark.
typedef struct label {
    double x, y;  // of the mark
    double at;    // where it is put, a little higher or lower
    size_t number;
} label;

static int compare_labels(const void *a, const void *b)
{
    double left = ((const label *)a)->y, right = ((const label *)b)->y;
    return left < right ? -1 : left > right;
}

// Moves apart what would lie over each other, a little at a time, and keeps it above the bottom.
static void spread(label *labels, size_t count, double bottom)
{
    enum { NEAR = 24, ROUNDS = 200 };
    qsort(labels, count, sizeof *labels, compare_labels);
    for (size_t k = 0; k < count; k++) {
        labels[k].at = labels[k].y;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t k = 1; k < count; k++) {
            size_t above = k;  // how many there are up to the last that is near
            while (above > 0 && fabs(labels[above - 1].x - labels[k].x) >= NEAR) {
                above--;
            }
            double missing = above > 0 ? LABEL_STEP - (labels[k].at - labels[above - 1].at) : 0;
            if (missing > 0) {
                labels[above - 1].at -= missing / 2;
                labels[k].at += missing / 2;
            }
        }
        for (size_t k = 0; k < count; k++) {
            labels[k].at = fmin(labels[k].at, bottom);
        }
    }
}

static void add_roofline(text *t, const bench_device *device, double top)
{
    const bench_memory *roof = roof_of(device);
    const chart c = roofline_axes(device, roof != NULL ? reads_of(roof) : 0, top);
    label *labels = allocate(device->count, sizeof *labels);
    text_add(t, "<g class=\"roofline\">\n");
    for (double x = c.x.least; x < c.x.most * 1.001; x *= 10) {
        char number[32];
        format_number(number, sizeof number, x);
        add_x_tick(t, &c, x, number);
    }
    for (double y = c.y.least; y < c.y.most * 1.001; y *= 10) {
        add_y_tick(t, &c, y);
    }
    add_frame(t, &c, "Roofline", "integer products per byte, each input and output counted once",
              "integer products per second");
    if (roof != NULL) {
        add_roof(t, &c, roof);
    }
    for (size_t k = 0; k < device->count; k++) {
        labels[k] = (label){.x = place(&c.x, intensity_of(device->results[k].shape)),
                            .y = place(&c.y, rate_of(&device->results[k])),
                            .number = k};
        add_mark(t, &device->results[k], labels[k].x, labels[k].y);
    }
    spread(labels, device->count, c.y.from - 2);
    for (size_t k = 0; k < device->count; k++) {
        const label *l = &labels[k];
        if (fabs(l->at - l->y) > 1) {
            add_line(t, "leader", l->x + 5, l->y, l->x + 13, l->at);
        }
        open_text(t, "number", "start", l->x + (fabs(l->at - l->y) > 1 ? 14 : 8), l->at + 3.5);
        text_add(t, "%zu</text>\n", l->number + 1);
    }
    text_add(t, "</g>\n");
    free(labels);
}

// --- The curve

static bool is_of_curve(const bench_shape *shape)
{
    return shape->op == KQ_OP_QUANTIZED_DOT && !shape->has_own_rhs &&
           shape->G == PLOT_CURVE_RECORDS && shape->count[1] == 1;
}

static double records_rate(const bench_result *result)
{
    return (double)bench_records(result->shape) / bench_median(&result->timing);
}

static int compare_records(const void *a, const void *b)
{
    uint64_t left = bench_records((*(const bench_result *const *)a)->shape);
    uint64_t right = bench_records((*(const bench_result *const *)b)->shape);
    return left < right ? -1 : left > right;
}

// The results of the curve in one order, by their records; how many there are.
static size_t collect(const bench_device *device, kq_order order, const bench_result **found)
{
    size_t count = 0;
    for (size_t k = 0; k < device->count; k++) {
        const bench_shape *shape = device->results[k].shape;
        if (is_of_curve(shape) && shape->order == order) {
            found[count++] = &device->results[k];
        }
    }
    qsort(found, count, sizeof *found, compare_records);
    return count;
}

// 1, 2 or 5 times a power of ten, so that at most six of them make `most`.
static double step_of(double most)
{
    double power = pow(10, floor(log10(most / 6)));
    double times = most / 6 / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void add_curve(text *t, const chart *c, const bench_result *const *results, size_t count,
                      double *name_at)
{
    if (count == 0) {
        return;
    }
    const char *kind = kind_of(results[0]->shape);
    double x = 0, y = 0;
    text_add(t, "<polyline class=\"curve %s\" points=\"", kind);
    for (size_t k = 0; k < count; k++) {
        x = place(&c->x, (double)bench_records(results[k]->shape));
        y = place(&c->y, records_rate(results[k]));
        text_add(t, "%s%.1f,%.1f", k == 0 ? "" : " ", x, y);
    }
    text_add(t, "\"/>\n");
    for (size_t k = 0; k < count; k++) {
        add_mark(t, results[k], place(&c->x, (double)bench_records(results[k]->shape)),
                 place(&c->y, records_rate(results[k])));
    }
    // Beside the end of its curve, clear of the name before.
    if (fabs(y - *name_at) < 14) {
        y = *name_at + (y < *name_at ? -14 : 14);
    }
    *name_at = y;
    open_text(t, kind, "start", x + 9, y + 4);
    text_add(t, "%s</text>\n", kind);
}

static void add_scaling(text *t, const bench_device *device, double top)
{
    const bench_result **results = allocate(device->count, sizeof(const bench_result *));
    double least = INFINITY, most = 0, highest = 0, name_at = -INFINITY;
    for (size_t k = 0; k < device->count; k++) {
        if (is_of_curve(device->results[k].shape)) {
            double records = (double)bench_records(device->results[k].shape);
            least = fmin(least, records);
            most = fmax(most, records);
            highest = fmax(highest, records_rate(&device->results[k]));
        }
    }
    if (most > 0) {
        double step = step_of(highest);
        const chart c = {log_axis(4, least, most, 670, 1020),
                         {0, step * ceil(highest / step), top + CHART_HEIGHT, top, true}};
        text_add(t, "<g class=\"scaling\">\n");
        for (double x = c.x.least; x < c.x.most * 1.001; x *= 4) {
            char number[32];
            snprintf(number, sizeof number, "%.0f", x);
            add_x_tick(t, &c, x, number);
        }
        for (int k = 0; k * step < c.y.most + step / 2; k++) {
            add_y_tick(t, &c, k * step);
        }
        add_frame(t, &c, "Scaling: dots of 16 Q4_K records that share their Q8_K records",
                  "Q4_K records in all", "Q4_K records per second");
        for (int order = KQ_ORDER_SEQUENTIAL; order <= KQ_ORDER_PAIRWISE; order++) {
            size_t count = collect(device, (kq_order)order, results);
            add_curve(t, &c, results, count, &name_at);
        }
        text_add(t, "</g>\n");
    }
    free(results);
}

// --- All of it

static size_t key_rows(const bench_device *device)
{
    return (device->count + KEY_COLUMNS - 1) / KEY_COLUMNS;
}

static void add_key(text *t, const bench_device *device, double top)
{
    for (size_t k = 0; k < device->count; k++) {
        const bench_result *result = &device->results[k];
        double share = bench_share(device, result);
        size_t column = k / key_rows(device);
        double x = MARGIN + (double)column * (WIDTH - 2 * MARGIN) / KEY_COLUMNS;
        open_text(t, kind_of(result->shape), "start", x,
                  top + (double)(k % key_rows(device)) * KEY_ROW);
        text_add(t, "%zu  ", k + 1);
        text_add_xml(t, result->shape->name);
        text_add(t, ", %.2f M rec/s", records_rate(result) / 1e6);
        if (share > 0) {
            text_add(t, ", %.0f%% of %s", 100 * share,
                     bench_traffic_names[bench_traffic(result->shape)]);
        }
        text_add(t, "</text>\n");
    }
}

static double part_height(const bench_device *device)
{
    return device->count == 0
               ? HEADING
               : HEADING + CHART_HEIGHT + BELOW_CHART + (double)(key_rows(device) * KEY_ROW) + 20;
}

static void add_device(text *t, const bench_device *device, double top)
{
    char name[sizeof device->info.id + sizeof device->info.name + 4];
    snprintf(name, sizeof name, "%s  %s", device->info.id, device->info.name);
    text_add(t, "<g class=\"device\">\n");
    add_title(t, "name", MARGIN, top + 16, name);
    add_title(t, "axis", MARGIN, top + 34, device->info.driver);
    if (device->count > 0) {
        add_roofline(t, device, top + HEADING);
        add_scaling(t, device, top + HEADING);
        add_key(t, device, top + HEADING + CHART_HEIGHT + BELOW_CHART);
    } else {
        add_text(t, "axis", "start", MARGIN, top + 52, "Nothing was timed.");
    }
    text_add(t, "</g>\n");
}

static const char *const style =
    "<style>\n"
    "text { font: 12px system-ui, sans-serif; fill: #1f2328; white-space: pre }\n"
    ".page { fill: #ffffff }\n"
    ".name { font-size: 15px; font-weight: 600 } .chart { font-weight: 600 }\n"
    ".number { font-size: 10px }\n"
    ".grid { stroke: #d8dee4 } .frame { fill: none; stroke: #57606a }\n"
    ".leader { stroke: #8c959f; stroke-width: 0.6 }\n"
    ".roof { stroke: #8250df; stroke-width: 2 } .roof-name { fill: #8250df }\n"
    ".curve { fill: none; stroke-width: 1.5 }\n"
    ".sequential { fill: #0969da } .curve.sequential { fill: none; stroke: #0969da }\n"
    ".pairwise { fill: #b35900 } .curve.pairwise { fill: none; stroke: #b35900 }\n"
    ".quantize { fill: #1a7f37 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #e6edf3 } .page { fill: #0d1117 }\n"
    ".grid { stroke: #30363d } .frame { stroke: #9da7b3 } .leader { stroke: #6e7681 }\n"
    ".roof { stroke: #bc8cff } .roof-name { fill: #bc8cff }\n"
    ".sequential { fill: #58a6ff } .curve.sequential { fill: none; stroke: #58a6ff }\n"
    ".pairwise { fill: #f0883e } .curve.pairwise { fill: none; stroke: #f0883e }\n"
    ".quantize { fill: #56d364 }\n"
    "}\n"
    "</style>\n";

bool plot_write(const char *path, const bench_device *devices, size_t count)
{
    text t = {0};
    double height = 2.0 * MARGIN + 20;
    for (size_t d = 0; d < count; d++) {
        height += part_height(&devices[d]);
    }
    text_add(&t,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%.0f\" "
             "viewBox=\"0 0 %d %.0f\">\n<title>kquant bench</title>\n%s"
             "<rect class=\"page\" width=\"%d\" height=\"%.0f\"/>\n",
             WIDTH, height, WIDTH, height, style, WIDTH, height);
    double top = MARGIN;
    for (size_t d = 0; d < count; d++) {
        add_device(&t, &devices[d], top);
        top += part_height(&devices[d]);
    }
    add_text(
        &t, "axis", "start", MARGIN, height - MARGIN,
        "kquant bench: circles are sequential dots, triangles pairwise ones, squares quantize. "
        "An input that caches hold may lie above the memory's line.");
    text_add(&t, "</svg>\n");
    bool is_good = write_file(path, (const uint8_t *)t.bytes, t.count);
    free(t.bytes);
    return is_good;
}
