//! Events that no append would store, and that are in a store nevertheless.

use highwater::backend::{Backend, Log, Transactional};
use highwater::transfer::TransferError;
use highwater::{Error, Filter, Invalid, MemoryEventStore, transfer};

use super::{ByHand, history};

/// What plain SQL or a hand at the table writes into event 2.
const UNSTORABLE: [&str; 6] = [
    r#"data = '{"owner":"\u0000"}'"#,
    r#"data = '{"owner":"\ud800"}'"#,
    r#"metadata = '{"a":"\u0000"}'"#,
    r#"metadata = '{"a":"\ud800"}'"#,
    r#"metadata = '{"a":1e999}'"#,
    "metadata = '[]'",
];

#[doc(hidden)]
pub async fn an_event_that_no_append_would_store_is_named_by_whatever_copies_it<D: ByHand>() {
    for set in UNSTORABLE {
        let (by_hand, store) = history::<D>().await;
        let sound = exported(&store).await.expect("nothing is wrong yet");
        let id = store.read_all(0, &Filter::ALL, Default::default()).await.expect("it can be read").records[1].id;
        by_hand.execute(D::UNBOUND).await;
        by_hand.execute(&format!("UPDATE events SET {set} WHERE global_sequence = 2")).await;
        let named = |error: &Error| {
            let Error::Invalid(Invalid::Event { event_id, global_sequence, .. }) = error else { return false };
            let says = error.to_string();
            (*event_id, *global_sequence) == (id, 2) && says.contains(&format!("event {id} at 2: "))
        };
        let copied = transfer::copy(&store, "damaged", &MemoryEventStore::new(), |_| ()).await;
        assert!(copied.as_ref().is_err_and(named), "{set}: {copied:?}");
        let refused = exported(&store).await;
        assert!(refused.as_ref().is_err_and(named), "{set}: {refused:?}");
        let refused = transfer::import(&MemoryEventStore::new(), edited(&sound, set).as_bytes(), |_| ()).await;
        let Err(Error::Transfer(TransferError::Import { line: 3, source })) = &refused else {
            panic!("{set}: it is an error of line 3, and not {refused:?}")
        };
        assert!(source.downcast_ref().is_some_and(named), "{set}: {refused:?}");
    }
}

async fn exported<S: Transactional>(store: &S) -> Result<String, Error> {
    let mut lines = Vec::new();
    transfer::export(store as &dyn Backend, &mut lines, |_| ()).await?;
    Ok(String::from_utf8(lines).expect("an export is text"))
}

/// An export with the same in its third line, which is event 2.
fn edited(sound: &str, set: &str) -> String {
    let (column, json) = set.split_once(" = ").expect("it is set to something");
    let mut lines: Vec<String> = sound.lines().map(str::to_owned).collect();
    let from = lines[2].find(&format!("\"{column}\":")).expect("it is there") + column.len() + 3;
    let length = 1 + lines[2][from..].find('}').expect("it is an object of one level at most");
    lines[2].replace_range(from..from + length, json.trim_matches('\''));
    lines.into_iter().map(|line| line + "\n").collect()
}
