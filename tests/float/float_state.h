// The floating-point state that a caller of kquant may be in: rounding, flushing of subnormals, x87
// precision, exceptions that trap and flags that are set. Calls are made in one of them by
// float_guard.py's header.
#ifndef KQ_FLOAT_STATE_H
#define KQ_FLOAT_STATE_H

enum { FLOAT_EACH = -1, FLOAT_DEFAULT = 0 };

int float_state_count(void);
const char *float_state_name(int state);

// The state of the calls from now on; FLOAT_EACH: each in turn. The first one is the one whose name
// is in KQ_TEST_FLOAT_STATE, or FLOAT_EACH where that is not set.
void float_choose(int state);

// Whether KQ_TEST_FLOAT_DRIVER is set: a driver is called too. It computes with floats, so nothing
// traps and flags may be set; what it does to the control bits is told, and not held against
// kquant.
int float_has_driver(void);

// How many calls were made in a state, and after how many the control bits were others.
unsigned float_calls(void);
unsigned float_changes(void);

// Puts this thread into the state; back into its own. Ends the program where the call between left
// other registers.
void float_enter(void);
void float_leave(const char *call);

#endif
