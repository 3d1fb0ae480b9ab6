//! A store whose tables an operator has changed by hand: readers and subscribers that meet the damage say so, `diagnose`
//! names it with what to do, nothing spins, and every other subscriber continues.
//!
//! For backends on SQL with tables like Highwater's own. One says in [`ByHand`] how its tables are changed, and gets
//! the tests from [`damage_suite!`](crate::damage_suite).

mod copying;
mod delivering;

use std::future::Future;

use highwater::backend::{Diagnose, Log, ReadLimit, Severity, Transactional};
use highwater::{Append, Error, EventStore, EventTypes, Filter, MemoryEventStore, transfer};
use uuid::Uuid;

use crate::support::{Ledger, store, within};

pub use copying::*;
pub use delivering::*;

/// The stream whose second event is damaged, and one that is left alone.
const DAMAGED: Uuid = Uuid::from_u128(0xd);
const SOUND: Uuid = Uuid::from_u128(0x5);

/// Changes a store's tables behind its back.
pub trait ByHand: Sized {
    /// The backend.
    type Store: Transactional;

    /// Takes every constraint from the log: with them a database refuses most of what is done here.
    const UNBOUND: &'static str;
    /// Lets rows in that a constraint would keep out, and leaves the log otherwise bound. Comes before them.
    const LOOSE: &'static str;
    /// The time now.
    const NOW: &'static str;
    /// Damages to an event that only this database can hold.
    const EVENTS: &'static [Damage];
    /// A part of what `diagnose` says when event 1 is gone, and when event 2 is.
    const MISSING: [&'static str; 2];
    /// A part of what `diagnose` says when event 3 has the largest version there is.
    const LARGEST: &'static str;
    /// Damages beside the log that only this database can hold, and a part of what `diagnose` says of them.
    const BESIDE: &'static [(&'static str, &'static str, Severity)];
    /// Other ways to bring a subscriber's term out of step.
    const TERMS: &'static [&'static str];
    /// How often the log may be read while three events are delivered.
    const READS: u64;

    /// A new, empty store, which goes with what is returned beside it.
    fn fresh() -> impl Future<Output = (Self, Self::Store)>;

    /// Runs statements on a connection of their own.
    fn execute(&self, sql: &str) -> impl Future<Output = ()>;

    /// An id, as a value in a statement.
    fn id(id: Uuid) -> String;

    /// A number, as `diagnose` quotes it.
    fn quoted(number: i64) -> String;
}

/// What is set in event 2, what readers of everything and of its stream are told, and a part of what `diagnose` says.
pub type Damage = (&'static str, Told, Told, &'static str);

/// What `diagnose` has nothing to say of: only who knows the enum can.
pub const FINE: &str = "";

/// What a reader is told of the event that was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It cannot be read at all.
    Damaged,
    /// It can be read, and does not fit the enum.
    Undecodable,
    /// The table is not as it was made.
    Unfit,
    /// Nothing: it is not there, is none of those that were asked for, or looks like any other.
    Nothing,
}

impl Told {
    /// What was told by this read.
    ///
    /// # Panics
    /// For an error that damage does not come as.
    pub fn by<T>(read: &Result<T, Error>) -> Self {
        match read {
            Ok(_) => Self::Nothing,
            Err(Error::Damaged { .. }) => Self::Damaged,
            Err(Error::Undecodable { .. }) => Self::Undecodable,
            Err(Error::Unfit { .. }) => Self::Unfit,
            Err(other) => panic!("no kind of error for this: {other:?}"),
        }
    }

    /// What a reader of everything is told.
    pub async fn by_all<S: EventStore>(store: &S) -> Self {
        Self::by(&store.read_all_events_since::<Ledger>(0).collect().await)
    }
}

/// `Opened` three times in one stream (1, 2, 3), then `Closed` twice in another (4, 5).
pub async fn history<D: ByHand>() -> (D, D::Store) {
    let (by_hand, log) = D::fresh().await;
    for _ in 1..=3 {
        store(&log, &Append::to(DAMAGED).event(Ledger::opened())).await;
    }
    store(&log, &Append::to(SOUND).events([Ledger::Closed, Ledger::Closed])).await;
    (by_hand, log)
}

/// Checks that something is said to be so bad, and what to do about it.
///
/// # Panics
/// When it is not.
pub async fn assert_named<S: Diagnose>(store: &S, said: &str, severity: Severity) {
    let findings = store.diagnose().await.expect("a damaged store can be looked at");
    let found = findings.iter().find(|finding| finding.found.contains(said));
    let found = found.unwrap_or_else(|| panic!("nobody says {said:?}: {findings:#?}"));
    assert_eq!(found.severity, severity, "{found}");
    assert!(found.advice.is_some(), "{found}");
}

/// Damages to an event that every database can hold.
const EVENTS: [Damage; 7] = {
    use Told::{Damaged, Nothing, Undecodable};
    [
        ("metadata = '[]'", Undecodable, Undecodable, "event 2: its metadata"),
        ("stream_version = NULL", Damaged, Damaged, "event 2: its version"),
        ("stream_version = 0", Damaged, Damaged, "event 2: its version"),
        ("stream_version = -2", Damaged, Damaged, "event 2: its version"),
        ("schema_version = -1", Damaged, Damaged, "event 2: its schema version"),
        (
            "id = (SELECT other.id FROM events other WHERE other.global_sequence = 1)",
            Nothing,
            Nothing,
            "event 2: its id is that of 1 others",
        ),
        ("global_sequence = -7", Nothing, Damaged, "event -7: its number"),
    ]
};

#[doc(hidden)]
pub async fn a_reader_of_a_damaged_event_is_told_and_diagnose_names_it<D: ByHand>() {
    for damage in EVENTS.iter().chain(D::EVENTS) {
        let (by_hand, store) = history::<D>().await;
        by_hand.execute(D::UNBOUND).await;
        by_hand.execute(&format!("UPDATE events SET {} WHERE global_sequence = 2", damage.0)).await;
        assert_told(&store, damage).await;
    }
}

/// Checks what readers and `diagnose` say, and that nobody else is concerned.
async fn assert_told<S: Transactional>(log: &S, (done, of_all, of_stream, said): &Damage) {
    let all = log.read_all_events_since::<Ledger>(0).collect().await;
    assert_eq!(Told::by(&all), *of_all, "{done}: {all:?}");
    let stream = log.read_events::<Ledger>(DAMAGED).collect().await;
    assert_eq!(Told::by(&stream), *of_stream, "{done}: {stream:?}");
    if let (Told::Damaged, Err(error)) = (of_all, all) {
        let why = std::error::Error::source(&error).expect("it says why").to_string();
        assert!(why.starts_with("event 2: ") && !error.is_retryable(), "{done}: {error:?}");
        let before = log.read_all(0, &Filter::ALL, ReadLimit::events(100)).await.expect("it lies before the damage");
        assert_eq!((before.records.len(), before.complete_to), (1, 1), "{done}: what lies before it can be read");
    }
    if *said == FINE {
        let findings = log.diagnose().await.expect("a damaged store can be looked at");
        assert!(!findings.iter().any(|finding| finding.found.contains("event 2")), "{done}: {findings:#?}");
    } else {
        assert_named(log, said, Severity::Bad).await;
    }
    // Who does not meet it does not care.
    let sound = log.read_events::<Ledger>(SOUND).collect().await;
    assert_eq!(sound.expect("this stream is sound").len(), 2, "{done}");
    let closed = log.read_all(0, &EventTypes::only(["Closed"]).into(), ReadLimit::events(100)).await;
    assert_eq!(closed.expect("these events are sound").records.len(), 2, "{done}");
    store(log, &Append::to(SOUND).event(Ledger::Closed)).await;
    // A damaged store is not copied as if nothing were the matter. What is numbered below 1 is not exported at all.
    let mut lines = Vec::new();
    let copied = match transfer::export(log, &mut lines, |_| ()).await {
        Ok(_) => transfer::import(&MemoryEventStore::new(), &lines[..], |_| ()).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(copied.is_err() || *said == FINE || done.contains("-7"), "{done}: it was exported and imported");
}

#[doc(hidden)]
pub async fn missing_events_are_missed<D: ByHand>() {
    for (gone, said) in (1..).zip(D::MISSING) {
        let (by_hand, store) = history::<D>().await;
        by_hand.execute(&format!("DELETE FROM events WHERE global_sequence = {gone}")).await;
        assert_told(&store, &("an event is gone", Told::Nothing, Told::Damaged, said)).await;
        // What is left can be appended to all the same: nothing waits for a lock on a row that is not there.
        let append = Append::to(DAMAGED).event(Ledger::Closed);
        let appended = within("an append", store.append(&append)).await.expect("nothing speaks against it");
        assert_eq!(appended.stream_version, 4);
    }
}

#[doc(hidden)]
pub async fn a_stream_that_cannot_be_counted_on_from_says_so_and_others_continue<D: ByHand>() {
    let (by_hand, log) = history::<D>().await;
    by_hand.execute("UPDATE events SET stream_version = 9223372036854775807 WHERE global_sequence = 3").await;
    let refused = within("an append", log.append(&Append::to(DAMAGED).event(Ledger::Closed))).await;
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    store(&log, &Append::to(SOUND).event(Ledger::Closed)).await;
    assert_named(&log, D::LARGEST, Severity::Bad).await;
}

fn checkpoint<D: ByHand>(id: &str, at: i64, term: i64) -> String {
    let (loose, now, nonce) = (D::LOOSE, D::NOW, D::id(Uuid::nil()));
    format!(
        "{loose}; INSERT INTO event_bus_checkpoints (subscriber_id, last_global_sequence, updated_at, term, nonce)
         VALUES ('{id}', {at}, {now}, {term}, {nonce})"
    )
}

fn request<D: ByHand>(id: u128, kind: &str) -> String {
    let (loose, now, id) = (D::LOOSE, D::NOW, D::id(Uuid::from_u128(id)));
    format!(
        "{loose}; INSERT INTO event_bus_requests (id, subscriber_id, kind, requested_by, requested_at)
         VALUES ({id}, 'projection:x', '{kind}', 'me', {now})"
    )
}

fn dead_letter<D: ByHand>(id: u128, state: &str) -> String {
    let (loose, now, id, stream) = (D::LOOSE, D::NOW, D::id(Uuid::from_u128(id)), D::id(DAMAGED));
    format!(
        "{loose}; INSERT INTO event_bus_dlq (id, subscriber_id, event_id, global_sequence, stream_id, event_type,
         created_at, state) VALUES ({id}, 'projection:x', {id}, 1, {stream}, 'Opened', {now}, '{state}')"
    )
}

fn report<D: ByHand>(id: &str, number: i64, state: &str) -> String {
    format!(
        "INSERT INTO event_bus_reports (subscriber_id, term, state, global_sequence, rate, reported_at)
         VALUES ('{id}', {number}, '{state}', {number}, 0.0, {})",
        D::NOW
    )
}

#[doc(hidden)]
pub async fn damaged_rows_beside_the_log_are_named<D: ByHand>() {
    use Severity::{Bad, Note, Warning};
    let its_term = format!("its term {} was never given", D::quoted(-4));
    let stands = format!("it stands at {}", D::quoted(-1));
    let counted = format!("{}; UPDATE event_bus_requests SET failed = -1", request::<D>(0, "rebuild"));
    let everywhere = [
        (checkpoint::<D>("", 1, 1), "checkpoint '': a subscriber's name", Bad),
        (checkpoint::<D>("projection:x", -1, 1), stands.as_str(), Bad),
        (checkpoint::<D>("projection:x", 99, 1), "94 beyond the end of the log", Bad),
        (checkpoint::<D>("projection:x", 1, -4), its_term.as_str(), Bad),
        (checkpoint::<D>("projection:x", 1, i64::MAX), "was never given", Bad),
        (request::<D>(0, "dance"), "its kind 'dance' is not known", Warning),
        (request::<D>(0, "discard"), "or lacks a detail", Warning),
        (counted, "counted below 0", Warning),
        (dead_letter::<D>(0, "lost"), "its state 'lost' is not known", Warning),
        (dead_letter::<D>(0, "dead"), "is not in the log", Warning),
        (report::<D>("projection:x", 1, "dreaming"), "its state 'dreaming' is not known", Note),
    ];
    let here = D::BESIDE.iter().map(|(sql, said, severity)| ((*sql).to_owned(), *said, *severity));
    for (sql, said, severity) in everywhere.into_iter().chain(here) {
        let (by_hand, store) = history::<D>().await;
        by_hand.execute(&sql).await;
        assert_named(&store, said, severity).await;
        let all = store.read_all_events_since::<Ledger>(0).collect().await.expect("the log is sound");
        assert_eq!(all.len(), 5, "{sql}: the log is as it was");
    }
}

/// One test for each way in which a store can be damaged. Takes a type that is [`ByHand`](crate::damage::ByHand).
#[macro_export]
macro_rules! damage_suite {
    ($by_hand:ty) => {
        $crate::damage_suite! { [$by_hand]
            a_reader_of_a_damaged_event_is_told_and_diagnose_names_it
            missing_events_are_missed
            an_event_that_no_append_would_store_is_named_by_whatever_copies_it
            a_stream_that_cannot_be_counted_on_from_says_so_and_others_continue
            damaged_rows_beside_the_log_are_named
            a_damaged_dead_letter_is_an_error_where_it_is_asked_for
            a_subscriber_that_wants_a_damaged_event_stops_in_front_of_it_and_the_others_continue
            an_event_whose_content_is_damaged_goes_to_the_dead_letters
            a_checkpoint_that_cannot_be_read_is_never_0
            a_transaction_does_not_begin_at_a_checkpoint_that_cannot_be_read
            a_term_that_nobody_was_given_is_replaced_by_the_next_leader
            requests_that_cannot_be_read_keep_no_other_waiting_however_many_there_are
            a_replay_of_a_dead_letter_without_an_event_fails_beside_a_damaged_one_and_the_subscriber_continues
        }
    };
    ([$by_hand:ty] $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                $crate::damage::$test::<$by_hand>().await;
            }
        )*
    };
}
