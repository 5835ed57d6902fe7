#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "property_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t property_stride(const kq_view *view, uint64_t size)
{
    return view->stride == KQ_BROADCAST ? 0 : view->stride == 0 ? size : view->stride;
}

// An operation on one of two devices.
typedef struct side {
    kq_device *device;
    kq_buffer *buffers[3];
    kq_result result;
    kq_domain domain;
} side;

static void expect_ok(const kq_device *device, kq_result result)
{
    if (result != KQ_OK) {
        const report *r = device->errors.user;
        fail_msg("%s: %s", kq_result_name(result), r != NULL ? r->reason : "");
    }
}

static void fill_side(side *s, const drawn *d)
{
    for (int b = 0; b < 3; b++) {
        if (d->bytes[b] > 0 && s->buffers[b] == NULL) {
            expect_ok(s->device, kq_buffer_create(s->device, d->bytes[b], &s->buffers[b]));
        }
        if (d->bytes[b] > 0) {
            expect_ok(s->device, kq_buffer_upload(s->buffers[b], 0, d->images[b], d->bytes[b]));
        }
    }
    memset(&s->domain, POISON, sizeof s->domain);
}

static kq_buffer *buffer_of(const side *s, const drawn *d, int role)
{
    return d->buffer[role] < 0 ? NULL : s->buffers[d->buffer[role]];
}

static kq_buffer_view view_of(const side *s, const drawn *d, int role)
{
    return (kq_buffer_view){buffer_of(s, d, role), d->views[role]};
}

// Carries it out; where needs or recording is not null, asks or records only.
static kq_result run_side(side *s, const drawn *d, kq_needs *needs, kq_recording **recording)
{
    if (d->op == KQ_OP_QUANTIZE) {
        const kq_quantize_args args = {
            .format = KQ_FORMAT_Q8_K,
            .values = view_of(s, d, KQ_VALUES),
            .records = view_of(s, d, KQ_RECORDS),
            .domain = &s->domain,
        };
        return needs != NULL       ? kq_quantize_query(s->device, &args, needs)
               : recording != NULL ? kq_quantize_record(s->device, &args, recording)
                                   : kq_quantize(s->device, &args);
    }
    const kq_quantized_dot_args args = {
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = d->order,
        .lhs = view_of(s, d, KQ_LHS),
        .rhs = view_of(s, d, KQ_RHS),
        .result = buffer_of(s, d, KQ_RESULT),
        .result_offset = d->views[KQ_RESULT].offset,
        .repeat = d->has_repeat ? &d->repeat : NULL,
    };
    return needs != NULL       ? kq_quantized_dot_query(s->device, &args, needs)
           : recording != NULL ? kq_quantized_dot_record(s->device, &args, recording)
                               : kq_quantized_dot(s->device, &args);
}

static unsigned char *bytes_of(const side *s, int buffer, uint64_t count)
{
    unsigned char *bytes = malloc((size_t)count);
    assert_non_null(bytes);
    expect_ok(s->device, kq_buffer_download(s->buffers[buffer], 0, bytes, count));
    return bytes;
}

// Returns the bytes of the buffer that holds the output.
static unsigned char *check_buffers(const side *got, const side *wanted, const drawn *d)
{
    unsigned char *output_bytes = NULL;
    int output = d->op == KQ_OP_QUANTIZE ? KQ_RECORDS : KQ_RESULT;
    for (int b = 0; b < 3; b++) {
        if (d->bytes[b] == 0) {
            continue;
        }
        unsigned char *mine = bytes_of(got, b, d->bytes[b]);
        unsigned char *right = bytes_of(wanted, b, d->bytes[b]);
        if (b != d->buffer[output] && memcmp(right, d->images[b], (size_t)d->bytes[b]) != 0) {
            fail_msg("the reference changed buffer %d", b);
        }
        for (uint64_t i = 0; i < d->bytes[b]; i++) {
            if (mine[i] != right[i]) {
                fail_msg("byte %" PRIu64 " of %" PRIu64 " of buffer %d is 0x%02x, must be 0x%02x "
                         "(it was 0x%02x)",
                         i, d->bytes[b], b, mine[i], right[i], d->images[b][i]);
            }
        }
        if (b == d->buffer[output]) {
            output_bytes = mine;
        } else {
            free(mine);
        }
        free(right);
    }
    return output_bytes;
}

static void check_counts(const kq_needs *needs, kq_result result)
{
    property_counts counts = property_count();
    // To say why a block is bad it is read back, which the query doesn't foresee.
    if (result == KQ_ERROR_DOMAIN && counts.submissions > needs->submission_count) {
        counts.submissions = needs->submission_count;
    }
    uint64_t staged = needs->staged_bytes[0] + needs->staged_bytes[1] + needs->staged_bytes[2];
    // Where a sum is left as it was all pieces are done twice; a recording on Vulkan counts once.
    // On OpenCL the dispatches of such pieces are waited for one by one.
    bool is_pieces = needs->dispatch_count > needs->submission_count &&
                     (needs->submission_count > 1 || needs->dispatch_count > 3);
    uint64_t most_submissions = needs->submission_count;
    uint64_t times = is_pieces && counts.dispatches == 2 * needs->dispatch_count ? 2 : 1;
    counts.dispatches /= times;
    counts.staged_bytes /= times;
    if (is_pieces && counts.is_stepwise) {
        counts.submissions /= times;
        most_submissions += needs->dispatch_count;
    } else if (is_pieces && counts.submissions == 2 * needs->submission_count) {
        counts.submissions /= 2;
    }
    if (counts.submissions < needs->submission_count || counts.submissions > most_submissions ||
        counts.dispatches != needs->dispatch_count || counts.staged_bytes != staged) {
        fail_msg("%" PRIu64 " submissions, %" PRIu64 " dispatches, %" PRIu64 " bytes staged, the "
                 "query said %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                 counts.submissions, counts.dispatches, counts.staged_bytes,
                 needs->submission_count, needs->dispatch_count, staged);
    }
}

static void empty_side(side *s)
{
    for (int b = 0; b < 3; b++) {
        kq_buffer_destroy(&s->buffers[b]);
    }
}

kq_needs property_ask(kq_device *device, const drawn *d)
{
    side s = {.device = device};
    kq_needs needs;
    fill_side(&s, d);
    expect_ok(device, run_side(&s, d, &needs, NULL));
    assert_null(needs.limit);
    empty_side(&s);
    return needs;
}

// The pieces together are the operation, and no dot's parts need more scratch than all are given:
// what an operation before left would hide that.
static void check_pieces(const kq_device *device, const drawn *d)
{
    const kq_errors errors = {0};
    const kq_operation operation = operation_of(d);
    kq_shape whole;
    kq_piece piece;
    assert_int_equal(kq_shape_make(&operation, &errors, &whole), KQ_OK);
    uint64_t left = (uint64_t)whole.G * whole.count[0] * whole.count[1];
    bool is_empty = left == 0;
    kq_cutter cutter = kq_cut_start(&operation, &whole, &device->capacity);
    while (!is_empty && kq_cut_next(&cutter, &piece)) {
        kq_needs own;
        uint64_t records = (uint64_t)piece.shape.G * piece.shape.count[0] * piece.shape.count[1];
        assert_true(kq_plan_fits(d->op, d->order, &piece.shape, &device->capacity.limits, &own));
        assert_true(own.scratch_bytes <= piece.needs.scratch_bytes);
        assert_true(piece.needs.scratch_bytes <= device->capacity.scratch_bytes);
        assert_true(records > 0 && records <= left);
        left -= records;
    }
    assert_true(left == 0 || is_empty);
}

// Returns the bytes of the buffer that holds the output.
static unsigned char *check_outcome(const side *got, const side *wanted, const drawn *d)
{
    if (got->result != wanted->result) {
        const report *r = got->device->errors.user;
        fail_msg("%s, must be %s: %s", kq_result_name(got->result), kq_result_name(wanted->result),
                 r->reason);
    }
    assert_memory_equal(&got->domain, &wanted->domain, sizeof got->domain);
    return check_buffers(got, wanted, d);
}

// Recording changes nothing; a run of it, and one more, do what the operation does.
static void check_recording(side *got, const side *wanted, const drawn *d, const kq_needs *needs)
{
    kq_recording *recording = NULL;
    fill_side(got, d);
    property_reset();
    expect_ok(got->device, run_side(got, d, NULL, &recording));
    for (int run = 0; run < 2; run++) {
        uint64_t nanoseconds = UINT64_MAX;
        got->result = kq_recording_run(recording, run == 0 ? &nanoseconds : NULL);
        if (run == 0) {
            check_counts(needs, got->result);
            assert_true(nanoseconds < UINT64_MAX);
        }
        free(check_outcome(got, wanted, d));
        fill_side(got, d);
    }
    kq_recording_destroy(&recording);
    assert_null(recording);
}

unsigned char *property_run(kq_device *device, const drawn *d, kq_needs *needs)
{
    side got = {.device = device};
    side wanted = {0};
    assert_int_equal(kq_device_create(&(kq_device_params){.device = "reference"}, &wanted.device),
                     KQ_OK);
    fill_side(&got, d);
    fill_side(&wanted, d);
    expect_ok(device, run_side(&got, d, needs, NULL));
    assert_null(needs->limit);
    check_pieces(device, d);
    property_reset();
    got.result = run_side(&got, d, NULL, NULL);
    check_counts(needs, got.result);
    wanted.result = run_side(&wanted, d, NULL, NULL);
    unsigned char *output = check_outcome(&got, &wanted, d);
    check_recording(&got, &wanted, d, needs);
    empty_side(&got);
    empty_side(&wanted);
    kq_device_destroy(&wanted.device);
    property_check();
    return output;
}
