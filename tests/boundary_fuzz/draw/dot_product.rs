//! Scaled dot-product attention through graphs: forward, and backward from what forward has left.

use cudnn::dtype::Scalar;

use super::graph::{Ends, FLOAT, Graph, Node, POINTWISE_MODE};
use super::{Tensor, scale_to};
use testkit::random::Rng;

// Kinds of descriptors, by their numbers in `cudnn.h`.
const POINTWISE: u32 = 0;
const OF_POINTWISE: u32 = 13;
const FORWARD: u32 = 41;
const BACKWARD: u32 = 43;
const BAND_MASK: u32 = 44;
const SOFTMAX: u32 = 45;

// Numbers of pointwise modes.
const ADD: u32 = 0;
const MUL: u32 = 1;
const DIV: u32 = 6;
const TANH: u32 = 101;
const GREATER: u32 = 302;
const NOT_LESS: u32 = 303;

/// The attributes of the graph of the scores, with the ids of its input and of its output.
const INNER: [(u32, [u32; 3]); 2] = [(FORWARD, [2811, 2812, 2813]), (BACKWARD, [2867, 2868, 2869])];

struct Attention {
    of: Scalar,
    batch: i64,
    /// Of Q, K and V.
    heads: [i64; 3],
    /// Rows of Q, and of K and V.
    rows: [i64; 2],
    /// Columns of Q and K, and of V.
    width: [i64; 2],
    is_rows_first: bool,
    gap: i64,
    /// The valid rows of both, by batch.
    lengths: Option<[Vec<i64>; 2]>,
    /// The type of the counts of rows before each batch, where batches are only as long as they are
    /// and follow each other.
    ragged: Option<Scalar>,
    /// The type and the extents of what is added to the scores.
    bias: Option<(Scalar, [i64; 4])>,
    /// Whether a hyperbolic tangent limits the scores.
    caps: bool,
    /// How far right, and left, of the diagonal scores count.
    right: Option<i64>,
    left: Option<i64>,
    /// Whether the diagonal ends in the last valid rows, and not begins in the first.
    at_the_end: bool,
    has_sink: bool,
    drops: bool,
}

/// What forward has made, and what backward reads again.
struct Made {
    /// Q, K, V, O, statistics, and, where there are any, what is added, the sink, lengths and ends.
    buffers: [(String, Tensor); 5],
    extra: Vec<(String, Tensor)>,
}

impl Attention {
    fn draw(rng: &mut Rng) -> Attention {
        let size = |rng: &mut Rng| {
            rng.pick(&[1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 40, 64, 96, 128, 160, 256])
        };
        let rows = |rng: &mut Rng| rng.pick(&[1, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 65, 100, 130, 260]);
        let kept = 1 + rng.below(3) as i64;
        let all = kept * (1 + rng.below(3) as i64);
        let mut of = Attention {
            of: rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::Bf16]),
            batch: 1 + rng.below(3) as i64,
            heads: [all, kept, rng.pick(&[1, kept, all])],
            rows: [rows(rng), rows(rng)],
            width: [size(rng), size(rng)],
            is_rows_first: rng.below(2) == 0,
            gap: rng.pick(&[0, 0, 0, 1, 3]),
            lengths: None,
            ragged: None,
            bias: None,
            caps: rng.below(5) == 0,
            right: (rng.below(3) == 0).then(|| rng.below(4) as i64),
            left: (rng.below(4) == 0).then(|| 1 + rng.below(8) as i64),
            at_the_end: false,
            has_sink: rng.below(5) == 0,
            drops: rng.below(8) == 0,
        };
        let limit = scale_to(rng, &[60_000, 300_000, 1_000_000]);
        while of.batch * of.heads[0] * of.rows[0] * of.rows[1] * (of.width[0] + of.width[1]) > limit {
            let at = usize::from(of.rows[1] > of.rows[0]);
            of.rows[at] = (of.rows[at] / 2).max(1);
            of.width = of.width.map(|width| (width / 2).max(1));
        }
        if rng.below(3) == 0 {
            let lengths = |rng: &mut Rng, rows: i64| {
                (0..of.batch).map(|_| rng.below(rows as usize + 1) as i64).collect::<Vec<_>>()
            };
            of.lengths = Some([lengths(rng, of.rows[0]), lengths(rng, of.rows[1])]);
            of.at_the_end = rng.below(2) == 0;
            if rng.below(2) == 0 {
                of.is_rows_first = true;
                of.ragged = Some(rng.pick(&[Scalar::I32, Scalar::I64]));
            }
        }
        if rng.below(3) == 0 {
            let all = [of.batch, of.heads[0], of.rows[0], of.rows[1]];
            let scalar = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::Bf16]);
            of.bias = Some((scalar, all.map(|extent| if rng.below(2) == 0 { 1 } else { extent })));
        }
        of
    }

    /// A tensor of rows of heads, in the layout of all.
    fn layout(&self, heads: i64, rows: i64, width: i64) -> Tensor {
        let order: &[usize] = if self.is_rows_first { &[0, 2, 1, 3] } else { &[0, 1, 2, 3] };
        Tensor::ordered(self.of, &[self.batch, heads, rows, width], order, &[0, 0, 0, self.gap])
    }

    /// The caller's tensor of these heads, rows of Q (0) or of K and V (1), and columns.
    fn rows(
        &self, graph: &mut Graph<'_>, [heads, width]: [i64; 2], side: usize, content: &str,
        ends: Option<&[Node; 2]>,
    ) -> Node {
        let layout = self.layout(heads, self.rows[side], width);
        let Some(ends) = ends else { return graph.laid_out(&layout, Some(content)) };
        let memory = self.memory([heads, width], side);
        graph.ragged(&layout, &memory, content, Attention::ends_of(&layout, &ends[side]))
    }

    /// The rows that there are of a ragged tensor, batch after batch.
    fn memory(&self, [heads, width]: [i64; 2], side: usize) -> Tensor {
        let count = self.lengths.as_ref().map_or(0, |lengths| lengths[side].iter().sum());
        Tensor::ordered(self.of, &[i64::max(count, 1), heads, width], &[0, 1, 2], &[0, 0, self.gap])
    }

    /// The ends of batches in a tensor of this layout: rows before each of them.
    fn ends_of<'a>(layout: &Tensor, counts: &'a Node) -> Ends<'a> {
        Ends { counts, multiplier: layout.strides[2] }
    }

    /// The rows before each batch, and before the end of the last, of Q and of K and V.
    fn describe_ends(&self, graph: &mut Graph<'_>) -> Option<[Node; 2]> {
        let (lengths, of) = (self.lengths.as_ref()?, self.ragged?);
        let layout = Tensor::packed(of, &[self.batch + 1, 1, 1, 1]);
        Some([0, 1].map(|side| {
            let mut before = 0;
            let mut counts = vec!["0".to_owned()];
            for length in &lengths[side] {
                before += length;
                counts.push(before.to_string());
            }
            graph.laid_out(&layout, Some(&format!("list={}", counts.join(","))))
        }))
    }

    fn statistics(&self) -> Tensor {
        Tensor::packed(Scalar::F32, &[self.batch, self.heads[0], self.rows[0], 1])
    }

    fn scores(&self) -> Tensor {
        Tensor::packed(Scalar::F32, &[self.batch, self.heads[0], self.rows[0], self.rows[1]])
    }

    /// The lengths of both sequences, if they are not as long as they can be.
    fn describe_lengths(&self, graph: &mut Graph<'_>) -> Option<[Node; 2]> {
        let lengths = self.lengths.as_ref()?;
        let layout = Tensor::packed(Scalar::I32, &[self.batch, 1, 1, 1]);
        Some([0, 1].map(|side| {
            let numbers: Vec<String> = lengths[side].iter().map(i64::to_string).collect();
            graph.laid_out(&layout, Some(&format!("list={}", numbers.join(","))))
        }))
    }

    /// What happens to the scores, as a graph of its own, whose descriptor and ids the operation
    /// `kind` is given.
    fn describe_scores(
        &self, graph: &mut Graph<'_>, kind: u32, bias: Option<&Node>, lengths: Option<&[Node; 2]>,
    ) -> Option<[(u32, String); 3]> {
        let first = graph.operations();
        let input = graph.laid_out(&self.scores(), None);
        let mut at = input.clone();
        if self.caps {
            let most = graph.value(Scalar::F32, 4, "list=2");
            for (mode, number) in [(DIV, Some(&most)), (TANH, None), (MUL, Some(&most))] {
                at = self.pointwise(graph, mode, &at, number);
            }
        }
        if let Some(bias) = bias {
            at = self.pointwise(graph, ADD, &at, Some(bias));
        }
        for (bound, attribute, compared) in [(self.right, 3004, NOT_LESS), (self.left, 3003, GREATER)] {
            let Some(bound) = bound else { continue };
            let y = graph.laid_out(&self.scores(), None);
            let masked = graph.value(Scalar::F32, 4, "-inf");
            let bound = graph.value(Scalar::I32, 4, &format!("list={bound}"));
            let mut links = vec![
                (3000, at.name.as_str()),
                (3005, &masked.name),
                (3006, &y.name),
                (attribute, &bound.name),
            ];
            if let Some([queries, keys]) = lengths.filter(|_| self.at_the_end) {
                links.extend([(3002, queries.name.as_str()), (3001, keys.name.as_str())]);
            }
            let name = graph.operation(BAND_MASK, &links);
            graph.choice(&name, 3007, POINTWISE_MODE, compared);
            graph.finish(&name);
            at = y;
        }
        if at.uid == input.uid {
            return None;
        }
        let inner = graph.inner(first);
        let (_, attributes) = INNER.into_iter().find(|(of, _)| *of == kind)?;
        let [graph, from, to] = attributes;
        Some([(graph, inner), (from, input.uid.to_string()), (to, at.uid.to_string())])
    }

    /// Scores by a pointwise operation of these, and of another tensor.
    fn pointwise(&self, graph: &mut Graph<'_>, mode: u32, x: &Node, b: Option<&Node>) -> Node {
        let y = graph.laid_out(&self.scores(), None);
        let how = graph.create(POINTWISE);
        graph.choice(&how, 0, POINTWISE_MODE, mode);
        graph.choice(&how, 1, super::graph::DATA_TYPE, 0);
        graph.finish(&how);
        let mut links = vec![(750, how.as_str()), (751, x.name.as_str()), (753, y.name.as_str())];
        links.extend(b.map(|b| (752, b.name.as_str())));
        let name = graph.operation(OF_POINTWISE, &links);
        graph.finish(&name);
        y
    }

    fn attach(graph: &mut Graph<'_>, name: &str, scores: Option<[(u32, String); 3]>) {
        let Some([(inner, descriptor), ids @ ..]) = scores else { return };
        graph.refer(name, inner, &descriptor);
        for (attribute, id) in ids {
            graph.integers(name, attribute, &[id.parse().expect("an id")]);
        }
    }

    fn forward(&self, graph: &mut Graph<'_>, scale: &str) -> Made {
        let [inner, outer] = self.width;
        let ends = self.describe_ends(graph);
        let mut rows =
            |heads, width, side, content| self.rows(graph, [heads, width], side, content, ends.as_ref());
        let q = rows(self.heads[0], inner, 0, "real");
        let k = rows(self.heads[1], inner, 1, "real");
        let v = rows(self.heads[2], outer, 1, "real");
        let o = rows(self.heads[0], outer, 0, "nan:near");
        let statistics = graph.laid_out(&self.statistics(), Some("nan:near"));
        let scale = graph.value(Scalar::F32, 4, scale);
        let bias = self
            .bias
            .map(|(scalar, extents)| graph.laid_out(&Tensor::packed(scalar, &extents), Some("real")));
        let lengths = self.describe_lengths(graph);
        let scores = self.describe_scores(graph, FORWARD, bias.as_ref(), lengths.as_ref());
        let row = Tensor::packed(Scalar::F32, &[1, self.heads[0], 1, 1]);
        let sink = self.has_sink.then(|| graph.laid_out(&row, Some("real")));
        let softmax = sink.as_ref().map(|sink| {
            let [x, y] = [0, 1].map(|_| graph.laid_out(&self.scores(), None));
            let name = graph.create(SOFTMAX);
            [(3100, &x), (3101, &y), (3105, sink)]
                .iter()
                .for_each(|(to, node)| graph.refer(&name, *to, &node.name));
            graph.finish(&name);
            name
        });
        let mut links = vec![
            (2800, q.name.clone()),
            (2801, k.name.clone()),
            (2802, v.name.clone()),
            (2803, o.name.clone()),
            (2804, statistics.name.clone()),
            (2805, scale.name),
        ];
        if let Some([queries, keys]) = &lengths {
            links.extend([(2809, queries.name.clone()), (2810, keys.name.clone())]);
        }
        links.extend(softmax.map(|softmax| (2814, softmax)));
        if self.drops {
            let number = |graph: &mut Graph<'_>, value: &str| graph.value(Scalar::I64, 4, value).name;
            links.extend([(2815, number(graph, "list=123")), (2816, number(graph, "list=7"))]);
        }
        let links: Vec<(u32, &str)> = links.iter().map(|(to, name)| (*to, name.as_str())).collect();
        let name = graph.operation(FORWARD, &links);
        Attention::attach(graph, &name, scores);
        if self.drops {
            graph.set(&name, 2818, FLOAT, 'f', &["0.25".to_owned()]);
        }
        graph.finish(&name);
        let buffer = |node: &Node| (graph.buffer_of(node), node.layout.clone());
        let extra = [bias, sink].into_iter().flatten().chain(lengths.into_iter().flatten());
        let extra = extra.chain(ends.into_iter().flatten());
        let extra = extra.map(|node| buffer(&node)).collect();
        let made = Made { buffers: [&q, &k, &v, &o, &statistics].map(buffer), extra };
        graph.run(None);
        made
    }

    fn backward(&self, graph: &mut Graph<'_>, made: Made, scale: &str) {
        let extra = made.extra.iter().map(|(buffer, layout)| graph.again(buffer, layout, None));
        let mut extra: Vec<Node> = extra.collect();
        let ends = self.ragged.map(|_| extra.split_off(extra.len() - 2));
        let ends = ends.and_then(|ends| <[Node; 2]>::try_from(ends).ok());
        let mut sides = [Some(0), Some(1), Some(1), Some(0), None].into_iter();
        let [q, k, v, o, statistics] = made.buffers.map(|(buffer, layout)| {
            let counts =
                sides.next().flatten().zip(ends.as_ref()).map(|(side, ends): (usize, _)| &ends[side]);
            graph.again(&buffer, &layout, counts.map(|counts| Attention::ends_of(&layout, counts)))
        });
        let mut extra = extra.into_iter();
        let bias = self.bias.and_then(|_| extra.next());
        let sink = self.has_sink.then(|| extra.next()).flatten();
        let lengths = extra.next().zip(extra.next()).map(|(queries, keys)| [queries, keys]);
        let scale = graph.value(Scalar::F32, 4, scale);
        let scores = self.describe_scores(graph, BACKWARD, bias.as_ref(), lengths.as_ref());
        let mut like = |node: &Node, side, content| {
            let (heads, width) = (node.dims()[1], node.dims()[3]);
            self.rows(graph, [heads, width], side, content, ends.as_ref())
        };
        let incoming = like(&o, 0, "real");
        let [dq, dk, dv] = [(&q, 0), (&k, 1), (&v, 1)].map(|(node, side)| like(node, side, "nan:near"));
        let mut links = vec![
            (2851, &q),
            (2852, &k),
            (2853, &v),
            (2854, &o),
            (2855, &statistics),
            (2856, &scale),
            (2859, &dq),
            (2860, &dk),
            (2861, &dv),
            (2862, &incoming),
        ];
        if let Some([queries, keys]) = &lengths {
            links.extend([(2857, queries), (2858, keys)]);
        }
        // In the type of the results, by whose rounding it may be off.
        let own = Tensor::packed(self.of, &[1, self.heads[0], 1, 1]);
        let gradient = sink.as_ref().map(|_| graph.laid_out(&own, Some("nan:near")));
        if let (Some(sink), Some(gradient)) = (&sink, &gradient) {
            links.extend([(2863, sink), (2864, gradient)]);
        }
        let links: Vec<(u32, &str)> = links.iter().map(|(to, node)| (*to, node.name.as_str())).collect();
        let name = graph.operation(BACKWARD, &links);
        Attention::attach(graph, &name, scores);
        graph.finish(&name);
        graph.run(None);
    }
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    let attention = Attention::draw(rng);
    // Scores of thousands would leave few digits of what is exponentiated.
    let scale = rng.pick(&["small", "small", "list=1"]);
    let mut graph = Graph::new(calls);
    let made = attention.forward(&mut graph, scale);
    // Of what was dropped backward has no word.
    if !attention.drops && rng.below(2) == 0 {
        attention.backward(&mut graph, made, scale);
    }
}
