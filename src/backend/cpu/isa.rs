//! Which vector instructions a kernel may use. Holding an [`Isa`] proves that this processor has them.

use crate::sync::Once;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Portable,
    Avx2,
    Avx2Vnni,
    Avx512,
    Avx512Vnni,
}

/// An instruction set level that this processor has; levels are ordered.
///
/// There is no way to make one that the processor lacks, so that kernels may rely on it without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(Level);

impl Isa {
    /// What the compiler may assume everywhere.
    pub const PORTABLE: Isa = Isa(Level::Portable);

    /// The highest level of this processor, capped by `CUDNN_SHIM_ISA` (a [name](Isa::name)), which is read once.
    pub fn best() -> Isa {
        static BEST: Once<Isa> = Once::new();
        *BEST.get_or_init(|| {
            let cap = std::env::var("CUDNN_SHIM_ISA").ok();
            let cap = cap.and_then(|name| Isa::level(&name)).unwrap_or(Level::Avx512Vnni);
            Isa::all().filter(|isa| isa.0 <= cap).max().unwrap_or(Isa::PORTABLE)
        })
    }

    /// The level that is called so.
    fn level(name: &str) -> Option<Level> {
        LEVELS.into_iter().find(|&level| Isa(level).name() == name.trim())
    }

    /// What a value of `CUDNN_SHIM_ISA` does not say, if it says none of what is expected.
    pub(super) fn complaint(value: &str) -> Option<String> {
        Isa::level(value).is_none().then(|| {
            let names = LEVELS.map(|level| Isa(level).name()).join(", ");
            format!("no such level of instructions, the choices are {names}")
        })
    }

    /// Every level of this processor, lowest first, whatever the environment says.
    pub fn all() -> impl Iterator<Item = Isa> {
        LEVELS.into_iter().filter(|&level| has(level)).map(Isa)
    }

    /// [`all`](Isa::all) but those that multiply bytes in another way than the level below, and differ in nothing else.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::all().filter(|isa| !matches!(isa.0, Level::Avx2Vnni | Level::Avx512Vnni))
    }

    /// The name that `CUDNN_SHIM_ISA` takes.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx2Vnni => "avx2vnni",
            Level::Avx512 => "avx512",
            Level::Avx512Vnni => "avx512vnni",
        }
    }

    /// AVX2, fused multiply-add and F16C may be used, which are one level: `#[vectorized]` compiles for all three.
    pub(super) fn has_avx2(self) -> bool {
        self.0 >= Level::Avx2
    }

    /// AVX-512 F, BW, DQ and VL may be used.
    pub(super) fn has_avx512(self) -> bool {
        self.0 >= Level::Avx512
    }

    /// The same, but nothing beyond AVX2.
    pub(super) fn at_most_avx2(self) -> Isa {
        Isa(self.0.min(Level::Avx2))
    }

    /// Products of bytes may be added four at a time: by AVX-512 VNNI where AVX-512 may be used, else by AVX-VNNI.
    pub(super) fn has_vnni(self) -> bool {
        matches!(self.0, Level::Avx2Vnni | Level::Avx512Vnni)
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

const LEVELS: [Level; 5] = [Level::Portable, Level::Avx2, Level::Avx2Vnni, Level::Avx512, Level::Avx512Vnni];

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
        Level::Avx2 => avx2(),
        Level::Avx2Vnni => avx2() && is_x86_feature_detected!("avxvnni"),
        Level::Avx512 => avx2() && avx512(),
        Level::Avx512Vnni => avx2() && avx512() && is_x86_feature_detected!("avx512vnni"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has(level: Level) -> bool {
    level == Level::Portable
}
