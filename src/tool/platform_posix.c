#ifndef _POSIX_C_SOURCE
# define _POSIX_C_SOURCE 200809L
#endif

#include "platform_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
# include <mach-o/dyld.h>
#endif

extern char **environ;

bool platform_begin(platform_state *state, int *argc, char ***argv)
{
    (void)state;
    (void)argc;
    (void)argv;
    // Opened for what it isn't used for, each of them gives an error and not another file's bytes.
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        if (fcntl(file, F_GETFD) == -1 &&
            open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY) != file) {
            _exit(99);
        }
    }
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN);
#endif
    return true;
}

void platform_finish(const platform_state *state)
{
    (void)state;
}

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

FILE *platform_open(const char *path)
{
    return fopen(path, "rb");
}

FILE *platform_create(const char *path)
{
    return fopen(path, "wbx");
}

bool platform_remove(const char *path)
{
    return remove(path) == 0;
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

size_t platform_folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

bool platform_is_same_name(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
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
#ifdef __APPLE__
    for (uint32_t k = 0; k < _dyld_image_count(); k++) {
        found(user, _dyld_get_image_name(k));
    }
#else
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
#endif
}

void platform_list_environment(void (*found)(void *user, const char *variable), void *user)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        found(user, *variable);
    }
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
    child_text text;
};

child_text *platform_child_text(platform_child *child)
{
    return &child->text;
}

bool platform_is_readable(platform_child *child, double until)
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

size_t platform_read_some(platform_child *child, char *to, size_t bytes)
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
#ifdef __APPLE__
    uint32_t capacity = (uint32_t)bytes;
    return _NSGetExecutablePath(path, &capacity) == 0;
#else
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
#endif
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
    free(child->text.bytes);
    free(child);
    if (WIFSIGNALED(status)) {
        snprintf(how, bytes, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(how, bytes, "exit code %d", WEXITSTATUS(status));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
