//! The run-time compiler of CUDA, which turns a source into PTX without a GPU, driver or toolkit.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use anyhow::{Context, Result, ensure};
use libloading::Library;

type Program = *mut c_void;
type CreateProgram = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type CompileProgram = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetText = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type DestroyProgram = unsafe extern "C" fn(*mut Program) -> c_int;

/// The entry points of the run-time compiler that are used here.
pub struct Nvrtc(Library);

impl Nvrtc {
    pub fn load(path: &Path) -> Result<Nvrtc> {
        // SAFETY: the library of a pinned package, whose initialisers have no requirements.
        let library = unsafe { Library::new(path) };
        Ok(Nvrtc(library.with_context(|| format!("cannot load {}", path.display()))?))
    }

    /// The PTX of `source`, a file called `unit`; it finds `headers` by name, so that no path of
    /// this machine gets into the text.
    pub fn compile(
        &self, unit: &str, source: &str, headers: &[(String, String)], options: &[&str],
    ) -> Result<String> {
        let text = |text: &str| CString::new(text).context("a source has a NUL byte");
        let (source, file) = (text(source)?, text(unit)?);
        let names = headers.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
        let bodies = headers.iter().map(|(_, body)| text(body)).collect::<Result<Vec<_>>>()?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (names, bodies, options) = (pointers(&names), pointers(&bodies), pointers(&options));

        let mut program = ptr::null_mut();
        // SAFETY: the signatures are those of the library's documentation; every pointer outlives
        // its call, and the buffers have the sizes that the library asked for.
        unsafe {
            let create = self.0.get::<CreateProgram>(b"nvrtcCreateProgram")?;
            let count = names.len() as c_int;
            let rc =
                create(&mut program, source.as_ptr(), file.as_ptr(), count, bodies.as_ptr(), names.as_ptr());
            ensure!(rc == 0, "nvrtcCreateProgram failed with {rc}");
            let compile = self.0.get::<CompileProgram>(b"nvrtcCompileProgram")?;
            let rc = compile(program, options.len() as c_int, options.as_ptr());
            let log = self.text(program, b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog")?;
            ensure!(rc == 0, "{unit} does not compile ({rc})\n{log}");
            // A warning is an error: nobody reads it in a log.
            ensure!(log.trim().is_empty(), "{unit} compiles with warnings\n{log}");
            let ptx = self.text(program, b"nvrtcGetPTXSize", b"nvrtcGetPTX")?;
            self.0.get::<DestroyProgram>(b"nvrtcDestroyProgram")?(&mut program);
            Ok(ptx)
        }
    }

    /// One of the texts of a compiled program.
    ///
    /// # Safety
    /// `program` is live; the names are those of a pair of functions that give a text's size and
    /// the text.
    unsafe fn text(&self, program: Program, size: &[u8], text: &[u8]) -> Result<String> {
        let mut length = 0;
        // SAFETY: the caller's promise; the buffer has the size that the library gave, terminating
        // NUL included.
        unsafe {
            let rc = self.0.get::<GetSize>(size)?(program, &mut length);
            ensure!(rc == 0, "the size of a text failed with {rc}");
            let mut buffer = vec![0_u8; length.max(1)];
            let rc = self.0.get::<GetText>(text)?(program, buffer.as_mut_ptr().cast());
            ensure!(rc == 0, "a text failed with {rc}");
            Ok(CStr::from_bytes_until_nul(&buffer)?.to_str()?.to_owned())
        }
    }
}
