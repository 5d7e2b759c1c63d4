//! Who serves a call beside the original: the library's own table.

#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/original/route.rs"]
mod route;
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/original/table.rs"]
mod table;

/// The default server of a call, as the environment names it.
pub fn default_of(call: &str) -> &'static str {
    table::family_of(call).map_or(route::Server::Ours, |(_, family)| family.server).name()
}
