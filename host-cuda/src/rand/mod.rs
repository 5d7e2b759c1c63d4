//! cuRAND on host memory: one generator, Philox4x32-10, under every pseudo-random type.
//!
//! A seed's sequence is one of 32-bit words (`philox`); a generator has a position in it, where an
//! offset puts it.
//!
//! | call | words | result |
//! |---|---|---|
//! | `curandGenerate` | 1 | the word |
//! | `curandGenerateLongLong` | 2 | the first one lower |
//! | `curandGenerateUniform` | 1 | `(word / 2^8 + 1) / 2^24`, whole division: in (0, 1] |
//! | `curandGenerateUniformDouble` | 2 | `(both / 2^11 + 1) / 2^53`: in (0, 1] |
//! | `curandGenerateNormal` | 2 for 2 | Box and Muller of `u = (word + 1) / 2^32`: `sqrt(-2 ln u1)` times cosine, sine of `2 pi u2` |
//! | `curandGenerateNormalDouble` | 4 for 2 | the same of `u = (both / 2^11 + 1) / 2^53` |
//! | `curandGeneratePoisson` | 1 | `poisson`, by counters of its own |
//!
//! Log-normal numbers are `exp` of normal ones. Numbers depend on seed, offset and how many were
//! drawn before; not on threads, nor on how they are divided among calls. They are not those of the
//! original.

mod calls;
mod philox;
mod poisson;
mod refused;
