//! Lists that grow with a problem: want of memory for one of them is a status.
//!
//! Small ones that nobody asks for in this way find room in the [reserve](cudnn_shim_reserve) where
//! the system has no memory left.

use crate::error::{Error, Result};

/// An empty list with room for `count` entries.
///
/// # Errors
/// Host allocation.
pub(crate) fn list<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    list.try_reserve_exact(count).map_err(|_| Error::HostAllocation { bytes })?;
    Ok(list)
}

/// Bytes of a small list, about.
const LIST: usize = 1024;

/// Whether there is memory for small lists, also where the system has none: for calls that begin,
/// and for what makes many of them.
///
/// # Errors
/// Host allocation, while enough of the reserve is left to say so.
pub(crate) fn check() -> Result<()> {
    if cudnn_shim_reserve::is_low() { Err(Error::HostAllocation { bytes: LIST }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_is_an_error() {
        assert!(list::<u64>(7).is_ok_and(|list| list.capacity() >= 7));
        assert_eq!(list::<u64>(usize::MAX), Err(Error::HostAllocation { bytes: usize::MAX }));
        assert!(list::<u8>(isize::MAX as usize).is_err());
    }
}
