// A program that is in KQ_TEST_FLOAT_STATE from before main to its end, with all its threads and
// children.
#include "float_state.h"

__attribute__((constructor(102))) static void start(void)
{
    float_enter();
}
