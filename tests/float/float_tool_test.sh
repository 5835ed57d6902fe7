#!/bin/sh
# usage: float_tool_test.sh KQUANT KQUANT_IN_STATE
#
# The command gives the same bits and verdicts, whatever floating-point state it is started in. The
# decimals beside the bits are printf's, which rounds them as the state says.
set -eu

kquant=$1
in_state=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM

# everything KQUANT FOLDER: the outputs of its commands; times are left out
everything()
{
    mkdir "$2"
    for op in quantize quantized_dot f16_to_f32 f32_multiply f32_divide f32_to_i8; do
        "$1" gen --draws=20 $op >"$2/$op"
        # As good as no kernel: what is said of its zeros is compared.
        sed 's/$/ 00000000/' "$2/$op" | "$1" verify $op 2>&1 |
            sed 's/ ([^ )]*)//g' >"$2/$op-verdict"
    done
    "$1" quantize --device=reference "$dir/values.f32" "$2/values.q8k"
    for order in sequential pairwise; do
        "$1" dot --device=reference --order=$order "$dir/weights.q4k" "$2/values.q8k" |
            cut -f 2 >"$2/$order"
    done
    "$1" check --device=reference --json="$2/report" >"$2/check" 2>/dev/null
    sed -i 's/, "seconds": .*//; /"name"/!d' "$2/report"
}

# 12 blocks of which every byte will do as one of a value, and as many records.
awk 'BEGIN { for (i = 0; i < 12288; i++) printf "%c", 33 + (i * i * 7 + i * 13) % 61 }' \
    >"$dir/values.f32"
head -c 1728 "$dir/values.f32" >"$dir/weights.q4k"
everything "$kquant" "$dir/plain"
[ "$(cat "$dir"/plain/*-verdict | grep -c '^FAIL')" -gt 60 ] && [ -s "$dir/plain/pairwise" ] ||
    { echo "nothing to compare" >&2; exit 1; }
for state in default down up zero ftz daz 'precision 24' all; do
    rm -rf "$dir/state"
    KQ_TEST_FLOAT_STATE=$state everything "$in_state" "$dir/state"
    diff -r "$dir/plain" "$dir/state" || { echo "not the same in state $state" >&2; exit 1; }
done
