//! Memory of the caller, workspaces and reserve spaces, as the rules of operations see it.

use crate::error::{Error, Result};

/// Where memory starts, 0 for none, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The address.
    pub address: usize,
    /// The bytes.
    pub size: usize,
}

impl Memory {
    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self.address == 0
    }

    /// Refuses none, and fewer bytes than are `needed`; `names` are those of the pointer and of the
    /// size, and `rule` is what takes them.
    ///
    /// # Errors
    /// Bad parameter.
    pub fn check(self, needed: usize, names: [&'static str; 2], rule: &str) -> Result<()> {
        if self.is_none() {
            return Err(Error::Null { argument: names[0] });
        }
        if self.size < needed {
            return Err(Error::argument(names[1], self.size as i64, format!("{rule} takes {needed} bytes")));
        }
        Ok(())
    }
}

/// Refuses fewer bytes than are `needed`, wherever they are; `name` is that of their number.
///
/// # Errors
/// Bad parameter.
pub fn check_size(given: usize, needed: usize, name: &'static str) -> Result<()> {
    if given >= needed {
        return Ok(());
    }
    Err(Error::argument(name, given as i64, format!("{needed} bytes are needed")))
}
