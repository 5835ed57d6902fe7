// The wrapped driver's submissions, fences and waits.
#include "wrapped_vulkan_inside.h"

#include <pthread.h>
#include <stdlib.h>

#define HANDLE(handle) ((uint64_t)(uintptr_t)(handle))

// --- Submission: is every write visible to what follows?

enum { SHADERS, TRANSFERS, HOST };

static const struct {
    const char *name;
    VkPipelineStageFlags stage;
    VkAccessFlags write, read;
} users[] = {
    [SHADERS] = {"a shader", VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_ACCESS_SHADER_READ_BIT},
    [TRANSFERS] = {"a transfer", VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_ACCESS_TRANSFER_READ_BIT},
    [HOST] = {"the host", VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_WRITE_BIT,
              VK_ACCESS_HOST_READ_BIT},
};

static bool covers(VkPipelineStageFlags stages, VkPipelineStageFlags stage)
{
    // The host is none of "all commands".
    VkPipelineStageFlags all =
        stage == VK_PIPELINE_STAGE_HOST_BIT ? 0 : VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    return (stages & (stage | all)) != 0;
}

static void check_visible(int writer, int reader)
{
    if (wrapped.now->is_hidden[writer][reader]) {
        wrapped_violate("%s comes after %s without a barrier between them", users[reader].name,
                        users[writer].name);
        wrapped.now->is_hidden[writer][reader] = false;
    }
}

static void run_barrier(const wrapped_event *barrier)
{
    for (int writer = SHADERS; writer <= TRANSFERS; writer++) {
        bool is_source = covers(barrier->from_stages, users[writer].stage) &&
                         (barrier->from_access & users[writer].write) != 0;
        for (int reader = SHADERS; reader <= HOST; reader++) {
            if (is_source && covers(barrier->to_stages, users[reader].stage) &&
                (barrier->to_access & users[reader].read) != 0) {
                wrapped.now->is_hidden[writer][reader] = false;
                if (writer == TRANSFERS && reader == TRANSFERS) {
                    wrapped.now->written_count = 0;
                }
            }
        }
    }
}

// Transfers side by side need no barrier.
static void run_transfer(const wrapped_event *e)
{
    wrapped_vulkan *w = wrapped.now;
    wrapped_range *last = NULL;
    for (size_t i = 0; i < w->written_count; i++) {
        last = &w->written[i];
        const wrapped_range *touched[] = {&e->from, &e->to};
        for (int k = 0; k < 2; k++) {
            if (touched[k]->buffer == last->buffer && touched[k]->begin < last->end &&
                last->begin < touched[k]->end) {
                wrapped_violate("a transfer comes after one of the same bytes without a barrier");
            }
        }
    }
    if (last != NULL && last->buffer == e->to.buffer && last->end == e->to.begin) {
        last->end = e->to.end;
    } else if (w->written_count < WRAPPED_RANGE_CAPACITY) {
        w->written[w->written_count++] = e->to;
    } else {
        abort();
    }
}

static void run_events(const wrapped_vulkan_object *commands)
{
    for (size_t i = 0; i < commands->event_count; i++) {
        const wrapped_event *e = &commands->events[i];
        if (e->kind == WRAPPED_EVENT_BARRIER) {
            run_barrier(e);
            continue;
        }
        if (e->kind == WRAPPED_EVENT_EXECUTE) {
            if (e->commands != NULL) {
                run_events(e->commands);
            }
            continue;
        }
        int user = e->kind == WRAPPED_EVENT_DISPATCH ? SHADERS : TRANSFERS;
        check_visible(SHADERS, user);
        if (user == TRANSFERS) {
            run_transfer(e);
        } else {
            check_visible(TRANSFERS, user);
        }
        bool *hidden = wrapped.now->is_hidden[user];
        hidden[SHADERS] = true;
        hidden[TRANSFERS] = true;
        hidden[HOST] |= e->is_mapped;
    }
}

// --- What is pending: submitted, and not yet waited for

static bool event_uses(const wrapped_event *e, wrapped_vulkan_kind kind, uint64_t handle)
{
    if (kind == WRAPPED_VULKAN_DESCRIPTOR_SET) {
        return e->set == handle;
    }
    bool uses = e->from.buffer == handle || e->to.buffer == handle;
    for (int i = 0; i < 4; i++) {
        uses |= e->buffers[i] == handle;
    }
    return kind == WRAPPED_VULKAN_BUFFER && uses;
}

static bool commands_use(const wrapped_vulkan_object *commands, wrapped_vulkan_kind kind,
                         uint64_t handle)
{
    if (kind == WRAPPED_VULKAN_COMMAND_BUFFER && commands->handle == handle) {
        return true;
    }
    for (size_t i = 0; i < commands->event_count; i++) {
        const wrapped_event *e = &commands->events[i];
        if (e->kind == WRAPPED_EVENT_EXECUTE
                ? e->commands != NULL && commands_use(e->commands, kind, handle)
                : event_uses(e, kind, handle)) {
            return true;
        }
    }
    return false;
}

static bool submission_uses(const wrapped_submission *s, wrapped_vulkan_kind kind, uint64_t handle)
{
    bool uses = kind == WRAPPED_VULKAN_FENCE && (uint64_t)s->fence == handle;
    for (uint32_t k = 0; k < s->count; k++) {
        const wrapped_vulkan_object *commands =
            wrapped_find(WRAPPED_VULKAN_COMMAND_BUFFER, HANDLE(s->commands[k]));
        uses |= commands != NULL && commands_use(commands, kind, handle);
    }
    return uses;
}

// Of two devices that have a thread each.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Those of a queue, or of all if it is null, up to the last. The driver begins with them.
static VkResult pass_on(VkQueue queue, size_t end)
{
    VkResult result = VK_SUCCESS;
    for (size_t i = 0; i < end && result == VK_SUCCESS; i++) {
        wrapped_submission *s = &wrapped.now->pending[i];
        const VkSubmitInfo info = {
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
            .commandBufferCount = s->count,
            .pCommandBuffers = s->commands,
        };
        if (s->is_deferred && (queue == VK_NULL_HANDLE || s->queue == queue)) {
            result = wrapped.vkQueueSubmit(s->queue, s->is_lost ? 0 : 1, &info, s->fence);
            s->is_deferred = false;
        }
    }
    return result;
}

// They are done.
static void forget(VkQueue queue, size_t end)
{
    wrapped_vulkan *w = wrapped.now;
    size_t left = 0;
    for (size_t i = 0; i < w->pending_count; i++) {
        if (i >= end || (queue != VK_NULL_HANDLE && w->pending[i].queue != queue)) {
            w->pending[left++] = w->pending[i];
        }
    }
    w->pending_count = left;
}

static void finish_all(void)
{
    pass_on(VK_NULL_HANDLE, wrapped.now->pending_count);
    forget(VK_NULL_HANDLE, wrapped.now->pending_count);
    for (const wrapped_vulkan_object *o = wrapped.now->objects; o != NULL; o = o->next) {
        if (o->kind == WRAPPED_VULKAN_DEVICE) {
            wrapped.vkDeviceWaitIdle((VkDevice)(uintptr_t)o->handle);
        }
    }
}

void wrapped_check_idle(wrapped_vulkan_kind kind, uint64_t handle, const char *call)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; handle != 0 && i < wrapped.now->pending_count; i++) {
        if (submission_uses(&wrapped.now->pending[i], kind, handle)) {
            wrapped_violate("%s of what pending commands use, a %s", call,
                            wrapped_kind_names[kind]);
            finish_all();
        }
    }
    pthread_mutex_unlock(&lock);
}

static void remember(VkQueue queue, const VkSubmitInfo *info, VkFence fence)
{
    wrapped_vulkan *w = wrapped.now;
    if (w->pending_count == WRAPPED_PENDING_CAPACITY ||
        info->commandBufferCount > WRAPPED_SUBMISSION_CAPACITY) {
        abort();
    }
    wrapped_submission *s = &w->pending[w->pending_count++];
    *s = (wrapped_submission){
        .queue = queue,
        .fence = fence,
        .count = info->commandBufferCount,
        .is_deferred = w->defers,
    };
    memcpy(s->commands, info->pCommandBuffers, s->count * sizeof s->commands[0]);
    if (w->pending_count > w->counts.most_in_flight) {
        w->counts.most_in_flight = (unsigned)w->pending_count;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkQueueSubmit(VkQueue queue, uint32_t count,
                                                            const VkSubmitInfo *submits,
                                                            VkFence fence)
{
    VkResult result = wrapped_enter("vkQueueSubmit");
    if (result != VK_SUCCESS) {
        return result;
    }
    wrapped.now->counts.submits++;
    wrapped_check_idle(WRAPPED_VULKAN_FENCE, (uint64_t)fence, "vkQueueSubmit");
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < submits[i].commandBufferCount; k++) {
            const wrapped_vulkan_object *commands =
                wrapped_find(WRAPPED_VULKAN_COMMAND_BUFFER, HANDLE(submits[i].pCommandBuffers[k]));
            if (commands != NULL &&
                (commands->flags & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT) == 0) {
                wrapped_check_idle(WRAPPED_VULKAN_COMMAND_BUFFER, commands->handle,
                                   "vkQueueSubmit");
            }
        }
    }
    pthread_mutex_lock(&lock);
    bool is_lost = wrapped_loses("vkQueueSubmit");
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < submits[i].commandBufferCount; k++) {
            const wrapped_vulkan_object *commands =
                wrapped_find(WRAPPED_VULKAN_COMMAND_BUFFER, HANDLE(submits[i].pCommandBuffers[k]));
            if (commands != NULL) {
                run_events(commands);
            }
        }
        remember(queue, &submits[i], i + 1 == count ? fence : VK_NULL_HANDLE);
        wrapped.now->pending[wrapped.now->pending_count - 1].is_lost = is_lost;
    }
    // The host reads mapped memory when it likes, and a fence alone does not show it writes.
    check_visible(SHADERS, HOST);
    check_visible(TRANSFERS, HOST);
    pthread_mutex_unlock(&lock);
    return wrapped.now->defers ? VK_SUCCESS
           : is_lost           ? wrapped.vkQueueSubmit(queue, 0, NULL, fence)
                               : wrapped.vkQueueSubmit(queue, count, submits, fence);
}

// --- Fences and waits

// Submissions that are done once a fence is signaled: those of its queue up to the end.
typedef struct done {
    VkQueue queue;
    size_t end;
} done;

static done done_with(VkFence fence)
{
    done d = {VK_NULL_HANDLE, 0};
    for (size_t i = 0; i < wrapped.now->pending_count; i++) {
        if (wrapped.now->pending[i].fence == fence) {
            d = (done){wrapped.now->pending[i].queue, i + 1};
        }
    }
    return d;
}

static VkResult pass_on_before(uint32_t count, const VkFence *fences)
{
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&lock);
    for (uint32_t k = 0; k < count && result == VK_SUCCESS; k++) {
        done d = done_with(fences[k]);
        result = pass_on(d.queue, d.end);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void forget_before(uint32_t count, const VkFence *fences)
{
    pthread_mutex_lock(&lock);
    for (uint32_t k = 0; k < count; k++) {
        done d = done_with(fences[k]);
        forget(d.queue, d.end);
    }
    pthread_mutex_unlock(&lock);
}

// All of a queue, or of every device if it is null.
static void pass_on_and_forget(VkQueue queue)
{
    pthread_mutex_lock(&lock);
    pass_on(queue, wrapped.now->pending_count);
    forget(queue, wrapped.now->pending_count);
    pthread_mutex_unlock(&lock);
}

WRAPPED_CREATE(Fence, FENCE)
WRAPPED_DESTROY(Fence, FENCE)

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkResetFences(VkDevice device, uint32_t count,
                                                            const VkFence *fences)
{
    VkResult result = wrapped_enter("vkResetFences");
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        wrapped_check_idle(WRAPPED_VULKAN_FENCE, (uint64_t)fences[i], "vkResetFences");
    }
    return result != VK_SUCCESS ? result : wrapped.vkResetFences(device, count, fences);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkGetFenceStatus(VkDevice device, VkFence fence)
{
    VkResult result = wrapped_enter("vkGetFenceStatus");
    result = result != VK_SUCCESS ? result : pass_on_before(1, &fence);
    result = result != VK_SUCCESS ? result : wrapped.vkGetFenceStatus(device, fence);
    if (result == VK_SUCCESS) {
        forget_before(1, &fence);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkWaitForFences(VkDevice device, uint32_t count,
                                                              const VkFence *fences, VkBool32 all,
                                                              uint64_t timeout)
{
    VkResult result = wrapped_enter("vkWaitForFences");
    wrapped.now->counts.short_waits += timeout != UINT64_MAX;
    result = result != VK_SUCCESS ? result : pass_on_before(count, fences);
    result = result != VK_SUCCESS ? result
                                  : wrapped.vkWaitForFences(device, count, fences, all, timeout);
    if (result == VK_SUCCESS && (all || count == 1)) {
        forget_before(count, fences);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkDeviceWaitIdle(VkDevice device)
{
    // A device that is lost is idle: whatever is told, nothing is pending afterwards.
    VkResult told = wrapped_enter("vkDeviceWaitIdle");
    pass_on_and_forget(VK_NULL_HANDLE);
    VkResult result = wrapped.vkDeviceWaitIdle(device);
    return told != VK_SUCCESS ? told : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_vkQueueWaitIdle(VkQueue queue)
{
    VkResult result = wrapped_enter("vkQueueWaitIdle");
    if (result != VK_SUCCESS) {
        return result;
    }
    pass_on_and_forget(queue);
    return wrapped.vkQueueWaitIdle(queue);
}

const wrapped_entry wrapped_queue_entries[] = {
    WRAPPED_ENTRY(vkQueueSubmit),
    WRAPPED_ENTRY(vkCreateFence),
    WRAPPED_ENTRY(vkDestroyFence),
    WRAPPED_ENTRY(vkResetFences),
    WRAPPED_ENTRY(vkGetFenceStatus),
    WRAPPED_ENTRY(vkWaitForFences),
    WRAPPED_ENTRY(vkDeviceWaitIdle),
    WRAPPED_ENTRY(vkQueueWaitIdle),
    {NULL, NULL},
};
