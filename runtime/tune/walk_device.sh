#!/bin/sh
# Makes walk_device.inc from walk_device.cu and the headers it includes. Run it after a change there, with a CUDA toolkit of
# version 13.0 (others give other text): runtime/tune/walk_device.sh [NVCC] [OUTPUT]
set -eu
here=$(dirname "$0")
nvcc=${1:-nvcc}
output=${2:-$here/walk_device.inc}
text=$(mktemp)
trap 'rm -f "$text"' EXIT
"$nvcc" -ptx -O3 -fmad=false -arch=compute_75 -I "$here/.." -o "$text" "$here/walk_device.cu"
awk '
BEGIN { print "/* Made by walk_device.sh from walk_device.cu: do not edit. clang-format off */"
        print "static const char walk_ptx[] =" }
/^[[:space:]]*(\/\/.*)?$/ { next }
/^\.version/ { $0 = ".version 6.3" }
{ gsub(/[[:space:]]+/, " "); sub(/^ /, ""); gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "    \"%s\\n\"\n", $0 }
END { print "    \"\";" }' "$text" >"$output"
