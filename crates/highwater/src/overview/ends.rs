//! Up to where a log is settled, and where it ends, for a caller that has not followed it.

use std::time::Duration;

use crate::delivery::status::Ends;
use crate::{Backend, Error, Filter, ReadLimit};

/// Pages that are read at most to find out how far the log is settled. A caller that looks every second must not read a
/// whole log each time.
const PAGES_MAX: u32 = 16;
/// How often to query where the log is settled, and how long to wait in between: a caller that has not seen open writers
/// begin learns it from the second answer on.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(5));

/// Up to where the log is settled, and where it ends. The end comes first, and what is just being written is given a moment:
/// what is not settled afterwards is held back. Where subscribers are says nothing about that: one that was started somewhere by
/// hand reads on from there, whatever is open below.
pub(crate) async fn ends(store: &dyn Backend) -> Result<Ends, Error> {
    let head = store.head().await?;
    let mut frontier = store.frontier().await?;
    for _ in 1..LOOKS.0 {
        if frontier >= head {
            break;
        }
        tokio::time::sleep(LOOKS.1).await;
        frontier = store.frontier().await?;
    }
    if frontier < head {
        // Contiguous numbers are read whatever writers are open.
        let next = store.read_all(frontier, &Filter::ALL, ReadLimit::events(1)).await?;
        frontier = next.complete_to.max(frontier);
    }
    Ok(Ends { frontier, head: head.max(frontier) })
}

/// Up to where the log is settled if it is up to `from`. A caller that has not seen writers begin cannot tell that at once;
/// a reader finds out on its way, as far as no number is missing.
pub(super) async fn read_on(store: &dyn Backend, from: u64, head: u64) -> Result<u64, Error> {
    let mut frontier = from;
    for _ in 0..PAGES_MAX {
        if frontier >= head {
            break;
        }
        let page = store.read_all(frontier, &Filter::ALL, ReadLimit::events(10_000)).await?;
        if page.complete_to <= frontier {
            break;
        }
        frontier = page.complete_to;
    }
    Ok(frontier.min(head))
}
