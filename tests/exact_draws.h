// The pairs of operands that the exact test puts to mul, add, sub and div.
//
// A class draws pairs that reach one hard case, and says how many results of each kind that takes.
// The specials are hard values, to be crossed with each other.
#ifndef KQ_EXACT_DRAWS_H
#define KQ_EXACT_DRAWS_H

#include <stddef.h>

#include "exact_random.h"
#include "exact_tally.h"
#include "prelude.h"

struct pair {
    u32 a;
    u32 b;
};

struct pair_class {
    const char *name;
    struct pair (*draw)(struct random *random);
    u32 pairs;
    u32 least[KINDS];
};

struct pair_classes {
    const struct pair_class *list;
    size_t count;
};

// Those of add serve sub too, with the sign of b turned.
extern const struct pair_classes mul_classes;
extern const struct pair_classes add_classes;
extern const struct pair_classes div_classes;

#define MAX_SPECIALS 2048

// Returns how many there are.
size_t list_specials(u32 specials[MAX_SPECIALS]);

#endif
