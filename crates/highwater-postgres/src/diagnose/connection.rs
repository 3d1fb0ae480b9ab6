//! The connection to the server, and which server answers.

use std::time::{Duration, Instant};

use highwater::Error;
use highwater::backend::Finding;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{Connection, Row};

use crate::connect::{Connector, fit};
use crate::error::failed;
use crate::own_pool::InTime;
use crate::pooler::{self, Session};
use crate::store::PgEventStore;

/// The newest major version that the tests have run with.
const MAJOR_TESTED: i32 = 18;
/// How often the server is asked; the best answer counts.
const ROUND_TRIPS: usize = 5;
/// An append takes a few of them one after the other.
const FAR: Duration = Duration::from_millis(10);
const VERY_FAR: Duration = Duration::from_millis(100);

/// How long an answer takes.
pub(super) async fn round_trip(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let asking = async |connection: &mut PgConnection| {
        let mut best = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            sqlx::query(store.inner.sql.diagnose_ping.clone()).execute(&mut *connection).await?;
            best = best.min(asked.elapsed());
        }
        Ok(best)
    };
    let best = store.inner.own_pool.ask(asking).await.map_err(|e| store.failed("ask the server anything", e))?;
    Ok(vec![distance(best)])
}

fn distance(round_trip: Duration) -> Finding {
    const TOPIC: &str = "connection";
    let found = format!("the server answers within {:.1} ms", round_trip.as_secs_f64() * 1e3);
    let advice = "every append and every checkpoint waits for it: run closer to the database";
    match round_trip {
        far if far >= VERY_FAR => Finding::warning(TOPIC, found, advice),
        far if far >= FAR => Finding::note(TOPIC, found, advice),
        _ => Finding::good(TOPIC, found),
    }
}

/// Which server it is.
pub(super) async fn server(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("ask the server what it is", e);
    let row = sqlx::query(store.inner.sql.diagnose_server.clone()).fetch_one_in_time(&store.inner.own_pool).await;
    let row = row.map_err(read_failed)?;
    let version: i32 = row.try_get("version").map_err(read_failed)?;
    let text: String = row.try_get("version_text").map_err(read_failed)?;
    let mut findings = vec![age_of(version, &text)];
    if row.try_get("replica").map_err(read_failed)? {
        let found = "it is a replica, in recovery: nothing can be written, and nothing read in order";
        findings.push(Finding::bad("server", found, "connect to the primary"));
    }
    Ok(findings)
}

fn age_of(version: i32, text: &str) -> Finding {
    const TOPIC: &str = "server";
    if let Err(error) = fit(u32::try_from(version).ok()) {
        return Finding::bad(TOPIC, error.to_string(), "upgrade the server");
    }
    let found = format!("it is PostgreSQL {text}");
    match version / 10_000 {
        newer if newer > MAJOR_TESTED => {
            let found = format!("{found}, newer than {MAJOR_TESTED}, which this library was tested with");
            Finding::note(
                TOPIC,
                found,
                "run the conformance suite of highwater-contract against it before relying on it",
            )
        }
        _ => Finding::good(TOPIC, found),
    }
}

/// Whether others on the way can read along.
pub(super) async fn encryption(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("see whether the connection is encrypted", e);
    let row = sqlx::query(store.inner.sql.diagnose_server.clone()).fetch_one_in_time(&store.inner.own_pool).await;
    let encrypted = row.and_then(|row| row.try_get("encrypted")).map_err(read_failed)?;
    let hosts = store.inner.connector.hosts();
    Ok(vec![secrecy(&hosts.options(hosts.primary(), None), encrypted)])
}

fn secrecy(options: &PgConnectOptions, encrypted: bool) -> Finding {
    const TOPIC: &str = "encryption";
    let verified = matches!(options.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull);
    match (encrypted, verified, is_local(options)) {
        (true, true, _) => Finding::good(TOPIC, "the connection is encrypted, and the server's certificate verified"),
        (true, false, true) => Finding::good(TOPIC, "the connection is encrypted"),
        (false, _, true) => Finding::good(TOPIC, "the connection is not encrypted, and does not leave this machine"),
        (true, false, false) => Finding::note(
            TOPIC,
            format!("the connection to {} is encrypted, but to whomever answers there", options.get_host()),
            "verify who it is: sslmode=verify-full&sslrootcert=… in the URL",
        ),
        (false, _, false) => Finding::warning(
            TOPIC,
            format!(
                "the connection to {} is not encrypted: events and passwords can be read on the way",
                options.get_host()
            ),
            "switch ssl on in the server, and give sslmode=verify-full&sslrootcert=… in the URL",
        ),
    }
}

fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || address.is_ok_and(|address| address.is_loopback())
}

/// Whether connections are dedicated sessions.
pub(super) async fn pooler(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "pooler";
    let inner = &store.inner;
    let has_direct = inner.config.leadership_url.is_some();
    let mut findings = Vec::new();
    if has_direct && let Some(lent) = lent(store, &inner.direct).await? {
        let found = format!("leadership_url is no way past it, so that instances cannot coordinate: {lent}");
        findings.push(Finding::bad(TOPIC, found, "give a direct URL there, or let the pooler work in session mode"));
    }
    if let Some(lent) = lent(store, &inner.connector).await? {
        let advice =
            "give the store a direct URL, or let the pooler work in session mode; see Poolers in docs/operating.md";
        findings.push(match has_direct {
            true => {
                let found =
                    format!("settings reach the next client of the session, synchronous_commit among them: {lent}");
                Finding::warning(TOPIC, found, advice)
            }
            false => {
                Finding::bad(TOPIC, format!("instances cannot coordinate, and LISTEN receives nothing: {lent}"), advice)
            }
        });
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "every connection is a dedicated session"));
    }
    Ok(findings)
}

/// What gives away that sessions are lent out on this way, if they are. Through some poolers one gets nowhere at all.
async fn lent(store: &PgEventStore, way: &Connector) -> Result<Option<String>, Error> {
    match session(store, way).await {
        Ok(Session::Dedicated) => Ok(None),
        Ok(Session::Pooled(found)) | Err(Error::NoSession { reason: found }) => Ok(Some(found)),
        Err(error) => Err(error),
    }
}

async fn session(store: &PgEventStore, way: &Connector) -> Result<Session, Error> {
    let mut connection = way.connect("doctor", None).await?;
    let found = pooler::session(&mut connection, way, "doctor", &store.inner.sql).await?;
    connection.close().await.map_err(|e| failed("close a connection", e))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use highwater::backend::Severity;

    use super::*;

    #[test]
    fn a_server_that_is_far_away_is_said_to_be() {
        let severity = |millis| distance(Duration::from_millis(millis)).severity;
        assert_eq!([severity(1), severity(20), severity(200)], [Severity::Good, Severity::Note, Severity::Warning]);
    }

    #[test]
    fn a_server_may_be_too_old_or_newer_than_what_was_tested() {
        let severity = |version| age_of(version, "x").severity;
        assert_eq!(
            [severity(130_014), severity(140_000), severity(140_001), severity(180_004), severity(190_000)],
            [Severity::Bad, Severity::Bad, Severity::Good, Severity::Good, Severity::Note]
        );
    }

    #[test]
    fn what_leaves_the_machine_should_be_encrypted_and_verified() {
        let severity = |url: &str, encrypted| secrecy(&url.parse().unwrap(), encrypted).severity;
        for local in
            ["postgres://u@127.0.0.1/d", "postgres://u@localhost/d", "postgres://u@[::1]/d", "postgres:///d?host=/run"]
        {
            assert_eq!(severity(local, false), Severity::Good, "{local}");
        }
        assert_eq!(severity("postgres://u@db.example/d", false), Severity::Warning);
        assert_eq!(severity("postgres://u@10.0.0.7/d", false), Severity::Warning);
        assert_eq!(severity("postgres://u@db.example/d?sslmode=require", true), Severity::Note);
        assert_eq!(severity("postgres://u@db.example/d?sslmode=verify-full", true), Severity::Good);
    }
}
