//! The device code of the tables of functions, scalar types and combiners: written from the tables,
//! and compared.

use std::fmt::Write as _;

use cudnn::dtype::Scalar;
use cudnn::ops::function::{Row, TABLE};
use cudnn::ops::reduction::Combiner;

const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/backend/cuda/kernels/");

/// `MIN_OR_NAN` of `MinOrNan`.
fn constant(name: &str) -> String {
    let mut text = String::new();
    for (i, letter) in name.char_indices() {
        if i > 0 && letter.is_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

fn generated() -> String {
    let mut text = String::from(
        "// The table of `ops/function.rs`, written by `tests/basics/functions.rs`; do not edit.\n#pragma once\n\n\
         #include \"math.cuh\"\n\nenum Function : u32 {\n",
    );
    let names: Vec<String> = TABLE.iter().map(|row| constant(&format!("{:?}", row.function))).collect();
    names.iter().for_each(|name| writeln!(text, "    {name},").unwrap());
    text += "};\n\n// The words of the formulas come later, in formula.cuh: they are looked up when this is used.\n";
    for (of_graphs, name) in [(false, "formula"), (true, "graph_formula")] {
        functions(&mut text, name, TABLE.iter().filter(|row| row.function.is_of_graphs() == of_graphs));
    }
    text += "// An activation and its slope.\ntemplate <typename T>\nstruct Activated {\n    Rounded<T> result, slope;\n};\n";
    for (elementary, name) in [(false, "short_activation"), (true, "long_activation")] {
        activations(&mut text, name, TABLE.iter().filter(|row| row.elementary == elementary));
    }
    text
}

/// The function that computes these rows.
fn functions<'a>(text: &mut String, name: &str, rows: impl Iterator<Item = &'a Row>) {
    write!(
        text,
        "template <typename T>\n__device__ __forceinline__ Rounded<T> {name}(u32 function, \
         const Rounded<T> (&operands)[5], Rounded<T> parameter) {{\n    switch (function) {{\n"
    )
    .unwrap();
    for row in rows {
        writeln!(text, "    case {}: {{", constant(&format!("{:?}", row.function))).unwrap();
        let operands = row.operands.iter().enumerate().map(|(k, name)| format!("{name} = operands[{k}]"));
        let operands = operands.collect::<Vec<_>>().join(", ");
        if !operands.is_empty() {
            writeln!(text, "        const Rounded<T> {operands};").unwrap();
        }
        for parameter in row.parameters {
            writeln!(text, "        const Rounded<T> {parameter} = parameter;").unwrap();
        }
        writeln!(text, "        return {};\n    }}", device(row.formula)).unwrap();
    }
    *text += "    default: return {T(0)};\n    }\n}\n\n";
}

/// A formula as the device knows it.
fn device(formula: &str) -> String {
    formula.split_whitespace().collect::<Vec<_>>().join(" ").replace("()", "<T>()")
}

/// The function that computes those rows that have a slope.
fn activations<'a>(text: &mut String, name: &str, rows: impl Iterator<Item = &'a Row>) {
    write!(
        text,
        "\ntemplate <typename T>\n__device__ __forceinline__ Activated<T> {name}(u32 function, Rounded<T> x, \
         Rounded<T> parameter) {{\n    switch (function) {{\n"
    )
    .unwrap();
    for row in rows {
        let Some(slope) = row.slope else { continue };
        assert_eq!(row.operands, ["x"], "an activation has one operand");
        writeln!(text, "    case {}: {{", constant(&format!("{:?}", row.function))).unwrap();
        for parameter in row.parameters {
            writeln!(text, "        const Rounded<T> {parameter} = parameter;").unwrap();
        }
        writeln!(text, "        const Rounded<T> y = {};", device(row.formula)).unwrap();
        writeln!(text, "        return {{y, {}}};\n    }}", device(slope)).unwrap();
    }
    *text += "    default: return {x, one(x)};\n    }\n}\n";
}

/// An enumeration whose numbers are those of the table in `source`.
fn enumeration(source: &str, name: &str, variants: impl Iterator<Item = String>) -> String {
    let mut text = format!(
        "// The table of `{source}`, written by `tests/basics/functions.rs`; do not edit.\n#pragma once\n\n"
    );
    write!(text, "#include \"device.cuh\"\n\nenum {name} : u32 {{\n").unwrap();
    variants.for_each(|variant| writeln!(text, "    {variant},").unwrap());
    text + "};\n"
}

fn compare(file: &str, generated: &str) {
    let committed = std::fs::read_to_string(format!("{KERNELS}{file}")).unwrap_or_default();
    if committed != generated {
        let fresh = format!("{}/{file}", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&fresh, generated).expect("the file can be written");
        panic!("{KERNELS}{file} is stale; {fresh} is what it should be");
    }
}

#[test]
fn the_device_code_is_that_of_the_tables() {
    compare("functions.cuh", &generated());
    let scalars = Scalar::ALL.iter().map(|scalar| format!("{scalar:?}").to_ascii_uppercase());
    compare("scalars.cuh", &enumeration("dtype/mod.rs", "Scalar", scalars));
    let combiners = Combiner::ALL.iter().map(|combiner| constant(&format!("{combiner:?}")));
    compare("combiners.cuh", &enumeration("ops/reduction.rs", "Combiner", combiners));
}
