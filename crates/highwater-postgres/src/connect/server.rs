//! The server at the other end of a connection.

use highwater::Error;
use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::sql::Sql;

/// The oldest server that has everything we use, as it numbers itself. 14.0 gives a transaction another name in `pg_locks`
/// when it is prepared: readers would take it for one that began later than it did.
const VERSION_MIN: u32 = 140_001;

/// Which server, since when. That does not tell one life of it from the next: see [`life`](super::life).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerIdentity {
    system: i64,
    timeline: i32,
    started_micros: i64,
}

/// What a server says of itself.
pub(crate) struct Server {
    system: i64,
    /// None in recovery.
    timeline: Option<i32>,
    started_micros: i64,
    read_only: bool,
    database: String,
}

impl Server {
    pub(super) fn primary(&self, writable: bool) -> Result<ServerIdentity, Error> {
        let Some(timeline) = self.timeline else {
            return Err(Error::NotPrimary { reason: "the server is a replica, in recovery".to_owned() });
        };
        if writable && self.read_only {
            return Err(Error::NotPrimary { reason: "the server is read-only".to_owned() });
        }
        Ok(ServerIdentity { system: self.system, timeline, started_micros: self.started_micros })
    }

    /// Whether transactions can write here, unless they were made read-only.
    pub(crate) fn is_writable(&self) -> bool {
        self.timeline.is_some() && !self.read_only
    }

    /// What is different about another one, in words, unless both are the same database of the same cluster.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<String> {
        let place = |server: &Self| format!("database {:?} of cluster {}", server.database, server.system);
        let same = (self.system, &self.database) == (other.system, &other.database);
        (!same).then(|| format!("{} instead of {}", place(self), place(other)))
    }
}

pub(super) async fn read_server(connection: &mut PgConnection, sql: &Sql) -> Result<Server, sqlx::Error> {
    let row = sqlx::query(sql.server_identity.clone()).fetch_one(connection).await?;
    Ok(Server {
        system: row.try_get(0)?,
        timeline: row.try_get(1)?,
        started_micros: row.try_get(2)?,
        read_only: row.try_get(3)?,
        database: row.try_get(4)?,
    })
}

/// Refuses a server that is too old. One that does not say how old it is gets the benefit of the doubt.
pub(crate) fn fit(version: Option<u32>) -> Result<(), Error> {
    match version {
        Some(version) if version < VERSION_MIN => {
            // Since 10 the last four digits are the minor version, before that there were two of two.
            let (major, minor) =
                (version / 10_000, if version < 100_000 { version / 100 % 100 } else { version % 10_000 });
            let reason = format!(
                "the server is PostgreSQL {major}.{minor}, and {}.{} or later is needed; upgrade the server",
                VERSION_MIN / 10_000,
                VERSION_MIN % 10_000
            );
            Err(Error::Unfit { reason })
        }
        _ => Ok(()),
    }
}

/// A server that answers under the same address must be the same cluster, and not an older life of it.
pub(super) fn check(seen: Option<ServerIdentity>, found: ServerIdentity) -> Result<(), Error> {
    let Some(seen) = seen else { return Ok(()) };
    if found.system != seen.system {
        let reason =
            format!("another database cluster answers (system identifier {} instead of {})", found.system, seen.system);
        return Err(Error::Interrupted { reason });
    }
    if found.timeline < seen.timeline {
        let reason = format!(
            "the server is on timeline {}, but {} has been seen: it was replaced",
            found.timeline, seen.timeline
        );
        return Err(Error::NotPrimary { reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_timeline_and_another_cluster_are_refused() {
        let seen = ServerIdentity { system: 7, timeline: 3, started_micros: 1 };
        assert!(check(None, seen).is_ok());
        assert!(check(Some(seen), ServerIdentity { started_micros: 2, ..seen }).is_ok());
        assert!(check(Some(seen), ServerIdentity { timeline: 4, ..seen }).is_ok());
        assert!(matches!(check(Some(seen), ServerIdentity { timeline: 2, ..seen }), Err(Error::NotPrimary { .. })));
        assert!(matches!(check(Some(seen), ServerIdentity { system: 8, ..seen }), Err(Error::Interrupted { .. })));
    }

    #[test]
    fn a_server_is_refused_by_what_it_is_and_among_several_by_what_it_may() {
        let server = |timeline, read_only| Server {
            system: 7,
            timeline,
            started_micros: 1,
            read_only,
            database: "shop".to_owned(),
        };
        assert!(server(Some(3), false).primary(true).is_ok());
        assert!(server(Some(3), true).primary(false).is_ok());
        assert!(matches!(server(Some(3), true).primary(true), Err(Error::NotPrimary { .. })));
        assert!(matches!(server(None, false).primary(false), Err(Error::NotPrimary { .. })));
    }

    #[test]
    fn the_same_database_of_the_same_cluster_is_the_same_place() {
        let server = |system, timeline, database: &str| Server {
            system,
            timeline,
            started_micros: 1,
            read_only: false,
            database: database.to_owned(),
        };
        let shop = server(7, Some(3), "shop");
        assert_eq!(server(7, None, "shop").differs_from(&shop), None);
        let words = server(7, Some(3), "till").differs_from(&shop).unwrap();
        assert_eq!(words, r#"database "till" of cluster 7 instead of database "shop" of cluster 7"#);
        assert!(server(8, Some(3), "shop").differs_from(&shop).is_some());
    }

    #[test]
    fn an_old_server_is_refused_with_its_version_and_the_one_that_is_needed() {
        for (version, named) in [(130_014, "13.14"), (100_001, "10.1"), (90_624, "9.6"), (140_000, "14.0")] {
            let Err(Error::Unfit { reason }) = fit(Some(version)) else { panic!("{version} is too old") };
            assert!(reason.contains(&format!("PostgreSQL {named},")) && reason.contains("14.1 or later"), "{reason}");
        }
        for version in [Some(140_001), Some(150_018), Some(180_000), None] {
            assert!(fit(version).is_ok(), "{version:?}");
        }
    }
}
