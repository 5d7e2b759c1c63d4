//! Calls of cuBLAS, cuBLASLt and cuRAND on a stream that captures.

use half::{bf16, f16};

use crate::header::{Function, functions};
use crate::machine::{alone, at, call, capture, stream, succeed, to};

const NOT_SUPPORTED: i32 = 15;
const MAPPING_ERROR: i32 = 11;
const EXECUTION_FAILED: i32 = 13;
/// `cudaErrorStreamCaptureInvalidated`
const INVALIDATED: i32 = 901;

/// What is set on a handle, or asked of it: no work.
const SETTINGS: [&str; 13] = [
    "cublasDestroy_v2",
    "cublasGetVersion_v2",
    "cublasSetStream_v2",
    "cublasGetStream_v2",
    "cublasSetWorkspace_v2",
    "cublasSetPointerMode_v2",
    "cublasGetPointerMode_v2",
    "cublasSetMathMode",
    "cublasGetMathMode",
    "cublasSetAtomicsMode",
    "cublasGetAtomicsMode",
    "cublasSetSmCountTarget",
    "cublasGetSmCountTarget",
];

/// Bytes of an operand.
const BYTES: usize = 512;

/// The operands of a call: A, B, C, x, y and a result, twice, with the arrays of addresses that
/// lead to one of the two or to the other, and the factors.
struct Operands {
    blocks: Box<[[[u8; BYTES]; 6]; 2]>,
    arrays: Box<[[usize; 2]; 5]>,
    factors: Box<[[u8; 8]; 2]>,
}

impl Operands {
    fn new(element: &str, seed: usize) -> Operands {
        let mut made = Operands {
            blocks: Box::new([[[0; BYTES]; 6]; 2]),
            arrays: Box::new([[0; 2]; 5]),
            factors: Box::new([[0; 8]; 2]),
        };
        made.fill(element, seed);
        made
    }

    /// Writes numbers from 1 to 3, factors, and addresses of the first blocks or of the second
    /// ones.
    fn fill(&mut self, element: &str, seed: usize) {
        for (at, block) in self.blocks.as_flattened_mut().iter_mut().enumerate() {
            let numbers = (0..).map(|i: usize| ((i * 7 + i / 5 + at * (i + 1) + seed) % 3 + 1) as f32);
            let mut bytes = numbers.flat_map(|number| bytes(element, number));
            block.fill_with(|| bytes.next().expect("more numbers"));
        }
        for operand in 0..5 {
            let half = seed % 2;
            // The two matrices of a batch do not meet.
            self.arrays[operand] = [0, BYTES / 2].map(|offset| at(&self.blocks[half][operand]) + offset);
        }
        self.set_factors(element, seed);
    }

    /// 2 and 3, then 5 and 6.
    fn set_factors(&mut self, element: &str, seed: usize) {
        for (k, factor) in self.factors.iter_mut().enumerate() {
            *factor = [0; 8];
            let number = bytes(element, (2 + k + 3 * seed) as f32);
            factor[..number.len()].copy_from_slice(&number);
        }
    }

    fn argument(&self, name: &str, is_array: bool) -> Option<usize> {
        let operand = ["A", "B", "C", "x", "y", "result"].iter().position(|known| *known == name)?;
        Some(if is_array { at(&self.arrays[operand]) } else { at(&self.blocks[0][operand]) })
    }

    fn bytes(&self) -> Vec<u8> {
        self.blocks.as_flattened().as_flattened().to_vec()
    }
}

/// A number as an element, factors of 16-bit types but half's own are of binary32.
fn bytes(element: &str, number: f32) -> Vec<u8> {
    match element {
        "double" => f64::from(number).to_le_bytes().to_vec(),
        "__half" => f16::from_f32(number).to_le_bytes().to_vec(),
        "__nv_bfloat16" => bf16::from_f32(number).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    }
}

/// The type of the factors of a function.
fn of_factors(function: &Function) -> &'static str {
    let factor =
        function.parameters.iter().find(|parameter| ["alpha", "c"].contains(&parameter.name.as_str()));
    match factor.map_or("", |parameter| parameter.kind.as_str()) {
        kind if kind.contains("double") => "double",
        kind if kind.contains("__half") => "__half",
        _ => "float",
    }
}

/// The arguments of a call: square matrices of four rows, vectors of four elements, batches of two.
fn arguments(function: &Function, operands: &Operands, handle: usize, stream: usize) -> Vec<usize> {
    let value = |name: &str, is_array: bool| match name {
        "handle" => handle,
        "stream" => stream,
        "m" | "n" | "k" | "rows" | "cols" | "lda" | "ldb" | "ldc" | "elemSize" => 4,
        "incx" | "incy" | "transb" => 1,
        "strideA" | "strideB" | "strideC" | "strideX" | "strideY" => 16,
        "batchCount" => 2,
        "transa" | "trans" | "side" | "mode" | "uplo" | "diag" => 0,
        "alpha" | "c" => at(&operands.factors[0]),
        "beta" | "s" => at(&operands.factors[1]),
        // CUDA_R_32F, CUBLAS_COMPUTE_32F and CUBLAS_GEMM_DEFAULT.
        name if name.ends_with("Type") && name != "computeType" || name.ends_with("type") => 0,
        "computeType" => 68,
        "algo" => usize::MAX,
        name => operands.argument(name, is_array).unwrap_or_else(|| panic!("{}: {name}", function.name)),
    };
    function.parameters.iter().map(|parameter| value(&parameter.name, parameter.is_array)).collect()
}

fn handle() -> usize {
    let mut handle = 0;
    succeed("cublasCreate_v2", &[to(&mut handle)]);
    handle
}

/// Everything of cuBLAS that works on a handle or on a stream.
fn work() -> Vec<Function> {
    let all = functions("cublas_api.h", "cublas");
    let mut on_streams: Vec<Function> = all
        .into_iter()
        .filter(|function| function.takes("cublasHandle_t") || function.takes("cudaStream_t"))
        .filter(|function| !SETTINGS.contains(&function.name.as_str()))
        .collect();
    on_streams.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(on_streams.len() > 120, "{} functions are not all", on_streams.len());
    on_streams
}

#[test]
fn calls_of_cublas_are_done_at_the_launch() {
    let _alone = alone();
    let (handle, on) = (handle(), stream(false));
    for function in work() {
        for on_device in [false, true] {
            let what =
                format!("{}, factors on the {}", function.name, if on_device { "device" } else { "host" });
            let (element, of_factors) = (function.element(), of_factors(&function));
            let mut operands = Operands::new(element, 0);
            operands.set_factors(of_factors, 0);
            succeed("cublasSetPointerMode_v2", &[handle, usize::from(on_device)]);
            succeed("cublasSetStream_v2", &[handle, on]);
            let before = operands.bytes();
            let given = arguments(&function, &operands, handle, on);
            let (status, captured) = capture(on, || call(&function.name, &given));
            assert!(operands.bytes() == before, "{what}: done at the call");
            assert_eq!(captured.status, 0, "{what}");
            let has_result = function.parameters.iter().any(|parameter| parameter.name == "result");
            if has_result && !on_device {
                assert_eq!((status, captured.nodes()), (NOT_SUPPORTED, 0), "{what}");
                continue;
            }
            assert_eq!((status, captured.nodes()), (0, 1), "{what}");
            // Other numbers at other places: the factors of the host stay those of the call.
            operands.fill(element, 1);
            operands.set_factors(of_factors, 1);
            assert_eq!(captured.launch(on), 0, "{what}");
            let launched = operands.bytes();
            // The same without a capture.
            operands.fill(element, 1);
            operands.set_factors(of_factors, usize::from(on_device));
            let fresh = operands.bytes();
            succeed("cublasSetStream_v2", &[handle, 0]);
            let direct = arguments(&function, &operands, handle, 0);
            assert_eq!(call(&function.name, &direct), 0, "{what}");
            assert!(operands.bytes() != fresh, "{what}: nothing is written");
            assert!(operands.bytes() == launched, "{what}: the launch has another result than the call");
        }
    }
}

#[test]
fn copies_that_wait_end_a_capture() {
    let _alone = alone();
    let on = stream(false);
    let waiting = functions("cublas_api.h", "cublas");
    let waiting = waiting.into_iter().filter(|function| {
        function.parameters.iter().any(|parameter| parameter.name == "elemSize")
            && !function.takes("cudaStream_t")
    });
    let mut count = 0;
    for function in waiting {
        let operands = Operands::new("float", 0);
        let before = operands.bytes();
        let given = arguments(&function, &operands, 0, 0);
        let (status, captured) = capture(on, || call(&function.name, &given));
        assert_eq!((status, captured.status), (MAPPING_ERROR, INVALIDATED), "{}", function.name);
        assert!(operands.bytes() == before, "{}", function.name);
        assert_eq!(call(&function.name, &given), 0, "{}", function.name);
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn work_on_the_default_stream_beside_a_blocking_one_that_captures_is_refused() {
    let _alone = alone();
    let (handle, on) = (handle(), stream(true));
    for function in work() {
        let operands = Operands::new(function.element(), 0);
        // Results of the host are asked for ahead of the work.
        succeed("cublasSetPointerMode_v2", &[handle, 1]);
        let before = operands.bytes();
        let given = arguments(&function, &operands, handle, 0);
        let (status, captured) = capture(on, || call(&function.name, &given));
        let expected = if function.takes("cublasHandle_t") { EXECUTION_FAILED } else { MAPPING_ERROR };
        assert_eq!((status, captured.status), (expected, INVALIDATED), "{}", function.name);
        assert!(operands.bytes() == before, "{}", function.name);
    }
}

#[test]
fn addresses_that_are_null_at_the_launch_fail_it() {
    let _alone = alone();
    let (handle, on) = (handle(), stream(false));
    succeed("cublasSetPointerMode_v2", &[handle, 0]);
    succeed("cublasSetStream_v2", &[handle, on]);
    let batched =
        work().into_iter().filter(|function| function.parameters.iter().any(|parameter| parameter.is_array));
    for function in batched {
        let mut operands = Operands::new(function.element(), 0);
        operands.set_factors(of_factors(&function), 0);
        let given = arguments(&function, &operands, handle, on);
        let (status, captured) = capture(on, || call(&function.name, &given));
        assert_eq!(status, 0, "{}", function.name);
        let before = operands.bytes();
        // The second one of A: the first product is not computed either.
        operands.arrays[0][1] = 0;
        assert_ne!(captured.launch(on), 0, "{}", function.name);
        assert!(operands.bytes() == before, "{}", function.name);
    }
}

#[test]
fn products_of_cublaslt_are_done_at_the_launch() {
    let _alone = alone();
    let (handle, on) = (handle(), stream(false));
    let on_streams = functions("cublasLt.h", "cublasLt");
    let on_streams: Vec<String> = on_streams
        .into_iter()
        .filter(|function| function.takes("cudaStream_t"))
        .map(|function| function.name)
        .collect();
    assert_eq!(on_streams, ["cublasLtMatmul"]);
    let (mut product, mut layout) = (0, 0);
    succeed("cublasLtMatmulDescCreate", &[to(&mut product), 68, 0]);
    succeed("cublasLtMatrixLayoutCreate", &[to(&mut layout), 0, 4, 4, 4]);
    for mode in [0_i32, 1] {
        // CUBLASLT_MATMUL_DESC_POINTER_MODE
        succeed("cublasLtMatmulDescSetAttribute", &[product, 2, at(&mode), 4]);
        let mut operands = Operands::new("float", 0);
        let before = operands.bytes();
        let of = |operands: &Operands, on| {
            let [a, b, c] = [0, 1, 2].map(|operand| at(&operands.blocks[0][operand]));
            let [alpha, beta] = [0, 1].map(|factor| at(&operands.factors[factor]));
            call(
                "cublasLtMatmul",
                &[handle, product, alpha, a, layout, b, layout, beta, c, layout, c, layout, 0, 0, 0, on],
            )
        };
        let (status, captured) = capture(on, || of(&operands, on));
        assert_eq!((status, captured.status, captured.nodes()), (0, 0, 1), "{mode}");
        assert!(operands.bytes() == before, "{mode}: done at the call");
        operands.fill("float", 1);
        assert_eq!(captured.launch(on), 0);
        let launched = operands.bytes();
        operands.fill("float", 1);
        operands.set_factors("float", mode as usize);
        assert_eq!(of(&operands, 0), 0);
        assert!(operands.bytes() == launched && launched != before, "{mode}");
    }
    // Factors that are vectors are not built.
    let mode = 2_i32;
    succeed("cublasLtMatmulDescSetAttribute", &[product, 2, at(&mode), 4]);
    let operands = Operands::new("float", 0);
    let [a, factor] = [at(&operands.blocks[0][0]), at(&operands.factors[0])];
    let given = [handle, product, factor, a, layout, a, layout, factor, a, layout, a, layout, 0, 0, 0, 0];
    assert_eq!(call("cublasLtMatmul", &given), NOT_SUPPORTED);
}

#[test]
fn numbers_of_curand_are_refused_in_captures() {
    /// `CURAND_STATUS_PREEXISTING_FAILURE`
    const REFUSED: i32 = 202;
    let _alone = alone();
    let mut generator = 0;
    succeed("curandCreateGenerator", &[to(&mut generator), 100]);
    for (on, captures) in [(stream(false), true), (0, true), (0, false)] {
        succeed("curandSetStream", &[generator, on]);
        let of_capture = if on == 0 { stream(captures) } else { on };
        let mut count = 0;
        for function in functions("curand.h", "curandGenerate") {
            if function.name == "curandGenerateSeeds" {
                continue;
            }
            let mut output = [7_u64; 8];
            let (status, _) =
                capture(of_capture, || call_with_numbers(&function.name, generator, &mut output));
            assert_eq!(status, if captures { REFUSED } else { 0 }, "{}", function.name);
            assert_eq!(output == [7; 8], captures, "{}", function.name);
            count += 1;
        }
        assert_eq!(count, 9);
    }
}

/// Calls a function of cuRAND for eight numbers, of mean and deviation 1 if it takes them.
fn call_with_numbers(name: &str, generator: usize, output: &mut [u64; 8]) -> i32 {
    type Plain = unsafe extern "C" fn(usize, usize, usize) -> i32;
    type Single = unsafe extern "C" fn(usize, usize, usize, f32, f32) -> i32;
    type Double = unsafe extern "C" fn(usize, usize, usize, f64, f64) -> i32;
    let (function, output) = (crate::machine::address(name), to(output));
    // SAFETY: the functions take a generator, room for numbers, their count, and two numbers of the
    // type that the name tells.
    unsafe {
        match name {
            "curandGenerateNormal" | "curandGenerateLogNormal" => {
                std::mem::transmute::<*mut std::ffi::c_void, Single>(function)(generator, output, 8, 1.0, 1.0)
            }
            "curandGenerateNormalDouble" | "curandGenerateLogNormalDouble" | "curandGeneratePoisson" => {
                std::mem::transmute::<*mut std::ffi::c_void, Double>(function)(generator, output, 8, 1.0, 1.0)
            }
            _ => std::mem::transmute::<*mut std::ffi::c_void, Plain>(function)(generator, output, 8),
        }
    }
}
