//! ReduceTensor against sums and indices that the original has left on a GPU.

use cudnn::backend::{Machine, run_reduce};
use cudnn::desc::{Choice, Format, ReduceDescriptor, ReduceIndices, ReduceOp, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::{ReducePlan, Scaling};

/// `amplitude * sin(0.7 * i + 0.3) + 0.1 * (i % 5) - 0.2` in float, `i` counted from `first`.
fn waves(count: usize, amplitude: f32, first: usize) -> Vec<f32> {
    let wave = |i: usize| amplitude * (0.7 * i as f32 + 0.3).sin() + 0.1 * (i % 5) as f32 - 0.2;
    (first..first + count).map(wave).collect()
}

fn packed(dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, dims, Mode::Strict).expect("valid")
}

#[test]
fn reductions_are_those_of_the_original() {
    let (mut sums, mut indices) = (0, 0);
    for line in include_str!("data/golden/reduce.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (case, want) = line.split_once('\t').expect("two columns");
        let words: Vec<&str> = case.split(' ').collect();
        let op = ReduceOp::from_code(words[1].parse().expect("an operation")).expect("known");
        let dims: Vec<i64> = words[3].split('x').map(|d| d.parse().expect("an extent")).collect();
        let outputs = dims.iter().product::<i64>() as usize;
        let wants_indices = words.last() == Some(&"indices");
        let desc = ReduceDescriptor {
            op,
            indices: if wants_indices { ReduceIndices::Flattened } else { ReduceIndices::None },
            ..ReduceDescriptor::default()
        };
        let scaling = Scaling { alpha: 1.5, beta: 0.5 };
        let plan = ReducePlan::new(&desc, &packed(&[2, 3, 4, 5]), &packed(&dims), scaling, Mode::Strict)
            .expect("the original reduces it");
        let (a, mut c, mut found) = (waves(120, 2.0, 0), waves(outputs, 1.0, 2), vec![0_u32; outputs]);
        plan.for_each(&mut |problem| {
            let (to, from) = (c.as_mut_ptr().cast(), a.as_ptr().cast());
            // SAFETY: the arrays are as long as the tensors.
            unsafe { run_reduce(problem, to, from, found.as_mut_ptr().cast(), Machine::host()) }
        })
        .expect("runs");
        if wants_indices {
            let listed: Vec<String> = found.iter().map(u32::to_string).collect();
            assert_eq!(format!("{}: {}", 4 * outputs, listed.join(" ")), want, "{case}");
            indices += 1;
            continue;
        }
        let mut got = [0.0; 3];
        for (i, v) in c.iter().map(|&v| f64::from(v).abs()).enumerate() {
            got[0] += v;
            got[1] += v * v;
            got[2] += v * (1 + i % 7) as f64;
        }
        for (got, want) in got.iter().zip(want.split(' ')) {
            let want: f64 = want.parse().expect("a sum");
            assert!((got - want).abs() <= 1e-5 * want, "{case}: {got} instead of {want}");
        }
        sums += 1;
    }
    assert_eq!((sums, indices), (30, 12), "recorded cases");
}
