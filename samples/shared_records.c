// One quantization, three weight matrices: the activations of an attention layer become Q8_K
// records once, and the rows of query, key and value are all multiplied with the same records.
//
// What to look at for your own program: project(). Everything else makes data and checks.

#include <kquant/kquant.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { G = 3, MATRICES = 3, MOST_ROWS = 96 };  // a row is 3 records, 768 weights

static const char *const names[MATRICES] = {"query", "key", "value"};
static const uint32_t rows[MATRICES] = {96, 32, 32};

typedef struct layer {
    float activations[G * KQ_BLOCK];
    unsigned char weights[MATRICES][MOST_ROWS * G * KQ_Q4_K_BYTES];
} layer;

typedef float projections[MATRICES][MOST_ROWS];

static void report(void *user, kq_result result, const char *reason)
{
    fprintf(stderr, "%s: %s: %s\n", (const char *)user, kq_result_name(result), reason);
}

static bool make_buffer(kq_device *device, uint64_t bytes, const void *data, kq_buffer **buffer)
{
    return kq_buffer_create(device, bytes, buffer) == KQ_OK &&
           (data == NULL || kq_buffer_upload(*buffer, 0, data, bytes) == KQ_OK);
}

// What a call returned was told to report() already, so only whether all went well is kept.
static bool project(kq_device *device, const layer *l, projections results)
{
    kq_buffer *values = NULL, *records = NULL, *out = NULL, *weights[MATRICES] = {NULL};
    bool ok = make_buffer(device, sizeof(l->activations), l->activations, &values) &&
              make_buffer(device, G * KQ_Q8_K_BYTES, NULL, &records) &&
              make_buffer(device, MOST_ROWS * sizeof(float), NULL, &out);
    for (int m = 0; m < MATRICES; m++) {  // in a program of yours: once, when the model is loaded
        ok = ok && make_buffer(device, rows[m] * G * KQ_Q4_K_BYTES, l->weights[m], &weights[m]);
    }

    const kq_quantize_args quantize = {
        .format = KQ_FORMAT_Q8_K, .values = {values, {.G = G}}, .records = {records, {.G = G}}};
    ok = ok && kq_quantize(device, &quantize) == KQ_OK;

    for (int m = 0; m < MATRICES && ok; m++) {
        // One dot a row. No rhs_step: all rows take the same records.
        const kq_repeat each_row = {
            .count = {rows[m], 1}, .lhs_step = {G * KQ_Q4_K_BYTES}, .result_step = {4}};
        const kq_quantized_dot_args dot = {.lhs_format = KQ_FORMAT_Q4_K,
                                           .rhs_format = KQ_FORMAT_Q8_K,
                                           .acc = KQ_ACCUMULATOR_F32,
                                           .lhs = {weights[m], {.G = G}},
                                           .rhs = {records, {.G = G}},
                                           .result = out,
                                           .repeat = &each_row};
        ok = kq_quantized_dot(device, &dot) == KQ_OK &&
             kq_buffer_download(out, 0, results[m], rows[m] * UINT64_C(4)) == KQ_OK;
    }

    for (int m = 0; m < MATRICES; m++) {
        kq_buffer_destroy(&weights[m]);
    }
    kq_buffer_destroy(&out);
    kq_buffer_destroy(&records);
    kq_buffer_destroy(&values);
    return ok;
}

// The same on a device of that name, NULL for the best one.
static bool project_on(const char *name, const layer *l, projections results)
{
    kq_device *device = NULL;
    const kq_device_params params = {.device = name, .errors = {report, "shared_records"}};
    if (kq_device_create(&params, &device) != KQ_OK) {
        return false;
    }
    const bool ok = project(device, l, results);
    const kq_device_info *info = kq_device_get_info(device);
    printf("%-10s %s: 1 quantization, %d matrices %s\n", info->id, info->name, MATRICES,
           ok ? "multiplied" : "failed");
    kq_device_destroy(&device);
    return ok;
}

static void draw_layer(layer *l)
{
    uint32_t state = 1;  // a linear congruential generator, of which the upper bits are good
    for (int i = 0; i < G * (int)KQ_BLOCK; i++) {
        state = state * 1664525u + 1013904223u;
        l->activations[i] = (float)(int)(state >> 16) / 32768.0f - 1.0f;
    }
    for (int m = 0; m < MATRICES; m++) {
        for (size_t i = 0; i < sizeof(l->weights[m]); i++) {
            state = state * 1664525u + 1013904223u;
            l->weights[m][i] = (unsigned char)(state >> 24);
            // Any byte will do in a record but in the upper half of d and dmin, two f16: these get
            // the exponent 2^-11 here, so that results are of ordinary size.
            if (i % KQ_Q4_K_BYTES == 1 || i % KQ_Q4_K_BYTES == 3) {
                l->weights[m][i] = 0x10;
            }
        }
    }
}

int main(int argc, char **argv)
{
    static layer l;
    static projections results, expected;
    const char *name = argc == 2 && strncmp(argv[1], "--device=", 9) == 0 ? argv[1] + 9 : NULL;
    if (argc > 2 || (argc == 2 && name == NULL)) {
        const bool is_help = strcmp(argv[1], "--help") == 0;
        fprintf(is_help ? stdout : stderr,
                "usage: shared_records [--device=NAME]\n\n"
                "Quantizes activations once, multiplies three matrices with them and compares the\n"
                "results with the reference's. NAME is an id, a uuid or a part of a name.\n\n"
                "  shared_records --device=vulkan:0\n");
        return is_help ? EXIT_SUCCESS : 2;
    }
    draw_layer(&l);
    if (!project_on(name, &l, results) || !project_on("reference", &l, expected)) {
        return EXIT_FAILURE;
    }
    for (int m = 0; m < MATRICES; m++) {
        if (memcmp(results[m], expected[m], rows[m] * sizeof(float)) != 0) {
            fprintf(stderr, "shared_records: %s is not what the reference gives\n", names[m]);
            return EXIT_FAILURE;
        }
        printf("%-10s %u rows of %u weights, first %a, the reference's bits\n", names[m],
               (unsigned)rows[m], G * KQ_BLOCK, (double)results[m][0]);
    }
    return EXIT_SUCCESS;
}
