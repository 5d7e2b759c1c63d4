//! Variant packs: the pointers of one execution.

use super::attribute::rows;
use super::check::Check;
use super::object::Fields;
use crate::error::Result;

rows! {
    /// The attributes of VARIANT_PACK.
    ROWS:
    VARIANT_PACK_UNIQUE_IDS 1000 [Int64] Positive;
    VARIANT_PACK_DATA_POINTERS 1001 [Pointer] Positive;
    VARIANT_PACK_INTERMEDIATES 1002 [Int64] Any read_only();
    VARIANT_PACK_WORKSPACE 1003 [Pointer] One readable();
    VARIANT_PACK_OVERRIDE_UNIQUE_IDS 1010 [Int64] Positive;
    VARIANT_PACK_OVERRIDE_SHAPES 1011 [Pointer] One unreadable(BadParam);
    VARIANT_PACK_OVERRIDE_STRIDES 1012 [Pointer] One unreadable(BadParam);
}

/// What is given as lists of integers: of every id to override, its extents and its strides.
pub(super) const LISTS: [i32; 2] = [VARIANT_PACK_OVERRIDE_SHAPES, VARIANT_PACK_OVERRIDE_STRIDES];

/// The ids whose extents a pack overrides, each with its extents and strides.
pub fn overrides(fields: &Fields) -> impl Iterator<Item = (i64, &[i64], &[i64])> {
    let [shapes, strides] = LISTS.map(|attribute| fields.lists(attribute));
    let ids = fields.ints(VARIANT_PACK_OVERRIDE_UNIQUE_IDS).iter().copied();
    ids.zip(shapes.iter().zip(strides)).map(|(id, (shape, strides))| (id, &**shape, &**strides))
}

pub(super) fn check(check: Check<'_>) -> Result<()> {
    let ids = check.fields.ints(VARIANT_PACK_UNIQUE_IDS).len();
    let pointers = check.fields.pointers(VARIANT_PACK_DATA_POINTERS).len();
    check.require(ids == pointers, VARIANT_PACK_DATA_POINTERS, "there are as many pointers as ids")?;
    let ids = check.fields.ints(VARIANT_PACK_OVERRIDE_UNIQUE_IDS).len();
    for attribute in LISTS {
        let count = check.fields.lists(attribute).len();
        check.require(count == ids, attribute, "there are as many shapes and strides as ids to override")?;
    }
    Ok(())
}
