//! The driver double itself: it finds what a kernel or a library must not do, and leaves the rest
//! alone.

use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, ptr};

use crate::double::{self, Memory, Runs};
use crate::{child, common};

/// The parameter of the kernels in `faulty.cu`.
#[repr(C)]
struct Parameter {
    data: u64,
    choice: i32,
    unused: i32,
}

pub const KERNELS: &[&str] = &[
    "write_behind",
    "read_in_front",
    "write_there",
    "misaligned",
    "reverse",
    "missing_barrier",
    "missing_second_barrier",
    "divergent_barrier",
    "early_end",
    "late_end",
    "too_much_shared",
    "sums",
    "misaligned_vector",
    "misaligned_shared_vector",
    "unwritten_shared",
    "inherited_shared",
    "unordered_shuffle",
    "unordered_ballot",
    "ordered_warp",
    "halves",
    "mask_of_the_ended",
    "mask_without_the_caller",
    "masks_that_differ",
    "shuffle_from_outside",
    "shuffle_against_ballot",
    "written_by_two_blocks",
    "read_from_another_block",
    "blocks_apart",
    "reads_apart",
    "long_shift",
    "waited_copy",
    "early_read_of_a_copy",
    "copy_of_no_group",
    "copy_without_a_wait",
    "copy_without_a_barrier",
    "misaligned_copy",
    "loaded_matrices",
];

/// What an assembler would make of them, as far as the double reads it.
pub fn ptx(kernels: &[&str], bytes: usize) -> String {
    let mut text = ".version 8.0\n.target sm_70\n.address_size 64\n".to_owned();
    for name in kernels {
        writeln!(text, ".visible .entry {name}(\n\t.param .align 8 .b8 {name}_param_0[{bytes}]\n)\n{{\n}}")
            .expect("a string grows");
    }
    text
}

/// A double with the kernels of `faulty.cu`.
pub fn libraries() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver_double_faulty");
            if !child::is_one() {
                fs::create_dir_all(&dir).expect("scratch directory");
                let text = dir.join("faulty.ptx");
                // Written once, for its age counts.
                if fs::read_to_string(&text).ok() != Some(ptx(KERNELS, 16)) {
                    fs::write(&text, ptx(KERNELS, 16)).expect("PTX text");
                }
            }
            let source = common::project_root().join("c_tests/driver_double/faulty.cu");
            // What is wrong with them is wrong with their sources: their texts are empty.
            double::built("driver_double_faulty", Runs::Source, &[source, dir.join("faulty.ptx")])
        })
        .clone()
}

/// How a child starts a kernel, and what it expects of it.
pub struct Start {
    pub kernel: &'static str,
    pub blocks: u32,
    pub threads: u32,
    pub shared: u32,
    pub choice: i32,
    /// Error code of the wait after the launch.
    pub code: i32,
}

impl Start {
    pub fn of(kernel: &'static str) -> Start {
        Start { kernel, blocks: 1, threads: 64, shared: 0, choice: 0, code: 0 }
    }

    /// Loads, launches and waits; returns the code of the wait.
    pub fn run(&self, text: &str, address: u64) -> i32 {
        let (text, name) = (CString::new(text).expect("PTX"), CString::new(self.kernel).expect("a name"));
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let mut parameter = Parameter { data: address, choice: self.choice, unused: 0 };
        let mut parameters = [(&raw mut parameter).cast::<c_void>()];
        // SAFETY: C strings, places for results, and a parameter of the kernel's size. What the
        // kernel does with the address is what the double is there to judge.
        unsafe {
            let none: double::Object = ptr::null_mut();
            let code =
                double::cuModuleLoadDataEx(&mut module, text.as_ptr(), 0, ptr::null_mut(), none.cast());
            if code != 0 {
                return code;
            }
            assert_eq!(double::cuModuleGetFunction(&mut function, module, name.as_ptr()), 0);
            let parameters = parameters.as_mut_ptr();
            let (threads, shared) = (self.threads, self.shared);
            let code = double::cuLaunchKernel(
                function,
                self.blocks,
                1,
                1,
                threads,
                1,
                1,
                shared,
                none,
                parameters,
                none.cast(),
            );
            if code != 0 {
                return code;
            }
            double::cuCtxSynchronize()
        }
    }
}

pub fn ints(values: impl Iterator<Item = i32>) -> Vec<u8> {
    values.flat_map(i32::to_le_bytes).collect()
}

/// Expects of `start` its code, then the end of the process with this complaint.
pub fn expect_complaint(start: Start, complaint: &str) {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), start.code);
    });
    check(output, complaint);
}

pub fn check(output: Option<std::process::Output>, complaint: &str) {
    let Some(output) = output else { return };
    let text = child::text(&output);
    assert_eq!(output.status.code(), Some(97), "{text}");
    assert!(text.contains("1 passed") && text.contains(complaint), "{text}");
}

#[test]
fn right_kernels_are_left_alone() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let reverse = Start::of("reverse");
        assert_eq!(reverse.run(&ptx(KERNELS, 16), memory.address), 0);
        assert_eq!(memory.read(), ints((0..64).rev()));
        let sums = Start { shared: 8, ..Start::of("sums") };
        assert_eq!(sums.run(&ptx(KERNELS, 16), memory.address), 0);
        let sum = (0..64).sum::<i32>() + 1000 * 32 + 100_000 * 15;
        assert_eq!(memory.read(), ints((0..64).map(|_| sum)));
    });
}

#[test]
fn the_order_of_threads_can_be_turned_round() {
    child::run(&libraries(), &[("DRIVER_DOUBLE_ORDER", "reverse")], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        assert_eq!(Start::of("reverse").run(&ptx(KERNELS, 16), memory.address), 0);
        assert_eq!(memory.read(), ints((0..64).rev()));
    });
}

#[test]
fn writes_behind_an_allocation() {
    let start = Start { threads: 1, code: 700, ..Start::of("write_behind") };
    expect_complaint(start, "writes 4 bytes at 0x");
}

#[test]
fn reads_in_front_of_an_allocation() {
    let start = Start { threads: 1, code: 700, ..Start::of("read_in_front") };
    expect_complaint(start, "-4 bytes from the start of an allocation of 256");
}

#[test]
fn host_pointers() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let mut host = [0; 64];
        let code = Start::of("write_there").run(&ptx(KERNELS, 16), (&raw mut host).addr() as u64);
        assert_eq!(code, 700);
        assert_eq!(host, [0; 64]);
    });
    check(output, "which is host memory");
}

#[test]
fn freed_memory() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let address = Memory::new(&[0; 256]).address;
        let _other = Memory::new(&[0; 256]);
        assert_eq!(Start::of("write_there").run(&ptx(KERNELS, 16), address), 700);
    });
    check(output, "write_there: thread 0");
}

#[test]
fn misaligned_accesses() {
    let start = Start { threads: 1, code: 716, ..Start::of("misaligned") };
    expect_complaint(start, "is not aligned to 8 bytes");
}

#[test]
fn missing_barriers() {
    let complaint = "touch one byte of shared memory with no barrier between";
    expect_complaint(Start { code: 719, ..Start::of("missing_barrier") }, complaint);
}

#[test]
fn missing_barriers_of_a_loop() {
    let complaint = "touch one byte of shared memory with no barrier between";
    expect_complaint(Start { code: 719, ..Start::of("missing_second_barrier") }, complaint);
}

#[test]
fn divergent_barriers() {
    let start = Start { code: 719, ..Start::of("divergent_barrier") };
    expect_complaint(start, "while others wait at that of line");
}

#[test]
fn threads_that_end_before_a_barrier() {
    expect_complaint(Start { code: 719, ..Start::of("early_end") }, "early_end: thread 60 ends while others");
}

#[test]
fn threads_that_pass_by_a_barrier() {
    expect_complaint(Start { code: 719, ..Start::of("late_end") }, "late_end: thread 60 ends while others");
}

#[test]
fn dynamic_shared_memory_that_was_not_asked_for() {
    let start = Start { shared: 256, choice: 1, code: 700, ..Start::of("too_much_shared") };
    expect_complaint(start, "4 bytes at 256 of 256 bytes of dynamic shared memory");
}

#[test]
fn bad_grids() {
    expect_complaint(Start { threads: 2048, code: 1, ..Start::of("reverse") }, "a grid of 1 x 1 x 1 blocks");
}

/// A child that loads another text.
fn expect_stale(text: &str, complaint: &str) {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        assert_eq!(Start::of("reverse").run(text, 0), 218);
    });
    check(output, complaint);
}

#[test]
fn ptx_with_other_parameters() {
    expect_stale(&ptx(KERNELS, 24), "the PTX of write_behind is stale");
}

#[test]
fn ptx_with_a_kernel_too_many() {
    expect_stale(&ptx(&["unheard_of"], 16), "a kernel unheard_of that the sources do not have");
}

/// No complaint, for no rule is broken: a driver refuses such a text.
#[test]
fn ptx_for_later_devices() {
    child::run(&libraries(), &[("DRIVER_DOUBLE_CAPABILITY", "60")], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let text = ptx(KERNELS, 16);
        assert_eq!(Start::of("reverse").run(&text, memory.address), 218);
        assert_eq!(Start::of("reverse").run(&text.replace("sm_70", "sm_60"), memory.address), 0);
    });
}

/// As an assembler refuses what was cut out of a longer text without the functions that it calls.
#[test]
fn ptx_that_lacks_a_function() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let calls = |call: &str| ptx(KERNELS, 16).replacen("{\n}", &format!("{{\n\t{call}\n}}"), 1);
        let behind = ".func  (.param .align 4 .b8 func_retval0[8]) there(\n)\n{\n}\n";
        for call in
            ["call.uni (retval0), \n\tthere, \n\t(\n\tparam0\n\t);", "call.uni \n\tthere, \n\t(\n\t);"]
        {
            let text = calls(call);
            assert_eq!(Start::of("reverse").run(&text, memory.address), 218, "{call}");
            assert_eq!(Start::of("reverse").run(&(text + behind), memory.address), 0, "{call}");
        }
    });
}

#[test]
fn destroyed_streams() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let mut stream = ptr::null_mut();
        // SAFETY: a place for the result, then that stream. The double keeps the object to
        // recognise it.
        unsafe {
            assert_eq!(double::cuStreamCreate(&mut stream, 0), 0);
            assert_eq!(double::cuStreamDestroy_v2(stream), 0);
            assert_eq!(double::cuStreamSynchronize(stream), 400);
        }
    });
    check(output, "a stream is used that was destroyed");
}

#[test]
fn a_context_left_pushed() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let mut context = ptr::null_mut();
        // SAFETY: plain calls of the driver with places for their results.
        unsafe {
            assert_eq!(double::cuCtxGetCurrent(&mut context), 0);
            assert_eq!(double::cuCtxPushCurrent_v2(context), 0);
        }
    });
    check(output, "a thread ends with 1 contexts pushed");
}

#[test]
fn allocation_inside_a_call() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let mut context = ptr::null_mut();
        // SAFETY: plain calls of the driver with places for their results.
        unsafe {
            assert_eq!(double::cuCtxGetCurrent(&mut context), 0);
            assert_eq!(double::cuCtxPushCurrent_v2(context), 0);
            drop(Memory::new(&[0; 8]));
            assert_eq!(double::cuCtxPopCurrent_v2(&mut context), 0);
        }
    });
    check(output, "cuMemAlloc while a context is pushed");
}

#[test]
fn device_memory_is_closed_to_the_host() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&[1; 8]);
        let address = ptr::with_exposed_provenance::<u8>(memory.address as usize);
        // SAFETY: none; the process is expected to end here.
        let byte = unsafe { address.read_volatile() };
        println!("read {byte}");
    });
    if let Some(output) = output {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", child::text(&output));
    }
}
