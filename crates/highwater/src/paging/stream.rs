//! The pages of one stream.

use uuid::Uuid;

use super::{Fetch, Fetched, grown};
use crate::{Direction, Error, EventTypes, Log, Record, StreamPage, StreamRead};

pub(super) fn fetch_stream<'a, L: Log + ?Sized>(log: &'a L, stream_id: Uuid, read: StreamRead) -> Fetch<'a> {
    Box::pin(async move {
        let page = log.read_stream(stream_id, read.clone()).await?;
        check_versions(&page, &read).map_err(|why| {
            let stream = page.records.first().map_or_else(|| stream_id.into(), Record::stream);
            Error::Damaged { action: "read a stream", source: format!("stream {stream}: {why}").into() }
        })?;
        let last = page.records.last().filter(|_| !page.end);
        let next = last.and_then(|last| following(&read, last)).map(|following| {
            fetch_stream(log, stream_id, StreamRead { limit: grown(read.limit, &page.records), ..following })
        });
        Ok(Fetched { records: page.records, next })
    })
}

/// What is left of a read after the last record of a page; `None` when there can be nothing.
fn following(read: &StreamRead, last: &Record) -> Option<StreamRead> {
    let version = next_version(read.direction, last.stream_version)?;
    let after = match read.direction {
        // What follows in the stream lies further on in the log.
        Direction::Forwards => 0,
        Direction::Backwards => read.after,
    };
    Some(StreamRead { from: version, after, ..read.clone() })
}

fn next_version(direction: Direction, version: u64) -> Option<u64> {
    match direction {
        Direction::Forwards => version.checked_add(1),
        Direction::Backwards => version.checked_sub(1).filter(|version| *version > 0),
    }
}

/// Versions follow each other \[G3\]. Where they do not, events were removed or doubled by hand, and a caller that continued
/// would decide on half of a history.
fn check_versions(page: &StreamPage, read: &StreamRead) -> Result<(), String> {
    // Between events of some types others are left out.
    if read.types != EventTypes::All {
        return Ok(());
    }
    let mut expected = match read.direction {
        Direction::Forwards if read.after == 0 => Some(read.from.max(1)),
        // Somewhere in the stream; or its last version, if that is lower.
        _ => page.records.first().map(|first| first.stream_version),
    };
    for record in &page.records {
        let (found, sequence) = (record.stream_version, record.global_sequence);
        if Some(found) != expected {
            let wanted = expected.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(format!("event {sequence} has version {found} where {wanted} should be"));
        }
        expected = next_version(read.direction, found);
    }
    match (read.direction, expected) {
        (Direction::Backwards, Some(missing)) if page.end && read.after == 0 && !page.records.is_empty() => {
            Err(format!("it ends before version {missing}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Append, Limits, Position};

    fn page(versions: &[u64]) -> StreamPage {
        let append = Append::to(Uuid::nil()).raw("Noted", "null");
        let new = append.checked(&Limits::default()).expect("an event")[0].clone();
        let at = |version: &u64| Position { stream_version: *version, global_sequence: 10 * version };
        StreamPage { records: versions.iter().map(|version| new.clone().at(at(version))).collect(), end: true }
    }

    #[test]
    fn a_hole_in_a_stream_is_found_unless_a_filter_may_have_made_it() {
        let some = |read: StreamRead| StreamRead { types: EventTypes::only(["Noted"]), ..read };
        let since = |read: StreamRead| StreamRead { after: 10, ..read };
        for (versions, read, sound) in [
            (&[1, 2, 3][..], StreamRead::forwards(1), true),
            (&[2, 3], StreamRead::forwards(1), false),
            (&[1, 3], StreamRead::forwards(0), false),
            (&[3, 2, 1], StreamRead::backwards(u64::MAX), true),
            (&[3, 1], StreamRead::backwards(3), false),
            (&[3, 2], StreamRead::backwards(3), false),
            (&[2, 3], since(StreamRead::forwards(1)), true),
            (&[2, 4], since(StreamRead::forwards(1)), false),
            (&[3, 2], since(StreamRead::backwards(3)), true),
            (&[4, 2], since(StreamRead::backwards(4)), false),
            (&[2, 4], some(StreamRead::forwards(1)), true),
            (&[4, 2], some(StreamRead::backwards(4)), true),
            (&[], since(StreamRead::forwards(1)), true),
            (&[], StreamRead::backwards(3), true),
        ] {
            assert_eq!(check_versions(&page(versions), &read).is_ok(), sound, "{versions:?} of {read:?}");
        }
    }
}
