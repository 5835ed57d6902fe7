#!/bin/sh
# Runs kquant's tests on every other processor and system that there is a way to here.
set -eu

usage()
{
    cat <<'END'
usage: machines.sh [--table] [--install | --no-install] [NAME...]

NAME is one of tests/machines/NAME.sh; without, all are run. Each installs what it needs. The table on
stdout has a line for each device of each machine; --table writes tests/tables/machines.txt too, of
all machines. Exit 0: all passed, 1: something failed, 99: couldn't tell, 77: nothing could be run.
--install installs and runs nothing, --no-install runs what is there.
END
}

cd "$(dirname "$0")/.."
table=
option=
while [ $# -gt 0 ]; do
    case $1 in
    --table) table=tests/tables/machines.txt ;;
    --install | --no-install) option=$1 ;;
    -h | --help)
        usage
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *) break ;;
    esac
    shift
done
if [ -n "$table" ] && [ $# -gt 0 ]; then
    echo "machines.sh: --table is of all machines" >&2
    exit 2
fi
if [ $# -eq 0 ]; then
    for script in tests/machines/*.sh; do
        name=$(basename "$script" .sh)
        case $name in
        qemu | *_test) ;;
        *) set -- "$@" "$name" ;;
        esac
    done
fi
for name; do
    if ! [ -f "tests/machines/$name.sh" ]; then
        echo "machines.sh: no machine is called $name" >&2
        exit 2
    fi
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
printf 'machine\tdevice\tcases passed\tfingerprint\n' >"$tmp/lines"
ran=0
missing=
failed=0
undecided=0
for name; do
    code=0
    sh "tests/machines/$name.sh" $option >"$tmp/out" || code=$?
    # Its last lines are the table's: those of four columns.
    awk -F '\t' 'NF == 4' "$tmp/out" >>"$tmp/lines"
    case $code in
    0) ran=1 ;;
    77)
        missing="$missing $name"
        echo "machines.sh: $name can't be had here" >&2
        ;;
    99) undecided=1 ;;
    *) failed=1 ;;
    esac
done
[ "$option" != --install ] || exit $((failed | undecided))
awk -F '\t' '
    { for (k = 1; k <= NF; k++) { cell[NR, k] = $k; if (length($k) > width[k]) width[k] = length($k) } }
    END {
        for (n = 1; n <= NR; n++) {
            line = ""
            for (k = 1; k < 4; k++) line = line sprintf("%-" width[k] + 2 "s", cell[n, k])
            print line cell[n, 4]
        }
    }' "$tmp/lines" | sed 's/ *$//' >"$tmp/table"
cat "$tmp/table"
[ $failed = 0 ] || exit 1
[ $undecided = 0 ] || exit 99
[ $ran = 1 ] || exit 77
if [ -n "$table" ]; then
    if [ -n "$missing" ]; then
        echo "machines.sh: no table is written without$missing" >&2
        exit 77
    fi
    mkdir -p "$(dirname "$table")"
    { echo "# sh tests/machines.sh --table"; cat "$tmp/table"; } >"$table"
fi
