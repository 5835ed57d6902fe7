// usage: program [DEVICE]     prints the bits of a dot; the reference's if no device is named
#include "dot.h"

int main(int argc, char **argv)
{
    uint32_t bits = dot_bits(argc > 1 ? argv[1] : "reference");
    printf("%08lx\n", (unsigned long)bits);
    return bits == 0;
}
