//! Processes of our own beside this one: the same program, started with other arguments.
//!
//! A child says a line when it is ready, answers each line it is sent with one, and ends with its standard input.

use std::ffi::OsString;
use std::future::Future;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use throwaway_postgres::send_signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::clock::now;
use crate::server::Server;
use crate::{Error, failover, latency, memory, sqlite, stores, subscribers};

/// What children are called on the server.
pub(crate) const APPLICATION: &str = "bench child";

/// The first argument of a child; no scenario is called like this.
const MARK: &str = "--child";
/// How long an answer may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(180);

/// A child that is gone when this is dropped.
pub(crate) struct Child {
    pub(crate) pid: u32,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    process: tokio::process::Child,
}

impl Child {
    /// Starts a child and waits until it is ready.
    pub(crate) async fn start(server: &Server, role: &str, args: &[String]) -> Result<Self, Error> {
        Self::start_on(server.url(), role, args).await
    }

    /// The same for a database that is not on the server.
    pub(crate) async fn start_on(url: &str, role: &str, args: &[String]) -> Result<Self, Error> {
        let program = std::env::current_exe()?.into_os_string();
        let command =
            [program, MARK.into(), role.into(), url.into()].into_iter().chain(args.iter().map(OsString::from));
        let (process, input, output) = spawn(command, Stdio::inherit())?;
        let pid = process.id().ok_or("a child that has ended at once")?;
        let mut child = Self { pid, input, output, process };
        child.answer().await?;
        Ok(child)
    }

    /// Sends a line and waits for the answer.
    pub(crate) async fn ask(&mut self, line: &str) -> Result<String, Error> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        self.answer().await
    }

    /// SIGKILL, which ends also what is stopped. Returns the time just before.
    pub(crate) fn kill(&mut self) -> Result<i64, Error> {
        let at = now();
        self.process.start_kill()?;
        Ok(at)
    }

    /// SIGSTOP: it is there, and does nothing any more. Returns the time just before.
    pub(crate) fn freeze(&mut self) -> Result<i64, Error> {
        let at = now();
        send_signal(self.pid, "STOP")?;
        Ok(at)
    }

    async fn answer(&mut self) -> Result<String, Error> {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await??;
        line.ok_or_else(|| "a child has ended too early".into())
    }
}

/// A process, what it is told by and what it answers by.
pub(crate) type Spoken = (tokio::process::Child, ChildStdin, Lines<BufReader<ChildStdout>>);

/// Starts a program that speaks line by line. It ends with us, even when it is stopped and we are killed: `setpriv` becomes the
/// child, so the process stays the same; the thread that starts it is the main one, with whose end this process ends.
pub(crate) fn spawn(command: impl IntoIterator<Item = OsString>, stderr: Stdio) -> Result<Spoken, Error> {
    let mut process = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()?;
    let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
        return Err("a process without pipes".into());
    };
    Ok((process, input, BufReader::new(output).lines()))
}

/// Does what a child is started for, if this process is one.
pub(crate) async fn run(args: &[String]) -> Option<Result<(), Error>> {
    let [mark, role, url, args @ ..] = args else { return None };
    if mark != MARK {
        return None;
    }
    let done = match role.as_str() {
        latency::OURS => latency::receive_ours(url).await,
        latency::RAW => latency::receive_raw(url).await,
        sqlite::LATENCY => sqlite::receive(url).await,
        subscribers::ROLE => subscribers::deliver(url, args).await,
        memory::ROLE => memory::catch_up(url).await,
        stores::ROLE => stores::append(url, args).await,
        failover::ROLE => failover::work(url, args).await,
        _ => Err(format!("there is no child {role}").into()),
    };
    Some(done)
}

/// In a child: answers until nobody asks any more.
pub(crate) async fn serve<F>(mut answer: impl FnMut(String) -> F) -> Result<(), Error>
where
    F: Future<Output = Result<String, Error>>,
{
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{}", answer(line).await?);
    }
    Ok(())
}

/// In a child: a store with everything as it is by default, but for its name on the server.
pub(crate) async fn store(url: &str) -> Result<PgEventStore, Error> {
    let options = PgConnectOptions::from_str(url)?.application_name(APPLICATION);
    Ok(PgEventStore::connect_to_with(options, PgConfig::default()).await?)
}

/// In a child: a connection of sqlx.
pub(crate) fn options(url: &str) -> Result<PgConnectOptions, Error> {
    Ok(PgConnectOptions::from_str(url)?.disable_statement_logging())
}
