#!/bin/sh
# usage: verdict_test.sh KQUANT
#
# kquant check can't fail open: whatever a driver does wrong, the exit code is not 0 and every case
# has a status that says so. The driver is the reference, broken on purpose.
set -eu

kquant=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
checks=0
failures=0

fail()
{
    echo "verdict_test: $*"
    sed 's/^/    /' "$out/stdout" "$out/stderr" | tail -20
    failures=$((failures + 1))
}

# expect CODE PASS FAIL UNSUPPORTED ERROR OPTION...: one device's line of the table
expect()
{
    wanted_code=$1
    wanted="$2 $3 $4 $5"
    shift 5
    checks=$((checks + 1))
    code=0
    "$kquant" check --device=reference "$@" >"$out/stdout" 2>"$out/stderr" || code=$?
    got=$(awk '$1 == "reference" && NF == 6 && !seen++ { print $2, $3, $4, $5 }' "$out/stdout")
    fingerprint=$(awk '$1 == "reference" && NF == 6 && !seen++ { print $6 }' "$out/stdout")
    if [ "$code" -ne "$wanted_code" ] || [ "$got" != "$wanted" ]; then
        fail "check $*: exit $code and $got, not $wanted_code and $wanted"
    fi
    if [ "$code" -ne 0 ] && [ "$fingerprint" != none ]; then
        fail "check $*: exit $code, and yet the fingerprint is $fingerprint"
    fi
}

says()
{
    checks=$((checks + 1))
    grep -q -- "$1" "$out/stdout" || fail "\"$1\" is not on stdout"
}

total=$("$kquant" check --list | wc -l)
expect 0 "$total" 0 0 0

# A kernel that does nothing passes nothing but what has no output.
silent=$("$kquant" check --list |
    grep -cE '^quantize\.base\.(empty|no-|bulk-.*-0$)|repeat-(everything-odd-)?(0x[0-9]+|4x0)-of')
expect 1 "$silent" $((total - silent)) 0 0 --fault=empty
expect 1 $((total - 1)) 1 0 0 --fault=flip:quantize.base.zeros
says '^FAIL   quantize.base.zeros: '
expect 1 $((total - 1)) 1 0 0 --fault=empty:quantize.base.zeros
says '^FAIL   quantize.base.zeros: record 0 was not written$'
expect 1 $((total - 1)) 1 0 0 --fault=stray:quantize.base.zeros
says 'is no output'

# One run of many that is wrong, in either thread, is not outvoted.
expect 1 $((total - 2)) 2 0 0 --fault=flip:*.replay-200
says '^FAIL   quantize.base.replay-200: 67 of 200 runs differ from the first, as run 1 does$'
says '^FAIL   quantized_dot.base.replay-200: 67 of 200 runs differ'
expect 1 $((total - 2)) 2 0 0 --fault=flip:*-in-2-threads
says '17 of 50 runs in the first thread differ'
says '17 of 50 runs in the second thread differ'

# A case that the driver does not come back from takes only itself.
for fault in crash hang lost; do
    expect 99 $((total - 1)) 0 0 1 --fault=$fault:quantize.base.zeros --time-limit=3
    says '^ERROR  quantize.base.zeros: '
    expect 99 $((total - 2)) 0 0 2 --fault=$fault:*-in-2-threads --time-limit=3
    says '^ERROR  quantized_dot.base.replay-50-in-2-threads: '
done

# What is compared with is spared.
expect 1 $((total - 1)) 1 0 0 --fault=flip:quantize.base.zeros --against=reference
says '^DIFFER quantize.base.zeros: '
says ' cases compared with reference, 1 differ$'

# A filter longer than any buffer names the same cases for the child.
long=$(printf '%1100s' '' | tr ' ' '*')
expect 1 0 1 0 0 --fault=flip "--filter=${long}quantize.base.zeros"

# Until there is nothing to wait for.
expect 99 0 0 0 "$total" --fault=crash
says 'the device is given up: 8 errors in a row'

echo "verdict_test: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
