#!/bin/sh
# usage: draws_test.sh KQUANT [SEED]
#
# The oracle draws 2,000 cases of both operations, new ones each time; the reference must agree.
set -eu

kquant=$1
seed=${2:-$(date +%s)}
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "seed $seed"
python3 "$here/oracle.py" draw "$folder" --draws=2000 --seed="$seed"
"$kquant" check --device=reference --vectors="$folder"
