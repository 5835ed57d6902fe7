#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static const int signals[] = {
    SIGINT,
    SIGTERM,
#ifdef SIGHUP
    SIGHUP,
#endif
#ifdef SIGBREAK
    SIGBREAK,
#endif
};

static void notice(int number)
{
    // The second one doesn't wait for what the first one waits for, a driver that hangs say.
    signal(number, SIG_DFL);
    caught = number;
}

void interrupt_catch(void)
{
    for (size_t k = 0; k < sizeof signals / sizeof signals[0]; k++) {
        if (signal(signals[k], notice) == SIG_IGN) {
            signal(signals[k], SIG_IGN);
        }
    }
}

bool interrupt_has_come(void)
{
    return caught != 0;
}

void interrupt_end(void)
{
    int number = caught;
    signal(number, SIG_DFL);
    raise(number);
}
