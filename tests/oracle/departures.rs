//! The departures from the original's refusals: for every recorded step, the status that the
//! default mode promises.
//!
//! Each rule is written from the documented departure, not from what the library answers: a step
//! must differ where a rule says so and nowhere else. Afterwards a descriptor must hold what the
//! accepted call set.

use std::collections::HashMap;

use super::arithmetic::Arithmetic;
use super::case::{Case, Step};
use super::convolutions::Convolutions;
use super::filters::Filters;
use super::layers::Layers;
use super::losses::Losses;
use super::training::Training;
use super::windows::Windows;

/// A promised difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The departure's short name, as in the committed table of counts.
    pub departure: &'static str,
    /// The status instead of the recorded one.
    pub status: i64,
}

pub const OK: i64 = 0;
pub const BAD_PARAM: i64 = 2000;
pub const NOT_SUPPORTED: i64 = 3000;
const INTERNAL_ERROR: i64 = 4000;

/// INT64, BOOLEAN, FP8_E4M3, FP8_E5M2.
pub const ADDED_TYPES: std::ops::RangeInclusive<i64> = 10..=13;
pub const MAX_RANK: i64 = 8;
pub const VECT_C: i64 = 2;

/// A tensor setter's arguments.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The data type's number.
    pub data_type: i64,
    /// Format number, or none with explicit strides.
    pub format: Option<i64>,
    /// The rank as given, which may differ from the number of dims.
    pub rank: i64,
    /// Logical dims.
    pub dims: Vec<i64>,
    /// Explicit strides.
    pub strides: Option<Vec<i64>>,
    /// Set by one of the N-D setters.
    nd: bool,
}

impl Tensor {
    /// The arguments of a setter; `None` for any other call.
    pub fn of_setter(step: &Step) -> Option<Self> {
        let range =
            |from: usize, to: usize| (from..to).map(|index| step.int(index)).collect::<Option<Vec<_>>>();
        match step.function.as_str() {
            "SetTensor4dDescriptor" => Some(Self {
                format: step.int(1),
                data_type: step.int(2)?,
                rank: 4,
                dims: range(3, 7)?,
                strides: None,
                nd: false,
            }),
            "SetTensor4dDescriptorEx" => Some(Self {
                format: None,
                data_type: step.int(1)?,
                rank: 4,
                dims: range(2, 6)?,
                strides: Some(range(6, 10)?),
                nd: false,
            }),
            "SetTensorNdDescriptor" => Some(Self {
                format: None,
                data_type: step.int(1)?,
                rank: step.int(2)?,
                dims: step.ints(3)?,
                strides: Some(step.ints(4)?),
                nd: true,
            }),
            "SetTensorNdDescriptorEx" => Some(Self {
                format: step.int(1),
                data_type: step.int(2)?,
                rank: step.int(3)?,
                dims: step.ints(4)?,
                strides: None,
                nd: true,
            }),
            _ => None,
        }
    }

    /// Scalars in one element of the type.
    pub fn lanes(&self) -> i64 {
        match self.data_type {
            5 | 7 => 4,
            8 => 32,
            _ => 1,
        }
    }

    /// Whether the bytes from the first to the last element can exist: no object is larger than
    /// 2^63-1 bytes.
    fn addressable(&self) -> bool {
        let size = match self.data_type {
            1 | 10 => 8,
            2 | 9 => 2,
            0 | 4 | 5 | 7 => 4,
            8 => 32,
            _ => 1,
        };
        let strides = self.expected_strides();
        let reach = |(&dim, &stride): (&i64, &i64)| i128::from(dim - 1) * i128::from(stride).abs();
        let extent = 1 + self.dims.iter().zip(&strides).map(reach).sum::<i128>();
        extent * size <= i128::from(i64::MAX)
    }

    fn vectorised(&self) -> bool {
        self.format == Some(VECT_C)
    }

    /// Dims with the channels counted in scalars: the getters already count a vectorised tensor so.
    pub fn scalar_dims(&self) -> Vec<i64> {
        let mut dims = self.dims.clone();
        if !self.vectorised() {
            dims[1] *= self.lanes();
        }
        dims
    }

    /// Strides as the formats define them, in elements; channels of a vectorised tensor counted in
    /// vectors.
    pub fn expected_strides(&self) -> Vec<i64> {
        if let Some(strides) = &self.strides {
            return strides.clone();
        }
        let mut dims = self.dims.clone();
        if self.vectorised() {
            dims[1] /= self.lanes().max(4);
        }
        // From the fastest dimension to the slowest.
        let order: Vec<usize> = match self.format {
            Some(1) => [1].into_iter().chain((2..dims.len()).rev()).chain([0]).collect(),
            _ => (0..dims.len()).rev().collect(),
        };
        let mut strides = vec![0; dims.len()];
        let mut next = 1;
        for axis in order {
            strides[axis] = next;
            // A refused shape may be as large as it likes.
            next = i64::saturating_mul(next, dims[axis]);
        }
        strides
    }
}

/// The descriptors of a case as its accepted calls left them.
#[derive(Default)]
struct World {
    tensors: HashMap<String, Tensor>,
    transforms: HashMap<String, Transform>,
    filters: Filters,
    arithmetic: Arithmetic,
    layers: Layers,
    convolutions: Convolutions,
    training: Training,
    windows: Windows,
    losses: Losses,
}

/// What the rules need to know of a transform descriptor.
struct Transform {
    format: i64,
}

/// The promises for a case, one entry per step.
pub fn promises(case: &Case) -> Vec<Option<Promise>> {
    let mut world = World::default();
    case.steps
        .iter()
        .map(|step| {
            let promise = world.filters.promise(step).or_else(|| match step.status() {
                OK => None,
                _ => world.promise(step),
            });
            let promise = promise.or_else(|| world.arithmetic.promise(step, &world.tensors));
            let promise = promise.or_else(|| world.layers.promise(step, &world.tensors));
            let promise = promise.or_else(|| world.convolutions.promise(step, &world.tensors));
            let promise = promise.or_else(|| world.training.promise(step, &world.tensors));
            let promise = promise.or_else(|| world.windows.promise(step, &world.tensors));
            let promise = promise.or_else(|| super::causal::promise(step));
            let promise = promise.or_else(|| world.losses.promise(step, &world.tensors));
            if promise.map_or(step.status(), |promise| promise.status) == OK {
                world.follow(step);
            }
            promise
        })
        .collect()
}

impl World {
    fn promise(&self, step: &Step) -> Option<Promise> {
        let register = |index: usize| step.args.get(index).filter(|token| *token != "NULL");
        let tensor = |index: usize| self.tensors.get(register(index)?);
        if let Some(setter) = Tensor::of_setter(step) {
            register(0)?;
            return setter_promise(step.status(), &setter);
        }
        match step.function.as_str() {
            "TransformTensor" => {
                let complete = step.args.iter().all(|token| token != "NULL");
                transform_promise(tensor(2)?, tensor(5)?).filter(|_| complete)
            }
            // The original only adds.
            "RNNBackwardWeights_v8" if step.status() == NOT_SUPPORTED && step.int(2) == Some(1) => {
                Some(Promise { departure: "rnn-set", status: OK })
            }
            // The original has stored an address when it finds the weight space too small.
            "GetRNNWeightParams"
                if step.status() == BAD_PARAM && step.observed[1..].iter().any(|token| token != "~") =>
            {
                Some(Promise { departure: "weight-space", status: BAD_PARAM })
            }
            // The original stumbles over the padding of a type that it accepts.
            "GetSeqDataDescriptor" if step.status() == INTERNAL_ERROR => {
                Some(Promise { departure: "sequence-padding", status: OK })
            }
            "InitTransformDest" => {
                let transform = self.transforms.get(register(0)?)?;
                dest_promise(step.status(), transform, tensor(1)?)
            }
            _ => None,
        }
    }

    /// Takes over what an accepted call sets.
    fn follow(&mut self, step: &Step) {
        self.arithmetic.follow(step);
        self.layers.follow(step);
        self.convolutions.follow(step);
        self.training.follow(step);
        self.windows.follow(step);
        self.losses.follow(step);
        if let Some(setter) = Tensor::of_setter(step) {
            self.tensors.insert(step.args[0].clone(), setter);
        } else if let ("SetTensorTransformDescriptor", Some(format)) = (step.function.as_str(), step.int(2)) {
            self.transforms.insert(step.args[0].clone(), Transform { format });
        } else if step.function == "InitTransformDest" {
            // What the destination became is not modelled; nothing may be promised about it.
            self.tensors.remove(&step.args[2]);
        }
    }
}

fn setter_promise(status: i64, setter: &Tensor) -> Option<Promise> {
    let promise = |departure, status| Some(Promise { departure, status });
    let positive = setter.dims.iter().all(|&dim| dim > 0);
    let zero_stride = setter.strides.as_ref().is_some_and(|strides| {
        strides.iter().zip(&setter.dims).take(setter.rank.max(0) as usize).any(|(&s, &d)| s == 0 && d > 1)
    });
    let known_format = setter.format.is_none_or(|format| (0..=VECT_C).contains(&format));
    if ADDED_TYPES.contains(&setter.data_type) && known_format && setter.rank >= 2 {
        // What follows the type in the order of checks now decides. The 4-D setter vectorises three
        // types only, the N-D setter any type, in vectors of four.
        let vectors = !setter.vectorised() || (setter.nd && setter.dims[1] % 4 == 0);
        return match () {
            () if !vectors => None,
            () if setter.rank > MAX_RANK => promise("tensor-types", NOT_SUPPORTED),
            () if positive => promise("tensor-types", OK),
            () => None,
        };
    }
    let fits = (2..=MAX_RANK).contains(&setter.rank) && positive && (0..=13).contains(&setter.data_type);
    match status {
        NOT_SUPPORTED if fits && !strides_wrap(setter) && setter.addressable() => promise("extent", OK),
        BAD_PARAM if fits && zero_stride => promise("zero-stride", OK),
        _ => None,
    }
}

/// Whether a packed stride does not fit the getters' 32 bits.
fn strides_wrap(setter: &Tensor) -> bool {
    setter.expected_strides().iter().any(|&stride| i32::try_from(stride).is_err())
}

/// Every type pair whose scalars correspond; the original knows some of them.
fn transform_promise(x: &Tensor, y: &Tensor) -> Option<Promise> {
    (x.rank == y.rank && x.scalar_dims() == y.scalar_dims())
        .then_some(Promise { departure: "transform-types", status: OK })
}

/// More than 5 dimensions, vectorised destinations and folded sources of any strides.
fn dest_promise(status: i64, transform: &Transform, src: &Tensor) -> Option<Promise> {
    let vectorisable = transform.format != VECT_C || src.lanes() > 1;
    let known = (0..=VECT_C).contains(&transform.format);
    (status == NOT_SUPPORTED && known && vectorisable)
        .then_some(Promise { departure: "transform-dest", status: OK })
}
