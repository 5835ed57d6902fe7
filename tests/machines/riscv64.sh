#!/bin/sh
# kquant on riscv64; usage: see qemu.sh.
exec sh "$(dirname "$0")/qemu.sh" riscv64 "$@"
