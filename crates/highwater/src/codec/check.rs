//! What must not be stored, because it would not come back.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde::ser::{self, Serialize, Serializer};

use serde_json::value::RawValue;

use crate::Invalid;

/// How deeply arrays and objects may be nested: what `serde_json` is willing to read back.
const DEPTH_MAX: usize = 127;

/// Refuses JSON text that would be stored and not come back: nested too deeply, with half a surrogate pair, or with an
/// escaped NUL, which PostgreSQL's `json` stores and then fails whenever it is looked into.
pub(crate) fn check_text(what: &'static str, json: &str) -> Result<(), Invalid> {
    let escapes = json.as_bytes().contains(&b'\\');
    check_nul(what, json, escapes)?;
    let brackets = json.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    // Our own serializer never escapes surrogates, and few events have this many brackets: a closer look is rare.
    if brackets > DEPTH_MAX || escapes && (json.contains("\\ud") || json.contains("\\uD")) {
        check_value(json, 0).map_err(Invalid::NotJson)?;
    }
    Ok(())
}

/// Refuses a caller's text that is not JSON, or not such as can be read back. Numbers may be of any size: that is for the
/// reader's types.
pub(crate) fn check_json(what: &'static str, json: &str) -> Result<(), Invalid> {
    check_nul(what, json, json.as_bytes().contains(&b'\\'))?;
    check_value(json, 0).map_err(Invalid::NotJson)
}

fn check_value(json: &str, depth: usize) -> Result<(), String> {
    fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }
    let open = json.trim_start().bytes().next();
    if depth == DEPTH_MAX && matches!(open, Some(b'{' | b'[')) {
        return Err(format!("it is nested more than {DEPTH_MAX} deep"));
    }
    match open {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = parse(json)?;
            members.values().try_for_each(|value| check_value(value.get(), depth + 1))
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = parse(json)?;
            elements.iter().try_for_each(|value| check_value(value.get(), depth + 1))
        }
        Some(b'"') => parse::<String>(json).map(drop),
        _ => parse::<IgnoredAny>(json).map(drop),
    }
}

/// Looks for an escaped NUL only where there are `escapes` at all: most events have none, and searching takes longer than
/// all the other checks together.
fn check_nul(what: &'static str, json: &str, escapes: bool) -> Result<(), Invalid> {
    const NUL: &str = "\\u0000";
    let mut rest = if escapes { json } else { "" };
    while let Some(at) = rest.find(NUL) {
        let backslashes = rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        // After an odd number of backslashes this one is itself escaped, and the text merely looks like a NUL.
        if backslashes % 2 == 0 {
            return Err(Invalid::NulCharacter(what));
        }
        rest = &rest[at + NUL.len()..];
    }
    if json.as_bytes().contains(&0) {
        return Err(Invalid::NulCharacter(what));
    }
    Ok(())
}

/// Refuses NaN and infinities, wherever they are inside: `serde_json` would write `null`.
pub(super) fn check_finite<D: Serialize + ?Sized>(value: &D) -> Result<(), Invalid> {
    match value.serialize(Finite) {
        Err(NotFinite::Found(number)) => Err(Invalid::NotFinite(number)),
        // Whatever else a type may complain of, it will complain of again when it is written.
        Ok(()) | Err(NotFinite::Other) => Ok(()),
    }
}

/// Walks through a value, writes nothing and looks at the floats.
#[derive(Clone, Copy)]
struct Finite;

#[derive(Debug)]
enum NotFinite {
    Found(String),
    Other,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(number) => f.write_str(number),
            Self::Other => f.write_str("not serializable"),
        }
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }
}

type Checked = Result<(), NotFinite>;

fn check_float(number: f64) -> Checked {
    if number.is_finite() { Ok(()) } else { Err(NotFinite::Found(number.to_string())) }
}

/// Values without anything inside.
macro_rules! harmless {
    ($($method:ident($($ty:ty),*);)*) => { $(fn $method(self $(, _: $ty)*) -> Checked { Ok(()) })* };
}

/// Containers: they are their own walker.
macro_rules! container {
    ($($method:ident($($ty:ty),*);)*) => { $(fn $method(self $(, _: $ty)*) -> Result<Self, NotFinite> { Ok(self) })* };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn serialize_f32(self, number: f32) -> Checked {
        check_float(number.into())
    }

    fn serialize_f64(self, number: f64) -> Checked {
        check_float(number)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Checked {
        Ok(())
    }

    harmless! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    container! {
        serialize_seq(Option<usize>);
        serialize_tuple(usize);
        serialize_tuple_struct(&'static str, usize);
        serialize_tuple_variant(&'static str, u32, &'static str, usize);
        serialize_map(Option<usize>);
        serialize_struct(&'static str, usize);
        serialize_struct_variant(&'static str, u32, &'static str, usize);
    }
}

macro_rules! walk {
    ($($trait:ident :: $method:ident($($key:ty)?);)*) => { $(
        impl ser::$trait for Finite {
            type Ok = ();
            type Error = NotFinite;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Checked {
                value.serialize(*self)
            }

            fn end(self) -> Checked {
                Ok(())
            }
        }
    )* };
}

walk! {
    SerializeSeq::serialize_element();
    SerializeTuple::serialize_element();
    SerializeTupleStruct::serialize_field();
    SerializeTupleVariant::serialize_field();
    SerializeStruct::serialize_field(&'static str);
    SerializeStructVariant::serialize_field(&'static str);
}

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Checked {
        key.serialize(*self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        value.serialize(*self)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_nul_is_found_and_its_lookalike_is_not() {
        assert!(check_text("it", r#""a\u0000b""#).is_err());
        assert!(check_text("it", r#""a\\\u0000b""#).is_err());
        assert!(check_text("it", r#""a\\u0000b""#).is_ok());
        assert!(check_text("it", r#""a\\u0000\u0000""#).is_err());
        assert!(check_text("it", "\"a\0b\"").is_err());
    }
}
