//! The model: how long a launch takes on a device, from what the driver double counted of it.
//!
//! ```text
//! time = launches + max(memory, sum over launches of max(issue, serial, shared, tensor, double))
//! issue  = warps of a scheduler * instructions of a warp / IPC
//! serial = waves * (instructions of the longest warp * DEPENDENT + its waits)
//! memory = bytes that the call has to move / BANDWIDTH
//! ```
//! Its constants are those of one H100, set by the rows of `benches/results/2026-11-27-h100.txt`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::{shell, tables};

/// Multiprocessors, and schedulers of each.
const MULTIPROCESSORS: f64 = 132.0;
const SCHEDULERS: f64 = 4.0;
/// Cycles a second.
const CLOCK: f64 = 1.98e9;
/// Instructions of PTX that a scheduler issues in a cycle when it has warps to choose from.
const IPC: f64 = 0.58;
/// Cycles from an instruction to the next that needs its result.
const DEPENDENT: f64 = 6.0;
/// Cycles that a warp waits for memory, for the second-level cache, and for a sector that its block
/// has asked for before.
const MEMORY: f64 = 1400.0;
const CACHE: f64 = 700.0;
const NEAR: f64 = 200.0;
/// A launch that asks for more than this many times the bytes of the call finds most of them in the
/// second-level cache.
const REREAD: f64 = 4.0;
/// Bytes a second of a kernel that reads and writes.
const BANDWIDTH: f64 = 2.35e12;
/// Seconds of the first launch of a call, and of each further one.
const FIRST: f64 = 2.5e-6;
const FURTHER: f64 = 2.0e-6;
/// Cycles that a scheduler's Tensor Core takes for a product of fragments, and its unit of binary64
/// for an instruction of a warp.
const TENSOR: f64 = 8.0;
const DOUBLE: f64 = 2.0;
/// What a multiprocessor has: threads, blocks, registers, bytes of shared memory; and what a block
/// takes of those beside its own.
const THREADS: f64 = 2048.0;
const BLOCKS: f64 = 32.0;
const REGISTERS: f64 = 65536.0;
const SHARED: f64 = 233_472.0;
const SHARED_OF_BLOCK: f64 = 1024.0;

/// What was counted of a launch. Figures without another word are means of a warp.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    pub kernel: String,
    pub blocks: f64,
    pub threads: f64,
    /// Bytes of dynamic shared memory.
    pub shared: f64,
    pub issued: f64,
    /// Bytes that the lanes ask memory for.
    pub bytes: f64,
    /// Cycles for which accesses keep shared memory busy.
    pub wavefronts: f64,
    /// Products of fragments, and instructions of binary64.
    pub products: f64,
    pub doubles: f64,
    /// Instructions of the longest warp, and the most waits of any warp.
    pub longest: f64,
    pub far: f64,
    pub near: f64,
}

impl Launch {
    /// Reads a line of the driver double: `launch NAME=VALUE ...`.
    pub fn parse(line: &str) -> Result<Launch> {
        let mut launch = Launch::default();
        for word in line.split_whitespace().skip(1) {
            let (name, value) = word.split_once('=').with_context(|| format!("`{word}` has no value"))?;
            let figure = match name {
                "kernel" => {
                    launch.kernel = value.to_owned();
                    continue;
                }
                "ran" => continue,
                "blocks" => &mut launch.blocks,
                "threads" => &mut launch.threads,
                "shared" => &mut launch.shared,
                "issued" => &mut launch.issued,
                "bytes" => &mut launch.bytes,
                "wavefronts" => &mut launch.wavefronts,
                "products" => &mut launch.products,
                "doubles" => &mut launch.doubles,
                "longest" => &mut launch.longest,
                "far" => &mut launch.far,
                "near" => &mut launch.near,
                _ => anyhow::bail!("there is no figure `{name}`"),
            };
            *figure = value.parse().with_context(|| format!("`{word}` is no figure"))?;
        }
        Ok(launch)
    }

    fn warps_of_block(&self) -> f64 {
        (self.threads / 32.0).ceil()
    }

    /// Instructions that all warps issue.
    pub fn instructions(&self) -> f64 {
        self.issued * self.blocks * self.warps_of_block()
    }
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    pub registers: f64,
    pub shared: f64,
}

/// The resources of all kernels, by name, from the tables beside their texts.
pub fn resources() -> Result<BTreeMap<String, Resources>> {
    let mut found = BTreeMap::new();
    let folder = shell::root().join("src/backend/cuda/ptx");
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "tsv") {
            continue;
        }
        for row in tables::read_file(&path)? {
            let number = |column: &str| row.get(column).and_then(|cell| cell.parse().ok());
            if let (Some(name), Some(registers), Some(shared)) =
                (row.get("kernel"), number("sm_90"), number("shared"))
            {
                found.insert(name.clone(), Resources { registers, shared });
            }
        }
    }
    Ok(found)
}

/// What may bind a call, in seconds, over all of its launches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    pub issue: f64,
    pub serial: f64,
    pub shared: f64,
    pub tensor: f64,
    pub double: f64,
    pub memory: f64,
    /// The time of the whole call.
    pub time: f64,
}

impl Terms {
    /// The terms of a call that has to move `moved` bytes.
    pub fn of(launches: &[Launch], moved: f64, resources: &BTreeMap<String, Resources>) -> Result<Terms> {
        let mut terms = Terms { memory: moved / BANDWIDTH, ..Terms::default() };
        let mut busy = 0.0;
        for launch in launches {
            let own = resources
                .get(&launch.kernel)
                .with_context(|| format!("{} has no row in the tables of kernels", launch.kernel))?;
            let [issue, serial, shared, tensor, double] = of_launch(launch, *own, moved);
            terms.issue += issue;
            terms.serial += serial;
            terms.shared += shared;
            terms.tensor += tensor;
            terms.double += double;
            busy += [issue, serial, shared, tensor, double].into_iter().fold(0.0, f64::max);
        }
        let starts = FIRST + FURTHER * (launches.len() as f64 - 1.0).max(0.0);
        terms.time = starts + busy.max(terms.memory);
        Ok(terms)
    }

    /// The largest term.
    pub fn binding(&self) -> &'static str {
        let terms = [
            ("memory", self.memory),
            ("issue", self.issue),
            ("serial", self.serial),
            ("shared", self.shared),
            ("tensor", self.tensor),
            ("double", self.double),
        ];
        terms.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(name, _)| name)
    }
}

/// Issue, serial, shared, tensor and binary64, in seconds.
fn of_launch(launch: &Launch, own: Resources, moved: f64) -> [f64; 5] {
    let warps = launch.warps_of_block();
    let registers = (own.registers / 8.0).ceil() * 8.0 * warps * 32.0;
    let resident = [
        (THREADS / launch.threads).floor(),
        BLOCKS,
        (REGISTERS / registers).floor(),
        (SHARED / (own.shared + launch.shared + SHARED_OF_BLOCK)).floor(),
    ];
    let resident = resident.into_iter().fold(f64::INFINITY, f64::min).max(1.0);
    // Blocks that the busiest multiprocessor gets, and how often it is filled.
    let each = launch.blocks / MULTIPROCESSORS;
    let (blocks, waves) = if each <= resident {
        (each.ceil(), 1.0)
    } else {
        // Of few waves the last one counts as a whole.
        let rest = each % resident;
        let last = if rest > 0.0 && each < 3.0 * resident { resident } else { rest };
        let blocks = each - rest + last;
        (blocks, blocks / resident)
    };
    let load = blocks * warps / SCHEDULERS;
    let asked = launch.bytes * launch.blocks * warps;
    let far = if asked > REREAD * moved { CACHE } else { MEMORY };
    let cycles = [
        load * launch.issued / IPC,
        waves * (launch.longest * DEPENDENT + launch.far * far + launch.near * NEAR),
        each * warps * launch.wavefronts,
        load * launch.products * TENSOR,
        load * launch.doubles * DOUBLE,
    ];
    cycles.map(|cycles| cycles / CLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(text: &str) -> Launch {
        Launch::parse(text).expect("a launch")
    }

    fn own() -> BTreeMap<String, Resources> {
        BTreeMap::from([("k".to_owned(), Resources { registers: 32.0, shared: 0.0 })])
    }

    /// A launch that issues next to nothing takes as long as its bytes.
    #[test]
    fn copies_are_bound_by_memory() {
        let copy = launch("launch kernel=k blocks=6272 threads=256 issued=20 longest=20 far=1 bytes=512");
        let terms = Terms::of(&[copy], 51.4e6, &own()).expect("terms");
        assert_eq!(terms.binding(), "memory");
        assert!((terms.time - (2.5e-6 + 51.4e6 / 2.35e12)).abs() < 1e-9, "{terms:?}");
    }

    /// Twice the instructions are twice the time of what is bound by issue; few blocks are bound by
    /// their longest warp.
    #[test]
    fn instructions_and_chains_bind() {
        let of = |issued: f64, blocks: f64| {
            let text =
                format!("launch kernel=k blocks={blocks} threads=256 issued={issued} longest={issued}");
            Terms::of(&[launch(&text)], 1e6, &own()).expect("terms")
        };
        let (once, twice) = (of(1000.0, 1e5), of(2000.0, 1e5));
        assert_eq!(once.binding(), "issue");
        assert!((twice.issue / once.issue - 2.0).abs() < 1e-9);
        let few = of(100_000.0, 2.0);
        assert_eq!(few.binding(), "serial");
        assert!((few.serial - 600_000.0 / 1.98e9).abs() < 1e-9);
    }

    #[test]
    fn unknown_figures_are_refused() {
        assert!(Launch::parse("launch kernel=k nonsense=1").is_err());
        assert!(Launch::parse("launch kernel=k issued=many").is_err());
    }
}
