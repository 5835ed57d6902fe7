// The one file that opens shared libraries. What it opens stays open: drivers do not survive being
// unloaded, and a loader opened twice is the same one.
#include "device.h"

#ifdef _WIN32
# include <windows.h>

// The system's folder alone: a loader that lies in a program's or the current folder is nobody's.
static inline void *open_library(const char *name)
{
    return (void *)LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

static inline kq_proc find_symbol(void *library, const char *name)
{
    return (kq_proc)(void (*)(void))GetProcAddress((HMODULE)library, name);
}
#endif

#ifdef KQ_HAS_VULKAN
# include <volk.h>

kq_proc kq_find_vulkan(const kq_lookup *lookup)
{
    if (lookup != NULL && lookup->fn != NULL) {
        return lookup->fn(lookup->user, "vkGetInstanceProcAddr");
    }
# ifdef _WIN32
    void *library = open_library("vulkan-1.dll");
    return library != NULL ? find_symbol(library, "vkGetInstanceProcAddr") : NULL;
# else
    return volkInitialize() == VK_SUCCESS ? (kq_proc)vkGetInstanceProcAddr : NULL;
# endif
}
#endif

#ifdef KQ_HAS_OPENCL
# ifdef _WIN32
static const char *const library_names[] = {"OpenCL.dll"};
# else
#  include <dlfcn.h>
#  include <string.h>

static void *open_library(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static kq_proc find_symbol(void *library, const char *name)
{
    // ISO C has no cast from an object pointer to a function pointer; POSIX promises the copy.
    void *symbol = dlsym(library, name);
    kq_proc proc = NULL;
    memcpy(&proc, &symbol, sizeof proc);
    return proc;
}

#  ifdef __APPLE__
static const char *const library_names[] = {
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
};
#  elif defined(__ANDROID__)
// The vendor's driver itself, for there is no ICD loader. An app finds it by name where its
// manifest says so, a command by name or by path; Mali's are in the library of its OpenGL ES too.
#   ifdef __LP64__
#    define VENDOR_LIBRARIES "/vendor/lib64/"
#   else
#    define VENDOR_LIBRARIES "/vendor/lib/"
#   endif
static const char *const library_names[] = {
    "libOpenCL.so",
    VENDOR_LIBRARIES "libOpenCL.so",
    VENDOR_LIBRARIES "egl/libGLES_mali.so",
};
#  else
static const char *const library_names[] = {"libOpenCL.so.1", "libOpenCL.so"};
#  endif
# endif

kq_lookup kq_opencl_lookup(const kq_lookup *lookup)
{
    if (lookup != NULL && lookup->fn != NULL) {
        return *lookup;
    }
    for (size_t i = 0; i < sizeof library_names / sizeof *library_names; i++) {
        void *library = open_library(library_names[i]);
        if (library != NULL) {
            return (kq_lookup){find_symbol, library};
        }
    }
    return (kq_lookup){NULL, NULL};
}
#endif
