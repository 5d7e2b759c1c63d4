//! Launching: where work goes, what a call leaves behind, and what it must not do.

use std::ffi::{c_int, c_void};
use std::{ptr, thread};

use crate::api::{self, BAD_PARAM, EXECUTION_FAILED_CUDART, NOT_SUPPORTED, Opaque, SUCCESS};
use crate::double::{self, Memory, Object, count};

/// A transpose of a FLOAT matrix: descriptors and expected bytes.
pub struct Transpose {
    x_desc: Opaque,
    y_desc: Opaque,
    pub x: Vec<u8>,
    pub want: Vec<u8>,
}

impl Transpose {
    pub fn new() -> Transpose {
        Transpose::of(7, 5)
    }

    pub fn of(rows: usize, columns: usize) -> Transpose {
        let x: Vec<f32> = (0..rows * columns).map(|i| i as f32 - 3.5).collect();
        let want = (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c)));
        let want: Vec<f32> = want.map(|(r, c)| x[r * columns + c]).collect();
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (r, c) = (rows as c_int, columns as c_int);
        Transpose {
            x_desc: api::describe(0, &[1, 1, r, c], &[r * c, r * c, c, 1]),
            y_desc: api::describe(0, &[1, 1, r, c], &[r * c, r * c, 1, r]),
            x: bytes(&x),
            want: bytes(&want),
        }
    }

    /// The call's status.
    pub fn call(&self, handle: Opaque, x: *const c_void, y: *mut c_void) -> c_int {
        let (alpha, beta) = (1.0f32, 0.0f32);
        let (alpha, beta) = ((&raw const alpha).cast(), (&raw const beta).cast());
        // SAFETY: factors and descriptors are what the call wants; the tests answer for the data
        // pointers, which nothing on the host follows.
        unsafe { api::cudnnTransformTensor(handle, alpha, self.x_desc, x, beta, self.y_desc, y) }
    }

    /// Memory of the host, which nobody writes.
    pub fn place(&self) -> *mut c_void {
        self.want.as_ptr().cast_mut().cast()
    }

    /// Whether the whole of it works, with memory of its own.
    pub fn works(&self, handle: Opaque) -> bool {
        let (x, y) = (Memory::new(&self.x), Memory::new(&vec![0xEE; self.want.len()]));
        let status = self.call(handle, x.pointer(), y.pointer());
        assert_eq!(status, SUCCESS, "{}", api::last_error());
        y.read() == self.want
    }
}

pub fn destroy(handle: Opaque) {
    // SAFETY: a handle of `api::create`.
    unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS, "{}", api::last_error()) };
}

pub fn current() -> Object {
    let mut context = ptr::null_mut();
    // SAFETY: a place for the result.
    unsafe { assert_eq!(double::cuCtxGetCurrent(&mut context), 0) };
    context
}

/// Makes no context current in this thread.
fn leave() {
    // SAFETY: NULL stands for none.
    unsafe { assert_eq!(double::cuCtxSetCurrent(ptr::null_mut()), 0) };
}

#[test]
fn auto_takes_the_cuda_core_where_a_device_answers() {
    double::run(&[], || {
        double::use_device(0);
        let before = current();
        let handle = api::create().expect("a handle");
        assert_eq!(
            count("cuMemAlloc_v2") + count("cuModuleLoadDataEx"),
            0,
            "creation takes no device memory"
        );
        let transpose = Transpose::new();
        for _ in 0..3 {
            assert!(transpose.works(handle));
        }
        assert_eq!(count("cuModuleLoadDataEx"), 1, "a kernel is loaded once per context");
        assert_eq!(count("cuLaunchKernel"), 3);
        assert_eq!(current(), before);
        destroy(handle);
    });
}

/// A call in its own context asks which one is current, and which one that is after all; then it
/// launches.
#[test]
fn a_call_in_its_own_context_pushes_nothing() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        // The first calls look at the memory that they are given.
        (0..8).for_each(|_| assert!(transpose.works(handle)));
        const CALLS: [&str; 5] = [
            "cuCtxGetCurrent",
            "cuCtxGetId",
            "cuCtxPushCurrent_v2",
            "cuPointerGetAttributes",
            "cuModuleLoadDataEx",
        ];
        let before = CALLS.map(count);
        (0..5).for_each(|_| assert!(transpose.works(handle)));
        let after = CALLS.map(count);
        let made: Vec<u32> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(made, [5, 5, 0, 0, 0]);
        destroy(handle);
    });
}

/// The library asks the driver by the names that it lists, and none of these allocates memory or
/// waits.
#[test]
fn no_entry_point_allocates_or_waits() {
    for symbol in cudnn::backend::cuda::symbols() {
        let is_one = ["Mem", "Sync", "Query", "Event"].iter().any(|part| symbol.contains(part));
        assert!(!is_one, "{symbol}");
    }
}

#[test]
fn threads_that_want_the_same_kernel_load_it_once() {
    double::run(&[("DRIVER_DOUBLE_SLOW_LOAD", "20")], || {
        double::use_device(0);
        let handle = api::create().expect("a handle").expose_provenance();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    double::use_device(0);
                    let handle = ptr::with_exposed_provenance_mut(handle);
                    assert!(Transpose::new().works(handle));
                });
            }
        });
        assert_eq!(count("cuModuleLoadDataEx"), 1);
        destroy(ptr::with_exposed_provenance_mut(handle));
    });
}

#[test]
fn a_call_queues_and_returns() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        let (x, y) = (Memory::new(&transpose.x), Memory::new(&vec![0xEE; transpose.want.len()]));
        let waits = || count("cuStreamSynchronize") + count("cuCtxSynchronize") + count("cuMemcpyDtoH_v2");
        let before = waits();
        assert_eq!(transpose.call(handle, x.pointer(), y.pointer()), SUCCESS);
        assert_eq!(waits(), before);
        destroy(handle);
        assert!(y.read() == transpose.want, "work goes on without its handle");
    });
}

#[test]
fn a_handle_without_context_takes_that_of_its_first_call() {
    double::run(&[], || {
        let handle = api::create().expect("a handle");
        assert_eq!(count("cuDevicePrimaryCtxRetain"), 0, "creation makes no context");
        double::use_device(1);
        assert!(Transpose::new().works(handle));
        destroy(handle);
    });
}

#[test]
fn a_program_without_any_context_gets_the_primary_one() {
    double::run(&[], || {
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        // The host's memory: there is a context then, and nothing is queued.
        assert_eq!(transpose.call(handle, transpose.x.as_ptr().cast(), transpose.place()), BAD_PARAM);
        assert_eq!(count("cuDevicePrimaryCtxRetain"), 1);
        assert!(current().is_null(), "the context is not left current");
        double::use_device(0);
        assert!(transpose.works(handle), "on the same device");
        leave();
        destroy(handle);
        assert_eq!(count("cuDevicePrimaryCtxRelease_v2"), 1);
    });
}

#[test]
fn handles_stay_on_their_devices_from_any_thread() {
    double::run(&[], || {
        double::use_device(0);
        let first = api::create().expect("a handle").expose_provenance();
        double::use_device(1);
        let second = api::create().expect("a handle").expose_provenance();
        let threads: Vec<_> = (0..8)
            .map(|i| {
                thread::spawn(move || {
                    let device = i % 2;
                    double::use_device(device);
                    let memory_before = current();
                    let handle = ptr::with_exposed_provenance_mut(if device == 0 { first } else { second });
                    let transpose = Transpose::new();
                    for _ in 0..10 {
                        assert!(transpose.works(handle));
                    }
                    // With the other device current, the handle still works on its own.
                    let (x, y) = (Memory::new(&transpose.x), Memory::new(&transpose.want));
                    double::use_device(1 - device);
                    assert_eq!(transpose.call(handle, x.pointer(), y.pointer()), SUCCESS);
                    double::use_device(device);
                    assert!(y.read() == transpose.want);
                    assert_eq!(current(), memory_before);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread fails");
        }
        assert_eq!(count("cuModuleLoadDataEx"), 2, "once per context");
        destroy(ptr::with_exposed_provenance_mut(first));
        destroy(ptr::with_exposed_provenance_mut(second));
    });
}

#[test]
fn work_goes_to_the_stream_and_can_be_captured() {
    captured(&[]);
}

#[test]
fn checked_work_can_be_captured() {
    captured(&[("CUDNN_SHIM_CHECK", "1")]);
}

fn captured(variables: &[(&str, &str)]) {
    double::run(variables, || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        let (x, y) = (Memory::new(&transpose.x), Memory::new(&vec![0xEE; transpose.want.len()]));
        let (mut stream, mut graph, mut instance) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: plain calls of the driver with places for their results; the stream lives until
        // it is destroyed.
        unsafe {
            assert_eq!(double::cuStreamCreate(&mut stream, 0), 0);
            assert_eq!(api::cudnnSetStream(handle, stream), SUCCESS);
            // The very first call, which loads its kernel, and asks for the memory if that is
            // checked, happens inside a capture of the strictest mode.
            assert_eq!(double::cuStreamBeginCapture_v2(stream, 0), 0);
            let status = transpose.call(handle, x.pointer(), y.pointer());
            assert_eq!(status, SUCCESS, "{}", api::last_error());
            assert_eq!(double::cuStreamEndCapture(stream, &mut graph), 0);
            assert!(y.read().iter().all(|byte| *byte == 0xEE), "captured work does not run");
            assert_eq!(double::cuGraphInstantiateWithFlags(&mut instance, graph, 0), 0);
            assert_eq!(double::cuGraphLaunch(instance, stream), 0);
            assert_eq!(double::cuStreamSynchronize(stream), 0);
            assert!(y.read() == transpose.want);
            // A call on the default stream would break a capture: it says so, and the next ones
            // work.
            assert_eq!(api::cudnnSetStream(handle, ptr::null_mut()), SUCCESS);
            assert_eq!(double::cuStreamBeginCapture_v2(stream, 0), 0);
            assert_eq!(transpose.call(handle, x.pointer(), y.pointer()), EXECUTION_FAILED_CUDART);
            assert!(api::last_error().contains("(906)"));
            assert_eq!(double::cuStreamEndCapture(stream, &mut graph), 901);
            assert!(transpose.works(handle));
            assert_eq!(double::cuStreamDestroy_v2(stream), 0);
        }
        destroy(handle);
    });
}

#[test]
fn overlap_is_refused_with_a_sentence() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        let memory = Memory::new(&transpose.x);
        assert_eq!(transpose.call(handle, memory.pointer(), memory.pointer()), NOT_SUPPORTED);
        let text = api::last_error();
        assert!(text.contains("x and y overlap"), "{text}");
        assert!(memory.read() == transpose.x, "nothing is written");
        destroy(handle);
    });
}

#[test]
fn a_reset_device_gets_its_kernels_again() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        assert!(transpose.works(handle));
        double::renew(0);
        assert!(transpose.works(handle), "the context is another one at the same address");
        assert_eq!(count("cuModuleLoadDataEx"), 2);
        destroy(handle);
    });
}

#[test]
fn what_was_taken_before_a_reset_is_not_given_back_after_it() {
    double::run(&[("DRIVER_DOUBLE_RESET", "forgets")], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        // The context that it holds goes.
        double::renew(0);
        destroy(handle);
        assert_eq!(
            count("cuDevicePrimaryCtxRelease_v2"),
            0,
            "the program holds the context that is there now"
        );
        double::use_device(0);
        let handle = api::create().expect("a handle");
        assert!(Transpose::new().works(handle));
        destroy(handle);
    });
}

#[test]
fn a_reset_device_may_call_its_context_invalid() {
    made_after_a_reset(&[("DRIVER_DOUBLE_GONE", "201")]);
}

#[test]
fn a_handle_is_made_between_a_reset_and_the_next_use_of_the_device() {
    made_after_a_reset(&[]);
}

fn made_after_a_reset(variables: &[(&str, &str)]) {
    double::run(variables, || {
        double::use_device(1);
        // SAFETY: a plain call of the driver.
        unsafe { assert_eq!(double::cuDevicePrimaryCtxReset_v2(1), 0) };
        let handle = api::create().expect("a handle, although the current context is none");
        double::renew(1);
        let transpose = Transpose::new();
        assert!(transpose.works(handle), "on the device that is current at the first call");
        destroy(handle);
    });
}

#[test]
fn what_earlier_work_left_is_reported() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        assert!(transpose.works(handle));
        // SAFETY: a call of the double without arguments that could be wrong.
        unsafe { double::driver_double_poison(700) };
        for _ in 0..2 {
            let address = transpose.x.as_ptr().cast();
            assert_eq!(transpose.call(handle, address, transpose.place()), EXECUTION_FAILED_CUDART);
            let text = api::last_error();
            assert!(text.contains(" returned CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{text}");
        }
        destroy(handle);
    });
}

#[test]
fn a_driver_that_shuts_down_is_survived() {
    double::run(&[], || {
        // Holds a primary context that it will not be able to give back.
        double::use_device(0);
        let bound = api::create().expect("a handle");
        let transpose = Transpose::new();
        assert!(transpose.works(bound));
        // SAFETY: no arguments.
        unsafe { double::driver_double_shut_down() };
        let address = transpose.x.as_ptr().cast();
        assert_eq!(transpose.call(bound, address, transpose.place()), EXECUTION_FAILED_CUDART);
        let text = api::last_error();
        assert!(text.contains("(4)"), "{text}");
        destroy(bound);
    });
}

/// Streams 0, 1 and 2, which the driver has anyway, and own ones of either kind, from two threads.
#[test]
fn every_stream() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle").expose_provenance();
        let work = move || {
            double::use_device(0);
            let (mut blocking, mut free) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: places for the results; the streams live until they are destroyed.
            unsafe {
                assert_eq!(double::cuStreamCreate(&mut blocking, 0), 0);
                assert_eq!(double::cuStreamCreate(&mut free, 1), 0);
                let named = [0, 1, 2].map(ptr::without_provenance_mut);
                for stream in named.into_iter().chain([blocking, free]) {
                    let handle = ptr::with_exposed_provenance_mut(handle);
                    assert_eq!(api::cudnnSetStream(handle, stream), SUCCESS);
                    let transpose = Transpose::new();
                    let (x, y) = (Memory::new(&transpose.x), Memory::new(&transpose.want));
                    assert_eq!(transpose.call(handle, x.pointer(), y.pointer()), SUCCESS);
                    assert_eq!(double::cuStreamSynchronize(stream), 0);
                    assert!(y.read() == transpose.want);
                }
                assert_eq!(
                    api::cudnnSetStream(ptr::with_exposed_provenance_mut(handle), ptr::null_mut()),
                    SUCCESS
                );
                assert_eq!(double::cuStreamDestroy_v2(blocking), 0);
                assert_eq!(double::cuStreamDestroy_v2(free), 0);
            }
        };
        work();
        thread::spawn(work).join().expect("the other thread");
        destroy(ptr::with_exposed_provenance_mut(handle));
    });
}

/// A cold first call inside a capture of each mode, with a capture of another thread beside it, and
/// the replay.
#[test]
fn first_calls_in_captures() {
    for mode in [0, 1, 2] {
        double::run(&[], || {
            double::use_device(0);
            let handle = api::create().expect("a handle");
            let transpose = Transpose::new();
            let (x, y) = (Memory::new(&transpose.x), Memory::new(&vec![0xEE; transpose.want.len()]));
            let (begun, done) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
            thread::scope(|scope| {
                scope.spawn(|| {
                    double::use_device(0);
                    let (mut stream, mut graph) = (ptr::null_mut(), ptr::null_mut());
                    // SAFETY: plain calls of the driver with places for their results.
                    unsafe {
                        assert_eq!(double::cuStreamCreate(&mut stream, 1), 0);
                        // One that only holds up its own thread.
                        assert_eq!(double::cuStreamBeginCapture_v2(stream, 1), 0);
                        begun.wait();
                        done.wait();
                        assert_eq!(double::cuStreamEndCapture(stream, &mut graph), 0);
                    }
                });
                let (mut stream, mut graph, mut instance) =
                    (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
                begun.wait();
                // SAFETY: as above.
                unsafe {
                    assert_eq!(double::cuStreamCreate(&mut stream, 1), 0);
                    assert_eq!(api::cudnnSetStream(handle, stream), SUCCESS);
                    assert_eq!(double::cuStreamBeginCapture_v2(stream, mode), 0);
                    let status = transpose.call(handle, x.pointer(), y.pointer());
                    assert_eq!(status, SUCCESS, "mode {mode}: {}", api::last_error());
                    assert_eq!(double::cuStreamEndCapture(stream, &mut graph), 0, "mode {mode}");
                    done.wait();
                    assert_eq!(double::cuGraphInstantiateWithFlags(&mut instance, graph, 0), 0);
                    assert_eq!(double::cuGraphLaunch(instance, stream), 0);
                    assert_eq!(double::cuStreamSynchronize(stream), 0);
                }
            });
            assert!(y.read() == transpose.want, "mode {mode}");
            destroy(handle);
        });
    }
}
