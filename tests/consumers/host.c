// usage: host PLUGIN [DEVICE]     as program does, having seen that the plugin's copy of kquant
//                                 is another one, gives the same bits, and that both work by turns
#include "dot.h"
#include "plugin.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL) {
        fprintf(stderr, "host: %s\n", argc > 1 ? dlerror() : "no plugin is named");
        return 1;
    }
    // ISO C has no cast from an object pointer to a function pointer.
    void *symbols[2] = {dlsym(plugin, "plugin_dot"), dlsym(plugin, "plugin_kernels")};
    uint32_t (*dot)(const char *) = NULL;
    const kq_kernel *(*kernels)(void) = NULL;
    memcpy(&dot, &symbols[0], sizeof dot);
    memcpy(&kernels, &symbols[1], sizeof kernels);
    size_t count;
    if (dot == NULL || kernels == NULL || kernels() == kq_kernels(&count)) {
        fprintf(stderr, "host: the plugin has no copy of kquant\n");
        return 1;
    }
    const char *device = argc > 2 ? argv[2] : "reference";
    uint32_t mine = dot_bits(device);
    uint32_t its = dot(device);
    if (mine == 0 || its != mine || dot_bits(device) != mine) {
        fprintf(stderr, "host: %08lx here, %08lx in the plugin\n", (unsigned long)mine,
                (unsigned long)its);
        return 1;
    }
    printf("%08lx\n", (unsigned long)mine);
    return 0;
}
