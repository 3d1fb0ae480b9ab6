//! What both raw drivers do: the naive thing, without any of the safety. A follower keeps the last number it saw.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use driver::{About, Appending, Delivery, Placed};
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

/// Appends that tell followers, where there may be one.
pub(super) const INSERT_NOTIFY: &str = include_str!("../../../sql/raw_insert_notify.sql");
pub(super) const NOTIFY: &str = include_str!("../../../sql/raw_notify.sql");
pub(super) const CHANNEL: &str = "raw_events";

/// Connections, unless something else is chosen: more callers take turns.
pub(super) const CONNECTIONS: u32 = 32;
/// Events between two checkpoints.
pub(super) const EVERY: usize = 4_000;
pub(super) use crate::payload::EVENT_TYPE;

pub(super) fn about(driver: &str, package: &str, deliveries: &[Delivery]) -> About {
    let delivery = |delivery: &Delivery| {
        let told = match delivery {
            Delivery::Batched => {
                "one streamed SELECT of everything that is new, a checkpoint every 4,000 events that does not wait for the disk; \
                 a crash of the server can undo those of the last 0.6 s, whose events come again"
            }
            Delivery::Each => {
                "an UPDATE after each event that does not wait for the disk; a crash of the server can undo those of the last \
                 0.6 s, whose events come again"
            }
            Delivery::Once => {
                "a transaction for 4,000 events with the checkpoint in it; a crash of the server undoes nothing"
            }
        };
        (*delivery, told.to_owned())
    };
    About {
        name: format!("raw {driver}"),
        versions: driver::locked_version(include_str!("../../../Cargo.lock"), package),
        page: "none: by hand, prepared statements, a table with our columns and nothing but a primary key".to_owned(),
        fastest: Some(
            "one INSERT for an event, INSERT … SELECT FROM unnest for many; the best of several pool sizes; followers LISTEN, \
             and SELECT what is new"
                .to_owned(),
        ),
        pools: vec![8, 16, 32, 64],
        installs: Some("a NOTIFY with each append".to_owned()),
        deliveries: deliveries.iter().map(delivery).collect::<BTreeMap<_, _>>(),
        no_failover: Some("nothing keeps two of them apart".to_owned()),
        tables: vec!["raw.events".to_owned()],
        notes: vec!["no check of any kind; every column of an event is decoded".to_owned()],
        objection: "None: it is a limit, not a choice. It promises nothing that the others do.".to_owned(),
        ..About::default()
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
