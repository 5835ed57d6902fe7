#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;
static bool is_catching;  // interrupt_catch has been called

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

static void handle(void (*handler)(int))
{
    for (size_t k = 0; k < sizeof signals / sizeof signals[0]; k++) {
        if (signal(signals[k], handler) == SIG_IGN) {
            signal(signals[k], SIG_IGN);
        }
    }
}

void interrupt_catch(void)
{
    is_catching = true;
    handle(notice);
}

void interrupt_hold(void)
{
    if (!is_catching) {
        handle(notice);
    }
}

void interrupt_release(void)
{
    if (!is_catching) {
        handle(SIG_DFL);
        if (interrupt_has_come()) {
            interrupt_end();
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
