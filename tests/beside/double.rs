//! Builds the double, and programs that run beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::common;

/// What both libraries compute on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// The host, whose handles have an original beside them if the environment says so.
    Host,
    /// A GPU, which is the driver double. It reaches the memory of the host, and a call waits for
    /// its end.
    Gpu,
}

/// What a run needs: our library with its links, the copy that the double stands on, the double.
pub struct Setting {
    pub scratch: PathBuf,
    pub lib: PathBuf,
    copy: PathBuf,
}

/// Made once for all tests. `None`, said as a skip, without gcc.
pub fn setting() -> Option<&'static Setting> {
    static SETTING: OnceLock<Option<Setting>> = OnceLock::new();
    let made = SETTING.get_or_init(|| {
        if !common::tools::works("gcc") {
            return None;
        }
        let scratch = common::scratch_dir("beside");
        let lib = common::install_layout(&scratch);
        // A file of its own, so that the loader makes a library of its own of it.
        let copy = scratch.join("libcopy.so");
        fs::copy(common::library(), &copy).expect("the library can be copied");
        Some(Setting { scratch, lib, copy })
    });
    if made.is_none() {
        println!("{}", common::tools::Tool::named("gcc").skip());
    }
    made.as_ref()
}

/// The symbols of the original's main library.
pub fn symbols() -> Vec<String> {
    symbols_in("symbols.tsv")
}

/// The symbols that a table lists.
pub fn symbols_in(table: &str) -> Vec<String> {
    let table = common::project_root().join("tests/data/abi").join(table);
    let text = fs::read_to_string(table).expect("the table of symbols");
    text.lines().skip(1).filter_map(|line| Some(line.split('\t').next()?.to_owned())).collect()
}

/// The folder of the driver double, which `tests/cuda` uses as well; built by the first who asks.
pub fn driver() -> Option<&'static Path> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = DRIVER.get_or_init(|| {
        if !common::tools::works("g++") {
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver_double");
        let script = common::project_root().join("c_tests/driver_double/build.sh");
        let mut build = Command::new("sh");
        build.arg(script).arg(&folder).env("CUDNN_SHIM_DOUBLE", "source");
        assert!(build.status().expect("a shell").success(), "the driver double is built");
        Some(folder)
    });
    if built.is_none() {
        println!("{}", common::tools::Tool::named("g++").skip());
    }
    built.as_deref()
}

impl Setting {
    /// A folder with a double that has all symbols but `lacks`.
    pub fn double(&self, name: &str, lacks: &[&str]) -> PathBuf {
        let folder = self.scratch.join(name);
        fs::create_dir_all(&folder).expect("a scratch folder");
        let mut list = String::new();
        let there = symbols().into_iter().filter(|symbol| !lacks.contains(&symbol.as_str()));
        for (number, symbol) in there.enumerate() {
            writeln!(list, "SYMBOL({number}, {symbol})").expect("a string grows");
        }
        fs::write(folder.join("symbols.h"), list).expect("writable");
        let output = Command::new("gcc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcudnn.so.9"])
            .arg("-I")
            .arg(&folder)
            .arg(common::project_root().join("c_tests/beside/double.c"))
            .arg("-o")
            .arg(folder.join("libcudnn.so.9"))
            .arg("-ldl")
            .output()
            .expect("gcc starts");
        assert!(output.status.success(), "{}", common::printed(&output));
        folder
    }

    /// The double that has everything.
    pub fn whole(&self) -> &'static Path {
        static WHOLE: OnceLock<PathBuf> = OnceLock::new();
        WHOLE.get_or_init(|| self.double("whole", &[]))
    }

    /// A program of `c_tests/`, compiled once against our library.
    pub fn program(&self, source: &str) -> PathBuf {
        static MADE: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(source.to_owned()).or_insert_with(|| self.compile(source)).clone()
    }

    fn compile(&self, source: &str) -> PathBuf {
        self.compile_with(source, &[])
    }

    fn compile_with(&self, source: &str, more: &[&str]) -> PathBuf {
        let program = self.scratch.join(source.replace(['/', '.'], "-"));
        let sources = [common::project_root().join("c_tests").join(source)];
        let include = format!("-I{}", common::project_root().join("c_tests").display());
        let options = [&[include.as_str(), "-pthread", "-lm", "-ldl"], more].concat();
        common::compiled("gcc", &options, &sources, &self.lib, &program).expect("gcc works");
        program
    }

    /// A program that calls the runtime and the driver itself.
    pub fn gpu_program(&self, source: &str, driver: &Path) -> PathBuf {
        let include = format!("-I{}", common::project_root().join("c_tests/driver_double").display());
        let folder = format!("-L{}", driver.display());
        self.compile_with(source, &[&include, &folder, "-lcudart", "-l:libcuda.so.1"])
    }

    /// The cores that there are: without a C++ compiler, which is said as a skip, that of the host.
    pub fn cores(&self) -> Vec<Core> {
        [Core::Host].into_iter().chain(driver().map(|_| Core::Gpu)).collect()
    }

    /// A program beside the original in `folder`, on the CPU core, with the double on our copy.
    pub fn command(&self, program: &Path, folder: &Path) -> Command {
        self.command_on(Core::Host, program, folder)
    }

    /// The same on either core. Handles on a GPU have the original beside them unasked.
    pub fn command_on(&self, core: Core, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        match core {
            Core::Host => {
                command.env("LD_LIBRARY_PATH", &self.lib).env("CUDNN_SHIM_BACKEND", "cpu");
                command.env("CUDNN_SHIM_ORIGINAL_HANDLES", "all");
            }
            Core::Gpu => {
                let driver = driver().expect("asked for where there is one");
                let path = std::env::join_paths([self.lib.as_path(), driver]).expect("no colons");
                command.env("LD_LIBRARY_PATH", path).env("CUDNN_SHIM_BACKEND", "cuda");
                command.env_remove("CUDNN_SHIM_ORIGINAL_HANDLES").env("CUDNN_SHIM_CHECK", "1");
                command.envs([("DRIVER_DOUBLE_PAGEABLE", "1"), ("CUDA_LAUNCH_BLOCKING", "1")]);
            }
        }
        command.env("CUDNN_SHIM_ORIGINAL", folder);
        command.env("DOUBLE_LIBRARY", &self.copy).env("CUDNN_SHIM_NUM_THREADS", "2");
        for variable in ["CUDNN_SHIM_ROUTE", "DOUBLE_REFUSES", "DOUBLE_FAILS", "DOUBLE_COUNTS"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a program that has to succeed, and returns what the double was asked, with what was
    /// printed.
    pub fn counted(&self, command: &mut Command, name: &str) -> (BTreeMap<String, u64>, Output) {
        // Tests run at once.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let file = self.scratch.join(format!("{}.counts", NEXT.fetch_add(1, Ordering::Relaxed)));
        let _ = fs::remove_file(&file);
        let output = command.env("DOUBLE_COUNTS", &file).output().expect("the program starts");
        assert!(output.status.success(), "{name}: {}\n{}", output.status, common::printed(&output));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = |line: &str| {
            let (name, count) = line.split_once(' ').expect("a name and a count");
            (name.to_owned(), count.parse().expect("a number"))
        };
        (text.lines().map(line).collect(), output)
    }
}
