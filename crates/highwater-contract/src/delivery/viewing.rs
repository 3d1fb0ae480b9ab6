//! Live views: state in memory that is the log, folded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::backend::{Backend, BoxFuture, Page, ReadLimit, Transactional, Wrapper};
use highwater::{
    Append, BusError, Error, Event, Evolve, Filter, GlobalSequence, LiveView, Problem, StreamId, ViewOptions,
    ViewSnapshot, stream_id,
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use uuid::Uuid;

use super::players::{bus, end, fill, one};
use crate::support::{Ledger, QUIET, deposits, eventually, new_stream, store, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

/// Every deposit, in the order it was folded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Deposits(Vec<(Uuid, u64, i64)>);

impl Evolve for Deposits {
    type Event = Ledger;

    fn evolve(&mut self, event: &Event<Ledger>) {
        match &event.data {
            Ledger::Deposited { cents } => {
                self.0.push((event.id, event.global_sequence.expect("it is stored"), *cents));
            }
            Ledger::Noted(text) => assert_ne!(text, "poison", "on purpose"),
            _ => {}
        }
    }
}

impl Deposits {
    fn numbers(&self) -> Vec<u64> {
        self.0.iter().map(|(_, number, _)| *number).collect()
    }
}

async fn numbers(view: &LiveView<Deposits>, after: u64) -> Vec<u64> {
    within("a view", view.read_after(GlobalSequence(after), Deposits::numbers)).await.expect("it gets there")
}

pub(crate) async fn a_view_has_everything_on_every_instance<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut all = fill(&log, new_stream(), 5).await;
    let here = bus(&log);
    let elsewhere = bus(&harness.reopen(&log, Settings::default()).await);
    let views = [
        here.live_view::<Deposits>().expect("it can be started"),
        elsewhere.live_view::<Deposits>().expect("it can be started"),
    ];
    for view in &views {
        within("getting ready", view.ready()).await.expect("nothing speaks against it");
        assert_eq!(within("reading", view.read(Deposits::numbers)).await.expect("it is ready"), all);
    }
    for round in 0..20 {
        one(&log, new_stream(), Ledger::opened()).await;
        all.extend(fill(&log, new_stream(), 1 + round % 3).await);
        for view in &views {
            assert_eq!(
                numbers(view, all[all.len() - 1]).await,
                all,
                "what was just written is in it, once and in order"
            );
        }
    }
    // A process that starts later has the same, and what is not needed any more leaves the others alone.
    drop(views);
    let later = here.live_view::<Deposits>().expect("it can be started");
    assert_eq!(within("reading", later.read(Deposits::numbers)).await.expect("it becomes ready"), all);
    end(here).await;
    end(elsewhere).await;
}

pub(crate) async fn a_view_leaves_out_nothing_that_is_committed_late<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let bus = bus(&log);
    let late = harness.begin(&log, deposits(new_stream(), 2)).await.expect("an append can be begun");
    let early = fill(&log, new_stream(), 3).await;
    let view = bus.live_view::<Deposits>().expect("it can be started");
    let after = fill(&log, new_stream(), 3).await;
    // Long enough for a view that reads past what is open.
    let _ready = timeout(QUIET, view.ready()).await;
    let late = within("a commit", late.commit()).await.expect("an open append can be committed");
    let mut all: Vec<u64> = late.positions.iter().map(|place| place.global_sequence).collect();
    all.extend(early.into_iter().chain(after));
    all.sort_unstable();
    assert_eq!(numbers(&view, all[7]).await, all);
    end(bus).await;
}

pub(crate) async fn a_view_starts_from_a_snapshot_of_this_log<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut all = fill(&log, new_stream(), 4).await;
    let bus = bus(&log);
    let view = bus.live_view::<Deposits>().expect("it can be started");
    let snapshot = within("a snapshot", view.snapshot()).await.expect("it becomes ready");
    assert_eq!((snapshot.state.numbers(), snapshot.global_sequence), (all.clone(), all[3]));
    all.extend(fill(&log, new_stream(), 2).await);

    // What is in a snapshot is not folded again: this one says something else of what was before.
    let other = ViewSnapshot { state: Deposits::default(), ..snapshot.clone() };
    let from_there = bus.live_view_from(other.clone()).expect("it can be started");
    assert_eq!(numbers(&from_there, all[5]).await, all[4..]);

    // One whose last event is not there, or elsewhere, belongs to another log.
    let strangers = [
        ViewSnapshot { event_id: Some(Uuid::now_v7()), ..other.clone() },
        ViewSnapshot { event_id: None, ..other.clone() },
        ViewSnapshot { global_sequence: all[2], ..other.clone() },
        // Folded when the enum had fewer variants or more, or from other streams.
        ViewSnapshot { event_types: Some(vec!["Opened".into()]), ..other.clone() },
        ViewSnapshot { event_types: None, ..other.clone() },
        ViewSnapshot { kinds: Some(vec!["account".into()]), ..other },
    ];
    for stranger in strangers {
        let view = bus.live_view_from(stranger).expect("it can be started");
        assert_eq!(numbers(&view, all[5]).await, all, "it starts from the beginning");
    }
    end(bus).await;
}

pub(crate) async fn a_view_of_some_kinds_leaves_out_the_rest<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let one = async |stream: StreamId| {
        let deposit = Append::to(stream).event(Ledger::deposited(1));
        store(&log, &deposit).await.global_sequence
    };
    let accounts = |key: u32| stream_id("account", &key.to_string());
    let mut wanted = vec![one(accounts(1)).await];
    one(stream_id("customer", "1")).await;
    one(new_stream().into()).await;
    let bus = bus(&log);
    let view = bus.live_view_of_kinds::<Deposits>(["account"]).expect("it can be started");
    within("getting ready", view.ready()).await.expect("nothing speaks against it");
    // By its id alone: it is an account all the same.
    wanted.push(one(accounts(1).id().into()).await);
    let last = one(stream_id("accounts", "1")).await;
    assert_eq!(numbers(&view, last).await, wanted);
    end(bus).await;
}

pub(crate) async fn a_view_that_cannot_fold_says_so<H: Harness>(harness: Arc<H>) {
    for poison in [Append::to(new_stream()).event(Ledger::Noted("poison".into())), undecodable()] {
        let log = harness.fresh(Settings::default()).await;
        let bus = bus(&log);
        let view = bus.live_view::<Deposits>().expect("it can be started");
        fill(&log, new_stream(), 2).await;
        let bad = store(&log, &poison).await.global_sequence;
        let event = format!("event {bad} ");
        let says = |result: Result<Vec<u64>, Error>| match result {
            Err(Error::Bus(BusError::ViewStopped { reason, .. })) => assert!(reason.contains(&event), "{reason}"),
            other => panic!("it cannot be read any more: {other:?}"),
        };
        says(within("a view", view.read_after(GlobalSequence(bad), Deposits::numbers)).await);
        says(within("a view", view.read(Deposits::numbers)).await);
        says(within("a view", view.snapshot()).await.map(|snapshot| snapshot.state.numbers()));
        says(within("a view", view.ready()).await.map(|()| Vec::new()));
        let problems = bus.health().await.problems;
        let named = |problem: &Problem| matches!(problem, Problem::View { reason, .. } if reason.contains(&event));
        assert!(problems.iter().any(named), "{problems:?}");
        // One that nothing reads any more is no problem.
        drop(view);
        let problems = bus.health().await.problems;
        assert!(!problems.iter().any(named), "{problems:?}");
        end(bus).await;
    }
}

pub(crate) async fn a_view_that_skips_failures_continues_and_counts_them<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let bus = bus(&log);
    // One of them before it starts, and one after it is ready.
    let mut all = fill(&log, new_stream(), 2).await;
    let bad = [undecodable(), Append::to(new_stream()).event(Ledger::Noted("poison".into()))];
    store(&log, &bad[0]).await;
    let options = ViewOptions::<Deposits>::default().skip_failures();
    let view = bus.live_view_with(options).expect("it can be started");
    all.extend(fill(&log, new_stream(), 2).await);
    assert_eq!(numbers(&view, all[3]).await, all);
    let last = store(&log, &bad[1]).await.global_sequence;
    assert_eq!(numbers(&view, last).await, all, "a caller that waits for what was skipped is not kept");
    all.extend(fill(&log, new_stream(), 1).await);
    assert_eq!(numbers(&view, all[4]).await, all);
    let health = bus.health().await;
    let named = |problem: &Problem| match problem {
        Problem::ViewSkipped { events, last: said, .. } => *events == 2 && said.contains(&format!("event {last} ")),
        _ => false,
    };
    assert!(health.problems.iter().any(named), "{health:?}");
    assert!(health.is_ready(), "it can be read: {health:?}");
    // What was skipped is not missing for ever: a view that starts from there looks at it again, and this one stops.
    let snapshot = within("a snapshot", view.snapshot()).await.expect("it is ready");
    assert_eq!(snapshot.skipped, 2);
    let strict = bus.live_view_from(snapshot).expect("it can be started");
    let stopped = within("a view", strict.ready()).await;
    assert!(matches!(stopped, Err(Error::Bus(BusError::ViewStopped { .. }))), "{stopped:?}");
    end(bus).await;
}

/// A deposit of something that is no number.
fn undecodable() -> Append {
    #[derive(Serialize)]
    enum Other {
        Deposited { cents: &'static str },
    }
    Append::to(new_stream()).event(Other::Deposited { cents: "many" })
}

pub(crate) async fn a_view_waits_while_the_store_does_not_answer<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let all = fill(&log, new_stream(), 3).await;
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let flaky = Flaky::new(log.clone(), move |call| match call {
        Call::Read if is_down.load(Ordering::SeqCst) => Verdict::Fail,
        _ => Verdict::Through,
    });
    let bus = bus(&flaky);
    let view = bus.live_view::<Deposits>().expect("it can be started");
    assert_eq!(numbers(&view, all[2]).await, all);
    down.store(true, Ordering::SeqCst);
    let more = fill(&log, new_stream(), 2).await;
    eventually("health says that the log cannot be read", || async {
        bus.health()
            .await
            .problems
            .iter()
            .any(|problem| matches!(problem, Problem::View { .. } | Problem::Unreachable { .. }))
    })
    .await;
    // A read that was under way has perhaps brought the rest.
    let found = within("reading", view.read(Deposits::numbers)).await.expect("it has been ready");
    assert!(found.starts_with(&all), "{found:?}");
    down.store(false, Ordering::SeqCst);
    assert_eq!(numbers(&view, more[1]).await, [all, more].concat());
    end(bus).await;
}

/// A server that is replaced by another one, which does not have everything.
#[derive(Clone)]
struct Replaced<B> {
    first: B,
    second: B,
    switched: Arc<AtomicBool>,
}

impl<B: Transactional> Wrapper for Replaced<B> {
    fn inner(&self) -> &dyn Backend {
        if self.switched.load(Ordering::SeqCst) { &self.second } else { &self.first }
    }

    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn life(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let switched = self.switched.load(Ordering::SeqCst);
            Ok(self.inner().life().await?.wrapping_add(u64::from(switched)))
        })
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let switched = self.switched.load(Ordering::SeqCst);
            let page = self.inner().read_all(after, filter, limit).await?;
            Ok(Page { incarnation: page.incarnation.wrapping_add(u64::from(switched)), ..page })
        })
    }
}

pub(crate) async fn a_view_of_a_replaced_server_is_folded_anew<H: Harness>(harness: Arc<H>) {
    let (first, second) = (harness.fresh(Settings::default()).await, harness.fresh(Settings::default()).await);
    let before = fill(&first, new_stream(), 5).await;
    let after = fill(&second, new_stream(), 3).await;
    let ids: Vec<Uuid> = {
        let events = highwater::EventStore::read_all_events_since::<Ledger>(&second, 0);
        within("reading", events.collect()).await.expect("it can be read").into_iter().map(|event| event.id).collect()
    };
    let switched = Arc::new(AtomicBool::new(false));
    let replaced = Replaced { first, second: second.clone(), switched: Arc::clone(&switched) };
    let bus = highwater::Bus::over(&replaced, super::players::config()).expect("its settings are good");
    let view = bus.live_view::<Deposits>().expect("it can be started");
    assert_eq!(numbers(&view, before[4]).await, before);
    switched.store(true, Ordering::SeqCst);
    eventually("only what the new server has is in the view", || async {
        let same = |state: &Deposits| state.0.iter().map(|(id, ..)| *id).eq(ids.iter().copied());
        view.read(same).await.expect("it has been ready")
    })
    .await;
    let more = fill(&second, new_stream(), 1).await;
    assert_eq!(numbers(&view, more[0]).await, [after, more].concat());
    within("a shutdown", bus.shutdown()).await.expect("all stop in time");
}

pub(crate) async fn a_view_ends_with_its_bus<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let bus = bus(&log);
    let view = bus.live_view::<Deposits>().expect("it can be started");
    within("getting ready", view.ready()).await.expect("nothing speaks against it");
    let waiting = tokio::spawn({
        let view = view.clone();
        async move { view.read_after(GlobalSequence(1), |_| ()).await }
    });
    end(bus.clone()).await;
    let ended = within("a caller that waits", waiting).await.expect("it does not panic");
    assert!(matches!(ended, Err(Error::ShutDown)), "{ended:?}");
    let read = within("a view", view.read(Deposits::numbers)).await;
    assert!(matches!(read, Err(Error::ShutDown)), "it would stay as it is: {read:?}");
    let started = bus.live_view::<Deposits>().map(drop);
    assert!(matches!(started, Err(Error::ShutDown)), "{started:?}");
}
