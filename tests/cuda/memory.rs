//! Device memory of the tests. With `CUDNN_SHIM_TEST_CANARIES=1` it is surrounded by bytes that
//! nobody may write, and what goes wrong names the problem that was worked on: on a real driver
//! nothing else tells.

use std::env;
use std::ffi::c_void;
use std::fmt::Display;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::double::{
    self, cuMemAlloc_v2, cuMemFree_v2, cuMemGetInfo_v2, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2, cuMemsetD8_v2,
};

/// Bytes on either side; they keep every alignment.
const GUARD: usize = 256;
/// What these hold.
const CANARY: u8 = 0xA5;

/// Bytes at the start of fresh memory that hold [`FILLING`]; behind them are zeros.
const FILLED: usize = 1 << 24;
/// What the double leaves there.
const FILLING: u8 = 0xCD;

/// Device memory that has to be free beside what somebody asks for.
const SPARE: usize = 256 << 20;

static CANARIES: LazyLock<bool> =
    LazyLock::new(|| env::var_os("CUDNN_SHIM_TEST_CANARIES").is_some_and(|value| value == "1"));

static PROBLEM: Mutex<String> = Mutex::new(String::new());

/// Names what is worked on from now on.
pub fn working_on(problem: &dyn Display) {
    if *CANARIES {
        *PROBLEM.lock().unwrap_or_else(PoisonError::into_inner) = problem.to_string();
    }
}

fn problem() -> String {
    PROBLEM.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn allocate(size: usize) -> u64 {
    let mut address = 0;
    // SAFETY: a place for the result.
    let code = unsafe { cuMemAlloc_v2(&mut address, size) };
    assert_eq!(code, 0, "allocation, after {}", problem());
    address
}

/// Byte `i` of memory that nobody has written.
pub fn fresh(i: usize) -> u8 {
    if i < FILLED { FILLING } else { 0 }
}

/// Makes memory what fresh memory of the double is.
fn freshen(address: u64, size: usize) {
    for (value, size) in [(0, size), (FILLING, size.min(FILLED))] {
        // SAFETY: allocated, and at least as large.
        unsafe { assert_eq!(cuMemsetD8_v2(address, value, size), 0, "filling, after {}", problem()) };
    }
}

/// Whether this many bytes of the device are free. If they are not, it says that `what` is skipped.
pub fn has_room(bytes: usize, what: &dyn Display) -> bool {
    let (mut free, mut total) = (0, 0);
    // SAFETY: places for the results.
    unsafe { assert_eq!(cuMemGetInfo_v2(&mut free, &mut total), 0, "after {}", problem()) };
    let fits = free >= bytes.saturating_add(SPARE);
    if !fits {
        println!("skipped: {bytes} bytes of device memory, of which {free} are free: {what}");
    }
    fits
}

/// Copies to the device.
fn store(address: u64, bytes: &[u8]) {
    // SAFETY: as many bytes as the slice has; the callers answer for the address.
    let code = unsafe { cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(code, 0, "copy to the device, after {}", problem());
}

/// Copies from the device, once all work is done.
fn fetch(address: u64, bytes: &mut [u8]) {
    // SAFETY: the slice has room for this many bytes; the callers answer for the address.
    let code = unsafe { cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) };
    assert_eq!(code, 0, "copy from the device, after {}", problem());
}

/// Device memory with the bytes of a slice.
pub struct Memory {
    pub address: u64,
    pub size: usize,
    /// Bytes on either side that belong to nobody.
    guard: usize,
}

impl Memory {
    pub fn new(bytes: &[u8]) -> Memory {
        let size = bytes.len();
        if !*CANARIES {
            let memory = Memory { address: allocate(size.max(1)), size, guard: 0 };
            store(memory.address, bytes);
            return memory;
        }
        let guarded = [&[CANARY; GUARD], bytes, &[CANARY; GUARD]].concat();
        let start = allocate(guarded.len());
        store(start, &guarded);
        Memory { address: start + GUARD as u64, size, guard: GUARD }
    }

    /// Memory of any size, [fresh](fresh), which on the double need not be there as long as it is
    /// not touched. It has no canaries.
    pub fn untouched(size: usize) -> Memory {
        let memory = Memory { address: allocate(size), size, guard: 0 };
        // The double would have to find room for it.
        if !double::is_double() {
            freshen(memory.address, size);
        }
        memory
    }

    /// The bytes, once all work is done.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        self.read_at(0, &mut bytes);
        if self.guard > 0 {
            self.check();
        }
        bytes
    }

    /// Complains of canaries that somebody wrote.
    fn check(&self) {
        let mut guard = vec![CANARY; self.guard];
        let (front, behind) = (self.address - self.guard as u64, self.address + self.size as u64);
        for (start, side) in [(front, "in front of"), (behind, "behind")] {
            fetch(start, &mut guard);
            let intact = guard.iter().all(|byte| *byte == CANARY);
            assert!(intact, "bytes {side} an operand were written by\n{}", problem());
        }
    }

    /// Some of the bytes, from `offset` on.
    pub fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.size);
        fetch(self.address + offset as u64, bytes);
    }

    /// Writes some of the bytes, from `offset` on.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.size);
        store(self.address + offset as u64, bytes);
    }

    pub fn pointer(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.address as usize)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.guard > 0 && !std::thread::panicking() {
            self.check();
        }
        // SAFETY: allocated by this module. The context may be gone or in error by now.
        unsafe { cuMemFree_v2(self.address - self.guard as u64) };
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use cudnn::desc::Format;
    use cudnn::dtype::DataType;

    use super::{FILLED, Memory, fresh, freshen, working_on};
    use crate::cores::{Cores, far_offsets};
    use crate::tensors::format;
    use crate::{child, double};

    /// A device that has no room for a far tensor has it skipped, in words that are counted.
    #[test]
    fn what_does_not_fit_the_device_is_skipped() {
        let output = child::start(&double::libraries(), &[("DRIVER_DOUBLE_FREE", "1024")], || {
            let mut cores = Cores::new();
            far_offsets(&mut cores);
            assert_eq!(cores.solved, 0);
            cores.transform(
                format(DataType::Half, Format::Nchw, &[1, 2, 3, 5]),
                format(DataType::Half, Format::Nhwc, &[1, 2, 3, 5]),
                (1.0, 0.0),
            );
            assert_eq!(cores.solved, 1, "what fits is solved");
        });
        let Some(output) = output else { return };
        let text = child::text(&output);
        assert!(output.status.success(), "{text}");
        // Of each type: three types of the far tensor in two layouts, and padding.
        let skipped = child::skips(&text).filter(|line| line.contains("are free"));
        assert_eq!(skipped.count(), 4 * (3 * 2 + 1), "{text}");
    }

    /// What a real driver's memory is made is what the double's is.
    #[test]
    fn fresh_memory_is_alike_everywhere() {
        double::run(&[], || {
            double::use_device(0);
            let size = FILLED + 4096;
            let is_fresh = |memory: &Memory| memory.read().iter().enumerate().all(|(i, &b)| b == fresh(i));
            assert!(is_fresh(&Memory::untouched(size)));
            let memory = Memory::new(&vec![1; size]);
            assert!(!is_fresh(&memory));
            freshen(memory.address, size);
            assert!(is_fresh(&memory));
        });
    }

    /// What a write outside of its memory looks like where no double watches.
    #[test]
    fn canaries_that_are_written_name_the_problem() {
        double::run(&[("CUDNN_SHIM_TEST_CANARIES", "1")], || {
            double::use_device(0);
            for offset in [-1_i64, 16] {
                let memory = Memory::new(&[7; 16]);
                working_on(&"a problem of the test");
                assert_eq!(memory.read(), [7; 16]);
                let beside = memory.address.wrapping_add_signed(offset);
                // SAFETY: a byte of the guard, which is allocated.
                unsafe { assert_eq!(double::cuMemcpyHtoD_v2(beside, [0_u8].as_ptr().cast(), 1), 0) };
                let panic = catch_unwind(|| memory.read()).expect_err("a complaint");
                let text = panic.downcast_ref::<String>().expect("a message");
                let side = if offset < 0 { "in front of" } else { "behind" };
                assert!(text.contains(side) && text.contains("a problem of the test"), "{text}");
                std::mem::forget(memory);
            }
        });
    }
}
