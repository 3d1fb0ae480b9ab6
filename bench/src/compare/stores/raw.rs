//! What both raw drivers do: the naive thing, without any of the safety. A follower keeps the last number it saw.

use std::time::Duration;

use chrono::{DateTime, Utc};
use driver::{About, Appending, Placed};
use uuid::Uuid;

/// Events, and checkpoints.
pub(super) const TABLES: [&str; 2] = [crate::raw::TABLES, include_str!("../../../sql/raw_delivery.sql")];
pub(super) const INSERT: &str = include_str!("../../../sql/raw_insert.sql");
pub(super) const INSERT_MANY: &str = include_str!("../../../sql/raw_insert_many.sql");
pub(super) const READ_PAGE: &str = include_str!("../../../sql/raw_read_page.sql");
pub(super) const READ_NEW: &str = include_str!("../../../sql/raw_read_new.sql");
pub(super) const READ_STREAM: &str = include_str!("../../../sql/raw_read_stream.sql");
pub(super) const STREAMS_INDEX: &str = include_str!("../../../sql/raw_streams_index.sql");
pub(super) const CHECKPOINT_STORE: &str = include_str!("../../../sql/raw_checkpoint_store.sql");
pub(super) const CHECKPOINT_LOAD: &str = include_str!("../../../sql/raw_checkpoint_load.sql");

/// Connections, at most: more callers take turns.
pub(super) const CONNECTIONS: u32 = 64;
/// Events of a page, and between checkpoints.
pub(super) const PAGE: i64 = 5_000;
/// How long to wait when there was nothing new.
pub(super) const LOOK: Duration = Duration::from_millis(1);
pub(super) use crate::payload::EVENT_TYPE;

pub(super) fn about(driver: &str, package: &str) -> About {
    About {
        name: format!("raw {driver}"),
        versions: driver::locked_version(include_str!("../../../Cargo.lock"), package),
        page: "none: by hand, prepared statements, a table with our columns and nothing but a primary key".to_owned(),
        settings: "follows by pages of 5,000 rows after the last number it saw, looks again after 1 ms".to_owned(),
        best: Some("follows by one streamed SELECT of everything that is new".to_owned()),
        no_follower: None,
        no_failover: Some("nothing keeps two of them apart".to_owned()),
        tables: vec!["raw.events".to_owned()],
        notes: vec![
            "one INSERT for an event, INSERT … SELECT FROM unnest for many; no check of any kind; \
         every column of an event is decoded"
                .to_owned(),
        ],
    }
}

/// Columns that differ from event to event.
pub(super) struct Columns {
    pub(super) versions: Vec<i64>,
    pub(super) created_at: Vec<DateTime<Utc>>,
    pub(super) ids: Vec<Uuid>,
    pub(super) streams: Vec<Uuid>,
    pub(super) data: Vec<Placed>,
}

impl Columns {
    pub(super) fn of(append: Appending) -> Self {
        let count = append.events.len();
        Self {
            versions: (append.version.cast_signed() + 1..).take(count).collect(),
            created_at: (0..count).map(|_| Utc::now()).collect(),
            ids: (0..count).map(|_| Uuid::now_v7()).collect(),
            streams: vec![append.stream; count],
            data: append.events,
        }
    }
}
