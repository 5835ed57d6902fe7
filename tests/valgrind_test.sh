#!/bin/sh
# usage: valgrind_test.sh API_TEST RULES_TEST CONTRACT_MD KQUANT [GGUF_MATVEC MANIFEST_PLAN]
#
# The host code of the reference, of the command and of the samples' readers under valgrind: no byte
# is read that nobody wrote, none past its end, none is lost. Run where no loader finds a driver, for
# drivers lose some of their own.
set -eu

command -v valgrind >/dev/null || { echo "valgrind_test: no valgrind"; exit 77; }
api_test=$1
rules_test=$2
contract=$3
kquant=$4
shift 4
data=$(cd "$(dirname "$0")" && pwd)/data
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM

# A leak or a wrong access is exit code 9; every other one is the command's.
check()
{
    echo "== $*"
    status=0
    # The stack of a thread that lives until the end is "possibly lost".
    valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect --trace-children=yes "$@" \
        >"$dir/said" 2>&1 || status=$?
    if [ $status -ne "$expected" ]; then
        cat "$dir/said"
        echo "valgrind_test: exit $status, not $expected"
        exit 1
    fi
}

expected=0

check "$api_test"
check "$rules_test" "$contract"
check "$kquant" check --device=reference '--filter=*.base.*-everything-odd*'
check "$kquant" check --device=reference '--filter=*.base.replay-50-in-2-threads'

"$kquant" gen --draws=2 quantized_dot | sed 's/$/ 00000000/' >"$dir/lines"
head -c 10240 "$data/small.gguf" >"$dir/values"
head -c 1440 "$data/small.gguf" >"$dir/weights"
check "$kquant" check --device=reference '--filter=*.base.*zeros*' --json="$dir/a.json" \
    --junit="$dir/a.xml"
cp "$dir/a.json" "$dir/b.json"
check "$kquant" report "$dir/a.json" "$dir/b.json" -o "$dir/matrix.html"
check "$kquant" gen --draws=2 quantize
expected=1
check "$kquant" verify quantized_dot <"$dir/lines"
check "$kquant" quantize --device=reference "$dir/values" "$dir/records"
head -c 2920 "$data/small.gguf" >"$dir/records"
expected=0
check "$kquant" dot --device=reference "$dir/weights" "$dir/records"
expected=99
for cut in 10 700 4000; do
    head -c $cut "$dir/a.json" >"$dir/cut.json"
    check "$kquant" report "$dir/cut.json" -o "$dir/matrix.html"
done

# Readers of the samples: a whole file, and damaged ones.
if [ $# -eq 2 ]; then
    gguf_matvec=$1
    manifest_plan=$2
    expected=0
    check "$gguf_matvec" --device=reference "$data/small.gguf"
    check "$manifest_plan" "$(dirname "$kquant")/.."
    expected=1
    for cut in 0 7 23 100 300 1000 50000; do
        head -c $cut "$data/small.gguf" >"$dir/cut.gguf"
        check "$gguf_matvec" --list "$dir/cut.gguf"
    done
    # A count of the header's, far above what the file can hold.
    for at in 8 16; do
        { head -c $at "$data/small.gguf"; printf '\377\377\377\377\377\377\377\177'
          tail -c +$((at + 9)) "$data/small.gguf"; } >"$dir/cut.gguf"
        check "$gguf_matvec" --list "$dir/cut.gguf"
    done
    for cut in 1 900 9000; do
        head -c $cut "$(dirname "$kquant")/../kernels.json" >"$dir/kernels.json"
        check "$manifest_plan" "$dir"
    done
fi
