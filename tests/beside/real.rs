//! The real original, where there is one: `CUDNN_SHIM_TEST_ORIGINAL` names its folder. Without a
//! GPU it makes no handle, but its libraries load and its descriptors can be set and read.

use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cudnn::desc::rnn::{RnnAlgo, RnnBias, RnnCell, RnnDirection, RnnInput, RnnSizes, TypePair};
use cudnn::desc::sequence::RnnDataLayout;
use cudnn::desc::*;
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::original::{self, Library, Maker, Twinned};

use crate::common;
use crate::double::{Setting, setting, symbols_in};

/// An original: its folder, and the version of its interface.
pub struct Found {
    pub folder: PathBuf,
    pub major: i32,
}

impl Found {
    /// What lies in a folder.
    fn new(folder: PathBuf) -> Found {
        let has = |major: &i32| folder.join(format!("libcudnn.so.{major}")).is_file();
        let major = [9, 8].into_iter().find(has);
        let major = major.unwrap_or_else(|| panic!("{} has no libcudnn.so", folder.display()));
        Found { folder, major }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join(format!("libcudnn.so.{}", self.major))
    }

    /// The symbols of its main library.
    pub fn symbols(&self) -> Vec<String> {
        symbols_in(if self.major == 8 { "symbols_v8.tsv" } else { "symbols.tsv" })
    }
}

/// The packages that are had where `CUDNN_SHIM_TEST_ORIGINAL` is `pypi`: each version with what its
/// plans take besides, in a folder of its own.
const PACKAGES: [(&str, &[&str]); 2] = [
    (
        "original-9",
        &["nvidia-cudnn-cu12==9.27.0.42", "nvidia-cublas-cu12==12.9.1.4", "nvidia-cuda-nvrtc-cu12==12.9.86"],
    ),
    ("original-8", &["nvidia-cudnn-cu12==8.9.7.29"]),
];

/// The originals that `CUDNN_SHIM_TEST_ORIGINAL` names, with colons between their folders; `pypi`
/// has pip download both versions once. A skip, said and counted, without any.
pub fn originals() -> Vec<Found> {
    static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| match std::env::var_os("CUDNN_SHIM_TEST_ORIGINAL") {
        None => Vec::new(),
        Some(value) if value == "pypi" => PACKAGES.iter().filter_map(downloaded).collect(),
        Some(value) => std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect(),
    });
    if found.is_empty() {
        println!("skipped: CUDNN_SHIM_TEST_ORIGINAL names no folder with the original's libcudnn.so.9");
    }
    found.iter().cloned().map(Found::new).collect()
}

/// The folder of a version's library, which pip puts below the target folder if it is not there
/// yet.
fn downloaded((name, packages): &(&str, &[&str])) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = target.join(name);
    if !folder.is_dir() {
        // What is there is whole.
        let part = target.join(format!("{name}.part"));
        let _ = std::fs::remove_dir_all(&part);
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&part).args(*packages);
        let output = pip.output();
        if !output.as_ref().is_ok_and(|output| output.status.success()) {
            println!("skipped: {} cannot be had: {output:?}", packages[0]);
            return None;
        }
        std::fs::rename(&part, &folder).expect("a name for what was downloaded");
    }
    Some(folder.join("nvidia/cudnn/lib"))
}

/// The folder of a driver that takes the code of an original and runs none.
pub fn taking_driver(setting: &Setting) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = setting.scratch.join("taking-driver");
        std::fs::create_dir_all(&folder).expect("writable");
        let source = [common::project_root().join("c_tests/beside/driver.c")];
        let options = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
        common::compiled("gcc", &options, &source, &setting.lib, &folder.join("libcuda.so.1"))
            .expect("gcc works");
        folder
    });
    built.clone()
}

/// Our library for the interface of an original, laid out as an installation; a skip, said and
/// counted, without one.
fn ours(setting: &Setting, major: i32) -> Option<PathBuf> {
    if major == 9 {
        return Some(setting.lib.clone());
    }
    // Where `tests/library` builds it.
    let tests = std::env::current_exe().expect("a path");
    let profile = tests.parent().and_then(Path::parent).expect("<target>/<profile>/deps");
    let target = profile.parent().expect("<target>/<profile>");
    let built = target.join("v8").join(profile.file_name().expect("a profile")).join("libcudnn.so");
    if !built.is_file() {
        println!("skipped: 8.9.7 beside the library for version 8, which `cargo test --test library` builds");
        return None;
    }
    let lib = setting.scratch.join("lib-8");
    std::fs::create_dir_all(&lib).expect("writable");
    std::fs::copy(&built, lib.join("libcudnn.so.8")).expect("the library can be copied");
    std::os::unix::fs::symlink("libcudnn.so.8", lib.join("libcudnn.so")).expect("writable");
    Some(lib)
}

#[test]
fn its_functions_are_its_own_in_both_orders_of_loading() {
    let Some(setting) = setting() else { return };
    for original in originals() {
        let Some(lib) = ours(setting, original.major) else { continue };
        let program = setting.scratch.join(format!("real-{}", original.major));
        let source = [common::project_root().join("c_tests/beside/real.c")];
        let include = format!("-I{}", common::project_root().join("c_tests").display());
        let options = [include.as_str(), "-ldl"];
        common::compiled("gcc", &options, &source, &lib, &program).expect("gcc works");
        let list = setting.scratch.join(format!("all-symbols-{}", original.major));
        std::fs::write(&list, original.symbols().join("\n")).expect("writable");
        for order in ["ours-first", "original-first"] {
            for now in ["", "1"] {
                let mut command = Command::new(&program);
                command.env("LD_LIBRARY_PATH", &lib).env("LD_BIND_NOW", now);
                command.env("CUDNN_SHIM_BACKEND", "cpu").env("CUDNN_SHIM_ORIGINAL", &original.folder);
                command.env("CUDNN_SHIM_ORIGINAL_HANDLES", "all");
                command.arg(order).arg(original.file()).arg(&list);
                let output = command.output().expect("the program starts");
                let file = original.file();
                assert!(output.status.success(), "{}, {order}: {}", file.display(), common::printed(&output));
            }
        }
    }
}

/// Runs a test in a process of its own for each original that the loader finds `libraries` for: a
/// process has room for the parts of one. `Some` in that process.
pub fn alone(test: &str, libraries: impl Fn(&Found) -> Option<OsString>) -> Option<Found> {
    const ALONE: &str = "CUDNN_SHIM_TEST_CHILD";
    if let Some(folder) = std::env::var_os(ALONE) {
        return Some(Found::new(folder.into()));
    }
    for original in originals() {
        let Some(libraries) = libraries(&original) else { continue };
        let mut command = common::itself();
        command.args(["--exact", test, "--nocapture"]).env(ALONE, &original.folder);
        command.env("LD_LIBRARY_PATH", libraries);
        let output = command.output().expect("the test starts");
        let text = common::printed(&output);
        assert!(output.status.success(), "{}: {text}", original.folder.display());
        text.lines()
            .filter_map(|line| line.find("skipped: ").map(|at| &line[at..]))
            .for_each(|line| println!("{line}"));
    }
    None
}

/// Every kind of descriptor, set from our plain data, holds it.
#[test]
fn descriptors_of_every_kind_are_twinned_and_read_back() {
    let test = "real::descriptors_of_every_kind_are_twinned_and_read_back";
    let libraries = |_: &Found| setting().map(|setting| taking_driver(setting).into_os_string());
    let Some(original) = alone(test, libraries) else { return };
    let library = opened(&original);
    let no_dropout = |address: usize| (address == 0).then_some(std::ptr::null_mut());
    let maker = Maker { library, handle: std::ptr::null_mut(), dropout: &no_dropout };
    let mode = Mode::Extended;

    // Tensors: packed, strided, repeating, vectorised, of every rank and type that it takes.
    let mut refused = Vec::new();
    for data_type in [DataType::Float, DataType::Double, DataType::Half, DataType::Int8, DataType::Int32] {
        for dims in [&[2, 3, 4][..], &[2, 3, 4, 5], &[2, 3, 4, 5, 6], &[1, 2, 3, 1, 2, 3], &[2, 3]] {
            for format in [Format::Nchw, Format::Nhwc] {
                let tensor = TensorDescriptor::with_format(data_type, format, dims.len() as i64, dims, mode)
                    .expect("valid");
                match tensor.twin(&maker) {
                    Ok(twin) => {
                        let read = original::read_tensor(library, &twin).expect("readable");
                        assert_eq!((read.dims(), read.strides()), (tensor.dims(), tensor.strides()));
                        assert_eq!(read.data_type(), data_type);
                    }
                    Err(_) => refused.push(dims.len()),
                }
            }
        }
    }
    assert!(refused.iter().all(|&rank| rank < 3), "{refused:?}");
    let wide = TensorDescriptor::with_strides(DataType::Half, 4, &[2, 3, 4, 5], &[120, 40, 10, 2], mode);
    let twin = wide.as_ref().expect("valid").twin(&maker).expect("the original takes strides");
    assert_eq!(original::read_tensor(library, &twin).expect("readable").strides()[2], 10);
    let vectors = TensorDescriptor::with_format(DataType::Int8x4, Format::NchwVectC, 4, &[2, 8, 4, 5], mode);
    let twin = vectors.expect("valid").twin(&maker).expect("the original takes vectors");
    assert_eq!(getter_ints(library, "cudnnGetTensor4dDescriptor", twin.pointer(), 9)[..5], [5, 2, 8, 4, 5]);
    let blocked = TensorDescriptor::with_format(DataType::Float, Format::Blocked(8), 4, &[2, 8, 4, 5], mode);
    assert!(matches!(blocked.expect("valid").twin(&maker), Err(None)), "it has no blocks");

    let filter = FilterDescriptor::new(DataType::Half, Format::Nhwc, 4, &[7, 3, 2, 5], mode).expect("valid");
    let twin = filter.twin(&maker).expect("a filter");
    assert_eq!(getter_ints(library, "cudnnGetFilter4dDescriptor", twin.pointer(), 6), [2, 1, 7, 3, 2, 5]);

    let dims = |values: &[i64]| Dims::new(values);
    let (padding, strides) = (dims(&[1, 0]), dims(&[2, 3]));
    let pooling = PoolingDescriptor::new(
        PoolingMode::AverageWithPadding,
        NanPropagation::Keep,
        dims(&[4, 5]),
        padding,
        strides,
    );
    let twin = pooling.expect("valid").twin(&maker).expect("a pooling");
    let read = getter_ints(library, "cudnnGetPooling2dDescriptor", twin.pointer(), 8);
    assert_eq!(read, [1, 1, 4, 5, 1, 0, 2, 3]);

    let geometry = ConvolutionGeometry::new(
        ConvolutionMode::CrossCorrelation,
        DataType::Float,
        padding,
        strides,
        dims(&[1, 2]),
    );
    let convolution = ConvolutionDescriptor {
        geometry: geometry.expect("valid"),
        groups: 3,
        math_type: MathType::TensorOp,
        reorder: Reorder::None,
    };
    let twin = convolution.twin(&maker).expect("a convolution");
    let read = getter_ints(library, "cudnnGetConvolution2dDescriptor", twin.pointer(), 8);
    assert_eq!(read, [1, 0, 2, 3, 1, 2, 1, 0]);
    for (name, value) in [
        ("cudnnGetConvolutionGroupCount", 3),
        ("cudnnGetConvolutionMathType", 1),
        ("cudnnGetConvolutionReorderType", 1),
    ] {
        assert_eq!(getter_ints(library, name, twin.pointer(), 1), [value], "{name}");
    }

    let op =
        OpTensorDescriptor { op: OpTensorOp::Max, compute_type: DataType::Float, nan: NanPropagation::Keep };
    let twin = op.twin(&maker).expect("an operation");
    assert_eq!(getter_ints(library, "cudnnGetOpTensorDescriptor", twin.pointer(), 3), [3, 0, 1]);

    let reduce =
        ReduceDescriptor { op: ReduceOp::Amax, indices: ReduceIndices::Flattened, ..Default::default() };
    let twin = reduce.twin(&maker).expect("a reduction");
    assert_eq!(getter_ints(library, "cudnnGetReduceTensorDescriptor", twin.pointer(), 5), [4, 0, 0, 1, 0]);

    let transform = TransformDescriptor {
        dest_format: 1,
        pad_before: [0, 1, 2, 0, 0, 0, 0, 0],
        pad_after: [0, 3, 0, 1, 0, 0, 0, 0],
        ..Default::default()
    };
    transform.twin(&maker).expect("a transform");

    LrnDescriptor::new(7, 0.5, 0.25, 1.5).expect("valid").twin(&maker).expect("a response normalisation");
    let st = SpatialTransformerDescriptor { data_type: DataType::Float, rank: 4, dims: dims(&[2, 3, 4, 5]) };
    st.twin(&maker).expect("a spatial transformer");
    for ctc in [
        CtcLossDescriptor::default(),
        CtcLossDescriptor { max_label_length: 9, normalization: 1, ..Default::default() },
    ] {
        ctc.twin(&maker).expect("a CTC loss");
    }
    let activation =
        ActivationDescriptor { mode: ActivationMode::Elu, coefficient: 0.5, ..Default::default() };
    activation.twin(&maker).expect("an activation");

    let data =
        RnnDataDescriptor::new(DataType::Half, RnnDataLayout::BatchMajorPadded, 5, 3, vec![5, 2], None);
    data.expect("valid").twin(&maker).expect("a batch of sequences");
    let sequences = SeqDataDescriptor::new(DataType::Float, [5, 2, 1, 3], [1, 2, 0, 3], vec![5, 2], [0; 8]);
    sequences.expect("valid").twin(&maker).expect("sequences");

    let network = RnnNetwork {
        algo: RnnAlgo::Standard,
        cell: RnnCell::Gru,
        bias: RnnBias::Double,
        direction: RnnDirection::Bidirectional,
        input: RnnInput::Linear,
        math_type: MathType::Standard,
        sizes: RnnSizes { input: 3, hidden: 4, projected: 4, layers: 2 },
        types: TypePair { data: DataType::Float, compute: DataType::Float },
        dropout: 0,
        flags: 0,
    };
    let mut rnn = RnnDescriptor::from(network);
    let twin = rnn.twin(&maker).expect("a recurrent network");
    let read = getter_ints(library, "cudnnGetRNNDescriptor_v8", twin.pointer(), 14);
    assert_eq!(read[..12], [0, 3, 2, 1, 0, 0, 0, 0, 3, 4, 4, 2]);
    rnn.clip = RnnClip::new(1, 1, -2.0, 2.0).expect("valid");
    rnn.twin(&maker).expect("a clipped network");

    // Its objects go as they came.
    let attention = AttentionDescriptor {
        heads: 2,
        softmax_scale: 0.5,
        sizes: [4, 4, 4],
        projected: [2, 2, 2, 4],
        max_lengths: [5, 6],
        max_batch: 2,
        max_beam: 1,
        ..Default::default()
    };
    attention.twin(&maker).expect("an attention");
}

/// Loads an original for the rest of the process.
pub fn opened(original: &Found) -> &'static Library {
    let library = Library::open(&original.file(), original.major).expect("the original loads");
    let version = library.version();
    assert_eq!(if original.major == 8 { version / 1000 } else { version / 10_000 }, original.major as usize);
    Box::leak(Box::new(library))
}

/// What a getter of at most 14 places of 32 bits each tells of a twin; a place has room for a
/// pointer.
fn getter_ints(library: &Library, name: &str, twin: *mut c_void, count: usize) -> Vec<i32> {
    type Getter = unsafe extern "C" fn(
        *mut c_void,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut i64,
    ) -> i32;
    let function = library.symbol(name).unwrap_or_else(|| panic!("no {name}"));
    // SAFETY: a getter writes to its own places and does not look at further ones.
    let function = unsafe { std::mem::transmute::<*mut c_void, Getter>(function) };
    let mut places = [0_i64; 14];
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = &mut places;
    // SAFETY: a twin that is alive, and places as large as what is written.
    assert_eq!(unsafe { function(twin, a, b, c, d, e, f, g, h, i, j, k, l, m, n) }, 0, "{name}");
    places[..count].iter().map(|&value| value as i32).collect()
}
