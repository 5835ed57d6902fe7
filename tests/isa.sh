#!/bin/sh
# usage: isa.sh check|write [BUILD]
#
# What RADV makes of every kernel for three generations of AMD GPUs, none of which need be here. check
# compares it with isa.txt, write makes that anew; isa.py says more. BUILD is an up-to-date build folder,
# ../build without it. Exit 77 where RADV isn't installed (mesa-vulkan-drivers).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
case ${1-}:$# in
check:1 | write:1 | check:2 | write:2) ;;
*)
    sed -n '2s/# //p' "$0" >&2
    exit 2
    ;;
esac
program=${2-$here/../build}/tests/isa_dump
if [ ! -x "$program" ]; then
    echo "isa.sh: there is no $program; build it first" >&2
    exit 2
fi
exec python3 "$here/isa.py" "$1" "$program" "$here/isa.txt"
