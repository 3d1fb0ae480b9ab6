//! Scenario `subscribers`: what one more subscriber costs, where there are many in one process already.
//!
//! A process of its own has 1, 10, 50 or 200 of them, while this one appends 1,000 events a second. What is counted is
//! processor time per event and subscriber, transactions on the server (`xact_commit` of the database: those of the
//! appends, which are the same for all, included), and connections.

mod child;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use crate::Error;
use crate::child::{APPLICATION, Child};
use crate::flow::Load;
use crate::options::Options;
use crate::proc::{cpu, cpu_of_family};
use crate::report::{Goal, Report, Row, Unit};
use crate::server::Server;

pub(crate) use child::deliver;

pub(crate) const ROLE: &str = "subscribers";

const COUNTS: [usize; 4] = [1, 10, 50, 200];
/// 1,000 events a second.
const PACE: Duration = Duration::from_millis(1);
const CONNECTIONS_MAX: f64 = 10.0;
/// How long events flow before anything is measured. The server counts transactions up to a second late.
const LEAD: Duration = Duration::from_millis(1_200);
const LEAD_QUICK: Duration = Duration::from_millis(300);
/// How often connections are counted.
pub(crate) const SAMPLE: Duration = Duration::from_millis(250);

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    let mut curve: Vec<Figures> = COUNTS.iter().map(|count| Figures::new(*count)).collect();
    let mut connections = Row::new("connections", Unit::Connections);
    let mut bench = Bench::new(server, options).await?;
    for round in 0..options.rounds {
        let mut most = 0;
        for (count, figures) in COUNTS.iter().zip(&mut curve) {
            most = most.max(bench.measure(round, *count, figures).await?);
        }
        connections.push(most as f64);
    }
    let cpu_of = |count: usize| format!("CPU of the process, {count} subscribers");
    let rows = curve.into_iter().flat_map(|figures| figures.0).chain([connections]).collect();
    let report = Report::new(options, rows)
        .compare("subscribers200_vs_10", &cpu_of(200), &[&cpu_of(10)], Some(Goal::AtMost(1.2)))
        .limit("connections", "connections", CONNECTIONS_MAX);
    Ok(report)
}

/// The rows of one number of subscribers.
struct Figures([Row; 3]);

impl Figures {
    fn new(count: usize) -> Self {
        Self([
            Row::new(format!("CPU of the process, {count} subscribers"), Unit::CpuMicroseconds),
            Row::new(format!("CPU of the server, {count} subscribers"), Unit::CpuMillisecondsPerSecond),
            Row::new(format!("on the server, {count} subscribers"), Unit::TransactionsPerSecond),
        ])
    }
}

struct Bench<'a> {
    server: &'a Server,
    time: Duration,
    lead: Duration,
    connection: PgConnection,
    postmaster: u32,
    load: Load,
}

impl<'a> Bench<'a> {
    async fn new(server: &'a Server, options: &Options) -> Result<Self, Error> {
        let mut connection = server.sqlx().await?;
        let folder: String = sqlx::query_scalar("SHOW data_directory").fetch_one(&mut connection).await?;
        let pid_file = std::fs::read_to_string(format!("{folder}/postmaster.pid"))?;
        let postmaster = pid_file.lines().next().ok_or("an empty postmaster.pid")?.trim().parse()?;
        let load = Load::new(server.store().await?, PACE)?;
        let lead = if options.quick { LEAD_QUICK } else { LEAD };
        Ok(Self { server, time: options.time, lead, connection, postmaster, load })
    }

    /// Says how many connections there were at most.
    async fn measure(&mut self, round: usize, count: usize, figures: &mut Figures) -> Result<usize, Error> {
        let args = [count.to_string(), format!("{round}-{count}")];
        let mut child = Child::start(self.server, ROLE, &args).await?;
        let mut most = self.connections().await?;
        let sent = Arc::new(AtomicUsize::new(0));
        let flow = self.load.start(sent.clone());
        tokio::time::sleep(self.lead).await;
        let before = self.read_counters(&mut child).await?;
        while before.at.elapsed() < self.time {
            tokio::time::sleep(SAMPLE.min(self.time)).await;
            most = most.max(self.connections().await?);
        }
        let after = self.read_counters(&mut child).await?;
        flow.stop().await?;
        // A subscriber that leaves events out is fast.
        let expected = sent.load(Ordering::Relaxed) * count;
        let delivered: usize = child.ask(&expected.to_string()).await?.parse()?;
        if delivered != expected {
            return Err(format!("{delivered} events were delivered instead of {expected}").into());
        }
        let (seconds, delivered) = ((after.at - before.at).as_secs_f64(), (after.delivered - before.delivered) as f64);
        let [process, server, transactions] = &mut figures.0;
        process.push((after.process - before.process).as_secs_f64() * 1e6 / delivered);
        server.push((after.server - before.server).as_secs_f64() * 1e3 / seconds);
        transactions.push((after.transactions - before.transactions) as f64 / seconds);
        Ok(most)
    }

    async fn read_counters(&mut self, child: &mut Child) -> Result<Counters, Error> {
        let transactions =
            sqlx::query_scalar(include_str!("../sql/transactions.sql")).fetch_one(&mut self.connection).await?;
        let delivered = child.ask("0").await?.parse()?;
        let (process, server) = (cpu(child.pid)?, cpu_of_family(self.postmaster)?);
        Ok(Counters { at: Instant::now(), delivered, process, server, transactions })
    }

    async fn connections(&mut self) -> Result<usize, Error> {
        let query = sqlx::query_scalar(include_str!("../sql/connections.sql")).bind(APPLICATION);
        let count: i64 = query.fetch_one(&mut self.connection).await?;
        Ok(usize::try_from(count)?)
    }
}

/// What has come together so far.
struct Counters {
    at: Instant,
    delivered: usize,
    process: Duration,
    server: Duration,
    transactions: i64,
}
