// The kquant command: finds the subcommand, explains all of them.

#include "platform.h"
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"devices", cmd_devices, "list the devices"},
    {"check", cmd_check, "run the test vectors on devices and compare every bit"},
    {"report", cmd_report, "one page out of reports of check, from any machines"},
    {"bench", cmd_bench, "measure the speed of both operations, verified first"},
    {"quantize", cmd_quantize, "f32 blocks of a file to Q8_K records"},
    {"dot", cmd_dot, "dot products of Q4_K and Q8_K records of two files"},
    {"gen", cmd_gen, "inputs for a kernel that is to be judged"},
    {"verify", cmd_verify, "that kernel's outputs, compared bit by bit"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *file)
{
    fprintf(file, "usage: kquant COMMAND [--option=value ...] [operands]\n\n");
    for (int k = 0; k < COMMANDS; k++) {
        fprintf(file, "  %-10s %s\n", commands[k].name, commands[k].summary);
    }
    fprintf(
        file,
        "\nkquant COMMAND --help, or kquant help COMMAND, explains a command by examples; kquant "
        "--version\nprints the version.\n");
}

static void print_help(void)
{
    print_usage(stdout);
    printf(
        "\n"
        "Results, tables and mismatches go to stdout; complaints and progress to stderr, a bar "
        "only where\n"
        "stderr is a terminal. Nothing depends on the environment but the drivers. A file is "
        "written "
        "whole or\n"
        "not at all, and only an ordinary one; what its links lead to is written, and no input is. "
        "What can't\n"
        "be said on stdout is exit code 99; a reader that goes away, head say, ends the command by "
        "SIGPIPE.\n\n"
        "exit codes:\n"
        "  0   done; check: at least one case of each operation ran, and every case passed;\n"
        "      report: all devices are complete, agree and passed\n"
        "  1   check: a case failed; report: a case failed or differs; bench: a device's results\n"
        "      are wrong; verify: an output is; quantize, dot: the input is refused (a size, a\n"
        "      NaN)\n"
        "  2   the command line is wrong, and nothing was done\n"
        "  77  nothing to run: no device but the reference is here and none was named; check:\n"
        "      no case of one of the operations was selected, by --filter or --vectors\n"
        "  99  it could not be decided or done: a named device is missing or its driver failed,\n"
        "      a file can't be read or written, a vector file is malformed, a report is\n"
        "      incomplete\n"
        "Where several are true the first in the order 1, 99, 77, 0 counts.\n");
}

// Runs a subcommand; argv[0] is its name.
static int run_command(int argc, char **argv)
{
    for (int k = 0; k < COMMANDS; k++) {
        if (strcmp(argv[0], commands[k].name) == 0) {
            return commands[k].run(argc, argv);
        }
    }
    complain("unknown command %s; see kquant --help", argv[0]);
    return EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 && argc > 2) {
        char help[] = "--help";
        char *arguments[] = {argv[2], help, NULL};
        return run_command(2, arguments);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("kquant %d.%d.%d\n", KQ_VERSION_MAJOR, KQ_VERSION_MINOR, KQ_VERSION_PATCH);
        return EXIT_DONE;
    }
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    platform_state state;
    if (!platform_begin(&state, &argc, &argv)) {
        complain("out of memory");
        return EXIT_UNDECIDED;
    }
    int code = run(argc, argv);
    // What could not be said has not been decided. The cause of an error that lies behind is asked
    // for once more.
    bool is_good = fflush(stdout) == 0 && !ferror(stdout);
    if (!is_good && errno == 0) {
        clearerr(stdout);
        errno = 0;
        putchar('\n');
        fflush(stdout);
    }
    if (!is_good) {
        complain("stdout can't be written%s%s", errno != 0 ? ": " : "",
                 errno != 0 ? strerror(errno) : "");
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    platform_finish(&state);
    return code;
}
