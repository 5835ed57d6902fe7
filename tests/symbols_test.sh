#!/bin/sh
# The shared library exports what the public headers declare, all of it and nothing else.
# usage: symbols_test.sh LIBKQUANT_SO [HEADER...]     all headers of include/kquant if none is named
set -eu

if [ $# -lt 1 ]; then
    sed -n '3s/# //p' "$0" >&2
    exit 2
fi
library=$1
shift
if [ $# -eq 0 ]; then
    set -- "$(dirname "$0")"/../include/kquant/*.h
fi
if ! command -v nm >/dev/null; then
    echo "symbols_test: no nm"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
wrong=0

# fail TEXT FILE: says so if the file holds anything
fail()
{
    if [ -s "$2" ]; then
        echo "symbols_test: $1: $(tr '\n' ' ' <"$2")"
        wrong=1
    fi
}

# Without comments and directives, one declaration a line.
sed -e 's,//.*,,' -e '/^ *#/d' "$@" | tr '\n' ' ' | sed 's/  */ /g' | tr ';' '\n' >"$tmp/text"
# A type before a bracket and a star is what a function pointer returns.
grep -oE '\bkq_[a-z0-9_]+ ?\([^*]' "$tmp/text" | sed 's/ *(.*//' | sort -u >"$tmp/named"
grep 'KQ_API ' "$tmp/text" | grep -oE '\bkq_[a-z0-9_]+ ?\(' | tr -d ' (' | sort >"$tmp/declared"
uniq -d "$tmp/declared" >"$tmp/twice"
nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >"$tmp/exported"

if [ ! -s "$tmp/declared" ] || [ ! -s "$tmp/exported" ]; then
    echo "symbols_test: $(wc -l <"$tmp/declared") functions are declared and" \
        "$(wc -l <"$tmp/exported") symbols exported; that can't be"
    exit 1
fi
grep -v '^kq_' "$tmp/exported" >"$tmp/foreign" || :
comm -13 "$tmp/declared" "$tmp/exported" >"$tmp/secret"
comm -23 "$tmp/declared" "$tmp/exported" >"$tmp/missing"
comm -23 "$tmp/named" "$tmp/declared" >"$tmp/unmarked"
fail 'exported, but not kq_' "$tmp/foreign"
fail 'exported, but in no public header' "$tmp/secret"
fail 'declared, but not exported' "$tmp/missing"
fail 'declared without KQ_API' "$tmp/unmarked"
fail 'declared twice' "$tmp/twice"
if [ $wrong -eq 0 ]; then
    echo "symbols_test: $(wc -l <"$tmp/declared") functions declared in $# headers and exported"
fi
exit $wrong
