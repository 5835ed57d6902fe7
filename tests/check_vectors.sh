#!/bin/sh
# usage: check_vectors.sh KQUANT FOLDER...
#
# `KQUANT check --vectors=FOLDER` on every device, for each folder. For an interpreter, on which all of
# `kquant check` would take hours: bulk lines of more than 128 records are left out, and said so.
set -eu

kquant=$1
shift
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for folder; do
    cp "$folder/quantize.tsv" "$folder/dot.tsv" "$copy"
    awk -F '\t' '/^#/ || $2 <= 128' "$folder/bulk.tsv" >"$copy/bulk.tsv"
    awk -F '\t' '!/^#/ && $2 > 128 { print "left out: bulk line of " $2 " records" }' \
        "$folder/bulk.tsv"
    "$kquant" check --device=all --vectors="$copy"
done
