//! Releases of the interface: which one this is, and what the texts say that name one.

use std::ffi::c_int;

use super::types::{CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};

/// Major, minor and patch level of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub [c_int; 3]);

impl Version {
    /// The version of this library's header.
    pub const HEADER: Version = Version([CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL]);

    /// Reads `9.1.0`, or the number that a `CUDNN_VERSION` is: 90100, or 8907 before version 9.
    pub fn parse(text: &str) -> Option<Version> {
        let parts: Vec<c_int> = text
            .split('.')
            .map(|part| part.parse().ok().filter(|number| (0..1000).contains(number) || !text.contains('.')))
            .collect::<Option<_>>()?;
        let version = match parts[..] {
            [major, minor, patch] => Version([major, minor, patch]),
            [number @ 1_000..10_000] => Version([number / 1000, number / 100 % 10, number % 100]),
            [number @ 90_000..1_000_000] => Version([number / 10_000, number / 100 % 100, number % 100]),
            _ => return None,
        };
        (version.0[0] > 0).then_some(version)
    }

    /// What `CUDNN_VERSION` would be: version 9 gave major and minor more room.
    pub const fn number(self) -> usize {
        let [major, minor, patch] = self.0;
        let weight = if major >= 9 { 10_000 } else { 1_000 };
        (major * weight + minor * 100 + patch) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_read_in_both_spellings() {
        for (text, version, number) in [
            ("9.27.0", [9, 27, 0], 92_700),
            ("90100", [9, 1, 0], 90_100),
            ("8.9.7", [8, 9, 7], 8_907),
            ("8907", [8, 9, 7], 8_907),
            ("7605", [7, 6, 5], 7_605),
            ("10.1.2", [10, 1, 2], 100_102),
        ] {
            let read = Version::parse(text).expect("a version");
            assert_eq!((read, read.number()), (Version(version), number), "{text}");
        }
        for text in ["", "9", "9.1", "0.1.2", "9.1.0.42", "9.x.0", "-9.1.0", "9.-1.0", "20000", "9.1000.0"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
