//! Layouts by name: random dims through name, strides and name again; offsets and indices there and
//! back; the letters in which random strides are packed, against a walk of every element.

use cudnn::layout::{Arrangement, Dims, Layout, name};
use testkit::random::Rng;

/// All names of a rank.
fn names(rng: &mut Rng, rank: usize) -> String {
    let letters = name::letters(rank).expect("ranks 2 to 5 have letters");
    if rank > 2 && rng.below(4) == 0 {
        let x = rng.pick(&[1, 2, 3, 4, 8, 16, 32]);
        return format!("NC/{x}{}{x}", &"DHW"[5 - rank..]);
    }
    rng.order(rank).into_iter().map(|k| letters.as_bytes()[k] as char).collect()
}

#[test]
fn a_name_gives_strides_that_have_the_name() {
    let mut rng = Rng(1);
    for _ in 0..20_000 {
        let rank = 2 + rng.below(4);
        let dims: Vec<i64> = (0..rank).map(|_| 1 + rng.below(6) as i64).collect();
        let name = names(&mut rng, rank);
        let layout = Arrangement::parse(&name, rank).unwrap().layout(&dims).unwrap();
        let found = layout.name().unwrap_or_else(|| panic!("{name} {layout:?}"));
        let again = Arrangement::parse(&found, rank).unwrap().layout(&dims).unwrap();
        for_each(&dims, |index| assert_eq!(again.offset(index), layout.offset(index), "{name} {found}"));
        if dims.iter().all(|&dim| dim > 1) && layout.split.is_none() && !name.contains('/') {
            assert_eq!(found, name);
        }
    }
}

/// Of several names that fit, the order of the dims is the commonest, then channels innermost.
#[test]
fn the_commonest_name_is_found_first() {
    for dims in [&[2, 3, 4][..], &[2, 3, 1, 5], &[2, 3, 1, 4, 5], &[2, 3, 1, 1, 5], &[2, 3, 1, 1, 4, 5]] {
        let rank = dims.len();
        let letters = name::letters(rank);
        let innermost = letters.map(|of| format!("{}{}{}", &of[..1], &of[2..], &of[1..2]));
        for (channels, want) in
            [(3, innermost.as_deref().unwrap_or("channels_last")), (1, letters.unwrap_or("packed"))]
        {
            let dims: Vec<i64> = (0..rank).map(|k| if k == 1 { channels } else { dims[k] }).collect();
            let layout = Arrangement::parse("channels_last", rank).unwrap().layout(&dims).unwrap();
            assert_eq!(layout.name().as_deref(), Some(want), "{layout:?}");
        }
    }
}

fn for_each(dims: &[i64], mut body: impl FnMut(&[i64])) {
    let count: i64 = dims.iter().product();
    let mut index = vec![0; dims.len()];
    for mut at in 0..count {
        for k in (0..dims.len()).rev() {
            index[k] = at % dims[k];
            at /= dims[k];
        }
        body(&index);
    }
}

#[test]
fn an_index_gives_an_offset_that_has_the_index() {
    let mut rng = Rng(2);
    let (mut repeated, mut gaps) = (0, 0);
    for _ in 0..3_000 {
        let rank = 2 + rng.below(3);
        let dims: Vec<i64> = (0..rank).map(|_| 1 + rng.below(5) as i64).collect();
        let layout = if rng.below(3) == 0 && rank > 2 {
            Layout::blocked(&dims, 1, 1 + rng.below(7) as i64).unwrap()
        } else {
            let strides: Vec<i64> = (0..rank).map(|_| rng.below(60) as i64 - 20).collect();
            Layout { dims: Dims::new(&dims), strides: Dims::new(&strides), split: None }
        };
        let mut taken = std::collections::BTreeMap::new();
        for_each(&dims, |index| *taken.entry(layout.offset(index)).or_insert(0) += 1);
        let (low, high) = layout.padded_span().unwrap();
        for offset in low - 2..=high + 2 {
            match (taken.get(&offset), layout.index(offset)) {
                (Some(count), Ok(index)) => {
                    assert!(index.iter().zip(&dims).all(|(i, dim)| (0..*dim).contains(i)));
                    assert_eq!(layout.offset(&index), offset, "{layout:?}");
                    repeated += i32::from(*count > 1);
                }
                (None, Err(error)) => {
                    assert!(error.to_string().contains("no element"), "{error}");
                    gaps += 1;
                }
                (expected, found) => panic!("{layout:?} at {offset}: {expected:?} {found:?}"),
            }
        }
        // Blocked layouts here are packed, so that padding meets nothing.
        assert_eq!(layout.overlaps(), taken.values().any(|&count| count > 1));
        let full = taken.len() as i64 == high - low + 1 && taken.values().all(|&count| count == 1);
        if layout.padding() == 0 && layout.strides.iter().all(|&stride| stride > 0) {
            assert_eq!(layout.is_fully_packed(), full, "{layout:?}");
        }
    }
    assert!(repeated > 1000 && gaps > 1000, "{repeated} {gaps}");
}

#[test]
fn a_search_without_end_in_sight_is_given_up() {
    // Sums of these strides crowd around every offset without hitting the one that is asked for.
    let dims = [12; 8];
    let strides = [2001, 2003, 2011, 2017, 2027, 2029, 2039, 2053].map(|s: i64| s * 2);
    let layout = Layout { dims: Dims::new(&dims), strides: Dims::new(&strides), split: None };
    let error = layout.index(88_001).unwrap_err().to_string();
    assert!(error.contains("overlap too much"), "{error}");
}

/// Names that are words are of any rank, or of one.
#[test]
fn words_have_the_ranks_that_they_name() {
    for (name, ranks) in [
        ("contiguous", 1..=8),
        ("numpy:F", 1..=8),
        ("channels_last", 3..=8),
        ("tensorflow", 3..=8),
        ("pytorch:channels_last", 4..=4),
        ("pytorch:channels_last_3d", 5..=5),
        ("bmn:row", 3..=3),
        ("NC/8HW8", 4..=4),
        ("NHWC", 4..=4),
    ] {
        for rank in 0..=9 {
            assert_eq!(Arrangement::parse(name, rank).is_ok(), ranks.contains(&rank), "{name} of {rank}");
        }
    }
}
