//! Pictures: PNG, JPEG and PPM (PGM), as bytes in the order rows, columns, channels.

use std::io::Cursor;
use std::path::Path;

use crate::{Failure, Result};

/// What is lost of a JPEG: little.
const JPEG_QUALITY: u8 = 95;

/// The formats of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    Png,
    Jpeg,
    /// Binary PPM (3 channels) and PGM (1).
    Pnm,
}

/// A picture of 8-bit channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Rows.
    pub height: i64,
    /// Columns.
    pub width: i64,
    /// 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
    pub channels: i64,
    /// The bytes, channels fastest.
    pub bytes: Vec<u8>,
}

/// The format that a file name stands for; `None` if it is no picture.
pub fn format(name: &Path) -> Option<ImageFormat> {
    let extension = name.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some(ImageFormat::Png),
        "jpg" | "jpeg" => Some(ImageFormat::Jpeg),
        "ppm" | "pgm" | "pnm" => Some(ImageFormat::Pnm),
        _ => None,
    }
}

/// Decodes a file; channels of 16 bits become 8, palettes colours.
pub fn decode(file: &[u8], format: ImageFormat) -> Result<Pixels> {
    let pixels = match format {
        ImageFormat::Png => decode_png(file)?,
        ImageFormat::Jpeg => decode_jpeg(file)?,
        ImageFormat::Pnm => decode_pnm(file)?,
    };
    if pixels.height.checked_mul(pixels.width * pixels.channels) != Some(pixels.bytes.len() as i64) {
        return Err(Failure::new("a picture whose size does not fit its data"));
    }
    Ok(pixels)
}

fn decode_png(file: &[u8]) -> Result<Pixels> {
    let mut decoder = png::Decoder::new(Cursor::new(file));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(Failure::new)?;
    let size =
        reader.output_buffer_size().ok_or_else(|| Failure::new("a picture whose size leaves memory"))?;
    let mut bytes = vec![0; size];
    let frame = reader.next_frame(&mut bytes).map_err(Failure::new)?;
    bytes.truncate(frame.buffer_size());
    let channels = frame.color_type.samples() as i64;
    Ok(Pixels { height: frame.height.into(), width: frame.width.into(), channels, bytes })
}

fn decode_jpeg(file: &[u8]) -> Result<Pixels> {
    let mut decoder = zune_jpeg::JpegDecoder::new(Cursor::new(file));
    let bytes = decoder.decode().map_err(|error| Failure::new(format!("{error:?}")))?;
    let (width, height) = decoder.dimensions().ok_or_else(|| Failure::new("a JPEG without a size"))?;
    let channels = bytes.len() / (width * height).max(1);
    Ok(Pixels { height: height as i64, width: width as i64, channels: channels as i64, bytes })
}

fn decode_pnm(file: &[u8]) -> Result<Pixels> {
    let channels = match file.get(..2) {
        Some(b"P6") => 3,
        Some(b"P5") => 1,
        _ => return Err(Failure::new("no binary PPM or PGM: it begins with neither P6 nor P5")),
    };
    // Three numbers between white space and comments, then one white space and the data.
    let (mut at, mut numbers) = (2, Vec::new());
    while numbers.len() < 3 {
        match file.get(at) {
            Some(b'#') => at += file[at..].iter().position(|&byte| byte == b'\n').unwrap_or(file.len() - at),
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            Some(byte) if byte.is_ascii_digit() => {
                let end = file[at..]
                    .iter()
                    .position(|byte| !byte.is_ascii_digit())
                    .map_or(file.len(), |len| at + len);
                let digits = std::str::from_utf8(&file[at..end]).unwrap_or_default();
                numbers.push(
                    digits
                        .parse::<u32>()
                        .map_err(|_| Failure::new("a PPM header with a number beyond 32 bits"))?,
                );
                at = end;
            }
            _ => return Err(Failure::new("a PPM header that ends early")),
        }
    }
    let [width, height, depth] = numbers[..] else { return Err(Failure::new("a PPM header without a size")) };
    if depth != 255 {
        return Err(Failure::new(format!("a PPM of {depth} levels; 255 are read")));
    }
    let needed = i64::from(width) * i64::from(height) * channels;
    let data = file.get(at + 1..).unwrap_or_default();
    if needed < 1 || (data.len() as i64) < needed {
        return Err(Failure::new(format!("the data ends after {} of {needed} bytes", data.len())));
    }
    Ok(Pixels {
        height: height.into(),
        width: width.into(),
        channels,
        bytes: data[..needed as usize].to_vec(),
    })
}

/// Encodes a picture.
pub fn encode(pixels: &Pixels, format: ImageFormat) -> Result<Vec<u8>> {
    let fits = match format {
        ImageFormat::Png => 1..=4,
        ImageFormat::Jpeg | ImageFormat::Pnm => 1..=3,
    };
    let channels = pixels.channels;
    if !fits.contains(&channels) || channels == 2 && format != ImageFormat::Png {
        let text = format!("{channels} channels make no such picture; PNG has 1 to 4, JPEG and PPM 1 or 3");
        return Err(Failure::new(text));
    }
    let limit = if format == ImageFormat::Jpeg { i64::from(u16::MAX) } else { i64::from(i32::MAX) };
    if pixels.width > limit || pixels.height > limit {
        return Err(Failure::new(format!(
            "a picture of {}x{} pixels is too large for its format",
            pixels.width, pixels.height
        )));
    }
    let mut file = Vec::new();
    match format {
        ImageFormat::Png => {
            let mut encoder = png::Encoder::new(&mut file, pixels.width as u32, pixels.height as u32);
            encoder.set_color(match channels {
                1 => png::ColorType::Grayscale,
                2 => png::ColorType::GrayscaleAlpha,
                3 => png::ColorType::Rgb,
                _ => png::ColorType::Rgba,
            });
            encoder.set_depth(png::BitDepth::Eight);
            let mut writer = encoder.write_header().map_err(Failure::new)?;
            writer.write_image_data(&pixels.bytes).map_err(Failure::new)?;
            writer.finish().map_err(Failure::new)?;
        }
        ImageFormat::Jpeg => {
            let colour =
                if channels == 1 { jpeg_encoder::ColorType::Luma } else { jpeg_encoder::ColorType::Rgb };
            jpeg_encoder::Encoder::new(&mut file, JPEG_QUALITY)
                .encode(&pixels.bytes, pixels.width as u16, pixels.height as u16, colour)
                .map_err(Failure::new)?;
        }
        ImageFormat::Pnm => {
            let kind = if channels == 1 { "P5" } else { "P6" };
            file.extend(format!("{kind}\n{} {}\n255\n", pixels.width, pixels.height).bytes());
            file.extend(&pixels.bytes);
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(channels: i64) -> Pixels {
        let bytes = (0..7 * 5 * channels).map(|i| (i * 37 % 251) as u8).collect();
        Pixels { height: 5, width: 7, channels, bytes }
    }

    #[test]
    fn what_loses_nothing_survives() {
        for channels in 1..=4 {
            let pixels = picture(channels);
            let file = encode(&pixels, ImageFormat::Png).unwrap();
            assert_eq!(decode(&file, ImageFormat::Png).unwrap(), pixels);
            match encode(&pixels, ImageFormat::Pnm) {
                Ok(file) => assert_eq!(decode(&file, ImageFormat::Pnm).unwrap(), pixels),
                Err(_) => assert!(channels == 2 || channels == 4),
            }
        }
    }

    #[test]
    fn a_jpeg_comes_back_nearly() {
        let mut pixels = picture(3);
        pixels.bytes.fill(90);
        let back = decode(&encode(&pixels, ImageFormat::Jpeg).unwrap(), ImageFormat::Jpeg).unwrap();
        assert_eq!((back.height, back.width, back.channels), (5, 7, 3));
        assert!(back.bytes.iter().all(|byte| byte.abs_diff(90) <= 2));
    }

    #[test]
    fn headers_of_ppm_may_hold_comments() {
        let pixels = decode(b"P5 # grey\n2\n# rows\n1 255\nab", ImageFormat::Pnm).unwrap();
        assert_eq!(pixels, Pixels { height: 1, width: 2, channels: 1, bytes: b"ab".to_vec() });
        for wrong in
            [&b"P3 1 1 255 1 1 1"[..], b"P6 2 2 255\nabc", b"P6 2 2", b"P6 0 1 255\n", b"P5 1 1 65535\nab"]
        {
            assert!(decode(wrong, ImageFormat::Pnm).is_err());
        }
    }
}
