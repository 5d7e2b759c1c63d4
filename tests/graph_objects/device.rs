//! The texts that describe devices in the recorded cases.

/// A device of version 9.0.
const TEXT: &str = r#"{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "deviceVer": 900, "driverVer": 12090, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "memoryBusWidth": 5120, "l2CacheSize": 52428800, "deviceName": "device 9.0", "totalGlobalMem": 85000000000, "cudaDeviceId": 0}"#;

/// The text that a case calls `J:900`, `J:800-field`, `J:900+field=value` or `J:raw:HEX`, without
/// the `J:`.
pub fn text(name: &str) -> Vec<u8> {
    if let Some(digits) = name.strip_prefix("raw:") {
        let byte = |index| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).expect("two hex digits");
        return (0..digits.len() / 2).map(byte).collect();
    }
    let (version, change) = name.split_at(name.find(['+', '-']).unwrap_or(name.len()));
    let mut text = TEXT.to_owned();
    let fields: &[(&str, &str)] = match version {
        "800" => &[
            ("multiProcessorCount", "108"),
            ("maxSharedMemoryPerBlockOptin", "166912"),
            ("l2CacheSize", "41943040"),
        ],
        "750" => &[
            ("multiProcessorCount", "40"),
            ("maxSharedMemoryPerBlockOptin", "65536"),
            ("l2CacheSize", "4194304"),
            ("maxThreadsPerSM", "1024"),
            ("maxCtasPerSM", "16"),
        ],
        "1000" => &[("multiProcessorCount", "148")],
        _ => &[],
    };
    fields.iter().for_each(|(field, value)| set(&mut text, field, value));
    let number: i32 = version.parse().expect("version of a device");
    set(&mut text, "deviceVer", version);
    set(&mut text, "deviceName", &format!("\"device {}.{}\"", number / 100, number / 10 % 10));
    if let Some((field, value)) = change.strip_prefix('+').and_then(|change| change.split_once('=')) {
        set(&mut text, field, value);
    } else if let Some(field) = change.strip_prefix('-') {
        remove(&mut text, field);
    }
    let mut bytes = text.into_bytes();
    bytes.push(0);
    bytes
}

/// Where a field and its value begin and end.
fn place(text: &str, field: &str) -> Option<(usize, usize, usize)> {
    let key = format!("\"{field}\": ");
    let start = text.find(&key)?;
    let value = start + key.len();
    let end = match text[value..].strip_prefix('[') {
        Some(list) => value + 1 + list.find(']')? + 1,
        None => value + text[value..].find([',', '}'])?,
    };
    Some((start, value, end))
}

fn set(text: &mut String, field: &str, new: &str) {
    match place(text, field) {
        Some((_, value, end)) => text.replace_range(value..end, new),
        None => text.insert_str(text.len() - 1, &format!(", \"{field}\": {new}")),
    }
}

fn remove(text: &mut String, field: &str) {
    let (start, _, end) = place(text, field).expect("a field of the text");
    if text[end..].starts_with(", ") {
        text.replace_range(start..end + 2, "");
    } else {
        text.replace_range(start - 2..end, "");
    }
}
