//! `cargo bench --bench beside`: what forwarding a call to the original costs. The original is a
//! library whose functions do nothing, so that the difference to calling it directly is ours.

use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;
use std::time::Instant;

use cudnn as _;

type Handle = *mut c_void;

unsafe extern "C" {
    fn cudnnCreate(handle: *mut Handle) -> c_int;
    fn cudnnCreateTensorDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnCreateFilterDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnCreateConvolutionDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnSetTensor4dDescriptor(
        desc: Handle, format: c_int, data_type: c_int, n: c_int, c: c_int, h: c_int, w: c_int,
    ) -> c_int;
    fn cudnnSetFilter4dDescriptor(
        desc: Handle, data_type: c_int, format: c_int, k: c_int, c: c_int, r: c_int, s: c_int,
    ) -> c_int;
    fn cudnnSetConvolution2dDescriptor(
        desc: Handle, pad_h: c_int, pad_w: c_int, u: c_int, v: c_int, dilation_h: c_int, dilation_w: c_int,
        mode: c_int, compute_type: c_int,
    ) -> c_int;
    fn cudnnSoftmaxForward(
        handle: Handle, algorithm: c_int, mode: c_int, alpha: *const f32, x_desc: Handle, x: *const f32,
        beta: *const f32, y_desc: Handle, y: *mut f32,
    ) -> c_int;
    fn cudnnConvolutionForward(
        handle: Handle, alpha: *const f32, x_desc: Handle, x: *const f32, w_desc: Handle, w: *const f32,
        convolution: Handle, algo: c_int, workspace: *mut c_void, bytes: usize, beta: *const f32,
        y_desc: Handle, y: *mut f32,
    ) -> c_int;
}

type Softmax = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    *const f32,
    Handle,
    *const f32,
    *const f32,
    Handle,
    *mut f32,
) -> c_int;
type Convolution = unsafe extern "C" fn(
    Handle,
    *const f32,
    Handle,
    *const f32,
    Handle,
    *const f32,
    Handle,
    c_int,
    *mut c_void,
    usize,
    *const f32,
    Handle,
    *mut f32,
) -> c_int;

/// A library with all symbols of the original, which do nothing.
fn nothing(folder: &Path) {
    let table =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/abi/symbols.tsv"));
    let mut source = String::new();
    for name in
        table.expect("the table of symbols").lines().skip(1).filter_map(|line| line.split('\t').next())
    {
        source += &match name {
            "cudnnGetVersion" => format!("unsigned long {name}(void) {{ return 92700; }}\n"),
            _ if name.starts_with("cudnnCreate") => {
                format!("int {name}(void **made) {{ *made = (void *)64; return 0; }}\n")
            }
            _ => format!("int {name}(void) {{ return 0; }}\n"),
        };
    }
    let file = folder.join("nothing.c");
    std::fs::write(&file, source).expect("writable");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O2", "-w"]).arg(&file).arg("-o").arg(folder.join("libcudnn.so.9"));
    assert!(gcc.status().expect("gcc starts").success());
}

/// Nanoseconds of a call, the best of several rounds.
fn best(mut call: impl FnMut() -> c_int) -> f64 {
    const CALLS: u32 = 200_000;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            assert_eq!(std::hint::black_box(call()), 0);
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..9).map(round).fold(f64::INFINITY, f64::min)
}

fn main() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-beside");
    std::fs::create_dir_all(&folder).expect("writable");
    nothing(&folder);
    let file = folder.join("libcudnn.so.9");
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("CUDNN_SHIM_BACKEND", "cpu");
        std::env::set_var("CUDNN_SHIM_ORIGINAL", &file);
        std::env::set_var("CUDNN_SHIM_ORIGINAL_HANDLES", "all");
    }
    let name = CString::new(file.to_str().expect("UTF-8")).expect("no zero");
    // SAFETY: functions of the types that they are given in the source above, or that ignore their
    // arguments; descriptors that are alive; no data is read, as nothing computes.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        let symbol = |name: &std::ffi::CStr| libc::dlsym(library, name.as_ptr());
        let softmax: Softmax = std::mem::transmute(symbol(c"cudnnSoftmaxForward"));
        let convolution: Convolution = std::mem::transmute(symbol(c"cudnnConvolutionForward"));
        let made = |create: unsafe extern "C" fn(*mut Handle) -> c_int| {
            let mut made = null_mut();
            assert_eq!(create(&raw mut made), 0);
            made
        };
        let (handle, x, y) =
            (made(cudnnCreate), made(cudnnCreateTensorDescriptor), made(cudnnCreateTensorDescriptor));
        let (filter, geometry) = (made(cudnnCreateFilterDescriptor), made(cudnnCreateConvolutionDescriptor));
        for desc in [x, y] {
            assert_eq!(cudnnSetTensor4dDescriptor(desc, 0, 0, 1, 1, 8, 8), 0);
        }
        assert_eq!(cudnnSetFilter4dDescriptor(filter, 0, 0, 1, 1, 1, 1), 0);
        assert_eq!(cudnnSetConvolution2dDescriptor(geometry, 0, 0, 1, 1, 1, 1, 1, 0), 0);
        let (one, zero, data) = (1.0_f32, 0.0_f32, [0.0_f32; 64].as_mut_ptr());
        let direct = [
            best(|| softmax(handle, 1, 0, &one, x, data, &zero, y, data)),
            best(|| {
                convolution(handle, &one, x, data, filter, data, geometry, 0, null_mut(), 0, &zero, y, data)
            }),
        ];
        let forwarded = [
            best(|| cudnnSoftmaxForward(handle, 1, 0, &one, x, data, &zero, y, data)),
            best(|| {
                cudnnConvolutionForward(
                    handle,
                    &one,
                    x,
                    data,
                    filter,
                    data,
                    geometry,
                    0,
                    null_mut(),
                    0,
                    &zero,
                    y,
                    data,
                )
            }),
        ];
        println!("{:<28}{:>12}{:>14}{:>12}", "call", "direct ns", "forwarded ns", "overhead");
        for (name, (direct, forwarded)) in
            ["cudnnSoftmaxForward", "cudnnConvolutionForward"].iter().zip(direct.iter().zip(forwarded))
        {
            println!("{name:<28}{direct:>12.1}{forwarded:>14.1}{:>12.1}", forwarded - direct);
        }
    }
}
