#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
# define _POSIX_C_SOURCE 200809L
#endif

#include "platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
# include <windows.h>
# include <io.h>

path_kind platform_path_kind(const char *path)
{
    DWORD attributes = GetFileAttributesA(path);
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        DWORD error = GetLastError();
        return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND ? PATH_ABSENT
                                                                              : PATH_UNKNOWN;
    }
    if (attributes & FILE_ATTRIBUTE_DIRECTORY) {
        return PATH_FOLDER;
    }
    return attributes & FILE_ATTRIBUTE_DEVICE ? PATH_OTHER : PATH_FILE;
}

bool platform_replace_file(const char *from, const char *to)
{
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) != 0;
}

char *platform_follow_links(const char *path)
{
    return _strdup(path);
}

bool platform_copy_mode(const char *from, const char *to)
{
    (void)from;
    (void)to;
    return true;
}

bool platform_is_same_file(const char *a, const char *b)
{
    (void)a;
    (void)b;
    return false;
}

bool platform_stderr_is_terminal(void)
{
    return _isatty(_fileno(stderr)) != 0;
}

double platform_seconds(void)
{
    LARGE_INTEGER now, frequency;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (double)now.QuadPart / (double)frequency.QuadPart;
}

#else
# include <sys/stat.h>
# include <time.h>
# include <unistd.h>

path_kind platform_path_kind(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? PATH_ABSENT : PATH_UNKNOWN;
    }
    if (S_ISDIR(info.st_mode)) {
        return PATH_FOLDER;
    }
    return S_ISREG(info.st_mode) ? PATH_FILE : PATH_OTHER;
}

bool platform_replace_file(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

char *platform_follow_links(const char *path)
{
    enum { MAX_LINKS = 40, MAX_BYTES = 4096 };
    char *at = strdup(path);
    for (int k = 0; at != NULL && k < MAX_LINKS; k++) {
        char link[MAX_BYTES];
        ssize_t bytes = readlink(at, link, sizeof link);
        if (bytes < 0 && (errno == EINVAL || errno == ENOENT)) {
            return at;  // no link, or nothing at all
        }
        if (bytes < 0 || (size_t)bytes == sizeof link) {
            errno = bytes < 0 ? errno : ENAMETOOLONG;
            break;
        }
        // A relative link starts from the folder that it lies in.
        const char *slash = link[0] != '/' ? strrchr(at, '/') : NULL;
        size_t folder = slash != NULL ? (size_t)(slash - at) + 1 : 0;
        char *next = malloc(folder + (size_t)bytes + 1);
        if (next != NULL) {
            memcpy(next, at, folder);
            memcpy(next + folder, link, (size_t)bytes);
            next[folder + (size_t)bytes] = '\0';
        }
        free(at);
        at = next;
        errno = next != NULL ? ELOOP : ENOMEM;
    }
    free(at);
    return NULL;
}

bool platform_copy_mode(const char *from, const char *to)
{
    struct stat info;
    return stat(from, &info) == 0 && chmod(to, info.st_mode & 07777) == 0;
}

bool platform_is_same_file(const char *a, const char *b)
{
    struct stat infos[2];
    return stat(a, &infos[0]) == 0 && stat(b, &infos[1]) == 0 &&
           infos[0].st_dev == infos[1].st_dev && infos[0].st_ino == infos[1].st_ino;
}

bool platform_stderr_is_terminal(void)
{
    return isatty(fileno(stderr)) != 0;
}

double platform_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
