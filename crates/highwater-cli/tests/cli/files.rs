//! What only SQLite has: a file that is there or not, and `backup`.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Kind, Place, Postgres, Ran, Sqlite};

#[tokio::test]
async fn a_newcomer_appends_first_and_the_file_is_made() {
    let place = Sqlite::place();
    let mut talk = place.talk();
    talk.run(&["append", "order/17", "Placed", r#"{"cents":1299}"#]).await;
    talk.run(&["append", "order/17", "Shipped"]).await;
    talk.run(&["events"]).await;
    talk.is("newcomer");
}

#[tokio::test]
async fn bad_input_makes_no_file_and_neither_does_looking() {
    let place = Sqlite::place();
    place.run(&["append", "order/17", "Placed", "{oops"]).await.failed(2);
    let mut talk = place.talk();
    talk.run(&["init", "--check"]).await;
    talk.run(&["init", "--check", "--json"]).await;
    talk.run(&["events"]).await;
    talk.run(&["doctor"]).await;
    talk.run(&["backup", "copy.db"]).await;
    let left: Vec<_> = std::fs::read_dir(&place.folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    talk.run(&["init"]).await;
    talk.run(&["init"]).await;
    talk.run(&["init", "--check"]).await;
    talk.is("init_sqlite");
}

#[tokio::test]
async fn without_a_url_it_is_a_file_in_this_folder() {
    let place = Sqlite::place();
    let ran = place.command(&["init"]).env_remove("HIGHWATER_DATABASE_URL").spawn().unwrap();
    let made = Ran::of(ran).await.fine();
    assert!(made.starts_with("sqlite:highwater.db is ready\n"), "{made}");
    assert!(place.folder.join("highwater.db").exists());
}

#[tokio::test]
async fn a_backup_is_a_store_like_any_other() {
    let place = Sqlite::place();
    place.run(&["init"]).await.fine();
    place.run(&["append", "order/17", "Placed"]).await.fine();
    assert_eq!(place.run(&["backup", "copy.db"]).await.fine(), "wrote copy.db\n");
    let copy = place.run(&["events", "--json", "--database", "sqlite:copy.db"]).await.fine();
    assert_eq!(copy, place.run(&["events", "--json"]).await.fine());
    let again = place.run(&["backup", "copy.db"]).await.failed(1);
    assert_eq!(again, "copy.db is there already; name a new file");
    let nowhere = place.run(&["backup", "not/there.db"]).await;
    assert!(nowhere.code == 1 || nowhere.code == 3, "{nowhere:?}");
    assert_eq!(place.run(&["backup", "json.db", "--json"]).await.fine(), "{\"file\":\"json.db\"}\n");

    let server = Postgres::place();
    server.run(&["init"]).await.fine();
    let refused = server.run(&["backup", "copy.db"]).await.failed(1);
    assert!(refused.contains("pg_dump"), "{refused}");
}

#[tokio::test]
async fn what_is_no_event_store_is_left_alone() {
    let place = Sqlite::place();
    std::fs::write(place.folder.join("text.db"), "this is not a database, but a long enough text".repeat(100)).unwrap();
    std::fs::create_dir(place.folder.join("folder.db")).unwrap();
    for url in ["sqlite:text.db", "sqlite:folder.db", "sqlite:not/there.db", "sqlite:", "sqlite:x.db?mode=ro"] {
        for command in ["events", "init"] {
            let ran = place.run(&[command, "--database", url]).await;
            assert_eq!(ran.code, 3, "{url}: {ran:?}");
            assert_eq!(ran.err.lines().count(), 1, "{url}: {ran:?}");
        }
    }
    let text = std::fs::read_to_string(place.folder.join("text.db")).unwrap();
    assert!(text.starts_with("this is not a database"));
}

/// Root may write everywhere, so the program runs as another user.
fn as_nobody(place: &Place<Sqlite>, arguments: &[&str]) -> tokio::process::Command {
    let mut command = place.command(arguments);
    command.uid(65_534).gid(65_534);
    command
}

#[tokio::test]
async fn in_a_folder_that_may_not_be_written_to_it_says_so() {
    let place = Sqlite::place();
    place.run(&["init"]).await.fine();
    let mode = |mode| std::fs::set_permissions(&place.folder, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let root = std::fs::write(place.folder.join("probe"), "").is_ok();
    for arguments in [&["events"][..], &["append", "order/17", "Placed"], &["init", "--database", "sqlite:new.db"]] {
        let mut command = if root { as_nobody(&place, arguments) } else { place.command(arguments) };
        let refused = Ran::of(command.spawn().unwrap()).await.failed(3);
        assert!(refused.contains("not permitted") || refused.contains("ermission denied"), "{arguments:?}: {refused}");
        assert!(!refused.contains("postgres"), "{refused}");
    }
    mode(0o755);
}

#[tokio::test]
async fn a_new_application_goes_into_a_new_folder_and_nowhere_else() {
    let place = Sqlite::place();
    let said = place.run(&["new", "bikes"]).await.fine();
    assert!(said.starts_with("wrote bikes; next:\n"), "{said}");
    let manifest = std::fs::read_to_string(place.folder.join("bikes/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"bikes\"") && manifest.contains("highwater-sqlite"), "{manifest}");
    std::fs::write(place.folder.join("bikes/Cargo.toml"), "mine").unwrap();
    for folder in ["bikes", "2bikes", ".."] {
        place.run(&["new", folder, "--postgres"]).await.failed(1);
    }
    assert_eq!(std::fs::read_to_string(place.folder.join("bikes/Cargo.toml")).unwrap(), "mine");
    assert!(!place.folder.join("2bikes").exists() && !place.folder.join("highwater.db").exists());
}

#[tokio::test]
async fn a_new_application_is_one_for_cargo_wherever_it_is() {
    let place = Sqlite::place();
    let cargo = |folder: &str| {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        let seen = cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let seen = seen.current_dir(place.folder.join(folder)).output().unwrap();
        assert!(seen.status.success(), "{folder}: {}", String::from_utf8_lossy(&seen.stderr));
        String::from_utf8_lossy(&seen.stdout).contains(&format!("/{folder}\",\"metadata\""))
    };
    place.run(&["new", "alone"]).await.fine();
    assert!(cargo("alone"), "it is its own root");
    // As in a checkout, whose workspace has other members, and beside those of a workspace that wants it.
    std::fs::write(place.folder.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"member-*\"]\n")
        .unwrap();
    for (name, own) in [("stranger", true), ("member-1", false)] {
        place.run(&["new", name]).await.fine();
        assert_eq!(cargo(name), own, "{name}");
    }
    let ignored = std::fs::read_to_string(place.folder.join("stranger/.gitignore")).unwrap();
    assert_eq!(ignored, "/target\n*.db*\n");
    let refused = place.run(&["new", "build"]).await.failed(1);
    assert!(
        refused.starts_with("\"build\" cannot be the name of an application: ") && !place.folder.join("build").exists()
    );
}
