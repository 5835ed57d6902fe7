// volk, hidden inside level 3: it finds the Vulkan loader. Everything else kquant asks of Vulkan
// goes through tables of its own, one a device.
#ifndef KQ_VOLK_ELSEWHERE
# define VOLK_IMPLEMENTATION
#endif
#include <volk.h>
