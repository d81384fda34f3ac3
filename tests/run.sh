#!/bin/sh
# Builds everything and runs all tests: release build, then the address and undefined-behaviour sanitizers; then what has
# threads (label tsan), with the thread sanitizer. Installs what is missing. GPU tests are skipped, with their reason, where
# there is no GPU. The last line sums up all builds; the exit status is 0 only if nothing failed.
#
#   tests/run.sh [--quick | --full] [ctest arguments]
#
# --quick: the release build only. --full: then also random faults under every sample (tests/e2e/faults.c), and the corpus of
# variants (tests/cheats) with twenty seeds; takes hours.
set -eu
cd "$(dirname "$0")/.."
presets="release asan tsan"
full=
case ${1:-} in
--quick) presets=release; shift ;;
--full) full=1; shift ;;
esac
for variable in $(env | sed -n 's/^\(KGENRT_[A-Z_]*\)=.*/\1/p'); do unset "$variable"; done # how somebody uses it is no matter of tests
extra_needs="clang:clang libclang_rt.asan-x86_64.a:libclang-rt-dev clang-format:clang-format strace:strace
    python3:python3 pip3:python3-pip libjemalloc.so.2:libjemalloc2 musl-gcc:musl-tools"
. tests/setup.sh

# report PRESET: prints what was skipped and why, and adds ctest's counts to passed, failed and skipped
report() {
    all=$(sed -n 's/^[[:space:]]*tests="\([0-9]*\)"/\1/p' "build/$1.xml")
    bad=$(sed -n 's/^[[:space:]]*failures="\([0-9]*\)"/\1/p' "build/$1.xml")
    not=$(sed -n 's/^[[:space:]]*skipped="\([0-9]*\)"/\1/p' "build/$1.xml")
    passed=$((passed + all - bad - not)) failed=$((failed + bad)) skipped=$((skipped + not))
    awk '/<testcase / { name = $2; gsub(/name=|"/, "", name); not = 0 }
         /<skipped/ { not = 1 }
         not && sub(/.*skipped: /, "") { sub(/<.*/, ""); print "skipped: " name ": " $0 }' "build/$1.xml" |
        sed 's/&apos;/'"'"'/g; s/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g'
}

mkdir -p build
status=0 passed=0 failed=0 skipped=0
for preset in $presets; do
    say "== $preset: build"
    cmake --preset "$preset" -DKGENRT_CUDA="$CUDA_ROOT" >"build/$preset.log" 2>&1 || {
        cat "build/$preset.log" >&2
        die "configuring $preset failed"
    }
    cmake --build --preset "$preset"
    say "== $preset: test"
    rm -f "build/$preset.xml"
    ctest --preset "$preset" --output-junit "$PWD/build/$preset.xml" "$@" || status=1
    report "$preset"
done
[ "$passed" -gt 0 ] || status=1
if [ -n "$full" ]; then
    say "== random faults under every sample"
    build/release/tests/e2e_faults "$(date +%s)" all >build/faults.txt 2>&1 || status=1
    grep -E 'seed|failed' build/faults.txt
    say "== the corpus of variants, twenty seeds each"
    cheats=build/release/tests/cheats/cheats
    $cheats --samples | xargs -P "$(nproc)" -I{} sh -c "$cheats --sample {} --seeds 20 >build/cheats.{}.txt 2>&1" || status=1
    grep -hE '^(WRONG|NOT CAUGHT|REFUSED)' build/cheats.*.txt || say "no verdict was wrong"
    grep -hE 'verdicts, ' build/cheats.*.txt | awk '{ v += $1; w += $3; k += $5 }
        END { printf "%d verdicts, %d wrong, %d known to be wrong\n", v, w, k }'
fi
say "$passed passed, $failed failed, $skipped skipped"
exit $status
