#include "primitives.h"
#include "bytes.h"
#include "cases.h"

#include "../prelude.h"
#include "../exact.h"
#include "../records.h"
#include "../primitive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const class_names[CLASS_COUNT] = {
    "all",  "specials",     "random", "near",   "subnormals",
    "ties", "cancellation", "walk",   "sticky", "multiples",
};

static const struct {
    const char *id, *name;
    unsigned operands;
    uint32_t classes;  // bits by operand_class
} primitives[KQ_PRIMITIVE_COUNT + 1] = {
#define CLASS(name) (1u << CLASS_##name)
#define ARITHMETIC                                                                                 \
 (CLASS(SPECIALS) | CLASS(RANDOM) | CLASS(NEAR) | CLASS(SUBNORMALS) | CLASS(TIES) | CLASS(STICKY))
    [KQ_PRIMITIVE_F16_TO_F32] = {"f16_to_f32", "f16 to f32", 1, CLASS(ALL)},
    [KQ_PRIMITIVE_I32_TO_F32] = {"i32_to_f32", "i32 to f32", 1,
                                 CLASS(SPECIALS) | CLASS(RANDOM) | CLASS(TIES) | CLASS(STICKY)},
    [KQ_PRIMITIVE_F32_MULTIPLY] = {"f32_multiply", "f32 multiply", 2, ARITHMETIC},
    [KQ_PRIMITIVE_F32_ADD] = {"f32_add", "f32 add", 2, ARITHMETIC | CLASS(CANCELLATION)},
    [KQ_PRIMITIVE_F32_SUBTRACT] = {"f32_subtract", "f32 subtract", 2,
                                   ARITHMETIC | CLASS(CANCELLATION)},
    [KQ_PRIMITIVE_F32_DIVIDE] = {"f32_divide", "f32 divide", 2, ARITHMETIC},
    [KQ_PRIMITIVE_F32_TO_I8] = {"f32_to_i8", "f32 to i8", 1,
                                CLASS(SPECIALS) | CLASS(RANDOM) | CLASS(NEAR) | CLASS(TIES)},
    [KQ_PRIMITIVE_FIELDS_LOW] = {"fields_low", "low fields of Q4_K", 1,
                                 CLASS(WALK) | CLASS(RANDOM)},
    [KQ_PRIMITIVE_FIELDS_HIGH] = {"fields_high", "high fields of Q4_K", 2,
                                  CLASS(WALK) | CLASS(RANDOM)},
    [KQ_PRIMITIVE_DOT4] = {"dot4", "dot of four codes", 2,
                           CLASS(ALL) | CLASS(WALK) | CLASS(RANDOM)},
    [KQ_PRIMITIVE_SUM_I16X2] = {"sum_i16x2", "sum of two i16", 1, CLASS(WALK) | CLASS(RANDOM)},
    [KQ_PRIMITIVE_EXTREME_KEY] = {"extreme_key", "key of an extreme", 1,
                                  CLASS(SPECIALS) | CLASS(WALK) | CLASS(RANDOM)},
    [KQ_PRIMITIVE_U32_DIVIDE] = {"u32_divide", "u32 divide", 2,
                                 CLASS(SPECIALS) | CLASS(RANDOM) | CLASS(MULTIPLES)},
#undef ARITHMETIC
#undef CLASS
};

const char *primitive_name(uint32_t primitive)
{
    return primitives[primitive].name;
}

uint32_t primitive_result(const item *item)
{
    return kq_primitive(item->primitive, item->a, item->b);
}

// --- Operands

typedef struct items {
    item *items;
    uint32_t count, capacity;
    uint32_t primitive;
} items;

static void add(items *list, uint32_t a, uint32_t b)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 1024 : 2 * list->capacity;
        list->items = reallocate(list->items, list->capacity, sizeof(item));
    }
    list->items[list->count++] = (item){list->primitive, a, b, 0};
}

static const uint32_t special_f32[] = {
    0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x00400000, 0x007FFFFE, 0x007FFFFF, 0x00800000,
    0x00800001, 0x00FFFFFF, 0x01000000, 0x02FE0000, 0x02FE0001, 0x03014EAB, 0x0B800000, 0x1F800000,
    0x20000000, 0x33000000, 0x33800000, 0x33800001, 0x34000000, 0x3B7FFFFF, 0x3DCCCCCD, 0x3EFFFFFF,
    0x3F000000, 0x3F000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000, 0x3FFFFFFF, 0x40000000,
    0x40400000, 0x40490FDB, 0x42FE0000, 0x42FE0001, 0x42FEFFFF, 0x42FF0000, 0x43000000, 0x43008000,
    0x4B000000, 0x4B7FFFFF, 0x4B800000, 0x4B800001, 0x5F000000, 0x5F7FFFFF, 0x7E800000, 0x7F000000,
    0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC12345, 0x7FFFFFFF,
};

enum { SPECIALS = sizeof special_f32 / sizeof special_f32[0] };

// Both signs of all of them.
static uint32_t special(unsigned k)
{
    return special_f32[k / 2] | (uint32_t)(k % 2) << 31;
}

static uint32_t with_exponent(uint32_t bits, uint32_t exponent)
{
    return (bits & 0x807FFFFF) | exponent << 23;
}

// Of the division of indices: both sides of every power of two, with each other.
static void add_powers(items *list)
{
    for (uint32_t k = 0; k < 3 * 32; k++) {
        for (uint32_t n = 0; n < 3 * 32; n++) {
            uint32_t a = ((uint32_t)1 << k / 3) + k % 3 - 1, b = ((uint32_t)1 << n / 3) + n % 3 - 1;
            add(list, a, b != 0 ? b : 0xFFFFFFFF);
        }
    }
}

static void add_specials(items *list)
{
    if (list->primitive == KQ_PRIMITIVE_U32_DIVIDE) {
        add_powers(list);
        return;
    }
    for (unsigned i = 0; i < 2 * SPECIALS; i++) {
        bool has_two = primitives[list->primitive].operands == 2;
        for (unsigned j = 0; j < (has_two ? 2u * SPECIALS : 1u); j++) {
            add(list, special(i), has_two ? special(j) : 0);
        }
    }
    // Of integers: around every power of two, both ends and the first that f32 can't hold.
    for (unsigned bit = 0; list->primitive == KQ_PRIMITIVE_I32_TO_F32 && bit < 32; bit++) {
        for (uint32_t near = 0; near < 9; near++) {
            add(list, ((uint32_t)1 << bit) + near - 4, 0);
            add(list, 0 - (((uint32_t)1 << bit) + near - 4), 0);
        }
    }
}

// Products, sums, quotients and integers whose exact value lies halfway, and neighbours of them.
static void add_ties(items *list, uint64_t *state, uint32_t draws)
{
    for (uint32_t k = 0; k < draws; k++) {
        uint64_t random = draw(state);
        uint32_t x = (uint32_t)random, y = (uint32_t)(random >> 32);
        uint32_t near = k % 3 - 1;  // -1, 0, 1 in the last place of one operand
        uint32_t a = 0, b = 0;
        switch (list->primitive) {
        case KQ_PRIMITIVE_F32_MULTIPLY:
            // Odd significands of 12 and 13 bits: the product ends half a place below the last.
            a = with_exponent((x & 0x807FF000) | 0x00001000, 100 + y % 50);
            b = with_exponent((y & 0x807FF000) | 0x00000800, 100 + (y >> 8) % 50) + near;
            break;
        case KQ_PRIMITIVE_F32_ADD:
        case KQ_PRIMITIVE_F32_SUBTRACT: {
            // The second is half a place of the first, or odd halves of it.
            uint32_t exponent = 30 + x % 200;
            uint32_t below = 24 - (y >> 3) % 23;
            a = with_exponent(x, exponent);
            b = with_exponent((uint32_t)(y << 9) & 0x80000000, exponent - below);
            b |= (y & 0x7FFFFF) >> below << below;
            b |= below < 24 ? (uint32_t)1 << (below - 1) : 0;
            b += near;
            break;
        }
        case KQ_PRIMITIVE_F32_DIVIDE:
            // Only subnormal quotients can lie halfway: an odd number of halves of the last place.
            a = (x & 0x80000000) | (uint32_t)(((x & 0x7FFFFF) | 0x800001) & 0xFFFFFF);
            a = with_exponent(a & 0x807FFFFF, 1 + y % 24);
            b = with_exponent(0, 128 + (y >> 8) % 24) + near;
            break;
        case KQ_PRIMITIVE_I32_TO_F32: {
            unsigned shift = 1 + y % 7;  // of 25 to 31 bits
            a = (((x & 0xFFFFFF) | 0x800000) << shift) + ((uint32_t)1 << (shift - 1)) + near;
            a = y & 0x100 ? 0 - a : a;
            break;
        }
        default: break;
        }
        add(list, a, b);
    }
}

// --- Operands whose exact result lies halfway between two, the even one below, but for one bit
// far down: lost, it makes the result the even one. An f32's significand has 24 bits, the last of
// which is one place.

static uint32_t draw_f32(uint64_t *state, uint32_t exponent, uint32_t significand)
{
    return ((uint32_t)draw(state) & 0x80000000) | exponent << 23 | (significand & 0x7FFFFF);
}

static uint32_t inverse_of_odd(uint32_t x)
{
    uint32_t inverse = x;  // three bits are right, then twice as many each time
    for (int step = 0; step < 4; step++) {
        inverse *= 2 - x * inverse;
    }
    return inverse;
}

// Of `places` that don't fit, the first is set and the one `low` above the last, and the place
// above is not.
static uint32_t draw_halfway(uint64_t *state, unsigned places, unsigned low)
{
    uint32_t bits = (uint32_t)draw(state) & 0xFFFFFF;
    bits = bits >> places >> 1 << 1 << places;
    return 0x800000 | bits | (uint32_t)1 << (places - 1) | (uint32_t)1 << low;
}

// Two significands whose product or quotient has its first bit where both exponents say, or one
// below: with moderate exponents, or so that the result is subnormal and loses `below` places more.
static void add_f32(items *list, uint64_t *state, uint32_t x, uint32_t y, unsigned below)
{
    bool is_product = list->primitive == KQ_PRIMITIVE_F32_MULTIPLY;
    uint32_t carry = is_product && (uint64_t)x * y >> 47 != 0;
    uint32_t borrow = !is_product && x < y;
    uint32_t a = 40 + draw_below(state, 30);
    // The exponent of the result is 1 - below, or a normal one.
    uint32_t b = is_product ? 128 - below - a - carry : a + 126 + below - borrow;
    if (below == 0) {
        b = is_product ? b + 100 : b - 50;
    }
    a = draw_f32(state, a, x);
    b = draw_f32(state, b, y);
    add(list, a, b);
}

// A product of 47 or 48 bits, of which 23 or 24 don't fit, and `below` more.
static void add_sticky_product(items *list, uint64_t *state, unsigned places, unsigned low,
                               unsigned below)
{
    const uint32_t halves = (uint32_t)1 << below >> 1;
    uint32_t end = (uint32_t)1 << low | (below == 0 ? (uint32_t)1 << (places - 1) : 0);
    for (;;) {
        uint32_t x = ((uint32_t)draw(state) & 0xFFFFFF) | 0x800001;
        uint32_t y = inverse_of_odd(x) * end;
        y = places == 24 ? y & 0xFFFFFF : (y & 0x7FFFFF) | 0x800000;
        uint64_t product = (uint64_t)x * y;
        if (y >> 23 == 1 && product >> 47 == places - 23 &&
            (product >> places & (((uint64_t)2 << below) - 1)) == halves) {
            add_f32(list, state, x, y, below);
            return;
        }
    }
}

// a * 2^places = b * quotient + remainder: a quotient of 25 bits, of which one doesn't fit, and
// `below` more, and a remainder of about b >> low.
static void add_sticky_quotient(items *list, uint64_t *state, unsigned places, unsigned low,
                                unsigned below)
{
    const uint32_t end = ((uint32_t)4 << below) - 1;
    for (;;) {
        uint32_t b = ((uint32_t)draw(state) & 0xFFFFFF) | 0x800001;
        uint32_t remainder = (b >> low & ~end) | ((0 - (b << below)) & end);
        uint32_t quotient = 0 - remainder * inverse_of_odd(b);
        quotient = places == 24 ? (quotient & 0xFFFFFF) | 0x1000000 : quotient & 0x1FFFFFF;
        uint64_t a = ((uint64_t)b * quotient + remainder) >> places;
        if (quotient >> 24 == 1 && a >> 23 == 1) {
            add_f32(list, state, (uint32_t)a, b, below);
            return;
        }
    }
}

// The sum of a significand and one `apart` places further down, or their difference.
static void add_sticky_sum(items *list, uint64_t *state, unsigned apart, uint32_t x, uint32_t y,
                           bool is_difference)
{
    uint32_t exponent = 30 + draw_below(state, 200);
    uint32_t a = draw_f32(state, exponent, x);
    uint32_t b = (a & 0x80000000) | (exponent - apart) << 23 | (y & 0x7FFFFF);
    b ^= is_difference ? 0x80000000 : 0;
    uint32_t swap = draw(state) & 1 ? a ^ b : 0;
    a ^= swap;
    b ^= swap;
    add(list, a, list->primitive == KQ_PRIMITIVE_F32_SUBTRACT ? b ^ 0x80000000 : b);
}

// What of the second doesn't fit is all that doesn't; or one place more, where the sum has a bit
// more than its first operand; or one less, where the difference has one less.
static void add_sticky_sums(items *list, uint64_t *state, unsigned places, unsigned low)
{
    uint32_t y = draw_halfway(state, places, low);
    uint32_t x = 0x800000 | ((uint32_t)draw(state) & 0x3FFFFE);
    uint32_t odd = y >> places & 1;
    add_sticky_sum(list, state, places, x | odd, y, false);
    add_sticky_sum(list, state, places, x | 0x400000 | odd, y, true);
    if (odd == 0) {
        add_sticky_sum(list, state, places + 1, 0x800000, y, true);
    }
    if (places < 23) {
        y = ((y >> places & ~(uint32_t)3) | 2) << places | (uint32_t)1 << low;
        add_sticky_sum(list, state, places, 0xFFFFFF, y, false);
    }
}

static void add_sticky_i32(items *list, uint64_t *state, unsigned places, unsigned low)
{
    uint32_t a = (0x800000 | ((uint32_t)draw(state) & 0x7FFFFE)) << places;
    a |= (uint32_t)1 << (places - 1) | (uint32_t)1 << low;
    add(list, draw(state) & 1 ? 0 - a : a, 0);
}

// Every place of the bit for every number of places that don't fit, so often that there are as many
// operands as draws.
static void add_sticky(items *list, uint64_t *state, uint32_t draws)
{
    while (list->count < draws) {
        for (unsigned places = 2; places <= 25; places++) {
            for (unsigned low = 0; low + 1 < places && low < 23; low++) {
                bool is_product = list->primitive == KQ_PRIMITIVE_F32_MULTIPLY;
                bool is_quotient = list->primitive == KQ_PRIMITIVE_F32_DIVIDE;
                if (list->primitive == KQ_PRIMITIVE_I32_TO_F32) {
                    if (places < 8) {
                        add_sticky_i32(list, state, places, low);
                    }
                } else if (is_product || is_quotient) {
                    // More are shown by a power of two alone, which is all the second may be.
                    for (unsigned below = 0; below <= 8; below++) {
                        if (is_product && (places == 23 || places == 24)) {
                            add_sticky_product(list, state, places, low, below);
                        }
                        if (is_quotient && places >= 24) {
                            add_sticky_quotient(list, state, places, low + 1, below);
                        }
                    }
                    // Of 24 places that don't fit the first is the significand's own.
                    if (places < 23 || places == 24) {
                        add_f32(list, state, draw_halfway(state, places, low), 0x800000, places);
                    }
                } else if (places < 25) {
                    add_sticky_sums(list, state, places, low);
                }
            }
        }
    }
}

// Multiples above 2^24, which a division in f32 rounds.
static void add_multiples(items *list, uint64_t *state, uint32_t draws)
{
    for (uint32_t k = 0; k < draws; k++) {
        uint64_t random = draw(state);
        uint32_t b = (uint32_t)random >> (random >> 32) % 32 | (uint32_t)1 << (random >> 40) % 4;
        uint32_t most = 0xFFFFFFFE / b, least = 0x01000000 / b + 1;
        uint32_t quotient = least < most ? least + draw_below(state, most - least) : most;
        add(list, quotient * b + k % 3 - 1, b);
    }
}

// Every half from beyond one end of i8 to beyond the other, and its neighbours, which are no halves
// but become some, or whole, where they are rounded on the way.
static void add_halves(items *list)
{
    for (int k = -260; k <= 260; k++) {
        float half = (float)k / 2;
        uint32_t bits;
        memcpy(&bits, &half, sizeof bits);
        for (uint32_t near = 0; near < 5; near++) {
            add(list, k != 0 ? bits + near - 2 : near, 0);
        }
    }
}

static void add_drawn(items *list, operand_class class, uint64_t *state, uint32_t draws)
{
    for (uint32_t k = 0; k < draws; k++) {
        uint64_t random = draw(state);
        uint32_t more = (uint32_t)draw(state);
        uint32_t a = (uint32_t)random, b = (uint32_t)(random >> 32);
        if (class == CLASS_NEAR) {
            a = with_exponent(a, 120 + more % 16);
            b = with_exponent(b, 120 + (more >> 8) % 16);
        } else if (class == CLASS_SUBNORMALS) {
            // A subnormal and something moderate, or two whose product or quotient is one.
            bool is_operand = more % 2 == 0;
            a = with_exponent(a, is_operand ? more / 2 % 3 : 40 + more / 2 % 40);
            b = with_exponent(b, is_operand ? 64 + (more >> 16) % 128 : 40 + (more >> 16) % 40);
            if (list->primitive == KQ_PRIMITIVE_F32_DIVIDE && !is_operand) {
                b = with_exponent(b, 160 + (more >> 16) % 40);
            } else if (list->primitive == KQ_PRIMITIVE_F32_ADD ||
                       list->primitive == KQ_PRIMITIVE_F32_SUBTRACT) {
                b = with_exponent(b, (more >> 16) % 4);
            }
        } else if (class == CLASS_CANCELLATION) {
            // The same number but for its last bits and its sign.
            b = (a ^ (more & 0xFFFFFFFFu >> (more % 32))) ^
                (list->primitive == KQ_PRIMITIVE_F32_ADD ? 0x80000000 : 0);
            a = with_exponent(a, 1 + (more >> 8) % 254);
            b = with_exponent(b, ((a >> 23) & 255) - (b >> 3) % 2);
        } else if (list->primitive == KQ_PRIMITIVE_DOT4) {
            a &= 0x0F0F0F0F;
        } else if (list->primitive == KQ_PRIMITIVE_U32_DIVIDE) {
            b >>= more % 32;
            b = b != 0 ? b : a | 1;
        }
        add(list, a, b);
    }
}

// Every product of a code and a value, in each of the four places.
static void add_products(items *list)
{
    for (uint32_t place = 0; place < 32; place += 8) {
        for (uint32_t code = 0; code < 16; code++) {
            for (uint32_t value = 0; value < 256; value++) {
                add(list, code << place, value << place);
            }
        }
    }
}

static void add_walk(items *list)
{
    bool has_two = primitives[list->primitive].operands == 2;
    bool is_dot = list->primitive == KQ_PRIMITIVE_DOT4;
    uint32_t legal = is_dot ? 0x0F0F0F0F : 0xFFFFFFFF;
    for (unsigned bit = 0; bit < 32; bit++) {
        uint32_t one = (uint32_t)1 << bit;
        for (unsigned other = 0; other < (has_two ? 4u : 1u); other++) {
            uint32_t b = other == 0 ? 0 : other == 1 ? 0xFFFFFFFF : other == 2 ? one : ~one;
            add(list, one & legal, b);
            add(list, ~one & legal, b);
        }
        if (has_two) {
            add(list, 0, one);
            add(list, legal, one);
            add(list, legal, ~one);
        }
    }
}

item *primitive_items(uint32_t primitive, operand_class class, uint64_t seed, uint32_t draws,
                      uint32_t *count)
{
    items list = {.primitive = primitive};
    uint64_t state = seed + primitive * 16 + (unsigned)class;
    if ((primitives[primitive].classes >> class & 1) == 0) {
        *count = 0;
        return NULL;
    }
    if (class == CLASS_ALL && primitive == KQ_PRIMITIVE_F16_TO_F32) {
        for (uint32_t h = 0; h < 65536; h++) {
            add(&list, h | (h & 1) << 16, 0);  // what is above the half doesn't count
        }
    } else if (class == CLASS_ALL) {
        add_products(&list);
    } else if (class == CLASS_SPECIALS) {
        add_specials(&list);
    } else if (class == CLASS_WALK) {
        add_walk(&list);
    } else if (class == CLASS_TIES && primitive == KQ_PRIMITIVE_F32_TO_I8) {
        add_halves(&list);
    } else if (class == CLASS_STICKY) {
        add_sticky(&list, &state, draws);
    } else if (class == CLASS_MULTIPLES) {
        add_multiples(&list, &state, draws);
    } else if (class == CLASS_TIES) {
        add_ties(&list, &state, draws);
    } else {
        add_drawn(&list, class, &state, draws);
    }
    *count = list.count;
    return list.items;
}

// --- Answers

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7FFFFFFF) > 0x7F800000;
}

static bool is_subnormal(uint32_t bits)
{
    uint32_t magnitude = bits & 0x7FFFFFFF;
    return magnitude != 0 && magnitude < 0x00800000;
}

const char *primitive_fault(const item *item, uint32_t got)
{
    uint32_t must = primitive_result(item);
    bool is_float = item->primitive <= KQ_PRIMITIVE_F32_DIVIDE;
    bool is_f32_pair =
        item->primitive >= KQ_PRIMITIVE_F32_MULTIPLY && item->primitive <= KQ_PRIMITIVE_F32_DIVIDE;
    bool is_small =
        is_subnormal(must) || (is_f32_pair && (is_subnormal(item->a) || is_subnormal(item->b)));
    if (!is_float) {
        return "is wrong";
    }
    if (is_nan(must)) {
        return is_nan(got) ? "gives another NaN" : "gives a number for a NaN";
    }
    if (is_nan(got)) {
        return "gives a NaN for a number";
    }
    if ((got ^ must) == 0x80000000) {
        return (must & 0x7FFFFFFF) == 0 ? "loses the sign of zero" : "has the wrong sign";
    }
    if (is_small &&
        ((got & 0x7FFFFFFF) == 0 || must == (must & 0x80000000) || got == (got & 0xFF800000))) {
        return "loses subnormals";
    }
    if (got - must == 1) {
        return "is one place too large in magnitude";
    }
    if (must - got == 1) {
        return "is one place too small in magnitude";
    }
    return "is wrong";
}

static void digest_of(const item *items, uint32_t count, char digest[SHA256_HEX_BYTES])
{
    sha256 hash;
    sha256_begin(&hash);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        store_u32(bytes, items[i].result);
        sha256_add(&hash, bytes, sizeof bytes);
    }
    sha256_end(&hash, digest);
}

kq_result primitive_run(target *target, item *items, uint32_t count)
{
    _Static_assert(sizeof(item) == 16, "an item is four words");
    for (uint32_t i = 0; i < count; i++) {
        items[i].result = ~primitive_result(&items[i]);
    }
    target->reason[0] = '\0';
    return kq_primitives_host(target->device, &items[0].primitive, count);
}

case_status primitive_judge(report *report, const char *name, const item *items, uint32_t count,
                            kq_result result, char digest[SHA256_HEX_BYTES])
{
    uint32_t wrong = 0;
    const item *first = NULL;
    if (result != KQ_OK) {
        return judge_error(report, name, result);
    }
    digest_of(items, count, digest);
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].result != primitive_result(&items[i])) {
            wrong++;
            first = first == NULL ? &items[i] : first;
        }
    }
    if (first == NULL) {
        return CASE_PASS;
    }
    if (report_counts(report)) {
        char b[32] = "";
        if (primitives[first->primitive].operands == 2) {
            snprintf(b, sizeof b, ", 0x%08" PRIX32, first->b);
        }
        printf("FAIL   %s: %s %s: 0x%08" PRIX32 "%s gave 0x%08" PRIX32 ", expected 0x%08" PRIX32
               " (first of %" PRIu32 " of %" PRIu32 ")\n",
               name, primitive_name(first->primitive), primitive_fault(first, first->result),
               first->a, b, first->result, primitive_result(first), wrong, count);
    }
    return CASE_FAIL;
}

void cases_add_primitives(case_list *list, uint32_t draws)
{
    case_add(list, KQ_OP_SELF_TEST, NULL, "known-answers");
    for (uint32_t p = 1; p <= KQ_PRIMITIVE_COUNT; p++) {
        for (unsigned class = 0; class < CLASS_COUNT; class ++) {
            if ((primitives[p].classes >> class & 1) != 0) {
                test_case *test = case_add(list, KQ_OP_SELF_TEST, NULL, "%s-%s", primitives[p].id,
                                           class_names[class]);
                test->primitive = p;
                test->operand_class = class;
                test->draws = draws;
            }
        }
    }
}
