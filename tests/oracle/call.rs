//! The generic caller: turns argument tokens into C arguments, calls, and renders what came back as
//! tokens.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use super::case::array;
use super::signature::{Param, Scalar, Signatures};

/// What every output is filled with before a call: an element that still is all `FILL` was not
/// written.
const FILL: u8 = 0x5A;
/// Bytes behind every piece of memory given to a call that must come back unchanged.
const GUARD: usize = 64;
/// Arrays are given at least so many readable elements: some calls claim more dimensions than they
/// pass.
const READABLE: usize = 16;
/// Integer-class arguments of the longest signature; the callee ignores the ones beyond its own.
const WORDS: usize = 36;

/// Every entry point seen as one type. Integers and pointers on the one hand, floating-point
/// numbers on the other are assigned to registers and stack independently, in order, each stack
/// slot eight bytes wide, and the caller cleans up; so surplus arguments are harmless.
#[rustfmt::skip]
type Entry = unsafe extern "C" fn(
    u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
    u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
    u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
    f64, f64, f64, f64,
) -> u64;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the generic caller relies on a calling convention with 8-byte stack slots");

/// Makes the call that it is given.
pub type Around = fn(&dyn Fn() -> u64) -> u64;

/// The library under test.
pub struct Library {
    handle: *mut c_void,
    signatures: Signatures,
    /// What happens around every call of the library, and around nothing of the test's own.
    pub around: Around,
}

impl Library {
    /// Loads the shared library at `path`.
    pub fn open(path: &Path, signatures: Signatures) -> Self {
        let name = CString::new(path.to_str().expect("UTF-8 path")).expect("path without NUL");
        // SAFETY: `name` is a NUL-terminated string; the library is never closed.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.display());
        Self { handle, signatures, around: |call| call() }
    }

    fn entry(&self, name: &str) -> Option<Entry> {
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is open and the name NUL-terminated.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return None;
        }
        // SAFETY: the address is that of a C function whose arguments are built from its recorded
        // signature; see `Entry` for why one type serves all.
        Some(unsafe { std::mem::transmute::<*mut c_void, Entry>(address) })
    }
}

/// Memory handed to a call: `len` bytes of content, then the guard, on a 32-byte boundary.
struct Memory {
    room: Vec<u8>,
    /// Where in the room the content begins.
    start: usize,
    len: usize,
}

const ALIGNMENT: usize = 32;

/// Bytes before the content of a tensor's buffer: negative strides reach there, which the original
/// refuses.
const FRONT: usize = 1 << 18;

impl Memory {
    fn filled(len: usize, content: u8) -> Self {
        let mut memory = Self::zeros_behind(0, len);
        memory.bytes_mut()[..len].fill(content);
        memory
    }

    /// Zeros behind so many bytes. The system provides only what is touched, as recorded workspaces
    /// are large: no type of a larger alignment, whose zeros the allocator would write.
    fn zeros_behind(front: usize, len: usize) -> Self {
        let room = vec![0; front + len + GUARD + ALIGNMENT];
        let start = front + room[front..].as_ptr().align_offset(ALIGNMENT);
        let mut memory = Self { room, start, len };
        memory.bytes_mut()[len..].fill(FILL);
        memory
    }

    fn of(content: &[u8]) -> Self {
        let mut memory = Self::filled(content.len(), 0);
        memory.bytes_mut()[..content.len()].copy_from_slice(content);
        memory
    }

    fn address(&mut self) -> u64 {
        self.bytes_mut().as_mut_ptr() as u64
    }

    /// The content and the guard.
    fn bytes(&self) -> &[u8] {
        &self.room[self.start..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..]
    }

    fn content(&self) -> &[u8] {
        &self.bytes()[..self.len]
    }

    fn guard_intact(&self) -> bool {
        self.bytes()[self.len..].iter().all(|&byte| byte == FILL)
    }
}

/// How a piece of memory is judged and rendered after the call.
enum Role {
    /// Must come back unchanged.
    Input(Vec<u8>),
    /// The register that a Create call fills.
    Register(String),
    /// One scalar.
    Scalar(Scalar),
    /// An array of scalars.
    Array(Scalar),
    /// Bytes, rendered in hex.
    Bytes,
}

/// The arguments of one call, laid out in memory.
#[derive(Default)]
struct Arguments {
    words: Vec<u64>,
    floats: Vec<f64>,
    memory: Vec<(Memory, Role)>,
}

impl Arguments {
    fn point_to(&mut self, mut memory: Memory, role: Role) {
        // Moving `memory` moves the vector's header only; the address stays.
        self.words.push(memory.address());
        self.memory.push((memory, role));
    }

    fn input(&mut self, content: &[u8]) {
        self.point_to(Memory::of(content), Role::Input(content.to_vec()));
    }
}

/// Registers and buffers of one case.
#[derive(Default)]
pub struct Machine {
    registers: HashMap<String, u64>,
    buffers: HashMap<String, Memory>,
}

impl Machine {
    /// Gives a register a value, as an address that calls may name.
    #[allow(dead_code, reason = "a replay names its buffers in the calls")]
    pub fn point(&mut self, register: &str, value: u64) {
        self.registers.insert(register.to_owned(), value);
    }

    /// The value of a register that was set or created.
    #[allow(dead_code, reason = "a replay never asks")]
    pub fn value(&self, register: &str) -> Option<u64> {
        self.registers.get(register).copied()
    }

    /// Makes one call (`Function arg arg ...`) and returns its observation as tokens. A token that
    /// starts with `!` reports a violation: a write outside the outputs, or a function that does
    /// not exist.
    pub fn call(&mut self, library: &Library, text: &str) -> Vec<String> {
        let mut tokens = text.split(' ');
        let function = tokens.next().unwrap_or_default();
        let name = format!("cudnn{function}");
        let (Some(entry), Some(params)) = (library.entry(&name), library.signatures.of(&name)) else {
            return vec![format!("!missing:{name}")];
        };
        let tokens: Vec<&str> = tokens.collect();
        assert_eq!(tokens.len(), params.len(), "{text}: arguments do not fit the signature");
        let mut arguments = Arguments::default();
        for (token, param) in tokens.iter().zip(params) {
            self.build(&mut arguments, function, token, *param);
        }
        let returned = (library.around)(&|| invoke(entry, &arguments));
        let mut observed = vec![if function == "GetErrorString" {
            // SAFETY: the function returns a NUL-terminated string that lives as long as the
            // library.
            unsafe { CStr::from_ptr(returned as *const c_char) }.to_string_lossy().into_owned()
        } else {
            (returned as i32).to_string()
        }];
        for (position, (memory, role)) in arguments.memory.iter().enumerate() {
            self.render(&mut observed, position, memory, role);
        }
        for (buffer, memory) in &self.buffers {
            if !memory.guard_intact() {
                observed.push(format!("!overrun:{buffer}"));
            }
        }
        observed
    }

    fn build(&mut self, arguments: &mut Arguments, function: &str, token: &str, param: Param) {
        let misfit = || -> ! { panic!("{function}: argument {token:?} does not fit {param:?}") };
        if !param.indirect {
            match param.scalar {
                Scalar::F64 => arguments.floats.push(token.parse().unwrap_or_else(|_| misfit())),
                Scalar::F32 => {
                    let value: f32 = token.parse().unwrap_or_else(|_| misfit());
                    arguments.floats.push(f64::from_bits(u64::from(value.to_bits())));
                }
                Scalar::Pointer => arguments.words.push(self.pointer(token)),
                _ => arguments.words.push(integer(token).unwrap_or_else(|| misfit())),
            }
            return;
        }
        let in_hex = matches!(function, "SetRNNDataDescriptor" | "SetSeqDataDescriptor")
            && param.scalar == Scalar::Byte;
        if token == "NULL" {
            arguments.words.push(0);
        } else if let Some(count) = token.strip_prefix('@') {
            let (count, role) = match (count, param.scalar) {
                ("", scalar) => (1, Role::Scalar(scalar)),
                // What a `void *` points to is named by a letter.
                ("i", Scalar::Byte) => (1, Role::Scalar(Scalar::I32)),
                ("l", Scalar::Byte) => (1, Role::Scalar(Scalar::I64)),
                ("d", Scalar::Byte) => (1, Role::Scalar(Scalar::F64)),
                ("p", Scalar::Byte) => (1, Role::Scalar(Scalar::Pointer)),
                (count, Scalar::Byte) => (count.parse().expect("count"), Role::Bytes),
                (count, scalar) => (count.parse().expect("count"), Role::Array(scalar)),
            };
            let size = match role {
                Role::Scalar(scalar) | Role::Array(scalar) => scalar.size(),
                _ => 1,
            };
            arguments.point_to(Memory::filled(count * size, FILL), role);
        } else if param.scalar == Scalar::Pointer && token.starts_with('[') {
            let registers = token.trim_start_matches('[').trim_end_matches(']');
            let mut content: Vec<u8> = registers
                .split(',')
                .filter(|register| !register.is_empty())
                .flat_map(|register| self.pointer(register).to_ne_bytes())
                .collect();
            // Null where a call claims more than it passes.
            content.resize(content.len().max(READABLE * 8), 0);
            arguments.input(&content);
        } else if let Some(content) = self.elements(token).filter(|_| param.scalar == Scalar::Byte) {
            arguments.input(&content);
        } else if let Some(elements) = array(token) {
            let mut content: Vec<u8> =
                elements.iter().flat_map(|&element| (element as i32).to_ne_bytes()).collect();
            content.resize(content.len().max(READABLE * 4), FILL);
            arguments.input(&content);
        } else if let Some(value) = token.strip_prefix("f:") {
            arguments.input(&scalar_bytes(&value.parse::<f32>().unwrap_or_else(|_| misfit()).to_ne_bytes()));
        } else if let Some(value) = token.strip_prefix("d:") {
            arguments.input(&scalar_bytes(&value.parse::<f64>().unwrap_or_else(|_| misfit()).to_ne_bytes()));
        } else if let Some(value) = token.strip_prefix("i:") {
            arguments.input(&scalar_bytes(&value.parse::<i32>().unwrap_or_else(|_| misfit()).to_ne_bytes()));
        } else if let Some(value) = token.strip_prefix("l:") {
            arguments.input(&scalar_bytes(&value.parse::<i64>().unwrap_or_else(|_| misfit()).to_ne_bytes()));
        } else if let Some((buffer, rest)) = token.split_once(':') {
            // Perhaps so many bytes from its start.
            let (len, shift) = rest.split_once(':').unwrap_or((rest, "0"));
            let len = len.parse().unwrap_or_else(|_| misfit());
            let shift: u64 = shift.parse().unwrap_or_else(|_| misfit());
            let memory =
                self.buffers.entry(buffer.to_owned()).or_insert_with(|| Memory::zeros_behind(FRONT, len));
            assert!(memory.len >= len, "{function}: {buffer} grows within a case");
            arguments.words.push(memory.address() + shift);
        } else if in_hex {
            let digits: Vec<u8> =
                token.chars().map(|c| c.to_digit(16).unwrap_or_else(|| misfit()) as u8).collect();
            let content: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            arguments.input(&content);
        } else if let Some(address) = integer(token) {
            arguments.words.push(address);
        } else if param.scalar == Scalar::Pointer {
            arguments.point_to(Memory::filled(8, FILL), Role::Register(token.to_owned()));
        } else if self.registers.contains_key(token) {
            // The descriptor itself, where a call takes anything, or memory of the caller's.
            arguments.words.push(self.pointer(token));
        } else {
            misfit();
        }
    }

    /// The elements of an attribute, `q:[1,2]`, whose type is named by a letter.
    fn elements(&self, token: &str) -> Option<Vec<u8>> {
        let (letter, list) = token.strip_suffix(']')?.split_once(":[")?;
        let number = |element: &str| element.parse::<f64>().ok();
        let bytes = |element: &str| match letter {
            "b" => Some(vec![integer(element)? as u8]),
            "i" => Some((integer(element)? as i32).to_ne_bytes().to_vec()),
            "q" => Some(integer(element)?.to_ne_bytes().to_vec()),
            "f" => Some((number(element)? as f32).to_ne_bytes().to_vec()),
            "d" => Some(number(element)?.to_ne_bytes().to_vec()),
            "p" => Some(self.pointer(element).to_ne_bytes().to_vec()),
            _ => None,
        };
        list.split(',').map(bytes).collect::<Option<Vec<_>>>().map(|all| all.concat())
    }

    /// A register's value, null, or an address given as a number.
    fn pointer(&self, token: &str) -> u64 {
        match token {
            "NULL" => 0,
            number if integer(number).is_some() => integer(number).unwrap_or(0),
            register => *self
                .registers
                .get(register)
                .unwrap_or_else(|| panic!("register {register} is used before it is created")),
        }
    }

    /// The register or buffer that has this value.
    fn holder(&self, value: u64) -> Option<String> {
        let registers = self.registers.iter().map(|(name, &register)| (name, register));
        let buffers = self.buffers.iter().map(|(name, memory)| (name, memory.bytes().as_ptr() as u64));
        registers.chain(buffers).find(|&(_, held)| held == value).map(|(name, _)| name.clone())
    }

    fn render(&mut self, observed: &mut Vec<String>, position: usize, memory: &Memory, role: &Role) {
        let content = memory.content();
        match role {
            Role::Input(before) if before != content => observed.push(format!("!input-written:{position}")),
            Role::Input(_) => {}
            Role::Register(register) => {
                let value = u64::from_ne_bytes(content.try_into().expect("eight bytes"));
                let (token, value) = match value {
                    _ if untouched(content) => ("~", 0),
                    0 => ("null", 0),
                    value => ("set", value),
                };
                observed.push(token.to_owned());
                self.registers.insert(register.clone(), value);
            }
            Role::Scalar(scalar) => observed.push(self.scalar(content, *scalar)),
            Role::Array(scalar) => {
                let elements: Vec<_> =
                    content.chunks(scalar.size()).map(|bytes| self.scalar(bytes, *scalar)).collect();
                observed.push(format!("[{}]", elements.join(",")));
            }
            Role::Bytes => {
                observed.push(content.iter().map(|byte| self.scalar(&[*byte], Scalar::Byte)).collect())
            }
        }
        if !memory.guard_intact() {
            observed.push(format!("!overrun:{position}"));
        }
    }

    fn scalar(&self, bytes: &[u8], scalar: Scalar) -> String {
        if untouched(bytes) {
            return "~".to_owned();
        }
        let four = || <[u8; 4]>::try_from(bytes).expect("four bytes");
        let eight = || <[u8; 8]>::try_from(bytes).expect("eight bytes");
        match scalar {
            Scalar::Byte => format!("{:02x}", bytes[0]),
            Scalar::I32 => i32::from_ne_bytes(four()).to_string(),
            Scalar::U32 => u32::from_ne_bytes(four()).to_string(),
            // As recorded: the number itself, which a double holds.
            Scalar::F32 => format!("{:?}", f64::from(f32::from_ne_bytes(four()))),
            Scalar::I64 => i64::from_ne_bytes(eight()).to_string(),
            Scalar::U64 => u64::from_ne_bytes(eight()).to_string(),
            Scalar::F64 => format!("{:?}", f64::from_ne_bytes(eight())),
            Scalar::Pointer => match u64::from_ne_bytes(eight()) {
                0 => "NULL".to_owned(),
                value => self.holder(value).unwrap_or_else(|| value.to_string()),
            },
            Scalar::Record => {
                let int = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
                let time = f32::from_bits(int(8) as u32);
                let memory = u64::from_ne_bytes(bytes[16..24].try_into().expect("eight bytes"));
                format!("{}:{}:{time:?}:{memory}:{}:{}", int(0), int(4), int(24), int(28))
            }
        }
    }
}

fn untouched(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == FILL)
}

/// A scaling factor, followed by zeros: a call that reads a double where a float was given stays
/// deterministic.
fn scalar_bytes(value: &[u8]) -> [u8; 16] {
    let mut content = [0; 16];
    content[..value.len()].copy_from_slice(value);
    content
}

/// A decimal integer of any width, negative ones in two's complement.
fn integer(token: &str) -> Option<u64> {
    token.parse::<i64>().map(|value| value as u64).or_else(|_| token.parse()).ok()
}

fn invoke(entry: Entry, arguments: &Arguments) -> u64 {
    let mut w = [0; WORDS];
    w[..arguments.words.len()].copy_from_slice(&arguments.words);
    let mut f = [0.0; 4];
    f[..arguments.floats.len()].copy_from_slice(&arguments.floats);
    // SAFETY: the arguments are of the classes the recorded signature asks for, and every pointer
    // refers to memory of this call or this case that is at least as large as the recorded case
    // declares.
    unsafe {
        entry(
            w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14],
            w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26], w[27], w[28],
            w[29], w[30], w[31], w[32], w[33], w[34], w[35], f[0], f[1], f[2], f[3],
        )
    }
}
