//! The shop on SQLite.

use highwater_sqlite::{SqliteEventStore, SqliteTx};

use crate::database::sqlite;
use crate::{DemoError, Place, Shop, Value};

impl Shop for SqliteEventStore {
    async fn open(place: &Place) -> Result<Self, DemoError> {
        let Place::Sqlite { file, .. } = place else { return Err(place.mistaken()) };
        let file = file.to_str().ok_or_else(|| place.mistaken())?;
        Ok(Self::open(file).await?)
    }

    async fn within(tx: &mut SqliteTx, sql: &'static str, values: &[Value<'_>]) -> Result<(), sqlx::Error> {
        sqlite(sql, values).execute(&mut **tx).await.map(drop)
    }
}
