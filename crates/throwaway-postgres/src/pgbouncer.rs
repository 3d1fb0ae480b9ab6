//! A connection pooler in front of a server.

use std::fmt;
use std::fs;

use crate::cluster::USER;
use crate::service::{self, Kind, Service};
use crate::{Error, ThrowawayPostgres, binaries};

const CONFIGURATION: &str = "pgbouncer.ini";
const USERS: &str = "users.txt";

static PGBOUNCER: Kind = Kind {
    name: "pgbouncer",
    args: |_| vec![CONFIGURATION.to_owned()],
    is_ready: |folder, pid| {
        let path = service::log_path(folder);
        let log = fs::read(&path).map_err(Error::io(format!("read {}", path.display())))?;
        // The last line of its start, when it has long begun to listen. A program that snatched the port would let us
        // connect as well.
        Ok(String::from_utf8_lossy(&log).contains(&format!("[{pid}] LOG process up")))
    },
    // By SIGINT, and since 1.23 also by SIGTERM, it waits for its clients.
    farewell: &["QUIT", "KILL"],
};

/// For how long a client of a [`ThrowawayPgBouncer`] keeps a connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// For one transaction: the next one may be on another connection, with other prepared statements and settings.
    Transaction,
    /// For one statement: transactions of several are refused.
    Statement,
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        })
    }
}

/// A private PgBouncer in front of a [`ThrowawayPostgres`], which is gone after drop.
///
/// It lets in whom the server would let in, under the same name and without a password; up to 300 clients share 20
/// connections per user and database. It outlives the server, and finds it again when that is started again.
pub struct ThrowawayPgBouncer {
    service: Service,
}

impl ThrowawayPgBouncer {
    /// Starts a pooler in front of the server, and waits until it accepts connections. The server need not run.
    pub fn start(postgres: &ThrowawayPostgres, mode: PoolMode) -> Result<Self, Error> {
        let service = Service::create(&PGBOUNCER, &std::env::temp_dir(), &binaries::pgbouncer()?, |service| {
            let users = format!("\"{USER}\" \"\"\n");
            let configuration = configuration(postgres.port(), service.port(), mode);
            for (name, text) in [(USERS, users), (CONFIGURATION, configuration)] {
                let path = service.folder().join(name);
                fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))?;
                service.hand_over(&path)?;
            }
            Ok(())
        })?;
        Ok(Self { service })
    }

    /// Where to connect instead of to the server: `postgres://highwater@127.0.0.1:PORT/postgres`.
    ///
    /// The database `pgbouncer` is its console.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port())
    }

    /// The TCP port on 127.0.0.1; the same across restarts.
    pub fn port(&self) -> u16 {
        self.service.port()
    }

    /// The process id of the pooler, `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.service.pid()
    }

    /// What the pooler has logged so far, for error messages. Says why if that cannot be read.
    pub fn log(&self) -> String {
        self.service.log()
    }

    /// Stops the pooler at once (SIGQUIT): all connections break. Does nothing if it is stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.service.end("QUIT")
    }

    /// Starts a stopped or killed pooler on its old port, and waits until it accepts connections. Does nothing if it is
    /// running.
    pub fn start_again(&mut self) -> Result<(), Error> {
        self.service.start_again()
    }
}

impl fmt::Debug for ThrowawayPgBouncer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrowawayPgBouncer").field("url", &self.url()).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

fn configuration(server: u16, port: u16, mode: PoolMode) -> String {
    format!(
        "[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = {mode}
max_client_conn = 300
default_pool_size = 20
auth_type = trust
auth_file = {USERS}
; A user that is not in the file is looked up in the server, as this user.
auth_user = {USER}
admin_users = {USER}
ignore_startup_parameters = extra_float_digits
; Instead of fifteen seconds, after the server was gone for a while.
server_login_retry = 0.1
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_both_ports_and_the_mode() {
        let text = configuration(20_001, 20_002, PoolMode::Transaction);
        for line in ["* = host=127.0.0.1 port=20001", "listen_port = 20002", "pool_mode = transaction"] {
            assert!(text.lines().any(|other| other == line), "{text}");
        }
    }
}
