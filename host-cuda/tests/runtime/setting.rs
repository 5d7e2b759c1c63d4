//! What the tests use: the layout, and programs compiled with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository's root")
}

/// A fresh folder for this test program.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target's scratch folder is writable");
    folder
}

/// Libraries and headers as an installation has them, made once: `lib/host-cuda` and
/// `include/host-cuda` below this.
pub fn layout() -> &'static Path {
    static LAYOUT: OnceLock<PathBuf> = OnceLock::new();
    LAYOUT.get_or_init(|| {
        let folder = scratch("layout");
        let mut xtask = Command::new(env!("CARGO"));
        xtask.args(["run", "--quiet", "--package", "xtask", "--", "host-cuda", "--debug"]).arg(&folder);
        run(xtask.current_dir(repository()));
        folder
    })
}

/// Runs a command that has to succeed; what it printed.
pub fn run(command: &mut Command) -> String {
    let output =
        command.env("LC_ALL", "C").output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a tool is installed; a missing one is a skip, and printed.
pub fn is_there(program: &str, package: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("skipped: {program} is not installed; install it: apt-get install {package}");
    }
    there
}

/// Whose headers a program is compiled against.
#[derive(Clone, Copy)]
pub enum Headers {
    Ours,
}

impl Headers {
    pub fn folders(self) -> [PathBuf; 2] {
        [layout().join("include/host-cuda"), repository().join("include")]
    }
}

/// What links a program with our libraries.
pub fn linked() -> [String; 5] {
    let lib = layout().join("lib/host-cuda");
    let lib = lib.display();
    let libraries = ["-lcudart", "-lcuda", "-lpthread"].map(str::to_owned);
    let [runtime, driver, threads] = libraries;
    [format!("-L{lib}"), runtime, driver, threads, format!("-Wl,-rpath-link,{lib}")]
}

/// Compiles a program of `c_tests/host_cuda`. `None`, said as a skip, without the compiler.
pub fn program(name: &str, headers: Headers) -> Option<PathBuf> {
    let file = scratch(&format!("program-{name}-{:?}", std::thread::current().id())).join(name);
    compiled(name, &headers.folders(), &linked(), &file).map(|()| file)
}

/// The same with these headers and libraries, at this place.
pub fn compiled(
    name: &str, headers: &[PathBuf], libraries: &[impl AsRef<str>], program: &Path,
) -> Option<()> {
    let folder = repository().join("c_tests/host_cuda");
    let source = ["c", "cpp"].map(|end| folder.join(name).with_extension(end));
    let source = source.into_iter().find(|file| file.exists()).expect("the program is there");
    compiled_file(&source, headers, libraries, program)
}

/// Compiles a file of C or C++.
pub fn compiled_file(
    source: &Path, headers: &[PathBuf], libraries: &[impl AsRef<str>], program: &Path,
) -> Option<()> {
    let compiler = if source.extension().is_some_and(|end| end == "cpp") { "g++" } else { "gcc" };
    if !is_there(compiler, compiler) {
        return None;
    }
    let mut command = Command::new(compiler);
    command
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(repository().join("c_tests/host_cuda"));
    for folder in headers {
        command.arg("-isystem").arg(folder);
    }
    command.arg(source).arg("-o").arg(program).args(libraries.iter().map(AsRef::as_ref));
    run(&mut command);
    Some(())
}
