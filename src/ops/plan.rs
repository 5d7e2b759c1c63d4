//! The one road from a call to the cores: a [`Plan`] names its operands and yields [`Step`]s, which
//! a core runs one after the other.
//!
//! A new operation is a plan of steps that exist; a new kind of step is a row here, and a trait of
//! each core for its problem: the reference loop, the CPU kernel and the CUDA kernel.

use std::fmt;

use super::contract::{Contract, Phases};
use super::{
    Aggregate, Attend, AttendBackward, ByteSpan, Causal, Ctc, Map, Normalise, NormaliseBackward, Padded,
    Ragged, Random, Reduce, RowNorm, RowNormBackward, Rows, Sample, Scale, Set, Transform, TransformPlan,
    Window, Words,
};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::Layout;

/// What a call does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Only reads it.
    Read,
    /// Only writes it.
    Write,
    /// Reads and writes it.
    Update,
    /// Writes it before reading it, and leaves anything there: a workspace.
    Scratch,
}

impl Role {
    /// The role of a destination that is blended with its old value by this factor.
    pub fn blended(beta: f64) -> Role {
        if beta == 0.0 { Role::Write } else { Role::Update }
    }

    /// Whether the caller sees what the call writes there.
    pub const fn is_written(self) -> bool {
        matches!(self, Role::Write | Role::Update)
    }
}

/// The most data pointers that a call has.
pub const MAX_OPERANDS: usize = 24;

/// The place of an operand of a step that the call does not have, or that it does not touch: cores
/// take it for NULL.
pub const ABSENT: usize = MAX_OPERANDS;

/// One data pointer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name of the C parameter.
    pub name: &'static str,
    /// How the call accesses it.
    pub role: Role,
    /// Scalar type of its elements.
    pub scalar: Scalar,
    /// The bytes around the pointer that the call may touch; empty if it touches none.
    pub span: ByteSpan,
}

impl Operand {
    /// An operand that is there in the C call, and is not touched.
    pub const fn untouched(name: &'static str, scalar: Scalar) -> Operand {
        Operand { name, role: Role::Read, scalar, span: (0, 0) }
    }

    /// Whether the call touches it.
    pub const fn is_touched(&self) -> bool {
        self.span.0 < self.span.1
    }
}

/// Receives the steps of a plan, in the order in which a core must run them. The second argument
/// tells for each operand of the step, destination first, which operand of the plan it is, or
/// [`ABSENT`].
pub type StepSink<'a> = &'a mut dyn FnMut(Step<'_>, &[usize]) -> Result<()>;

/// Reads a number of an operand, a number of bytes from its address on, in the type of its
/// elements.
pub type Reader<'a> = dyn Fn(usize, i64) -> f64 + 'a;

/// The number of an operand, this many bytes from its address on, if it is known before the plan
/// runs.
pub type Known<'a> = dyn Fn(usize, i64) -> Option<f64> + 'a;

/// Receives a step, and for each operand of it which operand of the plan it is in, and how many
/// bytes from its address on.
pub type PlacedSink<'a> = &'a mut dyn FnMut(Step<'_>, &[(usize, i64)]) -> Result<()>;

/// Steps that are computed task by task: a task waits for none, and shares nothing that is written
/// with others but its scratch, of which each thread that runs some has its own.
pub trait Tasks: Sync {
    /// How many tasks there are.
    fn count(&self) -> usize;

    /// Which operand of the plan is scratch, if tasks have some each.
    fn scratch(&self) -> Option<usize>;

    /// Hands every step of a task to `sink`; numbers that are read say which are needed.
    ///
    /// # Errors
    /// The first of `sink`, which ends the task.
    fn steps_of(&self, task: usize, read: &Reader<'_>, sink: PlacedSink<'_>) -> Result<()>;
}

/// A call, checked and ready to run on any core. Displayed, it is the list of its steps, as the log
/// shows it.
pub trait Plan: fmt::Display {
    /// Every data pointer, destinations first.
    fn operands(&self) -> &[Operand];

    /// Hands every step to `sink`.
    ///
    /// # Errors
    /// The first of `sink`, which ends the plan.
    fn steps(&self, sink: StepSink<'_>) -> Result<()>;

    /// The steps that are needed where some numbers are known before: others are as they would be.
    ///
    /// # Errors
    /// The first of `sink`, which ends the plan.
    fn steps_knowing(&self, known: &Known<'_>, sink: StepSink<'_>) -> Result<()> {
        let _ = known;
        self.steps(sink)
    }

    /// Whether each element of operand `write` depends on that element alone of operand `read`
    /// which lies where it lies itself, so that both may be the same memory.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        let _ = (read, write);
        false
    }

    /// Where the elements of an operand lie, if that is known: operands whose spans meet may still
    /// share no element.
    fn layout(&self, operand: usize) -> Option<&Layout> {
        let _ = operand;
        None
    }

    /// The operand that holds filters, which a program may say that it leaves as they are.
    fn filters(&self) -> Option<usize> {
        None
    }

    /// Whether it is a single step, which takes its scratch before it writes; a plan of several is
    /// asked for the scratch of all.
    fn is_one_step(&self) -> bool {
        false
    }

    /// The same steps as tasks that do not wait for each other, if the plan is one of those. Where
    /// they have scratch of their own, [`most_extents`](Plan::most_extents) tells what their steps
    /// take beside it, so that each thread has all of it before it runs the first.
    fn tasks(&self) -> Option<&dyn Tasks> {
        None
    }

    /// The extents of M, N and K, in any order, that none of its products exceeds, where its other
    /// steps ask for no more scratch than these products: what small plans are not walked for a
    /// second time for. None where that is not known.
    fn most_extents(&self) -> Option<[i64; 3]> {
        None
    }

    /// Whether addresses of the destination repeat: then every step must keep the order of its
    /// loops.
    fn is_ordered(&self) -> bool {
        false
    }
}

/// Defines the kinds of steps from a table of their names and problems; the first borrows a plan,
/// whose parts are steps.
///
/// Each core implements a trait for every problem; macros made here call it for a step, or for all
/// kinds: a kind that a core lacks does not compile. `$d` is the dollar of those macros.
macro_rules! steps {
    (
        $d:tt
        $(#[$plan_doc:meta])* $plan:ident($parts:ty);
        $($(#[$doc:meta])* $kind:ident($problem:ident $(<$operands:literal>)?);)*
    ) => {
        /// Evaluates an expression with the problem of a step, whatever its kind.
        macro_rules! with_kind {
            ($d step:expr, $d problem:ident => $d body:expr) => {
                match $d step {
                    $crate::ops::Step::$plan($d problem) => $d body,
                    $($crate::ops::Step::$kind($d problem) => $d body,)*
                }
            };
        }

        /// Evaluates an expression with the type of each problem but that of several parts, in
        /// order: the name of each kind, and its value.
        macro_rules! of_kinds {
            ($d Problem:ident => $d body:expr) => {
                [$((stringify!($kind), {
                    type $d Problem = $crate::ops::$problem $(<$operands>)?;
                    $d body
                }),)*]
            };
        }

        pub(crate) use {of_kinds, with_kind};

        /// What a core runs in one go. A step refers to its problem, as half a kilobyte is not to
        /// be moved about.
        #[derive(Clone, Copy)]
        pub enum Step<'a> {
            $(#[$plan_doc])* $plan(&'a $parts),
            $($(#[$doc])* $kind(&'a $problem $(<$operands>)?),)*
        }

        /// A step that refers to nothing, for lists that outlive their plan.
        #[derive(Clone)]
        #[allow(clippy::large_enum_variant, reason = "the kinds that are used most are the large ones")]
        pub enum OwnedStep {
            $($(#[$doc])* $kind($problem $(<$operands>)?),)*
        }

        impl OwnedStep {
            /// The step to run.
            pub fn step(&self) -> Step<'_> {
                match self {
                    $(OwnedStep::$kind(step) => Step::$kind(step),)*
                }
            }
        }

        impl Step<'_> {
            /// Passes on copies of what it consists of, in order: of itself, or of the parts of a
            /// plan.
            ///
            /// # Errors
            /// Not supported for a part beyond 64 bits.
            pub fn copies(self, sink: &mut dyn FnMut(OwnedStep)) -> Result<()> {
                match self {
                    Step::$plan(plan) => return plan.for_each(&mut |part| part.copies(sink)),
                    $(Step::$kind(step) => sink(OwnedStep::$kind(step.clone())),)*
                }
                Ok(())
            }
        }

        /// Kind, types, factors and loops in one line.
        impl fmt::Display for Step<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Step::$plan(plan) => plan.fmt(f),
                    $(Step::$kind(step) => step.fmt(f),)*
                }
            }
        }
    };
}

/// As the step.
impl fmt::Display for OwnedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.step().fmt(f)
    }
}

steps! {
    $
    /// A transform with padding, folding or blocked layouts, of several parts; operands dst, src.
    Mapped(TransformPlan<'a>);
    /// Move, convert and scale; operands dst, src.
    Transform(Transform);
    /// Move cells, and write the zeros that share their cache lines; operands dst, src.
    Padded(Padded);
    /// Scale, or write zeros; operand dst.
    Scale(Scale);
    /// Write one value; operand dst.
    Set(Set);
    /// Compute a function element by element; operands dst, a, b.
    Map(Map);
    /// The same, of up to five operands; operands dst, and those of the function.
    WideMap(Map<6>);
    /// Take statistics of groups, then compute a function of each element; operands dst, x, dy.
    Rows(Rows);
    /// Normalise rows by their own statistics; operands as [`RowNorm`] lists them.
    RowNorm(RowNorm);
    /// The gradients of that; operands as [`RowNormBackward`] lists them.
    RowNormBackward(RowNormBackward);
    /// Join elements to one; operands dst, indices, src, workspace.
    Reduce(Reduce);
    /// Sum products; operands as [`Contract`] lists them.
    Contract(Contract);
    /// The same for parts of one destination, which may be computed together; operands as those of
    /// each.
    Phases(Phases);
    /// Keep or drop elements by the bits of a mask, which may be drawn first; operands dst, src,
    /// mask, and states if it is.
    Random(Random);
    /// Give groups of elements a mean and a deviation; operands as
    /// [`ForwardPlan`](super::batch_norm::ForwardPlan) lists them.
    Normalise(Normalise);
    /// The gradients of that; operands as [`BackwardPlan`](super::batch_norm::BackwardPlan) lists
    /// them.
    NormaliseBackward(NormaliseBackward);
    /// Look at neighbours; operands as [`OPERANDS`](super::window::OPERANDS) lists them.
    Window(Window);
    /// Look between pixels; operands as [`SampleFunction`](super::sample::SampleFunction) lists
    /// them.
    Sample(Sample);
    /// Convolve along sequences, looking back only; operands as
    /// [`CausalFunction`](super::causal::CausalFunction) lists them.
    Causal(Causal);
    /// Join rows along the edges of a graph; operands as
    /// [`AggregateFunction`](super::aggregate::AggregateFunction) lists them.
    Aggregate(Aggregate);
    /// Take batches from where offsets say, or put them there; operands as
    /// [`RaggedFunction`](super::ragged::RaggedFunction) lists them.
    Ragged(Ragged);
    /// Attention of all heads; operands as [`Attend`] lists them.
    Attend(Attend);
    /// The gradients of that; operands as [`AttendBackward`] lists them.
    AttendBackward(AttendBackward);
    /// Write integers of the host; operand dst.
    Words(Words);
    /// Align labels with inputs; operands costs, gradients, workspace, probs, labels, their
    /// lengths, lengths of inputs.
    Ctc(Ctc);
}

/// Writes the steps of a plan one after the other.
pub(crate) fn list(plan: &dyn Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    super::list(f, |each| plan.steps(&mut |step, _| each(&step)))
}
