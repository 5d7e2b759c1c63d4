//! The original cuDNN beside this library: found, loaded, and asked for what it does faster.
//!
//! ```text
//!  find.rs   where it may lie
//!  load.rs   opening it, bound to itself; trial.rs in a child first
//!  route.rs  which calls it serves, and why
//!  table.rs  the families of calls, and who serves each by default; cases.rs exceptions
//!  facts.rs  what the descriptors of a call have in common
//!  call.rs   calling its functions by name; read.rs what they leave
//!  graph.rs  its graph interface; objects.rs its objects of plain data
//!  fused.rs  its fused operations
//!  legacy.rs legacy calls as plans of that; operations.rs what these are made of
//!  twin.rs   its descriptors and handles, each owned by one of ours
//!  twins.rs  what they are set to: our plain data; sequences.rs those of sequences
//! ```
//! Without `CUDNN_SHIM_ORIGINAL` nothing of this runs.

mod call;
mod cases;
mod facts;
mod find;
mod fused;
mod graph;
mod legacy;
mod legacy_plan;
mod load;
mod objects;
mod operations;
mod read;
mod route;
mod sequences;
mod table;
mod trial;
mod twin;
mod twins;
mod type_code;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Once;

pub use call::{Failed, status_of};
pub use cases::{CASES, Case};
pub use facts::Facts;
pub use find::{Asked, VARIABLE};
pub use fused::FusedOps;
pub use graph::Graph;
pub use legacy::{ALIGNMENT, Device, Factors, Legacy, Pass};
pub use legacy_plan::LegacyPlan;
pub use load::Library;
pub use read::{read_tensor, set_dropout, set_stream};
pub use route::Route;
pub use table::{FAMILIES, Family, GRAPHS, Group, SUCCESSORS, Server, family_of};
pub use twin::{Maker, Owner, Twin, Twinned};

/// Which handles have the original beside them: those on a GPU, or with `all` those on the host
/// too, for an original that computes there.
const HANDLES: &str = "CUDNN_SHIM_ORIGINAL_HANDLES";

/// Whether an original was loaded: one relaxed load in every call that it could serve.
static ON: AtomicBool = AtomicBool::new(false);

/// The original that this process has loaded, and what it serves.
#[derive(Debug)]
pub struct Original {
    /// Where it is.
    pub library: Library,
    /// Which calls it serves.
    pub route: Route,
    /// Whether handles of the host have it beside them.
    pub on_host: bool,
}

impl Original {
    /// Whether it serves a call, or the one that a size is for, as a graph: where the environment
    /// says so, and where it has no such call any more.
    pub fn is_graph(&self, call: &str) -> bool {
        let served = GRAPHS.iter().find(|(_, calls)| calls.contains(&call));
        served.is_some_and(|(run, _)| self.route.is_via_graph() || self.library.symbol(run).is_none())
    }
}

/// What came of looking for the original: `None` if the environment does not ask for one.
pub type Outcome = Option<Result<Original, String>>;

/// Whether an original was loaded.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The original, loaded by the first who asks. `major` is the interface that it has to have.
pub fn load(major: i32) -> &'static Outcome {
    static ORIGINAL: Once<Outcome> = Once::new();
    ORIGINAL.get_or_init(|| {
        let outcome = open(major);
        if matches!(outcome, Some(Ok(_))) {
            ON.store(true, Ordering::Relaxed);
        }
        outcome
    })
}

fn open(major: i32) -> Outcome {
    let asked = Asked::read();
    if asked == Asked::Off {
        return None;
    }
    let mut reason = format!("no libcudnn.so.{major} was found");
    for file in asked.files(major) {
        match Library::open(&file, major) {
            Ok(library) => {
                let on_host = std::env::var_os(HANDLES).is_some_and(|value| value == "all");
                return Some(Ok(Original { library, route: Route::read(), on_host }));
            }
            Err(text) => reason = text,
        }
    }
    Some(Err(reason))
}
