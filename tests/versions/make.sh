#!/bin/sh
# Makes a folder of programs, one for each way of linking each version of NVIDIA's runtime: samples linked to shared and static
# ones, and nvJPEG with the static ones before 12.9. The folder can be carried to a machine with a GPU; runs.py runs it there.
#
#   tests/versions/make.sh BUILD_FOLDER RUNTIMES CUDA_ROOT FOLDER [C compiler]
set -eu
here=$(cd "$(dirname "$0")" && pwd)

build=$1 runtimes=$2 cuda=$3 folder=$4 cc=${5:-cc}
rm -rf "$folder"
mkdir -p "$folder"
for library in "$runtimes"/runtime-*.so; do
    version=${library##*/runtime-} version=${version%.so}
    soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    mkdir "$folder/runtime-$version"
    cp "$library" "$folder/runtime-$version/$soname"
done
"$cc" -O2 -I"$cuda/include" -c -o "$folder/old_runtime.o" "$here/old_runtime.c"
for sample in polynomial vector_add; do
    object=$build/samples/$sample.o
    for version in 11.8 12.1 13.0; do # each runs with any runtime of its major version
        old=
        [ "${version%%.*}" -ge 13 ] || old=$folder/old_runtime.o
        "$cc" -o "$folder/$sample-${version%%.*}" "$object" $old "$folder/runtime-$version"/libcudart.so.* -lstdc++ -lm
    done
    for archive in "$runtimes"/static-*.a; do
        version=${archive##*/static-} version=${version%.a}
        "$cc" -o "$folder/$sample-static-$version" "$object" "$archive" -lstdc++ -lm -ldl -lpthread -lrt
    done
done
"$cc" -O2 -I"$cuda/include" -o "$folder/jpeg" "$here/jpeg.c" -ldl
for library in "$runtimes"/static-*.so; do
    [ -e "${library%.so}.a" ] || cp "$library" "$folder"
done
rm "$folder/old_runtime.o"
strip "$folder"/polynomial-* "$folder"/vector_add-* "$folder/jpeg"
