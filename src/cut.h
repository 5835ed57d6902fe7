// An operation of level 3 cut into pieces that a device can carry out, each in one submission. A
// dot keeps its bits however it is cut, for its order is kept.
#ifndef KQ_CUT_H
#define KQ_CUT_H

#include "plan.h"

// What one piece may take.
typedef struct kq_capacity {
    kq_limits limits;        // of bindings and dispatches
    uint64_t segment_bytes;  // a buffer lies in segments of this size, a multiple of 4, each of
                             // them bound by itself; UINT64_MAX: all buffers are one segment
    uint64_t scratch_bytes;  // the most that can be allocated
    uint64_t stage_bytes;    // an operand's part of the stage
    uint64_t memory_bytes;   // all there is
    uint64_t work;           // the most of one submission, counted in records of dots
} kq_capacity;

// An item of an operand that no binding holds whole, because it goes on in the next segment or its
// values lie too far apart, is staged: bound in a buffer of KQ_BINDING_COUNT times stage_bytes,
// each operand in a part of its own. That is so many bytes, or less where an allocation has no
// room.
#define KQ_STAGE_BYTES 65536u

typedef struct kq_piece {
    kq_op op;
    kq_shape source;    // the piece, its extents counted from the start of whole buffers
    kq_shape shape;     // as it is bound: counted from the start of a segment, or of the stage
    bool is_staged[3];  // by role
    kq_needs needs;     // limit: NULL, or what stops even the smallest piece
} kq_piece;

typedef struct kq_cutter {
    const kq_operation *operation;
    const kq_shape *whole;
    const kq_capacity *capacity;  // NULL: anything is one piece
    uint64_t dot[2];              // the next dot
    uint64_t g;                   // and its next record
    uint64_t scratch_bytes;       // of a dot that is cut along its records
} kq_cutter;

// Starts cutting; the structs must live as long.
kq_cutter kq_cut_start(const kq_operation *operation, const kq_shape *whole,
                       const kq_capacity *capacity);

// Sets *piece to the next one, each as large as it can be; false: there is none left.
bool kq_cut_next(kq_cutter *cutter, kq_piece *piece);

// Byte runs of a staged operand, numbered from 0. Those of an input go to the stage, those of an
// output come from there.
typedef struct kq_run {
    uint64_t at;     // in the buffer
    uint64_t stage;  // in the stage
    uint64_t bytes;
} kq_run;

uint32_t kq_piece_run_count(const kq_piece *piece, int role);
kq_run kq_piece_run(const kq_piece *piece, int role, uint32_t index);

// Whether the piece writes its output: all do but parts of a dot before the last.
bool kq_piece_writes(const kq_piece *piece);

// What level 2 is told of an operand, and of the loops around a dot.
kq_view kq_piece_view(const kq_piece *piece, int role);
kq_repeat kq_piece_repeat(const kq_piece *piece);

#endif
