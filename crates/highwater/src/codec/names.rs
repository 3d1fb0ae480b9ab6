//! Which events an enum knows, learnt from serde.

use std::any::type_name;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use super::one_of::ONE_OF;
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

    /// The names that are chosen; `None` when all are.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names),
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
/// [`Invalid::KnownTwice`] and [`Invalid::KnowsEverything`] when it is a [`OneOf`](crate::codec::OneOf) whose enums know the same.
pub fn event_types<D: DeserializeOwned>() -> Result<EventTypes, Invalid> {
    match D::deserialize(Probe::All) {
        Err(ProbeAnswer::Names(names)) => Ok(EventTypes::only(names.iter().copied())),
        Err(ProbeAnswer::Accepted) => Ok(EventTypes::All),
        Err(ProbeAnswer::OfSeveral(known)) => Ok(EventTypes::only(known.iter().map(|known| known.name))),
        Err(ProbeAnswer::Invalid(invalid)) => Err(invalid),
        Ok(_) | Err(ProbeAnswer::Nothing) => Err(nameless::<D>()),
    }
}

fn nameless<D>() -> Invalid {
    Invalid::NotAnEvent(format!("{} gives no names of variants", type_name::<D>()))
}

/// Whether `D` knows an event type. Asked for each event of a [`OneOf`](crate::codec::OneOf), so nothing is allocated.
pub(super) fn knows<'de, D: Deserialize<'de>>(event_type: &str) -> bool {
    matches!(D::deserialize(Probe::Name(event_type)), Err(ProbeAnswer::Accepted))
}

/// Pretends to be data, to see what a type asks for. What it learns travels as the error that ends the attempt.
enum Probe<'a> {
    /// Which names there are.
    All,
    /// Whether this is one of them.
    Name(&'a str),
}

#[derive(Debug)]
enum ProbeAnswer {
    Names(&'static [&'static str]),
    /// The name that it was asked for; when no enum has that name, all names there are.
    Accepted,
    OfSeveral(Vec<Known>),
    Invalid(Invalid),
    Nothing,
}

/// A name, and the enum that knows it.
#[derive(Debug)]
struct Known {
    name: &'static str,
    by: &'static str,
}

impl fmt::Display for ProbeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for ProbeAnswer {}

impl de::Error for ProbeAnswer {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Nothing
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = ProbeAnswer;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeAnswer> {
        match self {
            Self::Name(event_type) => visitor.visit_enum(Variant(event_type)),
            Self::All if name == ONE_OF => {
                let mut members = Members(Vec::new());
                match visitor.visit_seq(&mut members) {
                    Err(invalid @ ProbeAnswer::Invalid(_)) => Err(invalid),
                    _ => Err(ProbeAnswer::OfSeveral(members.0)),
                }
            }
            // A variant that no enum has: only `#[serde(other)]` accepts it.
            Self::All => match visitor.visit_enum(Variant("\u{0}no such variant")) {
                Err(ProbeAnswer::Accepted) => Err(ProbeAnswer::Accepted),
                _ => Err(ProbeAnswer::Names(variants)),
            },
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ProbeAnswer> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeAnswer> {
        Err(ProbeAnswer::Nothing)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The names that the enums of a [`OneOf`](crate::codec::OneOf) know, gathered one enum after the other.
struct Members(Vec<Known>);

impl<'de> de::SeqAccess<'de> for Members {
    type Error = ProbeAnswer;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ProbeAnswer> {
        let by = type_name::<T::Value>();
        let new = match seed.deserialize(Probe::All) {
            Err(ProbeAnswer::Names(names)) => names.iter().map(|name| Known { name, by }).collect(),
            Err(ProbeAnswer::OfSeveral(known)) => known,
            Err(ProbeAnswer::Accepted) => return Err(ProbeAnswer::Invalid(Invalid::KnowsEverything(by))),
            Err(ProbeAnswer::Invalid(invalid)) => return Err(ProbeAnswer::Invalid(invalid)),
            Ok(_) | Err(ProbeAnswer::Nothing) => return Err(ProbeAnswer::Invalid(nameless::<T::Value>())),
        };
        for second in new {
            if let Some(first) = self.0.iter().find(|first| first.name == second.name) {
                let (event_type, first, second) = (first.name, first.by, second.by);
                return Err(ProbeAnswer::Invalid(Invalid::KnownTwice { event_type, first, second }));
            }
            self.0.push(second);
        }
        Ok(None)
    }
}

/// A variant of this name, to see whether it is accepted. It has no content.
struct Variant<'a>(&'a str);

impl<'de> de::EnumAccess<'de> for Variant<'_> {
    type Error = ProbeAnswer;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ProbeAnswer> {
        let name: de::value::StrDeserializer<'_, ProbeAnswer> = self.0.into_deserializer();
        match seed.deserialize(name) {
            Ok(_) => Err(ProbeAnswer::Accepted),
            Err(error) => Err(error),
        }
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_> {
    type Error = ProbeAnswer;

    fn unit_variant(self) -> Result<(), ProbeAnswer> {
        Err(ProbeAnswer::Nothing)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, ProbeAnswer> {
        Err(ProbeAnswer::Nothing)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, ProbeAnswer> {
        Err(ProbeAnswer::Nothing)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, ProbeAnswer> {
        Err(ProbeAnswer::Nothing)
    }
}
