//! The shop on PostgreSQL.

use highwater_postgres::{PgConfig, PgEventStore, PgTx};

use crate::database::{pg, pg_options};
use crate::{DemoError, Place, Shop, Value};

impl Shop for PgEventStore {
    async fn open(place: &Place) -> Result<Self, DemoError> {
        let Place::Postgres { url, schema } = place else { return Err(place.mistaken()) };
        let config = PgConfig { schema: schema.clone(), ..PgConfig::default() };
        Ok(Self::connect_to_with(pg_options(url, schema)?, config).await?)
    }

    async fn within(tx: &mut PgTx, sql: &'static str, values: &[Value<'_>]) -> Result<(), sqlx::Error> {
        pg(sql, values).execute(&mut **tx).await.map(drop)
    }
}
