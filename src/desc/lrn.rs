//! The descriptor of local response and divisive normalisation.

use crate::error::{Error, Result};

/// What a `cudnnLRNDescriptor_t` holds: `y = x / (k + alpha / n * sum x^2)^beta` over n neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrnDescriptor {
    n: u32,
    alpha: f64,
    beta: f64,
    k: f64,
}

impl Default for LrnDescriptor {
    fn default() -> Self {
        LrnDescriptor { n: 5, alpha: 1e-4, beta: 0.75, k: 2.0 }
    }
}

impl LrnDescriptor {
    /// Bounds as observed on 9.27.0: NaN passes.
    ///
    /// # Errors
    /// Bad parameter: n outside 1 to 16, beta below 0.01, k below 1e-5.
    pub fn new(n: u32, alpha: f64, beta: f64, k: f64) -> Result<Self> {
        if !(1..=16).contains(&n) {
            return Err(Error::argument("lrnN", n.into(), "the window has 1 to 16 neighbours"));
        }
        if beta < 0.01 {
            return Err(Error::mismatch(format!("lrnBeta = {beta}: at least 0.01")));
        }
        if k < 1e-5 {
            return Err(Error::mismatch(format!("lrnK = {k}: at least 1e-5")));
        }
        Ok(LrnDescriptor { n, alpha, beta, k })
    }

    /// Neighbours in the window.
    pub fn n(&self) -> u32 {
        self.n
    }

    /// Factor of the sum of squares.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Exponent.
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Constant below the fraction line.
    pub fn k(&self) -> f64 {
        self.k
    }
}
