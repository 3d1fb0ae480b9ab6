//! Load, decide, append.

use std::sync::Arc;

use highwater::{Append, Event, EventStore, Evolve, ExecuteError, Metadata};
use tokio::task::JoinSet;

use crate::support::{Ledger, deposits, everything, new_stream, soak, store, stream, within};
use crate::{Harness, Settings};

#[derive(Debug, Default, PartialEq)]
struct Balance {
    cents: i64,
    deposits: i64,
}

impl Evolve for Balance {
    type Event = Ledger;

    fn evolve(&mut self, event: &Event<Ledger>) {
        if let Ledger::Deposited { cents } = event.data {
            self.cents += cents;
            self.deposits += 1;
        }
    }
}

pub(crate) async fn a_state_is_folded_from_its_stream<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let nothing = log.load::<Balance>(stream_id).await.expect("a stream is folded");
    assert_eq!((nothing.state, nothing.version), (Balance::default(), 0));
    store(&log, &deposits(new_stream(), 9)).await;
    store(&log, &deposits(stream_id, 4).event(Ledger::Closed)).await;
    let loaded = log.load::<Balance>(stream_id).await.expect("a stream is folded");
    assert_eq!((&loaded.state, loaded.version), (&Balance { cents: 10, deposits: 4 }, 5));
    store(&log, &Append::to(stream_id).expecting(loaded.expected()).event(Ledger::opened())).await;
}

pub(crate) async fn what_was_decided_is_stored<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let metadata = Metadata::new().with_actor("anna");
    let done = log.execute_with(stream_id, metadata.clone(), |balance: &Balance| {
        Ok::<_, String>([Ledger::deposited(balance.cents + 1), Ledger::deposited(balance.cents + 2)])
    });
    let done = done.await.expect("nothing speaks against it").expect("something was decided");
    assert_eq!((done.stream_version, done.positions.len()), (2, 2));
    let done = log.execute(stream_id, |balance: &Balance| Ok::<_, String>(Ledger::deposited(balance.cents * 10)));
    let done = done.await.expect("nothing speaks against it").expect("something was decided");
    assert_eq!(done.stream_version, 3);
    let events = log.read_events::<Ledger>(stream_id).collect().await.expect("a stream is read");
    assert_eq!(events[0].metadata, metadata);
    let data: Vec<Ledger> = events.into_iter().map(|event| event.data).collect();
    assert_eq!(data, [1, 2, 30].map(Ledger::deposited));
}

pub(crate) async fn a_decision_for_nothing_stores_nothing<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 1)).await;
    let before = everything(&log).await;
    let rejected = log.execute(stream_id, |balance: &Balance| Err::<Ledger, _>(format!("only {}", balance.cents)));
    match rejected.await {
        Err(ExecuteError::Rejected(reason)) => assert_eq!(reason, "only 1"),
        other => panic!("a rejection comes back as it is: {other:?}"),
    }
    let none = log.execute(stream_id, |_: &Balance| Ok::<_, String>(None::<Ledger>)).await;
    assert!(matches!(none, Ok(None)), "{none:?}");
    let none = log.execute(stream_id, |_: &Balance| Ok::<_, String>(Vec::<Ledger>::new())).await;
    assert!(matches!(none, Ok(None)), "{none:?}");
    assert_eq!(everything(&log).await, before);
}

pub(crate) async fn a_decision_is_made_again_when_another_writer_was_faster<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for _ in 0..soak(1) {
        let stream_id = new_stream();
        // Together fewer than the times that a decision is made again, so nobody can be beaten to it that often.
        let (racers, rounds) = (6, 8);
        let mut tasks = JoinSet::new();
        for _ in 0..racers {
            let log = log.clone();
            tasks.spawn(async move {
                for _ in 0..rounds {
                    // Each deposit is one more than the one before: only a decision on the latest state fits.
                    let decide = |balance: &Balance| Ok::<_, String>(Ledger::deposited(balance.deposits + 1));
                    let done = within("a decision", log.execute(stream_id, decide)).await;
                    assert!(matches!(done, Ok(Some(_))), "racers all come through in the end: {done:?}");
                }
            });
        }
        tasks.join_all().await;
        let events = log.read_events::<Ledger>(stream_id).collect().await.expect("a stream is read");
        let data: Vec<Ledger> = events.into_iter().map(|event| event.data).collect();
        let wanted: Vec<Ledger> = (1..=racers * rounds).map(Ledger::deposited).collect();
        assert_eq!(data, wanted, "nothing lost, nothing twice");
        stream(&log, stream_id).await;
    }
}
