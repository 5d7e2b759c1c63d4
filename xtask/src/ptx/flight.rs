//! What a kernel keeps in flight, read from its machine code: the loads from device memory that a
//! thread has issued when it comes to the first instruction that needs one of them.
//!
//! The code is walked along every path. A load is in flight until an instruction names a register
//! that it fills; what is in flight there is what one wait pays for. Where paths meet, the one with
//! more in flight counts.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// What is known of one kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Bytes of a thread that one wait pays for, at most.
    pub bytes: u32,
    /// The number of loads that one wait pays for, by their width in bytes.
    pub loads: BTreeMap<u32, u32>,
    /// Innermost loops that wait for every load by itself.
    pub lone: u32,
}

impl Flight {
    /// As the table has it: bytes, loads by width, lone loops.
    pub fn columns(&self) -> String {
        let loads: Vec<String> = self.loads.iter().map(|(width, count)| format!("{count}x{width}")).collect();
        let loads = if loads.is_empty() { "-".to_owned() } else { loads.join(",") };
        format!("{}\t{loads}\t{}", self.bytes, self.lone)
    }
}

/// A load from device memory.
#[derive(Clone, Copy, Debug)]
struct Load {
    bytes: u32,
    /// The first register it fills, and how many; none for a copy to shared memory, which a barrier
    /// waits for.
    registers: Option<(u32, u32)>,
}

/// What an instruction does to control.
#[derive(Clone, Debug)]
enum Flow {
    On,
    /// Ends the thread, or a subroutine.
    Ends,
    /// Goes to one of these; or on, if `falls`.
    Jumps {
        targets: Vec<usize>,
        falls: bool,
    },
}

#[derive(Clone, Debug)]
struct Instruction {
    load: Option<Load>,
    /// Waits for all copies to shared memory.
    drains: bool,
    /// Registers that it names, but for those that a load fills.
    touches: Vec<u32>,
    flow: Flow,
}

/// Reads the text of `nvdisasm -c` for a module of one kernel.
pub fn read(sass: &str, kernel: &str) -> Result<Flight> {
    let start = format!(".text.{kernel}:");
    let body = sass.split_once(&start).with_context(|| format!("no code of {kernel}"))?.1;
    let code = instructions(body)?;
    let all = waits(&code, |_| true);
    let mut flight =
        Flight { bytes: all.iter().map(|wait| wait.bytes).max().unwrap_or(0), ..Flight::default() };
    for width in [1, 2, 4, 8, 16] {
        let most = waits(&code, |load| load.bytes == width).iter().map(|wait| wait.loads).max().unwrap_or(0);
        if most > 0 {
            flight.loads.insert(width, most);
        }
    }
    flight.lone = lone_loops(&code, &all);
    Ok(flight)
}

/// The number of loads, and their bytes, that an instruction waits for or finds in flight as it
/// waits.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    loads: u32,
    bytes: u32,
}

/// For every instruction what is in flight as it waits for one of the loads that count; nothing
/// where it does not wait.
fn waits(code: &[Instruction], counts: impl Fn(&Load) -> bool) -> Vec<Wait> {
    let weight = |flying: &[usize]| -> (u32, u32) {
        let loads = flying.iter().filter_map(|&at| code[at].load);
        loads.fold((0, 0), |(bytes, count), load| (bytes + load.bytes, count + 1))
    };
    let mut before: Vec<Option<Vec<usize>>> = vec![None; code.len()];
    let mut found = vec![Wait::default(); code.len()];
    if let Some(first) = before.first_mut() {
        *first = Some(Vec::new());
    }
    // Weights only grow, but a walk that is not over by then would add nothing that counts.
    for _ in 0..64 {
        let mut changed = false;
        for (at, instruction) in code.iter().enumerate() {
            let Some(mut flying) = before[at].clone() else { continue };
            let fills = instruction
                .load
                .and_then(|load| load.registers)
                .map_or(0..0, |(first, count)| first..first + count);
            let waits_for = |&load: &usize| {
                let registers = code[load].load.and_then(|load| load.registers);
                match registers {
                    None => instruction.drains,
                    Some((first, count)) => (first..first + count).any(|register| {
                        instruction.touches.contains(&register) || (load != at && fills.contains(&register))
                    }),
                }
            };
            if flying.iter().any(waits_for) {
                let (bytes, loads) = weight(&flying);
                if (bytes, loads) > (found[at].bytes, found[at].loads) {
                    found[at] = Wait { loads, bytes };
                }
                flying.retain(|load| !waits_for(load));
            }
            if instruction.load.is_some_and(|load| counts(&load)) && !flying.contains(&at) {
                flying.push(at);
            }
            let next: Vec<usize> = match &instruction.flow {
                Flow::On => vec![at + 1],
                Flow::Ends => Vec::new(),
                Flow::Jumps { targets, falls } => {
                    targets.iter().copied().chain(falls.then_some(at + 1)).collect()
                }
            };
            for to in next {
                let Some(place) = before.get_mut(to) else { continue };
                if place.as_ref().is_none_or(|held| weight(held) < weight(&flying)) {
                    *place = Some(flying.clone());
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    found
}

/// Innermost loops with loads in which no wait pays for more than one.
fn lone_loops(code: &[Instruction], waits: &[Wait]) -> u32 {
    let mut loops: Vec<(usize, usize)> = Vec::new();
    for (end, instruction) in code.iter().enumerate() {
        if let Flow::Jumps { targets, .. } = &instruction.flow {
            loops.extend(targets.iter().filter(|&&start| start <= end).map(|&start| (start, end)));
        }
    }
    let innermost = loops.iter().filter(|&&(start, end)| {
        !loops.iter().any(|&other| other != (start, end) && start <= other.0 && other.1 <= end)
    });
    let lone = innermost.filter(|&&(start, end)| {
        let most = (start..=end).map(|at| waits[at].loads).max().unwrap_or(0);
        (start..=end).any(|at| code[at].load.is_some()) && most == 1
    });
    lone.count() as u32
}

/// The instructions of the first function in `text`, and of the subroutines behind it.
fn instructions(text: &str) -> Result<Vec<Instruction>> {
    let mut labels = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("//-----") || line.starts_with(".section") {
            break;
        }
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label, lines.len());
        } else if line.starts_with("/*") {
            lines.push(line.split_once("*/").context("an instruction without its address")?.1.trim());
        }
    }
    lines.iter().enumerate().map(|(at, line)| instruction(line, at, &labels)).collect()
}

fn instruction(line: &str, at: usize, labels: &BTreeMap<&str, usize>) -> Result<Instruction> {
    // Without what is only a comment: where an indirect jump goes is one.
    let text = line.split(';').next().unwrap_or_default();
    let (guard, text) = match text.strip_prefix('@') {
        Some(rest) => {
            rest.split_once(char::is_whitespace).map_or((true, rest), |(_, rest)| (true, rest.trim()))
        }
        None => (false, text),
    };
    let (name, operands) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    let mut parts = name.split('.');
    let base = parts.next().unwrap_or_default();
    let suffixes: Vec<&str> = parts.collect();
    let load = match base {
        "LDG" | "LD" => {
            let (bytes, count) = width(&suffixes);
            let first = registers(operands.split('[').next().unwrap_or_default()).first().copied();
            Some(Load {
                bytes,
                registers: Some((first.with_context(|| format!("a load to nowhere: {line}"))?, count)),
            })
        }
        "LDGSTS" => Some(Load { bytes: width(&suffixes).0, registers: None }),
        _ => None,
    };
    let named = match base {
        "LDG" | "LD" => operands.split_once('[').map_or("", |(_, rest)| rest),
        _ => operands,
    };
    let mut touches = registers(named);
    let wide = match base {
        "STG" | "ST" | "STS" | "STL" => width(&suffixes).1,
        _ if base.starts_with('D') || suffixes.contains(&"WIDE") || suffixes.contains(&"64") => 2,
        _ => 1,
    };
    let more: Vec<u32> = touches.iter().flat_map(|&first| first + 1..first + wide).collect();
    touches.extend(more);
    let flow = match base {
        "EXIT" | "RET" | "BPT" if !guard => Flow::Ends,
        "BRA" | "BRX" => {
            let targets: Vec<usize> =
                labels_in(line).filter_map(|label| labels.get(label).copied()).collect();
            let falls = guard || base == "BRA" && (operands.contains('P') || suffixes.contains(&"DIV"));
            Flow::Jumps { targets, falls }
        }
        _ => Flow::On,
    };
    // A jump to itself ends the code.
    let flow = match flow {
        Flow::Jumps { targets, falls: false } if targets == [at] => Flow::Ends,
        flow => flow,
    };
    Ok(Instruction { load, drains: base == "DEPBAR", touches, flow })
}

/// The labels that a line names.
fn labels_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(".L_x_").map(|(at, _)| {
        let rest = &line[at..];
        rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "._".contains(letter)))
            .map_or(rest, |end| &rest[..end])
    })
}

/// The bytes of an access and the registers that it takes.
fn width(suffixes: &[&str]) -> (u32, u32) {
    for suffix in suffixes {
        match *suffix {
            "U8" | "S8" => return (1, 1),
            "U16" | "S16" => return (2, 1),
            "64" => return (8, 2),
            "128" => return (16, 4),
            _ => {}
        }
    }
    (4, 1)
}

/// The numbers of the registers that a text names.
fn registers(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('R') {
        let starts = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        if starts && digits > 0 {
            found.extend(text[at + 1..at + 1 + digits].parse::<u32>());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Flight, read};

    fn flight(code: &str) -> Flight {
        let text: String = code
            .lines()
            .map(|line| match line.trim() {
                label if label.ends_with(':') => format!("{label}\n"),
                line => format!("        /*0000*/                   {line} ;\n"),
            })
            .collect();
        read(&format!(".text.kernel:\n{text}"), "kernel").unwrap()
    }

    #[test]
    fn loads_before_the_first_use_count_together() {
        let batch = "LDG.E.128 R4, desc[UR4][R2.64]\nLDG.E.128 R8, desc[UR4][R2.64+0x10]\nIADD3 R6, R6, R11, RZ\nEXIT";
        let found = flight(batch);
        assert_eq!((found.bytes, found.loads.get(&16)), (32, Some(&2)));
        let one = "LDG.E.U16 R4, desc[UR4][R2.64]\nIADD3 R4, R4, 0x1, RZ\nLDG.E.U16 R8, desc[UR4][R2.64]\nSTG.E.U16 desc[UR4][R2.64], R8\nEXIT";
        let found = flight(one);
        assert_eq!((found.bytes, found.loads.get(&2)), (2, Some(&1)));
    }

    #[test]
    fn an_address_that_was_loaded_is_a_use() {
        let chain =
            "LDG.E.64 R4, desc[UR4][R2.64]\nLDG.E R8, desc[UR4][R4.64]\nSTG.E desc[UR4][R2.64], R8\nEXIT";
        assert_eq!(flight(chain).bytes, 8);
    }

    #[test]
    fn loops_that_wait_for_every_load_are_counted() {
        let lone = ".L_x_1:\nLDG.E R4, desc[UR4][R2.64]\nFADD R5, R5, R4\n@P0 BRA `(.L_x_1)\nEXIT";
        let found = flight(lone);
        assert_eq!((found.bytes, found.lone), (4, 1));
        let two = ".L_x_1:\nLDG.E R4, desc[UR4][R2.64]\nLDG.E R6, desc[UR4][R2.64]\nFADD R5, R6, R4\n@P0 BRA `(.L_x_1)\nEXIT";
        assert_eq!(flight(two).lone, 0);
    }

    #[test]
    fn of_two_paths_the_fuller_one_counts() {
        let paths = "@P0 BRA `(.L_x_1)\nLDG.E.U8 R4, desc[UR4][R2.64]\nBRA `(.L_x_2)\n.L_x_1:\nLDG.E R4, desc[UR4][R2.64]\nLDG.E R5, desc[UR4][R2.64]\n.L_x_2:\nFADD R5, R5, R4\nEXIT";
        let found = flight(paths);
        assert_eq!((found.bytes, found.loads.get(&1), found.loads.get(&4)), (8, Some(&1), Some(&2)));
    }

    #[test]
    fn copies_to_shared_memory_fly_until_they_are_waited_for() {
        let copies = "LDGSTS.E.BYPASS.128 [R4], desc[UR4][R2.64]\nLDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64]\nLDGDEPBAR\nDEPBAR.LE SB0, 0x0\nEXIT";
        assert_eq!(flight(copies).bytes, 32);
    }
}
