//! What the checks of Finalize are written with: values by attribute, and errors that name the
//! attribute.

use super::attribute::Row;
use super::kind::Kind;
use super::object::{Fields, Object, Tensor};
use crate::error::{Error, ErrorKind, Result};

/// What was set in one descriptor, for the checks of its kind.
#[derive(Clone, Copy)]
pub(super) struct Check<'a> {
    pub(super) kind: Kind,
    /// Those of the kind.
    pub(super) rows: &'static [Row],
    pub(super) fields: &'a Fields,
}

impl<'a> Check<'a> {
    /// The header's name of an attribute.
    pub(super) fn name(&self, attribute: i32) -> &'static str {
        self.rows.iter().find(|row| row.number == attribute).map_or("an attribute", |row| row.name)
    }

    /// An error of this status about an attribute.
    pub(super) fn refuse(&self, status: ErrorKind, attribute: i32, rule: &str) -> Error {
        Error::refused(status, format!("{}: {rule}", self.name(attribute)))
    }

    /// A bad parameter.
    pub(super) fn bad(&self, attribute: i32, rule: &str) -> Error {
        self.refuse(ErrorKind::BadParam, attribute, rule)
    }

    /// A bad parameter unless `holds`.
    pub(super) fn require(&self, holds: bool, attribute: i32, rule: &str) -> Result<()> {
        if holds { Ok(()) } else { Err(self.bad(attribute, rule)) }
    }

    /// An error of this status unless `holds`.
    pub(super) fn require_or(
        &self, holds: bool, status: ErrorKind, attribute: i32, rule: &str,
    ) -> Result<()> {
        if holds { Ok(()) } else { Err(self.refuse(status, attribute, rule)) }
    }

    /// Refuses descriptors of another kind than their attribute takes.
    pub(super) fn kinds(&self) -> Result<()> {
        for row in self.rows {
            let Some(target) = row.target else { continue };
            for object in self.fields.links(row.number).iter().flatten() {
                let rule = format!("is a {} descriptor, not {}", object.kind.name(), target.name());
                self.require_or(object.kind == target, ErrorKind::DescriptorType, row.number, &rule)?;
            }
        }
        Ok(())
    }

    /// The finalised descriptor of an attribute; `status` if it is missing or not finalised.
    pub(super) fn object_or(&self, status: ErrorKind, attribute: i32) -> Result<&'a Object> {
        match self.fields.object(attribute) {
            None => Err(self.refuse(status, attribute, "is not set")),
            Some(object) if !object.is_finalised => {
                Err(self.refuse(status, attribute, "the descriptor was not finalised when it was set"))
            }
            Some(object) => Ok(object),
        }
    }

    /// The finalised tensor of an attribute; a bad parameter if it is missing or not finalised.
    pub(super) fn tensor(&self, attribute: i32) -> Result<&'a Tensor> {
        self.tensor_or(ErrorKind::BadParam, attribute)
    }

    /// The finalised tensor of an attribute; `status` if it is missing or not finalised.
    pub(super) fn tensor_or(&self, status: ErrorKind, attribute: i32) -> Result<&'a Tensor> {
        let object = self.object_or(status, attribute)?;
        object
            .tensor
            .as_ref()
            .ok_or_else(|| self.refuse(ErrorKind::DescriptorType, attribute, "is not a tensor"))
    }

    /// The tensor of an attribute if it was set, whether finalised or not.
    pub(super) fn any_tensor(&self, attribute: i32) -> Option<&'a Tensor> {
        self.fields.tensor(attribute)
    }

    /// The extents of the tensor of an attribute; none if it was not set.
    pub(super) fn dims(&self, attribute: i32) -> &'a [i64] {
        self.any_tensor(attribute).map_or(&[], |tensor| &tensor.dims)
    }
}
