#!/bin/sh
# The first ten minutes with a GPU: answers, in this order, what could not be known without one. Needs a driver, no
# compiler and no toolkit.
#   run.sh [REPORT] [ORIGINAL]    the folder for the report (./report if not given), and one that holds the original
#                                 libcudnn.so.9, to be measured too
# After each step its output lies in REPORT/<number>-<name>.txt and one line on it in REPORT/summary.txt. A failure of
# step 2 or 3 ends the run: nothing that follows would mean anything.
# With KIT_QUICK=1 every step does little, to try the kit on a driver double.
set -u
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-report}" || exit 2
report=$(cd "${1:-report}" && pwd)
original=${2:-}
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# Every step has a cache of its own for assembled kernels, whatever the caller has.
unset CUDA_CACHE_PATH
# The test programs leave the driver double away.
export CUDNN_SHIM_TEST_DRIVER=real
failed=0
: >"$report/summary.txt"

smoke="cores::both_cores_leave_the_same_bits cores::both_cores_normalise_alike
    contract::contractions_agree_with_the_definition contract::contractions_agree_with_the_definition_on_tensor_cores"
bits="cores:: one_buffer:: large:: contract:: multistage:: filter_gradients:: arranged:: attend:: listed::"
sanitized=$smoke
transforms=
convolutions=
reductions=
layers=
worst=5
if [ -n "${KIT_QUICK:-}" ]; then
    smoke=one_buffer::in_place
    bits="one_buffer::disjoint_slices_of_one_buffer large::runs"
    sanitized=launch::a_call_queues_and_returns
    transforms="--shrink 64 --repeats 1 --flush 1 --spin 1 --only small"
    convolutions="--repeats 1 --flush 1 --spin 1 --batch 1 --only mobilenet-dw-960/forward/f32"
    reductions="--repeats 1 --flush 1 --spin 1 --elements 20000"
    layers="--repeats 1 --flush 1 --spin 1 --batch 1 --only f16/nchw"
    worst=2
else
    export CUDNN_SHIM_TEST_FULL=1
fi

say() {
    echo "$*" | tee -a "$report/summary.txt"
}

# What a step that has passed left out, of the lines that it said so in.
skips() {
    tail -n "+$2" "$1" | grep -c '^\(test .* \.\.\. \)\{0,1\}skipped: '
}

# step NUMBER NAME COMMAND...: runs a command with a cache of its own for assembled kernels, or with that in $kept.
kept=
step() {
    file=$report/$1-$2.txt
    title="$1 $2"
    shift 2
    cache=$(mktemp -d)
    echo "\$ $*" >>"$file"
    before=$(wc -l <"$file")
    if CUDA_CACHE_PATH=${kept:-$cache} "$@" >>"$file" 2>&1; then
        skipped=$(skips "$file" "$before")
        if [ "$skipped" = 0 ]; then say "$title: passed"; else say "$title: passed, $skipped skipped"; fi
        status=0
    else
        status=$?
        failed=1
        say "$title: FAILED ($status), see $(basename "$file")"
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
    # Of what passes, too, it is said what was skipped.
    step "$number" "$name" "$here/bin/cuda" "$@" --test-threads=1 --show-output || return 1
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
        step 02 probe env CUDA_MODULE_LOADING=$loading "$here/bin/probe" load "$here/ptx" || exit 1
    done
done
rm -rf "$kept"
kept=
step 02 probe "$here/bin/probe" reset || exit 1
step 02 probe "$here/bin/probe" memory || exit 1

# Both cores on lists of problems that need every kernel that the device can have. Bytes that nobody may write surround every operand; the result of
# each is fetched before the next, so that the first that goes wrong is named.
export CUDNN_SHIM_TEST_CANARIES=1
CUDNN_SHIM_CHECK=1 tests 03 smoke --exact $smoke --nocapture || exit 1
unset CUDNN_SHIM_TEST_CANARIES

tests 04 bits $bits
tests 05 narrow narrow::

for program in "$here"/bin/c/*; do
    [ -f "$program" ] || continue
    if ldd "$program" 2>/dev/null | grep -q 'libcudart.*not found'; then
        skip 06 "programs ($(basename "$program"))" "there is no libcudart.so.12 in the loader's path"
    else
        CUDNN_SHIM_BACKEND=cuda CUDNN_SHIM_CHECK=1 step 06 programs "$program"
    fi
done
# Streams 0, 1 and 2, blocking and not, from this thread and from others.
tests 06 streams launch::every_stream

tests 07 capture launch::work_goes_to_the_stream_and_can_be_captured launch::first_calls_in_captures

if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
        step 08 sanitizer compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 1 \
            "$here/bin/cuda" --exact $sanitized --test-threads=1 --show-output
    done
else
    skip 08 sanitizer "there is no compute-sanitizer"
fi

# bench NUMBER NAME LIBRARY PROGRAM ARGUMENTS...: a benchmark with the library that lies in a folder.
bench() {
    number=$1
    name=$2
    library=$3
    shift 3
    CUDNN_SHIM_BACKEND=cuda LD_LIBRARY_PATH=$library:$LD_LIBRARY_PATH step "$number" "$name" "$@"
}
work=$(mktemp -d)
mkdir "$work/theirs" "$work/ours"
if [ -n "$original" ]; then
    against="--against $work/theirs"
    bench 09 transforms "$original" "$here/bin/gpu_transform" "$here/problems.txt" --save "$work/theirs" $transforms
    bench 09 reductions "$original" "$here/bin/gpu_reduce" --save "$work/theirs/reductions" $reductions
    bench 09 layers "$original" "$here/bin/gpu_layers" --save "$work/theirs/layers" $layers
    bench 09 convolutions "$original" "$here/bin/gpu_convolution" "$here/contractions.txt" \
        --save "$work/theirs/convolutions" $convolutions
else
    against="--save $work/ours"
fi
bench 09 transforms "$here/lib" "$here/bin/gpu_transform" "$here/problems.txt" $against $transforms
bench 09 reductions "$here/lib" "$here/bin/gpu_reduce" $against/reductions $reductions
bench 09 layers "$here/lib" "$here/bin/gpu_layers" $against/layers $layers
bench 09 convolutions "$here/lib" "$here/bin/gpu_convolution" "$here/contractions.txt" $against/convolutions $convolutions
tests 09 steps timed:: --nocapture
# What was expected of these rows before any device was at hand.
[ ! -f "$here/estimates.txt" ] || cp "$here/estimates.txt" "$report/09-estimates.txt"

# The rows that are furthest from a copy. The last table of a file is ours.
if command -v ncu >/dev/null; then
    awk '/^# problem/ { n = 0 } /^[^#$]/ && NF >= 8 { row[n] = $1; share[n++] = $5 }
        END { for (i = 0; i < n; i++) print share[i], row[i] }' "$report/09-transforms.txt" |
        sort -n | head -n $worst | while read -r share row; do
        bench 10 profile "$here/lib" ncu --set basic --launch-count 3 "$here/bin/gpu_transform" "$here/problems.txt" \
            $transforms --only "$row" --repeats 1 --save "$work/ours"
    done
    [ -f "$report/10-profile.txt" ] || say "10 profile: FAILED: there are no rows to profile"
else
    skip 10 profile "there is no ncu"
fi
rm -rf "$work"
if grep -q FAILED "$report/summary.txt"; then exit 1; fi
exit $failed
