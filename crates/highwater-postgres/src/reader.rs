//! Connections for reading in order. Each has its own frontier, which is thrown away with it; how far the order is settled
//! is shared by all of a store, and begins with what was proved before.
//!
//! Statements of one read run on one connection, each by itself, outside any transaction: first the sequence, then the
//! holders of its lock, then the highest committed event, then the page. Any error in between, and a caller that stops
//! waiting, drops the connection and with it everything that was learnt on it.

use std::sync::Arc;
use std::time::Duration;

use highwater::backend::{Page, ReadLimit, Record};
use highwater::{Error, Filter};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Postgres, Row};

use crate::connect::{Connector, Kept, Stock, life};
use crate::error::{failed_in_life, in_time, sqlstate};
use crate::frontier::Frontier;
use crate::row::{self, Stopped, signed, unsigned};
use crate::settled::Settled;
use crate::sql::Sql;

/// Numbers that one filtered statement looks through, found or not: it must end in bounded time, or its snapshot would
/// hold back vacuum.
const SCAN_MAX: u64 = 50_000;
/// Records of one statement, whatever the caller asks for.
const EVENTS_MAX: usize = 20_000;
/// How long to wait for a proof to be stored.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one statement may take, including the time in which the caller consumes what it returns.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The readers that wait for work, and the right to have one.
pub(crate) struct Readers {
    sql: Arc<Sql>,
    stock: Stock<Known>,
    settled: Arc<Settled>,
}

type Reader = Kept<Known>;

/// What a reader knows from its connection.
struct Known {
    /// Every observation says which life of the server it is of. One of another voids everything learnt before.
    life: u64,
    frontier: Frontier,
    /// Records in the page before: the next is often as long.
    expected: usize,
}

impl Readers {
    pub(crate) fn new(connector: Connector, sql: Arc<Sql>, connections_max: usize, settled: Arc<Settled>) -> Self {
        // None is closed for having rested: it knows more than a new one would.
        Self { sql, stock: Stock::new(connector, connections_max, Duration::MAX), settled }
    }

    /// One page; see [`highwater::backend::Log::read_all`].
    pub(crate) async fn read(&self, after: u64, filter: &Filter, limit: ReadLimit) -> Result<Page, Error> {
        self.with_reader(async |reader| reader.read(&self.sql, after, filter, limit).await).await
    }

    /// How far the order is settled; see [`highwater::backend::Log::frontier`].
    pub(crate) async fn frontier(&self) -> Result<u64, Error> {
        self.with_reader(async |reader| {
            reader.settle(&self.sql, reader.known.frontier.settled()).await?;
            Ok((reader.known.frontier.settled(), true))
        })
        .await
    }

    /// Does something on a reader, and says whether that may be used again.
    async fn with_reader<T>(
        &self,
        work: impl AsyncFnOnce(&mut Reader) -> Result<(T, bool), Error>,
    ) -> Result<T, Error> {
        let mut lent = self.stock.lend("read: all connections for reading were busy", self.open()).await?;
        let reader = &mut lent.kept;
        reader.known.frontier.settle(self.settled.to(reader.known.life));
        let done = tokio::time::timeout(READ_TIMEOUT, work(reader)).await;
        // An error, or a future that is dropped at the await above, drops the reader.
        let (found, reusable) =
            done.map_err(|elapsed| Error::Unavailable { action: "read in time", source: elapsed.into() })??;
        let life = reader.known.life;
        self.settled.raise(life, reader.known.frontier.settled());
        if reusable && (!self.settled.is_to_be_stored(life) || self.store(reader).await) {
            lent.give_back();
        }
        Ok(found)
    }

    /// Has the database store how far the order is settled, for readers that begin later. Returns whether the reader may be used
    /// again; a read does not fail because of it.
    async fn store(&self, reader: &mut Reader) -> bool {
        let life = reader.known.life;
        let asking = sqlx::query(self.sql.settle.clone()).fetch_one(reader.connection());
        let answer = match tokio::time::timeout(STORE_TIMEOUT, asking).await {
            Ok(Ok(row)) => observed_in(life, &row),
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot store how far the order is settled");
                // The role may not, or only reads.
                if sqlstate(&error).is_some_and(|code| code.starts_with("42") || code == "25006") {
                    self.settled.stored(life, u64::MAX);
                }
                return error.as_database_error().is_some();
            }
            Err(_) => return false,
        };
        if let Ok(Some(to)) = answer {
            self.settled.stored(life, unsigned(to));
        }
        answer.is_ok()
    }

    async fn open(&self) -> Result<Reader, Error> {
        let connector = self.stock.connector();
        let mut connection = connector.connect("read", None).await?;
        let (life, proved) = in_time(connector.timeout(), "learn how far the order is settled in time", async {
            let life = connector.life(&mut connection).await?;
            Ok((life, proved(&mut connection, &self.sql, life).await?))
        })
        .await?;
        Ok(Kept::new(connection, Known { life, frontier: Frontier::starting_at(proved), expected: 0 }))
    }
}

impl Reader {
    /// A page, and whether the connection may be used again.
    async fn read(&mut self, sql: &Sql, after: u64, filter: &Filter, limit: ReadLimit) -> Result<(Page, bool), Error> {
        let limit = ReadLimit { events: limit.events.clamp(1, EVENTS_MAX), ..limit };
        if self.known.frontier.settled() <= after && *filter == Filter::ALL {
            let (records, reusable) = self.read_contiguous(sql, after, limit).await?;
            if let Some(records) = records {
                if reusable && after > self.known.frontier.settled() {
                    // Begun somewhere that nobody has proved: what follows proves nothing either, until this does.
                    self.settle(sql, self.known.frontier.settled()).await?;
                }
                let complete_to = records.last().map_or(after, |last| last.global_sequence);
                return Ok((self.page(records, complete_to), reusable));
            }
        }
        if self.known.frontier.settled() <= after {
            self.settle(sql, after).await?;
        }
        let settled = self.known.frontier.settled();
        if settled <= after {
            return Ok((self.page(Vec::new(), after), true));
        }
        self.read_settled(sql, after, settled, filter, limit).await
    }

    fn page(&mut self, records: Vec<Record>, complete_to: u64) -> Page {
        self.known.expected = records.len();
        Page { records, complete_to, incarnation: self.known.life }
    }

    /// At the tail: as long as each number follows the one before, nothing can lie between them, settled or not. `None`
    /// when the very next number is missing although there are later ones: it may still come.
    async fn read_contiguous(
        &mut self,
        sql: &Sql,
        after: u64,
        limit: ReadLimit,
    ) -> Result<(Option<Vec<Record>>, bool), Error> {
        let expected = self.known.expected;
        let rows = sqlx::query(sql.read_all.clone())
            .bind(signed(after))
            .bind(i64::MAX)
            .bind(limit.events as i64)
            .bind(self.known.life.cast_signed())
            .fetch(self.connection());
        let mut next = after;
        let contiguous = |record: &Record| {
            next += 1;
            record.global_sequence == next
        };
        let (records, stopped) = row::take_page(rows, limit, expected, contiguous).await.map_err(read_failed)?;
        if let Some(last) = records.last().filter(|_| after <= self.known.frontier.settled()) {
            self.known.frontier.settle(last.global_sequence);
        }
        let nothing_contiguous = records.is_empty() && stopped == Stopped::Unwanted;
        Ok(((!nothing_contiguous).then_some(records), matches!(stopped, Stopped::End | Stopped::Unwanted)))
    }

    /// Learns how far the order is settled now. The order of the statements is the point: a transaction that holds the lock
    /// after the sequence was read may have drawn a number up to there; one that does not can only draw higher ones; and
    /// what they committed is visible to a statement that begins after they were seen to have ended.
    async fn settle(&mut self, sql: &Sql, after: u64) -> Result<(), Error> {
        let row = sqlx::query(sql.last_value.clone()).fetch_one(self.connection()).await.map_err(read_failed)?;
        let last_value = unsigned(self.observed(&row)?);
        if last_value < self.known.frontier.settled() {
            let highest = sqlx::query(sql.head_up_to.clone()).bind(i64::MAX).fetch_one(self.connection()).await;
            let highest = unsigned(self.observed(&highest.map_err(read_failed)?)?);
            return Err(set_back(last_value, self.known.frontier.settled(), highest));
        }
        if last_value <= after {
            // Nothing beyond was ever drawn. Not an observation: the holders were not read.
            return Ok(());
        }
        let row = sqlx::query(sql.holders.clone()).fetch_one(self.connection()).await.map_err(read_failed)?;
        let bound = self.known.frontier.observe(last_value, self.observed(&row)?);
        if bound > after {
            let highest = sqlx::query(sql.head_up_to.clone()).bind(signed(bound)).fetch_one(self.connection()).await;
            let highest = self.observed(&highest.map_err(read_failed)?)?;
            self.known.frontier.settle(unsigned(highest));
        } else {
            // Held back here; others may have proved it before.
            let (life, connection) = (self.known.life, self.connection());
            let proved = proved(connection, sql, life).await?;
            self.known.frontier.settle(proved);
        }
        Ok(())
    }

    /// What a row says, if it comes from the life of the server that everything before came from.
    fn observed<'r, T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>>(&self, row: &'r PgRow) -> Result<T, Error> {
        observed_in(self.known.life, row)
    }

    /// Below the frontier: what is missing there was rolled back.
    async fn read_settled(
        &mut self,
        sql: &Sql,
        after: u64,
        settled: u64,
        filter: &Filter,
        limit: ReadLimit,
    ) -> Result<(Page, bool), Error> {
        let types = filter.types.names();
        let statement = match (types, &filter.kinds) {
            (None, None) => &sql.read_all,
            (Some(_), None) => &sql.read_all_of_types,
            (_, Some(_)) => &sql.read_all_of_kinds,
        };
        let scans_to = if *filter == Filter::ALL { settled } else { after.saturating_add(SCAN_MAX) };
        let up_to = settled.min(scans_to);
        let mut query =
            sqlx::query(statement.clone()).bind(signed(after)).bind(signed(up_to)).bind(limit.events as i64);
        query = query.bind(self.known.life.cast_signed());
        if *filter != Filter::ALL {
            query = query.bind(types);
        }
        if let Some(kinds) = &filter.kinds {
            query = query.bind(kinds);
        }
        let expected = self.known.expected;
        let (records, stopped) =
            row::take_page(query.fetch(self.connection()), limit, expected, |_| true).await.map_err(read_failed)?;
        let full = stopped != Stopped::End || records.len() >= limit.events;
        let complete_to = records.last().filter(|_| full).map_or(up_to, |last| last.global_sequence);
        Ok((self.page(records, complete_to), matches!(stopped, Stopped::End | Stopped::Unwanted)))
    }
}

fn observed_in<'r, T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>>(
    expected: u64,
    row: &'r PgRow,
) -> Result<T, Error> {
    let number: Option<i64> = row.try_get(1).map_err(read_failed)?;
    if number.map(life) != Some(expected) {
        let reason = "the server was restarted, recovered or replaced meanwhile".to_owned();
        return Err(Error::Interrupted { reason });
    }
    row.try_get(0).map_err(read_failed)
}

/// Numbers that were given out would be given out again, below what readers have passed.
fn set_back(last_value: u64, settled: u64, highest: u64) -> Error {
    let why = format!(
        "the sequence of event numbers was set back to {last_value}, and readers have passed {settled}; stop the writers, and set \
         it to {} with setval, unless it stands higher by then",
        settled.max(highest)
    );
    Error::Damaged { action: "read in order", source: why.into() }
}

/// How far earlier readers, in this process or another, have proved the order to be settled.
async fn proved(connection: &mut PgConnection, sql: &Sql, life: u64) -> Result<u64, Error> {
    match sqlx::query(sql.settled_to.clone()).fetch_one(connection).await {
        Ok(proved) => observed_in(life, &proved).map(unsigned),
        Err(error) if sqlstate(&error).as_deref() == Some("42501") => {
            tracing::debug!(%error, "the role may not see checkpoints, so reading starts without what they prove");
            Ok(0)
        }
        Err(error) => Err(read_failed(error)),
    }
}

fn read_failed(error: sqlx::Error) -> Error {
    failed_in_life("read in order", error)
}
