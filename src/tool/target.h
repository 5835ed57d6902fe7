// A device that a subcommand works on: the open device, its latest reason, and buffers that grow.
#ifndef KQ_TOOL_TARGET_H
#define KQ_TOOL_TARGET_H

#include "tool.h"

enum { TARGET_BUFFERS = 3 };

// Must stay where it is while open, for the device holds its address.
typedef struct target target;
struct target {
    kq_device *device;
    const kq_device_info *info;
    char reason[1024];  // why the latest failed call failed
    kq_buffer *buffers[TARGET_BUFFERS];
    uint64_t sizes[TARGET_BUFFERS];
    target *twin;   // of target_twin
    uint64_t work;  // as in kq_device_params
};

// device: as in kq_device_params, NULL for the default one. On failure target->reason says why and
// nothing needs closing.
kq_result target_open(target *target, const char *device);
void target_close(target *target);

// The same device once more, opened with so much `work`; it is closed with target, or when it is
// asked for with other work. NULL: target->reason says why.
target *target_twin(target *target, uint64_t work);

// Makes buffer `slot` hold at least `bytes` bytes, or exactly as many; contents are then undefined.
kq_result target_reserve(target *target, unsigned slot, uint64_t bytes, bool exactly);

// The same as an exit code, the reason complained about: for what can't be gone on without.
int target_open_or_complain(target *target, const char *device);

// Complains that a device, named by --OPTION, can't be opened, and returns the exit code of that.
int target_complain(const char *option, const char *device, kq_result result, const char *reason);

// The devices meant by `device`, "all" or one as above; one is opened to see that it is there. The
// caller frees them. NULL: the reason was complained about, and *code is the exit code.
kq_device_info *target_list(const char *device, uint32_t *count, int *code);

// "reference  kquant reference  (driver)" without a newline.
void target_print(const kq_device_info *info);

#endif
