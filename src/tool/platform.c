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
        errno = EACCES;
        return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND ? PATH_ABSENT
                                                                              : PATH_UNKNOWN;
    }
    if (attributes & FILE_ATTRIBUTE_DIRECTORY) {
        return PATH_FOLDER;
    }
    return attributes & FILE_ATTRIBUTE_DEVICE ? PATH_OTHER : PATH_FILE;
}

void platform_begin(void)
{
    // The C runtime doesn't give the numbers of absent streams to other files.
}

bool platform_may_write(const char *path)
{
    return _access(path, 2) == 0;
}

uint64_t platform_file_bytes(FILE *file)
{
    int64_t bytes = GetFileType((HANDLE)_get_osfhandle(_fileno(file))) == FILE_TYPE_DISK
                        ? _filelengthi64(_fileno(file))
                        : 0;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

bool platform_flush_file(FILE *file)
{
    return fflush(file) == 0 && _commit(_fileno(file)) == 0;
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

void platform_list_libraries(void (*found)(void *user, const char *path), void *user)
{
    (void)found;
    (void)user;
}

const char *const *platform_environment(void)
{
    return (const char *const *)_environ;
}

void platform_describe_system(platform_system *system)
{
    DWORD version = GetVersion();
    memset(system, 0, sizeof *system);
    snprintf(system->os, sizeof system->os, "Windows");
    snprintf(system->kernel, sizeof system->kernel, "%u.%u.%u", (unsigned)(version & 0xFF),
             (unsigned)(version >> 8 & 0xFF), (unsigned)(version >> 16));
}

// The child is in a job that ends with its only handle, which is the parent's.
void platform_end_with_parent(void)
{
}

struct platform_thread {
    HANDLE handle;
    void (*run)(void *user);
    void *user;
};

static DWORD WINAPI run_thread(void *thread)
{
    ((platform_thread *)thread)->run(((platform_thread *)thread)->user);
    return 0;
}

platform_thread *platform_start_thread(void (*run)(void *user), void *user)
{
    platform_thread *thread = malloc(sizeof *thread);
    if (thread == NULL) {
        return NULL;
    }
    *thread = (platform_thread){.run = run, .user = user};
    thread->handle = CreateThread(NULL, 0, run_thread, thread, 0, NULL);
    if (thread->handle == NULL) {
        free(thread);
        errno = EAGAIN;
        return NULL;
    }
    return thread;
}

void platform_join_thread(platform_thread *thread)
{
    WaitForSingleObject(thread->handle, INFINITE);
    CloseHandle(thread->handle);
    free(thread);
}

static HANDLE make_job(HANDLE process)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    HANDLE job = CreateJobObjectA(NULL, NULL);
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    AssignProcessToJobObject(job, process);
    return job;
}

struct platform_child {
    HANDLE process, pipe, job;
    char *text;  // read, but not yet given out as lines
    size_t count, capacity, taken;
};

static bool is_readable(platform_child *child, double until)
{
    DWORD available = 0;
    while (PeekNamedPipe(child->pipe, NULL, 0, NULL, &available, NULL) && available == 0) {
        if (platform_seconds() >= until) {
            return false;
        }
        Sleep(2);
    }
    return true;  // or at its end, as reading will show
}

static size_t read_some(platform_child *child, char *to, size_t bytes)
{
    DWORD got = 0;
    return ReadFile(child->pipe, to, (DWORD)bytes, &got, NULL) ? got : 0;
}

platform_child *platform_start(const char *const *arguments)
{
    // CommandLineToArgvW splits at spaces that are not quoted; no argument here holds a quote.
    char line[8192];
    char self[MAX_PATH];
    HANDLE ends[2];
    SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
    STARTUPINFOA start = {sizeof start};
    PROCESS_INFORMATION made;
    size_t length = 0;
    GetModuleFileNameA(NULL, self, sizeof self);
    length += (size_t)snprintf(line, sizeof line, "\"%s\"", self);
    for (; *arguments != NULL && length < sizeof line; arguments++) {
        length += (size_t)snprintf(line + length, sizeof line - length, " \"%s\"", *arguments);
    }
    platform_child *child = calloc(1, sizeof *child);
    if (child == NULL || length >= sizeof line || !CreatePipe(&ends[0], &ends[1], &inherit, 0)) {
        free(child);
        errno = ENOMEM;
        return NULL;
    }
    SetHandleInformation(ends[0], HANDLE_FLAG_INHERIT, 0);
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    start.hStdOutput = ends[1];
    start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    BOOL is_made = CreateProcessA(self, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &made);
    CloseHandle(ends[1]);
    if (!is_made) {
        CloseHandle(ends[0]);
        free(child);
        errno = ENOENT;
        return NULL;
    }
    CloseHandle(made.hThread);
    child->process = made.hProcess;
    child->pipe = ends[0];
    child->job = make_job(made.hProcess);
    return child;
}

bool platform_end(platform_child *child, double seconds, char *how, size_t bytes)
{
    DWORD code = 0;
    CloseHandle(child->pipe);
    if (WaitForSingleObject(child->process, (DWORD)(seconds * 1000)) != WAIT_OBJECT_0) {
        TerminateProcess(child->process, 99);
        WaitForSingleObject(child->process, INFINITE);
    }
    GetExitCodeProcess(child->process, &code);
    CloseHandle(child->process);
    CloseHandle(child->job);
    free(child->text);
    free(child);
    snprintf(how, bytes, "exit code %lu", (unsigned long)code);
    return code == 0;
}

#else
# include <fcntl.h>
# include <poll.h>
# include <pthread.h>
# include <signal.h>
# include <spawn.h>
# include <sys/stat.h>
# include <sys/utsname.h>
# include <sys/wait.h>
# include <time.h>
# include <unistd.h>
# ifdef __APPLE__
#  include <mach-o/dyld.h>
# endif

extern char **environ;

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

void platform_begin(void)
{
    // Opened for what it isn't used for, each of them gives an error and not another file's bytes.
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        if (fcntl(file, F_GETFD) == -1 &&
            open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY) != file) {
            _exit(99);
        }
    }
# ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN);
# endif
}

bool platform_may_write(const char *path)
{
    return access(path, W_OK) == 0;
}

uint64_t platform_file_bytes(FILE *file)
{
    struct stat info;
    bool is_known = fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    return is_known ? (uint64_t)info.st_size : 0;
}

bool platform_flush_file(FILE *file)
{
    // Not every file system has it.
    return fflush(file) == 0 &&
           (fsync(fileno(file)) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS);
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
    return stat(from, &info) == 0 && chmod(to, info.st_mode & 0777) == 0;
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

void platform_list_libraries(void (*found)(void *user, const char *path), void *user)
{
# ifdef __APPLE__
    for (uint32_t k = 0; k < _dyld_image_count(); k++) {
        found(user, _dyld_get_image_name(k));
    }
# else
    char line[8192];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *path = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        if (path != NULL && strstr(path, ".so") != NULL) {
            found(user, path);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
# endif
}

const char *const *platform_environment(void)
{
    return (const char *const *)environ;
}

void platform_describe_system(platform_system *system)
{
    struct utsname names;
    char line[256];
    memset(system, 0, sizeof *system);
    if (uname(&names) == 0) {
        snprintf(system->os, sizeof system->os, "%.255s", names.sysname);
        snprintf(system->kernel, sizeof system->kernel, "%.120s %.120s %.255s", names.sysname,
                 names.release, names.version);
        snprintf(system->machine, sizeof system->machine, "%.127s", names.machine);
    }
    FILE *release = fopen("/etc/os-release", "r");
    while (release != NULL && fgets(line, sizeof line, release) != NULL) {
        sscanf(line, "PRETTY_NAME=\"%255[^\"\n]", system->os);
    }
    if (release != NULL) {
        fclose(release);
    }
}

struct platform_thread {
    pthread_t id;
    void (*run)(void *user);
    void *user;
};

static void *run_thread(void *thread)
{
    ((platform_thread *)thread)->run(((platform_thread *)thread)->user);
    return NULL;
}

platform_thread *platform_start_thread(void (*run)(void *user), void *user)
{
    platform_thread *thread = malloc(sizeof *thread);
    if (thread == NULL) {
        return NULL;
    }
    *thread = (platform_thread){.run = run, .user = user};
    errno = pthread_create(&thread->id, NULL, run_thread, thread);
    if (errno != 0) {
        free(thread);
        return NULL;
    }
    return thread;
}

void platform_join_thread(platform_thread *thread)
{
    pthread_join(thread->id, NULL);
    free(thread);
}

static void *wait_for_parent(void *unused)
{
    // Not to be read, so the one thing that happens to it is that nobody reads its other end.
    struct pollfd wait = {.fd = STDOUT_FILENO};
    (void)unused;
    while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(99);
}

void platform_end_with_parent(void)
{
    pthread_t thread;
    sigset_t all, before;
    // Signals are for the threads that were here before.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, wait_for_parent, NULL) == 0) {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct platform_child {
    pid_t process;
    int pipe;
    char *text;  // read, but not yet given out as lines
    size_t count, capacity, taken;
};

static bool is_readable(platform_child *child, double until)
{
    for (;;) {
        double left = until - platform_seconds();
        struct pollfd wait = {.fd = child->pipe, .events = POLLIN};
        int found = poll(&wait, 1, left <= 0 ? 0 : left < 60 ? (int)(left * 1000) + 1 : 60000);
        if (found > 0 || (found < 0 && errno != EINTR)) {
            return true;  // or at its end, as reading will show
        }
        if (found == 0 && left <= 0) {
            return false;
        }
    }
}

static size_t read_some(platform_child *child, char *to, size_t bytes)
{
    ssize_t got;
    do {
        got = read(child->pipe, to, bytes);
    } while (got < 0 && errno == EINTR);
    return got > 0 ? (size_t)got : 0;
}

// The path of this program's file.
static bool find_self(char *path, size_t bytes)
{
# ifdef __APPLE__
    uint32_t capacity = (uint32_t)bytes;
    return _NSGetExecutablePath(path, &capacity) == 0;
# else
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
# endif
}

platform_child *platform_start(const char *const *arguments)
{
    enum { MAX_ARGUMENTS = 32 };
    char self[4096];
    char *argv[MAX_ARGUMENTS + 2] = {self};
    int ends[2];
    posix_spawn_file_actions_t actions;
    platform_child *child = calloc(1, sizeof *child);
    if (child == NULL || !find_self(self, sizeof self) || pipe(ends) != 0) {
        free(child);
        return NULL;
    }
    // posix_spawn promises to leave them as they are.
    for (int i = 0; i < MAX_ARGUMENTS && arguments[i] != NULL; i++) {
        memcpy(&argv[i + 1], &arguments[i], sizeof argv[0]);
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    errno = posix_spawn(&child->process, self, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (errno != 0) {
        close(ends[0]);
        free(child);
        return NULL;
    }
    child->pipe = ends[0];
    return child;
}

bool platform_end(platform_child *child, double seconds, char *how, size_t bytes)
{
    int status = 0;
    double until = platform_seconds() + seconds;
    pid_t ended = 0;
    close(child->pipe);
    while ((ended = waitpid(child->process, &status, WNOHANG)) == 0 && platform_seconds() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (ended == 0) {
        kill(child->process, SIGKILL);
        waitpid(child->process, &status, 0);
    }
    free(child->text);
    free(child);
    if (WIFSIGNALED(status)) {
        snprintf(how, bytes, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(how, bytes, "exit code %d", WEXITSTATUS(status));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif

child_line platform_read_line(platform_child *child, double until, char **line)
{
    for (;;) {
        char *begin = child->text + child->taken;
        char *end =
            child->taken < child->count ? memchr(begin, '\n', child->count - child->taken) : NULL;
        if (end != NULL) {
            *end = '\0';
            *line = begin;
            child->taken += (size_t)(end - begin) + 1;
            return CHILD_LINE;
        }
        if (child->taken > 0) {
            child->count -= child->taken;
            memmove(child->text, begin, child->count);
            child->taken = 0;
        }
        if (child->count == child->capacity) {
            size_t capacity = child->capacity == 0 ? 4096 : 2 * child->capacity;
            char *text = realloc(child->text, capacity);
            if (text == NULL) {
                return CHILD_END;
            }
            child->text = text;
            child->capacity = capacity;
        }
        if (!is_readable(child, until)) {
            return CHILD_LATE;
        }
        size_t got = read_some(child, child->text + child->count, child->capacity - child->count);
        if (got == 0) {
            return CHILD_END;  // half a line at the end is none
        }
        child->count += got;
    }
}
