#!/bin/sh
# Files of another machine's kquant are this one's to the byte, and too large ones are refused.
# usage: files_test.sh KQUANT FOREIGN_KQUANT FOREIGN_GGUF_MATVEC
#
# FOREIGN programs are started as they are, so the kernel must know how.
set -eu

here=$1
there=$2
gguf=$3
multiply=$(dirname "$0")/../../samples/multiply.py
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
wrong=0

fail()
{
    echo "files_test: $*"
    wrong=1
}

# same WHAT: both have written WHAT.here and WHAT.there
same()
{
    [ -s "$tmp/$1.here" ] || fail "$1: nothing was written"
    cmp "$tmp/$1.here" "$tmp/$1.there" || fail "$1 differs"
}

# --- The same bytes

# Values of every exponent that a block may have, as little-endian f32, and nothing that repeats.
python3 - "$tmp/x.f32" "$tmp/w.q4k" <<'END'
import random
import struct
import sys

draw = random.Random(1)
with open(sys.argv[1], 'wb') as file:
    for block in range(64):
        file.write(struct.pack('<256f', *(draw.uniform(-2.0, 2.0) * 2.0 ** (block - 32)
                                          for k in range(256))))
with open(sys.argv[2], 'wb') as file:
    for record in range(256):
        file.write(struct.pack('<2e', draw.uniform(0.0, 1.0), draw.uniform(0.0, 1.0)) +
                   draw.randbytes(140))
END
for side in here there; do
    eval kquant=\$$side
    "$kquant" quantize --device=reference "$tmp/x.f32" "$tmp/records.$side"
    "$kquant" dot --device=reference "$tmp/w.q4k" "$tmp/records.here" >"$tmp/dots.$side"
    "$kquant" dot --device=reference --order=pairwise "$tmp/w.q4k" "$tmp/records.here" \
        >"$tmp/pairwise.$side"
    "$kquant" check --list --level=full >"$tmp/list.$side"
    for op in quantize quantized_dot quantized_dot_pairwise f16_to_f32 i32_to_f32 f32_multiply \
        f32_add f32_subtract f32_divide f32_to_i8; do
        "$kquant" gen --draws=100 "$op"
    done >"$tmp/lines.$side"
    "$kquant" gen f32_multiply | python3 "$multiply" | "$kquant" verify f32_multiply \
        >"$tmp/verify.$side"
    # What says where it ran, how long that took and which build it was is all that may differ.
    "$kquant" check --device=reference --filter='*.base.offsets-*' --json="$tmp/json.$side" \
        --junit="$tmp/junit.$side" >"$tmp/stdout.$side" 2>/dev/null || true
done
for what in records dots pairwise list lines verify stdout; do
    same "$what"
done
python3 - "$tmp/json.here" "$tmp/json.there" <<'END' || fail "the reports differ"
import json
import sys

reports = [json.load(open(path)) for path in sys.argv[1:]]
for report in reports:
    for key in ['tool', 'system', 'environment']:
        del report[key]
    for device in report['devices']:
        for case in device['cases']:
            case.pop('seconds', None)
        for key in [key for key in device if 'time' in key or 'second' in key or key == 'properties']:
            del device[key]
sys.exit(0 if reports[0] == reports[1] and reports[0]['devices'][0]['cases'] else 1)
END
for side in here there; do
    eval kquant=\$$side
    "$kquant" report "$tmp/json.here" "$tmp/json.there" -o "$tmp/page.$side" >/dev/null || true
done
same page

# --- Sizes

# refuses WHAT WORDS COMMAND...: an exit code of its own, with words, and no file
refuses()
{
    what=$1
    words=$2
    shift 2
    code=0
    "$@" >"$tmp/out" 2>"$tmp/err" || code=$?
    case $code in
    1 | 2 | 99) ;;
    *) fail "$what: exit code $code" ;;
    esac
    grep -q "$words" "$tmp/err" || fail "$what: says $(head -c 300 "$tmp/err")"
}

# Where addresses have 32 bits: no file's size is taken for what is left of it in a size_t.
if [ "$(od -An -tu1 -j4 -N1 "$there" | tr -d ' ')" = 1 ]; then
    truncate -s 5G "$tmp/large"
    refuses "quantize of 5 GiB" 'not memory enough' \
        "$there" quantize --device=reference "$tmp/large" "$tmp/large.q8k"
    [ ! -e "$tmp/large.q8k" ] || fail "quantize of 5 GiB has left a file"
    truncate -s 4831838208 "$tmp/large"
    refuses "dot of 4.5 GiB" 'not memory enough' \
        "$there" dot --device=reference "$tmp/large" "$tmp/records.here"
    refuses "bench of 4.5 GiB" 'out of memory: 4831838208 times 1' \
        "$there" bench --device=reference --records=16 --repeat=2097152,1
    { printf 'GGUF\003\000\000\000'; } | dd of="$tmp/large" conv=notrunc status=none
    refuses "a GGUF file of 5 GiB" 'too large for this machine' "$gguf" --list "$tmp/large"
fi
exit $wrong
