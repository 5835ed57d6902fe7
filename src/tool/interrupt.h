// Signals that ask for an end, noticed where what has been done can be kept.
#ifndef KQ_TOOL_INTERRUPT_H
#define KQ_TOOL_INTERRUPT_H

#include <stdbool.h>

// From now on SIGINT, SIGTERM and, where they are, SIGHUP and SIGBREAK are only noticed, unless
// they were to be ignored.
void interrupt_catch(void);
bool interrupt_has_come(void);

// The first of them that comes between these two ends the process at the second; where all are
// caught anyway they do nothing.
void interrupt_hold(void);
void interrupt_release(void);

// Ends the process by the signal that came, as it would have without the above.
void interrupt_end(void);

#endif
