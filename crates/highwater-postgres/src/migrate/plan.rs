//! What `initialize` would do, and whether it could. Nothing is locked, and nothing is tried.

use highwater::Error;
use highwater::backend::Planned;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::{LATEST, Layout, MIGRATIONS, Migration, cannot_adopt, in_the_way};
use crate::error::failed;
use crate::own_pool::SCAN_TIMEOUT;
use crate::store::PgEventStore;

impl PgEventStore {
    pub(crate) async fn plan(&self) -> Result<Vec<Planned>, Error> {
        let (layout, missing) = self.missing().await?;
        if missing.is_empty() {
            // Which is what initialize() ends with.
            self.verify().await?;
            return Ok(Vec::new());
        }
        let looking = async |connection: &mut PgConnection| {
            self.may_migrate(connection, &layout, &missing).await?;
            if layout.has("events") && layout.version == 0 {
                self.can_adopt(connection).await?;
            }
            Ok(())
        };
        self.inner.own_pool.within(SCAN_TIMEOUT).work("plan", looking).await?;
        Ok(missing.iter().map(|migration| migration.planned(&layout)).collect())
    }

    /// Whether everything is there that this library needs.
    pub(crate) async fn is_complete(&self) -> Result<bool, Error> {
        Ok(self.missing().await?.1.is_empty())
    }

    async fn missing(&self) -> Result<(Layout, Vec<&'static Migration>), Error> {
        let looking = async |connection: &mut PgConnection| self.layout(connection).await;
        let layout = self.inner.own_pool.work("see how the database is laid out", looking).await?;
        let missing = match layout.version < LATEST {
            true => MIGRATIONS.iter().filter(|migration| migration.version > layout.version).collect(),
            false => Vec::new(),
        };
        Ok((layout, missing))
    }

    async fn may_migrate(
        &self,
        connection: &mut PgConnection,
        layout: &Layout,
        missing: &[&Migration],
    ) -> Result<(), Error> {
        let creates: Vec<&str> = missing.iter().flat_map(|migration| migration.creates).copied().collect();
        let schema = self.inner.schema.as_str();
        let row = sqlx::query(self.inner.sql.plan.clone())
            .bind(schema)
            .bind(creates)
            .fetch_one(connection)
            .await
            .map_err(plan_failed)?;
        if row.try_get("read_only").map_err(plan_failed)? {
            return Err(Error::NotPrimary { reason: "the server is read-only".to_owned() });
        }
        let role: String = row.try_get("role").map_err(plan_failed)?;
        let may_create: Option<bool> = match layout.schema {
            true => row.try_get("may_create_tables").map_err(plan_failed)?,
            false => row.try_get("may_create_schema").map_err(plan_failed)?,
        };
        if may_create != Some(true) {
            let what = if layout.schema { "create tables in" } else { "create" };
            return Err(denied(format!("role {role:?} may not {what} schema {schema:?}")));
        }
        let of_others: Vec<String> = row.try_get("of_others").map_err(plan_failed)?;
        if !of_others.is_empty() {
            return Err(denied(format!("role {role:?} does not own {} in schema {schema:?}", of_others.join(", "))));
        }
        let there: Vec<String> = row.try_get("in_the_way").map_err(plan_failed)?;
        match there.is_empty() {
            true => Ok(()),
            false => Err(in_the_way(&format!("{} is there already in schema {schema:?}", there.join(", ")))),
        }
    }

    async fn can_adopt(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let unfit: Vec<String> = sqlx::query_scalar(self.inner.sql.plan_columns.clone())
            .fetch_all(&mut *connection)
            .await
            .map_err(plan_failed)?;
        if !unfit.is_empty() {
            return Err(cannot_adopt(&unfit.join(", ")));
        }
        let stream: Option<Uuid> = sqlx::query_scalar(self.inner.sql.plan_versions.clone())
            .fetch_optional(connection)
            .await
            .map_err(plan_failed)?;
        match stream {
            Some(stream) => Err(Error::Unfit {
                reason: format!(
                    "the versions of stream {stream} are not 1, 2, 3 … without holes or doubles; renumber the streams \
                     concerned first"
                ),
            }),
            None => Ok(()),
        }
    }
}

impl Migration {
    fn planned(&self, layout: &Layout) -> Planned {
        let does = self.adopts(layout).map_or(self.does, |adopt| adopt.does);
        Planned::new(self.version.unsigned_abs(), self.name, does)
    }
}

fn plan_failed(error: sqlx::Error) -> Error {
    failed("see what initializing would do", error)
}

fn denied(why: String) -> Error {
    Error::Denied { action: "initialize", source: why.into() }
}
