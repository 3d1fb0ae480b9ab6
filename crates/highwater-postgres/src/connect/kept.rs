//! Connections of ours that are kept between two uses.
//!
//! One is given out only if it is certain to be there. It is kept again only when its user says that nothing is under way on
//! it: after an error, a time-out, or when the caller stops waiting, it is dropped with everything that was learnt on it, and
//! the server ends what it was at.

use std::sync::Mutex;
use std::time::Duration;

use highwater::Error;
use highwater::backend::lock;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Connector;

/// After how much rest a connection is asked whether it is still there before anything is trusted to it.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(1);

/// An open connection, and what is known from it.
pub(crate) struct Kept<K = ()> {
    connection: PgConnection,
    opened: Instant,
    used: Instant,
    pub(crate) known: K,
}

impl<K> Kept<K> {
    pub(crate) fn new(connection: PgConnection, known: K) -> Self {
        let now = Instant::now();
        Self { connection, opened: now, used: now, known }
    }

    /// The connection, to ask something on it now.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.used = Instant::now();
        &mut self.connection
    }

    /// Whether it may lead to a server that was replaced since it was opened.
    pub(crate) fn is_doubted(&self, connector: &Connector) -> bool {
        connector.hosts().doubts().concern(self.opened.elapsed())
    }

    /// Whether it is certain to be there. One that does not answer is not waited for until the caller's time is up.
    async fn is_there(&mut self, connector: &Connector) -> bool {
        if self.is_doubted(connector) {
            return false;
        }
        self.used.elapsed() < IDLE_MAX || answers(self.connection(), connector.timeout() / 4).await
    }

    /// Closes it in order, so that the server need not find out.
    pub(crate) async fn close(self) -> Result<(), sqlx::Error> {
        self.connection.close().await
    }

    /// The one that was kept, if it is certain to be there, or a new one.
    pub(crate) async fn or_new(
        kept: Option<Self>,
        connector: &Connector,
        opening: impl Future<Output = Result<(PgConnection, K), Error>>,
    ) -> Result<Self, Error> {
        if let Some(mut kept) = kept
            && kept.is_there(connector).await
        {
            return Ok(kept);
        }
        let (connection, known) = opening.await?;
        Ok(Self::new(connection, known))
    }
}

/// Whether a connection answers within a time.
pub(crate) async fn answers(connection: &mut PgConnection, patience: Duration) -> bool {
    matches!(tokio::time::timeout(patience, connection.ping()).await, Ok(Ok(())))
}

/// Connections that rest until they are needed, and the right to have one.
pub(crate) struct Stock<K = ()> {
    connector: Connector,
    places: Semaphore,
    /// The one that was used last is given out first, so that those which nobody needs are the ones that rest.
    resting: Mutex<Vec<Kept<K>>>,
    /// One that has rested for longer when another comes back is one too many.
    rest_max: Duration,
}

impl<K> Stock<K> {
    pub(crate) fn new(connector: Connector, connections_max: usize, rest_max: Duration) -> Self {
        Self { connector, places: Semaphore::new(connections_max), resting: Mutex::default(), rest_max }
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// A connection: one that rests, if it is certain to be there, or a new one. Waits for a place within the time for
    /// connecting.
    pub(crate) async fn lend(
        &self,
        busy: &'static str,
        opening: impl Future<Output = Result<Kept<K>, Error>>,
    ) -> Result<Lent<'_, K>, Error> {
        let unavailable = |source| Error::Unavailable { action: busy, source };
        let place = tokio::time::timeout(self.connector.timeout(), self.places.acquire()).await;
        let place =
            place.map_err(|elapsed| unavailable(elapsed.into()))?.map_err(|closed| unavailable(closed.into()))?;
        while let Some(mut kept) = self.pop() {
            if kept.is_there(&self.connector).await {
                return Ok(Lent { stock: self, kept, place });
            }
        }
        Ok(Lent { stock: self, kept: opening.await?, place })
    }

    fn pop(&self) -> Option<Kept<K>> {
        lock(&self.resting).pop()
    }
}

/// A connection in use. Closed unless it is given back.
pub(crate) struct Lent<'a, K = ()> {
    stock: &'a Stock<K>,
    pub(crate) kept: Kept<K>,
    place: SemaphorePermit<'a>,
}

impl<K> Lent<'_, K> {
    /// Nothing is under way on it.
    pub(crate) fn give_back(self) {
        let Self { stock, mut kept, place } = self;
        kept.used = Instant::now();
        put_back(&mut lock(&stock.resting), kept, |kept| kept.used, stock.rest_max);
        // Last, so that the next to have a place finds it.
        drop(place);
    }
}

fn put_back<T>(resting: &mut Vec<T>, one: T, used: impl Fn(&T) -> Instant, rest_max: Duration) {
    resting.retain(|other| used(other).elapsed() <= rest_max);
    resting.push(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST_MAX: Duration = Duration::from_secs(1);

    /// A stock whose connections are the times at which they were last used.
    #[derive(Default)]
    struct Times {
        resting: Vec<Instant>,
        opened: usize,
    }

    impl Times {
        /// Uses so many connections at once, for a moment.
        async fn used(&mut self, at_once: usize) {
            for _ in 0..at_once {
                if self.resting.pop().is_none() {
                    self.opened += 1;
                }
            }
            tokio::time::advance(Duration::from_millis(1)).await;
            for _ in 0..at_once {
                put_back(&mut self.resting, Instant::now(), |used| *used, REST_MAX);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_connections_are_kept_than_are_needed() {
        let mut stock = Times::default();
        stock.used(4).await;
        for _ in 0..20 {
            tokio::time::advance(Duration::from_millis(332)).await;
            stock.used(1).await;
        }
        assert_eq!((stock.resting.len(), stock.opened), (1, 4), "one is enough for one after the other");
        tokio::time::advance(Duration::from_secs(60)).await;
        stock.used(1).await;
        assert_eq!((stock.resting.len(), stock.opened), (1, 4), "and may rest for as long as it likes");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_needed_together_stay_together() {
        let mut stock = Times::default();
        for _ in 0..10 {
            stock.used(4).await;
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!((stock.resting.len(), stock.opened), (4, 4));
    }
}
