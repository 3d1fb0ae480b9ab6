//! Fills the log for reading.

use highwater::backend::Log;
use highwater::{Append, ExpectedVersion};
use highwater_postgres::PgEventStore;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use crate::Error;
use crate::payload::{self, Order, Placed};
use crate::read::Seen;

/// Streams with a few events each.
const STREAMS: usize = 19_900;
const STREAMS_QUICK: usize = 1_900;
/// Events of each, and of the long one how many times more.
const EVENTS_PER_STREAM: u64 = 10;
const LONG: u64 = 100;
/// Streams that are appended to together.
const STREAMS_PER_APPEND: usize = 100;

/// What is there now, and what reading it must come to.
pub(crate) struct Loaded {
    pub(crate) long_stream: Uuid,
    pub(crate) all: Seen,
    pub(crate) long: Seen,
}

/// 200,000 events: 19,900 streams of 10 and one of 1,000, grown side by side as streams do.
pub(crate) async fn load(store: &PgEventStore, connection: &mut PgConnection, quick: bool) -> Result<Loaded, Error> {
    let streams: Vec<Uuid> = (0..if quick { STREAMS_QUICK } else { STREAMS }).map(|_| Uuid::new_v4()).collect();
    let long_stream = Uuid::new_v4();
    let mut orders = Orders { placed: payload::sample()?, next: 0 };
    let (mut all, mut long) = (Seen::default(), Seen::default());
    for version in 0..EVENTS_PER_STREAM {
        for chunk in streams.chunks(STREAMS_PER_APPEND) {
            let mut append = Append::to(chunk[0]);
            for stream in chunk {
                append = append.and_to(*stream).expecting(ExpectedVersion::Exact(version));
                append = append.event(orders.next(version + 1, &mut [&mut all]));
            }
            store.append(&append).await?;
        }
        let mut append = Append::to(long_stream).expecting(ExpectedVersion::Exact(version * LONG));
        for step in 1..=LONG {
            append = append.event(orders.next(version * LONG + step, &mut [&mut all, &mut long]));
        }
        store.append(&append).await?;
    }
    // As autovacuum would leave it sooner or later, and better now than while something is measured.
    sqlx::query("VACUUM (ANALYZE) highwater.events").execute(&mut *connection).await?;
    eprintln!("loaded {} events in {} streams", all.events, streams.len() + 1);
    Ok(Loaded { long_stream, all, long })
}

/// Orders that differ.
struct Orders {
    placed: Placed,
    next: i64,
}

impl Orders {
    fn next(&mut self, version: u64, seen: &mut [&mut Seen]) -> Order {
        self.next += 1;
        let placed = Placed { amount: self.next, ..self.placed.clone() };
        for seen in seen {
            seen.events += 1;
            seen.sum += placed.amount + version.cast_signed();
        }
        placed.into()
    }
}
