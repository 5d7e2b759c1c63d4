//! RNN data and sequence data descriptors: create, set, get, destroy.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, results};
use super::beside::twinned;
use super::data_type;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    CEnum, cudnnDataType_t, cudnnRNNDataDescriptor_t, cudnnRNNDataLayout_t, cudnnSeqDataAxis_t,
    cudnnSeqDataDescriptor_t, cudnnStatus_t, raw,
};
use crate::desc::sequence::{PaddingFill, SEQ_RANK, TYPES};
use crate::desc::{Choice, RnnDataDescriptor, SeqDataDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

static RNN_DATA: Table<RnnDataDescriptor> = Table::new(Kind::RnnData);
twinned!(cudnnRNNDataDescriptor_t, RNN_DATA);

/// The batch of sequences behind a descriptor.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn rnn_data(desc: cudnnRNNDataDescriptor_t, argument: &'static str) -> Result<RnnDataDescriptor> {
    RNN_DATA.with(desc.addr(), argument, |data| Ok(data.clone()))
}

/// A descriptor that holds this, for calls that need one of their own.
///
/// # Errors
/// Without memory for it.
pub(super) fn insert(data: RnnDataDescriptor) -> Result<cudnnRNNDataDescriptor_t> {
    RNN_DATA.insert(data).map(std::ptr::without_provenance_mut)
}

/// Takes such a descriptor away.
pub(super) fn remove(desc: cudnnRNNDataDescriptor_t) {
    // It is alive.
    let _ = RNN_DATA.remove(desc.addr(), "rnnDataDesc");
}

static SEQ_DATA: Table<SeqDataDescriptor> = Table::new(Kind::SeqData);
twinned!(cudnnSeqDataDescriptor_t, SEQ_DATA);

/// A copy of what a sequence data descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(super) fn get_seq_data(
    desc: cudnnSeqDataDescriptor_t, argument: &'static str,
) -> Result<SeqDataDescriptor> {
    SEQ_DATA.with(desc.addr(), argument, |desc| Ok(desc.clone()))
}

/// The element type of sequences; `other` makes the error for the types that C knows and sequences do not have.
fn sequence_type(
    code: MaybeUninit<cudnnDataType_t>, other: impl FnOnce(String) -> Error,
) -> Result<DataType> {
    if cudnnDataType_t::decode(code).is_none() {
        return Err(Error::argument("dataType", raw(code).into(), "no data type"));
    }
    data_type::known(raw(code))
        .filter(|data_type| TYPES.contains(data_type))
        .ok_or_else(|| other(format!("dataType = {}: sequences have the types {TYPES:?}", raw(code))))
}

/// Reads the element that fills the space behind short sequences, zeros if it is not given.
///
/// # Safety
/// `fill` is NULL or valid for reads of one element of the type.
unsafe fn load_fill(fill: *const c_void, data_type: DataType) -> PaddingFill {
    let mut bytes = PaddingFill::default();
    // SAFETY: `fill` is NULL or one readable element of the type.
    unsafe { arg::load_optional(fill.cast::<u8>(), &mut bytes[..data_type.size()]) };
    bytes
}

/// Creates an RNN data descriptor: type float, no sequences.
///
/// Status: BAD_PARAM if `rnnDataDesc` is NULL.
///
/// # Safety
/// `rnnDataDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateRNNDataDescriptor(
    rnnDataDesc: *mut cudnnRNNDataDescriptor_t,
) -> cudnnStatus_t {
    create!(rnnDataDesc, RNN_DATA)
}

/// Destroys an RNN data descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyRNNDataDescriptor(rnnDataDesc: cudnnRNNDataDescriptor_t) -> cudnnStatus_t {
    destroy!(rnnDataDesc, RNN_DATA)
}

/// Sets type, layout, sizes and lengths of a batch of sequences of vectors.
///
/// `seqLengthArray` has one length per sequence, each from 0 to `maxSeqLength`; in the packed layout they do
/// not increase, the first is `maxSeqLength` and none is 0. `paddingFill` points to one element, NULL means
/// zero. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive or a number that is no type; NOT_SUPPORTED for types other than
/// FLOAT, DOUBLE, HALF and BFLOAT16; BAD_PARAM for an unknown layout, a size below 1, a NULL array or a bad length.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `seqLengthArray` is NULL or valid for reads of `batchSize` ints, `paddingFill` for one element.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>,
    layout: MaybeUninit<cudnnRNNDataLayout_t>, maxSeqLength: c_int, batchSize: c_int, vectorSize: c_int,
    seqLengthArray: *const c_int, paddingFill: *mut c_void,
) -> cudnnStatus_t {
    RNN_DATA.replace(rnnDataDesc.addr(), "rnnDataDesc", || {
        let data_type = sequence_type(dataType, Error::unsupported)?;
        let layout = arg::choice(layout, "layout")?;
        for (argument, size) in
            [("maxSeqLength", maxSeqLength), ("batchSize", batchSize), ("vectorSize", vectorSize)]
        {
            if size < 1 {
                return Err(Error::argument(argument, size.into(), "at least 1"));
            }
        }
        // SAFETY: `seqLengthArray` is NULL or holds `batchSize` ints, `paddingFill` is NULL or one readable element.
        let (lengths, fill) = unsafe {
            (
                arg::int_list(seqLengthArray, batchSize as usize, "seqLengthArray")?,
                (!paddingFill.is_null()).then(|| load_fill(paddingFill, data_type)),
            )
        };
        RnnDataDescriptor::new(data_type, layout, maxSeqLength, vectorSize, lengths, fill)
    })
}

/// Reads type, layout and sizes of a batch of sequences, and exactly `arrayLengthRequested` lengths, zeros beyond.
///
/// `paddingFill` receives one element.
///
/// Status: BAD_PARAM for a descriptor that is not alive, a negative `arrayLengthRequested`, or if a pointer is NULL
/// (`seqLengthArray` may be if no length is requested).
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Every pointer is NULL or valid for one write, `seqLengthArray` for `arrayLengthRequested`, `paddingFill` for one
/// element.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t, dataType: *mut cudnnDataType_t, layout: *mut cudnnRNNDataLayout_t,
    maxSeqLength: *mut c_int, batchSize: *mut c_int, vectorSize: *mut c_int, arrayLengthRequested: c_int,
    seqLengthArray: *mut c_int, paddingFill: *mut c_void,
) -> cudnnStatus_t {
    RNN_DATA.with(rnnDataDesc.addr(), "rnnDataDesc", |desc| {
        let Ok(requested) = usize::try_from(arrayLengthRequested) else {
            return Err(Error::argument("arrayLengthRequested", arrayLengthRequested.into(), "not negative"));
        };
        if requested > 0 {
            arg::required(seqLengthArray, "seqLengthArray")?;
        }
        arg::required(paddingFill, "paddingFill")?;
        results! {
            new dataType = data_type::encode(desc.data_type()),
            code layout = desc.layout().code(),
            new maxSeqLength = desc.max_length(),
            new batchSize = desc.lengths().len() as c_int,
            new vectorSize = desc.vector_size(),
        }?;
        let lengths = desc.lengths().iter().copied().chain(std::iter::repeat(0));
        // SAFETY: not NULL if anything is written, and the caller vouches for this many entries.
        unsafe {
            arg::store(seqLengthArray, lengths.take(requested));
            arg::store_optional(
                paddingFill.cast(),
                &desc.fill().unwrap_or_default()[..desc.data_type().size()],
            );
        }
        Ok(())
    })
}

/// Creates a sequence data descriptor: type float, zeros.
///
/// Status: BAD_PARAM if `seqDataDesc` is NULL.
///
/// # Safety
/// `seqDataDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateSeqDataDescriptor(
    seqDataDesc: *mut cudnnSeqDataDescriptor_t,
) -> cudnnStatus_t {
    create!(seqDataDesc, SEQ_DATA)
}

/// Destroys a sequence data descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroySeqDataDescriptor(seqDataDesc: cudnnSeqDataDescriptor_t) -> cudnnStatus_t {
    destroy!(seqDataDesc, SEQ_DATA)
}

/// Sets type, sizes, order and lengths of the sequences of an attention.
///
/// `dimA` holds the extents of time, batch, beam and vector; `axes` their order in memory, outermost first, the
/// vector last. `seqLengthArray` has `batch * beam` lengths, each from 1 to time. `paddingFill` points to one
/// element, NULL means zero. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive or nbDims below 1; NOT_SUPPORTED if it is not 4; BAD_PARAM for
/// a number that is no type; INTERNAL_ERROR for types other than FLOAT, DOUBLE, HALF and BFLOAT16, as cuDNN has
/// it; BAD_PARAM for a NULL array, bad axes, an extent below 1, another number of lengths, or a bad length.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `dimA` and `axes` are NULL or valid for 4 reads, `seqLengthArray` for `seqLengthArraySize`, `paddingFill` for one
/// element.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetSeqDataDescriptor(
    seqDataDesc: cudnnSeqDataDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>, nbDims: c_int,
    dimA: *const c_int, axes: *const MaybeUninit<cudnnSeqDataAxis_t>, seqLengthArraySize: usize,
    seqLengthArray: *const c_int, paddingFill: *mut c_void,
) -> cudnnStatus_t {
    SEQ_DATA.replace(seqDataDesc.addr(), "seqDataDesc", || {
        if nbDims < 1 {
            return Err(Error::argument("nbDims", nbDims.into(), "sequence data has 4 dimensions"));
        }
        if nbDims as usize != SEQ_RANK {
            return Err(Error::unsupported(format!("nbDims = {nbDims}: sequence data has 4 dimensions")));
        }
        let data_type = sequence_type(dataType, |text| Error::Internal(text.into()))?;
        arg::required(dimA, "dimA")?;
        arg::required(axes, "axes")?;
        let (mut dims, mut order) = ([0; SEQ_RANK], [0; SEQ_RANK]);
        // SAFETY: `dimA` and `axes` are NULL or hold 4 entries, and an axis is an int.
        unsafe {
            arg::load_optional(dimA, &mut dims);
            arg::load_optional(axes.cast::<c_int>(), &mut order);
        }
        SeqDataDescriptor::check(dims, order, seqLengthArraySize)?;
        // SAFETY: `seqLengthArray` is NULL or holds `seqLengthArraySize` ints, `paddingFill` is NULL or one element.
        let (lengths, fill) = unsafe {
            (
                arg::int_list(seqLengthArray, seqLengthArraySize, "seqLengthArray")?,
                load_fill(paddingFill, data_type),
            )
        };
        SeqDataDescriptor::new(data_type, dims, order, lengths, fill)
    })
}

/// Reads type, sizes, order and lengths of the sequences of an attention; NULL outputs are left out.
///
/// At most 4 dimensions and axes and at most as many lengths as there are; `*seqLengthArraySize` is their number.
///
/// Status: BAD_PARAM for a descriptor that is not alive or a negative nbDimsRequested; in strict mode INTERNAL_ERROR
/// for BFLOAT16, after everything but `paddingFill` was written.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Every pointer is NULL or valid for one write, `dimA` and `axes` for `nbDimsRequested` (4 at most), `seqLengthArray` for
/// `seqLengthSizeRequested`, `paddingFill` for one element.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetSeqDataDescriptor(
    seqDataDesc: cudnnSeqDataDescriptor_t, dataType: *mut cudnnDataType_t, nbDims: *mut c_int,
    nbDimsRequested: c_int, dimA: *mut c_int, axes: *mut cudnnSeqDataAxis_t, seqLengthArraySize: *mut usize,
    seqLengthSizeRequested: usize, seqLengthArray: *mut c_int, paddingFill: *mut c_void,
) -> cudnnStatus_t {
    SEQ_DATA.with(seqDataDesc.addr(), "seqDataDesc", |desc| {
        let Ok(requested) = usize::try_from(nbDimsRequested) else {
            return Err(Error::argument("nbDimsRequested", nbDimsRequested.into(), "not negative"));
        };
        let rank = requested.min(SEQ_RANK);
        let lengths = desc.lengths();
        // SAFETY: every pointer is NULL or valid for one write, arrays for the entries that are requested; an axis is an int.
        unsafe {
            arg::set_optional(dataType, data_type::encode(desc.data_type()));
            arg::set_optional(nbDims, SEQ_RANK as c_int);
            arg::store_optional(dimA, &desc.dims()[..rank]);
            arg::store_optional(axes.cast::<c_int>(), &desc.axes()[..rank]);
            arg::set_optional(seqLengthArraySize, lengths.len());
            arg::store_optional(seqLengthArray, &lengths[..seqLengthSizeRequested.min(lengths.len())]);
        }
        if desc.data_type() == DataType::Bfloat16 && Mode::current().is_strict() {
            return Err(Error::Internal("strict mode has no padding of BFLOAT16".into()));
        }
        // SAFETY: `paddingFill` is NULL or valid for writes of one element.
        unsafe { arg::store_optional(paddingFill.cast(), &desc.fill()[..desc.data_type().size()]) };
        Ok(())
    })
}
