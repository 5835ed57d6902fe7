// All that a Vulkan device of level 3 does outside recordings. Two command buffers take turns:
// while the device works on one, the host fills the other and gets what the one before left.
#include "device_vulkan.h"

static kq_vulkan_lane *lane_of_turn(const kq_device *device)
{
    kq_vulkan_work *own = device->work;
    return &own->lanes[((const kq_vulkan_device *)device->self)->turn];
}

static kq_vulkan_item *item_of_turn(const kq_device *device)
{
    kq_vulkan_work *own = device->work;
    return &own->items[((const kq_vulkan_device *)device->self)->turn];
}

// Begins the commands whose turn it is, unless that is done, once those before in the same lane
// are.
static kq_result open_commands(kq_device *device)
{
    kq_vulkan_device *d = device->self;
    if (d->is_open) {
        return KQ_OK;
    }
    kq_vulkan_lane *lane = lane_of_turn(device);
    kq_result result = kq_vulkan_wait(d, device->work, d->turn);
    result = result != KQ_OK ? result : kq_vulkan_begin(d, device->work, d->turn);
    lane->staged_bytes = KQ_VULKAN_SLOT_BYTES;
    lane->status = NULL;
    lane->read_from = NULL;
    lane->read_source = NULL;
    lane->upload_count = 0;
    kq_vulkan_item *item = item_of_turn(device);
    item->is_quantize = false;
    item->is_bandwidth = false;
    item->mark_count = 0;
    item->sum_count = 0;
    item->twin_bytes = 0;
    d->is_open = result == KQ_OK;
    return result;
}

kq_result kq_vulkan_submit(kq_device *device)
{
    kq_vulkan_device *d = device->self;
    if (!d->is_open) {
        return KQ_OK;
    }
    kq_result result = kq_vulkan_end(d, device->work, d->turn);
    result = result != KQ_OK ? result : kq_vulkan_start(d, device->work, d->turn);
    d->is_open = false;
    d->turn = (d->turn + 1) % KQ_IN_FLIGHT;
    return result;
}

kq_result kq_vulkan_finish(kq_device *device, kq_result so_far)
{
    kq_vulkan_device *d = device->self;
    kq_vulkan_work *own = device->work;
    kq_result result = so_far != KQ_OK ? so_far : kq_vulkan_submit(device);
    // The oldest first.
    for (uint32_t i = 0; i < KQ_IN_FLIGHT && result == KQ_OK; i++) {
        result = kq_vulkan_wait(d, own, d->turn + i);
    }
    bool is_pending = false;
    for (uint32_t i = 0; i < KQ_IN_FLIGHT; i++) {
        is_pending |= own->lanes[i].is_pending;
        own->lanes[i].is_pending = false;
    }
    if (is_pending) {
        d->vkDeviceWaitIdle(d->handle);
    }
    if (d->is_open) {
        // What is half recorded can't be begun again.
        d->vkResetCommandPool(d->handle, own->command_pool, 0);
    }
    d->is_open = false;
    d->turn = 0;
    return result;
}

// Opens commands whose staging has room for some of the bytes: *part of them, at *at, behind `head`
// others. Of these, those of an upload are two samples.
static kq_result open_staging(kq_device *device, uint64_t head, uint64_t bytes, uint64_t *at,
                              uint64_t *part)
{
    kq_vulkan_device *d = device->self;
    kq_result result = open_commands(device);
    result = result != KQ_OK ? result : kq_vulkan_need_staging(device, device->work, d->turn);
    const kq_vulkan_lane *full = lane_of_turn(device);
    if (result == KQ_OK && (full->staging.bytes - full->staged_bytes <= head ||
                            full->upload_count == KQ_VULKAN_UPLOADS)) {
        result = kq_vulkan_submit(device);
        result = result != KQ_OK ? result : open_commands(device);
        result = result != KQ_OK ? result : kq_vulkan_need_staging(device, device->work, d->turn);
    }
    if (result != KQ_OK) {
        return result;
    }
    kq_vulkan_lane *lane = lane_of_turn(device);
    uint64_t room = lane->staging.bytes - lane->staged_bytes - head;
    *at = lane->staged_bytes + head;
    *part = bytes < room ? bytes : room;
    lane->staged_bytes += head + *part;
    return KQ_OK;
}

// Copies what lies at `at` of the staging, and shows that: the first bytes of where it goes are
// made others before, and read back behind.
static kq_result copy_staged(kq_device *device, const kq_vulkan_memory *to, uint64_t offset,
                             uint64_t at, const unsigned char *data, uint64_t bytes)
{
    kq_vulkan_device *d = device->self;
    kq_vulkan_lane *lane = lane_of_turn(device);
    VkCommandBuffer commands = item_of_turn(device)->commands;
    VkBuffer staging = lane->staging.buffer;
    const uint64_t sample = bytes < KQ_VULKAN_SAMPLE_BYTES ? bytes : KQ_VULKAN_SAMPLE_BYTES;
    const uint64_t back_at = at - KQ_VULKAN_SAMPLE_BYTES;
    unsigned char others[2 * KQ_VULKAN_SAMPLE_BYTES];
    for (uint64_t i = 0; i < KQ_VULKAN_SAMPLE_BYTES; i++) {
        others[i] = (unsigned char)~data[i % sample];
        others[KQ_VULKAN_SAMPLE_BYTES + i] = others[i];
    }
    kq_result result = kq_vulkan_write_mapped(d, &lane->staging, back_at - KQ_VULKAN_SAMPLE_BYTES,
                                              others, sizeof others);
    result = result != KQ_OK ? result : kq_vulkan_write_mapped(d, &lane->staging, at, data, bytes);
    if (result != KQ_OK) {
        return result;
    }
    const VkBufferCopy before = {back_at - KQ_VULKAN_SAMPLE_BYTES, offset, sample};
    const VkBufferCopy region = {at, offset, bytes};
    const VkBufferCopy behind = {offset, back_at, sample};
    d->vkCmdCopyBuffer(commands, staging, to->buffer, 1, &before);
    kq_vulkan_barrier(d, commands);
    d->vkCmdCopyBuffer(commands, staging, to->buffer, 1, &region);
    kq_vulkan_barrier(d, commands);
    d->vkCmdCopyBuffer(commands, to->buffer, staging, 1, &behind);
    lane->uploads[lane->upload_count++] = (kq_vulkan_sample){back_at, (uint32_t)sample};
    return KQ_OK;
}

kq_result kq_vulkan_upload(kq_device *device, void *to, uint64_t offset, const void *data,
                           uint64_t bytes)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_memory *m = to;
    if (m->mapped != NULL) {
        return kq_vulkan_write_mapped(d, m, offset, data, bytes);
    }
    uint64_t at = 0;
    uint64_t part = 0;
    for (uint64_t done = 0; done < bytes; done += part) {
        const uint64_t head = 2 * KQ_VULKAN_SAMPLE_BYTES;
        kq_result result = open_staging(device, head, bytes - done, &at, &part);
        if (result == KQ_OK) {
            result =
                copy_staged(device, m, offset + done, at, (const unsigned char *)data + done, part);
        }
        if (result != KQ_OK) {
            return result;
        }
    }
    return KQ_OK;
}

// A lane has one read.
static kq_result make_room_for_read(kq_device *device)
{
    const kq_vulkan_device *d = device->self;
    return d->is_open && lane_of_turn(device)->read_from != NULL ? kq_vulkan_submit(device) : KQ_OK;
}

static void set_read(kq_vulkan_lane *lane, const kq_vulkan_memory *from, uint64_t offset, void *to,
                     uint64_t bytes)
{
    lane->read_from = from;
    lane->read_offset = offset;
    lane->read_bytes = bytes;
    lane->read_to = to;
}

kq_result kq_vulkan_download(kq_device *device, void *from, uint64_t offset, void *data,
                             uint64_t bytes)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_memory *m = from;
    if (m->mapped != NULL && !d->is_open) {
        return kq_vulkan_read_mapped(d, m, offset, data, bytes);
    }
    if (m->mapped != NULL) {
        kq_result result = make_room_for_read(device);
        result = result != KQ_OK ? result : open_commands(device);
        if (result == KQ_OK) {
            set_read(lane_of_turn(device), m, offset, data, bytes);
        }
        return result;
    }
    uint64_t at = 0;
    uint64_t part = 0;
    for (uint64_t done = 0; done < bytes; done += part) {
        kq_result result = make_room_for_read(device);
        result = result != KQ_OK ? result : open_staging(device, 0, bytes - done, &at, &part);
        if (result == KQ_OK) {
            result = kq_vulkan_preset_read(d, &lane_of_turn(device)->staging, at, part, false);
        }
        if (result != KQ_OK) {
            return result;
        }
        kq_vulkan_lane *lane = lane_of_turn(device);
        const VkBufferCopy region = {offset + done, at, part};
        d->vkCmdCopyBuffer(item_of_turn(device)->commands, m->buffer, lane->staging.buffer, 1,
                           &region);
        set_read(lane, &lane->staging, at, (unsigned char *)data + done, part);
        lane->read_source = m;
        lane->read_source_offset = offset + done;
    }
    return KQ_OK;
}

kq_result kq_vulkan_perform(kq_device *device, const kq_operation *operation, const kq_piece *piece,
                            kq_status *status)
{
    kq_vulkan_device *d = device->self;
    kq_result result = open_commands(device);
    if (result != KQ_OK) {
        return result;
    }
    lane_of_turn(device)->status = operation->op == KQ_OP_QUANTIZE ? status : NULL;
    return kq_vulkan_add_piece(device, device->work, d->turn, operation, piece);
}

kq_result kq_vulkan_primitives(kq_device *device, void *memory, uint32_t count)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_memory *m = memory;
    kq_result result = open_commands(device);
    if (result == KQ_OK) {
        result = kq_vulkan_primitives_record(d->pack, m->buffer, count, item_of_turn(device)->set,
                                             item_of_turn(device)->commands);
    }
    return kq_vulkan_finish(device, result);
}

kq_result kq_vulkan_self_test(kq_device *device, void *memory)
{
    kq_vulkan_device *d = device->self;
    const kq_vulkan_memory *m = memory;
    const kq_vulkan_range range = {m->buffer, m->bytes, 0};
    kq_result result = open_commands(device);
    VkDescriptorSet set = item_of_turn(device)->set;
    result = result != KQ_OK ? result : kq_vulkan_self_test_write_set(d->pack, &range, set);
    result = result != KQ_OK
                 ? result
                 : kq_vulkan_self_test_record(d->pack, &range, set, item_of_turn(device)->commands);
    return kq_vulkan_finish(device, result);
}
