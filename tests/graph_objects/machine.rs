//! Makes the calls of a case: builds arrays, calls, and renders what came back.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};

use super::device;

/// What outputs are filled with: an element that still is all of it was not written.
const FILL: u8 = 0x5A;
/// Bytes behind outputs that must come back unchanged.
const GUARD: usize = 64;
/// Arrays have at least so many readable bytes: some calls claim more elements than they pass.
const READABLE: usize = 512;

type Pointer = *mut c_void;

/// The functions of the library under test.
pub struct Library {
    create_handle: unsafe extern "C" fn(*mut Pointer) -> c_int,
    create: unsafe extern "C" fn(c_int, *mut Pointer) -> c_int,
    destroy: unsafe extern "C" fn(Pointer) -> c_int,
    initialize: unsafe extern "C" fn(Pointer) -> c_int,
    finalize: unsafe extern "C" fn(Pointer) -> c_int,
    set: unsafe extern "C" fn(Pointer, c_int, c_int, i64, *const c_void) -> c_int,
    get: unsafe extern "C" fn(Pointer, c_int, c_int, i64, *mut i64, Pointer) -> c_int,
    execute: unsafe extern "C" fn(Pointer, Pointer, Pointer) -> c_int,
    workspace: unsafe extern "C" fn(Pointer, Pointer, Pointer, *mut usize) -> c_int,
    populate: unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer) -> c_int,
    update: unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer) -> c_int,
}

impl Library {
    pub fn open(path: &str) -> Self {
        let path = CString::new(path).expect("path without NUL");
        // SAFETY: `path` is a NUL-terminated string; the library is never closed.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "the library cannot be loaded");
        let symbol = |name: &str| {
            let name = CString::new(name).expect("name without NUL");
            // SAFETY: the library is open and the name NUL-terminated.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!address.is_null(), "{name:?} is missing");
            address
        };
        #[allow(clippy::missing_transmute_annotations, reason = "the fields say the types")]
        // SAFETY: each address is that of the function of this name, whose C declaration the type
        // repeats; enumerators are ints.
        unsafe {
            Library {
                create_handle: std::mem::transmute(symbol("cudnnCreate")),
                create: std::mem::transmute(symbol("cudnnBackendCreateDescriptor")),
                destroy: std::mem::transmute(symbol("cudnnBackendDestroyDescriptor")),
                initialize: std::mem::transmute(symbol("cudnnBackendInitialize")),
                finalize: std::mem::transmute(symbol("cudnnBackendFinalize")),
                set: std::mem::transmute(symbol("cudnnBackendSetAttribute")),
                get: std::mem::transmute(symbol("cudnnBackendGetAttribute")),
                execute: std::mem::transmute(symbol("cudnnBackendExecute")),
                workspace: std::mem::transmute(symbol("cudnnGetExecutionPlanWorkspaceSize")),
                populate: std::mem::transmute(symbol("cudnnBackendPopulateCudaGraph")),
                update: std::mem::transmute(symbol("cudnnBackendUpdateCudaGraph")),
            }
        }
    }
}

/// The registers and buffers of one case.
#[derive(Default)]
pub struct Machine {
    registers: HashMap<String, usize>,
    buffers: HashMap<String, Vec<u64>>,
}

/// The elements of `x:[1,2]` or `[1,2]`.
fn elements(token: &str) -> Vec<&str> {
    let inner = token.split_once('[').expect("an array").1.trim_end_matches(']');
    if inner.is_empty() { Vec::new() } else { inner.split(',').collect() }
}

fn number(token: &str) -> i64 {
    token.parse().unwrap_or_else(|_| panic!("{token:?} is no number"))
}

impl Machine {
    /// Makes one call and renders its answer: status and outputs, separated by blanks.
    pub fn call(&mut self, library: &Library, text: &str) -> String {
        let tokens: Vec<&str> = text.split(' ').collect();
        let register = |index: usize| self.value(tokens[index]);
        // SAFETY: in all of them, the arguments are values of the library's, or point to memory
        // that lives up to the next call.
        let status = unsafe {
            match tokens[0] {
                "Create" => return self.created(tokens[1], |place| (library.create_handle)(place)),
                "BackendCreateDescriptor" => {
                    let kind = number(tokens[1]) as c_int;
                    return self.created(tokens[2], |place| (library.create)(kind, place));
                }
                "BackendDestroyDescriptor" => (library.destroy)(register(1)),
                "BackendInitialize" => (library.initialize)(register(1)),
                "BackendFinalize" => (library.finalize)(register(1)),
                "BackendSetAttribute" => {
                    let array = self.array(tokens[5]);
                    let pointer = array.as_ref().map_or(std::ptr::null(), |array| array.as_ptr().cast());
                    let [attribute, ty] = [tokens[2], tokens[3]].map(|token| number(token) as c_int);
                    (library.set)(self.value(tokens[1]), attribute, ty, number(tokens[4]), pointer)
                }
                "BackendGetAttribute" => return self.get(library, &tokens),
                "BackendExecute" => (library.execute)(register(1), register(2), register(3)),
                "BackendPopulateCudaGraph" => {
                    (library.populate)(register(1), register(2), register(3), register(4))
                }
                "BackendUpdateCudaGraph" => {
                    (library.update)(register(1), register(2), register(3), register(4))
                }
                "GetExecutionPlanWorkspaceSize" => {
                    let mut size = usize::from_ne_bytes([FILL; 8]);
                    let status = (library.workspace)(register(1), register(2), register(3), &raw mut size);
                    let shown = if size == usize::from_ne_bytes([FILL; 8]) {
                        "~".to_owned()
                    } else {
                        size.to_string()
                    };
                    return format!("{status} {shown}");
                }
                other => panic!("unknown function {other}"),
            }
        };
        status.to_string()
    }

    fn value(&self, token: &str) -> Pointer {
        std::ptr::with_exposed_provenance_mut(self.registers.get(token).copied().unwrap_or(0))
    }

    fn created(&mut self, register: &str, create: impl FnOnce(*mut Pointer) -> c_int) -> String {
        let untouched = usize::from_ne_bytes([FILL; 8]);
        let mut place: Pointer = std::ptr::without_provenance_mut(untouched);
        if register == "NULL" {
            return create(std::ptr::null_mut()).to_string();
        }
        let status = create(&raw mut place);
        let shown = match place.addr() {
            address if address == untouched => "~",
            0 => "null",
            _ => {
                self.registers.insert(register.to_owned(), place.expose_provenance());
                "set"
            }
        };
        format!("{status} {shown}")
    }

    /// The address that an element of an array of pointers names.
    fn address(&mut self, token: &str) -> usize {
        match token.split_once(':') {
            Some((buffer, bytes)) => {
                let words = number(bytes) as usize / 8 + 1;
                let memory = self.buffers.entry(buffer.to_owned()).or_insert_with(|| vec![0; words]);
                memory.as_mut_ptr().expose_provenance()
            }
            None if token == "NULL" => 0,
            None => self.registers.get(token).copied().unwrap_or(0),
        }
    }

    /// The bytes of an array argument; `None` for NULL.
    fn array(&mut self, token: &str) -> Option<Vec<u8>> {
        if token == "NULL" {
            return None;
        }
        let mut bytes = Vec::new();
        if let Some(name) = token.strip_prefix("J:") {
            bytes = device::text(name);
        } else if token.contains('[') {
            // Without brackets it is an object of the original's, given as an array: of what lies
            // there, nothing is known.
            for element in elements(token) {
                match token.as_bytes()[0] {
                    b'q' => bytes.extend(number(element).to_ne_bytes()),
                    b'i' => bytes.extend((number(element) as i32).to_ne_bytes()),
                    b'b' => bytes.push(number(element) as u8),
                    b'f' => bytes.extend(element.parse::<f32>().expect("a float").to_ne_bytes()),
                    b'd' => bytes.extend(element.parse::<f64>().expect("a double").to_ne_bytes()),
                    b'p' => bytes.extend(self.address(element).to_ne_bytes()),
                    other => panic!("unknown array {:?}", other as char),
                }
            }
        }
        bytes.resize(bytes.len().max(READABLE), 0);
        Some(bytes)
    }

    fn get(&mut self, library: &Library, tokens: &[&str]) -> String {
        let [attribute, ty] = [tokens[2], tokens[3]].map(|token| number(token) as c_int);
        let output = tokens[6];
        let mut count = i64::from_ne_bytes([FILL; 8]);
        let place = if tokens[5] == "NULL" { std::ptr::null_mut() } else { &raw mut count };
        let (letter, len) = match output.strip_prefix('@') {
            Some(shape) => (shape.as_bytes()[0], number(&shape[1..]) as usize),
            None => (0, 0),
        };
        let size = match letter {
            b'q' | b'd' | b'p' => 8,
            b'i' | b'f' => 4,
            _ => 1,
        };
        let mut memory = vec![FILL; size * len + GUARD];
        let given = if letter == 0 { self.array(output) } else { None };
        let array = match (&given, letter) {
            (Some(given), _) => given.as_ptr().cast_mut().cast(),
            (None, 0) => std::ptr::null_mut(),
            _ => memory.as_mut_ptr().cast::<c_void>(),
        };
        // SAFETY: the places are NULL, or valid for what the attribute's type stores in them.
        let status =
            unsafe { (library.get)(self.value(tokens[1]), attribute, ty, number(tokens[4]), place, array) };
        let mut answer = status.to_string();
        if !place.is_null() {
            let shown =
                if count == i64::from_ne_bytes([FILL; 8]) { "~".to_owned() } else { count.to_string() };
            answer += &format!(" {shown}");
        }
        if letter != 0 {
            let mut shown: Vec<String> =
                memory[..size * len].chunks(size).map(|bytes| self.element(letter, bytes)).collect();
            let written = shown.iter().rposition(|element| element != "~").map_or(0, |last| last + 1);
            shown.truncate(if written < shown.len() { written + 1 } else { written });
            answer += &format!(" [{}]", shown.join(","));
        }
        if memory[size * len..].iter().any(|&byte| byte != FILL) {
            answer += " !written-behind";
        }
        answer
    }

    fn element(&self, letter: u8, bytes: &[u8]) -> String {
        if bytes.iter().all(|&byte| byte == FILL) {
            return "~".to_owned();
        }
        match (letter, <[u8; 8]>::try_from(bytes), <[u8; 4]>::try_from(bytes)) {
            (b'q', Ok(bytes), _) => i64::from_ne_bytes(bytes).to_string(),
            (b'd', Ok(bytes), _) => f64::from_ne_bytes(bytes).to_string(),
            (b'p', Ok(bytes), _) => match usize::from_ne_bytes(bytes) {
                0 => "NULL".to_owned(),
                address if self.buffers.values().any(|memory| memory.as_ptr().addr() == address) => {
                    "B".to_owned()
                }
                address => address.to_string(),
            },
            (b'i', _, Ok(bytes)) => i32::from_ne_bytes(bytes).to_string(),
            (b'f', _, Ok(bytes)) => f32::from_ne_bytes(bytes).to_string(),
            _ => bytes[0].to_string(),
        }
    }
}
