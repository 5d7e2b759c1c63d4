//! Graph aggregation on both cores, equal in every bit; and what the CUDA core leaves out, as it
//! cannot refuse it.

use cudnn::dtype::DataType;
use cudnn::exec::Address;
use cudnn::ops::Plan;

use crate::cores::Cores;
use crate::double::Memory;
use crate::tensors::Words;
use testkit::graphs::{Graph, TYPES, plans};
use testkit::random::Rng;

/// Runs a plan on both cores and compares what they leave in every operand.
fn agree(cores: &mut Cores, plan: &dyn Plan, contents: &[Vec<u8>]) {
    let mut host: Vec<Words> = contents.iter().map(|bytes| Words::new(bytes)).collect();
    let device: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
    let touched = |k: usize| plan.operands()[k].is_touched();
    let place = |k: usize, at: *mut u8| if touched(k) { Address::from(at) } else { Address::NULL };
    let at: Vec<Address> =
        host.iter_mut().enumerate().map(|(k, words)| place(k, words.address_mut())).collect();
    // SAFETY: every operand has its span.
    unsafe { cores.cpu.run(plan, &at) }.expect("the CPU core");
    let at: Vec<Address> =
        device.iter().enumerate().map(|(k, memory)| place(k, memory.pointer().cast())).collect();
    // SAFETY: as above, on the device.
    unsafe { cores.cuda.run(plan, &at) }.expect("the CUDA core");
    for (k, (host, device)) in host.iter().zip(&device).enumerate().filter(|(k, _)| touched(*k)) {
        assert!(device.read() == host.bytes(), "{} of {plan}", plan.operands()[k].name);
    }
    cores.solved += 1;
}

/// Edges that lead nowhere leave memory outside of the features alone, which the double looks at.
fn astray(cores: &mut Cores, rng: &mut Rng) {
    let graph = Graph {
        sources: 4,
        offsets: vec![0, 2, 9, 5],
        indices: vec![0, 900, -7, 1, 2],
        map: Some(vec![4, 70, -1, 1, 0]),
    };
    for join in 0..4 {
        for plan in plans(&graph.call([2, 2, 1], [DataType::Float, DataType::Int64], join)) {
            let contents = graph.all_contents(&plan, rng);
            let device: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
            let at: Vec<Address> = device.iter().map(|memory| memory.pointer().into()).collect();
            // SAFETY: every operand has its span.
            unsafe { cores.cuda.run(&plan, &at) }.expect("the CUDA core");
            device.iter().for_each(|memory| _ = memory.read());
        }
    }
}

/// Everything here.
pub fn all(cores: &mut Cores) {
    let mut rng = Rng(42);
    for case in 0..48 {
        let sizes = [rng.pick(&[1, 3, 40]), rng.pick(&[1, 5, 30]), rng.pick(&[1, 4, 9])];
        let graph = Graph::random(&mut rng, sizes[0], sizes[1], sizes[2]);
        if graph.edges() == 0 {
            continue;
        }
        let columns = rng.pick(&[[1, 0, 0], [5, 0, 2], [0, 3, 0], [7, 4, 3], [33, 1, 0]]);
        let index = rng.pick(&[DataType::Int32, DataType::Int64]);
        for plan in plans(&graph.call(columns, [rng.pick(&TYPES), index], case % 4)) {
            let contents = graph.all_contents(&plan, &mut rng);
            agree(cores, &plan, &contents);
        }
    }
    astray(cores, &mut rng);
}
