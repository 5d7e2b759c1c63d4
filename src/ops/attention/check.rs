//! What the descriptors of a call must agree on.

use crate::desc::{AttentionDescriptor, SeqDataDescriptor};
use crate::error::{Error, Result};

/// The sequences of a call, with what the C call names them: queries, keys, values and output.
#[derive(Clone, Copy)]
pub struct Sequences<'a>(pub [(&'static str, &'a SeqDataDescriptor); 4]);

impl<'a> Sequences<'a> {
    /// The descriptor of queries (0), keys, values or output.
    pub(super) fn desc(&self, which: usize) -> &'a SeqDataDescriptor {
        self.0[which].1
    }
}

/// Extents that sequences which fit each other have.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    /// Time steps of queries.
    pub(super) queries: i64,
    /// Time steps of keys.
    pub(super) keys: i64,
    /// Samples.
    pub(super) batch: i64,
    /// Beams of queries.
    pub(super) beam: i64,
}

/// Dimensions of sequence data, in the order of its dims.
const DIMS: [&str; 4] = ["time", "batch", "beam", "vector"];

impl Shapes {
    /// Judges the sequences of a call.
    ///
    /// # Errors
    /// Bad parameter (observed on 9.27.0): queries and output differ in time, batch, beam or
    /// lengths, keys and values in time, batch or lengths; keys with more than one beam; another
    /// number of samples of keys; more of anything than the attention allows for; vectors that are
    /// not as long as it says; orders of axes that differ.
    pub fn new(desc: &AttentionDescriptor, sequences: Sequences<'_>) -> Result<Shapes> {
        let [q, k, v, o] = sequences.0;
        alike(o, q)?;
        alike(v, k)?;
        let [queries, batch, beam, _] = q.1.dims();
        let [keys, key_batch, key_beam, _] = k.1.dims();
        let [most_queries, most_keys] = desc.max_lengths;
        let (q_name, k_name) = (q.0, k.0);
        let rule = |name, rule: &str| format!("{name}: {rule}");
        for (axis, value, wanted, text) in [
            (1, key_batch, batch, rule(k_name, &format!("{q_name} has {batch} samples"))),
            (2, key_beam, 1, rule(k_name, "all beams of the queries share one of keys and values")),
        ] {
            if value != wanted {
                return Err(Error::element("dimA", axis, value.into(), text));
            }
        }
        for (axis, value, most, name, limit) in [
            (0, queries, most_queries, q_name, "qoMaxSeqLength"),
            (0, keys, most_keys, k_name, "kvMaxSeqLength"),
            (1, batch, desc.max_batch, q_name, "maxBatchSize"),
            (2, beam, desc.max_beam, q_name, "maxBeamSize"),
        ] {
            if value > most {
                let text = format!("{name}: {limit} of attnDesc allows for {most}");
                return Err(Error::element("dimA", axis, value.into(), text));
            }
        }
        let output = match desc.projected {
            [_, _, _, 0] => i64::from(desc.heads) * i64::from(value_entries(desc)),
            [.., o] => i64::from(o),
        };
        let [q_size, k_size, v_size] = desc.sizes.map(i64::from);
        for ((name, sequence), wanted) in sequences.0.into_iter().zip([q_size, k_size, v_size, output]) {
            let found = i64::from(sequence.dims()[3]);
            if found != wanted {
                let text = format!("{name}: vectors of this attention have {wanted} entries here");
                return Err(Error::element("dimA", 3, found, text));
            }
            if sequence.axes() != q.1.axes() {
                let (axes, others) = (sequence.axes(), q.1.axes());
                return Err(Error::mismatch(format!("{name} has axes {axes:?} and {q_name} {others:?}")));
            }
        }
        Ok(Shapes { queries: queries.into(), keys: keys.into(), batch: batch.into(), beam: beam.into() })
    }

    /// Judges the one time step of the queries, named `queries`, that is computed.
    ///
    /// # Errors
    /// Bad parameter (observed on 9.27.0): any in training, else one beyond those that there are.
    pub fn check_current(&self, queries: &str, current: i32, is_training: bool) -> Result<()> {
        if is_training {
            let text = "training computes all time steps: a negative number";
            return Err(Error::argument("currIdx", current.into(), text));
        }
        if i64::from(current) >= self.queries {
            let text = format!("{queries} has {} time steps", self.queries);
            return Err(Error::argument("currIdx", current.into(), text));
        }
        Ok(())
    }
}

fn value_entries(desc: &AttentionDescriptor) -> i32 {
    if desc.projected[2] > 0 { desc.projected[2] } else { desc.sizes[2] }
}

/// Refuses sequences that are to be as long as others, and are not.
fn alike(
    (name, desc): (&str, &SeqDataDescriptor), (other_name, other): (&str, &SeqDataDescriptor),
) -> Result<()> {
    for (axis, dim) in DIMS.into_iter().enumerate().take(3) {
        let (found, wanted) = (desc.dims()[axis], other.dims()[axis]);
        if found != wanted {
            let text = format!("{name} must have the {dim} of {other_name}, {wanted}");
            return Err(Error::element("dimA", axis, found.into(), text));
        }
    }
    let lengths = desc.lengths().iter().zip(other.lengths());
    if let Some((index, (&found, wanted))) = lengths.enumerate().find(|(_, (found, wanted))| found != wanted)
    {
        let text = format!("{name} must have the length of {other_name} here, {wanted}");
        return Err(Error::element("seqLengthArray", index, found.into(), text));
    }
    Ok(())
}

/// Refuses residuals that cannot be added to the output: they lie as the queries do.
///
/// # Errors
/// Bad parameter (observed on 9.27.0).
pub(super) fn check_residuals(sequences: Sequences<'_>) -> Result<()> {
    let [found, wanted] = [0, 3].map(|which| sequences.desc(which).dims()[3]);
    if found == wanted {
        return Ok(());
    }
    let text = format!(
        "residuals have vectors of {found} entries, as {} says, and cannot be added to an output of {wanted}",
        sequences.0[0].0
    );
    Err(Error::mismatch(text))
}
