//! Who serves which calls: the defaults of the table, and what `CUDNN_SHIM_ROUTE` says instead.

use super::cases::{Case, case_of};
use super::table::{FAMILIES, Server, family_of};

/// Overrides the defaults: `conv=ours,transform=original`, a family or a call at a time, the last
/// one wins; `all` stands for every family. `via=graph` has the original serve legacy calls as
/// graphs, `via=call` as the calls that they are.
const VARIABLE: &str = "CUDNN_SHIM_ROUTE";

/// Who serves each family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    servers: Vec<Server>,
    /// Calls that go another way than their family, as the environment says.
    calls: Vec<(&'static str, Server)>,
    /// Families whose cases the environment has overruled.
    settled: Vec<bool>,
    via_graph: bool,
    /// What the environment says that makes no sense.
    complaints: Vec<String>,
}

impl Route {
    /// The defaults, as the environment overrides them.
    pub fn read() -> Route {
        Route::of(&std::env::var(VARIABLE).unwrap_or_default())
    }

    fn of(text: &str) -> Route {
        let servers = FAMILIES.iter().map(|family| family.server).collect();
        let settled = vec![false; FAMILIES.len()];
        let mut route =
            Route { servers, calls: Vec::new(), settled, via_graph: false, complaints: Vec::new() };
        for rule in text.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
            if !route.apply(rule) {
                let text = format!(
                    "{VARIABLE}: {rule:?} is ignored: a rule is FAMILY=ours or FAMILY=original, with a family of \
                     docs/beside.md, the name of a call, or all; or via=graph, via=call"
                );
                route.complaints.push(text);
            }
        }
        route
    }

    fn apply(&mut self, rule: &str) -> bool {
        let Some((what, who)) = rule.split_once('=') else { return false };
        let (what, who) = (what.trim(), who.trim());
        if what == "via" {
            self.via_graph = who == "graph";
            return ["graph", "call"].contains(&who);
        }
        let Some(server) = Server::named(who) else { return false };
        let mut known = false;
        for (place, family) in FAMILIES.iter().enumerate() {
            if what == "all" || what == family.name {
                (self.servers[place], self.settled[place], known) = (server, true, true);
                self.calls.retain(|(call, _)| family.group_of(call).is_none());
            }
            // Those that share its sizes go with it.
            if let Some(group) = family.group_of(what) {
                self.calls.extend(group.calls.iter().map(|&call| (call, server)));
                known = true;
            }
        }
        known
    }

    /// Who serves a call: `None` if the original never could.
    pub fn server(&self, call: &str) -> Option<Server> {
        let (place, _) = family_of(call)?;
        let own = self.calls.iter().rev().find(|(name, _)| *name == call);
        Some(own.map_or(self.servers[place], |&(_, server)| server))
    }

    /// Whether legacy calls that graphs express are to be served as graphs.
    pub fn is_via_graph(&self) -> bool {
        self.via_graph
    }

    /// The case in which the other one serves a call, if there is one and the environment does not
    /// say who serves the call.
    pub fn case(&self, call: &str) -> Option<&'static Case> {
        let (place, _) = family_of(call)?;
        let is_settled = self.settled[place] || self.calls.iter().any(|(name, _)| *name == call);
        case_of(call).filter(|_| !is_settled)
    }

    /// What the environment says that makes no sense, a line each.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides_families_and_calls() {
        use Server::{Original, Ours};
        let plain = Route::of("");
        assert_eq!(plain.server("cudnnConvolutionForward"), Some(Original));
        assert_eq!(plain.server("cudnnTransformTensor"), Some(Ours));
        assert_eq!(plain.server("cudnnSetStream"), None);
        let route = Route::of(" conv=ours , transform=original,cudnnPoolingBackward=ours");
        assert_eq!(route.server("cudnnConvolutionForward"), Some(Ours));
        assert_eq!(route.server("cudnnGetConvolutionForwardWorkspaceSize"), Some(Ours));
        assert_eq!(route.server("cudnnTransformTensor"), Some(Original));
        assert_eq!(route.server("cudnnPoolingForward"), Some(Original));
        assert_eq!(route.server("cudnnPoolingBackward"), Some(Ours));
        assert!(route.complaints().is_empty());
        // Calls that share sizes go together.
        let route = Route::of("cudnnGetConvolutionForwardWorkspaceSize=ours");
        assert_eq!(route.server("cudnnConvolutionForward"), Some(Ours));
        assert_eq!(route.server("cudnnConvolutionBackwardData"), Some(Original));
        // The last one wins.
        let route = Route::of("all=ours,softmax=original,softmax=ours,lrn=original");
        assert_eq!(route.server("cudnnSoftmaxForward"), Some(Ours));
        assert_eq!(route.server("cudnnLRNCrossChannelForward"), Some(Original));
        assert_eq!(route.server("cudnnRNNForward"), Some(Ours));
        let route = Route::of("cudnnPoolingForward=ours,pooling=original");
        assert_eq!(route.server("cudnnPoolingForward"), Some(Original));
    }

    #[test]
    fn what_the_environment_says_overrules_cases() {
        let call = "cudnnPoolingForward";
        assert!(Route::of("conv=ours").case(call).is_some());
        for text in ["pooling=original", "all=ours", "cudnnPoolingForward=original"] {
            assert_eq!(Route::of(text).case(call), None, "{text}");
        }
        assert_eq!(Route::of("").case("cudnnSoftmaxForward"), None);
        let via = |text| Route::of(text).is_via_graph();
        assert_eq!(["", "via=graph", "via=graph,via=call"].map(via), [false, true, false]);
    }

    #[test]
    fn what_makes_no_sense_is_complained_of_and_changes_nothing() {
        for text in ["via=wire", "conv", "conv=theirs", "convolution=ours", "=ours", "conv:ours"] {
            let route = Route::of(text);
            assert_eq!(route.complaints().len(), 1, "{text}");
            assert!(route.complaints()[0].contains(text), "{:?}", route.complaints());
            assert_eq!(route.server("cudnnConvolutionForward"), Some(Server::Original));
        }
    }
}
