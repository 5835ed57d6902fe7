#!/bin/sh
# An hour's worth of mixed work at levels 2 and 3 (tests/soak), on two cores that have nothing else to do:
# on lavapipe, on lavapipe under the validation layer, and on PoCL. Writes tests/tables/soak.txt.
#
# usage: soak.sh [BUILD [ITEMS]]
#
# BUILD is a build folder, `build` otherwise. With ITEMS it takes that many, and prints the table only.
# Work is counted, not time, and the fingerprint is one for all: that of the reference, which runs
# first. Exit 0: all as it should be, 1: it is not, 77: a driver isn't installed.
set -eu

cd "$(dirname "$0")/.."
build=${1:-build}
items=${2:-150000}
validated=$((items / 3))
table=tests/tables/soak.txt
new=$build/soak.txt
mkdir -p tests/tables

# soak DRIVER OPTION...: its last line, as words
soak()
{
    driver=$1
    shift
    status=0
    line=$(nice -n 15 sh tests/on_driver.sh "$driver" "$build/src/tool/kquant" \
        "$build/tests/soak/soak" "$@") || status=$?
    line=$(printf '%s\n' "$line" | grep '^soak: ') || exit $((status > 0 ? status : 99))
    echo "$driver${validate:+, validated}: ${line#soak: }" >&2
    printf '%s\n' "$line" | awk -v driver="$driver${validate:+, validated}" '{
        for (i = 1; i < NF; i++) {
            if ($(i + 1) ~ /^items/) items = $i
            if ($(i + 1) ~ /^threads/) threads = $i
            if ($(i + 1) ~ /^messages/) messages = $i
            if ($i == "fingerprint") fingerprint = $(i + 1)
            if ($i == "memory") { first = $(i + 1); last = $(i + 3) }
        }
        sub(/,/, "", fingerprint)
        if (/not judged/) first = last = "-"
        printf "%-20s %7s %9s  %-16s %7s %7s %8s\n", driver, threads, items, fingerprint, first, last, messages
    }' >>"$new"
    [ $status -eq 0 ] || failed=1
    print=${line#*fingerprint }
    print=${print%%,*}
}

failed=0
validate=
{
    echo '# sh tests/soak.sh: memory is MiB, the middle of the first rounds after the warm-up and of the last'
    printf '%-20s %7s %9s  %-16s %7s %7s %8s\n' driver threads items fingerprint first last messages
} >"$new"
soak reference --device=reference --items=$items
soak lavapipe --device=vulkan:0 --items=$items --fingerprint="$print"
soak pocl --device=opencl:0 --items=$items --fingerprint="$print"
soak reference --device=reference --items=$validated
validate=1
soak lavapipe --device=vulkan:0 --items=$validated --validate --fingerprint="$print"
if [ $# -eq 2 ]; then
    cat "$new"
elif [ $failed -eq 0 ]; then
    mv "$new" "$table"
fi
exit $failed
