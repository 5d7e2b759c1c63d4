//! A `std::vector<std::vector<int64_t>>` between pages that must not be touched: what variant packs
//! take extents and strides as.

use testkit::pages::{Pages, Side};

/// A vector in the C++ libraries of Linux: where its elements begin and end, and where its memory
/// does.
type Vector = [usize; 3];

/// The lists, and the memory of their numbers, of the inner vectors, and of the outer one.
pub struct Lists {
    _numbers: Vec<Pages>,
    _inner: Pages,
    outer: Pages,
}

impl Lists {
    /// Of the numbers in `[1,2,3]`, a list each.
    pub fn new(lists: &[String]) -> Lists {
        let number = |text: &str| text.parse::<i64>().unwrap_or_else(|error| panic!("{text}: {error}"));
        let numbers = lists.iter().map(|list| {
            let numbers = list.trim_matches(['[', ']']).split(',').map(number);
            pages(numbers.flat_map(i64::to_ne_bytes).collect())
        });
        let numbers: Vec<Pages> = numbers.collect();
        let inner = pages(
            numbers.iter().flat_map(|numbers| vector(numbers).map(usize::to_ne_bytes)).flatten().collect(),
        );
        let outer = pages(vector(&inner).into_iter().flat_map(usize::to_ne_bytes).collect());
        Lists { _numbers: numbers, _inner: inner, outer }
    }

    pub fn address(&self) -> u64 {
        self.outer.address() as u64
    }
}

fn pages(bytes: Vec<u8>) -> Pages {
    let mut pages = Pages::new(bytes.len(), Side::End);
    pages.bytes_mut().copy_from_slice(&bytes);
    pages
}

/// The vector that has all of these bytes.
fn vector(of: &Pages) -> Vector {
    let begin = of.address() as usize;
    let end = begin + of.bytes().len();
    [begin, end, end]
}
