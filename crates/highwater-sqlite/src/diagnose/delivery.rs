//! What waits for somebody: a filling, and letters.

use highwater::{DeadLetters, Error, Finding, LetterQuery, Unfinished};

use crate::store::SqliteEventStore;
use crate::transfer::unfinished;

/// A filling that is not finished keeps everybody from writing, and what is there is not everything.
pub(super) async fn filling(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    Ok(vec![Unfinished::finding(unfinished(&store.inner.pool).await?.as_ref())])
}

/// Dead letters that nobody has dealt with.
pub(super) async fn letters(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "dead letters";
    Ok(vec![match store.count_letters(&LetterQuery::default()).await? {
        0 => Finding::good(TOPIC, "none waits for anybody"),
        count => {
            let found = format!("{count} wait to be replayed or discarded");
            Finding::warning(TOPIC, found, "list them, mend the handler, then replay or discard them")
        }
    }])
}
