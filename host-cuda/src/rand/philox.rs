//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011),
//! as the dropout of `libcudnn` has it.

/// Factors of a round.
const FACTORS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What is added to the key after a round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The four words of a counter under a key.
pub fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [low, high] = [0, 1].map(|i| u64::from(FACTORS[i]) * u64::from(counter[2 * i]));
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// The key that a seed stands for.
pub const fn key(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// Words from one position of a seed's sequence on: word `p` is word `p % 4` of counter
/// `(p / 4, 0, 0)`.
pub struct Words {
    key: [u32; 2],
    position: u64,
    block: [u32; 4],
}

impl Words {
    /// From a position on.
    pub fn new(seed: u64, position: u64) -> Self {
        let mut words = Words { key: key(seed), position, block: [0; 4] };
        words.draw();
        words
    }

    fn draw(&mut self) {
        let number = self.position / 4;
        self.block = block([number as u32, (number >> 32) as u32, 0, 0], self.key);
    }

    /// The next one.
    #[inline]
    pub fn next(&mut self) -> u32 {
        let word = self.block[(self.position % 4) as usize];
        self.position = self.position.wrapping_add(1);
        if self.position.is_multiple_of(4) {
            self.draw();
        }
        word
    }

    /// The next two, the first one lower.
    pub fn next_wide(&mut self) -> u64 {
        u64::from(self.next()) | u64::from(self.next()) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::{Words, block, key};

    /// The vectors that the authors publish.
    #[test]
    fn blocks_are_the_published_ones() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(block([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let expected = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(block(counter, [0xa409_3822, 0x299f_31d0]), expected);
    }

    #[test]
    fn words_can_begin_anywhere() {
        let seed = 0x1234_5678_9abc_def0;
        let mut all = Words::new(seed, 0);
        let whole: Vec<u32> = (0..19).map(|_| all.next()).collect();
        assert_eq!(whole[4..8], block([1, 0, 0, 0], key(seed)));
        for start in 0..8 {
            let mut part = Words::new(seed, start as u64);
            assert!(whole[start..].iter().all(|&word| word == part.next()), "from {start}");
        }
    }
}
