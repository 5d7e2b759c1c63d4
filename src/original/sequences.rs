//! What the twins of sequences are set to: batches of sequences, recurrent networks, attention.

use std::ffi::{c_int, c_uint, c_void};

use super::call::call;
use super::type_code::type_code;
use super::{Failed, Maker, Twin, Twinned};
use crate::desc::{AttentionDescriptor, Choice, RnnDataDescriptor, RnnDescriptor, SeqDataDescriptor};

impl Twinned for RnnDataDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateRNNDataDescriptor", "cudnnDestroyRNNDataDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        if self.lengths().is_empty() {
            return Ok(());
        }
        let fill = self.fill();
        let fill = fill.as_ref().map_or(std::ptr::null(), |fill| fill.as_ptr().cast::<c_void>());
        Ok(call!(
            maker.library,
            "cudnnSetRNNDataDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = type_code(self.data_type())),
            (c_int = self.layout().code()),
            (c_int = self.max_length()),
            (c_int = self.lengths().len() as c_int),
            (c_int = self.vector_size()),
            (*const c_int = self.lengths().as_ptr()),
            (*const c_void = fill),
        )?)
    }
}

impl Twinned for SeqDataDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateSeqDataDescriptor", "cudnnDestroySeqDataDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        if self.lengths().is_empty() {
            return Ok(());
        }
        let (dims, axes, fill) = (self.dims(), self.axes(), self.fill());
        Ok(call!(
            maker.library,
            "cudnnSetSeqDataDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = type_code(self.data_type())),
            (c_int = dims.len() as c_int),
            (*const c_int = dims.as_ptr()),
            (*const c_int = axes.as_ptr()),
            (usize = self.lengths().len()),
            (*const c_int = self.lengths().as_ptr()),
            (*const c_void = fill.as_ptr().cast()),
        )?)
    }
}

impl Twinned for RnnDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateRNNDescriptor", "cudnnDestroyRNNDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        // What version 6 has set tells neither type nor size of the input.
        let network = self.network().ok_or(None)?;
        let dropout = (maker.dropout)(network.dropout).ok_or(None)?;
        call!(
            maker.library,
            "cudnnSetRNNDescriptor_v8",
            (*mut c_void = twin.pointer()),
            (c_int = network.algo.code()),
            (c_int = network.cell.code()),
            (c_int = network.bias.code()),
            (c_int = network.direction.code()),
            (c_int = network.input.code()),
            (c_int = type_code(network.types.data)),
            (c_int = type_code(network.types.compute)),
            (c_int = network.math_type.code()),
            (i32 = network.sizes.input),
            (i32 = network.sizes.hidden),
            (i32 = network.sizes.projected),
            (i32 = network.sizes.layers),
            (*mut c_void = dropout),
            (u32 = network.flags),
        )?;
        if self.clip.mode == 0 {
            return Ok(());
        }
        Ok(call!(
            maker.library,
            "cudnnRNNSetClip_v8",
            (*mut c_void = twin.pointer()),
            (c_int = self.clip.mode),
            (c_int = self.clip.nan),
            (f64 = self.clip.lower()),
            (f64 = self.clip.upper()),
        )?)
    }
}

impl Twinned for AttentionDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateAttnDescriptor", "cudnnDestroyAttnDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        if self.heads == 0 {
            return Ok(());
        }
        let attention = (maker.dropout)(self.attention_dropout).ok_or(None)?;
        let output = (maker.dropout)(self.output_dropout).ok_or(None)?;
        let ([q, k, v], [q_projected, k_projected, v_projected, o_projected]) = (self.sizes, self.projected);
        Ok(call!(
            maker.library,
            "cudnnSetAttnDescriptor",
            (*mut c_void = twin.pointer()),
            (c_uint = self.mode),
            (c_int = self.heads),
            (f64 = self.softmax_scale),
            (c_int = type_code(self.types.data)),
            (c_int = type_code(self.types.compute)),
            (c_int = self.math_type.code()),
            (*mut c_void = attention),
            (*mut c_void = output),
            (c_int = q),
            (c_int = k),
            (c_int = v),
            (c_int = q_projected),
            (c_int = k_projected),
            (c_int = v_projected),
            (c_int = o_projected),
            (c_int = self.max_lengths[0]),
            (c_int = self.max_lengths[1]),
            (c_int = self.max_batch),
            (c_int = self.max_beam),
        )?)
    }
}
