//! Poisson numbers: each from a sequence of its own, so that they can be drawn in any order.

use super::philox::{self, block};

/// Uniform numbers of one element.
struct Uniform {
    key: [u32; 2],
    counter: [u32; 4],
    words: [u32; 4],
    used: usize,
}

impl Uniform {
    fn new(seed: u64, position: u64) -> Self {
        let counter = [position as u32, (position >> 32) as u32, 0, 1];
        Uniform { key: philox::key(seed), counter, words: [0; 4], used: 4 }
    }

    /// In (0, 1), of 53 bits.
    fn next(&mut self) -> f64 {
        if self.used == 4 {
            self.words = block(self.counter, self.key);
            self.counter[2] = self.counter[2].wrapping_add(1);
            self.used = 0;
        }
        let [low, high] = [self.words[self.used], self.words[self.used + 1]].map(u64::from);
        self.used += 2;
        (((high << 32 | low) >> 12) as f64 + 0.5) * 2.0_f64.powi(-52)
    }
}

/// Means from which numbers are drawn by rejection.
const LARGE: f64 = 10.0;

/// The number at a position of a seed's sequence.
pub fn draw(seed: u64, position: u64, mean: f64) -> u32 {
    let mut uniform = Uniform::new(seed, position);
    if mean < LARGE { by_inversion(uniform.next(), mean) } else { by_rejection(&mut uniform, mean) }
}

/// The least k whose cumulated probability is at least u.
fn by_inversion(u: f64, mean: f64) -> u32 {
    let mut probability = (-mean).exp();
    let (mut sum, mut k) = (probability, 0);
    // Beyond this nothing is added to the sum any more.
    while sum < u && k < 200 {
        k += 1;
        probability *= mean / f64::from(k);
        sum += probability;
    }
    k
}

/// Transformed rejection with squeeze (Hörmann: The transformed rejection method for generating
/// Poisson random variables; 1993).
fn by_rejection(uniform: &mut Uniform, mean: f64) -> u32 {
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.024_83 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let within = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (uniform.next() - 0.5, uniform.next());
        let distance = 0.5 - u.abs();
        let k = ((2.0 * a / distance + b) * u + mean + 0.43).floor();
        if distance >= 0.07 && v <= within {
            return k as u32;
        }
        if k < 0.0 || (distance < 0.013 && v > distance) {
            continue;
        }
        let height = v.ln() + inverse_alpha.ln() - (a / (distance * distance) + b).ln();
        if height <= k * mean.ln() - mean - ln_factorial(k) {
            return k as u32;
        }
    }
}

/// The logarithm of k!, by Stirling's series from 10 on.
fn ln_factorial(k: f64) -> f64 {
    if k < 10.0 {
        return (2..=k as u32).map(f64::from).product::<f64>().ln();
    }
    let half_ln_two_pi = 0.918_938_533_204_672_7;
    (k + 0.5) * k.ln() - k
        + half_ln_two_pi
        + (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * k * k)) / (k * k)) / k
}

#[cfg(test)]
mod tests {
    use super::{draw, ln_factorial};

    #[test]
    fn factorials_are_those_of_their_definition() {
        let mut exact = 0.0_f64;
        for k in 1..200 {
            exact += f64::from(k).ln();
            let error = (ln_factorial(f64::from(k)) - exact).abs();
            assert!(error <= 1e-9 * exact.max(1.0), "{k}: {error}");
        }
    }

    /// Every count of the small numbers within five deviations of what the distribution says.
    #[test]
    fn frequencies_are_those_of_the_distribution() {
        const DRAWS: u64 = 200_000;
        for mean in [0.25, 3.0, 9.5, 10.0, 30.0, 700.0] {
            let drawn: Vec<f64> = (0..DRAWS).map(|i| f64::from(draw(7, i, mean))).collect();
            let count = DRAWS as f64;
            let average = drawn.iter().sum::<f64>() / count;
            assert!((average - mean).abs() < 5.0 * (mean / count).sqrt(), "{mean}: average {average}");
            let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            let of_variance = ((2.0 * mean * mean + mean) / count).sqrt();
            assert!((variance - mean).abs() < 5.0 * of_variance, "{mean}: variance {variance}");
            let around = mean as u64;
            for k in around.saturating_sub(3)..around + 4 {
                let k = k as f64;
                let probability = (k * mean.ln() - mean - ln_factorial(k)).exp();
                let seen = drawn.iter().filter(|&&x| x == k).count() as f64;
                let deviation = (count * probability * (1.0 - probability)).sqrt().max(1.0);
                assert!(
                    (seen - count * probability).abs() < 5.0 * deviation,
                    "{mean}: {k} seen {seen} times"
                );
            }
        }
    }
}
