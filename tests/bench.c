// The kquant command, on devices that have the name KQ_TEST_NAME, and whose kernels of memory, if
// KQ_TEST_SHORT is "read" or "copy", stop before the last 16 KiB in that. The linker puts this
// around calls of an ordinary build of the command.
#include <kquant/kquant.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kq_device_info *__real_kq_device_get_info(const kq_device *device);
const kq_device_info *__wrap_kq_device_get_info(const kq_device *device);
kq_result __real_kq_bandwidth_record(kq_device *device, kq_buffer *from, kq_buffer *to,
                                     uint64_t bytes, int reads_only, kq_recording **recording);
kq_result __wrap_kq_bandwidth_record(kq_device *device, kq_buffer *from, kq_buffer *to,
                                     uint64_t bytes, int reads_only, kq_recording **recording);

// One device is open at a time.
const kq_device_info *__wrap_kq_device_get_info(const kq_device *device)
{
    static kq_device_info info;
    const char *name = getenv("KQ_TEST_NAME");
    info = *__real_kq_device_get_info(device);
    if (name != NULL) {
        snprintf(info.name, sizeof info.name, "%s", name);
    }
    return &info;
}

kq_result __wrap_kq_bandwidth_record(kq_device *device, kq_buffer *from, kq_buffer *to,
                                     uint64_t bytes, int reads_only, kq_recording **recording)
{
    const char *which = getenv("KQ_TEST_SHORT");
    int is_short = which != NULL && strcmp(which, reads_only ? "read" : "copy") == 0;
    return __real_kq_bandwidth_record(device, from, to, is_short ? bytes - 16384 : bytes,
                                      reads_only, recording);
}
