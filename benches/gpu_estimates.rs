//! What every row of the lists can be expected to reach of a copy's speed on a GPU. Estimates:
//! nothing here was measured.
//!
//! `cargo bench --bench gpu_estimates -- [NAME...]`: rows whose names contain one of these.

use cudnn::ops::Plan;
use testkit::{estimate, problems, steps};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let figures = estimate::figures();
    println!(
        "# ESTIMATES, no measurements: of 132 multiprocessors, 4.3 TB/s for a copy, 0.7 us for a load, by what the"
    );
    println!("# machine code for sm_90 keeps in flight. Arithmetic, caches and sectors are left out.");
    println!("{:24}{:28}{:>8}{:>10}{:>14}", "# row", "largest launch", "bytes", "threads", "est. of copy");
    let row = |name: &str, plan: &dyn Plan| {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part.as_str())) {
            return;
        }
        let Some(found) = estimate::of(plan, &figures) else { return println!("{name:24}no launches") };
        let share = match found.share {
            None => "no reads".to_owned(),
            Some(share) if found.is_small => format!("{share:.2} small"),
            Some(share) => format!("{share:.2}      "),
        };
        println!("{name:24}{:28}{:>8}{:>10}{share:>14}", found.kernel, found.bytes, found.resident);
    };
    for problem in problems::read() {
        for problem in [problem.inverse(), problem].iter().rev() {
            row(&problem.name, &problem.tensors().plan());
        }
    }
    for problem in problems::devices::read() {
        row(&format!("gpu {}", problem.name), &problem.plan());
    }
    for step in steps::of_both_cores() {
        row(&step.name, &step);
    }
}
