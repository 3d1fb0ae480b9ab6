//! `highwater backup`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;

/// Write a consistent copy of an SQLite database that is in use
///
/// The whole file, tables of the application included, as of one moment. Nobody waits for it. The copy is a database like
/// any other.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater backup /backups/shop-$(date +%F).db")]
pub(crate) struct Backup {
    /// A new file
    file: PathBuf,
}

impl Backup {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let shown = self.file.display().to_string();
        let Some(store) = global.target()?.open_sqlite().await? else {
            return Err(Failure::refused(
                "backup is for SQLite; PostgreSQL has pg_dump and pg_basebackup, and `highwater export` and \
                 `highwater copy` make copies of the events alone",
            ));
        };
        if self.file.exists() {
            return Err(Failure::refused(format!("{shown} is there already; name a new file")));
        }
        store.backup(&self.file).await?;
        let mut out = global.output();
        match global.json {
            true => out.value(&json!({ "file": shown }))?,
            false => out.line(&format!("wrote {shown}"))?,
        }
        out.finish()
    }
}
