//! Machine code of the kernels: which of it a device runs, and unpacking it.

use std::collections::VecDeque;
use std::ffi::{CStr, c_void};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lzma_rust2::LzmaReader;

use super::pack::{Image, Pack};
use crate::error::{Error, Result};

/// What a module is made from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// PTX, which the driver assembles.
    Text(&'a CStr),
    /// What an assembler has written, whole: an ELF file.
    Code(&'a [u8]),
}

impl Source<'_> {
    /// Where it begins. It tells itself where it ends.
    pub(super) fn start(self) -> *const c_void {
        match self {
            Source::Text(text) => text.as_ptr().cast(),
            Source::Code(code) => code.as_ptr().cast(),
        }
    }
}

/// Bytes of unpacked code that stay for the next kernel of their family. A program's first calls
/// take their kernels from a dozen families in turn; half of those have less than half a megabyte.
const KEPT: usize = 8 << 20;

/// How long they stay if no kernel is loaded from them.
const IDLE: Duration = Duration::from_secs(1);

/// The code of one family for one architecture, unpacked.
struct Block {
    family: &'static str,
    architecture: u32,
    /// Where it begins in what the family's stream unpacks to.
    start: usize,
    code: Vec<u8>,
    used: Instant,
}

/// Those that were used last come last.
static BLOCKS: Mutex<VecDeque<Block>> = Mutex::new(VecDeque::new());

/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Bytes that were unpacked in this process, those that were passed over included.
static UNPACKED: AtomicU64 = AtomicU64::new(0);

/// Bytes of machine code that were unpacked in this process.
pub(super) fn unpacked() -> u64 {
    UNPACKED.load(Ordering::Relaxed)
}

/// The images of a kernel that a device of this capability runs, the best first: code for its own
/// architecture, else for the latest before it of the same major number.
pub(super) fn candidates<'a, 'b>(
    pack: &'b Pack<'a>, kernel: &str, capability: u32,
) -> impl Iterator<Item = &'b Image<'a>> {
    let runs = |image: &&Image<'_>| {
        image.kernel == kernel
            && image.architecture / 10 == capability / 10
            && image.architecture <= capability
    };
    let mut found: Vec<&Image<'a>> = pack.images.iter().filter(runs).collect();
    found.sort_by_key(|image| std::cmp::Reverse(image.architecture));
    found.into_iter()
}

/// The bytes of an image.
///
/// # Errors
/// [`Error::Internal`] if the embedded code is damaged.
pub(super) fn unpack(family: &'static str, pack: &Pack<'_>, image: &Image<'_>) -> Result<Vec<u8>> {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |block: &Block| block.family == family && block.architecture == image.architecture;
    let mut block = match blocks.iter().position(is_it).and_then(|at| blocks.remove(at)) {
        Some(block) => block,
        None => block(family, pack, image.architecture)
            .map_err(|_| Error::Internal(format!("the machine code of {family} is damaged").into()))?,
    };
    block.used = Instant::now();
    let code = block.code[image.start - block.start..image.end - block.start].to_vec();
    blocks.push_back(block);
    while blocks.iter().map(|block| block.code.len()).sum::<usize>() > KEPT {
        blocks.pop_front();
    }
    ANY.store(!blocks.is_empty(), Ordering::Relaxed);
    Ok(code)
}

/// Unpacks a family's code for one architecture, which lies behind that for others.
fn block(family: &'static str, pack: &Pack<'_>, architecture: u32) -> io::Result<Block> {
    let own = || pack.images.iter().filter(|image| image.architecture == architecture);
    let start = own().map(|image| image.start).min().unwrap_or_default();
    let end = own().map(|image| image.end).max().unwrap_or_default();
    let mut reader = LzmaReader::new_mem_limit(pack.stream, u32::MAX, None)?;
    let passed = io::copy(&mut reader.by_ref().take(start as u64), &mut io::sink())?;
    let mut code = vec![0; end - start];
    reader.read_exact(&mut code)?;
    UNPACKED.fetch_add(passed + code.len() as u64, Ordering::Relaxed);
    Ok(Block { family, architecture, start, code, used: Instant::now() })
}

/// Gives back what no kernel was loaded from for a while.
#[inline]
pub(super) fn tidy() {
    if ANY.load(Ordering::Relaxed) {
        drop_idle();
    }
}

#[cold]
fn drop_idle() {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    blocks.retain(|block| block.used.elapsed() < IDLE);
    ANY.store(!blocks.is_empty(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_takes_its_own_code_or_that_of_its_major_number() {
        let image = |architecture| Image { architecture, kernel: "copy", seal: 0, start: 0, end: 0 };
        let mut pack = Pack::of(vec![image(80), image(90), image(86), image(120)]);
        pack.images.push(Image { kernel: "set", ..image(89) });
        let chosen = |capability| {
            candidates(&pack, "copy", capability).map(|image| image.architecture).collect::<Vec<_>>()
        };
        assert_eq!(chosen(80), [80]);
        assert_eq!(chosen(86), [86, 80]);
        assert_eq!(chosen(89), [86, 80]);
        assert_eq!(chosen(90), [90]);
        assert_eq!(chosen(121), [120]);
        assert_eq!([chosen(75), chosen(70), chosen(100), chosen(0)], [const { vec![] }; 4]);
    }
}
