//! `kernels/mma.cuh`, products of fragments that a warp holds, against plain loops; and layouts
//! that are wrong.

use std::ffi::{CString, c_void};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fs, ptr};

use half::{bf16, f16};

use crate::double::{self, Memory, Runs};
use crate::{child, common, complaints};
use testkit::random::Rng;

/// A double with the kernels of `fragments.cu`.
fn libraries() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let double = common::project_root().join("c_tests/driver_double");
            let sources = ["fragments.cu", "fragments.ptx"].map(|name| double.join(name));
            double::built("driver_double_fragments", Runs::asked(), &sources)
        })
        .clone()
}

/// The parameter of the kernels in `fragments.cu`.
#[repr(C)]
struct Product {
    a: u64,
    b: u64,
    c: u64,
    wrong: u32,
    unused: u32,
}

/// Runs a kernel of one warp and returns the code of the wait.
fn run(kernel: &str, [a, b, c]: [&Memory; 3], wrong: u32) -> i32 {
    let text = fs::read_to_string(common::project_root().join("c_tests/driver_double/fragments.ptx"));
    let text = CString::new(text.expect("the generated PTX")).expect("PTX");
    let name = CString::new(kernel).expect("a name");
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let mut product = Product { a: a.address, b: b.address, c: c.address, wrong, unused: 0 };
    let mut parameters = [(&raw mut product).cast::<c_void>()];
    let none: double::Object = ptr::null_mut();
    // SAFETY: C strings, places for results, and a parameter of the kernel's size with memory for
    // 16 x K, K x 8 and 16 x 8 elements.
    unsafe {
        assert_eq!(
            double::cuModuleLoadDataEx(&mut module, text.as_ptr(), 0, ptr::null_mut(), none.cast()),
            0
        );
        assert_eq!(double::cuModuleGetFunction(&mut function, module, name.as_ptr()), 0);
        let code = double::cuLaunchKernel(
            function,
            1,
            1,
            1,
            32,
            1,
            1,
            0,
            none,
            parameters.as_mut_ptr(),
            none.cast(),
        );
        assert_eq!(code, 0);
        double::cuCtxSynchronize()
    }
}

/// An element type of a product: its kernel, K, and the bits of a small integer.
struct Type {
    kernel: &'static str,
    depth: usize,
    bytes: fn(i32) -> Vec<u8>,
    /// The least and the largest number of A and of B.
    ranges: [[i32; 2]; 2],
    /// The bits of an accumulated number.
    sum: fn(i32) -> [u8; 4],
}

/// Numbers that every floating type holds.
const SMALL: [[i32; 2]; 2] = [[-8, 8]; 2];
/// All bytes, with a sign and without.
const SIGNED: [i32; 2] = [-128, 127];
const UNSIGNED: [i32; 2] = [0, 255];

/// Products of bytes.
const fn bytes(kernel: &'static str, ranges: [[i32; 2]; 2]) -> Type {
    Type { kernel, depth: 32, bytes: |x| vec![x as u8], ranges, sum: |x| x.to_le_bytes() }
}

const TYPES: [Type; 9] = [
    Type {
        kernel: "fragments_f16",
        depth: 16,
        bytes: |x| f16::from_f32(x as f32).to_le_bytes().to_vec(),
        ranges: SMALL,
        sum: |x| (x as f32).to_le_bytes(),
    },
    Type {
        kernel: "fragments_bf16",
        depth: 16,
        bytes: |x| bf16::from_f32(x as f32).to_le_bytes().to_vec(),
        ranges: SMALL,
        sum: |x| (x as f32).to_le_bytes(),
    },
    Type {
        kernel: "fragments_tf32",
        depth: 8,
        bytes: |x| (x as f32).to_le_bytes().to_vec(),
        ranges: SMALL,
        sum: |x| (x as f32).to_le_bytes(),
    },
    bytes("fragments_s8", [SIGNED, SIGNED]),
    bytes("fragments_u8", [UNSIGNED, UNSIGNED]),
    bytes("fragments_u8_s8", [UNSIGNED, SIGNED]),
    bytes("fragments_s8_u8", [SIGNED, UNSIGNED]),
    bytes("fragments_s8_quarters", [SIGNED, SIGNED]),
    Type {
        kernel: "fragments_f16_halves",
        depth: 16,
        bytes: |x| f16::from_f32(x as f32).to_le_bytes().to_vec(),
        ranges: SMALL,
        sum: |x| (x as f32).to_le_bytes(),
    },
];
/// Those of bytes.
const BYTES: Range<usize> = 3..8;

/// Whether a product of random integers, which the type holds exactly, is what plain loops make of
/// them.
fn is_right(this: &Type, wrong: u32) -> bool {
    let mut random = Rng(7 + this.depth as u64);
    let mut numbers = |count: usize, [least, most]: [i32; 2]| {
        let span = (most - least) as usize + 1;
        (0..count).map(|_| random.below(span) as i32 + least).collect::<Vec<i32>>()
    };
    let [of_a, of_b] = this.ranges;
    let (a, b, c) =
        (numbers(16 * this.depth, of_a), numbers(8 * this.depth, of_b), numbers(16 * 8, SMALL[0]));
    let bytes = |numbers: &[i32]| numbers.iter().flat_map(|x| (this.bytes)(*x)).collect::<Vec<u8>>();
    let sums = |numbers: &[i32]| numbers.iter().flat_map(|x| (this.sum)(*x)).collect::<Vec<u8>>();
    let memory = [Memory::new(&bytes(&a)), Memory::new(&bytes(&b)), Memory::new(&sums(&c))];
    assert_eq!(run(this.kernel, memory.each_ref(), wrong), 0);
    let want: Vec<i32> = (0..16 * 8)
        .map(|i| {
            let (row, column) = (i / 8, i % 8);
            let product = |k| a[row * this.depth + k] * b[column * this.depth + k];
            c[i] + (0..this.depth).map(product).sum::<i32>()
        })
        .collect();
    memory[2].read() == sums(&want)
}

#[test]
fn fragments_have_the_layout_of_the_manual() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        for this in &TYPES {
            assert!(is_right(this, 0), "{}", this.kernel);
        }
    });
}

#[test]
fn every_wrong_layout_is_found_out() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        for this in &TYPES {
            for wrong in 1..=7 {
                assert!(!is_right(this, wrong), "{} with layout {wrong}", this.kernel);
            }
        }
    });
}

#[test]
fn bytes_taken_for_those_of_another_sign_are_found_out() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        for taken in &TYPES[BYTES] {
            for meant in &TYPES[BYTES] {
                let this = bytes(taken.kernel, meant.ranges);
                assert_eq!(
                    is_right(&this, 0),
                    taken.ranges == meant.ranges,
                    "{} for {}",
                    taken.kernel,
                    meant.kernel
                );
            }
        }
    });
}

#[test]
fn lanes_that_stay_away_from_a_product() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let memory = [(); 3].map(|()| Memory::new(&[0; 1024]));
        assert_eq!(run("fragments_divergent", memory.each_ref(), 1), 719);
    });
    complaints::check(output, "fragments_divergent: ");
}

#[test]
fn tf32_rounds_to_nearest_and_ties_away() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let cases: [(u32, u32); 8] = [
            (0x3f80_0000, 0x3f80_0000),
            (0x3f80_0fff, 0x3f80_0000),
            (0x3f80_1000, 0x3f80_2000),
            (0xbf80_3000, 0xbf80_4000),
            (0x3fff_f000, 0x4000_0000),
            (0x7f7f_ffff, 0x7f80_0000),
            (0x7f80_0000, 0x7f80_0000),
            (0x0000_1000, 0x0000_2000),
        ];
        let bits: Vec<u8> = (0..32).flat_map(|k| cases[k % 8].0.to_le_bytes()).collect();
        let want: Vec<u8> = (0..32).flat_map(|k| cases[k % 8].1.to_le_bytes()).collect();
        let memory = [Memory::new(&bits), Memory::new(&[]), Memory::new(&[0; 128])];
        assert_eq!(run("round_to_tf32", memory.each_ref(), 0), 0);
        assert!(memory[2].read() == want);
    });
}
