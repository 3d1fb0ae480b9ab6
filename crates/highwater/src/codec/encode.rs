//! From a variant to its name and its content.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, SerializeStruct, SerializeTuple, Serializer};

use super::check;
use crate::Invalid;

/// A variant taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The variant's name.
    pub event_type: &'static str,
    /// Its content as JSON text.
    pub data: String,
}

/// Takes a variant apart.
///
/// # Errors
/// [`Invalid`] when `value` is not a variant of an externally tagged enum, or holds what JSON cannot.
pub fn encode<D: Serialize + ?Sized>(value: &D) -> Result<Encoded, Invalid> {
    check::check_finite(value)?;
    let mut json = serde_json::Serializer::new(Vec::with_capacity(256));
    let event_type = value.serialize(Variant(&mut json)).map_err(|refused| match refused {
        EncodeFailure::NotAVariant(what) => Invalid::NotAnEvent(format!("this is {what}")),
        EncodeFailure::Json(reason) => Invalid::NotJson(reason),
    })?;
    let data = String::from_utf8(json.into_inner()).expect("serde_json writes UTF-8");
    check::check_text("the data", &data)?;
    Ok(Encoded { event_type, data })
}

/// The name of a variant.
///
/// # Errors
/// As [`encode`].
pub fn event_type_of<D: Serialize + ?Sized>(value: &D) -> Result<&'static str, Invalid> {
    encode(value).map(|encoded| encoded.event_type)
}

type Json = serde_json::Serializer<Vec<u8>>;

/// Writes a variant's content to the inner serializer and answers with its name.
struct Variant<'a>(&'a mut Json);

enum EncodeFailure {
    NotAVariant(&'static str),
    Json(String),
}

impl From<serde_json::Error> for EncodeFailure {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl fmt::Debug for EncodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for EncodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAVariant(what) => f.write_str(what),
            Self::Json(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for EncodeFailure {}

impl ser::Error for EncodeFailure {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::Json(reason.to_string())
    }
}

/// A tuple or struct variant whose fields are being written.
struct Fields<C> {
    variant: &'static str,
    inner: C,
}

impl<C: SerializeTuple<Error = serde_json::Error>> ser::SerializeTupleVariant for Fields<C> {
    type Ok = &'static str;
    type Error = EncodeFailure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeFailure> {
        Ok(self.inner.serialize_element(value)?)
    }

    fn end(self) -> Result<&'static str, EncodeFailure> {
        self.inner.end()?;
        Ok(self.variant)
    }
}

impl<C: SerializeStruct<Error = serde_json::Error>> ser::SerializeStructVariant for Fields<C> {
    type Ok = &'static str;
    type Error = EncodeFailure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), EncodeFailure> {
        Ok(self.inner.serialize_field(key, value)?)
    }

    fn skip_field(&mut self, key: &'static str) -> Result<(), EncodeFailure> {
        Ok(self.inner.skip_field(key)?)
    }

    fn end(self) -> Result<&'static str, EncodeFailure> {
        self.inner.end()?;
        Ok(self.variant)
    }
}

/// Refuses everything that is not an enum's variant, by the name of what it is.
macro_rules! not_a_variant {
    ($($method:ident($($ty:ty)?) = $what:literal;)*) => {
        $(fn $method(self $(, _: $ty)?) -> Result<Self::Ok, EncodeFailure> { Err(EncodeFailure::NotAVariant($what)) })*
    };
}

type Never = Impossible<&'static str, EncodeFailure>;

impl<'a> Serializer for Variant<'a> {
    type Ok = &'static str;
    type Error = EncodeFailure;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Fields<<&'a mut Json as Serializer>::SerializeTuple>;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Fields<<&'a mut Json as Serializer>::SerializeStruct>;

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Self::Ok, EncodeFailure> {
        self.0.serialize_unit()?;
        Ok(variant)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Self::Ok, EncodeFailure> {
        value.serialize(self.0)?;
        Ok(variant)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, EncodeFailure> {
        Ok(Fields { variant, inner: self.0.serialize_tuple(len)? })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, EncodeFailure> {
        Ok(Fields { variant, inner: self.0.serialize_struct(name, len)? })
    }

    /// `struct Events(Enum)` is as good as the enum.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, EncodeFailure> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Self::Ok, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("an Option"))
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("a unit struct"))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Never, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("a sequence"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("a tuple"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("a tuple struct"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Never, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("a map"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never, EncodeFailure> {
        Err(EncodeFailure::NotAVariant("a struct, or an enum tagged in another way"))
    }

    not_a_variant! {
        serialize_bool(bool) = "a bool";
        serialize_i8(i8) = "a number";
        serialize_i16(i16) = "a number";
        serialize_i32(i32) = "a number";
        serialize_i64(i64) = "a number";
        serialize_i128(i128) = "a number";
        serialize_u8(u8) = "a number";
        serialize_u16(u16) = "a number";
        serialize_u32(u32) = "a number";
        serialize_u64(u64) = "a number";
        serialize_u128(u128) = "a number";
        serialize_f32(f32) = "a number";
        serialize_f64(f64) = "a number";
        serialize_char(char) = "a char";
        serialize_str(&str) = "a string";
        serialize_bytes(&[u8]) = "bytes";
        serialize_none() = "an Option";
        serialize_unit() = "a unit";
    }
}
