//! The server and its life.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::builder::line;
use crate::poll::poll;
use crate::service::{Kind, Service};
use crate::session::Session;
use crate::{Builder, Error, folder, process};

/// Name of the data folder inside the temporary one.
pub(crate) const DATA: &str = "data";

/// Read after `postgresql.conf`, and therefore the stronger one.
pub(crate) const AUTO_CONF: &str = "postgresql.auto.conf";

/// The superuser; the operating system's accounts do not matter.
pub(crate) const USER: &str = "highwater";

const INITDB_MAX: Duration = Duration::from_secs(120);
const RELOAD_MAX: Duration = Duration::from_secs(60);
const KILL_MAX: Duration = Duration::from_secs(10);

static POSTGRES: Kind = Kind {
    name: "postgres",
    args: |port| ["-D", DATA, "-p", &port.to_string()].map(str::to_owned).to_vec(),
    is_ready: |folder, pid| is_ready(&folder.join(DATA), pid),
    farewell: &["INT", "QUIT", "KILL"],
};

/// A private PostgreSQL server, which is gone after drop.
///
/// Put in a `static`, it is never dropped; the server then ends with the process, and the next start of any
/// `ThrowawayPostgres` removes the folder.
pub struct ThrowawayPostgres {
    pub(crate) service: Service,
    pub(crate) bin_dir: PathBuf,
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

    pub(crate) fn create(parent: &Path, bin_dir: &Path, configuration: &str, admissions: &str) -> Result<Self, Error> {
        Self::create_with(parent, bin_dir, |service| {
            initialise(service, bin_dir, configuration)?;
            append(&service.folder().join(DATA).join("pg_hba.conf"), admissions)
        })
    }

    /// Starts a server on the data folder that `prepare` fills.
    pub(crate) fn create_with(
        parent: &Path,
        bin_dir: &Path,
        prepare: impl Fn(&Service) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let service = Service::create(&POSTGRES, parent, &bin_dir.join("postgres"), |service| {
            make_data_dir(service)?;
            prepare(service)
        })?;
        Ok(Self { service, bin_dir: bin_dir.to_owned() })
    }

    /// Where to connect, as superuser and without a password: `postgres://highwater@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port())
    }

    /// The TCP port on 127.0.0.1; the same across restarts.
    pub fn port(&self) -> u16 {
        self.service.port()
    }

    /// The data folder; the same across restarts.
    pub fn data_dir(&self) -> PathBuf {
        self.service.folder().join(DATA)
    }

    /// The folder with the server's programs. Whether clients are beside them, as `psql`, depends on the installation.
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The process id of the server, `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.service.pid()
    }

    /// What `initdb` and the server have logged so far, for error messages. Says why if that cannot be read.
    pub fn log(&self) -> String {
        self.service.log()
    }

    /// Ends all connections and stops the server in good order (SIGINT). Does nothing if it is stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.service.end("INT")
    }

    /// Stops the server without any order (SIGQUIT): connections break and the next start recovers from the log, as
    /// after a crash. Does nothing if it is stopped.
    pub fn crash(&mut self) -> Result<(), Error> {
        self.service.end("QUIT")
    }

    /// Ends one process of the server with SIGKILL, as the kernel does when memory runs out: `pg_backend_pid()` says which.
    ///
    /// The server ends every other connection, recovers from the log and accepts connections again, all under the same
    /// [`pid`](Self::pid) and `pg_postmaster_start_time()`. Returns when the process is gone, which is before that. A
    /// process that is not this server's own is an error and is left alone.
    pub fn kill_backend(&self, backend: u32) -> Result<(), Error> {
        let server = self.pid();
        if server.is_none() || process::parent(backend) != server {
            let source = io::Error::new(io::ErrorKind::NotFound, "it is not a process of this server");
            return Err(Error::io(format!("kill backend {backend}"))(source));
        }
        process::send_signal(backend, "KILL").map_err(Error::io(format!("kill backend {backend}")))?;
        let gone = poll(KILL_MAX, || Ok::<_, Error>((!process::is_running(backend)).then_some(())))?;
        gone.ok_or_else(|| self.service.problem(format!("backend {backend} still ran {KILL_MAX:?} after SIGKILL")))
    }

    /// Starts a stopped, crashed or killed server on its old port and data, and waits until it accepts connections.
    /// Does nothing if it is running.
    pub fn start_again(&mut self) -> Result<(), Error> {
        self.service.start_again()
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.start_again()
    }

    /// Changes a setting for good, over whatever was set before, as `ALTER SYSTEM` and a reload would.
    ///
    /// Connections that are opened after this returns have the new value; open ones have it within moments. What the
    /// server refuses is an error and changes nothing, and so is a setting that takes a restart. On a stopped server,
    /// any setting is accepted, and read with the next start.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.data_dir().join(AUTO_CONF);
        let before = fs::read(&path).map_err(Error::io(format!("read {}", path.display())))?;
        append(&path, &line(name, value))?;
        if self.pid().is_none() {
            return Ok(());
        }
        let logged = self.service.log_length();
        self.service.signal("HUP")?;
        self.service.wait_until_logged(logged, "received SIGHUP, reloading configuration files")?;
        // That line is the beginning. The process that writes it accepts a connection only when it is done.
        // Whatever else it answers, it has: it may be a replica that lets nobody in yet.
        if let Err(error) = Session::open(self.port(), RELOAD_MAX)
            && error.kind() != io::ErrorKind::Other
        {
            return Err(self.service.problem(format!("postgres does not answer after a reload: {error}")));
        }
        if self.service.log_since(logged)?.contains("contains errors") {
            let refused = self.service.problem(format!("postgres refused to set {name} to '{value}'"));
            fs::write(&path, before).map_err(Error::io(format!("write {}", path.display())))?;
            return Err(refused);
        }
        Ok(())
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

/// Creates the data folder, empty.
pub(crate) fn make_data_dir(service: &Service) -> Result<(), Error> {
    let data_dir = service.folder().join(DATA);
    // PostgreSQL insists on the mode.
    let created = fs::DirBuilder::new().mode(0o700).create(&data_dir);
    created.map_err(Error::io(format!("create {}", data_dir.display())))?;
    service.hand_over(&data_dir)
}

/// Creates the cluster's files.
fn initialise(service: &Service, bin_dir: &Path, configuration: &str) -> Result<(), Error> {
    let args = ["--no-sync", "--auth=trust", "-U", USER, "--locale=C", "--encoding=UTF8", "-D", DATA];
    service.run(&bin_dir.join("initdb"), &args, INITDB_MAX)?;
    append(&service.folder().join(DATA).join("postgresql.conf"), configuration)
}

/// Adds to a file that exists, and keeps its owner.
pub(crate) fn append(path: &Path, text: &str) -> Result<(), Error> {
    let file = fs::OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::io(format!("write {}", path.display())))
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
