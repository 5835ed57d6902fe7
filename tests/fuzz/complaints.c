// In place of the command's own complain, by the linker's --wrap.
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>

unsigned fuzz_complaints;

void __wrap_complain(const char *format, ...);
void __wrap_complain(const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fuzz_complaints++;
}
