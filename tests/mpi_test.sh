#!/bin/sh
# mpi_dot gives the bits of `kquant dot --order=pairwise` on the reference, on any number of ranks.
#
# usage: mpi_test.sh MPI_DOT KQUANT [DEVICE,...]
#
# Without devices: the reference, and the whole test. With: a few dots on them. Exit 77: no mpirun.
set -u

[ $# -ge 2 ] || { sed -n '4s/# //p' "$0" >&2; exit 99; }
mpi_dot=$(realpath "$1")
kquant=$(realpath "$2")
devices=${3:-}
[ -x "$mpi_dot" ] && [ -x "$kquant" ] || exit 99
if ! command -v mpirun >/dev/null; then
    echo "mpi_test: no mpirun"
    exit 77
fi
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
cd "$work" || exit 99

# Only Open MPI minds having more ranks than cores, and being run by root. Ranks that wait let others
# run; and no rank reads another's memory, which containers forbid.
flags=
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    flags=--oversubscribe
    [ "$(id -u)" -ne 0 ] || flags="$flags --allow-run-as-root"
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
fi
checks=0
failures=0

fail()
{
    failures=$((failures + 1))
    echo "FAIL: $*"
    sed 's/^/    stdout: /' out | head -n 8
    sed 's/^/    stderr: /' err | head -n 8
}

# run CODE RANKS ARG...
run()
{
    expected=$1
    ranks=$2
    shift 2
    command="$ranks ranks, mpi_dot $*"
    checks=$((checks + 1))
    mpirun $flags -n "$ranks" "$mpi_dot" "$@" >out 2>err </dev/null
    code=$?
    [ $code -eq "$expected" ] || fail "$command: exit $code, not $expected"
}

# says FILE TEXT: out or err has it once, whatever the number of ranks
says()
{
    checks=$((checks + 1))
    [ "$(grep -cF -e "$2" "$1")" -eq 1 ] || fail "$command: \"$2\" is not once on std$1"
}

# gives LINE: what the last line is
gives()
{
    checks=$((checks + 1))
    [ "$(tail -n 1 out)" = "$1" ] || fail "$command: the last line is not \"$1\""
}

# bits_are HEX: what the last line ends with
bits_are()
{
    checks=$((checks + 1))
    [ "$(tail -n 1 out | cut -f 2)" = "$1" ] || fail "$command: the bits are not $1"
}

# records KIND G: the first G pairs of records of a kind, in w and x
records()
{
    head -c $((144 * $2)) "$1.w" >w
    head -c $((292 * $2)) "$1.x" >x
}

# compare RANKS: the files w and x
compare()
{
    wanted=$("$kquant" dot --device=reference --order=pairwise w x) || fail "kquant dot: exit $?"
    run 0 "$1" "--device=${devices:-reference}" w x
    gives "$wanted"
}

# Pairs of records whose terms are of very different size, and what makes sums special.
python3 - <<'PYTHON' || exit 99
import random
import struct

COUNT = 4099


def write(kind, d=None, ds=None, q=None):
    """d, ds: values by the number of the record; q: all bytes of both after the scales."""
    draw = random.Random(1)
    with open(kind + '.w', 'wb') as w, open(kind + '.x', 'wb') as x:
        for g in range(COUNT):
            scale = (d or {}).get(g, draw.uniform(-2, 2))
            w.write(struct.pack('<ee', scale, 0 if q else draw.uniform(-2, 2)))
            w.write(draw.randbytes(140) if q is None else q * 140)
            size = (ds or {}).get(g, struct.pack('<f', draw.uniform(1, 2) * 2.0 ** draw.randint(-9, 9)))
            x.write(size)
            x.write(draw.randbytes(288) if q is None else q * 288)


infinity = float('inf')
every = range(COUNT)
write('wide')
write('subnormal', ds={g: struct.pack('<I', (g % 3 == 0) << 31 | g % 2) for g in every})
write('zeros', d={g: -1.0 for g in every}, q=b'\0')
write('infinite', d={700: infinity})
write('opposite', d={20: infinity, 900: -infinity}, q=b'\1')
write('nan', ds={300: struct.pack('<I', 0xFFA00001)})
PYTHON

if [ -n "$devices" ]; then
    for G in 3 1000 4099; do
        records wide $G
        compare 3
    done
else
    for G in 0 1 2 3 127 128 129 1000 4099; do
        records wide $G
        for ranks in 1 2 3 4; do
            compare $ranks
        done
        [ $G -gt 3 ] || compare 5 # more ranks than chunks
    done
    records wide 1000
    checks=$((checks + 1))
    [ "$("$kquant" dot --device=reference w x)" != "$wanted" ] || fail "the order makes no difference"

    for kind in subnormal zeros infinite opposite nan; do
        records $kind 1000
        for ranks in 1 3; do
            compare $ranks
            case $kind in
            zeros) bits_are 80000000 ;;
            infinite) checks=$((checks + 1)); grep -qE '[7f]f800000$' out || fail "$command: not infinite" ;;
            opposite | nan) bits_are 7fc00000 ;;
            esac
        done
    done

    # Records that are drawn, each rank its own; the device is the one there is.
    run 0 1 --seed=7 --records=777
    line=$(tail -n 1 out)
    says out 'rank 0: reference'
    run 0 3 --seed=7 --records=777 --device=reference,reference
    gives "$line"
    says out 'G 777, ranks 3, '
    says out 'rank 2: reference'
    run 0 1 --seed=8 --records=777
    checks=$((checks + 1))
    [ "$(tail -n 1 out)" != "$line" ] || fail "the seed makes no difference"

    run 0 2 --help
    says out '  mpirun -n 2 mpi_dot '
    run 2 2 --frobnicate
    says err '--frobnicate: no such option'
    says err 'usage: mpi_dot '
    run 2 1 --records=-1
    says err 'needs a whole number'
    run 2 1 w
    says err 'needs two files'
    head -c 1000 wide.w >bad
    run 1 2 bad x
    says err 'bad: 1000 bytes are no whole number of records of 144 bytes'
    head -c 1440 wide.w >w
    run 1 2 w x
    says err 'G is unequal: w has 10 records, x has 1000'
    run 1 2 absent x
    says err 'absent: is no file'
    run 1 2 --records=100 --device=reference,no-such-device
    says err 'rank 1: KQ_ERROR_NO_DEVICE'
fi
echo "mpi_test: $checks checks, $failures failed"
[ $failures -eq 0 ]
