#!/bin/sh
# usage: style_test.sh
#
# C files are as clang-format 14 writes them; no text file has tabs, trailing blanks, a line past 130
# columns or a missing newline at its end; and no file at all names a folder of who made it.
set -eu

cd "$(dirname "$0")/.."
command -v clang-format-14 >/dev/null || exit 77
wrong=0
c_files=$(find include src samples tests -name '*.[ch]' | sort)
[ "$(echo "$c_files" | wc -l)" -gt 50 ] || { echo "style_test: found too few C files"; exit 1; }
clang-format-14 --dry-run --Werror $c_files || wrong=1
texts=$(find . -path './build*' -prune -o -path ./.git -prune -o -path ./generated -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.comp' -o -name '*.glsl' -o -name '*.cl' -o -name '*.py' \
    -o -name '*.sh' -o -name '*.html' -o -name '*.build' -o -name '*.md' -o -name '*.txt' \) -print)
for file in $texts; do
    if grep -nP '\t|[ \t]+$|.{131,}' "$file"; then
        echo "style_test: $file has a tab, a trailing blank or a long line"
        wrong=1
    fi
    if [ -n "$(tail -c 1 "$file")" ]; then
        echo "style_test: $file does not end with a newline"
        wrong=1
    fi
done
if find . -path './build*' -prune -o -path ./.git -prune -o -path ./generated -prune -o -type f -print0 |
    xargs -0 grep -naE '(^|[^[:alnum:]_$}./-])/(root|Users|work)/'; then
    echo "style_test: that is a path of some machine"
    wrong=1
fi
exit $wrong
