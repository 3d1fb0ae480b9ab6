//! How streams are called: by an id, and by a name where the caller has one.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use uuid::{Uuid, uuid};

use crate::Invalid;

/// Under which stream names become ids. Never changes: it would move every named stream.
const STREAM_NAMES: Uuid = uuid!("6f0c1c52-6a0e-5b0e-9a57-0c8e2f4d7a11");

/// How many bytes a name may have, kind and slash included.
pub(crate) const NAME_BYTES_MAX: usize = 127;

/// The stream that people call by a kind and a key: `stream_id("order", "17")` is `order/17`.
///
/// Its id follows from both and never changes. Its name is stored with its events, so that tools, errors and logs say
/// `order/17`, and subscribers can ask for streams [of some kinds](crate::SubscriberOptions::of_kinds).
///
/// ```
/// use highwater::stream_id;
/// assert_eq!(stream_id("order", "17").to_string(), "order/17");
/// assert_eq!(stream_id("order", "17").id(), stream_id("order", "17").id());
/// assert_ne!(stream_id("order-1", "7"), stream_id("order", "1-7"));
/// ```
#[must_use]
pub fn stream_id(kind: &str, key: &str) -> StreamId {
    // The length keeps ("ab", "c") and ("a", "bc") apart.
    let id = Uuid::new_v5(&STREAM_NAMES, format!("{}:{kind}:{key}", kind.len()).as_bytes());
    StreamId { id, name: Inline::new(kind, key) }
}

/// A stream: its id, and its name where the caller has one. Whatever takes a stream takes a [`Uuid`] as well.
///
/// A stream keeps the name that its first event brought. What is appended to it by its id alone gets that name too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StreamId {
    id: Uuid,
    name: Inline,
}

impl StreamId {
    /// A stream of a kind whose id the application chose. It is called by both: `order/018f…`. It is not the stream of
    /// `stream_id("order", &id.to_string())`, whose id follows from the text and which would have the same name: use one of the two.
    ///
    /// ```
    /// use highwater::{Append, StreamId};
    /// use uuid::Uuid;
    /// # #[derive(serde::Serialize)] enum Order { Placed }
    /// let order = Uuid::now_v7();
    /// let append = Append::to(StreamId::of_kind("order", order)).event(Order::Placed);
    /// assert_eq!(append.streams()[0].0, order);
    /// ```
    #[must_use]
    pub fn of_kind(kind: &str, id: Uuid) -> Self {
        let mut key = Uuid::encode_buffer();
        Self { id, name: Inline::new(kind, id.hyphenated().encode_lower(&mut key)) }
    }

    /// A stream by its id, and the name it has in a log. One that is longer than the library's own, as another writer may have
    /// stored it, is left out: the stream keeps it.
    #[must_use]
    pub fn with_name(id: Uuid, name: Option<&StreamName>) -> Self {
        match name.map(|name| Inline::of(name.as_str())) {
            None | Some(Inline::Refused(_)) => id.into(),
            Some(name) => Self { id, name },
        }
    }

    /// What the log knows it by.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// What people call it.
    ///
    /// # Errors
    /// [`Invalid::StreamName`] when it was given one that cannot be stored.
    pub fn name(&self) -> Result<Option<StreamName>, Invalid> {
        let name = match &self.name {
            Inline::None => return Ok(None),
            Inline::Refused(start) => return Err(StreamName::from(start.text().as_ref()).refused(self.id)),
            Inline::Name(name) => name,
        };
        Ok(Some(StreamName::from(name.text().as_ref())))
    }
}

/// In place, so that a stream's id can be copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inline {
    None,
    Name(Text),
    /// It was given one that is no name, or begins so. Said when something is appended.
    Refused(Text),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Text {
    length: u8,
    bytes: [u8; NAME_BYTES_MAX],
}

impl Text {
    fn new(text: &str) -> Self {
        let text = cut(text);
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self { length: u8::try_from(text.len()).unwrap_or(u8::MAX), bytes }
    }

    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes[..usize::from(self.length)])
    }
}

impl Inline {
    fn new(kind: &str, key: &str) -> Self {
        let sound = |part: &str| !part.is_empty() && !part.chars().any(char::is_control);
        let name = format!("{kind}/{key}");
        match sound(kind) && sound(key) && !kind.contains('/') {
            true => Self::of(&name),
            false => Self::Refused(Text::new(&name)),
        }
    }

    fn of(name: &str) -> Self {
        match name.len() <= NAME_BYTES_MAX {
            true => Self::Name(Text::new(name)),
            false => Self::Refused(Text::new(name)),
        }
    }
}

/// As much of a name as there is room for.
fn cut(name: &str) -> Cow<'_, str> {
    match name.len() <= NAME_BYTES_MAX {
        true => name.into(),
        false => format!("{}…", &name[..name.floor_char_boundary(NAME_BYTES_MAX - '…'.len_utf8())]).into(),
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Ok(Some(name)) => name.fmt(f),
            _ => self.id.fmt(f),
        }
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Ok(Some(name)) => write!(f, "{name} ({})", self.id),
            _ => self.id.fmt(f),
        }
    }
}

impl std::hash::Hash for StreamId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl From<Uuid> for StreamId {
    fn from(id: Uuid) -> Self {
        Self { id, name: Inline::None }
    }
}

impl From<&Self> for StreamId {
    fn from(stream: &Self) -> Self {
        *stream
    }
}

impl From<StreamId> for Uuid {
    fn from(stream: StreamId) -> Self {
        stream.id
    }
}

impl From<&StreamId> for Uuid {
    fn from(stream: &StreamId) -> Self {
        stream.id
    }
}

impl PartialEq<Uuid> for StreamId {
    fn eq(&self, id: &Uuid) -> bool {
        self.id == *id
    }
}

impl PartialEq<StreamId> for Uuid {
    fn eq(&self, stream: &StreamId) -> bool {
        *self == stream.id
    }
}

/// What people call a stream: its kind, a slash, and its key within the kind, as in `order/17`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

impl StreamName {
    /// What comes before the first slash.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(kind, _)| kind)
    }

    /// What comes after it.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, key)| key)
    }

    /// The whole of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the library would store it: what other writers stored is shown as it is.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(Inline::new(self.kind(), self.key()), Inline::Name(_))
    }

    /// The error for a stream that was given this name.
    pub(crate) fn refused(&self, stream_id: Uuid) -> Invalid {
        Invalid::StreamName { stream_id, name: cut(&self.0).into_owned() }
    }
}

/// A name as it is stored.
impl From<&str> for StreamName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_names_never_change() {
        assert_eq!(stream_id("order", "17").id(), uuid!("d0ba75bd-cc7d-5f4c-a65d-96957c13fdaa"));
    }

    #[test]
    fn a_name_has_a_kind_and_a_key() {
        let name = stream_id("order", "17/items").name().unwrap().unwrap();
        assert_eq!((name.kind(), name.key(), name.as_str()), ("order", "17/items", "order/17/items"));
        assert_eq!(StreamName::from("foreign").kind(), "foreign");
    }

    #[test]
    fn names_that_cannot_be_are_refused_when_they_are_asked_for() {
        let long = "x".repeat(NAME_BYTES_MAX - "order/".len());
        assert_eq!(stream_id("order", &long).name().unwrap().unwrap().key(), long);
        for (kind, key) in
            [("", "17"), ("order", ""), ("a/b", "c"), ("or\nder", "17"), ("order", &(long.clone() + "x"))]
        {
            let Err(Invalid::StreamName { name, .. }) = stream_id(kind, key).name() else { panic!("{kind:?} {key:?}") };
            assert!(format!("{kind}/{key}").starts_with(name.trim_end_matches('…')), "{name:?} is what it was given");
        }
        let said = stream_id("or\nder", "17").name().unwrap_err().to_string();
        assert!(said.contains(r#"the stream name "or\nder/17" cannot be stored"#), "{said}");
        assert_eq!(StreamId::from(Uuid::nil()).name(), Ok(None));
        let foreign = StreamName::from(&*format!("order/{long}x"));
        assert_eq!(StreamId::with_name(Uuid::nil(), Some(&foreign)).name(), Ok(None), "it can be answered to");
    }
}
