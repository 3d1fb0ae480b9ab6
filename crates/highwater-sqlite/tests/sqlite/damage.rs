//! A file that somebody has changed by hand: everything that meets the damage says so, `diagnose` names it with what to do,
//! nothing spins, and everybody else goes on.

mod delivering;

use std::time::Duration;

use highwater::backend::{DeadLetters, Diagnose, Log, ReadLimit, Severity};
use highwater::{Append, Error, EventStore, EventTypes, transfer};
use highwater_sqlite::SqliteEventStore;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::support::{Folder, connection, execute};

/// The events of these tests: some people want only one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Deed {
    Done { what: String },
    Undone,
}

const DAMAGED: Uuid = Uuid::from_u128(0xd);
const SOUND: Uuid = Uuid::from_u128(0x5);

/// `Done` three times in one stream (1, 2, 3), then `Undone` twice in another (4, 5).
async fn history(folder: &Folder) -> SqliteEventStore {
    let store = folder.store().await;
    for n in 1..=3 {
        store.append(&Append::to(DAMAGED).event(Deed::Done { what: n.to_string() })).await.unwrap();
    }
    store.append(&Append::to(SOUND).events([Deed::Undone, Deed::Undone])).await.unwrap();
    store
}

/// Takes every constraint from the log: with them SQLite refuses most of what is done here.
const UNBOUND: &str = "ALTER TABLE events RENAME TO was;
    CREATE TABLE events (global_sequence INTEGER PRIMARY KEY, stream_version, created_at, id, stream_id, schema_version,
        event_type, data, metadata);
    INSERT INTO events SELECT global_sequence, stream_version, created_at, id, stream_id, schema_version, event_type, data,
        metadata FROM was;
    DROP TABLE was;";

/// What a reader is told of the event that was damaged.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// It cannot be read at all.
    Damaged,
    /// It can be read, and does not fit the enum.
    Undecodable,
    /// Nothing: it is not there, is none of those that were asked for, or looks like any other.
    Nothing,
}

impl Told {
    fn by<T>(read: &Result<T, Error>) -> Self {
        match read {
            Ok(_) => Self::Nothing,
            Err(Error::Damaged { .. }) => Self::Damaged,
            Err(Error::Undecodable { .. }) => Self::Undecodable,
            Err(other) => panic!("no kind of error for this: {other:?}"),
        }
    }
}

/// What was done, what readers of everything and of the stream are told, and a part of what `diagnose` says.
const DAMAGES: [(&str, Told, Told, &str); 21] = {
    use Told::{Damaged, Nothing, Undecodable};
    [
        ("UPDATE events SET data = NULL WHERE global_sequence = 2", Undecodable, Undecodable, "event 2: its data"),
        ("UPDATE events SET data = 'torn{' WHERE global_sequence = 2", Undecodable, Undecodable, "event 2: its data"),
        ("UPDATE events SET data = x'ff00fe' WHERE global_sequence = 2", Damaged, Damaged, "event 2: its data"),
        (
            "UPDATE events SET data = CAST(x'7b22776861742200223a2278227d' AS TEXT) WHERE global_sequence = 2",
            Undecodable,
            Undecodable,
            "event 2: its data",
        ),
        (
            "UPDATE events SET metadata = '[]' WHERE global_sequence = 2",
            Undecodable,
            Undecodable,
            "event 2: its metadata",
        ),
        ("UPDATE events SET metadata = 7 WHERE global_sequence = 2", Undecodable, Undecodable, "event 2: its metadata"),
        ("UPDATE events SET id = 'no uuid' WHERE global_sequence = 2", Damaged, Damaged, "event 2: its id"),
        ("UPDATE events SET id = NULL WHERE global_sequence = 2", Damaged, Damaged, "event 2: its id"),
        ("UPDATE events SET stream_version = NULL WHERE global_sequence = 2", Damaged, Damaged, "event 2: its version"),
        ("UPDATE events SET stream_version = 0 WHERE global_sequence = 2", Damaged, Damaged, "event 2: its version"),
        ("UPDATE events SET stream_version = -2 WHERE global_sequence = 2", Damaged, Damaged, "event 2: its version"),
        (
            "UPDATE events SET stream_version = 'two' WHERE global_sequence = 2",
            Damaged,
            Damaged,
            "event 2: its version",
        ),
        ("UPDATE events SET schema_version = -1 WHERE global_sequence = 2", Damaged, Damaged, "its schema version"),
        ("UPDATE events SET event_type = '' WHERE global_sequence = 2", Nothing, Damaged, "event 2: its type"),
        ("UPDATE events SET event_type = x'ff' WHERE global_sequence = 2", Nothing, Damaged, "event 2: its type"),
        (
            "UPDATE events SET created_at = 9223372036854775807 WHERE global_sequence = 2",
            Damaged,
            Damaged,
            "event 2: its time",
        ),
        ("DELETE FROM events WHERE global_sequence = 2", Nothing, Damaged, "is at version 3 and has 2 events"),
        ("DELETE FROM events WHERE global_sequence = 1", Nothing, Damaged, "is at version 3 and has 2 events"),
        (
            "UPDATE events SET stream_version = 1 WHERE global_sequence = 2",
            Nothing,
            Damaged,
            "versions are there twice",
        ),
        (
            "UPDATE events SET id = (SELECT id FROM events WHERE global_sequence = 1) WHERE global_sequence = 2",
            Nothing,
            Nothing,
            "event 2: its id is that of 1 others",
        ),
        ("UPDATE events SET global_sequence = -7 WHERE global_sequence = 2", Nothing, Damaged, "event -7: its number"),
    ]
};

/// That something of a severity is said, and that it says what to do.
async fn assert_named(store: &SqliteEventStore, said: &str, severity: Severity) {
    let findings = store.diagnose().await.unwrap();
    let found = findings.iter().find(|finding| finding.found.contains(said));
    let found = found.unwrap_or_else(|| panic!("nobody says {said:?}: {findings:#?}"));
    assert_eq!(found.severity, severity, "{found}");
    assert!(found.advice.is_some(), "{found}");
}

#[tokio::test]
async fn whoever_reads_a_damaged_event_is_told_and_diagnose_names_it() {
    for (sql, of_all, of_stream, said) in DAMAGES {
        let folder = Folder::new();
        let store = history(&folder).await;
        let mut by_hand = connection(&folder.database()).await;
        execute(&mut by_hand, UNBOUND).await;
        execute(&mut by_hand, sql).await;
        let all = store.read_all_events_since::<Deed>(0).collect().await;
        assert_eq!(Told::by(&all), of_all, "{sql}: {all:?}");
        let stream = store.read_events::<Deed>(DAMAGED).collect().await;
        assert_eq!(Told::by(&stream), of_stream, "{sql}: {stream:?}");
        if let (Told::Damaged, Err(error)) = (of_all, all) {
            let why = std::error::Error::source(&error).unwrap().to_string();
            assert!(why.starts_with("event 2: ") && !error.is_retryable(), "{sql}: {error:?}");
            let before = store.read_all(0, &EventTypes::All, ReadLimit::events(100)).await.unwrap();
            assert_eq!((before.records.len(), before.complete_to), (1, 1), "{sql}: what lies before it can be read");
        }
        assert_named(&store, said, Severity::Bad).await;
        // Who does not meet it does not care.
        let sound = store.read_events::<Deed>(SOUND).collect().await.unwrap();
        assert_eq!(sound.len(), 2, "{sql}");
        let undone = store.read_all(0, &EventTypes::only(["Undone"]), ReadLimit::events(100)).await.unwrap();
        assert_eq!(undone.records.len(), 2, "{sql}");
        store.append(&Append::to(SOUND).event(Deed::Undone)).await.unwrap();
        assert_no_copy(&store, sql).await;
    }
}

/// A damaged store is not copied as if nothing were the matter: what is exported cannot be imported.
async fn assert_no_copy(store: &SqliteEventStore, sql: &str) {
    let mut lines = Vec::new();
    let exported = transfer::export(store, &mut lines, |_| ()).await;
    let imported = match exported {
        Ok(_) => transfer::import(&highwater::MemoryEventStore::new(), &lines[..], |_| ()).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(imported.is_err() || sql.contains("-7"), "{sql}: it was exported and imported");
}

#[tokio::test]
async fn checks_that_sqlite_was_told_to_ignore_are_missed_by_nobody() {
    let folder = Folder::new();
    let store = history(&folder).await;
    execute(
        &mut connection(&folder.database()).await,
        "PRAGMA ignore_check_constraints = ON; UPDATE events SET stream_version = -2, id = x'01' WHERE global_sequence = 2",
    )
    .await;
    let all = store.read_all_events_since::<Deed>(0).collect().await;
    assert_eq!(Told::by(&all), Told::Damaged);
    assert_named(&store, "event 2: its id", Severity::Bad).await;
    assert_named(&store, "event 2: its version", Severity::Bad).await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_counted_on_from_says_so_and_others_go_on() {
    let folder = Folder::new();
    let store = history(&folder).await;
    let last = "UPDATE events SET stream_version = 9223372036854775807 WHERE global_sequence = 3";
    execute(&mut connection(&folder.database()).await, last).await;
    let append = Append::to(DAMAGED).event(Deed::Undone);
    let refused = tokio::time::timeout(Duration::from_secs(10), store.append(&append)).await.expect("it does not hang");
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    store.append(&Append::to(SOUND).event(Deed::Undone)).await.unwrap();
    assert_named(&store, "9223372036854775807 and has 3 events", Severity::Bad).await;
}

/// Rows beside the log, and a part of what `diagnose` says of them.
#[tokio::test]
async fn damaged_rows_beside_the_log_are_named() {
    let checkpoint = |id: &str, at: &str, term: &str| {
        format!("INSERT INTO event_bus_checkpoints VALUES ({id}, {at}, NULL, 0, {term}, zeroblob(16), NULL)")
    };
    let request = |ask: &str| {
        format!(
            "PRAGMA ignore_check_constraints = ON; INSERT INTO event_bus_requests (id, subscriber_id, ask, requested_by, \
             requested_at) VALUES (zeroblob(16), 'projection:x', '{ask}', 'me', 0)"
        )
    };
    let letter = |state: &str| {
        format!(
            "PRAGMA ignore_check_constraints = ON; INSERT INTO event_bus_dlq (id, subscriber_id, event_id, \
             global_sequence, stream_id, event_type, created_at, state) VALUES (zeroblob(16), 'projection:x', \
             zeroblob(16), 1, zeroblob(16), 'Done', 0, '{state}')"
        )
    };
    let report = "INSERT INTO event_bus_reports (subscriber_id, term, state, global_sequence, rate, reported_at)
        VALUES ('projection:x', 1, 'dreaming', 0, 0.0, 0)";
    for (sql, said, severity) in [
        (checkpoint("''", "1", "1"), "checkpoint '': a subscriber's name", Severity::Bad),
        (checkpoint("'projection:x'", "-1", "1"), "it stands at -1", Severity::Bad),
        (checkpoint("'projection:x'", "99", "1"), "94 beyond the end of the log", Severity::Bad),
        (checkpoint("'projection:x'", "1", "-4"), "its term -4 was never given", Severity::Bad),
        (checkpoint("'projection:x'", "1", "9223372036854775807"), "was never given", Severity::Bad),
        (
            "UPDATE event_bus_terms SET last = 9223372036854775807".to_owned(),
            "cannot be counted on from",
            Severity::Bad,
        ),
        ("DELETE FROM event_bus_terms".to_owned(), "it stands at NULL", Severity::Bad),
        (request("dance"), "what 'dance' asks for is not known", Severity::Warning),
        (request("discard"), "or not said", Severity::Warning),
        (letter("lost"), "its state 'lost' is not known", Severity::Warning),
        (letter("dead"), "is not in the log", Severity::Warning),
        (report.to_owned(), "its state 'dreaming' is not known", Severity::Note),
    ] {
        let folder = Folder::new();
        let store = history(&folder).await;
        let mut by_hand = connection(&folder.database()).await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.as_str())).execute(&mut by_hand).await.unwrap();
        assert_named(&store, said, severity).await;
        let all = store.read_all_events_since::<Deed>(0).collect().await.unwrap();
        assert_eq!(all.len(), 5, "{sql}: the log is as it was");
    }
}

#[tokio::test]
async fn a_letter_of_no_known_state_is_an_error_where_it_is_asked_for() {
    let folder = Folder::new();
    let store = history(&folder).await;
    let letter = "PRAGMA ignore_check_constraints = ON; INSERT INTO event_bus_dlq (id, subscriber_id, event_id,
        global_sequence, stream_id, event_type, created_at, state)
        VALUES (zeroblob(16), 'projection:x', zeroblob(16), 1, zeroblob(16), 'Done', 0, 'lost')";
    execute(&mut connection(&folder.database()).await, letter).await;
    let shown = store.letter(Uuid::nil()).await;
    assert!(
        matches!(&shown, Err(Error::Damaged { source, .. }) if source.to_string().contains("\"lost\"")),
        "{shown:?}"
    );
}
