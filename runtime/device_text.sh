#!/bin/sh
# Makes the PTX that the library and the worker carry for the GPU, an .inc file, from its .cu file beside it. Run it after a
# change there or in what it includes, with a CUDA toolkit of version 13.0 (others give other text; tests/style.sh compares):
#
#   runtime/device_text.sh app/shadow | tune/walk | code/instrument [NVCC] [OUTPUT]
set -eu
here=$(dirname "$0")
base=${1:?app/shadow, tune/walk or code/instrument}_device
nvcc=${2:-nvcc}
output=${3:-$here/$base.inc}
name=$(basename "$1")
case $name in
walk) options=-fmad=false ;; # the host does not fuse them either
instrument) options=-rdc=true ;;
*) options= ;;
esac
text=$(mktemp)
trap 'rm -f "$text"' EXIT
"$nvcc" -ptx -O3 -arch=compute_75 $options -I "$here" -o "$text" "$here/$base.cu"
# What instrumented kernels call is put into their own text: functions from the first constant on, in two parts, of which
# the second is for races only. The others are modules. The compiler names static functions by a number of its own.
awk -v name="$name" -v file="$(basename "$base")" '
function open_text(what) { printf "static const char %s_%s[] =\n", name, what; opened = 1 }
BEGIN { printf "/* Made by device_text.sh from %s.cu: do not edit. clang-format off */\n", file
        part = name == "instrument" ? "base" : "ptx"; body = part == "ptx" }
/^\.visible \.const/ { body = 1 }
!body || /^[[:space:]]*(\/\/.*)?$/ { next }
part == "base" && /kgi_published\(/ && /func/ { print "    \"\";"; opened = 0; part = "races" }
!opened { open_text(part) }
part == "ptx" && /^\.version/ { $0 = ".version 6.3" }
part != "ptx" { sub(/^\.visible \.func/, ".func") }
{ gsub(/_INTERNAL_[0-9a-f]+_/, "_INTERNAL_0_"); gsub(/[[:space:]]+/, " "); sub(/^ /, ""); gsub(/\\/, "\\\\"); gsub(/"/, "\\\"")
  printf "    \"%s\\n\"\n", $0 }
END { print "    \"\";" }' "$text" >"$output"
