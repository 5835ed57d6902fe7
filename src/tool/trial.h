// A trial: one run of an operation on a device, from the bytes of its buffers before to the bytes
// they must hold after. Everything that is no output keeps its bytes, in every buffer.
//
// quantize is called once. quantized_dot is called twice on the same operands, in sequential and
// then in pairwise order, each with results of its own. layout.calls makes more of each.
#ifndef KQ_TOOL_TRIAL_H
#define KQ_TOOL_TRIAL_H

#include "sha256.h"
#include "target.h"

enum { OPERAND_VALUES = 0, OPERAND_LHS = 0, OPERAND_RHS = 1, OPERAND_OUT = 2, OPERANDS = 3 };

// Bytes of poison around every operand.
enum { GUARD_BYTES = 64 };

// Where the operands lie; {0} is the plain layout: packed, each in a buffer of its own.
typedef struct layout {
    kq_view views[OPERANDS];  // G is not used; an offset counts from an aligned place
    bool has_repeat;
    kq_repeat repeat;
    bool one_buffer;   // all operands in the same buffer
    bool exact_end;    // buffers end with the last byte of their last view
    bool null_inputs;  // for G = 0
    uint64_t work;     // not 0: cut into submissions of so much
    uint32_t
        calls;  // not 0: blocks, all good, or the inner loop's dots are shared out over so many
} layout;

typedef struct trial {
    kq_op op;
    layout layout;            // offsets now count from the start of the buffers, and G is set
    uint64_t pairwise_bytes;  // the pairwise results lie so much further on
    unsigned buffer_count;
    unsigned buffer_of[OPERANDS];
    uint8_t *before[OPERANDS];  // by buffer
    size_t sizes[OPERANDS];
    uint8_t *after;  // the buffer of OPERAND_OUT
    kq_result result;
    kq_domain domain;  // all zero unless result is KQ_ERROR_DOMAIN

    // A digest of the records that holds beside `after`; where is_digest_all, instead of it.
    bool has_digest;
    bool is_digest_all;
    uint64_t digest;
} trial;

// Bytes of a record or block of an operand, packed; of a result.
uint32_t operand_bytes(kq_op op, unsigned operand);

// The number of dots in a repeat, or 1.
uint64_t layout_dots(const layout *layout);

// Sizes the buffers, fills them with poison that depends on seed, and places the operands.
void trial_lay_out(trial *trial, kq_op op, uint32_t G, const layout *layout, uint64_t seed);

// Copies packed records, blocks with their values, into their places for dot (i, j), or out of
// them.
void trial_put(trial *trial, unsigned operand, uint32_t i, uint32_t j, const uint8_t *packed);
void trial_get(const trial *trial, unsigned operand, uint32_t i, uint32_t j, uint8_t *packed);

// Once all inputs are in place: begins `after` from the bytes before. Then the outputs are
// expected.
void trial_expect_nothing(trial *trial);
void trial_expect_records(trial *trial, const uint8_t *packed);
void trial_expect_result(trial *trial, kq_order order, uint32_t i, uint32_t j, uint32_t bits);

// Where an output lies in its buffer.
uint64_t trial_record_at(const trial *trial, uint32_t g);
uint64_t trial_result_at(const trial *trial, kq_order order, uint32_t i, uint32_t j);

// Last: makes every byte of the outputs differ before from what it must be after.
void trial_poison_outputs(trial *trial);

void trial_free(trial *trial);

// What a device made of a trial.
typedef struct outcome {
    bool has_run;      // false: a buffer could not be made, filled or read
    kq_result result;  // of the operation, or of what failed
    kq_domain domain;
    uint8_t *got[OPERANDS];  // by buffer; NULL unless result is KQ_OK or KQ_ERROR_DOMAIN
} outcome;

// target->reason says why, if the result is no KQ_OK.
void trial_run(const trial *trial, target *target, outcome *outcome);
void outcome_free(outcome *outcome);

// The same, recorded once to run many times; layout.work is not used, and the target's buffers are
// no other trial's before it is freed. NULL: *failed says what failed.
typedef struct trial_recording trial_recording;
trial_recording *trial_record(const trial *trial, target *target, outcome *failed);
void trial_recording_run(trial_recording *recording, outcome *outcome);
void trial_recording_free(trial_recording *recording);

// SHA-256, in hex, of the result code, of the domain error if it is one, and of the outputs; "" if
// there are none.
void outcome_digest(const trial *trial, const outcome *outcome, char hex[SHA256_HEX_BYTES]);

#endif
