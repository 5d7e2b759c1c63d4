//! Gives the shared library the ELF identity that relinked and existing programs look for, and
//! packs the kernels.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use lzma_rust2::{LzmaOptions, LzmaWriter};

#[path = "build/cubins.rs"]
mod cubins;
#[path = "build/nodes.rs"]
mod nodes;
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
    let mut packs = 0;
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the folder"));
    let mut files: Vec<PathBuf> = fs::read_dir(PTX)
        .expect("the folder of the generated PTX")
        .map(|entry| entry.expect("an entry of that folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    files.sort();
    let mut families = String::from("static FAMILIES: &[Family] = &[\n");
    let (mut kernels, mut texts) = (Vec::new(), Vec::new());
    for (number, file) in files.iter().enumerate() {
        let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a family's name is ASCII");
        let text = fs::read_to_string(file).expect("a file of that folder");
        let family = ptx::split(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let modules = family.kernels.iter();
        let modules: Vec<(&str, String)> =
            modules.map(|kernel| (kernel.name, format!("{}{}", family.preamble, kernel.text))).collect();
        let machine = cubins.as_ref().and_then(|folder| {
            let pack = folder.join(name).with_extension("cubins");
            pack.exists().then(|| embed(&pack, &modules, &out.join(format!("{name}.cubins"))))
        });
        packs += usize::from(machine.is_some());
        let machine = match machine {
            Some(()) => format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.cubins\"))"),
            None => "&[]".to_owned(),
        };
        let mut packed = family.preamble;
        let preamble = packed.len();
        for kernel in family.kernels {
            let start = packed.len();
            packed.push_str(kernel.text);
            let (name, parameter, end) = (kernel.name.to_owned(), kernel.parameter, packed.len());
            kernels.push((name, parameter, number, start, end));
        }
        writeln!(
            families,
            "    Family {{ name: {name:?}, preamble: {preamble}, size: {}, \
             packed: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.lzma\")), machine: {machine} }},",
            packed.len()
        )
        .expect("a string grows");
        texts.push((out.join(format!("{name}.lzma")), packed));
    }
    compress(&texts);
    if let Some(folder) = cubins.filter(|_| packs == 0) {
        panic!("{CUBINS}: {} has no pack of a family; `cargo xtask cubins` makes them", folder.display());
    }
    kernels.sort();
    for pair in kernels.windows(2) {
        assert!(pair[0].0 != pair[1].0, "two kernels are called {}", pair[0].0);
    }
    let mut table = families + "];\n\nstatic KERNELS: &[Kernel] = &[\n";
    for (name, parameter, family, start, end) in kernels {
        writeln!(
            table,
            "    Kernel {{ name: {name:?}, parameter: {parameter}, family: {family}, start: {start}, end: {end} }},"
        )
        .expect("a string grows");
    }
    fs::write(out.join("kernels.rs"), table + "];\n").expect("the output folder takes files");
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

/// Writes what these texts compress to, on as many threads as cargo has jobs.
fn compress(texts: &[(PathBuf, String)]) {
    // A build without optimisation is for tests: fewer bytes are not worth ten times as long there.
    let is_optimised = env::var("OPT_LEVEL").is_ok_and(|level| !matches!(level.as_str(), "0" | "1"));
    let preset = if is_optimised { 6 } else { 1 };
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((to, text)) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
            fs::write(to, compressed(text.as_bytes(), preset)).expect("the output folder takes files");
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| _ = scope.spawn(work)));
}

fn compressed(bytes: &[u8], preset: u32) -> Vec<u8> {
    // Who unpacks takes as much memory as the dictionary has.
    let dict_size = bytes.len().next_multiple_of(4096) as u32;
    // Text has no alignment.
    let options = LzmaOptions { dict_size, pb: 0, ..LzmaOptions::with_preset(preset) };
    LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))
        .and_then(|mut writer| writer.write_all(bytes).and_then(|()| writer.finish()))
        .expect("a buffer takes what is written")
}
