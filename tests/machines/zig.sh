#!/bin/sh
# Compiles kquant for macOS and for Linux without glibc, with the C compiler that PyPI's ziglang is.
set -eu

usage()
{
    cat <<'END'
usage: zig.sh [--install | --no-install]

Fetches ziglang and a newer Meson from PyPI and the sources of cJSON from Debian, all of it below
build/machines/zig, and builds library, tool and samples there for macOS (aarch64, x86_64) and for
Linux with musl (x86_64). Warnings are errors, and libraries export nothing but kq_*. What is for this
processor is statically linked, and run: `kquant check` on the reference device.

zig has no headers of Android's C library; that of musl, no more glibc's, is what shows that nothing
here asks for glibc. Stdout has a line for each target, divided by tabs: machine, device, what was
done, fingerprint. Exit 0: all of it worked, 1: something failed, 77: can't be had here, 99: couldn't
tell. --install stops before the build, --no-install is for where nothing may be fetched; no network
is used where all is there.
END
}

say()
{
    echo "zig.sh: $*" >&2
}

# give_up CODE REASON...
give_up()
{
    code=$1
    shift
    say "$*"
    exit "$code"
}

option=${1-}
case $option in
'' | --install | --no-install) ;;
-h | --help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
project=$(dirname "$(dirname "$here")")
folder=$project/build/machines/zig
python=$folder/python
mkdir -p "$folder"
cd "$folder"  # where zig, asked for its linker, leaves a file

# --- What it needs

ziglang='ziglang==0.17.1'
meson='meson==1.12.1'
export PYTHONPATH="$python" ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"

install_python()
{
    [ "$(cat "$python/versions" 2>/dev/null)" != "$ziglang $meson" ] || return 0
    [ "$option" != --no-install ] || give_up 77 "not installed: $ziglang"
    rm -rf "$python"
    say "fetching $ziglang (100 MB) and $meson from PyPI"
    python3 -m pip install --quiet --no-deps --only-binary :all: --no-cache-dir --progress-bar off \
        --disable-pip-version-check --root-user-action ignore --target "$python" \
        "$ziglang" "$meson" >"$folder/pip.log" 2>&1 ||
        give_up 77 "pip could not fetch $ziglang: $(tail -1 "$folder/pip.log")"
    echo "$ziglang $meson" >"$python/versions"
}

# Debian's package of the library is for this machine, and its sources are one file. An apt of its own
# asks for them, whatever the system's is set to.
fetch_cjson()
{
    [ ! -f "$folder/cJSON/whole" ] || return 0
    [ "$option" != --no-install ] || give_up 77 "not fetched: the sources of cJSON"
    say "fetching cJSON's sources from Debian"
    rm -rf "$folder/apt" "$folder/cJSON"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/cJSON"
    : >"$folder/apt/status"
    cat >"$folder/apt/sources.list" <<END
deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
END
    cat >"$folder/apt/apt.conf" <<END
APT::Sandbox::User "";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
END
    (
        cd "$folder/apt"
        export APT_CONFIG="$folder/apt/apt.conf"
        apt-get -qq update && apt-get -qq source --download-only cjson
    ) >"$folder/apt.log" 2>&1 ||
        give_up 77 "apt-get could not fetch cJSON's sources: $(tail -1 "$folder/apt.log")"
    tar -xf "$folder"/apt/cjson_*.orig.tar.gz -C "$folder/cJSON" --strip-components 1
    touch "$folder/cJSON/whole"
    rm -rf "$folder/apt"
}

# quietly LOG COMMAND...: its output is shown only if it fails
quietly()
{
    log=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -40 "$log" >&2
        return 1
    fi
}

# --- A target

# The headers and the library that Debian has for this machine: headers are the same for all.
make_prefix()
{
    [ ! -f "$prefix/lib/pkgconfig/libcjson.pc" ] || return 0
    rm -rf "$prefix"
    mkdir -p "$prefix/include/cjson" "$prefix/lib/pkgconfig"
    cp -r /usr/include/vulkan /usr/include/vk_video /usr/include/volk.h /usr/include/volk.c \
        /usr/include/CL "$prefix/include/"
    cp "$folder/cJSON/cJSON.h" "$prefix/include/cjson/"
    zig cc -target "$target" -O2 -c "$folder/cJSON/cJSON.c" -o "$prefix/lib/cJSON.o" &&
        zig ar rcs "$prefix/lib/libcjson.a" "$prefix/lib/cJSON.o" &&
        cat >"$prefix/lib/pkgconfig/libcjson.pc" <<END
Name: libcjson
Description: JSON
Version: 1.7.15
Libs: -L$prefix/lib -lcjson
Cflags: -I$prefix/include -I$prefix/include/cjson
END
}

zig()
{
    python3 -m ziglang "$@" >"$folder/zig.log" 2>&1 || { cat "$folder/zig.log" >&2; return 1; }
}

# What leaves the shared library and is not kquant's.
foreign_exports()
{
    case $system in
    darwin) llvm-nm-14 --extern-only --defined-only "$1" | sed -n 's/.* [A-Z] _//p' ;;
    *) llvm-nm-14 --dynamic --defined-only "$1" | sed -n 's/.* [A-Z] //p' ;;
    esac >"$built/exports"
    grep -q '^kq_device_create$' "$built/exports" || echo "no kq_device_create"
    # The last two are zig's linker's.
    grep -v -e '^kq_' -e '^__dso_handle$' -e '^_mh_dylib_header$' "$built/exports" || :
}

# build NAME TARGET SYSTEM PROCESSOR: prints its line, or counts a failure
build()
{
    name=$1 target=$2 system=$3
    built=$folder/$target
    prefix=$folder/$target-prefix
    say "building for $name"
    make_prefix || { failed=1; return 0; }
    cat >"$folder/$target.ini" <<END
[constants]
target = '$target'
python = '$python'
prefix = '$prefix'
[host_machine]
system = '$system'
cpu_family = '$4'
cpu = '$4'
endian = 'little'
END
    if [ ! -f "$built/build.ninja" ]; then
        rm -rf "$built"
        quietly "$built.log" python3 -m mesonbuild.mesonmain setup "$built" "$project" --werror \
            --cross-file "$folder/$target.ini" --cross-file "$here/zig.ini" -Dtests=false \
            -Dvulkan=enabled -Dopencl=enabled -Dmpi=disabled -Dbuildtype=debugoptimized ||
            { failed=1; return 0; }
    fi
    quietly "$built.log" ninja -C "$built" || { failed=1; return 0; }
    foreign=$(foreign_exports "$(ls "$built"/src/libkquant.*.dylib "$built"/src/libkquant.so 2>/dev/null | head -1)")
    if [ -n "$foreign" ]; then
        say "$name exports $foreign"
        failed=1
    elif [ "$system:$4" = "linux:$(uname -m)" ]; then
        check
    else
        printf '%s (zig)\tcompile only\tlibrary, tool, samples\t-\n' "$name"
    fi
}

# Runs what was built, on the reference: a static program opens no loader, and says so.
check()
{
    said=$(sh "$project/tests/drivers.sh" run reference "$built/src/tool/kquant" check \
        --device=reference 2>"$folder/check.log") || { cat "$folder/check.log" >&2; failed=1; }
    printf '%s\n' "$said" | awk -v name="$name" '$1 == "reference" && NF == 6 {
        print name " (zig)\treference\t" $2 " of " $2 + $3 + $4 + $5 "\t" $6 }'
}

for tool in python3 ninja pkg-config llvm-nm-14 apt-get; do
    command -v "$tool" >/dev/null || give_up 77 "no $tool"
done
failed=0
install_python
fetch_cjson
[ "$option" != --install ] || exit 0
build 'macOS aarch64' aarch64-macos darwin aarch64
build 'macOS x86_64' x86_64-macos darwin x86_64
build 'Linux x86_64 musl' x86_64-linux-musl linux x86_64
exit $failed
