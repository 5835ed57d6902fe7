// The operations of level 3: arguments, pieces, recordings, domain errors.
#include "device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A buffer's operand, its padding left out.
static kq_result fill_operand(const kq_device *device, const char *name, const kq_buffer *buffer,
                              const kq_view *view, kq_operand *operand)
{
    if (buffer != NULL && buffer->device != device) {
        return kq_fail(&device->errors, KQ_ERROR_ARGUMENT, "%s is a buffer of another device",
                       name);
    }
    operand->buffer = (uint64_t)(uintptr_t)buffer;
    operand->buffer_bytes = buffer != NULL ? buffer->bytes : 0;
    operand->view = *view;
    return KQ_OK;
}

// Reads the lowest bad block back and reports it.
static kq_result report_domain(kq_buffer *buffer, const kq_shape *shape, const kq_status *status,
                               kq_domain *reported)
{
    const kq_errors *errors = &buffer->device->errors;
    const kq_extent *values = &shape->extents[KQ_VALUES];
    uint64_t first = values->offset + status->lowest_bad * values->stride;
    unsigned char block[KQ_BLOCK_BYTES];
    kq_domain domain = {.record = status->lowest_bad, .bad_count = status->bad_count};
    // A packed block is one copy, any other one a value.
    uint32_t pieces = shape->value_stride == 4 ? 1 : KQ_BLOCK;
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t bytes = KQ_BLOCK_BYTES / pieces;
        kq_result result =
            kq_buffer_download(buffer, first + i * shape->value_stride, block + i * bytes, bytes);
        if (result != KQ_OK) {
            return result;
        }
    }
    domain.reason = kq_block_reason(block, 0, &domain.element);
    if (reported != NULL && domain.reason != KQ_REASON_NONE) {
        *reported = domain;
    }
    if (domain.reason == KQ_REASON_NONFINITE_INPUT) {
        return kq_fail(errors, KQ_ERROR_DOMAIN,
                       "record %" PRIu32 ": nonfinite-input@%" PRIu32
                       ", its first infinity or NaN; %" PRIu32 " bad records in all",
                       domain.record, domain.element, domain.bad_count);
    }
    if (domain.reason == KQ_REASON_INVERSE_OVERFLOW) {
        return kq_fail(errors, KQ_ERROR_DOMAIN,
                       "record %" PRIu32
                       ": inverse-overflow, its largest magnitude is below 0x02FE0001 and not 0; "
                       "%" PRIu32 " bad records in all",
                       domain.record, domain.bad_count);
    }
    return kq_fail(errors, KQ_ERROR_DRIVER,
                   "the driver found record %" PRIu32 " bad, but its block is legal",
                   domain.record);
}

// The host memory that an operation's buffers are copied from and to, as far as it is done.
typedef struct host_side {
    const void *inputs[2];  // by role
    void *output;
    uint64_t done[3];  // bytes, by role
} host_side;

// The operation that the arguments come to, its shape, and where to cut it.
typedef struct job {
    kq_operation operation;
    kq_shape shape;
    kq_capacity capacity;
    kq_cutter cutter;
    host_side *host;  // NULL: all is in buffers already, and stays there
} job;

const kq_buffer *kq_operand_buffer(const kq_operation *operation, int role)
{
    return (const kq_buffer *)(uintptr_t)operation->operands[role].buffer;
}

void *kq_piece_memory(const kq_operation *operation, const kq_piece *piece, int role, void *stage)
{
    if (role != KQ_RESULT && piece->shape.G == 0) {
        return NULL;
    }
    const kq_buffer *buffer = kq_operand_buffer(operation, role);
    return piece->is_staged[role]
               ? stage
               : kq_buffer_run(buffer, piece->source.extents[role].offset, 1).memory;
}

kq_transfer kq_piece_transfer(const kq_operation *operation, const kq_piece *piece)
{
    return (kq_transfer){
        .from_offset = piece->shape.extents[KQ_FROM].offset,
        .to_offset = piece->shape.extents[KQ_TO].offset,
        .bytes = (uint64_t)piece->shape.G * KQ_BANDWIDTH_BYTES,
        .is_copy = operation->is_copy,
    };
}

static kq_result start_job(const kq_device *device, job *j)
{
    kq_result result = kq_shape_make(&j->operation, &device->errors, &j->shape);
    j->capacity = device->capacity;
    j->capacity.work = j->host != NULL ? device->host_work : device->capacity.work;
    j->cutter = kq_cut_start(&j->operation, &j->shape, device->is_limited ? &j->capacity : NULL);
    return result;
}

static kq_result start_quantize(const kq_device *device, const kq_quantize_args *args, job *j)
{
    j->operation = (kq_operation){
        .op = KQ_OP_QUANTIZE,
        .format = args->format,
        // Status lies apart, in no buffer of the caller's.
        .operands[KQ_STATUS] = {.buffer = UINT64_MAX, .buffer_bytes = sizeof(kq_status)},
    };
    kq_result result = kq_device_check_op(device, KQ_OP_QUANTIZE, "KQ_OP_QUANTIZE");
    if (result == KQ_OK) {
        result = fill_operand(device, "values", args->values.buffer, &args->values.view,
                              &j->operation.operands[KQ_VALUES]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "records", args->records.buffer, &args->records.view,
                              &j->operation.operands[KQ_RECORDS]);
    }
    return result != KQ_OK ? result : start_job(device, j);
}

static kq_result start_dot(const kq_device *device, const kq_quantized_dot_args *args, job *j)
{
    const kq_view result_view = {.offset = args->result_offset};
    j->operation = (kq_operation){
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = args->lhs_format,
        .rhs_format = args->rhs_format,
        .acc = args->acc,
        .order = args->order,
        .repeat = args->repeat,
    };
    kq_result result = kq_device_check_op(device, KQ_OP_QUANTIZED_DOT, "KQ_OP_QUANTIZED_DOT");
    if (result == KQ_OK) {
        result = fill_operand(device, "lhs", args->lhs.buffer, &args->lhs.view,
                              &j->operation.operands[KQ_LHS]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "rhs", args->rhs.buffer, &args->rhs.view,
                              &j->operation.operands[KQ_RHS]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "result", args->result, &result_view,
                              &j->operation.operands[KQ_RESULT]);
    }
    return result != KQ_OK ? result : start_job(device, j);
}

// The sum of what the pieces need. An operation with nothing to do has none.
static kq_result sum_needs(const kq_device *device, job *j, kq_needs *needs)
{
    kq_piece piece;
    bool is_empty = j->operation.op == KQ_OP_QUANTIZE && j->shape.G == 0;
    memset(needs, 0, sizeof *needs);
    needs->largest_G = UINT32_MAX;
    needs->largest_count = UINT32_MAX;
    while (device->is_limited && !is_empty && kq_cut_next(&j->cutter, &piece)) {
        if (piece.needs.limit != NULL) {
            *needs = piece.needs;
            return KQ_OK;
        }
        needs->dispatch_count += piece.needs.dispatch_count;
        needs->submission_count++;
        if (piece.needs.scratch_bytes > needs->scratch_bytes) {
            needs->scratch_bytes = piece.needs.scratch_bytes;
        }
        for (int role = 0; role < 3; role++) {
            needs->staged_bytes[role] += piece.needs.staged_bytes[role];
        }
    }
    return KQ_OK;
}

static kq_result check_needs(const kq_device *device, const kq_needs *needs)
{
    if (device == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    return needs != NULL ? KQ_OK : kq_fail(&device->errors, KQ_ERROR_ARGUMENT, "needs is null");
}

kq_result kq_quantize_query(const kq_device *device, const kq_quantize_args *args, kq_needs *needs)
{
    job j = {0};
    kq_result result = check_needs(device, needs);
    result = result != KQ_OK ? result : start_quantize(device, args, &j);
    return result != KQ_OK ? result : sum_needs(device, &j, needs);
}

kq_result kq_quantized_dot_query(const kq_device *device, const kq_quantized_dot_args *args,
                                 kq_needs *needs)
{
    job j = {0};
    kq_result result = check_needs(device, needs);
    result = result != KQ_OK ? result : start_dot(device, args, &j);
    return result != KQ_OK ? result : sum_needs(device, &j, needs);
}

// --- Carrying it out

// What the pieces that have run came to.
typedef struct outcome {
    kq_status status;
    uint32_t blocks;
    uint64_t nanoseconds;
    bool is_timed;  // each of them
} outcome;

static const outcome no_outcome = {.status = KQ_STATUS_PRESET, .is_timed = true};

// Adds a piece of G blocks, whose status counts from its own first record.
static void add_outcome(const kq_status *status, uint32_t G, uint64_t nanoseconds, outcome *all)
{
    if (all->status.bad_count == 0 && status->bad_count > 0 && status->lowest_bad < G) {
        all->status.lowest_bad = all->blocks + status->lowest_bad;
    }
    all->status.bad_count += status->bad_count;
    all->status.done_count += status->done_count;
    all->blocks += G;
    all->nanoseconds += nanoseconds;
    all->is_timed &= nanoseconds > 0;
}

// Whether the kernels of quantize did what they should, and what they found.
static kq_result judge_status(kq_buffer *values, const kq_shape *shape, const kq_status *all,
                              kq_domain *domain)
{
    if (all->done_count != shape->G || all->bad_count > shape->G ||
        (all->bad_count > 0) != (all->lowest_bad < shape->G)) {
        return kq_fail(&values->device->errors, KQ_ERROR_DRIVER,
                       "the driver reports %" PRIu32 " of %" PRIu32 " records written, %" PRIu32
                       " bad, the lowest %" PRIu32,
                       all->done_count, shape->G, all->bad_count, all->lowest_bad);
    }
    return all->bad_count > 0 ? report_domain(values, shape, all, domain) : KQ_OK;
}

static bool has_work(const job *j)
{
    return j->operation.op == KQ_OP_QUANTIZE ? j->shape.G > 0
                                             : j->shape.count[0] > 0 && j->shape.count[1] > 0;
}

static int output_role(const job *j)
{
    return j->operation.op == KQ_OP_QUANTIZE ? KQ_RECORDS : KQ_RESULT;
}

// The bytes of an operand from the start of its buffer to the piece's last.
static uint64_t end_of(const kq_piece *piece, int role)
{
    uint64_t end = 0;
    kq_extent_end(&piece->source, role, &end);
    return end;
}

// The inputs of a piece, so far as none before had them.
static kq_result upload_inputs(kq_device *device, const job *j, const kq_piece *piece)
{
    for (int role = 0; role < output_role(j) && piece->source.G > 0; role++) {
        const kq_buffer *buffer = kq_operand_buffer(&j->operation, role);
        const unsigned char *data = j->host->inputs[role];
        uint64_t end = end_of(piece, role);
        for (uint64_t *done = &j->host->done[role]; *done < end;) {
            kq_segment_run run = kq_buffer_run(buffer, *done, end - *done);
            kq_result result =
                device->backend->upload(device, run.memory, run.offset, data + *done, run.bytes);
            if (result != KQ_OK) {
                return result;
            }
            *done += run.bytes;
        }
    }
    return KQ_OK;
}

static kq_result download_output(kq_device *device, const job *j, const kq_piece *piece)
{
    int role = output_role(j);
    const kq_buffer *buffer = kq_operand_buffer(&j->operation, role);
    unsigned char *data = j->host->output;
    uint64_t end = kq_piece_writes(piece) ? end_of(piece, role) : 0;
    for (uint64_t *done = &j->host->done[role]; *done < end;) {
        kq_segment_run run = kq_buffer_run(buffer, *done, end - *done);
        kq_result result =
            device->backend->download(device, run.memory, run.offset, data + *done, run.bytes);
        if (result != KQ_OK) {
            return result;
        }
        *done += run.bytes;
    }
    return KQ_OK;
}

// Starts a piece, if the backend can, else carries it out.
static kq_result start_piece(kq_device *device, const job *j, const kq_piece *piece,
                             kq_status *status)
{
    const kq_backend *backend = device->backend;
    uint64_t nanoseconds = 0;
    kq_result result = kq_needs_fit(&piece->needs, &device->errors);
    if (result == KQ_OK && j->host != NULL) {
        result = upload_inputs(device, j, piece);
    }
    if (result == KQ_OK && backend->perform != NULL) {
        result = backend->perform(device, &j->operation, piece, status);
    } else if (result == KQ_OK) {
        result = backend->record(device, device->work, 0, &j->operation, piece);
        result =
            result != KQ_OK ? result : backend->run(device, device->work, 0, status, &nanoseconds);
    }
    if (result == KQ_OK && j->host != NULL) {
        result = download_output(device, j, piece);
    }
    return result == KQ_OK && backend->submit != NULL ? backend->submit(device) : result;
}

// Whether all is to be done again. A dispatch that leaves a sum as it was may be right, for terms
// may be zeros, or too small; but if one was lost, that isn't so twice.
static bool is_in_doubt(const kq_device *device, uint32_t *before, unsigned *runs,
                        kq_result *result)
{
    enum { MOST_RUNS = 3 };
    bool is_told =
        *result == KQ_OK && device->doubts > 0 && (*runs == 0 || device->doubts != *before);
    *before = device->doubts;
    ++*runs;
    if (is_told && *runs == MOST_RUNS) {
        *result = kq_fail(&device->errors, KQ_ERROR_DRIVER,
                          "the driver does not do the parts of a dot in the same way twice");
    }
    return is_told && *runs < MOST_RUNS;
}

// Piece by piece: while one runs, the next is made ready.
static kq_result run_pieces(kq_device *device, job *j, outcome *all)
{
    enum { RING = KQ_IN_FLIGHT + 1 };
    static const kq_status preset = KQ_STATUS_PRESET;
    kq_status statuses[RING];
    uint32_t G[RING];
    uint64_t started = 0;
    uint64_t added = 0;
    kq_piece piece;
    kq_result result = KQ_OK;
    *all = no_outcome;
    while (result == KQ_OK && has_work(j) && kq_cut_next(&j->cutter, &piece)) {
        G[started % RING] = piece.shape.G;
        statuses[started % RING] = preset;
        result = start_piece(device, j, &piece, &statuses[started % RING]);
        started++;
        if (result == KQ_OK && started > KQ_IN_FLIGHT) {
            add_outcome(&statuses[added % RING], G[added % RING], 0, all);
            added++;
        }
    }
    result = kq_device_finish(device, result);
    for (; result == KQ_OK && added < started; added++) {
        add_outcome(&statuses[added % RING], G[added % RING], 0, all);
    }
    return result;
}

static kq_result run_job(kq_device *device, job *j, outcome *all)
{
    const kq_cutter start = j->cutter;
    uint32_t doubts = 0;
    unsigned runs = 0;
    kq_result result = KQ_OK;
    do {
        j->cutter = start;
        device->doubts = 0;
        if (j->host != NULL) {
            j->host->done[output_role(j)] = 0;
        }
        result = run_pieces(device, j, all);
    } while (is_in_doubt(device, &doubts, &runs, &result));
    return result;
}

static kq_result quantize(kq_device *device, const kq_quantize_args *args, host_side *host)
{
    job j = {.host = host};
    outcome all;
    kq_result result = start_quantize(device, args, &j);
    result = result != KQ_OK ? result : run_job(device, &j, &all);
    return result != KQ_OK || !has_work(&j)
               ? result
               : judge_status(args->values.buffer, &j.shape, &all.status, args->domain);
}

static kq_result quantized_dot(kq_device *device, const kq_quantized_dot_args *args,
                               host_side *host)
{
    job j = {.host = host};
    outcome all;
    kq_result result = start_dot(device, args, &j);
    return result != KQ_OK ? result : run_job(device, &j, &all);
}

kq_result kq_quantize(kq_device *device, const kq_quantize_args *args)
{
    return quantize(device, args, NULL);
}

kq_result kq_quantized_dot(kq_device *device, const kq_quantized_dot_args *args)
{
    return quantized_dot(device, args, NULL);
}

// --- Recordings

struct kq_recording {
    kq_device *device;
    kq_operation operation;
    kq_shape shape;
    kq_buffer *values;  // of quantize
    kq_domain *domain;
    void *work;
    uint32_t count;
    kq_piece pieces[];
};

// All of it but the work and the pieces.
static kq_result allocate_recording(kq_device *device, const kq_operation *operation,
                                    uint64_t count, kq_recording **recording)
{
    kq_recording *r = NULL;
    if (count <= UINT32_MAX && count <= (SIZE_MAX - sizeof *r) / sizeof r->pieces[0]) {
        r = calloc(1, sizeof *r + (size_t)count * sizeof r->pieces[0]);
    }
    *recording = r;
    if (r == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY,
                       "out of host memory for a recording of %" PRIu64 " submissions", count);
    }
    r->device = device;
    r->operation = *operation;
    r->operation.repeat = NULL;  // the caller's; pieces have their own
    r->count = (uint32_t)count;
    return KQ_OK;
}

static kq_result record_pieces(job *j, kq_recording *r)
{
    kq_result result = KQ_OK;
    for (uint32_t i = 0; i < r->count && result == KQ_OK; i++) {
        kq_cut_next(&j->cutter, &r->pieces[i]);
        result = kq_needs_fit(&r->pieces[i].needs, &r->device->errors);
        if (result == KQ_OK) {
            result =
                r->device->backend->record(r->device, r->work, i, &r->operation, &r->pieces[i]);
        }
    }
    return result;
}

// Cuts the operation twice, for the pieces need as much room as all of them take.
static kq_result make_recording(kq_device *device, job *j, kq_recording **recording)
{
    const kq_cutter start = j->cutter;
    kq_piece piece;
    uint64_t count = 0;
    uint64_t scratch_bytes = 0;
    while (has_work(j) && kq_cut_next(&j->cutter, &piece)) {
        kq_result result = kq_needs_fit(&piece.needs, &device->errors);
        if (result != KQ_OK) {
            return result;
        }
        count++;
        if (piece.needs.scratch_bytes > scratch_bytes) {
            scratch_bytes = piece.needs.scratch_bytes;
        }
    }
    kq_recording *r = NULL;
    kq_result result = allocate_recording(device, &j->operation, count, &r);
    if (result != KQ_OK) {
        return result;
    }
    r->shape = j->shape;
    j->cutter = start;
    result = device->backend->work_create(device, true, r->count, scratch_bytes, &r->work);
    result = result != KQ_OK ? result : record_pieces(j, r);
    if (result != KQ_OK) {
        kq_recording_destroy(&r);
    }
    *recording = r;
    return result;
}

kq_result kq_quantize_record(kq_device *device, const kq_quantize_args *args,
                             kq_recording **recording)
{
    job j = {0};
    *recording = NULL;
    kq_result result = start_quantize(device, args, &j);
    result = result != KQ_OK ? result : make_recording(device, &j, recording);
    if (result == KQ_OK) {
        (*recording)->values = args->values.buffer;
        (*recording)->domain = args->domain;
    }
    return result;
}

kq_result kq_quantized_dot_record(kq_device *device, const kq_quantized_dot_args *args,
                                  kq_recording **recording)
{
    job j = {0};
    *recording = NULL;
    kq_result result = start_dot(device, args, &j);
    return result != KQ_OK ? result : make_recording(device, &j, recording);
}

static kq_result run_recorded(kq_recording *r, outcome *all)
{
    kq_result result = KQ_OK;
    *all = no_outcome;
    r->device->doubts = 0;
    for (uint32_t i = 0; result == KQ_OK && i < r->count; i++) {
        kq_status status = KQ_STATUS_PRESET;
        uint64_t nanoseconds = 0;
        result = r->device->backend->run(r->device, r->work, i, &status, &nanoseconds);
        if (result == KQ_OK) {
            add_outcome(&status, r->pieces[i].shape.G, nanoseconds, all);
        }
    }
    return result;
}

kq_result kq_recording_run(kq_recording *recording, uint64_t *nanoseconds)
{
    kq_recording *r = recording;
    outcome all = no_outcome;
    uint32_t doubts = 0;
    unsigned runs = 0;
    kq_result result = KQ_OK;
    if (nanoseconds != NULL) {
        *nanoseconds = 0;
    }
    if (r == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    do {
        result = run_recorded(r, &all);
    } while (is_in_doubt(r->device, &doubts, &runs, &result));
    if (result == KQ_OK && nanoseconds != NULL && all.is_timed) {
        *nanoseconds = all.nanoseconds;
    }
    return result != KQ_OK || r->operation.op != KQ_OP_QUANTIZE || r->count == 0
               ? result
               : judge_status(r->values, &r->shape, &all.status, r->domain);
}

void kq_recording_destroy(kq_recording **recording)
{
    kq_recording *r = *recording;
    if (r != NULL) {
        r->device->backend->work_destroy(r->device, r->work);
        free(r);
        *recording = NULL;
    }
}

// --- Bandwidth

// Sets *piece to the transfer of what comes next, as much as a binding and a segment of each buffer
// hold and a dispatch takes; false, with 0 bytes, where that is less than a workgroup's.
static bool next_transfer(const kq_device *device, const kq_operation *operation, uint64_t done,
                          uint64_t bytes, kq_piece *piece)
{
    const kq_transfer before = {.bytes = done, .is_copy = operation->is_copy};
    const kq_transfer left = {.bytes = bytes - done, .is_copy = operation->is_copy};
    const uint64_t at[] = {[KQ_FROM] = done, [KQ_TO] = kq_transfer_written(&before)};
    const uint64_t size[] = {[KQ_FROM] = left.bytes, [KQ_TO] = kq_transfer_written(&left)};
    const kq_limits *limits = &device->capacity.limits;
    const uint64_t groups = (uint64_t)limits->groups[0] * limits->groups[1];
    uint64_t most = device->is_limited ? limits->range_bytes : UINT64_MAX;
    memset(piece, 0, sizeof *piece);
    piece->op = KQ_OP_SELF_TEST;
    for (int role = KQ_FROM; role <= KQ_TO; role++) {
        kq_segment_run run =
            kq_buffer_run(kq_operand_buffer(operation, role), at[role], size[role]);
        uint64_t ratio = left.bytes / size[role];
        piece->source.extents[role].offset = at[role];
        piece->shape.extents[role].offset = run.offset;
        most = most < run.bytes * ratio ? most : run.bytes * ratio;
    }
    most /= KQ_BANDWIDTH_BYTES;
    most = device->is_limited && groups < most ? groups : most;
    piece->shape.G = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    return piece->shape.G > 0;
}

static kq_result check_transfer(const kq_device *device, const kq_operation *operation,
                                uint64_t bytes)
{
    const kq_errors *errors = &device->errors;
    const kq_transfer transfer = {.bytes = bytes, .is_copy = operation->is_copy};
    const uint64_t needed[] = {[KQ_FROM] = bytes, [KQ_TO] = kq_transfer_written(&transfer)};
    static const char *const names[] = {[KQ_FROM] = "from", [KQ_TO] = "to"};
    if (bytes == 0 || bytes % KQ_BANDWIDTH_BYTES != 0) {
        return kq_fail(errors, KQ_ERROR_ARGUMENT,
                       "bytes is %" PRIu64 "; it must be a multiple of %u and not 0", bytes,
                       KQ_BANDWIDTH_BYTES);
    }
    for (int role = KQ_FROM; role <= KQ_TO; role++) {
        const kq_operand *operand = &operation->operands[role];
        if (operand->buffer == 0) {
            return kq_fail(errors, KQ_ERROR_ARGUMENT, "%s is null", names[role]);
        }
        if (operand->buffer_bytes < needed[role]) {
            return kq_fail(errors, KQ_ERROR_ARGUMENT,
                           "%s has %" PRIu64 " bytes; %" PRIu64 " are needed", names[role],
                           operand->buffer_bytes, needed[role]);
        }
    }
    return operation->operands[KQ_FROM].buffer != operation->operands[KQ_TO].buffer
               ? KQ_OK
               : kq_fail(errors, KQ_ERROR_ARGUMENT, "from and to are one buffer");
}

// Counts the pieces, and keeps them in r if that is not NULL.
static kq_result cut_transfer(const kq_device *device, const kq_operation *operation,
                              uint64_t bytes, kq_recording *r, uint64_t *count)
{
    *count = 0;
    for (uint64_t done = 0; done < bytes; (*count)++) {
        kq_piece piece;
        if (!next_transfer(device, operation, done, bytes, &piece)) {
            return kq_fail(&device->errors, KQ_ERROR_UNSUPPORTED,
                           "bindings hold %" PRIu64 " bytes, and allocations %" PRIu64
                           "; whole pieces of %u are needed",
                           device->capacity.limits.range_bytes, device->capacity.segment_bytes,
                           KQ_BANDWIDTH_BYTES);
        }
        done += (uint64_t)piece.shape.G * KQ_BANDWIDTH_BYTES;
        if (r != NULL) {
            r->pieces[*count] = piece;
        }
    }
    return KQ_OK;
}

kq_result kq_bandwidth_record(kq_device *device, kq_buffer *from, kq_buffer *to, uint64_t bytes,
                              int reads_only, kq_recording **recording)
{
    kq_operation operation = {.op = KQ_OP_SELF_TEST, .is_copy = !reads_only};
    const kq_view view = {0};
    kq_recording *r = NULL;
    uint64_t count = 0;
    *recording = NULL;
    kq_result result = kq_device_check_op(device, KQ_OP_SELF_TEST, "KQ_OP_SELF_TEST");
    if (result == KQ_OK) {
        result = fill_operand(device, "from", from, &view, &operation.operands[KQ_FROM]);
    }
    if (result == KQ_OK) {
        result = fill_operand(device, "to", to, &view, &operation.operands[KQ_TO]);
    }
    result = result != KQ_OK ? result : check_transfer(device, &operation, bytes);
    result = result != KQ_OK ? result : cut_transfer(device, &operation, bytes, NULL, &count);
    result = result != KQ_OK ? result : allocate_recording(device, &operation, count, &r);
    result = result != KQ_OK ? result : cut_transfer(device, &operation, bytes, r, &count);
    result = result != KQ_OK ? result
                             : device->backend->work_create(device, true, r->count, 0, &r->work);
    for (uint32_t i = 0; result == KQ_OK && i < r->count; i++) {
        result = device->backend->record(device, r->work, i, &r->operation, &r->pieces[i]);
    }
    if (result != KQ_OK) {
        kq_recording_destroy(&r);
    }
    *recording = r;
    return result;
}

// --- Operations on host memory

static kq_result create_some(kq_device *device, uint64_t bytes, kq_buffer **buffer)
{
    return kq_buffer_create(device, bytes > 0 ? bytes : 1, buffer);
}

static kq_result check_whole(const kq_device *device, const char *name, uint64_t value,
                             uint64_t unit, const char *unit_name)
{
    if (device == NULL) {
        return KQ_ERROR_ARGUMENT;
    }
    if (value % unit == 0 && value / unit <= UINT32_MAX) {
        return KQ_OK;
    }
    if (value % unit == 0) {
        return kq_fail(&device->errors, KQ_ERROR_UNSUPPORTED,
                       "%s is %" PRIu64 ", more than 2^32 - 1 times %s", name, value, unit_name);
    }
    return kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                   "%s is %" PRIu64 "; it must be a multiple "
                   "of %s",
                   name, value, unit_name);
}

kq_result kq_quantize_host(kq_device *device, kq_format format, const float *values,
                           uint64_t value_count, void *records, kq_domain *domain)
{
    uint64_t G = value_count / KQ_BLOCK;
    kq_quantize_args args = {.format = format, .domain = domain};
    kq_result result = check_whole(device, "value_count", value_count, KQ_BLOCK, "256");
    result = result != KQ_OK ? result : kq_check_pointer(device, "values", values, value_count * 4);
    result =
        result != KQ_OK ? result : kq_check_pointer(device, "records", records, G * KQ_Q8_K_BYTES);
    if (result != KQ_OK) {
        return result;
    }
    args.values.view.G = (uint32_t)G;
    args.records.view.G = (uint32_t)G;
    host_side host = {.inputs = {values}, .output = records};
    result = create_some(device, value_count * 4, &args.values.buffer);
    if (result == KQ_OK) {
        result = create_some(device, G * KQ_Q8_K_BYTES, &args.records.buffer);
    }
    if (result == KQ_OK) {
        result = quantize(device, &args, &host);
    }
    kq_buffer_destroy(&args.values.buffer);
    kq_buffer_destroy(&args.records.buffer);
    return result;
}

kq_result kq_quantized_dot_host(kq_device *device, kq_format lhs_format, kq_format rhs_format,
                                kq_accumulator acc, kq_order order, uint32_t count, const void *lhs,
                                uint64_t lhs_bytes, const void *rhs, uint64_t rhs_bytes,
                                float *results)
{
    uint64_t G = rhs_bytes / KQ_Q8_K_BYTES;
    uint64_t result_bytes = (uint64_t)count * 4;
    kq_repeat repeat = {
        .count = {count, 1},
        .lhs_step = {G * KQ_Q4_K_BYTES, 0},
        .result_step = {4, 0},
    };
    kq_quantized_dot_args args = {
        .lhs_format = lhs_format,
        .rhs_format = rhs_format,
        .acc = acc,
        .order = order,
        .repeat = &repeat,
    };
    kq_result result =
        check_whole(device, "rhs_bytes", rhs_bytes, KQ_Q8_K_BYTES, "292, a Q8_K record");
    result = result != KQ_OK
                 ? result
                 : check_whole(device, "lhs_bytes", lhs_bytes, KQ_Q4_K_BYTES, "144, a Q4_K record");
    if (result == KQ_OK && lhs_bytes / KQ_Q4_K_BYTES != G * count) {
        result = kq_fail(&device->errors, KQ_ERROR_ARGUMENT,
                         "lhs has %" PRIu64 " records and rhs has G = %" PRIu64 "; %" PRIu32
                         " dots need equal G, %" PRIu64 " records of lhs",
                         lhs_bytes / KQ_Q4_K_BYTES, G, count, G * count);
    }
    result = result != KQ_OK ? result : kq_check_pointer(device, "lhs", lhs, lhs_bytes);
    result = result != KQ_OK ? result : kq_check_pointer(device, "rhs", rhs, rhs_bytes);
    result = result != KQ_OK ? result : kq_check_pointer(device, "results", results, result_bytes);
    if (result != KQ_OK) {
        return result;
    }
    args.lhs.view.G = (uint32_t)G;
    args.rhs.view.G = (uint32_t)G;
    host_side host = {.inputs = {lhs, rhs}, .output = results};
    result = create_some(device, lhs_bytes, &args.lhs.buffer);
    if (result == KQ_OK) {
        result = create_some(device, rhs_bytes, &args.rhs.buffer);
    }
    if (result == KQ_OK) {
        result = create_some(device, result_bytes, &args.result);
    }
    if (result == KQ_OK) {
        result = quantized_dot(device, &args, &host);
    }
    kq_buffer_destroy(&args.lhs.buffer);
    kq_buffer_destroy(&args.rhs.buffer);
    kq_buffer_destroy(&args.result);
    return result;
}
