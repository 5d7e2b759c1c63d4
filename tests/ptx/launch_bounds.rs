//! Every launch against what its text and its table say: threads of a block, shared memory, and
//! registers of a multiprocessor.

use std::collections::BTreeMap;

use cudnn::backend::cuda::module::kernels;

use crate::expected;

/// Registers of a multiprocessor and of a thread at most, on every architecture; a warp is given
/// them by 256.
const REGISTERS: u32 = 65_536;
const REGISTERS_OF_THREAD: u32 = 255;
const GRANULE: u32 = 256;

/// Threads of a multiprocessor by architecture, as the programming guide lists them.
const MULTIPROCESSORS: [(&str, u32); 8] = [
    ("sm_70", 2048),
    ("sm_75", 1024),
    ("sm_80", 2048),
    ("sm_86", 1536),
    ("sm_89", 1536),
    ("sm_90", 2048),
    ("sm_100", 2048),
    ("sm_120", 1536),
];

/// Bytes of shared memory that a launch may have without being asked for more.
const SHARED_OF_BLOCK: u32 = 48 << 10;

/// What a text promises of a kernel, and what the assembler made of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bounds {
    /// `.maxntid` and `.minnctapersm`: threads of a block at most, and blocks of a multiprocessor
    /// at least.
    threads: u32,
    blocks: u32,
    shared: u32,
    registers: BTreeMap<String, u32>,
}

/// The number behind a directive, up to the next entry.
fn directive(text: &str, name: &str) -> Option<u32> {
    let head = text.split_once('{').map_or(text, |(head, _)| head);
    let number = head.split_once(name)?.1.trim_start();
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The bounds of all kernels, by name.
fn bounds() -> BTreeMap<&'static str, Bounds> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/backend/cuda/ptx");
    let read = |family: &str, extension: &str| {
        std::fs::read_to_string(format!("{folder}/{family}.{extension}")).expect("a file of the family")
    };
    let one = |name: &str, family: &str| {
        let text = read(family, "ptx");
        let at = text.find(&format!(".entry {name}(")).expect("an entry");
        let threads = directive(&text[at..], ".maxntid").expect("launch bounds");
        let blocks = directive(&text[at..], ".minnctapersm").unwrap_or(1);
        let table = read(family, "tsv");
        let mut lines = table.lines().filter(|line| !line.starts_with('#'));
        let head: Vec<&str> = lines.next().expect("a head").split('\t').collect();
        let row = lines.find(|row| row.split('\t').next() == Some(name)).expect("a row");
        let cells: BTreeMap<&str, &str> = head.into_iter().zip(row.split('\t')).collect();
        let registers = cells.iter().filter(|(head, _)| head.starts_with("sm_"));
        let registers = registers.filter_map(|(head, cell)| Some(((*head).to_owned(), cell.parse().ok()?)));
        let shared = cells["shared"].parse().expect("bytes of shared memory");
        Bounds { threads, blocks, shared, registers: registers.collect() }
    };
    kernels().iter().map(|kernel| (kernel.name, one(kernel.name, kernel.family()))).collect()
}

/// What is wrong with a launch of so many threads and bytes of dynamic shared memory, if anything
/// is.
fn complaint(bounds: &Bounds, threads: u32, dynamic: u32) -> Option<String> {
    if threads > bounds.threads {
        return Some(format!("{threads} threads of at most {}", bounds.threads));
    }
    if bounds.shared + dynamic > SHARED_OF_BLOCK {
        return Some(format!("{} and {dynamic} bytes of shared memory", bounds.shared));
    }
    if bounds.registers.is_empty() {
        return Some("no architecture is known to run it".to_owned());
    }
    bounds.registers.iter().find_map(|(name, &registers)| {
        let Some((_, all_threads)) = MULTIPROCESSORS.iter().find(|(of, _)| of == name) else {
            return Some(format!("{name} is not listed"));
        };
        let of_warp = (registers * 32).next_multiple_of(GRANULE);
        let of_block = of_warp * bounds.threads.div_ceil(32);
        // A promise of more threads than there are is none, and the assembler passes over it.
        let blocks = bounds.blocks.min(all_threads / bounds.threads).max(1);
        let is_too_many = registers > REGISTERS_OF_THREAD || of_block * blocks > REGISTERS;
        is_too_many
            .then(|| format!("{registers} registers on {name}, in {blocks} blocks of {}", bounds.threads))
    })
}

#[test]
fn every_launch_keeps_to_the_bounds_of_its_text() {
    let bounds = bounds();
    for (kernel, launch) in expected() {
        let threads = launch.block.iter().product();
        let wrong = complaint(&bounds[launch.kernel], threads, launch.shared);
        assert_eq!(wrong, None, "{kernel}: {:?}", bounds[launch.kernel]);
    }
}

#[test]
fn launches_beyond_the_bounds_are_found() {
    let good = Bounds {
        threads: 256,
        blocks: 4,
        shared: 16 << 10,
        registers: BTreeMap::from([("sm_70".to_owned(), 64), ("sm_75".to_owned(), 64)]),
    };
    assert_eq!(complaint(&good, 256, 0), None);
    let said = |bounds: &Bounds, threads, dynamic| complaint(bounds, threads, dynamic).expect("a complaint");
    assert_eq!(said(&good, 288, 0), "288 threads of at most 256");
    assert_eq!(said(&good, 256, 33 << 10), "16384 and 33792 bytes of shared memory");
    let mut wrong = good.clone();
    wrong.registers.insert("sm_75".to_owned(), 65);
    assert_eq!(said(&wrong, 256, 0), "65 registers on sm_75, in 4 blocks of 256");
    let wrong = Bounds { registers: BTreeMap::new(), ..good.clone() };
    assert_eq!(said(&wrong, 256, 0), "no architecture is known to run it");
    let wrong = Bounds { registers: BTreeMap::from([("sm_99".to_owned(), 8)]), ..good };
    assert_eq!(said(&wrong, 256, 0), "sm_99 is not listed");
}
