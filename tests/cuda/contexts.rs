//! Contexts that go: given back, destroyed, reset, and left behind in a forked child.

use std::{ptr, thread, time::Duration};

use cudnn::desc::{Format, ReduceDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::reduce::workspace_size;
use cudnn::ops::{ReducePlan, Scaling};

use crate::api::{self, BAD_PARAM, NOT_INITIALIZED, SUCCESS};
use crate::child;
use crate::complaints::check;
use crate::double::{self, Memory, Object, count};
use crate::launch::{Transpose, destroy};
use crate::tensors::format;

/// `CUDNN_STATUS_EXECUTION_FAILED`.
const EXECUTION_FAILED: i32 = 5000;

fn create_context(device: i32) -> Object {
    let mut context = ptr::null_mut();
    // SAFETY: a place for the result.
    unsafe { assert_eq!(double::cuCtxCreate_v2(&mut context, 0, device), 0) };
    context
}

#[test]
fn a_handle_holds_the_primary_context_that_it_is_made_in() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        assert_eq!(count("cuDevicePrimaryCtxRetain"), 2, "the program's and the handle's");
        // SAFETY: a plain call of the driver; the handle holds the context on.
        unsafe { assert_eq!(double::cuDevicePrimaryCtxRelease_v2(0), 0) };
        assert!(Transpose::new().works(handle));
        destroy(handle);
        assert_eq!(count("cuDevicePrimaryCtxRelease_v2"), 2);
    });
}

#[test]
fn a_context_that_its_last_holder_gave_back() {
    let output = child::start(&double::libraries(), &[], || {
        double::use_device(0);
        let context = crate::launch::current();
        // SAFETY: plain calls of the driver; the double keeps the object to recognise it.
        unsafe {
            assert_eq!(double::cuDevicePrimaryCtxRelease_v2(0), 0);
            assert_eq!(double::cuCtxPushCurrent_v2(context), 709);
        }
    });
    check(output, "a context is pushed that its last holder gave back");
}

#[test]
fn a_primary_context_that_is_given_back_too_often() {
    let output = child::start(&double::libraries(), &[], || {
        double::use_device(0);
        // SAFETY: plain calls of the driver.
        unsafe {
            assert_eq!(double::cuDevicePrimaryCtxRelease_v2(0), 0);
            assert_eq!(double::cuDevicePrimaryCtxRelease_v2(0), 201);
        }
    });
    check(output, "the primary context of device 0 is released more often than it is retained");
}

#[test]
fn a_handle_in_a_context_of_the_program_takes_no_primary_one() {
    double::run(&[], || {
        // SAFETY: 0 is the only flag.
        unsafe { assert_eq!(double::cuInit(0), 0) };
        let context = create_context(1);
        let handle = api::create().expect("a handle");
        assert!(Transpose::new().works(handle));
        assert_eq!(count("cuDevicePrimaryCtxRetain"), 0, "it would take memory of the device");
        // Also beside a primary context, which is another one then.
        double::use_device(1);
        // SAFETY: a context that is alive.
        unsafe { assert_eq!(double::cuCtxSetCurrent(context), 0) };
        let second = api::create().expect("a handle");
        assert_eq!(count("cuDevicePrimaryCtxRetain") - count("cuDevicePrimaryCtxRelease_v2"), 1);
        assert!(Transpose::new().works(second));
        destroy(second);
        destroy(handle);
        assert_eq!(count("cuDevicePrimaryCtxRetain") - count("cuDevicePrimaryCtxRelease_v2"), 1);
    });
}

/// What a program must not do: a handle whose context it destroyed.
#[test]
fn a_handle_whose_context_was_destroyed() {
    let output = child::start(&double::libraries(), &[], || {
        // SAFETY: 0 is the only flag.
        unsafe { assert_eq!(double::cuInit(0), 0) };
        let context = create_context(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        assert!(transpose.works(handle));
        // SAFETY: alive until now; the double keeps the object to recognise it.
        unsafe { assert_eq!(double::cuCtxDestroy_v2(context), 0) };
        double::use_device(0);
        let status = transpose.call(handle, transpose.x.as_ptr().cast(), transpose.place());
        assert_eq!(status, api::EXECUTION_FAILED_CUDART);
    });
    check(output, "a context is pushed that was created and destroyed");
}

/// Between a reset and the next use of the device there is no context, whatever the driver calls
/// that.
fn used_after_a_reset(variables: &[(&str, &str)], code: &str) {
    double::run(variables, || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        assert!(transpose.works(handle));
        // SAFETY: a plain call of the driver.
        unsafe { assert_eq!(double::cuDevicePrimaryCtxReset_v2(0), 0) };
        let status = transpose.call(handle, transpose.x.as_ptr().cast(), transpose.place());
        assert_eq!(status, api::EXECUTION_FAILED_CUDART);
        assert!(api::last_error().contains(code), "{}", api::last_error());
        double::renew(0);
        assert!(transpose.works(handle));
        destroy(handle);
    });
}

#[test]
fn a_context_that_is_destroyed_by_a_reset() {
    used_after_a_reset(&[], "CUDA_ERROR_CONTEXT_IS_DESTROYED (709)");
}

#[test]
fn a_context_that_is_invalid_after_a_reset() {
    used_after_a_reset(&[("DRIVER_DOUBLE_GONE", "201")], "CUDA_ERROR_INVALID_CONTEXT (201)");
}

/// Forks while another thread is in the midst of `busy`; the child's calls return, with a sentence,
/// and so do those of the parent.
fn fork_during(entry: &'static str, variables: &[(&str, &str)]) {
    double::run(variables, || {
        // A handle that is bound at its first call.
        // SAFETY: 0 is the only flag; NULL stands for no context.
        unsafe { assert_eq!(double::cuInit(0), 0) };
        let handle = api::create().expect("a handle").expose_provenance();
        double::use_device(0);
        let transpose = Transpose::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                double::use_device(0);
                assert!(Transpose::new().works(ptr::with_exposed_provenance_mut(handle)));
            });
            while count(entry) == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            // SAFETY: the child calls the library, and leaves without anybody's exit handlers. What
            // it prints shows if it fails; the alarm ends a child that waits for ever.
            unsafe {
                let child = libc::fork();
                assert!(child >= 0, "fork failed");
                if child == 0 {
                    libc::alarm(20);
                    let handle = ptr::with_exposed_provenance_mut(handle);
                    let status = transpose.call(handle, transpose.x.as_ptr().cast(), transpose.place());
                    let text = api::last_error();
                    let good = status == EXECUTION_FAILED && text.contains("was forked from the one");
                    let (created, reason) = api::create().expect_err("no core");
                    let refused = created == NOT_INITIALIZED && reason.contains("was forked from the one");
                    let destroyed = api::cudnnDestroy(handle) == SUCCESS;
                    if !(good && refused && destroyed) {
                        eprintln!("{status} {text}; {created} {reason}; {destroyed}");
                    }
                    libc::_exit(i32::from(!(good && refused && destroyed)));
                }
                let mut status = -1;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert_eq!(status, 0, "the child failed");
            }
        });
        assert!(Transpose::new().works(ptr::with_exposed_provenance_mut(handle)), "the parent goes on");
        destroy(ptr::with_exposed_provenance_mut(handle));
    });
}

#[test]
fn a_child_that_is_forked_during_a_load() {
    fork_during("loading", &[("DRIVER_DOUBLE_SLOW_LOAD", "700")]);
}

#[test]
fn a_child_that_is_forked_while_a_handle_is_bound() {
    fork_during("retaining", &[("DRIVER_DOUBLE_SLOW_RETAIN", "700")]);
}

/// A child without a driver must not wait for the thread of its parent that was starting it.
#[test]
fn a_child_that_is_forked_while_the_driver_starts() {
    double::run_untried(&[("DRIVER_DOUBLE_SLOW_START", "700")], || {
        thread::scope(|scope| {
            let parent = scope.spawn(|| api::create().expect("a handle").expose_provenance());
            while count("starting") == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            // SAFETY: as in `fork_during`.
            unsafe {
                let child = libc::fork();
                assert!(child >= 0, "fork failed");
                if child == 0 {
                    libc::alarm(20);
                    let (created, reason) = api::create().expect_err("no core");
                    let good = created == NOT_INITIALIZED && reason.contains("was forked from the one");
                    if !good {
                        eprintln!("{created} {reason}");
                    }
                    libc::_exit(i32::from(!good));
                }
                let mut status = -1;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert_eq!(status, 0, "the child failed");
            }
            let handle = parent.join().expect("a handle");
            destroy(ptr::with_exposed_provenance_mut(handle));
        });
        assert_eq!(count("starting"), 1);
    });
}

/// Faults of loading: what they mean is said, nothing is queued, and the next call loads again.
#[test]
fn kernels_that_cannot_be_loaded() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        let (x, y) = (Memory::new(&transpose.x), Memory::new(&vec![0xEE; transpose.want.len()]));
        for (code, name, advice) in [
            (218, "CUDA_ERROR_INVALID_PTX", "does not take a kernel"),
            (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "libnvidia-ptxjitcompiler.so.1"),
            (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is older than"),
            (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "CUDA_DISABLE_PTX_JIT"),
        ] {
            double::fail("cuModuleLoadDataEx", 0, code);
            let status = transpose.call(handle, x.pointer(), y.pointer());
            assert_eq!(status, api::EXECUTION_FAILED_CUDART);
            let text = api::last_error();
            assert!(text.contains(&format!("{name} ({code}): ")) && text.contains(advice), "{text}");
            assert!(y.read().iter().all(|byte| *byte == 0xEE), "nothing is written");
        }
        assert_eq!(count("cuLaunchKernel"), 0, "nothing is queued");
        assert!(transpose.works(handle));
        destroy(handle);
    });
}

/// Of a plan of several launches no kernel is queued before all of them are there.
#[test]
fn a_second_kernel_that_cannot_be_loaded() {
    double::run(&[], || {
        double::use_device(0);
        let cuda = Context::create().expect("a handle");
        let long = 1 << 20;
        let from = format(DataType::Float, Format::Nchw, &[1, 1, 1, long]);
        let to = format(DataType::Float, Format::Nchw, &[1, 1, 1, 1]);
        let rule = ReduceDescriptor::default();
        let plan =
            ReducePlan::new(&rule, &from.desc, &to.desc, Scaling::MOVE, Mode::Extended).expect("a plan");
        let workspace = Memory::new(&vec![0; workspace_size(&rule, &from.desc, &to.desc, Mode::Extended)]);
        let plan = plan.with_workspace(workspace.size);
        let (a, c) = (Memory::new(&1.0_f32.to_le_bytes().repeat(long as usize)), Memory::new(&[0xEE; 4]));
        let at = [c.pointer().into(), Address::NULL, a.pointer().into(), workspace.pointer().into()];
        // SAFETY: the memory holds what the descriptors span, and the workspace.
        let run = || unsafe { cuda.run(&plan, &at) };
        double::fail("cuModuleLoadDataEx", 1, 218);
        let error = run().expect_err("the second kernel is refused");
        assert!(error.to_string().contains("CUDA_ERROR_INVALID_PTX (218)"), "{error}");
        assert_eq!((count("cuModuleLoadDataEx"), count("cuLaunchKernel")), (2, 0), "nothing is queued");
        assert_eq!(c.read(), [0xEE; 4], "nothing is written");
        run().expect("both kernels are there");
        assert_eq!((count("cuModuleLoadDataEx"), count("cuLaunchKernel")), (3, 2));
        assert_eq!(c.read(), (long as f32).to_le_bytes());
    });
}

/// A thread whose load fails leaves the load to the thread that waits for it.
#[test]
fn a_slow_load_that_fails_is_tried_by_the_thread_that_waits() {
    double::run(&[("DRIVER_DOUBLE_SLOW_LOAD", "100")], || {
        double::use_device(0);
        let handle = api::create().expect("a handle").expose_provenance();
        double::fail("cuModuleLoadDataEx", 0, 222);
        let statuses = thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        double::use_device(0);
                        let transpose = Transpose::new();
                        let (x, y) = (Memory::new(&transpose.x), Memory::new(&transpose.want));
                        let handle = ptr::with_exposed_provenance_mut(handle);
                        transpose.call(handle, x.pointer(), y.pointer())
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread fails")).collect::<Vec<_>>()
        });
        let mut sorted = statuses.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [SUCCESS, api::EXECUTION_FAILED_CUDART]);
        assert_eq!(count("cuModuleLoadDataEx"), 2);
        destroy(ptr::with_exposed_provenance_mut(handle));
    });
}

#[test]
fn host_memory_is_refused_by_the_first_calls() {
    double::run(&[], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        let (x, y) = (Memory::new(&transpose.x), Memory::new(&vec![0xEE; transpose.want.len()]));
        let host = transpose.x.as_ptr();
        let value = host.addr();
        let mixed_up =
            [(host.cast(), y.pointer(), "x"), (x.pointer().cast_const(), host.cast_mut().cast(), "y")];
        // More often than calls are looked at: those that are refused do not count.
        for (x, y, argument) in [mixed_up; 5].concat() {
            assert_eq!(transpose.call(handle, x, y), BAD_PARAM);
            let text = api::last_error();
            assert!(text.contains(&format!("{argument} = {value}: ")), "{text}");
            assert!(
                text.contains(&format!("at {value:#x} is no memory that the CUDA driver knows")),
                "{text}"
            );
            assert!(text.contains("CUDNN_SHIM_BACKEND=cpu"), "{text}");
        }
        assert_eq!(count("cuLaunchKernel"), 0, "nothing is queued");
        assert!(y.read().iter().all(|byte| *byte == 0xEE), "nothing is written");
        // Later calls are not looked at; the driver double would end this process if that memory
        // was touched.
        let before = count("cuPointerGetAttributes");
        (0..8).for_each(|_| assert!(transpose.works(handle)));
        let asked = count("cuPointerGetAttributes");
        assert_eq!(asked - before, 2 * 8, "each of the first calls that pass is looked at");
        (0..4).for_each(|_| assert!(transpose.works(handle)));
        assert_eq!(count("cuPointerGetAttributes"), asked);
        destroy(handle);
    });
}

#[test]
fn host_memory_serves_where_the_device_reaches_it() {
    for check in ["0", "1"] {
        double::run(&[("DRIVER_DOUBLE_PAGEABLE", "1"), ("CUDNN_SHIM_CHECK", check)], || {
            double::use_device(0);
            let handle = api::create().expect("a handle");
            let transpose = Transpose::new();
            let (x, mut y) = (transpose.x.clone(), vec![0xEE_u8; transpose.want.len()]);
            assert_eq!(transpose.call(handle, x.as_ptr().cast(), y.as_mut_ptr().cast()), SUCCESS);
            // SAFETY: no arguments.
            unsafe { assert_eq!(double::cuCtxSynchronize(), 0) };
            assert!(y == transpose.want);
            destroy(handle);
        });
    }
}
