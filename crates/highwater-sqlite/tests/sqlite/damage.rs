//! A file that was changed by hand.

use Told::{Damaged, Nothing, Undecodable};
use highwater::backend::Severity;
use highwater::{Event, InstanceMode, observer_fn};
use highwater_contract::damage::{ByHand, Damage, Told, after, assert_does_not_start, assert_named, history};
use highwater_sqlite::SqliteEventStore;
use uuid::Uuid;

use crate::support::{Folder, Note, connection, execute};

impl ByHand for Folder {
    type Store = SqliteEventStore;

    const UNBOUND: &str = "ALTER TABLE events RENAME TO was;
        CREATE TABLE events (global_sequence INTEGER PRIMARY KEY, stream_version, created_at, id, stream_id,
            schema_version, event_type, data, metadata, stream_name);
        INSERT INTO events SELECT global_sequence, stream_version, created_at, id, stream_id, schema_version,
            event_type, data, metadata, stream_name FROM was;
        DROP TABLE was;";
    const LOOSE: &str = "PRAGMA ignore_check_constraints = ON";
    const NOW: &str = "0";
    const EVENTS: &[Damage] = &[
        ("data = NULL", Undecodable, Undecodable, "event 2: its data"),
        ("data = 'torn{'", Undecodable, Undecodable, "event 2: its data"),
        ("data = x'ff00fe'", Damaged, Damaged, "event 2: its data"),
        ("data = CAST(x'7b22776861742200223a2278227d' AS TEXT)", Undecodable, Undecodable, "event 2: its data"),
        ("metadata = 7", Undecodable, Undecodable, "event 2: its metadata"),
        ("id = 'no uuid'", Damaged, Damaged, "event 2: its id"),
        ("id = NULL", Damaged, Damaged, "event 2: its id"),
        ("stream_version = 'two'", Damaged, Damaged, "event 2: its version"),
        ("event_type = ''", Nothing, Damaged, "event 2: its type"),
        ("event_type = x'ff'", Nothing, Damaged, "event 2: its type"),
        ("created_at = 9223372036854775807", Damaged, Damaged, "event 2: its time"),
        ("stream_version = 1", Nothing, Damaged, "versions are there twice"),
    ];
    const MISSING: [&str; 2] = ["is at version 3 and has 2 events"; 2];
    const LARGEST: &str = "9223372036854775807 and has 3 events";
    const BESIDE: &[(&str, &str, Severity)] = &[
        ("UPDATE event_bus_terms SET last = 9223372036854775807", "cannot be counted on from", Severity::Bad),
        ("DELETE FROM event_bus_terms", "it stands at NULL", Severity::Bad),
    ];
    const TERMS: &[&str] = &["UPDATE event_bus_terms SET last = 0"];
    const READS: u64 = 20;

    async fn fresh() -> (Self, SqliteEventStore) {
        let folder = Self::new();
        let store = folder.store().await;
        (folder, store)
    }

    async fn execute(&self, sql: &str) {
        execute(&mut connection(&self.database()).await, sql).await;
    }

    fn id(id: Uuid) -> String {
        format!("unhex('{}')", id.simple())
    }

    fn quoted(number: i64) -> String {
        number.to_string()
    }
}

highwater_contract::damage_suite!(Folder);

#[tokio::test]
async fn checks_that_sqlite_was_told_to_ignore_are_missed_by_nobody() {
    let (folder, store) = history::<Folder>().await;
    let damage = "UPDATE events SET stream_version = -2, id = x'01' WHERE global_sequence = 2";
    ByHand::execute(&folder, &format!("{}; {damage}", Folder::LOOSE)).await;
    assert_eq!(Told::by_all(&store).await, Damaged);
    assert_named(&store, "event 2: its id", Severity::Bad).await;
    assert_named(&store, "event 2: its version", Severity::Bad).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_of_terms_that_is_damaged_keeps_everybody_from_starting_and_says_so() {
    for (sql, ..) in Folder::BESIDE {
        let (_folder, _store, bus) = after::<Folder>(sql, InstanceMode::SingleInstance).await;
        let observer = observer_fn("projection:x", |_: Event<Note>| std::future::ready(Ok(())));
        assert_does_not_start(bus.subscribe(observer).await, "damaged").await;
        bus.shutdown().await.unwrap();
    }
}
