//! What a kernel can be expected to reach of a copy's speed on a GPU that nobody has measured: an
//! estimate, from what its machine code keeps in flight on its widest path. Little's law, and
//! nothing of arithmetic, caches or sectors.
#![allow(missing_docs, reason = "no part of the library")]

use std::collections::BTreeMap;

use cudnn::backend::cuda::launch::{Device, Launch};
use cudnn::backend::cuda::module::kernels;
use cudnn::backend::cuda::plan;
use cudnn::exec::Address;
use cudnn::ops::window::{WindowAxis, WindowFunction};
use cudnn::ops::{Operand, Plan, Role, Step};

/// The device that is thought of, of capability 9.0.
const MULTIPROCESSORS: u64 = 132;
/// Bytes a second that a copy reads and writes, and seconds that a load takes on an idle device.
const COPY: f64 = 4.3e12;
const LATENCY: f64 = 0.7e-6;
/// What a multiprocessor has: threads, blocks, registers, bytes of shared memory.
const THREADS: u64 = 2048;
const BLOCKS: u64 = 32;
const REGISTERS: u64 = 65536;
const SHARED: u64 = 228 << 10;
/// Bytes of shared memory that every block takes beside its own.
const SHARED_OF_BLOCK: u64 = 1 << 10;

/// Bytes of the widest load.
const VECTOR: u64 = 16;

/// Families whose blocks share what they have of the source.
const SHARED_OUT: [&str; 2] = ["transpose_convert", "few_convert"];

/// The row of a kernel in its family's table.
#[derive(Clone, Debug)]
pub struct Figures {
    pub registers: u64,
    pub shared: u64,
    /// Bytes that a thread loads before it needs the first of them.
    pub bytes: u64,
    /// How many loads of which width are in flight.
    pub loads: BTreeMap<u64, u64>,
    pub lone: u64,
    pub divisions: u64,
}

/// The rows of all kernels, by name.
pub fn figures() -> BTreeMap<&'static str, Figures> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../src/backend/cuda/ptx");
    let mut tables = BTreeMap::new();
    let mut found = BTreeMap::new();
    for kernel in kernels() {
        let table = tables.entry(kernel.family()).or_insert_with(|| {
            std::fs::read_to_string(format!("{folder}/{}.tsv", kernel.family()))
                .expect("a table for each family")
        });
        let row =
            row(table, kernel.name).unwrap_or_else(|| panic!("{} has no row that can be read", kernel.name));
        found.insert(kernel.name, row);
    }
    found
}

fn row(table: &str, kernel: &str) -> Option<Figures> {
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next()?.split('\t').collect();
    let cells: Vec<&str> =
        lines.map(|line| line.split('\t').collect::<Vec<_>>()).find(|row| row[0] == kernel)?;
    let text = |column: &str| cells.get(head.iter().position(|name| *name == column)?).copied();
    let number = |column: &str| text(column)?.parse::<u64>().ok();
    let load = |text: &str| -> Option<(u64, u64)> {
        let (count, width) = text.split_once('x')?;
        Some((width.parse().ok()?, count.parse().ok()?))
    };
    Some(Figures {
        registers: number("sm_90")?,
        shared: number("shared")?,
        bytes: number("bytes")?,
        loads: text("loads")?.split(',').filter_map(load).collect(),
        lone: number("lone")?,
        divisions: number("divisions")?,
    })
}

impl Figures {
    /// Threads of a launch that are on the device at a time.
    pub fn resident(&self, launch: &Launch) -> u64 {
        let threads: u64 = launch.block.iter().map(|&extent| u64::from(extent)).product();
        let by_registers = REGISTERS / (self.registers.next_multiple_of(8) * threads.next_multiple_of(32));
        let by_shared = SHARED / (self.shared + u64::from(launch.shared) + SHARED_OF_BLOCK);
        let blocks = (THREADS / threads).min(BLOCKS).min(by_registers).min(by_shared).max(1);
        let all: u64 = launch.grid.iter().map(|&extent| u64::from(extent)).product();
        (blocks * MULTIPROCESSORS).min(all) * threads
    }

    /// Bytes that a thread has in flight if it reads elements of `width` bytes: of a kernel for
    /// many types what it has of that width, of others the most of any width, and with what is
    /// `blended` all that it ever has.
    pub fn in_flight(&self, width: u64, blended: bool) -> u64 {
        let of_widths = || self.loads.iter().map(|(width, count)| width * count).max().unwrap_or(0);
        match self.loads.get(&width) {
            Some(count) if !self.loads.contains_key(&VECTOR) => count * width,
            _ if blended => self.bytes,
            _ => of_widths(),
        }
    }
}

/// What is expected of one row.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The launch with the most threads of those that read.
    pub kernel: &'static str,
    /// Bytes in flight of a thread, and threads on the device.
    pub bytes: u64,
    pub resident: u64,
    /// Whether all threads of the launch are on the device at once: latency counts, and a launch's
    /// own time.
    pub is_small: bool,
    /// Bytes that are read and written.
    pub moved: f64,
    /// Share of the speed of a copy of as many bytes; nothing for a kernel that reads nothing.
    pub share: Option<f64>,
}

/// The estimate for a plan whose operands lie at multiples of 256 bytes.
pub fn of(plan: &dyn Plan, figures: &BTreeMap<&str, Figures>) -> Option<Estimate> {
    let mut launches: Vec<Launch> = Vec::new();
    let places: Vec<Address> =
        plan.operands().iter().enumerate().map(|(k, operand)| place(k, operand)).collect();
    plan::launches(plan, &places, Device { capability: 90 }, &mut |launch| {
        launches.push(*launch);
        Ok(())
    })
    .ok()?;
    let threads = |launch: &Launch| {
        launch.grid.iter().chain(&launch.block).map(|&extent| u64::from(extent)).product::<u64>()
    };
    // Fills are launches of their own where much is padded: of what reads nothing, nothing is in
    // flight to estimate from.
    let loads = |launch: &Launch| figures.get(launch.kernel).is_some_and(|figures| !figures.loads.is_empty());
    let launch = launches.iter().max_by_key(|launch| (loads(launch), threads(launch)))?;
    let figures = figures.get(launch.kernel)?;
    let bytes_of = |operand: &Operand| (operand.span.1 - operand.span.0) as f64;
    let reads = plan.operands().iter().filter(|operand| matches!(operand.role, Role::Read | Role::Update));
    let writes = plan.operands().iter().filter(|operand| matches!(operand.role, Role::Write | Role::Update));
    let read: f64 = reads.clone().map(bytes_of).sum();
    let written: f64 = writes.map(bytes_of).sum();
    // The operand that most of the reading goes to.
    let main = reads.clone().max_by(|a, b| bytes_of(a).total_cmp(&bytes_of(b)));
    let blended = plan.operands().iter().any(|operand| operand.role == Role::Update);
    let operands = reads.clone().filter(|operand| operand.span.0 < operand.span.1).count() as u64;
    let size = |operand: &Operand| operand.scalar.size() as u64;
    let bytes = match main {
        None => 0,
        // One vector of each operand, or one element.
        Some(_) if launch.kernel.starts_with("op_run") || launch.kernel.ends_with("formula_run") => {
            VECTOR * operands
        }
        // A vector of the data, and of the old result.
        Some(_) if launch.kernel.starts_with("normalise_run") => VECTOR * (1 + u64::from(blended)),
        // A few elements of the first two operands, and of the old destination.
        Some(operand) if launch.kernel.contains("formula_") => {
            let each = figures.loads.get(&size(operand)).map_or(1, |count| (count / 3).clamp(1, 4));
            let touched = reads.clone().filter(|operand| operand.span.0 < operand.span.1);
            each * touched.take(2 + usize::from(blended)).map(size).sum::<u64>()
        }
        // Vectors of the wider type, and as many elements of the other one.
        Some(operand)
            if launch.kernel.starts_with("convert_") && !launch.kernel.contains("strided") && !blended =>
        {
            let width = VECTOR * size(operand) / size(operand).max(size(&plan.operands()[0]));
            figures.loads.get(&width).map_or(0, |count| count * width)
        }
        // Four taps of four channels, or of eight.
        Some(operand) if launch.kernel.starts_with("sample_bilinear") => {
            let taps = if launch.kernel.contains("_of_") { 32 } else { 16 };
            figures.in_flight(size(operand), blended).min(taps * size(operand))
        }
        // Of every two vectors one is a neighbour's, too.
        Some(operand) if launch.kernel.starts_with("transpose_shifted") && size(operand) < 8 => {
            figures.in_flight(size(operand), blended) / 2
        }
        // No more than a thread's share of the source: it has a part of a tile, or of few channels.
        Some(operand) if SHARED_OUT.iter().any(|family| launch.kernel.starts_with(family)) => {
            let share = (bytes_of(operand) / threads(launch) as f64).ceil() as u64;
            figures.in_flight(size(operand), blended).min(share)
        }
        Some(operand) => figures.in_flight(size(operand), blended),
    };
    // No more than a window has, or two.
    let each = if launch.kernel.starts_with("few_window") { 2 } else { 1 };
    let bytes = main.map_or(bytes, |operand| bytes.min(cells(plan).saturating_mul(each * size(operand))));
    let resident = figures.resident(launch);
    let share = (read > 0.0 && bytes > 0).then(|| {
        // What would be in flight, over what must be for the speed of a copy; both a load's latency
        // and the transfer take time.
        let busy = (bytes * resident) as f64 / LATENCY * ((read + written) / read) / COPY;
        busy / (1.0 + busy)
    });
    Some(Estimate {
        kernel: launch.kernel,
        bytes,
        resident,
        is_small: resident == threads(launch),
        moved: read + written,
        share,
    })
}

/// Cells that a thread can load of a window at once, which may be few; of other steps, any number.
fn cells(plan: &dyn Plan) -> u64 {
    let mut most = u64::MAX;
    let found = plan.steps(&mut |step, _| {
        if let Step::Window(window) = step {
            let cells = |axis: &WindowAxis| match window.function {
                WindowFunction::AverageGradient(_) => (axis.window + axis.stride - 1) / axis.stride,
                WindowFunction::Columns => 1,
                _ => axis.window,
            };
            // And what else the formula asks for.
            let others = match window.function {
                WindowFunction::Normalise { .. } | WindowFunction::MaxGradient(_) => 1,
                WindowFunction::NormaliseGradient { .. } => 2,
                _ => 0,
            };
            // Of maxima a thread has two windows, one below the other, under way together.
            let below = |k: usize| match (window.function, &window.axes[..]) {
                (WindowFunction::Max(_), [down, _]) if k == 0 => down.stride,
                _ => 0,
            };
            let all = window.axes.iter().enumerate().map(|(k, axis)| cells(axis) + below(k));
            most = all.product::<i64>().unsigned_abs() + others;
        }
        Ok(())
    });
    found.map_or(u64::MAX, |()| most)
}

/// Places far from each other, at multiples of 256 bytes; none for what is not touched.
fn place(k: usize, operand: &Operand) -> Address {
    if operand.span.0 == operand.span.1 {
        return Address::NULL;
    }
    std::ptr::without_provenance_mut::<u8>((k + 1) << 40).into()
}
