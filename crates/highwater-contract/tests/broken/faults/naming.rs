//! Backends that lose names of streams, or mix up kinds.

use highwater::backend::{BoxFuture, Log, NamedStream, Page, ReadLimit, Record};
use highwater::{Error, Filter};

use crate::faulty::{Fault, Sound};

/// For `Shows`: every event but the first of its stream has no name.
pub(crate) fn only_the_first_named(record: &mut Record) {
    if record.stream_version > 1 {
        record.stream_name = None;
    }
}

/// For `Shows`: the name of a stream that began without one is nowhere.
pub(crate) fn never_named_later(record: &mut Record) {
    if record.stream_version > 1 && record.stream_name.as_ref().is_some_and(|name| name.as_str() == "order/17") {
        record.stream_name = None;
    }
}

/// Begins every page of names with the first.
pub(crate) struct ListsTheFirstPageAgain;

impl Fault for ListsTheFirstPageAgain {
    fn streams<'a>(
        &'a self,
        sound: &'a Sound,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        Box::pin(async move {
            let page = sound.memory.streams(prefix, None, limit).await?;
            // An end there is, or nobody would find out in time.
            Ok(if after.is_some_and(|after| page.last() == Some(after)) { Vec::new() } else { page })
        })
    }
}

/// Takes a kind for what names begin with.
pub(crate) struct TakesKindsForPrefixes;

impl Fault for TakesKindsForPrefixes {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let Some(kinds) = &filter.kinds else { return sound.memory.read_all(after, filter, limit).await };
            let names = sound.everything().await?.into_iter().filter_map(|record| record.stream_name);
            let begins = names.filter(|name| kinds.iter().any(|kind| name.as_str().starts_with(kind)));
            let wider = filter.clone().of_kinds(begins.map(|name| name.kind().to_owned()));
            sound.memory.read_all(after, &wider, limit).await
        })
    }
}

/// Does not look at kinds.
pub(crate) struct IgnoresKinds;

impl Fault for IgnoresKinds {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let types = Filter::from(filter.types.clone());
            sound.memory.read_all(after, &types, limit).await
        })
    }
}
