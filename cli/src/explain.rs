//! `cudnn-shim explain`: what a layout or a list of strides means, and what computes a graph.

use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;

use clap::ArgMatches;
use cudnn::desc::TensorDescriptor;
use cudnn::dtype::DataType;
use cudnn::exec::Execution;
use cudnn::layout::Layout;
use cudnn::mode::Mode;
use cudnn::ops::graph::Graph;
use serde_json::{Value, json};

use crate::arguments::{List, data_type, of_image, type_name};
use crate::figure::Figure;
use crate::library::{self, Handle, Tensor};
use crate::{Failure, Result, svg};

/// Bytes up to which both sides of `--to` are made, so that the library plans the transform.
const PLANNED: usize = 1 << 28;

/// One layout with what is known of it.
struct Explained {
    data_type: DataType,
    tensor: TensorDescriptor,
    layout: Layout,
}

impl Explained {
    fn new(
        data_type: DataType, dims: &[i64], name: Option<&str>, strides: Option<&[i64]>,
    ) -> Result<Explained> {
        // One image is a batch of one.
        let image = name.filter(|_| dims.len() == 3).and_then(of_image);
        let batch = [&[1], dims].concat();
        let (name, dims) = image.as_deref().map_or((name, dims), |image| (Some(image), &batch[..]));
        if let Some(axis) = dims.iter().position(|&extent| extent < 1) {
            return Err(Failure::new(format!(
                "--dims: extent {axis} is {}; extents are at least 1",
                dims[axis]
            )));
        }
        if !(2..=8).contains(&dims.len()) {
            return Err(Failure::new(format!("--dims: a tensor has 2 to 8 dimensions, not {}", dims.len())));
        }
        let rank = dims.len() as i64;
        let tensor = match strides {
            Some(strides) if strides.len() != dims.len() => {
                let text = format!("--strides: {} strides for {rank} dimensions", strides.len());
                return Err(Failure::new(text));
            }
            Some(strides) => TensorDescriptor::with_strides(data_type, rank, dims, strides, Mode::Extended)?,
            None => TensorDescriptor::with_layout(
                data_type,
                name.unwrap_or("packed"),
                rank,
                dims,
                Mode::Extended,
            )?,
        };
        let layout = tensor.elements()?;
        Ok(Explained { data_type, tensor, layout })
    }

    /// How the layout is called, with dims and type.
    fn title(&self) -> String {
        format!("{} {} {}", self.layout.dims, self.layout.description(), type_name(self.data_type))
    }

    fn facts(&self) -> Value {
        let (layout, tensor) = (&self.layout, &self.tensor);
        let (low, high) =
            (tensor.span().0 / tensor.scalars_per_element(), tensor.span().1 / tensor.scalars_per_element());
        json!({
            "dims": &layout.dims[..],
            "strides": &layout.strides[..],
            "block": layout.split.filter(|split| split.block() > 1).map(|split| split.block()),
            "type": type_name(self.data_type),
            "elements": layout.cells(),
            "bytes": tensor.size_in_bytes(),
            "lowest_offset": low,
            "highest_offset": high,
            "layout": layout.name(),
            "description": layout.description(),
            "packed": layout.is_fully_packed(),
            "spatially_packed": layout.is_spatially_packed(),
            "overlapping": layout.overlaps(),
            "broadcast": layout.is_broadcast(),
        })
    }

    fn print(&self, coloured: bool) -> String {
        let (layout, facts) = (&self.layout, self.facts());
        let list = |values: &[i64]| values.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        let mut text = format!("{}\n", self.title());
        let mut line = |name: &str, value: String| text += &format!("  {name:<11}{value}\n");
        let block = facts["block"].as_i64().map_or(String::new(), |block| {
            format!("   (of whole blocks of {block} channels, which lie side by side)")
        });
        line("strides", format!("{}{block}", list(&layout.strides)));
        let elements = layout.cells().unwrap_or(i64::MAX);
        let room = (self.tensor.span().1 - self.tensor.span().0) / self.tensor.scalars_per_element() + 1;
        let places = if room == elements { String::new() } else { format!(" in a range of {room}") };
        line("size", format!("{elements} elements{places}, {} bytes", self.tensor.size_in_bytes()));
        let says = |yes: &Value, one: &str, other: &str| {
            if yes == &Value::Bool(true) { one.to_owned() } else { other.to_owned() }
        };
        let padded = layout.padding() > 0;
        let packed =
            if padded { "fully packed, padding included" } else { "fully packed: no gaps, no repeats" };
        let mut verdicts = vec![says(&facts["packed"], packed, "not fully packed")];
        verdicts.push(says(&facts["spatially_packed"], "spatially packed", "not spatially packed"));
        if facts["overlapping"] == true {
            verdicts.push("overlapping: may be read, not written".to_owned());
        }
        if facts["broadcast"] == true {
            verdicts.push("broadcast".to_owned());
        }
        line("verdict", verdicts.join("; "));
        let figure = Figure::of(layout);
        text += "\nelements, numbered in logical order\n\n";
        text += &figure.print_planes(coloured);
        text += "memory, a run of the innermost axis a line, behind its offset\n\n";
        text + &figure.print_runs(coloured)
    }
}

/// The plan that the library makes for a transform between the two, which runs on zeros.
fn plan(from: &Explained, to: &Explained) -> Result<Option<String>> {
    let (src, dst) = (described(from)?, described(to)?);
    let (src_size, dst_size) = (src.size()?, dst.size()?);
    if src_size.max(dst_size) > PLANNED {
        return Ok(None);
    }
    library::choose_cpu_core()?;
    library::record_plans()?;
    // Words, so that every type is aligned.
    let (x, mut y) = (vec![0_u64; src_size.div_ceil(8)], vec![0_u64; dst_size.div_ceil(8)]);
    let scalar = from.data_type.scalar().size() as i64;
    let place = |of: &Explained| (-of.tensor.span().0 * scalar) as usize;
    let double = to.data_type == DataType::Double;
    let source = x.as_ptr().cast::<u8>().wrapping_add(place(from));
    let target = y.as_mut_ptr().cast::<u8>().wrapping_add(place(to));
    // SAFETY: both buffers hold the whole range around the pointers.
    unsafe { Handle::new()?.transform(1.0, (&src, source), (&dst, target), double, None) }?;
    library::last_plan().map(Some)
}

/// The descriptor of the C interface.
fn described(of: &Explained) -> Result<Tensor> {
    match (of.layout.name(), of.layout.split) {
        (Some(name), Some(_)) => Tensor::named(of.data_type, &name, &of.layout.dims),
        _ => Tensor::strided(of.data_type, &of.layout.dims, &of.layout.strides),
    }
}

/// Runs the command.
pub fn run(given: &ArgMatches) -> Result<()> {
    if let Some(file) = given.get_one::<String>("graph") {
        return say(&graph(file)?);
    }
    let list = |name: &str| given.get_one::<List>(name).map(|list| &list.0[..]);
    let text = |name: &str| given.get_one::<String>(name).map(String::as_str);
    let of = text("type").map_or(DataType::Float, data_type);
    let dims = list("dims").unwrap_or_default();
    let from = Explained::new(of, dims, text("layout"), list("strides"))?;
    let to = text("to").map(|name| Explained::new(of, dims, Some(name), None)).transpose()?;
    if let Some(file) = text("svg") {
        let figure = Figure::of(&from.layout);
        let other = to.as_ref().map(|to| (to.title(), Figure::of(&to.layout)));
        let drawn =
            svg::draw(&from.title(), &figure, other.as_ref().map(|(title, figure)| (&title[..], figure)));
        if file == "-" {
            return say(&drawn);
        }
        fs::write(Path::new(file), drawn).map_err(|error| Failure::new(format!("{file}: {error}")))?;
    }
    if given.get_flag("json") {
        let mut facts = from.facts();
        if let Some(to) = &to {
            facts["to"] = to.facts();
            facts["plan"] = json!(plan(&from, to)?);
        }
        return say(&format!("{facts:#}\n"));
    }
    let coloured =
        stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut out = from.print(coloured);
    if let Some(to) = &to {
        out += &format!("\n{}", to.print(coloured));
        let plan = plan(&from, to)?.unwrap_or_else(|| "not made for tensors of this size".to_owned());
        out += &format!("\nplan of the transform\n  {}\n", plan.replace('\n', "\n  "));
    }
    say(&out)
}

/// The operations of a plan's text, each with its steps.
fn graph(file: &str) -> Result<String> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{file}: {error}"));
    let text = fs::read(Path::new(file)).map_err(|error| failed(&error))?;
    let graph = cudnn::desc::graph::text::graph(&text).map_err(|error| failed(&error))?;
    let graph = Graph::of(&graph).map_err(|error| failed(&error))?;
    let execution =
        Execution::new(&graph).map_err(|error| failed(&format!("no engine computes it: {error}")))?;
    let mut lines: String = execution.parts().map(|part| part + "\n").collect();
    let (workspace, uids) = (execution.workspace(), execution.uids());
    lines.push_str(&format!("workspace: {workspace} bytes; tensors that need a pointer: {uids:?}\n"));
    Ok(lines)
}

/// Prints to standard output.
pub fn say(text: &str) -> Result<()> {
    stdout().write_all(text.as_bytes()).map_err(|error| Failure::new(format!("standard output: {error}")))
}
