#!/bin/sh
# Makes shadow_device.inc from shadow_device.cu. Run it after a change there, with a CUDA toolkit of version 13.0 (others
# give other text): runtime/app/shadow_device.sh [NVCC] [OUTPUT]
set -eu
here=$(dirname "$0")
nvcc=${1:-nvcc}
output=${2:-$here/shadow_device.inc}
text=$(mktemp)
trap 'rm -f "$text"' EXIT
"$nvcc" -ptx -O3 -arch=compute_75 -o "$text" "$here/shadow_device.cu"
awk '
BEGIN { print "/* Made by shadow_device.sh from shadow_device.cu: do not edit. clang-format off */"
        print "static const char shadow_ptx[] =" }
/^[[:space:]]*(\/\/.*)?$/ { next }
/^\.version/ { $0 = ".version 6.3" }
{ gsub(/[[:space:]]+/, " "); sub(/^ /, ""); gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "    \"%s\\n\"\n", $0 }
END { print "    \"\";" }' "$text" >"$output"
