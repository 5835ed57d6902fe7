// Tells what a result is, from its pattern and from the exact result in double.
#include <math.h>
#include <stdbool.h>

#include "exact_bits.h"
#include "exact_tally.h"

const char *const kind_names[KINDS] = {
    "zero", "subnormal", "edge", "inf", "NaN", "exact", "inexact", "tie", "near tie", "cancelled",
};

struct exact_result exact_mul(u32 a, u32 b)
{
    double product = (double)float_of(a) * (double)float_of(b);
    return (struct exact_result){.value = fabs(product), .scale = 1.0};
}

struct exact_result exact_add(u32 a, u32 b)
{
    // Knuth's two-sum; doubles hold sum and error of any two floats.
    double x = (double)float_of(a);
    double y = (double)float_of(b);
    double sum = x + y;
    double y_part = sum - x;
    double error = (x - (sum - y_part)) + (y - y_part);
    return (struct exact_result){
        .value = fabs(sum), .error = sum < 0.0 ? -error : error, .scale = 1.0};
}

struct exact_result exact_div(u32 a, u32 b)
{
    return (struct exact_result){.value = fabs((double)float_of(a)),
                                 .scale = fabs((double)float_of(b))};
}

// Infinity stands for 2^128 here: rounding sees it as the neighbour of FLT_MAX.
static double magnitude_value(u32 magnitude)
{
    return magnitude == INF ? ldexp(1.0, 128) : (double)float_of(magnitude);
}

static void tally_rounding(struct tally *tally, const struct exact_result *exact, u32 magnitude)
{
    double nearest = magnitude_value(magnitude);
    if (exact->value == nearest * exact->scale && exact->error == 0.0 && magnitude != INF) {
        tally->count[EXACT] += magnitude != 0;
        return;
    }
    tally->count[INEXACT]++;
    bool above = exact->value > nearest * exact->scale;
    if (magnitude == INF && above)
        return;
    if (magnitude == 0 && exact->value == 0.0)
        return;
    double other = magnitude_value(above ? magnitude + 1 : magnitude - 1);
    double off = 2.0 * exact->value - (nearest + other) * exact->scale + 2.0 * exact->error;
    if (off == 0.0)
        tally->count[TIE]++;
    else if (fabs(off) <= fabs(nearest - other) * exact->scale * ldexp(1.0, -17))
        tally->count[NEAR_TIE]++;
}

void tally_result(struct tally *tally, exact_fn *exact, u32 a, u32 b, u32 result)
{
    u32 magnitude = magnitude_of(result);
    tally->pairs++;
    tally->count[ZERO] += magnitude == 0;
    tally->count[SUBNORMAL] += is_subnormal(result);
    tally->count[INFINITE] += magnitude == INF;
    tally->count[NOT_A_NUMBER] += magnitude > INF;
    tally->count[EDGE] += magnitude - (MIN_NORMAL - 4u) <= 8u || FLT_MAX_BITS - magnitude <= 4u;
    if (!is_finite(a) || !is_finite(b))
        return;
    if (exact == exact_div && magnitude_of(b) == 0)
        return;
    struct exact_result value = exact(a, b);
    tally_rounding(tally, &value, magnitude);
    if (exact == exact_add) {
        u32 larger = magnitude_of(a) > magnitude_of(b) ? magnitude_of(a) : magnitude_of(b);
        tally->count[CANCELLED] += magnitude != 0 && larger >= magnitude + (12u << 23);
    }
}
