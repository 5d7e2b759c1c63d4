//! Causal convolutions on both cores, equal in every bit.

use cudnn::exec::Address;
use cudnn::ops::Plan;

use crate::cores::Cores;
use crate::double::Memory;
use crate::tensors::Words;
use testkit::causal::{FORMS, TYPES, all_contents, call, plans, sizes};
use testkit::random::Rng;

/// Runs a plan on both cores and compares what they leave in every operand.
fn agree(cores: &mut Cores, plan: &dyn Plan, contents: &[Vec<u8>]) {
    let mut host: Vec<Words> = contents.iter().map(|bytes| Words::new(bytes)).collect();
    let device: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
    let at: Vec<Address> = host.iter_mut().map(|words| words.address_mut().into()).collect();
    // SAFETY: every operand has its span.
    unsafe { cores.cpu.run(plan, &at) }.expect("the CPU core");
    let at: Vec<Address> = device.iter().map(|memory| memory.pointer().into()).collect();
    // SAFETY: as above, on the device.
    unsafe { cores.cuda.run(plan, &at) }.expect("the CUDA core");
    for (k, (host, device)) in host.iter().zip(&device).enumerate() {
        assert!(device.read() == host.bytes(), "{} of {plan}", plan.operands()[k].name);
    }
    cores.solved += 1;
}

/// Everything here.
pub fn all(cores: &mut Cores) {
    let mut rng = Rng(41);
    for case in 0..56 {
        let form = FORMS[case % FORMS.len()];
        let [batch, dim, length, taps, mixer] = sizes(&mut rng);
        // What a thread of the double computes anew grows with all of them.
        let small = [batch.min(2), dim, length.min(64), taps.min(9), mixer.min(8)];
        let call = call(form, small, TYPES[case / FORMS.len() % TYPES.len()]);
        for plan in plans(&call) {
            let contents = all_contents(&plan, &mut rng, case % 3 == 0);
            agree(cores, &plan, &contents);
        }
    }
}
