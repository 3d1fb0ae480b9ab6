//! What a run ran on, and what of the project.

use std::process::Command;
use std::time::Instant;

use chrono::{SecondsFormat, Utc};
use tokio_postgres::Client;

use super::results::Machine;
use crate::Error;
use crate::rounds::median;

/// How many commits are timed.
const COMMITS: usize = 200;

/// Asks the system and the server. How long a commit takes is measured, and counts as before the run and after it until
/// [`Machine::commit_micros`] is told more.
pub(crate) async fn gather(client: &Client) -> Result<Machine, Error> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let version: String = client.query_one("SELECT version()", &[]).await?.try_get(0)?;
    let settings = client.query(include_str!("../../sql/settings.sql"), &[]).await?;
    let settings = settings.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let micros = commit_micros(client).await?;
    Ok(Machine {
        processor: processor(&read("/proc/cpuinfo")),
        cores: std::thread::available_parallelism()?.get(),
        memory_gigabytes: memory_gigabytes(&read("/proc/meminfo")),
        kernel: format!("{} {}", read("/proc/sys/kernel/ostype").trim(), read("/proc/sys/kernel/osrelease").trim()),
        // What follows is the compiler it was built with.
        postgres: version.split(" on ").next().unwrap_or(&version).to_owned(),
        settings: settings.collect::<Result<_, tokio_postgres::Error>>()?,
        commit_micros: (micros, micros),
    })
}

/// How long the disk takes for a commit: the median of 200 inserts of one row, each by itself.
pub(crate) async fn commit_micros(client: &Client) -> Result<f64, Error> {
    client.execute(include_str!("../../sql/commits_table.sql"), &[]).await?;
    let insert = client.prepare(include_str!("../../sql/commits_insert.sql")).await?;
    let mut micros = Vec::with_capacity(COMMITS);
    for n in 0..COMMITS {
        let began = Instant::now();
        client.execute(&insert, &[&(n as i64)]).await?;
        micros.push(began.elapsed().as_secs_f64() * 1e6);
    }
    client.execute(include_str!("../../sql/commits_drop.sql"), &[]).await?;
    Ok(median(&micros))
}

/// Now, as `2026-11-15T17:00:00Z`.
pub(crate) fn date() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The commit that is checked out, with `+` if there is more in the folder; `unknown` without git.
pub(crate) fn commit() -> String {
    let git = |args: &[&str]| {
        let done = Command::new("git").args(args).output().ok().filter(|done| done.status.success())?;
        Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    // What earlier runs found is no change of what is measured.
    let changed = git(&["status", "--porcelain", "--", ":(top)", ":(top,exclude)bench/results"])
        .is_none_or(|changes| !changes.is_empty());
    if changed { format!("{commit}+") } else { commit }
}

/// Not every architecture says.
fn processor(cpuinfo: &str) -> String {
    let named = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        matches!(key.trim(), "model name" | "Model" | "Hardware").then(|| value.trim().to_owned())
    });
    named.unwrap_or_else(|| format!("unknown ({})", std::env::consts::ARCH))
}

fn memory_gigabytes(meminfo: &str) -> f64 {
    let total =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kilobytes: f64 = total.unwrap_or(0.0);
    (kilobytes / 1024.0 / 1024.0 * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use throwaway_postgres::ThrowawayPostgres;
    use tokio_postgres::NoTls;

    use super::*;

    #[test]
    fn the_system_is_read() {
        let cpuinfo = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Fast: 3000\nmodel name\t: Slow\n";
        assert_eq!(processor(cpuinfo), "Fast: 3000");
        assert!(processor("").starts_with("unknown ("));
        assert_eq!(memory_gigabytes("MemTotal:        8152000 kB\nMemFree: 1 kB\n"), 7.8);
        assert_eq!(memory_gigabytes(""), 0.0);
    }

    #[test]
    fn a_date_sorts_and_a_commit_is_named() {
        let date = date();
        assert!(date.len() == 20 && date.ends_with('Z') && date.contains('T'), "{date}");
        assert!(commit().len() >= 7, "{}", commit());
    }

    #[tokio::test]
    async fn the_server_says_what_it_is() {
        let start = || ThrowawayPostgres::builder().durable().setting("max_wal_size", "3GB").start();
        let postgres = tokio::task::spawn_blocking(start).await.unwrap().unwrap();
        let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let machine = gather(&client).await.unwrap();
        assert!(machine.postgres.starts_with("PostgreSQL ") && !machine.postgres.contains(" on "), "{machine:?}");
        assert_eq!(machine.settings["max_wal_size"], "3GB");
        assert_eq!(machine.settings["fsync"], "on");
        assert!(!machine.settings.contains_key("data_directory"), "{machine:?}");
        assert!(machine.commit_micros.0 > 0.0 && machine.cores > 0);
        // It leaves nothing behind, so it can be measured again.
        assert!(commit_micros(&client).await.unwrap() > 0.0);
    }
}
