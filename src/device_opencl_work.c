// Work of level 3 on OpenCL: pieces, each enqueued, waited for, and seen to be done.
#include "device_opencl.h"

#include <stdlib.h>
#include <string.h>

typedef struct opencl_item {
    const kq_operation *operation;
    const kq_piece *piece;
} opencl_item;

typedef struct opencl_work {
    bool is_kept;
    cl_mem status;
    cl_mem scratch;  // grows, unless the work is kept
    uint64_t scratch_bytes;
    cl_mem stage;  // made when first needed
    opencl_item items[];
} opencl_work;

void kq_opencl_work_destroy(kq_device *device, void *work)
{
    const kq_opencl_device *d = device->self;
    opencl_work *w = work;
    if (w == NULL) {
        return;
    }
    cl_mem memory[] = {w->status, w->scratch, w->stage};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        if (memory[i] != NULL) {
            d->cl.clReleaseMemObject(memory[i]);
        }
    }
    free(w);
}

static kq_result opencl_need_scratch(kq_device *device, uint64_t bytes, opencl_work *w)
{
    const kq_opencl_device *d = device->self;
    cl_mem memory = NULL;
    if (bytes <= w->scratch_bytes) {
        return KQ_OK;
    }
    // The old one goes first, so that both need not fit at once.
    if (w->scratch != NULL) {
        d->cl.clReleaseMemObject(w->scratch);
    }
    w->scratch = NULL;
    w->scratch_bytes = 0;
    kq_result result = kq_opencl_memory_make(device, bytes, &memory);
    if (result == KQ_OK) {
        w->scratch = memory;
        w->scratch_bytes = bytes;
    }
    return result;
}

kq_result kq_opencl_work_create(kq_device *device, bool is_kept, uint32_t count,
                                uint64_t scratch_bytes, void **work)
{
    opencl_work *w = calloc(1, sizeof *w + (size_t)count * sizeof w->items[0]);
    *work = NULL;
    if (w == NULL) {
        return kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for work");
    }
    w->is_kept = is_kept;
    kq_result result = kq_opencl_memory_make(device, sizeof(kq_status), &w->status);
    result = result != KQ_OK ? result : opencl_need_scratch(device, scratch_bytes, w);
    if (result != KQ_OK) {
        kq_opencl_work_destroy(device, w);
        return result;
    }
    *work = w;
    return KQ_OK;
}

kq_result kq_opencl_work_record(kq_device *device, void *work, uint32_t index,
                                const kq_operation *operation, const kq_piece *piece)
{
    opencl_work *w = work;
    bool is_staged = piece->is_staged[0] || piece->is_staged[1] || piece->is_staged[2];
    kq_result result = KQ_OK;
    w->items[index] = (opencl_item){operation, piece};
    if (is_staged && w->stage == NULL) {
        result = kq_opencl_memory_make(device, KQ_BINDING_COUNT * device->capacity.stage_bytes,
                                       &w->stage);
    }
    return result != KQ_OK ? result : opencl_need_scratch(device, piece->needs.scratch_bytes, w);
}

// Copies the runs of a staged operand, in order after all that was enqueued.
static kq_result opencl_copy_runs(const kq_device *device, const opencl_work *w,
                                  const opencl_item *item, int role, bool is_input)
{
    const kq_opencl_device *d = device->self;
    const kq_buffer *buffer = kq_operand_buffer(item->operation, role);
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; i < kq_piece_run_count(item->piece, role); i++) {
        kq_run run = kq_piece_run(item->piece, role, i);
        for (uint64_t done = 0; done < run.bytes && code == CL_SUCCESS;) {
            kq_segment_run part = kq_buffer_run(buffer, run.at + done, run.bytes - done);
            size_t stage = (size_t)(run.stage + done);
            size_t bytes = (size_t)part.bytes;
            code = is_input
                       ? d->cl.clEnqueueCopyBuffer(d->queue, part.memory, w->stage,
                                                   (size_t)part.offset, stage, bytes, 0, NULL, NULL)
                       : d->cl.clEnqueueCopyBuffer(d->queue, w->stage, part.memory, stage,
                                                   (size_t)part.offset, bytes, 0, NULL, NULL);
            done += part.bytes;
        }
    }
    return code == CL_SUCCESS ? KQ_OK : kq_cl_fail(&device->errors, "clEnqueueCopyBuffer", code);
}

// Whether a staged operand's runs were copied, each in a copy of its own: the stage still has what
// they have.
static kq_result check_runs(const kq_device *device, const opencl_work *w, const opencl_item *item,
                            int role)
{
    const kq_opencl_device *d = device->self;
    const kq_buffer *buffer = kq_operand_buffer(item->operation, role);
    const kq_piece *piece = item->piece;
    const uint32_t count = kq_piece_run_count(piece, role);
    const uint32_t items = count > 0 && piece->op == KQ_OP_QUANTIZE ? piece->shape.G : 1;
    unsigned char staged[KQ_BLOCK_BYTES];
    unsigned char other[KQ_BLOCK_BYTES] = {0};
    kq_result result = KQ_OK;
    for (uint32_t i = 0; i < count && result == KQ_OK;) {
        const uint64_t start = kq_piece_run(piece, role, i).stage;
        uint64_t end = start;
        for (const uint32_t next = i + count / items; i < next; i++) {
            const kq_run run = kq_piece_run(piece, role, i);
            for (uint64_t done = 0; done < run.bytes && result == KQ_OK;) {
                kq_segment_run part = kq_buffer_run(buffer, run.at + done, run.bytes - done);
                cl_int code = d->cl.clEnqueueReadBuffer(
                    d->queue, part.memory, CL_FALSE, (size_t)part.offset, (size_t)part.bytes,
                    other + (run.stage + done - start), 0, NULL, NULL);
                result = code == CL_SUCCESS
                             ? KQ_OK
                             : kq_cl_fail(&device->errors, "clEnqueueReadBuffer", code);
                done += part.bytes;
            }
            end = run.stage + run.bytes;
        }
        if (result == KQ_OK) {
            result = kq_opencl_read(device, w->stage, start, staged, end - start);
        }
        if (result != KQ_OK) {
            d->cl.clFinish(d->queue);  // no read may go on into what is gone
        } else if (memcmp(staged, other, (size_t)(end - start)) != 0) {
            result = kq_fail(&device->errors, KQ_ERROR_DRIVER,
                             "clEnqueueCopyBuffer gave CL_SUCCESS, but copied nothing");
        }
    }
    return result;
}

static kq_opencl_view opencl_view_of(const opencl_work *w, const opencl_item *item, int role)
{
    return (kq_opencl_view){kq_piece_memory(item->operation, item->piece, role, w->stage),
                            kq_piece_view(item->piece, role)};
}

// One run of an item.
typedef struct opencl_run {
    kq_device *device;
    const opencl_work *work;
    const opencl_item *item;
    kq_opencl *pack;
    cl_event before;  // of recordings: what came before the kernels
    cl_event last;    // of the last kernel
} opencl_run;

static void release_events(opencl_run *r)
{
    const kq_opencl_device *d = r->device->self;
    if (r->before != NULL) {
        d->cl.clReleaseEvent(r->before);
    }
    if (r->last != NULL) {
        d->cl.clReleaseEvent(r->last);
    }
    r->before = NULL;
    r->last = NULL;
}

// From here on time counts.
static void mark(opencl_run *r)
{
    const kq_opencl_device *d = r->device->self;
    release_events(r);
    if (r->work->is_kept) {
        d->cl.clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &r->before);
    }
}

static kq_result copy_in(const opencl_run *r, int role)
{
    return opencl_copy_runs(r->device, r->work, r->item, role, true);
}

static kq_result copy_out(const opencl_run *r, int role)
{
    return opencl_copy_runs(r->device, r->work, r->item, role, false);
}

static kq_result run_quantize(opencl_run *r, kq_status *status)
{
    const kq_opencl_device *d = r->device->self;
    const opencl_work *w = r->work;
    const kq_opencl_quantize op = {
        .format = r->item->operation->format,
        .values = opencl_view_of(w, r->item, KQ_VALUES),
        .records = opencl_view_of(w, r->item, KQ_RECORDS),
        .status = {.buffer = w->status},
    };
    mark(r);
    kq_result result = copy_in(r, KQ_VALUES);
    if (result == KQ_OK) {
        result = kq_opencl_write(r->device, w->status, 0, status, sizeof *status, true);
    }
    if (result == KQ_OK) {
        result = kq_opencl_quantize_enqueue(r->pack, &op, d->queue, 0, NULL, &r->last);
    }
    result = result != KQ_OK ? result : copy_out(r, KQ_RECORDS);
    result = kq_opencl_finish(r->device, r->last, result);
    return result != KQ_OK ? result
                           : kq_opencl_read(r->device, w->status, 0, status, sizeof *status);
}

// --- Dots that are seen to be done
//
// There are drivers that lose a kernel and say that all is well. So a word of what each dispatch
// writes is one that no sum or term is: a NaN other than CONTRACT.md's. Where the dispatch reads
// the word that it writes, as a long fold does its sum, it must change; should it stay as it was,
// as a sum does of terms that are zero, that is a doubt.

static const uint32_t no_sum = 0xFFFFFFFFu;

enum { DISPATCHES_AT_ONCE = 3 };  // whose words lie apart

static kq_result fail_lost(const kq_device *device)
{
    return kq_fail(
        &device->errors, KQ_ERROR_DRIVER,
        "the driver gave CL_SUCCESS for a kernel, and its event too, but it wrote nothing");
}

// Sets *memory to where the index-th dispatch's word is.
static kq_result find_written(const opencl_run *r, const kq_opencl_quantized_dot *op,
                              uint32_t index, uint32_t *count, kq_written *written, cl_mem *memory)
{
    kq_result result = kq_opencl_dot_written(r->pack, op, index, count, written);
    *memory =
        result == KQ_OK && written->role == KQ_RESULT ? op->result.buffer : op->scratch.buffer;
    return result;
}

// One dispatch after the other: of long dots, and of parts, whose sums wait in scratch from one to
// the next.
static kq_result run_steps(opencl_run *r, const kq_opencl_quantized_dot *op)
{
    const kq_opencl_device *d = r->device->self;
    uint32_t count = 1;
    kq_result result = KQ_OK;
    for (uint32_t i = 0; i < count && result == KQ_OK; i++) {
        kq_written written;
        cl_mem memory;
        uint32_t was = no_sum;
        result = find_written(r, op, i, &count, &written, &memory);
        if (result == KQ_OK) {
            result = written.is_read
                         ? kq_opencl_read(r->device, memory, written.offset, &was, sizeof was)
                         : kq_opencl_write(r->device, memory, written.offset, &no_sum,
                                           sizeof no_sum, false);
        }
        if (result == KQ_OK && r->last != NULL) {
            d->cl.clReleaseEvent(r->last);
            r->last = NULL;
        }
        if (result == KQ_OK) {
            result = kq_opencl_dot_steps_enqueue(r->pack, op, i, 1, d->queue, &r->last);
        }
        result = kq_opencl_finish(r->device, r->last, result);
        uint32_t is = was;
        if (result == KQ_OK) {
            result = kq_opencl_read(r->device, memory, written.offset, &is, sizeof is);
        }
        if (result == KQ_OK && is == was && !written.is_read) {
            result = fail_lost(r->device);
        }
        r->device->doubts += result == KQ_OK && is == was;
    }
    return result;
}

// A word of each dispatch, after all of them.
static kq_result check_written(const opencl_run *r, uint32_t count, const kq_written *written,
                               const cl_mem *memory)
{
    kq_result result = KQ_OK;
    for (uint32_t i = 0; i < count && result == KQ_OK; i++) {
        uint32_t is = no_sum;
        result = kq_opencl_read(r->device, memory[i], written[i].offset, &is, sizeof is);
        if (result == KQ_OK && is == no_sum) {
            result = fail_lost(r->device);
        }
    }
    return result;
}

static kq_result run_dot(opencl_run *r)
{
    const kq_opencl_device *d = r->device->self;
    const opencl_work *w = r->work;
    const kq_piece *piece = r->item->piece;
    const kq_operation *operation = r->item->operation;
    const kq_repeat repeat = kq_piece_repeat(piece);
    const kq_opencl_quantized_dot op = {
        .lhs_format = operation->lhs_format,
        .rhs_format = operation->rhs_format,
        .acc = operation->acc,
        .order = operation->order,
        .lhs = opencl_view_of(w, r->item, KQ_LHS),
        .rhs = opencl_view_of(w, r->item, KQ_RHS),
        .result = {kq_piece_memory(operation, piece, KQ_RESULT, w->stage),
                   piece->shape.extents[KQ_RESULT].offset},
        .scratch = {.buffer = w->scratch},
        .repeat = &repeat,
        .part = &piece->shape.part,
    };
    kq_written written[DISPATCHES_AT_ONCE];
    cl_mem memory[DISPATCHES_AT_ONCE];
    uint32_t count = 1;
    bool is_at_once = true;
    kq_result result = KQ_OK;
    for (uint32_t i = 0; i < count && is_at_once && result == KQ_OK; i++) {
        result = find_written(r, &op, i, &count, &written[i], &memory[i]);
        is_at_once = count <= DISPATCHES_AT_ONCE && !written[i].is_read;
    }
    for (uint32_t i = 0; i < count && is_at_once && result == KQ_OK; i++) {
        result =
            kq_opencl_write(r->device, memory[i], written[i].offset, &no_sum, sizeof no_sum, false);
    }
    if (result != KQ_OK) {
        return result;
    }
    mark(r);
    result = copy_in(r, KQ_LHS);
    result = result != KQ_OK ? result : copy_in(r, KQ_RHS);
    if (result == KQ_OK && is_at_once) {
        result = kq_opencl_dot_steps_enqueue(r->pack, &op, 0, count, d->queue, &r->last);
    } else if (result == KQ_OK) {
        result = run_steps(r, &op);
    }
    result = result != KQ_OK ? result : copy_out(r, KQ_RESULT);
    result = kq_opencl_finish(r->device, r->last, result);
    return result == KQ_OK && is_at_once ? check_written(r, count, written, memory) : result;
}

// What is written may be any word, but not each of two that were there before.
static kq_result run_bandwidth(opencl_run *r)
{
    static const uint32_t others[] = {0xFFFFFFFFu, 0u};
    const kq_opencl_device *d = r->device->self;
    const kq_transfer transfer = kq_piece_transfer(r->item->operation, r->item->piece);
    const cl_mem from = kq_piece_memory(r->item->operation, r->item->piece, KQ_FROM, NULL);
    const cl_mem to = kq_piece_memory(r->item->operation, r->item->piece, KQ_TO, NULL);
    kq_result result = KQ_OK;
    for (int i = 0; i < 2 && result == KQ_OK; i++) {
        uint32_t is = others[i];
        result = kq_opencl_write(r->device, to, transfer.to_offset, &others[i], sizeof is, false);
        mark(r);
        if (result == KQ_OK) {
            result = kq_opencl_bandwidth_enqueue(r->pack, from, to, &transfer, d->queue, &r->last);
        }
        result = kq_opencl_finish(r->device, r->last, result);
        if (result == KQ_OK) {
            result = kq_opencl_read(r->device, to, transfer.to_offset, &is, sizeof is);
        }
        if (result == KQ_OK && is != others[i]) {
            return KQ_OK;
        }
    }
    return result != KQ_OK ? result : fail_lost(r->device);
}

// From the end of all that came before the kernels to the end of the last of them; 0 where the
// driver can't tell.
static uint64_t time_between(const kq_opencl_device *d, cl_event before, cl_event last)
{
    cl_ulong begin = 0;
    cl_ulong end = 0;
    cl_int code =
        d->cl.clGetEventProfilingInfo(before, CL_PROFILING_COMMAND_END, sizeof begin, &begin, NULL);
    if (code == CL_SUCCESS) {
        code =
            d->cl.clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    }
    return code == CL_SUCCESS && end > begin ? end - begin : 0;
}

kq_result kq_opencl_work_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                             uint64_t *nanoseconds)
{
    const kq_opencl_device *d = device->self;
    const opencl_work *w = work;
    opencl_run r = {.device = device, .work = w, .item = &w->items[index]};
    const kq_op op = r.item->operation->op;
    *nanoseconds = 0;
    kq_result result = kq_opencl_need_pack(device, op, &r.pack);
    if (result == KQ_OK) {
        result = op == KQ_OP_QUANTIZE    ? run_quantize(&r, status)
                 : op == KQ_OP_SELF_TEST ? run_bandwidth(&r)
                                         : run_dot(&r);
    }
    for (int role = 0; role < 3 && op != KQ_OP_SELF_TEST && result == KQ_OK; role++) {
        result = check_runs(device, w, r.item, role);
    }
    if (result == KQ_OK && r.before != NULL && r.last != NULL) {
        *nanoseconds = time_between(d, r.before, r.last);
    }
    release_events(&r);
    return result;
}
