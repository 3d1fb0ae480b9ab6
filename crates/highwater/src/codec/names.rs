//! Which events an enum knows, learnt from serde.

use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use crate::Invalid;

/// A choice of event types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventTypes {
    /// Every type.
    All,
    /// These types and no others.
    Only(Vec<String>),
}

impl EventTypes {
    /// These types and no others.
    pub fn only<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self::Only(types.into_iter().map(Into::into).collect())
    }

    /// Whether a type is chosen.
    #[must_use]
    pub fn contains(&self, event_type: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(types) => types.iter().any(|known| known == event_type),
        }
    }

    /// What both choose.
    #[must_use]
    pub(crate) fn intersection(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, types) | (types, Self::All) => types,
            (Self::Only(mut types), other) => {
                types.retain(|event_type| other.contains(event_type));
                Self::Only(types)
            }
        }
    }
}

/// The event types that `D` knows: its variants' names, renames and aliases included. An enum with `#[serde(other)]`
/// knows them all.
///
/// ```
/// use highwater::{EventTypes, codec::event_types};
/// #[derive(serde::Deserialize)]
/// enum Order { Placed, #[serde(rename = "order-shipped")] Shipped }
/// assert_eq!(event_types::<Order>()?, EventTypes::only(["Placed", "order-shipped"]));
/// # Ok::<(), highwater::Invalid>(())
/// ```
///
/// # Errors
/// [`Invalid::NotAnEvent`] when `D` is no enum, or one that serde does not tag externally: such a type has no names.
pub fn event_types<D: DeserializeOwned>() -> Result<EventTypes, Invalid> {
    match D::deserialize(Probe) {
        Err(Found::Names(names)) => Ok(EventTypes::only(names.iter().copied())),
        Err(Found::Everything) => Ok(EventTypes::All),
        Ok(_) | Err(Found::Nothing) => {
            Err(Invalid::NotAnEvent(format!("{} gives no names of variants", std::any::type_name::<D>())))
        }
    }
}

/// Pretends to be data, to see what a type asks for. What it learns travels as the error that ends the attempt.
struct Probe;

#[derive(Debug)]
enum Found {
    Names(&'static [&'static str]),
    Everything,
    Nothing,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Found {}

impl de::Error for Found {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Nothing
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Found;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Found> {
        match visitor.visit_enum(NoSuchVariant) {
            Err(Found::Everything) => Err(Found::Everything),
            _ => Err(Found::Names(variants)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::Nothing)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant that no enum has: only `#[serde(other)]` accepts it.
struct NoSuchVariant;

impl<'de> de::EnumAccess<'de> for NoSuchVariant {
    type Error = Found;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Found> {
        let name: de::value::StrDeserializer<'_, Found> = "\u{0}no such variant".into_deserializer();
        match seed.deserialize(name) {
            Ok(_) => Err(Found::Everything),
            Err(error) => Err(error),
        }
    }
}

impl<'de> de::VariantAccess<'de> for NoSuchVariant {
    type Error = Found;

    fn unit_variant(self) -> Result<(), Found> {
        Err(Found::Nothing)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Found> {
        Err(Found::Nothing)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Found> {
        Err(Found::Nothing)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Found> {
        Err(Found::Nothing)
    }
}
