//! Attention in one step on the CPU core, and its gradients: near the definition in binary64 at
//! every level, with bits that depend on no batch and no number of threads.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use testkit::extent;
use testkit::random::Rng;
use testkit::run_step;
use testkit::steps::Row;

/// Strides of a matrix: rows one after the other, heads inside of rows, or columns apart.
fn strides(form: usize, heads: i64, rows: i64, width: i64, gap: i64) -> String {
    let own = width + gap;
    match form {
        0 => format!("({},{},{own},1)", heads * rows * own, rows * own),
        1 => format!("({},{own},{},1)", heads * rows * own, heads * own),
        _ => format!("({},{},1,{})", heads * (rows + gap) * width, (rows + gap) * width, rows + gap),
    }
}

/// A bias in every second line: its axes have a stride each, or none, and lie in either order.
fn bias(rng: &mut Rng, extents: [i64; 4]) -> String {
    if rng.below(2) == 0 {
        return String::new();
    }
    let order = if rng.below(4) == 0 { [2, 3, 1, 0] } else { [3, 2, 1, 0] };
    let (mut strides, mut step) = ([0; 4], 1);
    for axis in order {
        if rng.below(3) > 0 {
            strides[axis] = step;
            step *= extents[axis] + 1;
        }
    }
    let scalar = ["f32", "f16", "bf16"][rng.below(3)];
    format!(" bias={scalar}({})", strides.map(|stride| stride.to_string()).join(","))
}

/// A gradient of the bias in every third line, of all batches or heads together or of each.
fn bias_gradient(rng: &mut Rng, [batch, heads, rows, keys]: [i64; 4]) -> String {
    if rng.below(3) > 0 {
        return String::new();
    }
    let scalar = ["f32", "f16", "bf16"][rng.below(3)];
    let (of_row, of_key) = if rng.below(3) == 0 { (1, rows + 2) } else { (keys + 1, 1) };
    let of_head = if rng.below(2) == 0 { 0 } else { (rows + 2) * (keys + 1) };
    let of_batch = if rng.below(2) == 0 { 0 } else { heads.max(1) * (rows + 2) * (keys + 1) };
    let (of_head, of_batch) = (if heads == 1 { 0 } else { of_head }, if batch == 1 { 0 } else { of_batch });
    format!(" dbias={scalar}({of_batch},{of_head},{of_row},{of_key})")
}

/// Dropout in every third line, by numbers that are given or drawn.
fn dropout(rng: &mut Rng, extents: [i64; 4]) -> String {
    match rng.below(6) {
        0 => {
            let bias = loop {
                let bias = bias(rng, extents);
                if !bias.is_empty() {
                    break bias;
                }
            };
            bias.replace(" bias=", " dropout=f32 kept=")
        }
        1 => format!(" dropout=f16 threshold={}", [0, 1 << 30, 3 << 30, 1_u64 << 32][rng.below(4)]),
        _ => String::new(),
    }
}

/// A line of attention, or of its gradients, with anything that there may be.
fn line(rng: &mut Rng, extents: [i64; 4], heads: [i64; 2], widths: [i64; 2], is_forward: bool) -> String {
    let ([batch, of_q, rows, keys], [of_k, of_v], [width, columns]) = (extents, heads, widths);
    let mut matrix = |heads: i64, rows: i64, width: i64| {
        let gap = if rng.below(3) == 0 { 3 } else { 0 };
        strides(rng.below(3), heads, rows, width, gap)
    };
    let [o, q] = [columns, width].map(|width| matrix(of_q, rows, width));
    let (k, v) = (matrix(of_k, keys, width), matrix(of_v, keys, columns));
    let gradients = format!(
        " dq={} dk={} dv={} do={}",
        matrix(of_q, rows, width),
        matrix(of_k, keys, width),
        matrix(of_v, keys, columns),
        matrix(of_q, rows, columns)
    );
    let scalar = ["f32", "f32", "f16", "bf16"][rng.below(4)];
    let stats = if !is_forward || rng.below(3) > 0 {
        format!(" stats=({},{rows},1)", of_q * rows)
    } else {
        String::new()
    };
    let mut maybe = |text: String| if rng.below(2) == 0 { text } else { String::new() };
    let (log2, scale, fill) =
        (maybe(" log2".to_owned()), maybe(" scale=f32".to_owned()), maybe(" fill=f32".to_owned()));
    let step = i64::from(batch > 1);
    let lengths = maybe(format!(" queries=s32*{step} keys=s32*{step}"));
    let padded = if lengths.is_empty() { String::new() } else { maybe(" padded".to_owned()) };
    let mut side = |name: &str| {
        let moves = if lengths.is_empty() || rng.below(2) == 0 { "" } else { " moves" };
        let strict = if rng.below(2) == 0 { " strict" } else { "" };
        match rng.below(4) {
            0 | 1 => String::new(),
            2 => format!(" {name}=none{strict}{moves}"),
            _ => format!(" {name}=s32{strict}{moves}"),
        }
    };
    let (right, left) = (side("right"), side("left"));
    let changes = bias(rng, [batch, of_q, rows, keys])
        + ["", "", " slopes=f32*1", " slopes=f16*0"][rng.below(4)]
        + ["", "", " cap=f32,f32", " cap=f16,f32 divides"][rng.below(4)]
        + ["", "", " sink=f32*1", " sink=bf16*2"][rng.below(4)]
        + &dropout(rng, [batch, of_q, rows, keys]);
    let inverse = if changes.contains("dropout") && rng.below(2) == 0 { " inverse=f32" } else { "" };
    let gradients = gradients + inverse + &bias_gradient(rng, [batch, of_q, rows, keys]);
    let (word, gradients) = if is_forward { ("", "") } else { (" backward", &*gradients) };
    let matrices = format!("o={o} q={q} k={k} v={v}");
    format!(
        "call attend{word} {scalar} {batch}x{of_q}x{rows}x{keys} widths={width},{columns} heads={of_k},{of_v} \
         {matrices}{stats}{log2}{scale}{fill}{lengths}{padded}{right}{left}{changes}{gradients}"
    )
}

fn row(line: &str) -> Row {
    Row::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Extents around those of blocks and tiles, and any others.
fn extent(rng: &mut Rng, most: usize) -> i64 {
    let near = [1, 6, 7, 47, 48, 49, 64, 96, 127, 128, 129, 192, 200, 256, 300];
    let near: Vec<i64> = near.into_iter().filter(|&extent| extent <= most as i64).collect();
    if rng.below(2) == 0 { near[rng.below(near.len())] } else { 1 + rng.below(most) as i64 }
}

fn problems(count: usize, seed: u64, is_forward: bool) {
    let mut rng = Rng(seed);
    for _ in extent::cases(count / 2, count) {
        let heads = [1, 2, 4][rng.below(3)];
        let mut own = || [1, 2, 4].into_iter().rfind(|&own| own <= heads && rng.below(2) == 0).unwrap_or(1);
        let heads_of = [own(), own()];
        let batch = 1 + rng.below(2) as i64;
        let most = 320 / (batch * heads) as usize;
        let (rows, keys) = (extent(&mut rng, most), extent(&mut rng, 300));
        let mut width = || [8, 16, 24, 40, 64, 65, 80, 128, 1, 129, 200, 256][rng.below(12)];
        let widths = [width(), width()];
        let line = line(&mut rng, [batch, heads, rows, keys], heads_of, widths, is_forward);
        run_step::check(&row(&line), &[1, 2, 5], &mut rng);
    }
}

#[test]
fn attention_is_near_its_definition() {
    problems(120, 91, true);
}

#[test]
fn gradients_are_near_their_definition() {
    problems(80, 92, false);
}

/// More rows than those that keys are packed for at once, and several tiles of keys.
#[test]
fn parts_meet_without_a_seam() {
    const SHAPES: [([i64; 2], [i64; 2]); 4] =
        [([800, 130], [8, 16]), ([400, 600], [16, 8]), ([500, 520], [65, 1]), ([400, 300], [256, 192])];
    let mut rng = Rng(96);
    // A sample has one direction of each.
    for case in extent::cases(SHAPES.len(), 2 * SHAPES.len()) {
        let ([rows, keys], widths) = SHAPES[case % SHAPES.len()];
        let is_forward = (case + case / SHAPES.len()).is_multiple_of(2);
        let line = line(&mut rng, [1, 1, rows, keys], [1, 1], widths, is_forward);
        run_step::check(&row(&line), &[1, 2], &mut rng);
    }
}

/// Contents of operands, which lie apart.
struct Operands {
    row: Row,
    words: Vec<Vec<f32>>,
}

impl Operands {
    /// Random numbers in matrices of binary32, rows one after the other.
    fn new(line: &str, rng: &mut Rng) -> Operands {
        let row = row(line);
        let number = |rng: &mut Rng| rng.below(2001) as f32 / 1000.0 - 1.0;
        let room = |k: usize| row.operands[k].span.1 as usize / 4;
        let words = (0..row.operands.len()).map(|k| (0..room(k)).map(|_| number(rng)).collect()).collect();
        Operands { row, words }
    }

    fn run(&self, machine: Option<Machine>) -> Vec<Vec<f32>> {
        let mut words = self.words.clone();
        let at: Vec<Address> = words
            .iter_mut()
            .map(|words| match words.is_empty() {
                true => Address::NULL,
                false => Address::from(words.as_mut_ptr().cast::<u8>()),
            })
            .collect();
        // SAFETY: every operand has its elements.
        let outcome = unsafe {
            match machine {
                Some(machine) => backend::run(self.row.step.step(), &at, false, machine),
                None => reference::run(self.row.step.step(), &at),
            }
        };
        outcome.unwrap_or_else(|error| panic!("{}: {error}", self.row));
        words
    }
}

/// A line of one head, with a causal mask or none.
fn one_head(rows: i64, keys: i64, width: i64, rest: &str) -> String {
    let (of_q, of_k) = (rows * width, keys * width);
    format!(
        "one attend f32 1x1x{rows}x{keys} widths={width},{width} heads=1,1 o=({of_q},{of_q},{width},1) \
         q=({of_q},{of_q},{width},1) k=({of_k},{of_k},{width},1) v=({of_k},{of_k},{width},1) \
         stats=({rows},{rows},1) scale=f32{rest}"
    )
}

/// Numbers that are not finite are where the definition has them, and nowhere else: a key that a
/// row does not see changes nothing, whatever its values are.
#[test]
fn what_is_not_finite_stays_where_it_is_seen() {
    let mut rng = Rng(93);
    let (rows, keys, width) = (100, 150, 20);
    for rest in ["", " right=none"] {
        let mut operands = Operands::new(&one_head(rows, keys, width, rest), &mut rng);
        operands.words[5] = vec![0.5];
        let plain = operands.words.clone();
        for (operand, number, at) in [
            (4, f32::NAN, 70),
            (4, f32::INFINITY, 70),
            (3, f32::NAN, 70),
            (3, f32::INFINITY, 70),
            (3, f32::NEG_INFINITY, 0),
            (2, f32::NAN, 50),
            (2, f32::INFINITY, 51),
        ] {
            operands.words.clone_from(&plain);
            operands.words[operand][at * width as usize + 3] = number;
            let want = operands.run(None);
            for isa in Isa::available() {
                let got = operands.run(Some(Machine { isa, threads: 2 }));
                for result in 0..2 {
                    for (place, (x, y)) in got[result].iter().zip(&want[result]).enumerate() {
                        let is_same = x == y || x.is_nan() && y.is_nan() || (x - y).abs() < 1e-5;
                        assert!(is_same, "{number} in operand {operand}{rest}: {place} is {x}, not {y}");
                    }
                }
            }
        }
    }
}

/// Weights are kept where a mask of the same seed and call is set, which starts anywhere in a word:
/// what the mask gives as numbers of all weights has the bits of what draws it.
#[test]
fn what_is_drawn_is_what_a_mask_has() {
    let mut rng = Rng(97);
    for (rows, keys) in [(30, 64), (50, 37), (20, 300)] {
        let threshold = 5_u64 << 29;
        let drawn = one_head(rows, keys, 24, &format!(" dropout=f32 threshold={threshold}"));
        let given = one_head(rows, keys, 24, &format!(" dropout=f32 kept=f32(0,0,{keys},1)"));
        let states = [77_u64, 5 << 33 | 12];
        let count = rows * keys;
        let mut numbers = vec![0.0_f32; count as usize];
        let mask = row(&format!(
            "mask random draw elements={count} threshold={threshold} f32 scale=1 dst/src1/src2: {count}*(1,0,1) +0,+0,+0"
        ));
        let (one, mut words) = ([1.0_f32], vec![0_u32; (count as usize).div_ceil(32)]);
        let mut own_states = states;
        let at = [
            Address::from(numbers.as_mut_ptr().cast::<u8>()),
            Address::from(one.as_ptr().cast_mut().cast::<u8>()),
            Address::from(words.as_mut_ptr().cast::<u8>()),
            Address::from(own_states.as_mut_ptr().cast::<u8>()),
        ];
        // SAFETY: every operand has its elements.
        unsafe { reference::run(mask.step.step(), &at) }.expect("it draws");
        assert!(numbers.contains(&0.0) && numbers.contains(&1.0));
        let mut drawn = Operands::new(&drawn, &mut rng);
        let mut given = Operands::new(&given, &mut rng);
        drawn.words[5] = vec![0.5];
        drawn.words[16] = vec![1.5];
        for operand in 0..=5 {
            given.words[operand].clone_from(&drawn.words[operand]);
        }
        given.words[16] = vec![1.5];
        given.words[15] = numbers;
        let halves = states.map(|word| [word as u32, (word >> 32) as u32]);
        drawn.words[15] = halves.as_flattened().iter().map(|&half| f32::from_bits(half)).collect();
        for isa in Isa::available() {
            let machine = Some(Machine { isa, threads: 2 });
            assert!(drawn.run(machine)[..2] == given.run(machine)[..2], "{rows}x{keys}");
        }
    }
}

/// A row has the same bits alone, and among others.
#[test]
fn bits_of_a_row_depend_on_no_other_row() {
    let mut rng = Rng(94);
    let (rows, keys, width) = (110_i64, 300, 72);
    let mut operands = Operands::new(&one_head(rows, keys, width, ""), &mut rng);
    operands.words[5] = vec![0.5];
    for isa in Isa::available() {
        let machine = Some(Machine { isa, threads: 1 });
        let all = operands.run(machine);
        for place in [0, 5, 47, 48, 109] {
            let mut one = Operands::new(&one_head(1, keys, width, ""), &mut rng);
            one.words[2..].clone_from_slice(&operands.words[2..]);
            let part = place * width as usize..(place + 1) * width as usize;
            one.words[2] = operands.words[2][part.clone()].to_vec();
            let own = one.run(machine);
            assert!(own[0] == all[0][part], "row {place}");
            assert!(own[1][0] == all[1][place], "statistics of row {place}");
        }
    }
}
