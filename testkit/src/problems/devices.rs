//! Reads `benches/gpu_transform/problems.txt`, the transforms that a GPU's benchmark times beside
//! the original.

use super::Tensors;
use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;

/// Every line of the list. Panics with the line that cannot be read.
pub fn read() -> Vec<Tensors> {
    let lines = include_str!("../../../benches/gpu_transform/problems.txt").lines();
    let lines = lines.map(|line| line.split('#').next().unwrap_or("").trim());
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| parse(line).unwrap_or_else(|| panic!("cannot read `{line}`"))).collect()
}

/// `name source destination dims source-layout destination-layout alpha beta`, and a tolerance that
/// is not for here.
fn parse(line: &str) -> Option<Tensors> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, src, dst, dims, from, to, alpha, beta, ..] = &words[..] else { return None };
    let dims: Vec<i64> = dims.split('x').map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
    Some(Tensors {
        src: tensor(src, from, &dims)?,
        dst: tensor(dst, to, &dims)?,
        name: name.to_owned(),
        scaling: Scaling { alpha: alpha.parse().ok()?, beta: beta.parse().ok()? },
    })
}

fn tensor(scalar: &str, layout: &str, dims: &[i64]) -> Option<TensorDescriptor> {
    let data_type = match scalar {
        "f32" => DataType::Float,
        "f16" => DataType::Half,
        "bf16" => DataType::Bfloat16,
        "s8" => DataType::Int8,
        "s8x32" => DataType::Int8x32,
        _ => return None,
    };
    let rank = dims.len() as i64;
    if layout == "vect" {
        return TensorDescriptor::with_format(data_type, Format::NchwVectC, rank, dims, Mode::Extended).ok();
    }
    let (order, gap) = layout.split_once('+').unwrap_or((layout, "0"));
    let mut reach = 1;
    let mut strides = vec![0; dims.len()];
    for (inner, dimension) in order.chars().rev().enumerate() {
        let axis = dimension.to_digit(10)? as usize;
        *strides.get_mut(axis)? = reach;
        reach *= dims[axis];
        if inner == 0 {
            reach += gap.parse::<i64>().ok()?;
        }
    }
    TensorDescriptor::with_strides(data_type, rank, dims, &strides, Mode::Extended).ok()
}
