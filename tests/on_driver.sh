#!/bin/sh
# usage: on_driver.sh NAME KQUANT COMMAND [ARG...]
#
# Runs COMMAND on one driver, having seen that it is the driver that was meant: its own strings, as
# `KQUANT devices` prints them, must hold the expected text. Exit 77 where the driver isn't installed,
# 1 where another one answered, else COMMAND's.
set -eu

here=$(dirname "$0")
name=$1
kquant=$2
shift 2
text=$(sh "$here/drivers.sh" expect "$name")
status=0
devices=$(sh "$here/drivers.sh" run "$name" "$kquant" devices) || status=$?
[ $status -ne 77 ] || exit 77
if [ $status -ne 0 ] || ! printf '%s\n' "$devices" | grep -qF "$text"; then
    printf 'on_driver.sh: %s should show "%s"; kquant devices shows\n%s\n' \
        "$name" "$text" "$devices" >&2
    exit 1
fi
exec sh "$here/drivers.sh" run "$name" "$@"
