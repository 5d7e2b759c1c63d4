//! Operations of graphs on the CUDA core, with what they have to give.

use std::collections::HashMap;

use cudnn::exec::{Address, CallReport, Execution};
use cudnn::ops::graph::{Graph, Tensor};

use crate::cores::Cores;
use crate::double::{self, Memory};
use testkit::operations::{self, Problem};

/// Bytes of words.
fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn run(cores: &mut Cores, problem: &Problem) {
    let execution =
        Execution::new(&Graph { operations: problem.operations.clone() }).expect("the graph runs");
    let mut host: HashMap<i64, Vec<u64>> = HashMap::new();
    let mut device: HashMap<i64, Memory> = HashMap::new();
    for (tensor, numbers) in problem.given.iter().chain(&problem.wanted) {
        // What is wanted is not there yet.
        let is_wanted = problem.wanted.iter().any(|(wanted, _)| wanted.uid == tensor.uid);
        let numbers = if is_wanted { vec![f64::NAN; numbers.len()] } else { numbers.clone() };
        let words = operations::words(tensor, &numbers);
        // What is passed by value lies in host memory.
        if tensor.by_value {
            host.insert(tensor.uid, words);
        } else {
            device.insert(tensor.uid, Memory::new(&bytes(&words)));
        }
    }
    let workspace = Memory::new(&vec![0xff; execution.workspace()]);
    let pointer = |uid: i64| -> Option<Address> {
        let on_host = host.get(&uid).map(|words| words.as_ptr().cast_mut().into());
        on_host.or_else(|| device.get(&uid).map(|memory| memory.pointer().into()))
    };
    let ran = cores.cuda.call("execute", &mut CallReport::default(), |call| {
        // SAFETY: every tensor has its memory, and the workspace the bytes that are asked for.
        unsafe { execution.run(call, &pointer, workspace.pointer().into()) }
    });
    ran.expect("the CUDA core");
    problem.check(&|tensor: &Tensor| {
        let bytes = device[&tensor.uid].read();
        let words: Vec<u64> =
            bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("8 bytes"))).collect();
        operations::numbers(tensor, &words)
    });
    cores.solved += 1;
}

#[test]
fn operations_of_graphs_give_what_plain_loops_give() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        let mut cores = Cores::new();
        operations::problems().iter().for_each(|problem| run(&mut cores, problem));
        println!("{} problems", cores.solved);
        // Sums of gradients are cut, and rows normalised in one step.
        let rows = ["row_norm_short_f32", "row_norm_back_block_f32", "row_norm_sums_f32"];
        for kernel in ["contract_join_f32", "contract_join_direct_f32"].into_iter().chain(rows) {
            assert!(!double::is_idle(kernel), "{kernel} is idle");
        }
    });
}
