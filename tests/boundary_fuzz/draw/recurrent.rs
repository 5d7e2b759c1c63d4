//! Recurrent networks: forward, and in training both backward calls, through the doors of version 8
//! and of version 6. Sizes are asked for with all sequences at their full length, and the calls
//! have shorter ones.

use cudnn::dtype::Scalar;

use super::{Tensor, code, list, scale_to};
use testkit::random::Rng;

const LSTM: usize = 2;
const PACKED: usize = 1;

/// The calls that compute.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    /// Version 8.
    Descriptors,
    /// Version 6, a tensor for each time step: the packed layout.
    Arrays,
    /// Version 6, with descriptors of sequences.
    Ex,
}

/// A network and a batch.
struct Network {
    door: Door,
    of: Scalar,
    cell: usize,
    bias: usize,
    skips: bool,
    directions: i64,
    input: i64,
    hidden: i64,
    projected: i64,
    layers: i64,
    layout: usize,
    steps: i64,
    lengths: Vec<i64>,
    dropout: Option<&'static str>,
    /// Whether results are held to those of the reference: a kink may send small differences either
    /// way.
    is_smooth: bool,
}

impl Network {
    fn draw(rng: &mut Rng) -> Network {
        let door = rng.pick(&[Door::Descriptors, Door::Descriptors, Door::Arrays, Door::Ex]);
        let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16]);
        let cell = rng.below(4);
        let wide = |rng: &mut Rng| rng.pick(&[1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 32, 33, 40]);
        let (hidden, skips) = (wide(rng), rng.below(8) == 0);
        let input = if skips { hidden } else { wide(rng) };
        let projected = match cell == LSTM && rng.below(3) == 0 {
            true => 1 + rng.below(hidden as usize) as i64,
            false => hidden,
        };
        let layout = match door {
            Door::Arrays => PACKED,
            _ => rng.below(3),
        };
        let (steps, batch) = (1 + rng.below(8) as i64, 1 + rng.below(6) as i64);
        let mut network = Network {
            door,
            of,
            cell,
            bias: rng.below(4),
            skips,
            directions: 1 + rng.below(2) as i64,
            input,
            hidden,
            projected,
            layers: rng.pick(&[1, 1, 2, 3, 4, 4, 5, 6, 8]),
            layout,
            steps,
            lengths: vec![steps; batch as usize],
            dropout: rng.pick(&[None, Some("0"), Some("0.5"), Some("0.5"), Some("1")]),
            is_smooth: cell > 0,
        };
        let most = scale_to(rng, &[20_000, 200_000, 1_500_000]);
        while network.products() > most {
            match rng.below(4) {
                0 => network.layers = (network.layers / 2).max(1),
                1 => network.lengths.truncate(network.lengths.len().div_ceil(2)),
                2 => network.steps = (network.steps / 2).max(1),
                _ => {
                    network.hidden = (network.hidden / 2).max(1);
                    network.projected =
                        if projected < hidden { network.hidden.min(projected) } else { network.hidden };
                    network.input = if skips { network.hidden } else { (network.input / 2).max(1) };
                }
            }
        }
        network.shorten(rng);
        network
    }

    /// Lengths as the layout takes them: packed ones fall from the first, which is the longest.
    fn shorten(&mut self, rng: &mut Rng) {
        let steps = self.steps;
        self.lengths.fill(steps);
        if rng.below(4) == 0 {
            return;
        }
        let mut most = steps;
        for (index, length) in self.lengths.iter_mut().enumerate() {
            *length = match (self.layout == PACKED, index) {
                (true, 0) => steps,
                (true, _) => 1 + rng.below(most as usize) as i64,
                (false, _) => rng.below(steps as usize + 1) as i64,
            };
            most = *length;
        }
    }

    fn batch(&self) -> i64 {
        self.lengths.len() as i64
    }

    fn gates(&self) -> i64 {
        [1, 1, 4, 3][self.cell]
    }

    fn output(&self) -> i64 {
        self.projected * self.directions
    }

    fn products(&self) -> i64 {
        let matrix = self.hidden * (self.input.max(self.output()) + self.projected);
        self.steps * self.batch() * self.layers * self.directions * self.gates() * matrix
    }

    /// Rows of the caller's vectors.
    fn rows(&self) -> i64 {
        match self.layout {
            PACKED => self.lengths.iter().sum(),
            _ => self.steps * self.batch(),
        }
    }

    fn vectors(&self, entries: i64) -> Tensor {
        Tensor::packed(self.of, &[self.rows(), entries, 1])
    }

    fn states(&self, entries: i64) -> Tensor {
        Tensor::packed(self.of, &[self.layers * self.directions, self.batch(), entries])
    }

    fn compute(&self) -> u32 {
        if self.of == Scalar::F64 { 1 } else { 0 }
    }

    /// How results are judged: forward ones, and gradients.
    fn checks(&self) -> [&'static str; 2] {
        match (self.is_smooth, self.of) {
            (true, _) => ["nan:near", "nan:near"],
            (false, Scalar::F16) => ["nan:near", "nan:loose"],
            (false, _) => ["nan:near", "nan:near"],
        }
    }

    fn describe(&self, rng: &mut Rng, calls: &mut Vec<String>) {
        let Network { hidden, projected, layers, input, cell, bias, .. } = *self;
        let (of, compute, direction, skips) =
            (code(self.of), self.compute(), self.directions - 1, u32::from(self.skips));
        let dropout = match self.dropout {
            Some(rate) => {
                calls.push("CreateDropoutDescriptor D0".to_owned());
                calls.push("DropoutGetStatesSize H0 @".to_owned());
                let states = if rng.below(6) == 0 { "NULL" } else { "W9:told" };
                calls.push(format!("SetDropoutDescriptor D0 H0 {rate} {states} told {}", rng.below(1000)));
                "D0"
            }
            None => "NULL",
        };
        calls.push("CreateRNNDescriptor N0".to_owned());
        match self.door {
            Door::Descriptors => calls.push(format!(
                "SetRNNDescriptor_v8 N0 0 {cell} {bias} {direction} {skips} {of} {compute} {} {input} {hidden} {projected} \
                 {layers} {dropout} 1",
                rng.below(4)
            )),
            _ => {
                calls.push(format!(
                    "SetRNNDescriptor_v6 H0 N0 {hidden} {layers} {dropout} {skips} {direction} {cell} 0 {compute}"
                ));
                calls.push(format!("SetRNNBiasMode N0 {bias}"));
                if projected < hidden {
                    calls.push(format!("SetRNNProjectionLayers H0 N0 {projected} 0"));
                }
                if self.door == Door::Ex {
                    calls.push("SetRNNPaddingMode N0 1".to_owned());
                }
            }
        }
        if cell == LSTM && rng.below(4) == 0 {
            calls.push(format!("RNNSetClip_v8 N0 1 {} -0.5 0.75", rng.below(2)));
        }
        self.states(projected).describe("T0", calls);
        self.states(hidden).describe("T1", calls);
        if self.door != Door::Arrays {
            let full = vec![self.steps; self.lengths.len()];
            let fill = match (self.of, rng.below(2)) {
                (_, 0) => "NULL",
                (Scalar::F32, _) => "0000c03f",
                (Scalar::F64, _) => "000000000000f83f",
                _ => "003e",
            };
            for (name, entries, lengths) in
                [("M0", input, &self.lengths), ("M1", self.output(), &self.lengths), ("M2", input, &full)]
            {
                calls.push(format!("CreateRNNDataDescriptor {name}"));
                calls.push(format!(
                    "SetRNNDataDescriptor {name} {of} {} {} {} {entries} {} {fill}",
                    self.layout,
                    self.steps,
                    self.batch(),
                    list(lengths)
                ));
            }
        }
    }

    /// Descriptors of version 6 for each time step, where `lengths` say which sequences are active:
    /// those of the input, or of the output.
    fn array(&self, register: &str, entries: i64, lengths: &[i64], calls: &mut Vec<String>) -> String {
        let names = (0..self.steps).map(|step| {
            let active = lengths.iter().filter(|&&length| length > step).count() as i64;
            let name = format!("{register}{active}");
            let create = format!("CreateTensorDescriptor {name}");
            if !calls.contains(&create) {
                Tensor::packed(self.of, &[active, entries, 1]).describe(&name, calls);
            }
            name
        });
        let names: Vec<String> = names.collect();
        format!("[{}]", names.join(","))
    }

    /// Elements of all matrices and biases.
    fn weights(&self) -> i64 {
        let (gates, hidden) = (self.gates(), self.hidden);
        let projection = if self.projected < hidden { self.projected * hidden } else { 0 };
        let biases = [0, 1, 2, 1][self.bias] * gates * hidden;
        let layer = |layer: i64| {
            let input = match layer {
                0 if self.skips => 0,
                0 => self.input,
                _ => self.output(),
            };
            gates * hidden * (input + self.projected) + projection + biases
        };
        self.directions * (0..self.layers).map(layer).sum::<i64>()
    }

    /// What is asked for the sizes, with full lengths, and what the calls have: the input, and the
    /// output.
    fn batches(&self, calls: &mut Vec<String>) -> [String; 3] {
        if self.door == Door::Descriptors {
            return ["M2", "M0", "M1"].map(str::to_owned);
        }
        let full = vec![self.steps; self.lengths.len()];
        let asked = format!("{} {}", self.steps, self.array("X", self.input, &full, calls));
        if self.door == Door::Ex {
            return [asked, "M0".to_owned(), "M1".to_owned()];
        }
        let [input, output] = [("X", self.input), ("Y", self.output())].map(|(register, entries)| {
            format!("{} {}", self.steps, self.array(register, entries, &self.lengths, calls))
        });
        [asked, input, output]
    }
}

/// One problem while its calls are written.
struct Passes<'a> {
    network: &'a Network,
    /// As [`Network::batches`] has them.
    batches: [String; 3],
    trains: bool,
    /// First states, last states and their gradients: each given or not.
    states: Vec<bool>,
}

impl Passes<'_> {
    /// A tensor's buffer, or NULL for states that are not given; the first word of a buffer says
    /// what is in it.
    fn state(&self, index: usize, name: &str, content: &str) -> String {
        let network = self.network;
        let is_cell = name.starts_with('C');
        if !self.states[index] || is_cell && network.cell != LSTM {
            return "NULL".to_owned();
        }
        let entries = if is_cell { network.hidden } else { network.projected };
        network.states(entries).buffer(name, content)
    }

    /// Asks for sizes with full lengths, and returns the words of a new workspace and of the
    /// reserve space.
    fn sizes(&self, turn: usize, calls: &mut Vec<String>) -> [String; 2] {
        let asked = &self.batches[0];
        let (work, reserve) = (format!("W{turn}:u8:0..$w:scratch"), "W8:u8:0..$r:scratch");
        if self.network.door == Door::Descriptors {
            let mode = u32::from(self.trains);
            calls.push(format!("GetRNNTempSpaceSizes H0 N0 {mode} {asked} @=w @=r"));
            let reserve = if self.trains { format!("$r {reserve}") } else { "0 NULL".to_owned() };
            return [format!("$w {work}"), reserve];
        }
        calls.push(format!("GetRNNWorkspaceSize H0 N0 {asked} @=w"));
        if !self.trains {
            return [format!("{work} $w"), String::new()];
        }
        calls.push(format!("GetRNNTrainingReserveSize H0 N0 {asked} @=r"));
        [format!("{work} $w"), format!("{reserve} $r")]
    }

    fn weights(&self, name: &str, content: &str) -> (String, i64) {
        let count = self.network.weights();
        let buffer = Tensor::packed(self.network.of, &[count]).buffer(name, content);
        (buffer, count * self.network.of.size() as i64)
    }

    fn forward(&self, calls: &mut Vec<String>) {
        let network = self.network;
        let [work, reserve] = self.sizes(0, calls);
        let [_, input, output] = &self.batches;
        let result = network.checks()[0];
        let x = network.vectors(network.input).buffer("B0", "real");
        let y = network.vectors(network.output()).buffer("B1", result);
        let (hx, hy) = (self.state(0, "H1", "real"), self.state(1, "H2", result));
        let (cx, cy) = (self.state(2, "C1", "real"), self.state(3, "C2", result));
        let (w, bytes) = self.weights("B2", "small");
        let mode = u32::from(self.trains);
        match network.door {
            Door::Descriptors => calls.push(format!(
                "RNNForward H0 N0 {mode} NULL {input} {x} {output} {y} T0 {hx} {hy} T1 {cx} {cy} {bytes} {w} {work} {reserve}"
            )),
            door => {
                let (attention, suffix) = match door {
                    Door::Ex => (" NULL NULL NULL NULL NULL NULL NULL NULL", "Ex"),
                    _ => ("", ""),
                };
                let output = output.rsplit(' ').next().unwrap_or_default();
                let name = if self.trains { "Training" } else { "Inference" };
                calls.push(
                    format!(
                        "RNNForward{name}{suffix} H0 N0 {input} {x} T0 {hx} T1 {cx} F0 {w} {output} {y} T0 {hy} T1 {cy}{attention} \
                         {work} {reserve}"
                    )
                    .trim_end()
                    .to_owned(),
                );
            }
        }
    }

    fn backward_data(&self, calls: &mut Vec<String>) {
        let network = self.network;
        let [work, reserve] = self.sizes(1, calls);
        let [_, input, output] = &self.batches;
        let result = network.checks()[1];
        let dy = network.vectors(network.output()).buffer("B3", "real");
        let dx = network.vectors(network.input).buffer("B4", result);
        let (hx, dhy, dhx) =
            (self.state(0, "H1", "real"), self.state(4, "H3", "real"), self.state(5, "H4", result));
        let (cx, dcy, dcx) =
            (self.state(2, "C1", "real"), self.state(6, "C3", "real"), self.state(7, "C4", result));
        let (w, bytes) = self.weights("B2", "small");
        match network.door {
            Door::Descriptors => calls.push(format!(
                "RNNBackwardData_v8 H0 N0 NULL {output} B1 {dy} {input} {dx} T0 {hx} {dhy} {dhx} T1 {cx} {dcy} {dcx} {bytes} {w} \
                 {work} {reserve}"
            )),
            door => {
                let last = |words: &str| words.rsplit(' ').next().unwrap_or_default().to_owned();
                let (input, again) = (last(input), last(output));
                let (name, attention, keys) = match door {
                    Door::Ex => ("RNNBackwardDataEx", " NULL NULL", " NULL NULL"),
                    _ => ("RNNBackwardData", "", ""),
                };
                calls.push(format!(
                    "{name} H0 N0 {output} B1 {again} {dy}{attention} T0 {dhy} T1 {dcy} F0 {w} T0 {hx} T1 {cx} {input} {dx} T0 {dhx} T1 \
                     {dcx}{keys} {work} {reserve}"
                ));
            }
        }
    }

    fn backward_weights(&self, sets: bool, calls: &mut Vec<String>) {
        let network = self.network;
        let [work, reserve] = self.sizes(2, calls);
        let [_, input, output] = &self.batches;
        let before = network.checks()[1].trim_start_matches("nan");
        let sets = sets && network.door == Door::Descriptors;
        let (dw, bytes) = self.weights("B5", &format!("{}{before}", if sets { "nan" } else { "real" }));
        let hx = self.state(0, "H1", "real");
        match network.door {
            Door::Descriptors => calls.push(format!(
                "RNNBackwardWeights_v8 H0 N0 {} NULL {input} B0 T0 {hx} {output} B1 {bytes} {dw} {work} {reserve}",
                u32::from(sets)
            )),
            door => {
                let output = output.rsplit(' ').next().unwrap_or_default();
                let name = if door == Door::Ex { "RNNBackwardWeightsEx" } else { "RNNBackwardWeights" };
                calls.push(format!("{name} H0 N0 {input} B0 T0 {hx} {output} B1 {work} F0 {dw} {reserve}"));
            }
        }
    }
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    let network = Network::draw(rng);
    network.describe(rng, calls);
    if network.door != Door::Descriptors {
        calls.push("CreateFilterDescriptor F0".to_owned());
        calls.push(format!("SetFilterNdDescriptor F0 {} 0 3 [{},1,1]", code(network.of), network.weights()));
    }
    let batches = network.batches(calls);
    let all_states = rng.below(2) == 0;
    let states = (0..8).map(|_| all_states || rng.below(2) == 0).collect();
    let passes = Passes { network: &network, batches, trains: rng.below(4) > 0, states };
    passes.forward(calls);
    if passes.trains {
        passes.backward_data(calls);
        passes.backward_weights(rng.below(2) == 0, calls);
    }
}
