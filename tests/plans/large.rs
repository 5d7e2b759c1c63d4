//! Sizes where 16-bit and 32-bit indices break: extents of 70,000 in every position, more than 2^31
//! elements, and elements as far apart.

use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::Context;
use cudnn::mode::Mode;
use cudnn::ops::{Scaling, TransformPlan};
use testkit::wide_layers;
use testkit::wide_layers::{Pages, layers, outcome};

fn describe(data_type: DataType, format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, format, dims.len() as i64, dims, Mode::Extended).unwrap()
}

/// Transforms all of `src`, which has one element per address of `x`, as NCHW and NHWC are packed.
fn transform<S, D: Copy>(x: &TensorDescriptor, src: &[S], y: &TensorDescriptor, dst: &mut [D]) {
    assert_eq!(size_of_val(src), x.size_in_bytes());
    assert_eq!(size_of_val(dst), y.size_in_bytes());
    let plan = TransformPlan::new(x, y, Scaling::MOVE, Mode::Extended).unwrap();
    let at = [dst.as_mut_ptr().into(), src.as_ptr().into()];
    // SAFETY: both slices span exactly what their descriptors describe.
    unsafe { Context::cpu().run(&plan, &at) }.unwrap();
}

/// Offset of an element in packed NHWC.
fn nhwc(dims: &[i64; 4], [n, c, h, w]: [i64; 4]) -> usize {
    (((n * dims[2] + h) * dims[3] + w) * dims[1] + c) as usize
}

#[test]
fn an_extent_of_70000_in_every_position() {
    for position in 0..4 {
        let mut dims = [2, 3, 2, 3];
        dims[position] = 70_000;
        let len = dims.iter().product::<i64>() as usize;
        let src: Vec<u16> = (0..len).map(|i| (i % 65_521) as u16).collect();
        let mut dst = vec![0xffff_u16; len];
        let x = describe(DataType::Half, Format::Nchw, &dims);
        transform(&x, &src, &describe(DataType::Half, Format::Nhwc, &dims), &mut dst);
        let mut at = 0;
        for n in 0..dims[0] {
            for c in 0..dims[1] {
                for h in 0..dims[2] {
                    for w in 0..dims[3] {
                        assert_eq!(dst[nhwc(&dims, [n, c, h, w])], src[at], "{dims:?} at {n},{c},{h},{w}");
                        at += 1;
                    }
                }
            }
        }
    }
}

#[test]
fn more_than_2_to_the_31_elements() {
    // 2,184,000,000 bytes on each side; the strict mode of the original ends at 2^31 - 1.
    let dims = [2, 3, 70_000, 5_200];
    let len = dims.iter().product::<i64>() as usize;
    assert!(len > 1 << 31);
    assert!(TensorDescriptor::with_format(DataType::Uint8, Format::Nchw, 4, &dims, Mode::Strict).is_err());
    let value = |i: usize| (i % 251) as u8;
    let mut src = vec![0_u8; len];
    src.iter_mut().enumerate().for_each(|(i, x)| *x = value(i));
    let mut dst = vec![0xff_u8; len];
    let x = describe(DataType::Uint8, Format::Nchw, &dims);
    transform(&x, &src, &describe(DataType::Uint8, Format::Nhwc, &dims), &mut dst);
    let channel = (dims[2] * dims[3]) as usize;
    for (pixel, channels) in dst.chunks_exact(3).enumerate() {
        let (n, at) = (pixel / channel, pixel % channel);
        let want = [0, 1, 2].map(|c| value((n * 3 + c) * channel + at));
        assert_eq!(channels, want, "image {n}, pixel {at}");
    }
}

#[test]
fn layers_whose_offsets_leave_31_bits() {
    for (near, far) in wide_layers::far_apart() {
        for (near, far) in layers(&near).iter().zip(&layers(&far)) {
            let [want, got] = [near, far].map(|layer| outcome::<Pages>(layer, &Context::cpu()));
            assert!(want == got, "{}", far.name);
        }
    }
}
