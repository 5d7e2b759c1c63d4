//! Operations of graphs on the CUDA core, with what they have to give.

use std::collections::HashMap;
use std::sync::Arc;

use cudnn::exec::{Address, CallReport, Context, Execution};
use cudnn::ops::graph::{Graph, Strategy, Tensor};

use crate::cores::Cores;
use crate::double::{self, Memory};
use testkit::operations::{self, Problem};

/// Bytes of words.
fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A tensor with its numbers.
pub type Numbers = (Arc<Tensor>, Vec<f64>);

/// What the execution leaves of these results on a core; the device's memory, if it is the CUDA
/// core, is its own.
pub fn results(
    core: &Context, execution: &Execution, given: &[Numbers], wanted: &[Arc<Tensor>],
) -> HashMap<i64, Vec<f64>> {
    results_around(core, execution, given, wanted, |run| run())
}

/// The same, where `around` runs the execution, with all memory there.
pub fn results_around(
    core: &Context, execution: &Execution, given: &[Numbers], wanted: &[Arc<Tensor>],
    around: impl FnOnce(&mut dyn FnMut()),
) -> HashMap<i64, Vec<f64>> {
    // What is passed by value lies in host memory.
    let is_host = |tensor: &Tensor| tensor.by_value || core.is_cpu();
    let mut host: HashMap<i64, Vec<u64>> = HashMap::new();
    let mut device: HashMap<i64, Memory> = HashMap::new();
    // What is wanted is not there yet.
    let absent = |tensor: &Arc<Tensor>| {
        let count: i64 = tensor.dims.iter().product();
        (Arc::clone(tensor), vec![f64::NAN; count as usize])
    };
    for (tensor, numbers) in given.iter().cloned().chain(wanted.iter().map(absent)) {
        let words = operations::words(&tensor, &numbers);
        if is_host(&tensor) {
            host.insert(tensor.uid, words);
        } else {
            device.insert(tensor.uid, Memory::new(&bytes(&words)));
        }
    }
    let mut own = vec![u64::MAX; execution.workspace().div_ceil(8)];
    let there = (!core.is_cpu()).then(|| Memory::new(&vec![0xff; execution.workspace()]));
    let workspace: Address = match &there {
        Some(memory) => memory.pointer().into(),
        None => own.as_mut_ptr().into(),
    };
    let pointer = |uid: i64| -> Option<Address> {
        let on_host = host.get(&uid).map(|words| words.as_ptr().cast_mut().into());
        on_host.or_else(|| device.get(&uid).map(|memory| memory.pointer().into()))
    };
    around(&mut || {
        let ran = core.call("execute", &mut CallReport::default(), |call| {
            // SAFETY: every tensor has its memory, and the workspace the bytes that are asked for.
            unsafe { execution.run(call, &pointer, workspace) }
        });
        ran.expect("the graph runs");
    });
    let numbers = |tensor: &Arc<Tensor>| {
        let words: Vec<u64> = match device.get(&tensor.uid) {
            None => host[&tensor.uid].clone(),
            Some(memory) => {
                let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
                memory.read().chunks(8).map(word).collect()
            }
        };
        (tensor.uid, operations::numbers(tensor, &words))
    };
    wanted.iter().map(numbers).collect()
}

/// Runs a problem on the CUDA core, and looks at what it leaves.
pub fn run(cores: &mut Cores, problem: &Problem, strategy: Strategy) {
    let graph = Graph { operations: problem.operations.clone() };
    let execution = Execution::planned(&graph, strategy).expect("the graph runs");
    let wanted: Vec<_> = problem.wanted.iter().map(|(tensor, _)| Arc::clone(tensor)).collect();
    // What is given and wanted is not given.
    let is_wanted = |tensor: &Tensor| wanted.iter().any(|wanted| wanted.uid == tensor.uid);
    let given: Vec<_> = problem.given.iter().filter(|(tensor, _)| !is_wanted(tensor)).cloned().collect();
    let found = results(&cores.cuda, &execution, &given, &wanted);
    problem.check(&|tensor: &Tensor| found[&tensor.uid].clone());
    cores.solved += 1;
}

#[test]
fn operations_of_graphs_give_what_plain_loops_give() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        let mut cores = Cores::new();
        operations::problems().iter().for_each(|problem| run(&mut cores, problem, Strategy::CPU));
        println!("{} problems", cores.solved);
        // Sums of gradients are cut, and rows normalised in one step.
        let rows = ["row_norm_short_f32", "row_norm_back_block_f32", "row_norm_sums_f32"];
        for kernel in ["contract_join_f32", "contract_join_direct_f32"].into_iter().chain(rows) {
            assert!(!double::is_idle(kernel), "{kernel} is idle");
        }
    });
}
