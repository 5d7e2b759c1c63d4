#!/bin/sh
# Builds the driver double and its companion into a directory: libcuda.so.1 and libcudart.so.12.
#   build.sh OUT [SOURCE.cu PTX]
# The kernels are the library's own unless others are named, and every entry of the PTX has to be among them.
# Nothing is done if both are newer than all sources. Needs g++ (CXX chooses another).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cuda=$here/../../src/backend/cuda
mkdir -p "$1"
out=$(cd "$1" && pwd)
source=${2:-$cuda/kernels/transform.cu}
ptx=${3:-$cuda/ptx/transform.ptx}
cxx=${CXX:-g++}

if ! command -v "$cxx" >/dev/null; then
    echo "$cxx is missing, the driver double needs it; install it: apt-get install g++" >&2
    exit 1
fi
if [ -f "$out/libcudart.so.12" ] &&
    [ -z "$(find "$here" "$cuda/kernels" "$source" "$ptx" -type f -newer "$out/libcudart.so.12")" ]; then
    exit 0
fi

work=$(mktemp -d "$out/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
{
    echo "#include \"$source\""
    sed -n 's/^.*\.entry \([A-Za-z0-9_]*\).*$/EMU_REGISTER(\1)/p' "$ptx"
} >"$work/kernels.cpp"

flags="-std=c++17 -O1 -g1 -fPIC -fno-strict-aliasing -fno-exceptions -fno-rtti -fvisibility=hidden -ffp-contract=off"
warn="-Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function"
# The sanitizer's calls are answered by access.cpp. Kernels are left by a jump, not by returning.
$cxx $flags $warn -fsanitize=thread -I"$here" -include "$here/cuda_emu.h" -c "$work/kernels.cpp" -o "$work/kernels.o" &
kernels=$!
for part in state memory access grid driver launch; do
    $cxx $flags $warn -I"$here" -c "$here/$part.cpp" -o "$work/$part.o"
done
wait $kernels
$cxx -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs "$work"/*.o -o "$work/libcuda.so.1"
$cxx $flags $warn -I"$here" -c "$here/cudart.cpp" -o "$work/cudart.o"
$cxx -shared -Wl,-soname,libcudart.so.12 -Wl,-z,defs "$work/cudart.o" "$work/libcuda.so.1" -o "$work/libcudart.so.12"
mv "$work/libcuda.so.1" "$out/libcuda.so.1"
mv "$work/libcudart.so.12" "$out/libcudart.so.12"
ln -sf libcudart.so.12 "$out/libcudart.so"
