//! One running bus.

use std::sync::OnceLock;

use uuid::Uuid;

/// One bus in one process, among all that run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its own; another one after every start.
    pub id: Uuid,
    /// The machine it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// What subscribers may prefer it by.
    pub label: Option<String>,
}

impl Instance {
    /// A new one, in this process.
    #[must_use]
    pub fn here(label: Option<String>) -> Self {
        Self { id: Uuid::now_v7(), host: host().to_owned(), pid: std::process::id(), label }
    }
}

impl std::fmt::Display for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {} on {})", self.id, self.pid, self.host)
    }
}

fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().replace('\0', ""))
}
