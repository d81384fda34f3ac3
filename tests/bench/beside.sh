#!/bin/bash
# What a worker costs the program beside it: launches a second of a program that keeps its GPU busy, without kgenrt and beside
# a worker that verifies replies all the time, none of which is a gain; by turns, twice. The last line is the ratio, and how
# many verdicts the worker came to. The program must keep 90 percent of its launches at the default share.
#
#   tests/bench/beside.sh BUILD [SECONDS]      on a GPU; BUILD holds kgenrt and bench/beside
set -u
build=$1 seconds=${2:-25} source=$(cd "$(dirname "$0")" && pwd)/beside.cu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
program=$build/bench/beside
[ -x "$program" ] || program=$build/beside
mkdir "$work/replies"
for i in $(seq 30); do
    {
        printf 'kernel: smooth\n\n```cuda\n// take %d\n' "$i"
        sed -n '/<<< reply/,/>>> reply/p' "$source" | grep -v ' reply$'
        printf '```\n\n```json\n{"entry": "smooth", "params": ["in", "out", "n"], "launch": {"grid": ["gx", 1, 1], "block": '
        printf '["bx", 1, 1], "shared": 0}, "guards": [], "globals": [], "note": "take %d"}\n```\n' "$i"
    } >"$work/replies/$i.md"
done
export KGENRT_LOG=info KGENRT_LOG_FILE=$work/log KGENRT_MAKERS=recorded:$work/replies
alone=0 beside=0
for turn in alone beside beside alone; do
    if [ $turn = alone ]; then
        got=$("$program" "$seconds" | awk '{print $1}')
        alone=$(echo "$alone $got" | awk '{print $1 + $2}')
    else
        export KGENRT_CACHE=$work/cache-$RANDOM
        got=$("$build/kgenrt" run "$program" "$seconds" | awk '{print $1}')
        beside=$(echo "$beside $got" | awk '{print $1 + $2}')
    fi
    echo "$turn: ${got:-failed} launches a second"
done
verdicts=$(grep -c 'refused by gate' "$work/log")
echo "$beside $alone $verdicts" |
    awk '{ printf "beside/alone %.3f, %d verdicts\n", $1 / $2, $3; exit !($1 / $2 >= 0.9 && $3 > 0) }'
status=$?
grep 'refused by gate\|withdrawn\|published' "$work/log" | sed 's/.*info: //' | sort | uniq -c | sort -rn | head -5
exit $status
