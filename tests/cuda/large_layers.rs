//! Normalisation, dropout and the columns of a convolution on the CUDA core: extents that 16 bits
//! do not count, and offsets that leave 31 bits.

use cudnn::exec::{Address, Context};

use crate::double::{self, Memory};
use crate::memory;
use testkit::wide_layers::{self, Pages, Room, layers, outcome};

impl Room for Memory {
    fn new(bytes: usize) -> Self {
        Memory::untouched(bytes)
    }

    fn address(&mut self) -> Address {
        self.pointer().into()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.write_at(at, bytes);
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        self.read_at(at, bytes);
    }
}

/// On both cores the same bits.
#[test]
fn extents_beyond_16_bits_and_offsets_beyond_31() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        double::use_device(0);
        let (cpu, cuda) = (Context::cpu(), Context::create().expect("a handle"));
        assert!(cuda.core_name().starts_with("cuda"), "{}", cuda.core_name());
        // The double is a slow device: each layer has one of the positions there.
        let step = if double::does_all() { 1 } else { wide_layers::long().len() };
        for (position, x) in wide_layers::long().iter().enumerate() {
            for (_, layer) in layers(x).into_iter().enumerate().filter(|(k, _)| (k + position) % step == 0) {
                let same = outcome::<Pages>(&layer, &cpu) == outcome::<Memory>(&layer, &cuda);
                assert!(same, "{} of {}", layer.name, x.dims());
            }
        }
        for (near, far) in wide_layers::far_apart() {
            for (near, far) in layers(&near).iter().zip(&layers(&far)) {
                if !memory::has_room(far.room(), &far.name) {
                    continue;
                }
                let same = outcome::<Pages>(near, &cpu) == outcome::<Memory>(far, &cuda);
                assert!(same, "{}, {:?} apart", far.name, far.largest().strides());
            }
        }
    });
}
