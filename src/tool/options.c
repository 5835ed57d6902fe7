#include "options.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The widest "--name=VALUE" that keeps its help on the same line.
enum { HELP_COLUMN = 26 };

static void print_help(const usage *usage)
{
    printf("usage: kquant %s %s\n\n%s", usage->name, usage->summary, usage->about);
    printf("\noptions:\n");
    for (size_t i = 0; i < usage->option_count; i++) {
        const option *option = &usage->options[i];
        if (option->help == NULL) {
            continue;
        }
        int column = option->value == NULL ? printf("  --%s", option->name)
                                           : printf("  --%s=%s", option->name, option->value);
        if (column > HELP_COLUMN) {
            column = printf("\n") - 1;
        }
        // Help of several lines is indented as one column.
        for (const char *line = option->help; *line != '\0';) {
            size_t length = strcspn(line, "\n");
            printf("%*s%.*s\n", HELP_COLUMN + 2 - column, "", (int)length, line);
            line += length + (line[length] == '\n');
            column = 0;
        }
    }
    printf("  --%-*sprint this\n", HELP_COLUMN - 2, "help");
    printf("\nexamples:\n%s", usage->examples);
}

// The index of text among choices, "a|b|c", or -1.
static int find_choice(const char *choices, const char *text)
{
    int index = 0;
    for (const char *choice = choices;; index++) {
        size_t length = strcspn(choice, "|");
        if (strlen(text) == length && memcmp(choice, text, length) == 0) {
            return index;
        }
        if (choice[length] == '\0') {
            return -1;
        }
        choice += length + 1;
    }
}

static bool set_option(const usage *usage, const option *option, const char *value)
{
    if (option->kind == OPTION_FLAG) {
        if (value != NULL) {
            complain("%s: --%s takes no value", usage->name, option->name);
            return false;
        }
        *option->flag = true;
        return true;
    }
    if (value == NULL || value[0] == '\0') {
        complain("%s: --%s needs a value: --%s=%s", usage->name, option->name, option->name,
                 option->value);
        return false;
    }
    switch (option->kind) {
    case OPTION_FLAG: break;
    case OPTION_TEXT: *option->text = value; break;
    case OPTION_NUMBER: {
        uint64_t number;
        if (!parse_number(value, option->max, &number) || number < option->min) {
            complain("%s: --%s=%s: must be a whole number from %" PRIu64 " to %" PRIu64,
                     usage->name, option->name, value, option->min, option->max);
            return false;
        }
        *option->number = number;
        break;
    }
    case OPTION_CHOICE: {
        int choice = find_choice(option->value, value);
        if (choice < 0) {
            complain("%s: --%s=%s: must be one of %s", usage->name, option->name, value,
                     option->value);
            return false;
        }
        *option->choice = (unsigned)choice;
        break;
    }
    }
    return true;
}

static bool set_once(const usage *usage, size_t i, const char *value, uint64_t *seen)
{
    if (*seen >> i & 1) {
        complain("%s: --%s is given twice", usage->name, usage->options[i].name);
        return false;
    }
    *seen |= (uint64_t)1 << i;
    return set_option(usage, &usage->options[i], value);
}

// The index of the option "-o", or option_count.
static size_t find_letter(const usage *usage, const char *argument)
{
    size_t i = 0;
    while (i < usage->option_count &&
           (usage->options[i].letter == 0 || argument[0] != '-' ||
            argument[1] != usage->options[i].letter || argument[2] != '\0')) {
        i++;
    }
    return i;
}

static bool parse_option(const usage *usage, const char *argument, uint64_t *seen)
{
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    for (size_t i = 0; i < usage->option_count; i++) {
        const option *option = &usage->options[i];
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) {
            const char *value = name[length] == '=' ? name + length + 1 : NULL;
            return set_once(usage, i, value, seen);
        }
    }
    complain("%s: unknown option %s; see kquant %s --help", usage->name, argument, usage->name);
    return false;
}

options_result options_parse(const usage *usage, int argc, char **argv, const char **operands)
{
    size_t operand_count = 0;
    uint64_t seen = 0;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        size_t letter = only_operands ? usage->option_count : find_letter(usage, argument);
        if (!only_operands && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)) {
            print_help(usage);
            return OPTIONS_HELP;
        }
        if (!only_operands && strcmp(argument, "--") == 0) {
            only_operands = true;
        } else if (letter < usage->option_count) {
            if (!set_once(usage, letter, i + 1 < argc ? argv[++i] : NULL, &seen)) {
                return OPTIONS_WRONG;
            }
        } else if (!only_operands && strncmp(argument, "--", 2) == 0) {
            if (!parse_option(usage, argument, &seen)) {
                return OPTIONS_WRONG;
            }
        } else if (!only_operands && strcmp(argument, "-") == 0 && usage->operand_count > 0) {
            complain("%s: - is no file; to read standard input name /dev/stdin, and for a file "
                     "called - write ./-",
                     usage->name);
            return OPTIONS_WRONG;
        } else if (!only_operands && argument[0] == '-') {
            complain("%s: unknown option %s; options are written --name=value", usage->name,
                     argument);
            return OPTIONS_WRONG;
        } else if (usage->given == NULL && operand_count == usage->operand_count) {
            complain("%s: unexpected operand %s; see kquant %s --help", usage->name, argument,
                     usage->name);
            return OPTIONS_WRONG;
        } else {
            operands[operand_count++] = argument;
        }
    }
    if (operand_count < usage->operand_count) {
        complain("%s: %s is missing; see kquant %s --help", usage->name,
                 usage->operands[operand_count], usage->name);
        return OPTIONS_WRONG;
    }
    if (usage->given != NULL) {
        *usage->given = operand_count;
    }
    return OPTIONS_RUN;
}
