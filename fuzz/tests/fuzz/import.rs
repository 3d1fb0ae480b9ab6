//! Importing: everything is imported as it is, or nothing is and the line is named; by every backend alike.

use std::path::PathBuf;
use std::time::Duration;

use highwater::backend::{Backend, Log};
use highwater::operations::DeadLetterQuery;
use highwater::transfer::{TransferError, export, import};
use highwater::{Append, Error, MemoryEventStore};
use highwater_fuzz::{Outcomes, Source};
use highwater_sqlite::SqliteEventStore;
use uuid::Uuid;

use crate::fuzz;
use crate::import_lines;

/// No import of a few lines takes longer, on any machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of an import: everything, exported again; or the line that was refused.
type Verdict = Result<Vec<u8>, u64>;

/// Imports, and checks that it was all or nothing.
async fn imported(store: &dyn Backend, bytes: &[u8]) -> Verdict {
    let done = tokio::time::timeout(PATIENCE, import(store, bytes, |_| ())).await;
    match done.unwrap_or_else(|_| panic!("it hangs: {}", shown(bytes))) {
        Ok(_) => {
            let mut text = Vec::new();
            export(store, &mut text, |_| ()).await.unwrap_or_else(|error| panic!("{error:?}: {}", shown(bytes)));
            Ok(text)
        }
        Err(Error::Transfer(TransferError::Import { line, .. })) => {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert!((1..=lines + 1).contains(&line), "line {line} of {lines}: {}", shown(bytes));
            assert_empty(store).await;
            Err(line)
        }
        Err(other) => panic!("no line is named: {other:?}: {}", shown(bytes)),
    }
}

async fn assert_empty(store: &dyn Backend) {
    assert_eq!(store.head().await.unwrap(), 0);
    assert_eq!(store.checkpoints().await.unwrap(), []);
    assert_eq!(
        store.count_dead_letters(&DeadLetterQuery { states: Vec::new(), ..DeadLetterQuery::default() }).await.unwrap(),
        0
    );
    assert_eq!(store.all_open_requests(None, 10).await.unwrap(), []);
    assert!(store.filling().await.unwrap().is_none());
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn name(verdict: &Verdict) -> &'static str {
    match verdict {
        Ok(_) => "imported",
        Err(1) => "refused at the header",
        Err(_) => "refused later",
    }
}

/// What is appended to a store that was filled.
#[derive(serde::Serialize)]
enum Next {
    Appended,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn nearly_valid_exports_are_imported_whole_or_not_at_all() {
    let (runtime, mut outcomes) = (runtime(), Outcomes::default());
    fuzz!(4_000, |bytes: &[u8]| {
        let text = import_lines::export(&mut Source::new(bytes));
        runtime.block_on(async {
            let verdict = imported(&MemoryEventStore::new(), &text).await;
            if let Ok(again) = &verdict {
                // What comes out goes in again, and comes out the same.
                let twice = imported(&MemoryEventStore::new(), again).await;
                assert_eq!(twice.as_ref(), Ok(again), "{}", shown(&text));
            }
            outcomes.add(name(&verdict));
        });
    });
    outcomes.assert(200, &["imported", "refused at the header", "refused later"]);
}

#[test]
fn noise_is_refused_at_its_first_line() {
    let runtime = runtime();
    fuzz!(2_000, |bytes: &[u8]| {
        let verdict = runtime.block_on(imported(&MemoryEventStore::new(), bytes));
        assert_eq!(verdict, Err(1));
    });
}

/// A file that is removed with what lies beside it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("highwater-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    async fn store(&self, n: usize) -> SqliteEventStore {
        let url = format!("sqlite:{}", self.0.join(format!("{n}.db")).display());
        let store = SqliteEventStore::open(&url).await.unwrap();
        store.initialize().await.unwrap();
        store
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After a failed test nothing is in the way if this fails.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn sqlite_accepts_and_refuses_what_memory_does() {
    let (runtime, folder, mut outcomes) = (runtime(), Folder::new(), Outcomes::default());
    let mut made = 0;
    let mut store = runtime.block_on(folder.store(made));
    fuzz!(300, |bytes: &[u8]| {
        let text = import_lines::export(&mut Source::new(bytes));
        runtime.block_on(async {
            let expected = imported(&MemoryEventStore::new(), &text).await;
            let verdict = imported(&store, &text).await;
            assert_eq!(verdict, expected, "{}", shown(&text));
            outcomes.add(name(&verdict));
            if verdict.is_ok() {
                // It is open for all writers now, and numbered on from there.
                store.append(&Append::to(Uuid::from_u128(9)).event(Next::Appended)).await.unwrap();
                made += 1;
                store = folder.store(made).await;
            }
        });
    });
    outcomes.assert(20, &["imported", "refused at the header", "refused later"]);
}
