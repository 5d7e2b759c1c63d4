//! Opening the original, bound to itself: none of its parts sees a symbol of this library, and no
//! program sees one of its.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::trial;
use crate::sync::{Lock, Vanished};

/// The original's parts, a part behind those that it needs. The main library opens most of them by
/// name when it is called first. As they are open by then, the loader takes these files, whatever
/// the path says.
const PARTS: &[&str] = &[
    "ext",
    "graph",
    "ops",
    "cnn",
    "adv",
    "heuristic",
    "engines_precompiled",
    "engines_runtime_compiled",
    "engines_tensor_ir",
    "ops_infer",
    "ops_train",
    "cnn_infer",
    "cnn_train",
    "adv_infer",
    "adv_train",
];

/// An open library, which stays open for the life of the process.
pub struct Library {
    handle: *mut c_void,
    /// Its file, links resolved.
    file: PathBuf,
    /// What its `cudnnGetVersion` answers.
    version: usize,
    /// Addresses of functions by their names, 0 for those that it lacks: finding one asks the
    /// loader for the file behind it.
    known: Lock<BTreeMap<String, usize>>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("file", &self.file).field("version", &self.version).finish()
    }
}

// SAFETY: a handle of the loader serves every thread, and nothing closes it.
unsafe impl Send for Library {}
// SAFETY: shared use is a search for a symbol, which the loader locks itself.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the original that lies in `file`, for an interface of version `major`.
    ///
    /// # Errors
    /// Why it cannot serve, in a sentence.
    pub fn open(file: &Path, major: c_int) -> Result<Library, String> {
        let file = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
        let shown = file.display();
        if is_this_library(&file) {
            return Err(format!("{shown} is this library itself"));
        }
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        if let Some(other) = foreign_part(&folder) {
            return Err(format!(
                "{} is loaded already: the original in {} would take it for its own part",
                other.display(),
                folder.display()
            ));
        }
        if !is_loaded(&file) {
            trial::survive(|| drop(Self::opened(file.clone(), &folder, major)))
                .map_err(|text| format!("{shown}: {text}"))?;
        }
        let library = Self::opened(file, &folder, major)?;
        if library.major() < major {
            let number = library.version;
            return Err(format!(
                "{} has version {number}: at least {major} is needed",
                library.file.display()
            ));
        }
        Ok(library)
    }

    fn opened(file: PathBuf, folder: &Path, major: c_int) -> Result<Library, String> {
        for part in PARTS.iter().map(|part| folder.join(format!("libcudnn_{part}.so.{major}"))) {
            if part.is_file() {
                // Who needs one that does not open says so itself. Nothing closes it.
                let _ = open(&part, libc::RTLD_LAZY);
            }
        }
        let handle = open(&file, libc::RTLD_NOW)?;
        let known = Lock::new(BTreeMap::new());
        let mut library = Library { handle, file, version: 0, known };
        let Some(version) = library.symbol("cudnnGetVersion") else {
            return Err(format!("{} has no cudnnGetVersion", library.file.display()));
        };
        // SAFETY: the interface gives the symbol this type in all its versions.
        let version = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(version) };
        // SAFETY: it has no arguments and no preconditions.
        library.version = unsafe { version() };
        Ok(library)
    }

    /// Its file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The number of its version.
    pub fn version(&self) -> usize {
        self.version
    }

    fn major(&self) -> c_int {
        // Version 9 gave the minor number more room.
        (if self.version < 10_000 { self.version / 1000 } else { self.version / 10_000 }) as c_int
    }

    /// A function of it, `None` if it exports none of this name. What its dependencies export is
    /// none of its.
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let known = self.known.read(forgotten).get(name).copied();
        let address = known.unwrap_or_else(|| {
            let address = self.search(name).map_or(0, |symbol| symbol.expose_provenance());
            self.known.write(forgotten).insert(name.to_owned(), address);
            address
        });
        (address != 0).then(|| std::ptr::with_exposed_provenance_mut(address))
    }

    fn search(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: an open handle, and a C string.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!symbol.is_null() && object_of(symbol)?.parent() == self.file.parent()).then_some(symbol)
    }
}

/// For a child of a process one of whose threads was adding a name.
fn forgotten(known: &mut Vanished<BTreeMap<String, usize>>) {
    known.replace(BTreeMap::new());
}

/// Opens a library so that it binds to itself and its own dependencies first, and so that nobody
/// else binds to it.
fn open(file: &Path, when: c_int) -> Result<*mut c_void, String> {
    let name = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let flags = when | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    // SAFETY: runs the initialisers of the original, as every program that uses it does.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: the text of this thread's last failure, which lives until its next call of the
    // loader.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    };
    Err(text)
}

/// Whether the program has loaded a library already, and lives.
fn is_loaded(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: loads nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return false;
    }
    // SAFETY: a handle of this function, closed once; the program's own stays.
    unsafe { libc::dlclose(handle) };
    true
}

/// The file that an address was loaded from, links resolved.
fn object_of(address: *const c_void) -> Option<PathBuf> {
    let mut about = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the place is valid for the write, and any address may be asked for.
    let known = unsafe { libc::dladdr(address, &raw mut about) };
    if known == 0 || about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a C string of the loader, which lives as long as the object.
    path(unsafe { CStr::from_ptr(about.dli_fname) }).canonicalize().ok()
}

fn path(name: &CStr) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()))
}

/// Whether a file is what this code was loaded from, be it under another name.
fn is_this_library(file: &Path) -> bool {
    let Some(own) = object_of(is_this_library as *const c_void) else { return false };
    let identity = |file: &Path| file.metadata().map(|about| (about.dev(), about.ino())).ok();
    identity(&own).is_some_and(|own| identity(file) == Some(own))
}

/// A part of a cuDNN that is loaded from elsewhere than `folder`.
fn foreign_part(folder: &Path) -> Option<PathBuf> {
    struct Search<'a> {
        folder: &'a Path,
        found: Option<PathBuf>,
    }
    unsafe extern "C" fn look(about: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader gives the description of an object, whose name is NULL or a C string,
        // and the pointer that `foreign_part` gave it.
        let (name, search): (*const c_char, &mut Search<'_>) =
            unsafe { ((*about).dlpi_name, &mut *search.cast()) };
        if name.is_null() {
            return 0;
        }
        // SAFETY: it lives as long as the object, which stays during the walk.
        let file = path(unsafe { CStr::from_ptr(name) });
        let is_part =
            file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("libcudnn_"));
        let is_foreign =
            is_part && file.canonicalize().is_ok_and(|file| file.parent() != Some(search.folder));
        if is_foreign {
            search.found = Some(file);
        }
        c_int::from(is_foreign)
    }
    let mut search = Search { folder, found: None };
    // SAFETY: `look` has the type of the callback, and `search` lives until the walk has ended.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}
