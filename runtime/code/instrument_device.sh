#!/bin/sh
# Makes instrument_device.inc, the PTX that instrumented kernels call, from instrument_device.cu. Run it after a change there,
# with a CUDA toolkit of version 13.0 (others give other text): runtime/code/instrument_device.sh [NVCC] [OUTPUT]
set -eu
here=$(dirname "$0")
nvcc=${1:-nvcc}
output=${2:-$here/instrument_device.inc}
text=$(mktemp)
trap 'rm -f "$text"' EXIT
"$nvcc" -rdc=true -ptx -O3 -arch=compute_75 -o "$text" "$here/instrument_device.cu"
awk '
BEGIN { print "/* Made by instrument_device.sh from instrument_device.cu: do not edit. clang-format off */"; name = "base" }
function open_text(what) { printf "static const char instrument_%s[] =\n", what; opened = 1 }
/^\.visible \.const/ { body = 1 }
!body || /^[[:space:]]*(\/\/.*)?$/ { next }
/kgi_published\(/ && name == "base" && /func/ { print "    \"\";"; opened = 0; name = "races" }
!opened { open_text(name) }
{ sub(/^\.visible \.func/, ".func"); gsub(/[[:space:]]+/, " "); sub(/^ /, ""); gsub(/\\/, "\\\\"); gsub(/"/, "\\\"")
  printf "    \"%s\\n\"\n", $0 }
END { print "    \"\";" }' "$text" >"$output"
