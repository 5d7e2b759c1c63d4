//! Device properties: the device of a handle or a number, or a text that describes one.

use super::attribute::{Row, rows};
use super::check::Check;
use super::json::{self, Json};
use super::object::{Fields, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::mode::Mode;

rows! {
    /// The attributes of DEVICEPROP.
    ROWS:
    DEVICEPROP_DEVICE_ID 2700 [Int32] One;
    DEVICEPROP_HANDLE 2701 [Handle] One;
    DEVICEPROP_JSON_REPRESENTATION 2702 [Char] Any untyped();
}

/// The numbers that the text has to have.
const NUMBERS: &[&str] = &[
    "regsPerBlock",
    "multiProcessorCount",
    "warpSize",
    "maxSharedMemoryPerBlock",
    "maxSharedMemoryPerBlockOptin",
    "reservedSharedMemoryPerBlock",
    "maxRegistersPerSM",
    "maxCtasPerSM",
    "maxThreadsPerBlock",
    "maxThreadsPerSM",
    "pciDeviceId",
    "isTccDriver",
    "supportCoopLaunch",
    "deviceVer",
    "driverVer",
    "smClockRateKHz",
    "memClockRateKHz",
    "memoryBusWidth",
    "l2CacheSize",
    "totalGlobalMem",
    "cudaDeviceId",
];

/// The lists of numbers that it has to have.
const LISTS: &[&str] = &["maxGridSize", "maxBlockSize"];

/// What stands for the CPU core, of which nothing but the name tells: where programs look at a
/// capability, it is 9.0.
pub const HOST: &[u8] = b"{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\
\"multiProcessorCount\":1,\"smCountOrigin\":0,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,\
\"oversizedSharedMemoryPerBlock\":0,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\
\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"deviceVer\":900,\
\"driverVer\":13000,\"smClockRateKHz\":1000000,\"memClockRateKHz\":1000000,\"memoryBusWidth\":64,\"l2CacheSize\":1048576,\
\"deviceName\":\"cudnn-shim, CPU core\",\"totalGlobalMem\":1073741824,\"cudaDeviceId\":0}\0";

/// Refuses a second source of device properties, and a handle that is NULL.
pub(super) fn check_source(fields: &Fields, row: &Row, value: &Value) -> Result<()> {
    if row.number == DEVICEPROP_HANDLE && matches!(value, Value::Pointers(handles) if handles.contains(&0)) {
        return Err(Error::refused(ErrorKind::NullPointer, format!("{} is NULL", row.name)));
    }
    let sources = [DEVICEPROP_DEVICE_ID, DEVICEPROP_HANDLE, DEVICEPROP_JSON_REPRESENTATION];
    if sources.iter().any(|&source| source != row.number && fields.has(source)) {
        return Err(Error::mismatch(format!("{}: the device is described already", row.name)));
    }
    Ok(())
}

/// The checks of Finalize.
pub(super) fn check(check: Check<'_>) -> Result<()> {
    if describes_host(check.fields) && !Mode::current().is_strict() {
        return Ok(());
    }
    let Some(text) = check.fields.text(DEVICEPROP_JSON_REPRESENTATION) else {
        let text = "no CUDA device to describe: give CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION a text";
        return Err(Error::NotInitialized(text.into()));
    };
    check_text(check, text)
}

/// Whether what is described is device 0 or the device of a handle, not one of a text.
pub fn describes_host(device: &Fields) -> bool {
    device.int(DEVICEPROP_DEVICE_ID) == Some(0) || device.has(DEVICEPROP_HANDLE)
}

/// Every field but two is needed, in any order; others are ignored.
fn check_text(check: Check<'_>, text: &[u8]) -> Result<()> {
    let attribute = DEVICEPROP_JSON_REPRESENTATION;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let value = json::read(&text[..end]).map_err(|why| check.bad(attribute, &why))?;
    check.require(matches!(value, Json::Object(_)), attribute, "is not an object")?;
    for name in NUMBERS {
        let whole = matches!(value.field(name), Some(Json::Number(number)) if number.fract() == 0.0);
        check.require(whole, attribute, &format!("has no whole number {name:?}"))?;
    }
    for name in LISTS {
        let list = matches!(value.field(name), Some(Json::List(items)) if items.iter().all(|item| matches!(item, Json::Number(_))));
        check.require(list, attribute, &format!("has no list of numbers {name:?}"))?;
    }
    check.require(
        matches!(value.field("deviceName"), Some(Json::Text(_))),
        attribute,
        "has no text \"deviceName\"",
    )?;
    if let Some(origin) = value.field("smCountOrigin") {
        let known = matches!(origin, Json::Number(number) if (0.0..=2.0).contains(number));
        check.require(known, attribute, "\"smCountOrigin\" is 0 to 2")?;
    }
    let version = value.field("deviceVer").map_or(0.0, Json::number);
    check.require_or(version >= 500.0, ErrorKind::ArchMismatch, attribute, "\"deviceVer\" is 500 at least")
}
