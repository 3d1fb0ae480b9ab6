//! What readers hold of a filling that was abandoned. The next one gives its numbers to other events.

use std::sync::Arc;

use highwater::backend::{Backend, Batch, Checkpoints, Log, Page, ReadLimit, Record, Transfer};
use highwater::{Claim, Error, Event, Evolve, Filter};
use uuid::Uuid;

use super::samples::Sample;
use super::{assert_holds, fill, finish, put};
use crate::delivery::players::{bus, end};
use crate::support::{Ledger, deposits, eventually, everything, new_stream, store as append, within};
use crate::{Harness, Settings};

/// The page after a position. A reader that was at it before may say once that the log is another one now.
pub(super) async fn page_after(log: &dyn Backend, position: u64) -> Page {
    loop {
        match within("a page", log.read_all(position, &Filter::ALL, ReadLimit::default())).await {
            Err(Error::Interrupted { .. }) => {}
            page => return page.expect("a page can be read"),
        }
    }
}

pub(crate) async fn positions_in_what_was_abandoned_are_void<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let other = harness.reopen(&store, Settings::default()).await;
    let mut known = Vec::new();
    for by_the_filler in [true, false] {
        let mut filling = fill(&store, "a sample").await;
        put(&mut *filling, &sample).await;
        for handle in [&store, &other] {
            let all = page_after(handle, 0).await;
            assert_eq!(all.records, sample.records);
            assert_eq!(page_after(handle, sample.head()).await.incarnation, all.incarnation, "nothing has happened");
            known.push(all.incarnation);
        }
        if by_the_filler {
            within("abandoning", filling.abandon()).await.expect("it can be abandoned");
        } else {
            drop(filling);
            assert!(within("abandoning", other.abandon()).await.expect("it can be abandoned"));
        }
    }
    let smaller = Sample::other();
    let mut filling = fill(&store, "another").await;
    put(&mut *filling, &smaller).await;
    finish(filling).await;
    let fresh = harness.reopen(&store, Settings::default()).await;
    let mut now = Vec::new();
    for handle in [&store, &other, &fresh] {
        // A reader that does not learn of it would believe to have seen everything that lies below.
        let page = page_after(handle, sample.head()).await;
        assert_eq!((page.records, page.complete_to), (Vec::new(), sample.head()));
        assert!(!known.contains(&page.incarnation), "a reader is not told that its position is void: {known:?}");
        now.extend([page.incarnation, within("asking", handle.life()).await.expect("it can be asked")]);
        assert_holds(handle, &smaller).await;
    }
    let taken = within("taking over", store.take_over(&Claim::of("projection:gone"))).await.expect("nobody leads");
    now.push(taken.checkpoint.incarnation);
    assert!(now.iter().all(|incarnation| *incarnation == now[0]), "there is one log, for all: {now:?}");
}

/// Every event, in the order it was folded.
#[derive(Debug, Clone, Default)]
struct Ids(Vec<Uuid>);

impl Evolve for Ids {
    type Event = Ledger;

    fn evolve(&mut self, event: &Event<Ledger>) {
        self.0.push(event.id);
    }
}

pub(crate) async fn a_view_of_what_was_abandoned_is_folded_anew<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let lived = async |events: usize| -> Vec<Record> {
        let elsewhere = harness.fresh(Settings::default()).await;
        append(&elsewhere, &deposits(new_stream(), events)).await;
        everything(&elsewhere).await
    };
    let ids = |records: &[Record]| -> Vec<Uuid> { records.iter().map(|record| record.id).collect() };
    let bus = bus(&log);
    let view = bus.live_view::<Ids>().expect("it can be started");
    let (first, second) = (lived(5).await, lived(3).await);
    let shows = |wanted: Vec<Uuid>| {
        let view = view.clone();
        let shown = move || {
            let (view, wanted) = (view.clone(), wanted.clone());
            async move { view.read(move |state| state.0 == wanted).await.expect("it has been ready") }
        };
        eventually("the view has what the log has, and nothing else", shown)
    };
    let mut filling = fill(&log, "the first").await;
    within("filling in", filling.put(Batch::Records(&first))).await.expect("records can be filled in");
    shows(ids(&first)).await;
    within("abandoning", filling.abandon()).await.expect("it can be abandoned");
    let mut filling = fill(&log, "the second").await;
    within("filling in", filling.put(Batch::Records(&second))).await.expect("records can be filled in");
    finish(filling).await;
    shows(ids(&second)).await;
    append(&log, &deposits(new_stream(), 2)).await;
    shows(ids(&everything(&log).await)).await;
    end(bus).await;
}
