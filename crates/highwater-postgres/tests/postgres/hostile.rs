//! A writer that makes names mean something else in its session, and then calls functions that run with their owner's rights.

use highwater::Append;
use highwater::backend::Log;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use crate::roles::Roles;
use crate::support::*;

/// In the writer's own schema: every function and operator of PostgreSQL's that the functions of the store could mean. Among its
/// temporary objects: types and tables. Each raises an error that says as whom it ran.
const TRAPS: &str = r#"
SET search_path = pg_catalog;
CREATE FUNCTION {evil}.spring() RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TRAP1', MESSAGE = format('ran as %s, called by %s', current_user, session_user);
END $$;
DO $do$
DECLARE
    it record;
    pseudo text[] := ARRAY['internal', 'trigger', 'cstring', '"any"', '"char"'];
BEGIN
    FOR it IN
        SELECT p.proname, oidvectortypes(p.proargtypes) AS takes, format_type(p.prorettype, NULL) AS returns,
            CASE WHEN p.proretset THEN 'SETOF' ELSE '' END AS set
        FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a')
            AND NOT string_to_array(oidvectortypes(p.proargtypes), ', ') && pseudo
            AND NOT format_type(p.prorettype, NULL) = ANY (pseudo || 'record'::text)
            AND EXISTS (SELECT FROM pg_proc f WHERE f.pronamespace = '{s}'::regnamespace
                AND f.prosrc ~* ('\m' || p.proname || '\s*\('))
    LOOP
        EXECUTE format('CREATE FUNCTION {evil}.%I(%s) RETURNS %s %s LANGUAGE plpgsql
            AS $$ BEGIN PERFORM {evil}.spring(); END $$', it.proname, it.takes, it.set, it.returns);
    END LOOP;
    FOR it IN
        SELECT o.oprname, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r
        FROM pg_operator o
        WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft <> 0
            AND NOT ARRAY[format_type(o.oprleft, NULL), format_type(o.oprright, NULL)] && pseudo
            AND o.oprname IN ('=', '<>', '<', '>', '<=', '>=', '+', '-', '||', '~', '!~', '#', '<@')
    LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION {evil}.operate(%s, %s) RETURNS boolean LANGUAGE plpgsql
            AS $$ BEGIN RETURN {evil}.spring(); END $$', it.l, it.r);
        EXECUTE format('CREATE OPERATOR {evil}.%s (FUNCTION = {evil}.operate, LEFTARG = %s, RIGHTARG = %s)',
            it.oprname, it.l, it.r);
    END LOOP;
    FOR it IN SELECT unnest(ARRAY['pg_class', 'pg_settings', 'pg_locks']) AS name LOOP
        EXECUTE format('CREATE TEMPORARY VIEW %I AS SELECT * FROM pg_catalog.%1$I WHERE {evil}.spring()', it.name);
    END LOOP;
    FOR it IN
        SELECT t.typname AS name FROM pg_type t
        WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r') AND t.typelem = 0
    LOOP
        EXECUTE format('CREATE DOMAIN pg_temp.%I AS pg_catalog.%1$I CHECK ({evil}.spring())', it.name);
    END LOOP;
END $do$;
SET search_path = {evil}, pg_catalog
"#;

/// Every function that runs with its owner's rights and that a writer may call, and every way through it: `{there}` is a stream
/// that has an event, `{new}` one that is not there.
const CALLS: [&str; 14] = [
    "append_one('{new}', 0, '{id}', 'x', 1, '1', '{}', 'now', 'a/1')",
    "append_one('{new}', NULL, '{id}', 'x', 1, '1', '{}', 'now', 'a/1')",
    "append_one('{there}', NULL, '{id}', 'x', 1, '1', '{}', 'now', 'a/1')",
    "append_one('{there}', -1, '{id}', 'x', 1, '1', '{}', 'now', NULL)",
    "append_one('{there}', 77, '{id}', 'x', 1, '1', '{}', 'now', NULL)",
    "append_new('{{new}}', '{1}', '{{id}}', '{x}', '{1}', '{1}', '{\"{}\"}', '{now}', '{a/1}')",
    "append_new('{{new},{new}}', '{1,2}', '{{id},{id2}}', '{x,x}', '{1,1}', '{1,1}', '{\"{}\",\"{}\"}', '{now,now}', '{a/1,a/1}')",
    "append_group('{{there}}', '{NULL}', NULL, '{1}', '{1}', '{{id}}', '{x}', '{1}', '{1}', '{\"{}\"}', '{now}')",
    "append_group('{{there}}', '{NULL}', 9, '{1,1}', '{1,2}', '{{id},{id2}}', '{x,x}', '{1,1}', '{1,1}', '{\"{}\",\"{}\"}', '{now,now}', '{a/1}')",
    "append_group('{{there}}', '{77}', NULL, '{1}', '{1}', '{{id}}', '{x}', '{1}', '{1}', '{\"{}\"}', '{now}')",
    "append('{there}', 'x', '1', stream_name => 'a/1')",
    "append('{new}', 'x', '1', 0, '{}', '{id}', 1, 'a/1')",
    "life()",
    "insist_on_life({s}.life())",
];

async fn call(db: &Db, writer: &mut PgConnection, call: &str, there: Uuid) -> Result<u64, sqlx::Error> {
    let sql = call
        .replace("{there}", &there.to_string())
        .replace("{new}", &Uuid::now_v7().to_string())
        .replace("{id}", &Uuid::now_v7().to_string())
        .replace("{id2}", &Uuid::now_v7().to_string());
    db.try_execute(writer, &format!("SELECT {{s}}.{sql}")).await
}

#[tokio::test]
async fn nothing_that_a_writer_hides_postgresqls_names_behind_runs_with_the_rights_of_the_owner() {
    let db = Db::new();
    let owner = db.store().await;
    let there = Uuid::now_v7();
    owner.append(&Append::to(there).event(note("a"))).await.unwrap();
    let roles = Roles::create(&db).await;
    let evil = format!("{}evil", roles.0);
    let mut admin = db.connection().await;
    db.execute(&mut admin, &format!("CREATE SCHEMA {evil} AUTHORIZATION {}writer", roles.0)).await;
    // Each is what a function of the store must not do, and is caught.
    for (n, body) in [
        "DECLARE v text := $1; BEGIN RETURN v; END",
        "BEGIN RETURN $1::text; END",
        "BEGIN RETURN octet_length($1); END",
        "BEGIN RETURN $1 = 'x'; END",
        "BEGIN RETURN (SELECT c.relname FROM pg_class c LIMIT 1); END",
    ]
    .iter()
    .enumerate()
    {
        let careless = format!(
            "CREATE FUNCTION {{s}}.careless_{n}(pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql SECURITY DEFINER
             AS $$ {body} $$"
        );
        db.execute(&mut admin, &careless).await;
    }
    let store = roles.store(&db, "writer").await;
    let mut writer = store.pool().acquire().await.unwrap();
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *writer).await.unwrap();
    db.execute(&mut writer, &TRAPS.replace("{evil}", &evil)).await;
    for n in 0..5 {
        let caught = call(&db, &mut writer, &format!("careless_{n}('x')"), there).await.unwrap_err();
        assert_eq!(caught.as_database_error().unwrap().code().unwrap(), "TRAP1", "careless_{n}: {caught}");
    }
    for function in CALLS {
        // Twice: what is looked up is remembered.
        for _ in 0..2 {
            let done = call(&db, &mut writer, function, there).await;
            assert!(done.is_ok(), "{function}: {done:?}");
        }
    }
    writer.close().await.unwrap();
    drop(store);
    // A session drops its temporary objects after its client has left, and these depend on what is dropped here.
    eventually("the writer's session ended", async || {
        let ended = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)";
        sqlx::query_scalar::<_, bool>(ended).bind(session).fetch_one(&mut admin).await.unwrap()
    })
    .await;
    db.execute(&mut admin, &format!("DROP SCHEMA {evil} CASCADE")).await;
    roles.drop(&db).await;
}
