// volk, hidden inside level 3: it finds the Vulkan loader, but on Windows, where it would look for
// it in more folders than the system's. Everything else kquant asks of Vulkan goes through tables
// of its own, one a device.
#if !defined(KQ_VOLK_ELSEWHERE) && !defined(_WIN32)
# define VOLK_IMPLEMENTATION
#endif
#include <volk.h>
