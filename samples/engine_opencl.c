// The engine of engine_vulkan.c for OpenCL: its own context, queue, events and kernel, with two
// frames in flight, and the same picture. The queue may take commands out of order where the device
// has such a one, so every command waits for the events of those that it needs.
//
// What to look at for your own engine: make_operations (what kquant is told) and draw_frame.

#define _POSIX_C_SOURCE 200809L

#include <kquant/opencl.h>

#include "picture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT = 2 };

// What the host writes or reads, and what belongs to it, is there once for each frame in flight.
typedef struct frame {
    cl_mem values, status, pixels;
    float host_values[PICTURE_COLUMNS * KQ_BLOCK];
    kq_status host_status;
    unsigned char host_pixels[PICTURE_BYTES];
    kq_opencl_quantize quantize;
    cl_event done[2];  // status and pixels are read; NULL: the frame is not in flight
} frame;

// What only the device uses is there once, for one frame after the other.
typedef struct engine {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    kq_opencl *pack;
    cl_program program;
    cl_kernel color;
    cl_mem weights, records, results, scratch;
    kq_opencl_quantized_dot dot;
    cl_event colored;  // the last frame is; NULL before the first one
    frame frames[IN_FLIGHT];
} engine;

// A point of column x and row y has its dot at results[x][y]: rows are the inner loop.
static const kq_repeat each_point = {
    .count = {PICTURE_ROWS, PICTURE_COLUMNS},
    .lhs_step = {PICTURE_G * KQ_Q4_K_BYTES, 0},
    .rhs_step = {0, KQ_Q8_K_BYTES},
    .result_step = {sizeof(float), PICTURE_ROWS * sizeof(float)},
};

// The shader of engine_vulkan.comp, where it is explained.
static const char source[] =
    "int4 weights(int t)\n"
    "{\n"
    "    int t2 = t * t, t3 = t2 * t, rest = 4 - t;\n"
    "    return (int4)(rest * rest * rest, 3 * t3 - 24 * t2 + 256,\n"
    "                  -3 * t3 + 12 * t2 + 48 * t + 64, t3);\n"
    "}\n"
    "int film(int phase)\n"
    "{\n"
    "    int around = phase & 4095;\n"
    "    int t = (around < 2048 ? around : 4095 - around) >> 3;\n"
    "    return (t * t * (765 - 2 * t)) >> 16;\n"
    "}\n"
    "kernel void color(global const float *results, int rows, global uchar4 *pixels)\n"
    "{\n"
    "    int x = get_global_id(0), y = get_global_id(1);\n"
    "    int4 across = weights(x & 3), down = weights(y & 3), sum = (int4)(0);\n"
    "    int a[4] = {across.x, across.y, across.z, across.w};\n"
    "    int d[4] = {down.x, down.y, down.z, down.w};\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        for (int j = 0; j < 4; j++) {\n"
    "            global const float *at = results + ((x >> 2) + i) * rows + ((y >> 2) + j) * 3;\n"
    "            int4 point = convert_int4((float4)(at[0], at[1], at[2], 0.0f) * 2048.0f);\n"
    "            sum += a[i] * d[j] * point;\n"
    "        }\n"
    "    }\n"
    "    sum >>= 16;\n"
    "    int light = clamp(200 + ((2 * sum.y + 3 * sum.z) >> 7), 90, 256);\n"
    "    int off_x = (sum.y >> 5) - 60, off_y = (sum.z >> 5) - 90;\n"
    "    int glint = clamp(256 - ((off_x * off_x + off_y * off_y) >> 5), 0, 256);\n"
    "    int c[3];\n"
    "    for (int i = 0; i < 3; i++) {\n"
    "        int tint = 30 + ((film(((sum.x * 5) >> 3) + 1400 + 550 * i) * 220) >> 8);\n"
    "        c[i] = min(((tint * light) >> 8) + ((glint * glint) >> 9), 255);\n"
    "    }\n"
    "    pixels[y * get_global_size(0) + x] = (uchar4)(c[0], c[1], c[2], 255);\n"
    "}\n";

// --- Errors

static void report(void *user, kq_result result, const char *reason)
{
    (void)user;
    fprintf(stderr, "engine_opencl: %s: %s\n", kq_result_name(result), reason);
}

static void must(bool ok)
{
    if (!ok) {  // report() has told why
        exit(EXIT_FAILURE);
    }
}

static void check(cl_int code, const char *call)
{
    if (code != CL_SUCCESS) {
        fprintf(stderr, "engine_opencl: error %d of %s\n", (int)code, call);
        exit(EXIT_FAILURE);
    }
}
#define CHECK(call) check(call, #call)

// --- Set-up

static void open_device(engine *e, const char *name)
{
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    char found[256] = "";
    if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS) {
        platform_count = 0;
    }
    for (cl_uint i = 0; i < platform_count && i < 16 && e->device == NULL; i++) {
        cl_device_id devices[16];
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, devices, &count) != CL_SUCCESS) {
            continue;
        }
        for (cl_uint j = 0; j < count && j < 16 && e->device == NULL; j++) {
            CHECK(clGetDeviceInfo(devices[j], CL_DEVICE_NAME, sizeof(found), found, NULL));
            e->device = name == NULL || strstr(found, name) != NULL ? devices[j] : NULL;
        }
    }
    if (e->device == NULL) {
        fprintf(stderr, "engine_opencl: there is no such OpenCL device\n");
        exit(EXIT_FAILURE);
    }
    cl_int code;
    cl_command_queue_properties possible = 0;
    e->context = clCreateContext(NULL, 1, &e->device, NULL, NULL, &code);
    check(code, "clCreateContext");
    CHECK(
        clGetDeviceInfo(e->device, CL_DEVICE_QUEUE_PROPERTIES, sizeof(possible), &possible, NULL));
    possible &= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    e->queue = clCreateCommandQueue(e->context, e->device, possible, &code);
    check(code, "clCreateCommandQueue");
    printf("%s, %s order\n", found, possible != 0 ? "in any" : "in");
}

static cl_mem make_buffer(const engine *e, size_t bytes, void *data)
{
    cl_int code;
    cl_mem made = clCreateBuffer(
        e->context, data != NULL ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE,
        bytes, data, &code);
    check(code, "clCreateBuffer");
    return made;
}

static void make_buffers(engine *e)
{
    static unsigned char weights[PICTURE_ROWS * PICTURE_G * KQ_Q4_K_BYTES];
    picture_weights(weights);
    e->weights = make_buffer(e, sizeof(weights), weights);
    e->records = make_buffer(e, PICTURE_COLUMNS * KQ_Q8_K_BYTES, NULL);
    e->results = make_buffer(e, PICTURE_COLUMNS * PICTURE_ROWS * sizeof(float), NULL);
    for (int i = 0; i < IN_FLIGHT; i++) {
        frame *f = &e->frames[i];
        f->values = make_buffer(e, sizeof(f->host_values), NULL);
        f->status = make_buffer(e, sizeof(f->host_status), NULL);
        f->pixels = make_buffer(e, sizeof(f->host_pixels), NULL);
    }
}

// Finds a function of the libOpenCL that this program is linked to.
static kq_proc find(void *user, const char *name)
{
    kq_proc proc;
    *(void **)(void *)&proc = dlsym(user, name);
    return proc;
}

static void make_operations(engine *e)
{
    const kq_opencl_params params = {
        .lookup = {find, dlopen(NULL, RTLD_NOW)},
        .context = e->context,
        .device = e->device,
        .errors = {report, NULL},
    };
    must(kq_opencl_create(&params, &e->pack) == KQ_OK);
    for (int i = 0; i < IN_FLIGHT; i++) {
        frame *f = &e->frames[i];
        f->quantize = (kq_opencl_quantize){
            .format = KQ_FORMAT_Q8_K,
            .values = {f->values, {.G = PICTURE_COLUMNS}},
            .records = {e->records, {.G = PICTURE_COLUMNS}},
            .status = {f->status, 0},
        };
    }
    e->dot = (kq_opencl_quantized_dot){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .lhs = {e->weights, {.G = PICTURE_G}},
        // Both records of a row are for the same activations.
        .rhs = {e->records, {.stride = KQ_BROADCAST, .G = PICTURE_G}},
        .result = {e->results, 0},
        .repeat = &each_point,
    };
    kq_needs needs;
    must(kq_opencl_quantized_dot_query(e->pack, &e->dot, &needs) == KQ_OK);
    if (needs.limit != NULL) {
        fprintf(stderr, "engine_opencl: the device's %s is too small\n", needs.limit);
        exit(EXIT_FAILURE);
    }
    e->scratch = make_buffer(e, (size_t)needs.scratch_bytes, NULL);
    e->dot.scratch.buffer = e->scratch;
}

static void make_kernel(engine *e)
{
    const char *text = source;
    const cl_int rows = PICTURE_ROWS;
    cl_int code;
    e->program = clCreateProgramWithSource(e->context, 1, &text, NULL, &code);
    check(code, "clCreateProgramWithSource");
    CHECK(clBuildProgram(e->program, 1, &e->device, "", NULL, NULL));
    e->color = clCreateKernel(e->program, "color", &code);
    check(code, "clCreateKernel");
    CHECK(clSetKernelArg(e->color, 0, sizeof(e->results), &e->results));
    CHECK(clSetKernelArg(e->color, 1, sizeof(rows), &rows));
}

static void close_engine(engine *e)
{
    kq_opencl_destroy(&e->pack);
    for (int i = 0; i < IN_FLIGHT; i++) {
        clReleaseMemObject(e->frames[i].values);
        clReleaseMemObject(e->frames[i].status);
        clReleaseMemObject(e->frames[i].pixels);
    }
    clReleaseEvent(e->colored);
    clReleaseMemObject(e->scratch);
    clReleaseMemObject(e->results);
    clReleaseMemObject(e->records);
    clReleaseMemObject(e->weights);
    clReleaseKernel(e->color);
    clReleaseProgram(e->program);
    clReleaseCommandQueue(e->queue);
    clReleaseContext(e->context);
}

// --- Frames

// Waits for the frame if it is in flight, and sees that all its blocks were quantized.
static void finish_frame(frame *f)
{
    if (f->done[0] == NULL) {
        return;
    }
    CHECK(clWaitForEvents(2, f->done));
    for (int i = 0; i < 2; i++) {
        clReleaseEvent(f->done[i]);
        f->done[i] = NULL;
    }
    const kq_status *status = &f->host_status;
    if (status->bad_count != 0 || status->done_count != PICTURE_COLUMNS) {
        fprintf(stderr, "engine_opencl: %u of %d blocks were quantized, %u of them bad\n",
                (unsigned)status->done_count, PICTURE_COLUMNS, (unsigned)status->bad_count);
        exit(EXIT_FAILURE);
    }
}

static void draw_frame(engine *e, frame *f, int number)
{
    // What quantizing waits for: both writes, and the last frame, which used records and results.
    cl_event before[3] = {NULL, NULL, e->colored};
    cl_event quantized, multiplied;
    const cl_uint count = e->colored != NULL ? 3 : 2;
    finish_frame(f);
    picture_activations(number, f->host_values);
    f->host_status = (kq_status)KQ_STATUS_PRESET;
    CHECK(clEnqueueWriteBuffer(e->queue, f->values, CL_FALSE, 0, sizeof(f->host_values),
                               f->host_values, 0, NULL, &before[0]));
    CHECK(clEnqueueWriteBuffer(e->queue, f->status, CL_FALSE, 0, sizeof(f->host_status),
                               &f->host_status, 0, NULL, &before[1]));
    must(kq_opencl_quantize_enqueue(e->pack, &f->quantize, e->queue, count, before, &quantized) ==
         KQ_OK);
    must(kq_opencl_quantized_dot_enqueue(e->pack, &e->dot, e->queue, 1, &quantized, &multiplied) ==
         KQ_OK);
    for (cl_uint i = 0; i < count; i++) {  // before[2] is e->colored, which gets another one
        clReleaseEvent(before[i]);
    }

    const size_t size[2] = {PICTURE_WIDTH, PICTURE_HEIGHT};
    CHECK(clSetKernelArg(e->color, 2, sizeof(f->pixels), &f->pixels));
    CHECK(clEnqueueNDRangeKernel(e->queue, e->color, 2, NULL, size, NULL, 1, &multiplied,
                                 &e->colored));
    CHECK(clEnqueueReadBuffer(e->queue, f->status, CL_FALSE, 0, sizeof(f->host_status),
                              &f->host_status, 1, &quantized, &f->done[0]));
    CHECK(clEnqueueReadBuffer(e->queue, f->pixels, CL_FALSE, 0, sizeof(f->host_pixels),
                              f->host_pixels, 1, &e->colored, &f->done[1]));
    clReleaseEvent(quantized);
    clReleaseEvent(multiplied);
    CHECK(clFlush(e->queue));
}

// --- Options

static const char usage[] =
    "usage: engine_opencl [--device=NAME] [--frames=N] [-o FILE]\n\n"
    "Draws N frames, 60 if nothing is said, and checks the last one, which is the same\n"
    "for any N and on any device. NAME is a part of a device's name.\n\n"
    "  -o FILE     writes the last frame there, as PNG\n\n"
    "  engine_opencl --frames=60 -o soap.png\n";

int main(int argc, char **argv)
{
    static engine e;
    const char *device = NULL, *path = NULL;
    int frame_count = PICTURE_FRAMES;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--device=", 9) == 0) {
            device = argv[i] + 9;
        } else if (strncmp(argv[i], "--frames=", 9) == 0) {
            frame_count = atoi(argv[i] + 9);
        } else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
            path = argv[++i];
        } else {
            const bool is_help = strcmp(argv[i], "--help") == 0;
            fputs(usage, is_help ? stdout : stderr);
            return is_help ? EXIT_SUCCESS : 2;
        }
    }
    if (frame_count < 1 || frame_count > 1000000) {
        fprintf(stderr, "engine_opencl: --frames takes a number from 1 to 1000000\n");
        return 2;
    }

    open_device(&e, device);
    make_buffers(&e);
    make_operations(&e);
    make_kernel(&e);
    for (int i = 0; i < frame_count; i++) {
        draw_frame(&e, &e.frames[i % IN_FLIGHT], PICTURE_FRAMES - frame_count + i);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        finish_frame(&e.frames[(frame_count + i) % IN_FLIGHT]);
    }
    printf("%d frames, each of %d blocks quantized and %d dots\n", frame_count, PICTURE_COLUMNS,
           PICTURE_COLUMNS * PICTURE_ROWS);
    const unsigned char *pixels = e.frames[(frame_count - 1) % IN_FLIGHT].host_pixels;
    bool ok = picture_is_right(pixels);
    if (path != NULL && !picture_write(path, pixels)) {
        fprintf(stderr, "engine_opencl: %s can't be written\n", path);
        ok = false;
    }
    close_engine(&e);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
