#!/bin/sh
# The three levels keep to themselves: what their sources name and what their archives import.
# usage: layers_test.sh LIBKQUANT_A LIBKQUANT_DEVICE_A
set -eu

if [ $# -ne 2 ]; then
    sed -n '3s/# //p' "$0" >&2
    exit 2
fi
pack=$(realpath "$1")
device=$(realpath "$2")
cd "$(dirname "$0")/.."
wrong=0

fail()
{
    echo "layers_test: $*"
    wrong=1
}

for tool in nm objdump; do
    if ! command -v "$tool" >/dev/null; then
        echo "layers_test: no $tool"
        exit 77
    fi
done

# --- What the sources name

# Levels 3 and above reach kernels through level 2 only. Some samples are engines, with shaders of
# their own.
launch='vkCmdDispatch|vkCreateComputePipelines|clEnqueueNDRangeKernel'
above=$(find src samples -type f -name '*.[ch]' 2>/dev/null |
    grep -E '^src/(device[^/]*|vulkan_instance|loader|volk)\.[ch]$|^src/tool/|^samples/' |
    grep -vE '^samples/(engine_|fused|own_|vulkan_base)')
if [ "$(echo "$above" | wc -l)" -lt 5 ]; then
    fail "found no sources of level 3: $above"
fi
if found=$(grep -nE "$launch" $above); then
    fail "this is level 2's to call: $found"
fi
# The names are right, or level 2 would not hold them.
for name in vkCmdDispatch:vulkan.c vkCreateComputePipelines:vulkan.c \
    clEnqueueNDRangeKernel:opencl.c; do
    if ! grep -q "${name%:*}" "src/${name#*:}"; then
        fail "src/${name#*:} doesn't name ${name%:*}"
    fi
done

if found=$(grep -rnE '\b(secure_)?getenv *\(' src); then
    fail "the environment is no argument: $found"
fi

# --- What the archives import

# members ARCHIVE: lines "MEMBER SYMBOL" of what each member leaves undefined
undefined()
{
    nm -A -u "$1" | sed 's/.*:\([^:]*\):[ 0-9a-f]*[Uw] \([^@]*\).*/\1 \2/'
}

# Freestanding code calls these, and nothing prints, exits, aborts or asks the system for anything.
# __X_chk and __isoc99_X are glibc's names for X.
iso='malloc|calloc|realloc|free|mem(cpy|set|cmp|move|chr)'
iso="$iso|str(len|cmp|ncmp|str|chr|rchr|spn|cspn)|v?snprintf|sscanf"
helpers='bcmp|__stack_chk_(fail|guard)|_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|gcov|llvm)_.*'
allowed="$iso|__(${iso})_chk|__isoc(99|23)_(${iso})|$helpers|kq_.*"

imports=$(undefined "$pack")
if ! echo "$imports" | grep -q vsnprintf; then
    fail "nm shows no imports of $pack"
fi
if found=$(echo "$imports" | grep -vE " ($allowed)\$"); then
    fail "levels 1 and 2 import what they shouldn't: $found"
fi
if found=$(nm "$pack" | grep -oE ' [TDBRVW] .*' | grep -vE ' (kq_|__odr_asan\.)'); then
    fail "levels 1 and 2 define names that are not kq_: $found"
fi

# In level 3 one member opens loaders, and volk is someone else's.
imports=$(undefined "$device" | grep -v '^volk\.')
if ! echo "$imports" | grep -q ' free$'; then
    fail "nm shows no imports of $device"
fi
if found=$(echo "$imports" | grep -v '^loader\.' | grep -vE " ($allowed)\$"); then
    fail "level 3 imports what it shouldn't: $found"
fi
loader="$allowed|dlopen|dlsym|volkInitialize|vkGetInstanceProcAddr"
if found=$(echo "$imports" | grep '^loader\.' | grep -vE " ($loader)\$"); then
    fail "loader.c imports what it shouldn't: $found"
fi

# --- Mutable data at file scope

# variables ARCHIVE: lines "MEMBER SYMBOL SECTION" of what lies in a section that can be written to
# after the program has been linked
variables()
{
    objdump -t "$1" | awk -F '\t' '
        / file format / { split($0, part, ":"); member = part[1] }
        NF == 2 {
            count = split($1, left, " ")
            section = left[count]
            count = split($2, right, " ")
            name = right[count]
            if (section ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ &&
                section !~ /^\.data\.rel\.ro/ && name !~ /^(\.|__asan|__odr_asan|__gcov|__llvm)/)
                print member, name, section
        }'
}

if found=$(variables "$pack" | grep .); then
    fail "mutable data in levels 1 and 2: $found"
fi
if found=$(variables "$device" | grep -v '^volk\.' | grep .); then
    fail "mutable data in level 3: $found"
fi
# volk has some, so that a search which finds nothing anywhere would show here.
if objdump -t "$device" | grep -q '^volk\.' && ! variables "$device" | grep -q '^volk\.'; then
    fail "no variables of volk are found, where there are some"
fi

if [ $wrong -eq 0 ]; then
    echo "layers_test: $(echo "$above" | wc -l) sources of level 3 and above," \
        "$(undefined "$pack" | sort -u | wc -l) imports of levels 1 and 2," \
        "$(undefined "$device" | sort -u | wc -l) of level 3: as they should be"
fi
exit $wrong
