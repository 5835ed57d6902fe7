#include "property_draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t draw_below(uint64_t *state, uint64_t count)
{
    return draw(state) % count;
}

uint64_t draw_magnitude(uint64_t *state, uint64_t most)
{
    double part = (double)(draw(state) >> 11) / 9007199254740992.0;
    uint64_t value = (uint64_t)pow((double)most + 1, part);
    return value < 1 ? 1 : value < most ? value : most;
}

static bool one_in(uint64_t *state, uint64_t count)
{
    return draw_below(state, count) == 0;
}

uint32_t draw_parts(uint64_t *state, kq_order order, uint32_t G, uint32_t *sizes)
{
    uint32_t count = 0;
    for (uint32_t first = 0; first < G; first += sizes[count++]) {
        uint32_t left = G - first;
        uint32_t power = kq_power_above(left);
        bool may_end = order == KQ_ORDER_SEQUENTIAL || first % power == 0;
        uint32_t size = 1;
        if (order == KQ_ORDER_SEQUENTIAL) {
            size = (uint32_t)draw_magnitude(state, left);
        }
        while (order == KQ_ORDER_PAIRWISE && 2 * size <= left && first % (2 * size) == 0 &&
               !one_in(state, 4)) {
            size *= 2;
        }
        sizes[count] = may_end && one_in(state, 4) ? left : size;
    }
    return count;
}

void draw_f16_words(uint64_t *state, void *bytes, uint64_t count)
{
    draw_bytes(state, bytes, (size_t)count);
    for (uint64_t i = 1; i < count; i += 2) {
        unsigned char *high = (unsigned char *)bytes + i;
        *high = (unsigned char)((*high & 0x83u) | (8u + (*high >> 2 & 7u)) << 2);
    }
}

void draw_f32_words(uint64_t *state, void *bytes, uint64_t count)
{
    draw_bytes(state, bytes, (size_t)count);
    for (uint64_t i = 0; i + 4 <= count; i += 4) {
        unsigned char *word = (unsigned char *)bytes + i;
        uint32_t x = load_u32(word);
        store_u32(word, (x & 0x807FFFFFu) | (120u + (x >> 23 & 7u)) << 23);
    }
}

// --- Where everything lies

static uint64_t draw_offset(uint64_t *state)
{
    switch (draw_below(state, 8)) {
    case 0: return 0;
    case 1: return draw_below(state, 5000);
    // Near the end of a segment, an alignment or a range.
    case 2: return (UINT64_C(4096) << draw_below(state, 6)) - draw_below(state, 1200);
    default: return draw_below(state, 300);
    }
}

// Bytes from one item to the next, where packed it is `size`.
static uint64_t draw_stride(uint64_t *state, uint64_t size)
{
    switch (draw_below(state, 8)) {
    case 0: return draw_below(state, size);
    case 1: return size + draw_below(state, 4);
    case 2: return size + 4 * draw_below(state, 20);
    case 3: return 4 * draw_magnitude(state, 8 * size);
    case 4: return draw_magnitude(state, 20000);
    default: return size;
    }
}

// One that is never taken may be any number.
static uint64_t draw_step(uint64_t *state, uint64_t size, uint32_t count)
{
    if (count <= 1 && one_in(state, 4)) {
        return draw(state) >> 1;
    }
    return one_in(state, 4) ? 0 : draw_stride(state, size);
}

static uint64_t draw_view_stride(uint64_t *state, uint64_t size, uint32_t G)
{
    uint64_t stride = draw_step(state, size, G);
    return stride != 0 || one_in(state, 2) ? stride : KQ_BROADCAST;
}

static void draw_result_steps(uint64_t *state, kq_repeat *r)
{
    uint64_t span = 4;
    int fast = (int)draw_below(state, 2);
    for (int k = 0; k < 2; k++) {
        int loop = k == 0 ? fast : 1 - fast;
        uint64_t gap = one_in(state, 2) ? 0 : draw_below(state, one_in(state, 4) ? 300 : 9);
        r->result_step[loop] = span + gap;
        span += (r->count[loop] > 1 ? r->count[loop] - 1 : 0) * r->result_step[loop];
        if (r->count[loop] <= 1 && one_in(state, 2)) {
            r->result_step[loop] = draw(state) >> draw_below(state, 64);
            r->result_step[loop] &= INT64_MAX;
        }
    }
}

static void draw_counts(uint64_t *state, drawn_size size, drawn *d)
{
    kq_repeat *r = &d->repeat;
    uint32_t G = (uint32_t)draw_below(state, 41);
    if (one_in(state, 12)) {
        G = 41 + (uint32_t)draw_below(state, 700);
    } else if (one_in(state, 40)) {
        G = 700 + (uint32_t)draw_below(state, 3000);
    }
    d->has_repeat = d->op == KQ_OP_QUANTIZED_DOT && !one_in(state, 3);
    for (int k = 0; k < 2; k++) {
        r->count[k] = one_in(state, 3)   ? 1
                      : one_in(state, 3) ? (uint32_t)draw_below(state, 71)
                                         : (uint32_t)draw_below(state, 9);
    }
    for (;;) {
        uint64_t dots = d->has_repeat ? (uint64_t)r->count[0] * r->count[1] : 1;
        if ((G + 1) * dots <= size.records) {
            break;
        }
        uint32_t *field = one_in(state, 2) ? &G : &r->count[draw_below(state, 2)];
        *field -= *field / 2;
        G = dots <= 1 ? size.records / 2 : G;
    }
    d->views[0].G = G;
    d->views[1].G = G;
}

kq_operation operation_of(const drawn *d)
{
    kq_operation o = {
        .op = d->op,
        .format = KQ_FORMAT_Q8_K,
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = d->order,
        .repeat = d->has_repeat ? &d->repeat : NULL,
    };
    for (int role = 0; role < 3; role++) {
        o.operands[role] = (kq_operand){(uint64_t)role + 1, UINT64_MAX, d->views[role]};
    }
    return o;
}

// The end of each operand's last byte.
static kq_shape measure(const drawn *d, uint64_t ends[3])
{
    const kq_errors errors = {0};
    const kq_operation operation = operation_of(d);
    kq_shape shape;
    if (kq_shape_make(&operation, &errors, &shape) != KQ_OK) {
        print_drawn(d);
        abort();
    }
    bool is_quantize = d->op == KQ_OP_QUANTIZE;
    for (int role = 0; role < 3; role++) {
        bool is_result = role == KQ_RESULT;
        bool is_used =
            shape.count[0] > 0 && shape.count[1] > 0 && (is_result ? !is_quantize : shape.G > 0);
        ends[role] = 0;
        if (is_used && !kq_extent_end(&shape, role, &ends[role])) {
            ends[role] = UINT64_MAX;
        }
    }
    return shape;
}

// Makes inputs smaller that take too many bytes.
static void shrink(drawn *d, uint64_t most)
{
    uint64_t ends[3];
    measure(d, ends);
    for (int role = 0; role < 2; role++) {
        kq_view *view = &d->views[role];
        uint64_t *steps = role == KQ_LHS ? d->repeat.lhs_step : d->repeat.rhs_step;
        while (ends[role] > most) {
            view->value_stride =
                view->value_stride == KQ_BROADCAST ? KQ_BROADCAST : view->value_stride / 8 * 4;
            bool is_output = d->op == KQ_OP_QUANTIZE && role == KQ_RECORDS;
            if (is_output) {
                view->stride = 0;
                break;
            }
            view->stride = view->stride == KQ_BROADCAST ? KQ_BROADCAST
                           : view->stride == 0          ? 40
                                                        : view->stride / 2 + 1;
            steps[0] /= 2;
            steps[1] /= 2;
            view->offset /= 2;
            measure(d, ends);
        }
    }
}

// The output lies in a buffer of its own, or before or behind the inputs, which also may share one.
static void place(uint64_t *state, drawn *d)
{
    uint64_t ends[3];
    measure(d, ends);
    bool is_dot = d->op == KQ_OP_QUANTIZED_DOT;
    int output = is_dot ? KQ_RESULT : KQ_RECORDS;
    bool shares_inputs = is_dot && one_in(state, 4);
    bool shares_output = one_in(state, 3);
    uint64_t gap = draw_below(state, 9);
    d->buffer[0] = 0;
    d->buffer[1] = is_dot ? (shares_inputs ? 0 : 1) : -1;
    d->buffer[2] = -1;
    d->buffer[output] = shares_output ? 0 : 2;
    if (shares_output && one_in(state, 2)) {
        uint64_t inputs_end = shares_inputs && ends[1] > ends[0] ? ends[1] : ends[0];
        d->views[output].offset += inputs_end + gap;
    } else if (shares_output) {
        for (int role = 0; role < output; role++) {
            d->views[role].offset += d->buffer[role] == 0 ? ends[output] + gap : 0;
        }
    }
    measure(d, ends);
    for (int role = 0; role < (is_dot ? 3 : 2); role++) {
        uint64_t *bytes = &d->bytes[d->buffer[role]];
        *bytes = ends[role] > *bytes ? ends[role] : *bytes;
        if (ends[role] == 0 && one_in(state, 2)) {
            d->buffer[role] = -1;
        }
    }
}

// --- What it holds

static void draw_block(uint64_t *state, unsigned char *first, uint64_t value_stride, bool is_wild)
{
    uint64_t kind = is_wild ? draw_below(state, 8) : 7;
    for (uint32_t i = 0; i < KQ_BLOCK; i++) {
        uint32_t x = (uint32_t)draw(state);
        uint32_t exponent = kind == 0   ? 0
                            : kind == 1 ? x >> 23 & 3
                            : kind == 2 ? (x >> 23) % 254
                                        : 120 + (x >> 23 & 7);
        x = (x & 0x807FFFFFu) | exponent << 23;
        store_u32(first + i * value_stride, kind == 3 ? x & 0x80000000u : x);
    }
    if (kind == 4) {
        static const uint32_t bad[] = {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFF800001u};
        store_u32(first + draw_below(state, KQ_BLOCK) * value_stride, bad[draw_below(state, 4)]);
    }
}

// Makes the item at `at` one that most sums survive.
static void tame(uint64_t *state, const drawn *d, const kq_shape *shape, int role, bool is_wild,
                 unsigned char *at)
{
    if (d->op == KQ_OP_QUANTIZE) {
        draw_block(state, at, shape->value_stride, is_wild);
    } else if (role == KQ_LHS) {
        draw_f16_words(state, at, 4);
    } else {
        draw_f32_words(state, at, 4);
    }
}

static void fill(uint64_t *state, drawn *d)
{
    uint64_t ends[3];
    kq_shape shape = measure(d, ends);
    bool is_wild = one_in(state, 4);
    for (int b = 0; b < 3; b++) {
        d->bytes[b] += d->bytes[b] > 0 ? draw_below(state, 40) : 0;
        if (d->bytes[b] > 0) {
            d->images[b] = malloc((size_t)d->bytes[b]);
            if (d->images[b] == NULL) {
                abort();
            }
            draw_bytes(state, d->images[b], (size_t)d->bytes[b]);
        }
    }
    int inputs = d->op == KQ_OP_QUANTIZE ? 1 : is_wild && one_in(state, 2) ? 0 : 2;
    for (int role = 0; role < inputs; role++) {
        const kq_extent *e = &shape.extents[role];
        uint64_t items = ends[role] > 0 ? (uint64_t)shape.G * shape.count[0] * shape.count[1] : 0;
        for (uint64_t n = 0; n < items; n++) {
            uint64_t dot = n / shape.G;
            uint64_t at = e->offset + n % shape.G * e->stride;
            at += dot % shape.count[0] * e->step[0] + dot / shape.count[0] * e->step[1];
            tame(state, d, &shape, role, is_wild, d->images[d->buffer[role]] + at);
        }
    }
}

// Makes dots such as variants of the kernels serve: lhs at multiples of 16 bytes, often the same
// for each of the outer count, and rhs for each of the inner one.
static void draw_aligned(uint64_t *state, drawn_size size, drawn *d)
{
    kq_repeat *r = &d->repeat;
    kq_view *lhs = &d->views[KQ_LHS];
    lhs->offset -= lhs->offset % 16;
    lhs->stride -= lhs->stride == KQ_BROADCAST ? 0 : lhs->stride % 16;
    for (int k = 0; k < 2; k++) {
        r->lhs_step[k] -= r->lhs_step[k] % 16;
    }
    if (one_in(state, 3)) {
        return;
    }
    uint32_t rows = 32 + (uint32_t)draw_below(state, 40);
    uint32_t columns = size.records / ((lhs->G + 1) * rows);
    if (one_in(state, 2) && columns > 0) {
        r->count[0] = rows;
        r->count[1] = 1 + (uint32_t)draw_below(state, columns < 10 ? columns : 10);
        r->lhs_step[0] = 16 * draw_below(state, 40);
        r->rhs_step[1] = draw_stride(state, KQ_Q8_K_BYTES);
    }
    r->lhs_step[1] = 0;
    r->rhs_step[0] = 0;
}

// Makes blocks such as a variant of quantize serves: packed values at multiples of 16 bytes, and
// records at those of 4.
static void draw_aligned_blocks(drawn *d)
{
    kq_view *values = &d->views[KQ_VALUES];
    kq_view *records = &d->views[KQ_RECORDS];
    values->offset -= values->offset % 16;
    values->stride -= values->stride == KQ_BROADCAST ? 0 : values->stride % 16;
    values->value_stride = 0;
    records->offset -= records->offset % 4;
    records->stride -= records->stride % 4;
}

void draw_operation(uint64_t *state, drawn_size size, drawn *d)
{
    memset(d, 0, sizeof *d);
    d->op = draw_below(state, 3) == 0 ? KQ_OP_QUANTIZE : KQ_OP_QUANTIZED_DOT;
    d->order = (kq_order)draw_below(state, 2);
    draw_counts(state, size, d);
    const uint32_t *count = d->repeat.count;
    bool is_dot = d->op == KQ_OP_QUANTIZED_DOT;
    uint32_t G = d->views[0].G;
    for (int role = 0; role < (is_dot ? 3 : 2); role++) {
        d->views[role].offset = draw_offset(state);
    }
    if (is_dot) {
        d->views[KQ_LHS].stride = draw_view_stride(state, KQ_Q4_K_BYTES, G);
        d->views[KQ_RHS].stride = draw_view_stride(state, KQ_Q8_K_BYTES, G);
        for (int k = 0; k < 2; k++) {
            d->repeat.lhs_step[k] = draw_step(state, KQ_Q4_K_BYTES, count[k]);
            d->repeat.rhs_step[k] =
                one_in(state, 2) ? 0 : draw_step(state, KQ_Q8_K_BYTES, count[k]);
        }
        if (one_in(state, 3)) {
            draw_aligned(state, size, d);
        }
        draw_result_steps(state, &d->repeat);
    } else {
        kq_view *values = &d->views[KQ_VALUES];
        uint64_t value_stride = one_in(state, 2) ? 0 : 4 * draw_magnitude(state, 2000);
        values->value_stride = one_in(state, 16) ? KQ_BROADCAST : value_stride;
        values->stride = draw_view_stride(state, one_in(state, 2) ? 4 : KQ_BLOCK_BYTES, G);
        d->views[KQ_RECORDS].stride =
            one_in(state, 2) ? 0 : KQ_Q8_K_BYTES + draw_below(state, one_in(state, 4) ? 9000 : 9);
        if (one_in(state, 3)) {
            draw_aligned_blocks(d);
        }
    }
    shrink(d, size.bytes);
    place(state, d);
    fill(state, d);
}

void free_drawn(drawn *d)
{
    for (int b = 0; b < 3; b++) {
        free(d->images[b]);
    }
}

void print_drawn(const drawn *d)
{
    bool is_dot = d->op == KQ_OP_QUANTIZED_DOT;
    fprintf(stderr, "%s, G = %" PRIu32 "\n",
            !is_dot                         ? "quantize"
            : d->order == KQ_ORDER_PAIRWISE ? "pairwise dot"
                                            : "sequential dot",
            d->views[0].G);
    for (int role = 0; role < (is_dot ? 3 : 2); role++) {
        const kq_view *v = &d->views[role];
        fprintf(stderr,
                "  operand %d: offset %" PRIu64 ", stride %" PRIu64 ", value_stride %" PRIu64
                ", buffer %d\n",
                role, v->offset, v->stride, v->value_stride, d->buffer[role]);
    }
    const kq_repeat *r = &d->repeat;
    for (int k = 0; k < 2 && d->has_repeat; k++) {
        fprintf(stderr,
                "  loop %d: count %" PRIu32 ", steps %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n", k,
                r->count[k], r->lhs_step[k], r->rhs_step[k], r->result_step[k]);
    }
}
