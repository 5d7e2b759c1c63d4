//! Tensors that lie between each other: rows of one memory hold queries, keys, values and results
//! side by side, so that spans of what is read and what is written meet, and no element does.

use testkit::operations::masked::{Call, LOWEST, Mask, NEAREST};

use super::planned::STRATEGIES;
use super::*;

/// Where an operand lies in memory that others lie in as well: its first element.
type Places = HashMap<i64, usize>;

/// The operations with their matrices as columns of one, and where each begins.
fn side_by_side(mut operations: Vec<Operation>, width: i64) -> (Vec<Operation>, Places) {
    let matrices = |operation: &Operation| {
        let links = operation.links().map(|link| &link.tensor);
        links.filter(|tensor| tensor.dims[3] == width).map(|tensor| tensor.uid).collect::<Vec<_>>()
    };
    let mut uids: Vec<i64> = operations.iter().flat_map(matrices).collect();
    uids.sort_unstable();
    uids.dedup();
    let pitch = width * uids.len() as i64;
    for link in operations.iter_mut().flat_map(|of| of.reads.iter_mut().chain(&mut of.writes)) {
        if uids.contains(&link.tensor.uid) {
            let rows = link.tensor.dims[2];
            let strides = [rows * pitch, rows * pitch, pitch, 1];
            link.tensor = Arc::new(Tensor { strides: Dims::new(&strides), ..Tensor::clone(&link.tensor) });
        }
    }
    (operations, uids.into_iter().zip((0..).step_by(width as usize)).collect())
}

/// Runs a graph of FLOAT tensors, some of which lie in one memory, and says what it told.
fn run(execution: &Execution, memory: &mut [f32], places: &Places, world: &World) -> String {
    let mut workspace = vec![0_u8; execution.workspace()];
    let mut copies: HashMap<i64, Vec<u64>> =
        world.memory.iter().map(|(&uid, (_, words))| (uid, words.clone())).collect();
    let others: HashMap<i64, *mut u64> =
        copies.iter_mut().map(|(&uid, words)| (uid, words.as_mut_ptr())).collect();
    let base = memory.as_mut_ptr();
    let at = |uid: i64| match places.get(&uid) {
        Some(&place) => Some(base.wrapping_add(place).cast::<u8>().into()),
        None => others.get(&uid).map(|words| words.cast::<u8>().into()),
    };
    let mut report = CallReport { wanted: true, ..CallReport::default() };
    let ran = Context::cpu().call("execute", &mut report, |call| {
        // SAFETY: every tensor has its memory, and the workspace the bytes that are asked for.
        unsafe { execution.run(call, &at, workspace.as_mut_ptr().into()) }
    });
    ran.expect("the graph runs");
    report.kernels.iter().flat_map(|text| text.lines()).collect::<Vec<_>>().join("\n")
}

/// By any strategy they need no copy, and give what they give apart.
#[test]
fn tensors_between_each_other_are_computed_where_they_lie() {
    const WIDTH: i64 = 8;
    for (mask, is_forward) in
        [Mask::None, Mask::Causal].into_iter().flat_map(|mask| [(mask, true), (mask, false)])
    {
        let call = Call { dims: [1, 1, 9, 9], width: WIDTH, mask, data_type: DataType::Float };
        let (operations, given, results) = call.operations(is_forward);
        let (interleaved, places) = side_by_side(operations.clone(), WIDTH);
        let pitch = WIDTH as usize * places.len();
        for (way, strategy) in STRATEGIES {
            let what = format!("{mask:?}, forward: {is_forward}, {way}");
            let mut world = World::default();
            let mut memory = vec![f32::NAN; 9 * pitch];
            let mut rng = Rng(17);
            world.put(&by_value(LOWEST, DataType::Float, 4), &[f64::NEG_INFINITY]);
            world.put(&by_value(NEAREST, DataType::Float, 4), &[0.0]);
            let elements = |place: usize| (0..72).map(move |k| place + k / 8 * pitch + k % 8);
            for tensor in &given {
                let numbers = world.random(&mut rng, tensor);
                if let Some(&place) = places.get(&tensor.uid) {
                    elements(place).zip(numbers).for_each(|(at, number)| memory[at] = number as f32);
                }
            }
            results.iter().for_each(|tensor| world.room(tensor));
            if !is_forward {
                world.random(&mut rng, &float(5, &[1, 1, 9, 1]));
            }
            let planned = |operations: &[Operation]| {
                Execution::planned(&Graph { operations: operations.to_vec() }, strategy)
                    .expect("it is planned")
            };
            world.execute(&planned(&operations));
            let told = run(&planned(&interleaved), &mut memory, &places, &world);
            assert!(!told.contains("a copy of"), "{what}: {told}");
            for tensor in results.iter().filter(|tensor| places.contains_key(&tensor.uid)) {
                let own: Vec<f64> = elements(places[&tensor.uid]).map(|at| f64::from(memory[at])).collect();
                assert_near(&own, &world.get(tensor), 1e-5, &format!("{what}, tensor {}", tensor.uid));
            }
        }
    }
}
