// Random operands in random layouts. What must come out is what the reference makes of them, and
// that is held to the vectors by the other cases.
#include "bytes.h"
#include "cases.h"
#include "draws.h"

#include <inttypes.h>
#include <stdlib.h>

// --- Layouts

static uint32_t draw_G(uint64_t *state)
{
    switch (draw_below(state, 8)) {
    case 0: return draw_below(state, 3);
    case 1: return 60 + draw_below(state, 12);
    case 2: return 120 + draw_below(state, 200);
    default: return 1 + draw_below(state, 20);
    }
}

static kq_view draw_view(uint64_t *state, uint32_t bytes)
{
    kq_view view = {.offset = draw_below(state, 200)};
    switch (draw_below(state, 8)) {
    case 0: view.stride = KQ_BROADCAST; break;
    case 1: view.stride = 1 + draw_below(state, bytes); break;
    case 2: view.stride = bytes + draw_below(state, bytes); break;
    case 3: view.stride = bytes + 4 * draw_below(state, 40); break;
    default: break;
    }
    return view;
}

static void draw_step(uint64_t *state, uint64_t span, uint64_t step[2])
{
    for (int k = 0; k < 2; k++) {
        switch (draw_below(state, 4)) {
        case 0: step[k] = 0; break;
        case 1: step[k] = draw_below(state, 1000); break;
        default: step[k] = span * (k == 0 ? 1 : 1 + draw_below(state, 5)); break;
        }
    }
}

static void draw_repeat(uint64_t *state, uint32_t G, layout *layout)
{
    if (draw(state) % 3 == 0) {
        return;
    }
    layout->has_repeat = true;
    kq_repeat *repeat = &layout->repeat;
    repeat->count[0] =
        draw_below(state, 8) == 0 ? 60 + draw_below(state, 10) : draw_below(state, 7);
    repeat->count[1] = draw_below(state, 5);
    draw_step(state, (uint64_t)G * KQ_Q4_K_BYTES, repeat->lhs_step);
    draw_step(state, (uint64_t)G * KQ_Q8_K_BYTES, repeat->rhs_step);
    // One loop's results lie within a step of the other's.
    unsigned within = draw(state) & 1;
    uint64_t count = repeat->count[within] == 0 ? 1 : repeat->count[within];
    repeat->result_step[within] = 4 + draw_below(state, 9);
    repeat->result_step[1 - within] =
        (count - 1) * repeat->result_step[within] + 4 + draw_below(state, 9);
}

// --- Cases

static bool build_quantize_draw(const case_list *list, const test_case *test, target *reference,
                                trial *trial, const char **reason)
{
    uint64_t state = test->draw_seed;
    uint32_t G = draw_G(&state);
    layout layout = {.one_buffer = draw(&state) & 1, .exact_end = draw(&state) & 1};
    kq_view *values = &layout.views[OPERAND_VALUES];
    *values = draw_view(&state, KQ_BLOCK_BYTES);
    switch (draw_below(&state, 8)) {
    case 0: values->value_stride = KQ_BROADCAST; break;
    case 1: values->value_stride = 4 + 4 * draw_below(&state, 16); break;
    case 2:
        values->value_stride = 4 * (uint64_t)(G + 1);
        values->stride = 4;
        break;
    default: break;
    }
    layout.views[OPERAND_OUT].offset = draw_below(&state, 200);
    if (draw(&state) & 1) {
        layout.views[OPERAND_OUT].stride = KQ_Q8_K_BYTES + draw_below(&state, 300);
    }

    trial_lay_out(trial, KQ_OP_QUANTIZE, G, &layout, case_poison(list, test));
    uint8_t *packed = allocate(G, KQ_BLOCK_BYTES);
    // Bad blocks would be in every draw but for this.
    bool has_bad = draw_below(&state, 4) == 0;
    for (uint32_t g = 0; g < G; g++) {
        uint8_t *block = packed + (size_t)g * KQ_BLOCK_BYTES;
        do {
            draw_block(&state, block);
        } while (!has_bad && kq_block_reason(block, 0, NULL) != KQ_REASON_NONE);
    }
    trial_put(trial, OPERAND_VALUES, 0, 0, packed);
    free(packed);
    return case_expect_reference(trial, reference, reason);
}

static bool build_dot_draw(const case_list *list, const test_case *test, target *reference,
                           trial *trial, const char **reason)
{
    uint64_t state = test->draw_seed;
    uint32_t G = draw_G(&state);
    // Now and then more terms than a software driver lets one loop take.
    bool is_long = draw_below(&state, 100) == 0;
    if (is_long) {
        G = 66000 + draw_below(&state, 5000);
    }
    layout layout = {.one_buffer = draw(&state) & 1, .exact_end = draw(&state) & 1};
    layout.views[OPERAND_LHS] = draw_view(&state, KQ_Q4_K_BYTES);
    layout.views[OPERAND_RHS] = draw_view(&state, KQ_Q8_K_BYTES);
    layout.views[OPERAND_OUT].offset = draw_below(&state, 200);
    if (!is_long) {
        draw_repeat(&state, G, &layout);
    }

    trial_lay_out(trial, KQ_OP_QUANTIZED_DOT, G, &layout, case_poison(list, test));
    uint8_t *lhs = allocate(G, KQ_Q4_K_BYTES);
    uint8_t *rhs = allocate(G, KQ_Q8_K_BYTES);
    uint32_t inner = layout.has_repeat ? layout.repeat.count[0] : 1;
    uint32_t outer = layout.has_repeat ? layout.repeat.count[1] : 1;
    uint32_t kind = draw_below(&state, 8);
    for (uint32_t j = 0; j < outer; j++) {
        for (uint32_t i = 0; i < inner; i++) {
            for (uint32_t g = 0; g < G; g++) {
                draw_lhs(&state, kind, lhs + (size_t)g * KQ_Q4_K_BYTES);
                draw_rhs(&state, kind, rhs + (size_t)g * KQ_Q8_K_BYTES);
            }
            trial_put(trial, OPERAND_LHS, i, j, lhs);
            trial_put(trial, OPERAND_RHS, i, j, rhs);
        }
    }
    free(lhs);
    free(rhs);
    return case_expect_reference(trial, reference, reason);
}

void cases_add_draws(case_list *list, uint32_t count)
{
    // Each draw has a state of its own, so that a filter changes no draw.
    for (uint32_t k = 0; k < count; k++) {
        uint64_t state = list->seed + k;
        bool is_dot = k % 2 == 1;
        test_case *test = case_add(list, is_dot ? KQ_OP_QUANTIZED_DOT : KQ_OP_QUANTIZE,
                                   is_dot ? build_dot_draw : build_quantize_draw,
                                   "draw-%" PRIx64 "-%" PRIu32, list->seed, k);
        test->draw_seed = draw(&state);
    }
}
