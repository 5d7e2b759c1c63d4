//! What has no engine, rule by rule: rows on either side of each.

use cudnn::ops::graph::{BandMask, Padding, Vector};

use super::*;

/// Whether a graph of one operation is computed; what is not has no engine.
fn is_served(operation: Operation) -> bool {
    let served = Execution::new(&Graph { operations: vec![operation] });
    if let Err(error) = &served {
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    }
    served.is_ok()
}

#[test]
fn statistics_are_of_whole_groups_in_one_dimension() {
    for (mode, dims, statistics, served) in [
        (1, &[2, 6, 4, 4][..], &[2, 6, 1, 1][..], true),
        (3, &[2, 6, 4, 4], &[2, 3, 1, 1], true),
        (3, &[2, 6, 4, 4], &[2, 2, 1, 1], true),
        (3, &[2, 6, 4, 4], &[2, 1, 1, 1], true),
        (3, &[2, 6, 4, 4], &[2, 4, 1, 1], false),
        (3, &[2, 6, 4, 4], &[2, 5, 1, 1], false),
        (3, &[2, 6, 4, 4], &[2, 7, 1, 1], false),
        (3, &[2, 6, 4, 4], &[2, 12, 1, 1], false),
        // Two dimensions in groups.
        (3, &[2, 6, 4, 4], &[2, 3, 2, 1], false),
        (3, &[2, 6, 4, 4], &[2, 3, 1], false),
        (3, &[2, 6, 4, 4], &[2, 3, 1, 1, 1], false),
        // A group takes a dimension of its own.
        (3, &[2, 6, 1, 1, 1, 1, 4], &[2, 3, 1, 1, 1, 1, 1], true),
        (3, &[2, 6, 1, 1, 1, 1, 1, 4], &[2, 3, 1, 1, 1, 1, 1, 1], false),
        (1, &[2, 6, 1, 1, 1, 1, 1, 4], &[2, 6, 1, 1, 1, 1, 1, 1], true),
    ] {
        let (x, y) = (float(1, dims), float(2, dims));
        let (mean, inverse) = (float(3, statistics), float(4, statistics));
        let epsilon = float(5, &vec![1; dims.len()]);
        let reads = [(Port::X, &x), (Port::Epsilon, &epsilon)];
        let writes = [(Port::Y, &y), (Port::Mean, &mean), (Port::InverseVariance, &inverse)];
        let norm = Kind::NormForward(Norm { mode, training: true });
        assert_eq!(is_served(Operation::new(norm, &reads, &writes)), served, "{statistics:?} of {dims:?}");
    }
}

/// An operation has as many tensors as a plan has operands.
#[test]
fn parts_of_a_concatenation_are_operands() {
    use cudnn::ops::plan::MAX_OPERANDS;
    for (count, served) in [(2, true), (MAX_OPERANDS - 1, true), (MAX_OPERANDS, false)] {
        let parts: Vec<_> = (0..count).map(|part| float(part as i64 + 10, &[2, 1, 3])).collect();
        let y = float(1, &[2, count as i64, 3]);
        let reads: Vec<_> = parts.iter().map(|part| (Port::Part, part)).collect();
        let concat = Kind::Concat(Concat { axis: 1, in_place: None });
        assert_eq!(is_served(Operation::new(concat, &reads, &[(Port::Y, &y)])), served, "{count} parts");
    }
}

#[test]
fn filters_have_channels() {
    for (channels, served) in [(4, true), (2, true), (1, true), (3, false), (8, false), (0, false)] {
        let (x, y) = (float(1, &[2, 4, 5, 5]), float(3, &[2, 4, 5, 5]));
        let w = float(2, &[4, channels, 1, 1]);
        let spatial = Spatial {
            before: Dims::filled(2, 0),
            after: Dims::filled(2, 0),
            strides: Dims::filled(2, 1),
            dilation: Dims::filled(2, 1),
        };
        assert_eq!(is_served(convolution([&x, &w], &y, spatial)), served, "{channels} channels of a filter");
    }
}

#[test]
fn lengths_are_of_dimensions_that_there_are() {
    let dims = [2, 3, 4, 5];
    let (x, y) = (float(1, &dims), float(2, &dims));
    for (axis, of_lengths, served) in [
        (2, &[2, 1, 1, 1][..], true),
        (3, &[2, 3, 1, 1], true),
        (2, &[1, 1, 1, 1], true),
        (4, &[2, 1, 1, 1], false),
        (2, &[2, 1, 1], false),
        (2, &[2, 1, 1, 1, 1], false),
        (4, &[2, 1, 1, 1, 1], false),
    ] {
        let lengths = packed(3, DataType::Int32, of_lengths);
        let kind = Kind::Padding(Padding { rows: axis, columns: 3, value: -2.0 });
        let reads = [(Port::X, &x), (Port::LengthQ, &lengths)];
        let operation = Operation::new(kind, &reads, &[(Port::Y, &y)]);
        assert_eq!(is_served(operation), served, "lengths {of_lengths:?} of dimension {axis}");
    }
}

#[test]
fn a_band_has_four_dimensions_and_one_bound() {
    for (dims, comparison, bounds, served) in [
        (&[2, 3, 4, 5][..], 303, [false, false], true),
        (&[2, 3, 4, 5], 303, [true, false], true),
        (&[2, 3, 4, 5], 303, [false, true], true),
        (&[2, 3, 4, 5], 303, [true, true], false),
        (&[3, 4, 5], 303, [true, false], false),
        (&[1, 2, 3, 4, 5], 303, [true, false], false),
        (&[2, 3, 4, 5], 300, [true, false], true),
        (&[2, 3, 4, 5], 305, [true, false], true),
        (&[2, 3, 4, 5], 299, [true, false], false),
        (&[2, 3, 4, 5], 306, [true, false], false),
    ] {
        let (x, y) = (float(1, dims), float(2, dims));
        let ones = vec![1; dims.len()];
        let bound = [3, 4].map(|uid| packed(uid, DataType::Int32, &ones));
        let ports = [Port::LeftBound, Port::RightBound];
        let mut reads = vec![(Port::X, &x)];
        reads.extend((0..2).filter(|&at| bounds[at]).map(|at| (ports[at], &bound[at])));
        let band = Operation::new(Kind::BandMask(BandMask { comparison }), &reads, &[(Port::Y, &y)]);
        assert_eq!(is_served(band), served, "{dims:?} {comparison} {bounds:?}");
    }
}

#[test]
fn products_have_extents_that_fit() {
    for (a, b, c, served) in [
        (&[2, 3][..], &[3, 4][..], &[2, 4][..], true),
        (&[2, 3], &[4, 4], &[2, 4], false),
        (&[2, 3], &[3, 4], &[3, 4], false),
        (&[2, 3], &[3, 4], &[2, 5], false),
        (&[5, 2, 3], &[5, 3, 4], &[5, 2, 4], true),
        (&[1, 2, 3], &[5, 3, 4], &[5, 2, 4], true),
        (&[5, 2, 3], &[1, 3, 4], &[5, 2, 4], true),
        (&[5, 2, 3], &[4, 3, 4], &[5, 2, 4], false),
        (&[5, 2, 3], &[5, 3, 4], &[4, 2, 4], false),
    ] {
        let (a, b, c) = (float(1, a), float(2, b), float(3, c));
        assert_eq!(is_served(matmul(&a, &b, &c)), served, "{:?} by {:?} to {:?}", a.dims, b.dims, c.dims);
    }
}

#[test]
fn indices_run_along_a_dimension_that_there_is() {
    const GEN_INDEX: i32 = 501;
    for (axis, served) in
        [(Some(0), true), (Some(2), true), (Some(3), false), (Some(-1), false), (None, false)]
    {
        let (x, y) = (float(1, &[2, 3, 4]), float(2, &[2, 3, 4]));
        let mut operation = unary(GEN_INDEX, &x, &y);
        let Kind::Pointwise(of) = &mut operation.kind else { panic!("an index") };
        of.axis = axis;
        assert_eq!(is_served(operation), served, "{axis:?}");
    }
}

/// A convolution by windows that name so many dimensions.
fn windowed([x, w]: [&Arc<Tensor>; 2], y: &Arc<Tensor>, named: usize) -> Operation {
    let of = |value: i64| Dims::filled(named, value);
    convolution([x, w], y, Spatial { before: of(0), after: of(0), strides: of(1), dilation: of(1) })
}

#[test]
fn windows_move_along_dimensions_that_are_no_vectors() {
    for dimension in [None, Some(2), Some(3)] {
        // An image of 8 x 8, in vectors of four along one of its dimensions.
        let image = |uid: i64, channels: i64| {
            let mut dims = [2, channels, 8, 8];
            if let Some(dimension) = dimension {
                dims[dimension] /= 4;
            }
            let vector = dimension.map(|dimension| Vector { count: 4, dimension: dimension as i64 });
            Arc::new(Tensor { vector, ..(*float(uid, &dims)).clone() })
        };
        let (x, w, y) = (image(1, 3), float(2, &[5, 3, 1, 1]), image(3, 5));
        assert_eq!(is_served(windowed([&x, &w], &y, 2)), dimension.is_none(), "{dimension:?}");
    }
}

#[test]
fn windows_name_no_more_dimensions_than_there_are() {
    for (named, served) in [(1, true), (2, true), (3, false)] {
        let (x, w, y) = (float(1, &[2, 3, 8, 8]), float(2, &[5, 3, 3, 3]), float(3, &[2, 5, 6, 6]));
        assert_eq!(is_served(windowed([&x, &w], &y, named)), served, "{named} dimensions");
    }
}
