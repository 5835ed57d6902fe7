#!/bin/sh
# usage: faults.sh check|write [BUILD] [DRIVER]
#
# Runs the tests that make every call, allocation and command fail once, and gathers how many of the
# failures were survived: the right result, one report, nothing left, no wrong bytes. write puts the
# table into tables/faults.txt; check compares what is printed now with it, of one DRIVER or of all
# that are installed. BUILD is an up-to-date build folder, ../build without it. Exit 77 where no driver
# is installed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
table=$here/tables/faults.txt
case ${1-}:$# in
check:[123] | write:[12]) ;;
*)
    sed -n '2s/# //p' "$0" >&2
    exit 2
    ;;
esac
mode=$1
build=${2-$here/../build}
only=${3-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM

# The driver, and the programs that print lines `faults: WHAT: N of N survived`.
programs='lavapipe faults/vulkan_faults_test
lavapipe faults/vulkan_faults_bring_test
pocl faults/opencl_faults_test
pocl faults/opencl_faults_bring_test'

ran=
missing=
while read -r driver program; do
    if [ -n "$only" ] && [ "$only" != "$driver" ]; then
        continue
    fi
    # A build may be without an API.
    [ -x "$build/tests/$program" ] || continue
    status=0
    sh "$here/drivers.sh" run "$driver" "$build/tests/$program" >"$tmp/log" || status=$?
    if [ $status -eq 77 ]; then
        missing="$missing $driver"
        continue
    fi
    if [ $status -ne 0 ]; then
        cat "$tmp/log" >&2
        echo "faults.sh: $program failed on $driver" >&2
        exit 1
    fi
    ran="$ran $driver"
    sed -n 's/^faults: \(.*\): \([0-9]* of [0-9]*\) survived$/\1|\2/p' "$tmp/log" |
        while IFS='|' read -r what survived; do
            printf '%-10s %-52s %s\n' "$driver" "$what" "$survived"
        done >>"$tmp/rows"
done <<END
$programs
END
[ -n "$ran" ] || exit 77
if [ ! -s "$tmp/rows" ]; then
    echo "faults.sh: no program printed a row" >&2
    exit 1
fi

if [ "$mode" = write ]; then
    if [ -n "$missing" ]; then
        echo "faults.sh: not installed:$missing; tests/drivers.sh install" >&2
        exit 1
    fi
    mkdir -p "$here/tables"
    {
        echo '# sh tests/faults.sh write'
        printf '%-10s %-52s %s\n' driver 'what fails' survived
        cat "$tmp/rows"
    } >"$table"
    exit 0
fi
for driver in $ran; do
    grep "^$driver " "$table" || :
done | sort -u >"$tmp/was"
sort -u "$tmp/rows" >"$tmp/is"
diff -u "$tmp/was" "$tmp/is" || {
    echo 'faults.sh: tables/faults.txt differs; sh tests/faults.sh write makes it anew' >&2
    exit 1
}
