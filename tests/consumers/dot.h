// A dot of one row, taken the same way by every consumer; C and C++ alike.
#ifndef CONSUMERS_DOT_H
#define CONSUMERS_DOT_H

#include <kquant/kquant.h>

#include <stdio.h>
#include <string.h>

enum { DOT_RECORDS = 3 };

static void dot_report(void *user, kq_result result, const char *reason)
{
    (void)user;
    fprintf(stderr, "%s: %s\n", kq_result_name(result), reason);
}

// The result's bits on the device of that id, or 0, which is no result of these operands.
static uint32_t dot_bits(const char *id)
{
    unsigned char weights[DOT_RECORDS * KQ_Q4_K_BYTES];
    unsigned char records[DOT_RECORDS * KQ_Q8_K_BYTES];
    float values[DOT_RECORDS * KQ_BLOCK];
    for (uint32_t i = 0; i < sizeof weights; i++) {
        // d and dmin, two f16, begin each record: their high bytes keep them finite and positive.
        uint32_t at = i % KQ_Q4_K_BYTES;
        weights[i] = (unsigned char)(at == 1 || at == 3 ? 0x2C : (i * 2654435761u) >> 24);
    }
    for (uint32_t i = 0; i < DOT_RECORDS * KQ_BLOCK; i++) {
        values[i] = (float)((int32_t)(i * 7919u % 2001u) - 1000) / 64.0f;
    }

    kq_device_params params;
    memset(&params, 0, sizeof params);
    params.device = id;
    params.errors.fn = dot_report;
    kq_device *device = NULL;
    kq_domain domain;
    float result = 0.0f;
    uint32_t bits = 0;
    if (kq_device_create(&params, &device) == KQ_OK &&
        kq_quantize_host(device, KQ_FORMAT_Q8_K, values, DOT_RECORDS * KQ_BLOCK, records,
                         &domain) == KQ_OK &&
        kq_quantized_dot_host(device, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                              KQ_ORDER_SEQUENTIAL, 1, weights, sizeof weights, records,
                              sizeof records, &result) == KQ_OK) {
        memcpy(&bits, &result, sizeof bits);
    }
    kq_device_destroy(&device);
    return bits;
}

#endif
