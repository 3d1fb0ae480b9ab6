//! A stranger who may create things in a schema of the application's search_path, as PostgreSQL 14 lets every role in `public`.

use std::collections::BTreeSet;
use std::time::Duration;

use highwater::backend::{Diagnose, Severity};
use highwater_contract::cases;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::Postgres;
use crate::support::{Database, Db};

/// In `public`: for every operator and function that statements name, one that fits types which PostgreSQL's own needs a conversion
/// for, and is therefore preferred. Its result is of a type that fits nowhere, and it fails.
const PLANTS: &str = r#"
SET check_function_bodies = off;
GRANT CREATE ON SCHEMA public TO PUBLIC;
CREATE TYPE public.planted AS (nothing int);
DO $do$
DECLARE
    it record;
    types text[] := ARRAY['int4', 'int8', 'numeric', 'text', 'varchar', 'uuid', 'name', 'timestamptz', 'interval', 'oid', 'regclass',
        'bool', 'xid', 'xid8', '_int8', '_uuid', '_text', '_varchar'];
    body text := 'LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION ''what a stranger planted was called''; END $$';
BEGIN
    FOR it IN SELECT l.name AS l, r.name AS r FROM unnest(types) AS l (name), unnest(types) AS r (name) LOOP
        EXECUTE format('CREATE FUNCTION public.operate(%s, %s) RETURNS public.planted %s', it.l, it.r, body);
    END LOOP;
    FOR it IN
        SELECT DISTINCT o.oprname, l.name AS l, r.name AS r
        FROM pg_operator o, unnest(types) AS l (name), unnest(types) AS r (name)
        WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft <> 0
            AND o.oprname IN ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '/', '||', '#', '&', '~', '@>', '<@', '&&')
            AND NOT EXISTS (SELECT FROM pg_operator p WHERE p.oprname = o.oprname
                AND p.oprnamespace = 'pg_catalog'::regnamespace AND p.oprleft = l.name::regtype AND p.oprright = r.name::regtype)
    LOOP
        EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.operate, LEFTARG = %s, RIGHTARG = %s)',
            it.oprname, it.l, it.r);
    END LOOP;
    FOR it IN
        SELECT f.name, a.takes
        FROM unnest(ARRAY[{functions}]) AS f (name),
            (SELECT format_type(t.name::regtype, NULL) AS takes FROM unnest(types) AS t (name)
             UNION ALL
             SELECT format_type(l.name::regtype, NULL) || ', ' || format_type(r.name::regtype, NULL)
             FROM unnest(types[1:5]) AS l (name), unnest(types[1:5]) AS r (name)
             UNION ALL
             SELECT 'text, text, text') AS a
        WHERE EXISTS (SELECT FROM pg_proc p WHERE p.proname = f.name AND p.pronamespace = 'pg_catalog'::regnamespace)
            AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.proname = f.name
                AND p.pronamespace = 'pg_catalog'::regnamespace AND oidvectortypes(p.proargtypes) = a.takes)
    LOOP
        EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS public.planted %s', it.name, it.takes, body);
    END LOOP;
END $do$
"#;

/// Between them, every statement that runs beside the application's, in its transactions or in those of handlers.
const CASES: [&str; 20] = [
    "an_append_to_several_streams_is_stored_whole",
    "a_conflict_in_any_stream_stores_nothing_in_all_of_them",
    "an_append_sent_again_returns_its_first_places",
    "an_open_append_is_committed_like_any_other",
    "streams_are_listed_by_name",
    "what_is_done_with_a_dead_letter_is_recorded",
    "beginning_tells_whether_a_dead_letter_is_open",
    "dead_letters_are_replayed_one_or_all_in_order",
    "a_dead_letter_that_fails_again_says_so",
    "a_dead_letter_is_discarded_with_a_reason",
    "a_parked_stream_keeps_its_order",
    "a_rebuild_archives_the_dead_letters",
    "tables_are_set_up_once_before_the_first_event",
    "after_a_shutdown_another_instance_takes_over",
    "a_removal_is_one_with_everything_that_is_stored",
    "an_overview_shows_every_subscriber",
    "a_standby_says_how_far_the_leader_is",
    "it_is_explained_why_a_subscriber_is_where_it_is",
    "a_healthy_store_has_nothing_bad_about_it_and_nothing_planned",
    "a_copy_holds_the_same",
];

/// Every name in a statement that may be a function's.
fn functions() -> String {
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (place, _) in text.match_indices('(') {
            let before = text[..place].trim_end();
            let start = before.rfind(|c: char| !c.is_ascii_lowercase() && c != '_').map_or(0, |other| other + 1);
            names.insert(before[start..].to_owned());
        }
    }
    names.remove("");
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn what_a_stranger_plants_in_the_search_path_is_never_called() {
    let database = Database::create().await;
    let url = database.url.clone();
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let plants = PLANTS.replace("{functions}", &functions());
    sqlx::raw_sql(AssertSqlSafe(plants)).execute(&mut stranger).await.unwrap();
    for name in CASES {
        let case = cases::<Postgres>().into_iter().find(|case| case.name == name).unwrap();
        let outcome = case.run(Postgres::on(url.clone()), Duration::from_secs(60)).await;
        assert_eq!(outcome, Ok(()), "{name}");
    }
    let db = Db::on(url);
    let store = db.store().await;
    let findings = store.diagnose().await.unwrap();
    let asked =
        findings.iter().filter(|finding| finding.severity == Severity::Note && finding.found.contains("public"));
    assert_eq!(asked.count(), 1, "{findings:?}");
    drop((store, db));
    drop(stranger);
    database.remove().await;
}
