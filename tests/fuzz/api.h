// Operations of level 3 as the API's fuzzer draws them, and what must come of them by CONTRACT.md.
#ifndef KQ_FUZZ_API_H
#define KQ_FUZZ_API_H

#include "fuzz.h"

#include <kquant/kquant.h>

__extension__ typedef unsigned __int128 api_wide;

enum { API_BUFFERS = 5, API_NULL = -1, API_STRANGER = -2 };

// The bytes of all buffers as they should be; NULL: the buffer isn't there.
typedef struct api_model {
    unsigned char *bytes[API_BUFFERS];
    uint64_t sizes[API_BUFFERS];
    kq_device *judge;  // a reference, for single blocks and dots in packed host memory
} api_model;

// Operands are values and records, or lhs, rhs and result, of whose view the offset counts.
typedef struct api_operation {
    bool is_dot;
    unsigned formats[2], acc, order;
    int buffers[3];  // or API_NULL, or API_STRANGER: one of another device
    kq_view views[3];
    kq_repeat repeat;
    bool has_repeat;
} api_operation;

void api_draw(fuzz_input *in, const api_model *model, api_operation *o);

// Whether no rule is broken.
bool api_is_legal(const api_model *model, const api_operation *o);

// Where the last byte of an operand ends.
api_wide api_end(const api_operation *o, int role);

// How many blocks or pairs of records there are; UINT64_MAX: more than that.
uint64_t api_work(const api_operation *o);

// Carries it out in the model. *domain is set with KQ_ERROR_DOMAIN only.
kq_result api_carry_out(api_model *model, const api_operation *o, kq_domain *domain);

// Numbers that break rules, and products of them.
uint64_t api_number(fuzz_input *in, uint64_t usual);

#endif
