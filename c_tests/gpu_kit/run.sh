#!/bin/sh
# The first ten minutes with a GPU: answers, in this order, what could not be known without one. Needs a driver, no
# compiler and no toolkit.
#   run.sh [REPORT] [ORIGINAL]    the folder for the report (./report if not given), and one that holds the original
#                                 libcudnn.so.9, to be measured too
# After each step its output lies in REPORT/<number>-<name>.txt and one line on it in REPORT/summary.txt. A failure of
# step 2 or 3 ends the run: nothing that follows would mean anything.
set -u
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-report}" || exit 2
report=$(cd "${1:-report}" && pwd)
original=${2:-}
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# The test programs leave the driver double away.
export CUDNN_SHIM_TEST_DRIVER=real
failed=0
: >"$report/summary.txt"

say() {
    echo "$*" | tee -a "$report/summary.txt"
}

# step NUMBER NAME COMMAND...: runs a command with a cache of its own for assembled kernels.
step() {
    file=$report/$1-$2.txt
    name="$1 $2"
    shift 2
    cache=$(mktemp -d)
    echo "\$ $*" >>"$file"
    if CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$cache} "$@" >>"$file" 2>&1; then
        say "$name: passed"
        status=0
    else
        status=$?
        failed=1
        say "$name: FAILED ($status), see $(basename "$file")"
    fi
    rm -rf "$cache"
    return $status
}

skip() {
    say "$1 $2: skipped: $3"
}

# tests NUMBER NAME FILTER...: tests of both cores, on the real driver.
tests() {
    number=$1
    name=$2
    shift 2
    step "$number" "$name" "$here/bin/cuda" "$@" --test-threads=1 || return 1
    # A name that fits no test is no pass.
    if ! grep -q "^running [1-9]" "$report/$number-$name.txt"; then
        say "$number $name: FAILED: no test has such a name"
        failed=1
        return 1
    fi
}

step 01 device "$here/bin/probe" device
if command -v nvidia-smi >/dev/null; then step 01 device nvidia-smi -q -d CLOCK,MEMORY,PERFORMANCE; fi

kept=$(mktemp -d)
for loading in EAGER LAZY; do
    for cache in cold warm; do
        echo "# $loading, $cache" >>"$report/02-probe.txt"
        [ "$cache" = warm ] || rm -rf "$kept"
        CUDA_CACHE_PATH=$kept CUDA_MODULE_LOADING=$loading step 02 probe "$here/bin/probe" load "$here/ptx" || exit 1
    done
done
rm -rf "$kept"
step 02 probe "$here/bin/probe" reset || exit 1
step 02 probe "$here/bin/probe" memory || exit 1

# Both cores on one list of problems that needs every kernel; the result of each is fetched before the next, so that the
# first that goes wrong is named.
CUDNN_SHIM_CHECK=1 tests 03 smoke --exact cores::both_cores_leave_the_same_bits || exit 1

tests 04 bits cores:: large:: contract::
if "$here/bin/cuda" --list 2>/dev/null | grep -q '^narrow::'; then
    tests 05 narrow narrow:: --include-ignored
else
    skip 05 narrow "this kit has no such test"
fi

for program in "$here"/bin/c/*; do
    [ -f "$program" ] || continue
    if ldd "$program" 2>/dev/null | grep -q 'libcudart.*not found'; then
        skip 06 "programs ($(basename "$program"))" "there is no libcudart.so.12 in the loader's path"
    else
        CUDNN_SHIM_BACKEND=cuda CUDNN_SHIM_CHECK=1 step 06 programs "$program"
    fi
done

tests 07 capture work_can_be_captured work_goes_to_the_stream

if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
        step 08 sanitizer compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 1 \
            "$here/bin/cuda" --exact cores::both_cores_leave_the_same_bits --test-threads=1
    done
else
    skip 08 sanitizer "there is no compute-sanitizer"
fi

work=$(mktemp -d)
if [ -n "$original" ]; then
    LD_LIBRARY_PATH=$original:$LD_LIBRARY_PATH \
        step 09 benchmark "$here/bin/gpu_transform" "$here/problems.txt" --save "$work"
    CUDNN_SHIM_BACKEND=cuda step 09 benchmark "$here/bin/gpu_transform" "$here/problems.txt" --against "$work"
    LD_LIBRARY_PATH=$original:$LD_LIBRARY_PATH \
        step 09 convolutions "$here/bin/gpu_convolution" "$here/contractions.txt" --save "$work/convolutions"
    CUDNN_SHIM_BACKEND=cuda \
        step 09 convolutions "$here/bin/gpu_convolution" "$here/contractions.txt" --against "$work/convolutions"
else
    CUDNN_SHIM_BACKEND=cuda step 09 benchmark "$here/bin/gpu_transform" "$here/problems.txt" --save "$work"
    CUDNN_SHIM_BACKEND=cuda \
        step 09 convolutions "$here/bin/gpu_convolution" "$here/contractions.txt" --save "$work/convolutions"
fi
rm -rf "$work"

if command -v ncu >/dev/null; then
    CUDNN_SHIM_BACKEND=cuda step 10 profile ncu --set basic "$here/bin/gpu_transform" "$here/problems.txt" \
        --save "$(mktemp -d)" --repeats 1
else
    skip 10 profile "there is no ncu"
fi
exit $failed
