#!/bin/sh
# Two builds of one commit give the same bytes: every module, source and table, the library and the command;
# wherever they are built, by whom, when, and with how many jobs.
# usage: reproducible_test.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
for tool in git meson ninja cmp; do
    if ! command -v "$tool" >/dev/null; then
        echo "reproducible_test: no $tool"
        exit 77
    fi
done
if [ ! -e "$root/.git" ] || ! git -C "$root" rev-parse HEAD >/dev/null; then
    echo "reproducible_test: $root is no git checkout, or not one that git reads"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
cd "$tmp"

die()
{
    echo "reproducible_test: $*"
    exit 1
}

# quietly COMMAND...: its output is shown only if it fails
quietly()
{
    if ! "$@" >"$tmp/log" 2>&1; then
        tail -30 "$tmp/log"
        die "failed: $*"
    fi
}

# build FOLDER JOBS PREFIX...: the clone in FOLDER, built by a command that begins with PREFIX
build()
{
    folder=$1
    jobs=$2
    shift 2
    # meson is asked for no tests: what they compile says nothing of the product.
    quietly "$@" meson setup "$folder/out" "$folder" -Dsamples=false -Dtests=false
    quietly "$@" ninja -C "$folder/out" -j "$jobs"
}

quietly git clone --quiet "$root" a
build "$tmp/a" 1 env TZ=UTC LC_ALL=C
far=$tmp/'another folder, the name of which is longer'
mkdir "$far"
umask 077
quietly git clone --quiet "$root" "$far/b"
find "$far/b" -name .git -prune -o -type f -exec touch -d 2001-02-03T04:05:06 {} +
other=env
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$tmp"
    chown -R 65534:65534 "$far"
    other="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$tmp/nowhere"
fi
build "$far/b" 2 $other TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=1 PYTHONHASHSEED=7
umask 022

count=0
different=0
cd "$tmp/a/out"
for file in $(find . -type f \( -name '*.spv' -o -name '*.cl' -o -name kernel_table.c -o -name kernels.json -o -name kquant.c \
    -o -name toolchain.json -o -name 'vectors_*.c' -o -name report_page.c -o -name commit.h \
    -o -name 'lib*.a' -o -name 'lib*.so.*.*.*' -o -name kquant \) | sort); do
    case $file in */meson-private/* | *.p/*) continue ;; esac
    count=$((count + 1))
    if ! cmp "$file" "$far/b/out/$file"; then
        different=$((different + 1))
    fi
done
for wanted in src/kernels.json src/kernel_table.c kquant.c src/libkquant.a src/tool/kquant; do
    [ -f "$wanted" ] || die "$wanted was not built"
done
[ "$count" -ge 40 ] || die "compared only $count files"
[ "$different" -eq 0 ] || die "$different of $count files differ"
echo "reproducible_test: $count files are the same"
