#!/bin/sh
# The test of whole runs with all runtimes of bring.sh: BUILD_FOLDER, FOLDER for them, CUDA_ROOT, C compiler. The programs are
# made everywhere; running them needs a GPU.
set -e
folder=$(dirname "$0")
"$folder/bring.sh" "$2" "$4"
"$folder/make.sh" "$1" "$2" "$3" "$1/versions" "$4"
exec python3 "$folder/runs.py" "$1/versions" "$1" "$1/versions-results"
