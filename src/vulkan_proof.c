// That work of level 3 on Vulkan was done, and not only reported so. What dispatches write is
// overwritten before with what they never write, and read back behind them: a word a dispatch, so
// it costs no pass over memory. What is copied is compared in part. All of it comes to the lane's
// slot.
#include "device_vulkan.h"

#include <string.h>

// No term, sum or result of a dot: a NaN of theirs is 0x7FC00000. Outputs that may be any word are
// overwritten with that, and should they be found so, with the other one: they can't be both.
static const uint32_t poison[2] = {0xFFFFFFFFu, 0};

enum {
    MARKS_AT = sizeof(kq_status),
    SUMS_AT = MARKS_AT + 4 * KQ_VULKAN_MARKS,
    TWINS_AT = SUMS_AT + 8 * KQ_VULKAN_SUMS,
};

// Of the slot, as far as the item uses it.
static uint64_t slot_bytes(const kq_vulkan_item *item)
{
    return item->twin_bytes > 0  ? TWINS_AT + (uint64_t)2 * item->twin_bytes
           : item->sum_count > 0 ? TWINS_AT
                                 : SUMS_AT;
}

uint64_t kq_vulkan_slot_offset(uint32_t index)
{
    return (uint64_t)(index % KQ_IN_FLIGHT) * KQ_VULKAN_SLOT_BYTES;
}

// Where the host finds the slot.
static const kq_vulkan_memory *slot_of(const kq_vulkan_work *w, uint32_t index, uint64_t *at)
{
    bool is_mapped = w->status.mapped != NULL;
    *at = is_mapped ? kq_vulkan_slot_offset(index) : 0;
    return is_mapped ? &w->status : &w->lanes[index % KQ_IN_FLIGHT].staging;
}

static bool has_slot(const kq_vulkan_item *item)
{
    return item->is_quantize || item->mark_count > 0 || item->sum_count > 0 || item->twin_bytes > 0;
}

kq_result kq_vulkan_preset_slot(const kq_vulkan_device *d, const kq_vulkan_work *w, uint32_t index)
{
    static const kq_status preset = KQ_STATUS_PRESET;
    const kq_vulkan_item *item = &w->items[index];
    unsigned char slot[KQ_VULKAN_SLOT_BYTES];
    uint64_t at;
    const kq_vulkan_memory *m = slot_of(w, index, &at);
    if (!has_slot(item)) {
        return KQ_OK;
    }
    memcpy(slot, &preset, sizeof preset);
    for (uint32_t i = 0; i < KQ_VULKAN_MARKS; i++) {
        memcpy(slot + MARKS_AT + (size_t)4 * i, &poison[item->is_doubted], sizeof poison[0]);
    }
    // Sums and twins that nobody writes differ.
    for (uint32_t i = 0; i < 2 * KQ_VULKAN_SUMS; i++) {
        memset(slot + SUMS_AT + (size_t)4 * i, (int)(i % 2), 4);
    }
    memset(slot + TWINS_AT, 0, item->twin_bytes);
    memset(slot + TWINS_AT + item->twin_bytes, 1, item->twin_bytes);
    return kq_vulkan_write_mapped(d, m, at, slot, slot_bytes(item));
}

kq_result kq_vulkan_check_slot(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index,
                               kq_status *status)
{
    kq_vulkan_item *item = &w->items[index];
    unsigned char slot[KQ_VULKAN_SLOT_BYTES];
    uint64_t at;
    const kq_vulkan_memory *m = slot_of(w, index, &at);
    if (!has_slot(item)) {
        return KQ_OK;
    }
    kq_result result = kq_vulkan_read_mapped(d, m, at, slot, slot_bytes(item));
    if (result != KQ_OK) {
        return result;
    }
    if (item->is_quantize && status != NULL) {
        memcpy(status, slot, sizeof *status);
    }
    uint32_t unwritten = 0;
    for (uint32_t i = 0; i < item->mark_count; i++) {
        const uint32_t *word = &poison[item->is_doubted];
        unwritten += memcmp(slot + MARKS_AT + (size_t)4 * i, word, sizeof *word) == 0;
    }
    item->is_doubted = item->is_bandwidth && unwritten > 0 && !item->is_doubted;
    if (unwritten > 0 && !item->is_doubted) {
        return kq_fail(d->errors, KQ_ERROR_DRIVER,
                       "the driver reports work as done that did not write its output");
    }
    for (uint32_t i = 0; i < item->sum_count; i++) {
        const unsigned char *sum = slot + SUMS_AT + (size_t)8 * i;
        *d->doubts += memcmp(sum, sum + 4, 4) == 0;
    }
    const unsigned char *twins = slot + TWINS_AT;
    return memcmp(twins, twins + item->twin_bytes, item->twin_bytes) == 0
               ? KQ_OK
               : kq_fail(d->errors, KQ_ERROR_DRIVER,
                         "the driver reports bytes as copied that are not");
}

// --- Marks

void kq_vulkan_add_mark(kq_vulkan_marks *marks, VkBuffer buffer, uint64_t offset)
{
    marks->at[marks->count++] = (kq_vulkan_mark){buffer, offset};
}

// The sums, before or after.
static void collect_sums(const kq_vulkan_device *d, const kq_vulkan_work *w, uint32_t index,
                         const kq_vulkan_marks *marks, bool is_after)
{
    uint64_t at;
    VkBuffer slot = slot_of(w, index, &at)->buffer;
    for (uint32_t i = 0; i < marks->sum_count; i++) {
        const uint64_t to = at + SUMS_AT + (uint64_t)8 * i + (is_after ? 4 : 0);
        const VkBufferCopy region = {marks->sums[i].offset, to, 4};
        d->vkCmdCopyBuffer(w->items[index].commands, marks->sums[i].buffer, slot, 1, &region);
    }
}

// Bytes at any offset are copied from a word of the slot, for updates are of whole words. So is
// what the host may change from run to run: the poison of bandwidth.
void kq_vulkan_poison_marks(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index,
                            const kq_vulkan_marks *marks)
{
    VkCommandBuffer commands = w->items[index].commands;
    const bool is_bandwidth = w->items[index].is_bandwidth;
    VkBuffer words = w->status.buffer;
    uint64_t word_at = kq_vulkan_slot_offset(index) + MARKS_AT;
    bool is_apart = false;
    for (uint32_t i = 0; i < marks->count; i++) {
        is_apart |= marks->at[i].offset % 4 != 0;
    }
    if (is_bandwidth) {
        words = slot_of(w, index, &word_at)->buffer;
        word_at += MARKS_AT;
    } else if (is_apart) {
        d->vkCmdUpdateBuffer(commands, w->status.buffer, word_at, sizeof poison[0], poison);
        kq_vulkan_barrier(d, commands);
    }
    for (uint32_t i = 0; i < marks->count; i++) {
        const kq_vulkan_mark *mark = &marks->at[i];
        const VkBufferCopy region = {word_at, mark->offset, sizeof poison[0]};
        if (mark->offset % 4 == 0 && !is_bandwidth) {
            d->vkCmdUpdateBuffer(commands, mark->buffer, mark->offset, sizeof poison[0], poison);
        } else {
            d->vkCmdCopyBuffer(commands, words, mark->buffer, 1, &region);
        }
    }
    collect_sums(d, w, index, marks, false);
    kq_vulkan_barrier(d, commands);
}

// The buffer that the device writes the slot in.
static VkBuffer slot_buffer(const kq_vulkan_work *w, uint32_t index, uint64_t *at)
{
    return slot_of(w, index, at)->buffer;
}

void kq_vulkan_collect_marks(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index,
                             const kq_vulkan_marks *marks)
{
    uint64_t at;
    VkBuffer slot = slot_buffer(w, index, &at);
    for (uint32_t i = 0; i < marks->count; i++) {
        const VkBufferCopy region = {marks->at[i].offset, at + MARKS_AT + (uint64_t)4 * i, 4};
        d->vkCmdCopyBuffer(w->items[index].commands, marks->at[i].buffer, slot, 1, &region);
    }
    collect_sums(d, w, index, marks, true);
    w->items[index].mark_count = marks->count;
    w->items[index].sum_count = marks->sum_count;
}

// --- Twins

// One of them behind the other's end.
void kq_vulkan_collect_twins(const kq_vulkan_device *d, const kq_operation *operation,
                             const kq_piece *piece, kq_vulkan_work *w, uint32_t index)
{
    kq_vulkan_item *item = &w->items[index];
    kq_run runs[3];
    const kq_buffer *buffers[3];
    uint32_t count = 0;
    for (int role = 0; role < 3; role++) {
        // Blocks that are staged are known by their values: see add_quantize.
        bool is_values = operation->op == KQ_OP_QUANTIZE && role == KQ_VALUES;
        if (!is_values && kq_piece_run_count(piece, role) == 1) {
            buffers[count] = kq_operand_buffer(operation, role);
            runs[count] = kq_piece_run(piece, role, 0);
            item->twin_bytes += (uint32_t)runs[count].bytes;
            count++;
        }
    }
    uint64_t at;
    VkBuffer slot = slot_buffer(w, index, &at);
    at += TWINS_AT;
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t done = 0; done < runs[i].bytes;) {
            kq_segment_run part =
                kq_buffer_run(buffers[i], runs[i].at + done, runs[i].bytes - done);
            const kq_vulkan_memory *m = part.memory;
            const VkBufferCopy region = {part.offset, at + done, part.bytes};
            d->vkCmdCopyBuffer(item->commands, m->buffer, slot, 1, &region);
            done += part.bytes;
        }
        const VkBufferCopy region = {runs[i].stage, at + item->twin_bytes, runs[i].bytes};
        d->vkCmdCopyBuffer(item->commands, w->stage.buffer, slot, 1, &region);
        at += runs[i].bytes;
    }
}

// --- Reads

// What a place of staging holds before a read, and before a second one: all bytes are others.
static unsigned char unread(uint64_t i, bool is_second)
{
    unsigned char byte = (unsigned char)(0x5A + 0x35 * i);
    return is_second ? (unsigned char)~byte : byte;
}

static uint64_t sample_of(uint64_t bytes)
{
    return bytes < KQ_VULKAN_SAMPLE_BYTES ? bytes : KQ_VULKAN_SAMPLE_BYTES;
}

kq_result kq_vulkan_preset_read(const kq_vulkan_device *d, const kq_vulkan_memory *staging,
                                uint64_t at, uint64_t bytes, bool is_second)
{
    unsigned char sample[KQ_VULKAN_SAMPLE_BYTES];
    for (uint64_t i = 0; i < sizeof sample; i++) {
        sample[i] = unread(i, is_second);
    }
    return kq_vulkan_write_mapped(d, staging, at, sample, sample_of(bytes));
}

kq_result kq_vulkan_has_come(const kq_vulkan_device *d, const kq_vulkan_memory *staging,
                             uint64_t at, uint64_t bytes, bool is_second, bool *came)
{
    unsigned char sample[KQ_VULKAN_SAMPLE_BYTES];
    kq_result result = kq_vulkan_read_mapped(d, staging, at, sample, sample_of(bytes));
    *came = false;
    for (uint64_t i = 0; result == KQ_OK && i < sample_of(bytes); i++) {
        *came |= sample[i] != unread(i, is_second);
    }
    return result;
}
