#!/bin/sh
# usage: verify_test.sh KQUANT PYTHON MULTIPLY_PY
#
# kquant gen and kquant verify judge kernels of others: the sample in Python, and what kquant itself
# makes of the lines; and no line that is wrong, malformed or missing passes.
set -eu

kquant=$1
python=$2
multiply=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
checks=0
failures=0

# expect CODE TEXT OP: what verify says of $out/lines
expect()
{
    checks=$((checks + 1))
    code=0
    "$kquant" verify $3 <"$out/lines" >"$out/said" 2>&1 || code=$?
    if [ "$code" -ne "$1" ] || ! grep -q -- "$2" "$out/said"; then
        echo "verify_test: verify $3: exit $code, not $1, or \"$2\" is missing:"
        head -5 "$out/said" | cut -c1-300
        failures=$((failures + 1))
    fi
}

"$kquant" gen f32_multiply >"$out/inputs"
"$python" "$multiply" <"$out/inputs" >"$out/lines"
expect 0 ' right, 0 wrong$' f32_multiply
cp "$out/lines" "$out/right"

# A flush of subnormals, as many drivers have it.
awk '{ if (substr($3, 1, 3) ~ /^[08]0[0-7]$/) $3 = substr($3, 1, 1) "0000000"; print }' \
    "$out/right" >"$out/lines"
expect 1 'f32 multiply loses subnormals: 0x' f32_multiply

# The operations, by the definition of the contract that shares nothing with kquant.
cat >"$out/oracle.py" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
from oracle_definition import dot_terms, pairwise, quantize, sequential
for line in sys.stdin:
    fields = [bytes.fromhex(field) for field in line.split()]
    if sys.argv[2] == 'quantize':
        output = quantize(fields[0])[1].hex()
    else:
        fold = pairwise if sys.argv[2] == 'quantized_dot_pairwise' else sequential
        output = f'{fold(dot_terms(*fields)):08x}'
    print(line.strip(), output)
PYTHON
for op in quantize quantized_dot quantized_dot_pairwise; do
    "$kquant" gen "$op" --draws=20 --seed=$$ | awk 'length($0) < 9000 && NR % 5 < 3' |
        "$python" "$out/oracle.py" "$(dirname "$0")" "$op" >"$out/lines"
    expect 0 ' right, 0 wrong$' "$op"
    # The last digit of every output.
    sed 's/0$/X/; s/[1-9a-f]$/0/; s/X$/1/' "$out/lines" >"$out/changed"
    mv "$out/changed" "$out/lines"
    expect 1 '^0 right, ' "$op"
done

: >"$out/lines"
expect 77 '^0 right, 0 wrong' quantize
for line in '3f800000 3f800000' '3f800000 3f800000 3f800000 0' '3f80000 3f800000 3f800000' \
    '3f800000 3f800000 nan' '3f800000 3f800000 3f8000000' ''; do
    { head -1 "$out/right"; printf '%s\n' "$line"; } >"$out/lines"
    expect 99 '^kquant: verify: line 2: ' f32_multiply
done
printf '3f800000 3f800000 3f800000\0 0\n' >"$out/lines"
expect 99 'line 1: has a NUL' f32_multiply
echo '00010000 00000000' >"$out/lines"
expect 99 'line 1: 0x00010000 is no f16' f16_to_f32
# A kernel that ends early.
head -100 "$out/right" >"$out/lines"
expect 0 '^100 right, 0 wrong$' f32_multiply
expect 0 '^100 right, 0 wrong$' '--lines=100 f32_multiply'
expect 99 'there were 100 lines, and --lines=101' '--lines=101 f32_multiply'
printf '%s' "$(head -1 "$out/right")" >"$out/lines"
expect 0 '^1 right, 0 wrong' f32_multiply
echo 00 >"$out/lines"
expect 99 'line 1: has 1 fields' quantize
echo 00 00 >"$out/lines"
expect 99 'line 1: must be 2048 hex digits' quantize
echo 0g 00 00000000 >"$out/lines"
expect 99 'line 1: must be G times 288' quantized_dot
expect 2 'no operation is called gemm' gemm

echo "verify_test: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
