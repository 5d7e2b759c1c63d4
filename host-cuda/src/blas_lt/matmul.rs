//! `D = epilogue(alpha op(A) op(B) + beta C + bias)`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::attributes::{self, Descriptor};
use crate::blas::arguments;
use crate::blas::factor::{Factor, Place};
use crate::blas::gemm::Types;
use crate::blas::handle::{self, Handle};
use crate::blas::kind::{Element, Kind, typed};
use crate::blas::product::{Matrix, Products};
use crate::blas::status::{Failure, Outcome};
use crate::blas::view::{View, fill};

/// What becomes of a sum.
#[derive(Clone, Copy, PartialEq)]
enum Function {
    Identity,
    Relu,
    Gelu,
}

impl Function {
    fn of(self, x: f64) -> f64 {
        match self {
            Function::Identity => x,
            // A NaN stays.
            Function::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Function::Gelu => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
        }
    }
}

/// A layout, decoded.
#[derive(Clone, Copy, PartialEq)]
struct Layout {
    kind: Kind,
    rows: i64,
    columns: i64,
    /// From a row to the next, from a column to the next, from a matrix to the next.
    strides: [i64; 3],
    count: i64,
}

impl Layout {
    /// # Errors
    /// Invalid value for extents, leading dimensions and counts that are none; not supported for
    /// orders beside columns and rows.
    fn decode(desc: &Descriptor, argument: &str) -> Outcome<Layout> {
        let kind = Kind::decode(desc.number(attributes::TYPE), argument)?;
        let extent = |number, name: &str| {
            i64::try_from(desc.value(number))
                .map_err(|_| Failure::invalid(format!("{argument} has {} {name}", desc.value(number))))
        };
        let (rows, columns) = (extent(attributes::ROWS, "rows")?, extent(attributes::COLS, "columns")?);
        let (ld, apart) = (desc.value(attributes::LD) as i64, desc.value(attributes::BATCH_OFFSET) as i64);
        let count = i64::from(desc.number(attributes::BATCH_COUNT));
        if count < 1 {
            return Err(Failure::invalid(format!("{argument} has a batch of {count}")));
        }
        let name = format!("ld of {argument}");
        let strides = match desc.number(attributes::ORDER) {
            0 => {
                arguments::leading(&name, ld, rows)?;
                [1, ld, apart]
            }
            1 => {
                arguments::leading(&name, ld, columns)?;
                [ld, 1, apart]
            }
            order => {
                return Err(Failure::unsupported(format!(
                    "{argument} has order {order}: columns (0) and rows (1) are read"
                )));
            }
        };
        Ok(Layout { kind, rows, columns, strides, count })
    }

    fn matrix(&self, data: *const c_void) -> Matrix {
        Matrix { data: data.cast_mut(), kind: self.kind, strides: self.strides }
    }
}

/// A product as descriptors tell it, checked.
#[derive(Clone, Copy)]
pub struct Plan {
    types: Types,
    transposed: [bool; 2],
    /// A, B, C, D.
    layouts: [Layout; 4],
    extents: [i64; 3],
    function: Function,
    /// Of one number a row, its type, and the distance of those of a batch.
    bias: Option<(Place<c_void>, Kind, i64)>,
    /// Whether the factors lie on the device.
    on_device: bool,
}

impl Plan {
    /// # Errors
    /// Invalid value: a descriptor that is not alive, layouts that do not fit, unknown operations,
    /// a bias without a pointer. Not supported: types that cublasGemmEx does not take, transposed
    /// results, parts of results, epilogues beside DEFAULT, RELU, GELU and those with BIAS.
    pub fn new(desc: *const c_void, layouts: [*const c_void; 4]) -> Outcome<Plan> {
        let desc = attributes::product(desc)?;
        let mut decoded = Vec::with_capacity(4);
        for (layout, name) in layouts.into_iter().zip(["Adesc", "Bdesc", "Cdesc", "Ddesc"]) {
            decoded.push(Layout::decode(&*attributes::layout(layout, name)?, name)?);
        }
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| decoded[at]);
        let transposed = [
            arguments::transposed(desc.number(attributes::TRANSA), "transa")?,
            arguments::transposed(desc.number(attributes::TRANSB), "transb")?,
        ];
        if arguments::transposed(desc.number(attributes::TRANSC), "transc")? {
            return Err(Failure::unsupported("transc: C and D are not transposed"));
        }
        if desc.number(attributes::FILL_MODE) != 2 {
            return Err(Failure::unsupported("a fill mode: all of D is written"));
        }
        let turned = |layout: &Layout, turned: bool| {
            if turned { [layout.columns, layout.rows] } else { [layout.rows, layout.columns] }
        };
        let ([m, k], [terms, n]) = (turned(&a, transposed[0]), turned(&b, transposed[1]));
        if terms != k || [d.rows, d.columns] != [m, n] || [c.rows, c.columns] != [m, n] {
            return Err(Failure::invalid(format!(
                "op(A) of {m} x {k}, op(B) of {terms} x {n}, C of {} x {} and D of {} x {}",
                c.rows, c.columns, d.rows, d.columns
            )));
        }
        if let Some(count) = [a.count, b.count, c.count].into_iter().find(|&count| count != d.count) {
            return Err(Failure::invalid(format!("batches of {count} and of {}", d.count)));
        }
        let numbers = [&a, &b, &d].map(|layout| number(layout.kind));
        let types = Types::decode(numbers, desc.number(attributes::COMPUTE_TYPE))?;
        let scale = Kind::decode(desc.number(attributes::SCALE_TYPE), "scaleType")?;
        if scale != types.factors {
            return Err(Failure::unsupported(format!(
                "factors of {scale:?}: {:?} go with this computation",
                types.factors
            )));
        }
        if c.kind != d.kind {
            return Err(Failure::unsupported(format!("C of {:?} and D of {:?}", c.kind, d.kind)));
        }
        let (function, has_bias) = match desc.number(attributes::EPILOGUE) {
            1 => (Function::Identity, false),
            2 => (Function::Relu, false),
            4 => (Function::Identity, true),
            6 => (Function::Relu, true),
            32 => (Function::Gelu, false),
            36 => (Function::Gelu, true),
            other => {
                return Err(Failure::unsupported(format!(
                    "epilogue {other}: DEFAULT, RELU, GELU and those with BIAS are built, without outputs beside D"
                )));
            }
        };
        if d.kind == Kind::I32 && (has_bias || function != Function::Identity) {
            return Err(Failure::unsupported("an epilogue of integers"));
        }
        let bias = if has_bias {
            let pointer =
                std::ptr::with_exposed_provenance::<c_void>(desc.value(attributes::BIAS_POINTER) as usize);
            let kind = match desc.number(attributes::BIAS_DATA_TYPE) {
                -1 => d.kind,
                number => Kind::decode(number, "the bias' type")?,
            };
            Some((Place::new(pointer), kind, desc.value(attributes::BIAS_BATCH_STRIDE) as i64))
        } else {
            None
        };
        let on_device = match desc.number(attributes::POINTER_MODE) {
            0 => false,
            handle::POINTER_MODE_DEVICE => true,
            mode => {
                return Err(Failure::unsupported(format!(
                    "pointer mode {mode}: factors are one number each, of the host (0) or of the device (1)"
                )));
            }
        };
        Ok(Plan { types, transposed, layouts: [a, b, c, d], extents: [m, n, k], function, bias, on_device })
    }

    /// Computes D in the order of a stream.
    ///
    /// # Errors
    /// Invalid value for NULL factors and matrices that are touched, alloc failed, and as the
    /// products and [`handle::submit_on`].
    ///
    /// # Safety
    /// Factors and matrices are NULL or as described, now or when the graph that the stream
    /// captures is launched.
    pub unsafe fn submit(
        self, handle: Arc<Handle>, stream: usize, [alpha, beta]: [*const c_void; 2],
        matrices: [*const c_void; 4],
    ) -> Outcome {
        let kind = self.types.factors;
        // SAFETY: both factors are NULL or one readable number of their type.
        let factors = unsafe {
            [
                Factor::new(kind, alpha, "alpha", self.on_device)?,
                Factor::new(kind, beta, "beta", self.on_device)?,
            ]
        };
        let matrices = matrices.map(Place::new);
        if let [Some(alpha), Some(beta)] = factors.map(Factor::known) {
            self.check([alpha, beta], matrices)?;
        }
        handle::submit_on(stream, move || {
            // SAFETY: the product is computed now.
            let factors = unsafe { [factors[0].get()?, factors[1].get()?] };
            self.check(factors, matrices)?;
            // SAFETY: the matrices are in memory as described.
            unsafe { self.run(&mut arguments::products(&handle), factors, matrices.map(Place::get)) }
        })
    }

    fn is_empty(&self) -> bool {
        self.extents[0] == 0 || self.extents[1] == 0
    }

    /// Looks at what is touched with these factors.
    ///
    /// # Errors
    /// Invalid value for NULL, and for a batch in one place; not supported for integers that
    /// binary32 does not hold.
    fn check(&self, [alpha, beta]: [f64; 2], [a, b, c, d]: [Place<c_void>; 4]) -> Outcome {
        self.types.check_factors([alpha, beta])?;
        if self.is_empty() {
            return Ok(());
        }
        let sums = self.extents[2] > 0 && alpha != 0.0;
        arguments::data(a.get(), sums, "A")?;
        arguments::data(b.get(), sums, "B")?;
        arguments::data(c.get(), beta != 0.0, "C")?;
        arguments::data(d.get(), true, "D")?;
        if let Some((pointer, ..)) = self.bias {
            arguments::data(pointer.get(), true, "the bias' pointer")?;
        }
        let of_d = &self.layouts[3];
        if of_d.count > 1 && of_d.strides[2] == 0 {
            return Err(Failure::invalid("Ddesc: all matrices of the batch are in one place"));
        }
        Ok(())
    }

    /// Computes D.
    ///
    /// # Errors
    /// Alloc failed, and as the products.
    ///
    /// # Safety
    /// The matrices passed the check, and are as described.
    unsafe fn run(
        &self, products: &mut Products, [alpha, beta]: [f64; 2], [a, b, c, d]: [*mut c_void; 4],
    ) -> Outcome {
        if self.is_empty() {
            return Ok(());
        }
        let of_d = &self.layouts[3];
        let turned = |matrix: Matrix, turned: bool| if turned { matrix.transposed() } else { matrix };
        let of_a = turned(self.layouts[0].matrix(a), self.transposed[0]);
        let of_b = turned(self.layouts[1].matrix(b), self.transposed[1]);
        let in_place = c == d && self.layouts[2] == self.layouts[3];
        let is_plain = self.function == Function::Identity && self.bias.is_none();
        if is_plain && (in_place || beta == 0.0) {
            let result = of_d.matrix(d);
            // SAFETY: the matrices are in memory as described.
            return unsafe {
                products.multiply([result, of_a, of_b], self.extents, of_d.count, [alpha, beta])
            };
        }
        for i in 0..of_d.count {
            let [a, b] = [of_a, of_b].map(|matrix| matrix.of_batch(i));
            let [c, d] = [(2, c), (3, d)].map(|(at, data)| self.layouts[at].matrix(data).of_batch(i));
            // SAFETY: matrices of the caller's batch.
            unsafe {
                match d.kind {
                    Kind::I32 => self.integers(products, [a, b, c, d], [alpha, beta])?,
                    kind => typed!(kind, "D", T => self.one::<T>(products, [a, b, c, d], [alpha, beta], i))?,
                }
            }
        }
        Ok(())
    }

    /// One product into D beside C, in integers.
    ///
    /// # Safety
    /// The matrices are as described.
    unsafe fn integers(
        &self, products: &mut Products, [a, b, c, d]: [Matrix; 4], factors: [f64; 2],
    ) -> Outcome {
        let [m, n, _] = self.extents;
        for column in 0..n {
            for row in 0..m {
                // SAFETY: elements of the caller's matrices.
                unsafe {
                    let value = c.part(row, column).data.cast::<i32>().read_unaligned();
                    d.part(row, column).data.cast::<i32>().write_unaligned(value);
                }
            }
        }
        // SAFETY: the matrices are in memory as described.
        unsafe { products.multiply([d, a, b], self.extents, 1, factors) }
    }

    /// One product with what follows it, by way of a sum in binary32 or binary64, so that D is
    /// rounded once.
    ///
    /// # Safety
    /// The matrices and the bias are as described.
    unsafe fn one<T: Element>(
        &self, products: &mut Products, [a, b, c, d]: [Matrix; 4], [alpha, beta]: [f64; 2], number: i64,
    ) -> Outcome {
        if d.kind == Kind::F64 {
            // SAFETY: the matrices and the bias are in memory as described.
            unsafe { self.through::<T, f64>(products, [a, b, c, d], [alpha, beta], Kind::F64, number) }
        } else {
            // SAFETY: the matrices and the bias are in memory as described.
            unsafe { self.through::<T, f32>(products, [a, b, c, d], [alpha, beta], Kind::F32, number) }
        }
    }

    /// # Safety
    /// As for [`Plan::one`].
    unsafe fn through<T: Element, S: Element>(
        &self, products: &mut Products, [a, b, c, d]: [Matrix; 4], [alpha, beta]: [f64; 2], kind: Kind,
        number: i64,
    ) -> Outcome {
        let [m, n, _] = self.extents;
        let count = usize::try_from(m).ok().zip(usize::try_from(n).ok()).and_then(|(m, n)| m.checked_mul(n));
        let mut sums: Vec<S> = Vec::new();
        let room = count.is_some_and(|count| sums.try_reserve_exact(count).is_ok());
        if !room {
            return Err(Failure::no_memory(count.unwrap_or(usize::MAX)));
        }
        let result = Matrix { data: sums.as_mut_ptr().cast(), kind, strides: [1, m, 0] };
        // SAFETY: there is room for m x n sums, which are written whole.
        unsafe { products.multiply([result, a, b], self.extents, 1, [alpha, 0.0])? };
        let bias = self.bias.map(|(pointer, kind, apart)| {
            let bytes = kind.size() as i64;
            let read = |row: i64| {
                let at = pointer
                    .get()
                    .cast_const()
                    .wrapping_byte_offset(((number * apart + row) * bytes) as isize);
                // SAFETY: not NULL, and the caller vouches for a number a row.
                unsafe { kind.read(at, "the bias") }
            };
            (0..m).map(read).collect::<Outcome<Vec<f64>>>()
        });
        let bias = bias.transpose()?;
        let sums = View::<S>::columns(result.data.cast_const().cast(), m, false);
        let view = |matrix: &Matrix| View::<T> {
            first: matrix.data.cast(),
            strides: [matrix.strides[0], matrix.strides[1]],
        };
        let (sums, old, function) = (&sums, &view(&c), self.function);
        let value = |row: i64, column: i64| {
            // SAFETY: elements that were just written, and of the caller's C where beta says that
            // it is read.
            let sum = unsafe {
                sums.get(row, column) + if beta == 0.0 { 0.0 } else { beta * old.get(row, column) }
            };
            function.of(sum + bias.as_ref().map_or(0.0, |bias| bias[row as usize]))
        };
        // SAFETY: D is the caller's; of C at most the element is read that is written, as both lie
        // alike where they meet.
        unsafe { fill(view(&d), [m, n], value) };
        Ok(())
    }
}

/// The `cudaDataType` of a kind.
const fn number(kind: Kind) -> c_int {
    match kind {
        Kind::F32 => 0,
        Kind::F64 => 1,
        Kind::F16 => 2,
        Kind::I8 => 3,
        Kind::I32 => 10,
        Kind::Bf16 => 14,
    }
}
