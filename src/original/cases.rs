//! Cases: tensors of one kind with which a call goes another way than the rest of its family, as a
//! measured row says.

use super::table::Server;

/// Every tensor is packed in the order N, C, spatial dimensions.
pub const NCHW: u8 = 1;
/// Every tensor is packed with its channels fastest.
pub const NHWC: u8 = 2;
/// The pooling is one of averages.
pub const AVERAGES: u8 = 4;

/// `CUDNN_DATA_FLOAT`, as a bit.
const FLOAT: u32 = 1;
/// `CUDNN_DATA_HALF`, as a bit.
const HALF: u32 = 1 << 2;

/// A call, and the tensors with which `server` serves it.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// The call. It has no sizes that another call tells.
    pub call: &'static str,
    /// Traits that the call has to have.
    traits: u8,
    /// Types that its tensors may have, a bit each.
    types: u32,
    /// When, in words.
    pub when: &'static str,
    /// Who serves it then.
    pub server: Server,
    /// What was measured, and its part of the results.
    pub why: &'static str,
}

impl Case {
    /// Whether the case is that of a call whose descriptors have these traits and types.
    pub fn holds(&self, traits: u8, types: u32) -> bool {
        traits & self.traits == self.traits && types & !self.types == 0
    }
}

/// All of them, one per call at most.
pub const CASES: &[Case] = &[
    Case {
        call: "cudnnBatchNormalizationForwardInference",
        traits: NCHW,
        types: FLOAT | HALF,
        when: "FLOAT and HALF in NCHW",
        server: Server::Ours,
        why: "1.07 and 1.30 times as fast (Layers, inference)",
    },
    Case {
        call: "cudnnPoolingForward",
        traits: NHWC | AVERAGES,
        types: FLOAT | HALF,
        when: "averages of FLOAT and HALF in NHWC",
        server: Server::Ours,
        why: "1.93 and 1.96 times as fast (Layers, average-3x3)",
    },
    Case {
        call: "cudnnLRNCrossChannelForward",
        traits: NHWC,
        types: FLOAT,
        when: "FLOAT in NHWC",
        server: Server::Ours,
        why: "1.07 times as fast (Layers, response-5)",
    },
];

/// The case of a call, if it has one.
pub fn case_of(call: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.call == call)
}

#[cfg(test)]
mod tests {
    use super::super::table::{FAMILIES, family_of};
    use super::*;

    #[test]
    fn a_case_holds_where_its_traits_and_types_are() {
        let case = case_of("cudnnPoolingForward").expect("it has one");
        assert!(case.holds(NHWC | AVERAGES, FLOAT) && case.holds(NCHW | NHWC | AVERAGES, HALF));
        assert!(!case.holds(NCHW | AVERAGES, FLOAT));
        assert!(!case.holds(NHWC, FLOAT));
        assert!(!case.holds(NHWC | AVERAGES, 1 << 3));
    }

    /// Sizes that one call tells and another takes are one server's, whatever the tensors.
    #[test]
    fn cases_are_of_calls_that_share_no_sizes() {
        for case in CASES {
            let (_, family) = family_of(case.call).expect("a routed call");
            let group = family.group_of(case.call).expect("one of its groups");
            assert_eq!(group.calls, [case.call]);
            assert_ne!(case.server, family.server, "{}", case.call);
            assert_eq!(CASES.iter().filter(|other| other.call == case.call).count(), 1);
        }
        assert!(FAMILIES.iter().any(|family| family.calls().any(|call| case_of(call).is_some())));
    }
}
