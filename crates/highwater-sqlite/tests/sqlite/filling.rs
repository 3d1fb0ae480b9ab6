//! While a store is being filled.

use highwater::Error;
use highwater::backend::{Log, Transfer};

use crate::support::{Folder, connection, one};

#[tokio::test]
async fn who_is_kept_out_is_told_by_what() {
    let folder = Folder::new();
    let store = folder.store().await;
    let filling = store.fill("the old shop").await.unwrap();
    let mut work = store.begin().await.unwrap();
    work.append(one());
    for refused in [work.commit().await.map(drop), store.append(&one()).await.map(drop)] {
        let Err(Error::BeingFilled { reason }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("the old shop"), "{reason}");
    }
    filling.finish().await.unwrap();
    store.append(&one()).await.unwrap();
}

/// SQLite before 3.47 cannot read a database in which a trigger puts its message together.
#[tokio::test]
async fn older_programs_can_read_the_file_meanwhile() {
    let folder = Folder::new();
    let store = folder.store().await;
    let filling = store.fill("the old shop").await.unwrap();
    let mut other = connection(&folder.database()).await;
    let triggers: Vec<String> =
        sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").fetch_all(&mut other).await.unwrap();
    assert!(!triggers.is_empty());
    for trigger in triggers {
        let (_, message) = trigger.split_once("RAISE(ABORT, '").unwrap();
        let (_, rest) = message.split_once('\'').unwrap();
        assert!(rest.starts_with(')'), "the message is one literal: {trigger}");
    }
    filling.abandon().await.unwrap();
}
