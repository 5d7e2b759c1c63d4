//! Normalisation, dropout and the columns of a convolution, with their gradients, on tensors that
//! lie as a test says: near, or further apart than 31 bits count.

use cudnn::backend::Address;
use cudnn::desc::convolution::{ConvolutionGeometry, ConvolutionMode};
use cudnn::desc::normalization::{BatchNormMode, parameters};
use cudnn::desc::{
    ConvolutionDescriptor, DropoutDescriptor, FilterDescriptor, Format, LrnDescriptor, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::Context;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::batch_norm::{Backward, BackwardPlan, Forward, ForwardPlan, Parameters, Source};
use cudnn::ops::columns::ColumnsPlan;
use cudnn::ops::dropout::{DropoutPlan, Pass};
use cudnn::ops::{Plan, Scaling, response};

/// Elements from one image, or from one channel, to the next.
const FAR: i64 = (1 << 31) + 6;

/// A call and the tensors of its operands, but for those that it does without.
pub struct Layer {
    pub name: &'static str,
    plan: Box<dyn Plan>,
    tensors: Vec<Option<TensorDescriptor>>,
}

fn strided(data_type: DataType, dims: &[i64], strides: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_strides(data_type, dims.len() as i64, dims, strides, Mode::Extended)
        .expect("a tensor")
}

fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, Format::Nchw, dims.len() as i64, dims, Mode::Extended)
        .expect("a tensor")
}

/// Few elements of HALF, each time near and far apart: between images, in either layout, and
/// between channels.
pub fn far_apart() -> [(TensorDescriptor, TensorDescriptor); 3] {
    let dims = [2, 3, 5, 7];
    [[FAR, 35, 7, 1], [FAR, 1, 21, 3], [35, FAR, 7, 1]]
        .map(|strides| (packed(DataType::Half, &dims), strided(DataType::Half, &dims, &strides)))
}

/// Extents beyond 16 bits in every position.
pub fn long() -> Vec<TensorDescriptor> {
    let dims =
        |position| std::array::from_fn::<i64, 4, _>(|k| if k == position { 70_000 } else { [1, 2, 1, 2][k] });
    (0..4).map(|position| packed(DataType::Half, &dims(position))).collect()
}

/// All of them, where every large tensor lies as `x` does.
pub fn layers(x: &TensorDescriptor) -> Vec<Layer> {
    [normalisations(x), responses(x), dropouts(x), vec![columns(x)]].into_iter().flatten().collect()
}

fn normalisations(x: &TensorDescriptor) -> Vec<Layer> {
    let mut layers = vec![];
    for (mode, names) in [
        (BatchNormMode::Spatial, ["inference", "training", "gradient of training"]),
        (
            BatchNormMode::PerActivation,
            ["inference of each", "training of each", "gradient of training of each"],
        ),
    ] {
        let is_each = mode == BatchNormMode::PerActivation;
        let s = parameters(x, is_each, Mode::Extended).expect("parameters");
        let parameters = || Parameters { name: "s", tensor: &s };
        let batch = Source::Batch { factor: 0.25, running: [true; 2], saved: [true; 2] };
        for (name, source) in [(names[0], Source::Given), (names[1], batch)] {
            let call = Forward {
                mode,
                x,
                y: x,
                z: None,
                parameters: parameters(),
                source,
                epsilon: 1e-3,
                scaling: Scaling::MOVE,
                fused: None,
                reserve_size: 0,
                workspace_size: 0,
                names: [""; 6],
            };
            let plan = ForwardPlan::new(call, Mode::Extended).expect("a plan");
            let tensors =
                [Some(*x), Some(s), Some(s), Some(s), Some(s), None, Some(*x), None, Some(s), Some(s)];
            layers.push(Layer { name, plan: Box::new(plan), tensors: tensors.to_vec() });
        }
        let call = Backward {
            mode,
            x,
            dy: x,
            dx: x,
            dz: None,
            parameters: parameters(),
            saved: [true; 2],
            bias: true,
            epsilon: 1e-3,
            scaling: Scaling::MOVE,
            parameter_scaling: Scaling::MOVE,
            fused: None,
            reserve_size: 0,
            workspace_size: 0,
            names: [""; 6],
        };
        let plan = BackwardPlan::new(call, Mode::Extended).expect("a plan");
        let tensors =
            [Some(*x), Some(s), Some(s), None, Some(*x), Some(*x), Some(s), Some(s), Some(s), Some(s), None];
        layers.push(Layer { name: names[2], plan: Box::new(plan), tensors: tensors.to_vec() });
    }
    layers
}

fn responses(x: &TensorDescriptor) -> Vec<Layer> {
    let desc = LrnDescriptor::new(5, 0.5, 0.75, 1.5).expect("a descriptor");
    let plan = response::cross_channel(&desc, x, x, Scaling::MOVE, Mode::Extended).expect("a plan");
    let gradient = response::cross_channel_gradient(&desc, x, x, x, Scaling::MOVE, Mode::Extended);
    vec![
        Layer { name: "response", plan: Box::new(plan), tensors: vec![Some(*x), Some(*x)] },
        Layer {
            name: "gradient of response",
            plan: Box::new(gradient.expect("a plan")),
            tensors: vec![Some(*x), Some(*x), Some(*x)],
        },
    ]
}

fn dropouts(x: &TensorDescriptor) -> Vec<Layer> {
    let words = (x.dims().product().expect("a number") + 31) / 32;
    let (mask, states) = (packed(DataType::Int32, &[1, words]), packed(DataType::Int64, &[1, 2]));
    let mut desc = DropoutDescriptor::default();
    desc.restore(0.5, 8, 16, 1, Mode::Extended).expect("enough room");
    let reserve_size = 4 * words as usize;
    let pass = Pass { src: ("x", x), dst: ("y", x), reserve_size, in_place: false };
    let forward = DropoutPlan::forward(&desc, pass, Mode::Extended).expect("a plan");
    let backward = DropoutPlan::backward(&desc, pass, Mode::Extended).expect("a plan");
    vec![
        Layer {
            name: "dropout",
            plan: Box::new(forward),
            tensors: vec![Some(*x), Some(mask), Some(states), Some(*x)],
        },
        Layer {
            name: "gradient of dropout",
            plan: Box::new(backward),
            tensors: vec![Some(*x), Some(*x), Some(mask)],
        },
    ]
}

fn columns(x: &TensorDescriptor) -> Layer {
    let [padding, strides, dilation] = [1, 2, 1].map(|each| Dims::filled(2, each));
    let mode = ConvolutionMode::CrossCorrelation;
    let geometry =
        ConvolutionGeometry::new(mode, DataType::Float, padding, strides, dilation).expect("a geometry");
    let desc = ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() };
    let dims = x.dims();
    let filter = FilterDescriptor::new(DataType::Half, Format::Nchw, 4, &[1, dims[1], 2, 2], Mode::Extended);
    let plan = ColumnsPlan::new(x, &filter.expect("a filter"), &desc, Mode::Extended).expect("a plan");
    let outputs = (dims[2] / 2 + 1) * (dims[3] / 2 + 1);
    let matrix = packed(DataType::Half, &[4 * dims[1], dims[0] * outputs]);
    Layer { name: "columns", plan: Box::new(plan), tensors: vec![Some(matrix), Some(*x)] }
}

/// Memory that a core works on; what is not written takes no room.
pub trait Room {
    fn new(bytes: usize) -> Self;
    fn address(&mut self) -> Address;
    fn write(&mut self, at: usize, bytes: &[u8]);
    fn read(&self, at: usize, bytes: &mut [u8]);
}

/// Memory of the host.
pub struct Pages {
    words: Vec<u64>,
}

impl Pages {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes of the words.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), 8 * self.words.len()) }
    }
}

impl Room for Pages {
    fn new(bytes: usize) -> Self {
        Pages { words: vec![0; bytes.div_ceil(8)] }
    }

    fn address(&mut self) -> Address {
        self.words.as_mut_ptr().into()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let start = self.words.as_mut_ptr().cast::<u8>();
        assert!(at + bytes.len() <= 8 * self.words.len());
        // SAFETY: inside the words.
        unsafe { start.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes()[at..at + bytes.len()]);
    }
}

/// An element that nothing else looks like, and of which statistics and roots can be taken.
fn element(data_type: DataType, operand: usize, i: usize) -> Vec<u8> {
    let mixed = (i as u64 * 8 + operand as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let real = 1.0 + (mixed % 256) as f32 / 256.0;
    match data_type {
        DataType::Half => half::f16::from_f32(real).to_le_bytes().to_vec(),
        DataType::Float => real.to_le_bytes().to_vec(),
        DataType::Int32 => (mixed as u32).to_le_bytes().to_vec(),
        _ => (i as u64 + 3).to_le_bytes().to_vec(),
    }
}

impl Layer {
    /// The largest of the tensors.
    pub fn largest(&self) -> &TensorDescriptor {
        self.tensors.iter().flatten().max_by_key(|tensor| tensor.span().1).expect("a tensor")
    }

    /// Bytes of all tensors.
    pub fn room(&self) -> usize {
        self.tensors.iter().flatten().map(bytes_of).sum()
    }
}

fn bytes_of(tensor: &TensorDescriptor) -> usize {
    (tensor.span().1 as usize + 1) * tensor.data_type().scalar().size()
}

/// Runs of elements that are neighbours: where they lie, in bytes, and which these are.
fn runs(tensor: &TensorDescriptor) -> Vec<(usize, Vec<usize>)> {
    let (dims, strides) = (tensor.dims(), tensor.strides());
    let count = dims.product().expect("a number") as usize;
    let size = tensor.data_type().scalar().size();
    let place = |mut i: usize| {
        let mut at = 0;
        for k in (0..dims.rank()).rev() {
            at += i % dims[k] as usize * strides[k] as usize;
            i /= dims[k] as usize;
        }
        at * size
    };
    let mut places: Vec<(usize, usize)> = (0..count).map(|i| (place(i), i)).collect();
    places.sort_unstable();
    let neighbours = places.chunk_by(|a, b| a.0 + size == b.0);
    neighbours.map(|run| (run[0].0, run.iter().map(|&(_, i)| i).collect())).collect()
}

/// Runs a layer, and says what the elements of each of its operands are then, in their order.
pub fn outcome<R: Room>(layer: &Layer, context: &Context) -> Vec<Vec<u8>> {
    let tensors = &layer.tensors[..layer.tensors.len().min(layer.plan.operands().len())];
    let laid_out: Vec<_> =
        tensors.iter().map(|tensor| tensor.as_ref().map(|tensor| (tensor, runs(tensor)))).collect();
    let mut rooms: Vec<Option<R>> = vec![];
    for (operand, tensor) in laid_out.iter().enumerate() {
        rooms.push(tensor.as_ref().map(|(tensor, runs)| {
            let mut room = R::new(bytes_of(tensor));
            for (at, run) in runs {
                let bytes = run.iter().flat_map(|&i| element(tensor.data_type(), operand, i));
                room.write(*at, &bytes.collect::<Vec<u8>>());
            }
            room
        }));
    }
    let at: Vec<Address> =
        rooms.iter_mut().map(|room| room.as_mut().map_or(Address::NULL, Room::address)).collect();
    // SAFETY: every tensor's memory holds its span.
    unsafe { context.run(&*layer.plan, &at) }.expect("runs");
    let read = laid_out.iter().zip(&rooms).map(|(tensor, room)| {
        let (Some((tensor, runs)), Some(room)) = (tensor, room) else { return vec![] };
        let size = tensor.data_type().scalar().size();
        let mut bytes = vec![0; size * tensor.dims().product().expect("a number") as usize];
        for (at, run) in runs {
            let mut found = vec![0; run.len() * size];
            room.read(*at, &mut found);
            run.iter()
                .zip(found.chunks(size))
                .for_each(|(i, cell)| bytes[i * size..][..size].copy_from_slice(cell));
        }
        bytes
    });
    read.collect()
}
