//! `cargo bench --bench small_calls`: what a call costs when there is next to nothing to move.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::Instant;

use cudnn as _;

type Handle = *mut c_void;

unsafe extern "C" {
    fn cudnnCreate(handle: *mut Handle) -> c_int;
    fn cudnnDestroy(handle: Handle) -> c_int;
    fn cudnnCreateTensorDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnSetTensor4dDescriptor(
        desc: Handle,
        format: c_int,
        data_type: c_int,
        n: c_int,
        c: c_int,
        h: c_int,
        w: c_int,
    ) -> c_int;
    fn cudnnTransformTensor(
        handle: Handle,
        alpha: *const c_void,
        x_desc: Handle,
        x: *const c_void,
        beta: *const c_void,
        y_desc: Handle,
        y: *mut c_void,
    ) -> c_int;
}

const SUCCESS: c_int = 0;
const FLOAT: c_int = 0;
const NCHW: c_int = 0;
const NHWC: c_int = 1;

/// Calls per round, and rounds of which the best counts.
const CALLS: u32 = 20_000;
const ROUNDS: u32 = 50;

fn main() {
    let [mut handle, mut x_desc, mut y_desc] = [null_mut(), null_mut(), null_mut()];
    let (x, mut y) = (vec![1.0_f32; 64 * 20], vec![0.0_f32; 64 * 20]);
    let (one, zero) = (1.0_f32, 0.0_f32);
    let set = |desc, format| {
        // SAFETY: the descriptor is alive.
        let status = unsafe { cudnnSetTensor4dDescriptor(desc, format, FLOAT, 1, 64, 5, 4) };
        assert_eq!(status, SUCCESS);
    };
    // SAFETY: each pointer is to a live local variable.
    unsafe {
        cudnnCreate(&raw mut handle);
        cudnnCreateTensorDescriptor(&raw mut x_desc);
        cudnnCreateTensorDescriptor(&raw mut y_desc);
    }
    set(x_desc, NCHW);
    set(y_desc, NHWC);
    print("cudnnSetTensor4dDescriptor", || set(y_desc, NHWC));
    print("cudnnTransformTensor f32 nchw->nhwc 1x64x5x4", || {
        // SAFETY: both buffers hold what the descriptors say.
        let status = unsafe {
            cudnnTransformTensor(
                handle,
                (&raw const one).cast::<c_void>(),
                x_desc,
                x.as_ptr().cast(),
                (&raw const zero).cast(),
                y_desc,
                y.as_mut_ptr().cast(),
            )
        };
        assert_eq!(status, SUCCESS);
    });
    // SAFETY: as above.
    unsafe { cudnnDestroy(handle) };
}

fn print(name: &str, mut call: impl FnMut()) {
    let mut round = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    round();
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    println!("{name}: best {:.0} ns, median {:.0} ns", times[0], times[times.len() / 2]);
}
