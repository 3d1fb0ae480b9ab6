//! The server and its life.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::account::{self, Account};
use crate::folder::{self, Folder};
use crate::poll::poll;
use crate::process::Process;
use crate::{Builder, Error, binaries};

/// Name of the data folder inside the temporary one.
pub(crate) const DATA: &str = "data";

/// The superuser; the operating system's accounts do not matter.
const USER: &str = "highwater";

/// How often another program may snatch the port between our look and the server's.
const PORT_TRIES: usize = 5;

const INITDB_MAX: Duration = Duration::from_secs(120);
/// Long, because a start after a crash replays the log first.
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
/// For each of the three ever ruder signals on drop.
const DROP_STEP_MAX: Duration = Duration::from_secs(5);

/// How much of the log an error quotes.
const QUOTED_LINES: usize = 40;

/// A PostgreSQL server of one's own, which is gone after drop.
///
/// Put in a `static`, it is never dropped; the server then ends with the process, and the next start of any
/// `ThrowawayPostgres` removes the folder.
pub struct ThrowawayPostgres {
    // Before the folder, whose drop needs the server gone; `drop` sees to that.
    server: Option<Process>,
    account: Option<Account>,
    bin_dir: PathBuf,
    folder: Folder,
}

impl ThrowawayPostgres {
    /// Starts a server with the defaults of [`Builder`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Settings first, then [`Builder::start`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn create(configuration: &str) -> Result<Self, Error> {
        let mut tries_left = PORT_TRIES;
        loop {
            tries_left -= 1;
            let mut cluster = Self {
                server: None,
                account: account::for_server()?,
                bin_dir: binaries::bin_dir()?,
                folder: Folder::reserve(&std::env::temp_dir())?,
            };
            cluster.initialise(configuration)?;
            match cluster.start_again() {
                Ok(()) => return Ok(cluster),
                Err(_) if tries_left > 0 && cluster.lost_its_port() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where to connect, as superuser and without a password: `postgres://highwater@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port())
    }

    /// The TCP port on 127.0.0.1; the same across restarts.
    pub fn port(&self) -> u16 {
        self.folder.port()
    }

    /// The data folder; the same across restarts.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    /// The folder with the server's programs, and `pg_isready`, `pgbench` and so on beside them.
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The process id of the server, `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Process::pid)
    }

    /// What `initdb` and the server have logged so far, for error messages. Says why if that cannot be read.
    pub fn log(&self) -> String {
        let path = self.log_path();
        match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("(cannot read {}: {error})", path.display()),
        }
    }

    /// Ends all connections and stops the server in good order (SIGINT). Does nothing if it is stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.end("INT")
    }

    /// Stops the server without any order (SIGQUIT): connections break and the next start recovers from the log, as
    /// after a crash. Does nothing if it is stopped.
    pub fn crash(&mut self) -> Result<(), Error> {
        self.end("QUIT")
    }

    /// Starts a stopped, crashed or killed server on its old port and data, and waits until it accepts connections.
    /// Does nothing if it is running.
    pub fn start_again(&mut self) -> Result<(), Error> {
        if let Some(server) = &mut self.server {
            if server.exited()?.is_none() {
                return Ok(());
            }
            self.server = None;
        }
        let port = self.port().to_string();
        let server = self.spawn("postgres", &["-D", DATA, "-p", &port])?;
        let pid = server.pid();
        let server = self.server.insert(server);

        let data_dir = self.folder.path().join(DATA);
        let outcome = poll(START_MAX, || {
            if let Some(status) = server.exited()? {
                return Ok(Some(Err(status)));
            }
            Ok(is_ready(&data_dir, pid)?.then_some(Ok(())))
        })?;
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => {
                self.server = None;
                Err(self.problem(format!("postgres ended while starting ({status})")))
            }
            None => Err(self.problem(format!("postgres was not ready after {START_MAX:?}"))),
        }
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.start_again()
    }

    /// Creates the cluster's files.
    fn initialise(&self, configuration: &str) -> Result<(), Error> {
        let data_dir = self.data_dir();
        let action = || format!("prepare {}", data_dir.display());
        fs::create_dir(&data_dir).map_err(Error::io(action()))?;
        if let Some(Account { uid, gid }) = self.account {
            chown(&data_dir, Some(uid), Some(gid)).map_err(Error::io(action()))?;
        }
        let mut initdb = self
            .spawn("initdb", &["--no-sync", "--auth=trust", "-U", USER, "--locale=C", "--encoding=UTF8", "-D", DATA])?;
        match initdb.wait(INITDB_MAX)? {
            Some(status) if status.success() => {}
            Some(status) => return Err(self.problem(format!("initdb failed ({status})"))),
            None => {
                initdb.signal("KILL")?;
                initdb.wait(DROP_STEP_MAX)?;
                return Err(self.problem(format!("initdb was not done after {INITDB_MAX:?}")));
            }
        }
        let path = data_dir.join("postgresql.conf");
        let file = fs::OpenOptions::new().append(true).open(&path);
        file.and_then(|mut file| file.write_all(configuration.as_bytes()))
            .map_err(Error::io(format!("write {}", path.display())))
    }

    fn spawn(&self, program: &str, args: &[&str]) -> Result<Process, Error> {
        let program = self.bin_dir.join(program);
        Process::spawn(self.account, self.folder.path(), &self.log_path(), &program, args)
    }

    fn end(&mut self, signal: &str) -> Result<(), Error> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        server.signal(signal)?;
        if server.wait(STOP_MAX)?.is_none() {
            return Err(self.problem(format!("postgres still ran {STOP_MAX:?} after SIG{signal}")));
        }
        self.server = None;
        Ok(())
    }

    /// Whether another program listens where the server, which does not run, would.
    fn lost_its_port(&self) -> bool {
        self.server.is_none() && !folder::is_free(self.port())
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn problem(&self, problem: String) -> Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
        Error::Server { problem, log }
    }

    fn end_at_any_price(&mut self) -> Result<(), Error> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        for signal in ["INT", "QUIT", "KILL"] {
            server.signal(signal)?;
            if server.wait(DROP_STEP_MAX)?.is_some() {
                return Ok(());
            }
        }
        let pid = server.pid();
        Err(self.problem(format!("postgres (process {pid}) survived SIGKILL")))
    }
}

impl Drop for ThrowawayPostgres {
    fn drop(&mut self) {
        if let Err(error) = self.end_at_any_price() {
            eprintln!("throwaway-postgres: {error}");
        }
    }
}

impl fmt::Debug for ThrowawayPostgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrowawayPostgres")
            .field("url", &self.url())
            .field("pid", &self.pid())
            .field("data_dir", &self.data_dir())
            .finish_non_exhaustive()
    }
}

/// Whether the server with this process id accepts connections; `pg_ctl --wait` looks at the same two lines.
fn is_ready(data_dir: &Path, pid: u32) -> Result<bool, Error> {
    let Some(text) = folder::postmaster_file(data_dir)? else {
        return Ok(false);
    };
    let mut lines = text.lines();
    // A crashed predecessor leaves its file behind, which says "ready" to this day.
    let of_this_server = lines.next() == Some(pid.to_string().as_str());
    Ok(of_this_server && lines.nth(6).is_some_and(|status| status.trim() == "ready"))
}
