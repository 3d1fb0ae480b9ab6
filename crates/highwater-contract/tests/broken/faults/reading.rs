//! Faults of reading: too much, too little, something else.

use chrono::SubsecRound;
use highwater::backend::{BoxFuture, Direction, Log, Page, ReadLimit, Record, StreamPage, StreamRead};
use highwater::{Append, Appended, Error, EventTypes, Filter};
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

/// Reads the event at the position once more.
pub(crate) struct ResumesInclusively;

impl Fault for ResumesInclusively {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        sound.memory.read_all(after.saturating_sub(1), filter, limit)
    }
}

/// Hides the second record of every page of everything.
pub(crate) struct HidesTheSecondOfAPage;

impl Fault for HidesTheSecondOfAPage {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = sound.memory.read_all(after, filter, limit).await?;
            if page.records.len() > 1 {
                page.records.remove(1);
            }
            Ok(page)
        })
    }
}

/// Drops the last record of every full page of everything.
pub(crate) struct DropsTheLastOfAPage;

impl Fault for DropsTheLastOfAPage {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = sound.memory.read_all(after, filter, limit).await?;
            if page.records.len() == limit.events {
                page.records.pop();
            }
            Ok(page)
        })
    }
}

/// Says that a stream ends where a page ends.
pub(crate) struct EndsStreamsWithThePage;

impl Fault for EndsStreamsWithThePage {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            let page = sound.memory.read_stream(stream_id, read).await?;
            Ok(StreamPage { end: true, ..page })
        })
    }
}

/// Cuts the page first and looks at the types then.
pub(crate) struct FiltersAfterTheLimit;

impl Fault for FiltersAfterTheLimit {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = sound.memory.read_all(after, &Filter::ALL, limit).await?;
            page.records.retain(|record| filter.accepts(record));
            Ok(page)
        })
    }
}

/// Cuts the page of a stream first and looks at the types then.
pub(crate) struct FiltersStreamsAfterTheLimit;

impl Fault for FiltersStreamsAfterTheLimit {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            let types = read.types.clone();
            let all = StreamRead { types: EventTypes::All, ..read };
            let mut page = sound.memory.read_stream(stream_id, all).await?;
            page.records.retain(|record| types.contains(&record.event_type));
            Ok(page)
        })
    }
}

/// Says that there is more in a stream as long as there is anything, wanted or not.
pub(crate) struct EndsWithTheStreamAlone;

impl Fault for EndsWithTheStreamAlone {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            let newest = match read.direction {
                Direction::Forwards => sound.version(stream_id).await?,
                Direction::Backwards => 1,
            };
            let page = sound.memory.read_stream(stream_id, read).await?;
            let end = page.records.last().is_none_or(|last| last.stream_version == newest);
            Ok(StreamPage { end, ..page })
        })
    }
}

/// Begins a stream with the event at the place that it was to begin after.
pub(crate) struct BeginsAStreamAtThePlace;

impl Fault for BeginsAStreamAtThePlace {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        sound.memory.read_stream(stream_id, StreamRead { after: read.after.saturating_sub(1), ..read })
    }
}

/// Stays where it is when a page holds nothing.
pub(crate) struct StandsStillWhenNothingMatches;

impl Fault for StandsStillWhenNothingMatches {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let page = sound.memory.read_all(after, filter, limit).await?;
            let complete_to = page.records.last().map_or(after, |last| last.global_sequence);
            Ok(Page { complete_to, ..page })
        })
    }
}

/// Compares types without regard to case.
pub(crate) struct FiltersWithoutRegardToCase;

impl Fault for FiltersWithoutRegardToCase {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let EventTypes::Only(wanted) = &filter.types else {
                return sound.memory.read_all(after, filter, limit).await;
            };
            let stored = sound.everything().await?.into_iter().map(|record| record.event_type);
            let fits = |stored: &String| wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(stored));
            let fitting = Filter { types: EventTypes::only(stored.filter(fits)), ..filter.clone() };
            sound.memory.read_all(after, &fitting, limit).await
        })
    }
}

/// Does something to every record that is read.
pub(crate) struct Shows(pub(crate) fn(&mut Record));

impl Fault for Shows {
    fn seen(&self, record: &mut Record) {
        (self.0)(record);
    }
}

pub(crate) fn json_written_anew(record: &mut Record) {
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(&record.data) {
        record.data = value.to_string();
    }
}

pub(crate) fn no_metadata(record: &mut Record) {
    record.metadata = "{}".to_owned();
}

pub(crate) fn whole_seconds(record: &mut Record) {
    record.created_at = record.created_at.trunc_subsecs(0);
}

pub(crate) fn types_without_space(record: &mut Record) {
    record.event_type = record.event_type.trim().to_owned();
}

/// Carries events in notifications, which hold 8,000 bytes.
pub(crate) struct RefusesMoreThanANotificationHolds;

impl Fault for RefusesMoreThanANotificationHolds {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            if sound.records(append)?.iter().any(|record| record.data.len() >= 8_000) {
                return Err(Error::Unavailable { action: "notify", source: "payload string too long".into() });
            }
            sound.memory.append(append).await
        })
    }
}

/// Does not give the events of a stream their place in the log when it reads backwards.
pub(crate) struct ShowsNoSequenceBackwards;

impl Fault for ShowsNoSequenceBackwards {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            let direction = read.direction;
            let mut page = sound.memory.read_stream(stream_id, read).await?;
            if direction == Direction::Backwards {
                page.records.iter_mut().for_each(|record| record.global_sequence = 0);
            }
            Ok(page)
        })
    }
}

/// Forgets the stream when it reads backwards.
pub(crate) struct ReadsBackwardsAcrossStreams;

impl Fault for ReadsBackwardsAcrossStreams {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            if read.direction == Direction::Forwards {
                return sound.memory.read_stream(stream_id, read).await;
            }
            let mut records = sound.everything().await?;
            records.retain(|record| record.stream_version <= read.from);
            records.sort_by_key(|record| std::cmp::Reverse(record.stream_version));
            let end = records.len() <= read.limit.events;
            records.truncate(read.limit.events.max(1));
            Ok(StreamPage { records, end })
        })
    }
}

/// Takes for granted that a stream exists.
pub(crate) struct PanicsOnAMissingStream;

impl Fault for PanicsOnAMissingStream {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            assert!(sound.version(stream_id).await? > 0, "no such stream");
            sound.memory.read_stream(stream_id, read).await
        })
    }
}

/// Takes every version for one that fits into a `bigint`, when it reads forwards.
pub(crate) struct OverflowsAtTheLargestVersion;

impl Fault for OverflowsAtTheLargestVersion {
    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        Box::pin(async move {
            let fits = read.direction == Direction::Backwards || i64::try_from(read.from).is_ok();
            assert!(fits, "a version is a bigint");
            sound.memory.read_stream(stream_id, read).await
        })
    }
}
