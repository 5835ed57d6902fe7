// The cases of single steps of the arithmetic, which tell what a driver gets wrong where an
// operation only tells that it does; and what a wrong answer looks like, in words.
#ifndef KQ_TOOL_PRIMITIVES_H
#define KQ_TOOL_PRIMITIVES_H

#include "judge.h"
#include "sha256.h"

// Number, operands, and the result that is right or was got: an item of kq_primitives_host.
typedef struct item {
    uint32_t primitive, a, b, result;
} item;

// Classes of operands of a primitive. Each is a case, "primitive.base.f32_multiply-ties".
typedef enum operand_class {
    CLASS_ALL,           // every f16
    CLASS_SPECIALS,      // zeros, infinities, NaNs, ends of ranges, powers of two, all with all
    CLASS_RANDOM,        // any bits
    CLASS_NEAR,          // exponents near each other, as in real data
    CLASS_SUBNORMALS,    // operands or results
    CLASS_TIES,          // halfway between two results, and just beside
    CLASS_CANCELLATION,  // differences of near numbers
    CLASS_WALK,          // every bit alone, set among zeros and clear among ones
    CLASS_STICKY,        // halfway but for one single bit far below, of each place
    CLASS_MULTIPLES,     // of the second operand, and one beside
    CLASS_COUNT,
} operand_class;

// "f32 multiply".
const char *primitive_name(uint32_t primitive);

// Operands of that class, `draws` of each kind that is drawn; the caller frees them. Results are 0.
// NULL, and none: the primitive has no such class.
item *primitive_items(uint32_t primitive, operand_class class, uint64_t seed, uint32_t draws,
                      uint32_t *count);

// The right result.
uint32_t primitive_result(const item *item);

// What is wrong with one: "loses subnormals", "is off by one in the last place", "is wrong", ...
const char *primitive_fault(const item *must, uint32_t got);

// Has a device answer items, whose results are wrong before. target->reason says why it can't.
kq_result primitive_run(target *target, item *items, uint32_t count);

// Judges the answers: one line for all that is wrong, with the first item.
case_status primitive_judge(report *report, const char *name, const item *items, uint32_t count,
                            kq_result result, char digest[SHA256_HEX_BYTES]);

#endif
