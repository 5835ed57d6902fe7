#!/bin/sh
# The drivers that kquant is tested on: install them, run a command on exactly one of them.
set -eu

usage()
{
    cat <<'END'
usage: drivers.sh list                         the drivers' names, one per line
       drivers.sh install                      install what is missing
       drivers.sh run NAME COMMAND [ARG...]    run COMMAND with NAME as the only driver
       drivers.sh expect NAME                  text that NAME's own device strings hold

install takes Debian packages from apt (as root; those that packages.txt marks `driver`) and
Intel's OpenCL runtime from PyPI (intel-opencl.txt) into ${XDG_CACHE_HOME:-~/.cache}/kquant.
It uses no network where all is there. Exit 0 also where a registry can't be reached: it says
so, and `run` then gives that reason. Exit 1: anything else went wrong.

run exits as COMMAND does, or 77 where the driver isn't installed, with the reason in one line
on stderr; a reason that no change here can cure begins `package registry unreachable`.
`reference` needs no driver: neither loader finds a device. Explicit Vulkan layers
(VK_INSTANCE_LAYERS, VK_LAYER_*) stay as the caller set them; implicit ones are off.
END
}

here=$(dirname "$0")
drivers='reference lavapipe swiftshader pocl rusticl oclgrind intel'
cache=${XDG_CACHE_HOME:-${HOME-}/.cache}/kquant
# A new pin is a new folder, so checkouts with different pins don't disturb each other.
intel=$cache/intel-opencl-$(cksum <"$here/intel-opencl.txt" | cut -d' ' -f1)

say()
{
    echo "drivers.sh: $*" >&2
}

die()
{
    say "$*"
    exit 1
}

# packages [NAME]: the Debian packages of one driver, or of all
packages()
{
    sed -n "/# driver [a-z ]*${1-}/s/ .*//p" "$here/packages.txt" | xargs
}

# missing_packages PACKAGE...: those not installed
missing_packages()
{
    have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || :)
    for package; do
        printf '%s\n' "$have" | grep -qxF "installed $package" || echo "$package"
    done
}

# unreachable LOG: was it the network or the registry that failed, by apt's or pip's own words?
unreachable()
{
    ! grep -q 'DO NOT MATCH THE HASHES' "$1" &&
        grep -qE -e 'Failed to fetch|Unable to fetch|Retrying \(|Could not fetch URL' \
            -e 'HTTP error 5|Read timed out|Connection (broken|aborted|reset|refused)' "$1"
}

# gave_up KIND WHAT LOG: remember for `run` why KIND (apt or intel) is missing
gave_up()
{
    if unreachable "$3"; then
        echo "package registry unreachable: $2" >"$cache/$1.reason"
        say "package registry unreachable: $2; going on without"
    else
        echo "$2" >"$cache/$1.reason"
        cat "$3" >&2
        die "$2"
    fi
}

install_packages()
{
    missing=$(missing_packages $(packages) | xargs)
    if [ -n "$missing" ]; then
        say "installing $missing"
        [ "$(id -u)" = 0 ] || die "needs root for: apt-get install $missing"
        export DEBIAN_FRONTEND=noninteractive LC_ALL=C
        apt='apt-get --no-install-recommends -o DPkg::Lock::Timeout=600'
        # A source that fails to update may be one that isn't needed; the install tells.
        # 9 is the lock, closed so that nothing a package starts holds on to it.
        $apt update >"$tmp/log" 2>&1 9>&- || :
        $apt --assume-no install $missing 2>/dev/null | grep -E '^(Need|After)' >&2 || :
        if ! $apt -y install $missing >>"$tmp/log" 2>&1 9>&-; then
            gave_up apt "apt-get could not install $missing" "$tmp/log"
            return
        fi
    fi
    rm -f "$cache/apt.reason"
}

# sizes FOLDER: enough to see that a file was lost or cut short; pip has checked the wheels
sizes()
{
    (cd "$1" && find . -type f -printf '%P %s\n' | sort)
}

intel_is_whole()
{
    [ -f "$intel/sizes" ] && [ "$(sizes "$intel/lib")" = "$(cat "$intel/sizes")" ]
}

# unpack_intel WHEEL...: their libraries into one folder, where these find each other
unpack_intel()
{
    # Its own libOpenCL must not pass for the system's; wheels hold copies where links would do.
    mkdir -p "$tmp/new/lib"
    for wheel; do
        unzip -q -j "$wheel" '*.data/data/lib/*' -x '*/libOpenCL.so*' '*/icx-lto.so' \
            '*/libcommon_clang.so' '*/libintelocl.so.*' '*/libtbb.so' '*/libtbb.so.12.*' \
            -d "$tmp/new/lib" || return
    done
    /usr/bin/python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' \
        "$tmp/new/lib/libintelocl.so"
}

install_intel()
{
    if intel_is_whole; then
        rm -f "$cache/intel.reason"
        return
    fi
    if [ "$(uname -m)" != x86_64 ]; then
        echo "Intel's runtime needs an x86-64 processor" >"$cache/intel.reason"
        say "no intel: $(cat "$cache/intel.reason")"
        return
    fi
    [ -z "$(missing_packages python3-pip unzip)" ] || return 0 # apt's reason covers it
    say "fetching Intel's OpenCL runtime," \
        "$(sed -n 's/^# size: //p' "$here/intel-opencl.txt"), into $intel"
    # Debian's python3 by path: another one, first in PATH, may have no pip.
    if ! /usr/bin/python3 -m pip download --require-hashes --no-deps --only-binary :all: \
        --no-cache-dir --progress-bar off --retries 2 --disable-pip-version-check \
        -r "$here/intel-opencl.txt" -d "$tmp/wheels" >"$tmp/log" 2>&1; then
        gave_up intel "pip could not fetch Intel's OpenCL runtime" "$tmp/log"
        return
    fi
    if ! unpack_intel "$tmp"/wheels/*.whl >"$tmp/log" 2>&1; then
        gave_up intel "Intel's OpenCL runtime could not be unpacked and loaded" "$tmp/log"
        return
    fi
    sizes "$tmp/new/lib" >"$tmp/new/sizes"
    rm -rf "$intel"
    mv "$tmp/new" "$intel"
    rm -f "$cache/intel.reason"
}

install()
{
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        die "no apt-get here; install what Debian 12 calls $(packages)"
    fi
    mkdir -p "$cache"
    # One install at a time; under the lock a temporary folder is one that was interrupted.
    exec 9>"$cache/lock"
    flock 9
    rm -rf "$cache"/tmp.*
    tmp=$(mktemp -d "$cache/tmp.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM
    install_packages
    install_intel
}

# need NAME FILE: stop with 77 where the file that makes the driver visible isn't there
need()
{
    [ ! -e "$2" ] || return 0
    reason="not installed: $(packages "$1")"
    [ "$1" != intel ] || reason="not installed; drivers.sh install fetches it"
    [ ! -f "$cache/apt.reason" ] || reason=$(cat "$cache/apt.reason")
    [ "$1" != intel ] || [ ! -f "$cache/intel.reason" ] || reason=$(cat "$cache/intel.reason")
    say "no $1: $reason"
    exit 77
}

run()
{
    name=$1
    shift
    # Files that hold no driver: the loaders then find none, and don't fall back.
    vulkan=/dev/null
    opencl=/dev/null
    unset VK_ADD_DRIVER_FILES VK_LOADER_DRIVERS_SELECT VK_LOADER_DRIVERS_DISABLE \
        VK_LOADER_DEVICE_SELECT OPENCL_VENDOR_PATH OCL_ICD_FILENAMES OCL_ICD_DEFAULT_PLATFORM \
        RUSTICL_ENABLE GALLIUM_DRIVER MESA_LOADER_DRIVER_OVERRIDE
    case $name in
    reference) ;;
    lavapipe) vulkan=/usr/share/vulkan/icd.d/lvp_icd.$(uname -m).json ;;
    swiftshader) vulkan=/usr/lib/chromium/vk_swiftshader_icd.json ;;
    pocl) opencl=/etc/OpenCL/vendors/pocl.icd ;;
    rusticl)
        opencl=/etc/OpenCL/vendors/rusticl.icd
        export RUSTICL_ENABLE=llvmpipe
        ;;
    # Debian's loader takes a library in place of an .icd file; these two have no such file.
    oclgrind) opencl=/usr/lib/oclgrind/liboclgrind-rt-icd.so ;;
    intel) opencl=$intel/lib/libintelocl.so ;;
    esac
    need "$name" "$vulkan"
    need "$name" "$opencl"
    export VK_DRIVER_FILES="$vulkan" VK_ICD_FILENAMES="$vulkan" OCL_ICD_VENDORS="$opencl"
    export VK_LOADER_LAYERS_DISABLE="${VK_LOADER_LAYERS_DISABLE:-~implicit~}"
    exec "$@"
}

expect()
{
    case $1 in
    reference) echo reference ;;
    lavapipe) echo llvmpipe ;;
    swiftshader) echo SwiftShader ;;
    pocl) echo 'Portable Computing Language' ;;
    rusticl) echo rusticl ;;
    oclgrind) echo Oclgrind ;;
    intel) echo 'Intel(R) OpenCL' ;; # "Intel" alone is also in PoCL's names on Intel processors
    esac
}

# known NAME: stop at a name that isn't a driver's
known()
{
    case " $drivers " in
    *" $1 "*) ;;
    *) die "no driver is called '$1'; there are: $drivers" ;;
    esac
}

case ${1-}:$# in
list:1) printf '%s\n' $drivers ;;
install:1) install ;;
run:1 | run:2)
    usage >&2
    exit 2
    ;;
run:*)
    shift
    known "$1"
    run "$@"
    ;;
expect:2)
    known "$2"
    expect "$2"
    ;;
-h:1 | --help:1) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
