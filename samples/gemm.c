// Prefill: many columns of activations times one weight matrix, as a repeat of two counts. The
// inner loop goes over the rows of the matrix, the outer one over the columns, and each dot has the
// bits that it has alone.
//
// What to look at for your own program: multiply(). check() then does every dot by itself.

#include <kquant/kquant.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { G = 2, ROWS = 24, COLUMNS = 9 };  // rows and columns are of 2 records, 512 values
enum { ROW_BYTES = G * KQ_Q4_K_BYTES, COLUMN_BYTES = G * KQ_Q8_K_BYTES };

static unsigned char matrix[ROWS * ROW_BYTES];
static float activations[COLUMNS][G * KQ_BLOCK];
static float results[COLUMNS][ROWS];

typedef struct buffers {
    kq_buffer *matrix, *values, *records, *results;
} buffers;

static void report(void *user, kq_result result, const char *reason)
{
    (void)user;
    fprintf(stderr, "gemm: %s: %s\n", kq_result_name(result), reason);
}

static kq_quantized_dot_args dot_of(const buffers *b, uint64_t row, uint64_t column)
{
    return (kq_quantized_dot_args){
        .lhs_format = KQ_FORMAT_Q4_K,
        .rhs_format = KQ_FORMAT_Q8_K,
        .acc = KQ_ACCUMULATOR_F32,
        .lhs = {b->matrix, {.offset = row * ROW_BYTES, .G = G}},
        .rhs = {b->records, {.offset = column * COLUMN_BYTES, .G = G}},
        .result = b->results,
    };
}

static bool multiply(kq_device *device, const buffers *b)
{
    // Blocks lie side by side, so all columns are quantized at once.
    const kq_quantize_args quantize = {.format = KQ_FORMAT_Q8_K,
                                       .values = {b->values, {.G = COLUMNS * G}},
                                       .records = {b->records, {.G = COLUMNS * G}}};
    // A step of 0 shares: the columns are the same for each row, the rows for each column. To have
    // the results the other way round, results[ROWS][COLUMNS], exchange only their steps.
    const kq_repeat each = {
        .count = {ROWS, COLUMNS},
        .lhs_step = {ROW_BYTES, 0},
        .rhs_step = {0, COLUMN_BYTES},
        .result_step = {sizeof(float), ROWS * sizeof(float)},
    };
    kq_quantized_dot_args dots = dot_of(b, 0, 0);
    dots.repeat = &each;
    return kq_buffer_upload(b->matrix, 0, matrix, sizeof(matrix)) == KQ_OK &&
           kq_buffer_upload(b->values, 0, activations, sizeof(activations)) == KQ_OK &&
           kq_quantize(device, &quantize) == KQ_OK && kq_quantized_dot(device, &dots) == KQ_OK &&
           kq_buffer_download(b->results, 0, results, sizeof(results)) == KQ_OK;
}

static bool check(kq_device *device, const buffers *b)
{
    for (uint64_t column = 0; column < COLUMNS; column++) {
        for (uint64_t row = 0; row < ROWS; row++) {
            const kq_quantized_dot_args dot = dot_of(b, row, column);
            float alone;
            if (kq_quantized_dot(device, &dot) != KQ_OK ||
                kq_buffer_download(b->results, 0, &alone, sizeof(alone)) != KQ_OK) {
                return false;
            }
            if (memcmp(&alone, &results[column][row], sizeof(alone)) != 0) {
                fprintf(stderr, "gemm: row %d, column %d: %a, but alone %a\n", (int)row,
                        (int)column, (double)results[column][row], (double)alone);
                return false;
            }
        }
    }
    return true;
}

static void draw(void)
{
    uint32_t state = 1;  // a linear congruential generator, of which the upper bits are good
    for (int i = 0; i < COLUMNS * G * (int)KQ_BLOCK; i++) {
        state = state * 1664525u + 1013904223u;
        activations[i / (G * KQ_BLOCK)][i % (G * KQ_BLOCK)] =
            (float)(int)(state >> 16) / 32768.0f - 1.0f;
    }
    for (size_t i = 0; i < sizeof(matrix); i++) {
        state = state * 1664525u + 1013904223u;
        matrix[i] = (unsigned char)(state >> 24);
        // The upper bytes of d and dmin, two f16: 2^-11, so that results are of ordinary size.
        if (i % KQ_Q4_K_BYTES == 1 || i % KQ_Q4_K_BYTES == 3) {
            matrix[i] = 0x10;
        }
    }
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 && strncmp(argv[1], "--device=", 9) == 0 ? argv[1] + 9 : NULL;
    if (argc > 2 || (argc == 2 && name == NULL)) {
        const bool is_help = strcmp(argv[1], "--help") == 0;
        fprintf(is_help ? stdout : stderr,
                "usage: gemm [--device=NAME]\n\n"
                "Multiplies a matrix with several columns in one call and compares each result\n"
                "with the dot done by itself. NAME is an id, a uuid or a part of a name.\n\n"
                "  gemm --device=vulkan:0\n");
        return is_help ? EXIT_SUCCESS : 2;
    }
    draw();
    kq_device *device = NULL;
    buffers b = {NULL, NULL, NULL, NULL};
    const kq_device_params params = {.device = name, .errors = {report, NULL}};
    bool ok = kq_device_create(&params, &device) == KQ_OK &&
              kq_buffer_create(device, sizeof(matrix), &b.matrix) == KQ_OK &&
              kq_buffer_create(device, sizeof(activations), &b.values) == KQ_OK &&
              kq_buffer_create(device, COLUMNS * COLUMN_BYTES, &b.records) == KQ_OK &&
              kq_buffer_create(device, sizeof(results), &b.results) == KQ_OK &&
              multiply(device, &b) && check(device, &b);
    if (ok) {
        printf("%s: %d rows times %d columns of %u values, in one call and one by one: same bits\n",
               kq_device_get_info(device)->name, ROWS, COLUMNS, G * KQ_BLOCK);
    }
    kq_buffer_destroy(&b.results);
    kq_buffer_destroy(&b.records);
    kq_buffer_destroy(&b.values);
    kq_buffer_destroy(&b.matrix);
    kq_device_destroy(&device);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
