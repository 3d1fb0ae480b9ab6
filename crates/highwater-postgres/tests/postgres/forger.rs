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
        let (high, low) = self.key(subscriber_id);
        sqlx::query("SELECT pg_advisory_lock($1, $2)").bind(high).bind(low).execute(&mut *connection).await.unwrap();
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await.unwrap()
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
