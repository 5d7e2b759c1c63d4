//! Who serves a call beside the original: the library's own table.

#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/original/cases.rs"]
mod cases;
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/original/table.rs"]
mod table;

/// The default server of a call, as the environment names it, and of its case, if it has one.
pub fn default_of(call: &str) -> String {
    if let Some((_, successor)) = table::SUCCESSORS.iter().find(|(gone, _)| *gone == call) {
        return format!("{}, by {successor}", default_of(successor));
    }
    let server = table::family_of(call).map_or(table::Server::Ours, |(_, family)| family.server).name();
    match cases::case_of(call) {
        Some(case) => format!("{server}; {} for {}", case.server.name(), case.when),
        None => server.to_owned(),
    }
}
