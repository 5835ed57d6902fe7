// kquant gen and kquant verify: judge a kernel that is none of ours, in any language.

#include "judge.h"
#include "lines.h"
#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about_lines[] =
    "OP is quantize, quantized_dot (terms added in increasing order), quantized_dot_pairwise, or "
    "a\n"
    "single step: f16_to_f32, i32_to_f32, f32_multiply, f32_add, f32_subtract, f32_divide, "
    "f32_to_i8.\n\n"
    "A line is one operation; fields are hex, divided by spaces, inputs first, the output last:\n"
    "  quantize       a block, 256 f32, and its Q8_K record: bytes as they lie in memory\n"
    "  quantized_dot  G Q4_K records, G Q8_K records: bytes; and the bits of the f32 result as a\n"
    "                 number of 8 digits\n"
    "  a step         its operands, one or two, and its result: numbers of 8 digits\n";

static const line_op *find_or_complain(const char *command, const char *name)
{
    const line_op *op = line_op_find(name);
    if (op == NULL) {
        complain("%s: no operation is called %s; see kquant %s --help", command, name, command);
    }
    return op;
}

int cmd_gen(int argc, char **argv)
{
    uint64_t draws = 1000, seed = 1;
    const option options[] = {
        {.name = "draws",
         .value = "N",
         .kind = OPTION_NUMBER,
         .max = UINT32_MAX,
         .number = &draws,
         .help = "drawn operands, beside the built-in ones; of a step, of each kind (1000)"},
        {.name = "seed",
         .value = "N",
         .kind = OPTION_NUMBER,
         .max = UINT64_MAX,
         .number = &seed,
         .help = "of the draws (1)"},
    };
    static const char *const names[] = {"OP"};
    char about[2048];
    snprintf(about, sizeof about,
             "Prints the inputs of many operations, one a line, for a kernel of yours to add its "
             "outputs to\nand kquant verify to judge.\n\n%s",
             about_lines);
    const usage usage = {
        .name = "gen",
        .summary = "[--draws=N] [--seed=N] OP",
        .about = about,
        .examples = "  kquant gen f32_multiply | your-kernel | kquant verify f32_multiply\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = names,
        .operand_count = 1,
    };
    const char *name;
    switch (options_parse(&usage, argc, argv, &name)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }
    const line_op *op = find_or_complain("gen", name);
    if (op == NULL) {
        return EXIT_USAGE;
    }
    return lines_print(op, seed, draws) ? EXIT_DONE : EXIT_UNDECIDED;
}

enum { MAX_LINE_BYTES = 1 << 28 };

// The next line of stdin without its newline, the caller's to free, and its bytes, of which more
// than MAX_LINE_BYTES are left where they are; NULL at the end.
static char *next_line(size_t *bytes)
{
    size_t count = 0, capacity = 256;
    char *line = allocate(capacity, 1);
    int c = '\n';
    while (count <= MAX_LINE_BYTES && (c = getchar()) != EOF && c != '\n') {
        if (count + 1 == capacity) {
            line = reallocate(line, UINT64_C(2) * capacity, 1);
            capacity *= 2;
        }
        line[count++] = (char)c;
    }
    if (c == EOF && count == 0) {
        free(line);
        return NULL;
    }
    line[count] = '\0';
    *bytes = count;
    return line;
}

static int verify(const line_op *op, target *reference, uint64_t expected)
{
    uint64_t lines = 0, wrong = 0;
    size_t bytes;
    char *line;
    while ((line = next_line(&bytes)) != NULL) {
        char text[256] = "has a NUL in it";
        if (bytes > MAX_LINE_BYTES) {
            snprintf(text, sizeof text, "has more than 2^28 bytes");
        }
        line_verdict verdict = strlen(line) == bytes && bytes <= MAX_LINE_BYTES
                                   ? line_judge(op, reference, line, text, sizeof text)
                                   : LINE_MALFORMED;
        free(line);
        lines++;
        if (verdict == LINE_MALFORMED || verdict == LINE_UNDECIDED) {
            complain("verify: line %" PRIu64 ": %s", lines, text);
            return EXIT_UNDECIDED;
        }
        if (verdict == LINE_WRONG && wrong++ < REPORT_LINES) {
            printf("FAIL   line %" PRIu64 ": %s\n", lines, text);
        }
    }
    if (ferror(stdin)) {
        complain("verify: stdin can't be read");
        return EXIT_UNDECIDED;
    }
    if (wrong > REPORT_LINES) {
        printf("       and %" PRIu64 " more\n", wrong - REPORT_LINES);
    }
    printf("%" PRIu64 " right, %" PRIu64 " wrong\n", lines - wrong, wrong);
    if (expected > 0 && lines != expected) {
        complain("verify: there were %" PRIu64 " lines, and --lines=%" PRIu64 " are expected",
                 lines, expected);
        return wrong > 0 ? EXIT_FAILED : EXIT_UNDECIDED;
    }
    return lines == 0 ? EXIT_NOTHING : wrong > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_verify(int argc, char **argv)
{
    uint64_t expected = 0;
    const option options[] = {
        {.name = "lines",
         .value = "N",
         .kind = OPTION_NUMBER,
         .min = 1,
         .max = UINT64_MAX,
         .number = &expected,
         .help = "as many as kquant gen printed: a kernel that ends early is noticed only\n"
                 "with it"},
    };
    static const char *const names[] = {"OP"};
    char about[2048];
    snprintf(
        about, sizeof about,
        "Reads lines of kquant gen, each with the output of a kernel of yours behind it, from "
        "stdin, and\ncompares every bit. Exit 0: there were lines and all are right. 1: one is "
        "wrong; the first 20 are\nprinted. 77: no line. 99: a line is malformed, which ends "
        "it, or\nsome are missing.\n\n%s",
        about_lines);
    const usage usage = {
        .name = "verify",
        .summary = "[--lines=N] OP",
        .about = about,
        .examples = "  kquant gen quantize | your-kernel | kquant verify quantize\n"
                    "  kquant gen f32_multiply >inputs\n"
                    "  your-kernel <inputs | kquant verify f32_multiply "
                    "--lines=$(wc -l <inputs)\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = names,
        .operand_count = 1,
    };
    const char *name;
    switch (options_parse(&usage, argc, argv, &name)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }
    const line_op *op = find_or_complain("verify", name);
    if (op == NULL) {
        return EXIT_USAGE;
    }
    target reference;
    int code = target_open_or_complain(&reference, "reference");
    if (code == EXIT_DONE) {
        code = verify(op, &reference, expected);
        target_close(&reference);
    }
    return code;
}
