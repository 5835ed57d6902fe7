// The list of cases that check runs: names, and the trial each stands for.
//
// A name is <op>.<variant>.<class>, "quantized_dot.base.random-1" or "primitive.base.f32_add-ties",
// and never changes its meaning. A class that is there twice gets "+2" the second time.
#ifndef KQ_TOOL_CASES_H
#define KQ_TOOL_CASES_H

#include "trial.h"
#include "vectors.h"

typedef struct case_list case_list;
typedef struct test_case test_case;

// Makes the trial of a case, to be freed. The reference is a device of its own, for expectations
// that are not in the vectors. False: it can't be made, and *reason says why.
typedef bool case_build(const case_list *list, const test_case *test, target *reference,
                        trial *trial, const char **reason);

// So little work a submission that hardly a case is not cut: 8 records of dots, or half a block.
enum { CASE_CUT_WORK = 8 };

struct test_case {
    char *name;
    kq_op op;
    case_build *build;
    size_t *vectors;  // indices of the vectors that it is made of
    size_t vector_count;
    layout layout;
    uint64_t cut_work;  // of the same case cut; 0: CASE_CUT_WORK
    uint64_t draw_seed;
    uint32_t runs;           // of the trial; 0: one
    bool has_twin;           // as many on a second device at once
    unsigned part;           // of a record, which a walk is over
    uint32_t G;              // where no vector says it
    uint32_t primitive;      // where build is NULL: which, or 0 for the self-test
    unsigned operand_class;  // of it, and how many are drawn of each kind
    uint32_t draws;
};

struct case_list {
    vectors vectors;
    test_case *cases;
    size_t count;
    uint64_t seed;  // of poison and draws; a verdict on a right device does not depend on it
};

// Single steps of the arithmetic, `draws` operands of each kind that is drawn; and the self-test.
void cases_add_primitives(case_list *list, uint32_t draws);

// A case for each line of the vectors, for bulk lines one of each operation.
void cases_add_vectors(case_list *list);

// The vectors again, moved about: offsets, strides, repeats, shared buffers, no records.
void cases_add_layouts(case_list *list);

// Large numbers: strides, steps, records, blocks; and larger ones yet, which take seconds.
void cases_add_large(case_list *list);
void cases_add_larger(case_list *list);

// One block, and one dot, alone; and at both ends of so many, which share 1, 3 or 7 calls.
void cases_add_alone(case_list *list);
void cases_add_batches(case_list *list, uint32_t blocks, uint32_t dots);

// Every bit of a pair of records, flipped alone; and every place of a block, alone bad or extreme.
void cases_add_walks(case_list *list);

// Every case of an operation so far once more, cut into many submissions; and repeats of very many
// dots.
void cases_add_limits(case_list *list);

// One recording of an operation so many times over, which must give the same each time; and on two
// devices at once.
void cases_add_replays(case_list *list, uint32_t runs, uint32_t runs_of_twins);

// Random operands in random layouts, `count` of them, compared with the reference.
void cases_add_draws(case_list *list, uint32_t count);

// Last: makes all names different.
void cases_finish(case_list *list);

void cases_free(case_list *list);

// For the functions above: a new case, to be filled in, called "<op>.base.CLASS".
test_case *case_add(case_list *list, kq_op op, case_build *build, const char *format, ...)
    TOOL_PRINTF(4, 5);

// Gives a case the next vector it is made of.
void case_take(test_case *test, size_t vector);

// The builders for cases made of quantize vectors, one after the other, and of dot vectors, one for
// each dot of the repeat.
case_build case_build_quantize;
case_build case_build_dots;

// Expects of a trial, whose inputs are in place, what the reference makes of it. False: it can't,
// the trial is freed and *reason says why.
bool case_expect_reference(trial *trial, target *reference, const char **reason);

// The seed of a case's poison.
uint64_t case_poison(const case_list *list, const test_case *test);

#endif
