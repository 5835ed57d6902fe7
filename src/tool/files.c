#include "files.h"
#include "platform.h"
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool read_file(const char *path, size_t max, uint8_t **bytes, size_t *count)
{
    if (platform_path_kind(path) == PATH_FOLDER) {
        complain("%s: is a folder, not a file", path);
        return false;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        complain("%s: can't be read: %s", path, strerror(errno));
        return false;
    }
    uint64_t capacity = 0;  // twice what there is may be more than a size_t holds
    size_t size = 0, got = 0;
    uint8_t *data = NULL;
    do {
        size += got;
        if (size == capacity) {
            capacity = capacity == 0 ? 1 << 16 : 2 * capacity;
            data = reallocate(data, capacity, 1);
        }
        got = fread(data + size, 1, (size_t)(capacity - size), file);
    } while (got > 0 && size <= max);
    bool is_good = !ferror(file) && size <= max;
    if (!is_good) {
        complain("%s: can't be read: %s", path,
                 size > max ? "it is larger than such a file may be" : strerror(errno));
        free(data);
        data = NULL;
    }
    fclose(file);
    *bytes = data;
    *count = size;
    return is_good;
}

bool read_records(const char *path, uint32_t unit, const char *what, uint8_t **bytes, uint32_t *G,
                  int *code)
{
    size_t count = 0;
    *code = EXIT_UNDECIDED;
    if (!read_file(path, SIZE_MAX, bytes, &count)) {
        return false;
    }
    *code = EXIT_FAILED;
    if (count % unit != 0) {
        complain("%s: %zu bytes are no whole number of %s, which have %" PRIu32
                 " bytes each: %zu are left over",
                 path, count, what, unit, count % unit);
        return false;
    }
    if (count / unit > UINT32_MAX) {
        complain("%s: %zu %s are more than 2^32 - 1", path, count / unit, what);
        return false;
    }
    *G = (uint32_t)(count / unit);
    return true;
}

// A new file beside path, open for writing; its name, in *name, is the caller's to free.
static FILE *create_beside(const char *path, char **name)
{
    size_t bytes = strlen(path) + 16;
    *name = allocate(bytes, 1);
    snprintf(*name, bytes, "%s.partial", path);
    FILE *file = fopen(*name, "wbx");
    for (int i = 1; file == NULL && errno == EEXIST && i < 100; i++) {
        snprintf(*name, bytes, "%s.partial%d", path, i);
        file = fopen(*name, "wbx");
    }
    return file;
}

// The file that write_file writes for path, and what it then renames it to, both the caller's to
// free. NULL: complained about, with nothing to free.
static FILE *open_for(const char *path, char **name, char **target)
{
    path_kind kind = platform_path_kind(path);
    if (kind != PATH_ABSENT && kind != PATH_FILE) {
        complain("%s: can't be written: there is something there that is no ordinary file", path);
        return NULL;
    }
    *name = NULL;
    *target = platform_follow_links(path);
    FILE *file = *target != NULL ? create_beside(*target, name) : NULL;
    if (file == NULL) {
        complain("%s: can't be written: %s", path, strerror(errno));
        free(*name);
        free(*target);
    }
    return file;
}

bool is_writable(const char *path)
{
    char *name, *target;
    FILE *file = open_for(path, &name, &target);
    if (file == NULL) {
        return false;
    }
    fclose(file);
    remove(name);
    free(name);
    free(target);
    return true;
}

bool write_file(const char *path, const uint8_t *bytes, size_t count)
{
    path_kind kind = platform_path_kind(path);
    char *name, *target;
    FILE *file = open_for(path, &name, &target);
    if (file == NULL) {
        return false;
    }
    bool is_good = count == 0 || fwrite(bytes, 1, count, file) == count;
    is_good = fclose(file) == 0 && is_good;
    is_good = is_good && (kind == PATH_ABSENT || platform_copy_mode(target, name));
    is_good = is_good && platform_replace_file(name, target);
    if (!is_good) {
        complain("%s: can't be written: %s", path, strerror(errno));
        remove(name);
    }
    free(name);
    free(target);
    return is_good;
}

// Where a file is or will be: the length of its folder's part of the path.
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static char *folder_of(const char *path)
{
    size_t length = folder_length(path);
    char *folder = allocate(length + 2, 1);
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2);
    return folder;
}

bool is_same_file(const char *a, const char *b)
{
    if (strcmp(a, b) == 0 || platform_is_same_file(a, b)) {
        return true;
    }
    char *folders[2] = {folder_of(a), folder_of(b)};
    bool are = strcmp(a + folder_length(a), b + folder_length(b)) == 0 &&
               platform_is_same_file(folders[0], folders[1]);
    free(folders[0]);
    free(folders[1]);
    return are;
}
