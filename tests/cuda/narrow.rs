//! Conversions value by value: every number of the narrow types to every type, and floats to every
//! type that is not wider. Every float with `CUDNN_SHIM_TEST_FULL=1`; else some of each exponent,
//! for the driver double is a slow device.

use cudnn::desc::{ActivationDescriptor, ActivationMode, Format};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::{ActivationPlan, Plan, Scaling};

use crate::cores::{Cores, PLAIN, plain};
use crate::double::{self, Memory};
use crate::memory;
use crate::tensors::{Words, format};

/// Types that floats lose digits in.
const NO_WIDER: [DataType; 8] = [
    DataType::Half,
    DataType::Bfloat16,
    DataType::Fp8E4m3,
    DataType::Fp8E5m2,
    DataType::Int8,
    DataType::Uint8,
    DataType::Boolean,
    DataType::Int32,
];

/// Floats that are converted by one call.
const CHUNK: u64 = 1 << 24;
/// How far apart the floats of the sample are: a prime number, so that all mantissas come.
const STEP: u64 = 65_537;

/// Converts numbers with these bits on both cores.
fn same(cores: &mut Cores, bits: &[u8], src: DataType, types: &[DataType]) {
    let dims = [1, (bits.len() / src.scalar().size()) as i64];
    for &dst in types {
        let (x, y) = (format(src, Format::Nchw, &dims), format(dst, Format::Nchw, &dims));
        same_by(cores, bits, &plain(&x, &y), [src, dst]);
    }
}

/// Runs a plan from numbers with these bits to as many of another type on both cores.
fn same_by(cores: &mut Cores, bits: &[u8], plan: &dyn Plan, [src, dst]: [DataType; 2]) {
    let [size, dst_size] = [src, dst].map(|of| of.scalar().size());
    let (held, device) = (Words::new(bits), Memory::new(bits));
    memory::working_on(&plan);
    let before = vec![0xEE; bits.len() / size * dst_size];
    let (mut want, got) = (Words::new(&before), Memory::new(&before));
    // SAFETY: both buffers hold their tensors, which are packed.
    unsafe { cores.cpu.run(plan, &[want.address_mut().into(), held.address().into()]) }
        .expect("the CPU core");
    // SAFETY: as above, on the device.
    unsafe { cores.cuda.run(plan, &[got.pointer().into(), device.pointer().into()]) }.expect("the CUDA core");
    let got = got.read();
    if got != want.bytes() {
        let at = got.iter().zip(want.bytes()).position(|(a, b)| a != b).expect("a difference");
        let number = &bits[at / dst_size * size..][..size];
        panic!("{plan}\nthe number with the bytes {number:x?} becomes another one");
    }
}

#[test]
fn every_half_and_every_byte() {
    double::run(&[], || {
        let mut cores = Cores::new();
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        for src in [DataType::Fp8E4m3, DataType::Fp8E5m2, DataType::Int8, DataType::Uint8, DataType::Boolean]
        {
            same(&mut cores, &bytes, src, &PLAIN);
        }
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for src in [DataType::Half, DataType::Bfloat16] {
            same(&mut cores, &halves, src, &PLAIN);
        }
    });
}

/// The kernels of halves have formulas of their own for these functions.
#[test]
fn functions_of_every_half() {
    double::run(&[], || {
        let mut cores = Cores::new();
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for of in [DataType::Half, DataType::Bfloat16] {
            let x = format(of, Format::Nchw, &[1, 1 << 16]);
            for mode in [ActivationMode::Sigmoid, ActivationMode::Tanh] {
                let activation = ActivationDescriptor { mode, ..ActivationDescriptor::default() };
                let plan =
                    ActivationPlan::forward(&activation, [&x.desc; 2], Scaling::MOVE, false, Mode::Extended)
                        .expect("an activation");
                same_by(&mut cores, &halves, &plan, [of; 2]);
            }
        }
    });
}

#[test]
fn floats() {
    double::run(&[], || {
        let mut cores = Cores::new();
        let step = if double::is_full() { 1 } else { STEP };
        let all = u64::from(u32::MAX) + 1;
        let mut start = 0;
        while start < all {
            let end = all.min(start + CHUNK * step);
            let bits = (start..end).step_by(step as usize).flat_map(|bits| (bits as u32).to_le_bytes());
            same(&mut cores, &bits.collect::<Vec<u8>>(), DataType::Float, &NO_WIDER);
            start = end;
        }
    });
}
