#!/bin/sh
# The test of frameworks on the GPU in software: cuda.core, the one that needs nothing but the driver. Its wheels (30 MB) are
# brought into PYTHON_FOLDER, once. Exit status 77, with the reason, where they cannot be had.
#
#   tests/frameworks/software.sh BUILD_FOLDER PYTHON_FOLDER CUDA_ROOT
set -u
python=$2/$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') || exit
if [ ! -d "$python" ]; then
    part=$(mktemp -d -p "$(dirname "$2")")
    python3 -m pip install -q --no-deps --only-binary :all: --root-user-action=ignore --target "$part" numpy \
        cuda-core==1.2.2 cuda-bindings==13.5.0 cuda-pathfinder==1.9.1 || {
        rm -rf "$part"
        echo "skipped: the wheels of cuda.core cannot be had"
        exit 77
    }
    mkdir -p "$2" && mv "$part" "$python" || exit
fi
PYTHONPATH=$python LD_LIBRARY_PATH=$3/lib64:$3/lib:${LD_LIBRARY_PATH:-} \
    exec python3 "$(dirname "$0")/run.py" --software "$1/softgpu" "$1" "$1/frameworks"
