// kquant dot: dot products of files of Q4_K and Q8_K records.

#include "bytes.h"
#include "files.h"
#include "options.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// `count` dots of G records of W each, with the same G records of X. False: complained about.
static bool dot(target *target, kq_order order, uint32_t count, uint32_t G, const uint8_t *w,
                const uint8_t *x, uint8_t *results)
{
    enum { W, X, RESULTS };
    uint64_t w_bytes = (uint64_t)count * G * KQ_Q4_K_BYTES;
    uint64_t x_bytes = (uint64_t)G * KQ_Q8_K_BYTES;
    uint64_t results_bytes = (uint64_t)count * 4;
    kq_result result = target_reserve(target, RESULTS, results_bytes, true);
    if (result == KQ_OK && G > 0) {
        result = target_reserve(target, W, w_bytes, true);
    }
    if (result == KQ_OK && G > 0) {
        result = target_reserve(target, X, x_bytes, true);
    }
    if (result == KQ_OK && G > 0) {
        result = kq_buffer_upload(target->buffers[W], 0, w, w_bytes);
    }
    if (result == KQ_OK && G > 0) {
        result = kq_buffer_upload(target->buffers[X], 0, x, x_bytes);
    }
    if (result == KQ_OK) {
        kq_repeat repeat = {
            .count = {count, 1},
            .lhs_step = {(uint64_t)G * KQ_Q4_K_BYTES, 0},
            .result_step = {4, results_bytes},
        };
        kq_quantized_dot_args args = {
            .lhs_format = KQ_FORMAT_Q4_K,
            .rhs_format = KQ_FORMAT_Q8_K,
            .acc = KQ_ACCUMULATOR_F32,
            .order = order,
            .lhs = {.buffer = target->buffers[W], .view = {.G = G}},
            .rhs = {.buffer = target->buffers[X], .view = {.G = G}},
            .result = target->buffers[RESULTS],
            .repeat = &repeat,
        };
        result = kq_quantized_dot(target->device, &args);
    }
    if (result == KQ_OK) {
        result = kq_buffer_download(target->buffers[RESULTS], 0, results, results_bytes);
    }
    if (result != KQ_OK) {
        complain("dot: %s: %s", target->info->id, target->reason);
    }
    return result == KQ_OK;
}

// How many dots the files hold; false: they don't fit, and why was complained about. asked: the
// value of --repeat, or 0.
static bool count_dots(const char *const paths[2], uint32_t w_G, uint32_t x_G, uint64_t asked,
                       uint32_t *count)
{
    if (asked != 0) {
        *count = (uint32_t)asked;
        if (asked * x_G == w_G) {
            return true;
        }
        complain("dot: G is unequal: %s has %" PRIu32 " records; %" PRIu64 " dots with the %" PRIu32
                 " records of %s take %" PRIu64,
                 paths[0], w_G, asked, x_G, paths[1], asked * x_G);
        return false;
    }
    if (x_G == 0 && w_G == 0) {
        *count = 1;
        return true;
    }
    *count = x_G == 0 ? 0 : w_G / x_G;
    if (x_G != 0 && w_G != 0 && w_G % x_G == 0) {
        return true;
    }
    complain("dot: G is unequal: %s has %" PRIu32 " records, which is no whole multiple of the "
             "%" PRIu32 " records of %s",
             paths[0], w_G, x_G, paths[1]);
    return false;
}

int cmd_dot(int argc, char **argv)
{
    const char *device = NULL;
    unsigned order = KQ_ORDER_SEQUENTIAL;
    uint64_t repeat = 0;
    const option options[] = {
        {.name = "device",
         .value = "D",
         .kind = OPTION_TEXT,
         .text = &device,
         .help = "where: an id, a uuid, or a part of one device's name;\n"
                 "without it the first discrete GPU, else integrated, else software"},
        {.name = "order",
         .value = "sequential|pairwise",
         .kind = OPTION_CHOICE,
         .choice = &order,
         .help = "how the terms are added, which the bits depend on (sequential)"},
        {.name = "repeat",
         .value = "N",
         .kind = OPTION_NUMBER,
         .min = 1,
         .max = UINT32_MAX,
         .number = &repeat,
         .help = "W.q4k must hold N times the records of X.q8k;\n"
                 "without it N is what the sizes give"},
    };
    static const char *const names[] = {"W.q4k", "X.q8k"};
    const usage usage = {
        .name = "dot",
        .summary = "[--device=D] [--order=O] [--repeat=N] W.q4k X.q8k",
        .about = "The dot product of Q4_K records of 144 bytes and as many Q8_K records of 292 "
                 "bytes, in f32. Where\nW.q4k holds N times as many records as X.q8k, it is N "
                 "dots, each with all of X.q8k: a matrix times a\nvector. One line a result: "
                 "decimal, tab, the bits as 8 hex digits. G, in messages, is the\nnumber of "
                 "records on either side of one dot; it must be equal on both.\n",
        .examples = "  kquant dot --device=vulkan:0 row.q4k x.q8k\n"
                    "  kquant dot --order=pairwise --repeat=4096 matrix.q4k x.q8k\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = names,
        .operand_count = 2,
    };
    const char *paths[2];
    switch (options_parse(&usage, argc, argv, paths)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }

    uint8_t *w = NULL, *x = NULL, *results = NULL;
    uint32_t w_G = 0, x_G = 0, count = 0;
    target target = {0};
    int code = EXIT_UNDECIDED;
    if (!read_records(paths[0], KQ_Q4_K_BYTES, "Q4_K records", &w, &w_G, &code) ||
        !read_records(paths[1], KQ_Q8_K_BYTES, "Q8_K records", &x, &x_G, &code)) {
        goto done;
    }
    if (!count_dots(paths, w_G, x_G, repeat, &count)) {
        code = EXIT_FAILED;
        goto done;
    }
    code = target_open_or_complain(&target, device);
    if (code != EXIT_DONE) {
        goto done;
    }
    results = allocate(count, 4);
    if (dot(&target, (kq_order)order, count, x_G, w, x, results)) {
        for (size_t k = 0; k < count; k++) {
            uint32_t bits = load_u32(results + 4 * k);
            printf("%.9g\t%08" PRIx32 "\n", f32_number(bits), bits);
        }
    } else {
        code = EXIT_UNDECIDED;
    }
    target_close(&target);
done:
    free(w);
    free(x);
    free(results);
    return code;
}
