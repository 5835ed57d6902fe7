#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "opencl_engine.h"

#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Options

int engine_read_options(int argc, char **argv, bool needs_vectors, engine_options *options)
{
    bool has_vectors = false;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--expect=", 9) == 0) {
            options->expected_name = argv[i] + 9;
        } else if (strcmp(argv[i], "--il") == 0) {
            options->il = WRAPPED_IL_CORE;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options->is_quick = true;
        } else if (argv[i][0] != '-' && add_vectors(&options->vectors, argv[i])) {
            has_vectors = true;
        } else {
            fprintf(stderr, "%s is not to be used\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    if (needs_vectors && !has_vectors) {
        fprintf(stderr, "no folder of vectors is given\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

// --- The device

// False without a loader.
static bool load(engine_functions *cl)
{
    bool is_found = true;
#define ENGINE_LOAD(name)                                                                          \
 cl->name = (cl_api_##name)wrapped_opencl_direct(#name);                                           \
 is_found = is_found && cl->name != NULL;
    ENGINE_FUNCTIONS(ENGINE_LOAD)
#undef ENGINE_LOAD
    return is_found;
}

// The first device of the first platform that has one; NULL if there is none.
static cl_device_id find_device(const engine_functions *cl, cl_platform_id *platform)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    if (cl->clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) {
        return NULL;
    }
    for (cl_uint i = 0; i < count && i < 16; i++) {
        cl_device_id device = NULL;
        if (cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) {
            *platform = platforms[i];
            return device;
        }
    }
    return NULL;
}

int engine_check_device(const engine_options *options)
{
    engine_functions cl;
    cl_platform_id platform = NULL;
    char name[256] = "";
    char platform_name[256] = "";
    wrapped_opencl_watch(false);
    cl_device_id device = load(&cl) ? find_device(&cl, &platform) : NULL;
    if (device == NULL) {
        fprintf(stderr, "no OpenCL device\n");
        return EXIT_SKIP;
    }
    cl.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof platform_name, platform_name, NULL);
    printf("%s, %s\n", name, platform_name);
    if (options->expected_name != NULL && strstr(name, options->expected_name) == NULL &&
        strstr(platform_name, options->expected_name) == NULL) {
        fprintf(stderr, "neither holds \"%s\"\n", options->expected_name);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

kq_opencl_params engine_pack_params(engine *e)
{
    return (kq_opencl_params){
        .lookup = e->lookup,
        .context = e->context,
        .device = e->device,
        .errors = report_errors(&e->report),
    };
}

void engine_open(engine *e, const engine_options *options)
{
    cl_platform_id platform = NULL;
    cl_int code = CL_SUCCESS;
    cl_uint alignment_bits = 0;
    memset(e, 0, sizeof *e);
    e->wrapped.il = options->il;
    e->wrapped.native_vector_width_char = options->has_cpu_kernels ? 0 : 1;
    e->lookup = wrapped_opencl_lookup(&e->wrapped);
    assert_true(load(&e->cl));
    e->device = find_device(&e->cl, &platform);
    assert_non_null(e->device);
    assert_int_equal(e->cl.clGetDeviceInfo(e->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN,
                                           sizeof alignment_bits, &alignment_bits, NULL),
                     CL_SUCCESS);
    e->alignment = alignment_bits / 8;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)platform, 0};
    wrapped_opencl_count_reports();
    e->context =
        e->cl.clCreateContext(properties, 1, &e->device, wrapped_opencl_notify, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    e->queue = e->cl.clCreateCommandQueue(e->context, e->device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_command_queue_properties possible = 0;
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_QUEUE_PROPERTIES, sizeof possible, &possible, NULL);
    if ((possible & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
        e->unordered = e->cl.clCreateCommandQueue(e->context, e->device,
                                                  CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
        assert_int_equal(code, CL_SUCCESS);
    }
    kq_opencl_params params = engine_pack_params(e);
    kq_result result = kq_opencl_create(&params, &e->pack);
    if (result != KQ_OK) {
        fail_msg("kq_opencl_create: %s", e->report.reason);
    }
}

void engine_close(engine *e)
{
    kq_opencl_destroy(&e->pack);
    assert_null(e->pack);
    if (e->unordered != NULL) {
        e->cl.clReleaseCommandQueue(e->unordered);
    }
    e->cl.clReleaseCommandQueue(e->queue);
    e->cl.clReleaseContext(e->context);
    assert_int_equal(wrapped_opencl_live(&e->wrapped), 0);
    assert_int_equal(e->wrapped.foreign_releases, 0);
    assert_int_equal(wrapped_opencl_count_reports(), 0);
    wrapped_opencl_free(&e->wrapped);
}

cl_command_queue engine_choose_queue(const engine *e, size_t i)
{
    return i % 2 == 1 && e->unordered != NULL ? e->unordered : e->queue;
}

void engine_expect_ok(const engine *e, kq_result result)
{
    if (result != KQ_OK) {
        fail_msg("%s: %s", kq_result_name(result), e->report.reason);
    }
}

const dot_vector *engine_find_dot(const engine_options *options, uint32_t G)
{
    for (size_t i = 0; i < options->vectors.dot_count; i++) {
        if (options->vectors.dot[i].G == G) {
            return &options->vectors.dot[i];
        }
    }
    fail_msg("no dot of %u records among the vectors", (unsigned)G);
    return NULL;
}

const quantize_vector *engine_find_quantize(const engine_options *options, uint32_t G)
{
    for (size_t i = 0; i < options->vectors.quantize_count; i++) {
        if (options->vectors.quantize[i].G == G) {
            return &options->vectors.quantize[i];
        }
    }
    fail_msg("no quantize of %u blocks among the vectors", (unsigned)G);
    return NULL;
}

// --- Operands

operand operand_make(const engine *e, size_t bytes)
{
    operand o = {.bytes = bytes};
    cl_int code = CL_SUCCESS;
    if (bytes == 0) {
        return o;
    }
    o.expected = malloc(bytes);
    assert_non_null(o.expected);
    o.buffer = e->cl.clCreateBuffer(e->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    operand_fill(e, &o, 0, NULL, 0);
    return o;
}

void operand_destroy(const engine *e, operand *o)
{
    free(o->expected);
    if (o->buffer != NULL) {
        e->cl.clReleaseMemObject(o->buffer);
    }
    memset(o, 0, sizeof *o);
}

// A blocking write may still be under way when it returns: only data is free for reuse.
void operand_write(const engine *e, const operand *o)
{
    assert_int_equal(e->cl.clEnqueueWriteBuffer(e->queue, o->buffer, CL_TRUE, 0, o->bytes,
                                                o->expected, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(e->cl.clFinish(e->queue), CL_SUCCESS);
}

void operand_fill(const engine *e, operand *o, size_t offset, const void *data, size_t bytes)
{
    if (o->bytes == 0) {
        return;
    }
    assert_true(offset + bytes <= o->bytes);
    memset(o->expected, POISON, o->bytes);
    if (bytes > 0) {
        memcpy(o->expected + offset, data, bytes);
    }
    operand_write(e, o);
}

void operand_check(const engine *e, const operand *o, const char *what)
{
    if (o->bytes == 0) {
        return;
    }
    unsigned char *got = malloc(o->bytes);
    assert_non_null(got);
    assert_int_equal(
        e->cl.clEnqueueReadBuffer(e->queue, o->buffer, CL_TRUE, 0, o->bytes, got, 0, NULL, NULL),
        CL_SUCCESS);
    for (size_t i = 0; i < o->bytes; i++) {
        if (got[i] != o->expected[i]) {
            fail_msg("%s: byte %zu of %zu is 0x%02x, must be 0x%02x", what, i, o->bytes, got[i],
                     o->expected[i]);
        }
    }
    free(got);
}

cl_mem operand_region(const engine *e, const operand *parent, size_t origin, size_t bytes)
{
    const cl_buffer_region region = {origin, bytes};
    cl_int code = CL_SUCCESS;
    cl_mem made = e->cl.clCreateSubBuffer(parent->buffer, CL_MEM_READ_WRITE,
                                          CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    assert_int_equal(code, CL_SUCCESS);
    return made;
}

size_t operand_end(uint64_t offset, size_t bytes)
{
    return (size_t)(offset + bytes + 3) / 4 * 4;
}

operands operands_make(const engine *e, size_t first, size_t second, size_t third, size_t scratch)
{
    return (operands){{operand_make(e, first), operand_make(e, second), operand_make(e, third),
                       operand_make(e, scratch)}};
}

void operands_destroy(const engine *e, operands *o)
{
    for (int i = 0; i < KQ_BINDING_COUNT; i++) {
        operand_destroy(e, &o->at[i]);
    }
}

// --- Operations

kq_opencl_quantized_dot dot_of(const operands *o, kq_order order, kq_view lhs, kq_view rhs,
                               uint64_t result_offset)
{
    return (kq_opencl_quantized_dot){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .order = order,
        .lhs = {o->at[KQ_LHS].buffer, lhs},
        .rhs = {o->at[KQ_RHS].buffer, rhs},
        .result = {o->at[KQ_RESULT].buffer, result_offset},
        .scratch = {o->at[KQ_SCRATCH].buffer, 0},
    };
}

kq_opencl_quantize quantize_of(const operands *o, kq_view values, kq_view records,
                               uint64_t status_offset)
{
    return (kq_opencl_quantize){
        .format = KQ_FORMAT_Q8_K,
        .values = {o->at[KQ_VALUES].buffer, values},
        .records = {o->at[KQ_RECORDS].buffer, records},
        .status = {o->at[KQ_STATUS].buffer, status_offset},
    };
}

void expect_dot(operands *o, const kq_opencl_quantized_dot *op)
{
    const kq_errors errors = {0};
    kq_shape shape;
    const kq_operation operation = {
        .op = KQ_OP_QUANTIZED_DOT,
        .lhs_format = op->lhs_format,
        .rhs_format = op->rhs_format,
        .acc = op->acc,
        .order = op->order,
        .repeat = op->repeat,
        .operands[KQ_LHS] = {1, o->at[KQ_LHS].bytes, op->lhs.view},
        .operands[KQ_RHS] = {2, o->at[KQ_RHS].bytes, op->rhs.view},
        .operands[KQ_RESULT] = {3, o->at[KQ_RESULT].bytes, {.offset = op->result.offset}},
    };
    assert_int_equal(kq_shape_make(&operation, &errors, &shape), KQ_OK);
    kq_reference_dot(&shape, op->order, o->at[KQ_LHS].expected, o->at[KQ_RHS].expected,
                     o->at[KQ_RESULT].expected);
}

void expect_quantize(operands *o, const kq_opencl_quantize *op)
{
    const kq_errors errors = {0};
    kq_shape shape;
    kq_status status = KQ_STATUS_PRESET;
    const kq_operation operation = {
        .op = KQ_OP_QUANTIZE,
        .format = op->format,
        .operands[KQ_VALUES] = {1, o->at[KQ_VALUES].bytes, op->values.view},
        .operands[KQ_RECORDS] = {2, o->at[KQ_RECORDS].bytes, op->records.view},
        .operands[KQ_STATUS] = {3, o->at[KQ_STATUS].bytes, {.offset = op->status.offset}},
    };
    assert_int_equal(kq_shape_make(&operation, &errors, &shape), KQ_OK);
    kq_reference_quantize(&shape, o->at[KQ_VALUES].expected, o->at[KQ_RECORDS].expected, &status);
    expect_status(&o->at[KQ_STATUS], op->status.offset, &status);
}

void fill_status(const engine *e, operand *status, uint64_t offset)
{
    static const unsigned char preset[16] = {0xFF, 0xFF, 0xFF, 0xFF};
    operand_fill(e, status, (size_t)offset, preset, sizeof preset);
}

void expect_status(operand *status, uint64_t offset, const kq_status *wanted)
{
    store_u32(status->expected + offset, wanted->lowest_bad);
    store_u32(status->expected + offset + 4, wanted->bad_count);
    store_u32(status->expected + offset + 8, wanted->done_count);
    store_u32(status->expected + offset + 12, 0);
}

void check_dot(engine *e, operands *o, kq_opencl_quantized_dot *op, cl_command_queue queue,
               const char *what)
{
    kq_needs needs;
    operand scratch = {0};
    engine_expect_ok(e, kq_opencl_quantized_dot_query(e->pack, op, &needs));
    assert_null(needs.limit);
    assert_int_equal(needs.missing_bytes, 0);
    if (needs.scratch_bytes > 0) {
        scratch = operand_make(e, (size_t)(op->scratch.offset + needs.scratch_bytes));
    }
    op->scratch.buffer = scratch.buffer;
    wrapped_opencl_reset(&e->wrapped);
    engine_expect_ok(e, kq_opencl_quantized_dot_enqueue(e->pack, op, queue, 0, NULL, NULL));
    assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), needs.dispatch_count);
    assert_int_equal(e->cl.clFinish(queue), CL_SUCCESS);
    for (int i = 0; i < KQ_SCRATCH; i++) {
        operand_check(e, &o->at[i], what);
    }
    // Scratch may hold anything where it was lent.
    scratch.bytes = scratch.bytes > 0 ? (size_t)op->scratch.offset : 0;
    operand_check(e, &scratch, what);
    operand_destroy(e, &scratch);
}

void check_quantize(engine *e, operands *o, const kq_opencl_quantize *op, cl_command_queue queue,
                    const char *what)
{
    kq_needs needs;
    engine_expect_ok(e, kq_opencl_quantize_query(e->pack, op, &needs));
    assert_null(needs.limit);
    assert_int_equal(needs.missing_bytes, 0);
    assert_int_equal(needs.scratch_bytes, 0);
    assert_int_equal(needs.dispatch_count, op->values.view.G > 0);
    wrapped_opencl_reset(&e->wrapped);
    engine_expect_ok(e, kq_opencl_quantize_enqueue(e->pack, op, queue, 0, NULL, NULL));
    assert_int_equal(wrapped_opencl_launches(&e->wrapped, NULL), needs.dispatch_count);
    assert_int_equal(e->cl.clFinish(queue), CL_SUCCESS);
    for (int i = 0; i < KQ_SCRATCH; i++) {
        operand_check(e, &o->at[i], what);
    }
}

void check_dot_vector(engine *e, const dot_vector *v, kq_order order,
                      const size_t offsets[KQ_BINDING_COUNT], size_t spare, cl_command_queue queue)
{
    size_t lhs_bytes = (size_t)v->G * KQ_Q4_K_BYTES;
    size_t rhs_bytes = (size_t)v->G * KQ_Q8_K_BYTES;
    kq_view lhs = {.offset = offsets[KQ_LHS], .G = v->G};
    kq_view rhs = {.offset = offsets[KQ_RHS], .G = v->G};
    operands o = operands_make(e, operand_end(lhs.offset, lhs_bytes) + spare,
                               operand_end(rhs.offset, rhs_bytes) + spare,
                               operand_end(offsets[KQ_RESULT], 4) + spare, 0);
    operand_fill(e, &o.at[KQ_LHS], offsets[KQ_LHS], v->lhs, lhs_bytes);
    operand_fill(e, &o.at[KQ_RHS], offsets[KQ_RHS], v->rhs, rhs_bytes);
    store_u32(o.at[KQ_RESULT].expected + offsets[KQ_RESULT], v->results[order]);
    kq_opencl_quantized_dot op = dot_of(&o, order, lhs, rhs, offsets[KQ_RESULT]);
    op.scratch.offset = offsets[KQ_SCRATCH];
    check_dot(e, &o, &op, queue, v->name);
    operands_destroy(e, &o);
}

void check_quantize_vector(engine *e, const quantize_vector *v, const size_t offsets[3],
                           size_t spare, cl_command_queue queue)
{
    size_t values_bytes = (size_t)v->G * KQ_BLOCK_BYTES;
    size_t records_bytes = (size_t)v->G * KQ_Q8_K_BYTES;
    kq_view values = {.offset = offsets[KQ_VALUES], .G = v->G};
    kq_view records = {.offset = offsets[KQ_RECORDS], .G = v->G};
    bool is_bad = v->domain.reason != KQ_REASON_NONE;
    const kq_status status = {is_bad ? v->domain.record : 0xFFFFFFFFu, v->domain.bad_count, v->G,
                              0};
    operands o = operands_make(e, operand_end(values.offset, values_bytes) + spare,
                               operand_end(records.offset, records_bytes) + spare,
                               offsets[KQ_STATUS] + sizeof(kq_status) + spare, 0);
    operand_fill(e, &o.at[KQ_VALUES], offsets[KQ_VALUES], v->values, values_bytes);
    memcpy(o.at[KQ_RECORDS].expected + records.offset, v->records, records_bytes);
    fill_status(e, &o.at[KQ_STATUS], offsets[KQ_STATUS]);
    expect_status(&o.at[KQ_STATUS], offsets[KQ_STATUS], &status);
    const kq_opencl_quantize op = quantize_of(&o, values, records, offsets[KQ_STATUS]);
    check_quantize(e, &o, &op, queue, v->name);
    operands_destroy(e, &o);
}
