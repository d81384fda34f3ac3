#!/bin/sh
# Programs of frameworks under the preload: each runs twice without it, to learn whether its results are the
# same from run to run, then once in each mode; results must be equal, exit status too, and kgenrt must have
# seen a kernel of it. Needs a GPU and the frameworks (PyTorch, Triton, CuPy, JAX, cuda.core); what is not there
# is skipped, and said. Exit 0: no program differs, and at least one was equal.
#
#   tests/frameworks/run.sh BUILD_FOLDER RESULT_FOLDER [program ...]
set -u
build=$(cd "$1" && pwd) results=$2
shift 2
cd "$(dirname "$0")"
mkdir -p "$results"
[ $# -gt 0 ] || set -- torch_eager torch_compile torch_graph torch_profiler torch_loader torch_nccl triton_kernel \
    cupy_kernels jax_step cuda_core

# one NAME PORT: all runs of a program; its verdict is the last line of RESULTS/NAME.txt
one() {
    out=$results/$1
    cache=$(mktemp -d)
    export PORT="$2" XLA_PYTHON_CLIENT_PREALLOCATE=false CUBLAS_WORKSPACE_CONFIG=:4096:8
    # XLA picks the algorithm of a matrix product by timing it, and the results with it
    export XLA_FLAGS=--xla_gpu_autotune_level=0
    # each run compiles: a kernel out of CuPy's cache is machine code only
    export CUPY_CACHE_DIR="$cache/cupy"
    : >"$out.txt"
    : >"$out.status"
    for run in plain again observe cached tune; do
        rm -rf "$cache/cupy"
        case $run in
        plain | again) python3 "$1.py" >"$out.$run" 2>"$out.$run.err" ;;
        *)
            KGENRT_CACHE=$cache KGENRT_MAKERS=rules KGENRT_LOG=info KGENRT_LOG_FILE=$out.$run.log "$build/kgenrt" run \
                --mode "$run" python3 "$1.py" >"$out.$run" 2>"$out.$run.err"
            ;;
        esac
        echo "$run: status $? $(grep '^digest' "$out.$run" || tail -n 1 "$out.$run.err")" >>"$out.txt"
        # after each: status shows the latest processes, and a program may start many
        KGENRT_CACHE=$cache "$build/kgenrt" status >>"$out.status" 2>&1
    done
    verdict=equal
    first=$(sed -n 's/^plain: status 0 digest/digest/p' "$out.txt")
    [ -n "$first" ] || verdict="skipped: it does not run without the preload: $(sed -n 's/^plain: //p' "$out.txt")"
    if [ -n "$first" ]; then
        grep -q "^again: status 0 $first\$" "$out.txt" || verdict="not the same from run to run"
        for mode in observe cached tune; do
            grep -q "^$mode: status 0 $first\$" "$out.txt" || verdict="$verdict; $mode DIFFERS"
        done
        grep -q '^    [1-9][0-9]* launches, ' "$out.status" || verdict="$verdict; NO KERNEL SEEN"
    fi
    echo "$1: $verdict" >>"$out.txt"
    rm -rf "$cache"
}

port=29600
for program; do
    port=$((port + 1))
    one "$program" $port &
    [ $((port % 4)) -ne 0 ] || wait
done
wait
status=0 equal=0
for program; do
    verdict=$(tail -n 1 "$results/$program.txt")
    echo "$verdict"
    case $verdict in
    *DIFFERS* | *"NO KERNEL SEEN"*) status=1 ;;
    "$program: equal") equal=$((equal + 1)) ;;
    esac
done
[ "$equal" -gt 0 ] || {
    echo "no program's results were compared"
    status=1
}
exit $status
