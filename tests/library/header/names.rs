//! The names that the headers take from programs, and comments that a C programmer can read.

use super::all_headers;
use super::compile::{CLANG, CLANGXX, GCC, GXX};
use crate::interface::{BOTH, Interface};

/// What stands in for the CUDA headers, and the one tag of the original without its prefix:
/// `union Algorithm`, which lies inside a struct.
const FOREIGN: [&str; 7] = [
    "CUstream_st",
    "cudaStream_t",
    "CUgraph_st",
    "cudaGraph_t",
    "libraryPropertyType_t",
    "libraryPropertyType",
    "Algorithm",
];

fn read(interface: Interface, header: &str) -> String {
    std::fs::read_to_string(interface.include().join(header)).expect("the header exists")
}

/// The text without comments and lines of the preprocessor.
fn code(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut code = parts.next().unwrap_or_default().to_owned();
    code.extend(parts.map(|part| part.split_once("*/").expect("a comment ends").1));
    code.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Identifiers, and every other character but blanks on its own.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = if in_word(first) { rest.find(|c| !in_word(c)) } else { Some(first.len_utf8()) };
        let (token, behind) = rest.split_at(end.unwrap_or(rest.len()));
        tokens.push(token);
        rest = behind.trim_start();
    }
    tokens
}

/// Every tag, and every name that a typedef gives.
fn type_names(code: &str) -> Vec<&str> {
    let tokens = tokens(code);
    let mut names = Vec::new();
    let (mut depth, mut inside) = (0, None);
    for (at, &token) in tokens.iter().enumerate() {
        match token {
            "struct" | "enum" | "union" if tokens[at + 1] != "{" => names.push(tokens[at + 1]),
            "typedef" => inside = Some(depth),
            "{" => depth += 1,
            "}" => depth -= 1,
            // `typedef R (*name)(...)`: what comes behind are parameters.
            ")" if inside == Some(depth) && tokens[at + 1] == "(" => {
                names.push(tokens[at - 1]);
                inside = None;
            }
            ";" if inside == Some(depth) => {
                let name = tokens[..at].iter().rev().find(|name| **name != "CUDNN_DEPRECATED");
                names.extend(name);
                inside = None;
            }
            _ => {}
        }
    }
    names
}

/// Names that are neither the original's nor marked as ours.
fn strangers(text: &str) -> Vec<String> {
    let code = code(text);
    let known = |name: &str| name.starts_with("cudnn") || FOREIGN.contains(&name);
    type_names(&code).into_iter().filter(|name| !known(name)).map(str::to_owned).collect()
}

#[test]
fn every_type_has_the_prefix() {
    let sample = "/* struct A; */\ntypedef struct B B;\ntypedef enum { C = 0 } D CUDNN_DEPRECATED;\n\
                  typedef void (CUDNNWINAPI *E)(int f);\ntypedef struct { int g; } cudnnX_t;\nenum H { I };\n";
    assert_eq!(strangers(sample), ["B", "B", "D", "E", "H"]);
    for (interface, header) in BOTH.into_iter().flat_map(|i| all_headers(i).into_iter().map(move |h| (i, h)))
    {
        let text = read(interface, &header);
        assert_eq!(strangers(&text), Vec::<String>::new(), "{interface:?} {header}");
        if header == "cudnn.h" {
            let code = code(&text);
            let found = type_names(&code);
            for name in ["cudnnHandle_t", "cudnnStatus_t", "cudnnCallback_t", "cudnnTensorStruct"] {
                assert!(found.contains(&name), "{interface:?} {name} is not found");
            }
        }
    }
}

#[test]
fn names_of_the_library_s_inside_are_free() {
    let program = |names: &str| format!("#include \"cudnn.h\"\ntypedef int {names};\n");
    for (interface, compiler) in BOTH.into_iter().flat_map(|i| [GCC, CLANG, GXX, CLANGXX].map(|c| (i, c))) {
        if compiler.is_there() {
            let free = program("DataType, Format, Isa, Level, Scalar, Scaling");
            if let Err(said) = compiler.check(interface, &free, &[]) {
                panic!("{} {interface:?}\n{said}", compiler.program);
            }
            let taken = program("cudnnTensorStruct");
            assert!(compiler.check(interface, &taken, &[]).is_err(), "{} {interface:?}", compiler.program);
        }
    }
}

/// Lines with links or paths of rustdoc.
fn rust_markup(text: &str) -> Vec<&str> {
    text.lines().filter(|line| ["[`", "`]", "](", "::"].iter().any(|mark| line.contains(mark))).collect()
}

#[test]
fn comments_have_no_markup_of_rust() {
    assert_eq!(
        rust_markup("/** A [`b`]. */\n/** A [b](c). */\n/** A::b. */\n/** `a[0]`, (b). */\n").len(),
        3
    );
    for (interface, header) in BOTH.into_iter().flat_map(|i| all_headers(i).into_iter().map(move |h| (i, h)))
    {
        assert_eq!(rust_markup(&read(interface, &header)), Vec::<&str>::new(), "{interface:?} {header}");
    }
}
