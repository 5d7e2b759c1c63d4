//! Windows on both cores: what they leave in memory is equal in every bit.

use cudnn::exec::{Address, Context};

use crate::double::{self, Memory};
use crate::memory;
use crate::tensors::Words;
use testkit::random::Rng;
use testkit::windows::{self as problems, draw};

/// Problems that are drawn, behind those of many axes.
const PROBLEMS: usize = 240;

/// Problems of windows; `cores` runs them.
pub fn all() {
    double::use_device(0);
    let (cpu, cuda) = (Context::cpu(), Context::create().expect("a handle"));
    assert!(cuda.core_name().starts_with("cuda"), "{}", cuda.core_name());
    let mut rng = Rng(11);
    let mut kinds = std::collections::BTreeSet::new();
    let mut directed = problems::wide(&mut rng);
    directed.extend(problems::long_rows(&mut rng));
    let most = directed.len() + PROBLEMS;
    let mut directed = directed.into_iter();
    for _ in 0..most {
        let problem = directed.next().unwrap_or_else(|| draw(&mut rng));
        kinds.insert(problem.kind);
        let contents = problem.contents(&mut rng);
        let operands = problem.plan.operands();
        let mut want: Vec<Words> = contents.iter().map(|bytes| Words::new(bytes)).collect();
        let held: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
        let place = |k: usize, base: Address| {
            let from_base =
                |base: *mut u8| Address::from(base.wrapping_offset(-(operands[k].span.0 as isize)));
            if operands[k].is_touched() { from_base(base.pointer()) } else { Address::NULL }
        };
        let host: Vec<Address> =
            want.iter_mut().enumerate().map(|(k, words)| place(k, words.address_mut().into())).collect();
        let device: Vec<Address> =
            held.iter().enumerate().map(|(k, memory)| place(k, memory.pointer().into())).collect();
        // SAFETY: every operand has its span.
        unsafe { cpu.run(&*problem.plan, &host) }.expect("the CPU core");
        memory::working_on(&problem.plan);
        // SAFETY: as above, on the device.
        unsafe { cuda.run(&*problem.plan, &device) }.expect("the CUDA core");
        for (k, (got, want)) in held.iter().zip(&want).enumerate() {
            let got = got.read();
            let at = got.iter().zip(want.bytes()).position(|(a, b)| a != b);
            assert!(
                at.is_none(),
                "{}: {} differs at byte {at:?}\n{}",
                problem.title,
                operands[k].name,
                problem.plan
            );
        }
    }
    assert!(kinds.len() >= problems::KINDS, "every kind comes: {kinds:?}");
    let kernels = cudnn::backend::cuda::module::kernels().iter().map(|kernel| kernel.name);
    let is_idle = |name: &&str| name.contains("window_") && double::is_idle(name);
    let idle: Vec<&str> = kernels.filter(is_idle).collect();
    assert!(idle.is_empty(), "no problem comes to {idle:?}");
}
