#!/bin/sh
# Brings CUDA runtimes of other versions into a folder, from NVIDIA's wheels: runtime-VERSION.so is a shared cudart,
# static-VERSION.so a library with a static one in it: made from libcudart_static.a where a wheel holds that (from 12.9 on;
# kept as static-VERSION.a), else NVIDIA's nvJPEG of that release, which is linked so. Does nothing twice. Exit status 77,
# with the reason, where a wheel cannot be had.
#
#   tests/versions/bring.sh FOLDER [C compiler]
set -u
mkdir -p "$1" || exit 1
folder=$(cd "$1" && pwd) cc=${2:-cc}

# static_library ARCHIVE FOLDER: FOLDER/static.so, whose begin() starts the runtime of ARCHIVE
static_library() {
    printf 'int cudaGetDeviceCount(int *);\nint begin(int *n) { return cudaGetDeviceCount(n); }\n' >"$2/begin.c" &&
        "$cc" -shared -fPIC -o "$2/static.so" "$2/begin.c" "$1" -ldl -lpthread -lrt
}

# bring FILE REQUIREMENT: the wheel's shared library as FILE.so, and what its archive gives
bring() {
    work=$(mktemp -d) || return
    if python3 -m pip download -q --no-deps --only-binary :all: -d "$work" "$2" >"$work/log" 2>&1 &&
        python3 -m zipfile -e "$work"/*.whl "$work/wheel" >>"$work/log" 2>&1; then
        archive=$(find "$work/wheel" -name libcudart_static.a)
        if [ -n "$archive" ] && static_library "$archive" "$work"; then
            mv "$archive" "$folder/static-${1#*-}.a" && mv "$work/static.so" "$folder/static-${1#*-}.so"
        fi
        mv "$(find "$work/wheel" -name 'libcudart.so.*' -o -name 'libnvjpeg.so.*')" "$folder/$1.so"
    else
        echo "$2: $(tail -n 1 "$work/log")"
    fi
    rm -rf "$work"
}

jobs=0 files=
while read -r file requirement archive; do
    files="$files $file.so ${archive:+static-${file#*-}.so}"
    [ ! -e "$folder/$file.so" ] || continue
    bring "$file" "$requirement" &
    jobs=$((jobs + 1))
    [ $((jobs % 4)) -ne 0 ] || wait
done <<end
runtime-11.8 nvidia-cuda-runtime-cu11==11.8.89
runtime-12.1 nvidia-cuda-runtime-cu12==12.1.105
runtime-12.4 nvidia-cuda-runtime-cu12==12.4.127
runtime-12.6 nvidia-cuda-runtime-cu12==12.6.77
runtime-12.8 nvidia-cuda-runtime-cu12==12.8.90
runtime-12.9 nvidia-cuda-runtime-cu12==12.9.79 archive
runtime-13.0 nvidia-cuda-runtime==13.0.96 archive
runtime-13.5 nvidia-cuda-runtime==13.5.37 archive
static-11.8 nvidia-nvjpeg-cu11==11.9.0.86
static-12.1 nvidia-nvjpeg-cu12==12.2.0.2
static-12.4 nvidia-nvjpeg-cu12==12.3.1.117
static-12.6 nvidia-nvjpeg-cu12==12.3.3.54
static-12.8 nvidia-nvjpeg-cu12==12.3.5.92
end
wait
for file in $files; do
    [ -e "$folder/$file" ] || { echo "skipped: NVIDIA's wheels cannot be had: $file is missing"; exit 77; }
done
