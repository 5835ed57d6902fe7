// What every part of the kquant command shares: exit codes, the subcommands, messages, memory.
// The command is a client of <kquant/kquant.h> like any other, and has no global state.
#ifndef KQ_TOOL_H
#define KQ_TOOL_H

#include <kquant/kquant.h>

#include <stdbool.h>
#include <stdio.h>

#if defined(__MINGW32__)  // whose stdio is C11's, unlike the system's own
# define TOOL_PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
# define TOOL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
# define TOOL_PRINTF(text, first)
#endif

// `kquant --help` explains them.
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOTHING = 77,
    EXIT_UNDECIDED = 99,
};

// Of two exit codes the one that says more against the run: 1, 2, 99, 77, 0.
int worst_exit(int a, int b);

// The subcommands; argv[0] is the subcommand's own name. Each returns an exit code.
int cmd_devices(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_dot(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_gen(int argc, char **argv);
int cmd_verify(int argc, char **argv);

// A text that comes from a file, a name or a driver, so that it can't steer a terminal: \x1b,
// \u202e and so on for what is no printed character, and for bytes that are no UTF-8.
void print_text(FILE *file, const char *text);

// One line "kquant: ..." on stderr, as print_text prints it.
void complain(const char *format, ...) TOOL_PRINTF(1, 2);

// Memory or the end of the program with EXIT_UNDECIDED: never NULL. Zeroed; 0 bytes are allowed,
// and a count that this host has no addresses for.
void *allocate(uint64_t count, size_t size);
void *reallocate(void *memory, uint64_t count, size_t size);
char *copy_text(const char *text);

// The same with ~ for the home folder wherever a path begins with it: a report is sent to others.
char *copy_without_home(const char *text);

// All devices, the reference first; the caller frees them. NULL: the reason was complained about.
kq_device_info *list_devices(uint32_t *count);

// "reference", "vulkan" or "opencl".
const char *api_name(kq_api api);

// "reference", "discrete", "integrated" or "cpu".
const char *device_kind(const kq_device_info *info);

// Whole decimal numbers, or hexadecimal ones after 0x. False if text is anything else or above max.
bool parse_number(const char *text, uint64_t max, uint64_t *number);

// Does text match pattern, where * is any run of characters and ? any one?
bool matches(const char *pattern, const char *text);

#endif
