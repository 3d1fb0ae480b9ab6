//! What a server is started with.

use std::path::PathBuf;

use crate::{Error, ThrowawayPostgres, binaries};

/// What every server gets. Later lines win, so that [`Builder::setting`] can change any of them.
const DEFAULTS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    // Their paths are limited to about 100 bytes, which temporary folders can exceed, and nothing needs them.
    ("unix_socket_directories", ""),
    ("max_connections", "300"),
    ("max_prepared_transactions", "20"),
    ("shared_buffers", "128MB"),
    ("log_line_prefix", "%m [%p] "),
];

/// How to start a [`ThrowawayPostgres`].
///
/// The server listens on 127.0.0.1 only, accepts 300 connections and 20 prepared transactions, and does not wait for the
/// disk (`fsync = off`): a crash of the server loses nothing committed, a crash of the machine may lose everything.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder starts nothing until `start`"]
pub struct Builder {
    durable: bool,
    settings: Vec<(String, String)>,
    trusted: Vec<String>,
    parent: Option<PathBuf>,
    major: Option<u32>,
}

impl Builder {
    /// Adds a line to `postgresql.conf`; the last one for a name wins, over the defaults too.
    ///
    /// The port cannot be set: it is chosen on start and given on the command line.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts a server of this major version, wherever [`bin_dir_of`](crate::bin_dir_of) finds it, instead of the one that
    /// all others are of.
    pub fn major(mut self, major: u32) -> Self {
        self.major = Some(major);
        self
    }

    /// Leaves `fsync` on: each commit waits for the disk, as in production. For benchmarks and crash tests.
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Lets clients of a network in without a password, besides those on this machine: `10.1.0.0/16`, for instance.
    ///
    /// The server listens where they are only if `listen_addresses` says so.
    pub fn trust(mut self, network: impl Into<String>) -> Self {
        self.trusted.push(network.into());
        self
    }

    /// Makes the server's folder below `parent`, which exists, instead of the temporary folder. The account the server
    /// runs as needs to get there.
    pub fn folder_in(mut self, parent: impl Into<PathBuf>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Creates the cluster, starts its server, and waits until it accepts connections.
    pub fn start(self) -> Result<ThrowawayPostgres, Error> {
        let parent = self.parent.clone().unwrap_or_else(std::env::temp_dir);
        let bin_dir = self.major.map_or_else(binaries::bin_dir, binaries::bin_dir_of)?;
        ThrowawayPostgres::create(&parent, &bin_dir, &self.configuration(), &self.admissions())
    }

    /// The lines to append to what `initdb` wrote.
    fn configuration(&self) -> String {
        let fsync = if self.durable { "on" } else { "off" };
        let defaults = DEFAULTS.iter().copied().chain([("fsync", fsync)]);
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        defaults.chain(own).map(|(name, value)| line(name, value)).collect()
    }

    /// The lines to append to `pg_hba.conf`: every role may do everything, and replicate.
    fn admissions(&self) -> String {
        let lines = |network| ["all", "replication"].map(|what| format!("host {what} all {network} trust\n"));
        self.trusted.iter().flat_map(lines).collect()
    }
}

/// A line of a configuration file.
pub(crate) fn line(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\\', r"\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted() {
        assert_eq!(line("search_path", r"it's \ all"), "search_path = 'it''s \\\\ all'\n");
    }

    #[test]
    fn own_settings_come_after_the_defaults() {
        let text = Builder::default().durable().setting("fsync", "off").configuration();
        assert!(text.contains("fsync = 'on'\n"), "{text}");
        assert!(text.ends_with("fsync = 'off'\n"), "{text}");
    }
}
