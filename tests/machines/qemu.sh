#!/bin/sh
# Builds kquant for another processor and runs the tests' vectors on it, under qemu's user mode.
set -eu

usage()
{
    cat <<'END'
usage: qemu.sh MACHINE [--install | --no-install | --enter COMMAND [ARG...]]

MACHINE is aarch64, armhf, riscv64 or s390x. Installs what is missing, builds below
build/machines/MACHINE, runs unit tests and the command's own tests there, compares files that are
written there with the same written here, and runs `kquant check` on the reference, on aarch64 on
lavapipe and PoCL too. On stdout is one line for each device, divided by tabs: machine, device, cases
passed, beginning of the fingerprint.

--install stops before the build, --no-install is for where nothing may be fetched. --enter runs
COMMAND in the machine's root, which holds Debian's libraries and drivers for it, and this folder at
/kquant.

The host's packages are compilers and qemu (those that packages.txt marks `machine`), installed as
root or with sudo; everything foreign is unpacked below build/, and programs are started there in a user
namespace of their own, where the kernel starts the machine's programs with qemu: Linux 6.7 or later,
or one that has qemu's handlers registered. Nothing of the host's is changed, and no network is used
where all is there. Exit 0: all passed, 1: something failed, 77: can't be had here, 99: couldn't tell.
END
}

say()
{
    echo "qemu.sh: $*" >&2
}

# give_up CODE REASON...
give_up()
{
    code=$1
    shift
    say "$*"
    exit "$code"
}

case ${1-} in
aarch64) debian=arm64 qemu=aarch64 tuple=aarch64-linux-gnu ;;
armhf) debian=armhf qemu=arm tuple=arm-linux-gnueabihf ;;
riscv64) debian=riscv64 qemu=riscv64 tuple=riscv64-linux-gnu ;;
s390x) debian=s390x qemu=s390x tuple=s390x-linux-gnu ;;
-h | --help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
machine=$1
shift
tests=$(cd "$(dirname "$0")/.." && pwd)
project=$(dirname "$tests")
folder=$project/build/machines/$machine
root=$folder/root
built=$folder/build
mkdir -p "$folder"

# Meson's test says so; a person who starts this wants it installed.
may_install=yes
[ "${1-}" != --no-install ] || may_install=

# --- What it needs

# Foreign packages, with what they depend on: drivers and tools only where they are run.
foreign='libcjson-dev libcmocka-dev'
[ "$machine" != aarch64 ] ||
    foreign="$foreign mesa-vulkan-drivers libvulkan1 pocl-opencl-icd ocl-icd-libopencl1"

install_host()
{
    missing=
    for package in $(sed -n "/# machine [a-z0-9 ]*$machine/s/ .*//p" "$tests/packages.txt"); do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ -n "$may_install" ] || give_up 77 "not installed:$missing"
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    say "installing$missing"
    $sudo apt-get update -qq >"$folder/apt.log" 2>&1 || :
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends \
        --no-remove -o DPkg::Lock::Timeout=600 install $missing >>"$folder/apt.log" 2>&1 ||
        give_up 77 "apt-get could not install$missing: $(tail -1 "$folder/apt.log")"
}

# An apt of its own, for the foreign architecture, which knows of no package that is installed.
foreign_apt()
{
    APT_CONFIG=$folder/apt/apt.conf apt-get -q -y --no-install-recommends "$@" \
        >>"$folder/apt.log" 2>&1
}

install_foreign()
{
    [ "$(cat "$root/packages" 2>/dev/null)" != "$foreign" ] || return 0
    [ -n "$may_install" ] || give_up 77 "not unpacked: $foreign for $debian"
    say "unpacking $foreign for $debian below build/"
    rm -rf "$folder/apt" "$root"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
    : >"$folder/apt/status"
    cat >"$folder/apt/apt.conf" <<END
APT::Architecture "$debian";
APT::Architectures { "$debian"; };
APT::Sandbox::User "";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
END
    # Debian 12 has no riscv64; what is of 13 runs what 12's compiler makes.
    if [ "$machine" = riscv64 ]; then
        cat >"$folder/apt/sources.list" <<END
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main
END
        cat >>"$folder/apt/apt.conf" <<END
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
END
    fi
    # A source that fails to update may be one that isn't needed; the download tells.
    foreign_apt update || :
    foreign_apt --download-only install $foreign ||
        give_up 77 "apt-get could not fetch $foreign for $debian: $(tail -1 "$folder/apt.log")"
    mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib"
    ln -s usr/bin usr/sbin usr/lib "$root"
    for package in "$folder"/apt/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x --no-same-owner --keep-directory-symlink -C "$root"
    done
    mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/kquant"
    rm -rf "$folder/apt"
    echo "$foreign" >"$root/packages"
}

# --- How it is run

# with_handler COMMAND...: runs it where the kernel starts the machine's programs.
with_handler()
{
    unshare --user --map-root-user --mount sh -eu -c '
        qemu=$1
        shift
        handlers=/proc/sys/fs/binfmt_misc
        if mount -t binfmt_misc binfmt_misc $handlers 2>/dev/null; then
            cat /usr/lib/binfmt.d/qemu-$qemu.conf >$handlers/register
        elif ! [ -e $handlers/qemu-$qemu ]; then
            echo "qemu.sh: this kernel starts no foreign program" >&2
            exit 77
        fi
        exec "$@"' sh "$qemu" "$@"
}

# enter COMMAND...: in the machine's root, where drivers are, and this folder is /kquant.
enter()
{
    with_handler sh -eu -c '
        root=$1 project=$2
        shift 2
        for shared in proc sys dev; do
            mount --rbind /$shared "$root/$shared"
        done
        mount --bind "$project" "$root/kquant"
        exec chroot "$root" "$@"' sh "$root" "$project" "$@"
}

# beside COMMAND...: among the host's files, so that a test of the host's runs the machine's programs.
beside()
{
    QEMU_LD_PREFIX=$root with_handler "$@"
}

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || give_up 77 "no apt-get here"
install_host
install_foreign
case ${1-} in
--install) exit 0 ;;
--enter)
    shift
    enter "$@"
    exit
    ;;
esac
code=0
with_handler true || code=$?
[ $code = 0 ] || give_up 77 "no foreign program can be started here"

# --- The builds

programs='src/tool/kquant tests/api_test tests/rules_test tests/answers_test tests/host_test
    samples/gguf_matvec'

# build FOLDER PROGRAMS [MESON ARGUMENT...]: on one core, for several machines may be built at once
build()
{
    where=$1
    what=$2
    shift 2
    # A setup that was interrupted leaves a folder that meson takes for a finished one.
    [ -f "$where/build.ninja" ] || rm -rf "$where"
    [ -f "$where/build.ninja" ] ||
        meson setup "$where" "$project" -Dmpi=disabled "$@" >"$where.log" 2>&1 ||
        { tail -20 "$where.log" >&2; give_up 99 "meson setup failed"; }
    ninja -j1 -C "$where" $what >"$where.ninja.log" 2>&1 ||
        { grep -A9 FAILED "$where.ninja.log" >&2; give_up 1 "the build failed"; }
}

mkdir -p "$built"
printf "[constants]\nroot = '%s'\n" "$root" >"$folder/root.ini"
build "$built" "$programs" --cross-file "$folder/root.ini" \
    --cross-file "$tests/machines/$machine.ini"
native=$project/build/machines/native
mkdir -p "$native"
exec 9>"$native.lock"
flock 9
build "$native" src/tool/kquant
exec 9>&-

# --- The tests

failed=0
undecided=0

# passes NAME COMMAND...: what it says is kept, and shown where it fails
passes()
{
    test=$1
    shift
    code=0
    "$@" >"$folder/$test.log" 2>&1 </dev/null || code=$?
    case $code in
    0) say "$machine: $test passed" ;;
    *)
        tail -20 "$folder/$test.log" >&2
        say "$machine: $test failed, exit code $code"
        if [ $code = 99 ]; then undecided=1; else failed=1; fi
        ;;
    esac
}

in_root=/kquant/build/machines/$machine/build
passes host_test enter $in_root/tests/host_test $in_root
passes api_test enter $in_root/tests/api_test
passes rules_test enter $in_root/tests/rules_test /kquant/include/kquant/CONTRACT.md
passes answers_test enter $in_root/tests/answers_test
# Hundreds of runs, where a reader of files may go wrong: 32 bits and the other byte order.
case $machine in
armhf | s390x)
    passes gguf beside python3 "$tests/gguf_test.py" "$built/samples/gguf_matvec" \
        "$tests/make_gguf.py"
    ;;
esac
passes files beside sh "$tests/machines/files_test.sh" "$native/src/tool/kquant" \
    "$built/src/tool/kquant" "$built/samples/gguf_matvec"

# --- The vectors

# check DEVICE NAME-IN-THE-TABLE
check()
{
    device=$1
    name=$2
    json=build/machines/$machine/$name.json
    rm -f "$project/$json"
    passes "check-$name" enter $in_root/src/tool/kquant check --device="$device" --json="/kquant/$json"
    python3 - "$project/$json" "$machine (qemu)" "$name" <<'END' || undecided=1
import json
import sys

path, machine, name = sys.argv[1:]
device = json.load(open(path))['devices'][0]
passed = sum(case['status'] == 'pass' for case in device['cases'])
print(machine, name, f"{passed} of {len(device['cases'])}", device['fingerprint'][:16], sep='\t')
END
}

check reference reference
if [ "$machine" = aarch64 ]; then
    check llvmpipe lavapipe
    check pthread pocl
fi

[ $failed = 0 ] || exit 1
[ $undecided = 0 ] || exit 99
