#!/bin/sh
# Builds the driver double and its companion into a directory: libcuda.so.1 and libcudart.so.12.
#   build.sh OUT [SOURCE.cu PTX]
# The kernels are the library's own unless others are named: every entry of a PTX has to be in the source of that name.
# With CUDNN_SHIM_DOUBLE=ptx there are no sources in it, and the double executes the texts that it is given.
# Only what is older than its sources is compiled. What all doubles have, all but the kernels, is compiled into
# driver_double_objects beside OUT, once for doubles that lie beside each other. Needs g++ (CXX chooses another).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cuda=$here/../../src/backend/cuda
mkdir -p "$1"
out=$(cd "$1" && pwd)
cxx=${CXX:-g++}

if ! command -v "$cxx" >/dev/null; then
    echo "$cxx is missing, the driver double needs it; install it: apt-get install g++" >&2
    exit 1
fi
# One at a time: tests of several programs may want it at once.
exec 9>"$out/lock"
if command -v flock >/dev/null; then flock 9; fi

flags="-std=c++17 -O1 -g1 -fPIC -fno-strict-aliasing -fno-exceptions -fno-rtti -fvisibility=hidden -ffp-contract=off"
# Fused multiply-adds by an instruction where the processor has it, which leaves the bits of the function.
if grep -qw fma /proc/cpuinfo 2>/dev/null; then flags="$flags -mfma"; fi
warn="-Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function"

# is_newer TARGET SOURCE...: whether the target is there and no source is newer.
is_newer() {
    [ -f "$1" ] && [ -z "$(find "$@" -type f -newer "$1")" ]
}

# family NAME SOURCE PTX: the kernels of one source. Each lives in a namespace of its own, so that what two families call
# the same stays apart, as it is on a device.
family() {
    if ! is_newer "$out/$1.o" "$here/cuda_emu.h" "$here/build.sh" "$cuda/kernels"/*.cuh "$2" "$3"; then
        {
            echo "namespace {"
            echo "#include \"$2\""
            sed -n 's/^.*\.entry \([A-Za-z0-9_]*\).*$/EMU_REGISTER(\1)/p' "$3"
            echo "}"
        } >"$out/$1.cpp"
        # The sanitizers' calls are answered by access.cpp. Kernels are left by a jump, not by returning.
        $cxx $flags $warn -fsanitize=thread,alignment,shift-exponent -I"$here" -I"$cuda/kernels" -include "$here/cuda_emu.h" \
            -c "$out/$1.cpp" -o "$out/$1.part"
        mv "$out/$1.part" "$out/$1.o"
    fi
    objects="$objects $out/$1.o"
}

objects=
runs=${CUDNN_SHIM_DOUBLE:-source}
if [ "$runs" = ptx ]; then
    :
elif [ $# -gt 1 ]; then
    family "$(basename "$2" .cu)" "$2" "$3"
else
    # Two at a time.
    (
        odd=
        for source in "$cuda"/kernels/*.cu; do
            name=$(basename "$source" .cu)
            if [ -z "$odd" ]; then
                family "$name" "$source" "$cuda/ptx/$name.ptx" &
                odd=$!
            else
                family "$name" "$source" "$cuda/ptx/$name.ptx"
                wait "$odd"
                odd=
            fi
        done
        if [ -n "$odd" ]; then wait "$odd"; fi
    )
    for source in "$cuda"/kernels/*.cu; do objects="$objects $out/$(basename "$source" .cu).o"; done
fi
common=$(dirname "$out")/driver_double_objects
mkdir -p "$common"
exec 8>"$common/lock"
if command -v flock >/dev/null; then flock 8; fi

# part NAME SOURCE FLAG...: a part of the double itself.
part() {
    object=$common/$1.o
    source=$2
    shift 2
    if ! is_newer "$object" "$here"/*.h "$here/ptx"/*.h "$here/build.sh" "$source"; then
        $cxx $flags -O2 "$@" $warn -I"$here" -c "$source" -o "$object.part"
        mv "$object.part" "$object"
    fi
}

for name in state memory access traffic grid matrix copies driver kinds launch machine cudart; do
    part "$name" "$here/$name.cpp" -DDRIVER_DOUBLE_TEXTS="\"$(cd "$cuda/ptx" && pwd)\""
    [ "$name" = cudart ] || objects="$objects $common/$name.o"
done
for name in text instructions decode forms memory together issue run; do
    part "ptx_$name" "$here/ptx/$name.cpp" -fexceptions
    objects="$objects $common/ptx_$name.o"
done
exec 8>&-

# What is linked says what it runs, for objects of the other way may lie there, too.
if [ "$(cat "$out/runs" 2>/dev/null)" != "$runs" ] || ! is_newer "$out/libcudart.so.12" $objects "$common/cudart.o"; then
    $cxx -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs $objects -o "$out/libcuda.part"
    mv "$out/libcuda.part" "$out/libcuda.so.1"
    $cxx -shared -Wl,-soname,libcudart.so.12 -Wl,-z,defs "$common/cudart.o" "$out/libcuda.so.1" -o "$out/libcudart.part"
    mv "$out/libcudart.part" "$out/libcudart.so.12"
    ln -sf libcudart.so.12 "$out/libcudart.so"
    echo "$runs" >"$out/runs"
fi
