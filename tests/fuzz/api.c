// Level 3 as a whole: calls of it, in any order and with any arguments, on the reference and, with
// --device=ID, on a second device too. Results, reasons, domains and every byte of every buffer
// must be those of a model, which knows buffers, CONTRACT.md's rules, and single blocks and dots.
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDINGS = 4, MOST_CALLS = 32, MOST_WORK = 1024, MOST_BYTES = 1 << 15 };

// One device, and what the calls have made on it.
typedef struct side {
    kq_device *device;
    kq_result told;
    unsigned tells;
    char reason[512];
    kq_buffer *buffers[API_BUFFERS];
    kq_recording *recordings[RECORDINGS];
    kq_domain domains[RECORDINGS];
} side;

static const char *device_name;  // NULL: the reference alone
static side sides[2];            // the second one's device stays open
static kq_device *tested[2];     // as it is, and cutting everything it can
static unsigned side_count;
static kq_buffer *stranger;  // of the judge
static api_model model;
static struct {
    bool is_there;
    api_operation operation;
} recorded[RECORDINGS];

static void tell(void *user, kq_result result, const char *reason)
{
    side *s = user;
    s->told = result;
    s->tells++;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
    REQUIRE(strchr(reason, '\n') == NULL);
}

static kq_device *open_device(const char *name, side *s, uint64_t work)
{
    kq_device *device = NULL;
    const kq_device_params params = {.device = name, .work = work, .errors = {tell, s}};
    if (kq_device_create(&params, &device) != KQ_OK) {
        fprintf(stderr, "%s: %s\n", name, s->reason);
        exit(EXIT_FAILURE);
    }
    return device;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    for (int i = 1; i < *argc; i++) {
        if (strncmp((*argv)[i], "--device=", 9) == 0) {
            device_name = (*argv)[i] + 9;
        }
    }
    side_count = device_name != NULL ? 2 : 1;
    for (int k = 0; k < 2 && device_name != NULL; k++) {
        tested[k] = open_device(device_name, &sides[1], k == 0 ? 0 : 8);
    }
    return 0;
}

// What a call came to on one side, as it must; reasons of the arguments are the same on both.
static void check(side *s, kq_result got, kq_result wanted)
{
    REQUIRE(got == wanted);
    REQUIRE(s->tells == (got == KQ_OK ? 0 : 1) && (got == KQ_OK || s->told == got));
    s->tells = 0;
    if (s != sides && (got == KQ_ERROR_ARGUMENT || got == KQ_ERROR_DOMAIN)) {
        REQUIRE(strcmp(s->reason, sides[0].reason) == 0);
    }
}

static void check_buffer(int b)
{
    for (unsigned k = 0; k < side_count && model.bytes[b] != NULL; k++) {
        static unsigned char bytes[MOST_BYTES];
        check(&sides[k], kq_buffer_download(sides[k].buffers[b], 0, bytes, model.sizes[b]), KQ_OK);
        REQUIRE(memcmp(bytes, model.bytes[b], (size_t)model.sizes[b]) == 0);
    }
}

// --- Buffers

static void destroy_recording(int r)
{
    for (unsigned k = 0; k < side_count; k++) {
        kq_recording_destroy(&sides[k].recordings[r]);
        REQUIRE(sides[k].recordings[r] == NULL);
    }
    recorded[r].is_there = false;
}

// Recordings of it go first: it outlives them.
static void destroy_buffer(int b)
{
    for (int r = 0; r < RECORDINGS; r++) {
        const int *used = recorded[r].operation.buffers;
        if (recorded[r].is_there && (used[0] == b || used[1] == b || used[2] == b)) {
            destroy_recording(r);
        }
    }
    for (unsigned k = 0; k < side_count; k++) {
        kq_buffer_destroy(&sides[k].buffers[b]);
        REQUIRE(sides[k].buffers[b] == NULL);
    }
    free(model.bytes[b]);
    model.bytes[b] = NULL;
}

static void fill(fuzz_input *in, unsigned char *bytes, uint64_t count)
{
    const uint8_t kind = fuzz_byte(in);
    uint64_t state = fuzz_byte(in);
    memset(bytes, 0, (size_t)count);
    for (uint64_t i = 0; i < count && kind % 8 != 0; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (unsigned char)(state >> 56);
        if (kind % 8 < 5 && i % 4 == 3) {  // f32 of moderate size
            bytes[i] = (unsigned char)((bytes[i] & 0x80) | 0x3F);
        } else if (kind % 8 == 5 && i % 2 == 1) {  // f16 of moderate size
            bytes[i] = (unsigned char)((bytes[i] & 0x83) | 0x30);
        }
    }
}

static void create_buffer(fuzz_input *in, int b)
{
    const uint8_t kind = fuzz_byte(in);
    uint64_t bytes = kind < 16    ? kind % 8
                     : kind < 250 ? 1 + fuzz_number(in, 2) % (kind % 2 ? 4096 : MOST_BYTES)
                                  : UINT64_MAX - (kind % 2 ? fuzz_byte(in) : fuzz_number(in, 7));
    destroy_buffer(b);
    const kq_result wanted = bytes == 0           ? KQ_ERROR_ARGUMENT
                             : bytes > MOST_BYTES ? KQ_ERROR_MEMORY
                                                  : KQ_OK;
    for (unsigned k = 0; k < side_count; k++) {
        side *s = &sides[k];
        check(s, kq_buffer_create(s->device, bytes, &s->buffers[b]), wanted);
        REQUIRE((s->buffers[b] != NULL) == (wanted == KQ_OK));
    }
    if (wanted != KQ_OK) {
        return;
    }
    model.bytes[b] = malloc((size_t)bytes);
    model.sizes[b] = bytes;
    REQUIRE(model.bytes[b] != NULL);
    fill(in, model.bytes[b], bytes);
    for (unsigned k = 0; k < side_count; k++) {
        check(&sides[k], kq_buffer_upload(sides[k].buffers[b], 0, model.bytes[b], bytes), KQ_OK);
    }
}

static void copy(fuzz_input *in, int b, bool is_upload)
{
    static unsigned char data[MOST_BYTES], got[MOST_BYTES];
    uint64_t offset = api_number(in, model.sizes[b]);
    uint64_t bytes = api_number(in, model.sizes[b]);
    bool is_null = fuzz_byte(in) >= 250;
    if (model.bytes[b] == NULL) {
        return;
    }
    bool is_legal =
        offset <= model.sizes[b] && bytes <= model.sizes[b] - offset && !(is_null && bytes > 0);
    if (is_legal) {
        fill(in, data, bytes);
    }
    for (unsigned k = 0; k < side_count; k++) {
        side *s = &sides[k];
        memset(got, 0xA5, sizeof got);
        kq_result result =
            is_upload ? kq_buffer_upload(s->buffers[b], offset, is_null ? NULL : data, bytes)
                      : kq_buffer_download(s->buffers[b], offset, is_null ? NULL : got, bytes);
        check(s, result, is_legal ? KQ_OK : KQ_ERROR_ARGUMENT);
        size_t done = is_legal && !is_upload && !is_null ? (size_t)bytes : 0;
        REQUIRE(memcmp(got, model.bytes[b] + (done > 0 ? offset : 0), done) == 0);
        REQUIRE(done == sizeof got || got[done] == 0xA5);
    }
    if (is_legal && is_upload && bytes > 0) {
        memcpy(model.bytes[b] + offset, data, (size_t)bytes);
    }
}

// --- Operations

typedef enum action { RUN, RECORD, QUERY } action;

static kq_buffer *buffer_of(side *s, int b)
{
    return b == API_STRANGER ? stranger : b == API_NULL ? NULL : s->buffers[b];
}

static kq_buffer_view view_of(side *s, const api_operation *o, int role)
{
    return (kq_buffer_view){buffer_of(s, o->buffers[role]), o->views[role]};
}

static kq_result call(side *s, const api_operation *o, action action, int r, kq_needs *needs)
{
    if (!o->is_dot) {
        const kq_quantize_args args = {
            .format = (kq_format)o->formats[0],
            .values = view_of(s, o, 0),
            .records = view_of(s, o, 1),
            .domain = &s->domains[r],
        };
        return action == RUN      ? kq_quantize(s->device, &args)
               : action == RECORD ? kq_quantize_record(s->device, &args, &s->recordings[r])
                                  : kq_quantize_query(s->device, &args, needs);
    }
    const kq_quantized_dot_args args = {
        .lhs_format = (kq_format)o->formats[0],
        .rhs_format = (kq_format)o->formats[1],
        .acc = (kq_accumulator)o->acc,
        .order = (kq_order)o->order,
        .lhs = view_of(s, o, 0),
        .rhs = view_of(s, o, 1),
        .result = buffer_of(s, o->buffers[2]),
        .result_offset = o->views[2].offset,
        .repeat = o->has_repeat ? &o->repeat : NULL,
    };
    return action == RUN      ? kq_quantized_dot(s->device, &args)
           : action == RECORD ? kq_quantized_dot_record(s->device, &args, &s->recordings[r])
                              : kq_quantized_dot_query(s->device, &args, needs);
}

static void preset_domains(int r)
{
    for (unsigned k = 0; k < side_count; k++) {
        memset(&sides[k].domains[r], 0xA5, sizeof sides[k].domains[r]);
    }
}

// What it left, where all of it was carried out.
static void check_outcome(const api_operation *o, int r, const kq_domain *domain)
{
    for (unsigned k = 0; k < side_count; k++) {
        REQUIRE(memcmp(&sides[k].domains[r], domain, sizeof *domain) == 0);
    }
    const int output = o->buffers[o->is_dot ? 2 : 1];
    if (output >= 0) {
        check_buffer(output);
    }
}

static void operate(fuzz_input *in, action action, int r)
{
    api_operation o;
    kq_domain domain;
    api_draw(in, &model, &o);
    const bool is_legal = api_is_legal(&model, &o);
    if (is_legal && api_work(&o) > MOST_WORK) {
        return;
    }
    kq_result wanted = is_legal ? KQ_OK : KQ_ERROR_ARGUMENT;
    if (action == RECORD) {
        destroy_recording(r);
    }
    if (action != RUN || !is_legal) {
        // Domains of a recording that is there stay its own.
        for (unsigned k = 0; k < side_count; k++) {
            kq_needs needs;
            check(&sides[k], call(&sides[k], &o, action, r, &needs), wanted);
            REQUIRE(action != RECORD || (sides[k].recordings[r] != NULL) == is_legal);
            REQUIRE(action != QUERY || !is_legal || needs.limit == NULL);
        }
        if (action == RECORD && is_legal) {
            recorded[r].is_there = true;
            recorded[r].operation = o;
        }
        return;
    }
    preset_domains(r);
    memset(&domain, 0xA5, sizeof domain);
    wanted = api_carry_out(&model, &o, &domain);
    for (unsigned k = 0; k < side_count; k++) {
        check(&sides[k], call(&sides[k], &o, RUN, r, NULL), wanted);
    }
    check_outcome(&o, r, &domain);
}

static void run_recording(int r)
{
    kq_domain domain;
    if (!recorded[r].is_there) {
        return;
    }
    const api_operation *o = &recorded[r].operation;
    preset_domains(r);
    memset(&domain, 0xA5, sizeof domain);
    kq_result wanted = api_carry_out(&model, o, &domain);
    for (unsigned k = 0; k < side_count; k++) {
        uint64_t nanoseconds = UINT64_MAX;
        check(&sides[k], kq_recording_run(sides[k].recordings[r], k == 0 ? NULL : &nanoseconds),
              wanted);
    }
    check_outcome(o, r, &domain);
}

// From and to host memory, with counts that fit and others that don't.
static void call_host(fuzz_input *in)
{
    enum { MOST_G = 6 };
    static unsigned char bytes[MOST_G * KQ_BLOCK_BYTES], records[2][MOST_G * KQ_Q8_K_BYTES];
    static float values[MOST_G * KQ_BLOCK], results[2][MOST_G];
    const uint8_t kind = fuzz_byte(in);
    const uint32_t G = kind % (MOST_G + 1);
    uint64_t count = (uint64_t)G * KQ_BLOCK;
    uint64_t lhs = (uint64_t)G * KQ_Q4_K_BYTES, rhs = (uint64_t)(G > 0) * KQ_Q8_K_BYTES;
    kq_result got[2];
    fill(in, bytes, sizeof bytes);
    memcpy(values, bytes, sizeof values);
    memset(results, 0, sizeof results);
    memset(records, 0, sizeof records);
    if (kind >= 192) {  // no whole number of blocks, or more than there may be
        const uint64_t more = 1 + fuzz_byte(in) % 254u;
        count = kind % 2
                    ? count + more
                    : (UINT64_C(1) << (40 + fuzz_byte(in) % 24)) + count + (kind & 4 ? more : 0);
        lhs += kind & 8 ? more % (KQ_Q4_K_BYTES - 1) + 1 : 0;
        rhs += kind & 8 ? 0 : more;
    }
    for (unsigned k = 0; k < side_count; k++) {
        kq_device *device = sides[k].device;
        got[k] = kind & 64
                     ? kq_quantize_host(device, KQ_FORMAT_Q8_K, values, count, records[k], NULL)
                     : kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K,
                                             KQ_ACCUMULATOR_F32, (kq_order)(kind >> 5 & 1), G,
                                             bytes, lhs, bytes, rhs, results[k]);
        REQUIRE((kind < 192) == (got[k] == KQ_OK || got[k] == KQ_ERROR_DOMAIN));
        REQUIRE(kind < 192 || got[k] == KQ_ERROR_ARGUMENT || got[k] == KQ_ERROR_UNSUPPORTED);
        check(&sides[k], got[k], got[0]);
        REQUIRE(memcmp(records[k], records[0], sizeof records[0]) == 0);
        REQUIRE(memcmp(results[k], results[0], sizeof results[0]) == 0);
    }
}

static void call_primitives(fuzz_input *in)
{
    enum { MOST_ITEMS = 8 };
    uint32_t items[2][4 * MOST_ITEMS] = {{0}};
    const uint32_t count = fuzz_byte(in) % (MOST_ITEMS + 1);
    for (uint32_t i = 0; i < count; i++) {
        items[0][4 * i] = 1 + fuzz_byte(in) % 7;
        items[0][4 * i + 1] = (uint32_t)fuzz_number(in, 4);
        items[0][4 * i + 2] = (uint32_t)fuzz_number(in, 4);
    }
    memcpy(items[1], items[0], sizeof items[0]);
    for (unsigned k = 0; k < side_count; k++) {
        check(&sides[k], kq_primitives_host(sides[k].device, items[k], count), KQ_OK);
        REQUIRE(memcmp(items[k], items[0], sizeof items[0]) == 0);
    }
}

static void step(fuzz_input *in)
{
    const uint8_t kind = fuzz_byte(in);
    const int b = kind / 16 % API_BUFFERS;
    const int r = kind / 16 % RECORDINGS;
    switch (kind % 16) {
    case 0:
    case 1: create_buffer(in, b); break;
    case 2: destroy_buffer(b); break;
    case 3: copy(in, b, true); break;
    case 4: copy(in, b, false); break;
    case 10:
    case 11: operate(in, RECORD, r); break;
    case 12: run_recording(r); break;
    case 13: destroy_recording(r); break;
    case 14: operate(in, QUERY, r); break;
    case 15:
        if (kind >= 128) {
            call_host(in);
        } else {
            call_primitives(in);
        }
        break;
    default: operate(in, RUN, r); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const uint8_t first = fuzz_byte(&in);
    sides[0].device = open_device("reference", &sides[0], 0);
    sides[1].device = tested[first & 1];
    model.judge = open_device("reference", &sides[0], 0);
    REQUIRE(kq_buffer_create(model.judge, 64, &stranger) == KQ_OK);
    for (int b = 0; b < 3; b++) {
        create_buffer(&in, b);
    }
    for (int k = 0; k < MOST_CALLS && in.left > 0; k++) {
        step(&in);
    }
    for (int b = 0; b < API_BUFFERS; b++) {
        check_buffer(b);
    }
    // Recordings in one order or the other, and buffers.
    for (int r = 0; r < RECORDINGS; r++) {
        destroy_recording(first & 2 ? r : RECORDINGS - 1 - r);
    }
    for (int b = 0; b < API_BUFFERS; b++) {
        destroy_buffer(first & 4 ? b : API_BUFFERS - 1 - b);
    }
    kq_buffer_destroy(&stranger);
    kq_device_destroy(&model.judge);
    kq_device_destroy(&sides[0].device);
    return 0;
}
