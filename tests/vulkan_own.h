// A Vulkan device opened by the library, level 3, on the wrapped driver. Failures are cmocka's.
#ifndef KQ_VULKAN_OWN_H
#define KQ_VULKAN_OWN_H

#include "support.h"
#include "wrapped_vulkan.h"

typedef struct fixture {
    wrapped_vulkan shown;  // what each device of the test shows
    uint64_t work;         // of kq_device_params
    const vectors *vectors;
    wrapped_vulkan wrapped;
    report report;
    kq_device *device;
} fixture;

// Whether there is a device, whose name is printed, and the validation layer if that is asked for.
bool device_is_possible(wrapped_validation validation);

// Opens device 0 with wrapped as it is; reports go to report.
kq_result try_to_open(fixture *f);

// The same with wrapped as shown; it can't fail.
void open_device(fixture *f);

// Nothing may be left, no rule broken, no message of the validation layer, and no wait spun.
void close_device(fixture *f);
void check_closed(const fixture *f);

void *allocate(uint64_t bytes);
kq_buffer *make_buffer(fixture *f, uint64_t bytes);
void upload(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
void download(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);

kq_buffer_view view_of(kq_buffer *buffer, uint64_t offset, uint32_t G);
kq_result quantize(const fixture *f, kq_buffer_view values, kq_buffer_view records,
                   kq_domain *domain);
kq_result dot(kq_device *device, kq_order order, kq_buffer_view lhs, kq_buffer_view rhs,
              kq_buffer *result, uint64_t result_offset, const kq_repeat *repeat);

#endif
