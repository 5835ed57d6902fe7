// What the sources of level 3 on Vulkan share: the device, memory, and work.
#ifndef KQ_DEVICE_VULKAN_H
#define KQ_DEVICE_VULKAN_H

#include "vulkan_call.h"

#include <kquant/vulkan.h>

#include "device.h"
#include "vulkan_instance.h"

// clang-format off
#define KQ_VULKAN_DEVICE_FUNCTIONS(f)                                                              \
    f(vkDestroyDevice)                                                                             \
    f(vkGetDeviceQueue)                                                                            \
    f(vkQueueSubmit)                                                                               \
    f(vkCreateFence)                                                                               \
    f(vkDestroyFence)                                                                              \
    f(vkResetFences)                                                                               \
    f(vkWaitForFences)                                                                             \
    f(vkDeviceWaitIdle)                                                                            \
    f(vkCreateBuffer)                                                                              \
    f(vkDestroyBuffer)                                                                             \
    f(vkGetBufferMemoryRequirements)                                                               \
    f(vkAllocateMemory)                                                                            \
    f(vkFreeMemory)                                                                                \
    f(vkBindBufferMemory)                                                                          \
    f(vkMapMemory)                                                                                 \
    f(vkFlushMappedMemoryRanges)                                                                   \
    f(vkInvalidateMappedMemoryRanges)                                                              \
    f(vkCreateCommandPool)                                                                         \
    f(vkDestroyCommandPool)                                                                        \
    f(vkResetCommandPool)                                                                          \
    f(vkAllocateCommandBuffers)                                                                    \
    f(vkBeginCommandBuffer)                                                                        \
    f(vkEndCommandBuffer)                                                                          \
    f(vkCmdPipelineBarrier)                                                                        \
    f(vkCmdCopyBuffer)                                                                             \
    f(vkCmdUpdateBuffer)                                                                           \
    f(vkCmdFillBuffer)                                                                             \
    f(vkCreateDescriptorPool)                                                                      \
    f(vkDestroyDescriptorPool)                                                                     \
    f(vkAllocateDescriptorSets)                                                                    \
    f(vkCreateQueryPool)                                                                           \
    f(vkDestroyQueryPool)                                                                          \
    f(vkCmdResetQueryPool)                                                                         \
    f(vkCmdWriteTimestamp)                                                                         \
    f(vkGetQueryPoolResults)
// clang-format on

// A buffer with memory of its own.
typedef struct kq_vulkan_memory {
    VkBuffer buffer;
    VkDeviceMemory handle;
    uint64_t bytes;            // of the buffer, a multiple of 4
    uint64_t allocated_bytes;  // of the memory
    unsigned char *mapped;     // NULL where the host can't reach it
    bool is_coherent;
} kq_vulkan_memory;

// A lane's slot: the status of quantize, and what shows that work was done. It has atoms of its
// own, which are of at most 256 bytes.
enum { KQ_VULKAN_MARKS = 12, KQ_VULKAN_SUMS = 32, KQ_VULKAN_SLOT_BYTES = 2048 };

// All slots, and a word by which tests know this buffer from those of callers.
enum { KQ_VULKAN_SLOTS_BYTES = KQ_IN_FLIGHT * KQ_VULKAN_SLOT_BYTES + 4 };

// An upload through staging: the first of its bytes are read back to right before them.
enum { KQ_VULKAN_UPLOADS = 8, KQ_VULKAN_SAMPLE_BYTES = 16 };
typedef struct kq_vulkan_sample {
    uint64_t at;
    uint32_t bytes;
} kq_vulkan_sample;

// What goes with commands that may be under way at the same time as others: one each.
typedef struct kq_vulkan_lane {
    VkFence fence;
    bool is_pending;           // submitted, and not yet waited for
    kq_vulkan_memory staging;  // both ways, for memory that the host can't reach; made when needed
    uint64_t staged_bytes;     // of it in use, the first of them by the slot
    uint32_t index;            // of the item that is pending
    kq_status *status;         // set once the commands are done; NULL: there is none
    const kq_vulkan_memory *read_from;  // what the host gets then; NULL: nothing
    uint64_t read_offset, read_bytes;
    void *read_to;
    const kq_vulkan_memory *read_source;  // what is copied to read_from first; NULL: nothing is
    uint64_t read_source_offset;
    kq_vulkan_sample uploads[KQ_VULKAN_UPLOADS];
    uint32_t upload_count;
} kq_vulkan_lane;

typedef struct kq_vulkan_item {
    VkCommandBuffer commands;
    VkDescriptorSet set;
    bool is_quantize, is_bandwidth;
    bool is_doubted;  // of bandwidth: it left each poison, and runs once more with the other one
    uint32_t mark_count;  // words of the slot that can't be poison any more
    uint32_t sum_count;   // pairs of words: of a sum, before and after
    uint32_t twin_bytes;  // behind all marks, and as many behind these: they are equal
} kq_vulkan_item;

typedef struct kq_vulkan_work {
    VkCommandPool command_pool;
    VkDescriptorPool descriptor_pool;
    VkQueryPool times;                   // two an item; null: no time is told
    kq_vulkan_memory status;             // a slot a lane
    kq_vulkan_memory scratch;            // grows, unless the work is kept
    kq_vulkan_memory stage;              // made when first needed
    kq_vulkan_lane lanes[KQ_IN_FLIGHT];  // item i takes number i % KQ_IN_FLIGHT
    bool is_kept;
    uint32_t count;
    kq_vulkan_item items[];
} kq_vulkan_work;

typedef struct kq_vulkan_device {
#define KQ_FUNCTION_FIELD(name) PFN_##name name;
    KQ_VULKAN_DEVICE_FUNCTIONS(KQ_FUNCTION_FIELD)
#undef KQ_FUNCTION_FIELD
    kq_vulkan_instance instance;
    VkPhysicalDevice physical_device;
    VkDevice handle;
    VkQueue queue;
    uint32_t queue_family;
    uint32_t caps;  // kq_cap, which are enabled
    kq_vulkan *pack;
    VkPhysicalDeviceMemoryProperties memory_properties;
    uint64_t atom_bytes;        // nonCoherentAtomSize
    uint32_t timestamp_bits;    // timestampValidBits of the queue family; 0: it has none
    uint32_t timestamp_period;  // the bits of timestampPeriod, nanoseconds of a tick
    uint32_t turn;              // the item of the device's own work whose turn it is,
    bool is_open;               // and whether it is being recorded
    const kq_errors *errors;
    uint32_t *doubts;  // of kq_device
} kq_vulkan_device;

// Of a call that was to make *handle. Vulkan leaves that undefined where the call fails; here it is
// then null, so that what is half made can be destroyed.
kq_result kq_vulkan_check_made(const kq_vulkan_device *d, const char *call, VkResult result,
                               void *handle, size_t bytes);

// --- vulkan_memory.c

// Where the host should reach memory: not at all if the device has better, or always.
typedef enum kq_vulkan_use { KQ_VULKAN_ON_DEVICE, KQ_VULKAN_FOR_STAGING } kq_vulkan_use;

kq_result kq_vulkan_memory_create(kq_vulkan_device *d, uint64_t bytes, kq_vulkan_use use,
                                  kq_vulkan_memory *m);
void kq_vulkan_memory_destroy(kq_vulkan_device *d, kq_vulkan_memory *m);

// Of memory that is mapped, whether it is coherent or not.
kq_result kq_vulkan_write_mapped(const kq_vulkan_device *d, const kq_vulkan_memory *m,
                                 uint64_t offset, const void *data, uint64_t bytes);
kq_result kq_vulkan_read_mapped(const kq_vulkan_device *d, const kq_vulkan_memory *m,
                                uint64_t offset, void *data, uint64_t bytes);

// --- vulkan_work.c

kq_result kq_vulkan_work_create(kq_device *device, bool is_kept, uint32_t count,
                                uint64_t scratch_bytes, void **work);
void kq_vulkan_work_destroy(kq_device *device, void *work);
kq_result kq_vulkan_work_record(kq_device *device, void *work, uint32_t index,
                                const kq_operation *operation, const kq_piece *piece);
kq_result kq_vulkan_work_run(kq_device *device, void *work, uint32_t index, kq_status *status,
                             uint64_t *nanoseconds);

// ticks times a period, rounded down, in integers: the caller's floating-point state is no matter.
// The period is given as a float's bits, 2^-40 to 2^24 ns; of any other, which no clock has, it is
// 0.
uint64_t kq_vulkan_nanoseconds(uint64_t ticks, uint32_t period_bits);

// Makes the staging of an item's lane, if there is none yet.
kq_result kq_vulkan_need_staging(kq_device *device, kq_vulkan_work *w, uint32_t index);

// An item's commands: their begin, what is between, their end. A piece leaves what it writes behind
// a barrier.
kq_result kq_vulkan_begin(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index);
kq_result kq_vulkan_add_piece(kq_device *device, kq_vulkan_work *w, uint32_t index,
                              const kq_operation *operation, const kq_piece *piece);
kq_result kq_vulkan_end(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index);

// Everything that was written before is there for everything that follows.
void kq_vulkan_barrier(const kq_vulkan_device *d, VkCommandBuffer commands);

// Starts an item whose lane is not pending.
kq_result kq_vulkan_start(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index);

// Sleeps until what is pending in the item's lane is done, and gives the host what it is to get.
kq_result kq_vulkan_wait(kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index);

// --- vulkan_proof.c

// Where a lane's slot is in the work's status.
uint64_t kq_vulkan_slot_offset(uint32_t index);

// Before an item is submitted, and once it is done: sets *status too, and adds to d->doubts.
kq_result kq_vulkan_preset_slot(const kq_vulkan_device *d, const kq_vulkan_work *w, uint32_t index);
kq_result kq_vulkan_check_slot(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index,
                               kq_status *status);

// Words that an item's dispatches write, and that no later one of them does.
typedef struct kq_vulkan_mark {
    VkBuffer buffer;
    uint64_t offset;
} kq_vulkan_mark;
typedef struct kq_vulkan_marks {
    uint32_t count, sum_count;
    kq_vulkan_mark at[KQ_VULKAN_MARKS];
    kq_vulkan_mark sums[KQ_VULKAN_SUMS];  // which dispatches add to
} kq_vulkan_marks;
void kq_vulkan_add_mark(kq_vulkan_marks *marks, VkBuffer buffer, uint64_t offset);

// Recorded before them, with a barrier behind; and after a barrier behind them.
void kq_vulkan_poison_marks(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index,
                            const kq_vulkan_marks *marks);
void kq_vulkan_collect_marks(const kq_vulkan_device *d, kq_vulkan_work *w, uint32_t index,
                             const kq_vulkan_marks *marks);

// Operands that were staged one record each, and what they were copied from or to.
void kq_vulkan_collect_twins(const kq_vulkan_device *d, const kq_operation *operation,
                             const kq_piece *piece, kq_vulkan_work *w, uint32_t index);

// Before a read into staging, and whether it came there then: no, if the bytes were the same. They
// can't be so twice.
kq_result kq_vulkan_preset_read(const kq_vulkan_device *d, const kq_vulkan_memory *staging,
                                uint64_t at, uint64_t bytes, bool is_second);
kq_result kq_vulkan_has_come(const kq_vulkan_device *d, const kq_vulkan_memory *staging,
                             uint64_t at, uint64_t bytes, bool is_second, bool *came);

// --- vulkan_turns.c: as in kq_backend

kq_result kq_vulkan_upload(kq_device *device, void *to, uint64_t offset, const void *data,
                           uint64_t bytes);
kq_result kq_vulkan_download(kq_device *device, void *from, uint64_t offset, void *data,
                             uint64_t bytes);
kq_result kq_vulkan_perform(kq_device *device, const kq_operation *operation, const kq_piece *piece,
                            kq_status *status);
kq_result kq_vulkan_submit(kq_device *device);
kq_result kq_vulkan_finish(kq_device *device, kq_result so_far);
kq_result kq_vulkan_primitives(kq_device *device, void *memory, uint32_t count);
kq_result kq_vulkan_self_test(kq_device *device, void *memory);

#endif
