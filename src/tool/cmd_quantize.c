// kquant quantize: a file of f32 blocks to a file of Q8_K records.

#include "files.h"
#include "options.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The records of G blocks, made on the device. False: complained about, with *code set.
static bool quantize(target *target, const char *path, const uint8_t *values, uint32_t G,
                     uint8_t *records, int *code)
{
    enum { VALUES, RECORDS };
    uint64_t values_bytes = (uint64_t)G * KQ_BLOCK_BYTES;
    uint64_t records_bytes = (uint64_t)G * KQ_Q8_K_BYTES;
    if (G == 0) {
        return true;
    }
    kq_domain domain = {0};
    kq_result result = target_reserve(target, VALUES, values_bytes, true);
    if (result == KQ_OK) {
        result = target_reserve(target, RECORDS, records_bytes, true);
    }
    if (result == KQ_OK) {
        result = kq_buffer_upload(target->buffers[VALUES], 0, values, values_bytes);
    }
    if (result == KQ_OK) {
        kq_quantize_args args = {
            .format = KQ_FORMAT_Q8_K,
            .values = {.buffer = target->buffers[VALUES], .view = {.G = G}},
            .records = {.buffer = target->buffers[RECORDS], .view = {.G = G}},
            .domain = &domain,
        };
        result = kq_quantize(target->device, &args);
    }
    if (result == KQ_OK) {
        result = kq_buffer_download(target->buffers[RECORDS], 0, records, records_bytes);
    }
    if (result == KQ_OK) {
        return true;
    }

    *code = EXIT_UNDECIDED;
    if (result != KQ_ERROR_DOMAIN) {
        complain("quantize: %s: %s", target->info->id, target->reason);
        return false;
    }
    *code = EXIT_FAILED;
    if (domain.reason == KQ_REASON_NONFINITE_INPUT) {
        uint64_t byte = (uint64_t)domain.record * KQ_BLOCK_BYTES + (uint64_t)domain.element * 4;
        complain("quantize: %s: record %" PRIu32 ": nonfinite-input@%" PRIu32 ": element %" PRIu32
                 " (byte %" PRIu64 ") is infinite or no number; %" PRIu32 " of %" PRIu32
                 " blocks have no record",
                 path, domain.record, domain.element, domain.element, byte, domain.bad_count, G);
    } else {
        complain("quantize: %s: record %" PRIu32
                 ": inverse-overflow: its largest magnitude is not 0 but below 3.73219479e-37 "
                 "(0x02FE0001); %" PRIu32 " of %" PRIu32 " blocks have no record",
                 path, domain.record, domain.bad_count, G);
    }
    return false;
}

int cmd_quantize(int argc, char **argv)
{
    const char *device = NULL;
    const option options[] = {
        {.name = "device",
         .value = "D",
         .kind = OPTION_TEXT,
         .text = &device,
         .help = "where: an id, a uuid, or a part of one device's name;\n"
                 "without it the first discrete GPU, else integrated, else software"},
    };
    static const char *const names[] = {"IN.f32", "OUT.q8k"};
    const usage usage = {
        .name = "quantize",
        .summary = "[--device=D] IN.f32 OUT.q8k",
        .about = "Makes a Q8_K record of 292 bytes of every block of 256 values. IN.f32 holds "
                 "little-endian f32, a\nmultiple of 1024 bytes. A block that holds an infinity or "
                 "a NaN, or whose largest magnitude is too\nsmall, has no record: the lowest one "
                 "is named, and the exit code is 1. OUT.q8k is written whole or\nnot at all.\n",
        .examples = "  kquant quantize --device=vulkan:0 activations.f32 activations.q8k\n"
                    "  kquant quantize --device=reference x.f32 x.q8k && kquant dot w.q4k x.q8k\n",
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
    if (is_same_file(paths[0], paths[1])) {
        complain("quantize: OUT.q8k must not be IN.f32, %s", paths[0]);
        return EXIT_USAGE;
    }

    uint8_t *values = NULL, *records = NULL;
    uint32_t G = 0;
    target target = {0};
    int code = EXIT_UNDECIDED;
    if (read_records(paths[0], KQ_BLOCK_BYTES, "blocks of 256 f32", &values, &G, &code)) {
        code = target_open_or_complain(&target, device);
        if (code == EXIT_DONE) {
            records = allocate(G, KQ_Q8_K_BYTES);
            if (quantize(&target, paths[0], values, G, records, &code) &&
                !write_file(paths[1], records, (size_t)G * KQ_Q8_K_BYTES)) {
                code = EXIT_UNDECIDED;
            }
            target_close(&target);
        }
    }
    free(values);
    free(records);
    return code;
}
