//! Calls of the runtime on a stream that captures, and on the default stream beside one.

use std::ffi::c_void;

use crate::header::{Function, functions};
use crate::machine::{address, alone, at, call, capture, stream, succeed, to};

/// What a call on a stream that captures comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// A node, which is done at the launch.
    Kept,
    /// Joins or marks the capture, without a node.
    Joins,
    /// Answers, and the capture goes on.
    Answers,
    /// Fails with this code; the capture is spoiled.
    Spoils(i32),
    /// Fails with this code, and the capture goes on.
    Refused(i32),
}
use Outcome::{Answers, Joins, Kept, Refused, Spoils};

const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const IMPLICIT: i32 = 906;
const NOT_SUPPORTED: i32 = 801;
const INVALID_DEVICE_FUNCTION: i32 = 98;

/// Every function of the runtime that takes a stream, but those that begin and end streams and
/// captures.
const OUTCOMES: [(&str, Outcome); 34] = [
    ("cudaEventRecord", Joins),
    ("cudaEventRecordWithFlags", Joins),
    // Nodes that allocate are not built.
    ("cudaFreeAsync", Refused(NOT_SUPPORTED)),
    ("cudaGraphLaunch", Kept),
    ("cudaGraphUpload", Spoils(UNSUPPORTED)),
    ("cudaLaunchCooperativeKernel", Refused(INVALID_DEVICE_FUNCTION)),
    ("cudaLaunchHostFunc", Kept),
    ("cudaLaunchKernel", Refused(INVALID_DEVICE_FUNCTION)),
    ("cudaMallocAsync", Refused(NOT_SUPPORTED)),
    ("cudaMallocFromPoolAsync", Refused(NOT_SUPPORTED)),
    ("cudaMemPrefetchAsync", Spoils(UNSUPPORTED)),
    ("cudaMemPrefetchAsync_v2", Spoils(UNSUPPORTED)),
    ("cudaMemcpy2DAsync", Kept),
    ("cudaMemcpy3DAsync", Kept),
    ("cudaMemcpy3DPeerAsync", Kept),
    ("cudaMemcpyAsync", Kept),
    ("cudaMemcpyFromSymbolAsync", Kept),
    ("cudaMemcpyPeerAsync", Kept),
    ("cudaMemcpyToSymbolAsync", Kept),
    ("cudaMemset2DAsync", Kept),
    ("cudaMemset3DAsync", Kept),
    ("cudaMemsetAsync", Kept),
    ("cudaStreamAddCallback", Spoils(UNSUPPORTED)),
    ("cudaStreamAttachMemAsync", Spoils(UNSUPPORTED)),
    ("cudaStreamCopyAttributes", Answers),
    ("cudaStreamGetAttribute", Answers),
    ("cudaStreamGetDevice", Answers),
    ("cudaStreamGetFlags", Answers),
    ("cudaStreamGetId", Answers),
    ("cudaStreamGetPriority", Answers),
    ("cudaStreamQuery", Spoils(UNSUPPORTED)),
    ("cudaStreamSetAttribute", Answers),
    ("cudaStreamSynchronize", Spoils(UNSUPPORTED)),
    ("cudaStreamWaitEvent", Joins),
];

/// What begins and ends streams and captures, or asks for them.
const OF_CAPTURES: [&str; 11] = [
    "cudaStreamBeginCapture",
    "cudaStreamBeginCaptureToGraph",
    "cudaStreamDestroy",
    "cudaStreamEndCapture",
    "cudaStreamGetCaptureInfo",
    "cudaStreamGetCaptureInfo_ptsz",
    "cudaStreamGetCaptureInfo_v2",
    "cudaStreamGetCaptureInfo_v3",
    "cudaStreamIsCapturing",
    "cudaStreamUpdateCaptureDependencies",
    "cudaStreamUpdateCaptureDependencies_v2",
];

/// Queries of captures that are answered for any stream.
const QUESTIONS: [&str; 4] = [
    "cudaStreamIsCapturing",
    "cudaStreamGetCaptureInfo",
    "cudaStreamGetCaptureInfo_v2",
    "cudaStreamGetCaptureInfo_v3",
];

/// What the calls work on.
struct Setting {
    /// Device memory: what is read, what is written.
    from: usize,
    to: usize,
    managed: usize,
    /// A variable of the device.
    symbol: Box<[u8; 64]>,
    event: usize,
    pool: usize,
    /// A graph with one node, which sets the memory that is written.
    executable: usize,
    /// Structures of parameters: `cudaMemcpy3DParms`, `cudaMemcpy3DPeerParms`.
    solid: Box<[usize; 20]>,
    peer: Box<[usize; 21]>,
    attribute: Box<[u8; 64]>,
    result: Box<[usize; 8]>,
}

const COUNT: usize = 64;

unsafe extern "C" fn set_byte(data: *mut c_void) {
    // SAFETY: the test gives device memory, which is host memory here.
    unsafe { data.cast::<u8>().write(0x5a) }
}

unsafe extern "C" fn never(_stream: usize, _status: i32, _data: *mut c_void) {
    panic!("a callback of a stream that captures");
}

impl Setting {
    fn new() -> Setting {
        let memory = |function: &str| {
            let mut pointer = 0;
            succeed(function, &[to(&mut pointer), COUNT, 1]);
            pointer
        };
        let mut setting = Setting {
            from: memory("cudaMalloc"),
            to: memory("cudaMalloc"),
            managed: memory("cudaMallocManaged"),
            symbol: Box::new([7; 64]),
            event: 0,
            pool: 0,
            executable: 0,
            solid: Box::new([0; 20]),
            peer: Box::new([0; 21]),
            attribute: Box::new([0; 64]),
            result: Box::new([0; 8]),
        };
        succeed("cudaEventCreate", &[to(&mut setting.event)]);
        succeed("cudaDeviceGetDefaultMemPool", &[to(&mut setting.pool), 0]);
        let (mut module, name) = (0, c"symbol");
        // A variable as programs register theirs.
        type Register = unsafe extern "C" fn(usize) -> usize;
        // SAFETY: the functions that the code of compilers calls, with what it gives them.
        unsafe {
            module += std::mem::transmute::<*mut c_void, Register>(address("__cudaRegisterFatBinary"))(0);
        }
        let name = name.as_ptr().expose_provenance();
        call("__cudaRegisterVar", &[module, at(&*setting.symbol), name, name, 0, COUNT, 0, 0]);
        let (mut graph, mut node) = (0_usize, 0_usize);
        succeed("cudaGraphCreate", &[to(&mut graph), 0]);
        // cudaMemsetParams: where, the pitch, value and size of an element, width and height.
        let set = [setting.to, 0, 1 << 32 | 0x33, COUNT, 1];
        succeed("cudaGraphAddMemsetNode", &[to(&mut node), graph, 0, 0, at(&set)]);
        succeed("cudaGraphInstantiate", &[to(&mut setting.executable), graph, 0]);
        let pitched = |pointer: usize| [pointer, COUNT, COUNT, 1];
        // The source: array, position, memory; the destination; the extent; the kind.
        setting.solid[4..8].copy_from_slice(&pitched(setting.from));
        setting.solid[12..16].copy_from_slice(&pitched(setting.to));
        setting.solid[16..20].copy_from_slice(&[COUNT, 1, 1, 3]);
        // With a device behind each memory.
        setting.peer[4..8].copy_from_slice(&pitched(setting.from));
        setting.peer[13..17].copy_from_slice(&pitched(setting.to));
        setting.peer[18..21].copy_from_slice(&[COUNT, 1, 1]);
        setting
    }

    /// 1, 2, 3 ... in what is read, zeros in what is written.
    fn reset(&self) {
        for (pointer, value) in [(self.from, 0x11), (self.to, 0), (self.managed, 0)] {
            succeed("cudaMemset", &[pointer, value, COUNT]);
        }
        succeed("cudaMemset", &[self.variable(), 0x22, COUNT]);
    }

    fn variable(&self) -> usize {
        let mut pointer = 0;
        succeed("cudaGetSymbolAddress", &[to(&mut pointer), at(&*self.symbol)]);
        pointer
    }

    fn bytes(&self) -> Vec<u8> {
        let memory = [self.from, self.to, self.managed, self.variable()];
        let read = |pointer: usize| {
            // SAFETY: device memory of this size, which is host memory here.
            unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(pointer), COUNT) }
        };
        memory.into_iter().flat_map(read).copied().collect()
    }

    /// Calls a function on a stream.
    fn call(&mut self, function: &Function, on: usize) -> i32 {
        if function.name == "cudaMemset3DAsync" {
            #[repr(C)]
            struct Wide<const N: usize>([usize; N]);
            type Set = unsafe extern "C" fn(Wide<4>, i32, Wide<3>, usize) -> i32;
            // SAFETY: structures of as many words, by value.
            let set = unsafe { std::mem::transmute::<*mut c_void, Set>(address(&function.name)) };
            // SAFETY: memory of this extent.
            return unsafe { set(Wide([self.to, COUNT, COUNT, 1]), 0x44, Wide([COUNT, 1, 1]), on) };
        }
        let symbol = at(&*self.symbol);
        let of_managed = function.name.contains("Prefetch") || function.name.contains("Attach");
        let kind = match function.name.as_str() {
            "cudaMemcpyToSymbolAsync" | "cudaMemcpyFromSymbolAsync" => 3,
            _ => 4,
        };
        let result = to(&mut *self.result);
        let mut given = Vec::new();
        for parameter in &function.parameters {
            let value = match parameter.name.as_str() {
                "stream" | "hStream" => on,
                // The other stream of two.
                "dst" if parameter.kind == "cudaStream_t" => on,
                "src" if parameter.kind == "cudaStream_t" => 0,
                "dst" => self.to,
                "src" => self.from,
                "devPtr" if parameter.kind == "void *" && function.name == "cudaMallocAsync" => result,
                "devPtr" if function.name == "cudaFreeAsync" => self.from,
                "devPtr" if of_managed => self.managed,
                "devPtr" => self.to,
                "flags" if parameter.kind.ends_with('*') => result,
                "ptr" => result,
                "symbol" => symbol,
                "event" => self.event,
                "memPool" => self.pool,
                "graphExec" => self.executable,
                "p" if function.name == "cudaMemcpy3DAsync" => at(&*self.solid),
                "p" => at(&*self.peer),
                "value_out" | "value" if parameter.kind.ends_with('*') => at(&*self.attribute),
                "value" => 0x44,
                "attr" => 1,
                "kind" => kind,
                "size" | "count" | "length" | "width" | "dpitch" | "spitch" | "pitch" => COUNT,
                "height" => 1,
                "fn" => set_byte as *const () as usize,
                "callback" => never as *const () as usize,
                "userData" => self.to,
                // dim3: two words.
                "gridDim" | "blockDim" => {
                    given.push(1 << 32 | 1);
                    1
                }
                "func" | "args" | "dstDevice" | "srcDevice" | "flags" | "offset" | "sharedMem"
                | "location" => 0,
                _ if parameter.kind.ends_with('*') => result,
                name => panic!("{}: {name}", function.name),
            };
            given.push(value);
        }
        let status = call(&function.name, &given);
        call("cudaGetLastError", &[]);
        status
    }
}

/// The functions that take a stream by value.
fn on_streams() -> Vec<Function> {
    let mut found: Vec<Function> = functions("cuda_runtime_api.h", "cuda")
        .into_iter()
        .filter(|function| function.takes("cudaStream_t"))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    found
}

fn outcome(name: &str) -> Option<Outcome> {
    OUTCOMES.iter().find(|(known, _)| *known == name).map(|&(_, outcome)| outcome)
}

#[test]
fn every_function_of_a_stream_has_an_outcome_here() {
    let _alone = alone();
    let declared: Vec<String> = on_streams().into_iter().map(|function| function.name).collect();
    let missing: Vec<&String> = declared
        .iter()
        .filter(|name| outcome(name).is_none() && !OF_CAPTURES.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(OUTCOMES.iter().all(|(name, _)| declared.iter().any(|known| known == name)));
}

#[test]
fn calls_on_a_stream_that_captures_are_kept_or_refused() {
    let _alone = alone();
    let mut setting = Setting::new();
    let on = stream(false);
    for function in on_streams() {
        let Some(expected) = outcome(&function.name) else { continue };
        let what = &function.name;
        setting.reset();
        let before = setting.bytes();
        let (status, captured) = capture(on, || {
            if what == "cudaStreamWaitEvent" {
                succeed("cudaEventRecord", &[setting.event, on]);
            }
            setting.call(&function, on)
        });
        assert!(setting.bytes() == before, "{what}: done at the call");
        let (code, end) = match expected {
            Kept | Joins | Answers => (0, 0),
            Spoils(code) => (code, INVALIDATED),
            Refused(code) => (code, 0),
        };
        assert_eq!((status, captured.status), (code, end), "{what}");
        if end == 0 {
            assert_eq!(captured.nodes(), usize::from(expected == Kept), "{what}");
            assert_eq!(captured.launch(on), 0, "{what}");
            assert_eq!(setting.bytes() != before, expected == Kept, "{what}: the launch");
        }
    }
}

#[test]
fn the_default_stream_beside_a_blocking_one_that_captures() {
    let _alone = alone();
    let mut setting = Setting::new();
    let on = stream(true);
    for function in on_streams() {
        let Some(expected) = outcome(&function.name) else { continue };
        let what = &function.name;
        for default in [0, 1] {
            setting.reset();
            let before = setting.bytes();
            let (status, captured) = capture(on, || setting.call(&function, default));
            assert!(setting.bytes() == before, "{what}: done at the call");
            let code = match expected {
                Answers => (0, 0),
                Refused(INVALID_DEVICE_FUNCTION) => (INVALID_DEVICE_FUNCTION, 0),
                _ => (IMPLICIT, INVALIDATED),
            };
            assert_eq!((status, captured.status), code, "{what}");
        }
    }
    // Beside a stream that does not block, all of it is done.
    let on = stream(false);
    for function in on_streams() {
        let Some(expected) = outcome(&function.name) else { continue };
        if matches!(function.name.as_str(), "cudaFreeAsync" | "cudaStreamAddCallback") {
            continue;
        }
        setting.reset();
        let before = setting.bytes();
        let (status, captured) = capture(on, || setting.call(&function, 0));
        let refused = matches!(expected, Refused(INVALID_DEVICE_FUNCTION));
        assert_eq!((status == 0, captured.status), (!refused, 0), "{}", function.name);
        assert_eq!(setting.bytes() != before, expected == Kept, "{}", function.name);
    }
}

#[test]
fn questions_about_the_default_stream_leave_a_capture_whole() {
    let _alone = alone();
    let (mut setting, on) = (Setting::new(), stream(true));
    for question in QUESTIONS {
        for default in [0, 1] {
            let ((first, status), captured) = capture(on, || {
                let first = call(question, &[default, to(&mut *setting.result), 0, 0, 0, 0, 0]);
                (first, call("cudaMemsetAsync", &[setting.to, 1, COUNT, on]))
            });
            assert_eq!((first, status, captured.status, captured.nodes()), (IMPLICIT, 0, 0, 1), "{question}");
        }
        // Of the stream itself, and of the default stream beside one that does not block.
        for (asked, of, answer) in [(on, on, 1), (0, stream(false), 0)] {
            setting.result[0] = 9;
            let (status, captured) =
                capture(of, || call(question, &[asked, to(&mut *setting.result), 0, 0, 0, 0, 0]));
            assert_eq!((status, captured.status, setting.result[0] as i32), (0, 0, answer), "{question}");
        }
    }
}
