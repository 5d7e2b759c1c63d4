//! The machine code of a family of kernels, as `cargo xtask cubins` packs it: for the build script,
//! which embeds packs that were made of the texts which it embeds; for the library, which reads
//! them; and for that task, which writes them.
//!
//! A pack is lines of text and a stream. The first line names the form, the assembler, and a hash
//! of the stream; then a line for each image: architecture, kernel, its seal, its bytes; then an
//! empty line; then the LZMA stream of all images in the order of the lines, those of one
//! architecture behind each other. One stream, because the code for an architecture has much in
//! common with that for the one before it; a reader who wants the first architecture stops there.

use std::fmt::Write;

/// The version of `ptxas`, of the 12 releases, whose code all drivers from 525 on load.
pub const ASSEMBLER: &str = "12.9.86";

/// What there is code for, in the order of the stream: what devices of most owners run first.
pub const ARCHITECTURES: [u32; 5] = [80, 90, 120, 100, 75];

/// Begins the first line.
const FORM: &str = "cubins 1";

/// One kernel's code for one architecture.
#[allow(dead_code, reason = "the build script does not unpack")]
pub struct Image<'a> {
    /// 80 for 8.0.
    pub architecture: u32,
    pub kernel: &'a str,
    /// Of what it was made from.
    pub seal: u64,
    /// Where it stands in what the stream unpacks to.
    pub start: usize,
    pub end: usize,
}

/// A family's code.
pub struct Pack<'a> {
    pub images: Vec<Image<'a>>,
    pub stream: &'a [u8],
    /// What the stream's hash was as it was written.
    sum: u64,
}

/// FNV-1a of these bytes: the same in every version of the compiler.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

/// What the assembler is told besides its input and its output.
pub fn options(architecture: u32) -> [String; 2] {
    ["--gpu-name".to_owned(), format!("sm_{architecture}")]
}

/// The seal of an image that is made of the text of this module.
pub fn seal(text: &str, architecture: u32) -> u64 {
    let options = options(architecture).join(" ");
    hash([text, ASSEMBLER, &options].into_iter().flat_map(|part| part.bytes().chain([0])))
}

/// Whether a module with this text can be made for an architecture: not for one that is older than
/// its target.
pub fn takes(text: &str, architecture: u32) -> bool {
    let target = text.lines().find_map(|line| line.strip_prefix(".target sm_"));
    let digits = target.and_then(|target| target.split(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).is_some_and(|target: u32| target <= architecture)
}

/// A pack of these images - architecture, kernel, seal, bytes - and their stream.
#[allow(dead_code, reason = "only the task that packs writes")]
pub fn write<'a>(images: impl Iterator<Item = (u32, &'a str, u64, usize)>, stream: &[u8]) -> Vec<u8> {
    let mut text = format!("{FORM}\t{ASSEMBLER}\t{:016x}\n", hash(stream.iter().copied()));
    for (architecture, kernel, seal, bytes) in images {
        // A string grows.
        let _ = writeln!(text, "{architecture}\t{kernel}\t{seal:016x}\t{bytes}");
    }
    text.push('\n');
    [text.as_bytes(), stream].concat()
}

/// Reads a pack.
pub fn read(bytes: &[u8]) -> Result<Pack<'_>, String> {
    let wrong = || "no pack of machine code of this form".to_owned();
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").ok_or_else(wrong)?;
    let stream = &bytes[end + 2..];
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong())?;
    let mut lines = text.lines();
    let mut head = lines.next().unwrap_or_default().split('\t');
    if head.next() != Some(FORM) {
        return Err(wrong());
    }
    match head.next() {
        Some(ASSEMBLER) => {}
        other => return Err(format!("made by ptxas {}, not {ASSEMBLER}", other.unwrap_or_default())),
    }
    let sum = head.next().and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(wrong)?;
    let mut images = Vec::new();
    let mut start = 0;
    for line in lines {
        let columns: Vec<&str> = line.split('\t').collect();
        let [architecture, kernel, seal, bytes] = columns[..] else { return Err(wrong()) };
        let architecture = architecture.parse().map_err(|_| wrong())?;
        let seal = u64::from_str_radix(seal, 16).map_err(|_| wrong())?;
        let bytes: usize = bytes.parse().map_err(|_| wrong())?;
        images.push(Image { architecture, kernel, seal, start, end: start + bytes });
        start += bytes;
    }
    Ok(Pack { images, stream, sum })
}

impl<'a> Pack<'a> {
    /// Images without a stream.
    #[allow(dead_code, reason = "for tests of the library")]
    pub fn of(images: Vec<Image<'a>>) -> Pack<'a> {
        Pack { images, stream: &[], sum: 0 }
    }

    /// Whether each of these modules - kernel, text - has code for every architecture that its text
    /// can be made for, made from that text by this assembler with these options; and nothing else
    /// has. And whether the stream is the one that was written.
    pub fn check(&self, modules: &[(&str, String)]) -> Result<(), String> {
        if hash(self.stream.iter().copied()) != self.sum {
            return Err("the packed code is damaged".to_owned());
        }
        let mut expected = 0;
        for architecture in ARCHITECTURES {
            for (kernel, text) in modules.iter().filter(|(_, text)| takes(text, architecture)) {
                let is_it = |image: &&Image| image.architecture == architecture && image.kernel == *kernel;
                let image = self.images.iter().find(is_it);
                let image =
                    image.ok_or_else(|| format!("there is no code of {kernel} for sm_{architecture}"))?;
                if image.seal != seal(text, architecture) {
                    return Err(format!(
                        "the code of {kernel} for sm_{architecture} is made from another text"
                    ));
                }
                expected += 1;
            }
        }
        if self.images.len() == expected { Ok(()) } else { Err("there is code of other kernels".to_owned()) }
    }
}
