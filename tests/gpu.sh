#!/bin/sh
# What a GPU that is at hand for minutes can show: every case, the speed, one page of both.
#
# usage: sh tests/gpu.sh [--level=quick|full] DEVICE FOLDER
#
# Builds kquant where it isn't, and leaves in FOLDER check.json, bench.json, roofline.svg and
# matrix.html, which puts the device beside the reference. DEVICE is as for kquant check. A script that
# is cut off leaves reports that say so; the same command goes on from there. --level=quick leaves out
# most of the cases and all but one shape of dots. Exit: the worst of the commands'.
set -eu

level=full
case ${1:-} in --level=*) level=${1#--level=}; shift ;; esac
if [ $# -ne 2 ]; then
    sed -n '4s/# //p' "$0" >&2
    exit 2
fi
device=$1
folder=$2
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
kquant=${KQUANT:-$root/build/src/tool/kquant}
if [ ! -x "$kquant" ]; then
    meson setup "$root/build" "$root" -Dtests=false -Dsamples=false
    ninja -C "$root/build"
fi
mkdir -p "$folder"
"$kquant" --version
"$kquant" devices

worst=0
# run COMMAND...: remembers the worst exit code; 77 is none of its own
run()
{
    echo "== kquant $*"
    code=0
    "$kquant" "$@" || code=$?
    [ "$code" -le "$worst" ] || worst=$code
}

run check --device="$device" --level="$level" --against=reference --json="$folder/check.json" --resume
shapes='*'
[ "$level" = full ] || shapes='dots-4096-of-16-*'
run bench --device="$device" --filter="$shapes" --json="$folder/bench.json" --plot="$folder/roofline.svg"
run report "$folder/check.json" --output="$folder/matrix.html"
exit "$worst"
