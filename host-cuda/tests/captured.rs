//! Calls of cuBLAS on a stream that captures: products are left to the graph, with the factors of then; all else is refused.

mod common;

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use common::{NOT_SUPPORTED, Object, SUCCESS};

unsafe extern "C" {
    fn cudaStreamCreate(stream: *mut Object) -> c_int;
    fn cudaStreamBeginCapture(stream: Object, mode: c_int) -> c_int;
    fn cudaStreamEndCapture(stream: Object, graph: *mut Object) -> c_int;
    fn cudaGraphInstantiate(exec: *mut Object, graph: Object, flags: u64) -> c_int;
    fn cudaGraphLaunch(exec: Object, stream: Object) -> c_int;
    fn cublasCreate_v2(handle: *mut Object) -> c_int;
    fn cublasSetStream_v2(handle: Object, stream: Object) -> c_int;
    fn cublasSgemm_v2(
        h: Object, ta: c_int, tb: c_int, m: i32, n: i32, k: i32, alpha: *const f32, a: *const f32, lda: i32,
        b: *const f32, ldb: i32, beta: *const f32, c: *mut f32, ldc: i32,
    ) -> c_int;
    fn cublasSscal_v2(h: Object, n: i32, alpha: *const f32, x: *mut f32, incx: i32) -> c_int;
    fn curandCreateGenerator(generator: *mut Object, kind: c_int) -> c_int;
    fn curandSetStream(generator: Object, stream: Object) -> c_int;
    fn curandGenerate(generator: Object, output: *mut c_uint, count: usize) -> c_int;
}

#[test]
fn products_are_left_to_the_graph() {
    common::load();
    let (mut handle, mut stream, mut graph, mut exec): (Object, Object, Object, Object) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let (a, b) = ([1.0_f32, 2.0, 3.0, 4.0], [1.0_f32, 0.0, 0.0, 1.0]);
    let (mut alpha, beta, mut c, mut words) = (2.0_f32, 1.0_f32, [1.0_f32; 4], [7_u32; 4]);
    let mut generator: Object = null_mut::<c_void>();
    // SAFETY: what is read and written is there until the graph was launched.
    unsafe {
        assert_eq!(cublasCreate_v2(&mut handle), SUCCESS);
        assert_eq!(curandCreateGenerator(&mut generator, 100), 0);
        assert_eq!(cudaStreamCreate(&mut stream), 0);
        assert_eq!([cublasSetStream_v2(handle, stream), curandSetStream(generator, stream)], [0, 0]);
        let to = c.as_mut_ptr();
        assert_eq!(cudaStreamBeginCapture(stream, 0), 0);
        assert_eq!(
            cublasSgemm_v2(handle, 0, 0, 2, 2, 2, &alpha, a.as_ptr(), 2, b.as_ptr(), 2, &beta, to, 2),
            SUCCESS
        );
        assert_eq!(cublasSscal_v2(handle, 4, &alpha, to, 1), NOT_SUPPORTED);
        assert_ne!(curandGenerate(generator, words.as_mut_ptr(), 4), 0);
        assert_eq!(cudaStreamEndCapture(stream, &mut graph), 0);
        alpha = 100.0;
        assert_eq!(to.cast::<[f32; 4]>().read(), [1.0; 4]);
        assert_eq!(cudaGraphInstantiate(&mut exec, graph, 0), 0);
        assert_eq!([cudaGraphLaunch(exec, stream), cudaGraphLaunch(exec, stream)], [0, 0]);
        assert_eq!(to.cast::<[f32; 4]>().read(), [5.0, 9.0, 13.0, 17.0]);
        // Outside of a capture all is done at once.
        assert_eq!(cublasSscal_v2(handle, 4, &alpha, to, 1), SUCCESS);
        assert_eq!(to.cast::<[f32; 4]>().read(), [500.0, 900.0, 1300.0, 1700.0]);
    }
    assert_eq!(words, [7; 4]);
}
