//! Launches of every kernel of contractions.

use cudnn::backend::cuda::contract_table::{Copies, KERNELS, Products};
use cudnn::backend::cuda::launch::{Device, Launch};
use cudnn::backend::cuda::module;
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::{Accumulate, Parts, Role, Side, Terms};
use cudnn::ops::{Contract, Operand, Plan, Scaling, Step, StepSink};

use crate::{collected_on, place};

/// A step of its own as a plan.
struct One(Contract);

impl std::fmt::Display for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Plan for One {
    fn operands(&self) -> &[Operand] {
        &[]
    }

    fn steps(&self, sink: StepSink<'_>) -> cudnn::error::Result<()> {
        let slots: &[usize] = if self.0.workspace > 0 { &[0, 1, 2, 3] } else { &[0, 1, 2] };
        sink(Step::Contract(&self.0), slots)
    }
}

/// The product of matrices of `m` x `k` and `k` x `n`.
fn product(extents: [i64; 3], scalars: [Scalar; 3], accumulate: Accumulate) -> One {
    product_by([Role::K, Role::N], extents, scalars, accumulate)
}

/// The same with a first matrix whose neighbours are terms, or rows, as those of the result then
/// are, and a second one whose neighbours are columns, or terms.
fn product_by(along: [Role; 2], [m, n, k]: [i64; 3], scalars: [Scalar; 3], accumulate: Accumulate) -> One {
    let matrix = |rows: i64, columns: i64| Layout {
        dims: Dims::new(&[1, rows, columns]),
        strides: Dims::new(&[rows * columns, columns, 1]),
        split: None,
    };
    let mut layouts = [matrix(m, n), matrix(m, k), matrix(k, n)];
    if along[0] == Role::M {
        layouts[0].strides = Dims::new(&[m * n, 1, m]);
        layouts[1].strides = Dims::new(&[m * k, 1, m]);
    }
    if along[1] == Role::K {
        layouts[2].strides = Dims::new(&[n * k, 1, k]);
    }
    let [c, a, b] = [0, 1, 2].map(|of| Side { layout: &layouts[of], scalar: scalars[of] });
    let terms = Terms::scaled(Scaling::MOVE);
    One(Contract::matmul(c, a, b, accumulate, &terms).unwrap())
}

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let (single, double, int) = (Accumulate::Single, Accumulate::Double, Accumulate::Int32);
    let mut list = Vec::new();
    let (u8_s8, s8_u8) = ([Scalar::I32, Scalar::U8, Scalar::I8], [Scalar::I32, Scalar::I8, Scalar::U8]);
    for (kernel, extents, scalars, accumulate) in [
        ("contract_mma_f16", [50, 60, 70], [Scalar::F16; 3], single),
        ("contract_mma_f16_large", [1500, 1600, 70], [Scalar::F16; 3], single),
        ("contract_mma_bf16", [50, 60, 70], [Scalar::Bf16; 3], single),
        ("contract_mma_bf16_large", [1500, 1600, 70], [Scalar::Bf16; 3], single),
        ("contract_mma_tf32", [50, 60, 70], [Scalar::F32; 3], single),
        ("contract_mma_tf32_large", [1500, 1600, 70], [Scalar::F32; 3], single),
        ("contract_mma_s8", [50, 60, 70], [Scalar::I8; 3], int),
        ("contract_mma_s8_large", [1500, 1600, 70], [Scalar::I8; 3], int),
        ("contract_mma_u8", [50, 60, 70], [Scalar::U8; 3], int),
        ("contract_mma_u8_large", [1500, 1600, 70], [Scalar::U8; 3], int),
        ("contract_mma_u8_s8", [50, 60, 70], u8_s8, int),
        ("contract_mma_u8_s8_large", [1500, 1600, 70], u8_s8, int),
        ("contract_mma_s8_u8", [50, 60, 70], s8_u8, int),
        ("contract_mma_s8_u8_large", [1500, 1600, 70], s8_u8, int),
        ("contract_mma75_f16", [50, 60, 70], [Scalar::F16; 3], single),
        ("contract_mma75_f16_large", [1500, 1600, 70], [Scalar::F16; 3], single),
        ("contract_mma75_s8", [50, 60, 70], [Scalar::I8; 3], int),
        ("contract_mma75_s8_large", [1500, 1600, 70], [Scalar::I8; 3], int),
        ("contract_f32", [50, 60, 70], [Scalar::F32; 3], single),
        ("contract_f32_large", [1500, 1600, 70], [Scalar::F32; 3], single),
        ("contract_f64", [50, 60, 70], [Scalar::F64; 3], double),
        ("contract_i32", [50, 60, 70], [Scalar::I8; 3], int),
        ("contract_direct_f32", [500, 1, 70], [Scalar::F32; 3], single),
        ("contract_direct_f64", [500, 1, 70], [Scalar::F64; 3], double),
        ("contract_direct_i32", [500, 1, 70], [Scalar::U8; 3], int),
    ] {
        let mut plan = product(extents, scalars, accumulate);
        plan.0.allow_conversion = kernel.contains("tf32");
        let at = [0x1000, 0x2000, 0x3000].map(place);
        // The devices that have the kernel, from the first to the last.
        let of = |capability| collected_on(Device { capability }, &plan, &at);
        let devices: &[u32] = match kernel {
            _ if kernel.contains("_mma_") => &[80, 90, 120],
            _ if kernel.contains("_mma75_") => &[75, 79],
            _ => &[50],
        };
        for &capability in devices {
            let names: Vec<_> = of(capability).iter().map(|launch| launch.kernel).collect();
            assert_eq!(names, [kernel], "{capability}");
        }
        // The last devices without Tensor Cores, and without asynchronous copies.
        for (capability, other) in [(70, "_mma"), (74, "_mma"), (79, "_mma_")] {
            assert!(of(capability).iter().all(|launch| !launch.kernel.contains(other)), "{kernel}");
        }
        list.extend(of(devices[0]).into_iter().map(|launch| (kernel.to_owned(), launch)));
    }
    let of_stages = [
        (Scalar::F16, single, "f16"),
        (Scalar::Bf16, single, "bf16"),
        (Scalar::F32, single, "tf32"),
        (Scalar::I8, int, "s8"),
    ];
    for (scalar, accumulate, name) in of_stages {
        // Few results, enough of a narrow matrix for tall tiles, and enough for large ones.
        for (tile, extents) in
            [("64x64", [48, 64, 64]), ("128x64", [12_000, 64, 64]), ("128x128", [1504, 1600, 64])]
        {
            for (along, family, suffix) in [
                ([Role::K, Role::K], "multistage", ""),
                ([Role::K, Role::N], "multistage", "_columns"),
                ([Role::M, Role::N], "gradient", ""),
            ] {
                // No instruction transposes bytes.
                if scalar == Scalar::I8 && along != [Role::K, Role::K] {
                    continue;
                }
                let mut plan = product_by(along, extents, [scalar; 3], accumulate);
                plan.0.allow_conversion = true;
                let kernel = format!("contract_{family}_{name}_{tile}{suffix}");
                let names = |capability, places: [usize; 3]| {
                    let launches = collected_on(Device { capability }, &plan, &places.map(place));
                    launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>()
                };
                let aligned = [0x1000, 0x2000, 0x3000];
                for capability in [80, 90, 120] {
                    assert_eq!(names(capability, aligned), [&*kernel], "{capability}");
                }
                // Earlier devices, and operands off 16 bytes, have the kernels of before.
                let behind = [(75, aligned), (70, aligned)];
                let off = (0..3).map(|of| {
                    let mut places = aligned;
                    places[of] += 8;
                    (80, places)
                });
                for (capability, places) in behind.into_iter().chain(off) {
                    let names = names(capability, places);
                    let is_of_stages = |name: &&str| name.contains("stage") || name.contains("gradient");
                    assert!(!names.iter().any(is_of_stages), "{names:?}");
                }
                let launches = collected_on(Device { capability: 80 }, &plan, &aligned.map(place));
                list.extend(launches.into_iter().map(|launch| (kernel.clone(), launch)));
            }
        }
    }
    list.extend(split());
    for (scalar, name) in [(Scalar::F16, "f16"), (Scalar::Bf16, "bf16"), (Scalar::F32, "tf32")] {
        // Parts of long sums, of which a workspace off 16 bytes holds none in vectors.
        let mut plan = product_by([Role::M, Role::N], [64, 64, 7000], [scalar; 3], single);
        plan.0.allow_conversion = true;
        plan.0.workspace = Parts::of(&plan.0).and_then(|parts| parts.workspace(single)).expect("parts");
        for (room, kernel) in [(0x4000, "contract_gradient"), (0x4008, "contract_mma")] {
            let at = [0x1000, 0x2000, 0x3000, room].map(place);
            let launches = collected_on(Device { capability: 80 }, &plan, &at);
            let names: Vec<_> = launches.iter().map(|launch| launch.kernel).collect();
            let of_parts = names[0].starts_with(&format!("{kernel}_{name}"));
            assert!(of_parts && names[1..] == ["contract_join_f32"], "{names:?}");
            assert_eq!(launches[1].grid, [16, 1, 1], "slices of the only tile");
        }
    }
    for (kernels, extents, scalar, accumulate) in [
        (["contract_f32", "contract_join_f32"], [50, 60, 7000], Scalar::F32, single),
        (["contract_f64", "contract_join_f64"], [50, 60, 7000], Scalar::F64, double),
        (["contract_i32", "contract_join_i32"], [50, 60, 7000], Scalar::I8, int),
        (["contract_direct_f32", "contract_join_direct_f32"], [500, 1, 7000], Scalar::F32, single),
        (["contract_direct_f64", "contract_join_direct_f64"], [500, 1, 7000], Scalar::F64, double),
        (["contract_direct_i32", "contract_join_direct_i32"], [500, 1, 7000], Scalar::U8, int),
    ] {
        let mut plan = product(extents, [scalar; 3], accumulate);
        let parts = Parts::of(&plan.0).expect("a long sum");
        let needed = parts.workspace(accumulate).unwrap();
        let at = [0x1000, 0x2000, 0x3000, 0x4000].map(place);
        for (workspace, count) in [(needed - 1, 1), (needed, 2)] {
            plan.0.workspace = workspace;
            let launches = collected_on(Device::ANY, &plan, &at);
            let names: Vec<_> = launches.iter().map(|launch| launch.kernel).collect();
            assert_eq!(names, kernels[..count]);
            list.extend(names.iter().map(|name| name.to_string()).zip(launches));
        }
    }
    list
}

/// Binary32 that may be multiplied in parts: of two tiles where sums are not cut, else of the small
/// one.
fn split() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    for (along, kernel, extents) in [
        ([Role::K, Role::K], "contract_multistage_f32_64x64", [48, 64, 64]),
        ([Role::K, Role::K], "contract_multistage_f32_128x128", [1504, 1600, 64]),
        ([Role::K, Role::N], "contract_multistage_f32_64x64_columns", [48, 64, 64]),
        ([Role::K, Role::N], "contract_multistage_f32_128x128_columns", [1504, 1600, 64]),
        ([Role::M, Role::N], "contract_gradient_f32_64x64", [1504, 1600, 64]),
    ] {
        let mut plan = product_by(along, extents, [Scalar::F32; 3], Accumulate::Single);
        let of = |plan: &One, capability, at: [usize; 3]| {
            collected_on(Device { capability }, plan, &at.map(place))
        };
        let names = |launches: Vec<Launch>| launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>();
        let plain = if extents[0] == 48 { "contract_f32" } else { "contract_f32_large" };
        // Plain sums where tiles are not allowed, on earlier devices, and of what is off 16 bytes.
        let aligned = [0x1000, 0x2000, 0x3000];
        assert_eq!(names(of(&plan, 90, aligned)), [plain]);
        plan.0.allow_tiles = true;
        for capability in [80, 90, 120] {
            assert_eq!(names(of(&plan, capability, aligned)), [kernel], "{capability}");
        }
        assert_eq!(names(of(&plan, 75, aligned)), [plain]);
        assert_eq!(names(of(&plan, 80, [0x1000, 0x2008, 0x3000])), [plain]);
        list.extend(of(&plan, 80, aligned).into_iter().map(|launch| (kernel.to_owned(), launch)));
    }
    list
}

/// No kernel of these families stands outside of the table, and none of the table is missing.
#[test]
fn the_table_has_every_kernel() {
    let families = ["contract", "contract_gradient", "contract_mma", "contract_mma75", "contract_multistage"];
    let of_families = module::kernels().iter().filter(|kernel| families.contains(&kernel.family()));
    let mut there: Vec<&str> = of_families.map(|kernel| kernel.name).collect();
    let mut listed: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
    there.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, there);
}

/// What a row says of copies and Tensor Cores stands in the kernel's text, and so does the first
/// device that has it.
#[test]
fn rows_say_what_texts_do() {
    let named = |name: &str| module::kernels().iter().find(|kernel| kernel.name == name);
    for row in KERNELS {
        let text = named(row.name).expect("a kernel").text().expect("a text");
        let is_async = matches!(row.copy, Copies::Asynchronous | Copies::Multistage(_));
        assert_eq!(text.contains("cp.async"), is_async, "{}", row.name);
        // Numbers of 32 bits are not transposed by it.
        let by_words = matches!(row.copy, Copies::Multistage([Role::M, _])) && row.name.contains("f32");
        let has_matrices = matches!(row.copy, Copies::Multistage(_)) && !by_words;
        assert_eq!(text.contains("ldmatrix"), has_matrices, "{}", row.name);
        assert_eq!(text.contains("mma.sync"), row.products != Products::Scalars, "{}", row.name);
        let target = text.split(".target sm_").nth(1).and_then(|rest| rest.lines().next());
        let target: u32 = target.and_then(|digits| digits.parse().ok()).expect("a target");
        let first = row.capability.start;
        assert!(first == target || first == 0 && target == 50, "{}: {target}", row.name);
        assert!(row.join.is_none_or(|join| named(join).is_some()), "{}", row.name);
    }
}
