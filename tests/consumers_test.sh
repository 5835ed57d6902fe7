#!/bin/sh
# Programs outside the tree build against an installed kquant, its source and its amalgamation, each in
# the way its users would, run, and give the same bits.
# usage: consumers_test.sh BUILD
#
# A second copy of kquant in a plugin also runs on lavapipe, where that is installed.
set -eu

if [ $# -ne 1 ]; then
    sed -n '4s/# //p' "$0" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
tests=$(cd "$(dirname "$0")" && pwd)
here=$tests/consumers
for tool in meson ninja cmake pkg-config c++; do
    if ! command -v "$tool" >/dev/null; then
        echo "consumers_test: no $tool"
        exit 77
    fi
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
cc=${CC:-cc}
warnings='-Wall -Wextra -pedantic -Werror'
c="$cc -std=c11 $warnings"

die()
{
    echo "consumers_test: $*"
    exit 1
}

# quietly COMMAND...: its output is shown only if it fails
quietly()
{
    if ! "$@" >log 2>&1; then
        cat log
        die "failed: $*"
    fi
}

bits=
ways=0
# gives WAY COMMAND...: the command prints the same bits as all before it
gives()
{
    way=$1
    shift
    got=$("$@") || die "$way: exit $?"
    [ -n "$bits" ] || bits=$got
    [ "$got" = "$bits" ] || die "$way: $got, where others gave $bits"
    ways=$((ways + 1))
    echo "$got $way"
}

# --- Installed

quietly meson install -C "$build" --no-rebuild --destdir "$tmp/installed"
pc=$(find "$tmp/installed" -name kquant.pc)
[ -n "$pc" ] || die "no kquant.pc is installed"
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$tmp/installed
# Else a prefix /usr would be left out of flags as the system's.
PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_ALLOW_SYSTEM_CFLAGS
export PKG_CONFIG_ALLOW_SYSTEM_LIBS
cflags=$(pkg-config --cflags kquant)
include=$(dirname "$(dirname "$(find "$tmp/installed" -name kquant.h)")")
libdir=$(dirname "$(find "$tmp/installed" -name libkquant.a)")

shared=$(pkg-config --libs kquant)
quietly $c $cflags "$here/program.c" $shared -o shared
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH
gives 'cc, shared' ./shared
ldd shared | grep -q "=> $libdir/libkquant" || die "the program is not linked with $libdir/libkquant.so"

# With the shared library out of the way -lkquant is the archive.
mkdir archives
cp "$libdir"/libkquant*.a archives
static=$(pkg-config --static --libs kquant | sed "s,-L$libdir,-L$tmp/archives,g")
quietly $c $cflags "$here/program.c" $static -o static
gives 'cc, static' env -u LD_LIBRARY_PATH ./static
if ldd static | grep libkquant; then
    die "the program was to be linked statically"
fi
quietly c++ -x c++ -std=c++17 $warnings $cflags "$here/program.c" -x none $shared -o shared_cxx
gives 'c++, shared' ./shared_cxx

quietly cmake -G Ninja -S "$here" -B cmake -DCMAKE_BUILD_TYPE=Release
quietly cmake --build cmake
gives 'CMake, pkg-config' cmake/program

quietly meson setup meson "$here" --wrap-mode=nofallback
quietly meson compile -C meson
gives 'Meson, pkg-config' meson/program

# --- As a part of the program's own build

mkdir -p parent/subprojects
cp "$here"/* parent
ln -s "$(dirname "$tests")" parent/subprojects/kquant
quietly meson setup parent/build parent --force-fallback-for=kquant
quietly meson compile -C parent/build
gives 'Meson, subproject' env -u LD_LIBRARY_PATH parent/build/program
[ ! -e parent/build/subprojects/kquant/src/tool/kquant ] || die "a subproject builds the tool"

# One file, with each set of backends; strictly, for files that were made to stand alone may clash.
amalgamated="$build/kquant.c"
backends='none'
[ ! -f "$include/kquant/vulkan.h" ] || backends="$backends -DKQ_HAS_VULKAN"
[ ! -f "$include/kquant/opencl.h" ] || backends="$backends -DKQ_HAS_OPENCL"
case $backends in
*VULKAN*OPENCL*) backends="$backends -DKQ_HAS_VULKAN,-DKQ_HAS_OPENCL" ;;
esac
for set in $backends; do
    macros=$(echo "$set" | sed 's/none//; s/,/ /')
    quietly $c -c -I"$include" $macros "$amalgamated"
    quietly $c -I"$include" "$here/program.c" kquant.o -ldl -o one
    gives "one file, $set" env -u LD_LIBRARY_PATH ./one
done
quietly c++ -x c++ -std=c++17 $warnings -I"$include" "$here/program.c" -x none kquant.o -ldl -o one_cxx
gives 'one file, in C++' env -u LD_LIBRARY_PATH ./one_cxx

# --- Beside others

# An engine with volk of its own; it links the whole archive, so that any clash shows.
if [ -f "$include/kquant/vulkan.h" ]; then
    whole="-Wl,--whole-archive archives/libkquant.a -Wl,--no-whole-archive"
    quietly $c $cflags "$here/engine.c" $whole -ldl -o engine
    count=$(./engine) || die "the engine fails"
    # All of kquant, in one file that leaves volk to the engine.
    macros=$(echo "$set" | sed 's/,/ /')
    quietly $c -c -I"$include" $macros -DKQ_VOLK_ELSEWHERE "$amalgamated" -o elsewhere.o
    quietly $c -I"$include" "$here/engine.c" elsewhere.o -ldl -o engine_one
    [ "$(./engine_one)" = "$count" ] || die "the engine sees other kernels in one file"
    echo "$count kernels beside the engine's volk"
fi

# A copy in the program, linked either way, and one in a plugin that it opens.
quietly $c $cflags -fPIC -shared "$here/plugin.c" $static -Wl,--exclude-libs,ALL -o plugin.so
quietly $c $cflags "$here/host.c" $static -ldl -o host_static
quietly $c $cflags "$here/host.c" $shared -ldl -o host_shared
for host in host_static host_shared; do
    gives "$host, plugin" "./$host" ./plugin.so
done
if [ -f "$include/kquant/vulkan.h" ] && sh "$tests/drivers.sh" run lavapipe true 2>/dev/null; then
    for host in host_static host_shared; do
        gives "$host, plugin, lavapipe" sh "$tests/drivers.sh" run lavapipe "./$host" ./plugin.so vulkan:0
    done
fi

echo "consumers_test: $ways ways, all give $bits"
