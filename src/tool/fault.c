#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[FAULT_KINDS] = {
    [FAULT_EMPTY] = "empty", [FAULT_FLIP] = "flip",   [FAULT_STRAY] = "stray",
    [FAULT_LOST] = "lost",   [FAULT_CRASH] = "crash", [FAULT_HANG] = "hang",
};

static fault_kind kind_of(const char *text)
{
    size_t length = strcspn(text, ":");
    for (int kind = FAULT_NONE + 1; kind < FAULT_KINDS; kind++) {
        if (strlen(names[kind]) == length && memcmp(names[kind], text, length) == 0) {
            return (fault_kind)kind;
        }
    }
    return FAULT_NONE;
}

bool fault_is_known(const char *text)
{
    return kind_of(text) != FAULT_NONE;
}

fault_kind fault_of(const char *text, const char *case_name)
{
    const char *glob = text != NULL ? strchr(text, ':') : NULL;
    bool strikes = text != NULL && (glob == NULL || matches(glob + 1, case_name));
    return strikes ? kind_of(text) : FAULT_NONE;
}

void fault_strike(fault_kind kind)
{
    if (kind == FAULT_CRASH) {
        abort();
    }
    for (volatile bool hangs = kind == FAULT_HANG; hangs;) {
    }
}

fault_kind fault_of_run(fault_kind kind, uint32_t run)
{
    bool is_spared = (kind == FAULT_FLIP || kind == FAULT_STRAY) && run % 3 != 1;
    return is_spared ? FAULT_NONE : kind;
}

void fault_alter(fault_kind kind, const trial *trial, target *target, outcome *outcome)
{
    unsigned out = trial->buffer_of[OPERAND_OUT];
    uint8_t *got = outcome->got[out];
    if (kind == FAULT_LOST) {
        outcome_free(outcome);
        outcome->has_run = true;
        outcome->result = KQ_ERROR_DRIVER;
        snprintf(target->reason, sizeof target->reason, "lost, as --fault wants it");
    } else if (got == NULL) {
        return;
    } else if (kind == FAULT_EMPTY) {
        memcpy(got, trial->before[out], trial->sizes[out]);
    } else if (kind == FAULT_FLIP) {
        got[trial->layout.views[OPERAND_OUT].offset] ^= 1;
    } else if (kind == FAULT_STRAY) {
        got[trial->layout.views[OPERAND_OUT].offset - 1] ^= 1;
    }
}

kq_result fault_alter_items(fault_kind kind, item *items, uint32_t count, kq_result result)
{
    for (uint32_t i = 0; i < count && kind == FAULT_EMPTY; i++) {
        items[i].result = ~primitive_result(&items[i]);
    }
    if (kind == FAULT_FLIP || kind == FAULT_STRAY) {
        items[count - 1].result ^= 1;
    }
    return kind == FAULT_LOST ? KQ_ERROR_DRIVER : result;
}
