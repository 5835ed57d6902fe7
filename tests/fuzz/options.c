// src/tool/options.c, and parse_number and matches of tool.c. Arguments are divided by NULs.
// Numbers that are taken lie in their range and are taken again as they are printed; whether a
// number is one, and what a glob matches, is found once more in another way.
#include "fuzz.h"

#include "options.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 16, MOST_GLOB = 64 };

static void check_number(const char *text, uint64_t max)
{
    const bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *const allowed = is_hex ? "0123456789abcdefABCDEF" : "0123456789";
    const char *digits = text + (is_hex ? 2 : 0);
    const size_t length = strlen(digits);
    bool is_number = length > 0 && strspn(digits, allowed) == length;
    unsigned __int128 value = 0;
    for (const char *c = digits; is_number && *c != '\0'; c++) {
        unsigned digit = *c <= '9' ? (unsigned)(*c - '0') : ((unsigned)*c | 0x20) - 'a' + 10;
        value = value * (is_hex ? 16 : 10) + digit;
        is_number = value <= max;
    }
    uint64_t number = 0;
    REQUIRE(parse_number(text, max, &number) == is_number);
    REQUIRE(!is_number || number == (uint64_t)value);
    if (is_number) {
        char again[2][24];
        snprintf(again[0], sizeof again[0], "%" PRIu64, number);
        snprintf(again[1], sizeof again[1], "0x%" PRIx64, number);
        for (int k = 0; k < 2; k++) {
            uint64_t same = ~number;
            REQUIRE(parse_number(again[k], max, &same) && same == number);
        }
    }
}

static void check_glob(const char *pattern, const char *text)
{
    const size_t p = strlen(pattern), t = strlen(text);
    if (p >= MOST_GLOB || t >= MOST_GLOB) {
        return;
    }
    // Whether the first i characters of the pattern match the first k of the text.
    bool table[MOST_GLOB][MOST_GLOB] = {{true}};
    for (size_t i = 1; i <= p; i++) {
        for (size_t k = 0; k <= t; k++) {
            table[i][k] = pattern[i - 1] == '*'
                              ? table[i - 1][k] || (k > 0 && table[i][k - 1])
                              : k > 0 && table[i - 1][k - 1] &&
                                    (pattern[i - 1] == '?' || pattern[i - 1] == text[k - 1]);
        }
    }
    REQUIRE(matches(pattern, text) == table[p][t]);
}

typedef struct values {
    bool flag;
    const char *text;
    uint64_t any, small;
    unsigned choice;
    size_t given;
} values;

static options_result parse(char **arguments, int count, bool repeats, values *v,
                            const char **operands)
{
    static const char *const names[] = {"A", "B"};
    *v = (values){.small = 7};
    const option options[] = {
        {.name = "flag", .kind = OPTION_FLAG, .flag = &v->flag, .help = "help"},
        {.name = "text", .letter = 't', .value = "T", .kind = OPTION_TEXT, .text = &v->text},
        {.name = "any", .value = "N", .kind = OPTION_NUMBER, .max = UINT64_MAX, .number = &v->any},
        {.name = "small",
         .value = "N",
         .kind = OPTION_NUMBER,
         .min = 3,
         .max = 1u << 24,
         .number = &v->small},
        {.name = "level", .value = "quick|full", .kind = OPTION_CHOICE, .choice = &v->choice},
    };
    const usage usage = {
        .name = "fuzz",
        .summary = "",
        .about = "",
        .examples = "",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = names,
        .operand_count = repeats ? 1 : 2,
        .given = repeats ? &v->given : NULL,
    };
    return options_parse(&usage, count, arguments, operands);
}

static void check_again(const values *v, bool repeats, const char **operands)
{
    char texts[3][32];
    char *arguments[MOST_ARGUMENTS + 8] = {"fuzz"};
    const char *again[MOST_ARGUMENTS + 8];
    values same;
    int count = 1;
    snprintf(texts[0], sizeof texts[0], "--any=%" PRIu64, v->any);
    snprintf(texts[1], sizeof texts[1], "--small=0x%" PRIx64, v->small);
    snprintf(texts[2], sizeof texts[2], "--level=%s", v->choice == 0 ? "quick" : "full");
    for (int k = 0; k < 3; k++) {
        arguments[count++] = texts[k];
    }
    if (v->flag) {
        arguments[count++] = "--flag";
    }
    if (v->text != NULL) {
        arguments[count++] = "-t";
        arguments[count++] = (char *)v->text;
    }
    arguments[count++] = "--";
    const size_t given = repeats ? v->given : 2;
    for (size_t k = 0; k < given; k++) {
        arguments[count++] = (char *)operands[k];
    }
    REQUIRE(parse(arguments, count, repeats, &same, again) == OPTIONS_RUN);
    REQUIRE(same.any == v->any && same.small == v->small && same.choice == v->choice &&
            same.flag == v->flag && same.text == v->text && same.given == v->given);
    for (size_t k = 0; k < given; k++) {
        REQUIRE(again[k] == operands[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const uint8_t kind = fuzz_byte(&in);
    char *text = fuzz_text(in.at, in.left);
    char *arguments[MOST_ARGUMENTS + 1] = {"fuzz"};
    const char *operands[MOST_ARGUMENTS + 1];
    int count = 1;
    for (char *at = text; at <= text + in.left && count < MOST_ARGUMENTS; at += strlen(at) + 1) {
        arguments[count++] = at;
    }
    fuzz_complaints = 0;
    if (kind % 4 == 0) {
        check_number(arguments[1], kind & 4 ? UINT64_MAX : kind & 8 ? UINT32_MAX : 1000);
    } else if (kind % 4 == 1) {
        check_glob(arguments[1], count > 2 ? arguments[2] : "");
    } else {
        const bool repeats = kind & 4;
        values v;
        options_result result = parse(arguments, count, repeats, &v, operands);
        REQUIRE(fuzz_complaints == (result == OPTIONS_WRONG ? 1 : 0));
        if (result == OPTIONS_RUN) {
            REQUIRE(v.small >= 3 && v.small <= 1u << 24 && v.choice < 2);
            check_again(&v, repeats, operands);
        }
    }
    free(text);
    return 0;
}
