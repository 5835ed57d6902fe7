#include "lines.h"
#include "bytes.h"
#include "decode.h"
#include "draws.h"
#include "primitives.h"
#include "vectors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 48, MAX_FIELDS = 4 };

struct line_op {
    const char *name;
    kq_op op;
    kq_order order;
    uint32_t primitive;
    unsigned inputs;  // fields before the output
};

static const line_op operations[] = {
    {"quantize", KQ_OP_QUANTIZE, KQ_ORDER_SEQUENTIAL, 0, 1},
    {"quantized_dot", KQ_OP_QUANTIZED_DOT, KQ_ORDER_SEQUENTIAL, 0, 2},
    {"quantized_dot_pairwise", KQ_OP_QUANTIZED_DOT, KQ_ORDER_PAIRWISE, 0, 2},
    {"f16_to_f32", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 1, 1},
    {"i32_to_f32", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 2, 1},
    {"f32_multiply", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 3, 2},
    {"f32_add", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 4, 2},
    {"f32_subtract", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 5, 2},
    {"f32_divide", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 6, 2},
    {"f32_to_i8", KQ_OP_SELF_TEST, KQ_ORDER_SEQUENTIAL, 7, 1},
};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

const line_op *line_op_find(const char *name)
{
    for (size_t k = 0; k < OPERATIONS; k++) {
        if (strcmp(operations[k].name, name) == 0) {
            return &operations[k];
        }
    }
    return NULL;
}

// --- Printing inputs

static void print_bytes(const uint8_t *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        printf("%02x", bytes[k]);
    }
}

static void print_blocks(const uint8_t *blocks, uint32_t G)
{
    for (uint32_t g = 0; g < G; g++) {
        // Kernels that are judged need not know what has no record.
        if (kq_block_reason(blocks + (size_t)g * KQ_BLOCK_BYTES, 0, NULL) == KQ_REASON_NONE) {
            print_bytes(blocks + (size_t)g * KQ_BLOCK_BYTES, KQ_BLOCK_BYTES);
            printf("\n");
        }
    }
}

static void print_records(uint32_t G, const uint8_t *lhs, const uint8_t *rhs)
{
    print_bytes(lhs, (size_t)G * KQ_Q4_K_BYTES);
    printf(" ");
    print_bytes(rhs, (size_t)G * KQ_Q8_K_BYTES);
    printf("\n");
}

static bool print_vectors(const line_op *op)
{
    vectors vectors = {0};
    bool is_good = vectors_add_built_in(&vectors);
    for (size_t k = 0; is_good && op->op == KQ_OP_QUANTIZE && k < vectors.quantize_count; k++) {
        print_blocks(vectors.quantize[k].values, vectors.quantize[k].G);
    }
    for (size_t k = 0; is_good && op->op == KQ_OP_QUANTIZED_DOT && k < vectors.dot_count; k++) {
        const dot_vector *dot = &vectors.dot[k];
        if (dot->G > 0) {
            print_records(dot->G, dot->lhs, dot->rhs);
        }
    }
    vectors_free(&vectors);
    return is_good;
}

static void print_drawn(const line_op *op, uint64_t *state)
{
    enum { MOST_G = 8 };
    uint8_t lhs[MOST_G * KQ_Q4_K_BYTES], rhs[MOST_G * KQ_Q8_K_BYTES], block[KQ_BLOCK_BYTES];
    if (op->op == KQ_OP_QUANTIZE) {
        do {
            draw_block(state, block);
        } while (kq_block_reason(block, 0, NULL) != KQ_REASON_NONE);
        print_blocks(block, 1);
        return;
    }
    uint32_t G = 1 + draw_below(state, MOST_G);
    uint32_t kind = draw_below(state, 8);
    for (uint32_t g = 0; g < G; g++) {
        draw_lhs(state, kind, lhs + (size_t)g * KQ_Q4_K_BYTES);
        draw_rhs(state, kind, rhs + (size_t)g * KQ_Q8_K_BYTES);
    }
    print_records(G, lhs, rhs);
}

// Every class of the primitive's operands has its share of the draws.
static void print_items(const line_op *op, uint64_t seed, uint64_t draws)
{
    uint32_t most = draws < UINT32_MAX ? (uint32_t)draws : UINT32_MAX;
    for (unsigned class = 0; class < CLASS_COUNT; class ++) {
        uint32_t count = 0;
        item *items = primitive_items(op->primitive, (operand_class) class, seed, most, &count);
        for (uint32_t k = 0; k < count; k++) {
            printf("%08" PRIx32, items[k].a);
            if (op->inputs == 2) {
                printf(" %08" PRIx32, items[k].b);
            }
            printf("\n");
        }
        free(items);
    }
}

bool lines_print(const line_op *op, uint64_t seed, uint64_t draws)
{
    uint64_t state = seed;
    if (op->op == KQ_OP_SELF_TEST) {
        print_items(op, seed, draws);
        return true;
    }
    for (uint64_t k = 0; k < draws; k++) {
        print_drawn(op, &state);
    }
    return print_vectors(op);
}

// --- Judging

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// Bytes in place of the digits, and their number; SIZE_MAX where these are none.
static size_t read_bytes(char *text)
{
    uint8_t *bytes = (uint8_t *)text;
    size_t count = 0;
    for (; text[2 * count] != '\0'; count++) {
        int high = digit_of(text[2 * count]), low = digit_of(text[2 * count + 1]);
        if (high < 0 || low < 0) {
            return SIZE_MAX;
        }
        bytes[count] = (uint8_t)(16 * high + low);
    }
    return count;
}

static bool read_word(const char *text, uint32_t *word)
{
    *word = 0;
    for (unsigned k = 0; k < 8; k++) {
        if (digit_of(text[k]) < 0) {
            return false;
        }
        *word = *word << 4 | (uint32_t)digit_of(text[k]);
    }
    return text[8] == '\0';
}

// The fields, ended with NULs; their number, or one more than MAX_FIELDS for too many.
static unsigned split(char *line, char *fields[MAX_FIELDS])
{
    unsigned count = 0;
    for (char *field = strtok(line, " \t\r"); field != NULL; field = strtok(NULL, " \t\r")) {
        if (count < MAX_FIELDS) {
            fields[count] = field;
        }
        count++;
    }
    return count < MAX_FIELDS ? count : MAX_FIELDS;
}

static line_verdict judge_primitive(const line_op *op, char *fields[MAX_FIELDS], char *text,
                                    size_t bytes)
{
    item item = {.primitive = op->primitive};
    uint32_t got = 0;
    if (!read_word(fields[0], &item.a) || (op->inputs == 2 && !read_word(fields[1], &item.b)) ||
        !read_word(fields[op->inputs], &got)) {
        snprintf(text, bytes, "each field must be 8 hex digits");
        return LINE_MALFORMED;
    }
    if (strcmp(op->name, "f16_to_f32") == 0 && item.a > 0xFFFF) {
        snprintf(text, bytes, "0x%08" PRIX32 " is no f16, which ends at 0x0000FFFF", item.a);
        return LINE_MALFORMED;
    }
    if (got == primitive_result(&item)) {
        return LINE_RIGHT;
    }
    snprintf(text, bytes,
             "%s %s: 0x%08" PRIX32 ", 0x%08" PRIX32 " gave 0x%08" PRIX32 ", expected 0x%08" PRIX32,
             primitive_name(op->primitive), primitive_fault(&item, got), item.a, item.b, got,
             primitive_result(&item));
    return LINE_WRONG;
}

static line_verdict judge_block(target *reference, char *fields[MAX_FIELDS], char *text,
                                size_t bytes)
{
    uint8_t expected[KQ_Q8_K_BYTES];
    float values[KQ_BLOCK];
    char must[TEXT_BYTES], is[TEXT_BYTES];
    size_t sizes[2] = {read_bytes(fields[0]), read_bytes(fields[1])};
    if (sizes[0] != KQ_BLOCK_BYTES || sizes[1] != KQ_Q8_K_BYTES) {
        snprintf(text, bytes, "must be 2048 hex digits, a block, and 584, its record");
        return LINE_MALFORMED;
    }
    for (size_t i = 0; i < KQ_BLOCK; i++) {
        uint32_t word = load_u32((const uint8_t *)fields[0] + 4 * i);
        memcpy(&values[i], &word, sizeof word);
    }
    kq_result result =
        kq_quantize_host(reference->device, KQ_FORMAT_Q8_K, values, KQ_BLOCK, expected, NULL);
    if (result != KQ_OK && result != KQ_ERROR_DOMAIN) {
        snprintf(text, bytes, "%s", reference->reason);
        return LINE_UNDECIDED;
    }
    const uint8_t *got = (const uint8_t *)fields[1];
    for (unsigned number = 0; number < Q8_K_FIELDS; number++) {
        field field = q8_k_field(number);
        if (memcmp(got + field.offset, expected + field.offset, field.bytes) != 0) {
            print_field(must, expected, number);
            print_field(is, got, number);
            snprintf(text, bytes, "%s: expected %s, got %s", field.name, must, is);
            return LINE_WRONG;
        }
    }
    return LINE_RIGHT;
}

static line_verdict judge_dot(const line_op *op, target *reference, char *fields[MAX_FIELDS],
                              char *text, size_t bytes)
{
    char must[TEXT_BYTES], is[TEXT_BYTES];
    uint32_t got = 0, expected = 0;
    float answer = 0;
    size_t lhs = read_bytes(fields[0]), rhs = read_bytes(fields[1]);
    size_t G = lhs / KQ_Q4_K_BYTES;
    if (lhs == SIZE_MAX || lhs % KQ_Q4_K_BYTES != 0 || rhs != G * KQ_Q8_K_BYTES ||
        !read_word(fields[2], &got)) {
        snprintf(text, bytes,
                 "must be G times 288 hex digits, Q4_K records, G times 584, Q8_K records, and 8");
        return LINE_MALFORMED;
    }
    kq_result result =
        kq_quantized_dot_host(reference->device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                              op->order, 1, fields[0], lhs, fields[1], rhs, &answer);
    if (result != KQ_OK) {
        snprintf(text, bytes, "%s", reference->reason);
        return LINE_UNDECIDED;
    }
    memcpy(&expected, &answer, sizeof expected);
    if (got == expected) {
        return LINE_RIGHT;
    }
    print_f32(must, expected);
    print_f32(is, got);
    snprintf(text, bytes, "%s, %zu record(s): expected %s, got %s", op->name, G, must, is);
    return LINE_WRONG;
}

line_verdict line_judge(const line_op *op, target *reference, char *line, char *text, size_t bytes)
{
    char *fields[MAX_FIELDS];
    unsigned count = split(line, fields);
    if (count != op->inputs + 1) {
        snprintf(text, bytes, "has %u fields; %u inputs and the output are %u", count, op->inputs,
                 op->inputs + 1);
        return LINE_MALFORMED;
    }
    return op->op == KQ_OP_SELF_TEST  ? judge_primitive(op, fields, text, bytes)
           : op->op == KQ_OP_QUANTIZE ? judge_block(reference, fields, text, bytes)
                                      : judge_dot(op, reference, fields, text, bytes);
}
