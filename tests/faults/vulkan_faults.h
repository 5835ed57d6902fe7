// What tests that make every call fail share: which codes a Vulkan call may give, the n-th call
// that gives one, and the tally that becomes a row of tests/tables/faults.txt.
#ifndef KQ_VULKAN_FAULTS_H
#define KQ_VULKAN_FAULTS_H

#include "wrapped_vulkan.h"

#include <stddef.h>

// Those that the Vulkan specification lists for a call and that are failures of what the library
// asks for, and VK_ERROR_UNKNOWN; *count of them.
const VkResult *faults_codes(const char *call, size_t *count);

// What the library is to make of a code.
kq_result faults_result_of(VkResult code);

enum { FAULTS_CALL_CAPACITY = 4096 };

// The hook of wrapped_vulkan.fail. Call `number` of all gives the code; 0: none does, and the names
// are kept. A lost device stays lost.
typedef struct faults_hook {
    unsigned number;
    VkResult code;
    unsigned seen;
    const char *failed;  // the call that did, first
    const char *names[FAULTS_CALL_CAPACITY];
} faults_hook;

VkResult faults_fail(void *user, const char *call, unsigned number);

// The hook of wrapped_vulkan.loses: command `number` of that name is lost; 0: none.
typedef struct faults_loss {
    const char *call;
    unsigned number, seen;
} faults_loss;

bool faults_lose(void *user, const char *call);

// Prints `faults: WHAT: SURVIVED of MADE survived`, which tests/faults.sh collects.
typedef struct faults_tally {
    unsigned made, survived;
} faults_tally;

void faults_print(const char *what, faults_tally tally);

#endif
