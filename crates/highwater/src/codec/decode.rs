//! From a name and a content back to a variant.

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, Visitor};
use serde_json::Error;

use super::one_of::ONE_OF;

/// Decodes `data` as the variant of `D` that is called `event_type`.
pub(super) fn decode_variant<D: DeserializeOwned>(event_type: &str, data: &str) -> Result<D, Error> {
    D::deserialize(Variant { event_type, data })
}

struct Variant<'a> {
    event_type: &'a str,
    data: &'a str,
}

impl<'de> Deserializer<'de> for Variant<'de> {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A name outside the list that serde still accepts is caught by `#[serde(other)]`, which ignores the content.
        let ignore_content = name != ONE_OF && !variants.contains(&self.event_type);
        visitor.visit_enum(Access { variant: self, ignore_content })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("events are read into enums with serde's default (external) tagging"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Access<'a> {
    variant: Variant<'a>,
    ignore_content: bool,
}

impl<'de> de::EnumAccess<'de> for Access<'de> {
    type Error = Error;
    type Variant = Content<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'de>), Error> {
        let name = de::value::BorrowedStrDeserializer::new(self.variant.event_type);
        Ok((seed.deserialize(name)?, Content { data: self.variant.data, ignore: self.ignore_content }))
    }
}

struct Content<'a> {
    data: &'a str,
    ignore: bool,
}

impl<'de> Content<'de> {
    /// Reads all of the content; something left over is an error.
    fn read<T>(
        self,
        read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::StrRead<'de>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut json = serde_json::Deserializer::from_str(self.data);
        let value = read(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

impl<'de> de::VariantAccess<'de> for Content<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if self.ignore {
            return Ok(());
        }
        self.read(|json| de::Deserialize::deserialize(json))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.read(|json| seed.deserialize(json))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.read(|json| json.deserialize_tuple(len, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.read(|json| json.deserialize_struct("", fields, visitor))
    }
}
