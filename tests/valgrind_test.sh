#!/bin/sh
# usage: valgrind_test.sh API_TEST RULES_TEST CONTRACT_MD KQUANT
#
# The host code of the reference under valgrind: no byte is read that nobody wrote, none past its
# end, none is lost. Run where no loader finds a driver, for drivers lose some of their own.
set -eu

command -v valgrind >/dev/null || { echo "valgrind_test: no valgrind"; exit 77; }
api_test=$1
rules_test=$2
contract=$3
kquant=$4

check()
{
    echo "== $*"
    # The stack of a thread that lives until the end is "possibly lost".
    valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect --trace-children=yes "$@"
}

check "$api_test"
check "$rules_test" "$contract"
check "$kquant" check --device=reference '--filter=*.base.*-everything-odd*'
check "$kquant" check --device=reference '--filter=*.base.replay-50-in-2-threads'
