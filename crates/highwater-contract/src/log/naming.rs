//! Names of streams: kept with their events, listed, and filtered by.

use std::sync::Arc;

use highwater::backend::{Log, NamedStream, ReadLimit};
use highwater::{Append, EventStore, EventTypes, Filter, Invalid, StreamId, stream_id};
use tokio::task::JoinSet;

use crate::support::{Ledger, Reader, deposits, everything, head, invalid, new_stream, store, stream, within};
use crate::{Harness, Settings};

async fn assert_named<L: Log>(log: &L, named: StreamId, events: usize) {
    let records = stream(log, named.id()).await;
    assert_eq!(records.len(), events);
    let name = named.name().expect("it can be stored");
    for record in records {
        assert_eq!(record.stream_name, name, "version {} of {named}", record.stream_version);
    }
}

pub(crate) async fn a_stream_keeps_the_name_that_its_first_event_brought<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    // Alone, many at once, to several streams, and in a transaction of the caller's.
    let [lone, many, one, other, open] = ["lone", "many", "one", "other", "open"].map(|key| stream_id("order", key));
    store(&log, &Append::to(lone).event(Ledger::opened())).await;
    store(&log, &Append::to(many).events([Ledger::opened(), Ledger::Closed])).await;
    store(&log, &Append::to(one).event(Ledger::opened()).and_to(other).event(Ledger::opened())).await;
    let begun = harness.begin(&log, Append::to(open).event(Ledger::opened())).await.expect("it can be begun");
    begun.commit().await.expect("it can be committed");
    for named in [lone, one, other, open] {
        assert_named(&log, named, 1).await;
    }
    // By its id alone, and by another name: in every way again.
    for (n, again) in [StreamId::from(lone.id()), StreamId::of_kind("customer", lone.id())].into_iter().enumerate() {
        store(&log, &Append::to(again).event(Ledger::deposited(1))).await;
        store(&log, &Append::to(again).events([Ledger::deposited(2), Ledger::Closed])).await;
        store(&log, &Append::to(new_stream()).event(Ledger::opened()).and_to(again).event(Ledger::Closed)).await;
        let begun = harness.begin(&log, Append::to(again).event(Ledger::Closed)).await.expect("it can be begun");
        begun.commit().await.expect("it can be committed");
        assert_named(&log, lone, 1 + 5 * (n + 1)).await;
    }
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let log = log.clone();
        tasks.spawn(async move { store(&log, &Append::to(many.id()).event(Ledger::deposited(n))).await });
    }
    within("all of them", tasks.join_all()).await;
    assert_named(&log, many, 22).await;
    let events = log.read_events::<Ledger>(many).collect().await.expect("it can be read");
    assert!(events.iter().all(|event| event.stream() == many), "an event says what its stream is called");
}

pub(crate) async fn a_stream_that_began_without_a_name_gets_one_later<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let named = stream_id("order", "17");
    store(&log, &deposits(named.id(), 2)).await;
    store(&log, &Append::to(named).event(Ledger::Closed)).await;
    store(&log, &deposits(named.id(), 2)).await;
    let names: Vec<bool> = stream(&log, named.id()).await.iter().map(|record| record.stream_name.is_some()).collect();
    assert_eq!(names, [false, false, true, true, true]);
    let id_only = new_stream();
    store(&log, &deposits(id_only, 2)).await;
    store(&log, &deposits(id_only, 2)).await;
    assert!(stream(&log, id_only).await.iter().all(|record| record.stream_name.is_none()));
}

pub(crate) async fn streams_are_listed_by_name<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    // In the order of their bytes.
    let names = [("Order", "1"), ("order", "10"), ("order", "9"), ("order", "ä"), ("order2", "1"), ("ä", "1")];
    for (versions, (kind, key)) in names.iter().enumerate().rev() {
        store(&log, &deposits(new_stream(), 1)).await;
        store(&log, &Append::to(stream_id(kind, key)).event(Ledger::opened())).await;
        if versions > 0 {
            store(&log, &deposits(stream_id(kind, key).id(), versions)).await;
        }
    }
    let all: Vec<NamedStream> = names
        .iter()
        .enumerate()
        .map(|(version, (kind, key))| {
            let stream = stream_id(kind, key);
            let name = stream.name().expect("it can be stored").expect("it has one");
            NamedStream { name, stream_id: stream.id(), version: version as u64 + 1 }
        })
        .collect();
    let list = async |prefix: &str, after: Option<NamedStream>, limit| {
        log.streams(prefix, after.as_ref(), limit).await.expect("they can be listed")
    };
    assert_eq!(list("", None, 100).await, all, "all that have a name");
    assert_eq!(list("order/", None, 100).await, all[1..4], "of a kind");
    assert_eq!(list("order", None, 100).await, all[1..5], "by any prefix");
    assert_eq!(list("order/10", None, 100).await, all[1..2]);
    assert_eq!(list("ord%", None, 100).await, [], "and to the letter");
    let mut paged: Vec<NamedStream> = Vec::new();
    loop {
        let page = list("order", paged.last().cloned(), 2).await;
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all[1..5], "in pages");
    // Two of the same name: an application may choose ids as it likes.
    let twins = [new_stream(), new_stream()];
    for id in twins {
        let name = stream_id("twin", "1").name().expect("it can be stored");
        store(&log, &Append::to(StreamId::with_name(id, name.as_ref())).event(Ledger::opened())).await;
    }
    let first = list("twin/", None, 1).await;
    let second = list("twin/", first.first().cloned(), 1).await;
    assert_eq!([first[0].stream_id, second[0].stream_id], twins, "each once");
}

pub(crate) async fn events_are_filtered_by_the_kinds_of_their_streams<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for round in 0..20 {
        store(&log, &deposits(new_stream(), 3)).await;
        for kind in ["order", "orders", "Order", "customer"] {
            let append = Append::to(stream_id(kind, &(round % 3).to_string()));
            store(&log, &append.event(Ledger::Noted(kind.to_owned())).event(Ledger::Closed)).await;
        }
    }
    let all = everything(&log).await;
    let filters = [
        Filter::ALL.of_kinds(["order"]),
        Filter::ALL.of_kinds(["customer", "order", "nobody"]),
        Filter::from(EventTypes::only(["Noted"])).of_kinds(["order"]),
        Filter::from(EventTypes::only(["Deposited"])).of_kinds(["order"]),
        Filter::ALL.of_kinds(["order/", "%", ""]),
        Filter::ALL.of_kinds::<String>([]),
    ];
    for filter in filters {
        let wanted: Vec<_> = all.iter().filter(|record| filter.accepts(record)).cloned().collect();
        for limit in [ReadLimit::events(1), ReadLimit::events(7), ReadLimit::default()] {
            let mut reader = Reader::new(filter.clone(), limit);
            reader.catch_up(&log).await;
            assert_eq!(reader.seen, wanted, "{filter:?} in pages of {limit:?}");
            assert_eq!(reader.position, head(&log).await, "to the end, though nothing there is wanted");
        }
    }
    let orders = log.read_all_events_of::<Ledger>(0, Filter::ALL.of_kinds(["order"])).collect().await;
    let orders = orders.expect("it can be read");
    assert_eq!(orders.len(), 40);
    assert!(orders.iter().all(|event| event.stream_name.as_ref().is_some_and(|name| name.kind() == "order")));
}

pub(crate) async fn names_that_cannot_be_are_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (long, longest) = ("x".repeat(122), "x".repeat(121));
    for (kind, key) in [("", "17"), ("order", ""), ("a/b", "c"), ("order", "1\n7"), ("ord\0er", "17"), ("order", &long)]
    {
        let bad = stream_id(kind, key);
        let refused = invalid(&log, &Append::to(bad).event(Ledger::Closed)).await;
        assert_is_named(&refused, bad, kind, key);
        // Beside one that is fine.
        let refused = invalid(&log, &deposits(new_stream(), 1).and_to(bad).event(Ledger::Closed)).await;
        assert_is_named(&refused, bad, kind, key);
        store(&log, &Append::to(bad.id()).event(Ledger::Closed)).await;
    }
    let fine = stream_id("order", &longest);
    store(&log, &Append::to(fine).event(Ledger::Closed)).await;
    assert_named(&log, fine, 1).await;
}

/// The error says which stream was refused, and for which name.
fn assert_is_named(refused: &Invalid, stream: StreamId, kind: &str, key: &str) {
    let Invalid::StreamName { stream_id, name } = refused else { panic!("{kind:?} {key:?}: {refused:?}") };
    assert_eq!(*stream_id, stream.id());
    assert!(format!("{kind}/{key}").starts_with(name.trim_end_matches('…')), "{name:?} is not what it was given");
}
