//! Transforms whose operands lie in one buffer: the same tensor, slices that share nothing, and
//! slices that overlap.

use std::ffi::c_void;

use cudnn::desc::Format;
use cudnn::dtype::DataType;
use cudnn::exec::Address;
use cudnn::mode::Mode;
use cudnn::ops::{Scaling, TransformPlan};

use crate::cores::Cores;
use crate::double::{self, Memory};
use crate::tensors::{Words, format, strided};

#[test]
fn in_place() {
    double::run(&[], || {
        let mut cores = Cores::new();
        for scaling in [(3.0, 0.0), (1.0, 1.0)] {
            let tensor = format(DataType::Float, Format::Nhwc, &[2, 3, 5, 7]);
            let bytes = cores.rng.bytes(tensor.size());
            let scaled = Scaling { alpha: scaling.0, beta: scaling.1 };
            let plan =
                TransformPlan::new(&tensor.desc, &tensor.desc, scaled, Mode::Extended).expect("a plan");
            let mut want = Words::new(&bytes);
            let place = want.address_mut().wrapping_byte_add(tensor.base());
            // SAFETY: the buffer holds the tensor's whole span.
            unsafe { cores.cpu.run(&plan, &[place.into(); 2]) }.expect("the CPU core");
            let memory = Memory::new(&bytes);
            let place: *mut c_void = memory.pointer().wrapping_byte_add(tensor.base());
            // SAFETY: as above, on the device.
            unsafe { cores.cuda.run(&plan, &[place.into(); 2]) }.expect("the CUDA core");
            assert!(memory.read() == want.bytes());
        }
    });
}

#[test]
fn disjoint_slices_of_one_buffer() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        let mut cores = Cores::new();
        // Channels 0..32 and 32..64 of one tensor: their spans overlap, but they share no element.
        let whole = format(DataType::Float, Format::Nchw, &[2, 64, 8, 8]);
        let half = strided(DataType::Float, &[2, 32, 8, 8], &[4096, 64, 8, 1]);
        let scaling = Scaling { alpha: 2.0, beta: 0.5 };
        let plan = TransformPlan::new(&half.desc, &half.desc, scaling, Mode::Extended).expect("a plan");
        let bytes = cores.rng.bytes(whole.size());
        let mut want = Words::new(&bytes);
        let at = |base: *mut u8, channel: usize| Address::from(base.wrapping_add(channel * 64 * 4));
        let base = want.address_mut();
        // SAFETY: the buffer holds both halves.
        unsafe { cores.cpu.run(&plan, &[at(base, 32), at(base, 0)]) }.expect("the CPU core");
        let memory = Memory::new(&bytes);
        let base = memory.pointer().cast();
        // SAFETY: as above, on the device.
        unsafe { cores.cuda.run(&plan, &[at(base, 32), at(base, 0)]) }.expect("the CUDA core");
        assert!(memory.read() == want.bytes());
        // One channel further they share some.
        // SAFETY: as above.
        let error = unsafe { cores.cuda.run(&plan, &[at(base, 31), at(base, 0)]) }.expect_err("an overlap");
        assert!(error.to_string().contains("x and y overlap"), "{error}");
    });
}
