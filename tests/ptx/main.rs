//! The kernels' PTX against what is launched, against its sources, and against the assembler.
//!
//! Each family of kernels has a file that launches every one of them.

mod arithmetic;
mod attend;
mod budgets;
mod causal;
mod contract;
mod ctc;
mod graphs;
mod launch_bounds;
mod layers;
mod mainloops;
mod moves;
mod normal;
mod ragged;
mod sample;
mod specialised;
mod tables;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cudnn::backend::cuda::launch::{Device, Launch, Pointers};
use cudnn::backend::cuda::module::{Kernel, kernels};
use cudnn::backend::cuda::params::{Divisor, Index};
use cudnn::backend::cuda::plan;
use cudnn::desc::TensorDescriptor;
use cudnn::desc::tensor::Format;
use cudnn::dtype::DataType;
use cudnn::exec::Address;
use cudnn::mode::Mode;
use cudnn::ops::{Plan, Scaling};

/// What every family launches, each with the name of the kernel that it must end in.
fn expected() -> Vec<(String, Launch)> {
    [
        moves::launches(),
        arithmetic::launches(),
        layers::launches(),
        specialised::launches(),
        normal::launches(),
        sample::launches(),
        causal::launches(),
        graphs::launches(),
        ragged::launches(),
        attend::launches(),
        windows::launches(),
        contract::launches(),
        ctc::launches(),
    ]
    .concat()
}

/// Generates the PTX again, with the pinned compiler, and compares; so are the rows of kernels
/// whose text is not that of their seal, with the pinned assembler.
#[test]
fn ptx_and_resources_are_what_the_sources_generate() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "ptx", "--check"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("cannot fetch nvidia-cuda-") {
        println!(
            "skipped: the pinned compiler is not here and cannot be fetched; install python3-pip, go online"
        );
        return;
    }
    assert!(output.status.success(), "{errors}");
}

/// Every kernel by its name.
fn entries() -> BTreeMap<&'static str, &'static Kernel> {
    kernels().iter().map(|kernel| (kernel.name, kernel)).collect()
}

/// A tensor that is never touched, so that it may be as large as one likes.
fn strided(data_type: DataType, dims: &[i64], strides: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_strides(data_type, dims.len() as i64, dims, strides, Mode::Extended).unwrap()
}

fn packed(data_type: DataType, format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, format, dims.len() as i64, dims, Mode::Extended).unwrap()
}

const ALIGNED: Pointers = Pointers { dst: 0x1_0000, src: 0x2_0000 };
const SCALED: Scaling = Scaling { alpha: 2.0, beta: 0.0 };

/// An address of the device.
fn place(address: usize) -> Address {
    std::ptr::without_provenance_mut::<u8>(address).into()
}

/// Everything that a plan launches.
fn collected(plan: &dyn Plan, at: &[Address]) -> Vec<Launch> {
    collected_on(Device::ANY, plan, at)
}

/// Everything that a plan launches on a device.
fn collected_on(device: Device, plan: &dyn Plan, at: &[Address]) -> Vec<Launch> {
    let mut found = Vec::new();
    plan::launches(plan, at, device, &mut |launch| {
        found.push(*launch);
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn every_family_has_its_problems() {
    for (kernel, launch) in expected() {
        assert_eq!(launch.kernel, kernel);
    }
}

#[test]
fn every_kernel_is_launched_with_the_parameters_it_takes() {
    let entries = entries();
    let mut launched = BTreeSet::new();
    for (kernel, launch) in expected() {
        let parameter = entries.get(launch.kernel).map(|kernel| kernel.parameter);
        assert_eq!(parameter, Some(launch.params.size()), "{kernel}");
        launched.insert(launch.kernel);
    }
    let idle: Vec<_> = entries.keys().filter(|name| !launched.contains(*name)).collect();
    assert!(idle.is_empty(), "the PTX has kernels that nothing launches: {idle:?}");
}

#[test]
fn grids_stay_within_the_limits_of_every_device() {
    for (kernel, launch) in expected() {
        let [x, y, z] = launch.grid;
        assert!((1..1 << 31).contains(&x) && (y, z) == (1, 1), "{kernel}: {:?}", launch.grid);
        let [x, y, z] = launch.block;
        assert!(x % 32 == 0 && x <= 1024 && (y, z) == (1, 1), "{kernel}: {:?}", launch.block);
        assert_eq!(launch.shared, 0, "{kernel}: shared memory is static");
    }
}

/// What the kernels compute, in their integers.
fn quotient(dividend: u64, by: &Divisor, index: Index) -> u64 {
    match index {
        Index::I32 => {
            let (n, m) = (dividend as u32, by.multiplier as u32);
            u64::from((((u64::from(n) * u64::from(m)) >> 32) as u32 + n) >> by.shift)
        }
        Index::I64 => {
            let high = (u128::from(dividend) * u128::from(by.multiplier)) >> 64;
            (high as u64 + dividend) >> by.shift
        }
    }
}

#[test]
fn multiply_and_shift_divides() {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 1
    };
    for (index, bits) in [(Index::I32, 31), (Index::I64, 63)] {
        let largest = (1_u64 << bits) - 1;
        let mut divisors: Vec<u64> = (1..=1000).chain([largest - 1, largest, 1 << (bits - 1)]).collect();
        divisors.extend((0..2000).map(|k| (random() >> (k % bits)).clamp(1, largest)));
        for divisor in divisors {
            let by = Divisor::new(divisor as i64, index);
            let multiple = largest / divisor * divisor;
            for dividend in [0, 1, divisor - 1, divisor, multiple, multiple - 1, largest, random() & largest]
            {
                assert_eq!(quotient(dividend, &by, index), dividend / divisor, "{dividend} / {divisor}");
            }
        }
    }
}

#[test]
fn the_tables_of_resources_name_every_kernel() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/backend/cuda/ptx");
    for kernel in kernels() {
        let table = std::fs::read_to_string(format!("{folder}/{}.tsv", kernel.family())).unwrap();
        let row = table.lines().skip(2).find(|row| row.split('\t').next() == Some(kernel.name));
        assert!(row.is_some(), "{} has no row", kernel.name);
    }
}
