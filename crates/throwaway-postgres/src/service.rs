//! A server process, the folder it lives in, its port and its log.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::account::{self, Account};
use crate::folder::{self, Folder};
use crate::poll::poll;
use crate::process::Process;

/// How often another program may snatch the port between our look and the server's.
const PORT_TRIES: usize = 5;

/// Long, because a start after a crash replays the log first.
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
/// For each of the ever ruder signals on drop.
const DROP_STEP_MAX: Duration = Duration::from_secs(5);

/// How much of the log an error quotes.
const QUOTED_LINES: usize = 40;

/// What sets one kind of server apart from another.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The command line, without the program; it runs in the folder.
    pub(crate) args: fn(port: u16) -> Vec<String>,
    /// Whether the server with this process id, which runs in this folder, accepts connections.
    pub(crate) is_ready: fn(&Path, u32) -> Result<bool, Error>,
    /// What is sent on drop, one after the other, until the server has ended.
    pub(crate) farewell: &'static [&'static str],
}

/// A server and its folder, both gone after drop.
pub(crate) struct Service {
    // Before the folder, whose drop needs the server gone; `drop` sees to that.
    process: Option<Process>,
    kind: &'static Kind,
    program: PathBuf,
    account: Option<Account>,
    folder: Folder,
}

impl Service {
    /// Reserves a folder below `parent` and a port, lets `prepare` fill the folder, and starts the server.
    pub(crate) fn create(
        kind: &'static Kind,
        parent: &Path,
        program: &Path,
        prepare: impl Fn(&Self) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut tries_left = PORT_TRIES;
        loop {
            tries_left -= 1;
            let mut service = Self {
                process: None,
                kind,
                program: program.to_owned(),
                account: account::for_server()?,
                folder: Folder::reserve(parent)?,
            };
            prepare(&service)?;
            match service.start_again() {
                Ok(()) => return Ok(service),
                Err(_) if tries_left > 0 && service.lost_its_port() => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.folder.port()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    pub(crate) fn log(&self) -> String {
        let path = log_path(self.folder());
        match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("(cannot read {}: {error})", path.display()),
        }
    }

    /// The length of the log in bytes; 0 while there is none.
    pub(crate) fn log_length(&self) -> u64 {
        fs::metadata(log_path(self.folder())).map_or(0, |metadata| metadata.len())
    }

    /// What has been logged since the log was `length` long.
    pub(crate) fn log_since(&self, length: u64) -> Result<String, Error> {
        let path = log_path(self.folder());
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|mut log| {
            log.seek(SeekFrom::Start(length))?;
            log.read_to_end(&mut bytes)
        });
        read.map_err(Error::io(format!("read {}", path.display())))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits for a text in what is logged after the log was `length` long.
    pub(crate) fn wait_until_logged(&self, length: u64, text: &str) -> Result<(), Error> {
        let logged = poll(START_MAX, || Ok::<_, Error>(self.log_since(length)?.contains(text).then_some(())))?;
        let name = self.kind.name;
        logged.ok_or_else(|| self.problem(format!("{name} did not log within {START_MAX:?}: {text}")))
    }

    /// Starts a server that does not run, and waits until it accepts connections. Does nothing if it is running.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        if let Some(process) = &mut self.process {
            if process.exited()?.is_none() {
                return Ok(());
            }
            self.process = None;
        }
        let args = (self.kind.args)(self.port());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let process = self.spawn(&self.program, &args)?;
        let pid = process.pid();
        let process = self.process.insert(process);

        let folder = self.folder.path();
        let outcome = poll(START_MAX, || {
            if let Some(status) = process.exited()? {
                return Ok(Some(Err(status)));
            }
            Ok((self.kind.is_ready)(folder, pid)?.then_some(Ok(())))
        })?;
        let name = self.kind.name;
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => {
                self.process = None;
                Err(self.problem(format!("{name} ended while starting ({status})")))
            }
            None => Err(self.problem(format!("{name} was not ready after {START_MAX:?}"))),
        }
    }

    /// Sends a signal to the server. Does nothing if it is stopped.
    pub(crate) fn signal(&mut self, signal: &str) -> Result<(), Error> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(signal))
    }

    /// Sends a signal that ends the server, and waits for the end. Does nothing if it is stopped.
    pub(crate) fn end(&mut self, signal: &str) -> Result<(), Error> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        process.signal(signal)?;
        if process.wait(STOP_MAX)?.is_none() {
            let name = self.kind.name;
            return Err(self.problem(format!("{name} still ran {STOP_MAX:?} after SIG{signal}")));
        }
        self.process = None;
        Ok(())
    }

    /// Runs a program to its end, in the folder and as the server runs.
    pub(crate) fn run(&self, program: &Path, args: &[&str], limit: Duration) -> Result<(), Error> {
        let name = program.file_name().unwrap_or_default().display();
        let mut process = self.spawn(program, args)?;
        match process.wait(limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.problem(format!("{name} failed ({status})"))),
            None => {
                process.signal("KILL")?;
                process.wait(DROP_STEP_MAX)?;
                Err(self.problem(format!("{name} was not done after {limit:?}")))
            }
        }
    }

    /// Makes something in the folder the property of the account the server runs as.
    pub(crate) fn hand_over(&self, path: &Path) -> Result<(), Error> {
        self.account.map_or(Ok(()), |Account { uid, gid }| {
            chown(path, Some(uid), Some(gid)).map_err(Error::io(format!("change the owner of {}", path.display())))
        })
    }

    pub(crate) fn problem(&self, problem: String) -> Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
        Error::Server { problem, log }
    }

    fn spawn(&self, program: &Path, args: &[&str]) -> Result<Process, Error> {
        Process::spawn(self.account, self.folder(), &log_path(self.folder()), program, args)
    }

    /// Whether another program listens where the server, which does not run, would.
    fn lost_its_port(&self) -> bool {
        self.process.is_none() && !folder::is_free(self.port())
    }

    fn end_at_any_price(&mut self) -> Result<(), Error> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        for signal in self.kind.farewell {
            process.signal(signal)?;
            if process.wait(DROP_STEP_MAX)?.is_some() {
                return Ok(());
            }
        }
        let pid = process.pid();
        Err(self.problem(format!("{} (process {pid}) survived SIGKILL", self.kind.name)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Err(error) = self.end_at_any_price() {
            eprintln!("throwaway-postgres: {error}");
        }
    }
}

pub(crate) fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}
