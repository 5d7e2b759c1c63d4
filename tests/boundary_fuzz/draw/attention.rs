//! Multi-head attention: inference, all time steps or one, and the three calls of a step of
//! training.

use cudnn::dtype::Scalar;

use super::{code, integers, list, scale_to};
use testkit::random::Rng;

/// The axes of sequences, but for the vector, which is the innermost.
const TIME: usize = 0;
const BATCH: usize = 1;
const BEAM: usize = 2;

struct Attention {
    of: Scalar,
    mode: u32,
    heads: i64,
    /// Vectors of queries, keys and values, and what they are projected to; 0 for no projection.
    /// The last is the output's.
    sizes: [i64; 3],
    projected: [i64; 4],
    /// Time steps of queries and keys, batch and beams: of the descriptor, and of the call.
    most: [i64; 4],
    given: [i64; 4],
    axes: [usize; 3],
    dropouts: [Option<&'static str>; 2],
    trains: bool,
}

impl Attention {
    fn draw(rng: &mut Rng) -> Attention {
        let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16]);
        let size = |rng: &mut Rng| rng.pick(&[1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 40]);
        let (q, k, v, inner) = (size(rng), size(rng), size(rng), size(rng));
        let [q, k, projected] = match rng.below(4) {
            0 => [q, q, 0],
            _ => [q, k, inner],
        };
        let of_values = if rng.below(3) == 0 { 0 } else { size(rng) };
        let of_output = if rng.below(3) == 0 { 0 } else { size(rng) };
        let mut axes = [TIME, BATCH, BEAM];
        let order = rng.order(3);
        (0..3).for_each(|at| axes[at] = order[at]);
        let most = [1 + rng.below(9), 1 + rng.below(9), 1 + rng.below(4), 1 + rng.below(3)]
            .map(|extent| extent as i64);
        let rate = |rng: &mut Rng| rng.pick(&[None, None, Some("0"), Some("0.5"), Some("1")]);
        let mut attention = Attention {
            of,
            mode: rng.pick(&[0, 2]),
            heads: 1 + rng.below(4) as i64,
            sizes: [q, k, v],
            projected: [projected, projected, of_values, of_output],
            most,
            given: most,
            axes,
            dropouts: [rate(rng), rate(rng)],
            trains: rng.below(3) > 0,
        };
        let limit = scale_to(rng, &[30_000, 200_000, 1_000_000]);
        while attention.products() > limit {
            let at = (0..4).max_by_key(|&at| attention.most[at]).unwrap_or(0);
            match attention.most[at] {
                1 => {
                    attention.heads = (attention.heads / 2).max(1);
                    attention.sizes = attention.sizes.map(|size| (size / 2).max(1));
                    attention.projected =
                        attention.projected.map(|size| if size > 0 { (size / 2).max(1) } else { 0 });
                }
                extent => attention.most[at] = extent / 2,
            }
        }
        if !attention.trains && attention.dropouts[0] == Some("1") {
            // Which inference refuses, too.
            attention.dropouts[0] = None;
        }
        attention.given = attention.most;
        // What suffices for the largest sequences suffices for all.
        if rng.below(3) > 0 {
            attention.given = attention.most.map(|most| 1 + rng.below(most as usize) as i64);
        }
        attention
    }

    fn products(&self) -> i64 {
        let [queries, keys, batch, beam] = self.most;
        let wide = 1 + self.sizes.iter().chain(&self.projected).copied().max().unwrap_or(0);
        self.heads * batch * beam * (wide * wide * (2 * queries + 2 * keys) + 2 * wide * queries * keys)
    }

    /// The entries of an output's vector.
    fn output(&self) -> i64 {
        match (self.projected[3], self.projected[2]) {
            (0, 0) => self.heads * self.sizes[2],
            (0, values) => self.heads * values,
            (output, _) => output,
        }
    }

    /// Sequences of queries or of keys: time steps, and beams.
    fn extents(&self, is_query: bool) -> [i64; 3] {
        let [queries, keys, batch, beam] = self.given;
        if is_query { [queries, batch, beam] } else { [keys, batch, 1] }
    }

    fn buffer(&self, name: &str, is_query: bool, vector: i64, content: &str) -> String {
        let elements = self.extents(is_query).iter().product::<i64>() * vector;
        format!("{name}:{}:0..{}:{content}", self.of.name(), elements * self.of.size() as i64)
    }

    fn describe(&self, rng: &mut Rng, calls: &mut Vec<String>) -> [Vec<i64>; 2] {
        let [first, second] = [0, 1].map(|at| match self.dropouts[at] {
            None => "NULL".to_owned(),
            Some(rate) => {
                calls.push(format!("CreateDropoutDescriptor D{at}"));
                calls.push("DropoutGetStatesSize H0 @".to_owned());
                let seed = rng.below(1000);
                calls.push(format!("SetDropoutDescriptor D{at} H0 {rate} W{}:told told {seed}", 8 + at));
                format!("D{at}")
            }
        });
        let (of, compute) = (code(self.of), if self.of == Scalar::F64 { 1 } else { 0 });
        let join = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        let (sizes, projected, most) = (join(&self.sizes), join(&self.projected), join(&self.most));
        calls.push("CreateAttnDescriptor U0".to_owned());
        calls.push(format!(
            "SetAttnDescriptor U0 {} {} {} {of} {compute} {} {first} {second} {sizes} {projected} {most}",
            self.mode,
            self.heads,
            rng.pick(&["1.0", "0.25"]),
            rng.below(4),
        ));
        let lengths = [true, false].map(|is_query| {
            let [steps, batch, beam] = self.extents(is_query);
            let all = rng.below(2) == 0;
            (0..batch * beam)
                .map(|_| if all { steps } else { 1 + rng.below(steps as usize) as i64 })
                .collect()
        });
        let [q, k, v] = self.sizes;
        for (at, (is_query, vector)) in
            [(true, q), (false, k), (false, v), (true, self.output())].into_iter().enumerate()
        {
            let lengths: &Vec<i64> = &lengths[usize::from(!is_query)];
            let dims = [&self.extents(is_query)[..], &[vector]].concat();
            let axes: Vec<i64> = self.axes.iter().map(|&axis| axis as i64).chain([3]).collect();
            calls.push(format!("CreateSeqDataDescriptor Q{at}"));
            calls.push(format!(
                "SetSeqDataDescriptor Q{at} {of} 4 {} {} {} {} NULL",
                list(&dims),
                list(&axes),
                lengths.len(),
                list(lengths)
            ));
        }
        lengths
    }
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    let this = Attention::draw(rng);
    let lengths = this.describe(rng, calls);
    // Lengths of the call count where they are shorter.
    let [queries, keys] = [0, 1].map(|side| {
        let shorter =
            |&length: &i64| if rng.below(4) == 0 { rng.below(length as usize + 1) as i64 } else { length };
        integers(["L0", "L1"][side], &lengths[side].iter().map(shorter).collect::<Vec<_>>())
    });
    let [steps, seen, ..] = this.given;
    let windows = [0, 1].map(|side| {
        let edge = |_| match (side, rng.below(3)) {
            (0, 0) => rng.below(seen as usize) as i64,
            (0, _) => 0,
            (_, 0) => rng.below(seen as usize + 1) as i64,
            _ => i64::from(i32::MAX),
        };
        integers(["L2", "L3"][side], &(0..steps).map(edge).collect::<Vec<_>>())
    });
    let [lo, hi] = windows;
    let [q, k, v] = this.sizes;
    let o = this.output();
    let content = |name: &str, is_query, vector| this.buffer(name, is_query, vector, "real");
    let (qs, ks, vs) = (content("B0", true, q), content("B1", false, k), content("B2", false, v));
    let residuals = match rng.below(3) {
        0 if o == q => content("B8", true, o),
        _ => "NULL".to_owned(),
    };
    let weights = format!("$n B4:{}:0..$n:small", this.of.name());
    let current = if this.trains || rng.below(3) > 0 { -1 } else { rng.below(steps as usize) as i64 };
    let out = this.buffer("B3", true, o, "nan:near");
    let memory = match this.trains {
        true => {
            calls.push("GetMultiHeadAttnBuffers H0 U0 @=n @=w @=r".to_owned());
            "0 NULL $r W2:u8:0..$r:scratch"
        }
        false => {
            calls.push("GetMultiHeadAttnBuffers H0 U0 @=n @=w NULL".to_owned());
            "$w W0:u8:0..$w:scratch 0 NULL"
        }
    };
    calls.push(format!(
        "MultiHeadAttnForward H0 U0 {current} {lo} {hi} {queries} {keys} Q0 {qs} {residuals} Q1 {ks} Q2 {vs} Q3 {out} {weights} {memory}"
    ));
    if !this.trains {
        return;
    }
    let [dq, dk, dv] = [("B5", true, q), ("B6", false, k), ("B7", false, v)]
        .map(|(name, is_query, vector)| this.buffer(name, is_query, vector, "nan:near"));
    let dout = content("B9", true, o);
    calls.push(format!(
        "MultiHeadAttnBackwardData H0 U0 {lo} {hi} {queries} {keys} Q3 {dout} Q0 {dq} B0 Q1 {dk} B1 Q2 {dv} B2 {weights} {memory}"
    ));
    let (sets, before) = if rng.below(2) == 0 { (0, "real") } else { (1, "nan") };
    calls.push(format!(
        "MultiHeadAttnBackwardWeights H0 U0 {sets} Q0 B0 Q1 B1 Q2 B2 Q3 B9 {weights} BA:{}:0..$n:{before}:near {memory}",
        this.of.name()
    ));
}
