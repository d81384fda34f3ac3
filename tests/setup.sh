# Set-up that both tests/run.sh and samples/demo.sh share: sourced by them, from the top folder. Installs the packages the build
# needs (Debian, Ubuntu), and finds a CUDA toolkit or brings NVIDIA's wheels of one pinned version into build/cuda.
# Sets CUDA_ROOT. Says what it does; does nothing twice.

cuda_wheels="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85 nvidia-cuda-nvrtc==13.0.88 nvidia-nvjitlink==13.0.88"

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# have FILE-OR-COMMAND: a header, a library or a program
have() {
    case $1 in
    *.h) printf '#include <%s>\n' "$1" | ${CC:-cc} -E -x c - >/dev/null 2>&1 ;;
    libclang_rt*.a) [ -e "$(clang -print-file-name="$1" 2>/dev/null)" ] ;; # only clang knows where it keeps its own
    *.a | *.so.*) [ -e "$(${CC:-cc} -print-file-name="$1" 2>/dev/null)" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# what the build needs, and the package that brings it
needs="cc:gcc g++:g++ cmake:cmake ninja:ninja-build objcopy:binutils sodium.h:libsodium-dev libsodium.a:libsodium-dev
    lmdb.h:liblmdb-dev liblmdb.a:liblmdb-dev zstd.h:libzstd-dev libzstd.a:libzstd-dev lz4.h:liblz4-dev liblz4.a:liblz4-dev
    jansson.h:libjansson-dev libjansson.a:libjansson-dev curl/curl.h:libcurl4-openssl-dev $extra_needs"

install_packages() {
    missing=
    for need in $needs; do
        have "${need%%:*}" || case " $missing " in *" ${need#*:} "*) ;; *) missing="$missing ${need#*:}" ;; esac
    done
    [ -n "$missing" ] || return 0
    have apt-get || die "these packages are missing, and there is no apt-get to install them:$missing"
    say "installing packages:$missing"
    sudo=
    [ "$(id -u)" = 0 ] || { have sudo || die "needs root (or sudo) to install:$missing"; sudo=sudo; }
    log=$(mktemp)
    if ! { $sudo apt-get update && DEBIAN_FRONTEND=noninteractive \
            $sudo apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "the packages could not be installed:$missing"
    fi
    rm -f "$log"
}

# version of the nvcc in $1 as a number: 1204 for 12.4
nvcc_version() {
    "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | awk '{print $1 * 100 + $2}'
}

find_cuda() {
    for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" "$PWD/build/cuda/nvidia/cu13/bin/nvcc"; do
        [ -x "$nvcc" ] || continue
        version=$(nvcc_version "$nvcc")
        [ "${version:-0}" -ge 1204 ] || { say "$nvcc is older than 12.4: not used"; continue; }
        CUDA_ROOT=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
        [ -e "$CUDA_ROOT/include/cuda.h" ] || [ -e "$CUDA_ROOT/targets/x86_64-linux/include/cuda.h" ] || continue
        return 0
    done
    return 1
}

bring_cuda() {
    find_cuda && return 0
    say "no CUDA toolkit from 12.4 here: NVIDIA's wheels of CUDA 13.0 go into build/cuda (0.6 GB)"
    extra_needs= needs="python3:python3 pip3:python3-pip" install_packages
    mkdir -p build/cuda
    pip3 install -q --no-deps --root-user-action=ignore --target build/cuda $cuda_wheels ||
        die "the wheels could not be installed"
    # names that nvcc's linker step looks for, which wheels do not bring
    (cd build/cuda/nvidia/cu13 && ln -sfn lib lib64 && cd lib && for so in *.so.13; do ln -sf "$so" "${so%.13}"; done)
    find_cuda || die "the wheels in build/cuda hold no usable nvcc"
}

install_packages
bring_cuda
say "CUDA toolkit: $CUDA_ROOT"
export CUDA_ROOT
# programs that need its shared libraries (NVRTC, nvJitLink) find them here, after what the user has set
for folder in "$CUDA_ROOT/lib64" "$CUDA_ROOT/lib" "$CUDA_ROOT/targets/x86_64-linux/lib"; do
    [ -d "$folder" ] && { LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder; break; }
done
export LD_LIBRARY_PATH
