#!/bin/sh
# Times cudnnTransformTensor on the GPU of this machine: the original library first, then ours on the same inputs, with
# the results compared bit for bit.
#   run.sh ORIGINAL [OURS]     directories that hold a libcudnn.so.9 each; OURS is target/dist/lib if not given
# Needs a driver and a C compiler; about 2 GB of device memory and 8 GB below $TMPDIR.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
original=${1:?the directory of the original libcudnn.so.9}
ours=${2:-$root/target/dist/lib}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tests/library/header/cuda stands in for a toolkit's headers, so that none is needed.
"${CC:-cc}" -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -I"$root/include" -I"$root/tests/library/header/cuda" "$here/gpu_transform.c" \
    "$ours/libcudnn.so.9" -ldl -o "$work/gpu_transform"
mkdir "$work/results"
echo "# the original"
LD_LIBRARY_PATH=$original${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    "$work/gpu_transform" "$here/problems.txt" --save "$work/results"
echo "# ours"
CUDNN_SHIM_BACKEND=cuda LD_LIBRARY_PATH=$ours${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    "$work/gpu_transform" "$here/problems.txt" --against "$work/results"
