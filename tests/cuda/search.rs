//! The search for a convolution's algorithm: long sums of few results are measured as calls with
//! the workspace that it tells of compute them, cut into parts.

use std::ffi::{c_int, c_void};
use std::ptr;

use cudnn::backend::cuda::module::kernels;

use crate::api::{self, Opaque, SUCCESS};
use crate::double::{self, Memory, count};

/// A record of a search, alike in all directions.
#[derive(Clone, Copy)]
#[repr(C)]
struct Found {
    algorithm: c_int,
    status: c_int,
    milliseconds: f32,
    workspace: usize,
    others: [c_int; 5],
}

/// Declares the searches: on memory of their own, and on the caller's. The operands come in the
/// order of the calls.
macro_rules! searches {
    ($($own:ident, $given:ident;)*) => {
        #[allow(clippy::too_many_arguments, reason = "the original's interface")]
        unsafe extern "C" {
            $(
                fn $own(
                    handle: Opaque, first_desc: Opaque, second_desc: Opaque, desc: Opaque, result_desc: Opaque,
                    requested: c_int, returned: *mut c_int, found: *mut Found
                ) -> c_int;
                fn $given(
                    handle: Opaque, first_desc: Opaque, first: *const c_void, second_desc: Opaque,
                    second: *const c_void, desc: Opaque, result_desc: Opaque, result: *mut c_void,
                    requested: c_int, returned: *mut c_int, found: *mut Found,
                    workspace: *mut c_void, size: usize
                ) -> c_int;
            )*
        }
    };
}

/// A search on memory of its own.
type Find =
    unsafe extern "C" fn(Opaque, Opaque, Opaque, Opaque, Opaque, c_int, *mut c_int, *mut Found) -> c_int;
/// On the caller's.
type FindEx = unsafe extern "C" fn(
    Opaque,
    Opaque,
    *const c_void,
    Opaque,
    *const c_void,
    Opaque,
    Opaque,
    *mut c_void,
    c_int,
    *mut c_int,
    *mut Found,
    *mut c_void,
    usize,
) -> c_int;

searches! {
    cudnnFindConvolutionForwardAlgorithm, cudnnFindConvolutionForwardAlgorithmEx;
    cudnnFindConvolutionBackwardDataAlgorithm, cudnnFindConvolutionBackwardDataAlgorithmEx;
    cudnnFindConvolutionBackwardFilterAlgorithm, cudnnFindConvolutionBackwardFilterAlgorithmEx;
}

unsafe extern "C" {
    fn cudnnCreateFilterDescriptor(desc: *mut Opaque) -> c_int;
    fn cudnnDestroyFilterDescriptor(desc: Opaque) -> c_int;
    fn cudnnSetFilterNdDescriptor(
        desc: Opaque, data_type: c_int, format: c_int, rank: c_int, dims: *const c_int,
    ) -> c_int;
    fn cudnnCreateConvolutionDescriptor(desc: *mut Opaque) -> c_int;
    fn cudnnDestroyConvolutionDescriptor(desc: Opaque) -> c_int;
    fn cudnnSetConvolutionMathType(desc: Opaque, math_type: c_int) -> c_int;
    fn cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle: Opaque, x: Opaque, y: Opaque, desc: Opaque, w: Opaque, algorithm: c_int, size: *mut usize,
    ) -> c_int;
    fn cudnnSetConvolutionNdDescriptor(
        desc: Opaque, rank: c_int, pad: *const c_int, stride: *const c_int, dilation: *const c_int,
        mode: c_int, compute_type: c_int,
    ) -> c_int;
}

const FLOAT: c_int = 0;
const HALF: c_int = 2;

/// Which operand a convolution computes.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Forward,
    Data,
    Filter,
}

/// A layer with windows of 3 x 3 over as many pixels as it writes: channels in and out, pixels of a
/// side.
struct Layer {
    channels: [c_int; 2],
    side: c_int,
    data_type: c_int,
}

impl Layer {
    /// x, w and y.
    fn dims(&self) -> [[c_int; 4]; 3] {
        let ([c, k], side) = (self.channels, self.side);
        [[1, c, side, side], [k, c, 3, 3], [1, k, side, side]]
    }

    /// Descriptors of x, w, y and the convolution.
    fn describe(&self) -> [Opaque; 4] {
        let [x, w, y] = self.dims();
        let tensor = |[n, c, h, w]: [c_int; 4]| {
            api::describe(self.data_type, &[n, c, h, w], &[c * h * w, h * w, w, 1])
        };
        let (mut filter, mut convolution) = (ptr::null_mut(), ptr::null_mut());
        let ones = [1; 2].as_ptr();
        // SAFETY: places for the objects, and as many dims as there are; 0 is NCHW, and 1 a
        // correlation.
        let codes = unsafe {
            [
                cudnnCreateFilterDescriptor(&mut filter),
                cudnnSetFilterNdDescriptor(filter, self.data_type, 0, 4, w.as_ptr()),
                cudnnCreateConvolutionDescriptor(&mut convolution),
                cudnnSetConvolutionNdDescriptor(convolution, 2, ones, ones, ones, 1, FLOAT),
            ]
        };
        assert_eq!(codes, [SUCCESS; 4], "{}", api::last_error());
        [tensor(x), filter, tensor(y), convolution]
    }

    /// Device memory for x, w and y.
    fn memory(&self) -> [Memory; 3] {
        let size = if self.data_type == HALF { 2 } else { 4 };
        self.dims().map(|dims| Memory::new(&vec![0; dims.iter().product::<c_int>() as usize * size]))
    }
}

/// What was measured since the last call: launches that sum, launches that join parts, and runs.
fn measured(before: &mut [u32; 3]) -> [u32; 3] {
    let of = |joins: bool| {
        let names = kernels().iter().map(|kernel| kernel.name);
        let names = names.filter(|name| name.starts_with("contract_") && name.contains("join") == joins);
        names.map(|name| count(&format!("measured {name}"))).sum::<u32>()
    };
    let now = [of(false), of(true), count("cuEventElapsedTime")];
    let made = [0, 1, 2].map(|i| now[i] - before[i]);
    *before = now;
    made
}

/// Searches with `find`, which is given room for records: those that serve, of which there are
/// some.
fn serving(find: impl FnOnce(c_int, &mut c_int, *mut Found) -> c_int) -> Vec<Found> {
    let none = Found { algorithm: 0, status: -1, milliseconds: 0.0, workspace: 0, others: [0; 5] };
    let (mut found, mut returned) = ([none; 12], 0);
    let status = find(found.len() as c_int, &mut returned, found.as_mut_ptr());
    assert_eq!(status, SUCCESS, "{}", api::last_error());
    let serving: Vec<Found> =
        found[..returned as usize].iter().filter(|record| record.status == SUCCESS).copied().collect();
    assert!(!serving.is_empty() && serving.iter().all(|record| record.milliseconds >= 0.0));
    serving
}

/// The shortest time is first; number 0 has one of its own where a workspace changes what runs, as
/// has the number that moves no operands, and all others share one.
fn check_times(found: &[Found], direction: Direction, data_type: c_int) {
    let times: Vec<f32> = found.iter().map(|record| record.milliseconds).collect();
    assert!(times.is_sorted(), "{direction:?}: {times:?}");
    // Halves are moved to a workspace.
    if matches!(direction, Direction::Forward) && data_type == FLOAT {
        return assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    }
    // Of a gradient of a filter number 3 moves nothing.
    let of_little = if matches!(direction, Direction::Filter) && data_type == HALF { 3 } else { 0 };
    let kind = |record: &Found| (record.algorithm == 0, record.algorithm == of_little);
    for first in found {
        let alike = found.iter().filter(|record| kind(record) == kind(first));
        let one = alike.map(|record| record.milliseconds).all(|time| time == first.milliseconds);
        assert!(one, "{direction:?}: {times:?}");
    }
}

/// Searches in one direction, on memory of the search's own and on that of a program that gives as
/// much workspace as it was told, and none.
fn search(handle: Opaque, layer: &Layer, direction: Direction) {
    let [x_desc, w_desc, y_desc, desc] = layer.describe();
    let [x, w, y] = layer.memory();
    // Operands in the order of the call.
    let (own, given, descs, memory) = match direction {
        Direction::Forward => (
            cudnnFindConvolutionForwardAlgorithm as Find,
            cudnnFindConvolutionForwardAlgorithmEx as FindEx,
            [x_desc, w_desc, y_desc],
            [&x, &w, &y],
        ),
        Direction::Data => (
            cudnnFindConvolutionBackwardDataAlgorithm as _,
            cudnnFindConvolutionBackwardDataAlgorithmEx as _,
            [w_desc, y_desc, x_desc],
            [&w, &y, &x],
        ),
        Direction::Filter => (
            cudnnFindConvolutionBackwardFilterAlgorithm as _,
            cudnnFindConvolutionBackwardFilterAlgorithmEx as _,
            [x_desc, y_desc, w_desc],
            [&x, &y, &w],
        ),
    };
    let mut so_far = [0; 3];
    measured(&mut so_far);
    let found = serving(|most, returned, found| {
        // SAFETY: descriptors of a problem that fits, and room for so many records.
        unsafe { own(handle, descs[0], descs[1], desc, descs[2], most, returned, found) }
    });
    // Sums of an image are never cut; else number 0 is measured beside the others, without a
    // workspace.
    let whole = |[sums, joins, runs]: [u32; 3]| sums == runs && runs > 0 && joins == 0;
    let cut = |counts: [u32; 3]| match (direction, counts) {
        (Direction::Forward | Direction::Data, counts) => whole(counts),
        (_, [sums, joins, runs]) => joins > 0 && joins < sums && runs == sums,
    };
    let counts = measured(&mut so_far);
    assert!(cut(counts), "{direction:?}: sums, joins and runs measured: {counts:?}");
    check_times(&found, direction, layer.data_type);
    let told = found.iter().map(|record| record.workspace).max().unwrap_or(0);
    for size in [told, 0] {
        let workspace = Memory::new(&vec![0xff; size]);
        let scratch = if size > 0 { workspace.pointer() } else { ptr::null_mut() };
        let found = serving(|most, returned, found| {
            let [a, b, result] = memory.map(Memory::pointer);
            // SAFETY: as above, and device memory of the operands' sizes and of as much workspace
            // as is said.
            unsafe {
                given(
                    handle, descs[0], a, descs[1], b, desc, descs[2], result, most, returned, found, scratch,
                    size,
                )
            }
        });
        check_times(&found, direction, layer.data_type);
        let counts = measured(&mut so_far);
        let is_right = if size > 0 { cut(counts) } else { whole(counts) };
        assert!(is_right, "{direction:?}, {size} of {told} bytes: {counts:?}");
    }
    // SAFETY: made above.
    let codes = unsafe {
        [
            api::cudnnDestroyTensorDescriptor(x_desc),
            cudnnDestroyFilterDescriptor(w_desc),
            api::cudnnDestroyTensorDescriptor(y_desc),
            cudnnDestroyConvolutionDescriptor(desc),
        ]
    };
    assert_eq!(codes, [SUCCESS; 4]);
}

#[test]
fn searches_measure_long_sums_in_parts() {
    if double::is_real() {
        return println!("skipped: a real driver does not tell which kernels were measured");
    }
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        for (direction, channels, side) in [
            (Direction::Forward, [128, 24], 6),
            (Direction::Data, [24, 128], 6),
            (Direction::Filter, [16, 16], 33),
            // Few enough columns for a thread for each result.
            (Direction::Filter, [16, 3], 33),
        ] {
            for data_type in [FLOAT, HALF] {
                search(handle, &Layer { channels, side, data_type }, direction);
            }
        }
        // SAFETY: the handle from above.
        unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
        for name in ["contract_join_f32", "contract_join_direct_f32"] {
            assert!(count(&format!("measured {name}")) > 0, "{name} was not measured");
        }
    });
}

/// Searches where the math type allows conversion, with the variable set so; which kernels were
/// measured says what was made of it.
fn converts(variable: &str, expected: bool) {
    if double::is_real() {
        return println!("skipped: a real driver does not tell which kernels were measured");
    }
    double::run(&[("NVIDIA_TF32_OVERRIDE", variable), ("DRIVER_DOUBLE_CAPABILITY", "80")], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let [x, w, y, desc] = Layer { channels: [32, 64], side: 9, data_type: FLOAT }.describe();
        // SAFETY: the descriptor from above; 2 is TENSOR_OP_MATH_ALLOW_CONVERSION.
        unsafe { assert_eq!(cudnnSetConvolutionMathType(desc, 2), SUCCESS) };
        serving(|most, returned, found| {
            // SAFETY: descriptors of a problem that fits, and room for so many records.
            unsafe { cudnnFindConvolutionForwardAlgorithm(handle, x, w, desc, y, most, returned, found) }
        });
        let of = |part: &str| {
            let names = kernels().iter().map(|kernel| kernel.name).filter(|name| name.contains(part));
            names.map(|name| count(&format!("measured {name}"))).sum::<u32>()
        };
        assert_eq!(of("tf32") > 0, expected, "NVIDIA_TF32_OVERRIDE={variable}");
        assert_eq!(of("contract_f32") > 0, !expected, "NVIDIA_TF32_OVERRIDE={variable}");
        // SAFETY: the handle from above.
        unsafe { assert_eq!(api::cudnnDestroy(handle), SUCCESS) };
    });
}

#[test]
fn floats_are_converted_where_the_math_type_allows_it() {
    converts("1", true);
}

#[test]
fn one_variable_forbids_conversion() {
    converts("0", false);
}

/// The workspace that a filter's gradient is told to have, with the variable set so.
fn told(variable: &str, judge: impl Fn(usize) -> bool) {
    double::run(&[("CUDNN_CONV_WSCAP_DBG", variable)], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let [x, w, y, desc] = Layer { channels: [128, 128], side: 65, data_type: FLOAT }.describe();
        let mut size = 0;
        // SAFETY: descriptors of a problem that fits, and the handle from above.
        let codes = unsafe {
            let query = cudnnGetConvolutionBackwardFilterWorkspaceSize;
            [query(handle, x, y, desc, w, 1, &mut size), api::cudnnDestroy(handle)]
        };
        assert_eq!(codes, [SUCCESS; 2]);
        assert!(judge(size), "CUDNN_CONV_WSCAP_DBG={variable}: {size} bytes");
    });
}

#[test]
fn queries_tell_as_much_workspace_as_is_useful() {
    told("many", |size| size > 1 << 20);
}

#[test]
fn one_variable_limits_the_workspace() {
    told("1", |size| size == 1 << 20);
}

#[test]
fn one_variable_forbids_workspaces() {
    told("0", |size| size == 16);
}
