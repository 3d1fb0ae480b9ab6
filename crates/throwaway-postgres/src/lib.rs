//! A real PostgreSQL server in a temporary folder, for tests that start, stop and crash it.
//!
//! [`ThrowawayPostgres`] runs `initdb` and `postgres` from an installed PostgreSQL, on a loopback port of its own, with
//! no password and no sockets in the file system. It promises that
//!
//! - the server is ready when [`start`](ThrowawayPostgres::start) returns, or the error quotes the server's log;
//! - port, folder and data stay the same across [`stop`](ThrowawayPostgres::stop),
//!   [`crash`](ThrowawayPostgres::crash) and [`start_again`](ThrowawayPostgres::start_again);
//! - server and folder are gone after drop. If the process that owns the server ends without dropping it, even by
//!   SIGKILL, the kernel ends the server, and the next start removes the folder.
//!
//! [`replica`](ThrowawayPostgres::replica) makes a second server that streams from the first, and
//! [`promote`](ThrowawayPostgres::promote) has it take over; [`rejoin`](ThrowawayPostgres::rejoin) makes the former primary
//! its replica. [`ThrowawayPgBouncer`] is a connection pooler in front of a
//! server. Both keep the same promises.
//!
//! It needs `initdb`, `postgres` and `pg_ctl`, and no client. The SQL it speaks is about the server itself: connect to
//! [`url`](ThrowawayPostgres::url) with the client under test.
//! Everything blocks; a server takes about a second to start. It needs Linux (`/proc`, and `setpriv` of util-linux).
//!
//! ```
//! use throwaway_postgres::ThrowawayPostgres;
//!
//! let mut postgres = ThrowawayPostgres::builder()
//!     .setting("max_prepared_transactions", "5")
//!     .start()?;
//! assert!(postgres.url().starts_with("postgres://highwater@127.0.0.1:"));
//!
//! postgres.crash()?;
//! postgres.start_again()?;
//! # Ok::<(), throwaway_postgres::Error>(())
//! ```

mod account;
mod binaries;
mod builder;
mod cluster;
mod copy;
mod error;
mod folder;
mod launcher;
mod pgbouncer;
mod poll;
mod process;
mod replica;
mod service;
mod session;

pub use binaries::{bin_dir, bin_dir_of};
pub use builder::Builder;
pub use cluster::ThrowawayPostgres;
pub use error::Error;
pub use pgbouncer::{PoolMode, ThrowawayPgBouncer};
pub use process::{is_running, send_signal};
