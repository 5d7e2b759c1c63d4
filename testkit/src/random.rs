//! The random numbers of the tests: seeded, the same on every machine.

/// splitmix64.
pub struct Rng(pub u64);

impl Rng {
    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// The numbers below `n`, shuffled.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, self.below(i + 1)));
        order
    }

    /// A number from -1 below 1, one of 2^24, which FLOAT has.
    pub fn real(&mut self) -> f64 {
        (self.word() >> 40) as f64 / 8_388_608.0 - 1.0
    }

    /// Bits of all kinds: any, small integers of any type, and the floats with the fewest.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let kind = self.below(3);
        let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            let bits = match kind {
                0 => self.word(),
                // 16-bit and 32-bit floats of ordinary size, whatever they are read as.
                1 => (self.word() & 0x07ff_07ff_07ff_07ff) | 0x3c00_3c00_3f80_3c00,
                _ => (self.word() & 0x7f).wrapping_sub(64),
            };
            bytes.extend(bits.to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
