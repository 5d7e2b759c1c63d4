//! What `cudnn-shim transform` reads: a mapped `.npy` file, or a decoded picture.

use std::fs::File;
use std::io;
use std::path::Path;

use cudnn::dtype::DataType;
use memmap2::Mmap;

use crate::npy::Header;
use crate::pixels::{self, Pixels};
use crate::{Failure, Result};

/// What is read: bytes, and what they are.
pub struct Source {
    /// The file, or the picture that it holds.
    pub bytes: Bytes,
    /// Where the first element lies.
    pub at: usize,
    /// What the elements are.
    pub header: Header,
}

/// A mapped file, or a decoded picture.
pub enum Bytes {
    /// A file.
    Map(Mmap),
    /// A picture.
    Memory(Vec<u8>),
}

impl Bytes {
    /// All of them.
    pub fn all(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Memory(bytes) => bytes,
        }
    }

    /// Gives pages of the file back that were read: they stay in the system's cache.
    pub fn forget(&self) {
        if let Bytes::Map(map) = self {
            // SAFETY: the mapping is shared and read only, so that its pages come back from the
            // file as they were.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

/// Opens a file; `bits` is what the elements of a `.npy` file are, if that is not what its header
/// says.
pub fn open(name: &str, bits: Option<DataType>) -> Result<Source> {
    let of_file = |error: io::Error| Failure::new(format!("{name}: {}", plain(&error)));
    let in_file = |Failure(text): Failure| Failure::new(format!("{name}: {text}"));
    let path = Path::new(name);
    let file = if name == "-" {
        // A pipe cannot be mapped.
        let mut copy = tempfile::tempfile().map_err(of_file)?;
        io::copy(&mut io::stdin().lock(), &mut copy).map_err(of_file)?;
        copy
    } else {
        File::open(path).map_err(of_file)?
    };
    let facts = file.metadata().map_err(of_file)?;
    if facts.is_dir() {
        return Err(Failure::new(format!("{name}: a directory, not a file")));
    }
    if facts.len() == 0 {
        return Err(Failure::new(format!("{name}: the file is empty")));
    }
    // SAFETY: who changes a file while it is read gets what he reads; nothing here trusts the
    // bytes.
    let map = unsafe { Mmap::map(&file) }.map_err(of_file)?;
    if let Some(format) = pixels::format(path) {
        if bits.is_some() {
            return Err(Failure::new(format!("{name}: --from-type is for .npy files; pictures hold bytes")));
        }
        let Pixels { height, width, channels, bytes } = pixels::decode(&map, format).map_err(in_file)?;
        let header =
            Header { data_type: DataType::Uint8, fortran: false, shape: vec![height, width, channels] };
        return Ok(Source { bytes: Bytes::Memory(bytes), at: 0, header });
    }
    let (header, at) = Header::parse(&map, bits).map_err(in_file)?;
    if let Some(axis) = header.shape.iter().position(|&extent| extent == 0) {
        return Err(Failure::new(format!("{name}: axis {axis} has no elements")));
    }
    let needed =
        header.shape.iter().try_fold(header.data_type.size() as i64, |bytes, &dim| bytes.checked_mul(dim));
    let needed =
        needed.ok_or_else(|| Failure::new(format!("{name}: shape {:?} leaves 64 bits", header.shape)))?;
    let there = (map.len() - at) as i64;
    if there < needed {
        return Err(Failure::new(format!("{name}: the data ends after {there} of {needed} bytes")));
    }
    Ok(Source { bytes: Bytes::Map(map), at, header })
}

/// The system's words without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
