#!/bin/sh
# Installs what is missing, builds kquant with gcc and with clang, and runs every test on every driver.
#
# usage: sh tests/run.sh
#
# The last line says `N passed, N failed, N skipped`. Exit 0: none failed. The table before it shows
# each driver; one that can't be installed is a failure where CI=true, unless the package registry
# itself was out of reach. Needs Debian 12 or its like, and root or sudo where packages are missing.
# Nothing is fetched where all is there.
set -eu

cd "$(dirname "$0")/.."
out=build/run
mkdir -p "$out"
failed=0

say()
{
    printf '\n== %s\n' "$*"
}

# --- Packages

say "packages"
wanted=$(sed -e '/# machine /d' -e 's/#.*//' tests/packages.txt | xargs)
missing=
for package in $wanted; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "run.sh: needs apt-get to install$missing; install their like and run it again" >&2
        exit 1
    fi
    sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "installing$missing"
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
        >"$out/apt.log" 2>&1 || { tail -20 "$out/apt.log" >&2; exit 1; }
fi
sh tests/drivers.sh install
sh tests/machines.sh --install

# --- Builds and tests

# configure FOLDER OPTION...: a build folder, made anew only where its options have changed
configure()
{
    folder=$1
    shift
    if [ "$(cat "$folder/options.txt" 2>/dev/null)" != "$CC $*" ]; then
        rm -rf "$folder"
        meson setup "$folder" --werror "$@" >"$folder.log" 2>&1 ||
            { cat "$folder.log" >&2; exit 1; }
        echo "$CC $*" >"$folder/options.txt"
    fi
}

# build_and_test NAME CC 'OPTION...' 'TEST ARGUMENT...'
build_and_test()
{
    say "$1"
    CC=$2
    export CC
    configure "$out/$1" $3
    if ! ninja -C "$out/$1" >"$out/$1.ninja.log" 2>&1; then
        cat "$out/$1.ninja.log" >&2
        echo "run.sh: the build $1 failed" >&2
        exit 1
    fi
    meson test -C "$out/$1" --no-rebuild --print-errorlogs $4 || failed=1
}

# All tests once; then what depends on the compiler or on the options, without the drivers.
build_and_test gcc gcc '' ''
build_and_test clang clang-14 '' '--suite host'
build_and_test no-vulkan gcc '-Dvulkan=disabled' '--suite host'
build_and_test no-opencl gcc '-Dopencl=disabled' '--suite host'
build_and_test reference gcc '-Dvulkan=disabled -Dopencl=disabled' '--suite host'
# Host tests, and those of lavapipe and PoCL that tests/sanitize/meson.build names. Leaks count, but
# for those of a driver that lsan.supp names.
LSAN_OPTIONS="suppressions='$PWD/tests/sanitize/lsan.supp':print_suppressions=0"
export LSAN_OPTIONS
build_and_test sanitize gcc '-Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized' \
    '--suite host --suite sanitize'
build_and_test threads gcc '-Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized' \
    '--suite sanitize'

# --- The account

say "drivers"
python3 tests/account.py "$out/gcc" "$out/clang" "$out/no-vulkan" "$out/no-opencl" "$out/reference" \
    "$out/sanitize" "$out/threads" || failed=1
exit $failed
