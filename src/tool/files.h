// Whole files in, whole files out.
#ifndef KQ_TOOL_FILES_H
#define KQ_TOOL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All bytes of a file of at most `max`, of what is no ordinary file 1 GiB; the caller frees *bytes.
// False: the reason was complained about.
bool read_file(const char *path, size_t max, uint8_t **bytes, size_t *count);

// The bytes of a file of whole units of `unit` bytes, named by `what` in messages ("Q4_K records"),
// and their number. False: complained about, and *code is the exit code.
bool read_records(const char *path, uint32_t unit, const char *what, uint8_t **bytes, uint32_t *G,
                  int *code);

// Either path holds exactly these bytes afterwards, or what it held before, also where the machine
// stops meanwhile. They go to a new file beside it, path.partial or path.partial1 and so on, which
// takes on its mode and then its name. If path is a symbolic link, all that is done to what it
// leads to. Written is only what is absent, or an ordinary file that this process may write to. A
// signal that asks for an end waits until it is done, a second one doesn't. False: the reason was
// complained about, and the new file is gone.
bool write_file(const char *path, const uint8_t *bytes, size_t count);

// Whether write_file can do that at the time; asked before long work. False: complained about.
bool is_writable(const char *path);

// Whether both paths lead to one file, links of any kind followed, or will when it is there: an
// output must be no input.
bool is_same_file(const char *a, const char *b);

#endif
