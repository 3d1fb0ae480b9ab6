//! Several enums as one.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::names::knows;

/// The name by which the codec recognises a [`OneOf`]. No enum is called so: it is not an identifier.
pub(super) const ONE_OF: &str = "highwater::OneOf";

/// An event of one of two enums. It is used wherever an enum is, so that one projection handles the events of several kinds
/// of streams.
///
/// ```
/// use highwater::prelude::*;
/// # #[derive(serde::Serialize, serde::Deserialize)] enum Bike { Rented { by: String }, Returned }
/// # #[derive(serde::Serialize, serde::Deserialize)] enum Customer { Joined { name: String } }
/// # async fn example(bus: MemoryEventBus) -> Result<(), highwater::Error> {
/// bus.subscribe(observer_fn("projection:rentals", |event: Event<OneOf<Bike, Customer>>| async move {
///     match &event.data {
///         OneOf::First(Bike::Rented { by }) => println!("{by} rents {}", event.stream()),
///         OneOf::First(Bike::Returned) => println!("{} is back", event.stream()),
///         OneOf::Second(Customer::Joined { name }) => println!("{name} is a customer"),
///     }
///     Ok(())
/// }))
/// .await?;
/// # Ok(()) }
/// ```
///
/// For more than two it is nested: `OneOf<Bike, OneOf<Customer, Invoice>>`, whose invoices are
/// `OneOf::Second(OneOf::Second(invoice))`.
///
/// The event types are those of both enums. One that both know would belong to either, and is
/// [`Invalid::KnownTwice`](crate::Invalid::KnownTwice) before anything is read; rename it in one of them. An enum with
/// `#[serde(other)]` knows every type, and is [`Invalid::KnowsEverything`](crate::Invalid::KnowsEverything) here.
///
/// To serde it looks as the enum inside it does, in every format that writes the names of variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OneOf<A, B> {
    /// An event of the first enum.
    First(A),
    /// An event of the second enum.
    Second(B),
}

impl<A: Serialize, B: Serialize> Serialize for OneOf<A, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::First(event) => event.serialize(serializer),
            Self::Second(event) => event.serialize(serializer),
        }
    }
}

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for OneOf<A, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The names are not known here: each enum has its own list, and says itself whether it knows a name.
        deserializer.deserialize_enum(ONE_OF, &[], Either(PhantomData))
    }
}

/// Reads an event as the enum that knows its name.
struct Either<A, B>(PhantomData<(A, B)>);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for Either<A, B> {
    type Value = OneOf<A, B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a variant of one of the enums")
    }

    fn visit_enum<V: de::EnumAccess<'de>>(self, access: V) -> Result<Self::Value, V::Error> {
        let (name, content) = access.variant_seed(Choose::<A, B>(PhantomData))?;
        match name {
            OneOf::First(name) => A::deserialize(Named { name, content }).map(OneOf::First),
            OneOf::Second(name) => B::deserialize(Named { name, content }).map(OneOf::Second),
        }
    }

    /// The codec shows the enums to whatever looks for their names. There is no event in this.
    fn visit_seq<S: SeqAccess<'de>>(self, mut members: S) -> Result<Self::Value, S::Error> {
        members.next_element::<A>()?;
        members.next_element::<B>()?;
        Err(de::Error::custom("there is no event here"))
    }
}

/// Reads a name, and finds out which enum knows it.
struct Choose<A, B>(PhantomData<(A, B)>);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Choose<A, B> {
    fn choose<E: de::Error>(name: &str) -> Result<OneOf<&str, &str>, E> {
        match (knows::<A>(name), knows::<B>(name)) {
            (true, false) => Ok(OneOf::First(name)),
            (false, true) => Ok(OneOf::Second(name)),
            (false, false) => Err(E::unknown_variant(name, &[])),
            (true, true) => Err(E::custom(format_args!("two enums of a OneOf know the event type {name:?}"))),
        }
    }
}

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> DeserializeSeed<'de> for Choose<A, B> {
    type Value = OneOf<Cow<'de, str>, Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for Choose<A, B> {
    type Value = OneOf<Cow<'de, str>, Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a variant")
    }

    fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(match Self::choose(name)? {
            OneOf::First(name) => OneOf::First(Cow::Borrowed(name)),
            OneOf::Second(name) => OneOf::Second(Cow::Borrowed(name)),
        })
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(match Self::choose(name)? {
            OneOf::First(name) => OneOf::First(Cow::Owned(name.to_owned())),
            OneOf::Second(name) => OneOf::Second(Cow::Owned(name.to_owned())),
        })
    }
}

/// A variant whose name was read already, and its content not yet.
struct Named<'de, C> {
    name: Cow<'de, str>,
    content: C,
}

impl<'de, C: de::VariantAccess<'de>> Deserializer<'de> for Named<'de, C> {
    type Error = C::Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, C::Error> {
        visitor.visit_enum(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, C::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, C::Error> {
        Err(de::Error::custom("a OneOf consists of enums with serde's default (external) tagging"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de, C: de::VariantAccess<'de>> de::EnumAccess<'de> for Named<'de, C> {
    type Error = C::Error;
    type Variant = C;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, C), C::Error> {
        let name = match self.name {
            Cow::Borrowed(name) => seed.deserialize(de::value::BorrowedStrDeserializer::new(name)),
            Cow::Owned(name) => seed.deserialize(name.into_deserializer()),
        };
        Ok((name?, self.content))
    }
}
