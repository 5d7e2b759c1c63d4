//! `cudnn-shim transform`: an array or picture into another layout, type or format.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use clap::ArgMatches;
use cudnn::dtype::DataType;
use cudnn::layout::Arrangement;

use crate::arguments::{data_type, is_of_images, of_image, type_name};
use crate::changes::{change, yielded};
use crate::library::{Change, Handle, Tensor, choose_cpu_core};
use crate::memory;
use crate::npy::Header;
use crate::pixels::{self, Pixels};
use crate::source::{Bytes, Source, open, plain};
use crate::tiles::{Job, Side};
use crate::{Failure, Result};

/// Bytes of a slice of whole images, where tiles do not serve.
const SLICE: i64 = 32 << 20;

/// Bytes from which progress is shown.
const LONG: u64 = 256 << 20;

/// Both sides in logical order.
struct Task {
    /// Logical extents of source and destination.
    dims: Vec<i64>,
    dst_dims: Vec<i64>,
    /// Strides of the source's dims; of a blocked source, of its axes in the file.
    strides: Vec<i64>,
    from: Arrangement,
    to: Arrangement,
    to_name: String,
    from_name: String,
    data_type: DataType,
    change: Option<Change>,
    scale: f64,
    /// Whether the destination is one image, without the axis of the batch.
    single: bool,
}

impl Task {
    fn new(given: &ArgMatches, header: &Header, pictures: [bool; 2]) -> Result<Task> {
        let text = |name: &str| given.get_one::<String>(name).map(String::as_str);
        let mut shape = header.shape.clone();
        let named = text("from").unwrap_or(if pictures[0] { "NHWC" } else { "packed" });
        let image = of_image(named);
        if image.is_some() {
            if shape.len() != 3 || header.fortran {
                return Err(Failure::new(format!(
                    "--from {named} is one image of 3 axes in C order, not {shape:?}"
                )));
            }
            shape.insert(0, 1);
        }
        let from_name = image.as_deref().unwrap_or(named);
        let wanted = text("to").unwrap_or(if pictures[1] { "NHWC" } else { named });
        // Three axes are an image as often as three dimensions: only the caller knows which are the
        // channels.
        if text("from").is_none() && shape.len() == 3 && !pictures[0] && is_of_images(wanted) {
            return Err(Failure::new(format!(
                "an array of shape {shape:?} has 3 axes: --from HWC (or CHW) says that it is one image, which {} needs",
                if text("to").is_some() { format!("--to {wanted}") } else { "a picture".to_owned() }
            )));
        }
        // The number of axes that a name stands for decides the rank.
        let fits = |axes: usize| {
            (2..=8).find_map(|rank| {
                let read = Arrangement::parse(from_name, rank).ok()?;
                (rank + usize::from(read.block.is_some()) == axes).then_some((rank, read))
            })
        };
        let (rank, from) = match fits(shape.len()) {
            Some(found) => found,
            // One image is a batch of one.
            None => match fits(shape.len() + 1).filter(|(_, from)| from.order[0] == 0) {
                Some(found) if !header.fortran => {
                    shape.insert(0, 1);
                    found
                }
                _ => {
                    Arrangement::parse(from_name, shape.len())?;
                    return Err(Failure::new(format!(
                        "--from {from_name} does not fit an array of shape {shape:?}"
                    )));
                }
            },
        };
        let mut strides = vec![1; shape.len()];
        for k in 1..shape.len() {
            if header.fortran {
                strides[k] = strides[k - 1] * shape[k - 1];
            } else {
                let k = shape.len() - k;
                strides[k - 1] = strides[k] * shape[k];
            }
        }
        let named = wanted;
        let image = of_image(named);
        let single = image.is_some();
        let to_name = image.as_deref().unwrap_or(named);
        let to = Arrangement::parse(to_name, rank)?;
        let (mut dims, mut logical) = (vec![0; rank], vec![0; rank]);
        for (k, &dim) in from.order.iter().enumerate() {
            dims[dim] = shape[k];
            logical[dim] = strides[k];
        }
        if let Some(block) = from.block {
            if shape[rank] != block {
                return Err(Failure::new(format!(
                    "--from {from_name}: the last axis has {} entries, not {block}",
                    shape[rank]
                )));
            }
            dims[1] = dims[1].checked_mul(block).ok_or_else(|| Failure::new("channels leave 64 bits"))?;
            logical.push(strides[rank]);
            if let Some(&channels) = given.get_one::<i64>("channels") {
                if !(dims[1] - block + 1..=dims[1]).contains(&channels) {
                    return Err(Failure::new(format!(
                        "--channels {channels}: the blocks of the source hold {} to {} channels",
                        dims[1] - block + 1,
                        dims[1]
                    )));
                }
                dims[1] = channels;
            }
        }
        let data_type = match text("type") {
            Some(name) => data_type(name),
            None if pictures[1] => DataType::Uint8,
            None => header.data_type,
        };
        if data_type.lanes() > 1 {
            let text = format!(
                "--type {}: arrays have one number per element; --to NC/4HW4 puts channels together",
                type_name(data_type)
            );
            return Err(Failure::new(text));
        }
        let change = change(given, &dims)?;
        let dst_dims = change.as_ref().map_or_else(|| dims.clone(), |change| yielded(change, &dims));
        if let Some(axis) = dst_dims.iter().position(|&extent| extent < 1) {
            return Err(Failure::new(format!(
                "nothing is left of dimension {axis}, which has {} entries",
                dims[axis]
            )));
        }
        if single && dst_dims[0] != 1 {
            let text = format!("--to {named} is one image, and there are {}", dst_dims[0]);
            return Err(Failure::new(text));
        }
        let scale = given.get_one::<f64>("scale").copied().unwrap_or(1.0);
        Ok(Task {
            dims,
            dst_dims,
            strides: logical,
            from,
            to,
            to_name: to_name.to_owned(),
            from_name: from_name.to_owned(),
            data_type,
            change,
            scale,
            single,
        })
    }

    /// Extents of the destination's axes in the file.
    fn shape(&self) -> Vec<i64> {
        let mut dims = self.dst_dims.clone();
        let block = self.to.block;
        if let Some(block) = block {
            dims[1] = (dims[1] + block - 1) / block;
        }
        let axes = self.to.order.iter().filter(|&&dim| !(self.single && dim == 0));
        axes.map(|&dim| dims[dim]).chain(block).collect()
    }

    fn job(
        &self, src_type: DataType, dims: Vec<i64>, (src, src_first): (Vec<i64>, i64),
        (dst, dst_first): (Vec<i64>, i64),
    ) -> Job {
        let src = Side { data_type: src_type, strides: src, first: src_first };
        let dst = Side { data_type: self.data_type, strides: dst, first: dst_first };
        Job { dims, src, dst, scale: self.scale }
    }

    /// A change of plain layouts as one strided transform into a file of zeros; `None` where blocks
    /// or folds that leave a remainder need more.
    fn changed(&self, src: DataType, change: &Change) -> Option<Job> {
        if self.from.block.or(self.to.block).is_some_and(|block| block > 1) {
            return None;
        }
        let rank = self.dims.len();
        let mut packed = vec![1; rank];
        let mut reach = 1;
        for &dim in self.to.order.iter().rev() {
            packed[dim] = reach;
            reach *= self.dst_dims[dim];
        }
        let none = |edges: &[i64]| edges.iter().all(|&edge| edge == 0);
        if change.fold.is_empty() {
            let cut = |edge: i64| (-edge).max(0);
            let dims: Vec<i64> =
                (0..rank).map(|k| self.dims[k] - cut(change.before[k]) - cut(change.after[k])).collect();
            let first = |strides: &[i64], of: &dyn Fn(i64) -> i64| -> i64 {
                strides.iter().zip(&change.before).map(|(stride, &before)| of(before) * stride).sum()
            };
            let from = first(&self.strides, &cut);
            let to = first(&packed, &|edge| edge.max(0));
            return dims
                .iter()
                .all(|&extent| extent > 0)
                .then(|| self.job(src, dims, (self.strides[..rank].to_vec(), from), (packed, to)));
        }
        // Either side's channels are groups of the other's, one for each place inside a fold, the
        // last dimension fastest.
        let ([near, far], [near_dims, far_dims]) = if change.unfold {
            ([&packed[..], &self.strides[..rank]], [&self.dst_dims, &self.dims])
        } else {
            ([&self.strides[..rank], &packed[..]], [&self.dims, &self.dst_dims])
        };
        let even = (2..rank).all(|k| near_dims[k] == far_dims[k] * change.fold[k - 2])
            && far_dims[1] == near_dims[1] * change.fold.iter().product::<i64>();
        if !even || !none(&change.before) || !none(&change.after) {
            return None;
        }
        let (mut dims, mut of_near, mut of_far) =
            (near_dims[..2].to_vec(), near[..2].to_vec(), far[..2].to_vec());
        let mut group = far[1] * near_dims[1];
        for k in (2..rank).rev() {
            let factor = change.fold[k - 2];
            dims.extend([far_dims[k], factor]);
            of_near.extend([near[k] * factor, near[k]]);
            of_far.extend([far[k], group]);
            group *= factor;
        }
        let (from, to) = if change.unfold { (of_far, of_near) } else { (of_near, of_far) };
        Some(self.job(src, dims, (from, 0), (to, 0)))
    }

    /// The task as one strided transform; `None` where unlike blocks or changes of blocks need
    /// more.
    fn strided(&self, src: DataType) -> Option<Job> {
        let block = |of: &Arrangement| of.block.filter(|&block| block > 1);
        let (from, to) = (block(&self.from), block(&self.to));
        let split = match (from, to) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.or(other),
        };
        if let Some(change) = &self.change {
            return self.changed(src, change);
        }
        if split.is_some_and(|block| self.dims[1] % block != 0) {
            return None;
        }
        let (mut dims, mut strides) = (self.dims.clone(), self.strides.clone());
        strides.truncate(dims.len());
        let mut order = self.to.order.clone();
        if let Some(block) = split {
            let (groups, inside) = match from {
                Some(_) => (self.strides[1], self.strides[dims.len()]),
                None => (self.strides[1] * block, self.strides[1]),
            };
            dims[1] /= block;
            strides[1] = groups;
            // The place inside a group: innermost, or right behind the groups of channels that are
            // not cut.
            let at = if to.is_some() { order.len() } else { order.iter().position(|&dim| dim == 1)? + 1 };
            order.insert(at, dims.len());
            dims.push(block);
            strides.push(inside);
        }
        let mut packed = vec![1; dims.len()];
        let mut reach = 1;
        for &dim in order.iter().rev() {
            packed[dim] = reach;
            reach *= dims[dim];
        }
        Some(self.job(src, dims, (strides, 0), (packed, 0)))
    }

    /// Runs whole images at a time, which any change can be made to, into `sink`.
    fn by_images(
        &self, handle: &Handle, source: &Source, sink: &mut dyn FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let src_type = source.header.data_type;
        let bytes =
            |dims: &[i64], of: DataType| dims[1..].iter().product::<i64>().saturating_mul(of.size() as i64);
        let outermost = self.to.order[0] == 0 && self.from.order[0] == 0 && !source.header.fortran;
        let one = bytes(&self.dims, src_type).saturating_add(bytes(&self.dst_dims, self.data_type)).max(1);
        let images = if outermost { (SLICE / one).clamp(1, self.dims[0]) } else { self.dims[0] };
        if self.from.block.is_some() && source.header.fortran {
            return Err(Failure::new(
                "a blocked array in Fortran order cannot be changed; save it in C order first",
            ));
        }
        let data = &source.bytes.all()[source.at..];
        let (mut first, mut done) = (0, 0);
        let mut buffer: Vec<u64> = Vec::new();
        while first < self.dims[0] {
            let count = images.min(self.dims[0] - first);
            let (mut dims, mut dst_dims) = (self.dims.clone(), self.dst_dims.clone());
            (dims[0], dst_dims[0]) = (count, count);
            let src = match self.from.block {
                Some(_) => Tensor::named(src_type, &self.from_name, &dims)?,
                None => Tensor::strided(src_type, &dims, &self.strides)?,
            };
            let dst = Tensor::named(self.data_type, &self.to_name, &dst_dims)?;
            let (from, size) = ((first * self.strides[0]) as usize * src_type.size(), dst.size()?);
            let part =
                data.get(from..from + src.size()?).ok_or_else(|| Failure::new("the data ends early"))?;
            buffer.resize(size.div_ceil(8), 0);
            let double = self.data_type == DataType::Double;
            let target = buffer.as_mut_ptr().cast::<u8>();
            // SAFETY: the slice holds the whole source, the buffer the whole destination.
            unsafe {
                handle.transform(
                    self.scale,
                    (&src, part.as_ptr()),
                    (&dst, target),
                    double,
                    self.change.as_ref(),
                )
            }?;
            // SAFETY: words without padding, which the transform has written.
            sink(unsafe { std::slice::from_raw_parts(target, size) }, done)?;
            source.bytes.forget();
            done += size as u64;
            first += count;
        }
        Ok(())
    }
}

/// A line on the terminal that tells how far long work is.
struct Progress {
    total: u64,
    done: u64,
    began: Instant,
    shown: bool,
}

impl Progress {
    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        if self.shown {
            let rate = self.done as f64 / self.began.elapsed().as_secs_f64().max(1e-3) / 1e9;
            let share = self.done * 100 / self.total.max(1);
            eprint!(
                "\r{share:3} %  {:.1} of {:.1} GB, {rate:.1} GB/s ",
                self.done as f64 / 1e9,
                self.total as f64 / 1e9
            );
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r{:60}\r", "");
        }
    }
}

/// Runs the command.
pub fn run(given: &ArgMatches) -> Result<()> {
    let name = |id: &str| given.get_one::<String>(id).map_or("", String::as_str);
    let (input, output) = (name("in"), name("out"));
    // Host memory is what files are mapped to.
    choose_cpu_core()?;
    let out_path = Path::new(output);
    if out_path.is_dir() {
        return Err(Failure::new(format!("{output}: a directory, not a file")));
    }
    let picture = pixels::format(out_path);
    if picture.is_none() && out_path.extension().is_some_and(|end| end != "npy") {
        let text = format!("{output}: written are .npy, .png, .jpg, .jpeg, .ppm, .pgm and .pnm files");
        return Err(Failure::new(text));
    }
    let source = open(input, given.get_one::<String>("from-type").map(|name| data_type(name)))?;
    let task =
        Task::new(given, &source.header, [matches!(source.bytes, Bytes::Memory(_)), picture.is_some()])?;
    let handle = Handle::new()?;
    let failed = |error: io::Error| Failure::new(format!("{output}: {}", plain(&error)));
    let in_output = |Failure(text): Failure| Failure::new(format!("{output}: {text}"));
    if let Some(format) = picture {
        let mut bytes = Vec::new();
        if task.dst_dims[0] != 1
            || task.to != Arrangement::parse("NHWC", 4)?
            || task.data_type != DataType::Uint8
        {
            return Err(Failure::new(format!("{output}: a picture is one NHWC image of uint8")));
        }
        task.by_images(&handle, &source, &mut |part, _| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        let [_, channels, height, width] = task.dst_dims[..] else {
            return Err(Failure::new("a picture has 4 dimensions"));
        };
        let file = pixels::encode(&Pixels { height, width, channels, bytes }, format).map_err(in_output)?;
        let mut temporary = beside(out_path).map_err(failed)?;
        temporary.write_all(&file).map_err(failed)?;
        return named(temporary, out_path).map_err(failed);
    }
    let header = Header { data_type: task.data_type, fortran: false, shape: task.shape() }.to_bytes()?;
    let cells =
        task.shape().iter().try_fold(task.data_type.size() as i64, |bytes, &dim| bytes.checked_mul(dim));
    let total = cells
        .ok_or_else(|| Failure::new(format!("{output}: shape {:?} leaves 64 bits", task.shape())))?
        as u64;
    let mut progress = Progress {
        total,
        done: 0,
        began: Instant::now(),
        shown: total >= LONG && io::stderr().is_terminal() && !given.get_flag("quiet"),
    };
    let skip = header.len() as u64;
    let mut write = |file: &File| -> Result<()> {
        file.write_all_at(&header, 0).map_err(failed)?;
        match task.strided(source.header.data_type) {
            Some(job) => {
                let data = &source.bytes.all()[source.at..];
                // What the transform does not write is padding.
                file.set_len(skip + total).map_err(failed)?;
                let forget = || source.bytes.forget();
                job.run(&handle, data, file, skip, &forget, &mut |bytes| progress.advance(bytes))
                    .map_err(in_output)
            }
            None => task.by_images(&handle, &source, &mut |part, at| {
                progress.advance(part.len() as u64);
                file.write_all_at(part, skip + at).map_err(failed)
            }),
        }
    };
    if output == "-" {
        let mut copy = tempfile::tempfile().map_err(failed)?;
        write(&copy)?;
        copy.seek(SeekFrom::Start(0)).map_err(failed)?;
        return io::copy(&mut copy, &mut io::stdout().lock()).map(drop).map_err(failed);
    }
    // What is no plain file, such as /dev/full, cannot be replaced.
    if fs::metadata(out_path).is_ok_and(|facts| !facts.is_file()) {
        let mut copy = tempfile::tempfile().map_err(failed)?;
        write(&copy)?;
        copy.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut device = fs::OpenOptions::new().write(true).open(out_path).map_err(failed)?;
        return io::copy(&mut copy, &mut device).map(drop).map_err(failed);
    }
    let temporary = beside(out_path).map_err(failed)?;
    write(temporary.as_file())?;
    named(temporary, out_path).map_err(failed)
}

/// A temporary file in the folder of `path`, which takes its name in the end and is gone otherwise.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".cudnn-shim-").make_in(folder, |path| {
        memory::begins(path)?;
        fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path)
    })
}

/// Gives a file that is complete its name.
fn named(temporary: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    temporary.persist(path).map_err(|error| error.error)?;
    memory::is_finished();
    Ok(())
}
