//! The departures of pooling, response normalisation, samplers and Im2Col: more ranks, types,
//! layouts and vectors.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{BAD_PARAM, NOT_SUPPORTED, OK, Promise, Tensor, VECT_C};

/// What the descriptors of a case hold.
#[derive(Default)]
pub struct Windows {
    /// Mode of each pooling.
    poolings: HashMap<String, i64>,
    /// K, C and the extents of each 4-D filter.
    filters: HashMap<String, Vec<i64>>,
    convolutions: HashMap<String, Convolution>,
    /// Dims of each spatial transformer.
    transformers: HashMap<String, Vec<i64>>,
}

/// A 2-D convolution.
#[derive(Clone, Default)]
struct Convolution {
    /// Padding, strides and dilation.
    geometry: Vec<i64>,
    groups: i64,
}

impl Windows {
    /// The promise for a step of these calls, whose tensors are as given.
    pub fn promise(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        let tensor = |index: usize| tensors.get(step.args.get(index)?).filter(|tensor| has_data(tensor));
        let complete = |ignored: &[usize]| {
            let given = |(index, token): (usize, &String)| token != "NULL" || ignored.contains(&index);
            step.args.iter().enumerate().all(given)
        };
        let refused = step.status() == NOT_SUPPORTED;
        let promise = |departure, status| Some(Promise { departure, status });
        match step.function.as_str() {
            // What follows the types and the rank in the order of checks now decides.
            "PoolingForward" if refused && complete(&[]) => {
                let (x, y) = (tensor(3)?, tensor(6)?);
                let same = x.dims[..2] == y.dims[..2] && x.data_type == y.data_type;
                promise("pooling", if same { OK } else { BAD_PARAM })
            }
            "PoolingBackward" if refused => {
                let is_average = matches!(self.poolings.get(&step.args[1])?, 1 | 2);
                let (dy, dx) = (tensor(5)?, tensor(10)?);
                let same = dy.rank == dx.rank && dy.dims[..2] == dx.dims[..2] && dy.lanes() == dx.lanes();
                let given = complete(if is_average { &[3, 4, 7, 8] } else { &[] });
                given.then_some(Promise { departure: "pooling", status: if same { OK } else { BAD_PARAM } })
            }
            // Handle, descriptor and factors come last.
            "LRNCrossChannelForward" if refused && !complete(&[]) && complete(&[0, 1, 3, 6]) => {
                tensor(4)?;
                tensor(7)?;
                promise("response", BAD_PARAM)
            }
            "LRNCrossChannelForward" if step.status() != OK && complete(&[]) => {
                let (x, y) = (tensor(4)?, tensor(7)?);
                let same = x.dims == y.dims && x.data_type == y.data_type;
                match () {
                    () if x.rank < 3 || x.rank != y.rank => None,
                    () if same => promise("response", OK),
                    () if refused => promise("response", BAD_PARAM),
                    () => None,
                }
            }
            "LRNCrossChannelBackward" if refused && complete(&[0, 1, 3, 4, 5, 10]) => {
                let (dy, x, dx) = (tensor(6)?, tensor(8)?, tensor(11)?);
                let like = |other: &Tensor| other.dims == x.dims && other.lanes() == x.lanes();
                let status = if complete(&[4, 5]) { OK } else { BAD_PARAM };
                (like(dy) && like(dx)).then_some(Promise { departure: "response", status })
            }
            "DivisiveNormalizationForward" if step.status() == BAD_PARAM && complete(&[6]) => {
                widened(tensor(4)?, tensor(10)?)
            }
            "DivisiveNormalizationBackward" if step.status() == BAD_PARAM && complete(&[6, 13]) => {
                widened(tensor(4)?, tensor(11)?)
            }
            "DivisiveNormalizationForward" if refused && complete(&[6]) => {
                tensor(4)?;
                tensor(10)?;
                promise("response", OK)
            }
            "DivisiveNormalizationBackward" if refused && complete(&[6, 13]) => {
                tensor(4)?;
                tensor(11)?;
                promise("response", OK)
            }
            // The factors come last.
            "SpatialTfSamplerForward" if refused && complete(&[2, 6]) => {
                let (x, y) = (tensor(3)?, tensor(7)?);
                let status = self.samples(&step.args[1], x, y)?;
                promise("sampler", if complete(&[]) { status } else { BAD_PARAM })
            }
            "SpatialTfSamplerBackward" if refused && complete(&[]) => {
                let (x, dy) = (tensor(3)?, tensor(9)?);
                tensor(6)?;
                promise("sampler", self.samples(&step.args[1], x, dy)?)
            }
            "Im2Col" if refused && complete(&[0]) => {
                let (x, convolution) = (tensor(1)?, self.convolutions.get(&step.args[4])?);
                if convolution.groups > 1 {
                    return None;
                }
                let fits =
                    self.filters.get(&step.args[3]).is_some_and(|filter| convolves(x, filter, convolution));
                promise("columns", if fits && complete(&[]) { OK } else { BAD_PARAM })
            }
            _ => None,
        }
    }

    /// What is answered to x and y of any types: both of 4 dimensions, with N and C alike, and y as
    /// the transformer says.
    fn samples(&self, transformer: &str, x: &Tensor, y: &Tensor) -> Option<i64> {
        let target = self.transformers.get(transformer).filter(|target| target.len() == 4)?;
        if x.rank != 4 {
            return None;
        }
        let as_told = y.rank == 4 && [0, 2, 3].into_iter().all(|k| y.dims[k] == target[k]);
        let fits = as_told && x.dims[..2] == y.dims[..2];
        if fits && x.scalar_dims()[1] != y.scalar_dims()[1] {
            return None;
        }
        Some(if fits { OK } else { BAD_PARAM })
    }

    /// Takes over what an accepted call sets.
    pub fn follow(&mut self, step: &Step) {
        let from = |first: usize, count: usize| -> Option<Vec<i64>> {
            (first..first + count).map(|index| step.int(index)).collect()
        };
        match step.function.as_str() {
            "SetPooling2dDescriptor" => {
                self.poolings.insert(step.args[0].clone(), step.int(1).unwrap_or(0));
            }
            "SetPoolingNdDescriptor" => {
                self.poolings.insert(step.args[0].clone(), step.int(1).unwrap_or(0));
            }
            "SetSpatialTransformerNdDescriptor" => {
                let (rank, dims) = (step.int(3).unwrap_or(0), step.ints(4).unwrap_or_default());
                self.transformers
                    .insert(step.args[0].clone(), dims.into_iter().take(rank.max(0) as usize).collect());
            }
            "SetFilter4dDescriptor" => {
                self.filters.insert(step.args[0].clone(), from(3, 4).unwrap_or_default());
            }
            "SetConvolution2dDescriptor" => {
                let convolution = self.convolutions.entry(step.args[0].clone()).or_default();
                convolution.geometry = from(1, 6).unwrap_or_default();
            }
            "SetConvolutionGroupCount" => {
                let convolution = self.convolutions.entry(step.args[0].clone()).or_default();
                convolution.groups = step.int(1).unwrap_or(1);
            }
            _ => {}
        }
    }
}

/// Divisive normalisation of as many dimensions as the original refuses.
fn widened(x: &Tensor, y: &Tensor) -> Option<Promise> {
    let is_new = x.rank == 3;
    let forwards = |tensor: &Tensor| tensor.strides.iter().flatten().all(|&stride| stride >= 0);
    let fits = x.rank == y.rank && x.dims == y.dims && x.data_type == y.data_type;
    (is_new && fits && forwards(x) && forwards(y))
        .then_some(Promise { departure: "response-rank", status: OK })
}

/// Whether a filter of 4 dimensions goes with a tensor, channels as they are stored.
fn convolves(x: &Tensor, filter: &[i64], convolution: &Convolution) -> bool {
    let stored = if x.format == Some(VECT_C) { x.dims[1] / x.lanes() } else { x.dims[1] };
    let geometry = &convolution.geometry;
    let (&[_, channels, ..], [_, _, _, _, _, _]) = (filter, geometry.as_slice()) else { return false };
    let reaches = |k: usize| (filter[2 + k] - 1) * geometry[4 + k] < x.dims[2 + k] + 2 * geometry[k];
    x.rank == 4 && stored == channels && reaches(0) && reaches(1)
}

/// Vectors of a type without vectors describe no data.
fn has_data(tensor: &Tensor) -> bool {
    tensor.format != Some(VECT_C) || [5, 7, 8].contains(&tensor.data_type)
}
