//! What attributes of the graph interface take: how many values, which numbers, which descriptors.

use cudnn::desc::graph::{Descriptor, Kind, Type, Value};
use cudnn::error::{Error, ErrorKind, Result};

/// Sets an attribute.
fn set(descriptor: &mut Descriptor, attribute: i32, ty: Type, value: Value) -> Result<()> {
    let expected = descriptor.expect(attribute, ty as i32, value.count() as i64, false)?;
    descriptor.store(&expected, value)
}

fn finalized(mut descriptor: Descriptor) -> Result<Descriptor> {
    descriptor.finalize(|_| Ok(Vec::new()))?;
    Ok(descriptor)
}

#[test]
fn attributes_take_as_many_values_as_their_rule_says() {
    use Kind::*;
    const MOST: i64 = 4096;
    for (kind, attribute, ty, taken, refused) in [
        // A number; strides; operations; uids.
        (Rng, 2301, Type::Double, &[1][..], &[-1, 0, 2][..]),
        (Convolution, 103, Type::Int64, &[1, 2, MOST], &[-1, 0, MOST + 1]),
        (OperationGraph, 801, Type::Descriptor, &[-1, 0, 1, MOST], &[MOST + 1, i64::MAX]),
        (VariantPack, 1000, Type::Int64, &[1, MOST], &[-1, 0, MOST + 1]),
        (Transpose, 3202, Type::Int64, &[0, 1, MOST], &[-1, MOST + 1]),
    ] {
        let descriptor = Descriptor::new(kind);
        for &count in taken {
            let expected = descriptor.expect(attribute, ty as i32, count, false);
            let expected = expected.unwrap_or_else(|error| panic!("{count} values of {attribute}: {error}"));
            assert_eq!(expected.count as i64, count.max(0), "of {attribute}");
        }
        for &count in refused {
            let expected = descriptor.expect(attribute, ty as i32, count, false);
            assert!(expected.is_err(), "{count} values of {attribute}");
        }
    }
}

/// A distribution, and its numbers by their attributes.
fn distribution(code: i64, numbers: &[(i32, f64)]) -> Result<Descriptor> {
    let mut rng = Descriptor::new(Kind::Rng);
    set(&mut rng, 2300, Type::RngDistribution, Value::Ints(Type::RngDistribution, vec![code]))?;
    for &(attribute, number) in numbers {
        set(&mut rng, attribute, Type::Double, Value::Reals(Type::Double, vec![number]))?;
    }
    finalized(rng)
}

#[test]
fn distributions_have_numbers_that_make_sense() {
    let (probability, least, most, deviation) = (2305, 2304, 2303, 2302);
    for (code, numbers, fits) in [
        (0, &[(probability, 0.0)][..], true),
        (0, &[(probability, 1.0)], true),
        (0, &[(probability, -0.1)], false),
        (0, &[(probability, 1.1)], false),
        (0, &[(probability, f64::NAN)], false),
        (0, &[], false),
        (1, &[(least, 1.0), (most, 1.0)], true),
        (1, &[(least, 1.0), (most, 0.5)], false),
        (1, &[(least, 1.0)], true),
        (2, &[(deviation, 0.0)], true),
        (2, &[(deviation, 2.0)], true),
        (2, &[(deviation, -1.0)], false),
        (2, &[], true),
        (3, &[], false),
    ] {
        let kind = distribution(code, numbers).map(|_| ()).map_err(|error: Error| error.kind());
        assert_eq!(kind, if fits { Ok(()) } else { Err(ErrorKind::BadParam) }, "{code} {numbers:?}");
    }
}

#[test]
fn descriptors_of_another_kind_are_refused_where_finalize_would_not() {
    let rng = distribution(0, &[(2305, 0.5)]).expect("a distribution");
    let open = Descriptor::new(Kind::Rng);
    for (kind, attribute, given, fits) in [
        // Operations, of which this is none.
        (Kind::OperationGraph, 801, &rng, false),
        (Kind::OperationGraph, 801, &open, false),
        // A tensor of an operation, and its settings.
        (Kind::RngOperation, 2310, &rng, false),
        (Kind::RngOperation, 2310, &open, true),
        (Kind::RngOperation, 2312, &rng, true),
        (Kind::ReductionOperation, 1612, &rng, true),
        // The graph of an engine.
        (Kind::Engine, 1300, &rng, false),
        (Kind::Engine, 1300, &open, true),
    ] {
        let mut descriptor = Descriptor::new(kind);
        let stored = set(&mut descriptor, attribute, Type::Descriptor, Value::Links(vec![given.link()]));
        assert_eq!(stored.is_ok(), fits, "{attribute}: {stored:?}");
    }
}
