//! What applications call: the typed side of a log.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::diagnose::Kinds;
use crate::evolve::{self, Decision, Evolve, ExecuteError, Loaded};
use crate::overview::PATIENCE;
use crate::{
    Append, Appended, Backend, Error, Event, EventStream, EventTypes, Explanation, Filter, IntoGlobalSequence,
    IntoStreamId, Log, Metadata, Overview, Removed, Repair, StreamRead, codec, explain_with_patience,
};

/// The typed conveniences that every [`Log`] has.
pub trait EventStore: Log {
    /// Stores one event and returns it with its numbers. A `stream_version` other than 0 is the version it must get.
    ///
    /// # Errors
    /// As [`Log::append`].
    fn store_event<D>(&self, event: Event<D>) -> impl Future<Output = Result<Event<D>, Error>> + Send
    where
        D: Serialize + Send,
    {
        async move {
            let mut stored = self.store_events(vec![event]).await?;
            Ok(stored.pop().expect("one event went in, so one came out"))
        }
    }

    /// Stores events together or not at all, across several streams too. The first version given for a stream is what
    /// is expected of it; 0 expects nothing.
    ///
    /// # Errors
    /// As [`Log::append`].
    fn store_events<D>(&self, events: Vec<Event<D>>) -> impl Future<Output = Result<Vec<Event<D>>, Error>> + Send
    where
        D: Serialize + Send,
    {
        // Encoded before the first await, so that `D` need not be `Sync`.
        let append = Append::of_events(&events);
        async move {
            let done = self.append(&append?).await?;
            let numbered = events.into_iter().zip(done.positions).map(|(mut event, position)| {
                event.stream_version = position.stream_version;
                event.global_sequence = Some(position.global_sequence);
                if event.schema_version == 0 {
                    event.schema_version = self.upcasters().current_version(&event.event_type);
                }
                event
            });
            Ok(numbered.collect())
        }
    }

    /// All events of a stream, from old to new. A type that `D` does not know is an error here.
    fn read_events<D: DeserializeOwned>(&self, stream: impl Into<Uuid>) -> EventStream<'_, D> {
        self.read_events_from(stream, 1)
    }

    /// The events of a stream from `version` on, `version` included.
    fn read_events_from<D: DeserializeOwned>(&self, stream: impl Into<Uuid>, version: u64) -> EventStream<'_, D> {
        EventStream::of_stream(self, stream.into(), StreamRead::forwards(version))
    }

    /// The events of a stream that lie after a place in the log, from old to new: what was stored in it since.
    ///
    /// ```
    /// # use highwater::prelude::*;
    /// # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)] enum Order { Placed, Shipped }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let (store, order) = (MemoryEventStore::new(), stream_id("order", "17"));
    /// let placed = store.append(&Append::to(order).event(Order::Placed)).await?;
    /// store.append(&Append::to(order).event(Order::Shipped)).await?;
    /// let since = store.read_events_since::<Order>(order, &placed).collect().await?;
    /// assert_eq!(since[0].data, Order::Shipped);
    /// # Ok::<(), highwater::Error>(()) }).unwrap();
    /// ```
    fn read_events_since<D: DeserializeOwned>(
        &self,
        stream: impl Into<Uuid>,
        global_sequence: impl IntoGlobalSequence,
    ) -> EventStream<'_, D> {
        let after = global_sequence.into_global_sequence().0;
        EventStream::of_stream(self, stream.into(), StreamRead { after, ..StreamRead::forwards(1) })
    }

    /// The events of a stream, from old to new: of what `D` knows only the types named. Others are skipped, also those that
    /// `D` does not know.
    ///
    /// ```
    /// # use highwater::prelude::*;
    /// # use highwater::EventTypes;
    /// # #[derive(serde::Serialize, serde::Deserialize)] enum Order { Placed, Noted(String), Shipped }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let (store, order) = (MemoryEventStore::new(), stream_id("order", "17"));
    /// let append = Append::to(order).event(Order::Placed).event(Order::Noted("urgent".into())).event(Order::Shipped);
    /// store.append(&append).await?;
    /// let notes = store.read_events_of::<Order>(order, EventTypes::only(["Noted"])).collect().await?;
    /// assert_eq!(notes[0].stream_version, 2);
    /// # Ok::<(), highwater::Error>(()) }).unwrap();
    /// ```
    fn read_events_of<D: DeserializeOwned>(&self, stream: impl Into<Uuid>, types: EventTypes) -> EventStream<'_, D> {
        EventStream::of_stream_and_types(self, stream.into(), types)
    }

    /// All events of a stream, from new to old.
    fn read_events_backwards<D: DeserializeOwned>(&self, stream: impl Into<Uuid>) -> EventStream<'_, D> {
        EventStream::of_stream(self, stream.into(), StreamRead::backwards(u64::MAX))
    }

    /// The last event of a stream, if there is one.
    ///
    /// # Errors
    /// When it cannot be read or decoded.
    fn read_last_event<D: DeserializeOwned>(
        &self,
        stream: impl Into<Uuid>,
    ) -> impl Future<Output = Result<Option<Event<D>>, Error>> + Send {
        let last = EventStream::last_of(self, stream.into());
        async move { { last }.next().await.transpose() }
    }

    /// Every event after `global_sequence` (0: from the beginning) that `D` knows, over all streams, in order, at
    /// least up to what is committed when reading starts. Waits for writers that may still bring something below that.
    fn read_all_events_since<D: DeserializeOwned>(&self, global_sequence: u64) -> EventStream<'_, D> {
        self.read_all_events_of(global_sequence, Filter::ALL)
    }

    /// As [`read_all_events_since`](Self::read_all_events_since), but of what `D` knows only what the
    /// filter accepts: some types (`EventTypes::only(["Placed"])`), or what is in streams of some kinds
    /// (`Filter::ALL.of_kinds(["order"])`).
    fn read_all_events_of<D: DeserializeOwned>(
        &self,
        global_sequence: u64,
        filter: impl Into<Filter>,
    ) -> EventStream<'_, D> {
        let Filter { types, kinds } = filter.into();
        let known = codec::event_types::<D>().map_err(Error::from);
        EventStream::of_all(self, global_sequence, known.map(|known| known.intersection(types)), kinds)
    }

    /// Event types that occur in streams of different kinds, with those kinds: by their names alone two enums may be mixed up in
    /// whatever reads that type. Reads the whole log: for tests, which assert that there are none.
    ///
    /// ```
    /// # use highwater::prelude::*;
    /// # #[derive(serde::Serialize, serde::Deserialize)] enum Bike { Registered { name: String } }
    /// # #[derive(serde::Serialize, serde::Deserialize)] enum Customer { Registered { name: String } }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let store = MemoryEventStore::new();
    /// store.append(&Append::to(stream_id("bike", "7")).event(Bike::Registered { name: "Red".into() })).await?;
    /// store.append(&Append::to(stream_id("customer", "1")).event(Customer::Registered { name: "Anna".into() })).await?;
    /// let mixed = store.types_in_several_kinds().await?;
    /// assert!(mixed["Registered"].contains("bike") && mixed["Registered"].contains("customer"));
    /// # Ok::<(), highwater::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When the log cannot be read.
    fn types_in_several_kinds(&self) -> impl Future<Output = Result<BTreeMap<String, BTreeSet<String>>, Error>> + Send {
        async move { Ok(Kinds::since(self, 0).await?.mixed()) }
    }

    /// The state of a stream, folded from all its events.
    ///
    /// # Errors
    /// When an event cannot be read or decoded, or is of a type that the state does not know.
    fn load<S: Evolve>(&self, stream: impl Into<Uuid>) -> impl Future<Output = Result<Loaded<S>, Error>> + Send {
        let stream_id = stream.into();
        async move {
            let mut loaded = Loaded::default();
            evolve::catch_up(self, stream_id, &mut loaded).await?;
            Ok(loaded)
        }
    }

    /// Load, decide, append: and again from the start when another writer was faster.
    ///
    /// `decide` may be called several times and should do nothing but decide. It returns an event, several, or none;
    /// `None` comes back when it decided on nothing.
    ///
    /// # Errors
    /// [`ExecuteError::Rejected`] with what `decide` returned, or [`ExecuteError::Store`].
    fn execute<S, F, R, E>(
        &self,
        stream: impl IntoStreamId,
        decide: F,
    ) -> impl Future<Output = Result<Option<Appended>, ExecuteError<E>>> + Send
    where
        S: Evolve,
        F: FnMut(&S) -> Result<R, E> + Send,
        R: Decision<S::Event> + Send,
        E: Send,
    {
        self.execute_with(stream, Metadata::new(), decide)
    }

    /// [`execute`](Self::execute), with metadata for the events.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn execute_with<S, F, R, E>(
        &self,
        stream: impl IntoStreamId,
        metadata: Metadata,
        decide: F,
    ) -> impl Future<Output = Result<Option<Appended>, ExecuteError<E>>> + Send
    where
        S: Evolve,
        F: FnMut(&S) -> Result<R, E> + Send,
        R: Decision<S::Event> + Send,
        E: Send,
    {
        evolve::execute(self, stream.into_stream_id(), metadata, decide)
    }

    /// How the log and all its subscribers stand, wherever those run.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn overview(&self) -> impl Future<Output = Result<Overview, Error>> + Send
    where
        Self: Backend,
    {
        async { Overview::of(&*self.shared()).await }
    }

    /// Says why a subscriber is where it is. It is asked of the store alone: no bus is needed, and none of the subscriber's
    /// code.
    ///
    /// ```
    /// use highwater::backend::Checkpoints;
    /// use highwater::{Claim, EventStore, MemoryEventStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let store = MemoryEventStore::new();
    /// store.take_over(&Claim::of("projection:orders")).await?;
    /// for cause in store.explain("projection:orders").await?.causes {
    ///     println!("{cause}");
    /// }
    /// # Ok::<(), highwater::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the store cannot be asked.
    fn explain(&self, subscriber_id: &str) -> impl Future<Output = Result<Explanation, Error>> + Send
    where
        Self: Backend,
    {
        async move { explain_with_patience(&*self.shared(), subscriber_id, PATIENCE).await }
    }

    /// Moves checkpoints of subscribers, and has them rebuilt, from outside.
    fn repair(&self) -> Repair
    where
        Self: Backend,
    {
        Repair::of(self.shared())
    }

    /// Removes a subscriber that no application subscribes any more, as [`repair().remove()`](Repair::remove) does: its checkpoint is
    /// gone, its open dead letters are archived, and a former leader can store nothing.
    ///
    /// # Errors
    /// As [`Repair::remove`].
    fn remove_subscriber(&self, subscriber_id: &str) -> impl Future<Output = Result<Removed, Error>> + Send
    where
        Self: Backend,
    {
        async move { self.repair().remove(subscriber_id).await }
    }
}

impl<L: Log + ?Sized> EventStore for L {}
