#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "vulkan_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool device_is_possible(wrapped_validation validation)
{
    static wrapped_vulkan wrapped;
    kq_lookup lookup = wrapped_vulkan_lookup(&wrapped);
    kq_device_info infos[16];
    uint32_t count = sizeof infos / sizeof *infos;
    if (kq_list_devices(&lookup, infos, &count) != KQ_OK) {
        count = 0;
    }
    bool has_layer = validation == WRAPPED_VALIDATION_NONE || wrapped_vulkan_has_validation();
    for (uint32_t i = 0; i < count && i < sizeof infos / sizeof *infos; i++) {
        if (infos[i].api == KQ_API_VULKAN && has_layer) {
            printf("%s, %s\n", infos[i].name, infos[i].driver);
            return true;
        }
    }
    fprintf(stderr, "no %s\n", has_layer ? "Vulkan device" : "validation layer");
    return false;
}

kq_result try_to_open(fixture *f)
{
    memset(&f->report, 0, sizeof f->report);
    return kq_device_create(
        &(kq_device_params){
            .device = "vulkan:0",
            .work = f->work,
            .lookup = wrapped_vulkan_lookup(&f->wrapped),
            .errors = report_errors(&f->report),
        },
        &f->device);
}

void open_device(fixture *f)
{
    f->wrapped = f->shown;
    assert_int_equal(try_to_open(f), KQ_OK);
}

void check_closed(const fixture *f)
{
    assert_int_equal(wrapped_vulkan_live(&f->wrapped), 0);
    assert_string_equal(f->wrapped.violation, "");
    assert_int_equal(f->wrapped.messages, 0);
}

void close_device(fixture *f)
{
    assert_int_equal(wrapped_vulkan_calls(&f->wrapped, "vkGetFenceStatus"), 0);
    assert_int_equal(f->wrapped.counts.short_waits, 0);
    assert_true(wrapped_vulkan_calls(&f->wrapped, "vkWaitForFences") <= f->wrapped.counts.submits);
    kq_device_destroy(&f->device);
    check_closed(f);
}

void *allocate(uint64_t bytes)
{
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    return memory;
}

kq_buffer *make_buffer(fixture *f, uint64_t bytes)
{
    kq_buffer *buffer = NULL;
    assert_int_equal(kq_buffer_create(f->device, bytes, &buffer), KQ_OK);
    return buffer;
}

void upload(kq_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes)
{
    assert_int_equal(kq_buffer_upload(buffer, offset, data, bytes), KQ_OK);
}

void download(kq_buffer *buffer, uint64_t offset, void *data, uint64_t bytes)
{
    assert_int_equal(kq_buffer_download(buffer, offset, data, bytes), KQ_OK);
}

kq_buffer_view view_of(kq_buffer *buffer, uint64_t offset, uint32_t G)
{
    return (kq_buffer_view){buffer, {.offset = offset, .G = G}};
}

kq_result quantize(const fixture *f, kq_buffer_view values, kq_buffer_view records,
                   kq_domain *domain)
{
    return kq_quantize(f->device, &(kq_quantize_args){
                                      .format = KQ_FORMAT_Q8_K,
                                      .values = values,
                                      .records = records,
                                      .domain = domain,
                                  });
}

kq_result dot(kq_device *device, kq_order order, kq_buffer_view lhs, kq_buffer_view rhs,
              kq_buffer *result, uint64_t result_offset, const kq_repeat *repeat)
{
    return kq_quantized_dot(device, &(kq_quantized_dot_args){
                                        .lhs_format = KQ_FORMAT_Q4_K,
                                        .rhs_format = KQ_FORMAT_Q8_K,
                                        .acc = KQ_ACCUMULATOR_F32,
                                        .order = order,
                                        .lhs = lhs,
                                        .rhs = rhs,
                                        .result = result,
                                        .result_offset = result_offset,
                                        .repeat = repeat,
                                    });
}
