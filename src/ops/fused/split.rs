//! Operation 6, back through an activation by ReLU, a sum and a batch normalisation.

use super::affine::{room, vector_room};
use super::mask::{ApplyMask, Mask};
use super::{Part, Place, check_mode, constant, place_of, tensor, variant};
use crate::desc::TensorDescriptor;
use crate::desc::fused::ConstantPack;
use crate::desc::normalization::BatchNormMode;
use crate::desc::tensor::Format;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::batch_norm::{Backward, BackwardPlan, Parameters};
use crate::ops::{Plan, Scaling};

/// `g = dy` where the mask has a bit, else 0; `dz = g`; and dx, dscale, dbias from g as
/// cudnnBatchNormalizationBackward makes them from the saved statistics.
#[derive(Clone, Debug)]
pub struct Split {
    x: TensorDescriptor,
    dx: TensorDescriptor,
    mask: Mask,
    /// Where g goes: to the caller, or packed in the workspace.
    g: TensorDescriptor,
    gives_dz: bool,
    parameters: TensorDescriptor,
    /// Whether the caller takes the gradients of scale and bias.
    gives: [bool; 2],
}

impl Split {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Bad parameter: a missing descriptor, no mask, one of the saved pair alone, shapes that do
    /// not fit, mode 0. Not supported: another activation than RELU; channels in blocks.
    pub(super) fn new(pack: &ConstantPack) -> Result<Self> {
        check_mode(pack)?;
        let there = |label: i32| pack.number(label) != 0;
        let (x, dy) = (*tensor(pack, constant::X, "x")?, *tensor(pack, constant::DY, "dy")?);
        let dx = *tensor(pack, constant::DX, "dx")?;
        let parameters = *tensor(pack, constant::NUMBERS, "scale, bias and statistics")?;
        let needed = [
            (constant::MASK_POINTER, "the bit mask"),
            (constant::SCALE_POINTER, "the scale"),
            (constant::SAVED_MEAN_POINTER, "the saved mean"),
            (constant::SAVED_INVERSE_POINTER, "the saved inverse deviation"),
        ];
        if let Some((_, name)) = needed.iter().find(|(label, _)| !there(*label)) {
            return Err(Error::mismatch(format!("operation 6 needs {name}, whose placeholder is NULL")));
        }
        let gives_dz = there(constant::DZ_POINTER);
        let g = match pack.tensor(constant::DZ).filter(|_| gives_dz) {
            Some(dz) => *dz,
            None if gives_dz => return Err(Error::mismatch("the descriptor of dz was never set")),
            None => {
                let (rank, dims) = (dy.rank() as i64, dy.dims());
                TensorDescriptor::with_format(dy.data_type(), Format::Nhwc, rank, &dims, Mode::Extended)?
            }
        };
        let mask = Mask::new(pack, &dy)?;
        let gives = [constant::DSCALE_POINTER, constant::DBIAS_POINTER].map(there);
        Ok(Split { x, dx, mask, g, gives_dz, parameters, gives })
    }

    /// Bytes of workspace: g, and gradients of scale and bias, where the caller does not take them.
    pub(super) fn workspace(&self) -> usize {
        room(&self.g) + 2 * vector_room(&self.x)
    }

    /// The plans, in the order in which they run.
    ///
    /// # Errors
    /// Bad parameter for tensors and parameters that do not agree. Not supported for types that are
    /// not normalised.
    pub(super) fn parts(&self) -> Result<Vec<Part>> {
        let at_g = if self.gives_dz { place_of(variant::DZ) } else { Place::workspace(0) };
        let apply = ApplyMask::new(&self.mask, ("dz", &self.g))?;
        let backward = BackwardPlan::new(
            Backward {
                mode: BatchNormMode::Spatial,
                x: &self.x,
                dy: &self.g,
                dx: &self.dx,
                dz: None,
                parameters: Parameters { name: "bnScaleBiasMeanVarDesc", tensor: &self.parameters },
                saved: [true; 2],
                bias: false,
                epsilon: 0.0,
                scaling: Scaling::MOVE,
                parameter_scaling: Scaling::MOVE,
                fused: None,
                reserve_size: 0,
                workspace_size: 0,
                names: ["dscale", "dbias", "scale", "bias", "savedMean", "savedInvStd"],
            },
            Mode::Extended,
        )?;
        let gradient = |k: usize, label: i32| {
            let spare = Place::workspace(room(&self.g) + k * vector_room(&self.x));
            if self.gives[k] { place_of(label) } else { spare }
        };
        // What is not touched has the place of something else.
        let nothing = at_g;
        let places = vec![
            place_of(variant::DX),
            gradient(0, variant::DSCALE),
            gradient(1, variant::DBIAS),
            nothing,
            place_of(variant::X),
            at_g,
            place_of(variant::SCALE),
            nothing,
            place_of(variant::SAVED_MEAN),
            place_of(variant::SAVED_INVERSE),
            nothing,
        ];
        debug_assert_eq!(places.len(), backward.operands().len(), "no workspace is given");
        Ok(vec![
            Part {
                plan: Box::new(apply),
                places: vec![at_g, place_of(variant::DY), place_of(variant::MASK)],
            },
            Part { plan: Box::new(backward), places },
        ])
    }
}
