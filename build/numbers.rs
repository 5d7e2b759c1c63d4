//! The text of a kernel as it is packed: the numbers of registers and labels apart from the words
//! around them, each as its place among those that were used last. For the build script, which
//! packs, and for the library, which unpacks.
//!
//! Kernels of one template have most lines in common but for these numbers, since one instruction
//! more shifts all that follow. Which of the last few values an instruction takes stays the same.

/// Stands for the kernel's name, in words that are packed.
const NAME: u8 = 1;
/// Stands for what labels of the kernel begin with.
const LABEL: u8 = 2;
/// Stands for the number of a register or a label.
const NUMBER: u8 = 3;

/// What the compiler has labels begin with, before the number of their kernel.
const LABELS: &str = "$L__BB";

/// A number is one byte: zero for the one after the last new one, else its place among those that
/// were used, from one on. From here on it is two bytes: a place, or the distance of a new number
/// from the expected one, up or down. The last stands before a number in four bytes.
const FAR: u8 = 180;
const AWAY: u8 = 230;
const WRITTEN: u8 = 255;

/// Kernels have no numbers from here on, for each of which there is a flag.
const LIMIT: u32 = 1 << 20;

/// The numbers of one class of registers, or of labels, as far as a text was read.
#[derive(Default)]
struct Recent {
    /// The one used last comes last.
    order: Vec<u32>,
    /// Whether each is among them, so that a new one is known without a look at all.
    is_used: Vec<bool>,
    /// What a new number is expected to be.
    next: u32,
}

impl Recent {
    /// A number that was not used before.
    fn add(&mut self, number: u32) -> u32 {
        let index = number as usize;
        self.is_used.resize(self.is_used.len().max(index + 1), false);
        self.is_used[index] = true;
        self.order.push(number);
        self.next = number + 1;
        number
    }

    /// How many others were used since this one was; `None` if it never was.
    fn place(&self, number: u32) -> Option<usize> {
        let is_used = self.is_used.get(number as usize).is_some_and(|is_used| *is_used);
        if is_used { self.order.iter().rev().position(|used| *used == number) } else { None }
    }

    /// The number at a place, which is now the one used last.
    fn at(&mut self, place: usize) -> Option<u32> {
        let index = self.order.len().checked_sub(place + 1)?;
        self.order[index..].rotate_left(1);
        self.order.last().copied()
    }
}

/// The class of what a number follows: letters behind a percent sign, or the beginning of a label.
fn class(words: &[u8]) -> Option<&[u8]> {
    let letters = words.iter().rev().take_while(|byte| byte.is_ascii_lowercase()).count();
    let start = words.len().checked_sub(letters + 1)?;
    match words[start] {
        b'%' => Some(&words[start..]),
        LABEL if letters == 0 => Some(&words[start..]),
        _ => None,
    }
}

/// The numbers of each class: some eight.
#[derive(Default)]
struct Classes(Vec<(Vec<u8>, Recent)>);

impl Classes {
    fn of(&mut self, class: &[u8]) -> &mut Recent {
        let at = self.0.iter().position(|(known, _)| known == class).unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push((class.to_vec(), Recent::default()));
        }
        &mut self.0[at].1
    }
}

/// The words of a kernel's text, and its numbers.
#[allow(dead_code, reason = "only the build script packs")]
pub fn separate(name: &str, text: &str) -> (Vec<u8>, Vec<u8>) {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let kernel = text.find(LABELS).map(|at| &text[at + LABELS.len()..]);
    let labels = kernel.map_or(String::new(), |kernel| format!("{LABELS}{}_", &kernel[..digits(kernel)]));
    let mut rest = text.replace(name, "\u{1}");
    if !labels.is_empty() {
        rest = rest.replace(&labels, "\u{2}");
    }
    let mut words = format!("{name} {labels}\n").into_bytes();
    let (mut numbers, mut classes) = (Vec::new(), Classes::default());
    let mut rest = rest.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        words.extend_from_slice(&rest.as_bytes()[..at]);
        let (number, behind) = rest[at..].split_at(digits(&rest[at..]));
        rest = behind;
        // A number with leading zeros would come back without them.
        let value = number.parse().ok().filter(|value| *value < LIMIT);
        let value = value.filter(|_| number == "0" || !number.starts_with('0'));
        match (class(&words), value) {
            (Some(class), Some(value)) => {
                write(value, classes.of(class), &mut numbers);
                words.push(NUMBER);
            }
            _ => words.extend_from_slice(number.as_bytes()),
        }
    }
    words.extend_from_slice(rest.as_bytes());
    (words, numbers)
}

/// Adds a number of a class to those of a text.
fn write(value: u32, recent: &mut Recent, numbers: &mut Vec<u8>) {
    if let Some(place) = recent.place(value) {
        recent.at(place);
        match place + 1 {
            near if near < usize::from(FAR) => return numbers.push(near as u8),
            far if far >> 8 < usize::from(AWAY - FAR) => {
                return numbers.extend([FAR + (far >> 8) as u8, far as u8]);
            }
            _ => {}
        }
    } else {
        let away = i64::from(value) - i64::from(recent.next);
        recent.add(value);
        match away.unsigned_abs() << 1 | u64::from(away < 0) {
            0 => return numbers.push(0),
            away if away >> 8 < u64::from(WRITTEN - AWAY) => {
                return numbers.extend([AWAY + (away >> 8) as u8, away as u8]);
            }
            _ => {}
        }
    }
    numbers.push(WRITTEN);
    numbers.extend(value.to_le_bytes());
}

/// The text of a kernel of these words and numbers; `None` if they do not fit each other.
#[allow(dead_code, reason = "the build script does not unpack")]
pub fn join(words: &[u8], numbers: &[u8]) -> Option<String> {
    let end = words.iter().position(|byte| *byte == b'\n')?;
    let (name, labels) = std::str::from_utf8(&words[..end]).ok()?.split_once(' ')?;
    let words = &words[end + 1..];
    let mut numbers = numbers.iter().copied();
    let mut classes = Classes::default();
    let mut text = Vec::with_capacity(2 * words.len());
    for (at, byte) in words.iter().enumerate() {
        match *byte {
            NAME => text.extend_from_slice(name.as_bytes()),
            LABEL => text.extend_from_slice(labels.as_bytes()),
            NUMBER => {
                let value = read(&mut numbers, classes.of(class(&words[..at])?))?;
                text.extend_from_slice(value.to_string().as_bytes());
            }
            other => text.push(other),
        }
    }
    if numbers.next().is_some() {
        return None;
    }
    String::from_utf8(text).ok()
}

/// The next number of a text, which is one of this class.
fn read(numbers: &mut impl Iterator<Item = u8>, recent: &mut Recent) -> Option<u32> {
    let mut byte = || numbers.next();
    match byte()? {
        0 => Some(recent.add(recent.next)),
        WRITTEN => {
            let value = u32::from_le_bytes([byte()?, byte()?, byte()?, byte()?]);
            match recent.place(value) {
                Some(place) => recent.at(place),
                None if value < LIMIT => Some(recent.add(value)),
                None => None,
            }
        }
        high @ AWAY.. => {
            let away = u32::from(high - AWAY) << 8 | u32::from(byte()?);
            let value = match away & 1 {
                0 => recent.next.checked_add(away >> 1),
                _ => recent.next.checked_sub(away >> 1),
            };
            value.map(|value| recent.add(value))
        }
        high @ FAR.. => {
            let place = usize::from(high - FAR) << 8 | usize::from(byte()?);
            recent.at(place.checked_sub(1)?)
        }
        near => recent.at(usize::from(near) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back(name: &str, text: &str) -> Vec<u8> {
        let (words, numbers) = separate(name, text);
        assert_eq!(join(&words, &numbers).as_deref(), Some(text));
        numbers
    }

    #[test]
    fn numbers_are_places_among_those_used_last() {
        let text = ".visible .entry k(.param .b8 k_param_0[8])\n{\n\tadd.f32 %f1, %f2, %f1;\n\t@%p1 bra $L__BB7_2;\n\
                    \tmov.u32 %r01, %tid.x;\n$L__BB7_2:\n\tfma.rn.f32 %f3, %f2, %f1, 0f3F800000;\n}\n";
        let (words, numbers) = separate("k", text);
        assert!(words.starts_with(b"k $L__BB7_\n.visible .entry \x01(.param .b8 \x01_param_0[8])"));
        // f1 is one up from the expected 0, f2 the next, f1 was used one before it; p1; label 2;
        // label 2 again; f3 the next, then f2 and f1.
        assert_eq!(numbers, [230, 2, 0, 2, 230, 2, 230, 4, 1, 0, 3, 3]);
        assert_eq!(join(&words, &numbers).as_deref(), Some(text));
    }

    #[test]
    fn far_and_odd_numbers_come_back() {
        let many: String = (1..2000).map(|number| format!("%r{number},")).collect();
        let back: String = (1..2000).map(|number| format!("%r{number},")).collect();
        assert!(comes_back("k", &format!("{many}{back}")).len() > 2 * 2000);
        let all = (1..20_000).map(|number| format!("%rd{number},")).collect::<String>() + "%rd1;%rd2;%rd1";
        assert!(comes_back("k", &all).contains(&WRITTEN));
        comes_back(
            "k",
            "%r9000 %r1 %r4294967295 %r4294967296 %r00 %r0 %007 %p1048575 %p1048576 $L__BB_3 $L__BB1_2x",
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (words, numbers) = separate("k", "%r1, %r2, %r1");
        for numbers in [&numbers[..3], &[&numbers[..], &[1]].concat(), &[1, 1, 1], &[230, 3, 0, 1]] {
            assert_eq!(join(&words, numbers), None, "{numbers:?}");
        }
        assert_eq!((join(b"", &[]), join(b"k\n", &[])), (None, None));
    }
}
