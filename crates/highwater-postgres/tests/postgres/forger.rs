//! A role that was granted nothing: what every role of the cluster can do that may connect.

use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use uuid::Uuid;

use crate::support::{Db, eventually};

pub struct Forger {
    pub role: String,
    options: PgConnectOptions,
    schema: String,
}

impl Forger {
    pub async fn create(db: &Db) -> Self {
        let role = format!("forger_{:x}", fastrand::u64(..));
        db.execute(&mut db.connection().await, &format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await;
        let options: PgConnectOptions = db.url.parse().unwrap();
        let options = options.username(&role).password("secret").application_name("forgery");
        Self { role, options, schema: db.schema.clone() }
    }

    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect_with(&self.options).await.unwrap()
    }

    /// The key of a subscriber's lock, by what is public of it.
    fn key(&self, subscriber_id: &str) -> (i32, i32) {
        use md5::{Digest, Md5};
        let digest: [u8; 16] = Md5::digest(format!("{}/{subscriber_id}", self.schema)).into();
        let half = |from: usize| i32::from_be_bytes(digest[from..from + 4].try_into().unwrap());
        (half(0), half(4))
    }

    pub async fn say(&self, connection: &mut PgConnection, what: &str) {
        let channel = format!("highwater_{}", self.schema);
        sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(what).execute(connection).await.unwrap();
    }

    /// Says that a lock was released for a session.
    pub async fn say_released(&self, connection: &mut PgConnection, subscriber_id: &str, to: Uuid) {
        let (high, low) = self.key(subscriber_id);
        self.say(connection, &format!("released {high}.{low} {to}")).await;
    }

    /// Takes the lock of a subscriber as soon as it is free, and says on which process of the server.
    pub async fn lock(&self, connection: &mut PgConnection, subscriber_id: &str) -> i32 {
        self.take(connection, &[self.key(subscriber_id)]).await;
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await.unwrap()
    }

    /// The advisory locks of a process of the server: every role sees them.
    pub async fn locks_of(&self, connection: &mut PgConnection, pid: i32) -> Vec<(i32, i32)> {
        let seen = "SELECT classid::bigint::bit(32)::integer, objid::bigint::bit(32)::integer FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND pid = $1";
        sqlx::query_as(seen).bind(pid).fetch_all(connection).await.unwrap()
    }

    /// Takes the lock that the others see an instance by, as soon as that is gone.
    pub async fn lock_instance(&self, connection: &mut PgConnection, session: Uuid) {
        self.take(connection, &[self.key(&format!("/{session}"))]).await;
    }

    /// Takes locks as soon as they are free.
    pub async fn take(&self, connection: &mut PgConnection, keys: &[(i32, i32)]) {
        for (high, low) in keys {
            let taking = sqlx::query("SELECT pg_advisory_lock($1, $2)").bind(high).bind(low);
            taking.execute(&mut *connection).await.unwrap();
        }
    }

    /// Whether it waits for a lock by now.
    pub async fn waits(&self, admin: &mut PgConnection) -> bool {
        let waits = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE l.locktype = 'advisory' AND NOT l.granted AND a.usename = $1)";
        sqlx::query_scalar(waits).bind(&self.role).fetch_one(admin).await.unwrap()
    }

    /// After its connections were closed.
    pub async fn drop(self, db: &Db) {
        eventually("the role's sessions end", async || {
            let mut admin = db.connection().await;
            db.try_execute(&mut admin, &format!("DROP ROLE IF EXISTS {}", self.role)).await.is_ok()
        })
        .await;
    }
}
