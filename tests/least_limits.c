// usage: least_limits LEAST
//
// The least device refuses what Vulkan 1.0 doesn't promise: each call here ends a process, with
// words that say why. The same calls within the limits don't.
#define VK_NO_PROTOTYPES
#define _GNU_SOURCE
#include <vulkan/vulkan_core.h>
#include <kquant/vulkan.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static PFN_vkGetInstanceProcAddr get;

typedef struct least {
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
} least;

#define CALL(l, name, ...) ((PFN_##name)get((l)->instance, #name))(__VA_ARGS__)

// What can't go wrong without the test being wrong.
static void must(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "least_limits: %s\n", what);
        _exit(3);
    }
}

// --- The device, and things on it

static void create_device(least *l, const VkPhysicalDeviceFeatures *features, uint32_t extensions)
{
    static const char *const names[] = {VK_KHR_MAINTENANCE_1_EXTENSION_NAME};
    VkResult result = CALL(l, vkCreateDevice, l->physical_device,
                           &(VkDeviceCreateInfo){
                               .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos =
                                   &(VkDeviceQueueCreateInfo){
                                       .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                       .queueCount = 1,
                                       .pQueuePriorities = (float[]){1},
                                   },
                               .enabledExtensionCount = extensions,
                               .ppEnabledExtensionNames = names,
                               .pEnabledFeatures = features,
                           },
                           NULL, &l->device);
    must(result == VK_SUCCESS || extensions > 0, "no device");
    if (result == VK_ERROR_EXTENSION_NOT_PRESENT) {
        fprintf(stderr, "no such extension\n");
        abort();
    }
}

static least begin(bool with_device)
{
    least l = {0};
    uint32_t count = 1;
    must(CALL(&l, vkCreateInstance,
              &(VkInstanceCreateInfo){.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO}, NULL,
              &l.instance) == VK_SUCCESS,
         "no instance");
    must(CALL(&l, vkEnumeratePhysicalDevices, l.instance, &count, &l.physical_device) >= 0,
         "no devices");
    if (with_device) {
        create_device(&l, NULL, 0);
    }
    return l;
}

static VkDescriptorSetLayout set_layout(const least *l, uint32_t buffers)
{
    VkDescriptorSetLayout layout = VK_NULL_HANDLE;
    VkDescriptorSetLayoutBinding bindings[8] = {{0}};
    for (uint32_t i = 0; i < buffers; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                     VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    }
    must(CALL(l, vkCreateDescriptorSetLayout, l->device,
              &(VkDescriptorSetLayoutCreateInfo){
                  .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                  .bindingCount = buffers,
                  .pBindings = bindings,
              },
              NULL, &layout) == VK_SUCCESS,
         "no set layout");
    return layout;
}

// n: storage buffers, bytes of push constants.
static void pipeline_layout(const uint32_t *n)
{
    least l = begin(true);
    VkDescriptorSetLayout set = set_layout(&l, n[0]);
    VkPipelineLayout layout = VK_NULL_HANDLE;
    CALL(&l, vkCreatePipelineLayout, l.device,
         &(VkPipelineLayoutCreateInfo){
             .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
             .setLayoutCount = 1,
             .pSetLayouts = &set,
             .pushConstantRangeCount = 1,
             .pPushConstantRanges = &(VkPushConstantRange){VK_SHADER_STAGE_COMPUTE_BIT, 0, n[1]},
         },
         NULL, &layout);
}

static VkBuffer make_buffer(const least *l, uint64_t bytes, VkBufferUsageFlags usage)
{
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkMemoryRequirements needs;
    must(CALL(l, vkCreateBuffer, l->device,
              &(VkBufferCreateInfo){
                  .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = usage},
              NULL, &buffer) == VK_SUCCESS,
         "no buffer");
    CALL(l, vkGetBufferMemoryRequirements, l->device, buffer, &needs);
    must(CALL(l, vkAllocateMemory, l->device,
              &(VkMemoryAllocateInfo){.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                      .allocationSize = needs.size},
              NULL, &memory) == VK_SUCCESS,
         "no memory");
    must(CALL(l, vkBindBufferMemory, l->device, buffer, memory, 0) == VK_SUCCESS, "not bound");
    return buffer;
}

static VkDescriptorSet make_set(const least *l, VkDescriptorSetLayout layout)
{
    VkDescriptorPool pool = VK_NULL_HANDLE;
    VkDescriptorSet set = VK_NULL_HANDLE;
    CALL(l, vkCreateDescriptorPool, l->device,
         &(VkDescriptorPoolCreateInfo){
             .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
             .maxSets = 1,
             .poolSizeCount = 1,
             .pPoolSizes = &(VkDescriptorPoolSize){VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4},
         },
         NULL, &pool);
    must(CALL(l, vkAllocateDescriptorSets, l->device,
              &(VkDescriptorSetAllocateInfo){
                  .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                  .descriptorPool = pool,
                  .descriptorSetCount = 1,
                  .pSetLayouts = &layout,
              },
              &set) == VK_SUCCESS,
         "no set");
    return set;
}

// n: offset, range.
static void bind(const uint32_t *n)
{
    least l = begin(true);
    VkBuffer buffer = make_buffer(&l, (1u << 27) + 4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    CALL(&l, vkUpdateDescriptorSets, l.device, 1,
         &(VkWriteDescriptorSet){
             .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
             .dstSet = make_set(&l, set_layout(&l, 4)),
             .descriptorCount = 1,
             .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
             .pBufferInfo = &(VkDescriptorBufferInfo){buffer, n[0], n[1]},
         },
         0, NULL);
}

// --- Modules: a kernel of kquant's, with other numbers in it

enum { OP_EXECUTION_MODE = 16, OP_TYPE_INT = 21, OP_CONSTANT = 43, MODE_LOCAL_SIZE = 17 };

static void change_constants(uint32_t *words, size_t count, uint32_t old, uint32_t value)
{
    uint32_t type = 0;  // uint
    for (size_t at = 5; at < count; at += words[at] >> 16) {
        uint32_t opcode = words[at] & 0xFFFF;
        if (opcode == OP_TYPE_INT && words[at + 3] == 0) {
            type = words[at + 1];
        } else if (opcode == OP_CONSTANT && words[at + 1] == type && words[at + 3] == old) {
            words[at + 3] = value;
        }
    }
}

static void change_local_size(uint32_t *words, size_t count, uint32_t value)
{
    for (size_t at = 5; at < count; at += words[at] >> 16) {
        if ((words[at] & 0xFFFF) == OP_EXECUTION_MODE && words[at + 2] == MODE_LOCAL_SIZE) {
            words[at + 3] = value;
        }
    }
}

// The kernel's local size is 64, in a mode and in a constant. It shares an array of 73 words. n:
// what to put for the mode, the constant 64, the constant 73.
static void make_module(const uint32_t *n)
{
    least l = begin(true);
    size_t kernel_count = 0;
    const kq_kernel *kernels = kq_kernels(&kernel_count), *kernel = NULL;
    for (size_t k = 0; k < kernel_count; k++) {
        if (kernels[k].api == KQ_API_VULKAN &&
            strcmp(kernels[k].name, "quantized_dot_terms_shared.base") == 0) {
            kernel = &kernels[k];
        }
    }
    must(kernel != NULL, "no kernel with shared memory");
    size_t count = kernel->spirv_bytes / 4;
    uint32_t *words = malloc(kernel->spirv_bytes);
    must(words != NULL, "no memory");
    memcpy(words, kernel->spirv, kernel->spirv_bytes);
    change_local_size(words, count, n[0]);
    change_constants(words, count, 64, n[1]);
    change_constants(words, count, 73, n[2]);
    VkShaderModule module = VK_NULL_HANDLE;
    CALL(&l, vkCreateShaderModule, l.device,
         &(VkShaderModuleCreateInfo){
             .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
             .codeSize = kernel->spirv_bytes,
             .pCode = words,
         },
         NULL, &module);
}

// --- Commands

// n: workgroups of one more dispatch behind the self-test's, and whether a barrier is between.
// Nothing is submitted.
static void dispatch(const uint32_t *n)
{
    least l = begin(true);
    kq_vulkan *pack = NULL;
    must(kq_vulkan_create(
             &(kq_vulkan_params){
                 .get_instance_proc_addr = get,
                 .instance = l.instance,
                 .physical_device = l.physical_device,
                 .device = l.device,
             },
             &pack) == KQ_OK,
         "no pack");
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    CALL(&l, vkCreateCommandPool, l.device,
         &(VkCommandPoolCreateInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO}, NULL,
         &pool);
    CALL(&l, vkAllocateCommandBuffers, l.device,
         &(VkCommandBufferAllocateInfo){
             .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
             .commandPool = pool,
             .commandBufferCount = 1,
         },
         &commands);
    CALL(&l, vkBeginCommandBuffer, commands,
         &(VkCommandBufferBeginInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO});
    VkDescriptorSet set = make_set(&l, kq_vulkan_set_layout(pack));
    kq_vulkan_range range = {
        make_buffer(&l, KQ_SELF_TEST_BYTES, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT), KQ_SELF_TEST_BYTES,
        0};
    must(kq_vulkan_self_test_write_set(pack, &range, set) == KQ_OK &&
             kq_vulkan_self_test_record(pack, &range, set, commands) == KQ_OK,
         "no self-test");
    if (n[1] != 0) {
        CALL(&l, vkCmdPipelineBarrier, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
             VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
             &(VkMemoryBarrier){
                 .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                 .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                 .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
             },
             0, NULL, 0, NULL);
    }
    // All that it has bound is bound still.
    CALL(&l, vkCmdDispatch, commands, n[0], 1, 1);
    CALL(&l, vkEndCommandBuffer, commands);
}

// --- What has no numbers

static void features(const uint32_t *n)
{
    (void)n;
    least l = begin(false);
    VkPhysicalDeviceFeatures shown;
    CALL(&l, vkGetPhysicalDeviceFeatures, l.physical_device, &shown);
    must(!shown.robustBufferAccess, "a feature is shown");
    create_device(&l, &(VkPhysicalDeviceFeatures){.robustBufferAccess = VK_TRUE}, 0);
}

static void extensions(const uint32_t *n)
{
    (void)n;
    least l = begin(false);
    uint32_t count = 7;
    CALL(&l, vkEnumerateDeviceExtensionProperties, l.physical_device, NULL, &count, NULL);
    must(count == 0, "an extension is shown");
    create_device(&l, NULL, 1);
}

// Nothing that the wrapper knows: the validation layer has to.
static void no_usage(const uint32_t *n)
{
    (void)n;
    least l = begin(true);
    make_buffer(&l, 16, 0);
}

static const struct {
    const char *name;
    void (*call)(const uint32_t *n);
    uint32_t n[3];
    const char *words;  // NULL: it does nothing wrong
} tries[] = {
    {"4 buffers, 128 bytes of push constants", pipeline_layout, {4, 128}, NULL},
    {"5 buffers", pipeline_layout, {5, 128}, "5 storage buffers"},
    {"132 bytes of push constants", pipeline_layout, {4, 132}, "132 bytes of push constants"},
    {"2^27 bytes at 256", bind, {256, 1u << 27}, NULL},
    {"an offset of 128", bind, {128, 4}, "4 bytes at offset 128"},
    {"2^27 + 4 bytes", bind, {0, (1u << 27) + 4}, "134217732 bytes at offset 0"},
    {"a kernel", make_module, {64, 64, 73}, NULL},
    {"128 invocations", make_module, {128, 128, 73}, NULL},
    {"129 invocations", make_module, {129, 64, 73}, "local size 129, 1, 1"},
    {"129 invocations, by a constant", make_module, {64, 129, 73}, "local size 129, 1, 1"},
    {"16384 shared bytes", make_module, {64, 64, 4096}, NULL},
    {"16388 shared bytes", make_module, {64, 64, 4097}, "16388 bytes of shared memory"},
    {"65535 workgroups", dispatch, {65535, 1}, NULL},
    {"65536 workgroups", dispatch, {65536, 1}, "vkCmdDispatch of 65536, 1, 1 workgroups"},
    {"no barrier", dispatch, {1, 0}, "validation: "},
    {"a feature", features, {0}, "features or extensions"},
    {"an extension", extensions, {0}, "no such extension"},
    {"a buffer for nothing", no_usage, {0}, "validation: "},
};

// Whether a process of its own ended as it should.
static bool is_right(size_t k)
{
    int ends[2];
    char said[16384];
    size_t count = 0;
    must(pipe(ends) == 0, "no pipe");
    pid_t child = fork();
    must(child >= 0, "no process");
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        tries[k].call(tries[k].n);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], said + count, sizeof said - 1 - count)) > 0;) {
        count += (size_t)n;
    }
    said[count] = '\0';
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    bool is_good = tries[k].words == NULL
                       ? WIFEXITED(status) && WEXITSTATUS(status) == 0 && count == 0
                       : WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                             strstr(said, tries[k].words) != NULL;
    printf("%s  %s%s%s\n", is_good ? "ok    " : "WRONG ", tries[k].name, is_good ? "" : ": ",
           is_good ? "" : said);
    return is_good;
}

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library != NULL ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    memcpy(&get, &symbol, sizeof get);
    if (get == NULL) {
        fprintf(stderr, "least_limits: %s\n", argc == 2 ? dlerror() : "usage: least_limits LEAST");
        return 2;
    }
    int wrong = 0;
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        wrong += !is_right(k);
    }
    return wrong > 0;
}
