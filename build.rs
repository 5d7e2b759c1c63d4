//! Gives the shared library the ELF identity that relinked and existing programs look for, and
//! packs the kernels.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use lzma_rust2::{LzmaOptions, LzmaWriter};

#[path = "build/cubins.rs"]
mod cubins;
#[path = "build/nodes.rs"]
mod nodes;
#[path = "build/numbers.rs"]
mod numbers;
#[path = "build/ptx.rs"]
mod ptx;

/// The generated PTX, a file for each family of kernels.
const PTX: &str = "src/backend/cuda/ptx";

/// Names the folder with the packs of machine code that `cargo xtask cubins` makes. A build without
/// it embeds the texts alone.
const CUBINS: &str = "CUDNN_SHIM_CUBINS";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/cubins.rs");
    println!("cargo::rerun-if-changed=build/nodes.rs");
    println!("cargo::rerun-if-changed=build/numbers.rs");
    println!("cargo::rerun-if-changed=build/ptx.rs");
    println!("cargo::rerun-if-changed={PTX}");
    println!("cargo::rerun-if-env-changed={CUBINS}");
    pack_kernels();
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        identity();
    }
}

fn identity() {
    // The feature chooses the version of the interface, and with it whose place the library takes.
    let version_8 = env::var_os("CARGO_FEATURE_CUDNN8").is_some();
    let soname = if version_8 { "libcudnn.so.8" } else { "libcudnn.so.9" };
    for arg in [
        // rust-lld ignores --default-symver, which is what names the version node after the SONAME.
        // gcc looks for `ld.bfd` among its own programs first, so that a compiler for another
        // processor takes the linker for that.
        "-fuse-ld=bfd",
        &format!("-Wl,-soname,{soname}"),
        // Every symbol becomes `cudnnX@@<soname>`, the version that linked programs ask for.
        "-Wl,--default-symver",
        "-Wl,-Bsymbolic",
        // Worker threads may outlive a dlclose, so the code has to stay mapped.
        "-Wl,-z,nodelete",
        "-Wl,-z,now",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    if let Some(argument) = nodes::arguments(soname) {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}

/// Compresses each family, and writes the tables that `backend/cuda/module.rs` finds a kernel's
/// text with. Machine code goes along where there is some.
fn pack_kernels() {
    let cubins = env::var_os(CUBINS).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    if let Some(folder) = &cubins {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the folder"));
    let mut files: Vec<PathBuf> = fs::read_dir(PTX)
        .expect("the folder of the generated PTX")
        .map(|entry| entry.expect("an entry of that folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    files.sort();
    let packed = in_parallel(&files, |file| pack_family(file, cubins.as_deref(), &out));
    if let Some(folder) = cubins.filter(|_| packed.iter().all(|family| !family.has_code)) {
        panic!("{CUBINS}: {} has no pack of a family; `cargo xtask cubins` makes them", folder.display());
    }
    let mut families = String::from("static FAMILIES: &[Family] = &[\n");
    let mut kernels = Vec::new();
    for (number, family) in packed.into_iter().enumerate() {
        let Packed { name, preamble, size, .. } = &family;
        let bytes = |kind: &str| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.{kind}\"))");
        let machine = if family.has_code { bytes("cubins") } else { "&[]".to_owned() };
        let packed = bytes("lzma");
        writeln!(
            families,
            "    Family {{ name: {name:?}, preamble: {preamble:?}, packed: {packed}, size: {size}, machine: {machine} }},"
        )
        .expect("a string grows");
        kernels.extend(family.kernels.into_iter().map(|kernel| (number, kernel)));
    }
    kernels.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    for pair in kernels.windows(2) {
        assert!(pair[0].1.name != pair[1].1.name, "two kernels are called {}", pair[0].1.name);
    }
    let mut table = families + "];\n\nstatic KERNELS: &[Kernel] = &[\n";
    for (family, Line { name, parameter, words, numbers }) in kernels {
        writeln!(
            table,
            "    Kernel {{ name: {name:?}, parameter: {parameter}, family: {family}, \
             words: {words:?}, numbers: {numbers:?} }},"
        )
        .expect("a string grows");
    }
    fs::write(out.join("kernels.rs"), table + "];\n").expect("the output folder takes files");
}

/// A kernel's line in the table, see `backend/cuda/module.rs`.
struct Line {
    name: String,
    parameter: usize,
    words: (usize, usize),
    numbers: (usize, usize),
}

/// A family as it is embedded.
struct Packed {
    name: String,
    preamble: String,
    /// Bytes that it unpacks to.
    size: usize,
    kernels: Vec<Line>,
    /// Whether there is machine code, too.
    has_code: bool,
}

/// Writes `<family>.lzma`: first the words of all its kernels, then their numbers. And
/// `<family>.cubins`, if there is such a pack.
fn pack_family(file: &Path, cubins: Option<&Path>, out: &Path) -> Packed {
    let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a family's name is ASCII");
    let text = fs::read_to_string(file).expect("a file of that folder");
    let family = ptx::split(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let pack = cubins.map(|folder| folder.join(name).with_extension("cubins")).filter(|pack| pack.exists());
    if let Some(pack) = &pack {
        let modules = family.kernels.iter();
        let modules: Vec<(&str, String)> =
            modules.map(|kernel| (kernel.name, format!("{}{}", family.preamble, kernel.text))).collect();
        embed(pack, &modules, &out.join(format!("{name}.cubins")));
    }
    let parts: Vec<(Vec<u8>, Vec<u8>)> =
        family.kernels.iter().map(|kernel| numbers::separate(kernel.name, kernel.text)).collect();
    let (mut word, mut number) = (0, parts.iter().map(|(words, _)| words.len()).sum());
    let place = |at: &mut usize, bytes: &[u8]| {
        let start = *at;
        *at += bytes.len();
        (start, *at)
    };
    let lines = family.kernels.iter().zip(&parts).map(|(kernel, (words, numbers))| Line {
        name: kernel.name.to_owned(),
        parameter: kernel.parameter,
        words: place(&mut word, words),
        numbers: place(&mut number, numbers),
    });
    let kernels = lines.collect();
    let (words, numbers): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let bytes = [words.concat(), numbers.concat()].concat();
    fs::write(out.join(format!("{name}.lzma")), compressed(&bytes)).expect("the output folder takes files");
    let name = name.to_owned();
    Packed { name, preamble: family.preamble, size: bytes.len(), kernels, has_code: pack.is_some() }
}

/// Takes a pack into the build; fails if it is not made of the texts of these modules.
fn embed(pack: &Path, modules: &[(&str, String)], to: &Path) {
    let bytes = fs::read(pack).expect("a pack can be read");
    // The code that ships is that of texts which tests have run.
    cubins::read(&bytes)
        .and_then(|read| read.check(modules))
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask cubins` makes it anew", pack.display()));
    fs::write(to, bytes).expect("the output folder takes files");
}

/// What `make` makes of each file, in their order, on as many threads as cargo has jobs.
fn in_parallel<T: Send>(files: &[PathBuf], make: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let next = AtomicUsize::new(0);
    let made = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(number) else { break };
            let one = make(file);
            made.lock().expect("nothing panics under this lock").push((number, one));
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| _ = scope.spawn(work)));
    let mut made = made.into_inner().expect("nothing panics under this lock");
    made.sort_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, one)| one).collect()
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    // A build without optimisation is for tests: fewer bytes are not worth ten times as long there.
    let is_optimised = env::var("OPT_LEVEL").is_ok_and(|level| !matches!(level.as_str(), "0" | "1"));
    let preset = if is_optimised { 6 } else { 1 };
    // Who unpacks takes as much memory as the dictionary has.
    let dict_size = bytes.len().next_multiple_of(4096) as u32;
    // Text has no alignment.
    let options = LzmaOptions { dict_size, pb: 0, ..LzmaOptions::with_preset(preset) };
    LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))
        .and_then(|mut writer| writer.write_all(bytes).and_then(|()| writer.finish()))
        .expect("a buffer takes what is written")
}
