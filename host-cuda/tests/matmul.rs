//! cuBLASLt: products in both orders with every epilogue, against the definition; attributes,
//! algorithms, and what is refused.

mod common;

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use common::{Array, INVALID_VALUE, Kind, NOT_INITIALIZED, NOT_SUPPORTED, Object, Rng, SUCCESS};

type Data = *const c_void;

unsafe extern "C" {
    fn cublasLtCreate(handle: *mut Object) -> c_int;
    fn cublasLtDestroy(handle: Object) -> c_int;
    fn cublasLtMatmulDescCreate(desc: *mut Object, compute: c_int, scale: c_int) -> c_int;
    fn cublasLtMatmulDescDestroy(desc: Object) -> c_int;
    fn cublasLtMatmulDescSetAttribute(desc: Object, attribute: c_int, buffer: Data, size: usize) -> c_int;
    fn cublasLtMatmulDescGetAttribute(
        desc: Object, attribute: c_int, buffer: *mut c_void, size: usize, written: *mut usize,
    ) -> c_int;
    fn cublasLtMatrixLayoutCreate(desc: *mut Object, kind: c_int, rows: u64, cols: u64, ld: i64) -> c_int;
    fn cublasLtMatrixLayoutDestroy(desc: Object) -> c_int;
    fn cublasLtMatrixLayoutSetAttribute(desc: Object, attribute: c_int, buffer: Data, size: usize) -> c_int;
    fn cublasLtMatmulPreferenceCreate(desc: *mut Object) -> c_int;
    fn cublasLtMatmulPreferenceDestroy(desc: Object) -> c_int;
    fn cublasLtMatmulAlgoGetHeuristic(
        h: Object, desc: Object, a: Object, b: Object, c: Object, d: Object, preference: Object,
        requested: c_int, results: *mut Heuristic, returned: *mut c_int,
    ) -> c_int;
    fn cublasLtMatmul(
        h: Object, desc: Object, alpha: Data, a: Data, ad: Object, b: Data, bd: Object, beta: Data, c: Data,
        cd: Object, d: *mut c_void, dd: Object, algorithm: *const u64, workspace: *mut c_void, size: usize,
        stream: Object,
    ) -> c_int;
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

const ORDER: c_int = 1;
const BATCH_COUNT: c_int = 5;
const BATCH_OFFSET: c_int = 6;
const TRANSA: c_int = 3;
const TRANSB: c_int = 4;
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;
const BIAS_DATA_TYPE: c_int = 26;

fn handle() -> Object {
    common::load();
    let mut handle = null_mut();
    // SAFETY: a place for the result.
    assert_eq!(unsafe { cublasLtCreate(&mut handle) }, SUCCESS);
    handle
}

/// A matrix in one order, part of a batch.
#[derive(Clone, Copy)]
struct Layout {
    rows: usize,
    columns: usize,
    by_rows: bool,
    gap: usize,
    count: usize,
    desc: Object,
}

impl Layout {
    fn new(kind: Kind, [rows, columns]: [usize; 2], by_rows: bool, gap: usize, count: usize) -> Self {
        let mut layout = Layout { rows, columns, by_rows, gap, count, desc: null_mut() };
        let (order, batch, apart) = (c_int::from(by_rows), count as i32, layout.apart() as i64);
        // SAFETY: places for results, and values of their sizes.
        unsafe {
            let status = cublasLtMatrixLayoutCreate(
                &mut layout.desc,
                kind as c_int,
                rows as u64,
                columns as u64,
                layout.leading() as i64,
            );
            assert_eq!(status, SUCCESS);
            let set = |attribute, value: Data, size| {
                assert_eq!(cublasLtMatrixLayoutSetAttribute(layout.desc, attribute, value, size), SUCCESS);
            };
            set(ORDER, (&raw const order).cast(), 4);
            set(BATCH_COUNT, (&raw const batch).cast(), 4);
            set(BATCH_OFFSET, (&raw const apart).cast(), 8);
        }
        layout
    }

    fn leading(&self) -> usize {
        self.gap + if self.by_rows { self.columns } else { self.rows }
    }

    fn apart(&self) -> usize {
        self.leading() * if self.by_rows { self.rows } else { self.columns }
    }

    fn place(&self, batch: usize, row: usize, column: usize) -> usize {
        batch * self.apart()
            + if self.by_rows { row * self.leading() + column } else { column * self.leading() + row }
    }

    fn array(&self, kind: Kind, rng: &mut Rng) -> Array {
        let mut array = Array::poison(kind, self.apart() * self.count);
        for batch in 0..self.count {
            for row in 0..self.rows {
                (0..self.columns).for_each(|column| array.set(self.place(batch, row, column), rng.small()));
            }
        }
        array
    }
}

fn set(desc: Object, attribute: c_int, value: c_int) {
    // SAFETY: a value of four bytes.
    let status = unsafe { cublasLtMatmulDescSetAttribute(desc, attribute, (&raw const value).cast(), 4) };
    assert_eq!(status, SUCCESS);
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// Types of A and B, of C and D, of the factors, and the computation.
const TYPES: [(Kind, Kind, Kind, c_int); 5] = [
    (Kind::F32, Kind::F32, Kind::F32, 68),
    (Kind::F64, Kind::F64, Kind::F64, 70),
    (Kind::F16, Kind::F16, Kind::F32, 68),
    (Kind::Bf16, Kind::F32, Kind::F32, 68),
    (Kind::I8, Kind::I32, Kind::I32, 72),
];

#[test]
fn products_with_epilogues_are_what_they_are_defined_to_be() {
    let (handle, mut rng) = (handle(), Rng(9));
    for case in 0..240 {
        let (of_factors, of_d, scalars, compute) = TYPES[case % TYPES.len()];
        let integers = of_d == Kind::I32;
        let [m, n, k] = [0, 1, 2].map(|_| 1 + rng.below(20));
        let (ta, tb, count) = (rng.below(2), rng.below(2), 1 + rng.below(2));
        let epilogue = if integers { 1 } else { [1, 2, 4, 6, 32, 36][case / TYPES.len() % 6] };
        let [alpha, beta] = [rng.pick(&[1.0, 2.0]), rng.pick(&[0.0, 1.0, 2.0])];
        let turned = |dims: [usize; 2], turn: usize| if turn == 1 { [dims[1], dims[0]] } else { dims };
        let mut layout = |kind, dims| Layout::new(kind, dims, rng.below(2) == 1, rng.below(3), count);
        let of_a = layout(of_factors, turned([m, k], ta));
        let of_b = layout(of_factors, turned([k, n], tb));
        let (of_c, apart) = (layout(of_d, [m, n]), layout(of_d, [m, n]));
        let in_place = case % 3 == 0;
        let of_result = if in_place { of_c } else { apart };
        let (a, b) = (of_a.array(of_factors, &mut rng), of_b.array(of_factors, &mut rng));
        let c = of_c.array(of_d, &mut rng);
        let mut d = if in_place { c.clone() } else { Array::poison(of_d, of_result.apart() * count) };
        let of_bias = if case % 4 == 0 { Kind::F32 } else { of_d };
        let bias = Array::random(of_bias, m, &mut rng);
        let mut desc = null_mut();
        // SAFETY: a place for the result; a pointer is a value of eight bytes.
        unsafe {
            assert_eq!(cublasLtMatmulDescCreate(&mut desc, compute, scalars as c_int), SUCCESS);
            let address = bias.ptr();
            assert_eq!(
                cublasLtMatmulDescSetAttribute(desc, BIAS_POINTER, (&raw const address).cast(), 8),
                SUCCESS
            );
        }
        set(desc, TRANSA, ta as c_int);
        set(desc, TRANSB, tb as c_int);
        set(desc, EPILOGUE, epilogue);
        if of_bias != of_d {
            set(desc, BIAS_DATA_TYPE, of_bias as c_int);
        }
        let mut want = d.clone();
        for batch in 0..count {
            for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let at = |of: &Layout, turn: usize, i: usize, j: usize| {
                    let (i, j) = if turn == 1 { (j, i) } else { (i, j) };
                    of.place(batch, i, j)
                };
                let term = |i| a.get(at(&of_a, ta, row, i)) * b.get(at(&of_b, tb, i, column));
                let sum: f64 = alpha * (0..k).map(term).sum::<f64>();
                let kept = if beta == 0.0 { 0.0 } else { beta * c.get(of_c.place(batch, row, column)) };
                let added = if epilogue & 4 != 0 { bias.get(row) } else { 0.0 };
                let x = sum + kept + added;
                let value = if epilogue & 2 != 0 {
                    x.max(0.0)
                } else if epilogue & 32 != 0 {
                    gelu(x)
                } else {
                    x
                };
                want.set(of_result.place(batch, row, column), value);
            }
        }
        let (one, two) = (Array::of(scalars, &[alpha]), Array::of(scalars, &[beta]));
        let from = if in_place { d.ptr() } else { c.ptr() };
        // SAFETY: everything is as described.
        let status = unsafe {
            cublasLtMatmul(
                handle,
                desc,
                one.ptr(),
                a.ptr(),
                of_a.desc,
                b.ptr(),
                of_b.desc,
                two.ptr(),
                from,
                of_c.desc,
                d.mut_ptr(),
                of_result.desc,
                null(),
                null_mut(),
                0,
                null_mut(),
            )
        };
        assert_eq!(status, SUCCESS, "case {case}");
        assert!(d.agrees(&want), "case {case}: {of_factors:?} {of_d:?} epilogue {epilogue}");
        // SAFETY: descriptors are alive, and destroyed once.
        unsafe {
            assert_eq!(cublasLtMatmulDescDestroy(desc), SUCCESS);
            for layout in [of_a, of_b, of_c, apart] {
                assert_eq!(cublasLtMatrixLayoutDestroy(layout.desc), SUCCESS);
            }
        }
    }
    // SAFETY: the handle is alive, then it is not.
    unsafe { assert_eq!([cublasLtDestroy(handle), cublasLtDestroy(handle)], [SUCCESS, NOT_INITIALIZED]) };
}

#[test]
fn what_is_not_done_is_refused_and_nothing_is_written() {
    let handle = handle();
    let (a, mut d) = ([1.0_f32; 16], [7.0_f32; 16]);
    let (from, to) = (a.as_ptr().cast::<c_void>(), d.as_mut_ptr().cast::<c_void>());
    let square = Layout::new(Kind::F32, [4, 4], false, 0, 1).desc;
    let wide = Layout::new(Kind::F32, [4, 5], false, 0, 1).desc;
    let (mut desc, mut preference) = (null_mut(), null_mut());
    let empty = Heuristic { algorithm: [9; 8], workspace: 9, state: 9, waves: 0.0, reserved: [0; 4] };
    let (mut results, mut returned) = ([empty; 2], -1);
    // SAFETY: what is read and written is there.
    unsafe {
        assert_eq!(cublasLtMatmulDescCreate(null_mut(), 68, 0), INVALID_VALUE);
        assert_eq!(cublasLtMatmulDescCreate(&mut desc, 68, 0), SUCCESS);
        assert_eq!(cublasLtMatmulPreferenceCreate(&mut preference), SUCCESS);
        let run = |h, desc, alpha, of_a, algorithm: *const u64, to| {
            cublasLtMatmul(
                h,
                desc,
                alpha,
                from,
                of_a,
                from,
                square,
                from,
                from,
                square,
                to,
                square,
                algorithm,
                null_mut(),
                0,
                null_mut(),
            )
        };
        assert_eq!(run(null_mut(), desc, from, square, null(), to), NOT_INITIALIZED);
        assert_eq!(run(handle, null_mut(), from, square, null(), to), INVALID_VALUE);
        assert_eq!(run(handle, desc, null(), square, null(), to), INVALID_VALUE);
        assert_eq!(run(handle, desc, from, null_mut(), null(), to), INVALID_VALUE);
        assert_eq!(run(handle, desc, from, wide, null(), to), INVALID_VALUE);
        assert_eq!(run(handle, desc, from, square, [5_u64; 8].as_ptr(), to), INVALID_VALUE);
        assert_eq!(run(handle, desc, from, square, null(), null_mut()), INVALID_VALUE);
        let heuristic = |of_a, results: *mut Heuristic, returned: *mut c_int| {
            cublasLtMatmulAlgoGetHeuristic(
                handle, desc, of_a, square, square, square, preference, 2, results, returned,
            )
        };
        assert_eq!(heuristic(square, results.as_mut_ptr(), &mut returned), SUCCESS);
        assert_eq!((returned, results[0].state, results[0].workspace, results[1].state), (1, 0, 0, 9));
        assert_eq!(heuristic(wide, results.as_mut_ptr(), &mut returned), INVALID_VALUE);
        assert_eq!(returned, 0);
        assert_eq!(heuristic(square, null_mut(), &mut returned), INVALID_VALUE);
        set(desc, EPILOGUE, 4);
        assert_eq!(run(handle, desc, from, square, null(), to), INVALID_VALUE, "a bias without a pointer");
        for epilogue in [130, 134, 136, 160, 164, 208, 512, 3] {
            set(desc, EPILOGUE, epilogue);
            assert_eq!(run(handle, desc, from, square, null(), to), NOT_SUPPORTED, "{epilogue}");
            assert_eq!(heuristic(square, results.as_mut_ptr(), &mut returned), NOT_SUPPORTED, "{epilogue}");
        }
        let (mut value, mut written) = (0_u32, 0);
        let into = (&raw mut value).cast::<c_void>();
        assert_eq!(cublasLtMatmulDescGetAttribute(desc, EPILOGUE, into, 4, &mut written), SUCCESS);
        assert_eq!((value, written), (3, 4));
        assert_eq!(cublasLtMatmulDescGetAttribute(desc, EPILOGUE, null_mut(), 0, &mut written), SUCCESS);
        assert_eq!(cublasLtMatmulDescGetAttribute(desc, EPILOGUE, into, 3, &mut written), INVALID_VALUE);
        assert_eq!(cublasLtMatmulDescSetAttribute(desc, EPILOGUE, into, 8), INVALID_VALUE);
        assert_eq!(cublasLtMatmulDescSetAttribute(desc, 99, into, 4), NOT_SUPPORTED);
        assert_eq!(cublasLtMatmulDescSetAttribute(desc, EPILOGUE, null(), 4), INVALID_VALUE);
        assert_eq!(cublasLtMatmulPreferenceDestroy(desc), INVALID_VALUE);
        assert_eq!(
            [cublasLtMatmulPreferenceDestroy(preference), cublasLtMatmulPreferenceDestroy(preference)],
            [SUCCESS, INVALID_VALUE]
        );
    }
    assert_eq!(d, [7.0; 16]);
}
