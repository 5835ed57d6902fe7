#!/bin/sh
# The tarball of `meson dist` builds and passes the host tests without the kernels' compilers, and
# serves another project as a wrap. It is made of what is committed.
# usage: dist_test.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
for tool in git meson ninja pkg-config sha256sum tar xz; do
    if ! command -v "$tool" >/dev/null; then
        echo "dist_test: no $tool"
        exit 77
    fi
done
# In an unpacked tarball git may find a repository further up.
if [ ! -e "$root/.git" ] || ! git -C "$root" rev-parse HEAD >/dev/null; then
    echo "dist_test: $root is no git checkout, or not one that git reads"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

die()
{
    echo "dist_test: $*"
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

# --- The tarball

quietly git clone --quiet "$root" clone
quietly meson setup clone/build clone -Dtool=false -Dsamples=false -Dtests=false \
    -Dvulkan=enabled -Dopencl=enabled
quietly meson dist -C clone/build --no-tests
quietly ninja -C clone/build src/kernels.json
tarball=$(echo "$tmp"/clone/build/meson-dist/kquant-*.tar.xz)
name=$(basename "$tarball" .tar.xz)
tar -xf "$tarball"
cmp clone/build/kquant.c "$name/generated/kquant.c"
cmp clone/build/src/toolchain.json "$name/generated/toolchain.json"
[ "$(cat "$name/generated/commit")" = "$(git -C clone rev-parse HEAD)" ] || die "it is of another commit"
count=0
for module in clone/build/shaders/*.base.spv clone/build/cl/*.base.*[24].spv; do
    case $module in
    */shaders/*) api=vulkan ;;
    *) api=opencl ;;
    esac
    cmp "$module" "$name/generated/$api/${module##*/}"
    count=$((count + 1))
done
[ $count -ge 15 ] || die "$count modules"

# --- Without the compilers

# All programs that there are, but these.
mkdir bin
IFS=:
for folder in $PATH; do
    for program in "$folder"/*; do
        case ${program##*/} in
        glslang* | clang | clang-[0-9]* | clang++* | opt | opt-[0-9]* | *llvm-spirv* | spirv-*) ;;
        *) [ -e "bin/${program##*/}" ] || [ -L "bin/${program##*/}" ] || ln -s "$program" bin/ ;;
        esac
    done
done
unset IFS
PATH=$tmp/bin
export PATH
for tool in glslangValidator clang clang-14 opt opt-14 llvm-spirv llvm-spirv-14 spirv-opt; do
    ! command -v "$tool" >/dev/null || die "$tool is still there"
done

quietly meson setup build "$name" --werror -Dvulkan=enabled -Dopencl=enabled -Dsamples=false
quietly ninja -C build
build/src/tool/kquant check --device=reference --filter='*.base.zeros' --json=report.json >log 2>&1 || :
grep -qF "\"commit\": \"$(cat "$name/generated/commit")\"" report.json || die "a report is of another commit"
quietly meson test -C build --no-rebuild --suite host
grep -E '^(Ok|Fail|Skipped):' log | sed 's/  */ /'
for module in build/shaders/*.spv build/cl/*.spv; do
    cmp "$module" "clone/$module"
done
cmp build/kquant.c "$name/generated/kquant.c"
cmp build/src/kernels.json clone/build/src/kernels.json

# --- As a wrap

mkdir -p consumer/subprojects
cp "$root"/tests/consumers/* consumer
sum=$(sha256sum "$tarball" | cut -d ' ' -f 1)
sed -e "s,@NAME@,$name," -e "s,@TARBALL@,$tarball," -e "s,@SHA256@,$sum," \
    "$root/tests/consumers/kquant.wrap.in" >consumer/subprojects/kquant.wrap
quietly meson setup consumer/build consumer --force-fallback-for=kquant
quietly meson compile -C consumer/build
got=$(consumer/build/program)

quietly "${CC:-cc}" -std=c11 -I"$name/include" "$root/tests/consumers/program.c" \
    "$name/generated/kquant.c" -o one
expected=$(./one)
[ "$got" = "$expected" ] || die "the wrap gives $got, the tarball's one file $expected"

echo "dist_test: $name with $count modules builds, passes and is a wrap; both ways give $got"
