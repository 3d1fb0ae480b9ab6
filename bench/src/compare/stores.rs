//! Contestants that are part of this program: Highwater, and the raw drivers.

mod highwater;
mod raw;
mod raw_sqlx;
mod raw_tokio;

use std::process::ExitCode;

/// The first argument of this program when it is a contestant; no scenario is called like this.
pub(super) const MARK: &str = "--contestant";

/// Those there are, by the names that [`run`] knows them by.
pub(super) const HIGHWATER: &str = "highwater";
/// The same once more, to see how far equals are apart.
pub(super) const HIGHWATER_AGAIN: &str = "highwater-again";
pub(super) const HIGHWATER_EXECUTE: &str = "highwater-execute";
pub(super) const HIGHWATER_COORDINATED: &str = "highwater-coordinated";
pub(super) const HIGHWATER_TRANSACTIONS: &str = "highwater-transactions";
pub(super) const RAW_SQLX: &str = "raw-sqlx";
pub(super) const RAW_TOKIO: &str = "raw-tokio-postgres";

/// Is a contestant, if this process is to be one.
pub(crate) async fn run(args: &[String]) -> Option<ExitCode> {
    let [mark, name, args @ ..] = args else { return None };
    if mark != MARK {
        return None;
    }
    Some(match name.as_str() {
        HIGHWATER | HIGHWATER_AGAIN => driver::run_with::<highwater::Plain>(args).await,
        HIGHWATER_EXECUTE => driver::run_with::<highwater::Execute>(args).await,
        HIGHWATER_COORDINATED => driver::run_with::<highwater::Coordinated>(args).await,
        HIGHWATER_TRANSACTIONS => driver::run_with::<highwater::InTransactions>(args).await,
        RAW_SQLX => driver::run_with::<raw_sqlx::Raw>(args).await,
        RAW_TOKIO => driver::run_with::<raw_tokio::Raw>(args).await,
        _ => {
            eprintln!("there is no contestant {name}");
            ExitCode::FAILURE
        }
    })
}
