// The wrapped driver for Vulkan: a vkGetInstanceProcAddr whose functions forward to the system's
// loader, and on the way show other memory, limits and versions than the driver has, check what is
// asked of them, count it, and fail when told to. Dispatchable handles pass through.
//
// Vulkan's functions carry no user pointer, so one wrapper is in use at a time: the one that
// wrapped_vulkan_get() or _lookup() was called for last. One thread at a time may call through it.
#ifndef KQ_WRAPPED_VULKAN_H
#define KQ_WRAPPED_VULKAN_H

#ifndef VK_NO_PROTOTYPES
# define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>
#include <kquant/kquant.h>

#include <stdbool.h>

// The memory types that the device shows, in order. Its nonCoherentAtomSize is then
// WRAPPED_ATOM_BYTES. The host sees memory that is not coherent through a shadow, which starts as
// poison, and which only flush and invalidate copy from and to.
//
//   unified              DEVICE_LOCAL HOST_VISIBLE HOST_COHERENT HOST_CACHED
//   unified_no_cached    DEVICE_LOCAL HOST_VISIBLE HOST_COHERENT
//   unified_noncoherent  DEVICE_LOCAL HOST_VISIBLE HOST_CACHED
//   discrete             DEVICE_LOCAL, HOST_VISIBLE HOST_COHERENT, the same with HOST_CACHED
//   discrete_noncoherent DEVICE_LOCAL, HOST_VISIBLE, HOST_VISIBLE HOST_CACHED
//   no_cached            DEVICE_LOCAL, HOST_VISIBLE HOST_COHERENT
//   rebar                DEVICE_LOCAL HOST_VISIBLE HOST_COHERENT,
//                        HOST_VISIBLE HOST_COHERENT HOST_CACHED
//
// Vulkan promises a coherent type; where it is left out here, nobody can get by with it.
typedef enum wrapped_layout {
    WRAPPED_LAYOUT_OF_DRIVER = 0,
    WRAPPED_LAYOUT_UNIFIED,
    WRAPPED_LAYOUT_UNIFIED_NO_CACHED,
    WRAPPED_LAYOUT_UNIFIED_NONCOHERENT,
    WRAPPED_LAYOUT_DISCRETE,
    WRAPPED_LAYOUT_DISCRETE_NONCOHERENT,
    WRAPPED_LAYOUT_NO_CACHED,
    WRAPPED_LAYOUT_REBAR,
    WRAPPED_LAYOUT_COUNT,
} wrapped_layout;

enum {
    WRAPPED_ATOM_BYTES = 256,
    WRAPPED_SAMPLE_BYTES = 16,
    WRAPPED_SLOTS_BYTES = 4100,
    WRAPPED_TYPE_CAPACITY = 4,
    WRAPPED_CALL_CAPACITY = 90
};

typedef enum wrapped_validation {
    WRAPPED_VALIDATION_NONE = 0,
    WRAPPED_VALIDATION_SYNCHRONIZATION,  // core and synchronization checks
    WRAPPED_VALIDATION_GPU,              // core checks, and shaders instrumented
} wrapped_validation;

typedef enum wrapped_vulkan_kind {
    WRAPPED_VULKAN_INSTANCE,
    WRAPPED_VULKAN_DEVICE,
    WRAPPED_VULKAN_BUFFER,
    WRAPPED_VULKAN_MEMORY,
    WRAPPED_VULKAN_FENCE,
    WRAPPED_VULKAN_QUERY_POOL,
    WRAPPED_VULKAN_COMMAND_POOL,
    WRAPPED_VULKAN_COMMAND_BUFFER,
    WRAPPED_VULKAN_DESCRIPTOR_POOL,
    WRAPPED_VULKAN_DESCRIPTOR_SET,
    WRAPPED_VULKAN_DESCRIPTOR_SET_LAYOUT,
    WRAPPED_VULKAN_PIPELINE_LAYOUT,
    WRAPPED_VULKAN_PIPELINE_CACHE,
    WRAPPED_VULKAN_SHADER_MODULE,
    WRAPPED_VULKAN_PIPELINE,
    WRAPPED_VULKAN_KIND_COUNT,
} wrapped_vulkan_kind;

// Commands are counted when they are recorded, whether or not they are submitted.
typedef struct wrapped_vulkan_counts {
    struct {
        const char *name;
        unsigned count;
    } calls[WRAPPED_CALL_CAPACITY];  // wrapped_vulkan_calls()
    unsigned with_allocator;         // objects created with an allocator of the caller's
    unsigned with_cache;             // pipelines created with a pipeline cache
    unsigned dispatches, barriers, submits;
    // Copies and updates of more than WRAPPED_SAMPLE_BYTES, in bytes and in calls. Smaller ones are
    // how the library learns that work was done.
    unsigned copies;        // vkCmdCopyBuffer
    uint64_t staged_bytes;  // of any size, within DEVICE_LOCAL memory, but from and to a buffer of
                            // WRAPPED_SLOTS_BYTES, the library's own
    uint64_t uploaded_bytes;   // by vkCmdCopyBuffer to DEVICE_LOCAL memory from other memory,
    uint64_t read_back_bytes;  // the other way,
    uint64_t copied_bytes;     // and between memory of one sort
    uint64_t updated_bytes;    // by vkCmdUpdateBuffer
    unsigned flushed_ranges, invalidated_ranges;
    uint64_t flushed_bytes, invalidated_bytes;
    unsigned allocations[WRAPPED_TYPE_CAPACITY];  // by memory type, as shown
    unsigned maps[WRAPPED_TYPE_CAPACITY];
    uint64_t most_memory_bytes;  // allocated at a time
    unsigned short_waits;        // vkWaitForFences that would give up after a time
    unsigned most_in_flight;     // submissions that nobody had waited for, at a time
} wrapped_vulkan_counts;

enum {
    WRAPPED_RANGE_CAPACITY = 32,
    WRAPPED_PENDING_CAPACITY = 64,
    WRAPPED_SUBMISSION_CAPACITY = 4,
};

// Commands that were submitted and not yet waited for.
typedef struct wrapped_submission {
    VkQueue queue;
    VkFence fence;
    VkCommandBuffer commands[WRAPPED_SUBMISSION_CAPACITY];
    uint32_t count;
    bool is_deferred, is_lost;
} wrapped_submission;

typedef struct wrapped_range {
    uint64_t buffer, begin, end;
} wrapped_range;

typedef struct wrapped_vulkan {
    // What the device shows, and the wrapper then holds to. 0: what the driver says.
    wrapped_layout layout;
    uint32_t api_version;   // of loader and device. VK_API_VERSION_1_0: nothing newer is found
    bool finds_newer;       // it is found, and a newer device; but to call it is wrong
    bool hides_extensions;  // all of them
    uint32_t max_storage_buffer_range;
    uint32_t max_groups;        // each of maxComputeWorkGroupCount
    uint32_t offset_alignment;  // minStorageBufferOffsetAlignment
    uint64_t max_allocation;    // maxMemoryAllocationSize
    bool accelerates_dots;      // of packed bytes
    bool is_least;              // no features, and no more than Vulkan 1.0 asks of every device

    wrapped_validation validation;  // the layer is switched on in each instance

    // Asked before each call that returns a VkResult: its name and its number among the calls of
    // that name, from 1. What is not VK_SUCCESS is the call's answer; the driver isn't called.
    VkResult (*fail)(void *user, const char *call, unsigned number);
    void *fail_user;

    // A faulty driver. spoil may change the code of a kernel's module before the driver gets it;
    // dispatches of kernels whose names start with lost_kernels are not done. NULL: none.
    void (*spoil)(void *user, const char *kernel, uint32_t *words, size_t count);
    void *spoil_user;
    const char *lost_kernels;

    // Asked before each command that writes memory, when it is recorded, and before vkQueueSubmit,
    // with its name: true, and it is not done, though all calls succeed. NULL: none is lost.
    bool (*loses)(void *user, const char *call);
    void *loses_user;

    // Asked for each function that is looked up: true, and it isn't found.
    bool (*lacks)(void *user, const char *name);
    void *lacks_user;

    // A driver that begins a submission only when it is waited for.
    bool defers;

    // The driver's instance, device and pipelines are made once, and serve whoever opens one next:
    // compiling takes longer than all else. Objects are counted as without.
    bool keeps;

    bool aborts;  // the program ends with the first violation or message

    // What was seen. wrapped_vulkan_reset() sets the counts to 0.
    wrapped_vulkan_counts counts;
    int live[WRAPPED_VULKAN_KIND_COUNT];  // created and not yet destroyed
    uint64_t memory_bytes;                // of live memory
    unsigned violations;                  // of Vulkan's rules. Each is printed, the first kept
    char violation[256];
    unsigned messages;  // of the validation layer, warnings and errors. Each is printed

    struct wrapped_vulkan_object *objects;
    bool is_creating_device;
    VkPhysicalDeviceLimits limits;  // as shown, of the device created last
    VkPhysicalDeviceMemoryProperties real_memory;
    uint32_t real_type[WRAPPED_TYPE_CAPACITY];  // behind each type shown
    // Whether there are writes of [shaders, transfers] that no barrier has made visible to
    // [shaders, transfers, the host].
    bool is_hidden[2][3];
    // What transfers wrote since, which other transfers may neither read nor write.
    wrapped_range written[WRAPPED_RANGE_CAPACITY];
    size_t written_count;
    wrapped_submission pending[WRAPPED_PENDING_CAPACITY];  // the oldest first
    size_t pending_count;
} wrapped_vulkan;

extern const char *const wrapped_layout_names[WRAPPED_LAYOUT_COUNT];

// Both find the functions that are wrapped, and no others, so that none escapes the counting. NULL,
// also from the lookup, where there is no Vulkan loader.
PFN_vkGetInstanceProcAddr wrapped_vulkan_get(wrapped_vulkan *wrapped);
kq_lookup wrapped_vulkan_lookup(wrapped_vulkan *wrapped);

// The loader's own; NULL where there is none.
PFN_vkGetInstanceProcAddr wrapped_vulkan_direct(void);

// Whether the validation layer is installed, and what a test's argument asks of it: --validate or
// --validate=gpu.
bool wrapped_vulkan_has_validation(void);
wrapped_validation wrapped_vulkan_validation(const char *argument);

void wrapped_vulkan_reset(wrapped_vulkan *wrapped);

// Calls of a function, the failed ones too.
unsigned wrapped_vulkan_calls(const wrapped_vulkan *wrapped, const char *name);

// Dispatches of the kernels whose names in kq_kernels() start with `prefix`.
unsigned wrapped_vulkan_dispatches(const wrapped_vulkan *wrapped, const char *prefix);

// Whether a pipeline is made of the kernel of that name.
bool wrapped_vulkan_is_kernel(const wrapped_vulkan *wrapped, uint64_t pipeline, const char *name);

// How many kernels a pack compiles for the ops of kq_vulkan_params, without features; 0 is all.
unsigned wrapped_vulkan_kernels(uint32_t ops);

// Live objects of all kinds.
int wrapped_vulkan_live(const wrapped_vulkan *wrapped);

#endif
