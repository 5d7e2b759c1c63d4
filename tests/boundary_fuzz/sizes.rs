//! What suffices for the largest suffices for all: sizes that calls refuse less than grow with
//! every length, the batch and every extent. Programs ask once, with the longest sequences, and run
//! all others in that memory.
//!
//! Convolutions, reductions and fused operations are left out: their calls take any workspace, or
//! one plan has one size.

use std::collections::BTreeMap;

use crate::call::Machine;
use crate::library;
use testkit::random::Rng;

/// Pairs of a run.
const PAIRS: usize = 20_000;

/// The calls that set everything up, and the query, whose outputs are `@`; with these extents. A
/// kind has as many as it says.
type Ask = fn(&[i64], &mut Vec<String>, choices: u64) -> String;

/// The queries, by name: the most that each extent may be, and the calls.
const QUERIES: [(&str, &[i64], Ask); 8] = [
    ("RNN of version 8", &[40, 40, 4, 9, 4, 9, 9, 9, 9], version_8),
    ("RNN of version 6", &[40, 40, 4, 9, 4, 9, 9, 9, 9], version_6),
    ("attention", &[4, 20, 20, 20, 20, 20, 70, 70, 9, 3], attention),
    ("CTC with lengths", &[30, 9, 20, 20, 20, 30, 30], ctc),
    ("CTC", &[30, 9, 20, 40], ctc_of_longest),
    ("normalisation", &[700, 70, 70, 70], normalisation),
    ("dropout", &[9, 40, 40, 40], dropout),
    ("long convolution", &[4, 40, 5_000, 5_000], long_convolution),
];

fn list(numbers: &[i64]) -> String {
    format!("[{}]", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// A network's type and cell, and its dropout.
fn network(choices: u64, calls: &mut Vec<String>) -> (u64, u64) {
    let [of, cell] = [choices % 3, choices / 3 % 4];
    let dropout = if (choices / 12).is_multiple_of(2) { "0.5" } else { "0" };
    calls.push("CreateDropoutDescriptor D0".to_owned());
    calls.push(format!("SetDropoutDescriptor D0 H0 {dropout} NULL 16 1"));
    calls.push("CreateRNNDescriptor N0".to_owned());
    (of, cell)
}

/// Lengths of as many sequences as the batch says, none longer than a given number; in falling
/// order where they have to be.
fn lengths(extents: &[i64], falls: bool) -> Vec<i64> {
    let steps = extents[3];
    let mut lengths: Vec<i64> = extents[5..].iter().map(|&length| length.min(steps)).collect();
    if falls {
        lengths.sort_by_key(|&length| -length);
        lengths.iter_mut().for_each(|length| *length = (*length).max(1));
        lengths[0] = steps;
    }
    lengths.truncate(extents[4] as usize);
    lengths
}

/// Extents: input, hidden, layers, steps, batch, and lengths.
fn version_8(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    let (of, cell) = network(choices, calls);
    let [input, hidden, layers, steps, ..] = *extents else { return String::new() };
    let (direction, layout, mode) = (choices / 24 % 2, choices / 48 % 3, choices / 144 % 2);
    let projected = if cell == 2 && (choices / 288).is_multiple_of(2) { (hidden + 1) / 2 } else { hidden };
    let compute = u64::from(of == 1);
    calls.push(format!(
        "SetRNNDescriptor_v8 N0 0 {cell} 2 {direction} 0 {of} {compute} 0 {input} {hidden} {projected} {layers} D0 1"
    ));
    let lengths = lengths(extents, layout == 1);
    calls.push("CreateRNNDataDescriptor M0".to_owned());
    calls.push(format!(
        "SetRNNDataDescriptor M0 {of} {layout} {steps} {} {input} {} NULL",
        lengths.len(),
        list(&lengths)
    ));
    format!("GetRNNTempSpaceSizes H0 N0 {mode} M0 @ @")
}

fn version_6(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    let (of, cell) = network(choices, calls);
    let [input, hidden, layers, steps, ..] = *extents else { return String::new() };
    let (direction, compute) = (choices / 24 % 2, u64::from(of == 1));
    calls.push(format!("SetRNNDescriptor_v6 H0 N0 {hidden} {layers} D0 0 {direction} {cell} 0 {compute}"));
    let lengths = lengths(extents, true);
    let batches = (0..steps).map(|step| lengths.iter().filter(|&&length| length > step).count());
    let batches: Vec<usize> = batches.collect();
    for batch in batches.iter().copied().collect::<std::collections::BTreeSet<_>>() {
        calls.push(format!("CreateTensorDescriptor T{batch}"));
        calls.push(format!("SetTensorNdDescriptorEx T{batch} 0 {of} 3 [{batch},{input},1]"));
    }
    let arrays: Vec<String> = batches.iter().map(|batch| format!("T{batch}")).collect();
    let name =
        if (choices / 48).is_multiple_of(2) { "GetRNNWorkspaceSize" } else { "GetRNNTrainingReserveSize" };
    format!("{name} H0 N0 {steps} [{}] @", arrays.join(","))
}

/// Extents: heads, vectors of queries and keys, of values, both projected, output, time steps of
/// either, batch, beams.
fn attention(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    let of = [0, 1, 2, 9][choices as usize % 4];
    let [heads, of_keys, of_values, inner, projected, output, queries, keys, batch, beam] = *extents else {
        return String::new();
    };
    let if_so = |bit: u64, size: i64| if (choices / bit).is_multiple_of(2) { size } else { 0 };
    let (inner, projected, output) = (if_so(4, inner), if_so(8, projected), if_so(16, output));
    let compute = u64::from(of == 1);
    calls.push("CreateAttnDescriptor U0".to_owned());
    calls.push(format!(
        "SetAttnDescriptor U0 2 {heads} 1.0 {of} {compute} 0 NULL NULL {of_keys} {of_keys} {of_values} {inner} {inner} {projected} \
         {output} {queries} {keys} {batch} {beam}"
    ));
    let reserve = if (choices / 32).is_multiple_of(2) { "@" } else { "NULL" };
    format!("GetMultiHeadAttnBuffers H0 U0 @ @ {reserve}")
}

fn losses(extents: &[i64], calls: &mut Vec<String>, choices: u64, longest: i64) {
    let [steps, batch, classes, ..] = *extents else { return };
    let (of, softmax) = (choices % 2, choices / 2 % 2);
    calls.push("CreateTensorDescriptor T0".to_owned());
    calls.push(format!("SetTensorNdDescriptorEx T0 0 {of} 3 [{steps},{batch},{}]", classes + 1));
    calls.push("CreateCTCLossDescriptor Z0".to_owned());
    calls.push(format!("SetCTCLossDescriptor_v9 Z0 {of} {softmax} 0 {longest}"));
}

/// Extents: time steps, batch, classes, and lengths of labels and of inputs in turns.
fn ctc(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    losses(extents, calls, choices, 0);
    let [steps, batch, _, label, other, input, another] = *extents else { return String::new() };
    let all = |first: i64, second: i64| -> Vec<i64> {
        (0..batch).map(|at| if at % 2 == 0 { first } else { second }.min(steps)).collect()
    };
    let labels = vec![1; (batch * steps) as usize];
    let [labels, lengths, inputs] =
        [labels, all(label, other), all(input, another)].map(|numbers| list(&numbers));
    format!("GetCTCLossWorkspaceSize H0 T0 T0 {labels} {lengths} {inputs} {} Z0 @", choices / 4 % 2)
}

/// Extents: time steps, batch, classes, longest label.
fn ctc_of_longest(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    losses(extents, calls, choices, extents[3].min(extents[0]));
    format!("GetCTCLossWorkspaceSize_v8 H0 {} Z0 T0 T0 @", choices / 4 % 2)
}

fn tensor(register: &str, extents: &[i64], of: u64, calls: &mut Vec<String>) {
    let extents = list(&extents[..4]);
    calls.push(format!("CreateTensorDescriptor {register}"));
    calls.push(format!("SetTensorNdDescriptorEx {register} 0 {of} 4 {extents}"));
}

/// Extents: those of the tensor.
fn normalisation(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    let (of, mode, ops) = ([0, 1, 2][choices as usize % 3], choices / 3 % 3, choices / 9 % 3);
    tensor("T0", extents, of, calls);
    calls.push("CreateTensorDescriptor T4".to_owned());
    calls.push(format!("DeriveBNTensorDescriptor T4 T0 {mode}"));
    calls.push("CreateActivationDescriptor A0".to_owned());
    calls.push("SetActivationDescriptor A0 1 0 1.0".to_owned());
    match choices / 27 % 3 {
        0 => format!("GetBatchNormalizationForwardTrainingExWorkspaceSize H0 {mode} {ops} T0 T0 T0 T4 A0 @"),
        1 => format!("GetBatchNormalizationBackwardExWorkspaceSize H0 {mode} {ops} T0 T0 T0 T0 T0 T4 A0 @"),
        _ => format!("GetBatchNormalizationTrainingExReserveSpaceSize H0 {mode} {ops} A0 T0 @"),
    }
}

/// Extents: those of the tensor.
fn dropout(extents: &[i64], calls: &mut Vec<String>, choices: u64) -> String {
    tensor("T0", extents, choices % 3, calls);
    "DropoutGetReserveSpaceSize T0 @".to_owned()
}

/// Extents: batch, channels, time steps, taps.
fn long_convolution(extents: &[i64], _: &mut Vec<String>, choices: u64) -> String {
    let [batch, dim, steps, taps] = *extents else { return String::new() };
    format!(
        "LongFFTCausalConv1dGetBufferSizes {batch} {dim} {steps} {taps} {} @ @",
        [0, 1, 2, 9][choices as usize % 4]
    )
}

/// Asks for all pairs from `from` on, and returns how many showed a fault.
pub fn run(from: u64) -> usize {
    println!("sizes: CUDNN_SHIM_FUZZ_FROM={from}");
    let library = library();
    let mut rng = Rng(from);
    let mut handle = Machine::default();
    assert_eq!(handle.call(&library, "Create H0")[0], "0", "no handle");
    let handle = handle.value("H0").expect("a handle");
    let (mut answered, mut faults) = (BTreeMap::new(), 0);
    for _ in 0..PAIRS {
        let (name, most, ask) = QUERIES[rng.below(QUERIES.len())];
        let choices = rng.word();
        let large: Vec<i64> = most.iter().map(|&most| 1 + rng.below(most as usize) as i64).collect();
        // One of them is smaller, or each.
        let one = (rng.below(2) == 0).then(|| rng.below(most.len()));
        let shorter = |(at, &extent): (usize, &i64)| match one {
            Some(one) if one != at => extent,
            _ => 1 + rng.below(extent as usize) as i64,
        };
        let small: Vec<i64> = large.iter().enumerate().map(shorter).collect();
        let sizes = [&small, &large].map(|extents| {
            let mut machine = Machine::default();
            machine.point("H0", handle);
            let mut calls = Vec::new();
            let query = ask(extents, &mut calls, choices);
            for call in &calls {
                let answer = machine.call(&library, call);
                assert_eq!(answer[0], "0", "{call}");
            }
            let answer = machine.call(&library, &query);
            let made = calls.iter().filter_map(|call| call.strip_prefix("Create"));
            made.for_each(|kind| _ = machine.call(&library, &format!("Destroy{kind}")));
            let sizes: Vec<u64> = answer[1..].iter().filter_map(|size| size.parse().ok()).collect();
            (answer[0] == "0").then_some((query, sizes))
        });
        let [Some((_, least)), Some((query, enough))] = sizes else { continue };
        *answered.entry(name).or_insert(0) += 1;
        if least.iter().zip(&enough).any(|(small, large)| small > large) {
            faults += 1;
            println!("{name}: {small:?} take {least:?}, {large:?} only {enough:?} ({query})");
        }
    }
    println!("{PAIRS} pairs of sizes, answered: {answered:?}; {faults} faults");
    for (name, ..) in QUERIES {
        let of_all = answered.get(name).copied().unwrap_or(0);
        assert!(4 * of_all * QUERIES.len() > PAIRS, "{name}: only {of_all} pairs are answered");
    }
    faults
}
