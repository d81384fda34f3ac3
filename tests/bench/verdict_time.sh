#!/bin/bash
# Where the time of a verdict goes: every variant that programs get in a cache is verified again (kgenrt verify --all), and
# the gates' times are printed, and the median over all verdicts. The cache's captures must have been kept. On the software
# GPU (LD_LIBRARY_PATH) it says how long tests take, and nothing about a GPU.
#
#   tests/bench/verdict_time.sh BUILD [CACHE]
set -eu
[ $# -ge 2 ] && export KGENRT_CACHE=$2
"$1/kgenrt" verify --all --json | python3 -c '
import json, sys
totals = []
for one in json.load(sys.stdin)["variants"]:
    gates = (one["evidence"] or {}).get("gates", [])
    totals.append(sum(gate["ms"] for gate in gates))
    print("%-20.20s %-14s %6.0f ms:" % (one["readable"], one["outcome"], totals[-1]),
          ", ".join("%s %.0f" % (gate["name"], gate["ms"]) for gate in gates if gate["ms"] >= 1))
totals.sort()
print("%d verdicts, median %.0f ms" % (len(totals), totals[len(totals) // 2] if totals else 0))'
