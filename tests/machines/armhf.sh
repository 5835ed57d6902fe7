#!/bin/sh
# kquant on armhf; usage: see qemu.sh.
exec sh "$(dirname "$0")/qemu.sh" armhf "$@"
