//! `cargo xtask matrix`: MATRIX.md, what is built, from the sources; with `--check`, only compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::header::write_or_check;
use crate::{shell, tables};

/// Calls that get a handle and data: their cores and element types. The others work on the host, whatever the core.
const COMPUTING: &[(&str, &str, &str)] = &[
    // These two only keep and tell where the caller's random states lie.
    ("cudnnGetDropoutDescriptor", "host", ""),
    ("cudnnRestoreDropoutDescriptor", "host", ""),
    ("cudnnSetDropoutDescriptor", "CPU, CUDA", ""),
    ("cudnnDropoutForward", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnDropoutBackward", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    (
        "cudnnBatchNormalizationForwardInference",
        "CPU",
        "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2, INT8",
    ),
    ("cudnnBatchNormalizationForwardTraining", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnBatchNormalizationForwardTrainingEx", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnBatchNormalizationBackward", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnBatchNormalizationBackwardEx", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnNormalizationForwardInference", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2, INT8"),
    ("cudnnNormalizationForwardTraining", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnNormalizationBackward", "CPU", "FLOAT, DOUBLE, HALF, BFLOAT16, FP8_E4M3, FP8_E5M2"),
    ("cudnnConvolutionBackwardBias", "CPU, CUDA", "the 14 element types"),
    ("cudnnTransformTensor", "CPU, CUDA", "every pair of the 14 element types"),
    ("cudnnTransformTensorEx", "CPU, CUDA", "every pair of the 14 element types"),
    ("cudnnTransformFilter", "CPU, CUDA", "every pair of the 14 element types"),
    ("cudnnAddTensor", "CPU, CUDA", "the 14 element types"),
    ("cudnnOpTensor", "CPU, CUDA", "the 14 element types; pairs of A and C in docs/arithmetic-types.md"),
    ("cudnnReduceTensor", "CPU, CUDA", "the 14 element types; pairs of A and C in docs/arithmetic-types.md"),
    ("cudnnActivationForward", "CPU, CUDA", "the 14 element types"),
    ("cudnnActivationBackward", "CPU, CUDA", "the 14 element types, each tensor its own"),
    ("cudnnSoftmaxForward", "CPU, CUDA", "the 11 element types of one channel"),
    ("cudnnSoftmaxBackward", "CPU, CUDA", "the 11 element types of one channel"),
    ("cudnnSetTensor", "CPU, CUDA", "the 14 element types"),
    ("cudnnScaleTensor", "CPU, CUDA", "the 14 element types"),
    ("cudnnPoolingForward", "CPU, CUDA", "the 14 element types, x and y of one"),
    ("cudnnPoolingBackward", "CPU, CUDA", "the 14 element types"),
    ("cudnnLRNCrossChannelForward", "CPU, CUDA", "the 14 element types, x and y of one"),
    ("cudnnLRNCrossChannelBackward", "CPU, CUDA", "the 14 element types"),
    ("cudnnDivisiveNormalizationForward", "CPU, CUDA", "the 14 element types, x and y of one"),
    ("cudnnDivisiveNormalizationBackward", "CPU, CUDA", "the 14 element types, x and dx of one"),
    ("cudnnIm2Col", "CPU, CUDA", "the 14 element types"),
    ("cudnnConvolutionForward", "CPU", PRODUCTS),
    ("cudnnConvolutionBiasActivationForward", "CPU", PRODUCTS),
    ("cudnnConvolutionBackwardData", "CPU", PRODUCTS),
    ("cudnnConvolutionBackwardFilter", "CPU", PRODUCTS),
    ("cudnnFindConvolutionForwardAlgorithmEx", "CPU", "as the call that it measures"),
    ("cudnnFindConvolutionBackwardDataAlgorithmEx", "CPU", "as the call that it measures"),
    ("cudnnFindConvolutionBackwardFilterAlgorithmEx", "CPU", "as the call that it measures"),
    ("cudnnReorderFilterAndBias", "CPU, CUDA", "every type of a filter"),
    ("cudnnFusedOpsExecute", "CPU", "operations 0 and 1, types as cudnnConvolutionForward"),
    ("cudnnSaveAlgorithm", "host", ""),
    ("cudnnRestoreAlgorithm", "host", ""),
];

/// The types of convolutions.
const PRODUCTS: &str = "products of floating types and of 8-bit integers, any output type but BOOLEAN";

pub fn run(arguments: &[String]) -> Result<()> {
    write_or_check("MATRIX.md", &generate()?, arguments, "matrix")
}

/// One exported symbol.
struct Symbol {
    name: String,
    group: String,
    subgroup: String,
    built: bool,
    computing: bool,
}

fn generate() -> Result<String> {
    let root = shell::root();
    let defined = definitions(&root.join("src/capi"))?;
    let stubs = definitions(&root.join("src/capi/stub"))?;
    let symbols = symbols(&defined, &stubs)?;
    let mut groups: BTreeMap<(&str, &str), Vec<&Symbol>> = BTreeMap::new();
    for symbol in &symbols {
        groups.entry((&symbol.group, &symbol.subgroup)).or_default().push(symbol);
    }
    let built = symbols.iter().filter(|symbol| symbol.built).count();
    let mut text = format!(
        "# What is built\n\n\
         Generated by `cargo xtask matrix`; do not edit. A symbol is a stub if it is defined under `src/capi/stub/`:\n\
         it is exported, checks its library handle, and answers `CUDNN_STATUS_NOT_SUPPORTED` with a sentence.\n\n\
         The CUDA core is tested on the driver double, which runs its kernels on the CPU; no GPU has run it yet, and\n\
         no GPU figures are measured.\n\n\
         {} symbols: {built} built, {} stubs.\n\n| group | built | stubs |\n|---|---|---|\n",
        symbols.len(),
        symbols.len() - built
    );
    for ((group, subgroup), members) in &groups {
        let built = members.iter().filter(|symbol| symbol.built).count();
        writeln!(text, "| {group}: {subgroup} | {built} | {} |", members.len() - built)?;
    }
    for ((group, subgroup), members) in &groups {
        write!(text, "\n## {group}: {subgroup}\n\n| symbol | state | core | types |\n|---|---|---|---|\n")?;
        for symbol in members {
            let (core, types) = match COMPUTING.iter().find(|(name, ..)| *name == symbol.name) {
                _ if !symbol.built => ("", ""),
                Some((_, core, types)) => (*core, *types),
                None if symbol.computing => {
                    bail!("xtask/src/matrix.rs does not say what {} computes", symbol.name)
                }
                None => ("host", ""),
            };
            let state = if symbol.built { "built" } else { "stub" };
            writeln!(text, "| `{}` | {state} | {core} | {types} |", symbol.name)?;
        }
    }
    Ok(text)
}

/// The exported functions that the Rust files of a folder define, subfolders included.
fn definitions(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            names.extend(definitions(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let exported = text.split("#[unsafe(no_mangle)]").skip(1);
            names.extend(exported.filter_map(|item| {
                let (_, item) = item.split_once("extern \"C\" fn ")?;
                Some(item.split_once('(')?.0.to_owned())
            }));
        }
    }
    Ok(names)
}

/// The original's symbols in the order of its headers, those it has removed, and last those that no header declares.
fn symbols(defined: &BTreeSet<String>, stubs: &BTreeSet<String>) -> Result<Vec<Symbol>> {
    let mut symbols = Vec::new();
    for (table, removed) in [
        ("functions", None),
        ("functions_v8_only", Some("removed by version 9")),
        ("functions_v7_only", Some("removed by version 8")),
    ] {
        for row in tables::read(table)? {
            let parameters = &row["parameters"];
            symbols.push(Symbol {
                name: row["name"].clone(),
                group: row["group"].clone(),
                subgroup: removed.map_or_else(|| row["subgroup"].clone(), str::to_owned),
                built: defined.contains(&row["name"]) && !stubs.contains(&row["name"]),
                // Whoever gets a handle and untyped data computes; a setter of an attribute gets no handle.
                computing: parameters.contains("cudnnHandle_t handle") && parameters.contains("void *"),
            });
        }
    }
    for row in tables::read("symbols")?.iter().filter(|row| row["declared"] == "no") {
        symbols.push(Symbol {
            name: row["symbol"].clone(),
            group: "undeclared".to_owned(),
            subgroup: "internal".to_owned(),
            built: defined.contains(&row["symbol"]) && !stubs.contains(&row["symbol"]),
            computing: false,
        });
    }
    if let Some(missing) = symbols.iter().find(|symbol| !defined.contains(&symbol.name)) {
        bail!("{} is not exported", missing.name);
    }
    Ok(symbols)
}
