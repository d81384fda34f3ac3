#!/bin/sh
# Builds everything and runs all tests: release build, then the address and undefined-behaviour sanitizers. Installs what is
# missing. GPU tests are skipped, with their reason, where there is no GPU.
#
#   tests/run.sh [--quick] [ctest arguments]    --quick: the release build only
set -eu
cd "$(dirname "$0")/.."
quick=
[ "${1:-}" = --quick ] && { quick=yes; shift; }
extra_needs="clang:clang libclang_rt.asan-x86_64.a:libclang-rt-14-dev strace:strace"
. tests/setup.sh

configure() { # preset
    cmake --preset "$1" -DKGENRT_CUDA="$CUDA_ROOT" >build/"$1".log 2>&1 || { cat build/"$1".log >&2; die "configuring $1 failed"; }
}
mkdir -p build
status=0
for preset in release ${quick:-asan}; do
    [ "$preset" = yes ] && continue
    say "== $preset: build"
    configure "$preset"
    cmake --build --preset "$preset"
    say "== $preset: test"
    ctest --preset "$preset" "$@" || status=1
done
exit $status
