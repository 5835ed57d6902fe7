#define WIN32_LEAN_AND_MEAN
#define PSAPI_VERSION 2  // its functions in kernel32

#include "platform_child.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <psapi.h>
#include <shellapi.h>
#include <sys/stat.h>

// --- UTF-16, which this system takes

static void set_errno(DWORD error)
{
    static const struct {
        DWORD error;
        int number;
    } numbers[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
    };
    errno = EIO;
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        if (numbers[k].error == error) {
            errno = numbers[k].number;
        }
    }
}

// Each of these is the caller's to free. NULL: errno says why.

static wchar_t *widen(const char *text)
{
    int count = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = count > 0 ? malloc((size_t)count * sizeof *wide) : NULL;
    if (wide != NULL) {
        MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, count);
    } else {
        errno = ENOMEM;
    }
    return wide;
}

static char *narrow(const wchar_t *wide)
{
    int count = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = count > 0 ? malloc((size_t)count) : NULL;
    if (text != NULL) {
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, count, NULL, NULL);
    } else {
        errno = ENOMEM;
    }
    return text;
}

static wchar_t *full_path(const wchar_t *path)
{
    DWORD count = GetFullPathNameW(path, 0, NULL, NULL);
    wchar_t *full = count > 0 ? malloc(count * sizeof *full) : NULL;
    if (full == NULL || GetFullPathNameW(path, count, full, NULL) >= count) {
        free(full);
        errno = ENOENT;
        return NULL;
    }
    return full;
}

// A path that reaches MAX_PATH from the root is taken where it is absolute and says so.
static wchar_t *wide_path(const char *path)
{
    enum { PREFIX = 8, ROOM_FOR_A_NAME = 12 };
    wchar_t *wide = widen(path);
    wchar_t *full = wide != NULL ? full_path(wide) : NULL;
    if (full == NULL || wcslen(full) + ROOM_FOR_A_NAME < MAX_PATH ||
        wcsncmp(full, L"\\\\?\\", 4) == 0 || wcsncmp(full, L"\\\\.\\", 4) == 0) {
        free(full);
        return wide;
    }
    free(wide);
    bool is_share = wcsncmp(full, L"\\\\", 2) == 0;
    wchar_t *prefixed = malloc((PREFIX + wcslen(full) + 1) * sizeof *prefixed);
    if (prefixed != NULL) {
        wcscpy(prefixed, is_share ? L"\\\\?\\UNC" : L"\\\\?\\");
        wcscat(prefixed, full + is_share);
    } else {
        errno = ENOMEM;
    }
    free(full);
    return prefixed;
}

// --- The program's beginning and end

bool platform_begin(platform_state *state, int *argc, char ***argv)
{
    DWORD mode;
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **arguments = wide != NULL ? calloc((size_t)count + 1, sizeof *arguments) : NULL;
    if (arguments == NULL) {
        return false;
    }
    for (int k = 0; k < count; k++) {
        arguments[k] = narrow(wide[k]);
        if (arguments[k] == NULL) {
            return false;
        }
    }
    LocalFree(wide);
    *argc = count;
    *argv = arguments;
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stderr), _O_BINARY);
    state->code_page = 0;
    if ((GetConsoleMode(GetStdHandle(STD_OUTPUT_HANDLE), &mode) ||
         GetConsoleMode(GetStdHandle(STD_ERROR_HANDLE), &mode)) &&
        GetConsoleOutputCP() != CP_UTF8) {
        state->code_page = GetConsoleOutputCP();
        SetConsoleOutputCP(CP_UTF8);
    }
    return true;
}

void platform_finish(const platform_state *state)
{
    if (state->code_page != 0) {
        fflush(stdout);
        SetConsoleOutputCP(state->code_page);
    }
}

// --- Files

path_kind platform_path_kind(const char *path)
{
    wchar_t *wide = wide_path(path);
    wchar_t *full = wide != NULL ? full_path(wide) : NULL;
    bool is_device = full != NULL && wcsncmp(full, L"\\\\.\\", 4) == 0;  // NUL, CON, a pipe, ...
    DWORD attributes = wide != NULL ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    set_errno(GetLastError());
    bool is_absent = wide != NULL && errno == ENOENT;
    free(wide);
    free(full);
    if (is_device) {
        return PATH_OTHER;
    }
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        return is_absent ? PATH_ABSENT : PATH_UNKNOWN;
    }
    return attributes & FILE_ATTRIBUTE_DIRECTORY ? PATH_FOLDER : PATH_FILE;
}

FILE *platform_open(const char *path)
{
    wchar_t *wide = wide_path(path);
    FILE *file = wide != NULL ? _wfopen(wide, L"rb") : NULL;
    free(wide);
    return file;
}

// Not every C library here has mode x.
FILE *platform_create(const char *path)
{
    wchar_t *wide = wide_path(path);
    int number = -1;
    if (wide != NULL) {
        number = _wopen(wide, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT,
                        _S_IREAD | _S_IWRITE);
    }
    FILE *file = number >= 0 ? _fdopen(number, "wb") : NULL;
    if (number >= 0 && file == NULL) {
        _close(number);
        _wunlink(wide);
    }
    free(wide);
    return file;
}

bool platform_remove(const char *path)
{
    wchar_t *wide = wide_path(path);
    bool is_done = wide != NULL && _wunlink(wide) == 0;
    free(wide);
    return is_done;
}

bool platform_may_write(const char *path)
{
    enum { WRITING = 2 };
    wchar_t *wide = wide_path(path);
    bool may = wide != NULL && _waccess(wide, WRITING) == 0;
    free(wide);
    return may;
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

// Who looks for viruses, or indexes files, may have one open for a moment.
bool platform_replace_file(const char *from, const char *to)
{
    enum { TRIES = 8 };
    wchar_t *wide_from = wide_path(from);
    wchar_t *wide_to = wide_path(to);
    bool is_done = false;
    DWORD error = ERROR_ACCESS_DENIED;
    for (DWORD k = 0; k < TRIES && wide_from != NULL && wide_to != NULL && !is_done &&
                      (error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION);
         k++) {
        Sleep(k * k * 4);
        is_done = MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING) != 0;
        error = GetLastError();
    }
    free(wide_from);
    free(wide_to);
    if (!is_done) {
        set_errno(error);
    }
    return is_done;
}

// The file or folder that a path leads to.
static HANDLE open_path(const wchar_t *path)
{
    return CreateFileW(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
}

char *platform_follow_links(const char *path)
{
    char *target = NULL;
    wchar_t *wide = wide_path(path);
    DWORD attributes = wide != NULL ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    if (wide != NULL &&
        (attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_REPARSE_POINT))) {
        target = _strdup(path);
    } else if (wide != NULL) {
        HANDLE file = open_path(wide);
        DWORD count = GetFinalPathNameByHandleW(file, NULL, 0, 0);
        set_errno(GetLastError());  // unless count tells otherwise
        wchar_t *final = count > 0 ? malloc((count + 1) * sizeof *final) : NULL;
        if (final != NULL && GetFinalPathNameByHandleW(file, final, count + 1, 0) <= count) {
            target = narrow(final);
        }
        free(final);
        if (file != INVALID_HANDLE_VALUE) {
            CloseHandle(file);
        }
    }
    free(wide);
    return target;
}

bool platform_copy_mode(const char *from, const char *to)
{
    (void)from;
    (void)to;
    return true;
}

static bool identify(const char *path, BY_HANDLE_FILE_INFORMATION *info)
{
    wchar_t *wide = wide_path(path);
    HANDLE file = wide != NULL ? open_path(wide) : INVALID_HANDLE_VALUE;
    bool is_known = file != INVALID_HANDLE_VALUE && GetFileInformationByHandle(file, info) != 0;
    if (file != INVALID_HANDLE_VALUE) {
        CloseHandle(file);
    }
    free(wide);
    return is_known;
}

bool platform_is_same_file(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION infos[2];
    return identify(a, &infos[0]) && identify(b, &infos[1]) &&
           infos[0].dwVolumeSerialNumber == infos[1].dwVolumeSerialNumber &&
           infos[0].nFileIndexHigh == infos[1].nFileIndexHigh &&
           infos[0].nFileIndexLow == infos[1].nFileIndexLow;
}

size_t platform_folder_length(const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && strchr("/\\:", path[length - 1]) == NULL) {
        length--;
    }
    return length;
}

bool platform_is_same_name(const char *a, const char *b)
{
    wchar_t *wide[2] = {widen(a), widen(b)};
    bool is_same = wide[0] != NULL && wide[1] != NULL &&
                   CompareStringOrdinal(wide[0], -1, wide[1], -1, TRUE) == CSTR_EQUAL;
    free(wide[0]);
    free(wide[1]);
    return is_same;
}

// --- The system

// _isatty also says yes to NUL.
bool platform_stderr_is_terminal(void)
{
    DWORD mode;
    return GetConsoleMode(GetStdHandle(STD_ERROR_HANDLE), &mode) != 0;
}

double platform_seconds(void)
{
    LARGE_INTEGER now, frequency;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (double)now.QuadPart / (double)frequency.QuadPart;
}

static wchar_t *module_path(HMODULE module)
{
    wchar_t *path = NULL;
    for (DWORD capacity = MAX_PATH; capacity <= 1 << 16; capacity *= 2) {
        wchar_t *larger = realloc(path, capacity * sizeof *path);
        if (larger == NULL) {
            break;
        }
        path = larger;
        DWORD count = GetModuleFileNameW(module, path, capacity);
        if (count > 0 && count < capacity) {
            return path;
        }
    }
    free(path);
    errno = ENOMEM;
    return NULL;
}

void platform_list_libraries(void (*found)(void *user, const char *path), void *user)
{
    enum { MAX_MODULES = 1024 };
    HMODULE modules[MAX_MODULES];
    DWORD bytes = 0;
    if (!EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) {
        return;
    }
    for (DWORD k = 0; k < MAX_MODULES && k < bytes / sizeof modules[0]; k++) {
        wchar_t *wide = module_path(modules[k]);
        char *path = wide != NULL ? narrow(wide) : NULL;
        if (path != NULL) {
            found(user, path);
        }
        free(path);
        free(wide);
    }
}

void platform_list_environment(void (*found)(void *user, const char *variable), void *user)
{
    wchar_t *all = GetEnvironmentStringsW();
    for (const wchar_t *at = all; at != NULL && *at != L'\0'; at += wcslen(at) + 1) {
        char *variable = narrow(at);
        if (variable != NULL) {
            found(user, variable);
        }
        free(variable);
    }
    if (all != NULL) {
        FreeEnvironmentStringsW(all);
    }
}

void platform_describe_system(platform_system *system)
{
    typedef LONG(WINAPI * rtl_get_version)(OSVERSIONINFOW *);
    typedef const char *(CDECL * wine_get_version)(void);
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    SYSTEM_INFO info;
    // GetVersion says what the program was made for.
    HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");
    rtl_get_version get_version =
        (rtl_get_version)(void (*)(void))GetProcAddress(ntdll, "RtlGetVersion");
    wine_get_version get_wine =
        (wine_get_version)(void (*)(void))GetProcAddress(ntdll, "wine_get_version");
    memset(system, 0, sizeof *system);
    if (get_wine != NULL) {
        snprintf(system->os, sizeof system->os, "Windows (Wine %.100s)", get_wine());
    } else {
        snprintf(system->os, sizeof system->os, "Windows");
    }
    if (get_version != NULL && get_version(&version) == 0) {
        snprintf(system->kernel, sizeof system->kernel, "Windows NT %lu.%lu.%lu",
                 version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
    }
    GetNativeSystemInfo(&info);
    const char *machine = info.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_AMD64   ? "x86_64"
                          : info.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_INTEL ? "i686"
                          : info.wProcessorArchitecture == 12                           ? "aarch64"
                                                                                        : "";
    snprintf(system->machine, sizeof system->machine, "%s", machine);
}

// --- Threads

struct platform_thread {
    HANDLE handle;
    void (*run)(void *user);
    void *user;
};

static unsigned __stdcall run_thread(void *thread)
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
    thread->handle = (HANDLE)_beginthreadex(NULL, 0, run_thread, thread, 0, NULL);
    if (thread->handle == NULL) {
        free(thread);
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

// --- Children

// The child is in a job that ends with its only handle, which is the parent's. A crash is for the
// parent to tell, not for a dialog.
void platform_end_with_parent(void)
{
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
}

static HANDLE make_job(HANDLE process)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation.LimitFlags =
                                                       JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    if (job != NULL) {
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
        AssignProcessToJobObject(job, process);
    }
    return job;
}

struct platform_child {
    HANDLE process, pipe, job;
    child_text text;
};

child_text *platform_child_text(platform_child *child)
{
    return &child->text;
}

bool platform_is_readable(platform_child *child, double until)
{
    DWORD available = 0;
    while (PeekNamedPipe(child->pipe, NULL, 0, NULL, &available, NULL) && available == 0) {
        if (platform_seconds() >= until) {
            return false;
        }
        Sleep(2);
    }
    return true;
}

size_t platform_read_some(platform_child *child, char *to, size_t bytes)
{
    DWORD got = 0;
    DWORD most = bytes < 1 << 20 ? (DWORD)bytes : 1 << 20;
    return ReadFile(child->pipe, to, most, &got, NULL) ? got : 0;
}

// Adds an argument in quotes, as CommandLineToArgvW undoes it: a backslash stands for itself but
// before a quote, where it takes two. Returns the end.
static char *quote(char *to, const char *argument)
{
    size_t slashes = 0;
    *to++ = '"';
    for (; *argument != '\0'; argument++) {
        if (*argument == '"') {
            memset(to, '\\', slashes + 1);
            to += slashes + 1;
        }
        slashes = *argument == '\\' ? slashes + 1 : 0;
        *to++ = *argument;
    }
    memset(to, '\\', slashes);
    to += slashes;
    *to++ = '"';
    return to;
}

static wchar_t *command_line(const wchar_t *program, const char *const *arguments)
{
    char *name = narrow(program);
    size_t bytes = name != NULL ? 2 * strlen(name) + 4 : 0;
    for (size_t k = 0; arguments[k] != NULL; k++) {
        bytes += 2 * strlen(arguments[k]) + 4;
    }
    char *line = name != NULL ? malloc(bytes) : NULL;
    if (line == NULL) {
        free(name);
        errno = ENOMEM;
        return NULL;
    }
    char *end = quote(line, name);
    for (size_t k = 0; arguments[k] != NULL; k++) {
        *end++ = ' ';
        end = quote(end, arguments[k]);
    }
    *end = '\0';
    wchar_t *wide = widen(line);
    free(line);
    free(name);
    return wide;
}

platform_child *platform_start(const char *const *arguments)
{
    enum { PIPE_BYTES = 1 << 16 };
    HANDLE ends[2];
    SECURITY_ATTRIBUTES inherit = {.nLength = sizeof inherit, .bInheritHandle = TRUE};
    PROCESS_INFORMATION made;
    BOOL is_made = FALSE;
    platform_child *child = calloc(1, sizeof *child);
    wchar_t *self = child != NULL ? module_path(NULL) : NULL;
    wchar_t *line = self != NULL ? command_line(self, arguments) : NULL;
    if (line != NULL && CreatePipe(&ends[0], &ends[1], &inherit, PIPE_BYTES)) {
        SetHandleInformation(ends[0], HANDLE_FLAG_INHERIT, 0);
        STARTUPINFOW start = {
            .cb = sizeof start,
            .dwFlags = STARTF_USESTDHANDLES,
            .hStdInput = GetStdHandle(STD_INPUT_HANDLE),
            .hStdOutput = ends[1],
            .hStdError = GetStdHandle(STD_ERROR_HANDLE),
        };
        // What a console's interrupt means is for the parent to say.
        is_made =
            CreateProcessW(self, line, NULL, NULL, TRUE,
                           CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP, NULL, NULL, &start, &made);
        set_errno(GetLastError());
        CloseHandle(ends[1]);
        if (!is_made) {
            CloseHandle(ends[0]);
        }
    }
    free(line);
    free(self);
    if (!is_made) {
        free(child);
        return NULL;
    }
    child->process = made.hProcess;
    child->pipe = ends[0];
    child->job = make_job(made.hProcess);
    ResumeThread(made.hThread);
    CloseHandle(made.hThread);
    return child;
}

static void describe_end(DWORD code, char *how, size_t bytes)
{
    static const struct {
        DWORD code;
        const char *name;
    } names[] = {
        {EXCEPTION_ACCESS_VIOLATION, ", access violation"},
        {EXCEPTION_ILLEGAL_INSTRUCTION, ", illegal instruction"},
        {EXCEPTION_INT_DIVIDE_BY_ZERO, ", division by zero"},
        {EXCEPTION_STACK_OVERFLOW, ", stack overflow"},
        {0xC0000374, ", heap corruption"},
        {0xC0000409, ", stack buffer overrun or abort"},
    };
    const char *name = "";
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        name = names[k].code == code ? names[k].name : name;
    }
    if (code >= 0xC0000000) {
        snprintf(how, bytes, "exception 0x%08lX%s", code, name);
    } else {
        snprintf(how, bytes, "exit code %lu", code);
    }
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
    if (child->job != NULL) {
        CloseHandle(child->job);
    }
    free(child->text.bytes);
    free(child);
    describe_end(code, how, bytes);
    return code == 0;
}
