//! Headers of .npy files, versions 1 to 3 of the format that NumPy documents
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use cudnn::dtype::DataType;

use crate::{Failure, Result};

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The element type.
    pub data_type: DataType,
    /// Whether the first axis is the fastest.
    pub fortran: bool,
    /// Extents of the axes.
    pub shape: Vec<i64>,
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// The types that NumPy has, by their names in headers; bool, half and the like have no byte order
/// that matters.
const TYPES: [(&str, DataType); 8] = [
    ("f4", DataType::Float),
    ("f8", DataType::Double),
    ("f2", DataType::Half),
    ("i1", DataType::Int8),
    ("u1", DataType::Uint8),
    ("i4", DataType::Int32),
    ("i8", DataType::Int64),
    ("b1", DataType::Boolean),
];

impl Header {
    /// Reads a header; also where the data begins. `bits` is the type of elements for which NumPy
    /// has no name, whose bits the file holds.
    pub fn parse(file: &[u8], bits: Option<DataType>) -> Result<(Header, usize)> {
        let cut = || Failure::new("a .npy header that ends early");
        if !file.starts_with(MAGIC) {
            return Err(Failure::new("no .npy file: it does not begin with \\x93NUMPY"));
        }
        let major = *file.get(6).ok_or_else(cut)?;
        let (from, len) = match major {
            1 => (
                10,
                u16::from_le_bytes(file.get(8..10).ok_or_else(cut)?.try_into().map_err(|_| cut())?).into(),
            ),
            2 | 3 => (
                12,
                u32::from_le_bytes(file.get(8..12).ok_or_else(cut)?.try_into().map_err(|_| cut())?) as usize,
            ),
            other => return Err(Failure::new(format!(".npy version {other} is not known; 1 to 3 are"))),
        };
        let text = file.get(from..).and_then(|rest| rest.get(..len)).ok_or_else(cut)?;
        let text = std::str::from_utf8(text).map_err(|_| Failure::new("a .npy header that is no text"))?;
        Ok((Header::read(text, bits)?, from + len))
    }

    /// Reads the dictionary, a Python literal with three known keys.
    fn read(text: &str, bits: Option<DataType>) -> Result<Header> {
        let value = |key: &str| {
            let at = text.find(&format!("'{key}'")).or_else(|| text.find(&format!("\"{key}\"")));
            let rest = at.map(|at| text[at + key.len() + 2..].trim_start());
            rest.and_then(|rest| rest.strip_prefix(':'))
                .map(str::trim_start)
                .ok_or_else(|| Failure::new(format!("a .npy header without '{key}'")))
        };
        let descr = value("descr")?;
        let quote = descr.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let Some(quote) = quote else {
            return Err(Failure::new("a .npy file of records; this tool takes arrays of numbers"));
        };
        let descr = descr[1..].split(quote).next().unwrap_or_default();
        let fortran = match value("fortran_order")? {
            rest if rest.starts_with("True") => true,
            rest if rest.starts_with("False") => false,
            _ => return Err(Failure::new("a .npy header whose fortran_order is neither True nor False")),
        };
        let shape = value("shape")?;
        let inside = shape.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(inside, _)| inside);
        let words = inside.unwrap_or("?").split(',').map(str::trim).filter(|word| !word.is_empty());
        let shape = words
            .map(|word| word.parse::<i64>().ok().filter(|&extent| extent >= 0))
            .collect::<Option<Vec<_>>>();
        let shape = shape.ok_or_else(|| Failure::new("a .npy header whose shape is no tuple of extents"))?;
        Ok(Header { data_type: data_type(descr, bits)?, fortran, shape })
    }

    /// The header of a file in C order, padded as NumPy does, so that the data begins on a multiple
    /// of 64 bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let descr = descr(self.data_type)?;
        let shape: String = self.shape.iter().map(|extent| format!("{extent}, ")).collect();
        let shape = if self.shape.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
        let len = (10 + text.len() + 1).next_multiple_of(64) - 10;
        let mut bytes = [MAGIC, &[1, 0], &(len as u16).to_le_bytes()].concat();
        bytes.extend(format!("{text:<width$}\n", width = len - 1).bytes());
        Ok(bytes)
    }
}

fn data_type(descr: &str, bits: Option<DataType>) -> Result<DataType> {
    let (order, name) = descr.split_at(descr.find(|c: char| !"<>=|".contains(c)).unwrap_or(0));
    if name.starts_with('O') {
        return Err(Failure::new("a .npy file of pickled Python objects; this tool takes arrays of numbers"));
    }
    if let Some(bits) = bits {
        let size = name.get(1..).and_then(|digits| digits.parse::<usize>().ok());
        if !name.starts_with(['u', 'i', 'V', 'f']) || size != Some(bits.size()) {
            return Err(Failure::new(format!(
                "--from-type: elements of {} bytes, but the file's type is '{descr}'",
                bits.size()
            )));
        }
    }
    let found =
        bits.or_else(|| TYPES.iter().find(|(known, _)| *known == name).map(|&(_, data_type)| data_type));
    let data_type = found.ok_or_else(|| {
        Failure::new(format!("a .npy file of type '{descr}', for which there is no tensor type"))
    })?;
    if order == ">" && data_type.size() > 1 {
        return Err(Failure::new(format!(
            "a .npy file of type '{descr}': big-endian; NumPy's byteswap makes it little"
        )));
    }
    Ok(data_type)
}

/// How a header names a type. NumPy has no bfloat16 and no FP8: their bits go as unsigned integers
/// of the same size.
fn descr(data_type: DataType) -> Result<String> {
    Ok(match data_type {
        DataType::Bfloat16 => "<u2".to_owned(),
        DataType::Fp8E4m3 | DataType::Fp8E5m2 => "|u1".to_owned(),
        _ => {
            let name = TYPES.iter().find(|(_, known)| *known == data_type).map(|(name, _)| *name);
            let name = name.ok_or_else(|| Failure::new("a .npy file has one number per element"))?;
            format!("{}{name}", if data_type.size() == 1 { "|" } else { "<" })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Header> {
        let mut file = [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes()].concat();
        file.extend(text.bytes());
        Header::parse(&file, None).map(|(header, at)| {
            assert_eq!(at, file.len());
            header
        })
    }

    #[test]
    fn headers_survive_writing() {
        for (data_type, shape) in
            [(DataType::Float, vec![2, 3, 4, 5]), (DataType::Int8, vec![7]), (DataType::Half, vec![])]
        {
            let header = Header { data_type, fortran: false, shape };
            let bytes = header.to_bytes().unwrap();
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(Header::parse(&bytes, None).unwrap(), (header, bytes.len()));
        }
    }

    #[test]
    fn headers_of_other_writers_are_read() {
        let header = read("{\"shape\": (3,4), 'fortran_order':True,'descr':'=f8'}").unwrap();
        assert_eq!(header, Header { data_type: DataType::Double, fortran: true, shape: vec![3, 4] });
    }

    #[test]
    fn what_is_no_array_of_numbers_is_named() {
        for (text, word) in [
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "pickled"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "records"),
            ("{'descr': '>f4', 'fortran_order': False, 'shape': (3,)}", "big-endian"),
            ("{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "no tensor type"),
            ("{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}", "fortran_order"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,-1)}", "shape"),
            ("{'descr': '<f4', 'fortran_order': False}", "shape"),
        ] {
            let Failure(said) = read(text).unwrap_err();
            assert!(said.contains(word), "{said}");
        }
        assert!(Header::parse(b"\x93NUMPY\x01\x00\xff\xff{", None).is_err());
        assert!(Header::parse(b"PK", None).is_err());
    }
}
