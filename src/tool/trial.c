#include "trial.h"
#include "bytes.h"

#include <stdlib.h>

uint32_t operand_bytes(kq_op op, unsigned operand)
{
    if (op == KQ_OP_QUANTIZE) {
        return operand == OPERAND_VALUES ? KQ_BLOCK_BYTES : KQ_Q8_K_BYTES;
    }
    return operand == OPERAND_LHS ? KQ_Q4_K_BYTES : operand == OPERAND_RHS ? KQ_Q8_K_BYTES : 4;
}

uint64_t layout_dots(const layout *layout)
{
    if (!layout->has_repeat) {
        return 1;
    }
    return (uint64_t)layout->repeat.count[0] * layout->repeat.count[1];
}

// --- Places. All strides and steps are small here: the sums can't overflow.

static uint64_t stride_of(uint64_t stride, uint64_t packed)
{
    return stride == 0 ? packed : stride == KQ_BROADCAST ? 0 : stride;
}

static const uint64_t *steps_of(const layout *layout, unsigned operand)
{
    return operand == OPERAND_LHS   ? layout->repeat.lhs_step
           : operand == OPERAND_RHS ? layout->repeat.rhs_step
                                    : layout->repeat.result_step;
}

// Bytes from the start of the operand of dot (0, 0) to that of dot (i, j).
static uint64_t dot_at(const layout *layout, unsigned operand, uint32_t i, uint32_t j)
{
    if (!layout->has_repeat) {
        return 0;
    }
    const uint64_t *step = steps_of(layout, operand);
    return i * step[0] + j * step[1];
}

// Bytes from the start of an operand to the end of its last byte.
static uint64_t span_of(kq_op op, const layout *layout, unsigned operand, uint32_t G)
{
    uint64_t dots = layout_dots(layout);
    const kq_view *view = &layout->views[operand];
    uint64_t bytes = operand_bytes(op, operand);
    uint64_t span = bytes;
    if (op == KQ_OP_QUANTIZE || operand != OPERAND_OUT) {
        if (G == 0) {
            return 0;
        }
        span += (G - 1) * stride_of(view->stride, bytes);
        if (view->value_stride != 0) {
            span += (KQ_BLOCK - 1) * stride_of(view->value_stride, 4) + 4 - bytes;
        }
    }
    if (dots == 0) {
        return 0;
    }
    if (layout->has_repeat) {
        span += dot_at(layout, operand, layout->repeat.count[0] - 1, layout->repeat.count[1] - 1);
    }
    return span;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

void trial_lay_out(trial *trial, kq_op op, uint32_t G, const layout *layout, uint64_t seed)
{
    memset(trial, 0, sizeof *trial);
    trial->op = op;
    trial->layout = *layout;

    uint64_t end[OPERANDS] = {0};  // of what is in each buffer so far
    for (unsigned operand = 0; operand < OPERANDS; operand++) {
        if (op == KQ_OP_QUANTIZE && operand == OPERAND_RHS) {
            continue;
        }
        kq_view *view = &trial->layout.views[operand];
        view->G = G;
        if (layout->null_inputs && operand != OPERAND_OUT) {
            continue;
        }
        unsigned buffer = layout->one_buffer || trial->buffer_count == 0 ? 0 : trial->buffer_count;
        if (buffer == trial->buffer_count) {
            trial->buffer_count++;
        }
        trial->buffer_of[operand] = buffer;
        view->offset += round_up(end[buffer], GUARD_BYTES) + GUARD_BYTES;
        end[buffer] = view->offset + span_of(op, &trial->layout, operand, G);
        if (op == KQ_OP_QUANTIZED_DOT && operand == OPERAND_OUT) {
            // Results are guarded from each other like any other operand.
            trial->pairwise_bytes = round_up(end[buffer] - view->offset, 4) + GUARD_BYTES;
            end[buffer] += trial->pairwise_bytes;
        }
    }
    for (unsigned buffer = 0; buffer < trial->buffer_count; buffer++) {
        uint64_t size = end[buffer] + (layout->exact_end ? 0 : GUARD_BYTES);
        trial->before[buffer] = allocate(size, 1);
        trial->sizes[buffer] = (size_t)size;
        uint64_t state = seed + buffer;
        for (size_t i = 0; i < size; i++) {
            trial->before[buffer][i] = (uint8_t)(0xA5 ^ (draw(&state) & 0x5A));
        }
    }
}

// Moves packed records of an operand of dot (i, j) between their places in a buffer and `packed`.
static void move(const trial *trial, unsigned operand, uint32_t i, uint32_t j, uint8_t *buffer,
                 uint8_t *packed, bool to_buffer)
{
    const kq_view *view = &trial->layout.views[operand];
    size_t bytes = operand_bytes(trial->op, operand);
    // Only values lie apart; all else moves whole.
    bool is_apart = view->value_stride != 0;
    size_t part = is_apart ? 4 : bytes;
    uint64_t part_stride = is_apart ? stride_of(view->value_stride, 4) : bytes;
    uint64_t record = view->offset + dot_at(&trial->layout, operand, i, j);
    for (uint32_t g = 0; g < view->G; g++, record += stride_of(view->stride, bytes)) {
        uint64_t at = record;
        for (size_t k = 0; k < bytes; k += part, at += part_stride, packed += part) {
            if (to_buffer) {
                memcpy(buffer + at, packed, part);
            } else {
                memcpy(packed, buffer + at, part);
            }
        }
    }
}

void trial_put(trial *trial, unsigned operand, uint32_t i, uint32_t j, const uint8_t *packed)
{
    uint8_t *buffer = trial->before[trial->buffer_of[operand]];
    move(trial, operand, i, j, buffer, (uint8_t *)packed, true);
}

void trial_get(const trial *trial, unsigned operand, uint32_t i, uint32_t j, uint8_t *packed)
{
    uint8_t *buffer = trial->before[trial->buffer_of[operand]];
    move(trial, operand, i, j, buffer, packed, false);
}

uint64_t trial_record_at(const trial *trial, uint32_t g)
{
    const kq_view *view = &trial->layout.views[OPERAND_OUT];
    return view->offset + g * stride_of(view->stride, KQ_Q8_K_BYTES);
}

uint64_t trial_result_at(const trial *trial, kq_order order, uint32_t i, uint32_t j)
{
    return trial->layout.views[OPERAND_OUT].offset + dot_at(&trial->layout, OPERAND_OUT, i, j) +
           (order == KQ_ORDER_PAIRWISE ? trial->pairwise_bytes : 0);
}

// --- What is expected

void trial_expect_nothing(trial *trial)
{
    unsigned buffer = trial->buffer_of[OPERAND_OUT];
    trial->after = allocate(trial->sizes[buffer], 1);
    memcpy(trial->after, trial->before[buffer], trial->sizes[buffer]);
}

void trial_expect_records(trial *trial, const uint8_t *packed)
{
    move(trial, OPERAND_OUT, 0, 0, trial->after, (uint8_t *)packed, true);
}

void trial_expect_result(trial *trial, kq_order order, uint32_t i, uint32_t j, uint32_t bits)
{
    store_u32(trial->after + trial_result_at(trial, order, i, j), bits);
}

static void poison(trial *trial, uint64_t at, size_t count)
{
    uint8_t *before = trial->before[trial->buffer_of[OPERAND_OUT]];
    for (uint64_t k = at; k < at + count; k++) {
        if (before[k] == trial->after[k]) {
            before[k] ^= 0xFF;
        }
    }
}

void trial_poison_outputs(trial *trial)
{
    if (trial->op == KQ_OP_QUANTIZE) {
        for (uint32_t g = 0; g < trial->layout.views[OPERAND_OUT].G; g++) {
            poison(trial, trial_record_at(trial, g), KQ_Q8_K_BYTES);
        }
        return;
    }
    bool has_repeat = trial->layout.has_repeat;
    const uint32_t *count = trial->layout.repeat.count;
    for (uint32_t j = 0; j < (has_repeat ? count[1] : 1); j++) {
        for (uint32_t i = 0; i < (has_repeat ? count[0] : 1); i++) {
            poison(trial, trial_result_at(trial, KQ_ORDER_SEQUENTIAL, i, j), 4);
            poison(trial, trial_result_at(trial, KQ_ORDER_PAIRWISE, i, j), 4);
        }
    }
}

void trial_free(trial *trial)
{
    for (unsigned buffer = 0; buffer < trial->buffer_count; buffer++) {
        free(trial->before[buffer]);
    }
    free(trial->after);
    memset(trial, 0, sizeof *trial);
}

// --- Running

static kq_buffer_view view_of(const trial *trial, const target *target, unsigned operand)
{
    bool is_null = trial->layout.null_inputs && operand != OPERAND_OUT;
    return (kq_buffer_view){
        .buffer = is_null ? NULL : target->buffers[trial->buffer_of[operand]],
        .view = trial->layout.views[operand],
    };
}

// Blocks first .. end - 1: carried out, or recorded where `recording` is not NULL.
static kq_result quantize(const trial *trial, const target *target, uint32_t first, uint32_t end,
                          kq_domain *domain, kq_recording **recording)
{
    kq_quantize_args args = {
        .format = KQ_FORMAT_Q8_K,
        .values = view_of(trial, target, OPERAND_VALUES),
        .records = view_of(trial, target, OPERAND_OUT),
        .domain = domain,
    };
    args.values.view.G = end - first;
    args.values.view.offset += first * stride_of(args.values.view.stride, KQ_BLOCK_BYTES);
    args.records.view.G = end - first;
    args.records.view.offset = trial_record_at(trial, first);
    return recording != NULL ? kq_quantize_record(target->device, &args, recording)
                             : kq_quantize(target->device, &args);
}

// The same with dots first .. end - 1 of the inner loop, in one order.
static kq_result dot(const trial *trial, const target *target, kq_order order, uint32_t first,
                     uint32_t end, kq_recording **recording)
{
    kq_repeat repeat = trial->layout.repeat;
    repeat.count[0] = end - first;
    kq_quantized_dot_args args = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = view_of(trial, target, OPERAND_LHS),
        .rhs = view_of(trial, target, OPERAND_RHS),
        .result = target->buffers[trial->buffer_of[OPERAND_OUT]],
        .result_offset = trial_result_at(trial, order, first, 0),
        .repeat = trial->layout.has_repeat ? &repeat : NULL,
    };
    args.lhs.view.offset += dot_at(&trial->layout, OPERAND_LHS, first, 0);
    args.rhs.view.offset += dot_at(&trial->layout, OPERAND_RHS, first, 0);
    return recording != NULL ? kq_quantized_dot_record(target->device, &args, recording)
                             : kq_quantized_dot(target->device, &args);
}

static uint32_t calls_of(const trial *trial)
{
    return trial->layout.calls != 0 ? trial->layout.calls : 1;
}

static unsigned orders_of(const trial *trial)
{
    return trial->op == KQ_OP_QUANTIZE ? 1 : 2;
}

// All calls, carried out; or each recorded in one of `recordings`, if not NULL.
static kq_result call(const trial *trial, const target *target, kq_domain *domain,
                      kq_recording **recordings)
{
    const layout *layout = &trial->layout;
    bool is_quantize = trial->op == KQ_OP_QUANTIZE;
    uint64_t count = is_quantize          ? layout->views[OPERAND_VALUES].G
                     : layout->has_repeat ? layout->repeat.count[0]
                                          : 1;
    uint32_t calls = calls_of(trial);
    kq_result result = KQ_OK;
    for (unsigned order = 0; order < orders_of(trial); order++) {
        for (uint32_t k = 0; k < calls && result == KQ_OK; k++) {
            uint32_t first = (uint32_t)(count * k / calls);
            uint32_t end = (uint32_t)(count * (k + 1) / calls);
            kq_recording **recording = recordings != NULL ? &recordings[order * calls + k] : NULL;
            result = is_quantize ? quantize(trial, target, first, end, domain, recording)
                                 : dot(trial, target, (kq_order)order, first, end, recording);
        }
    }
    return result;
}

static kq_result reserve(const trial *trial, target *target)
{
    kq_result result = KQ_OK;
    target->reason[0] = '\0';
    for (unsigned b = 0; b < trial->buffer_count && result == KQ_OK; b++) {
        result = target_reserve(target, b, trial->sizes[b], trial->layout.exact_end);
    }
    return result;
}

static void upload(const trial *trial, target *target, outcome *outcome)
{
    for (unsigned b = 0; b < trial->buffer_count && outcome->result == KQ_OK; b++) {
        outcome->result =
            kq_buffer_upload(target->buffers[b], 0, trial->before[b], trial->sizes[b]);
    }
    outcome->has_run = outcome->result == KQ_OK;
}

static void download(const trial *trial, target *target, outcome *outcome)
{
    if (!outcome->has_run || (outcome->result != KQ_OK && outcome->result != KQ_ERROR_DOMAIN)) {
        return;
    }
    for (unsigned b = 0; b < trial->buffer_count; b++) {
        outcome->got[b] = allocate(trial->sizes[b], 1);
        kq_result result =
            kq_buffer_download(target->buffers[b], 0, outcome->got[b], trial->sizes[b]);
        if (result != KQ_OK) {
            outcome_free(outcome);
            outcome->result = result;
            return;
        }
    }
}

static void run(const trial *trial, target *target, outcome *outcome)
{
    outcome->result = reserve(trial, target);
    upload(trial, target, outcome);
    if (outcome->has_run) {
        outcome->result = call(trial, target, &outcome->domain, NULL);
    }
    download(trial, target, outcome);
}

void trial_run(const trial *trial, target *target, outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    if (trial->layout.work == 0) {
        run(trial, target, outcome);
        return;
    }
    struct target *twin = target_twin(target, trial->layout.work);
    if (twin == NULL) {
        outcome->result = KQ_ERROR_DRIVER;
        return;
    }
    run(trial, twin, outcome);
    memcpy(target->reason, twin->reason, sizeof target->reason);
}

// --- Recorded

struct trial_recording {
    const trial *trial;
    target *target;
    kq_domain domain;
    uint32_t count;
    kq_recording *recordings[];
};

trial_recording *trial_record(const trial *trial, target *target, outcome *failed)
{
    uint32_t count = orders_of(trial) * calls_of(trial);
    trial_recording *r = allocate(1, sizeof *r + count * sizeof r->recordings[0]);
    *r = (trial_recording){.trial = trial, .target = target, .count = count};
    memset(failed, 0, sizeof *failed);
    failed->result = reserve(trial, target);
    if (failed->result == KQ_OK) {
        failed->result = call(trial, target, &r->domain, r->recordings);
    }
    if (failed->result != KQ_OK) {
        trial_recording_free(r);
        r = NULL;
    }
    return r;
}

void trial_recording_run(trial_recording *r, outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    r->domain = (kq_domain){0};
    upload(r->trial, r->target, outcome);
    for (uint32_t i = 0; i < r->count && outcome->result == KQ_OK; i++) {
        outcome->result = kq_recording_run(r->recordings[i], NULL);
    }
    outcome->domain = r->domain;
    download(r->trial, r->target, outcome);
}

void trial_recording_free(trial_recording *r)
{
    for (uint32_t i = 0; r != NULL && i < r->count; i++) {
        kq_recording_destroy(&r->recordings[i]);
    }
    free(r);
}

void outcome_free(outcome *outcome)
{
    for (unsigned b = 0; b < OPERANDS; b++) {
        free(outcome->got[b]);
    }
    memset(outcome, 0, sizeof *outcome);
}

static void hash_word(sha256 *hash, uint32_t word)
{
    uint8_t bytes[4];
    store_u32(bytes, word);
    sha256_add(hash, bytes, sizeof bytes);
}

void outcome_digest(const trial *trial, const outcome *outcome, char hex[SHA256_HEX_BYTES])
{
    const uint8_t *got = outcome->got[trial->buffer_of[OPERAND_OUT]];
    sha256 hash;
    hex[0] = '\0';
    if (got == NULL) {
        return;
    }
    sha256_begin(&hash);
    hash_word(&hash, (uint32_t)outcome->result);
    if (outcome->result == KQ_ERROR_DOMAIN) {
        hash_word(&hash, outcome->domain.record);
        hash_word(&hash, outcome->domain.bad_count);
        hash_word(&hash, (uint32_t)outcome->domain.reason);
        hash_word(&hash, outcome->domain.element);
    }
    for (uint32_t g = 0; trial->op == KQ_OP_QUANTIZE && g < trial->layout.views[OPERAND_OUT].G;
         g++) {
        sha256_add(&hash, got + trial_record_at(trial, g), KQ_Q8_K_BYTES);
    }
    const uint32_t one[2] = {1, 1};
    const uint32_t *count = trial->layout.has_repeat ? trial->layout.repeat.count : one;
    for (unsigned order = 0; trial->op == KQ_OP_QUANTIZED_DOT && order < 2; order++) {
        for (uint32_t j = 0; j < count[1]; j++) {
            for (uint32_t i = 0; i < count[0]; i++) {
                sha256_add(&hash, got + trial_result_at(trial, (kq_order)order, i, j), 4);
            }
        }
    }
    sha256_end(&hash, hex);
}
