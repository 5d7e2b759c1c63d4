//! From a graph to the plans that compute it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::allocator::WorkspaceAllocator;
use super::attend::{self, Attends, Supposed};
use super::chain::{self, ChainPlan};
use super::dag::Dag;
use super::fuse::{self, Fusion};
use super::steps::{Builder, Storage};
use super::stream::{self, StreamPlan, Tiles};
use super::{Graph, Kind, Tensor, expand, lower, order};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::ops::part::{Part, Place};
use crate::ops::plan::{MAX_OPERANDS, Plan};
use crate::reserve;

/// A tensor that is passed by value: read on the host, and written to the workspace before anything
/// else.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Its uid.
    pub uid: i64,
    /// The type of its elements.
    pub scalar: Scalar,
    /// How many elements it has.
    pub count: usize,
    /// The low bits of its one element, if that is known: then there is no pointer.
    pub constant: Option<u64>,
    /// Elements from one to the next.
    pub stride: usize,
    /// Bytes from the workspace on where they follow each other.
    pub offset: usize,
}

/// Where something lies in the workspace, and its bytes there, by operation and place.
type Places = HashMap<(usize, Storage), (usize, usize)>;

/// A tensor whose numbers say where something lies: those that lead nowhere are refused when the
/// graph runs.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Its uid.
    pub uid: i64,
    /// What it is to its operation, or what is made of it.
    pub name: &'static str,
    /// What they are below, if that does not depend on each other.
    pub below: Option<i64>,
}

/// How a graph is computed, where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// The tiles that scores are computed in.
    pub tiles: Tiles,
    /// Which products are one with what follows them.
    pub fusion: Fusion,
    /// Elements from which on operations that follow each other are computed block by block.
    pub chains: i64,
    /// About how many elements of each tensor a block has.
    pub block: i64,
    /// Elements up to which rows are normalised in one step that sums up gradients of parameters,
    /// where they are in one step at all.
    pub rows: Option<i64>,
    /// Which attention is one step, if any is.
    pub attends: Option<Attends>,
}

impl Strategy {
    /// For the CPU core, of which one thread sums up gradients of parameters: larger ones come in
    /// blocks, of which each thread has its own.
    pub const CPU: Strategy = Strategy {
        tiles: Tiles::DEFAULT,
        fusion: Fusion::All,
        chains: 32 << 10,
        block: 16 << 10,
        rows: Some(1 << 16),
        attends: Some(Attends::CPU),
    };
    /// For the CUDA core: a block is too little for a GPU, and no row too much.
    pub const CUDA: Strategy = Strategy {
        tiles: Tiles::CUDA,
        fusion: Fusion::Products,
        rows: Some(i64::MAX),
        attends: Some(Attends::CUDA),
        ..Strategy::BY_OPERATION
    };
    /// Each operation by itself.
    pub const BY_OPERATION: Strategy = Strategy {
        tiles: Tiles::NONE,
        fusion: Fusion::None,
        chains: i64::MAX,
        rows: None,
        attends: None,
        ..Strategy::CPU
    };
}

/// A graph as plans that run one after the other.
pub struct Program {
    /// The plans, in the order in which they run.
    pub parts: Vec<Part>,
    /// Of each plan the tensor whose numbers it may refuse.
    pub numbers: Vec<Option<Numbers>>,
    /// Of each plan the operation that it computes.
    pub names: Vec<&'static str>,
    /// What is passed by value.
    pub values: Vec<Value>,
    /// The uids of tensors that need a pointer, in ascending order.
    pub uids: Vec<i64>,
    /// Bytes of workspace.
    pub workspace: usize,
    /// Numbers that it is the program of the graph with, and of no other.
    pub supposed: Vec<Supposed>,
    /// What lies in it.
    places: Places,
    strategy: Strategy,
    /// Whether scores are computed in tiles.
    streams: bool,
}

impl Program {
    /// Plans the operations of a graph.
    ///
    /// # Errors
    /// Those of [`Graph::check`]. Not supported, with the operation and the reason: types and
    /// operations that are not computed, shapes that do not fit, a virtual tensor that nothing
    /// writes.
    pub fn new(graph: &Graph, strategy: Strategy) -> Result<Self> {
        Program::placed(graph, None, strategy)
    }

    /// Plans the operations of a graph that is that of `whole` under other extents. Smaller ones
    /// never take more workspace than `whole` does, though they may leave gaps that others do not
    /// fit into: then all lie where those of `whole` do.
    ///
    /// # Errors
    /// As [`new`](Program::new).
    pub fn under(graph: &Graph, whole: &Program) -> Result<Self> {
        // Scores that are kept whole take more than those that are not, however few there are.
        let least = if whole.streams { 0 } else { i64::MAX };
        let tiles = Tiles { least, ..whole.strategy.tiles };
        let chains = if whole.has_chains() { 0 } else { i64::MAX };
        let attends = whole.strategy.attends.map(|of| Attends { least: 0, ..of });
        let attends = attends.filter(|_| whole.names.iter().any(|name| ATTENDS.contains(name)));
        let strategy = Strategy { tiles, chains, attends, ..whole.strategy };
        let planned = |strategy| {
            let own = Program::new(graph, strategy)?;
            if own.workspace <= whole.workspace {
                return Ok((own, true));
            }
            let placed = Program::placed(graph, Some(&whole.places), strategy);
            Ok(placed.map_or((own, false), |placed| (placed, true)))
        };
        let (own, fits) = planned(strategy)?;
        if fits || tiles.together == 0 {
            return Ok(own);
        }
        // Other numbers of heads have other divisors: more of them may be together than of `whole`.
        Ok(planned(Strategy { tiles: Tiles { together: 0, ..tiles }, ..strategy })?.0)
    }

    fn has_chains(&self) -> bool {
        self.names.contains(&CHAIN)
    }

    /// Plans the operations in places of their own, or in those of another program, in which all
    /// have to fit.
    fn placed(graph: &Graph, given: Option<&Places>, strategy: Strategy) -> Result<Self> {
        let expanded = order::arranged(expand::expanded(graph)?);
        let attended = strategy.attends.and_then(|of| attend::attended(&expanded, of));
        let mut forms = Vec::new();
        let whole: Vec<(Cow<'_, Graph>, bool, &[Supposed])> = attended
            .iter()
            .map(|(form, supposed)| (form, &supposed[..]))
            .chain([(&*expanded, &[][..])])
            .flat_map(|(form, supposed)| {
                let streamed = stream::streamed(form, strategy.tiles);
                streamed.map(|form| (Cow::Owned(form), true, supposed)).into_iter().chain([(
                    Cow::Borrowed(form),
                    false,
                    supposed,
                )])
            })
            .collect();
        for (form, streams, supposed) in &whole {
            reserve::check()?;
            let (form, streams, supposed) = (&**form, *streams, *supposed);
            let fused = fuse::fused(form, strategy.fusion);
            let chained = chain::chained(fused.as_ref().unwrap_or(form), strategy);
            let others = [chained, fused].into_iter().flatten();
            forms.extend(others.map(|form| (Cow::Owned(form), streams, supposed)));
            forms.push((Cow::Borrowed(form), streams, supposed));
        }
        // What one form cannot compute the next one may; the last one is single operations.
        let mut outcome = Err(Error::Internal("no form of a graph".into()));
        for (form, streams, supposed) in forms {
            outcome = Program::of(&form, given, strategy).map(|program| Program {
                streams,
                uids: graph.uids(),
                supposed: supposed.to_vec(),
                ..program
            });
            // Without memory, no form is tried in place of the one that there would be with it.
            if outcome.as_ref().map_or_else(Error::is_want_of_memory, |_| true) {
                break;
            }
        }
        outcome
    }

    /// Plans the operations, none of which is a graph of others.
    fn of(graph: &Graph, given: Option<&Places>, strategy: Strategy) -> Result<Self> {
        let dag = Dag::new(graph)?;
        let mut allocator = WorkspaceAllocator::default();
        let (mut values, mut places) = (Vec::new(), Places::new());
        let mut place = |key: (usize, Storage), bytes: usize, [first, last]: [usize; 2]| {
            let begin = match given {
                None => allocator.allocate(bytes, first, last)?,
                Some(given) => given.get(&key).filter(|(_, most)| bytes <= *most)?.0,
            };
            places.insert(key, (begin, bytes));
            Some(begin)
        };
        let mut seen = HashSet::new();
        let beyond = || Error::unsupported("a workspace beyond 64 bits");
        let last = dag.operations.len() - 1;
        for tensor in dag.operations.iter().flat_map(|operation| operation.links()).map(|link| &link.tensor) {
            let tensor = dag.described(tensor);
            let key = storage_key(0, Storage::Tensor(tensor.uid));
            if !(tensor.is_virtual || tensor.by_value) || !seen.insert(key) {
                continue;
            }
            let (scalar, layout) = describe(&dag, tensor)?;
            let end = if layout.dims.contains(&0) {
                Some(0)
            } else {
                layout.padded_span().map(|(_, high)| high + 1)
            };
            let elements = end.and_then(|end| usize::try_from(end).ok()).ok_or_else(beyond)?;
            let bytes = elements.checked_mul(scalar.size()).ok_or_else(beyond)?;
            let writer = dag.writers.get(&tensor.uid).copied();
            if tensor.by_value && !tensor.is_virtual {
                if writer.is_some() {
                    return Err(Error::unsupported(format!(
                        "tensor {} is by value, and written",
                        tensor.uid
                    )));
                }
                let offset = place(key, bytes, [0, last]).ok_or_else(beyond)?;
                values.push(value(tensor, scalar, offset)?);
            } else {
                let first = writer.ok_or_else(|| {
                    Error::unsupported(format!("tensor {} is virtual, and nothing writes it", tensor.uid))
                })?;
                place(key, bytes, [first, dag.last_use(tensor.uid)]).ok_or_else(beyond)?;
            }
        }
        let (mut planned, mut numbers) = (Vec::new(), Vec::new());
        for (at, operation) in dag.operations.iter().enumerate() {
            let find = |tensor: &Tensor| describe(&dag, tensor);
            let explained = |error: Error| operation.explained(at, error);
            let tasks = match &operation.kind {
                Kind::Stream(region) => Some(boxed(StreamPlan::new(region, &find)?)),
                Kind::Chain(chain) => Some(boxed(ChainPlan::new(chain, &find)?)),
                _ => None,
            };
            if let Some((plan, storage, bytes)) = tasks {
                if storage.len() > MAX_OPERANDS {
                    return Err(Error::unsupported(format!("more than {MAX_OPERANDS} tensors")));
                }
                place(storage_key(at, Storage::Scratch(0)), bytes, [at, at]).ok_or_else(beyond)?;
                numbers.push(None);
                planned.push((plan, storage));
                continue;
            }
            let mut builder = Builder::new(operation, &find, lower::is_wide(operation)).map_err(explained)?;
            builder.joins_rows = strategy.rows;
            if let Some(given) = given {
                // Parts of sums go without room where there is none.
                let pieces = given
                    .iter()
                    .filter(|((of, place), _)| *of == at && matches!(place, Storage::Scratch(1..)));
                builder.most_of_parts = pieces.map(|(_, (_, bytes))| *bytes).max().unwrap_or(0);
            }
            lower::lower(operation, &mut builder).map_err(explained)?;
            numbers.push(builder.numbers);
            let (plan, storage, pieces) = builder.finish();
            if storage.len() > MAX_OPERANDS {
                return Err(explained(Error::unsupported(format!("more than {MAX_OPERANDS} tensors"))));
            }
            for (piece, &bytes) in pieces.iter().enumerate().filter(|&(_, &bytes)| bytes > 0) {
                place(storage_key(at, Storage::Scratch(piece)), bytes, [at, at]).ok_or_else(beyond)?;
            }
            planned.push((Box::new(plan) as Box<dyn Plan + Send + Sync>, storage));
        }
        let parts = planned.into_iter().enumerate().map(|(at, (plan, storage))| {
            let place = |place: &Storage| match (places.get(&storage_key(at, *place)), place) {
                (Some(&(offset, _)), _) => Place::workspace(offset),
                (None, Storage::Tensor(uid)) => Place::of(*uid),
                (None, Storage::Scratch(_)) => Place::workspace(0),
            };
            Part { places: storage.iter().map(place).collect(), plan }
        });
        let parts = parts.collect();
        let workspace = match given {
            None => allocator.size(),
            Some(given) => given.values().map(|(begin, bytes)| begin + bytes).max().unwrap_or(0),
        };
        let names = dag.operations.iter().map(|operation| operation.kind.name()).collect();
        Ok(Program {
            parts,
            numbers,
            names,
            values,
            uids: graph.uids(),
            workspace,
            supposed: Vec::new(),
            places,
            strategy,
            streams: false,
        })
    }
}

/// A plan of any kind with what belongs to it.
fn boxed<P: Plan + Send + Sync + 'static>(
    (plan, storage, bytes): (P, Vec<Storage>, usize),
) -> (Box<dyn Plan + Send + Sync>, Vec<Storage>, usize) {
    (Box::new(plan), storage, bytes)
}

/// Scratch is one operation's, a tensor everybody's.
fn storage_key(operation: usize, place: Storage) -> (usize, Storage) {
    match place {
        Storage::Tensor(_) => (0, place),
        Storage::Scratch(_) => (operation, place),
    }
}

/// The type of a tensor, and where its elements lie. What is virtual is what its writer says it is.
fn describe(dag: &Dag<'_>, tensor: &Tensor) -> Result<(Scalar, Layout)> {
    if tensor.is_virtual {
        let tensor = dag.described(tensor);
        return Ok((tensor.scalar()?, tensor.placed()?));
    }
    let layout = if tensor.by_value { tensor.placed() } else { tensor.layout() };
    Ok((tensor.scalar()?, layout?))
}

/// What is read of a tensor by value.
fn value(tensor: &Tensor, scalar: Scalar, offset: usize) -> Result<Value> {
    let layout = tensor.layout()?;
    let mut long = (0..layout.dims.rank()).filter(|&axis| layout.dims[axis] != 1);
    let (axis, more) = (long.next(), long.next());
    let count = axis.map_or(1, |axis| layout.dims[axis]);
    let stride = axis.map_or(1, |axis| layout.strides[axis]);
    match (more, usize::try_from(count), usize::try_from(stride)) {
        (None, Ok(count @ 0..=MOST_VALUES), Ok(stride)) => {
            Ok(Value { uid: tensor.uid, scalar, count, constant: tensor.constant, stride, offset })
        }
        _ => Err(Error::unsupported(format!("tensor {} of {} by value", tensor.uid, layout.dims))),
    }
}

/// The names of a chain, and of attention in one step and its gradients.
const CHAIN: &str = "chain";
const ATTENDS: [&str; 2] = ["attend", "attend backward"];

/// The most elements that are passed by value.
const MOST_VALUES: usize = 1024;
