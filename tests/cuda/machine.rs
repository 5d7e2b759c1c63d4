//! Machine code beside PTX: which of it a device is given, what a refusal leads to, and how much is
//! unpacked.

use std::ffi::c_char;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::{fs, ptr};

use cudnn::backend::cuda::launch::Device;
use cudnn::backend::cuda::{Cuda, module};

use crate::double::{self, Memory, count};
use crate::launch::{Transpose, destroy};
use crate::{api, child, common};

#[allow(dead_code, reason = "the build checks what these tests only read")]
#[path = "../../build/cubins.rs"]
mod pack;
#[path = "../../build/ptx.rs"]
mod split;

/// Small families, which take seconds to assemble, with about as many kernels as a network has: the
/// first two are those of the trial and of a transpose.
const FAMILIES: [&str; 9] =
    ["copy", "transpose", "set", "plane", "words", "ragged", "row_sums", "normalise_run", "aggregate"];

/// The folder of the packs, made by the first test that asks; `None`, and the line that says so, if
/// there is no assembler.
fn packs() -> Option<PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cubins");
        if child::is_one() {
            return Some(folder);
        }
        let mut xtask = Command::new(env!("CARGO"));
        xtask.args(["run", "--quiet", "--package", "xtask", "--", "cubins"]).args(FAMILIES);
        xtask.arg("--out").arg(&folder).current_dir(common::project_root());
        let output = xtask.output().expect("cargo starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("cannot fetch"), "{said}");
        output.status.success().then_some(folder)
    });
    if made.is_none() {
        println!(
            "skipped: machine code on the driver double, for there is no assembler; install it: \
             python3 -m pip install nvidia-cuda-nvcc-cu12=={}",
            pack::ASSEMBLER
        );
    }
    made.clone()
}

fn pack_of(family: &str) -> Vec<u8> {
    fs::read(packs().expect("packs").join(format!("{family}.cubins"))).expect("a pack")
}

/// Has the library of this process take the packs.
fn offer() {
    for family in FAMILIES {
        module::offer(family, pack_of(family)).expect("a pack of the embedded texts");
    }
}

/// Modules that were loaded, and of them those of machine code for these architectures.
fn loaded(architectures: &[u32]) -> (u32, u32) {
    let of = |architecture: &u32| count(&format!("machine code for sm_{architecture}"));
    (count("cuModuleLoadDataEx"), architectures.iter().map(of).sum())
}

/// What a first handle and a transpose load on a device of this capability, and what they log.
fn use_once(variables: &[(&str, &str)], expect: impl Fn()) -> Option<String> {
    if double::is_real() {
        println!("skipped: which modules are loaded, which a real driver does not count");
        return None;
    }
    packs()?;
    let log = [("CUDNN_LOGLEVEL_DBG", "2"), ("CUDNN_LOGDEST_DBG", "stderr")];
    let variables = [variables, &log].concat();
    let output = child::start(&double::libraries(), &variables, || {
        offer();
        double::use_device(0);
        expect();
    })?;
    let text = child::text(&output);
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// Lines that speak of machine code.
fn lines(text: &str) -> usize {
    text.lines().filter(|line| line.contains("machine code")).count()
}

/// Of more columns than the kernels for few channels take.
fn transpose() -> Transpose {
    Transpose::of(40, 48)
}

fn work() {
    let handle = api::create().expect("a handle");
    assert!(transpose().works(handle));
    destroy(handle);
}

/// On a device of that capability every module is machine code for that architecture, or none is.
fn expect_code(capability: &str, architecture: Option<u32>) {
    let text = use_once(&[("DRIVER_DOUBLE_CAPABILITY", capability)], || {
        work();
        let (all, of_any) = loaded(&pack::ARCHITECTURES);
        assert!(all >= 2, "the kernel of the trial, and that of the transpose");
        match architecture {
            Some(architecture) => assert_eq!(loaded(&[architecture]), (all, all)),
            None => assert_eq!(of_any, 0),
        }
    });
    assert_eq!(text.map_or(0, |text| lines(&text)), 0);
}

#[test]
fn a_device_gets_code_for_its_own_architecture() {
    expect_code("90", Some(90));
}

#[test]
fn a_device_gets_code_for_an_earlier_architecture_of_its_major_number() {
    expect_code("86", Some(80));
}

#[test]
fn a_device_of_10_0_gets_its_code_behind_that_for_others() {
    expect_code("100", Some(100));
}

#[test]
fn a_device_of_another_major_number_gets_text() {
    expect_code("110", None);
}

#[test]
fn an_earlier_device_than_there_is_code_for_gets_text() {
    expect_code("70", None);
}

/// What the driver refuses is loaded as text, is said once, and no other code of it is tried.
fn expect_text_after(code: i32) {
    let text = use_once(&[], || {
        double::fail("cuModuleLoadDataEx", 0, code);
        work();
        assert_eq!(double::withdraw_faults(), 0);
        let (all, of_code) = loaded(&pack::ARCHITECTURES);
        assert!(all >= 3 && of_code == 0, "{all} modules, {of_code} of them code that was accepted");
    });
    let Some(text) = text else { return };
    assert_eq!(lines(&text), 1, "{text}");
    assert!(text.contains("the machine code for sm_90 (") && text.contains(&format!(", {code})")), "{text}");
}

#[test]
fn an_invalid_image_leads_to_text() {
    expect_text_after(200);
}

#[test]
fn no_binary_for_the_device_leads_to_text() {
    expect_text_after(209);
}

#[test]
fn invalid_ptx_leads_to_text() {
    expect_text_after(218);
}

#[test]
fn an_invalid_source_leads_to_text() {
    expect_text_after(300);
}

/// A device without memory would not have any for the text, either.
#[test]
fn want_of_memory_is_no_refusal() {
    use_once(&[], || {
        let handle = api::create().expect("a handle");
        let transpose = transpose();
        double::fail("cuModuleLoadDataEx", 0, 2);
        let (x, y) = (Memory::new(&transpose.x), Memory::new(&transpose.want));
        assert_eq!(transpose.call(handle, x.pointer(), y.pointer()), api::EXECUTION_FAILED_CUDART);
        assert_eq!(double::withdraw_faults(), 0);
        let before = loaded(&[90]);
        assert!(transpose.works(handle));
        let after = loaded(&[90]);
        assert_eq!(after.0 - before.0, after.1 - before.1, "it is code again");
        destroy(handle);
    });
}

#[test]
fn text_is_loaded_where_that_is_asked_for() {
    use_once(&[("CUDNN_SHIM_PTX", "1")], || {
        work();
        let (all, of_code) = loaded(&pack::ARCHITECTURES);
        assert!(all >= 2 && of_code == 0);
        assert_eq!(module::unpacked(), 0);
    });
}

#[test]
fn code_of_another_text_is_not_taken() {
    if packs().is_none() {
        return;
    }
    let bytes = pack_of("words");
    assert_eq!(module::offer("words", bytes.clone()), Ok(()));
    let read = pack::read(&bytes).expect("a pack");
    let images = read.images.iter();
    let wrong =
        images.map(|image| (image.architecture, image.kernel, image.seal ^ 1, image.end - image.start));
    let error = module::offer("words", pack::write(wrong, read.stream)).unwrap_err();
    assert!(error.ends_with("is made from another text"), "{error}");
}

/// The kernels of a whole program, in turns from every family: each family is unpacked once, up to
/// the architecture of the device and no further.
#[test]
fn a_program_unpacks_every_family_once() {
    use_once(&[], || {
        let driver = Cuda::driver().expect("a driver");
        let before = (module::unpacked(), loaded(&[90]));
        let mut left: Vec<Vec<_>> = FAMILIES
            .iter()
            .map(|family| module::kernels().iter().filter(|kernel| kernel.family() == *family).collect())
            .collect();
        let kernels: usize = left.iter().map(Vec::len).sum();
        while left.iter().any(|kernels| !kernels.is_empty()) {
            for kernel in left.iter_mut().filter_map(Vec::pop) {
                module::load(driver, kernel, Device { capability: 90 }).expect("a module");
            }
        }
        let after = (module::unpacked(), loaded(&[90]));
        assert!((35..=45).contains(&kernels), "{kernels}");
        assert_eq!((after.1.0 - before.1.0, after.1.1 - before.1.1), (kernels as u32, kernels as u32));
        let packs = FAMILIES.map(pack_of);
        let until = |bytes: &Vec<u8>| {
            let pack = pack::read(bytes).expect("a pack");
            let ends = pack.images.iter().filter(|image| image.architecture == 90).map(|image| image.end);
            ends.max().unwrap_or(0) as u64
        };
        // That of the trial's kernel was unpacked before.
        let expected: u64 = packs[1..].iter().map(until).sum();
        assert_eq!((before.0, after.0 - before.0), (until(&packs[0]), expected));
        println!("{kernels} modules, {} bytes unpacked", after.0);
    });
}

/// The library embeds the texts in another form, from which they come back as they were.
#[test]
fn every_kernel_has_the_text_of_its_file() {
    let mut compared = 0;
    for entry in fs::read_dir(common::project_root().join("src/backend/cuda/ptx")).expect("that folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text");
        let family = split::split(&text).expect("kernels");
        for kernel in family.kernels {
            let own =
                module::kernels().iter().find(|own| own.name == kernel.name).expect("an embedded kernel");
            assert_eq!(own.parameter, kernel.parameter, "{}", kernel.name);
            let is_same = own.text().expect("a text") == family.preamble.clone() + kernel.text;
            assert!(is_same, "the embedded text of {} is not that of its file", kernel.name);
            compared += 1;
        }
    }
    assert_eq!(compared, module::kernels().len());
}

/// The double as a driver: it runs code for the device and earlier minor numbers, and refuses the
/// rest.
#[test]
fn the_double_tells_architectures_apart() {
    for (capability, runs) in
        [("70", None), ("75", Some(75)), ("86", Some(80)), ("103", Some(100)), ("120", Some(120))]
    {
        use_once_as(capability, runs);
    }
}

fn use_once_as(capability: &str, runs: Option<u32>) {
    if double::is_real() || packs().is_none() {
        return;
    }
    if child::is_one() && std::env::var("DRIVER_DOUBLE_CAPABILITY").as_deref() != Ok(capability) {
        return;
    }
    child::run(&double::libraries(), &[("DRIVER_DOUBLE_CAPABILITY", capability)], || {
        double::use_device(0);
        let bytes = pack_of("copy");
        let pack = pack::read(&bytes).expect("a pack");
        let mut code = Vec::new();
        lzma_rust2::LzmaReader::new_mem_limit(pack.stream, u32::MAX, None)
            .and_then(|mut reader| reader.read_to_end(&mut code))
            .expect("a stream");
        for image in &pack.images {
            let image_code = code[image.start..image.end].to_vec();
            let mut module = ptr::null_mut();
            let none: *mut double::Object = ptr::null_mut();
            let start = image_code.as_ptr().cast::<c_char>();
            // SAFETY: a whole image, a place for the result, and no options.
            let got = unsafe { double::cuModuleLoadDataEx(&mut module, start, 0, ptr::null_mut(), none) };
            let expected = if runs == Some(image.architecture) { 0 } else { 209 };
            assert_eq!(got, expected, "{} for sm_{}", image.kernel, image.architecture);
        }
    });
}
