// Random operations on devices of random limits, and the vectors and long operations on the lowest:
// every byte of every buffer is as the reference leaves it, and goes as the query says.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "property_check.h"
#include "property_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct test_options {
    uint64_t seed;
    uint64_t draws;
    bool is_quick;    // for drivers that are slow
    bool is_drawing;  // and so the last seed is at fault
    vectors vectors;
} test_options;

static test_options options = {.draws = 2000};

// How many draws did what they are for.
static struct {
    uint64_t cut, staged, parts;  // staged: operands
} tally;

// --- Draws

// Lowers what level 3 takes the device to be capable of.
static void lower(uint64_t *state, kq_capacity *capacity)
{
    kq_limits *limits = &capacity->limits;
    uint64_t range = KQ_BLOCK_BYTES + draw_magnitude(state, 1 << 20);
    uint64_t scratch = 4 * (40 + draw_magnitude(state, 1 << 18));
    limits->range_bytes = range < limits->range_bytes ? range : limits->range_bytes;
    capacity->scratch_bytes = scratch < capacity->scratch_bytes ? scratch : capacity->scratch_bytes;
    for (int i = 0; i < 2; i++) {
        uint32_t groups = (uint32_t)draw_magnitude(state, 1000);
        limits->groups[i] = groups < limits->groups[i] ? groups : limits->groups[i];
    }
}

static void check_parts(uint64_t *state, const drawn *d)
{
    uint32_t G = d->views[0].G;
    bool has_dots = !d->has_repeat || (d->repeat.count[0] > 0 && d->repeat.count[1] > 0);
    if (d->op != KQ_OP_QUANTIZED_DOT || G == 0 || !has_dots) {
        return;
    }
    uint32_t *sizes = malloc(G * sizeof *sizes);
    assert_non_null(sizes);
    uint32_t count = draw_parts(state, d->order, G, sizes);
    if (count <= (options.is_quick ? 20 : 300)) {
        property_run_parts(d, sizes, count);
        tally.parts += count > 1;
    }
    free(sizes);
}

// Without the steps of the fold, which dots side by side have in common.
static uint64_t least_work(const drawn *d)
{
    const uint32_t *count = d->repeat.count;
    uint64_t dots = d->has_repeat ? (uint64_t)count[0] * count[1] : 1;
    return d->views[0].G * (d->op == KQ_OP_QUANTIZE ? 16 : dots);
}

static void check_draw(uint64_t seed)
{
    static report report;
    uint64_t state = seed * UINT64_C(0xD1342543DE82EF95);
    static const drawn_size quick = {100, 20000};
    static const drawn_size usual = {2000, 300000};
    static const drawn_size large = {20000, 3 << 20};
    drawn_size size = draw_below(&state, 8) == 0 ? large : usual;
    size = options.is_quick ? quick : size;
    unsigned number = (unsigned)draw_below(&state, DEVICE_COUNT);
    drawn d;
    draw_operation(&state, size, &d);
    kq_device *device = property_device(number, &report);
    kq_capacity own = device->capacity;
    bool is_lowered = number != DEVICE_OWN && draw_below(&state, 2) == 0;
    if (is_lowered) {
        lower(&state, &device->capacity);
    }
    // No draw may take long.
    const uint64_t most = options.is_quick ? 40 : 400;
    device->capacity.work = draw_magnitude(&state, 1 << 20);
    while (property_ask(device, &d).submission_count > most && device->capacity.work < 1 << 22) {
        device->capacity.work *= 4;
    }
    if (property_ask(device, &d).submission_count > most) {
        device->capacity = own;
        device = property_device(DEVICE_OWN, &report);
        number = DEVICE_OWN;
        own = device->capacity;
    }
    kq_needs needs;
    uint64_t work = device->capacity.work;
    free(property_run(device, &d, &needs));
    device->capacity = own;
    // One block or record may be more work than that.
    uint64_t total = least_work(&d);
    assert_true(needs.submission_count * (work > 16 ? work : 16) >= total);
    for (int role = 0; role < 3; role++) {
        assert_true(number != DEVICE_OWN || needs.staged_bytes[role] == 0);
        tally.staged += needs.staged_bytes[role] > 0;
    }
    tally.cut += needs.submission_count > 1;
    if (draw_below(&state, 4) == 0) {
        check_parts(&state, &d);
    }
    free_drawn(&d);
}

static void test_draws(void **state)
{
    (void)state;
    options.is_drawing = true;
    for (uint64_t i = 0; i < options.draws; i++) {
        check_draw(options.seed++);
    }
    options.is_drawing = false;
    print_message("%" PRIu64 " draws cut, %" PRIu64 " operands staged, %" PRIu64 " cut by hand\n",
                  tally.cut, tally.staged, tally.parts);
}

static void test_vectors(void **state)
{
    (void)state;
    property_test_vectors(&options.vectors, options.is_quick);
}

static void test_dot_counts(void **state)
{
    (void)state;
    property_test_dot_counts(options.is_quick);
}

static void test_long_dots(void **state)
{
    (void)state;
    property_test_long_dots(options.is_quick);
}

int main(int argc, char **argv)
{
    options.seed = (uint64_t)time(NULL) << 16;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--draws=", 8) == 0) {
            options.draws = strtoull(argv[i] + 8, NULL, 0);
        } else if (strncmp(argv[i], "--seed=", 7) == 0) {
            options.seed = strtoull(argv[i] + 7, NULL, 0);
        } else if (strcmp(argv[i], "--quick") == 0) {
            options.is_quick = true;
        } else if (argv[i][0] == '-' || !add_vectors(&options.vectors, argv[i])) {
            fprintf(stderr, "usage: %s [--draws=N] [--seed=N] [--quick] FOLDER...\n", argv[0]);
            return EXIT_FAILURE;
        }
    }
    if (!property_is_possible()) {
        return EXIT_SKIP;
    }
    printf("--seed=%" PRIu64 " --draws=%" PRIu64 "\n", options.seed, options.draws);
    fflush(stdout);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_dot_counts),
        cmocka_unit_test(test_long_dots),
        cmocka_unit_test(test_draws),
    };
    int failed = cmocka_run_group_tests_name("property", tests, NULL, NULL);
    if (failed > 0 && options.is_drawing) {
        printf("to repeat: --seed=%" PRIu64 " --draws=1%s\n", options.seed - 1,
               options.is_quick ? " --quick" : "");
    } else if (failed == 0) {
        property_close();
    }
    free_vectors(&options.vectors);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
