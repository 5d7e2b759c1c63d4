//! What multiplies tiles: AMX, or its model, or the matrix instructions of aarch64.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::amx;
use super::call::Multiply;
#[cfg(all(target_arch = "aarch64", not(miri)))]
use super::call::{ROW, TILE_ROWS};
use super::model;
#[cfg(all(target_arch = "aarch64", not(miri)))]
use super::neon;
use crate::backend::cpu::Isa;
use crate::backend::cpu::isa::Tiles;

/// Something that multiplies tiles.
#[derive(Clone, Copy)]
pub struct Unit {
    pub multiply: Multiply,
    /// Called on a thread before it multiplies, and after.
    configure: unsafe fn(),
    release: unsafe fn(),
    /// Columns of `b` and terms of a sum from which on tiles are full enough. The rows of `a` may
    /// be those of a batch, which does not decide.
    pub least: [i64; 2],
    /// Whether several products of parts take less time than one of the numbers themselves.
    pub takes_parts: bool,
}

/// Of AMX and its model.
const LEAST: [i64; 2] = [8, 16];

impl Unit {
    const MODEL: Unit =
        Unit { multiply: model::multiply, configure: || (), release: || (), least: LEAST, takes_parts: true };

    /// What the level has; `None` for levels without tiles.
    pub fn of(isa: Isa) -> Option<Unit> {
        match isa.tiles() {
            Tiles::None => None,
            Tiles::Model => Some(Unit::MODEL),
            // From a whole strip of lanes and a whole step on. A fused multiply-add makes four
            // products, and one of these instructions sixteen: four or six for one in parts gain
            // nothing.
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Tiles::Matrix => Some(Unit {
                multiply: neon::multiply,
                least: [TILE_ROWS as i64, ROW as i64],
                takes_parts: false,
                ..Unit::MODEL
            }),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tiles::Processor => Some(Unit {
                multiply: amx::multiply,
                configure: amx::configure,
                release: amx::release,
                ..Unit::MODEL
            }),
            _ => None,
        }
    }

    /// Calls `work` while tiles are configured on this thread, which keeps nothing of them: threads
    /// that carry the state of tiles are slow to switch.
    ///
    /// # Safety
    /// The processor has the unit.
    pub unsafe fn with(&self, work: impl FnOnce()) {
        /// Also if `work` panics.
        struct Configured(unsafe fn());
        impl Drop for Configured {
            fn drop(&mut self) {
                // SAFETY: the processor has the unit, as it did when the tiles were configured.
                unsafe { (self.0)() };
            }
        }
        // SAFETY: the processor has the unit.
        unsafe { (self.configure)() };
        let configured = Configured(self.release);
        work();
        drop(configured);
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::{Call, Product, ROW, SIDE, TILE};
    use super::*;

    /// A generator of random words.
    struct Random(u64);

    impl Random {
        fn word(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// A number below `end`.
        fn below(&mut self, end: u64) -> u64 {
            (self.word() >> 20) % end
        }
    }

    /// What the bits of numbers are drawn from.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        /// Anything: also infinities and NaN of all payloads.
        Any,
        Usual,
        /// Products around the least normal number.
        Tiny,
        /// Products around the largest number.
        Huge,
        /// Zeros of both signs and denormal numbers among others of any size.
        Zeros,
        /// Equal magnitudes.
        Cancelling,
        /// A few infinities and NaN.
        Special,
        /// Sums that are a fraction of a denormal bit below the least normal number.
        Least,
    }

    const KINDS: [Kind; 8] = [
        Kind::Any,
        Kind::Usual,
        Kind::Tiny,
        Kind::Huge,
        Kind::Zeros,
        Kind::Cancelling,
        Kind::Special,
        Kind::Least,
    ];

    /// The upper half of a number in binary32.
    fn half(kind: Kind, random: &mut Random) -> u16 {
        let bits = random.word();
        let rest = bits as u16 & 0x807f;
        let exponent = match kind {
            Kind::Any => return bits as u16,
            Kind::Usual => 120 + random.below(14),
            Kind::Tiny => 55 + random.below(18),
            Kind::Huge => 185 + random.below(14),
            Kind::Zeros => match random.below(8) {
                0 => return rest & 0x8000,
                1 => 0,
                _ => 1 + random.below(254),
            },
            Kind::Cancelling => return rest & 0x8003 | 127 << 7,
            Kind::Special if random.below(64) == 0 => 255,
            Kind::Special => 120 + random.below(14),
            Kind::Least => 51 + random.below(3),
        };
        rest | (exponent as u16) << 7
    }

    /// Two strips of rows, two of lanes, and sums that were there before.
    struct Case {
        a: Vec<u16>,
        b: Vec<u16>,
        acc: Vec<u32>,
    }

    impl Case {
        fn new(kind: Kind, product: Product, steps: usize, random: &mut Random) -> Case {
            let steps = steps * product.tiles();
            let halves = 2 * steps * TILE / 2;
            let [mut a, mut b] = [0, 1].map(|_| (0..halves).map(|_| half(kind, random)).collect::<Vec<_>>());
            let sum = |random: &mut Random| match kind {
                Kind::Any => random.word() as u32,
                Kind::Least => 0,
                _ => u32::from(half(kind, random)) << 16 | random.below(1 << 16) as u32,
            };
            if kind == Kind::Least {
                // The first products are the least number; those that follow take some of it away,
                // or nothing.
                for tile in a.chunks_exact_mut(TILE / 2).chain(b.chunks_exact_mut(TILE / 2)) {
                    tile.iter_mut().enumerate().for_each(|(k, half)| {
                        *half = if k % 32 >= 6 { 0 } else { *half };
                    });
                }
                a.iter_mut().enumerate().for_each(|(k, half)| {
                    *half = if k % 32 < 2 { 0x3f80 | *half & 0x8000 } else { *half };
                });
                b.iter_mut().enumerate().for_each(|(k, half)| {
                    *half = if k % (TILE / 2) < 32 { 1 << 7 } else { *half };
                });
            }
            Case { a, b, acc: (0..SIDE * SIDE).map(|_| sum(random)).collect() }
        }

        /// The sums that a unit makes.
        fn run(
            &self, unit: &Unit, product: Product, strips: [usize; 2], steps: usize, adds: bool,
        ) -> Vec<u32> {
            let mut acc = self.acc.clone();
            let of = |halves: &[u16]| {
                let first = halves.as_ptr().cast::<u8>();
                [first, first.wrapping_add(steps * product.tiles() * TILE)]
            };
            let (a, b) = (of(&self.a), of(&self.b));
            let a_step = product.tiles() * TILE;
            let call = Call { a, a_row: ROW, a_step, b, steps, acc: acc.as_mut_ptr().cast(), adds };
            // SAFETY: both operands have two strips of as many steps, and the sums room for all.
            unsafe { unit.with(|| (unit.multiply)(product, strips, &call)) };
            acc
        }
    }

    #[test]
    fn the_model_has_the_bits_of_the_instructions() {
        let Some(isa) = Isa::all().find(|isa| isa.tiles() == Tiles::Processor) else {
            println!("skipped: this processor has no tiles");
            return;
        };
        let model =
            Isa::all().find(|isa| isa.tiles() == Tiles::Model).expect("every processor has the model");
        let [unit, model] = [isa, model].map(|isa| Unit::of(isa).expect("the level has tiles"));
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let products = [true, false].map(|a| [true, false].map(|b| Product::Bytes([a, b])));
        let floats = [Product::Bf16, Product::Six, Product::Three];
        let products = products.as_flattened().iter().chain([&floats; 3].into_iter().flatten());
        let rounds = if cfg!(debug_assertions) { 40 } else { 400 };
        for (&product, kind) in products.flat_map(|product| KINDS.map(|kind| (product, kind))) {
            for round in 0..rounds {
                let steps = 1 + round % 3;
                let case = Case::new(kind, product, steps, &mut random);
                let (strips, adds) = ([1 + round / 2 % 2, 1 + round / 4 % 2], round % 5 > 0);
                let [got, want] = [&unit, &model].map(|unit| case.run(unit, product, strips, steps, adds));
                let differs = got.iter().zip(&want).position(|(got, want)| got != want);
                let show = |at: usize| format!("{:08x} instead of {:08x} at {at}", want[at], got[at]);
                assert!(differs.is_none(), "{product:?} of {kind:?}: {}", show(differs.unwrap_or(0)));
            }
        }
    }

    #[cfg(all(target_arch = "aarch64", not(miri)))]
    #[test]
    fn the_instructions_of_matrices_have_the_bits_of_their_definition() {
        let Some(isa) = Isa::all().find(|isa| isa.tiles() == Tiles::Matrix) else {
            println!("skipped: this processor multiplies no matrices");
            return;
        };
        let (unit, model) = (Unit::of(isa).expect("the level has tiles"), Unit::MODEL);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let bytes = [true, false].map(|a| [true, false].map(|b| Product::Bytes([a, b])));
        for (round, &product) in
            (0..16).flat_map(|round| bytes.as_flattened().iter().map(move |of| (round, of)))
        {
            let case = Case::new(Kind::Any, product, 1 + round % 3, &mut random);
            let (strips, adds) = ([1 + round / 2 % 2, 1 + round / 4 % 2], round % 5 > 0);
            let [got, want] =
                [&unit, &model].map(|unit| case.run(unit, product, strips, 1 + round % 3, adds));
            assert_eq!(got, want, "{product:?}, round {round}");
        }
        for (round, kind) in (0..8).flat_map(|round| KINDS.map(|kind| (round, kind))) {
            let steps = 1 + round % 3;
            let product = [Product::Bf16, Product::Bf16, Product::Six, Product::Three][round % 4];
            let case = Case::new(kind, product, steps, &mut random);
            let (strips, adds) = ([1 + round / 2 % 2, 1 + round / 4 % 2], round % 5 > 0);
            let got = case.run(&unit, product, strips, steps, adds);
            for (row, lane) in
                (0..16 * strips[0]).flat_map(|row| (0..16 * strips[1]).map(move |lane| (row, lane)))
            {
                let at = row * SIDE + lane;
                // Halves of a strip of all steps.
                let strip = steps * product.tiles() * TILE / 2;
                let mut want = if adds { case.acc[at] } else { 0 };
                for [of_a, of_b] in
                    (0..steps).flat_map(|_| product.parts()).copied().enumerate().map(|(k, [a, b])| {
                        let step = k / product.parts().len();
                        [a, b].map(|part| (step * product.tiles() + part) * TILE / 2)
                    })
                {
                    let a = &case.a[row / 16 * strip + of_a + row % 16 * 32..][..32];
                    let b = &case.b[lane / 16 * strip + of_b..][..TILE / 2];
                    let pairs = |k: usize| [b[k * 32 + lane % 16 * 2], b[k * 32 + lane % 16 * 2 + 1]];
                    let row = a.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
                    want = neon::defined::bf16(want, row, (0..16).map(pairs));
                }
                assert_eq!(
                    got[at], want,
                    "{product:?} of {kind:?}: {:08x} instead of {want:08x} at {at}",
                    got[at]
                );
            }
        }
    }

    /// Of the model alone: the order of a sum, and what is flushed.
    #[test]
    fn the_model_sums_pairs_and_flushes() {
        let model = Unit::MODEL;
        let sum = |a: &[(usize, f32)], b: &[(usize, f32)], before: f32| {
            let mut case = Case { a: vec![0; TILE], b: vec![0; TILE], acc: vec![0; SIDE * SIDE] };
            a.iter().for_each(|&(k, x)| case.a[k] = (x.to_bits() >> 16) as u16);
            // Of lane 0: cells are a row of a tile apart.
            b.iter().for_each(|&(k, x)| case.b[k / 2 * 32 + k % 2] = (x.to_bits() >> 16) as u16);
            case.acc[0] = before.to_bits();
            f32::from_bits(case.run(&model, Product::Bf16, [1, 1], 1, true)[0])
        };
        let big = 2.0_f32.powi(24);
        // Even terms meet each other before odd ones do: 2^24 + 1 is 2^24, and so is 2^24 + 1 + 1
        // one by one.
        assert_eq!(sum(&[(0, big), (1, 1.0), (3, 1.0)], &[(0, 1.0), (1, 1.0), (3, 1.0)], 0.0), big + 2.0);
        assert_eq!(sum(&[(0, big), (2, 1.0), (4, 1.0)], &[(0, 1.0), (2, 1.0), (4, 1.0)], 0.0), big);
        // What is there is added last.
        assert_eq!(sum(&[(0, 1.0), (2, 1.0)], &[(0, 1.0), (2, 1.0)], big), big + 2.0);
        let least = f32::MIN_POSITIVE;
        assert_eq!(sum(&[(0, least / 2.0)], &[(0, big)], 0.0), 0.0);
        assert_eq!(sum(&[(0, least)], &[(0, 0.5)], 0.0), 0.0);
        assert_eq!(sum(&[(0, least)], &[(0, 1.0)], least / 2.0), least);
        assert_eq!(sum(&[(0, -least)], &[(0, 0.5)], -0.0).to_bits(), 0);
        assert!(sum(&[(0, f32::INFINITY), (1, f32::NEG_INFINITY)], &[(0, 1.0), (1, 1.0)], 0.0).is_nan());
    }
}
