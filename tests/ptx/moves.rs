//! Launches of every kernel that moves and converts.

use cudnn::backend::cuda::launch::{Launch, Pointers};
use cudnn::desc::tensor::Format;
use cudnn::desc::{TensorDescriptor, TransformDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::{Plan, Scaling, TransformPlan};

use crate::{ALIGNED, SCALED, collected, packed, place, strided};

/// Everything that a plan of two operands launches.
pub fn of_plan(plan: &dyn Plan, at: Pointers) -> Vec<Launch> {
    collected(plan, &[place(at.dst as usize), place(at.src as usize)])
}

/// The one launch of a plain transform.
fn launch(src: &TensorDescriptor, dst: &TensorDescriptor, scaling: Scaling, at: Pointers) -> Launch {
    let launches = of_plan(&TransformPlan::new(src, dst, scaling, Mode::Extended).unwrap(), at);
    assert_eq!(launches.len(), 1, "one problem is one launch");
    launches[0]
}

/// An element type of each width.
const WIDTHS: [(i64, DataType); 4] =
    [(1, DataType::Int8), (2, DataType::Half), (4, DataType::Float), (8, DataType::Double)];

const COMMON: [(&str, DataType); 5] = [
    ("f32", DataType::Float),
    ("f16", DataType::Half),
    ("bf16", DataType::Bfloat16),
    ("s8", DataType::Int8),
    ("u8", DataType::Uint8),
];

/// Problems that must end in the kernel named, of every family.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let (nchw, nhwc) = (Format::Nchw, Format::Nhwc);
    for (width, t) in WIDTHS {
        // A run, of which the operands lie `width` bytes off each other.
        let run = packed(t, nchw, &[2, 3, 50, 50]);
        let off = Pointers { src: ALIGNED.src + width as u64, ..ALIGNED };
        list.push(("copy_shifted".into(), launch(&run, &run, Scaling::MOVE, off)));
        list.push(("copy_w16".into(), launch(&run, &run, Scaling::MOVE, ALIGNED)));

        // Planes to pixels and back.
        for c in 2..=8 {
            let dims = [2, c, 64, 64];
            let (x, y) = (packed(t, nchw, &dims), packed(t, nhwc, &dims));
            list.push((format!("interleave_w{width}_c{c}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
            list.push((format!("separate_w{width}_c{c}"), launch(&y, &x, Scaling::MOVE, ALIGNED)));
        }
        let dims = [2, 64, 56, 56];
        let (x, y) = (packed(t, nchw, &dims), packed(t, nhwc, &dims));
        list.push((format!("transpose_w{width}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        list.push((format!("transpose_w{width}"), launch(&y, &x, Scaling::MOVE, ALIGNED)));

        // Rows off 16 bytes.
        let dims = [2, 65, 15, 15];
        let (x, y) = (packed(t, nchw, &dims), packed(t, nhwc, &dims));
        list.push((format!("transpose_shifted_w{width}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));

        // Every second element; and the same beyond 32 bits.
        for (stride, index) in [(2, "i32"), (1 << 34, "i64")] {
            let x = strided(t, &[5, 7], &[7 * stride, stride]);
            let y = strided(t, &[5, 7], &[7, 1]);
            list.push((format!("strided_w{width}_{index}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        }
    }
    // Blocks of channels that travel as one element of 16 or 32 bytes.
    for (block, width) in [(4, 16), (8, 32)] {
        let t = DataType::Float;
        let dims = [2, 16 * block, 8, 8];
        let (x, y) = (packed(t, Format::Blocked(block), &dims), packed(t, nhwc, &dims));
        list.push((format!("transpose_w{width}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        for (row, index) in [(16, "i32"), (1 << 34, "i64")] {
            let (x, y) = (strided(t, &[5, block], &[row, 1]), strided(t, &[5, block], &[2 * block, 1]));
            list.push((format!("strided_w{width}_{index}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        }
    }
    // Pairs with kernels of their own, all but those that fit no binary32 on the way or only meet
    // as moves.
    for (from, x) in COMMON {
        for (to, y) in COMMON {
            let bytes = [&from, &to].iter().filter(|name| matches!(**name, &"s8" | &"u8")).count();
            if bytes == 2 || (bytes == 1 && from != "f32" && to != "f32") {
                continue;
            }
            let dims = [2, 64, 10, 10];
            let (a, b, c) = (packed(x, nchw, &dims), packed(y, nchw, &dims), packed(y, nhwc, &dims));
            list.push((format!("convert_{from}_{to}"), launch(&a, &b, SCALED, ALIGNED)));
            list.push((format!("transpose_convert_{from}_{to}"), launch(&a, &c, SCALED, ALIGNED)));
            let dims = [2, 3, 10, 10];
            let (a, c) = (packed(x, nchw, &dims), packed(y, nhwc, &dims));
            list.push((format!("few_convert_{from}_{to}"), launch(&a, &c, SCALED, ALIGNED)));
        }
    }
    let (x, y) = (DataType::Double, DataType::Int64);
    let dims = [2, 64, 10, 10];
    list.push((
        "transpose_convert_any".into(),
        launch(&packed(x, nchw, &dims), &packed(y, nhwc, &dims), Scaling::MOVE, ALIGNED),
    ));
    for (stride, index) in [(2, "i32"), (1 << 34, "i64")] {
        let a = strided(x, &[5, 7], &[7 * stride, stride]);
        let b = strided(y, &[5, 7], &[7, 1]);
        list.push((format!("convert_strided_{index}"), launch(&a, &b, Scaling::MOVE, ALIGNED)));
    }
    // Padding in one launch, of images that all but three are cropped, and beyond 32 bits; and a
    // destination that writes over itself.
    for (images, index) in [(10, "i32"), (i32::MAX, "i64")] {
        let mut pad = TransformDescriptor::default();
        (pad.pad_before[0], pad.pad_before[3]) = (3 - images, 1);
        let x = strided(DataType::Int8, &[images.into(), 1, 1, 7], &[0, 7, 7, 1]);
        let y = strided(DataType::Int8, &[3, 1, 1, 8], &[8, 8, 8, 1]);
        let plan = TransformPlan::with_map(&pad, &x, &y, Scaling::MOVE, Mode::Extended).unwrap();
        let launches = of_plan(&plan, ALIGNED);
        assert_eq!(launches.len(), 1, "padding is written by the same launch");
        list.push((format!("map_{index}"), launches[0]));
    }
    // Many elements of few parts: a launch for each.
    let mut pad = TransformDescriptor::default();
    pad.pad_before[3] = 1;
    let (x, y) =
        (packed(DataType::Float, nchw, &[64, 3, 80, 80]), packed(DataType::Float, nchw, &[64, 3, 80, 81]));
    let plan = TransformPlan::with_map(&pad, &x, &y, Scaling::MOVE, Mode::Extended).unwrap();
    let kernels: Vec<_> = of_plan(&plan, ALIGNED).iter().map(|launch| launch.kernel).collect();
    assert_eq!(kernels, ["set_w4_i32", "strided_w4_i32"]);
    let x = strided(DataType::Float, &[4, 4], &[4, 1]);
    let y = strided(DataType::Float, &[4, 4], &[2, 1]);
    list.push(("ordered".into(), launch(&x, &y, Scaling::MOVE, ALIGNED)));
    list
}
