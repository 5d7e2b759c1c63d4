//! Attention of sequences that follow each other in memory: problems of dense tensors, packed.

use cudnn::ops::graph::{Link, Ragged};

use super::*;

/// The same attention with every sequence as long as it is, and forward with the ends of sequences
/// instead of their lengths. Pre: the problem has lengths, and one operation.
pub fn packed_sequences(mut problem: Problem) -> Problem {
    let mut operation = problem.operations.remove(0);
    let is_forward = matches!(operation.kind, Kind::AttentionForward(_));
    let lengths = [Port::LengthQ, Port::LengthKv].map(|port| {
        let tensor = operation.read(port).expect("lengths");
        let (_, numbers) = problem.given.iter().find(|(given, _)| given.uid == tensor.uid).expect("given");
        numbers.clone()
    });
    let ends = lengths.each_ref().map(|lengths| {
        let sums = lengths.iter().scan(0.0, |sum, length| {
            *sum += length;
            Some(*sum)
        });
        [0.0].into_iter().chain(sums).collect::<Vec<f64>>()
    });
    let offsets = [200, 201].map(|uid| packed(uid, DataType::Int32, &[ends[0].len() as i64, 1, 1, 1]));
    for (offset, ends) in offsets.iter().zip(&ends) {
        problem.given.push((Arc::clone(offset), ends.clone()));
    }
    for link in operation.reads.iter_mut().chain(&mut operation.writes) {
        let which = match link.port {
            Port::Q | Port::O | Port::Do | Port::Dq => 0,
            Port::K | Port::V | Port::Dk | Port::Dv => 1,
            _ => continue,
        };
        let [_, heads, rows, width] = link.tensor.dims[..] else { panic!("four dimensions") };
        let token = heads * width;
        let mut ragged = Tensor::new(
            link.tensor.uid,
            data_type(&link.tensor),
            &link.tensor.dims,
            &[rows * token, width, token, 1],
        );
        ragged.ragged = Some(Ragged { offset: Arc::clone(&offsets[which]), multiplier: token });
        let ends = &ends[which];
        // The tensor in memory: token by token, those that there are.
        let memory = float(link.tensor.uid, &[ends[ends.len() - 1] as i64 * token]);
        let memory = Arc::new(Tensor { data_type: link.tensor.data_type, ..(*memory).clone() });
        for (given, numbers) in problem.given.iter_mut().chain(&mut problem.wanted) {
            if given.uid != link.tensor.uid {
                continue;
            }
            let mut cells = vec![f64::NAN; memory.dims[0] as usize];
            for (i, &number) in indices(&given.dims).iter().zip(numbers.iter()) {
                let (begin, end) = (ends[i[0] as usize] as i64, ends[i[0] as usize + 1] as i64);
                if begin + i[2] < end {
                    cells[((begin + i[2]) * token + i[1] * width + i[3]) as usize] = number;
                }
            }
            (*given, *numbers) = (Arc::clone(&memory), cells);
        }
        link.tensor = Arc::new(ragged);
    }
    if is_forward {
        let of = [(Port::LengthQ, Port::CumulativeQ), (Port::LengthKv, Port::CumulativeKv)];
        for ((lengths, ends), offset) in of.into_iter().zip(&offsets) {
            operation.reads.retain(|link| link.port != lengths);
            operation.reads.push(Link { port: ends, tensor: Arc::clone(offset) });
        }
    }
    problem.name = format!("packed {}", problem.name);
    problem.operations.push(operation);
    problem
}
