// The vectors again, moved about: what they must give does not depend on where their records lie,
// on their neighbours, or on how many dots one call makes.
#include "bytes.h"
#include "cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// Vectors are chosen by what they are, from the start of the list, so that vectors appended later
// don't change the meaning of these cases.

static bool is_good_block(const quantize_vector *vector)
{
    return vector->domain.reason == KQ_REASON_NONE && vector->G > 0;
}

// A dozen good short vectors, spread over the list.
static void take_sample(const case_list *list, test_case *test)
{
    size_t met = 0;
    for (size_t k = 0; k < list->vectors.quantize_count && test->vector_count < 12; k++) {
        const quantize_vector *vector = &list->vectors.quantize[k];
        if (is_good_block(vector) && vector->G <= 4 && met++ % 4 == 1) {
            case_take(test, k);
        }
    }
}

// Good and bad vectors by turns, a good one first.
static void take_mixture(const case_list *list, test_case *test, size_t count)
{
    size_t next[2] = {0, 0};  // bad, good
    const vectors *vectors = &list->vectors;
    for (unsigned good = 1; test->vector_count < count; good ^= 1) {
        size_t k = next[good];
        while (k < vectors->quantize_count && is_good_block(&vectors->quantize[k]) != (bool)good) {
            k++;
        }
        if (k == vectors->quantize_count) {
            return;
        }
        next[good] = k + 1;
        if (vectors->quantize[k].G > 0) {
            case_take(test, k);
        }
    }
}

static test_case *add_sample(case_list *list, const layout *layout, const char *class)
{
    test_case *test = case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "%s", class);
    test->layout = *layout;
    take_sample(list, test);
    return test;
}

// The class of the next case: text with up to three numbers.
#define CLASS(...) (snprintf(class, sizeof class, __VA_ARGS__), class)

static void add_quantize_offsets(case_list *list)
{
    char class[100];
    for (unsigned k = 1; k < 16; k++) {
        layout layout = {0};
        layout.views[OPERAND_VALUES].offset = k / 4;
        layout.views[OPERAND_OUT].offset = k % 4;
        add_sample(list, &layout, CLASS("offsets-%u-%u", k / 4, k % 4));
        layout.one_buffer = true;
        add_sample(list, &layout, CLASS("one-buffer-offsets-%u-%u", k / 4, k % 4));
    }
    for (unsigned k = 0; k < 4; k++) {
        layout layout = {.exact_end = true};
        layout.views[OPERAND_VALUES].offset = k;
        layout.views[OPERAND_OUT].offset = k;
        add_sample(list, &layout, CLASS("buffers-end-with-views-%u", k));
    }
    layout far = {0};
    far.views[OPERAND_VALUES].offset = ((uint64_t)1 << 20) + 1;
    far.views[OPERAND_OUT].offset = ((uint64_t)1 << 20) + 3;
    add_sample(list, &far, "offsets-far");
}

// Column g holds block g, as in f32 [256,G].
static kq_view transposed_view(const case_list *list, const test_case *test, uint64_t offset)
{
    uint64_t G = 0;
    for (size_t k = 0; k < test->vector_count; k++) {
        G += list->vectors.quantize[test->vectors[k]].G;
    }
    return (kq_view){.offset = offset, .stride = 4, .value_stride = 4 * G};
}

static void add_quantize_strides(case_list *list)
{
    static const uint64_t values[] = {1025, 1026, 1027, 1028, 1040, 3001};
    static const uint64_t records[] = {292, 293, 294, 295, 296, 300, 584};
    static const uint64_t value[] = {4, 8, 12, 20};
    char class[100];
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        layout layout = {0};
        layout.views[OPERAND_VALUES].stride = values[k];
        add_sample(list, &layout, CLASS("values-stride-%" PRIu64, values[k]));
    }
    for (size_t k = 0; k < sizeof records / sizeof records[0]; k++) {
        for (unsigned offset = 0; offset < 4; offset++) {
            layout layout = {0};
            layout.views[OPERAND_OUT].stride = records[k];
            layout.views[OPERAND_OUT].offset = offset;
            add_sample(list, &layout, CLASS("records-stride-%" PRIu64 "-%u", records[k], offset));
        }
    }
    for (size_t k = 0; k < sizeof value / sizeof value[0]; k++) {
        for (unsigned offset = 0; offset < 4; offset++) {
            layout layout = {0};
            layout.views[OPERAND_VALUES].offset = offset;
            layout.views[OPERAND_VALUES].value_stride = value[k];
            layout.views[OPERAND_VALUES].stride = KQ_BLOCK * value[k];
            add_sample(list, &layout, CLASS("value-stride-%" PRIu64 "-%u", value[k], offset));
        }
    }
    for (unsigned offset = 0; offset < 4; offset++) {
        layout layout = {0};
        test_case *test = add_sample(list, &layout, CLASS("transposed-%u", offset));
        test->layout.views[OPERAND_VALUES] = transposed_view(list, test, offset);
    }
    layout all = {.one_buffer = true, .exact_end = true};
    all.views[OPERAND_VALUES] = (kq_view){.offset = 3, .stride = 2059, .value_stride = 8};
    all.views[OPERAND_OUT] = (kq_view){.offset = 1, .stride = 295};
    add_sample(list, &all, "everything-odd");
}

static bool is_all_equal(const quantize_vector *vector)
{
    for (size_t i = 4; i < KQ_BLOCK_BYTES; i++) {
        if (vector->values[i] != vector->values[i - 4]) {
            return false;
        }
    }
    return true;
}

// Views whose records or values share bytes, which inputs may.
static void add_quantize_broadcasts(case_list *list)
{
    static const kq_view views[] = {
        {.stride = KQ_BROADCAST},
        {.value_stride = KQ_BROADCAST},
        {.stride = 4},
        {.stride = 8, .value_stride = 12, .offset = 2},
        {.stride = KQ_BROADCAST, .value_stride = KQ_BROADCAST, .offset = 1},
    };
    static const char *const names[] = {
        "broadcast-block", "broadcast-value", "sliding-4", "sliding-8-by-12", "broadcast-both",
    };
    unsigned found = 0, plain = 0;
    for (size_t k = 0; k < list->vectors.quantize_count; k++) {
        const quantize_vector *vector = &list->vectors.quantize[k];
        if (!is_good_block(vector) || vector->G != 1) {
            continue;
        }
        // A block can be broadcast whatever it holds, its values only where they are all equal.
        bool is_equal = is_all_equal(vector) && found < 4;
        bool is_plain = !is_all_equal(vector) && plain < 4;
        for (size_t v = 0; v < sizeof views / sizeof views[0]; v++) {
            if (!is_equal && !(is_plain && v == 0)) {
                continue;
            }
            test_case *test = case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "%s-of-%s",
                                       names[v], vector->name);
            test->layout.views[OPERAND_VALUES] = views[v];
            for (int copies = 0; copies < 5; copies++) {
                case_take(test, k);
            }
        }
        found += is_equal;
        plain += is_plain;
    }
}

static void add_quantize_domains(case_list *list)
{
    for (unsigned odd = 0; odd < 2; odd++) {
        const char *suffix = odd ? "-everything-odd" : "";
        layout layout = {.one_buffer = odd};
        if (odd) {
            layout.views[OPERAND_VALUES] = (kq_view){.offset = 2, .stride = 1033};
            layout.views[OPERAND_OUT] = (kq_view){.offset = 3, .stride = 301};
        }
        test_case *mixture =
            case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "bad-and-good%s", suffix);
        take_mixture(list, mixture, 16);
        mixture->layout = layout;

        // What a bad block has wrong is read back from the view.
        test_case *apart =
            case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "bad-and-good-apart%s", suffix);
        take_mixture(list, apart, 16);
        apart->layout = layout;
        apart->layout.views[OPERAND_VALUES] =
            (kq_view){.offset = odd, .stride = 3083, .value_stride = 12};

        test_case *transposed = case_add(list, KQ_OP_QUANTIZE, case_build_quantize,
                                         "bad-and-good-transposed%s", suffix);
        take_mixture(list, transposed, 16);
        transposed->layout = layout;
        transposed->layout.views[OPERAND_VALUES] = transposed_view(list, transposed, odd);

        test_case *good = case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "all-good%s", suffix);
        good->layout = layout;
        for (size_t k = 0; k < list->vectors.quantize_count; k++) {
            if (is_good_block(&list->vectors.quantize[k])) {
                case_take(good, k);
            }
        }
        test_case *all = case_add(list, KQ_OP_QUANTIZE, case_build_quantize, "all%s", suffix);
        all->layout = layout;
        for (size_t k = 0; k < list->vectors.quantize_count; k++) {
            case_take(all, k);
        }
    }
}

static void add_no_records(case_list *list)
{
    for (unsigned offset = 0; offset < 4; offset++) {
        for (unsigned null = 0; null < 2; null++) {
            layout layout = {.null_inputs = null};
            for (unsigned operand = 0; operand < OPERANDS; operand++) {
                layout.views[operand].offset = offset;
            }
            const char *class = null ? "no-records-null-inputs-%u" : "no-records-%u";
            case_add(list, KQ_OP_QUANTIZE, case_build_quantize, class, offset)->layout = layout;
            for (size_t k = 0; k < list->vectors.dot_count; k++) {
                if (list->vectors.dot[k].G != 0) {
                    continue;
                }
                test_case *one =
                    case_add(list, KQ_OP_QUANTIZED_DOT, case_build_dots, class, offset);
                one->layout = layout;
                case_take(one, k);

                test_case *many = case_add(
                    list, KQ_OP_QUANTIZED_DOT, case_build_dots,
                    null ? "no-records-null-inputs-many-%u" : "no-records-many-%u", offset);
                many->layout = layout;
                many->layout.has_repeat = true;
                many->layout.repeat =
                    (kq_repeat){.count = {70, 3}, .result_step = {5, 360}, .lhs_step = {7, 1}};
                for (int dots = 0; dots < 70 * 3; dots++) {
                    case_take(many, k);
                }
                break;
            }
        }
    }
}

// --- Dots

// The which-th of the vectors with a few records and a result that is an ordinary number.
static bool find_dot(const case_list *list, size_t which, size_t *found)
{
    for (size_t k = 0; k < list->vectors.dot_count; k++) {
        const dot_vector *vector = &list->vectors.dot[k];
        uint32_t exponent = vector->results[0] >> 23 & 255;
        if (vector->G >= 3 && vector->G <= 16 && exponent > 0 && exponent < 255 && which-- == 0) {
            *found = k;
            return true;
        }
    }
    return false;
}

static void add_dot(case_list *list, const layout *layout, size_t which, const char *class)
{
    size_t found;
    if (!find_dot(list, which % 8, &found)) {
        return;
    }
    test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, case_build_dots, "%s", class);
    test->layout = *layout;
    case_take(test, found);
}

static void add_dot_offsets(case_list *list)
{
    char class[100];
    for (unsigned k = 1; k < 64; k++) {
        unsigned lhs = k / 16, rhs = k / 4 % 4, result = k % 4;
        layout layout = {0};
        layout.views[OPERAND_LHS].offset = lhs;
        layout.views[OPERAND_RHS].offset = rhs;
        layout.views[OPERAND_OUT].offset = result;
        add_dot(list, &layout, k, CLASS("offsets-%u-%u-%u", lhs, rhs, result));
        layout.one_buffer = k % 2;
        layout.exact_end = true;
        add_dot(list, &layout, k, CLASS("buffers-end-with-views-%u-%u-%u", lhs, rhs, result));
    }
    layout far = {0};
    for (unsigned operand = 0; operand < OPERANDS; operand++) {
        far.views[operand].offset = ((uint64_t)1 << 20) + 1 + operand;
    }
    add_dot(list, &far, 0, "offsets-far");
    layout one = {.one_buffer = true};
    add_dot(list, &one, 1, "one-buffer");
}

static void add_dot_strides(case_list *list)
{
    static const uint64_t lhs[] = {144, 145, 146, 147, 148, 160, 288, 1001};
    static const uint64_t rhs[] = {292, 293, 294, 295, 296, 320, 584, 2003};
    char class[100];
    for (size_t k = 0; k < sizeof lhs / sizeof lhs[0]; k++) {
        layout layout = {0};
        layout.views[OPERAND_LHS].stride = lhs[k];
        add_dot(list, &layout, k, CLASS("lhs-stride-%" PRIu64, lhs[k]));
    }
    for (size_t k = 0; k < sizeof rhs / sizeof rhs[0]; k++) {
        layout layout = {0};
        layout.views[OPERAND_RHS].stride = rhs[k];
        add_dot(list, &layout, k, CLASS("rhs-stride-%" PRIu64, rhs[k]));
    }
    layout all = {.one_buffer = true, .exact_end = true};
    all.views[OPERAND_LHS] = (kq_view){.offset = 1, .stride = 151};
    all.views[OPERAND_RHS] = (kq_view){.offset = 2, .stride = 299};
    all.views[OPERAND_OUT] = (kq_view){.offset = 3};
    for (unsigned which = 0; which < 8; which++) {
        add_dot(list, &all, which, CLASS("everything-odd-%u", which));
    }
}

static bool is_one_record(const uint8_t *records, size_t G, size_t bytes)
{
    return memcmp(records, records + bytes, (G - 1) * bytes) == 0;
}

static void add_dot_broadcasts(case_list *list)
{
    for (unsigned operand = OPERAND_LHS; operand <= OPERAND_RHS; operand++) {
        unsigned found = 0;
        size_t bytes = operand_bytes(KQ_OP_QUANTIZED_DOT, operand);
        for (size_t k = 0; k < list->vectors.dot_count && found < 8; k++) {
            const dot_vector *vector = &list->vectors.dot[k];
            const uint8_t *records = operand == OPERAND_LHS ? vector->lhs : vector->rhs;
            if (vector->G < 2 || !is_one_record(records, vector->G, bytes)) {
                continue;
            }
            test_case *test =
                case_add(list, KQ_OP_QUANTIZED_DOT, case_build_dots, "broadcast-%s-of-%s",
                         operand == OPERAND_LHS ? "lhs" : "rhs", vector->name);
            test->layout.views[operand].stride = KQ_BROADCAST;
            case_take(test, k);
            found++;
        }
    }
}

// --- Repeats

// Takes dots of G records, from the start of the list and over again, or only those whose operand
// `same` has the same bytes as in vector `model`.
static bool take_dots(const case_list *list, test_case *test, uint32_t G, uint64_t count,
                      unsigned same, const dot_vector *model)
{
    size_t bytes = same < OPERANDS ? operand_bytes(KQ_OP_QUANTIZED_DOT, same) * (size_t)G : 0;
    while (test->vector_count < count) {
        size_t before = test->vector_count;
        for (size_t k = 0; k < list->vectors.dot_count && test->vector_count < count; k++) {
            const dot_vector *vector = &list->vectors.dot[k];
            if (vector->G != G) {
                continue;
            }
            if (same == OPERAND_LHS && memcmp(vector->lhs, model->lhs, bytes) != 0) {
                continue;
            }
            if (same == OPERAND_RHS && memcmp(vector->rhs, model->rhs, bytes) != 0) {
                continue;
            }
            case_take(test, k);
        }
        if (test->vector_count == before) {
            return false;
        }
    }
    return true;
}

// The number of vectors, from the start, that share an operand with vector `model`.
static uint32_t count_sharing(const case_list *list, const dot_vector *model, unsigned operand)
{
    size_t bytes = operand_bytes(KQ_OP_QUANTIZED_DOT, operand) * (size_t)model->G;
    uint32_t count = 0;
    for (size_t k = 0; k < list->vectors.dot_count; k++) {
        const dot_vector *vector = &list->vectors.dot[k];
        count += vector->G == model->G &&
                 memcmp(operand == OPERAND_LHS ? vector->lhs : vector->rhs,
                        operand == OPERAND_LHS ? model->lhs : model->rhs, bytes) == 0;
    }
    return count;
}

// A repeat in plain layout: every dot has own operands, side by side, and so have the results.
static layout repeat_layout(uint32_t G, uint32_t inner, uint32_t outer)
{
    uint64_t lhs = (uint64_t)G * KQ_Q4_K_BYTES, rhs = (uint64_t)G * KQ_Q8_K_BYTES;
    return (layout){
        .has_repeat = true,
        .repeat = {.count = {inner, outer},
                   .lhs_step = {lhs, lhs * inner},
                   .rhs_step = {rhs, rhs * inner},
                   // Steps hold where no dot is made, too.
                   .result_step = {4, 4 * (uint64_t)(inner == 0 ? 1 : inner)}},
    };
}

static void add_repeat(case_list *list, const layout *layout, uint32_t G, unsigned same,
                       const dot_vector *model, const char *class)
{
    test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, case_build_dots, "%s", class);
    test->layout = *layout;
    // Even where no dot is made, the vector says what G is.
    uint64_t dots = layout_dots(layout);
    if (take_dots(list, test, G, dots == 0 ? 1 : dots, same, model)) {
        return;
    }
    list->count--;
    free(test->name);
    free(test->vectors);
}

// Loops over the vectors that share an operand, round and round: dots enough to go round a
// workgroup, in one loop and in two, plain and at odd places.
static void add_loops_sharing(case_list *list, unsigned operand, const dot_vector *model)
{
    static const uint32_t counts[][2] = {{32, 1}, {65, 1}, {7, 5}, {1, 41}};
    char class[100];
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const uint32_t G = model->G, inner = counts[k][0], outer = counts[k][1];
        layout layout = repeat_layout(G, inner, outer);
        uint64_t *step = operand == OPERAND_LHS ? layout.repeat.lhs_step : layout.repeat.rhs_step;
        memset(step, 0, sizeof layout.repeat.lhs_step);
        const char *name = operand == OPERAND_LHS ? "lhs" : "rhs";
        add_repeat(
            list, &layout, G, operand, model,
            CLASS("repeat-shared-%s-%" PRIu32 "x%" PRIu32 "-of-%" PRIu32, name, inner, outer, G));
        layout.views[OPERAND_LHS].offset = 3;
        layout.views[OPERAND_RHS] = (kq_view){.offset = 1, .stride = 297};
        layout.views[OPERAND_OUT].offset = 2;
        // No dot's own records touch those of the next.
        uint64_t *own = operand == OPERAND_LHS ? layout.repeat.rhs_step : layout.repeat.lhs_step;
        own[0] = 297 * (uint64_t)G;
        own[1] = own[0] * inner + 1;
        layout.repeat.result_step[0] = 4 * (uint64_t)outer + 1;
        layout.repeat.result_step[1] = outer > 1 && inner > 1 ? 4 : 7;
        add_repeat(list, &layout, G, operand, model,
                   CLASS("repeat-shared-%s-everything-odd-%" PRIu32 "x%" PRIu32 "-of-%" PRIu32,
                         name, inner, outer, G));
    }
}

static void add_repeats_sharing(case_list *list, unsigned operand)
{
    const char *name = operand == OPERAND_LHS ? "lhs" : "rhs";
    char class[100];
    for (uint32_t G = 1; G <= 3; G++) {
        // The first vector of the most that share its operand.
        const dot_vector *best = NULL;
        uint32_t most = 1;
        for (size_t k = 0; k < list->vectors.dot_count; k++) {
            const dot_vector *vector = &list->vectors.dot[k];
            uint32_t count = vector->G == G ? count_sharing(list, vector, operand) : 0;
            if (count > most) {
                most = count;
                best = vector;
            }
        }
        if (best == NULL) {
            continue;
        }
        uint32_t count = most > 70 ? 70 : most;
        layout layout = repeat_layout(G, count, 1);
        uint64_t *step = operand == OPERAND_LHS ? layout.repeat.lhs_step : layout.repeat.rhs_step;
        step[0] = 0;
        step[1] = 0;
        add_repeat(list, &layout, G, operand, best, CLASS("repeat-shared-%s-%" PRIu32, name, G));
        layout.views[OPERAND_LHS].offset = 1;
        layout.views[OPERAND_RHS].offset = 2;
        layout.views[OPERAND_OUT].offset = 3;
        layout.repeat.result_step[0] = 7;
        layout.repeat.result_step[1] = 7 * (uint64_t)count;
        add_repeat(list, &layout, G, operand, best,
                   CLASS("repeat-shared-%s-everything-odd-%" PRIu32, name, G));
        add_loops_sharing(list, operand, best);
    }
}

// One dot over and over, of more records than those above and no two alike: an operand is shared,
// of the other each dot has a copy.
static void add_copies_sharing(case_list *list)
{
    size_t found;
    for (size_t which = 0; find_dot(list, which, &found); which++) {
        const dot_vector *vector = &list->vectors.dot[found];
        if (vector->G > 3) {
            add_loops_sharing(list, OPERAND_LHS, vector);
            add_loops_sharing(list, OPERAND_RHS, vector);
            return;
        }
    }
}

static void add_repeats(case_list *list)
{
    static const struct {
        uint32_t G, inner, outer;
    } shapes[] = {{1, 2, 1},  {1, 1, 2}, {1, 63, 1}, {1, 64, 1}, {1, 65, 1}, {1, 300, 1},
                  {1, 1, 65}, {1, 8, 9}, {1, 33, 4}, {2, 7, 3},  {2, 65, 2}, {3, 4, 3},
                  {5, 3, 2},  {7, 2, 2}, {33, 2, 1}, {3, 0, 4},  {3, 4, 0},  {1, 0, 0}};
    char class[100];
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        uint32_t G = shapes[k].G, inner = shapes[k].inner, outer = shapes[k].outer;
        layout layout = repeat_layout(G, inner, outer);
        add_repeat(list, &layout, G, OPERANDS, NULL,
                   CLASS("repeat-%" PRIu32 "x%" PRIu32 "-of-%" PRIu32, inner, outer, G));

        // Odd places, gaps between the results.
        layout.views[OPERAND_LHS] = (kq_view){.offset = 3, .stride = 149};
        layout.views[OPERAND_RHS] = (kq_view){.offset = 1, .stride = 293};
        layout.views[OPERAND_OUT].offset = 2;
        layout.repeat.lhs_step[0] = 149 * (uint64_t)G + 2;
        layout.repeat.lhs_step[1] = layout.repeat.lhs_step[0] * inner + 1;
        layout.repeat.rhs_step[0] = 293 * (uint64_t)G;
        layout.repeat.rhs_step[1] = layout.repeat.rhs_step[0] * inner;
        layout.repeat.result_step[0] = 5;
        layout.repeat.result_step[1] = 5 * (uint64_t)inner + (inner == 0 ? 4 : 2);
        layout.one_buffer = k % 2;
        add_repeat(
            list, &layout, G, OPERANDS, NULL,
            CLASS("repeat-everything-odd-%" PRIu32 "x%" PRIu32 "-of-%" PRIu32, inner, outer, G));

        // Record g of all dots side by side, and the results of the outer loop too.
        layout = repeat_layout(G, inner, outer);
        uint64_t dots = layout_dots(&layout);
        layout.views[OPERAND_LHS].stride = dots * KQ_Q4_K_BYTES;
        layout.views[OPERAND_RHS].stride = dots * KQ_Q8_K_BYTES;
        layout.repeat.lhs_step[0] = KQ_Q4_K_BYTES;
        layout.repeat.lhs_step[1] = (uint64_t)inner * KQ_Q4_K_BYTES;
        layout.repeat.rhs_step[0] = KQ_Q8_K_BYTES;
        layout.repeat.rhs_step[1] = (uint64_t)inner * KQ_Q8_K_BYTES;
        layout.repeat.result_step[0] = 4 * (uint64_t)outer;
        layout.repeat.result_step[1] = 4;
        if (dots > 0) {
            add_repeat(
                list, &layout, G, OPERANDS, NULL,
                CLASS("repeat-interleaved-%" PRIu32 "x%" PRIu32 "-of-%" PRIu32, inner, outer, G));
        }
    }
    // Every dot the same one.
    size_t found;
    if (find_dot(list, 0, &found)) {
        const dot_vector *vector = &list->vectors.dot[found];
        layout layout = repeat_layout(vector->G, 6, 3);
        memset(layout.repeat.lhs_step, 0, sizeof layout.repeat.lhs_step);
        memset(layout.repeat.rhs_step, 0, sizeof layout.repeat.rhs_step);
        test_case *test = case_add(list, KQ_OP_QUANTIZED_DOT, case_build_dots, "repeat-shared-all");
        test->layout = layout;
        for (int dots = 0; dots < 6 * 3; dots++) {
            case_take(test, found);
        }
    }
}

// --- Long dots

// More terms than a software driver lets one loop take, all of them the same power of two, so that
// every sum on the way is exact in either order.
enum { LONG_G = 70001 };

static bool build_long_dot(const case_list *list, const test_case *test, target *reference,
                           trial *trial, const char **reason)
{
    (void)reference;
    (void)reason;
    const dot_vector *vector = &list->vectors.dot[test->vectors[0]];
    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, LONG_G, &test->layout, case_poison(list, test));
    memcpy(trial->before[trial->buffer_of[OPERAND_LHS]] + trial->layout.views[OPERAND_LHS].offset,
           vector->lhs, KQ_Q4_K_BYTES);
    memcpy(trial->before[trial->buffer_of[OPERAND_RHS]] + trial->layout.views[OPERAND_RHS].offset,
           vector->rhs, KQ_Q8_K_BYTES);
    trial_expect_nothing(trial);
    float count = LONG_G;
    uint32_t bits;
    memcpy(&bits, &count, sizeof bits);
    // The term's sign and exponent, times the count: the exponents add.
    bits += vector->results[0] - 0x3F800000;
    trial_expect_result(trial, KQ_ORDER_SEQUENTIAL, 0, 0, bits);
    trial_expect_result(trial, KQ_ORDER_PAIRWISE, 0, 0, bits);
    trial_poison_outputs(trial);
    return true;
}

static void add_long_dots(case_list *list)
{
    for (size_t k = 0; k < list->vectors.dot_count; k++) {
        const dot_vector *vector = &list->vectors.dot[k];
        uint32_t exponent = vector->results[0] >> 23 & 255;
        if (vector->G != 1 || (vector->results[0] & 0x7FFFFF) != 0 || exponent < 64 ||
            exponent > 190) {
            continue;
        }
        test_case *test =
            case_add(list, KQ_OP_QUANTIZED_DOT, build_long_dot, "long-of-%s", vector->name);
        test->layout.views[OPERAND_LHS].stride = KQ_BROADCAST;
        test->layout.views[OPERAND_RHS].stride = KQ_BROADCAST;
        test->cut_work = LONG_G / 10;
        case_take(test, k);
        return;
    }
}

void cases_add_layouts(case_list *list)
{
    add_quantize_offsets(list);
    add_quantize_strides(list);
    add_quantize_broadcasts(list);
    add_quantize_domains(list);
    add_no_records(list);
    add_dot_offsets(list);
    add_dot_strides(list);
    add_dot_broadcasts(list);
    add_repeats_sharing(list, OPERAND_LHS);
    add_repeats_sharing(list, OPERAND_RHS);
    add_copies_sharing(list);
    add_repeats(list);
    add_long_dots(list);
    cases_add_large(list);
}
