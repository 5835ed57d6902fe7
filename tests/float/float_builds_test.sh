#!/bin/sh
# usage: float_builds_test.sh KQUANT_C ROOT GUARD_H CC...
#
# The library in one file, KQUANT_C, and a caller of it, each compiled with what changes floats in C:
# float_state_test gives the bits of the vectors with all of them. That the library compiles with no
# floating-point register at all shows that it computes with none. GUARD_H is float_guard.py's.
set -eu

source=$1
root=$2
guard=$3
shift 3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM
cat "$guard" >"$dir/guard.h"
built=0

# run CC NAME 'LIBRARY FLAGS' 'CALLER FLAGS' [WORDS]; WORDS must be in what the program prints
run()
{
    cc=$1
    name=$2
    includes="-I$root/include -I$root/src -I$root/tests -I$root/tests/float"
    macros="-DKQ_HAS_VULKAN -DKQ_HAS_OPENCL -DVK_NO_PROTOTYPES"
    $cc -std=c11 $3 $macros $includes -c "$source" -o "$dir/kquant.o"
    for file in tests/float/float_state_test tests/float/float_state tests/support; do
        $cc -std=c11 $4 $macros $includes -include "$dir/guard.h" -c "$root/$file.c" \
            -o "$dir/$(basename $file).o"
    done
    $cc $4 -o "$dir/program" "$dir/float_state_test.o" "$dir/float_state.o" "$dir/support.o" \
        "$dir/kquant.o" -ldl
    said=$("$dir/program" reference "$root/tests/vectors" "$root/tests/vectors/edges")
    echo "$cc, $name: $said"
    case $said in
    *"${5-keeps subnormals}"*) ;;
    *) echo "$name: not the build that was meant" >&2; exit 1 ;;
    esac
    built=$((built + 1))
}

# can CC FLAGS: whether it makes programs with them
can()
{
    echo '#include <stdio.h>
int main(void) { return puts("") < 0; }' >"$dir/can.c"
    $1 $2 "$dir/can.c" -o "$dir/can" 2>/dev/null && "$dir/can" >/dev/null
}

for cc; do
    if ! command -v "$cc" >/dev/null; then
        echo "no $cc"
        continue
    fi
    run "$cc" 'both with -ffast-math' '-O3 -ffast-math' '-O2 -ffast-math' 'loses subnormals'
    case $(uname -m) in x86_64) ;; *) continue ;; esac
    run "$cc" 'no floating-point register' '-O2 -mgeneral-regs-only' -O2
    if can "$cc" -m32; then
        run "$cc" '32 bits, x87' '-m32 -O2 -mno-sse' '-m32 -O2 -mno-sse'
    else
        echo "$cc makes no 32-bit programs here"
    fi
    # The rest by one compiler.
    if [ "$cc" != gcc ]; then
        continue
    fi
    run "$cc" 'caller with -ffast-math' -O2 '-O2 -ffast-math' 'loses subnormals'
    run "$cc" 'no floating-point register, unoptimized' '-O0 -mgeneral-regs-only' -O0
    run "$cc" 'soft floats' '-O2 -msoft-float -mno-sse' -O2
    if grep -qw fma /proc/cpuinfo; then
        run "$cc" 'fused multiply-adds' '-O3 -mfma -ffp-contract=fast' -O2
    fi
    run "$cc" 'x87' '-O2 -mfpmath=387' '-O2 -mfpmath=387'
    if can "$cc" -m32; then
        run "$cc" '32 bits, no floating-point register' '-m32 -O2 -mgeneral-regs-only' '-m32 -O2'
        run "$cc" '32 bits, x87 with -ffast-math' '-m32 -O3 -ffast-math -mno-sse' \
            '-m32 -O2 -ffast-math -mno-sse'
    fi
done
[ $built -gt 0 ] || exit 77
echo "$built builds"
