//! Where the rows of a matrix start: at one distance, in a list, or either of these.

/// Where the rows of a matrix start, in bytes from its first cell.
pub trait RowStarts: Copy {
    /// # Safety
    /// There is a row `i`.
    unsafe fn at(self, i: usize) -> isize;

    /// The address in `column` of `L` rows from `i` on, each `step` further down than the last.
    ///
    /// # Safety
    /// There are these rows, and `column` has a cell in each.
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L];

    /// The rows from `i` on, and the bytes by which their first cell lies behind that of these
    /// rows.
    ///
    /// # Safety
    /// There are `i` rows.
    unsafe fn skip(self, i: usize) -> (isize, Self);

    /// How far rows are apart, if that is known to be the same for all.
    fn distance(self) -> Option<isize>;

    /// The same rows, of a kind that is known only as they are read. They live as long as these.
    #[cfg(target_arch = "x86_64")]
    fn any(self) -> AnyRows;
}

/// Rows at one distance: those of a plain matrix or of a buffer.
#[derive(Clone, Copy)]
pub struct Even(pub isize);

impl RowStarts for Even {
    #[inline(always)]
    unsafe fn at(self, i: usize) -> isize {
        i as isize * self.0
    }

    #[inline(always)]
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L] {
        // One product per call and one per loop, not one per row.
        let (first, step) = (column.wrapping_offset(i as isize * self.0), step as isize * self.0);
        std::array::from_fn(|lane| first.wrapping_offset(lane as isize * step))
    }

    #[inline(always)]
    unsafe fn skip(self, i: usize) -> (isize, Self) {
        (i as isize * self.0, self)
    }

    #[inline(always)]
    fn distance(self) -> Option<isize> {
        Some(self.0)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn any(self) -> AnyRows {
        AnyRows { starts: std::ptr::null(), distance: self.0 }
    }
}

impl RowStarts for &[isize] {
    #[inline(always)]
    unsafe fn at(self, i: usize) -> isize {
        // SAFETY: `i` is a row of the matrix, and the tables are as long as there are rows.
        unsafe { *self.get_unchecked(i) }
    }

    #[inline(always)]
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L] {
        // SAFETY: the column has these rows.
        std::array::from_fn(|lane| unsafe { column.offset(self.at(i + lane * step)) })
    }

    #[inline(always)]
    unsafe fn skip(self, i: usize) -> (isize, Self) {
        // SAFETY: there are as many rows.
        (0, unsafe { self.get_unchecked(i..) })
    }

    #[inline(always)]
    fn distance(self) -> Option<isize> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn any(self) -> AnyRows {
        AnyRows { starts: self.as_ptr(), distance: 0 }
    }
}

/// Rows of either kind, told apart as they are read: for transposes whose loops cost more than
/// that, so that they are compiled once and not for each pair of kinds.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct AnyRows {
    /// Where the rows start; null for rows at one distance.
    starts: *const isize,
    distance: isize,
}

#[cfg(target_arch = "x86_64")]
impl RowStarts for AnyRows {
    #[inline(always)]
    unsafe fn at(self, i: usize) -> isize {
        if self.starts.is_null() {
            return i as isize * self.distance;
        }
        // SAFETY: `i` is a row of the matrix, and the tables are as long as there are rows.
        unsafe { *self.starts.add(i) }
    }

    #[inline(always)]
    unsafe fn cells<const L: usize>(self, column: *const u8, i: usize, step: usize) -> [*const u8; L] {
        if self.starts.is_null() {
            // SAFETY: the column has these rows.
            return unsafe { Even(self.distance).cells(column, i, step) };
        }
        // SAFETY: the column has these rows.
        std::array::from_fn(|lane| unsafe { column.offset(*self.starts.add(i + lane * step)) })
    }

    #[inline(always)]
    unsafe fn skip(self, i: usize) -> (isize, Self) {
        if self.starts.is_null() {
            return (i as isize * self.distance, self);
        }
        // SAFETY: there are as many rows.
        (0, AnyRows { starts: unsafe { self.starts.add(i) }, ..self })
    }

    #[inline(always)]
    fn distance(self) -> Option<isize> {
        self.starts.is_null().then_some(self.distance)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn any(self) -> AnyRows {
        self
    }
}
