// The command line of a subcommand: --name=value in any order, then or between them the operands.
#ifndef KQ_TOOL_OPTIONS_H
#define KQ_TOOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_CHOICE } option_kind;

// One option and where its value goes. What the target holds before is the default.
typedef struct option {
    const char *name;   // without the dashes
    char letter;        // "-o VALUE" is the same; 0: there is no such way
    const char *value;  // what stands for the value in help; the choices, "a|b"; NULL for a flag
    const char *help;   // NULL: none, for it is no user's
    option_kind kind;
    bool *flag;
    const char **text;
    uint64_t *number;
    uint64_t min, max;  // of a number
    unsigned *choice;   // the index of the choice
} option;

// What a subcommand takes. `kquant NAME --help` prints all of it.
typedef struct usage {
    const char *name;
    const char *summary;   // "kquant NAME SUMMARY"
    const char *about;     // paragraphs
    const char *examples;  // indented lines
    const option *options;
    size_t option_count;
    const char *const *operands;  // names of the operands, all of them required
    size_t operand_count;
    size_t *given;  // the last operand may be repeated, and this is how many there are; or NULL
} usage;

typedef enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG } options_result;

// Fills the targets and operands[0 .. operand_count), or [0 .. *given), which are fewer than argc.
// OPTIONS_HELP: help was asked for and printed. OPTIONS_WRONG: the command line is wrong, and one
// line has named the option and the rule.
options_result options_parse(const usage *usage, int argc, char **argv, const char **operands);

#endif
