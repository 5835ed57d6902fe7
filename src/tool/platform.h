// The few things that C11 does not have. Every system-dependent line of the command is in
// platform.c.
#ifndef KQ_TOOL_PLATFORM_H
#define KQ_TOOL_PLATFORM_H

#include <stdbool.h>

typedef enum path_kind {
    PATH_ABSENT,
    PATH_FILE,
    PATH_FOLDER,
    PATH_OTHER,  // a device, a pipe, ...
    PATH_UNKNOWN,
} path_kind;

path_kind platform_path_kind(const char *path);

// Puts the file `from` in the place of `to`, which may exist, in one step.
bool platform_replace_file(const char *from, const char *to);

// The path that symbolic links at the end of `path` lead to, which may have nothing there yet; the
// caller frees it. NULL: errno says why.
char *platform_follow_links(const char *path);

// Gives the file `to` the permissions of `from`.
bool platform_copy_mode(const char *from, const char *to);

// Whether both paths lead to one file; false where that can't be told.
bool platform_is_same_file(const char *a, const char *b);

bool platform_stderr_is_terminal(void);

// Seconds from some fixed moment, on a clock that only goes forward.
double platform_seconds(void);

#endif
