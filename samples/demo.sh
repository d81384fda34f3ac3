#!/bin/sh
# The main job, for a person to watch: a slow CUDA program gets faster while it runs, and nobody touched it. Sets everything
# up on a fresh machine. Uses the GPU if there is one, else the software GPU of tests/softgpu, whose times are modelled.
#
#   samples/demo.sh [polynomial | transpose | softmax | stencil] [SECONDS]
set -eu
cd "$(dirname "$0")/.."
sample=${1:-polynomial}
case $sample in polynomial | transpose | softmax | stencil) ;; *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
extra_needs=
. tests/setup.sh
build=$PWD/build/release

say "== building (build/release; the first time takes a minute or two)"
mkdir -p build
cmake --preset release -DKGENRT_CUDA="$CUDA_ROOT" >build/release.log 2>&1 || { cat build/release.log >&2; exit 1; }
cmake --build --preset release --target kgenrt-cli kgenrt-preload kgenrt-audit samples \
    softgpu_cuda softgpu_cudart >build/release.log 2>&1 || {
    tail -n 40 build/release.log >&2
    exit 1
}

if nvidia-smi -L >/dev/null 2>&1; then
    device=$(nvidia-smi -L | head -n 1)
    program=$build/samples/$sample seconds=${2:-30}
else
    device="the software GPU (no NVIDIA GPU here): every time below is modelled, none is a measurement"
    program=$build/samples/$sample-shared seconds=${2:-40}
    export LD_LIBRARY_PATH="$build/softgpu:${LD_LIBRARY_PATH:-}"
fi

KGENRT_CACHE=$(mktemp -d)
export KGENRT_CACHE
trap 'rm -rf "$KGENRT_CACHE"' EXIT
# a recorded model reply stands in for a model; with KGENRT_OPENAI_URL set, that endpoint is asked instead
if [ -z "${KGENRT_MAKERS:-}" ] && [ -z "${KGENRT_OPENAI_URL:-}" ]; then
    export KGENRT_MAKERS="recorded:$PWD/samples/$sample/reply,rules"
fi

run() { # SECONDS
    say "   \$ kgenrt run $(basename "$program") --seconds $1"
    "$build/kgenrt" run "$program" --seconds "$1"
    say
    say "   \$ kgenrt status"
    "$build/kgenrt" status --latest 1
    say
}

say "== device: $device"
say "== first run: $sample starts with its own kernel; a better one is made, verified and swapped in while it runs"
run "$seconds"
while ! "$build/kgenrt" list >/dev/null 2>&1; do
    [ "$seconds" -lt 150 ] || { say "no variant was verified: what 'kgenrt status' says above is why"; exit 1; }
    seconds=$((seconds * 2))
    say "== no verdict within that time, on this machine: once more, twice as long"
    run "$seconds"
done
say "== evidence of what programs get"
say "   \$ kgenrt show $sample"
"$build/kgenrt" show "$sample" | sed -n '/^variant .*the best/,/^$/p'
say
say "== second run: the variant is in the cache"
run 10
