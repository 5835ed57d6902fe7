// The self-test and the primitives of level 3.
#include "device.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

kq_result kq_self_test(kq_device *device, const char **step)
{
    unsigned char *bytes = NULL;
    kq_buffer *buffer = NULL;
    if (step != NULL) {
        *step = NULL;
    }
    kq_result result = kq_device_check_op(device, KQ_OP_SELF_TEST, "KQ_OP_SELF_TEST");
    result =
        result != KQ_OK ? result : kq_device_check_op(device, KQ_OP_QUANTIZE, "KQ_OP_QUANTIZE");
    result = result != KQ_OK
                 ? result
                 : kq_device_check_op(device, KQ_OP_QUANTIZED_DOT, "KQ_OP_QUANTIZED_DOT");
    result = result != KQ_OK ? result : kq_buffer_create(device, KQ_SELF_TEST_BYTES, &buffer);
    if (result == KQ_OK && (bytes = malloc(KQ_SELF_TEST_BYTES)) == NULL) {
        result = kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for the self-test");
    }
    if (result == KQ_OK) {
        kq_self_test_input(bytes);
        result = kq_buffer_upload(buffer, 0, bytes, KQ_SELF_TEST_BYTES);
    }
    result = result != KQ_OK ? result : device->backend->self_test(device, buffer->memory[0]);
    if (result == KQ_OK) {
        // What isn't read back is no answer.
        memset(bytes, 0, KQ_SELF_TEST_BYTES);
        result = kq_buffer_download(buffer, 0, bytes, KQ_SELF_TEST_BYTES);
    }
    result = result != KQ_OK ? result : kq_self_test_verdict(bytes, step, &device->errors);
    kq_buffer_destroy(&buffer);
    free(bytes);
    return result;
}

enum { ITEM_WORDS = 4 };

// Items as they lie in a buffer.
static void pack_items(unsigned char *bytes, const uint32_t *items, size_t words)
{
    for (size_t k = 0; k < words; k++) {
        kq_store_word(bytes + 4 * k, items[k]);
    }
}

// Carries a part of the items out on the first of a buffer, where their results are first set so.
static kq_result run_items(kq_device *device, kq_buffer *buffer, unsigned char *bytes,
                           const uint32_t *items, uint32_t count, uint32_t preset)
{
    const size_t item_bytes = 4 * ITEM_WORDS;
    pack_items(bytes, items, (size_t)ITEM_WORDS * count);
    for (size_t k = 0; k < count; k++) {
        kq_store_word(bytes + item_bytes * k + item_bytes - 4, preset);
    }
    kq_result result = kq_buffer_upload(buffer, 0, bytes, item_bytes * count);
    if (result == KQ_OK) {
        result = device->backend->primitives(device, buffer->memory[0], count);
    }
    return result != KQ_OK ? result : kq_buffer_download(buffer, 0, bytes, item_bytes * count);
}

static uint32_t load_result(const unsigned char *bytes, size_t item)
{
    return kq_load_word(bytes + 4 * (ITEM_WORDS * item + ITEM_WORDS - 1));
}

kq_result kq_primitives_host(kq_device *device, uint32_t *items, uint32_t count)
{
    enum { MOST_ITEMS = 4096 };           // 64 KiB, which any device binds
    const uint32_t preset = 0xFFFFFFFFu;  // no f32 that a step gives, but a whole number may be it
    unsigned char *bytes = NULL;
    kq_buffer *buffer = NULL;
    kq_result result = kq_device_check_op(device, KQ_OP_SELF_TEST, "KQ_OP_SELF_TEST");
    result = result != KQ_OK
                 ? result
                 : kq_check_pointer(device, "items", items, 4 * ITEM_WORDS * (uint64_t)count);
    if (result != KQ_OK || count == 0) {
        return result;
    }
    result = kq_buffer_create(device, 4 * ITEM_WORDS * MOST_ITEMS, &buffer);
    if (result == KQ_OK && (bytes = malloc(4 * ITEM_WORDS * MOST_ITEMS)) == NULL) {
        result = kq_fail(&device->errors, KQ_ERROR_MEMORY, "out of host memory for primitives");
    }
    for (uint32_t done = 0; done < count && result == KQ_OK;) {
        uint32_t part = count - done < MOST_ITEMS ? count - done : MOST_ITEMS;
        uint32_t *first = items + (size_t)ITEM_WORDS * done;
        bool is_in_doubt = false;
        result = run_items(device, buffer, bytes, first, part, preset);
        for (size_t k = 0; k < part && result == KQ_OK; k++) {
            first[ITEM_WORDS * k + 3] = load_result(bytes, k);
            is_in_doubt |= load_result(bytes, k) == preset;
        }
        // What was written is not the preset both times.
        if (is_in_doubt) {
            result = run_items(device, buffer, bytes, first, part, ~preset);
        }
        for (size_t k = 0; k < part && result == KQ_OK && is_in_doubt; k++) {
            if (first[ITEM_WORDS * k + 3] != preset) {
                continue;
            }
            // Of the second run, should the first have been lost.
            first[ITEM_WORDS * k + 3] = load_result(bytes, k);
            if (load_result(bytes, k) == ~preset) {
                result = kq_fail(&device->errors, KQ_ERROR_DRIVER,
                                 "the driver reports primitive %zu as done that is not", k);
            }
        }
        done += part;
    }
    kq_buffer_destroy(&buffer);
    free(bytes);
    return result;
}
