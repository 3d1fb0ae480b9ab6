//! How people call a stream.

use std::fmt;
use std::str::FromStr;

use highwater::backend::Backend;
use highwater::{Error, StreamId};
use uuid::Uuid;

use crate::failure::Failure;

/// A stream, by its id or by a name such as `order/17`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamName {
    pub(crate) id: StreamId,
    /// As it was given.
    name: String,
}

impl FromStr for StreamName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name.contains("://") {
            return Err("that is a URL, and a stream is a UUID, or a name of two parts such as order/17".to_owned());
        }
        let id = match name.split_once('/') {
            Some((category, key)) if !category.is_empty() && !key.is_empty() => highwater::stream_id(category, key),
            _ => Uuid::parse_str(name)
                .map_err(|_| "a stream is a UUID, or a name of two parts such as order/17".to_owned())?
                .into(),
        };
        Ok(Self { id, name: name.to_owned() })
    }
}

impl StreamName {
    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// An error about this stream, by the name that people call it.
    pub(crate) fn named(&self, error: Error) -> Failure {
        Failure::from(error).replacing(&self.id.id().to_string(), &self.name)
    }

    /// The stream of that name in a store: an application may have chosen its id otherwise than the library does.
    pub(crate) async fn find(&self, store: &dyn Backend) -> Result<StreamId, Failure> {
        let mut found = match self.name.contains('/') {
            true => store.streams(&self.name, None, 10).await?,
            false => Vec::new(),
        };
        found.retain(|stream| stream.name.as_str() == self.name);
        match &found[..] {
            [] => Ok(self.id),
            [one] => Ok(StreamId::with_name(one.stream_id, Some(&one.name))),
            several => {
                let ids: Vec<String> = several.iter().map(|stream| stream.stream_id.to_string()).collect();
                let which = ids.join(", ");
                Err(Failure::refused(format!(
                    "several streams are called {}: name it by its id, one of {which}",
                    self.name
                )))
            }
        }
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_mapped_as_the_library_maps_them() {
        let id = |name: &str| name.parse::<StreamName>().map(|stream| stream.id.id());
        assert_eq!(id("order/17"), Ok(highwater::stream_id("order", "17").id()));
        assert_eq!(id("order/17/items"), Ok(highwater::stream_id("order", "17/items").id()));
        let uuid = Uuid::now_v7();
        assert_eq!(id(&uuid.to_string()), Ok(uuid));
        for bad in ["", "order", "/17", "order/", "0191", "postgres://app@db/shop"] {
            assert!(id(bad).is_err(), "{bad:?} is no stream");
        }
    }
}
