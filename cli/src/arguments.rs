//! The command line, and what is generated from it: shell completions and the man page.

use std::io;
use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use cudnn::dtype::DataType;

use crate::{Failure, Result};

/// Names of element types; the first of a type is the one that is printed.
pub const TYPES: [(&str, DataType); 27] = [
    ("float", DataType::Float),
    ("f32", DataType::Float),
    ("double", DataType::Double),
    ("f64", DataType::Double),
    ("half", DataType::Half),
    ("f16", DataType::Half),
    ("bfloat16", DataType::Bfloat16),
    ("bf16", DataType::Bfloat16),
    ("int8", DataType::Int8),
    ("i8", DataType::Int8),
    ("uint8", DataType::Uint8),
    ("u8", DataType::Uint8),
    ("int32", DataType::Int32),
    ("i32", DataType::Int32),
    ("int64", DataType::Int64),
    ("i64", DataType::Int64),
    ("boolean", DataType::Boolean),
    ("bool", DataType::Boolean),
    ("fp8_e4m3", DataType::Fp8E4m3),
    ("e4m3", DataType::Fp8E4m3),
    ("fp8_e5m2", DataType::Fp8E5m2),
    ("e5m2", DataType::Fp8E5m2),
    ("int8x4", DataType::Int8x4),
    ("uint8x4", DataType::Uint8x4),
    ("int8x32", DataType::Int8x32),
    ("float32", DataType::Float),
    ("float64", DataType::Double),
];

/// The type of this name. Pre: the parser let only names of the table through.
pub fn data_type(name: &str) -> DataType {
    TYPES.iter().find(|(known, _)| *known == name).map_or(DataType::Float, |&(_, data_type)| data_type)
}

/// The name that is printed for a type.
pub fn type_name(data_type: DataType) -> &'static str {
    TYPES.iter().find(|(_, known)| *known == data_type).map_or("", |&(name, _)| name)
}

/// A list of whole numbers, separated by commas.
pub fn numbers(text: &str) -> Result<Vec<i64>, String> {
    let number =
        |word: &str| word.trim().parse().map_err(|_| format!("{word:?} is no whole number of 64 bits"));
    text.split(',').map(number).collect()
}

fn list(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .help(help)
        .allow_hyphen_values(true)
        .value_parser(|text: &str| numbers(text).map(List))
}

/// The numbers of a list argument.
#[derive(Clone, Debug)]
pub struct List(pub Vec<i64>);

fn of_types(name: &'static str, help: &'static str) -> Arg {
    let names = TYPES.iter().map(|(name, _)| *name);
    Arg::new(name)
        .long(name)
        .value_name("TYPE")
        .help(help)
        .value_parser(PossibleValuesParser::new(names))
        .hide_possible_values(true)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

fn layout(name: &'static str, help: &'static str) -> Arg {
    let read = |text: &str| Ok::<String, String>(layout_name(text));
    Arg::new(name).long(name).value_name("LAYOUT").help(help).value_parser(read)
}

fn lib() -> Arg {
    Arg::new("lib")
        .long("lib")
        .value_name("DIR")
        .help("The folder with libcudnn.so [default: found beside this tool]")
}

/// Whether `name` has each of these letters once.
fn orders(name: &str, letters: &str) -> bool {
    name.len() == letters.len() && letters.chars().all(|letter| name.contains(letter))
}

/// A layout as the library names it: letters in any case, and those of filters - K C R S, O I H W -
/// as N C H W. What is no order of letters stays as it is.
fn layout_name(text: &str) -> String {
    let name = text.to_ascii_uppercase();
    for (filter, plain) in [("KCRS", "NCHW"), ("OIHW", "NCHW"), ("KCTRS", "NCDHW"), ("OIDHW", "NCDHW")] {
        if orders(&name, filter) {
            let letter = |c| filter.find(c).and_then(|at| plain.get(at..=at)).unwrap_or_default();
            return name.chars().map(letter).collect();
        }
    }
    if ["NC", "BMN", "NCW", "NCL", "NCHW", "NCDHW", IMAGE].iter().any(|letters| orders(&name, letters)) {
        return name;
    }
    text.to_owned()
}

/// The letters of an image without a batch.
const IMAGE: &str = "CHW";

/// The layout of a batch whose images have this one; `None` if it is none of a single image.
pub fn of_image(name: &str) -> Option<String> {
    orders(name, IMAGE).then(|| format!("N{name}"))
}

/// Whether a layout is one of images, alone or in batches.
pub fn is_of_images(name: &str) -> bool {
    orders(name, IMAGE) || orders(name, "NCHW")
}

const LAYOUTS: &str = "Layouts: any order of the letters N C H W, N C D H W, B M N or N C, the innermost last (NHWC, chwn, BNM); CHW, HWC of one image; \
    KCRS, OIHW, KRSC, OHWI, HWIO of filters; NC/32HW32 or nChw16c; BMN:row, BMN:col; packed, channels_last, PyTorch:channels_last, TensorFlow, Caffe, ONNX, NumPy:C, NumPy:F. \
    Types: float, double, half, bfloat16, int8, uint8, int32, int64, boolean, fp8_e4m3, fp8_e5m2, int8x4, uint8x4, int8x32, and f16, i8, ...";

/// The whole command line.
pub fn command() -> Command {
    let explain = Command::new("explain")
        .about("Shows what a layout or a list of strides means: facts, memory order, a picture; or what computes a graph")
        .arg(
            list("dims", "N,C,H,W", "Extents in the usual order, whatever the layout")
                .required_unless_present("graph"),
        )
        .arg(
            Arg::new("graph")
                .long("graph")
                .value_name("FILE")
                .help("The text of an execution plan: its operations, with their steps")
                .conflicts_with_all(["dims", "layout", "strides", "to", "type", "svg", "json"]),
        )
        .arg(layout("layout", "The layout by name").conflicts_with("strides"))
        .arg(list("strides", "S,S,..", "The strides, in elements"))
        .arg(of_types("type", "The element type [default: float]"))
        .arg(layout("to", "A second layout, with arrows and the plan of the transform"))
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .help("Writes the picture to an SVG file; - for standard output"),
        )
        .arg(flag("json", "Prints the facts as JSON"))
        .after_help(LAYOUTS);
    let transform = Command::new("transform")
        .about("Transforms a .npy, PNG, JPEG or PPM file into another layout, type or format")
        .arg(
            Arg::new("in")
                .value_name("IN")
                .help("The source; - for a .npy from standard input")
                .required(true),
        )
        .arg(
            Arg::new("out")
                .value_name("OUT")
                .help("The destination; - for a .npy to standard output")
                .required(true),
        )
        .arg(layout("from", "The order of the source's axes [default: NHWC for pictures, else N C H W]"))
        .arg(layout("to", "The order of the destination's axes [default: NHWC for pictures, else as --from]"))
        .arg(of_types(
            "type",
            "The element type of the destination [default: the source's, uint8 for pictures]",
        ))
        .arg(of_types(
            "from-type",
            "What the source's elements are, where .npy has no name for it: bfloat16, fp8_e4m3, fp8_e5m2",
        ))
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("A")
                .help("Multiplies every element [default: 1]")
                .allow_hyphen_values(true)
                .value_parser(clap::value_parser!(f64)),
        )
        .arg(
            Arg::new("pad-channels")
                .long("pad-channels")
                .value_name("X")
                .help("Adds channels of zeros up to a multiple of X")
                .value_parser(clap::value_parser!(i64).range(1..1 << 31)),
        )
        .arg(
            Arg::new("channels")
                .long("channels")
                .value_name("C")
                .help("Keeps the first C channels: the way back from padding and from blocks with a tail")
                .value_parser(clap::value_parser!(i64).range(1..1 << 31))
                .conflicts_with("pad-channels"),
        )
        .arg(list("crop", "T,B,L,R", "Leaves out rows at the top and bottom, columns on the left and right"))
        .arg(list("fold", "H,W", "Folds H by W neighbours into channels"))
        .arg(list("unfold", "H,W", "The way back from --fold").conflicts_with("fold"))
        .arg(flag("quiet", "Shows no progress"))
        .after_help(LAYOUTS);
    let doctor = Command::new("doctor")
        .about("Tells about the library and this machine, or whether a program runs without a GPU and why not")
        .arg(Arg::new("program").value_name("PROGRAM").help("A program, a script or a library"))
        .arg(lib())
        .arg(flag("json", "Prints the facts as JSON"))
        .after_help("Exit status: 0 if the program runs with `cudnn-shim run`, 1 if it will stop somewhere, 2 if it cannot start, \
            3 if that cannot be told: of a script, or of a program that asks for no library of CUDA by itself.");
    let run = Command::new("run")
        .about("Runs a program on the CPU, with this library and stand-ins for CUDA's libraries, or beside the original cuDNN on a GPU")
        .arg(
            Arg::new("original")
                .long("original")
                .value_name("PATH")
                .help("Runs on the GPU, with the original cuDNN in PATH beside this library (`auto` looks for it)")
                .value_parser(clap::value_parser!(std::ffi::OsString))
                .conflicts_with_all(["check", "threads"]),
        )
        .arg(flag("check", "Stops reads and writes beyond allocations, and fills fresh memory with NaN"))
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_name("N")
                .help("Threads for large calls [default: the processors, at most 16]")
                .value_parser(clap::value_parser!(u32).range(1..=1024)),
        )
        .arg(lib())
        .arg(
            Arg::new("command")
                .value_names(["PROGRAM", "ARGS"])
                .help("The program, and what it is given")
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(clap::value_parser!(std::ffi::OsString)),
        )
        .after_help("Exit status and signals are the program's.");
    let completions = Command::new("completions")
        .about("Prints completions for a shell")
        .arg(Arg::new("shell").required(true).value_parser(clap::value_parser!(clap_complete::Shell)));
    Command::new("cudnn-shim")
        .about("Sees tensor layouts, transforms files between them, and says which libcudnn a program gets")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            explain,
            transform,
            run,
            doctor,
            completions,
            Command::new("man")
                .about("Prints the man page of the tool, or of one of its commands")
                .arg(Arg::new("command").value_name("COMMAND").help("The command")),
        ])
}

/// What is said of an option that a command does not have.
pub fn unknown(subcommand: &str, option: &str) -> String {
    let known = command().find_subcommand(subcommand).map(|command| {
        let longs = command.get_arguments().filter_map(|argument| argument.get_long());
        longs.map(|long| format!("--{long}")).collect::<Vec<_>>()
    });
    let nearest = nearest(option, known.iter().flatten().map(String::as_str));
    let meant = nearest.map_or(String::new(), |known| format!("; did you mean {known}?"));
    format!("{option} is no option of `cudnn-shim {subcommand}`{meant}")
}

/// What is said of a word that is not known; `None` for other mistakes of the command line.
pub fn mistaken(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let (word, what, meant) = match error.kind() {
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            let what = if word.starts_with('-') { "is no option here" } else { "is one word too many" };
            (word, what.to_owned(), text(ContextKind::SuggestedArg))
        }
        ErrorKind::InvalidSubcommand => {
            let known = command();
            let names: Vec<&str> = known.get_subcommands().map(Command::get_name).collect();
            let what = format!("is no command; there are {}", names.join(", "));
            (text(ContextKind::InvalidSubcommand)?, what, text(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::InvalidValue => {
            let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else { return None };
            let argument = text(ContextKind::InvalidArg)?;
            let what = format!("is none of the values of {argument}: {}", known.join(", "));
            (
                text(ContextKind::InvalidValue).filter(|word| !word.is_empty())?,
                what,
                text(ContextKind::SuggestedValue),
            )
        }
        _ => return None,
    };
    let meant = meant.map_or(String::new(), |known| format!("; did you mean {known}?"));
    Some(format!("{word} {what}{meant}"))
}

/// The nearest of some words, if one is near: of as many small changes as a third of its letters.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|known| (distance(word, known), known));
    near.filter(|(distance, known)| *distance * 3 <= known.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// How many letters are added, left out or changed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Prints shell completions.
pub fn completions(given: &ArgMatches) -> Result<()> {
    if let Some(&shell) = given.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(shell, &mut command(), "cudnn-shim", &mut io::stdout());
    }
    Ok(())
}

/// Prints a man page: the tool's, or that of one of its commands.
pub fn man(given: &ArgMatches) -> Result<()> {
    // `help` repeats what the pages say, and has none.
    let mut whole = command().disable_help_subcommand(true);
    // Subcommands by their whole names.
    whole.build();
    let page = match given.get_one::<String>("command") {
        None => whole,
        Some(name) => {
            let names: Vec<String> = whole.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
            let unknown = || {
                let meant = nearest(name, names.iter().map(String::as_str));
                let meant = meant.map_or(String::new(), |known| format!("; did you mean {known}?"));
                Failure::new(format!("man: {name} is no command; there are {}{meant}", names.join(", ")))
            };
            let sub = whole.find_subcommand(name).ok_or_else(unknown)?;
            let version = env!("CARGO_PKG_VERSION");
            sub.clone().display_name(format!("cudnn-shim-{name}")).version(version)
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .and_then(|()| io::stdout().write_all(&text))
        .map_err(|error| Failure::new(format!("standard output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{layout_name, of_image};

    #[test]
    fn layouts_are_read_in_any_case_and_of_filters() {
        for (read, name) in [
            ("nchw", "NCHW"),
            ("nhwc", "NHWC"),
            ("KCRS", "NCHW"),
            ("OIHW", "NCHW"),
            ("KRSC", "NHWC"),
            ("ohwi", "NHWC"),
            ("HWIO", "HWCN"),
            ("kctrs", "NCDHW"),
            ("bnm", "BNM"),
            ("chw", "CHW"),
            ("nChw8c", "nChw8c"),
            ("NC/32HW32", "NC/32HW32"),
            ("packed", "packed"),
            ("NHCX", "NHCX"),
        ] {
            assert_eq!(layout_name(read), name, "{read}");
        }
        assert_eq!(of_image("HWC").as_deref(), Some("NHWC"));
        assert_eq!(of_image("NHWC"), None);
    }
}
