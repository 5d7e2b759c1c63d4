//! The calls of version 6 on recurrent networks where the original serves them: by its calls of
//! version 8, which it still has. Weights and spaces have the original's form then.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use super::beside::{self, Side};
use super::removed_rnn_call::Vectors;
use super::removed_rnn_operands::{DataGradient, Forward, WeightGradient};
use super::removed_rnn_resized::Resized;
use super::rnn_network::{cudnnGetRNNTempSpaceSizes, cudnnGetRNNWeightParams, cudnnGetRNNWeightSpaceSize};
use super::rnn_run::{cudnnRNNBackwardData_v8, cudnnRNNBackwardWeights_v8, cudnnRNNForward};
use super::types::{
    cudnnFilterDescriptor_t, cudnnForwardMode_t, cudnnHandle_t, cudnnRNNDataDescriptor_t,
    cudnnRNNDescriptor_t, cudnnTensorDescriptor_t, cudnnWgradMode_t,
};
use super::{filter, guard, rnn, sequence, tensor};
use crate::desc::rnn::RnnInput;
use crate::desc::sequence::RnnDataLayout;
use crate::desc::{FilterDescriptor, Format, RnnDataDescriptor, RnnDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// Entries of a vector of the network's input that a gradient of version 6 is about. Input that is
/// skipped has the hidden size, and vectors of sequences in one descriptor any size.
pub(super) fn gradient_size(desc: cudnnRNNDescriptor_t, vectors: &Vectors) -> i64 {
    let skips = |found: &RnnDescriptor| found.input == RnnInput::Skip && vectors.batches.is_empty();
    rnn::get(desc).ok().filter(skips).map_or(vectors.size, |found| i64::from(found.hidden))
}

/// A network of version 6 with the vectors that the call tells, as version 8 describes it.
pub(super) struct Network {
    handle: cudnnHandle_t,
    rnn: cudnnRNNDescriptor_t,
    /// Descriptors of data that were made for this call.
    made: Vec<cudnnRNNDataDescriptor_t>,
}

impl Drop for Network {
    fn drop(&mut self) {
        rnn::remove(self.rnn);
        self.made.iter().for_each(|&desc| sequence::remove(desc));
    }
}

impl Network {
    /// The network on vectors of this type and size: `None` if this library serves its calls, as
    /// the original has no such handle or refuses such a network.
    ///
    /// # Errors
    /// Without memory for a descriptor.
    pub(super) fn of(
        handle: cudnnHandle_t, desc: cudnnRNNDescriptor_t, data: DataType, size: i64,
    ) -> Result<Option<Network>> {
        let Some(side) = beside::side(handle, "cudnnRNNForward") else { return Ok(None) };
        let (Ok(found), Ok(size)) = (rnn::get(desc), i32::try_from(size)) else { return Ok(None) };
        let known = found.data.is_none_or(|known| known == (data, size));
        if !found.is_set() || size < 1 || !known {
            return Ok(None);
        }
        let described = RnnDescriptor { data: Some((data, size)), ..found };
        let network = Network { handle, rnn: rnn::insert(described)?, made: Vec::new() };
        Ok(network.has_twin(&side).then_some(network))
    }

    fn has_twin(&self, side: &Side) -> bool {
        rnn::has_twin(self.rnn, side)
    }

    /// A descriptor of vectors as version 8 has it.
    ///
    /// # Errors
    /// As [`sequence::insert`]; lengths that are not those of a batch.
    fn data(&mut self, vectors: &Vectors) -> Result<cudnnRNNDataDescriptor_t> {
        if let Some(desc) = vectors.source {
            return Ok(desc);
        }
        let int = |value: i64| i32::try_from(value).map_err(|_| Error::mismatch("a batch beyond 32 bits"));
        let batch = vectors.batches.first().copied().unwrap_or(0);
        let length = |rank: i64| vectors.batches.iter().filter(|&&active| active > rank).count() as i64;
        let lengths = (0..batch).map(|rank| int(length(rank))).collect::<Result<Vec<i32>>>()?;
        let (layout, steps) = (RnnDataLayout::TimeMajorPacked, int(vectors.batches.len() as i64)?);
        let data = RnnDataDescriptor::new(vectors.data, layout, steps, int(vectors.size)?, lengths, None)?;
        let desc = sequence::insert(data)?;
        self.made.push(desc);
        Ok(desc)
    }

    /// The same with vectors of another size.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    fn sized(&mut self, vectors: &Vectors, size: i64) -> Result<cudnnRNNDataDescriptor_t> {
        if vectors.size == size {
            return self.data(vectors);
        }
        let told = sequence::rnn_data(self.data(vectors)?, "the descriptor of vectors")?;
        let size = i32::try_from(size).map_err(|_| Error::mismatch("vectors beyond 32 bits"))?;
        let (layout, steps, lengths) = (told.layout(), told.max_length(), told.lengths().to_vec());
        let data = RnnDataDescriptor::new(told.data_type(), layout, steps, size, lengths, told.fill())?;
        let desc = sequence::insert(data)?;
        self.made.push(desc);
        Ok(desc)
    }

    /// The most bytes of workspace and of reserve space that a call on these vectors takes. Version 6
    /// asks once for both ways, and for batches that have padding as well as for those without.
    ///
    /// # Errors
    /// Those of the original for the batch as it is.
    pub(super) fn spaces(mut self, x: &Vectors) -> Result<[usize; 2]> {
        let as_told = self.data(x)?;
        let padded = self.padded(x)?;
        let (inference, training) =
            (cudnnForwardMode_t::CUDNN_FWD_MODE_INFERENCE, cudnnForwardMode_t::CUDNN_FWD_MODE_TRAINING);
        let mut most = [0, 0];
        for (data, mode) in
            [(as_told, training), (as_told, inference), (padded, training), (padded, inference)]
        {
            let mut spaces = [0, 0];
            let [work, reserve] = &mut spaces;
            // SAFETY: places for two numbers.
            let status = unsafe {
                cudnnGetRNNTempSpaceSizes(self.handle, self.rnn, MaybeUninit::new(mode), data, work, reserve)
            };
            match guard::outcome(status) {
                Err(error) if data == as_told => return Err(error),
                // A network without a mode for padding takes no such batch.
                Err(_) => {}
                Ok(()) => most = [most[0].max(spaces[0]), most[1].max(spaces[1])],
            }
        }
        let skips = rnn::get(self.rnn)?.input == RnnInput::Skip;
        Ok([most[0] + if skips { Resized::room(x, x.size) } else { 0 }, most[1]])
    }

    /// The same batch in the layout with padding, sequence by sequence.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    fn padded(&mut self, vectors: &Vectors) -> Result<cudnnRNNDataDescriptor_t> {
        let told = sequence::rnn_data(self.data(vectors)?, "xDesc")?;
        let layout = RnnDataLayout::BatchMajorPadded;
        let (steps, size, lengths) = (told.max_length(), told.vector_size(), told.lengths().to_vec());
        let desc =
            sequence::insert(RnnDataDescriptor::new(told.data_type(), layout, steps, size, lengths, None)?)?;
        self.made.push(desc);
        Ok(desc)
    }

    /// Bytes of the weights.
    ///
    /// # Errors
    /// Those of the original.
    pub(super) fn weight_bytes(&self) -> Result<usize> {
        let mut size = 0;
        // SAFETY: a place for one number.
        guard::outcome(unsafe { cudnnGetRNNWeightSpaceSize(self.handle, self.rnn, &raw mut size) })?;
        Ok(size)
    }

    /// Where a matrix or a bias lies, and its extents; `None` if there is none.
    ///
    /// # Errors
    /// Those of the original.
    pub(super) fn part(
        &self, pseudo_layer: c_int, lin_layer: c_int, weights: *const c_void, is_bias: bool,
    ) -> Result<Option<(*mut c_void, [i64; 3])>> {
        let size = self.weight_bytes()?;
        let (matrix, bias) = (tensor::insert()?, tensor::insert()?);
        let mut at = [null_mut::<c_void>(); 2];
        let [matrix_at, bias_at] = &mut at;
        // SAFETY: descriptors that are alive, and places for two pointers; the weights are not read.
        let status = unsafe {
            cudnnGetRNNWeightParams(
                self.handle,
                self.rnn,
                pseudo_layer,
                size,
                weights,
                lin_layer,
                matrix,
                matrix_at,
                bias,
                bias_at,
            )
        };
        let found = tensor::get(if is_bias { bias } else { matrix }, "the part");
        tensor::remove(matrix);
        tensor::remove(bias);
        guard::outcome(status)?;
        let (found, at) = (found?, at[usize::from(is_bias)]);
        // The first part of weights at NULL lies at NULL.
        if found.rank() < 3 {
            return Ok(None);
        }
        let dims = found.dims();
        Ok(Some((at, [dims[0], dims[1], dims[2]])))
    }
}

/// The descriptor of states where a pointer goes with it.
fn either(
    first: (cudnnTensorDescriptor_t, *const c_void), second: (cudnnTensorDescriptor_t, *const c_void),
) -> cudnnTensorDescriptor_t {
    if first.1.is_null() && !second.1.is_null() || first.0.is_null() { second.0 } else { first.0 }
}

/// # Errors
/// Bad parameter for a filter that is not alive.
fn bytes(desc: cudnnFilterDescriptor_t, name: &'static str) -> Result<usize> {
    Ok(filter::get(desc, name)?.size_in_bytes())
}

impl Network {
    /// A forward pass.
    ///
    /// # Errors
    /// Those of the original.
    ///
    /// # Safety
    /// As for the calls of version 6.
    pub(super) unsafe fn forward(mut self, pass: &Forward) -> Result<()> {
        let (x, y) = (self.data(&pass.vectors.0)?, self.data(&pass.vectors.1)?);
        let mode = if pass.training {
            cudnnForwardMode_t::CUDNN_FWD_MODE_TRAINING
        } else {
            cudnnForwardMode_t::CUDNN_FWD_MODE_INFERENCE
        };
        let hidden = either(pass.hx, (pass.hy.0, pass.hy.1));
        let cells = either(pass.cx, (pass.cy.0, pass.cy.1));
        let weights = bytes(pass.w.0, "wDesc")?;
        let (work, reserve) = (&pass.workspace, &pass.reserve);
        // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
        guard::outcome(unsafe {
            cudnnRNNForward(
                self.handle,
                self.rnn,
                MaybeUninit::new(mode),
                null(),
                x,
                pass.x,
                y,
                pass.y,
                hidden,
                pass.hx.1,
                pass.hy.1,
                cells,
                pass.cx.1,
                pass.cy.1,
                weights,
                pass.w.1,
                work.size,
                work.pointer,
                reserve.size,
                reserve.pointer,
            )
        })
    }

    /// The gradients by inputs and first states.
    ///
    /// # Errors
    /// Those of the original.
    ///
    /// # Safety
    /// As for the calls of version 6.
    pub(super) unsafe fn data_gradient(mut self, pass: &DataGradient, y: *const c_void) -> Result<()> {
        let (dx, ys) = &pass.vectors;
        let size = gradient_size(pass.rnn, dx);
        let resized = Resized::new(dx, size, (pass.dx, &pass.workspace))?;
        let (at, work) = match &resized {
            Some(resized) => (resized.at(), resized.rest()),
            None => (pass.dx, pass.workspace),
        };
        let (dx, y_desc) = (self.sized(dx, size)?, self.data(&ys[0])?);
        let hidden = either(pass.dhy, (pass.dhx.0, pass.dhx.1));
        let cells = either(pass.dcy, (pass.dcx.0, pass.dcx.1));
        let weights = bytes(pass.w.0, "wDesc")?;
        let reserve = &pass.reserve;
        // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
        guard::outcome(unsafe {
            cudnnRNNBackwardData_v8(
                self.handle,
                self.rnn,
                null(),
                y_desc,
                y,
                pass.dy,
                dx,
                at,
                hidden,
                pass.hx,
                pass.dhy.1,
                pass.dhx.1,
                cells,
                pass.cx,
                pass.dcy.1,
                pass.dcx.1,
                weights,
                pass.w.1,
                work.size,
                work.pointer,
                reserve.size,
                reserve.pointer,
            )
        })?;
        // SAFETY: both hold as many vectors as their descriptors say, behind the pass on one stream.
        resized.map_or(Ok(()), |resized| unsafe { resized.move_back(self.handle) })
    }

    /// The gradients by the weights, which are added.
    ///
    /// # Errors
    /// Those of the original.
    ///
    /// # Safety
    /// As for the calls of version 6.
    pub(super) unsafe fn weight_gradient(mut self, pass: &WeightGradient, y: *const c_void) -> Result<()> {
        let (x, y_desc) = (&pass.vectors.0, self.data(&pass.vectors.1)?);
        let size = gradient_size(pass.rnn, x);
        // Nothing of the weights is for input that is skipped: any vectors of its size do.
        let from = if x.size == size { pass.x } else { y };
        let x = self.sized(x, size)?;
        let weights = bytes(pass.dw.0, "dwDesc")?;
        let (work, reserve) = (&pass.workspace, &pass.reserve);
        let add = MaybeUninit::new(cudnnWgradMode_t::CUDNN_WGRAD_MODE_ADD);
        // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
        guard::outcome(unsafe {
            cudnnRNNBackwardWeights_v8(
                self.handle,
                self.rnn,
                add,
                null(),
                x,
                from,
                pass.hx.0,
                pass.hx.1,
                y_desc,
                y,
                weights,
                pass.dw.1,
                work.size,
                work.pointer,
                reserve.size,
                reserve.pointer,
            )
        })
    }
}

/// Where a part of the weights lies, which the filter descriptor then describes; NULL if there is
/// none.
///
/// # Errors
/// Those of the original, and of the filter.
pub(super) fn place(
    network: &Network, [pseudo_layer, lin_layer]: [c_int; 2], weights: *const c_void, is_bias: bool,
    desc: cudnnFilterDescriptor_t, data: DataType,
) -> Result<*mut c_void> {
    let part = network.part(pseudo_layer, lin_layer, weights, is_bias)?;
    let (at, filter) = match part {
        Some((at, dims)) => (at, FilterDescriptor::new(data, Format::Nchw, 3, &dims, Mode::current())?),
        None => (null_mut(), FilterDescriptor::default()),
    };
    filter::put(desc, "the descriptor of weights", filter)?;
    Ok(at)
}
