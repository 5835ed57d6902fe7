// src/tool/lines.c. A line is malformed just where a reader of a few lines, below, says so; written
// another way it is judged the same, and with the output that is expected it is right. The first
// byte says which operation it is, and whether the fields are text or bytes that become hex.
#include "fuzz.h"

#include "lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS = 10, MOST_BYTES = 1700, TEXT_BYTES = 256 };

static const char *const names[OPERATIONS] = {
    "f16_to_f32", "i32_to_f32", "f32_multiply", "f32_add",       "f32_subtract",
    "f32_divide", "f32_to_i8",  "quantize",     "quantized_dot", "quantized_dot_pairwise"};
static const unsigned inputs[OPERATIONS] = {1, 1, 2, 2, 2, 2, 1, 1, 2, 2};

static target *reference(void)
{
    static target opened;
    if (opened.device == NULL) {
        REQUIRE(target_open(&opened, "reference") == KQ_OK);
    }
    return &opened;
}

// The digits of a field, which ends at a blank; 0: it is none.
static size_t field_digits(const char *field)
{
    size_t length = strcspn(field, " \t\r");
    return strspn(field, "0123456789abcdefABCDEF") == length ? length : 0;
}

// Whether the line has these fields, and where each starts.
static bool is_well_formed(unsigned op, const char *line, const char *fields[3])
{
    size_t digits[3] = {0};
    unsigned count = 0;
    for (const char *at = line; *(at += strspn(at, " \t\r")) != '\0'; at += strcspn(at, " \t\r")) {
        if (count == 3 || field_digits(at) == 0) {
            return false;
        }
        fields[count] = at;
        digits[count++] = field_digits(at);
    }
    if (count != inputs[op] + 1) {
        return false;
    }
    if (op == 7) {
        return digits[0] == 2 * KQ_BLOCK_BYTES && digits[1] == 2 * KQ_Q8_K_BYTES;
    }
    if (op > 7) {
        size_t G = digits[0] / (2 * KQ_Q4_K_BYTES);
        return G > 0 && digits[0] == G * 2 * KQ_Q4_K_BYTES && digits[1] == G * 2 * KQ_Q8_K_BYTES &&
               digits[2] == 8;
    }
    return digits[0] == 8 && digits[1] == 8 && (count < 3 || digits[2] == 8) &&
           (op != 0 || strncmp(fields[0], "0000", 4) == 0);
}

// As text, or each byte as its two digits and 0xFF 0xFE as a blank.
static char *make_line(const fuzz_input *in, bool is_hex)
{
    if (!is_hex) {
        return fuzz_text(in->at, in->left);
    }
    char *line = malloc(2 * in->left + 1);
    size_t count = 0;
    REQUIRE(line != NULL);
    for (size_t i = 0; i < in->left; i++) {
        if (in->at[i] == 0xFF && i + 1 < in->left && in->at[i + 1] == 0xFE) {
            line[count++] = ' ';
            i++;
        } else {
            count += (size_t)snprintf(line + count, 3, "%02x", in->at[i]);
        }
    }
    line[count] = '\0';
    return line;
}

static line_verdict judge_copy(const line_op *op, const char *line, char text[TEXT_BYTES])
{
    char *copy = fuzz_text((const uint8_t *)line, strlen(line));
    text[0] = '\0';
    line_verdict verdict = line_judge(op, reference(), copy, text, TEXT_BYTES);
    free(copy);
    REQUIRE((verdict == LINE_RIGHT) == (text[0] == '\0') && strchr(text, '\n') == NULL);
    return verdict;
}

// The digits of a message "... expected 0x01234567" or "... expected 01234567 (...".
static void take_expected(const char *text, char *output)
{
    const char *at = strstr(text, "expected ");
    REQUIRE(at != NULL);
    at += strlen("expected ");
    at += strncmp(at, "0x", 2) == 0 ? 2 : 0;
    REQUIRE(strspn(at, "0123456789abcdefABCDEF") >= 8);
    memcpy(output, at, 8);
}

static void write_record(const char *block, char *output)
{
    float values[KQ_BLOCK];
    uint8_t bytes[KQ_BLOCK_BYTES] = {0}, record[KQ_Q8_K_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++) {
        unsigned byte = 0;
        REQUIRE(sscanf(block + 2 * i, "%2x", &byte) == 1);
        bytes[i] = (uint8_t)byte;
    }
    memcpy(values, bytes, sizeof bytes);
    kq_quantize_host(reference()->device, KQ_FORMAT_Q8_K, values, KQ_BLOCK, record, NULL);
    for (size_t i = 0; i < sizeof record; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", record[i]);
        memcpy(output + 2 * i, digits, 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size < MOST_BYTES ? size : MOST_BYTES};
    uint8_t first = fuzz_byte(&in);
    unsigned number = first % OPERATIONS;
    const line_op *op = line_op_find(names[number]);
    const char *fields[3] = {NULL};
    char text[TEXT_BYTES], other[TEXT_BYTES];
    char *line = make_line(&in, first >= 128);
    line_verdict verdict = judge_copy(op, line, text);
    bool is_good = is_well_formed(number, line, fields);
    REQUIRE(is_good == (verdict == LINE_RIGHT || verdict == LINE_WRONG));
    REQUIRE(is_good || verdict == LINE_MALFORMED);
    for (char *c = line; *c != '\0'; c++) {
        *c = *c == ' ' ? '\t' : *c >= 'a' && *c <= 'f' ? (char)(*c - 'a' + 'A') : *c;
    }
    REQUIRE(judge_copy(op, line, other) == verdict);
    REQUIRE(strcmp(text, other) == 0 || verdict == LINE_MALFORMED);
    if (verdict == LINE_WRONG) {
        char *output = line + (fields[inputs[number]] - line);
        if (number == 7) {
            write_record(fields[0], output);
        } else {
            take_expected(text, output);
        }
        REQUIRE(judge_copy(op, line, text) == LINE_RIGHT);
    }
    free(line);
    return 0;
}
