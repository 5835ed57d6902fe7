// The few things that C11 does not have, or has for the names of one code page only. Every
// system-dependent line of the command is in platform_posix.c or platform_windows.c. Text is UTF-8
// on Windows; elsewhere it is what the system takes.
#ifndef KQ_TOOL_PLATFORM_H
#define KQ_TOOL_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// First thing in main: stdin, stdout and stderr are there, so that no file that is opened later
// gets to be one of them, and are bytes; a limit on the size of files is an error of writing; the
// arguments are those of the command line. False: out of memory.
typedef struct platform_state {
    unsigned code_page;  // of the console, which platform_finish gives back; 0: it was left alone
} platform_state;
bool platform_begin(platform_state *state, int *argc, char ***argv);
void platform_finish(const platform_state *state);

typedef enum path_kind {
    PATH_ABSENT,
    PATH_FILE,
    PATH_FOLDER,
    PATH_OTHER,  // a device, a pipe, ...
    PATH_UNKNOWN,
} path_kind;

// PATH_UNKNOWN: errno says why.
path_kind platform_path_kind(const char *path);

// A file's bytes to be read; a new file to be written to, where there is none of that name. NULL:
// errno says why.
FILE *platform_open(const char *path);
FILE *platform_create(const char *path);
bool platform_remove(const char *path);

// Whether the system would let this process write to the file that is there. False: errno says why.
bool platform_may_write(const char *path);

// The bytes of an ordinary file; 0 where it is another, or doesn't say.
uint64_t platform_file_bytes(FILE *file);

// What was written to the file is on the disk. False: errno says why.
bool platform_flush_file(FILE *file);

// Puts the file `from` in the place of `to`, which may exist, in one step. False: errno
// says why.
bool platform_replace_file(const char *from, const char *to);

// The path that symbolic links at the end of `path` lead to, which may have nothing there yet; the
// caller frees it. NULL: errno says why.
char *platform_follow_links(const char *path);

// Gives the file `to` the permissions of `from`; on Windows it keeps those of its folder.
bool platform_copy_mode(const char *from, const char *to);

// Whether both paths lead to one file; false where that can't be told.
bool platform_is_same_file(const char *a, const char *b);

// The length of the folder's part of a path, the separator included; 0: it names none.
size_t platform_folder_length(const char *path);

// Whether names are the same in one folder.
bool platform_is_same_name(const char *a, const char *b);

bool platform_stderr_is_terminal(void);

// This program once more, as a process of its own whose stdout is read here. stdin and stderr are
// shared.
typedef struct platform_child platform_child;

// arguments ends with NULL; the first is the subcommand. NULL: errno says why.
platform_child *platform_start(const char *const *arguments);

typedef enum child_line { CHILD_LINE, CHILD_END, CHILD_LATE } child_line;

// The next line it prints, without the newline, valid until the next call. CHILD_END: it prints
// nothing more. CHILD_LATE: platform_seconds() reached `until` before a line was whole.
child_line platform_read_line(platform_child *child, double until, char **line);

// Waits so many seconds for its end, then ends it, and frees it. True: it ended by itself with exit
// code 0; else `how` has what became of it in words, "exit code 3", "signal 11, Segmentation
// fault".
bool platform_end(platform_child *child, double seconds, char *how, size_t bytes);

// In the child: it ends when nobody reads its stdout any more, whatever it is doing.
void platform_end_with_parent(void);

// run(user) in a thread of its own, until it is joined. NULL: errno says why there is none.
typedef struct platform_thread platform_thread;
platform_thread *platform_start_thread(void (*run)(void *user), void *user);
void platform_join_thread(platform_thread *thread);

// The path of each library that this process has loaded, some of them more than once; none where
// the system can't be asked.
void platform_list_libraries(void (*found)(void *user, const char *path), void *user);

// "NAME=VALUE" each, valid during the call.
void platform_list_environment(void (*found)(void *user, const char *variable), void *user);

typedef struct platform_system {
    char os[256], kernel[512], machine[128];  // as the system calls them, "" where it doesn't say
} platform_system;

void platform_describe_system(platform_system *system);

// Seconds from some fixed moment, on a clock that only goes forward.
double platform_seconds(void);

#endif
