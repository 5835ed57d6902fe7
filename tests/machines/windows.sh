#!/bin/sh
# kquant on Windows x86_64: cross-built with gcc-mingw-w64-x86-64, run by Wine on the reference, and on
# lavapipe and PoCL through Wine's vulkan-1.dll and opencl.dll.
#
# usage: windows.sh [--install | --no-install] [--full] [NATIVE_KQUANT]
#
# Installs what is missing; --install stops before the build, --no-install is for where nothing may be
# fetched. --full: check --level=full, and tests/verdict_test.sh. With the kquant of this system what
# both print is compared. On stdout at the end one line a device: machine, driver, cases passed, fingerprint,
# divided by tabs; all else is on stderr. Exit 0: all passed. 1: something failed. 77: it can't be
# installed. 99: it can't be told.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tests=$(dirname "$here")
root=$(dirname "$tests")
out=$root/build/machines/windows
cache=${XDG_CACHE_HOME:-${HOME-}/.cache}/kquant/windows
level=quick
option=
case ${1-} in
--install | --no-install)
    option=$1
    shift
    ;;
esac
if [ "${1-}" = --full ]; then
    level=full
    shift
fi
native=${1-}
[ -z "$native" ] || native=$(realpath "$native")
machine='windows x86_64 (wine)'
target=x86_64-w64-mingw32
tab=$(printf '\t')
failures=0

exec 3>&1 1>&2

say()
{
    echo "windows.sh: $*"
}

# stop CODE TEXT
stop()
{
    say "$2"
    exit "$1"
}

fail()
{
    say "FAIL: $*"
    failures=$((failures + 1))
}

# quietly CODE WHAT COMMAND...: its output is shown if it fails, and the script ends with CODE
quietly()
{
    code=$1
    what=$2
    shift 2
    if ! "$@" >"$out/log" 2>&1; then
        tail -30 "$out/log"
        stop "$code" "$what failed: $*"
    fi
}

[ "$(uname -m)" = x86_64 ] || stop 77 "needs an x86_64 processor"
mkdir -p "$out/wine" "$cache"
exec 9>"$out/lock"
flock 9

# --- What it needs

missing=
for package in $(sed -n '/# machine .*windows/s/ .*//p' "$tests/packages.txt"); do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
if [ -n "$missing" ]; then
    [ "$option" != --no-install ] || stop 77 "not installed:$missing"
    command -v apt-get >/dev/null || stop 77 "no apt-get here to install$missing"
    sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    say "installing$missing"
    $sudo apt-get update -qq >"$out/log" 2>&1 9>&- || :
    quietly 77 apt-get $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 \
        install -y --no-install-recommends $missing 9>&-
fi

# The libraries of the command and of the tests, which Debian has for itself alone: their sources, by
# apt-get, which sees that they are Debian's.
if [ ! -f "$cache/whole" ]; then
    [ "$option" != --no-install ] || stop 77 "not fetched: the sources of cJSON and cmocka"
    say "fetching the sources of cJSON and cmocka into $cache"
    rm -rf "$cache"
    mkdir -p "$cache/lists/partial" "$cache/archives/partial"
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Identifier: Packages' | sort -u | grep ' main$' >"$cache/sources.list"
    options="-o Dir::Etc::SourceList=$cache/sources.list -o Dir::Etc::SourceParts=/dev/null"
    options="$options -o Dir::State::Lists=$cache/lists -o Dir::Cache=$cache -o APT::Sandbox::User=root"
    quietly 77 'the list of source packages' apt-get $options update
    cd "$cache"
    quietly 77 'the source of cJSON and cmocka' apt-get $options source --download-only cjson cmocka
    for archive in *.orig.tar.*z; do
        tar -xf "$archive"
    done
    rm -rf lists archives
    touch whole
fi

[ "$option" != --install ] || exit 0

sysroot=$out/sysroot
if [ ! -f "$sysroot/whole" ]; then
    rm -rf "$sysroot"
    mkdir -p "$sysroot/include/cjson" "$sysroot/lib/pkgconfig"
    for header in volk.h volk.c vulkan vk_video CL; do
        ln -s "/usr/include/$header" "$sysroot/include"
    done
    for library in cjson cmocka; do
        source=$(find "$cache" -name cJSON.c -o -name cmocka.c | grep -i "$library")
        include=$(dirname "$source")
        [ $library = cjson ] || include=$(dirname "$include")/include
        quietly 99 "the compiler for Windows" $target-gcc -O2 -DCJSON_HIDE_SYMBOLS -I"$include" \
            -c "$source" -o "$sysroot/lib/$library.o"
        quietly 99 ar $target-ar rcs "$sysroot/lib/lib$library.a" "$sysroot/lib/$library.o"
        name=$library
        [ $library = cmocka ] || name=libcjson
        cat >"$sysroot/lib/pkgconfig/$name.pc" <<END
Name: $name
Description: built from Debian's source
Version: $(basename "$(dirname "$include")" | sed 's/.*-//; s/^[^0-9].*/0/')
Cflags: -DCJSON_HIDE_SYMBOLS
Libs: -L$sysroot/lib -l$library
END
        cp "$include"/[!C]*.h "$sysroot/include" 2>/dev/null || :
        cp "$include"/cJSON.h "$sysroot/include/cjson" 2>/dev/null || :
    done
    touch "$sysroot/whole"
fi

# --- Build

build=$out/build
export PKG_CONFIG_LIBDIR="$sysroot/lib/pkgconfig"  # where ninja configures it again, too
if [ ! -f "$build/build.ninja" ]; then
    rm -rf "$build"
    quietly 1 'meson setup' meson setup "$build" "$root" \
        --werror --cross-file "$here/windows.ini" -Dc_args="-isystem $sysroot/include" -Dmpi=disabled
fi
quietly 1 'the build for Windows' ninja -C "$build"

# --- The library

dll=$(find "$build/src" -name 'libkquant*.dll')
header_functions=$(sed -e 's,//.*,,' -e '/^ *#/d' "$root"/include/kquant/*.h | tr '\n' ' ' | tr ';' '\n' |
    grep 'KQ_API ' | grep -oE '\bkq_[a-z0-9_]+ ?\(' | tr -d ' (' | sort)
exported()
{
    $target-objdump -p "$1" |
        awk '/Ordinal\/Name Pointer/ { on = 1; next } on && !/\[/ { exit } on { print $NF }' | sort
}
exported "$dll" >"$out/exported"
echo "$header_functions" | diff - "$out/exported" ||
    fail "the DLL exports other names than the headers declare, as above"
if [ -n "$(exported "$build/src/tool/kquant.exe")" ]; then
    fail "a program that links the archives exports $(exported "$build/src/tool/kquant.exe" | head -3)"
fi
for file in "$dll" "$build/src/tool/kquant.exe"; do
    imports=$($target-objdump -p "$file" | sed -n 's/.*DLL Name: //p' | sort | xargs)
    case $(basename "$file"):$imports in
    libkquant*:'KERNEL32.dll msvcrt.dll' | kquant.exe:'KERNEL32.dll SHELL32.dll msvcrt.dll') ;;
    *) fail "$file imports from $imports" ;;
    esac
done
# Of the archives: ISO C, what the compiler brings, and two functions of Windows in one file.
iso='malloc|calloc|realloc|free|mem(cpy|set|cmp|move|chr)'
iso="$iso|str(len|cmp|ncmp|str|chr|rchr|spn|cspn)|__mingw_vs(n?printf|scanf)|__mingw_sscanf"
helpers='___chkstk_ms|\.refptr\..*'
for archive in "$build/src/libkquant.a" "$build/src/libkquant-device.a"; do
    if ! undefined=$($target-nm -A -u "$archive") || [ -z "$undefined" ]; then
        fail "nm shows nothing of $archive"
    fi
    if found=$(echo "$undefined" | sed 's/.*:\([^:]*\):[ 0-9a-f]*[Uw] \(.*\)/\1 \2/' |
        grep -vE " ($iso|$helpers|kq_.*)\$" |
        grep -vE '^loader\..* __imp_(LoadLibraryExA|GetProcAddress)$'); then
        fail "$archive imports what it shouldn't: $found"
    fi
done

# --- Wine

export WINEPREFIX="$out/wine" WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' LC_ALL=C.UTF-8
display=$out/display
rm -f "$display"
Xvfb -displayfd 4 -screen 0 640x480x24 -nolisten tcp 4>"$display" >/dev/null 2>&1 9>&- 3>&- &
xvfb=$!
trap 'wineserver -k 9>&- || :; kill $xvfb 2>/dev/null || :' EXIT
trap 'exit 99' HUP INT TERM
for try in 1 2 3 4 5 6 7 8 9 10; do
    [ -s "$display" ] || sleep 1
done
[ -s "$display" ] || stop 99 "Xvfb doesn't start"
export DISPLAY=":$(cat "$display")"
# It stays until the end, so that not every command starts it again.
quietly 99 wineserver wineserver -p 9>&- 3>&-
quietly 99 wineboot wineboot -i 9>&- 3>&-
quietly 99 'the command by Wine' wine "$build/src/tool/kquant.exe" --version 9>&- 3>&-

# on DRIVER COMMAND...: a program for Windows
on()
{
    driver=$1
    shift
    sh "$tests/drivers.sh" run "$driver" wine "$@" 9>&- 3>&-
}

# passes DRIVER COMMAND...
passes()
{
    driver=$1
    shift
    if on "$driver" "$@" >"$out/log" 2>&1; then
        say "$driver: $(basename "$1") passes"
    else
        tail -30 "$out/log"
        fail "$driver: $*"
    fi
}

# --- Consumers: the DLL by its import library, the archives, one file; from C and C++

mkdir -p "$out/consumers"
cd "$out/consumers"
cp "$dll" .
include="-I$root/include -isystem $sysroot/include"
program="$tests/consumers/program.c"
warnings='-Wall -Wextra -pedantic -Werror'
archives="$build/src/libkquant-device.a $build/src/libkquant.a"
backends='-DKQ_HAS_VULKAN -DKQ_HAS_OPENCL'
quietly 1 'a consumer in C' $target-gcc -std=c11 $warnings $include "$program" "$build/src/libkquant.dll.a" -o shared.exe
quietly 1 'a consumer in C++' $target-g++ -x c++ -std=c++17 $warnings $include "$program" -x none \
    "$build/src/libkquant.dll.a" -static -o shared_cxx.exe
quietly 1 'a consumer of the archives' $target-gcc -std=c11 $warnings $include "$program" $archives -o static.exe
quietly 1 'a consumer of one file' $target-gcc -std=c11 $warnings $include $backends "$program" "$build/kquant.c" \
    -o one.exe
bits=
for way in shared shared_cxx static one; do
    got=$(on reference "$way.exe" | tr -d '\r') || got="exit $?"
    [ -n "$bits" ] || bits=$got
    case $got in
    [0-9a-f]*[0-9a-f]) [ "$got" = "$bits" ] || fail "the consumer $way gives $got, others $bits" ;;
    *) fail "the consumer $way gives $got" ;;
    esac
done
say "four consumers give $bits"

# --- Tests, and the vectors on each device

passes reference "$build/tests/api_test.exe"
passes reference "$build/tests/device_test.exe"
passes reference "$build/tests/answers_test.exe"
passes reference "$build/tests/rules_test.exe" "$root/include/kquant/CONTRACT.md"
lines=
fingerprint=
for pair in reference:reference lavapipe:vulkan:0 pocl:opencl:0; do
    driver=${pair%%:*}
    device=${pair#*:}
    code=0
    on "$driver" "$build/src/tool/kquant.exe" check --device="$device" --level=$level \
        --json="$out/$driver.json" >"$out/$driver.txt" 2>"$out/log" || code=$?
    if [ $code -eq 77 ]; then
        say "$driver: not run: $(tail -1 "$out/log")"
        continue
    fi
    line=$(awk -v device="$device" -v OFS='\t' -v machine="$machine" -v driver="$driver" '
        $1 == device && NF == 6 && !seen++ { print machine, driver, $2 " of " $2 + $3 + $4 + $5, $6 }' \
        "$out/$driver.txt")
    if [ $code -ne 0 ] || [ -z "$line" ]; then
        tail -20 "$out/$driver.txt" "$out/log"
        fail "$driver: check exits with $code"
    fi
    [ -z "$line" ] || lines="$lines$line
"
    got=${line##*"$tab"}
    [ -n "$fingerprint" ] || fingerprint=$got
    [ "$got" = "$fingerprint" ] || fail "$driver: the fingerprint is $got, not $fingerprint"
    [ "$driver" = reference ] || passes "$driver" "$build/tests/api_test.exe" "$device"
    [ "$driver" = reference ] || passes "$driver" "$build/tests/device_test.exe"
done
for sample in shared_records gemm int4_int2; do
    passes lavapipe "$build/samples/$sample.exe" --device=vulkan:0
done
passes lavapipe "$build/samples/fused.exe"
passes lavapipe "$build/samples/engine_vulkan.exe" --frames=5

# --- The command

# run NAME COMMAND...: a test on this system of the command on the other
run()
{
    name=$1
    shift
    if "$@" >"$out/log" 2>&1 9>&- 3>&-; then
        say "$(tail -1 "$out/log")"
    else
        cat "$out/log"
        fail "$name"
    fi
}

kquant=$out/kquant
printf '#!/bin/sh\nexec wine "%s" "$@"\n' "$build/src/tool/kquant.exe" >"$kquant"
chmod +x "$kquant"
run windows_test sh "$tests/drivers.sh" run lavapipe python3 "$here/windows_test.py" \
    "$build/src/tool/kquant.exe" ${native:+"$native"}
run tool_test sh "$tests/drivers.sh" run reference sh "$tests/tool_test.sh" --no-links "$kquant"
run verify_test sh "$tests/verify_test.sh" "$kquant" python3 "$root/samples/multiply.py"
if [ $level = full ]; then
    run verdict_test sh "$tests/drivers.sh" run reference sh "$tests/verdict_test.sh" "$kquant"
fi

printf '%s' "$lines" >&3
if [ $failures -ne 0 ]; then
    stop 1 "$failures failures"
fi
