//! A reader of JSON texts, which come from the caller: bounded in depth and number of values.

/// Deepest nesting that is read.
const MOST_DEPTH: usize = 32;
/// Most values of a text.
const MOST_VALUES: usize = 1 << 20;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(f64),
    /// An integer that a number does not hold.
    Whole(i64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; of two fields of one name the last counts.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A field of an object.
    pub fn field(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => {
                fields.iter().rev().find(|(field, _)| field == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Json::Whole(number) => Some(*number),
            // Beyond the integers of 64 bits is what would not come back as it went.
            Json::Number(number) => Some(*number as i64).filter(|&whole| whole as f64 == *number),
            _ => None,
        }
    }

    /// The characters, if it is a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, 0 for anything else.
    pub fn number(&self) -> f64 {
        match self {
            Json::Number(number) => *number,
            Json::Whole(number) => *number as f64,
            _ => 0.0,
        }
    }
}

/// Reads a text.
///
/// # Errors
/// What is wrong, and at which byte.
pub fn read(text: &[u8]) -> Result<Json, String> {
    let mut reader = Reader { text, at: 0, values: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at < text.len() { Err(reader.wrong("more after the value")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    values: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    /// Takes the next byte if it is this one.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(&format!("{:?} expected", byte as char))) }
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.values += 1;
        if depth > MOST_DEPTH || self.values > MOST_VALUES {
            return Err(self.wrong("too deep or too long"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.digits(),
            _ => Err(self.wrong("a value expected")),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, String> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.wrong("a value expected"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn digits(&mut self) -> Result<Json, String> {
        let start = self.at;
        while self.peek().is_some_and(|byte| b"+-.eE0123456789".contains(&byte)) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[start..self.at]).unwrap_or("");
        if let Some(whole) = digits.parse().ok().filter(|&whole: &i64| (whole as f64) as i128 != whole.into())
        {
            return Ok(Json::Whole(whole));
        }
        let number = digits.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Json::Number).ok_or_else(|| self.wrong("a number expected"))
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.expect(b'{')?;
        let mut fields = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(fields));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.expect(b':')?;
            fields.push((name, self.value(depth + 1)?));
            if self.take(b'}') {
                return Ok(Json::Object(fields));
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            let byte = self.peek().ok_or_else(|| self.wrong("the text ends in a string"))?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(bytes).map_err(|_| self.wrong("a string is not UTF-8")),
                b'\\' => self.escape(&mut bytes)?,
                0..=0x1f => return Err(self.wrong("a control character in a string")),
                _ => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let byte = self.peek().ok_or_else(|| self.wrong("the text ends in a string"))?;
        self.at += 1;
        bytes.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.code_point(bytes),
            _ => return Err(self.wrong("an unknown escape")),
        });
        Ok(())
    }

    fn code_point(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let digits = self.text.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        // Halves of surrogate pairs become the replacement character.
        let letter = code.map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        let letter = letter.ok_or_else(|| self.wrong("four hexadecimal digits expected"))?;
        self.at += 4;
        bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds_are_read() {
        let value = read(br#" {"a": [1, -2.5e1, true, null], "b\u00e4": "x\n\"", "a": {}} "#).unwrap();
        assert_eq!(value.field("b\u{e4}"), Some(&Json::Text("x\n\"".to_owned())));
        assert_eq!(value.field("a"), Some(&Json::Object(Vec::new())), "the last of two fields counts");
        let Json::Object(fields) = &value else { panic!("an object") };
        assert_eq!(
            fields[0].1,
            Json::List(vec![Json::Number(1.0), Json::Number(-25.0), Json::Bool(true), Json::Null])
        );
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\" 1}",
            "1 2",
            "\"\\x\"",
            "\"",
            "nul",
            "-",
            "1e999",
            "\"\\u00g0\"",
            "\u{1}",
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains("at byte"), "{text:?}: {error}");
        }
        let deep = [b"[".repeat(1000), b"]".repeat(1000)].concat();
        assert!(read(&deep).unwrap_err().starts_with("too deep"));
    }
}
