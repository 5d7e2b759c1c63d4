//! Calls of several plans that run one after the other, whose operands lie in memory of the caller
//! or in the workspace.

use super::Plan;

/// Where memory begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A pointer of the caller: the label of a parameter, or the uid of a tensor.
    Caller(i64),
    /// The workspace of the call.
    Workspace,
}

/// Where an operand of a part lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where to count from.
    pub base: Base,
    /// Bytes from there on.
    pub offset: usize,
}

impl Place {
    /// Where a pointer of the caller points.
    pub const fn of(label: i64) -> Self {
        Place { base: Base::Caller(label), offset: 0 }
    }

    /// In the workspace.
    pub const fn workspace(offset: usize) -> Self {
        Place { base: Base::Workspace, offset }
    }
}

/// One plan of a call, with the places of its operands.
pub struct Part {
    /// The plan.
    pub plan: Box<dyn Plan + Send + Sync>,
    /// One place per operand.
    pub places: Vec<Place>,
}
