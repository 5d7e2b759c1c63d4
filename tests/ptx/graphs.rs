//! Launches of every kernel of graph aggregation.

use cudnn::backend::cuda::launch::Launch;
use cudnn::dtype::DataType;
use cudnn::ops::gnn::{AggregatePlan, Call};

use crate::{collected, place};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let at = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0x7000, 0x8000].map(place);
    let types = [Some(DataType::Half), Some(DataType::Int32)];
    let call = Call { graph: [300, 200, 5000], columns: [70, 3, 2], types, join: 2, mapped: true };
    let mut list = Vec::new();
    let mut push = |kernels: &[&str], launches: Vec<Launch>| {
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
        list.extend(kernels.iter().map(|&kernel| kernel.to_owned()).zip(launches));
    };
    push(&["aggregate_forward"], collected(&AggregatePlan::forward(&call).expect("a plan"), &at));
    push(
        &["aggregate_sources", "aggregate_edges"],
        collected(&AggregatePlan::backward(&call).expect("a plan"), &at),
    );
    list
}
