#include "files.h"
#include "interrupt.h"
#include "platform.h"
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is no ordinary file doesn't say how much it has, which may be without end.
enum { MAX_STREAM_BYTES = 1 << 30 };

static FILE *open_input(const char *path)
{
    if (platform_path_kind(path) == PATH_FOLDER) {
        complain("%s: is a folder, not a file", path);
        return NULL;
    }
    FILE *file = platform_open(path);
    if (file == NULL) {
        complain("%s: can't be read: %s", path, strerror(errno));
    }
    return file;
}

// All bytes of the file, `max` at most. NULL, or what is wrong; *bytes is the caller's to free all
// the same. A size that is known is taken at its word, and is memory from the start.
static const char *read_all(FILE *file, size_t max, uint8_t **bytes, size_t *count)
{
    uint64_t size = platform_file_bytes(file);
    size_t capacity = size == 0 ? 1 << 16 : (size_t)size + 1, got = 0;
    if (size == 0 && max > MAX_STREAM_BYTES) {
        max = MAX_STREAM_BYTES;
    }
    if (size > max && max < SIZE_MAX) {
        return "it is larger than such a file may be";
    }
    if (size >= SIZE_MAX) {
        return "there is not memory enough for it";
    }
    do {
        *count += got;
        if (*bytes == NULL || *count == capacity) {
            capacity = *bytes == NULL ? capacity : 2 * capacity;
            uint8_t *moved = realloc(*bytes, capacity);
            if (moved == NULL) {
                return "there is not memory enough for it";
            }
            *bytes = moved;
        }
        got = fread(*bytes + *count, 1, capacity - *count, file);
    } while (got > 0 && *count + got <= (size == 0 ? max : size));
    if (ferror(file)) {
        return strerror(errno);
    }
    *count += got;
    return *count > max                 ? "it is larger than such a file may be"
           : size > 0 && *count != size ? "its size changed while it was read"
                                        : NULL;
}

static bool read_and_close(FILE *file, const char *path, size_t max, uint8_t **bytes, size_t *count)
{
    *bytes = NULL;
    *count = 0;
    const char *fault = read_all(file, max, bytes, count);
    if (fault != NULL) {
        complain("%s: can't be read: %s", path, fault);
        free(*bytes);
        *bytes = NULL;
    }
    fclose(file);
    return fault == NULL;
}

bool read_file(const char *path, size_t max, uint8_t **bytes, size_t *count)
{
    FILE *file = open_input(path);
    return file != NULL && read_and_close(file, path, max, bytes, count);
}

static bool is_whole(const char *path, uint64_t count, uint32_t unit, const char *what)
{
    if (count % unit != 0) {
        complain("%s: %" PRIu64 " bytes are no whole number of %s, which have %" PRIu32
                 " bytes each: %" PRIu64 " are left over",
                 path, count, what, unit, count % unit);
    } else if (count / unit > UINT32_MAX) {
        complain("%s: %" PRIu64 " %s are more than 2^32 - 1", path, count / unit, what);
    }
    return count % unit == 0 && count / unit <= UINT32_MAX;
}

bool read_records(const char *path, uint32_t unit, const char *what, uint8_t **bytes, uint32_t *G,
                  int *code)
{
    size_t count = 0;
    *code = EXIT_UNDECIDED;
    FILE *file = open_input(path);
    if (file == NULL) {
        return false;
    }
    // Before as much is read.
    if (!is_whole(path, platform_file_bytes(file), unit, what)) {
        fclose(file);
        *code = EXIT_FAILED;
        return false;
    }
    if (!read_and_close(file, path, SIZE_MAX, bytes, &count)) {
        return false;
    }
    *code = EXIT_FAILED;
    if (!is_whole(path, count, unit, what)) {
        return false;
    }
    *G = (uint32_t)(count / unit);
    return true;
}

// A new file beside path, open for writing; its name, in *name, is the caller's to free. Nothing
// that is there already is opened, whatever it is.
static FILE *create_beside(const char *path, char **name)
{
    size_t bytes = strlen(path) + 16;
    *name = allocate(bytes, 1);
    snprintf(*name, bytes, "%s.partial", path);
    FILE *file = platform_create(*name);
    for (int i = 1; file == NULL && errno == EEXIST && i < 100; i++) {
        snprintf(*name, bytes, "%s.partial%d", path, i);
        file = platform_create(*name);
    }
    return file;
}

// Why nothing can be written to path, or NULL. `target` is where its links lead to.
static const char *output_fault(const char *path, const char *target)
{
    switch (platform_path_kind(path)) {
    case PATH_ABSENT: return NULL;
    case PATH_FILE: break;
    case PATH_FOLDER: return "it is a folder";
    case PATH_OTHER: return "there is something there that is no ordinary file";
    case PATH_UNKNOWN: return strerror(errno);
    }
    if (!platform_may_write(path)) {
        return strerror(errno);
    }
    // /dev/stdout, of a file that has no name any more.
    bool is_found = strcmp(path, target) == 0 || platform_is_same_file(path, target);
    return is_found ? NULL : "what its links lead to can't be found";
}

// The file that write_file writes for path, and what it then renames it to, both the caller's to
// free. NULL: complained about, with nothing to free.
static FILE *open_for(const char *path, char **name, char **target)
{
    FILE *file = NULL;
    *name = NULL;
    *target = platform_follow_links(path);
    const char *fault = *target == NULL ? strerror(errno) : output_fault(path, *target);
    if (fault == NULL) {
        file = create_beside(*target, name);
    }
    if (file == NULL && fault == NULL && errno == EEXIST) {
        complain("%s: can't be written: %s.partial and 99 like it are there already", path,
                 *target);
    } else if (file == NULL) {
        complain("%s: can't be written: %s", path, fault != NULL ? fault : strerror(errno));
    }
    if (file == NULL) {
        free(*name);
        free(*target);
    }
    return file;
}

bool is_writable(const char *path)
{
    char *name, *target;
    interrupt_hold();
    FILE *file = open_for(path, &name, &target);
    bool is = file != NULL;
    if (is) {
        fclose(file);
        platform_remove(name);
        free(name);
        free(target);
    }
    interrupt_release();
    return is;
}

static bool replace_file(const char *path, const uint8_t *bytes, size_t count)
{
    path_kind kind = platform_path_kind(path);
    char *name, *target;
    FILE *file = open_for(path, &name, &target);
    if (file == NULL) {
        return false;
    }
    // The mode first, for others may not be meant to read it. And a name that is on the disk before
    // the bytes are would be an empty file where a driver takes the machine with it.
    bool is_good = kind == PATH_ABSENT || platform_copy_mode(target, name);
    is_good = is_good && (count == 0 || fwrite(bytes, 1, count, file) == count);
    is_good = is_good && platform_flush_file(file);
    int why = errno;
    if (fclose(file) != 0 && is_good) {
        is_good = false;
        why = errno;
    }
    if (is_good && !platform_replace_file(name, target)) {
        is_good = false;
        why = errno;
    }
    if (!is_good) {
        // First, for nobody may read complaints any more, which ends the process.
        platform_remove(name);
        complain("%s: can't be written: %s", path, strerror(why));
    }
    free(name);
    free(target);
    return is_good;
}

bool write_file(const char *path, const uint8_t *bytes, size_t count)
{
    interrupt_hold();
    bool is_good = replace_file(path, bytes, count);
    interrupt_release();
    return is_good;
}

// Where a file is or will be.
static char *folder_of(const char *path)
{
    size_t length = platform_folder_length(path);
    char *folder = allocate(length + 2, 1);
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2);
    return folder;
}

static bool is_same_place(const char *a, const char *b)
{
    char *folders[2] = {folder_of(a), folder_of(b)};
    bool are =
        platform_is_same_name(a + platform_folder_length(a), b + platform_folder_length(b)) &&
        platform_is_same_file(folders[0], folders[1]);
    free(folders[0]);
    free(folders[1]);
    return are;
}

bool is_same_file(const char *a, const char *b)
{
    if (strcmp(a, b) == 0 || platform_is_same_file(a, b)) {
        return true;
    }
    char *targets[2] = {platform_follow_links(a), platform_follow_links(b)};
    bool are =
        is_same_place(targets[0] != NULL ? targets[0] : a, targets[1] != NULL ? targets[1] : b);
    free(targets[0]);
    free(targets[1]);
    return are;
}
