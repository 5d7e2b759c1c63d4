//! Contractions of more than 2^31 results, from operands as far apart, on the CUDA core: of each
//! grid the double runs a few blocks at the start, in the middle and at the end, as in `large.rs`.

use cudnn::desc::{
    ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, FilterDescriptor, Format, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::Context;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::convolution::{Convolution, ConvolutionPlan, Direction};

use crate::double::{self, Memory};

/// Two images of 24 planes.
const CHANNELS: usize = 24;
const SIDE: usize = 6_700;
const PIXELS: usize = SIDE * SIDE;
const COUNT: usize = 2 * CHANNELS * PIXELS;
const _: () = assert!(COUNT > 1 << 31);

/// Bytes from the first image of x to the second.
const FAR: usize = 2_500_000_000;

/// A byte of x: its rows are one and the same in an image, which is all that there is of it.
fn value(image: usize, column: usize) -> usize {
    1 + (column + image) % 5
}

/// Result `i` of planes that hold 1 to 24 times x, which is that many columns further on in every
/// next channel.
fn want(i: usize, shift: usize) -> u8 {
    let channel = i / PIXELS % CHANNELS;
    ((channel + 1) * value(i / (CHANNELS * PIXELS), i % SIDE + channel * shift)) as u8
}

fn tensor(dims: [usize; 4], strides: [usize; 4]) -> TensorDescriptor {
    let [dims, strides] = [dims, strides].map(|values| values.map(|value| value as i64));
    TensorDescriptor::with_strides(DataType::Int8, 4, &dims, &strides, Mode::Extended).expect("valid")
}

/// Runs of pages that somebody has touched, as offsets from the start of the memory, and what they
/// hold.
fn touched(memory: &Memory) -> Vec<(usize, Vec<u8>)> {
    const PAGE: usize = 4096;
    // Waits for what is queued.
    memory.read_at(0, &mut [0]);
    let mut pages = vec![0_u8; memory.size.div_ceil(PAGE)];
    // SAFETY: the memory is mapped, from the start of a page on, and there is a byte for each of
    // its pages.
    let code = unsafe { libc::mincore(memory.pointer(), memory.size, pages.as_mut_ptr()) };
    assert_eq!(code, 0, "mincore");
    let mut from = 0;
    let mut runs = Vec::new();
    for run in pages.chunk_by(|a, b| a & 1 == b & 1) {
        let (start, end) = (from * PAGE, ((from + run.len()) * PAGE).min(memory.size));
        from += run.len();
        if run[0] & 1 == 1 {
            let mut bytes = vec![0; end - start];
            memory.read_at(start, &mut bytes);
            runs.push((start, bytes));
        }
    }
    runs
}

/// y of x with windows of one pixel, of which only the first channel of x and of a filter counts.
fn convolve(capability: &str, groups: usize, kernel: &str) {
    if double::is_real() {
        return println!("skipped: of a real device's memory nobody tells which pages are touched");
    }
    let variables = [("DRIVER_DOUBLE_CAPABILITY", capability), ("CUDNN_SHIM_CHECK", "1")];
    double::run(&variables, || {
        double::use_device(0);
        let core = Context::create().expect("a handle");
        let source = Memory::untouched(FAR + SIDE + CHANNELS);
        for image in 0..2 {
            let row: Vec<u8> = (0..SIDE + CHANNELS).map(|column| value(image, column) as u8).collect();
            source.write_at(image * FAR, &row);
        }
        // Channels that show the same would be no groups.
        let (each, shift) = if groups == 1 { (3, 0) } else { (1, 1) };
        let mut factors = vec![0; CHANNELS * each];
        (0..CHANNELS).for_each(|k| factors[k * each] = k as u8 + 1);
        let (filter, y) = (Memory::new(&factors), Memory::untouched(COUNT));
        let x = tensor([2, each * groups, SIDE, SIDE], [FAR, shift, 0, 1]);
        let planes = tensor([2, CHANNELS, SIDE, SIDE], [CHANNELS * PIXELS, PIXELS, SIDE, 1]);
        let dims = [CHANNELS, each, 1, 1].map(|dim| dim as i64);
        let w = FilterDescriptor::new(DataType::Int8, Format::Nchw, 4, &dims, Mode::Extended).expect("valid");
        let [none, one] = [Dims::new(&[0; 2]), Dims::new(&[1; 2])];
        let mode = ConvolutionMode::CrossCorrelation;
        let geometry = ConvolutionGeometry::new(mode, DataType::Int32, none, one, one).expect("valid");
        let desc = ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() };
        let problem = Convolution::new(Direction::Forward, &desc, &x, &w, &planes, Mode::Extended);
        let plan = ConvolutionPlan::new(&problem.expect("fits"), Scaling::MOVE).expect("a plan");
        double::sample(3);
        let at = [y.pointer(), source.pointer(), filter.pointer()].map(Into::into);
        // SAFETY: the descriptors span no more than the memory, on the device.
        unsafe { core.run(&plan, &at) }.expect("runs");
        assert!(double::count(kernel) > 0, "{kernel} did not run: {plan}");
        // What is not written is 0, or a filling, and no result is either.
        let (mut first, mut last, mut middle) = (None, 0, false);
        for (start, bytes) in touched(&y) {
            for (i, &got) in (start..).zip(&bytes).filter(|&(_, &got)| got != 0 && got != 0xCD) {
                assert_eq!(got, want(i, shift), "{kernel}, result {i}");
                first.get_or_insert(i);
                (last, middle) = (i, middle || (COUNT / 4..COUNT / 4 * 3).contains(&i));
            }
        }
        assert_eq!((first, last, middle), (Some(0), COUNT - 1, true), "{kernel}: the places written");
    });
}

#[test]
fn tiles() {
    convolve("70", 1, "contract_i32");
}

#[test]
fn fragments() {
    convolve("80", 1, "contract_mma_s8");
}

#[test]
fn depthwise() {
    convolve("70", CHANNELS, "contract_direct_i32");
}
