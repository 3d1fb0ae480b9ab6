//! What applications call: the typed side of a log.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::evolve::{self, Decision, Evolve, ExecuteError, Loaded};
use crate::overview::PATIENCE;
use crate::{
    Append, Appended, Backend, Direction, Error, Event, EventStream, EventTypes, Explanation, Log, Metadata, Overview,
    Repair, codec, explain_with_patience,
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
    fn read_events<D: DeserializeOwned>(&self, stream_id: Uuid) -> EventStream<'_, D> {
        self.read_events_from(stream_id, 1)
    }

    /// The events of a stream from `version` on, `version` included.
    fn read_events_from<D: DeserializeOwned>(&self, stream_id: Uuid, version: u64) -> EventStream<'_, D> {
        EventStream::of_stream(self, stream_id, version, Direction::Forwards)
    }

    /// All events of a stream, from new to old.
    fn read_events_backwards<D: DeserializeOwned>(&self, stream_id: Uuid) -> EventStream<'_, D> {
        EventStream::of_stream(self, stream_id, u64::MAX, Direction::Backwards)
    }

    /// The last event of a stream, if there is one.
    ///
    /// # Errors
    /// When it cannot be read or decoded.
    fn read_last_event<D: DeserializeOwned>(
        &self,
        stream_id: Uuid,
    ) -> impl Future<Output = Result<Option<Event<D>>, Error>> + Send {
        async move { EventStream::last_of(self, stream_id).next().await.transpose() }
    }

    /// Every event after `global_sequence` (0: from the beginning) that `D` knows, over all streams, in order, at
    /// least up to what is committed when reading starts. Waits for writers that may still bring something below that.
    fn read_all_events_since<D: DeserializeOwned>(&self, global_sequence: u64) -> EventStream<'_, D> {
        EventStream::of_all(self, global_sequence, codec::event_types::<D>().map_err(Error::from))
    }

    /// As [`read_all_events_since`](Self::read_all_events_since), but of what `D` knows only the types named.
    fn read_all_events_of<D: DeserializeOwned>(&self, global_sequence: u64, types: EventTypes) -> EventStream<'_, D> {
        let known = codec::event_types::<D>().map_err(Error::from);
        EventStream::of_all(self, global_sequence, known.map(|known| known.intersection(types)))
    }

    /// The state of a stream, folded from all its events.
    ///
    /// # Errors
    /// When an event cannot be read or decoded, or is of a type that the state does not know.
    fn load<S: Evolve>(&self, stream_id: Uuid) -> impl Future<Output = Result<Loaded<S>, Error>> + Send {
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
        stream_id: Uuid,
        decide: F,
    ) -> impl Future<Output = Result<Option<Appended>, ExecuteError<E>>> + Send
    where
        S: Evolve,
        F: FnMut(&S) -> Result<R, E> + Send,
        R: Decision<S::Event> + Send,
        E: Send,
    {
        self.execute_with(stream_id, Metadata::new(), decide)
    }

    /// [`execute`](Self::execute), with metadata for the events.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn execute_with<S, F, R, E>(
        &self,
        stream_id: Uuid,
        metadata: Metadata,
        decide: F,
    ) -> impl Future<Output = Result<Option<Appended>, ExecuteError<E>>> + Send
    where
        S: Evolve,
        F: FnMut(&S) -> Result<R, E> + Send,
        R: Decision<S::Event> + Send,
        E: Send,
    {
        evolve::execute(self, stream_id, metadata, decide)
    }

    /// How the log and all its subscribers stand, wherever those run.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn overview(&self) -> impl Future<Output = Result<Overview, Error>> + Send
    where
        Self: Backend + Sized,
    {
        Overview::of(self)
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
        Self: Backend + Sized,
    {
        explain_with_patience(self, subscriber_id, PATIENCE)
    }

    /// Moves checkpoints of subscribers, and has them rebuilt, from outside.
    fn repair(&self) -> Repair<'_>
    where
        Self: Backend + Sized,
    {
        Repair::of(self)
    }
}

impl<L: Log + ?Sized> EventStore for L {}
