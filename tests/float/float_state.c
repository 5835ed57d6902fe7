#include "float_state.h"

#include <fenv.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 8 };

#if defined(__x86_64__) || defined(__i386__)
enum {
    SSE_FLAGS = 0x003F,
    SSE_DAZ = 0x0040,
    SSE_MASKS = 0x1F80,
    SSE_DOWN = 0x2000,
    SSE_UP = 0x4000,
    SSE_ZERO = 0x6000,
    SSE_FTZ = 0x8000,
    X87_MASKS = 0x003F,
    X87_24 = 0x0000,
    X87_53 = 0x0200,
    X87_64 = 0x0300,
    X87_DOWN = 0x0400,
    X87_UP = 0x0800,
    X87_ZERO = 0x0C00,
};

typedef struct registers {
    uint32_t mxcsr;
    uint16_t control, status;  // of x87; status has its flags and the top of its stack
} registers;

typedef struct state {
    const char *name;
    registers registers;
    int traps;
} state;

static const state states[] = {
    {"default", {SSE_MASKS, X87_64 | X87_MASKS, 0}, 0},
    {"down", {SSE_MASKS | SSE_DOWN, X87_64 | X87_MASKS | X87_DOWN, 0}, 0},
    {"up", {SSE_MASKS | SSE_UP, X87_64 | X87_MASKS | X87_UP, 0}, 0},
    {"zero", {SSE_MASKS | SSE_ZERO, X87_64 | X87_MASKS | X87_ZERO, 0}, 0},
    {"ftz", {SSE_MASKS | SSE_FTZ, X87_64 | X87_MASKS, 0}, 0},
    {"daz", {SSE_MASKS | SSE_DAZ, X87_64 | X87_MASKS, 0}, 0},
    {"ftz daz", {SSE_MASKS | SSE_FTZ | SSE_DAZ, X87_64 | X87_MASKS, 0}, 0},
    {"precision 24", {SSE_MASKS, X87_24 | X87_MASKS, 0}, 0},
    {"precision 53", {SSE_MASKS, X87_53 | X87_MASKS, 0}, 0},
    {"flags", {SSE_MASKS | SSE_FLAGS, X87_64 | X87_MASKS, 0}, 0},
    {"all", {SSE_MASKS | SSE_UP | SSE_FTZ | SSE_DAZ, X87_24 | X87_MASKS | X87_UP, 0}, 0},
    {"traps", {0, X87_64, 0}, 1},
    {"traps all", {SSE_ZERO | SSE_FTZ | SSE_DAZ, X87_24 | X87_DOWN, 0}, 1},
};

static registers read_registers(void)
{
    registers r;
    memset(&r, 0, sizeof r);
    __asm__ volatile("stmxcsr %0" : "=m"(r.mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(r.control));
    __asm__ volatile("fnstsw %0" : "=m"(r.status));
    return r;
}

// Flags of x87 are cleared first, lest they trap.
static void write_registers(registers r)
{
    __asm__ volatile("fnclex");
    __asm__ volatile("fldcw %0" : : "m"(r.control));
    __asm__ volatile("ldmxcsr %0" : : "m"(r.mxcsr));
}

static registers without_flags(registers r)
{
    r.mxcsr &= ~(uint32_t)SSE_FLAGS;
    r.status = 0;
    return r;
}

static void print_registers(const char *what, registers r)
{
    fprintf(stderr, "  %s mxcsr 0x%04X, x87 control 0x%04X, status 0x%04X\n", what,
            (unsigned)r.mxcsr, (unsigned)r.control, (unsigned)r.status);
}
#else
typedef struct registers {
    int rounding, flags;
} registers;

typedef struct state {
    const char *name;
    registers registers;
    int traps;
} state;

static const state states[] = {
    {"default", {FE_TONEAREST, 0}, 0},
# ifdef FE_DOWNWARD
    {"down", {FE_DOWNWARD, 0}, 0},
# endif
# ifdef FE_UPWARD
    {"up", {FE_UPWARD, 0}, 0},
# endif
# ifdef FE_TOWARDZERO
    {"zero", {FE_TOWARDZERO, 0}, 0},
# endif
    {"flags", {FE_TONEAREST, FE_ALL_EXCEPT}, 0},
};

static registers read_registers(void)
{
    return (registers){fegetround(), fetestexcept(FE_ALL_EXCEPT)};
}

static void write_registers(registers r)
{
    fesetround(r.rounding);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(r.flags);
}

static registers without_flags(registers r)
{
    r.flags = 0;
    return r;
}

static void print_registers(const char *what, registers r)
{
    fprintf(stderr, "  %s rounding %d, flags 0x%X\n", what, r.rounding, (unsigned)r.flags);
}
#endif

static int chosen, has_driver, has_begun;
static _Thread_local unsigned turn, depth, calls, changes;
static _Thread_local struct {
    registers before, inside;
    const char *name;
} entered[DEPTH];

int float_state_count(void)
{
    return (int)(sizeof states / sizeof states[0]);
}

const char *float_state_name(int state)
{
    return state == FLOAT_EACH ? "each" : states[state].name;
}

// A trap is the caller's at once: not even exit handlers are safe to run.
static void say_trap(int number)
{
    static const char text[] = "float_state: trapped: host code computed with floats\n";
    (void)number;
    _exit(write(STDERR_FILENO, text, sizeof text - 1) > 0 ? 1 : 2);
}

__attribute__((constructor(101))) static void begin(void)
{
    const char *name = getenv("KQ_TEST_FLOAT_STATE");
    has_driver = getenv("KQ_TEST_FLOAT_DRIVER") != NULL;
    chosen = FLOAT_EACH;
    for (int i = 0; name != NULL && i < float_state_count(); i++) {
        chosen = strcmp(name, states[i].name) == 0 ? i : chosen;
    }
    if (name != NULL && chosen == FLOAT_EACH && strcmp(name, "each") != 0) {
        fprintf(stderr, "float_state: no state is called %s\n", name);
        exit(EXIT_FAILURE);
    }
    signal(SIGFPE, say_trap);
    has_begun = 1;
}

void float_choose(int state)
{
    chosen = state;
}

int float_has_driver(void)
{
    return has_driver;
}

unsigned float_calls(void)
{
    return calls;
}

unsigned float_changes(void)
{
    return changes;
}

void float_enter(void)
{
    int index = chosen;
    if (!has_begun || depth == DEPTH) {
        abort();
    }
    if (index == FLOAT_EACH) {
        index = (int)(turn++ % (unsigned)float_state_count());
    }
    index = has_driver && states[index].traps ? FLOAT_DEFAULT : index;
    calls++;
    entered[depth].before = read_registers();
    entered[depth].name = states[index].name;
    write_registers(states[index].registers);
    entered[depth].inside = read_registers();
    depth++;
}

void float_leave(const char *call)
{
    registers after = read_registers();
    depth--;
    write_registers(entered[depth].before);
    registers inside = entered[depth].inside;
    if (has_driver) {
        after = without_flags(after);
        inside = without_flags(inside);
    }
    if (memcmp(&after, &inside, sizeof after) == 0) {
        return;
    }
    changes++;
    fprintf(stderr, "float_state: %s, called in \"%s\", left other registers\n", call,
            entered[depth].name);
    print_registers("before", inside);
    print_registers("after ", after);
    if (!has_driver) {
        exit(EXIT_FAILURE);
    }
}
