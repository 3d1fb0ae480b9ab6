//! TLS, as sqlx offers it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use highwater::backend::Log;
use highwater_postgres::PgEventStore;
use throwaway_postgres::ThrowawayPostgres;

use crate::support::*;

fn openssl(folder: &Path, arguments: &str) {
    let run = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output();
    let output = run.expect("this test makes certificates with openssl; apt-get install openssl");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A certificate for 127.0.0.1, signed by an authority that nobody else knows.
fn certify(folder: &Path) {
    std::fs::write(folder.join("san"), "subjectAltName=IP:127.0.0.1").unwrap();
    openssl(folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=throwaway-ca -keyout ca.key -out ca.crt");
    openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr");
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt",
    );
    let owner = std::fs::metadata(folder).unwrap();
    for file in ["server.key", "server.crt"] {
        std::fs::set_permissions(folder.join(file), std::fs::Permissions::from_mode(0o600)).unwrap();
        chown(folder.join(file), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_and_the_server_is_verified() {
    let mut server = ThrowawayPostgres::start().unwrap();
    certify(&server.data_dir());
    let settings = server.data_dir().join("postgresql.auto.conf");
    std::fs::write(settings, "ssl = on\n").unwrap();
    server.restart().unwrap();

    let ca = server.data_dir().join("ca.crt");
    let verified = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), ca.display());
    let db = Db::on(verified);
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    // All of them: the one that appends, those that read, and the pool.
    let plain: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name LIKE 'highwater%' AND NOT ssl",
    )
    .fetch_one(store.pool())
    .await
    .unwrap();
    let encrypted: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_stat_ssl WHERE ssl").fetch_one(store.pool()).await.unwrap();
    assert!(plain == 0 && encrypted >= 3, "{plain} plain, {encrypted} encrypted");

    let unknown_authority = format!("{}?sslmode=verify-full", server.url());
    assert!(PgEventStore::connect_with(&unknown_authority, db.config()).await.is_err());
}
