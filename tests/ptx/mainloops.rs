//! Budgets of the loops that multiply on Tensor Cores: what a warp issues for a product of
//! fragments, by the texts of the kernels of several stages.

use cudnn::backend::cuda::contract_table::{Copies, KERNELS, Products};
use cudnn::backend::cuda::module;
use cudnn::ops::contract::Role;

/// Instructions of one step, but for what only the next tap of a window takes.
#[derive(Debug, PartialEq)]
struct Step {
    products: usize,
    barriers: usize,
    waits: usize,
    conversions: usize,
    others: usize,
}

/// The loop that holds the products of a text: from its label to the branch back. `None` if there
/// is none.
fn step(text: &str) -> Option<Step> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines
        .into_iter()
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with(".pragma"))
        .collect();
    let target = |line: &str| line.split_once("bra")?.1.trim().strip_suffix(';').map(str::to_owned);
    let last = lines.iter().rposition(|line| line.contains("mma.sync"))?;
    let end = (last..lines.len()).find(|&at| target(lines[at]).is_some())?;
    let label = |name: &str| lines.iter().position(|line| line.strip_suffix(':') == Some(name));
    let first = label(&target(lines[end])?)?;
    // What is skipped as long as a step stays in its tap, or in its table, ends in front of the end
    // of the copies.
    let mut always: Vec<&str> = Vec::new();
    let mut from = first;
    for commit in (first..end).filter(|&at| lines[at].starts_with("cp.async.commit_group")) {
        let behind = (from..commit).rfind(|&at| lines[at].ends_with(':'))?;
        let name = lines[behind].strip_suffix(':');
        let skip = (from..behind).find(|&at| target(lines[at]).as_deref() == name)?;
        always.extend(&lines[from..=skip]);
        from = behind;
    }
    if from == first {
        return None;
    }
    always.extend(&lines[from..=end]);
    let always = always.into_iter().filter(|line| !line.ends_with(':'));
    let count = |what: &str| always.clone().filter(|line| line.starts_with(what)).count();
    // What is rounded moves to a register of floats in front. What is split is scaled, and loses
    // part after part; sums of its products are added to those before.
    let rounded = ["cvt.rna.tf32", "mov.b32"];
    let split = ["mul.rn.f32", "prmt.b32", "and.b32 %f", "sub.rn.f32", "add.rn.f32"];
    let conversions = rounded.into_iter().chain(split).map(count).sum();
    let products = count("mma.sync");
    Some(Step {
        products,
        barriers: count("bar.sync"),
        waits: count("cp.async.wait_group"),
        conversions,
        others: always.clone().count() - products - conversions,
    })
}

/// Of a step a warp issues at least 16 products behind one barrier, and at most two other
/// instructions for each; of the smallest tile, and where columns of `b` are copied, an eighth
/// more. Where both operands are transposed the place of each vector comes from a table: three for
/// each product of the large tile, and up to four and a quarter of others. What is converted to
/// TF32 takes an instruction for each register of a fragment, and two more where it is transposed.
/// Of what is split six products stand for two of TF32, and what it takes beside is up to five for
/// each product of the small tile, four of the large one.
#[test]
fn products_are_most_of_what_is_issued() {
    let stages = KERNELS.iter().filter(|row| matches!(row.copy, Copies::Multistage(_)));
    let mut seen = 0;
    for row in stages {
        let kernel = module::kernels().iter().find(|kernel| kernel.name == row.name).expect("a kernel");
        let step = step(&kernel.text().expect("a text")).expect("a loop of products");
        let is_split = row.products == Products::Split;
        let many = step.products / if is_split { 48 } else { 16 };
        assert!(many >= step.barriers && step.barriers == step.waits, "{}: {step:?}", row.name);
        let rows = row.tile.map_or(0, |[rows, _]| rows);
        let columns = row.tile.map_or(0, |[_, columns]| columns);
        let most = match row.copy {
            Copies::Multistage([Role::M, _]) if columns == 128 => 48 * many,
            Copies::Multistage([Role::M, _]) => 68 * many,
            Copies::Multistage([_, Role::K]) if rows == 128 => 32 * many,
            _ => 36 * many,
        };
        let is_converted = is_split || row.products == Products::Converted;
        let by_words = is_converted && row.copy != Copies::Multistage([Role::K; 2]);
        let most = if by_words { most + 32 * many } else { most };
        assert_eq!(step.conversions > 0, is_converted, "{}: {step:?}", row.name);
        let each = if is_split && rows < 128 { 5 } else { 4 };
        assert!(step.conversions <= each * step.products, "{}: {step:?}", row.name);
        assert!(step.others <= most, "{}: {step:?}", row.name);
        seen += 1;
    }
    assert_eq!(seen, 35);
}

/// A loop that waits for each step, and one that has more to do, are told apart.
#[test]
fn loops_are_read_as_they_stand() {
    let product = "mma.sync.aligned.m16n8k16 {%f1}, {%r1}, {%r2}, {%f1};\n";
    let text = format!(
        "mov.u32 %r1, 0;\n$L_1:\n// begin\nadd.s32 %r1, %r1, 1;\n@%p1 bra $L_3;\n$L_2:\nadd.s32 %r9, %r9, 1;\n\
         @%p2 bra $L_2;\n$L_3:\ncp.async.commit_group;\n{product}cp.async.wait_group 1;\nbar.sync 0;\n{product}\
         @%p3 bra $L_1;\nret;\n"
    );
    assert_eq!(step(&text), Some(Step { products: 2, barriers: 1, waits: 1, conversions: 0, others: 6 }));
    let twice = text.replace("bar.sync 0;\n", "bar.sync 0;\nbar.sync 0;\n");
    assert_eq!(step(&twice), Some(Step { products: 2, barriers: 2, waits: 1, conversions: 0, others: 7 }));
    assert_eq!(step("add.s32 %r1, %r1, 1;\n"), None);
}
