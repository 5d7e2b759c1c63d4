//! Attention tile by tile: against plain loops, and against the same graph with whole matrices of
//! scores.

use cudnn::ops::graph::{Attention, BandMask, Modifier, Strategy, Tiles};

use super::*;

/// Whether scores are computed in tiles.
fn streams(execution: &Execution) -> bool {
    execution.parts().any(|part| part.contains("in tiles of"))
}

fn in_tiles(operations: &[Operation], tiles: Tiles) -> Execution {
    Execution::planned(&Graph { operations: operations.to_vec() }, Strategy { tiles, ..Strategy::CPU })
        .expect("the graph runs")
}

/// Tiles of some rows and columns, however few scores there are.
fn small(rows: i64, columns: i64) -> Tiles {
    Tiles { rows, columns, least: 0 }
}

/// Masks, lengths, biases, caps, sinks, shared heads, pages, packed sequences, and weights that are
/// dropped by numbers that the caller keeps: tiles of any extents give what plain loops give.
#[test]
fn tiles_give_what_plain_loops_give() {
    let is_attention = |operation: &Operation| {
        matches!(operation.kind, Kind::AttentionForward(_) | Kind::AttentionBackward(_))
    };
    let problems = operations::problems();
    let of_attention: Vec<_> =
        problems.iter().filter(|problem| problem.operations.iter().any(is_attention)).collect();
    assert!(of_attention.len() > 20);
    for (rows, columns) in [(1, 1), (2, 3), (3, 2), (128, 256)] {
        for problem in &of_attention {
            let execution = in_tiles(&problem.operations, small(rows, columns));
            assert!(streams(&execution), "{}", problem.name);
            let mut world = World::default();
            problem.given.iter().for_each(|(tensor, numbers)| world.put(tensor, numbers));
            problem.wanted.iter().for_each(|(tensor, _)| world.room(tensor));
            world.execute(&execution);
            problem.check(&|tensor| world.get(tensor));
        }
    }
}

/// What the mask of a call is.
#[derive(Clone, Copy, Debug)]
enum Mask {
    None,
    Causal,
    /// Columns up to the row, and this many before it.
    Window(i64),
}

struct Call {
    dims: [i64; 4],
    width: i64,
    mask: Mask,
    /// The type of all matrices.
    data_type: DataType,
}

impl Call {
    fn operations(&self, is_forward: bool) -> (Vec<Operation>, Vec<Arc<Tensor>>, Vec<Arc<Tensor>>) {
        let [batch, heads, rows, columns] = self.dims;
        let of = |uid, heads, rows, width| packed(uid, self.data_type, &[batch, heads, rows, width]);
        let (q, k, v) =
            (of(1, heads, rows, self.width), of(2, 1, columns, self.width), of(3, 1, columns, self.width));
        let (o, stats) = (of(4, heads, rows, self.width), float(5, &[batch, heads, rows, 1]));
        let (lowest, bound) = (by_value(6, DataType::Float, 4), by_value(7, DataType::Float, 4));
        let all = [batch, heads, rows, columns];
        let [input, between, output] = [100, 101, 102].map(|uid| hidden(uid, DataType::Float, &all));
        let band = |comparison, x: &Arc<Tensor>, y: &Arc<Tensor>, bound: Option<(Port, &Arc<Tensor>)>| {
            let reads: Vec<_> = [(Port::X, x), (Port::B, &lowest)].into_iter().chain(bound).collect();
            Operation::new(Kind::BandMask(BandMask { comparison }), &reads, &[(Port::Y, y)])
        };
        let (operations, last) = match self.mask {
            Mask::None => (Vec::new(), 100),
            Mask::Causal => (vec![band(303, &input, &output, None)], 102),
            Mask::Window(_) => {
                let left = Some((Port::LeftBound, &bound));
                (vec![band(303, &input, &between, None), band(302, &between, &output, left)], 102)
            }
        };
        let modifier = Modifier { operations, input: 100, output: last };
        let modifier = (last != 100).then_some(modifier);
        let settings = Attention { modifier, ..Attention::default() };
        if is_forward {
            let kind = Kind::AttentionForward(settings);
            let reads = [(Port::Q, &q), (Port::K, &k), (Port::V, &v)];
            let writes = [(Port::O, &o), (Port::Stats, &stats)];
            return (
                vec![Operation::new(kind, &reads, &writes)],
                vec![q.clone(), k.clone(), v.clone()],
                vec![o, stats],
            );
        }
        let gradient = of(8, heads, rows, self.width);
        let (dq, dk, dv) =
            (of(9, heads, rows, self.width), of(10, 1, columns, self.width), of(11, 1, columns, self.width));
        let kind = Kind::AttentionBackward(settings);
        let reads = [
            (Port::Q, &q),
            (Port::K, &k),
            (Port::V, &v),
            (Port::O, &o),
            (Port::Do, &gradient),
            (Port::Stats, &stats),
        ];
        let operation = Operation::new(kind, &reads, &[(Port::Dq, &dq), (Port::Dk, &dk), (Port::Dv, &dv)]);
        (
            vec![operation],
            vec![q.clone(), k.clone(), v.clone(), o.clone(), gradient.clone()],
            vec![dq, dk, dv],
        )
    }

    /// The world of a call, without results.
    fn world(&self, rng: &mut Rng, given: &[Arc<Tensor>]) -> World {
        let mut world = World::default();
        given.iter().for_each(|tensor| drop(world.random(rng, tensor)));
        world.put(&by_value(6, DataType::Float, 4), &[f64::NEG_INFINITY]);
        let bound = if let Mask::Window(bound) = self.mask { bound as f64 } else { 0.0 };
        world.put(&by_value(7, DataType::Float, 4), &[bound]);
        world
    }
}

/// Statistics that belong to the scores: those of the forward pass with whole matrices.
fn with_statistics(call: &Call, world: &mut World) {
    let (operations, _, results) = call.operations(true);
    results.iter().for_each(|tensor| world.room(tensor));
    world.execute(&in_tiles(&operations, Tiles::NONE));
}

/// More rows and columns than a tile has, in tiles and whole; tiles outside of the mask are left
/// out.
#[test]
fn tiles_give_what_whole_matrices_give() {
    let mut rng = Rng(61);
    for mask in [Mask::None, Mask::Causal, Mask::Window(40), Mask::Window(1)] {
        for dims in [[1, 2, 150, 300], [2, 1, 130, 130], [1, 1, 1, 700], [1, 3, 300, 20]] {
            let call = Call { dims, width: 24, mask, data_type: DataType::Float };
            for is_forward in [true, false] {
                let (operations, given, results) = call.operations(is_forward);
                let mut world = call.world(&mut rng, &given);
                with_statistics(&call, &mut world);
                let mut found = Vec::new();
                for tiles in [Tiles::NONE, small(64, 96), Tiles { least: 0, ..Tiles::DEFAULT }] {
                    let execution = in_tiles(&operations, tiles);
                    assert_eq!(streams(&execution), tiles != Tiles::NONE);
                    results.iter().for_each(|tensor| world.room(tensor));
                    world.execute(&execution);
                    found.push(results.iter().map(|tensor| world.get(tensor)).collect::<Vec<_>>());
                }
                for own in &found[1..] {
                    for (own, whole) in own.iter().zip(&found[0]) {
                        assert_near(own, whole, 1e-5, &format!("{dims:?} {mask:?}, forward: {is_forward}"));
                    }
                }
            }
        }
    }
}

/// Numbers of 16 bits: weights and gradients of scores are multiplied in the type of the matrices,
/// by tile instructions where there are some, and stay as near as that type is.
#[test]
fn narrow_attention_multiplies_narrow_weights() {
    let mut rng = Rng(63);
    for (data_type, name) in [(DataType::Bfloat16, "bf16"), (DataType::Half, "f16")] {
        for is_forward in [true, false] {
            let narrow = Call { dims: [1, 2, 150, 300], width: 64, mask: Mask::Causal, data_type };
            let single = Call { data_type: DataType::Float, ..narrow };
            let (operations, given, results) = narrow.operations(is_forward);
            let execution = in_tiles(&operations, Tiles::DEFAULT);
            let parts: Vec<String> = execution.parts().collect();
            let steps = parts.iter().flat_map(|part| part.split("; "));
            let mut products = steps.filter(|step| step.contains("contract ")).peekable();
            assert!(products.peek().is_some());
            let own = format!("contract {name}*{name}->");
            products.for_each(|step| assert!(step.contains(&own) && step.contains(" tiles "), "{step}"));
            let mut world = narrow.world(&mut rng, &given);
            with_statistics(&narrow, &mut world);
            results.iter().for_each(|tensor| world.room(tensor));
            world.execute(&execution);
            // The same numbers in binary32.
            let (operations, own_given, own_results) = single.operations(is_forward);
            let mut in_single = single.world(&mut rng, &[]);
            let statistics = float(5, &[1, 2, 150, 1]);
            own_given.iter().zip(&given).for_each(|(to, from)| in_single.put(to, &world.get(from)));
            in_single.put(&statistics, &world.get(&statistics));
            own_results.iter().for_each(|tensor| in_single.room(tensor));
            in_single.execute(&in_tiles(&operations, Tiles::NONE));
            for (narrow, wide) in results.iter().zip(&own_results) {
                let (found, want) = (world.get(narrow), in_single.get(wide));
                assert_near(&found, &want, 0.03, &format!("{name}, forward: {is_forward}"));
            }
        }
    }
}

/// A head in a batch of many, whose tasks have a thread each, and alone, where all threads share
/// its steps.
#[test]
fn bits_depend_on_no_batch_and_no_threads() {
    let mut rng = Rng(62);
    let types = [DataType::Float, DataType::Bfloat16];
    for (is_forward, data_type) in [true, false].into_iter().flat_map(|way| types.map(|of| (way, of))) {
        let many = Call { dims: [5, 1, 200, 333], width: 40, mask: Mask::Causal, data_type };
        let one = Call { dims: [1, 1, 200, 333], ..many };
        let (operations, given, results) = many.operations(is_forward);
        let mut world = many.world(&mut rng, &given);
        with_statistics(&many, &mut world);
        results.iter().for_each(|tensor| world.room(tensor));
        world.execute(&in_tiles(&operations, Tiles::DEFAULT));
        let (alone, own_given, own_results) = one.operations(is_forward);
        let execution = in_tiles(&alone, Tiles::DEFAULT);
        assert!(streams(&execution));
        let part = |numbers: Vec<f64>, batch: usize| {
            let count = numbers.len() / 5;
            numbers[batch * count..][..count].to_vec()
        };
        for batch in [0, 3, 4] {
            let mut own = one.world(&mut rng, &[]);
            for (whole, tensor) in given
                .iter()
                .zip(&own_given)
                .chain(many.operations(true).2.iter().zip(&one.operations(true).2))
            {
                own.put(tensor, &part(world.get(whole), batch));
            }
            own_results.iter().for_each(|tensor| own.room(tensor));
            own.execute(&execution);
            for (whole, tensor) in results.iter().zip(&own_results) {
                assert!(
                    own.get(tensor) == part(world.get(whole), batch),
                    "batch {batch} of tensor {}",
                    tensor.uid
                );
            }
        }
    }
}

/// The workspace grows with rows and columns, not with their product.
#[test]
fn the_workspace_holds_no_matrix_of_scores() {
    for is_forward in [true, false] {
        let sizes = [512, 1024, 8192].map(|extent| {
            let (dims, data_type) = ([1, 8, extent, extent], DataType::Float);
            let call = Call { dims, width: 64, mask: Mask::Causal, data_type };
            let execution = in_tiles(&call.operations(is_forward).0, Tiles::DEFAULT);
            assert!(streams(&execution));
            execution.workspace()
        });
        // A few vectors for each row of each head.
        let of_rows = |extent: usize| if is_forward { 64 * extent } else { 8 * extent * 4 * 64 * 6 };
        for (size, extent) in sizes.into_iter().zip([512, 1024, 8192]) {
            assert!(size <= (512 << 10) + of_rows(extent), "{size} bytes for {extent} positions");
        }
    }
}
