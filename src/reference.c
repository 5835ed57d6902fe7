#include "reference.h"

#include "prelude.h"
#include "exact.h"
#include "words.h"

typedef const unsigned char *record;

#define KQ_Q4_K                 record
#define KQ_Q8_K                 record
#define KQ_Q4_K_WORD(record, k) kq_load_word((record) + 4u * (k))
#define KQ_Q8_K_WORD(record, k) kq_load_word((record) + 4u * (k))
#include "records.h"

static u32 largest_key(const unsigned char *values, uint64_t value_stride)
{
    u32 key = 0u;
    for (u32 i = 0u; i < KQ_BLOCK; i++) {
        u32 k = kq_extreme_key(kq_load_word(values + i * value_stride));
        key = k > key ? k : key;
    }
    return key;
}

// 1 if the block is legal, else 0.
static u32 quantize_block(const unsigned char *values, uint64_t value_stride, unsigned char *out)
{
    u32 key = largest_key(values, value_stride);
    u32 inverse = kq_inverse(key);
    u32 legal = kq_is_legal(key, inverse);
    inverse = legal != 0u ? inverse : 0u;
    kq_store_word(out, legal != 0u ? kq_ds(inverse) : KQ_F32_NAN);
    for (u32 j = 0u; j < 16u; j++) {
        u32 sum = 0u;
        for (u32 k = 0u; k < 4u; k++) {
            u32 codes = 0u;
            for (u32 i = 0u; i < 4u; i++) {
                u32 value = kq_load_word(values + (16u * j + 4u * k + i) * value_stride);
                codes |= kq_code(value, inverse) << (8u * i);
            }
            kq_store_word(out + 4u + 16u * j + 4u * k, codes);
            sum += kq_sum_i8x4(codes);
        }
        out[260u + 2u * j] = (unsigned char)(sum & 255u);
        out[261u + 2u * j] = (unsigned char)(sum >> 8 & 255u);
    }
    return legal;
}

void kq_reference_quantize(const kq_shape *shape, const unsigned char *values,
                           unsigned char *records, kq_status *status)
{
    const kq_extent *in = &shape->extents[KQ_VALUES];
    const kq_extent *out = &shape->extents[KQ_RECORDS];
    for (u32 g = 0u; g < shape->G; g++) {
        u32 legal = quantize_block(values + in->offset + g * in->stride, shape->value_stride,
                                   records + out->offset + g * out->stride);
        if (legal == 0u) {
            status->lowest_bad = g < status->lowest_bad ? g : status->lowest_bad;
            status->bad_count++;
        }
        status->done_count++;
    }
}

kq_reason kq_block_reason(const void *values, uint64_t value_stride, uint32_t *element)
{
    const unsigned char *bytes = values;
    value_stride = value_stride == 0 ? 4 : value_stride == KQ_BROADCAST ? 0 : value_stride;
    for (u32 i = 0u; i < KQ_BLOCK; i++) {
        if ((kq_load_word(bytes + i * value_stride) & KQ_F32_INF) == KQ_F32_INF) {
            if (element != NULL) {
                *element = i;
            }
            return KQ_REASON_NONFINITE_INPUT;
        }
    }
    u32 key = largest_key(bytes, value_stride);
    return kq_is_legal(key, kq_inverse(key)) != 0u ? KQ_REASON_NONE : KQ_REASON_INVERSE_OVERFLOW;
}

typedef struct terms {
    const unsigned char *lhs, *rhs;
    uint64_t lhs_stride, rhs_stride;
} terms;

static u32 term(const terms *t, u32 g)
{
    return kq_term(t->lhs + g * t->lhs_stride, t->rhs + g * t->rhs_stride);
}

static u32 sequential(const terms *t, u32 G)
{
    u32 sum = term(t, 0u);
    for (u32 g = 1u; g < G; g++) {
        sum = kq_f32_add(sum, term(t, g));
    }
    return sum;
}

// Complete subtrees wait, largest first, until a neighbour of their size comes; what is left at the
// end are the odd last values, which pass up to the first neighbour they meet.
static u32 pairwise(const terms *t, u32 G)
{
    u32 waiting[32];
    u32 depth = 0u;
    for (u32 g = 0u; g < G; g++) {
        u32 sum = term(t, g);
        for (u32 done = g; (done & 1u) != 0u; done >>= 1) {
            depth--;
            sum = kq_f32_add(waiting[depth], sum);
        }
        waiting[depth] = sum;
        depth++;
    }
    u32 sum = waiting[--depth];
    while (depth > 0u) {
        depth--;
        sum = kq_f32_add(waiting[depth], sum);
    }
    return sum;
}

void kq_reference_dot(const kq_shape *shape, kq_order order, const unsigned char *lhs,
                      const unsigned char *rhs, unsigned char *result)
{
    const kq_extent *l = &shape->extents[KQ_LHS];
    const kq_extent *r = &shape->extents[KQ_RHS];
    const kq_extent *out = &shape->extents[KQ_RESULT];
    for (u32 j = 0u; j < shape->count[1]; j++) {
        for (u32 i = 0u; i < shape->count[0]; i++) {
            u32 bits = 0u;
            if (shape->G > 0u) {
                const terms t = {
                    lhs + l->offset + i * l->step[0] + j * l->step[1],
                    rhs + r->offset + i * r->step[0] + j * r->step[1],
                    l->stride,
                    r->stride,
                };
                bits =
                    order == KQ_ORDER_PAIRWISE ? pairwise(&t, shape->G) : sequential(&t, shape->G);
            }
            kq_store_word(result + out->offset + i * out->step[0] + j * out->step[1], bits);
        }
    }
}
