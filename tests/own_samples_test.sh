#!/bin/sh
# samples/own_*.c give the bits of the test vectors, from what is installed and nothing else.
# usage: own_samples_test.sh BUILD VECTORS EDGES PROGRAM [OPTION]
set -eu

if [ $# -lt 4 ]; then
    sed -n '3s/# //p' "$0" >&2
    exit 2
fi
build=$1
vectors=$2
edges=$3
program=$4
option=${5-}
samples=$(dirname "$0")/../samples
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

die()
{
    echo "own_samples_test: $*"
    exit 1
}

# symbols FILE: those of kquant
symbols()
{
    nm "$1" | grep -E ' kq_' || :
}

meson install -C "$build" --no-rebuild --quiet --destdir "$tmp"
share=$(dirname "$(find "$tmp" -name kernels.json)")
[ -n "$(symbols "$(find "$tmp" -name libkquant.a)")" ] || die "nm shows no symbols of the library"
[ -z "$(symbols "$program")" ] || die "has parts of kquant: $(symbols "$program")"
if ldd "$program" | grep kquant; then
    die "is linked to kquant"
fi
if grep -n 'include.*kquant/' "$samples"/own_*.c "$samples"/manifest.* "$samples"/vectors.* \
    "$samples"/vulkan_base.*; then
    die "includes kquant's headers"
fi

"$program" $option "$share" "$vectors" "$edges"

# A manifest that is wrong shows: half the workgroups for terms, a parameter in another's place.
cp -r "$share" "$tmp/wrong"
for change in 's/"of": \["G", "dots"\], "per": 64/"of": ["G", "dots"], "per": 128/' \
    's/"values_stride"/"value_stride "/'; do
    sed "$change" "$share/kernels.json" >"$tmp/wrong/kernels.json"
    ! cmp -s "$share/kernels.json" "$tmp/wrong/kernels.json" || die "nothing to change: $change"
    status=0
    "$program" "$tmp/wrong" "$vectors" >"$tmp/log" || status=$?
    [ $status -eq 1 ] || die "exit $status with a manifest that is wrong"
done
