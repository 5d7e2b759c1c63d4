//! Calls that have no handle: the stream names the context, and each context has one core.

use std::ptr;

use crate::api::{self, BAD_PARAM, NOT_INITIALIZED, SUCCESS};
use crate::child;
use crate::complaints::check;
use crate::double::{self, Memory, Object, count};

/// Sequences of two channels, with two taps each, in memory of the context that is current.
struct Sequences {
    x: Memory,
    weight: Memory,
    bias: Memory,
    y: Memory,
}

impl Sequences {
    fn new() -> Self {
        let of = |numbers: &[f32]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            Memory::new(&bytes)
        };
        Sequences {
            x: of(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
            weight: of(&[10.0, 1.0, 100.0, 1.0]),
            bias: of(&[0.5, 0.25]),
            y: of(&[f32::NAN; 6]),
        }
    }

    fn call(&self, stream: Object) -> i32 {
        let [x, weight, bias, y] = [&self.x, &self.weight, &self.bias, &self.y].map(Memory::pointer);
        // SAFETY: memory of one sequence of two channels and three positions.
        unsafe { api::cudnnCausalConv1dForward(stream, x, weight, bias, y, 1, 2, 3, 2, 0, 0) }
    }

    /// What was computed, in the context that is current.
    fn is_right(&self) -> bool {
        let want: [f32; 6] = [1.5, 12.5, 24.5, 8.25, 816.25, 1632.25];
        self.y.read() == want.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()
    }
}

fn stream() -> Object {
    let mut stream = ptr::null_mut();
    // SAFETY: a place for the result.
    unsafe { assert_eq!(double::cuStreamCreate(&mut stream, 0), 0) };
    stream
}

#[test]
fn a_call_without_a_handle_works_in_the_context_of_its_stream() {
    double::run(&[], || {
        double::use_device(1);
        let (stream, far) = (stream(), Sequences::new());
        double::use_device(0);
        let near = Sequences::new();
        let before = crate::launch::current();
        assert_eq!(far.call(stream), SUCCESS, "{}", api::last_error());
        assert_eq!(near.call(ptr::null_mut()), SUCCESS, "{}", api::last_error());
        assert_eq!(crate::launch::current(), before);
        assert!(near.is_right());
        // Each context has its core by now.
        let held = count("cuDevicePrimaryCtxRetain");
        assert_eq!(near.call(ptr::null_mut()), SUCCESS);
        assert_eq!(far.call(stream), SUCCESS);
        assert_eq!(count("cuDevicePrimaryCtxRetain"), held);
        double::use_device(1);
        assert!(far.is_right());
    });
}

#[test]
fn a_call_without_a_handle_looks_at_its_memory() {
    double::run(&[], || {
        double::use_device(0);
        let sequences = Sequences::new();
        let host = [0.0_f32; 6];
        let [weight, bias, y] = [&sequences.weight, &sequences.bias, &sequences.y].map(Memory::pointer);
        let x = host.as_ptr().cast();
        // SAFETY: the device does not reach x, which is what the call has to find.
        let status =
            unsafe { api::cudnnCausalConv1dForward(ptr::null_mut(), x, weight, bias, y, 1, 2, 3, 2, 0, 0) };
        assert_eq!(status, BAD_PARAM, "{}", api::last_error());
        let x = sequences.x.pointer().wrapping_byte_add(2);
        // SAFETY: off the alignment of float, which is refused.
        let status =
            unsafe { api::cudnnCausalConv1dForward(ptr::null_mut(), x, weight, bias, y, 1, 2, 2, 2, 0, 0) };
        assert_eq!(status, BAD_PARAM, "{}", api::last_error());
    });
}

/// What a program must not do.
#[test]
fn a_call_on_a_stream_that_was_destroyed() {
    let output = child::start(&double::libraries(), &[], || {
        double::use_device(0);
        let (stream, sequences) = (stream(), Sequences::new());
        // SAFETY: alive until now; the double keeps the object to recognise it.
        unsafe { assert_eq!(double::cuStreamDestroy_v2(stream), 0) };
        assert_eq!(sequences.call(stream), NOT_INITIALIZED);
    });
    check(output, "the context of a stream is asked for that was destroyed");
}

/// Without a driver such calls work on host memory.
#[test]
fn without_a_device_a_call_without_a_handle_computes_on_the_host() {
    double::run_untried(&[("CUDNN_SHIM_BACKEND", "cpu")], || {
        let (x, weight, bias) = ([1.0_f32, 2.0, 4.0], [10.0_f32, 1.0], [0.5_f32]);
        let mut y = [f32::NAN; 3];
        // SAFETY: one sequence of one channel and three positions.
        let status = unsafe {
            api::cudnnCausalConv1dForward(
                ptr::null_mut(),
                x.as_ptr().cast(),
                weight.as_ptr().cast(),
                bias.as_ptr().cast(),
                y.as_mut_ptr().cast(),
                1,
                1,
                3,
                2,
                0,
                0,
            )
        };
        assert_eq!((status, y), (SUCCESS, [1.5, 12.5, 24.5]));
    });
}
