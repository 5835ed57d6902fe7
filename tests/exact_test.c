// Checks every function of exact.h, and kq_v of records.h, against the host's IEEE unit, bit for
// bit; and kq_code of records.h against the two of these that it puts together.
//
// Small domains are exhausted. mul, add, sub and div get a crossed list of hard values and then
// random pairs from classes, each built to reach one hard case. What a class reached is counted
// from the host's results, and a class that misses its purpose fails the test.
//
// Needs -ffp-contract=off. Exits with 77 where the host is not IEEE: then nothing was tested.
// Usage: exact_test [seed]
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "prelude.h"
#include "exact.h"
#include "records.h"
#include "exact_bits.h"
#include "exact_draws.h"
#include "exact_host.h"
#include "exact_random.h"
#include "exact_tally.h"

#define EXIT_SKIP    77
#define EXIT_USAGE   2
#define DEFAULT_SEED UINT64_C(0x6B7175616E740001)

#define SHOWN_MISMATCHES 20
#define LEAST_PAIRS      UINT64_C(100000000)
#define MAX_CLASSES      12

// Mismatches of one test: the first ones are printed, all are counted.

struct mismatches {
    uint64_t count;
};

static void mismatch(struct mismatches *found, const char *call, u32 got, u32 expected)
{
    if (found->count++ < SHOWN_MISMATCHES)
        print_error("%s = 0x%08" PRIX32 ", expected 0x%08" PRIX32 "\n", call, got, expected);
}

static void check_unary(struct mismatches *found, const char *name, u32 a, u32 got, u32 expected)
{
    if (got == expected)
        return;
    char call[64];
    snprintf(call, sizeof(call), "%s(0x%08" PRIX32 ")", name, a);
    mismatch(found, call, got, expected);
}

static void check_binary(struct mismatches *found, const char *name, u32 a, u32 b, u32 got,
                         u32 expected)
{
    if (got == expected)
        return;
    char call[64];
    snprintf(call, sizeof(call), "%s(0x%08" PRIX32 ", 0x%08" PRIX32 ")", name, a, b);
    mismatch(found, call, got, expected);
}

static void finish(const struct mismatches *found, const char *name, uint64_t tested)
{
    printf("%-14s %11" PRIu64 " tested, %" PRIu64 " mismatches\n", name, tested, found->count);
    fflush(stdout);
}

// Tests

// What else is checked on a pair, of which the host expects this result.
typedef void other_check(struct mismatches *found, u32 a, u32 b, u32 expected);

struct operation {
    const char *name;
    binary_fn *tested;
    binary_fn *host;
    exact_fn *exact;
    const struct pair_classes *classes;
    const char *names;  // with that of the other check
    other_check *other;
};

static void check_mul_normal(struct mismatches *found, u32 a, u32 b, u32 expected)
{
    if (!is_subnormal(b))
        check_binary(found, "mul_normal", a, b, kq_f32_mul_normal(a, b), expected);
    if (!is_subnormal(a))
        check_binary(found, "mul_normal", b, a, kq_f32_mul_normal(b, a), expected);
}

static void check_sub(struct mismatches *found, u32 a, u32 b, u32 expected)
{
    (void)expected;
    u32 turned = b ^ SIGN;
    check_binary(found, "sub", a, turned, kq_f32_sub(a, turned), host_sub(a, turned));
}

static void check_nothing(struct mismatches *found, u32 a, u32 b, u32 expected)
{
    (void)found;
    (void)a;
    (void)b;
    (void)expected;
}

static const struct operation operations[] = {
    {"mul", kq_f32_mul, host_mul, exact_mul, &mul_classes, "mul", check_mul_normal},
    {"add", kq_f32_add, host_add, exact_add, &add_classes, "add, sub", check_sub},
    {"div", kq_f32_div, host_div, exact_div, &div_classes, "div", check_nothing},
};

// What main and the tests share: the seed in, the tallies out.
struct session {
    uint64_t seed;
    struct tally crossed[COUNT(operations)];
    struct tally drawn[COUNT(operations)][MAX_CLASSES];
};

static void check_pair(struct mismatches *found, struct tally *tally,
                       const struct operation *operation, u32 a, u32 b)
{
    u32 expected = operation->host(a, b);
    check_binary(found, operation->name, a, b, operation->tested(a, b), expected);
    operation->other(found, a, b, expected);
    tally_result(tally, operation->exact, a, b, expected);
}

// Prints every purpose that a class missed and returns how many.
static size_t missed_purposes(const char *operation, const struct pair_class *class,
                              const struct tally *tally)
{
    size_t missed = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        if (tally->count[kind] >= class->least[kind])
            continue;
        print_error(
            "%s, class \"%s\": %" PRIu64 " results of kind \"%s\", at least %" PRIu32 " wanted\n",
            operation, class->name, tally->count[kind], kind_names[kind], class->least[kind]);
        missed++;
    }
    return missed;
}

static void check_operation(struct session *session, size_t index)
{
    const struct operation *operation = &operations[index];
    struct mismatches found = {0};
    assert_true(operation->classes->count <= MAX_CLASSES);

    u32 specials[MAX_SPECIALS];
    size_t special_count = list_specials(specials);
    assert_true(special_count <= MAX_SPECIALS);
    for (size_t i = 0; i < special_count; i++) {
        for (size_t j = 0; j < special_count; j++)
            check_pair(&found, &session->crossed[index], operation, specials[i], specials[j]);
    }

    uint64_t drawn = 0;
    size_t missed = 0;
    for (size_t i = 0; i < operation->classes->count; i++) {
        const struct pair_class *class = &operation->classes->list[i];
        struct tally *tally = &session->drawn[index][i];
        struct random random = {session->seed ^ ((uint64_t)(index + 1) << 40) ^
                                ((uint64_t)i << 32)};
        for (u32 n = 0; n < class->pairs; n++) {
            struct pair pair = class->draw(&random);
            check_pair(&found, tally, operation, pair.a, pair.b);
        }
        drawn += tally->pairs;
        missed += missed_purposes(operation->name, class, tally);
    }
    finish(&found, operation->names, session->crossed[index].pairs + drawn);
    assert_true(drawn >= LEAST_PAIRS);
    assert_int_equal(missed, 0);
    assert_int_equal(found.count, 0);
}

static void test_mul(void **state)
{
    check_operation(*state, 0);
}

static void test_add_sub(void **state)
{
    check_operation(*state, 1);
}

static void test_div(void **state)
{
    check_operation(*state, 2);
}

static const char *const binary_names[BINARIES] = {
    [MUL] = "mul",
    [ADD] = "add",
    [SUB] = "sub",
    [DIV] = "div",
};

static binary_fn *const tested_binaries[BINARIES] = {
    [MUL] = kq_f32_mul,
    [ADD] = kq_f32_add,
    [SUB] = kq_f32_sub,
    [DIV] = kq_f32_div,
};

static void test_answers(void **state)
{
    (void)state;
    struct mismatches found = {0};
    for (size_t i = 0; i < binary_answer_count; i++) {
        const struct binary_answer *answer = &binary_answers[i];
        binary_fn *tested = tested_binaries[answer->operation];
        check_binary(&found, binary_names[answer->operation], answer->a, answer->b,
                     tested(answer->a, answer->b), answer->result);
    }
    for (size_t i = 0; i < i32_answer_count; i++) {
        u32 a = i32_answers[i].a;
        check_unary(&found, "i32_to_f32", a, kq_i32_to_f32(a), i32_answers[i].result);
    }
    for (size_t i = 0; i < i8_answer_count; i++) {
        u32 a = i8_answers[i].a;
        check_unary(&found, "f32_to_i8", a, kq_f32_to_i8(a), i8_answers[i].result);
    }
    finish(&found, "known answers", binary_answer_count + i32_answer_count + i8_answer_count);
    assert_int_equal(found.count, 0);
}

static void test_clz(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    uint64_t tested = 1;
    check_unary(&found, "clz", 0, kq_clz(0), 32);
    for (u32 zeros = 0; zeros < 32; zeros++) {
        u32 top = SIGN >> zeros;
        check_unary(&found, "clz", top, kq_clz(top), zeros);
        check_unary(&found, "clz", 2u * top - 1u, kq_clz(2u * top - 1u), zeros);
        for (int i = 0; i < 100000; i++) {
            u32 x = top | (random_u32(&random) & (top - 1u));
            check_unary(&found, "clz", x, kq_clz(x), zeros);
        }
        tested += 100002;
    }
    finish(&found, "clz", tested);
    assert_int_equal(found.count, 0);
}

static u32 expected_f16_to_f32(u32 h)
{
    u32 sign = (h & 0x8000u) << 16;
    u32 e = (h >> 10) & 31u;
    u32 fraction = h & 0x3FFu;
    if (e == 31)
        return fraction != 0 ? NAN_BITS : sign | INF;
    double magnitude = e == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)e - 25);
    return sign | bits_of((float)magnitude);
}

static void test_f16_to_f32(void **state)
{
    (void)state;
    // The upper half of the word is not part of the number.
    static const u32 upper_halves[] = {0x00000000u, 0xFFFF0000u, 0x00010000u, 0x80000000u};
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (size_t i = 0; i < COUNT(upper_halves); i++) {
        for (u32 h = 0; h <= 0xFFFFu; h++, tested++) {
            u32 word = upper_halves[i] | h;
            check_unary(&found, "f16_to_f32", word, kq_f16_to_f32(word), expected_f16_to_f32(h));
        }
    }
    finish(&found, "f16_to_f32", tested);
    assert_int_equal(found.count, 0);
}

#define I25_MOST 0x01FFFFFFu

static u32 host_f16_mul_i25(u32 h, u32 x)
{
    return host_mul(expected_f16_to_f32(h), host_i32_to_f32(x));
}

static void check_f16_mul_i25(struct mismatches *found, u32 h, u32 x)
{
    check_binary(found, "f16_mul_i25", h, x, kq_f16_mul_i25(h, x),
                 host_f16_mul_i25(h & 0xFFFFu, x));
}

// Of any length up to 25 bits, of the kinds that significands are drawn.
static u32 draw_i25(struct random *random)
{
    u32 n = (draw_significand(random) << 1) | (random_u32(random) & 1u);
    n = n >> below(random, 26);
    return random_sign(random) != 0 ? 0u - n : n;
}

static void test_f16_mul_i25(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    uint64_t tested = 0;
    // Every half with 0, powers of two and their neighbours, and ones drawn. The upper half of the
    // word is not part of the number.
    for (u32 h = 0; h <= 0xFFFFu; h++) {
        for (u32 bit = 0; bit <= 25; bit++) {
            for (u32 n = (1u << bit) - 3u; n != (1u << bit) + 4u; n++) {
                if (n > I25_MOST)
                    continue;
                check_f16_mul_i25(&found, h, n);
                check_f16_mul_i25(&found, h | 0xFFFF0000u, 0u - n);
                tested += 2;
            }
        }
        for (int i = 0; i < 400; i++, tested++)
            check_f16_mul_i25(&found, h | (random_u32(&random) << 16), draw_i25(&random));
    }
    // Every x, with the least half, with 1, and with one of 11 bits.
    static const u32 halves[] = {0x0001u, 0x3C00u, 0xBFFFu};
    for (size_t i = 0; i < COUNT(halves); i++) {
        for (u32 n = 0; n <= I25_MOST; n++, tested += 2) {
            check_f16_mul_i25(&found, halves[i], n);
            check_f16_mul_i25(&found, halves[i], 0u - n);
        }
    }
    finish(&found, "f16_mul_i25", tested);
    assert_int_equal(found.count, 0);
}

// What kq_v is asked for.
struct term {
    u32 d;
    u32 dmin;
    u32 s;
    u32 t;
    u32 ds;
};

static u32 draw_half(struct random *random)
{
    u32 h = random_u32(random) & 0xFFFFu;
    switch (below(random, 16)) {
    case 0: return h & 0x83FFu;                                          // subnormal
    case 1: return (h & 0x8001u) | ((h & 2u) != 0 ? 0x7C00u : 0x0000u);  // zero, or the specials
    case 2:
    case 3: return (h & 0x83FFu) | 0x3C00u;
    default: return h;
    }
}

// Terms whose two products have nothing in common; nearly cancel; cancel; with a ds that makes
// subnormals and overflow of what remains.
static struct term draw_term(struct random *random)
{
    struct term term = {draw_half(random), draw_half(random), draw_i25(random), draw_i25(random),
                        random_u32(random)};
    switch (below(random, 4)) {
    case 0:
        term.dmin = term.d;
        term.t = term.s + below(random, 5) - 2u;
        break;
    case 1:
        term.dmin = term.d ^ (random_sign(random) >> 16);
        term.t = random_sign(random) != 0 ? 0u - term.s : term.s;
        break;
    default: break;
    }
    if (term.t + I25_MOST > 2u * I25_MOST)
        term.t = term.s;
    u32 p = host_f16_mul_i25(term.d, term.s);
    u32 n = host_f16_mul_i25(term.dmin, term.t);
    u32 e = (magnitude_of(host_sub(p, n)) >> 23) & 255u;
    int least = between(random, -30, 6);
    if (below(random, 2) == 0 && e != 0 && (int)(127u - e) + least > 0)
        term.ds = (term.ds & (SIGN | FRACTION)) | ((u32)((int)(127u - e) + least) << 23);
    else if (below(random, 4) == 0)
        term.ds &= SIGN | FRACTION;
    return term;
}

#define TERMS 40000000u

static void test_v(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    struct tally tally = {0};
    for (u32 i = 0; i < TERMS; i++) {
        struct term term = draw_term(&random);
        u32 p = host_f16_mul_i25(term.d, term.s);
        u32 n = host_f16_mul_i25(term.dmin, term.t);
        u32 rest = host_sub(p, n);
        u32 expected = host_mul(term.ds, rest);
        u32 got = kq_v(term.d | (term.dmin << 16), term.s, term.t, term.ds);
        if (got != expected) {
            char call[128];
            snprintf(call, sizeof(call),
                     "v(0x%04" PRIX32 "%04" PRIX32 ", 0x%08" PRIX32 ", 0x%08" PRIX32
                     ", 0x%08" PRIX32 ")",
                     term.dmin, term.d, term.s, term.t, term.ds);
            mismatch(&found, call, got, expected);
        }
        tally_result(&tally, exact_mul, term.ds, rest, expected);
    }
    finish(&found, "v", TERMS);
    // The classes of mul see to the rest of the kinds.
    static const struct pair_class terms = {"v",
                                            NULL,
                                            TERMS,
                                            {[ZERO] = TERMS / 8,
                                             [SUBNORMAL] = TERMS / 30,
                                             [INFINITE] = TERMS / 30,
                                             [NOT_A_NUMBER] = TERMS / 20,
                                             [EXACT] = TERMS / 50,
                                             [INEXACT] = TERMS / 2,
                                             [TIE] = TERMS / 250}};
    assert_int_equal(missed_purposes("v", &terms, &tally), 0);
    assert_int_equal(found.count, 0);
}

static void check_i32(struct mismatches *found, u32 x)
{
    check_unary(found, "i32_to_f32", x, kq_i32_to_f32(x), host_i32_to_f32(x));
}

static void test_i32_to_f32(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (u32 x = 0; x <= 1u << 25; x++, tested += 2) {
        check_i32(&found, x);
        check_i32(&found, 0u - x);
    }
    // The ends: from -2^31 up and from 2^31 - 1 down.
    for (u32 i = 0; i <= 1u << 16; i++, tested += 2) {
        check_i32(&found, 0x80000000u + i);
        check_i32(&found, 0x7FFFFFFFu - i);
    }
    // Ties and their neighbours, for each number of bits rounded away.
    for (int lost = 1; lost <= 7; lost++) {
        for (int i = 0; i < 200000; i++, tested += 6) {
            u32 tie = (draw_significand(&random) << lost) + (1u << (lost - 1));
            for (u32 x = tie - 1u; x != tie + 2u; x++) {
                check_i32(&found, x);
                check_i32(&found, 0u - x);
            }
        }
    }
    for (int i = 0; i < 10000000; i++, tested++)
        check_i32(&found, random_u32(&random));
    finish(&found, "i32_to_f32", tested);
    assert_int_equal(found.count, 0);
}

// The least magnitude that rounds to n > 0: the tie n - 1/2, or what follows it if n is odd.
static u32 least_rounded_to(u32 n)
{
    return bits_of((float)n - 0.5f) + (n & 1u);
}

// All patterns from first to last must give expected; the host answers for both ends.
static uint64_t check_i8_range(struct mismatches *found, u32 first, u32 last, u32 expected)
{
    assert_int_equal(host_f32_to_i8(first), expected);
    assert_int_equal(host_f32_to_i8(last), expected);
    for (u32 a = first; a != last; a++)
        check_unary(found, "f32_to_i8", a, kq_f32_to_i8(a), expected);
    check_unary(found, "f32_to_i8", last, kq_f32_to_i8(last), expected);
    return (uint64_t)last - first + 1;
}

static void test_f32_to_i8(void **state)
{
    (void)state;
    // Rounding is monotone, so the patterns between two ties share one integer.
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (u32 n = 0; n <= 128; n++) {
        u32 first = n == 0 ? 0u : least_rounded_to(n);
        u32 last = n == 128 ? INF : least_rounded_to(n + 1u) - 1u;
        tested += check_i8_range(&found, first, last, n < 127 ? n : 127u);
        tested += check_i8_range(&found, first | SIGN, last | SIGN, 0u - n);
    }
    tested += check_i8_range(&found, INF + 1u, SIGN - 1u, 0);
    tested += check_i8_range(&found, (INF + 1u) | SIGN, 0xFFFFFFFFu, 0);
    finish(&found, "f32_to_i8", tested);
    assert_true(tested == UINT64_C(1) << 32);
    assert_int_equal(found.count, 0);
}

// kq_code of a value of a block with this inverse, against the two steps that it puts together.
static void check_code(struct mismatches *found, u32 value, u32 inverse)
{
    u32 expected = kq_f32_to_i8(kq_f32_mul(value, inverse)) & 255u;
    check_binary(found, "code", value, inverse, kq_code(value, inverse), expected);
    check_binary(found, "code", value ^ SIGN, inverse, kq_code(value ^ SIGN, inverse),
                 (0u - expected) & 255u);
}

// The largest value of a block with this extreme, and those about each half, which a unit in the
// last place may bring to another integer.
static uint64_t check_codes_of(struct mismatches *found, struct random *random, u32 extreme)
{
    uint64_t tested = 2;
    u32 inverse = kq_inverse(extreme << 1);
    assert_int_equal(kq_is_legal(extreme << 1, inverse), 1);
    check_code(found, extreme, inverse);
    for (u32 n = 0; n < 127; n++) {
        u32 half = bits_of((float)((double)float_of(extreme) * (n + 0.5) / 127.0));
        for (u32 i = 0; i < 9; i++, tested += 2) {
            u32 value = half + i - 4u;
            check_code(found, value < extreme ? value : extreme, inverse);
        }
    }
    for (int i = 0; i < 200; i++, tested += 2) {
        check_code(found, random_u32(random) % (extreme + 1u), inverse);
    }
    return tested;
}

static void test_code(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (u32 exponent = 5; exponent < 255; exponent++) {
        int draws = exponent < 16 ? 200 : 10;
        for (int i = 0; i < draws; i++) {
            u32 extreme = exponent << 23 | (random_u32(&random) & 0x7FFFFFu);
            tested +=
                check_codes_of(&found, &random, extreme > 0x02FE0001u ? extreme : 0x02FE0001u);
        }
        tested += check_codes_of(&found, &random, exponent << 23 | 0x7FFFFFu);
        tested += check_codes_of(&found, &random, exponent << 23 | 0x7E0000u | (exponent == 5));
    }
    // Of a block that has no record the inverse is taken as 0.
    static const u32 values[] = {0u, 1u, 0x3F800000u, 0x7F7FFFFFu, INF, INF + 1u, 0x7FFFFFFFu};
    for (size_t i = 0; i < COUNT(values); i++, tested += 2)
        check_code(&found, values[i], 0u);
    finish(&found, "code", tested);
    assert_int_equal(found.count, 0);
}

static void print_tally(const char *operation, const char *class, const struct tally *tally)
{
    printf("%-4s %-15s %10" PRIu64, operation, class, tally->pairs);
    for (int kind = 0; kind < KINDS; kind++)
        printf(" %9" PRIu64, tally->count[kind]);
    printf("\n");
}

static void print_table(const struct session *session)
{
    printf("\n%-4s %-15s %10s", "op", "class", "pairs");
    for (int kind = 0; kind < KINDS; kind++)
        printf(" %9s", kind_names[kind]);
    printf("\n");
    for (size_t i = 0; i < COUNT(operations); i++) {
        const struct operation *operation = &operations[i];
        struct tally all = {0};
        print_tally(operation->name, "crossed list", &session->crossed[i]);
        for (size_t j = 0; j < operation->classes->count; j++) {
            const struct tally *tally = &session->drawn[i][j];
            print_tally(operation->name, operation->classes->list[j].name, tally);
            all.pairs += tally->pairs;
            for (int kind = 0; kind < KINDS; kind++)
                all.count[kind] += tally->count[kind];
        }
        print_tally(operation->name, "all classes", &all);
    }
    printf("add: the results are those of add; sub was checked on as many pairs.\n"
           "mul: so was mul_normal, both ways, but where an operand is subnormal.\n");
    fflush(stdout);
}

static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 0);
    return end != text && *end == '\0' && errno == 0;
}

int main(int argc, char **argv)
{
    struct session session = {.seed = DEFAULT_SEED};
    if (argc > 2 || (argc == 2 && !parse_seed(argv[1], &session.seed))) {
        fprintf(stderr, "usage: exact_test [seed]\n");
        return EXIT_USAGE;
    }
    const char *fault = host_fault();
    if (fault) {
        printf("skipped, the host cannot judge: %s\n", fault);
        return EXIT_SKIP;
    }
    printf("host: binary32, to nearest even, subnormals kept\nseed: 0x%016" PRIX64 "\n",
           session.seed);
    fflush(stdout);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test_prestate(test_clz, &session),
        cmocka_unit_test(test_f16_to_f32),
        cmocka_unit_test_prestate(test_f16_mul_i25, &session),
        cmocka_unit_test_prestate(test_i32_to_f32, &session),
        cmocka_unit_test(test_f32_to_i8),
        cmocka_unit_test_prestate(test_mul, &session),
        cmocka_unit_test_prestate(test_add_sub, &session),
        cmocka_unit_test_prestate(test_div, &session),
        cmocka_unit_test_prestate(test_v, &session),
        cmocka_unit_test_prestate(test_code, &session),
    };
    int failed = cmocka_run_group_tests_name("exact", tests, NULL, NULL);
    print_table(&session);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
