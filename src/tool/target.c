#include "target.h"

#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep_reason(void *user, kq_result result, const char *reason)
{
    target *target = user;
    snprintf(target->reason, sizeof target->reason, "%s: %s", kq_result_name(result), reason);
}

static kq_result open_with(target *target, const char *device, uint64_t work)
{
    memset(target, 0, sizeof *target);
    target->work = work;
    kq_device_params params = {
        .device = device,
        .work = work,
        .errors = {.fn = keep_reason, .user = target},
    };
    kq_result result = kq_device_create(&params, &target->device);
    if (result == KQ_OK) {
        target->info = kq_device_get_info(target->device);
    } else if (target->reason[0] == '\0') {
        snprintf(target->reason, sizeof target->reason, "%s", kq_result_name(result));
    }
    return result;
}

kq_result target_open(target *target, const char *device)
{
    return open_with(target, device, 0);
}

static void close_twin(target *t)
{
    if (t->twin != NULL) {
        target_close(t->twin);
        free(t->twin);
        t->twin = NULL;
    }
}

target *target_twin(target *t, uint64_t work)
{
    if (t->twin != NULL && t->twin->work == work) {
        return t->twin;
    }
    close_twin(t);
    t->twin = allocate(1, sizeof *t->twin);
    if (open_with(t->twin, t->info->id, work) != KQ_OK) {
        memcpy(t->reason, t->twin->reason, sizeof t->reason);
        free(t->twin);
        t->twin = NULL;
    }
    return t->twin;
}

int target_open_or_complain(target *target, const char *device)
{
    kq_result result = target_open(target, device);
    return result == KQ_OK ? EXIT_DONE : target_complain("device", device, result, target->reason);
}

int target_complain(const char *option, const char *device, kq_result result, const char *reason)
{
    if (device == NULL) {
        complain("no device is named and none can be chosen: %s", reason);
    } else {
        bool is_unknown = result == KQ_ERROR_NO_DEVICE || result == KQ_ERROR_ARGUMENT;
        complain("--%s=%s: %s%s", option, device, reason,
                 is_unknown ? "; kquant devices lists them, and case counts in names" : "");
    }
    // Where none was asked for by name, none is no fault.
    return device == NULL && result == KQ_ERROR_NO_DEVICE ? EXIT_NOTHING : EXIT_UNDECIDED;
}

kq_device_info *target_list(const char *device, uint32_t *count, int *code)
{
    if (device != NULL && strcmp(device, "all") == 0) {
        kq_device_info *infos = list_devices(count);
        *code = infos != NULL ? EXIT_DONE : EXIT_UNDECIDED;
        return infos;
    }
    target target;
    *code = target_open_or_complain(&target, device);
    if (*code != EXIT_DONE) {
        return NULL;
    }
    kq_device_info *info = allocate(1, sizeof *info);
    *info = *target.info;
    *count = 1;
    target_close(&target);
    return info;
}

void target_close(target *target)
{
    close_twin(target);
    for (unsigned i = 0; i < TARGET_BUFFERS; i++) {
        kq_buffer_destroy(&target->buffers[i]);
    }
    kq_device_destroy(&target->device);
    target->info = NULL;
}

kq_result target_reserve(target *target, unsigned slot, uint64_t bytes, bool exactly)
{
    if (target->buffers[slot] != NULL) {
        if (exactly ? target->sizes[slot] == bytes : target->sizes[slot] >= bytes) {
            return KQ_OK;
        }
        kq_buffer_destroy(&target->buffers[slot]);
        target->sizes[slot] = 0;
    }
    kq_result result = kq_buffer_create(target->device, bytes, &target->buffers[slot]);
    if (result == KQ_OK) {
        target->sizes[slot] = bytes;
    }
    return result;
}

void target_print(const kq_device_info *info)
{
    printf("%-10s ", info->id);
    print_text(stdout, info->name);
    printf(" (");
    print_text(stdout, info->driver);
    printf(")");
}
