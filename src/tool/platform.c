#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
# define _POSIX_C_SOURCE 200809L
#endif

#include "platform.h"

#include <errno.h>
#include <stdio.h>

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
