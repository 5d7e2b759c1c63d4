//! Words of a mask: Philox4x32-10, of which eight counters make the 32 numbers of a word.

use std::hint::black_box;

use crate::backend::cpu::Isa;

/// What the numbers of one mask depend on.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub seed: u64,
    pub call: u64,
    /// A bit is set if its number is at least that.
    pub threshold: u64,
}

/// Draws consecutive words of a mask, the first of this number.
///
/// # Safety
/// `count` words are writable. The processor has the instructions that the function was chosen for.
pub(super) type DrawWords = unsafe fn(words: *mut u32, first: u64, count: usize, numbers: Numbers);

/// The fastest function for a machine.
pub(super) fn words_for(isa: Isa) -> DrawWords {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return avx512::draw_words;
    } else if isa.has_avx2() {
        return avx2::draw_words;
    }
    let _ = isa;
    portable
}

/// Factors of a round.
const FACTORS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What is added to the keys after a round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Counters at a time: those of one word.
const COUNTERS: usize = 8;

/// # Safety
/// As for [`DrawWords`].
unsafe fn portable(words: *mut u32, first: u64, count: usize, numbers: Numbers) {
    // Were they known, the compiler would compute some of the counters one by one.
    let lanes = black_box(std::array::from_fn(|j| j as u64));
    let keys = keys(numbers.seed);
    for i in 0..count {
        // SAFETY: i < count.
        unsafe { words.add(i).write(draw_word(first + i as u64, &lanes, &keys, numbers)) };
    }
}

/// One word of a mask. Its eight counters differ in their lowest bits only.
#[inline(always)]
fn draw_word(
    word: u64, lanes: &[u64; COUNTERS], keys: &[[u32; 2]; ROUNDS], Numbers { call, threshold, .. }: Numbers,
) -> u32 {
    let Ok(threshold) = u32::try_from(threshold) else { return 0 };
    let block = word.wrapping_mul(COUNTERS as u64);
    // Words of 32 bits in the low halves of 64, whatever the high ones hold: so a product is one
    // instruction, and its halves need not be moved to lanes of their own.
    let mut a: [u64; COUNTERS] = lanes.map(|lane| block | lane);
    let mut b = [block >> 32; COUNTERS];
    let mut c = [call; COUNTERS];
    let mut d = [call >> 32; COUNTERS];
    let low = |word: u64| word & u64::from(u32::MAX);
    let factors = FACTORS.map(u64::from);
    for [k, l] in keys.map(|round| round.map(u64::from)) {
        for j in 0..COUNTERS {
            let (p, q) = (factors[0] * low(a[j]), factors[1] * low(c[j]));
            (a[j], b[j], c[j], d[j]) = (q >> 32 ^ b[j] ^ k, q, p >> 32 ^ d[j] ^ l, p);
        }
    }
    let mut bits = 0;
    for (which, numbers) in [a, b, c, d].iter().enumerate() {
        for (j, &number) in numbers.iter().enumerate() {
            bits |= u32::from(number as u32 >= threshold) << (COUNTERS * which + j);
        }
    }
    bits
}

/// The keys of all rounds.
fn keys(seed: u64) -> [[u32; 2]; ROUNDS] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    [(); ROUNDS].map(|()| {
        let round = key;
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        round
    })
}

/// The same in vectors by hand: compilers gather the numbers that are compared one by one, and
/// shuffle the keys in every round, which takes three times as long.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_max_epu32,
        _mm256_movemask_ps, _mm256_mul_epu32, _mm256_or_si256, _mm256_set1_epi32, _mm256_set1_epi64x,
        _mm256_setr_epi64x, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_xor_si256,
    };

    use super::{COUNTERS, FACTORS, Numbers};

    /// # Safety
    /// As for [`DrawWords`](super::DrawWords).
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn draw_words(words: *mut u32, first: u64, count: usize, numbers: Numbers) {
        let Numbers { seed, call, threshold } = numbers;
        let Ok(threshold) = u32::try_from(threshold) else {
            // SAFETY: the mask has `count` words.
            return unsafe { words.write_bytes(0, count) };
        };
        let all = |number: u64| _mm256_set1_epi64x(number as i64);
        let keys = super::keys(seed).map(|round| round.map(|key| all(key.into())));
        let factors = FACTORS.map(|factor| all(factor.into()));
        let threshold = _mm256_set1_epi32(threshold as i32);
        // Even counters and odd ones: pushed together, the low halves of both are in order.
        let lanes = [_mm256_setr_epi64x(0, 2, 4, 6), _mm256_setr_epi64x(1, 3, 5, 7)];
        let bits = |[even, odd]: [__m256i; 2]| {
            let numbers = _mm256_blend_epi32::<0b1010_1010>(even, _mm256_slli_epi64::<32>(odd));
            let kept = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, threshold), numbers);
            _mm256_movemask_ps(_mm256_castsi256_ps(kept)) as u32
        };
        for i in 0..count {
            let block = (first + i as u64).wrapping_mul(COUNTERS as u64);
            let mut a = lanes.map(|lane| _mm256_or_si256(all(block), lane));
            let mut b = [all(block >> 32); 2];
            let mut c = [all(call); 2];
            let mut d = [all(call >> 32); 2];
            for &[k, l] in &keys {
                for j in 0..2 {
                    let p = _mm256_mul_epu32(factors[0], a[j]);
                    let q = _mm256_mul_epu32(factors[1], c[j]);
                    a[j] = _mm256_xor_si256(_mm256_srli_epi64::<32>(q), _mm256_xor_si256(b[j], k));
                    c[j] = _mm256_xor_si256(_mm256_srli_epi64::<32>(p), _mm256_xor_si256(d[j], l));
                    (b[j], d[j]) = (q, p);
                }
            }
            let word = bits(a) | bits(b) << 8 | bits(c) << 16 | bits(d) << 24;
            // SAFETY: i < count.
            unsafe { words.add(i).write(word) };
        }
    }
}

/// All counters of a word in a vector, and several words interleaved: a round waits for the
/// products of the one before it.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_cmpge_epu64_mask, _mm512_mul_epu32, _mm512_or_si512, _mm512_set1_epi64,
        _mm512_setr_epi64, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_ternarylogic_epi64,
    };

    use super::{COUNTERS, FACTORS, Numbers};

    /// Words that are interleaved.
    const WORDS: usize = 4;
    /// The truth table of `a ^ b ^ c`.
    const XOR: i32 = 0b1001_0110;

    /// # Safety
    /// As for [`DrawWords`](super::DrawWords).
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn draw_words(words: *mut u32, first: u64, count: usize, numbers: Numbers) {
        let Numbers { seed, call, threshold } = numbers;
        if u32::try_from(threshold).is_err() {
            // SAFETY: the mask has `count` words.
            return unsafe { words.write_bytes(0, count) };
        }
        let all = |number: u64| _mm512_set1_epi64(number as i64);
        let keys = super::keys(seed).map(|round| round.map(|key| all(key.into())));
        let factors = FACTORS.map(|factor| all(factor.into()));
        let threshold = all(threshold << 32);
        let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
        // The high halves hold anything.
        let bits = |numbers: __m512i| {
            u32::from(_mm512_cmpge_epu64_mask(_mm512_slli_epi64::<32>(numbers), threshold))
        };
        for i in (0..count).step_by(WORDS) {
            let blocks: [u64; WORDS] =
                std::array::from_fn(|j| (first + (i + j) as u64).wrapping_mul(COUNTERS as u64));
            let mut a = blocks.map(|block| _mm512_or_si512(all(block), lanes));
            let mut b = blocks.map(|block| all(block >> 32));
            let mut c = [all(call); WORDS];
            let mut d = [all(call >> 32); WORDS];
            for &[k, l] in &keys {
                for j in 0..WORDS {
                    let p = _mm512_mul_epu32(factors[0], a[j]);
                    let q = _mm512_mul_epu32(factors[1], c[j]);
                    a[j] = _mm512_ternarylogic_epi64::<XOR>(_mm512_srli_epi64::<32>(q), b[j], k);
                    c[j] = _mm512_ternarylogic_epi64::<XOR>(_mm512_srli_epi64::<32>(p), d[j], l);
                    (b[j], d[j]) = (q, p);
                }
            }
            for j in 0..WORDS.min(count - i) {
                let word = bits(a[j]) | bits(b[j]) << 8 | bits(c[j]) << 16 | bits(d[j]) << 24;
                // SAFETY: i + j < count.
                unsafe { words.add(i + j).write(word) };
            }
        }
    }
}
