//! Which vector instructions a kernel may use. Holding an [`Isa`] proves that this processor has
//! them.

use crate::sync::Once;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Portable,
    Neon,
    NeonDot,
    Avx2,
    Avx2Vnni,
    Avx512,
    Avx512Vnni,
}

/// What multiplies tiles of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tiles {
    /// Nothing does.
    None,
    /// A model in portable code, with the bits of the instructions: for tests on any processor.
    Model,
    /// The matrix instructions of Armv8.6, of bytes and of bf16.
    Matrix,
    /// AMX.
    Processor,
}

/// An instruction set level that this processor has; levels are ordered.
///
/// There is no way to make one that the processor lacks, so that kernels may rely on it without
/// asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa {
    level: Level,
    tiles: Tiles,
}

impl Isa {
    /// What the compiler may assume everywhere.
    pub const PORTABLE: Isa = Isa::of(Level::Portable);

    const fn of(level: Level) -> Isa {
        Isa { level, tiles: Tiles::None }
    }

    /// The highest level of this processor, capped by `CUDNN_SHIM_ISA` (a [name](Isa::name)), which
    /// is read once. The model of the tiles only if that names it.
    pub fn best() -> Isa {
        static BEST: Once<Isa> = Once::new();
        *BEST.get_or_init(|| {
            let cap = std::env::var("CUDNN_SHIM_ISA").ok();
            let cap = cap.and_then(|name| Isa::named(&name));
            if let Some(model) = cap.filter(|cap| cap.tiles == Tiles::Model) {
                return Isa { level: highest(), ..model };
            }
            // Tiles are not asked for where the cap is below them.
            let below = LEVELS.into_iter().rev().filter(|isa| cap.is_none_or(|cap| *isa <= cap));
            below.filter(|isa| isa.tiles != Tiles::Model).find(|isa| isa.is_there()).unwrap_or(Isa::PORTABLE)
        })
    }

    /// The level that is called so, whether the processor has it or not.
    fn named(name: &str) -> Option<Isa> {
        LEVELS.into_iter().find(|isa| isa.name() == name.trim())
    }

    /// What a value of `CUDNN_SHIM_ISA` does not say, if it says none of what is expected.
    pub(super) fn complaint(value: &str) -> Option<String> {
        Isa::named(value).is_none().then(|| {
            let names = LEVELS.map(Isa::name).join(", ");
            format!("no such level of instructions, the choices are {names}")
        })
    }

    /// Every level of this processor, lowest first, whatever the environment says; the model of the
    /// tiles is one of them.
    pub fn all() -> impl Iterator<Item = Isa> {
        let there = LEVELS.into_iter().filter(|isa| isa.is_there());
        there.map(|isa| if isa.tiles == Tiles::Model { Isa { level: highest(), ..isa } } else { isa })
    }

    /// [`all`](Isa::all) but those that multiply bytes or tiles in another way than the level
    /// below, and differ in nothing else.
    pub fn available() -> impl Iterator<Item = Isa> {
        let own = |isa: &Isa| !isa.has_dots();
        Isa::all().filter(move |isa| isa.tiles == Tiles::None && own(isa))
    }

    /// The name that `CUDNN_SHIM_ISA` takes.
    pub fn name(self) -> &'static str {
        match (self.tiles, self.level) {
            (Tiles::Processor, _) => "amx",
            (Tiles::Matrix, _) => "neonmm",
            (Tiles::Model, _) => "amxmodel",
            (_, Level::Portable) => "portable",
            (_, Level::Neon) => "neon",
            (_, Level::NeonDot) => "neondot",
            (_, Level::Avx2) => "avx2",
            (_, Level::Avx2Vnni) => "avx2vnni",
            (_, Level::Avx512) => "avx512",
            (_, Level::Avx512Vnni) => "avx512vnni",
        }
    }

    /// Whether this process may use it.
    fn is_there(self) -> bool {
        match self.tiles {
            Tiles::None => has(self.level),
            Tiles::Model => true,
            Tiles::Matrix => has(self.level) && has_matrices(),
            Tiles::Processor => has(self.level) && may_use_tiles(),
        }
    }

    /// What multiplies tiles of bf16 and of bytes.
    pub(super) fn tiles(self) -> Tiles {
        self.tiles
    }

    /// NEON may be used, which `#[vectorized]` compiles for without being asked.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn has_neon(self) -> bool {
        matches!(self.level, Level::Neon | Level::NeonDot)
    }

    /// Vectors with fused multiply-add may be used: of AVX2, or of NEON.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(super) fn has_vectors(self) -> bool {
        self.level > Level::Portable
    }

    /// AVX2, fused multiply-add and F16C may be used, which are one level: `#[vectorized]` compiles
    /// for all three.
    pub(super) fn has_avx2(self) -> bool {
        self.level >= Level::Avx2
    }

    /// AVX-512 F, BW, DQ and VL may be used.
    pub(super) fn has_avx512(self) -> bool {
        self.level >= Level::Avx512
    }

    /// The same, but nothing beyond AVX2.
    pub(super) fn at_most_avx2(self) -> Isa {
        Isa::of(self.level.min(Level::Avx2))
    }

    /// Products of bytes may be added four at a time: by AVX-512 VNNI where AVX-512 may be used,
    /// else by AVX-VNNI; on aarch64 by the dot products of Armv8.2.
    pub(super) fn has_dots(self) -> bool {
        matches!(self.level, Level::NeonDot | Level::Avx2Vnni | Level::Avx512Vnni)
    }

    /// AVX-512 BF16 may be used as well, which not every processor of that level has.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn has_avx512_bf16(self) -> bool {
        self.has_avx512() && is_x86_feature_detected!("avx512bf16")
    }

    /// AVX-512 VBMI may be used as well, which not every processor of that level has.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn has_avx512_vbmi(self) -> bool {
        self.has_avx512() && is_x86_feature_detected!("avx512vbmi")
    }
}

/// All of them, lowest first.
const LEVELS: [Isa; 10] = [
    Isa::of(Level::Portable),
    Isa::of(Level::Neon),
    Isa::of(Level::NeonDot),
    Isa { level: Level::NeonDot, tiles: Tiles::Matrix },
    Isa::of(Level::Avx2),
    Isa::of(Level::Avx2Vnni),
    Isa::of(Level::Avx512),
    Isa::of(Level::Avx512Vnni),
    Isa { level: Level::Avx512Vnni, tiles: Tiles::Model },
    Isa { level: Level::Avx512Vnni, tiles: Tiles::Processor },
];

/// The highest level of vectors that this processor has.
fn highest() -> Level {
    LEVELS.into_iter().map(|isa| isa.level).filter(|&level| has(level)).max().unwrap_or(Level::Portable)
}

/// Whether the processor multiplies tiles of bf16 and of bytes, and the system lets this process
/// use them: it is asked once. It says no where a thread has an alternate signal stack that is too
/// small for the state of the tiles.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn may_use_tiles() -> bool {
    /// What asks, and the number of the state of tiles.
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILEDATA: libc::c_long = 18;
    /// Bits of EDX: tiles of bf16, tiles, tiles of bytes.
    const AMX: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    static MAY: Once<bool> = Once::new();
    *MAY.get_or_init(|| {
        use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
        #[allow(unused_unsafe, reason = "these are safe functions from some release of the compiler on")]
        // SAFETY: every processor with 64 bits has the instruction.
        let has_them = unsafe { __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).edx & AMX == AMX };
        // SAFETY: the call takes numbers, and gives this process the use of more registers.
        has_them && unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) } == 0
    })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn may_use_tiles() -> bool {
    false
}

/// Whether the processor multiplies matrices of bytes and of bf16.
#[cfg(target_arch = "aarch64")]
fn has_matrices() -> bool {
    std::arch::is_aarch64_feature_detected!("i8mm") && std::arch::is_aarch64_feature_detected!("bf16")
}

#[cfg(not(target_arch = "aarch64"))]
fn has_matrices() -> bool {
    false
}

/// Whether this processor has what a level stands for.
#[cfg(target_arch = "x86_64")]
fn has(level: Level) -> bool {
    // Processors with AVX2 have the two others, but for a few.
    let avx2 = || {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
    };
    let avx512 = || {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
    };
    match level {
        Level::Portable => true,
        Level::Neon | Level::NeonDot => false,
        Level::Avx2 => avx2(),
        Level::Avx2Vnni => avx2() && is_x86_feature_detected!("avxvnni"),
        Level::Avx512 => avx2() && avx512(),
        Level::Avx512Vnni => avx2() && avx512() && is_x86_feature_detected!("avx512vnni"),
    }
}

/// NEON belongs to the architecture; an interpreter lacks some of it.
#[cfg(all(target_arch = "aarch64", not(miri)))]
fn has(level: Level) -> bool {
    match level {
        Level::Portable | Level::Neon => true,
        Level::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
        _ => false,
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
fn has(level: Level) -> bool {
    level == Level::Portable
}
