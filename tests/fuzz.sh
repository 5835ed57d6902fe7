#!/bin/sh
# Runs the fuzzers of tests/fuzz, each from its corpus, in a build of their own.
#
# usage: sh tests/fuzz.sh [--seconds=N] [--runs=N] [--build=DIR] [--table=FILE] [TARGET...]
#
# --seconds: for all targets together (120); --runs: the most of each, 0 for no limit (0). --table puts
# the lines of these targets into FILE too, in place of those there. Exit 0: no finding. 1: a finding, whose
# input is kept in DIR (build/fuzz) and named, with how to run it again. 77: no clang-14 with libFuzzer.
# Targets are all unless they are named; `api-lavapipe` is `api` on that driver beside the reference.
set -eu

cd "$(dirname "$0")/.."
seconds=120
runs=0
build=build/fuzz
table=
all='gguf vectors lines report bench options text child sample_vectors manifest cache api api-lavapipe vulkan'
targets=

usage()
{
    sed -n '4p' tests/fuzz.sh | sed 's/# //' >&2
    exit 2
}

for argument; do
    case $argument in
    --seconds=*) seconds=${argument#*=} ;;
    --runs=*) runs=${argument#*=} ;;
    --build=*) build=${argument#*=} ;;
    --table=*) table=${argument#*=} ;;
    -*) usage ;;
    *)
        case " $all " in
        *" $argument "*) targets="$targets $argument" ;;
        *) usage ;;
        esac
        ;;
    esac
done
case $seconds$runs in
*[!0-9]*) usage ;;
esac
targets=${targets:-$all}

# --- Build

command -v clang-14 >/dev/null || { echo "fuzz.sh: no clang-14" >&2; exit 77; }
mkdir -p "$build"
try='int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }'
if ! echo "$try" | clang-14 -fsanitize=fuzzer,address -x c - -o "$build/try" 2>"$build/try.log"; then
    cat "$build/try.log" >&2
    echo "fuzz.sh: clang-14 has no libFuzzer" >&2
    exit 77
fi
if [ ! -f "$build/build.ninja" ]; then
    # Without it meson takes a setup that was interrupted for a finished one.
    rm -rf "$build/meson-private"
    if ! CC=clang-14 meson setup "$build" --buildtype=debugoptimized -Db_lundef=false \
        -Db_sanitize=address,undefined \
        "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined" >"$build/setup.log" 2>&1; then
        cat "$build/setup.log" >&2
        exit 1
    fi
fi
ninja -C "$build" fuzz >"$build/ninja.log" 2>&1 || { cat "$build/ninja.log" >&2; exit 1; }

# --- Run

# run_target NAME SECONDS: prints its line, and keeps findings and the log
run_target()
{
    name=$1
    fuzzer=${name%-lavapipe}
    command="$build/tests/fuzz/fuzz_$fuzzer"
    finds=$build/finds/$name
    log=$build/$name.log
    rm -rf "$finds"
    mkdir -p "$finds/corpus"
    set -- "-max_total_time=$2" -timeout=60 -malloc_limit_mb=256 -rss_limit_mb=4096 -print_final_stats=1 \
        -close_fd_mask=1 "-artifact_prefix=$finds/"
    [ "$runs" -eq 0 ] || set -- "$@" "-runs=$runs"
    on=
    case $name in
    vectors | sample_vectors) set -- "$@" -max_len=600 ;;
    api | vulkan) set -- "$@" -max_len=400 -len_control=20 ;;
    api-lavapipe)
        # Drivers leak a little, whoever calls them.
        on='sh tests/drivers.sh run lavapipe env ASAN_OPTIONS=detect_leaks=0'
        set -- "$@" -max_len=400 -len_control=20 -detect_leaks=0 --device=vulkan:0
        ;;
    esac
    status=0
    begin=$(date +%s)
    $on "$command" "$@" "$finds/corpus" "tests/fuzz/corpus/$fuzzer" >"$log" 2>&1 || status=$?
    end=$(date +%s)
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
    edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
    if [ $status -eq 77 ] && [ -n "$on" ] && [ -z "$executions" ]; then
        echo "$name: $(tail -n 1 "$log")" >&2
        executions=none
        found=not-run
    elif [ $status -eq 0 ]; then
        found=0
    else
        found=1
        failed=1
    fi
    row "$name" "${executions:-0}" "$((end - begin))" "$found" "${edges:-0}"
    if [ "$found" = 1 ]; then
        grep -a -E 'does not hold|runtime error|SUMMARY' "$log" | head -n 3
        input=$(find "$finds" -maxdepth 1 -type f | head -n 1)
        echo "the log is $log, the input ${input:-not there}; again:"
        echo "    $on $command $(echo "$*" | tr ' ' '\n' | grep -e '^--' -e leaks | xargs) ${input:-}"
    fi
}

# row TARGET EXECUTIONS SECONDS FINDINGS EDGES
row()
{
    printf '%-16s %12s %8s %9s %7s\n' "$@"
    printf '%-16s %12s %9s %7s\n' "$1" "$2" "$4" "$5" >>"$build/rows.txt"
}

failed=0
count=$(echo $targets | wc -w)
each=$(((seconds + count - 1) / count))
UBSAN_OPTIONS=print_stacktrace=1
export UBSAN_OPTIONS
: >"$build/rows.txt"
row target executions seconds findings edges
for target in $targets; do
    run_target "$target" "$each"
done
if [ -n "$table" ]; then
    echo '# Each line by its last run of: sh tests/fuzz.sh --seconds=N --runs=N --table=tests/tables/fuzz.txt TARGET' \
        >"$build/table.txt"
    [ ! -f "$table" ] || cat "$table" >"$build/old.txt"
    touch "$build/old.txt"
    # Of what ran now the new line, of all others the one that is there, in the order of the targets.
    for target in target $all; do
        awk -v target="$target" '$1 == target { line = $0 } END { if (line) print line }' \
            "$build/old.txt" "$build/rows.txt" >>"$build/table.txt"
    done
    mkdir -p "$(dirname "$table")"
    mv "$build/table.txt" "$table"
    rm "$build/old.txt"
fi
exit $failed
