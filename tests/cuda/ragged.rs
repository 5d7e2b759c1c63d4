//! Ragged batches on the CUDA core; and what it leaves alone of offsets that it cannot refuse.

use cudnn::exec::Address;
use cudnn::ops::ragged::RaggedFunction;

use crate::cores::Cores;
use crate::double::Memory;
use testkit::ragged::Problem;
use testkit::random::Rng;

/// What the CUDA core leaves in the destination.
fn left(cores: &mut Cores, problem: &Problem, contents: &[Vec<u8>]) -> Vec<u8> {
    let device: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
    let at: Vec<Address> = device.iter().map(|memory| memory.pointer().into()).collect();
    // SAFETY: every operand has its span.
    unsafe { cores.cuda.run(problem, &at) }.expect("the CUDA core");
    cores.solved += 1;
    device[0].read()
}

/// Everything here.
pub fn all(cores: &mut Cores) {
    let mut rng = Rng(63);
    for function in [RaggedFunction::Load, RaggedFunction::Store] {
        for _ in 0..40 {
            let problem = Problem::random(&mut rng, function);
            let contents = problem.contents(&mut rng);
            assert!(left(cores, &problem, &contents) == problem.wanted(&contents), "{problem}");
        }
        // Batches whose offsets are negative or decrease are empty, and no other memory is touched,
        // which the double looks at.
        let Problem { step, .. } = Problem::random(&mut rng, function);
        let astray = |offsets: Vec<i64>| Problem::new(cudnn::ops::Ragged { batches: 2, ..step }, offsets);
        for offsets in [vec![-4, 3, 0], vec![9, 2, 1]] {
            let problem = astray(offsets);
            let contents = problem.contents(&mut rng);
            // The formula says of them that they have no element, too.
            let empty = Problem::new(problem.step, vec![0; 3]);
            assert!(left(cores, &problem, &contents) == empty.wanted(&contents), "{problem}");
        }
    }
}
