//! The rows: the programs that time a device, run on the driver double, and what a device measured
//! of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::model::Launch;
use crate::machine::Machine;
use crate::{shell, tools};

/// What a device measured; the newest file counts.
const MEASURED: &str = "benches/results/2026-11-27-h100.txt";
/// Images of a convolution in the measured tables.
const IMAGES: &str = "16";

/// A program that times rows, and what tells its rows' names from those of others.
struct Program {
    name: &'static str,
    arguments: &'static [&'static str],
    has: fn(&str) -> bool,
    /// Whether a row of it has a line in the table. Of most convolutions the model knows too
    /// little: what machine code loads ahead of the sums of a filter's gradient it takes for one
    /// load after the other.
    is_listed: fn(&str) -> bool,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "gpu_layers",
        arguments: &[],
        has: |row| row.matches('/').count() == 2 && has_layout(row),
        is_listed: |_| true,
    },
    Program {
        name: "gpu_reduce",
        arguments: &[],
        has: |row| row.starts_with("sum-") && (row.contains("-inner-") || row.contains("-outer-")),
        is_listed: |_| true,
    },
    Program {
        name: "gpu_convolution",
        arguments: &["problems/contractions.txt", "--batch", IMAGES],
        has: |row| row.matches('/').count() == 3 && has_layout(row),
        is_listed: |row| {
            ["/f16/nhwc", "/f16/nchw", "/f32-default/nhwc"].iter().any(|kind| row.ends_with(kind))
                && LAYERS.iter().any(|layer| row.split('/').next() == Some(*layer))
        },
    },
];

/// The layers that have lines in the table, of halves whose channels lie together or apart, and of
/// binary32 whose channels lie together: 3 x 3 taps of large and of small images, and 1 x 1.
const LAYERS: [&str; 3] = ["resnet-1x1-64", "resnet-3x3-64", "resnet-3x3-256"];

/// Whether the last part of a row's name is a layout.
fn has_layout(row: &str) -> bool {
    row.ends_with("/nchw") || row.ends_with("/nhwc")
}

/// Rows that a device measured: name and microseconds, in the order of the file. Products of
/// binary32 were measured of plain sums; behind each such row is one of the default math type.
pub fn measured() -> Result<Vec<(String, f64)>> {
    let path = shell::root().join(MEASURED);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        PROGRAMS.iter().find(|program| (program.has)(name))?;
        Some((name.to_owned(), words.next()?.parse().ok()?))
    };
    let mut rows: Vec<(String, f64)> = Vec::new();
    for (name, time) in text.lines().filter_map(row) {
        if rows.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let is_plain = name.matches('/').count() == 3 && name.contains("/f32/");
        let other = is_plain.then(|| name.replace("/f32/", "/f32-default/"));
        rows.push((name, time));
        rows.extend(other.map(|other| (other, time)));
    }
    ensure!(!rows.is_empty(), "{} has no rows", path.display());
    Ok(rows)
}

/// Whether a row has a line in the table.
pub fn is_listed(row: &str) -> bool {
    PROGRAMS.iter().any(|program| (program.has)(row) && (program.is_listed)(row))
}

/// The driver double that executes PTX, and the programs, built.
pub struct Bench {
    folder: PathBuf,
    double: PathBuf,
}

/// A row as the double ran it: its launches, and the bytes that its tensors have.
pub struct Run {
    pub launches: Vec<Launch>,
    pub moved: f64,
}

impl Bench {
    /// Builds what is not there yet for `library`, in `target/gpu-model`.
    pub fn of(library: &Path) -> Result<Bench> {
        let root = shell::root();
        let folder = shell::target().join("gpu-model");
        let lib = folder.join("lib");
        fs::create_dir_all(&lib).with_context(|| format!("cannot create {}", lib.display()))?;
        let double = tools::driver_double("ptx")?;
        let own = lib.join("libcudnn.so.9");
        fs::copy(library, &own).with_context(|| format!("cannot copy {}", library.display()))?;
        for program in &PROGRAMS {
            let mut command = tools::c_compiler(Machine::target()?)?;
            command.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1"]);
            command.arg(format!("-I{}", root.join("include").display()));
            command.arg(format!("-I{}", root.join("tests/header/cuda").display()));
            command.arg(root.join(format!("benches/{0}/{0}.c", program.name)));
            command.arg("-o").arg(folder.join(program.name)).arg(&own);
            shell::run(command.args(["-ldl", "-Wl,--allow-shlib-undefined"]))?;
        }
        Ok(Bench { folder, double })
    }

    /// Runs a row on some blocks of each of its launches.
    pub fn run(&self, row: &str) -> Result<Run> {
        let program =
            PROGRAMS.iter().find(|program| (program.has)(row)).with_context(|| format!("no row {row}"))?;
        let scratch = shell::Scratch::new("gpu-model-row")?;
        let counts = scratch.0.join("counts");
        let mut command = Command::new(self.folder.join(program.name));
        command.current_dir(shell::root()).args(program.arguments);
        command.args(["--repeats", "1", "--flush", "1", "--spin", "0", "--only", row, "--save"]);
        command.arg(scratch.0.join("results")).env("CUDNN_SHIM_BACKEND", "cuda");
        command.env("DRIVER_DOUBLE_ISSUE", &counts);
        let libraries = [self.folder.join("lib"), self.double.clone()];
        command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries)?);
        let output = shell::output(&mut command)?;
        let text = fs::read_to_string(&counts).with_context(|| format!("nothing was counted of {row}"))?;
        // The last time that it was measured.
        let last = text.rsplit("measured\n").next().unwrap_or_default();
        let launches = last.lines().map(Launch::parse).collect::<Result<Vec<_>>>()?;
        ensure!(!launches.is_empty(), "{row} launches nothing:\n{output}");
        let moved = match program.name {
            "gpu_convolution" => bytes_of_convolution(row)?,
            _ => bytes_by_rate(row, &output).with_context(|| format!("{row} has no line in\n{output}"))?,
        };
        Ok(Run { launches, moved })
    }
}

/// The bytes of a row of which a rate was printed: that times the median.
fn bytes_by_rate(row: &str, output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.split_whitespace().next() == Some(row))?;
    let mut figures = line.split_whitespace().skip(2).map(str::parse::<f64>);
    let (median, rate) = (figures.next()?.ok()?, figures.next()?.ok()?);
    Some(median * rate * 1e3)
}

/// The bytes of the three tensors of a convolution.
fn bytes_of_convolution(row: &str) -> Result<f64> {
    let path = shell::root().join("problems/contractions.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut parts = row.split('/');
    let (name, kind) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    let line = line.with_context(|| format!("{} has no layer {name}", path.display()))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let extents = |k: usize| words[k].split('x').map(str::parse::<f64>).collect::<Result<Vec<_>, _>>();
    let option = |name: &str, usual: f64| {
        let value = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.map_or(Ok(usual), str::parse::<f64>)
    };
    let (image, filters, taps) = (extents(1)?, extents(2)?[0], extents(3)?);
    let (stride, pad, groups) = (option("stride", 1.0)?, option("pad", 0.0)?, option("groups", 1.0)?);
    let dilation = option("dilation", 1.0)?;
    let out = |extent: f64, taps: f64| {
        ((extent + 2.0 * pad - dilation * (taps - 1.0) - 1.0) / stride).floor() + 1.0
    };
    let images: f64 = IMAGES.parse()?;
    let x = images * image.iter().product::<f64>();
    let y = images * filters * out(image[1], taps[0]) * out(image[2], taps[1]);
    let w = filters * image[0] / groups * taps[0] * taps[1];
    let size = if kind.contains("16") { 2.0 } else { 4.0 };
    Ok(size * (x + y + w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_a_device_measured_are_found() {
        let rows = measured().expect("the rows");
        let of = |name: &str| rows.iter().find(|row| row.0 == name).map(|row| row.1);
        assert_eq!(of("relu/f32/nchw"), Some(43.7));
        assert_eq!(of("sum-128-inner-f32"), Some(449.6));
        assert_eq!(of("resnet-first/forward/f32/nchw"), Some(441.1));
        assert_eq!(of("resnet-first/forward/f32-default/nchw"), Some(441.1));
        assert_eq!(of("resnet-first/forward/tf32-default/nchw"), None);
    }

    #[test]
    fn bytes_of_layers() {
        // 16 images of 64 x 56 x 56 in and out, 64 x 64 filters.
        let want = 2.0 * (2.0 * 16.0 * 64.0 * 56.0 * 56.0 + 64.0 * 64.0);
        assert_eq!(bytes_of_convolution("resnet-1x1-64/forward/f16/nchw").expect("bytes"), want);
        // Stride 2, padding 3: 112 x 112 outputs.
        let first = 4.0 * (16.0 * 3.0 * 224.0 * 224.0 + 16.0 * 64.0 * 112.0 * 112.0 + 64.0 * 3.0 * 49.0);
        assert_eq!(bytes_of_convolution("resnet-first/data/tf32/nhwc").expect("bytes"), first);
    }

    #[test]
    fn rates_give_bytes() {
        let output = "# head\nrelu/f32/nchw   4.1   4.0   100.0 0.5\n";
        assert_eq!(bytes_by_rate("relu/f32/nchw", output), Some(400e3));
        assert_eq!(bytes_by_rate("relu/f32", output), None);
    }
}
