//! CTC losses, with labels on the host or on the device, and the sizes of their workspaces.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::results;
use super::arg::{self, operands};
use super::types::{
    cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use super::{context, ctc, tensor};
use crate::desc::{CtcLossDescriptor, TensorDescriptor};
use crate::error::{Error, Result};
use crate::exec::Bound;
use crate::mode::Mode;
use crate::ops::ctc::{CtcPlan, Lengths, Tensors};

/// `costs[n] = -log of the sum over all alignments of the product of y`, and its gradient; labels on the host.
///
/// An alignment gives each row of a sample's input a class, so that the label is left when equal neighbours are joined and
/// blanks, class 0, are dropped. `y` is probs (NONE, 0, and every number but 1), or softmax(probs) over the classes (SOFTMAX,
/// 1). In both modes the gradient is that by the numbers in front of the softmax: `y` less the share of the alignments that
/// have the class in the row. All is computed in logarithms, so that nothing underflows, and each sum has one order: results
/// are the same bits for any number of threads, every `algo`, and on both cores.
///
/// A sample is infeasible if its label and the equal neighbours in it are more than the rows of its input: its cost is plus infinity,
/// and its gradients are zeros (ZERO_OOB, 0, and every number but 1), or left as they are (SKIP_OOB, 1). Where every alignment
/// has a probability of 0, the cost is plus infinity and the gradients are zeros. Rows behind an input have the gradient 0 in all
/// modes. A label of length 0 is aligned with blanks; with an input of length 0 the cost is 0.
///
/// Operands
/// - `probs`, `gradients`: `[time, batch, classes]`, any strides each, probs FLOAT or DOUBLE as the loss is computed, gradients of any
///   type without vectors; on the host for the CPU core, on the device for the CUDA core, as are costs and workspace; aligned to an element. With
///   `gradients` NULL only costs are computed.
/// - `hostLabels`: the labels of all samples one behind the other, classes from 1 on; NULL if there are none
/// - `hostLabelLengths`, `hostInputLengths`: an entry for each sample; an input of length 0 and below has no rows. All three arrays are
///   read before the call returns.
/// - `costs`: a number for each sample, of the type of probs
///
/// Workspace: `workspace` of at least cudnnGetCTCLossWorkspaceSize bytes, aligned to an element of probs, written before it is read.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL probs, costs or workspace
/// - BAD_PARAM: probs without 3 dimensions; other dims of the gradients; NULL lengths; NULL labels where there are some
/// - BAD_PARAM: types that are not as above; in strict mode a label of more than 255 classes with the deterministic algorithm
/// - BAD_PARAM: an input longer than the tensors; a label length below 0; a class outside 1 to classes - 1; too small a workspace
/// - BAD_PARAM: gradients that repeat an address; misaligned data
///
/// Aliasing: gradients may be probs with the same strides and type. The CPU core takes any other overlap of gradients or costs with
/// probs, as if all were read first; the CUDA core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: checks observed on 9.27.0; formulas from the documentation and Graves et al., 2006; infeasible and empty samples and rows behind
/// an input as `docs/sequences.md` says.
///
/// # Safety
/// `probs` is NULL or valid for reads of the whole span of `probsDesc`, `gradients` for writes of that of `gradientsDesc`, `costs` for
/// writes of a number for each sample, `workspace` for reads and writes of `workSpaceSizeInBytes`; both arrays of lengths are NULL or valid for an
/// entry for each sample, `hostLabels` for the sum of the label lengths; no other thread uses what is written meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCTCLoss(
    handle: cudnnHandle_t, probsDesc: cudnnTensorDescriptor_t, probs: *const c_void,
    hostLabels: *const c_int, hostLabelLengths: *const c_int, hostInputLengths: *const c_int,
    costs: *mut c_void, gradientsDesc: cudnnTensorDescriptor_t, gradients: *mut c_void,
    algo: MaybeUninit<cudnnCTCLossAlgo_t>, ctcLossDesc: cudnnCTCLossDescriptor_t, workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnCTCLoss", |call| {
        let descriptors = Descriptors::get(ctcLossDesc, probsDesc, gradientsDesc)?;
        let data = Data { probs, costs, gradients, workspace };
        data.check()?;
        let tensors = descriptors.tensors(raw(algo), !gradients.is_null());
        // SAFETY: both arrays of lengths are NULL or have an entry for each sample.
        let [labels, inputs] = unsafe { lengths(&tensors, hostLabelLengths, hostInputLengths)? };
        let lengths = Lengths { labels: &labels, inputs: &inputs };
        // Lengths that are no lengths are refused before their labels are looked at.
        CtcPlan::check(tensors, lengths, workSpaceSizeInBytes, Mode::current())?;
        let count = labels.iter().map(|&length| usize::try_from(length).unwrap_or(0)).sum();
        let classes = match count {
            0 => Vec::new(),
            // SAFETY: `hostLabels` is NULL or has an entry for each label of the lengths.
            _ => unsafe { arg::int_list(hostLabels, count, "hostLabels")? },
        };
        let plan =
            CtcPlan::with_host_labels(tensors, &classes, lengths, workSpaceSizeInBytes, Mode::current())?;
        data.check_alignment(&descriptors)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, the costs and the
        // workspace, which is as large as the plan needs.
        unsafe { call.run(&plan, data.operands()) }
    })
}

/// `costs[n] = -log of the sum over all alignments of the product of y`, and its gradient; labels on the device.
///
/// What it computes is what cudnnCTCLoss computes. Labels and lengths are data of the device, which no check sees: lengths are cut to what
/// they may be, and a sample with a class outside 1 to classes - 1 is infeasible.
///
/// Operands
/// - `probs`, `gradients`, `costs`: as in cudnnCTCLoss
/// - `labels`: the labels of all samples one behind the other, each as long as its length says, and not padded; NULL only if the longest label of the
///   descriptor has length 0
/// - `labelLengths`, `inputLengths`: an entry for each sample; a label is cut to the longest one of the descriptor, an input to the rows of
///   probs. All three on the host for the CPU core, on the device for the CUDA core.
///
/// Workspace: `workspace` of at least cudnnGetCTCLossWorkspaceSize_v8 bytes, aligned to an element of probs, written before it is read.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL probs, costs, lengths or workspace
/// - BAD_PARAM: probs without 3 dimensions; other dims of the gradients; types that are not as in cudnnCTCLoss; a longest label below
///   0; in strict mode one of more than 255 classes with the deterministic algorithm
/// - BAD_PARAM: NULL labels where there may be some; too small a workspace
/// - BAD_PARAM: gradients that repeat an address; misaligned data
///
/// Aliasing: as in cudnnCTCLoss.
///
/// Source: checks observed on 9.27.0; else as cudnnCTCLoss.
///
/// # Safety
/// As cudnnCTCLoss; labels and lengths are valid for the core's device.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCTCLoss_v8(
    handle: cudnnHandle_t, algo: MaybeUninit<cudnnCTCLossAlgo_t>, ctcLossDesc: cudnnCTCLossDescriptor_t,
    probsDesc: cudnnTensorDescriptor_t, probs: *const c_void, labels: *const c_int,
    labelLengths: *const c_int, inputLengths: *const c_int, costs: *mut c_void,
    gradientsDesc: cudnnTensorDescriptor_t, gradients: *mut c_void, workSpaceSizeInBytes: usize,
    workspace: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnCTCLoss_v8", |call| {
        let descriptors = Descriptors::get(ctcLossDesc, probsDesc, gradientsDesc)?;
        let data = Data { probs, costs, gradients, workspace };
        data.check()?;
        arg::required(labelLengths, "labelLengths")?;
        arg::required(inputLengths, "inputLengths")?;
        let tensors = descriptors.tensors(raw(algo), !gradients.is_null());
        let plan = CtcPlan::with_device_labels(tensors, workSpaceSizeInBytes, Mode::current())?;
        if descriptors.loss.max_label_length > 0 {
            arg::required(labels, "labels")?;
        }
        data.check_alignment(&descriptors)?;
        let integers = [(labels, "labels"), (labelLengths, "labelLengths"), (inputLengths, "inputLengths")];
        for (pointer, name) in integers.into_iter().filter(|(pointer, _)| !pointer.is_null()) {
            arg::data(pointer.cast(), size_of::<c_int>(), name)?;
        }
        let [costs, gradients, workspace, probs] = data.operands();
        let [labels, of_labels, of_inputs] = operands![labels, labelLengths, inputLengths];
        let operands = [costs, gradients, workspace, probs, labels, of_labels, of_inputs];
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, the costs, the
        // integers and the workspace, which is as large as the plan needs.
        unsafe { call.run(&plan, operands) }
    })
}

/// Bytes of workspace of a CTC loss with labels on the host.
///
/// `N (12 L + 16 + e)` rounded up to e, `2 N T (2 L + 1) e`, and `N R A e` for SOFTMAX, where L is the longest label, T the longest input, and
/// probs are R rows of A classes of e bytes for N samples. `labels` are not looked at.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, but `gradientsDesc` may be NULL; `sizeInBytes` or lengths that are NULL
/// - BAD_PARAM: probs without 3 dimensions; other dims of the gradients
/// - NOT_SUPPORTED: probs and the loss are not both FLOAT or both DOUBLE; in strict mode a label of more than 255 classes with the
///   deterministic algorithm; more bytes than 64 bits count
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write, both arrays of lengths are NULL or valid for an entry for each sample.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize(
    handle: cudnnHandle_t, probsDesc: cudnnTensorDescriptor_t, gradientsDesc: cudnnTensorDescriptor_t,
    labels: *const c_int, labelLengths: *const c_int, inputLengths: *const c_int,
    algo: MaybeUninit<cudnnCTCLossAlgo_t>, ctcLossDesc: cudnnCTCLossDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let descriptors = Descriptors::get(ctcLossDesc, probsDesc, gradientsDesc)?;
    let tensors = descriptors.tensors(raw(algo), true);
    // SAFETY: both arrays of lengths are NULL or have an entry for each sample.
    let [labels, inputs] = unsafe { lengths(&tensors, labelLengths, inputLengths)? };
    let lengths = Lengths { labels: &labels, inputs: &inputs };
    results!(new sizeInBytes = tensors.size(lengths, Mode::current())?)
}

/// Bytes of workspace of a CTC loss with labels on the device.
///
/// `N (8 L + 8 + e)` rounded up to e, `2 N R (2 L + 1) e`, and `N R A e` for SOFTMAX, where L is the longest label of the descriptor, and
/// probs are R rows of A classes of e bytes for N samples.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, but `gradientsDesc` may be NULL; `sizeInBytes` that is NULL
/// - BAD_PARAM: probs without 3 dimensions; other dims of the gradients
/// - NOT_SUPPORTED: probs and the loss are not both FLOAT or both DOUBLE; a longest label below 0, in strict mode also one of more than 255
///   classes with the deterministic algorithm; more bytes than 64 bits count
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize_v8(
    handle: cudnnHandle_t, algo: MaybeUninit<cudnnCTCLossAlgo_t>, ctcLossDesc: cudnnCTCLossDescriptor_t,
    probsDesc: cudnnTensorDescriptor_t, gradientsDesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let descriptors = Descriptors::get(ctcLossDesc, probsDesc, gradientsDesc)?;
    let tensors = descriptors.tensors(raw(algo), true);
    results!(new sizeInBytes = tensors.size_of_longest(Mode::current())?)
}

/// The descriptors of one call.
struct Descriptors {
    loss: CtcLossDescriptor,
    probs: TensorDescriptor,
    /// NULL where only costs are wanted.
    gradients: Option<TensorDescriptor>,
}

impl Descriptors {
    fn get(
        loss: cudnnCTCLossDescriptor_t, probs: cudnnTensorDescriptor_t, gradients: cudnnTensorDescriptor_t,
    ) -> Result<Self> {
        let gradients =
            if gradients.is_null() { None } else { Some(tensor::get(gradients, "gradientsDesc")?) };
        Ok(Descriptors { loss: ctc::get(loss)?, probs: tensor::get(probs, "probsDesc")?, gradients })
    }

    /// What the plan takes; a descriptor of gradients is checked also where there are none to be computed.
    fn tensors(&self, algorithm: c_int, has_gradients: bool) -> Tensors<'_> {
        let Descriptors { loss, probs, gradients } = self;
        Tensors { loss, probs, gradients: gradients.as_ref(), algorithm, has_gradients }
    }
}

/// The tensors of a call that computes.
struct Data {
    probs: *const c_void,
    costs: *mut c_void,
    gradients: *mut c_void,
    workspace: *mut c_void,
}

impl Data {
    fn check(&self) -> Result<()> {
        arg::required(self.probs, "probs")?;
        arg::required(self.costs, "costs")?;
        arg::required(self.workspace, "workspace")
    }

    fn check_alignment(&self, descriptors: &Descriptors) -> Result<()> {
        let size = descriptors.probs.data_type().scalar().size();
        tensor::data(self.probs, &descriptors.probs, "probs")?;
        arg::data(self.costs, size, "costs")?;
        arg::data(self.workspace, size, "workspace")?;
        if self.gradients.is_null() {
            return Ok(());
        }
        let Some(gradients) = &descriptors.gradients else {
            return Err(Error::Null { argument: "gradientsDesc" });
        };
        tensor::data(self.gradients, gradients, "gradients")
    }

    /// In the order of the plan's operands.
    fn operands(&self) -> [Bound; 4] {
        let Data { probs, costs, gradients, workspace } = *self;
        operands![costs, gradients, workspace, probs]
    }
}

/// Lengths of labels and of inputs.
///
/// # Errors
/// Bad parameter for dims without a number of samples, and for NULL; host allocation.
///
/// # Safety
/// Both are NULL or valid for an entry for each sample.
unsafe fn lengths(
    tensors: &Tensors<'_>, of_labels: *const c_int, of_inputs: *const c_int,
) -> Result<[Vec<c_int>; 2]> {
    let samples = tensors.samples()?;
    // SAFETY: both arrays are NULL or have an entry for each sample.
    unsafe {
        Ok([
            arg::int_list(of_labels, samples, "labelLengths")?,
            arg::int_list(of_inputs, samples, "inputLengths")?,
        ])
    }
}
