#!/bin/sh
# The kquant command's own part: options, exit codes, messages, files. Needs no driver.
#
# usage: tool_test.sh [--no-links] KQUANT_BINARY
#
# --no-links: symbolic links here are none to KQUANT_BINARY's system.
set -u

has_links=true
if [ "${1-}" = --no-links ]; then
    has_links=false
    shift
fi
kquant=${1:?usage: tool_test.sh KQUANT_BINARY}
case $kquant in
/*) ;;
*) kquant=$PWD/$kquant ;;
esac
vectors=$(cd "$(dirname "$0")" && pwd)/vectors
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
cd "$work" || exit 99

checks=0
failures=0
tab=$(printf '\t')

fail()
{
    failures=$((failures + 1))
    echo "FAIL: $*"
    sed 's/^/    stdout: /' out | cut -c1-300 | head -n 5
    sed 's/^/    stderr: /' err | cut -c1-300 | head -n 5
}

# run CODE ARG...: runs kquant, which must exit with CODE
run()
{
    expected=$1
    shift
    command="kquant $*"
    checks=$((checks + 1))
    "$kquant" "$@" >out 2>err
    code=$?
    [ "$code" -eq "$expected" ] || fail "$command: exit $code, not $expected"
}

# says FILE TEXT...: each text, taken literally, must be in a line of out or err
says()
{
    file=$1
    shift
    for text; do
        checks=$((checks + 1))
        grep -qF -e "$text" "$file" || fail "$command: \"$text\" is not on std$file"
    done
}

# holds WHAT COMMAND...: the command must succeed
holds()
{
    what=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$command: $what"
}

one_line_err()
{
    holds "stderr is not one line" test "$(wc -l <err)" -eq 1
}

absent()
{
    for path; do
        holds "$path is there" test ! -e "$path"
    done
}

# bytes: hex on stdin to bytes on stdout
bytes()
{
    printf "$(awk 'BEGIN { digits = "0123456789abcdef" }
        {
            for (i = 1; i < length($0); i += 2) {
                byte = 16 * (index(digits, substr($0, i, 1)) - 1)
                printf "\\%03o", byte + index(digits, substr($0, i + 1, 1)) - 1
            }
        }')"
}

# hex: bytes on stdin to hex on stdout
hex()
{
    od -An -v -tx1 | tr -d ' \n'
}

# column FILE NAME NUMBER: of the vectors
column()
{
    awk -F'\t' -v name="$2" -v number="$3" '$1 == name { print $number; exit }' "$vectors/$1"
}

# change POSITION COLUMN: of the TSV line on stdin, gives one hex digit another value
change()
{
    awk -F'\t' -v OFS='\t' -v position="$1" -v column="$2" '{
        digit = substr($column, position, 1)
        $column = substr($column, 1, position - 1) (digit == "1" ? "2" : "1") \
                  substr($column, position + 1)
        print
    }'
}

line()
{
    awk -F'\t' -v name="$2" '$1 == name { print; exit }' "$vectors/$1"
}

# --- The command itself

run 0 --help
says out 'usage: kquant' devices check report bench quantize dot 'exit codes:' '  77 ' '  99 '
holds "stderr is not empty" test ! -s err
run 0 help
run 0 --version
says out 'kquant '
run 2
says err 'usage: kquant'
run 2 frobnicate
says err frobnicate
one_line_err
for subcommand in devices check report bench quantize dot; do
    run 0 "$subcommand" --help
    says out "usage: kquant $subcommand" 'options:' 'examples:' "  kquant $subcommand"
    mv out help
    run 0 help "$subcommand"
    holds "help $subcommand is another help" cmp -s out help
    run 2 "$subcommand" --frob=1
    says err "$subcommand" '--frob=1'
    one_line_err
    run 2 "$subcommand" -x
    says err "unknown option -x"
done

run 2 help frobnicate
says err frobnicate
run 0 dot --help
says out 'G, in messages, is'

# --- Options

run 2 check --seed=abc
says err 'check: --seed=abc' 'whole number from 0 to 18446744073709551615'
one_line_err
for number in -1 1.5 '' ' 1' 0x 0xg 18446744073709551616 1e3 +1; do
    run 2 check --seed="$number" --list
    says err '--seed'
done
run 0 check --seed=0xFFFFFFFFFFFFFFFF --list
run 2 check --level=slow
says err '--level=slow' 'quick|full'
run 2 check --level
says err '--level'
run 2 check --list=1
says err '--list' 'no value'
run 2 check --list --list
says err '--list' twice
run 2 check something
says err something
run 2 check --level=full --vectors="$vectors"
says err '--level=full' '--vectors'
run 2 bench --records=0
says err '--records=0' 'from 1'
for repeat in 0 1, ,1 1,0 1,2,3 x; do
    run 2 bench --repeat="$repeat"
    says err "--repeat=$repeat"
done
run 2 bench --repeat=1 --long=16
says err '--long' '--repeat'
run 77 bench --filter=nosuch
says err '--filter=nosuch' '--list'
run 2 quantize
says err 'IN.f32'
run 2 quantize one
says err 'OUT.q8k'
run 2 quantize one two three
says err three
run 2 quantize same same
says err same
for operands in '- out' 'in -' '- -'; do
    run 2 quantize $operands
    says err '- is no file' /dev/stdin
    one_line_err
done
run 2 dot
says err 'W.q4k'
run 2 dot --order=random w x
says err '--order=random' 'sequential|pairwise'
run 2 dot --repeat=0 w x
says err '--repeat=0'
absent one two same

# --- devices

run 0 devices
holds "the reference is not first" sh -c "sed -n 2p out | grep -q '^reference  *reference '"
grep -v '^id ' out >devices
run 0 devices --json
for key in id kind name driver uuid; do
    says out "\"$key\": \""
done
says out '"id": "reference"'

# Text that is a part of several devices' names, where there are several devices.
ambiguous=$(grep -o '"name": "[^"]*"' out | cut -d'"' -f4 | awk '
    { for (i = 1; i <= length($0); i++) seen[substr($0, i, 1)] = seen[substr($0, i, 1)] " " NR }
    END {
        for (c in seen) {
            n = split(seen[c], lines, " ")
            if (c ~ /[a-z]/ && n > 1 && lines[1] != lines[n]) {
                print c
                exit
            }
        }
    }')

# --- Unknown and ambiguous devices

printf '' >empty
for device in vulkan:999 opencl:999 'no such device' '??' Reference; do
    for subcommand in check bench 'bench --long=16'; do
        run 99 $subcommand --device="$device"
        says err "--device=$device" KQ_ERROR_NO_DEVICE 'kquant devices' 'case'
        one_line_err
        holds "something was printed" test ! -s out
    done
    run 99 quantize --device="$device" empty result
    says err "--device=$device"
    run 99 dot --device="$device" empty empty
    says err "--device=$device"
done
absent result
if [ -n "$ambiguous" ]; then
    run 99 check --device="$ambiguous"
    says err "--device=$ambiguous" KQ_ERROR_ARGUMENT
    one_line_err
else
    echo "note: one device only, so that no name is ambiguous"
fi

# The environment of the loaders, not of the command, hides every driver.
VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent OCL_ICD_VENDORS=/nonexistent
export VK_ICD_FILENAMES VK_DRIVER_FILES OCL_ICD_VENDORS
run 0 devices
holds "there is more than the reference" test "$(wc -l <out)" -eq 2
run 77 check
says err 'no device' KQ_ERROR_NO_DEVICE
holds "something was printed" test ! -s out
run 0 check --device=all --filter='*.base.zeros'
says out reference '2 passed, 0 failed'

# --- quantize

for name in ramp one-record-each-kind; do
    column quantize.tsv "$name" 3 | bytes >in.f32
    column quantize.tsv "$name" 5 | tr -d '\n' >expected
    run 0 quantize --device=reference in.f32 out.q8k
    hex <out.q8k >got
    holds "other records than the vector's" cmp -s got expected
    holds "something was printed" test ! -s out -a ! -s err
    absent out.q8k.partial
done
cp out.q8k before.q8k

run 0 quantize --device=reference empty none.q8k
holds "no blocks don't give an empty file" test -f none.q8k -a ! -s none.q8k

# Whatever is wrong, the file that was there stays as it was, and no other is left behind.
untouched()
{
    holds "OUT has changed" cmp -s out.q8k before.q8k
    absent out.q8k.partial
    one_line_err
}

dd if=in.f32 of=255.f32 bs=1020 count=1 2>/dev/null
run 1 quantize --device=reference 255.f32 out.q8k
says err 255.f32 '1020 bytes' '256 f32' '1024 bytes'
untouched
dd if=in.f32 of=257.f32 bs=1028 count=1 2>/dev/null
run 1 quantize --device=reference 257.f32 out.q8k
says err 257.f32 '1028 bytes' '256 f32' '4 are left over'
untouched
run 1 quantize --device=reference 257.f32 new.q8k
absent new.q8k

column quantize.tsv bad-inf-in-third-record 3 | bytes >bad.f32
run 1 quantize --device=reference bad.f32 out.q8k
says err bad.f32 'record 2' 'nonfinite-input@9' 'byte 2084' '2 of 5 blocks'
untouched
run 1 quantize --device=reference bad.f32 new.q8k
absent new.q8k new.q8k.partial
# The lowest bad record and its first element, though others are bad too.
{
    column quantize.tsv ramp 3
    column quantize.tsv bad-nan 3
    column quantize.tsv bad-two-elements 3
} | tr -d '\n' | bytes >bad.f32
run 1 quantize --device=reference bad.f32 out.q8k
says err 'record 1' 'nonfinite-input@5' 'element 5' '2 of 3 blocks'
untouched
column quantize.tsv bad-after-many-good 3 | bytes >bad.f32
run 1 quantize --device=reference bad.f32 out.q8k
says err 'record 40' inverse-overflow 0x02FE0001 '1 of 41 blocks'
untouched

run 99 quantize --device=reference missing.f32 out.q8k
says err missing.f32
untouched
run 99 quantize --device=reference . out.q8k
says err 'folder'
untouched
run 99 quantize --device=reference in.f32 missing/out.q8k
says err missing/out.q8k
holds "the name of the new file is shown" sh -c "! grep -q partial err"
one_line_err
mkdir folder
run 99 quantize --device=reference in.f32 folder
says err folder
one_line_err
absent folder.partial
run 99 quantize --device=reference in.f32 /dev/null
says err /dev/null
holds "/dev/null is a device no more" test -c /dev/null

# Links stay links, and what they lead to keeps its mode.
if $has_links; then
    mkdir far
    ln -s far/target.q8k link.q8k
    ln -s ../link.q8k far/back.q8k
    run 0 quantize --device=reference in.f32 far/back.q8k
    holds "a link to nothing was not followed" cmp -s far/target.q8k before.q8k
    echo old >far/target.q8k
    chmod 640 far/target.q8k
    run 0 quantize --device=reference in.f32 link.q8k
    holds "link.q8k is no link any more" test -L link.q8k -a -L far/back.q8k
    holds "the link's target was not written" cmp -s far/target.q8k before.q8k
    holds "the mode has changed" sh -c "ls -l far/target.q8k | grep -q '^-rw-r-----'"
    absent link.q8k.partial far/target.q8k.partial
    ln -s loop.q8k loop.q8k
    run 99 quantize --device=reference in.f32 loop.q8k
    says err loop.q8k
    one_line_err
    ln -s in.f32 same.f32
    run 2 quantize --device=reference in.f32 same.f32
    says err 'must not be IN.f32'
    one_line_err
fi

# A file of that name may be there already, and is someone else's.
echo mine >out.q8k.partial
run 0 quantize --device=reference in.f32 out.q8k
holds "out.q8k.partial has changed" test "$(cat out.q8k.partial)" = mine
absent out.q8k.partial1
rm out.q8k.partial

# --- dot

# dot_is NAME: the two results of a vector, as dot prints them
dot_is()
{
    column dot.tsv "$1" 3 | bytes >w.q4k
    column dot.tsv "$1" 4 | bytes >x.q8k
    for order in sequential pairwise; do
        run 0 dot --device=reference --order="$order" w.q4k x.q8k
        number=5
        [ "$order" = sequential ] || number=6
        checks=$((checks + 1))
        [ "$(cut -f2 out)" = "$(column dot.tsv "$1" "$number")" ] || fail "$1, $order: wrong bits"
    done
}

dot_is zeros
holds "+0 is not printed as 0" test "$(cat out)" = "0${tab}00000000"
dot_is negative-zero-single
holds "-0 is not printed as -0" test "$(cat out)" = "-0${tab}80000000"
dot_is overflow-to-inf
holds "an infinity is not printed as inf" test "$(cat out)" = "inf${tab}7f800000"
dot_is inf-minus-inf
says out "nan${tab}7fc00000"
dot_is order-sensitive-cancel
run 0 dot --device=reference w.q4k x.q8k
holds "the default order is not sequential" test "$(cat out)" = "1.27999997${tab}3fa3d70a"

cat w.q4k w.q4k w.q4k >w3.q4k
run 0 dot --device=reference w3.q4k x.q8k
holds "not 3 equal lines" test "$(wc -l <out)" -eq 3 -a "$(sort -u out | wc -l)" -eq 1
run 0 dot --device=reference --repeat=3 w3.q4k x.q8k
holds "not 3 lines" test "$(wc -l <out)" -eq 3
run 1 dot --device=reference --repeat=2 w3.q4k x.q8k
says err w3.q4k x.q8k '24 records' '8 records' '2 dots'
one_line_err
holds "something was printed" test ! -s out

run 0 dot --device=reference empty empty
holds "no records are not +0" test "$(cat out)" = "0${tab}00000000"
run 0 dot --device=reference --repeat=2 empty empty
holds "no records are not +0, twice" test "$(wc -l <out)" -eq 2
run 1 dot --device=reference empty x.q8k
says err '0 records' '8 records'
run 1 dot --device=reference w.q4k empty
says err '8 records' '0 records'
dd if=w3.q4k of=w9.q4k bs=144 count=9 2>/dev/null
run 1 dot --device=reference w9.q4k x.q8k
says err '9 records' 'w9.q4k' '8 records' 'x.q8k'
one_line_err
dd if=w.q4k of=short.q4k bs=287 count=1 2>/dev/null
run 1 dot --device=reference short.q4k x.q8k
says err short.q4k '287 bytes' 'Q4_K records' '144 bytes'
one_line_err
dd if=x.q8k of=long.q8k bs=293 count=1 2>/dev/null
run 1 dot --device=reference w.q4k long.q8k
says err long.q8k '293 bytes' 'Q8_K records' '292 bytes'
one_line_err
run 99 dot --device=reference w.q4k missing.q8k
says err missing.q8k
one_line_err

# --- check: what runs

run 0 check --list
holds "too few cases" test "$(wc -l <out)" -gt 1000
holds "case names are not all different" test "$(sort out | uniq -d | wc -l)" -eq 0
for name in quantize.base.zeros quantized_dot.base.random-1 quantize.base.offsets-1-3 \
    quantized_dot.base.offsets-1-2-3 quantized_dot.base.repeat-shared-rhs-1 \
    quantized_dot.base.no-records-null-inputs-1 quantize.base.bulk-16000000000000000-1 \
    quantize.base.batch-1-in-1 quantized_dot.base.batch-300-in-7 quantized_dot.base.walk-bsums \
    quantize.base.replay-200 quantized_dot.base.replay-50-in-2-threads; do
    case $name in
    *bulk*) name=quantize.base.bulk-$(awk '!/^#/ { print $1 "-" $2; exit }' "$vectors/bulk.tsv") ;;
    esac
    holds "$name is not listed" grep -qxF "$name" out
done
run 0 check --list --level=full
holds "full adds no draws" grep -q '^quantized_dot.base.draw-1-1$' out
for name in quantized_dot.base.batch-70000-in-7 quantized_dot.base.cut-batch-70000-in-3 \
    quantized_dot.base.cut-walk-codes quantize.base.replay-10000 \
    quantize.base.replay-1000-in-2-threads; do
    holds "$name is not listed" grep -qxF "$name" out
done
# Cases that run as they are whether or not operations are cut.
holds "single steps or replays are cut" sh -c "! grep -qE '^primitive.*cut-|cut-replay' out"
run 0 check --list --filter='*.base.z?ros'
holds "the filter is wrong" test "$(grep -cx '.*[.]base[.]zeros' out)" -eq "$(wc -l <out)"
holds "the filter is wrong" test "$(wc -l <out)" -eq 2
run 0 check --list
mv out all
run 0 check --list --filter='!*.base.z?ros'
holds "the filter leaves out too much or too little" \
    test "$(grep -vx '.*[.]base[.]zeros' all | cksum)" = "$(cksum <out)"

run 0 check --device=reference
says out ' passed, 0 failed, 0 skipped'
says err 'reference: running '
tail -n 1 out >last
holds "the closing line is not last" grep -qx '[0-9]* passed, 0 failed, 0 skipped' last
holds "there is a bar though stderr is no terminal" sh -c "! grep -q '\[' err"
run 77 check --device=reference --filter=nothing
says out '0 passed, 0 failed'
says err '--filter=nothing'
run 77 check --device=reference --filter='quantize.base.zeros'
says out '1 passed, 0 failed' 'no case of quantized_dot ran'
run 0 check --device=reference --level=full --seed=7 --filter='*.draw-7-1?'
says out '10 passed, 0 failed'

# --- check: vectors of a folder

run 0 check --device=reference --vectors="$vectors"
cases=$(cat "$vectors/quantize.tsv" "$vectors/dot.tsv" "$vectors/bulk.tsv" "$vectors/bulk.tsv" |
    grep -vc '^#')
says out "$cases passed, 0 failed, 0 skipped"

mkdir good none
run 77 check --device=reference --vectors=none
says err '--vectors=none'
run 99 check --device=reference --vectors=missing
says err '--vectors=missing'
one_line_err
run 99 check --device=reference --vectors=empty
says err '--vectors=empty'
echo '# no case' >none/quantize.tsv
run 77 check --device=reference --vectors=none

line quantize.tsv ramp >good/quantize.tsv
run 0 check --device=reference --vectors=good
says out '1 passed, 0 failed, 0 skipped'
echo '# no case' >good/dot.tsv
run 77 check --device=reference --vectors=good
line dot.tsv random-1 >good/dot.tsv
grep -v '^#' "$vectors/bulk.tsv" | head -n 1 >good/bulk.tsv
line quantize.tsv bad-inf-in-third-record >>good/quantize.tsv
run 0 check --device=reference --vectors=good
says out '5 passed, 0 failed, 0 skipped'
# Comments, empty lines, CRLF, capital digits, a last line without its end, a name that comes twice.
mkdir odd
{
    echo '# comment'
    line quantize.tsv ramp | awk '{ printf "%s\r\n\r\n", $0 }'
    line quantize.tsv ramp | awk -F'\t' -v OFS='\t' '{ $5 = toupper($5); printf "%s", $0 }'
} >odd/quantize.tsv
run 0 check --device=reference --vectors=odd
says out '2 passed, 0 failed, 0 skipped'
run 0 check --list --vectors=odd
holds "a second case of a name is not told apart" grep -qxF 'quantize.base.ramp+2' out

# --- check: one wrong nibble is a mismatch, and is shown

mkdir wrong
# wrong FILE POSITION COLUMN TEXT...: changes a digit of the first line of a good file
wrong()
{
    file=$1
    position=$2
    column=$3
    shift 3
    rm -f wrong/*
    head -n 1 "good/$file" | change "$position" "$column" >"wrong/$file"
    run 1 check --device=reference --vectors=wrong
    says out FAIL ' failed, 0 skipped' "$@"
}

wrong quantize.tsv 1 5 'quantize.base.ramp: record 0, ds: input extreme c3000000 (-128), expected'
wrong quantize.tsv $((8 + 2 * 17 + 1)) 5 'record 0, q[17]: input ' 'expected 1' 'got 92 (-110)'
wrong quantize.tsv $((2 * 260 + 4 * 3 + 1)) 5 'record 0, bsum[3]: input '
wrong dot.tsv 1 5 'quantized_dot.base.random-1: sequential result: input 1 record, expected' \
    'lhs d ' 'dmin ' 'rhs ds ' 'lhs sc ' 'lhs m ' 'rhs bsum '
wrong dot.tsv 8 6 'random-1: pairwise result'
# An operand's digit is as good: the low nibble of q.
wrong dot.tsv 101 3 'random-1: sequential result' 'random-1: pairwise result'
wrong bulk.tsv 16 3 'FNV-1a 64: expected'
wrong bulk.tsv 3 4 'sequential result'
rm -f wrong/*
line quantize.tsv bad-inf-in-third-record >bad
sed 's/domain-error:2/domain-error:1/' bad >wrong/quantize.tsv
run 1 check --device=reference --vectors=wrong
says out 'result code: expected KQ_ERROR_DOMAIN of record 1' 'got KQ_ERROR_DOMAIN of record 2'
sed 's/@9/@8/' bad >wrong/quantize.tsv
run 1 check --device=reference --vectors=wrong
says out 'nonfinite-input@8' 'nonfinite-input@9'
sed "s/domain-error[^$tab]*/ok/" bad >wrong/quantize.tsv
run 1 check --device=reference --vectors=wrong
says out 'expected KQ_OK, got KQ_ERROR_DOMAIN'
line quantize.tsv ramp | sed "s/${tab}ok/${tab}domain-error:0:inverse-overflow/" >wrong/quantize.tsv
run 1 check --device=reference --vectors=wrong
says out 'expected KQ_ERROR_DOMAIN' 'got KQ_OK'
# Not more than 5 lines of a case and 20 in all, but all are counted.
record=$(awk 'BEGIN { for (i = 0; i < 292; i++) printf "5a" }')
for i in 1 2 3 4 5 6 7; do
    line quantize.tsv ramp | sed "s/[0-9a-f]*$/$record/; s/ramp/ramp-$i/"
done >wrong/quantize.tsv
run 1 check --device=reference --vectors=wrong
holds "not 20 mismatches are printed" test "$(grep -c '^FAIL' out)" -eq 20
line quantize.tsv ramp | sed "s/[0-9a-f]*$/$record/" >wrong/quantize.tsv
run 1 check --device=reference --vectors=wrong
holds "not 5 mismatches of a case are printed" test "$(grep -c '^FAIL' out)" -eq 5
says out 'mismatches more' '0 passed, 1 failed, 0 skipped'

# --- check: a malformed file is never passed over

mkdir malformed
# malformed FILE LINE TEXT...: malformed/FILE must be refused in that line
malformed()
{
    where="malformed/$1:$2:"
    shift 2
    run 99 check --device=reference --vectors=malformed
    says err "$where" "$@"
    one_line_err
    rm -f malformed/*
}

# edit FILE COLUMN TEXT: a good line, then one with this text in the column
edit()
{
    head -n 1 "good/$1" |
        awk -F'\t' -v OFS='\t' -v column="$2" -v text="$3" '{ print; $column = text; print }' \
            >"malformed/$1"
}

zeros=$(awk 'BEGIN { for (i = 0; i < 2048; i++) printf "0" }')
edit quantize.tsv 3 "${zeros}0" && malformed quantize.tsv 2 'column 3' odd
edit quantize.tsv 3 "${zeros}00" && malformed quantize.tsv 2 'column 3' '1025 bytes' 'G = 1' 1024
edit quantize.tsv 3 "${zeros%00}" && malformed quantize.tsv 2 'column 3' '1023 bytes'
edit quantize.tsv 3 "${zeros%00}0g" && malformed quantize.tsv 2 'column 3' '"0g"' 'byte 1023'
edit quantize.tsv 3 - && malformed quantize.tsv 2 'column 3' '0 bytes'
for column in 3 5; do
    printf 'none\t0\t-\tok\t-\n' >malformed/quantize.tsv
    awk -F'\t' -v OFS='\t' -v column=$column '{ $column = ""; print }' malformed/quantize.tsv \
        >malformed/bulk.tsv
    mv malformed/bulk.tsv malformed/quantize.tsv
    malformed quantize.tsv 1 "column $column" empty
done
edit quantize.tsv 2 2 && malformed quantize.tsv 2 'column 3' 'G = 2'
edit quantize.tsv 2 one && malformed quantize.tsv 2 'column 2' 'G is "one"'
edit quantize.tsv 2 -1 && malformed quantize.tsv 2 'column 2' 'G is "-1"'
edit quantize.tsv 2 4294967296 && malformed quantize.tsv 2 'column 2' 'below 2^32'
edit quantize.tsv 2 4294967295 && malformed quantize.tsv 2 'column 3' 'G = 4294967295'
edit quantize.tsv 1 '' && malformed quantize.tsv 2 'column 1' empty
for outcome in OK okay domain-error domain-error:0 domain-error:0:bad \
    okdomain-error:0:inverse-overflow domain-error:0:inverse-overflownonfinite-input@1 \
    domain-error:x:inverse-overflow domain-error:0:inverse-overflow2 \
    domain-error:0:nonfinite-input domain-error:0:nonfinite-input@; do
    edit quantize.tsv 4 "$outcome" && malformed quantize.tsv 2 'column 4'
done
edit quantize.tsv 4 domain-error:1:inverse-overflow && malformed quantize.tsv 2 'record 1 of 1'
edit quantize.tsv 4 domain-error:0:nonfinite-input@256 && malformed quantize.tsv 2 'element 256'
edit quantize.tsv 4 "ok${tab}more" && malformed quantize.tsv 2 '6 columns, not 5'
printf 'name\t1\t00\n' >malformed/quantize.tsv && malformed quantize.tsv 1 '3 columns, not 5'
echo 'no tabs at all' >malformed/dot.tsv && malformed dot.tsv 1 '1 columns, not 6'
edit dot.tsv 3 00 && malformed dot.tsv 2 'column 3' '1 bytes' 144
edit dot.tsv 4 00 && malformed dot.tsv 2 'column 4' '1 bytes' 292
edit dot.tsv 5 0000000 && malformed dot.tsv 2 'column 5' '8 hex digits'
edit dot.tsv 6 0x000000 && malformed dot.tsv 2 'column 6' '8 hex digits'
edit bulk.tsv 1 12 && malformed bulk.tsv 2 'column 1' '16 hex digits'
edit bulk.tsv 3 - && malformed bulk.tsv 2 'column 3' '16 hex digits'
# A file cut off in the middle of a line.
dd if=good/quantize.tsv of=malformed/quantize.tsv bs=1500 count=1 2>/dev/null
malformed quantize.tsv 1 'columns, not 5'
mkdir malformed/dot.tsv
run 99 check --device=reference --vectors=malformed
says err malformed/dot.tsv folder
rmdir malformed/dot.tsv

# --- bench

run 0 bench --list
says out dots-4096-of-16-pairwise own-rhs-4096-of-16-sequential quantize-4096
run 0 bench --device=reference --records=2 --repeat=8,3 --json=bench.json
says out 'device ms' 'GB/s' dots-8x3-of-2-sequential dots-8x3-of-2-pairwise 'reference  reference ('
run 0 bench --device=reference --filter=quantize-16
says out 'quantize-16 '
run 0 bench --device=reference --records=2 --repeat=8,3 --compare=bench.json
holds "no ratio is printed" grep -qE '^reference .* [0-9.]+x$' out
run 0 bench --device=reference --long=64
says out long-1x1-of-16-pairwise long-1x1-of-64-sequential
run 99 bench --device=reference --records=2 --compare=absent.json
echo '{"bench_format": 2, "devices": []}' >other.json
run 99 bench --device=reference --records=2 --compare=other.json
says err 'other.json: is no file of kquant bench'
run 99 bench --device=reference --records=2 --repeat=8 --json=missing/bench.json

# --- What can't be said is no success

if [ -c /dev/full ]; then
    checks=$((checks + 1))
    "$kquant" devices >/dev/full 2>err
    code=$?
    : >out
    [ "$code" -eq 99 ] || fail "devices >/dev/full: exit $code, not 99"
fi

# --- Where no variable is set

checks=$((checks + 1))
env -i "$kquant" check --device=reference '--filter=*.base.*everything*' --json=bare.json >out 2>err
code=$?
[ "$code" -eq 0 ] || fail "env -i kquant check: exit $code, not 0"
! grep -q 'runtime error' err || fail "env -i kquant check: what UBSan says"

echo "tool_test: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
