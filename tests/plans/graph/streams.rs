//! Attention tile by tile: against plain loops, and against the same graph with whole matrices of
//! scores.

use cudnn::ops::graph::{BandMask, Link, Strategy, Tiles};
use testkit::operations::masked::{Call, LOWEST, Mask, NEAREST};

use super::overrides::extents;
use super::*;

/// Whether scores are computed in tiles.
fn streams(execution: &Execution) -> bool {
    execution.parts().any(|part| part.contains("in tiles of"))
}

fn in_tiles(operations: &[Operation], tiles: Tiles) -> Execution {
    attends::planned(operations, strategy(tiles))
}

/// Scores in such tiles, and never attention in one step.
pub(super) const fn strategy(tiles: Tiles) -> Strategy {
    Strategy { tiles, attends: None, ..Strategy::CPU }
}

/// Tiles of some rows and columns, however few scores there are.
fn small(rows: i64, columns: i64) -> Tiles {
    Tiles { rows, columns, least: 0, together: 0 }
}

/// Masks, lengths, biases, caps, sinks, shared heads, pages, packed sequences, and weights that are
/// dropped by numbers that the caller keeps: tiles of any extents give what plain loops give, as
/// tasks and step by step.
#[test]
fn tiles_give_what_plain_loops_give() {
    let is_attention = |operation: &Operation| {
        matches!(operation.kind, Kind::AttentionForward(_) | Kind::AttentionBackward(_))
    };
    let problems = operations::problems();
    let of_attention: Vec<_> =
        problems.iter().filter(|problem| problem.operations.iter().any(is_attention)).collect();
    assert!(of_attention.len() > 20);
    for (rows, columns, by_reference) in
        [(1, 1, false), (2, 3, false), (2, 3, true), (3, 2, false), (128, 256, false)]
    {
        for problem in &of_attention {
            let execution = in_tiles(&problem.operations, small(rows, columns));
            assert!(streams(&execution), "{}", problem.name);
            let mut world = World { by_reference, ..World::default() };
            problem.given.iter().for_each(|(tensor, numbers)| world.put(tensor, numbers));
            problem.wanted.iter().for_each(|(tensor, _)| world.room(tensor));
            world.execute(&execution);
            problem.check(&|tensor| world.get(tensor));
        }
    }
}

/// The world of a call, without results.
fn world_of(call: &Call, rng: &mut Rng, given: &[Arc<Tensor>]) -> World {
    let mut world = World::default();
    given.iter().for_each(|tensor| drop(world.random(rng, tensor)));
    world.put(&by_value(LOWEST, DataType::Float, 4), &[f64::NEG_INFINITY]);
    let bound = if let Mask::Window(bound) = call.mask { bound as f64 } else { 0.0 };
    world.put(&by_value(NEAREST, DataType::Float, 4), &[bound]);
    world
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
    let (single, half) = ((DataType::Float, 1e-5), (DataType::Half, 0.02));
    let extents = [[1, 2, 150, 300], [2, 1, 130, 130], [1, 1, 1, 700], [1, 3, 300, 20]];
    let of_any_type = extents.map(|dims| (dims, single)).into_iter().chain([(extents[0], half)]);
    for mask in [Mask::None, Mask::Causal, Mask::Window(40), Mask::Window(1)] {
        for (dims, (data_type, bound)) in of_any_type.clone() {
            let call = Call { dims, width: 24, mask, data_type };
            for is_forward in [true, false] {
                let (operations, given, results) = call.operations(is_forward);
                let mut world = world_of(&call, &mut rng, &given);
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
                        assert_near(own, whole, bound, &format!("{dims:?} {mask:?}, forward: {is_forward}"));
                    }
                }
            }
        }
    }
}

/// What stands outside of a mask, and how far it reaches, may be another number for each row,
/// column or head; no tile is left out then.
#[test]
fn masks_may_have_a_number_for_each_row() {
    let call = Call { dims: [2, 2, 9, 7], width: 4, mask: Mask::Window(3), data_type: DataType::Float };
    for dims in [[1, 1, 9, 1], [1, 1, 1, 7], [2, 1, 1, 1], [1, 2, 1, 1], [2, 2, 9, 7]] {
        for (uid, numbers) in [(LOWEST, [-4.0, f64::NEG_INFINITY]), (NEAREST, [1.0, 5.0])] {
            for is_forward in [true, false] {
                let (mut operations, given, results) = call.operations(is_forward);
                let own = float(uid, &dims);
                let (Kind::AttentionForward(of) | Kind::AttentionBackward(of)) = &mut operations[0].kind
                else {
                    panic!("attention")
                };
                let modifier = of.modifier.as_mut().expect("a mask");
                let links = modifier.operations.iter_mut().flat_map(|operation| &mut operation.reads);
                links.filter(|link| link.tensor.uid == uid).for_each(|link| link.tensor = own.clone());
                let count = dims.iter().product::<i64>() as usize;
                let own_numbers: Vec<f64> = (0..count).map(|k| numbers[(k / 2) % 2]).collect();
                let mut found = Vec::new();
                for tiles in [Tiles::NONE, small(2, 3)] {
                    let mut world = world_of(&call, &mut Rng(65), &given);
                    with_statistics(&call, &mut world);
                    world.put(&own, &own_numbers);
                    let execution = in_tiles(&operations, tiles);
                    assert_eq!(streams(&execution), tiles != Tiles::NONE, "{uid} of {dims:?}");
                    results.iter().for_each(|tensor| world.room(tensor));
                    world.execute(&execution);
                    found.push(results.iter().map(|tensor| world.get(tensor)).collect::<Vec<_>>());
                }
                for (own, whole) in found[1].iter().zip(&found[0]) {
                    assert_near(own, whole, 1e-5, &format!("{uid} of {dims:?}, forward: {is_forward}"));
                }
            }
        }
    }
}

/// Indices of tiles are exact in binary32, and there are some.
#[test]
fn tiles_have_rows_and_columns() {
    let most = 1 << 24;
    for (rows, columns, streamed) in
        [(3, 5, true), (0, 5, false), (2, most - 1, true), (2, most, false), (most, 2, false)]
    {
        let dims = [1, 1, rows, columns];
        let call = Call { dims, width: 4, mask: Mask::None, data_type: DataType::Float };
        let execution = in_tiles(&call.operations(true).0, small(2, 3));
        assert_eq!(streams(&execution), streamed, "{rows} x {columns}");
    }
}

/// Bands by any comparison, moved by a bound of rows or of columns and by both lengths, in tiles
/// that lie on either side of them.
#[test]
fn bands_leave_out_no_tile_that_has_something() {
    let mut rng = Rng(66);
    let call = Call { dims: [2, 2, 19, 17], width: 4, mask: Mask::Causal, data_type: DataType::Float };
    let [queries, keys] = [500, 501].map(|uid| packed(uid, DataType::Int32, &[2, 1, 1, 1]));
    let shift = by_value(502, DataType::Int32, 4);
    for case in 0..120 {
        let (mut operations, given, results) = call.operations(true);
        let Kind::AttentionForward(of) = &mut operations[0].kind else { panic!("attention") };
        let band = &mut of.modifier.as_mut().expect("a mask").operations[0];
        band.kind = Kind::BandMask(BandMask { comparison: 302 + case % 4 });
        let bound = [None, Some(Port::LeftBound), Some(Port::RightBound)][case as usize / 4 % 3];
        let mut read = |port, tensor: &Arc<Tensor>| {
            band.reads.push(Link { port, tensor: Arc::clone(tensor) });
        };
        bound.into_iter().for_each(|port| read(port, &shift));
        for (port, tensor) in [(Port::LengthQ, &queries), (Port::LengthKv, &keys)] {
            if rng.below(2) == 0 {
                read(port, tensor);
            }
        }
        let [q, k, d] = [19, 17, 21].map(|most| [0; 2].map(|_| rng.below(most) as f64));
        let mut found = Vec::new();
        for tiles in [Tiles::NONE, small(2, 3)] {
            let mut world = world_of(&call, &mut Rng(65), &given);
            world.put(&queries, &q);
            world.put(&keys, &k);
            world.put(&shift, &[d[0] - 10.0]);
            let execution = in_tiles(&operations, tiles);
            assert_eq!(streams(&execution), tiles != Tiles::NONE);
            results.iter().for_each(|tensor| world.room(tensor));
            world.execute(&execution);
            found.push(results.iter().map(|tensor| world.get(tensor)).collect::<Vec<_>>());
        }
        for (own, whole) in found[1].iter().zip(&found[0]) {
            assert_near(
                own,
                whole,
                1e-5,
                &format!("case {case}: {:?}, {q:?} {k:?} {d:?}", operations[0].kind),
            );
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
            let mut world = world_of(&narrow, &mut rng, &given);
            with_statistics(&narrow, &mut world);
            results.iter().for_each(|tensor| world.room(tensor));
            world.execute(&execution);
            // The same numbers in binary32.
            let (operations, own_given, own_results) = single.operations(is_forward);
            let mut in_single = world_of(&single, &mut rng, &[]);
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
        let mut world = world_of(&many, &mut rng, &given);
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
            let mut own = world_of(&one, &mut rng, &[]);
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

/// The CUDA core's, in tiles whatever the mask.
const IN_TILES: Strategy = Strategy { attends: None, ..Strategy::CUDA };

/// So does that of the CUDA core, whose tiles are of several heads, and begin where whole scores
/// would take more.
#[test]
fn tiles_of_several_heads_hold_no_matrix_of_scores() {
    let planned = |extent, is_forward| {
        let call =
            Call { dims: [4, 16, extent, extent], width: 64, mask: Mask::Causal, data_type: DataType::Half };
        let graph = Graph { operations: call.operations(is_forward).0 };
        let execution = Execution::planned(&graph, IN_TILES).expect("the graph runs");
        let whole = Strategy { tiles: Tiles::NONE, ..IN_TILES };
        let whole = Execution::planned(&graph, whole).expect("the graph runs").workspace();
        assert!(execution.workspace() <= whole, "{} instead of {whole}", execution.workspace());
        (streams(&execution), execution.workspace())
    };
    for is_forward in [true, false] {
        assert!(!planned(1024, is_forward).0);
        // Besides tiles the gradients of every head of keys and values, in binary32 and in 16
        // bits.
        for extent in [2048, 4096, 16_384, 131_072] {
            let (streams, bytes) = planned(extent, is_forward);
            let of_rows = 4 * 16 * extent as usize * 64 * if is_forward { 0 } else { 2 * (4 + 2) };
            assert!(streams && bytes <= (160 << 20) + of_rows, "{bytes} bytes for {extent} positions");
        }
    }
}

/// What is computed with whole scores stays so under smaller extents, and what is computed in tiles
/// does, however few scores are left.
#[test]
fn smaller_extents_are_computed_alike() {
    for (extent, in_tiles) in [(1024, false), (2048, true)] {
        let graph = |extent| {
            let dims = [4, 16, extent, extent];
            let call = Call { dims, width: 64, mask: Mask::Causal, data_type: DataType::Half };
            Graph { operations: call.operations(true).0 }
        };
        let whole = Execution::planned(&graph(extent), IN_TILES).expect("the graph runs");
        assert_eq!(streams(&whole), in_tiles, "{extent} positions");
        for smaller in [extent / 2, 8] {
            let own = whole.overridden(&extents(&graph(smaller))).expect("the graph runs");
            assert_eq!(streams(&own), in_tiles, "{smaller} positions of {extent}");
        }
    }
}

/// Of smaller extents more heads may go together: never so many that they take more workspace.
#[test]
fn tiles_of_several_heads_take_no_more_under_smaller_extents() {
    let call = |heads, extent| Call {
        dims: [1, heads, extent, extent],
        width: 64,
        mask: Mask::None,
        data_type: DataType::Float,
    };
    for is_forward in [true, false] {
        let graph = Graph { operations: call(15, 2100).operations(is_forward).0 };
        let whole = Execution::planned(&graph, IN_TILES).expect("the graph runs");
        for (heads, extent) in [(15, 1024), (14, 1024), (8, 2100), (13, 700), (1, 40)] {
            let smaller = Graph { operations: call(heads, extent).operations(is_forward).0 };
            let own = whole.overridden(&extents(&smaller)).expect("the graph runs");
            assert!(streams(&own), "{heads} heads with {extent} positions");
            let [own, most] = [own.workspace(), whole.workspace()];
            assert!(own <= most, "{own} bytes of {heads} heads with {extent} positions instead of {most}");
        }
    }
}
