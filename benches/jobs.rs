//! Small jobs on one thread and on all of them, in turns: from which size on it pays to share a
//! call.
//!
//! `cargo bench --bench jobs`

#[allow(dead_code, reason = "other benchmarks use the rest")]
mod timing;

use cudnn::backend::{self, Machine};

use testkit::random::Rng;
use testkit::run_step;
use testkit::steps::Row;

/// Products of contiguous matrices and functions of contiguous numbers, which take a processor of
/// some 100 GFLOPS and of 50 GB/s inside its caches about 10, 50 and 200 microseconds.
const JOBS: [&str; 6] = [
    "product-10 contract f32*f32->f32 in f32 m:64*(128,64,0) n:128*(1,0,64) k:64*(0,1,1) at 0,0,0",
    "product-50 contract f32*f32->f32 in f32 m:196*(112,128,0) n:112*(1,0,128) k:128*(0,1,1) at 0,0,0",
    "product-200 contract f32*f32->f32 in f32 m:784*(112,128,0) n:112*(1,0,128) k:128*(0,1,1) at 0,0,0",
    "relu-10 map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src1/src2: 65536*(1,1,0) +0,+0,+0",
    "relu-50 map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src1/src2: 327680*(1,1,0) +0,+0,+0",
    "relu-200 map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src1/src2: 1310720*(1,1,0) +0,+0,+0",
];

/// Calls of a round, one right behind the other, as those of a network come.
const CALLS: u32 = 20;

fn main() {
    let all = Machine::host();
    println!("{all:?}; microseconds a call, best of the rounds\n");
    println!("{:12}{:>12}{:>12}{:>8}", "job", "one thread", "all", "gain");
    let mut rng = Rng(5);
    for line in JOBS {
        let row = Row::parse(line).expect("a step");
        let mut memory = run_step::contents(&row, &mut rng);
        let at = memory.places(&row);
        let run = |machine: Machine| {
            for _ in 0..CALLS {
                // SAFETY: every operand has its span, and nothing overlaps.
                unsafe { backend::run(row.step.step(), &at, false, machine) }.expect("the step runs");
            }
        };
        let [one, shared] =
            timing::times(&[], [&mut || run(Machine { threads: 1, ..all }), &mut || run(all)]);
        let [one, shared] = [one[0], shared[0]].map(|seconds| seconds * 1e6 / f64::from(CALLS));
        println!("{:12}{one:>12.1}{shared:>12.1}{:>8.2}", row.name, one / shared);
    }
}
