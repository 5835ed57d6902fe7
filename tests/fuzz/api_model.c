#include "api.h"

#include <string.h>

typedef api_wide wide;

static const uint64_t sizes[2][3] = {{KQ_BLOCK_BYTES, KQ_Q8_K_BYTES, 0},
                                     {KQ_Q4_K_BYTES, KQ_Q8_K_BYTES, 4}};

static uint64_t or_packed(uint64_t stride, uint64_t packed)
{
    return stride == 0 ? packed : stride == KQ_BROADCAST ? 0 : stride;
}

static uint64_t value_stride(const api_operation *o)
{
    return or_packed(o->views[0].value_stride, 4);
}

static uint64_t stride(const api_operation *o, int role)
{
    return or_packed(o->views[role].stride, sizes[o->is_dot][role]);
}

static const uint64_t *steps(const api_operation *o, int role)
{
    return role == 0 ? o->repeat.lhs_step : role == 1 ? o->repeat.rhs_step : o->repeat.result_step;
}

static uint32_t count(const api_operation *o, int loop)
{
    return o->has_repeat ? o->repeat.count[loop] : 1;
}

static wide times(uint32_t items, uint64_t bytes)
{
    return items > 1 ? (wide)(items - 1) * bytes : 0;
}

wide api_end(const api_operation *o, int role)
{
    const kq_view *v = &o->views[role];
    wide end = (wide)v->offset + sizes[o->is_dot][role];
    if (!o->is_dot && role == 0) {
        end = (wide)v->offset + 4 + times(KQ_BLOCK, value_stride(o));
    }
    if (role < 2) {
        end += times(v->G, stride(o, role));
    }
    for (int loop = 0; loop < 2 && o->is_dot; loop++) {
        end += times(count(o, loop), steps(o, role)[loop]);
    }
    return end;
}

static bool is_negative(uint64_t number)
{
    return number > INT64_MAX;
}

static bool lies_within(const api_model *model, const api_operation *o, int role)
{
    int b = o->buffers[role];
    return b >= 0 && model->bytes[b] != NULL && api_end(o, role) <= model->sizes[b];
}

static bool are_apart(const api_operation *o, int output, int input)
{
    return o->buffers[output] != o->buffers[input] ||
           o->views[output].offset >= api_end(o, input) ||
           o->views[input].offset >= api_end(o, output);
}

static bool are_views_legal(const api_operation *o)
{
    const uint64_t apart = o->views[0].value_stride;
    for (int role = 0; role < 2; role++) {
        const uint64_t s = o->views[role].stride;
        if (o->buffers[role] == API_STRANGER || (s != KQ_BROADCAST && is_negative(s)) ||
            ((o->is_dot || role == 1) && o->views[role].value_stride != 0)) {
            return false;
        }
    }
    if (o->views[0].G != o->views[1].G) {
        return false;
    }
    return o->is_dot || ((apart == KQ_BROADCAST || (!is_negative(apart) && apart % 4 == 0)) &&
                         (wide)4 + times(KQ_BLOCK, value_stride(o)) <= UINT64_MAX &&
                         stride(o, 1) >= KQ_Q8_K_BYTES);
}

static bool is_repeat_legal(const kq_repeat *r)
{
    for (int loop = 0; loop < 2; loop++) {
        if (is_negative(r->lhs_step[loop]) || is_negative(r->rhs_step[loop]) ||
            is_negative(r->result_step[loop]) || (r->count[loop] > 1 && r->result_step[loop] < 4)) {
            return false;
        }
    }
    return r->count[0] <= 1 || r->count[1] <= 1 ||
           r->result_step[1] >= 4 + times(r->count[0], r->result_step[0]) ||
           r->result_step[0] >= 4 + times(r->count[1], r->result_step[1]);
}

bool api_is_legal(const api_model *model, const api_operation *o)
{
    const uint32_t G = o->views[0].G;
    if (!are_views_legal(o)) {
        return false;
    }
    if (!o->is_dot) {
        return o->formats[0] == KQ_FORMAT_Q8_K &&
               (G == 0 ||
                (lies_within(model, o, 0) && lies_within(model, o, 1) && are_apart(o, 1, 0)));
    }
    if (o->formats[0] != KQ_FORMAT_Q4_K || o->formats[1] != KQ_FORMAT_Q8_K ||
        o->acc != KQ_ACCUMULATOR_F32 || o->order > KQ_ORDER_PAIRWISE ||
        o->buffers[2] == API_STRANGER || (o->has_repeat && !is_repeat_legal(&o->repeat))) {
        return false;
    }
    if (count(o, 0) == 0 || count(o, 1) == 0) {
        return true;
    }
    return lies_within(model, o, 2) &&
           (G == 0 || (lies_within(model, o, 0) && lies_within(model, o, 1) && are_apart(o, 2, 0) &&
                       are_apart(o, 2, 1)));
}

uint64_t api_work(const api_operation *o)
{
    wide dots = o->is_dot ? (wide)count(o, 0) * count(o, 1) : 1;
    wide work = dots * ((wide)o->views[0].G + (o->is_dot ? 1 : 0));
    return work < UINT64_MAX ? (uint64_t)work : UINT64_MAX;
}

// --- Carrying it out

static uint32_t load_word(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static kq_reason judge_block(const unsigned char *block, uint32_t *element)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < KQ_BLOCK; i++) {
        uint32_t magnitude = load_word(block + 4 * i) & 0x7FFFFFFFu;
        if (magnitude >= 0x7F800000u) {
            *element = i;
            return KQ_REASON_NONFINITE_INPUT;
        }
        largest = magnitude > largest ? magnitude : largest;
    }
    *element = 0;
    return largest > 0 && largest < 0x02FE0001u ? KQ_REASON_INVERSE_OVERFLOW : KQ_REASON_NONE;
}

static kq_result quantize(api_model *model, const api_operation *o, kq_domain *domain)
{
    kq_domain found = {0};
    for (uint32_t g = 0; g < o->views[0].G; g++) {
        const unsigned char *from =
            model->bytes[o->buffers[0]] + o->views[0].offset + g * stride(o, 0);
        unsigned char *to = model->bytes[o->buffers[1]] + o->views[1].offset + g * stride(o, 1);
        unsigned char block[KQ_BLOCK_BYTES];
        float values[KQ_BLOCK];
        uint32_t element = 0;
        for (uint32_t i = 0; i < KQ_BLOCK; i++) {
            memcpy(block + 4 * i, from + i * value_stride(o), 4);
        }
        kq_reason reason = judge_block(block, &element);
        uint32_t said = UINT32_MAX;
        REQUIRE(kq_block_reason(block, 0, &said) == reason);
        REQUIRE(reason != KQ_REASON_NONFINITE_INPUT || said == element);
        if (reason == KQ_REASON_NONE) {
            memcpy(values, block, sizeof block);
            REQUIRE(kq_quantize_host(model->judge, KQ_FORMAT_Q8_K, values, KQ_BLOCK, to, NULL) ==
                    KQ_OK);
            continue;
        }
        if (found.bad_count++ == 0) {
            found.record = g;
            found.reason = reason;
            found.element = element;
        }
        memset(to, 0, KQ_Q8_K_BYTES);
        to[2] = 0xC0;
        to[3] = 0x7F;
    }
    if (found.bad_count > 0) {
        *domain = found;
    }
    return found.bad_count > 0 ? KQ_ERROR_DOMAIN : KQ_OK;
}

// Its records side by side, each copied by itself.
static void gather(const api_model *model, const api_operation *o, int role, uint64_t further,
                   unsigned char *to)
{
    const uint64_t size = sizes[1][role];
    for (uint32_t g = 0; g < o->views[role].G; g++) {
        memcpy(to + g * size,
               model->bytes[o->buffers[role]] + o->views[role].offset + further +
                   g * stride(o, role),
               size);
    }
}

static void dot(api_model *model, const api_operation *o, uint32_t i, uint32_t j)
{
    enum { MOST = 4096 };
    static unsigned char lhs[MOST * KQ_Q4_K_BYTES], rhs[MOST * KQ_Q8_K_BYTES];
    const uint32_t G = o->views[0].G;
    uint64_t further[3] = {0};
    float result = 0;
    REQUIRE(G <= MOST);
    for (int role = 0; role < 3 && o->has_repeat; role++) {
        further[role] = (i > 0 ? i * steps(o, role)[0] : 0) + (j > 0 ? j * steps(o, role)[1] : 0);
    }
    gather(model, o, 0, further[0], lhs);
    gather(model, o, 1, further[1], rhs);
    REQUIRE(kq_quantized_dot_host(model->judge, KQ_FORMAT_Q4_K, KQ_FORMAT_Q8_K, KQ_ACCUMULATOR_F32,
                                  (kq_order)o->order, 1, lhs, (uint64_t)G * KQ_Q4_K_BYTES, rhs,
                                  (uint64_t)G * KQ_Q8_K_BYTES, &result) == KQ_OK);
    memcpy(model->bytes[o->buffers[2]] + o->views[2].offset + further[2], &result, 4);
}

kq_result api_carry_out(api_model *model, const api_operation *o, kq_domain *domain)
{
    if (!o->is_dot) {
        return quantize(model, o, domain);
    }
    if (count(o, 0) == 0) {
        return KQ_OK;  // the other may be very large
    }
    for (uint32_t j = 0; j < count(o, 1); j++) {
        for (uint32_t i = 0; i < count(o, 0); i++) {
            dot(model, o, i, j);
        }
    }
    return KQ_OK;
}

// --- Drawing

uint64_t api_number(fuzz_input *in, uint64_t usual)
{
    const uint8_t kind = fuzz_byte(in);
    if (kind < 96) {
        return 0;
    } else if (kind < 160) {
        return fuzz_byte(in);
    } else if (kind < 192) {
        return usual;
    } else if (kind < 216) {
        return usual + fuzz_byte(in) % 16;
    } else if (kind < 232) {
        return 4 * (uint64_t)fuzz_byte(in);
    } else if (kind < 242) {
        return fuzz_number(in, 2);
    }
    const uint64_t more = fuzz_byte(in);
    switch (kind) {
    case 242: return UINT64_MAX;
    case 243: return UINT64_MAX - more;
    case 244: return INT64_MAX - more;
    case 245: return (UINT64_C(1) << 63) + more;
    case 246: return UINT32_MAX - more;
    case 247: return (UINT64_C(1) << 32) + more;
    case 248: return UINT64_C(1) << more % 64;
    case 249: return UINT64_MAX / (more + 1);
    case 250: return UINT64_MAX / (4 * (more + 1)) + fuzz_byte(in);
    case 251: return (UINT64_MAX / (KQ_BLOCK - 1) & ~UINT64_C(3)) + 4 * more;
    default: return fuzz_number(in, 8);
    }
}

static uint32_t draw_G(fuzz_input *in)
{
    const uint8_t kind = fuzz_byte(in);
    return kind < 200   ? kind % 13u
           : kind < 235 ? fuzz_byte(in)
           : kind < 252 ? (uint32_t)fuzz_number(in, 2) % 600
                        : (uint32_t)fuzz_number(in, 4);
}

static uint32_t draw_count(fuzz_input *in)
{
    const uint8_t kind = fuzz_byte(in);
    return kind < 220 ? kind % 6u : kind < 250 ? fuzz_byte(in) : (uint32_t)fuzz_number(in, 4);
}

static void draw_repeat(fuzz_input *in, kq_repeat *r)
{
    const uint8_t kind = fuzz_byte(in);
    for (int loop = 0; loop < 2; loop++) {
        r->count[loop] = draw_count(in);
        r->lhs_step[loop] = api_number(in, KQ_Q4_K_BYTES);
        r->rhs_step[loop] = api_number(in, KQ_Q8_K_BYTES);
        r->result_step[loop] = api_number(in, 4);
    }
    if (kind < 224) {  // disjoint
        const int inner = kind % 2;
        const uint64_t gap = kind / 2 % 4 * (kind / 8 % 8);
        r->result_step[inner] = 4 + gap;
        r->result_step[1 - inner] =
            4 + (uint64_t)times(r->count[inner], r->result_step[inner]) + gap / 2;
    }
}

// Smaller and smaller, until it is within its buffers; some never are.
static void fit(const api_model *model, api_operation *o)
{
    for (int round = 0; round < 24 && !api_is_legal(model, o); round++) {
        for (int role = 0; role < 3; role++) {
            kq_view *v = &o->views[role];
            v->offset %= round == 0 ? 4096 : 256;
            if (round == 1) {
                v->stride %= v->stride != KQ_BROADCAST ? 1300 : UINT64_MAX;
                v->value_stride = v->value_stride % 64 / 4 * 4;
                o->repeat.lhs_step[role / 2] %= 700;
                o->repeat.rhs_step[role / 2] %= 700;
            }
        }
        if (round > 1 && round % 3 == 2) {
            o->views[0].G /= 2;
            o->views[1].G = o->views[0].G;
        } else if (round > 1) {
            o->repeat.count[round % 2] /= 2;
        }
    }
}

void api_draw(fuzz_input *in, const api_model *model, api_operation *o)
{
    const uint8_t kind = fuzz_byte(in);
    const uint8_t where = fuzz_byte(in);
    memset(o, 0, sizeof *o);
    o->is_dot = kind & 1;
    o->order = kind >> 1 & 1;
    o->has_repeat = o->is_dot && (kind & 4);
    o->acc = KQ_ACCUMULATOR_F32;
    o->formats[0] = o->is_dot ? KQ_FORMAT_Q4_K : KQ_FORMAT_Q8_K;
    o->formats[1] = KQ_FORMAT_Q8_K;
    for (int role = 0; role < 3; role++) {
        o->buffers[role] = (where >> 2 * role) % API_BUFFERS;
        o->views[role].offset = api_number(in, role < 2 ? sizes[o->is_dot][role] : 4);
        if (role < 2) {
            o->views[role].stride = api_number(in, sizes[o->is_dot][role]);
        }
    }
    o->views[0].G = draw_G(in);
    o->views[1].G = o->views[0].G;
    o->views[0].value_stride = o->is_dot ? 0 : api_number(in, 4);
    if (o->has_repeat) {
        draw_repeat(in, &o->repeat);
    }
    if (kind & 0x70) {
        fit(model, o);
    }
    if (kind >= 0xE0 && kind < 0xF0) {  // just before or behind an input, or a byte into it
        const uint8_t place = fuzz_byte(in);
        const int output = o->is_dot ? 2 : 1;
        const int input = o->is_dot ? place & 1 : 0;
        const wide end = api_end(o, input);
        const wide span = api_end(o, output) - o->views[output].offset;
        o->buffers[output] = o->buffers[input];
        if (place & 2) {
            o->views[output].offset = (uint64_t)end - (place >> 2 & 1);
        } else {
            o->views[output].offset = 0;
            o->views[input].offset = (uint64_t)span - (place >> 2 & 1);
        }
    }
    if (kind >= 0xF0) {  // one thing wrong
        const uint8_t what = fuzz_byte(in);
        const unsigned number = fuzz_byte(in);
        switch (what % 9) {
        case 0: o->formats[0] = number; break;
        case 1: o->formats[1] = number; break;
        case 2: o->acc = number; break;
        case 3: o->order = number; break;
        case 4: o->buffers[number % 3] = API_NULL; break;
        case 5: o->buffers[number % 3] = API_STRANGER; break;
        case 6: o->views[number % 2].G += number; break;
        case 7: o->views[number % 2].value_stride = number; break;
        case 8: o->views[number % 3].offset = api_number(in, 1); break;
        }
    }
}
