#!/bin/sh
# kquant on aarch64; usage: see qemu.sh.
exec sh "$(dirname "$0")/qemu.sh" aarch64 "$@"
