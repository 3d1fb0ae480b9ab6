//! What an instance costs that only stands by, for 200 subscribers.
//!
//! It connects as a role of its own, and the server counts statements by role: so they are all its own, and exact.

use std::time::{Duration, Instant};

use highwater_postgres::PgConfig;
use sqlx::PgConnection;

use super::Way;
use super::worker::Job;
use crate::Error;
use crate::options::Options;
use crate::report::{Report, Row, Unit};
use crate::server::Server;
use crate::subscribers::SAMPLE;

const SCHEMA: &str = "idle";
/// The role of the one that stands by.
const ROLE: &str = "bench_idle";
const SUBSCRIBERS: usize = 200;
/// Until it is idle: what its start needed is closed by then.
const LEAD: Duration = Duration::from_secs(3);
/// How long statements are counted. Some come once a second: in a short time, one more or less of them would show.
const TIME: Duration = Duration::from_secs(10);
const TIME_QUICK: Duration = Duration::from_secs(1);

const STATEMENTS: &str = "standing by, swept: statements";
const STATEMENTS_WATCHED: &str = "standing by, watched: statements";
const CONNECTIONS: &str = "standing by, swept: connections";
const CONNECTIONS_WATCHED: &str = "standing by, watched: connections";

const STATEMENTS_MAX: f64 = 15.0;
const CONNECTIONS_MAX: f64 = 3.0;

pub(super) async fn measure(server: &Server, options: &Options) -> Result<Vec<Row>, Error> {
    let mut connection = server.sqlx().await?;
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements; CREATE ROLE bench_idle LOGIN SUPERUSER")
        .execute(&mut connection)
        .await?;
    server.store_with(PgConfig { schema: SCHEMA.to_owned(), ..PgConfig::default() }).await?;
    // Nothing moves to who stands by.
    let job = |way, name: &str, stands_by| Job {
        subscribers: SUBSCRIBERS,
        spread: false,
        ..Job::new(way, name.to_owned(), SCHEMA, stands_by)
    };
    let _leader = job(Way::Watched, "bench leader", false).start(server).await?;
    let mut swept = [Row::new(STATEMENTS, Unit::StatementsPerSecond), Row::new(CONNECTIONS, Unit::Connections)];
    let mut watched =
        [Row::new(STATEMENTS_WATCHED, Unit::StatementsPerSecond), Row::new(CONNECTIONS_WATCHED, Unit::Connections)];
    for round in 0..options.rounds.div_ceil(2) {
        for (way, rows) in [(Way::Swept, &mut swept), (Way::Watched, &mut watched)] {
            // The server takes a second to see that one that watched is gone.
            let name = format!("{ROLE} {round} {way:?}");
            let job = Job { user: Some(ROLE.to_owned()), ..job(way, &name, true) };
            let _standby = job.start(server).await?;
            let figures = count(&mut connection, &name, options).await?;
            rows.iter_mut().zip(figures).for_each(|(row, figure)| row.push(figure));
        }
    }
    Ok(swept.into_iter().chain(watched).collect())
}

/// Statements a second, and connections at most.
async fn count(connection: &mut PgConnection, name: &str, options: &Options) -> Result<[f64; 2], Error> {
    let time = if options.quick { TIME_QUICK } else { TIME };
    tokio::time::sleep(LEAD).await;
    let (before, since) = (statements(connection).await?, Instant::now());
    let mut most = 0;
    while since.elapsed() < time {
        most = most.max(connections(connection, name).await?);
        tokio::time::sleep(SAMPLE).await;
    }
    let (seconds, after) = (since.elapsed().as_secs_f64(), statements(connection).await?);
    Ok([(after - before) as f64 / seconds, most as f64])
}

async fn statements(connection: &mut PgConnection) -> Result<i64, Error> {
    let query = sqlx::query_scalar(include_str!("../../sql/statements.sql")).bind(ROLE);
    Ok(query.fetch_one(connection).await?)
}

async fn connections(connection: &mut PgConnection, name: &str) -> Result<i64, Error> {
    let query = sqlx::query_scalar(include_str!("../../sql/connections.sql")).bind(name);
    Ok(query.fetch_one(connection).await?)
}

pub(super) fn report(report: Report) -> Report {
    report
        .limit("idle_statements_per_s", STATEMENTS, STATEMENTS_MAX)
        .limit("idle_connections", CONNECTIONS, CONNECTIONS_MAX)
        .figure("idle_watched_statements_per_s", STATEMENTS_WATCHED, 1.0, None)
        .figure("idle_watched_connections", CONNECTIONS_WATCHED, 1.0, None)
}
