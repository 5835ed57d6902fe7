#!/bin/sh
# usage: check_vectors.sh KQUANT FOLDER...
#
# `KQUANT check --vectors=FOLDER` on every device, for each folder. For a driver on which all of
# `kquant check` would take too long.
set -eu

kquant=$1
shift
for folder; do
    "$kquant" check --device=all --vectors="$folder"
done
