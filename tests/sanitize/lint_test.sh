#!/bin/sh
# usage: lint_test.sh ROOT BUILD
#
# cppcheck with cppcheck.txt and clang-tidy with .clang-tidy find nothing. Exit 77 where neither is
# installed.
set -eu

root=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
failed=0
tried=0
cd "$root"
# volk.c is another project's.
files=$(ls src/*.c src/tool/*.c samples/*.c tests/*.c tests/*/*.c | grep -v -e '^src/volk.c' -e /consumers/)

if command -v cppcheck >/dev/null; then
    tried=1
    cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr --enable=warning,performance,portability \
        --suppressions-list="$here/cppcheck.txt" --template='{file}:{line}: {message} [{id}]' \
        -DKQ_HAS_VULKAN -DKQ_HAS_OPENCL -Iinclude -Isrc -Itests $files || failed=1
fi
for tidy in clang-tidy-14 clang-tidy; do
    command -v $tidy >/dev/null || continue
    tried=1
    # A file that this build doesn't compile has no command.
    for file in $files; do
        grep -q "\"file\": \"\(.*/\)\{0,1\}$file\"" "$build/compile_commands.json" && echo "$file"
    done >"$build/lint-files.txt" || :
    xargs -n 4 -P 2 $tidy --quiet -p "$build" <"$build/lint-files.txt" 2>/dev/null || failed=1
    # Of the library more is asked.
    grep '^src/[^/]*$' "$build/lint-files.txt" |
        xargs -n 4 -P 2 $tidy --quiet --checks='-*,concurrency-*' -p "$build" 2>/dev/null || failed=1
    break
done
[ $tried -eq 1 ] || exit 77
exit $failed
