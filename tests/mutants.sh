#!/bin/sh
# usage: mutants.sh [BUILD [OPTION...]]
#
# Seeds the faults of mutants/*.txt one by one and prints what noticed each; see mutants.py for the
# options. BUILD is an up-to-date build folder, ../build without it. Exit 77 where a tool is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${1-$here/../build}
[ $# -eq 0 ] || shift
for tool in python3 ninja glslangValidator spirv-opt; do
    if ! command -v "$tool" >/dev/null; then
        echo "mutants.sh: needs $tool" >&2
        exit 77
    fi
done
exec python3 "$here/mutants.py" "$build" "$@"
