#!/bin/sh
# kquant on s390x; usage: see qemu.sh.
exec sh "$(dirname "$0")/qemu.sh" s390x "$@"
