//! What the one device says of itself: `cudaDeviceProp` in the layouts of CUDA 11, 12 and 13, and
//! attributes.
//!
//! Name, memory and capability are the machine's or the environment's; the rest is plausible for a
//! small device and stands in `symbols/properties.tsv` and `symbols/attributes.tsv`, with where
//! each major version has it.

use std::sync::LazyLock;

use super::model::memory::TOTAL;

/// What the device is called.
pub(crate) const NAME: &str = "cudnn-shim host";
/// A number of its own, as of every device.
const UUID: &[u8; 16] = b"cudnn-shim host\0";

static FIELDS: &str = include_str!("../../symbols/properties.tsv");
static ATTRIBUTES: &str = include_str!("../../symbols/attributes.tsv");

/// The compute capability: `CUDNN_SHIM_HOST_CAPABILITY`, as `8.0`. If not given it is 9.0:
/// cudnn-frontend computes no types of 8 bits on older devices, and on newer ones asks for engines
/// of one device.
pub(super) static CAPABILITY: LazyLock<(i32, i32)> = LazyLock::new(|| {
    let asked = std::env::var("CUDNN_SHIM_HOST_CAPABILITY").ok().and_then(|text| {
        let (major, minor) = text.trim().split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    asked.unwrap_or(UNASKED)
});

/// Major and minor version of the capability, if nothing else is asked for.
const UNASKED: (i32, i32) = (9, 0);

/// Processors that this process may use, as multiprocessors.
fn processors() -> i32 {
    std::thread::available_parallelism().map_or(1, |count| i32::try_from(count.get()).unwrap_or(i32::MAX))
}

/// What the environment decides, by the name of the field.
fn computed(field: &str) -> Vec<u8> {
    match field {
        "name" => NAME.as_bytes().to_vec(),
        "uuid" => UUID.to_vec(),
        "totalGlobalMem" => TOTAL.to_ne_bytes().to_vec(),
        "major" => CAPABILITY.0.to_ne_bytes().to_vec(),
        "minor" => CAPABILITY.1.to_ne_bytes().to_vec(),
        "multiProcessorCount" => processors().to_ne_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// The structure of a major version of CUDA, 11 to 13: its bytes.
pub(super) fn structure(major: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in FIELDS.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [field, size, value, offsets @ ..] = &cells[..] else { continue };
        let (Ok(size), Some(Ok(offset))) =
            (size.parse::<usize>(), offsets.get(major - 11).map(|cell| cell.parse()))
        else {
            continue;
        };
        let offset: usize = offset;
        if bytes.len() < offset + size {
            bytes.resize(offset + size, 0);
        }
        let numbers: Vec<u64> = value.split(' ').filter_map(|number| number.parse().ok()).collect();
        let value = match size.checked_div(numbers.len()) {
            None => computed(field),
            Some(each) => {
                numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(each)).collect()
            }
        };
        let length = value.len().min(size);
        bytes[offset..offset + length].copy_from_slice(&value[..length]);
    }
    bytes
}

/// The attribute of a number, if there is one.
pub(crate) fn attribute(number: i32) -> Option<i32> {
    let mut rows = ATTRIBUTES.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let row = rows.find(|row| row.first().and_then(|cell| cell.parse().ok()) == Some(number))?;
    let value = *row.get(2)?;
    value.parse().ok().or_else(|| {
        let bytes = computed(value);
        Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::{attribute, structure};

    #[test]
    fn each_layout_has_its_size_and_begins_with_the_name() {
        for (major, size) in [(11, 728), (12, 1032), (13, 1008)] {
            let bytes = structure(major);
            assert_eq!(bytes.len(), size, "CUDA {major}");
            assert!(bytes.starts_with(b"cudnn-shim host\0"), "CUDA {major}");
        }
    }

    #[test]
    fn attributes_are_found_by_number() {
        assert_eq!(attribute(10), Some(32));
        assert_eq!(attribute(75), Some(super::CAPABILITY.0));
        if std::env::var_os("CUDNN_SHIM_HOST_CAPABILITY").is_none() {
            assert_eq!((attribute(75), attribute(76)), (Some(9), Some(0)));
        }
        assert_eq!((attribute(0), attribute(100_000)), (None, None));
    }
}
