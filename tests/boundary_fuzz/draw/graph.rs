//! The calls that describe a graph, its plan and its run.

use cudnn::dtype::Scalar;

use super::{Tensor, code, list};
use testkit::random::Rng;

// Kinds of descriptors, types of attributes, and attributes, by their numbers in `cudnn.h`.
pub(super) const ENGINE: u32 = 2;
pub(super) const ENGINE_CONFIG: u32 = 3;
pub(super) const PLAN: u32 = 5;
pub(super) const GRAPH: u32 = 15;
pub(super) const PACK: u32 = 16;
pub(super) const TENSOR: u32 = 17;

pub(super) const HANDLE: u32 = 0;
pub(super) const DATA_TYPE: u32 = 1;
pub(super) const BOOLEAN: u32 = 2;
pub(super) const INT64: u32 = 3;
pub(super) const FLOAT: u32 = 4;
pub(super) const VOID_PTR: u32 = 6;
pub(super) const POINTWISE_MODE: u32 = 14;
pub(super) const DESCRIPTOR: u32 = 15;

// Flags of tensors.
const VIRTUAL: u32 = 907;
const BY_VALUE: u32 = 908;

/// Graphs of one line while their calls are written, one after the other.
pub(super) struct Graph<'a> {
    calls: &'a mut Vec<String>,
    descriptors: usize,
    operations: Vec<String>,
    /// The caller's tensors of the graph at hand, whose ids count from 1.
    held: Vec<Held>,
    /// Buffers and runs of all graphs.
    buffers: usize,
    runs: usize,
    /// Draws the extents of an execution, which are at most those that are asked for.
    smaller: Option<Rng>,
}

/// A tensor of the caller's.
struct Held {
    buffer: String,
    /// What the buffer holds; none if an earlier graph has it.
    content: Option<String>,
    layout: Tensor,
}

/// Where the rows of each batch begin in a ragged tensor: a tensor of counts, and the elements of
/// one.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) counts: &'a Node,
    pub(super) multiplier: i64,
}

/// A tensor of a graph: its descriptor, its id, and how its elements lie.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) uid: i64,
    pub(super) layout: Tensor,
}

impl Node {
    pub(super) fn dims(&self) -> &[i64] {
        &self.layout.dims
    }
}

impl<'a> Graph<'a> {
    pub(super) fn new(calls: &'a mut Vec<String>) -> Graph<'a> {
        let (operations, held) = (Vec::new(), Vec::new());
        Graph { calls, descriptors: 0, operations, held, buffers: 0, runs: 0, smaller: None }
    }

    /// The same with smaller extents, which are the choice of a seed.
    pub(super) fn smaller(calls: &'a mut Vec<String>, seed: u64) -> Graph<'a> {
        Graph { smaller: Some(Rng(seed)), ..Graph::new(calls) }
    }

    /// An extent: this one, or one that is at most as large and at least as large as `least`.
    pub(super) fn extent(&mut self, least: i64, drawn: i64) -> i64 {
        match &mut self.smaller {
            Some(rng) => match rng.below(2) {
                0 => least + rng.below((drawn - least + 1) as usize) as i64,
                _ => drawn,
            },
            None => drawn,
        }
    }

    pub(super) fn create(&mut self, kind: u32) -> String {
        let name = format!("G{}", self.descriptors);
        self.descriptors += 1;
        self.calls.push(format!("BackendCreateDescriptor {kind} {name}"));
        name
    }

    pub(super) fn set(&mut self, name: &str, attribute: u32, ty: u32, letter: char, values: &[String]) {
        let (count, values) = (values.len(), values.join(","));
        self.calls.push(format!("BackendSetAttribute {name} {attribute} {ty} {count} {letter}:[{values}]"));
    }

    pub(super) fn integers(&mut self, name: &str, attribute: u32, values: &[i64]) {
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        self.set(name, attribute, INT64, 'q', &values);
    }

    pub(super) fn choice(&mut self, name: &str, attribute: u32, ty: u32, value: u32) {
        self.set(name, attribute, ty, 'i', &[value.to_string()]);
    }

    pub(super) fn refer(&mut self, name: &str, attribute: u32, to: &str) {
        self.set(name, attribute, DESCRIPTOR, 'p', &[to.to_owned()]);
    }

    pub(super) fn finish(&mut self, name: &str) {
        self.calls.push(format!("BackendFinalize {name}"));
    }

    /// A tensor, the caller's with this content, or virtual.
    pub(super) fn tensor(&mut self, rng: &mut Rng, of: Scalar, dims: &[i64], content: Option<&str>) -> Node {
        let rank = dims.len();
        let order: Vec<usize> = match rng.below(2) {
            0 => (0..rank).collect(),
            _ => [0].into_iter().chain(2..rank).chain([1]).collect(),
        };
        self.laid_out(&Tensor::ordered(of, dims, &order, &vec![0; rank]), content)
    }

    pub(super) fn laid_out(&mut self, layout: &Tensor, content: Option<&str>) -> Node {
        let Some(content) = content else { return self.describe(layout, None, &[], None) };
        self.hold(layout, Some(content), &[])
    }

    /// The caller's tensor whose batches follow each other in `memory`.
    pub(super) fn ragged(&mut self, layout: &Tensor, memory: &Tensor, content: &str, ends: Ends<'_>) -> Node {
        let buffer = self.new_buffer();
        self.held.push(Held { buffer, content: Some(content.to_owned()), layout: memory.clone() });
        self.describe(layout, Some(self.held.len()), &[], Some(ends))
    }

    /// A row of one element, given by value.
    pub(super) fn value(&mut self, of: Scalar, rank: usize, content: &str) -> Node {
        self.hold(&Tensor::packed(of, &vec![1; rank]), Some(content), &[BY_VALUE])
    }

    /// What an earlier graph of the line has left in its tensor number `held`, in this layout.
    pub(super) fn again(&mut self, buffer: &str, layout: &Tensor, ends: Option<Ends<'_>>) -> Node {
        self.held.push(Held { buffer: buffer.to_owned(), content: None, layout: layout.clone() });
        self.describe(layout, Some(self.held.len()), &[], ends)
    }

    /// The buffer of a tensor of the caller's.
    pub(super) fn buffer_of(&self, node: &Node) -> String {
        self.held[node.uid as usize - 1].buffer.clone()
    }

    fn hold(&mut self, layout: &Tensor, content: Option<&str>, flags: &[u32]) -> Node {
        let buffer = self.new_buffer();
        self.held.push(Held { buffer, content: content.map(str::to_owned), layout: layout.clone() });
        self.describe(layout, Some(self.held.len()), flags, None)
    }

    fn new_buffer(&mut self) -> String {
        self.buffers += 1;
        format!("B{}", self.buffers - 1)
    }

    /// A descriptor, of the caller's tensor with this number or of a virtual one.
    fn describe(
        &mut self, layout: &Tensor, number: Option<usize>, flags: &[u32], ends: Option<Ends<'_>>,
    ) -> Node {
        let name = self.create(TENSOR);
        let uid = number.unwrap_or(1000 + self.descriptors) as i64;
        self.integers(&name, 906, &[uid]);
        self.choice(&name, 901, DATA_TYPE, code(layout.scalar));
        self.integers(&name, 900, &[layout.scalar.size() as i64]);
        self.integers(&name, 902, &layout.dims);
        self.integers(&name, 903, &layout.strides);
        if let Some(ends) = ends {
            self.refer(&name, 913, &ends.counts.name);
            self.integers(&name, 914, &[ends.multiplier]);
        }
        let is_virtual = number.is_none().then_some(VIRTUAL);
        for flag in flags.iter().copied().chain(is_virtual) {
            self.set(&name, flag, BOOLEAN, 'b', &["1".to_owned()]);
        }
        self.finish(&name);
        Node { name, uid, layout: layout.clone() }
    }

    /// An operation that reads and writes these by their attributes.
    pub(super) fn operation(&mut self, kind: u32, links: &[(u32, &str)]) -> String {
        let name = self.create(kind);
        links.iter().for_each(|(attribute, to)| self.refer(&name, *attribute, to));
        self.operations.push(name.clone());
        name
    }

    /// The operations since `first` as a graph of their own.
    pub(super) fn inner(&mut self, first: usize) -> String {
        let operations = self.operations.split_off(first);
        self.graph_of(&operations, false)
    }

    /// How many operations there are.
    pub(super) fn operations(&self) -> usize {
        self.operations.len()
    }

    fn graph_of(&mut self, operations: &[String], is_overridden: bool) -> String {
        let graph = self.create(GRAPH);
        self.set(&graph, 800, HANDLE, 'p', &["H0".to_owned()]);
        self.set(&graph, 801, DESCRIPTOR, 'p', operations);
        if is_overridden {
            self.set(&graph, 805, BOOLEAN, 'b', &["1".to_owned()]);
        }
        self.finish(&graph);
        graph
    }

    /// Makes the plan, asks for its workspace, and executes it; with the extents of another one if
    /// there is one.
    pub(super) fn run(&mut self, other: Option<&Graph<'_>>) {
        let operations = std::mem::take(&mut self.operations);
        let graph = self.graph_of(&operations, other.is_some());
        let engine = self.create(ENGINE);
        self.refer(&engine, 1300, &graph);
        self.integers(&engine, 1301, &[1]);
        self.finish(&engine);
        let config = self.create(ENGINE_CONFIG);
        self.refer(&config, 300, &engine);
        self.finish(&config);
        let plan = self.create(PLAN);
        self.set(&plan, 400, HANDLE, 'p', &["H0".to_owned()]);
        self.refer(&plan, 401, &config);
        self.finish(&plan);
        let held = std::mem::take(&mut self.held);
        let executed = other.map_or(&held, |other| &other.held);
        let token = |(held, as_executed): (&Held, &Held)| match &held.content {
            Some(content) => as_executed.layout.buffer(&held.buffer, content),
            None => held.buffer.clone(),
        };
        let buffers: Vec<String> = held.iter().zip(executed).map(token).collect();
        self.calls.push(format!("Hold {}", buffers.join(" ")));
        let lists = other.map(|other| {
            let of = |part: fn(&Tensor) -> &[i64]| {
                other.held.iter().map(|held| list(part(&held.layout))).collect::<Vec<_>>().join(" ")
            };
            let names = [format!("V{}", self.runs), format!("X{}", self.runs)];
            self.calls.push(format!("Lists {} {}", names[0], of(|layout| &layout.dims)));
            self.calls.push(format!("Lists {} {}", names[1], of(|layout| &layout.strides)));
            names
        });
        let workspace = format!("W{}", self.runs);
        self.runs += 1;
        if let Some(lists) = &lists {
            // What these extents take, which is at most what the plan says.
            let pack = self.pack(&held, Some(lists), None);
            self.calls.push(format!("GetExecutionPlanWorkspaceSize H0 {plan} {pack} @=w"));
        } else {
            self.calls.push(format!("BackendGetAttribute {plan} 402 {INT64} 1 @=c @l=w"));
        }
        self.calls.push(format!("Hold {workspace}:u8:0..$w:scratch"));
        let pack = self.pack(&held, lists.as_ref(), Some(&workspace));
        self.calls.push(format!("BackendExecute H0 {plan} {pack}"));
    }

    fn pack(&mut self, held: &[Held], lists: Option<&[String; 2]>, workspace: Option<&str>) -> String {
        let pack = self.create(PACK);
        let uids: Vec<i64> = (1..=held.len() as i64).collect();
        let names: Vec<String> = held.iter().map(|held| held.buffer.clone()).collect();
        self.integers(&pack, 1000, &uids);
        self.set(&pack, 1001, VOID_PTR, 'p', &names);
        if let Some(workspace) = workspace {
            self.set(&pack, 1003, VOID_PTR, 'p', &[workspace.to_owned()]);
        }
        if let Some([dims, strides]) = lists {
            self.integers(&pack, 1010, &uids);
            for (attribute, list) in [(1011, dims), (1012, strides)] {
                self.calls.push(format!("BackendSetAttribute {pack} {attribute} {VOID_PTR} 1 {list}"));
            }
        }
        self.finish(&pack);
        pack
    }
}
