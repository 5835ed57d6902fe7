// Level 3 on a Vulkan device of which every call fails once, with each code that it may give: the
// result and one report that say so, nothing left, no wrong bytes, and the device works on. The
// same of the library's own allocations, there and on the reference. And a driver that loses a
// command or a submission without a word.
//
// Runs on device 0 of the Vulkan drivers that the environment shows. Exits with 77 where there is
// none.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "vulkan_faults.h"
#include "faulty_heap.h"
#include "vulkan_own.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const wrapped_layout failing_layouts[] = {WRAPPED_LAYOUT_UNIFIED_NONCOHERENT,
                                                 WRAPPED_LAYOUT_DISCRETE_NONCOHERENT};

enum { LAYOUTS = sizeof failing_layouts / sizeof *failing_layouts };

static work the_work;

static void show(fixture *f, wrapped_layout layout)
{
    memset(f, 0, sizeof *f);
    f->work = WORK_OF_DEVICE;
    f->wrapped.layout = layout;
    f->wrapped.max_allocation = WORK_SEGMENT;
    f->wrapped.keeps = true;
}

// Lists devices and opens one.
static kq_result open_all(fixture *f, const char **call)
{
    kq_device_info infos[4];
    uint32_t count = 4;
    const kq_lookup lookup = wrapped_vulkan_lookup(&f->wrapped);
    *call = "kq_list_devices";
    kq_result result = kq_list_devices(&lookup, infos, &count);
    if (result == KQ_OK) {
        *call = "kq_device_create";
        result = try_to_open(f);
        assert_true((f->device != NULL) == (result == KQ_OK));
    }
    return result;
}

static bool has_report(const fixture *f, kq_result result, const char *call, VkResult code)
{
    char number[16];
    snprintf(number, sizeof number, "(%d)", (int)code);
    return f->report.count == 1 && f->report.result == result &&
           strstr(f->report.reason, call) != NULL && strstr(f->report.reason, number) != NULL;
}

// What is wrong with how the failure of one call was taken; NULL: nothing.
static const char *judge(const fixture *f, const faults_hook *hook, const char *call,
                         kq_result result)
{
    bool is_listing = strcmp(call, "kq_list_devices") == 0;
    kq_result wanted = faults_result_of(hook->code);
    if (hook->failed == NULL) {
        return "the call didn't come";
    }
    if (strcmp(hook->failed, "vkCreateInstance") == 0 &&
        hook->code == VK_ERROR_INCOMPATIBLE_DRIVER) {
        // There is no device then.
        return result == KQ_OK || (result == KQ_ERROR_NO_DEVICE && f->report.count == 1)
                   ? NULL
                   : "the wrong result";
    }
    return result != wanted                                   ? "the wrong result"
           : is_listing                                       ? NULL  // has nobody to tell
           : !has_report(f, wanted, hook->failed, hook->code) ? "not one report of call and code"
           : !work_is_right_or_poison(&the_work)              ? "bytes that were never right"
                                                              : NULL;
}

// After a failure the device works on, unless it is lost: then all that needs it fails.
static const char *judge_next(fixture *f, faults_hook *hook)
{
    const char *call = NULL;
    bool is_lost = hook->code == VK_ERROR_DEVICE_LOST;
    memset(&f->report, 0, sizeof f->report);
    kq_result result = work_run(&the_work, f->device, &call);
    if (is_lost) {
        return result == KQ_ERROR_DRIVER && f->report.count == 1 ? NULL
                                                                 : "a lost device that works";
    }
    return result != KQ_OK             ? "the next call fails"
           : !work_is_right(&the_work) ? "the next call gives wrong bytes"
                                       : NULL;
}

static const char *judge_end(const fixture *f, long live_blocks)
{
    return wrapped_vulkan_live(&f->wrapped) != 0 ? "Vulkan objects are left"
           : f->wrapped.violations != 0          ? f->wrapped.violation
           : heap.live != live_blocks            ? "allocations are left"
                                                 : NULL;
}

static bool tell(const char *wrong, const faults_hook *hook, const char *call, kq_result result,
                 const fixture *f)
{
    if (wrong != NULL) {
        print_error("call %u, %s, gives %d: %s: %s, %u reports, the last \"%s\": %s\n",
                    hook->number, hook->failed != NULL ? hook->failed : "?", (int)hook->code, call,
                    kq_result_name(result), f->report.count, f->report.reason, wrong);
    }
    return wrong == NULL;
}

static bool survives(wrapped_layout layout, faults_hook *hook)
{
    static fixture f;
    const char *call = "";
    long live_blocks = heap.live;
    show(&f, layout);
    f.wrapped.fail = faults_fail;
    f.wrapped.fail_user = hook;
    memset(&the_work.got, POISON, sizeof the_work.got);
    kq_result result = open_all(&f, &call);
    result = result != KQ_OK ? result : work_run(&the_work, f.device, &call);
    const char *wrong = hook->number > 0            ? judge(&f, hook, call, result)
                        : result != KQ_OK           ? "fails without a fault"
                        : !work_is_right(&the_work) ? "wrong bytes without a fault"
                                                    : NULL;
    bool is_right = tell(wrong, hook, call, result, &f);
    if (is_right && hook->failed != NULL && f.device != NULL) {
        is_right = tell(judge_next(&f, hook), hook, call, result, &f);
    }
    kq_device_destroy(&f.device);
    return tell(judge_end(&f, live_blocks), hook, call, result, &f) && is_right;
}

static faults_hook clean;  // the names of all calls

static void test_each_call(void **state)
{
    faults_tally tally = {0};
    (void)state;
    for (int layout = 0; layout < LAYOUTS; layout++) {
        memset(&clean, 0, sizeof clean);
        assert_true(survives(failing_layouts[layout], &clean));
        for (unsigned number = 1; number <= clean.seen; number++) {
            size_t count = 0;
            const VkResult *codes = faults_codes(clean.names[number - 1], &count);
            // Each code of each call in one layout; in the other they take turns.
            size_t step = layout == 0 ? count : 1;
            for (size_t i = layout == 0 ? number % count : 0; i < count; i += step) {
                static faults_hook hook;
                memset(&hook, 0, sizeof hook);
                hook.number = number;
                hook.code = codes[i];
                tally.made++;
                tally.survived += survives(failing_layouts[layout], &hook);
            }
        }
    }
    faults_print("vulkan level 3, each code of each call", tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 1000);
}

// --- Functions that aren't there

typedef struct lacking {
    const char *name;
    unsigned count;
    char names[100][64];
} lacking;

// Learns the names, or lacks one.
static bool lack(void *user, const char *name)
{
    lacking *l = user;
    bool is_known = false;
    for (unsigned i = 0; i < l->count; i++) {
        is_known |= strcmp(l->names[i], name) == 0;
    }
    if (!is_known) {
        assert_true(l->count < sizeof l->names / sizeof *l->names);
        snprintf(l->names[l->count++], sizeof *l->names, "%s", name);
    }
    return l->name != NULL && strcmp(l->name, name) == 0;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0) {
        names++;
    }
    return *names != NULL;
}

// What a loader of 1.0 lacks is no fault, and one without vkCreateInstance is none. Without one of
// the last two a thing that was made can't be destroyed.
static bool survives_lack(lacking *l)
{
    static const char *const newer[] = {"vkEnumerateInstanceVersion",
                                        "vkGetPhysicalDeviceProperties2",
                                        "vkEnumerateInstanceExtensionProperties", NULL};
    static const char *const first[] = {"vkCreateInstance", NULL};
    static const char *const destroying[] = {"vkDestroyInstance", "vkDestroyDevice", NULL};
    static fixture f;
    long live_blocks = heap.live;
    show(&f, WRAPPED_LAYOUT_DISCRETE_NONCOHERENT);
    f.wrapped.max_allocation = 0;  // which 1.0 can't tell
    f.wrapped.lacks = lack;
    f.wrapped.lacks_user = l;
    kq_result result = try_to_open(&f);
    f.wrapped.lacks = NULL;
    kq_result wanted = l->name == NULL || is_one_of(l->name, newer) ? KQ_OK
                       : is_one_of(l->name, first)                  ? KQ_ERROR_NO_DEVICE
                                                                    : KQ_ERROR_DRIVER;
    bool is_named = wanted != KQ_ERROR_DRIVER ||
                    (f.report.count == 1 && strstr(f.report.reason, l->name) != NULL);
    kq_device_destroy(&f.device);
    bool is_left = heap.live != live_blocks || wrapped_vulkan_live(&f.wrapped) != 0;
    bool is_right = result == wanted && is_named && f.report.count == (result != KQ_OK) &&
                    (!is_left || is_one_of(l->name, destroying)) && f.wrapped.violations == 0;
    if (!is_right) {
        print_error("without %s: %s, %u reports, the last \"%s\"%s\n", l->name,
                    kq_result_name(result), f.report.count, f.report.reason,
                    is_left ? ", and something is left" : "");
    }
    return is_right;
}

static void test_each_function(void **state)
{
    static lacking names;
    static lacking l;
    faults_tally tally = {0};
    (void)state;
    assert_true(survives_lack(&names));
    for (unsigned i = 0; i < names.count; i++) {
        l.name = names.names[i];
        l.count = 0;
        tally.made++;
        tally.survived += survives_lack(&l);
    }
    faults_print("vulkan level 3, each function missing", tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 50);
}

// --- Allocations

static bool survives_heap(unsigned number, wrapped_layout layout, bool is_reference,
                          unsigned *calls)
{
    static fixture f;
    const char *call = "";
    const char *wrong = NULL;
    long live_blocks = heap.live;
    show(&f, layout);
    faulty_heap_set(number);
    kq_result result = KQ_OK;
    if (is_reference) {
        call = "kq_device_create";
        result = kq_device_create(&(kq_device_params){.device = "reference",
                                                      .work = WORK_OF_DEVICE,
                                                      .errors = report_errors(&f.report)},
                                  &f.device);
    } else {
        result = open_all(&f, &call);
    }
    result = result != KQ_OK ? result : work_run(&the_work, f.device, &call);
    unsigned failed = heap.failed;
    *calls = heap.calls;
    faulty_heap_set(0);
    bool is_told = strcmp(call, "kq_list_devices") == 0 ||
                   (f.report.count == 1 && f.report.result == KQ_ERROR_MEMORY &&
                    strstr(f.report.reason, "host memory") != NULL);
    if (number == 0) {
        wrong = result != KQ_OK || !work_is_right(&the_work) ? "fails without a fault" : NULL;
    } else if (failed != 1) {
        wrong = "the allocation didn't come";
    } else if (result == KQ_OK) {
        wrong = "goes well without the allocation";
    } else if (result != KQ_ERROR_MEMORY || !is_told) {
        wrong = "not KQ_ERROR_MEMORY, told once";
    } else if (f.device != NULL &&
               (work_run(&the_work, f.device, &call) != KQ_OK || !work_is_right(&the_work))) {
        wrong = "the next call fails";
    }
    kq_device_destroy(&f.device);
    wrong = wrong != NULL ? wrong : is_reference ? NULL : judge_end(&f, live_blocks);
    wrong = wrong != NULL ? wrong : heap.live != live_blocks ? "allocations are left" : NULL;
    if (wrong != NULL) {
        print_error("allocation %u: %s: %s, %u reports, the last \"%s\": %s\n", number, call,
                    kq_result_name(result), f.report.count, f.report.reason, wrong);
    }
    return wrong == NULL;
}

static void check_heap(const char *what, wrapped_layout layout, bool is_reference)
{
    faults_tally tally = {0};
    unsigned calls = 0;
    unsigned ignored = 0;
    assert_true(survives_heap(0, layout, is_reference, &calls));
    for (unsigned number = 1; number <= calls; number++) {
        tally.made++;
        tally.survived += survives_heap(number, layout, is_reference, &ignored);
    }
    faults_print(what, tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 15);
}

static void test_each_allocation(void **state)
{
    (void)state;
    check_heap("reference level 3, each allocation", WRAPPED_LAYOUT_OF_DRIVER, true);
    check_heap("vulkan level 3, each allocation", WRAPPED_LAYOUT_DISCRETE_NONCOHERENT, false);
}

// --- Work that is lost

// Nothing may end well with wrong bytes.
static bool survives_loss(wrapped_layout layout, faults_loss *loss)
{
    static fixture f;
    const char *call = "";
    long live_blocks = heap.live;
    show(&f, layout);
    assert_int_equal(open_all(&f, &call), KQ_OK);
    // What was there before is right, so that what is stale shows in the bytes alone where the
    // driver doesn't say so.
    f.wrapped.loses = faults_lose;
    f.wrapped.loses_user = loss;
    kq_result result = work_run(&the_work, f.device, &call);
    bool is_lost = loss->number > 0;
    bool is_right = work_is_right(&the_work);
    const char *wrong = is_lost && loss->seen < loss->number     ? "the command didn't come"
                        : result == KQ_OK && !is_right           ? "wrong bytes"
                        : result == KQ_OK && f.report.count != 0 ? "a report of what went well"
                        : result != KQ_OK && !is_lost            ? "fails without a fault"
                        : result != KQ_OK && (result != KQ_ERROR_DRIVER || f.report.count != 1)
                            ? "the wrong result"
                            : NULL;
    if (wrong == NULL && is_lost) {
        f.wrapped.loses = NULL;
        memset(&f.report, 0, sizeof f.report);
        wrong = work_run(&the_work, f.device, &call) != KQ_OK || !work_is_right(&the_work)
                    ? "the next call fails"
                    : NULL;
    }
    kq_device_destroy(&f.device);
    wrong = wrong != NULL ? wrong : judge_end(&f, live_blocks);
    if (wrong != NULL) {
        print_error("%s: %s %u is lost: %s: %s, %u reports, the last \"%s\": %s\n",
                    wrapped_layout_names[layout], loss->call, loss->number, call,
                    kq_result_name(result), f.report.count, f.report.reason, wrong);
    }
    return wrong == NULL;
}

static void check_losses(const char *call, const char *what)
{
    faults_tally tally = {0};
    for (int layout = 0; layout < LAYOUTS; layout++) {
        faults_loss none = {.call = call};
        assert_true(survives_loss(failing_layouts[layout], &none));
        for (unsigned number = 1; number <= none.seen; number++) {
            faults_loss loss = {.call = call, .number = number};
            tally.made++;
            tally.survived += survives_loss(failing_layouts[layout], &loss);
        }
    }
    faults_print(what, tally);
    assert_int_equal(tally.made, tally.survived);
    assert_true(tally.made > 10);
}

static void test_each_dispatch_lost(void **state)
{
    (void)state;
    check_losses("vkCmdDispatch", "vulkan level 3, each dispatch lost");
}

static void test_each_transfer_lost(void **state)
{
    (void)state;
    check_losses("vkCmdCopyBuffer", "vulkan level 3, each copy lost");
    check_losses("vkCmdUpdateBuffer", "vulkan level 3, each update lost");
}

static void test_each_submission_lost(void **state)
{
    (void)state;
    check_losses("vkQueueSubmit", "vulkan level 3, each submission lost");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    if (!device_is_possible(WRAPPED_VALIDATION_NONE)) {
        return EXIT_SKIP;
    }
    work_prepare(&the_work);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call),          cmocka_unit_test(test_each_function),
        cmocka_unit_test(test_each_allocation),    cmocka_unit_test(test_each_dispatch_lost),
        cmocka_unit_test(test_each_transfer_lost), cmocka_unit_test(test_each_submission_lost),
    };
    int failed = cmocka_run_group_tests_name("vulkan_faults", tests, NULL, NULL);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
